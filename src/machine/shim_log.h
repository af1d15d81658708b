/*
 * shim_log.h: the log file of an agent: what it wrote, line by line, with the time.
 *
 *     2026-11-15T09:30:00.123Z out a line of standard output
 *     2026-11-15T09:30:00.123Z err a line of standard error
 *     2026-11-15T09:30:00.124Z run spawn 4f2a ended: exited with status 0
 *
 * Bytes are kept as they are. A line longer than LOG_PIECE_BYTES comes out as several, cut between
 * characters. Once the file has reached its size it becomes `.1`, of which there is one, and a new
 * one begins; a size of 0 is no limit.
 *
 * A disk that fails costs output, never the agent: what could not be written is dropped, counted,
 * and told in the log as soon as it takes a line again.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/macro.h"
#include "base/str.h"
#include "machine/shim_tail.h"

enum { LOG_PIECE_BYTES = 4096, LOG_READ_BYTES = 32 * 1024 };

enum log_stream { LOG_OUT, LOG_ERR, LOG_RUN, LOG_STREAMS };

struct log_line {
    char bytes[LOG_PIECE_BYTES];
    size_t len;
};

struct shim_log {
    const char *path;
    char *old_path;
    int fd;
    int64_t bytes, bytes_max;
    int64_t dropped_bytes;
    int dropped_errno;
    bool is_mid_line; /* a write was cut short: the next one begins a new line */
    struct log_line begun[LOG_STREAMS];
    struct buf out; /* what is written next */
    struct shim_tail tail;
};

/* Never fails: a file that cannot be opened is tried again with each write. */
void shim_log_init(struct shim_log *l, const char *path, int64_t bytes_max);
void shim_log_release(struct shim_log *l);
/* Output of the agent, in any pieces. */
void shim_log_add(struct shim_log *l, enum log_stream stream, struct str bytes);
/* What the agent has begun to say is all there will be. */
void shim_log_end(struct shim_log *l, enum log_stream stream);
/* A line of ours. */
void shim_log_say(struct shim_log *l, const char *fmt, ...) _printf_(2, 3);
