/*
 * child.h: server and machine as children of `reeve up`.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct child {
    pid_t pid;
    int pidfd; /* readable once the child has ended; -1 if there is none */
};

#define CHILD_INIT ((struct child){.pidfd = -1})

/* Runs this program again with argv (argv[0] included, NULL at the end). It gets no standard input,
 * a process group of its own, and SIGTERM should we die first. */
int child_start(struct child *c, char *const argv[], struct err *err);
void child_signal(const struct child *c, int signo);
/* Waits for the end; the exit status, or 128 + the signal. No child is left afterwards. */
int child_reap(struct child *c);
