/*
 * order.h: what a shim is to run, as its machine hands it over: JSON on standard input.
 *
 * Everything is decided by the machine; the shim expands and looks up nothing, and adds one thing:
 * NOTIFY_SOCKET, in place of any in `env`, because the socket is its own. A program name without a
 * slash is found in the PATH of `env`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { ORDER_BYTES_MAX = 1024 * 1024 };

struct order {
    const char *spawn_id;
    const char *folder; /* of the spawn; absolute */
    const char **argv;  /* NULL-terminated, not empty */
    const char **env;   /* NULL-terminated; the whole environment, the mark included */
    const char *cwd;
    const char *log; /* of the agent: output of all its spawns; absolute */
    int64_t log_bytes_max;
    int64_t stop_grace_ms;
    const char *cgroup; /* folder to make and put the tree into; NULL: none */
};

void order_write(const struct order *o, struct buf *out);
/* Strings are the arena's. ERR_PARSE, ERR_CONFIG. */
int order_parse(struct arena *a, struct str text, struct order *ret, struct err *err);
