/*
 * agent_log.h: what an agent has printed, for people who ask the server for it.
 *
 * The log is a file and the one before it (`.1`), read as if they were one. Asked for is its end,
 * or what came after a position: one that an earlier answer gave, or "start". Answered are whole
 * lines. A position names a file and a place in it; when that file is gone, what there is begins
 * with the oldest.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum { AGENT_LOG_BYTES_MAX = 1024 * 1024, AGENT_LOG_POSITION_BYTES = 48 };

struct agent_log_part {
    bool is_truncated;    /* there is more before it, which the asker has not seen */
    int64_t lines_before; /* of the end: how many lines there are before it; else -1 */
    char next[AGENT_LOG_POSITION_BYTES];
};

/* DIR/logs/<conversation>/<role>.log; the caller frees. */
char *agent_log_path(const char *data_folder, int64_t conversation, const char *role);
/* Adds at most `bytes` (and AGENT_LOG_BYTES_MAX) to `out`; `after` empty: the end of it. No file:
 * nothing. */
struct agent_log_part agent_log_read(const char *path, int64_t bytes, struct str after,
                                     struct buf *out);
