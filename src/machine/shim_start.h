/*
 * shim_start.h: from an order to a running program.
 *
 *     shim_start(&order, more_env, cgroup_fd, &child, err)
 *     shim_start_outcome(&child, …)      whenever child.failure_fd is readable, until it is not 1
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "machine/order.h"

struct shim_child {
    pid_t pid;
    int out_fd, err_fd; /* its standard output and error; non-blocking */
    int failure_fd;     /* readable once it is decided; non-blocking */
    int cgroup_errno;   /* not 0: it runs, but is not in its cgroup */
};

#define SHIM_CHILD_INIT ((struct shim_child){.out_fd = -1, .err_fd = -1, .failure_fd = -1})

/*
 * Forks. `variable`, "NAME=value", takes the place of that name in the order's environment; NULL:
 * none. `cgroup_fd` -1: no cgroup. The child has a session of its own, no terminal, the standard
 * input of this process, no other descriptor, no signal blocked or ignored, and dies when this
 * process does.
 */
int shim_start(const struct order *o, const char *variable, int cgroup_fd, struct shim_child *ret,
               struct err *err);
/* 0: the program runs, or ran. 1: not decided yet. Negative: it cannot be run; `err` says why. */
int shim_start_outcome(struct shim_child *c, const struct order *o, struct err *err);
