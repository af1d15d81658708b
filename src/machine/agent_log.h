/*
 * agent_log.h: the end of an agent's log, for people who ask the server for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { AGENT_LOG_TAIL_BYTES_MAX = 1024 * 1024 };

/* DIR/logs/<conversation>/<role>.log; the caller frees. */
char *agent_log_path(const char *data_folder, int64_t conversation, const char *role);
/*
 * The last `tail_bytes` (at most AGENT_LOG_TAIL_BYTES_MAX) of the file, and of the one before it if
 * it was begun anew a short while ago; from the start of a line on. True if there is more in front
 * of it. No file: nothing.
 */
bool agent_log_tail(const char *path, int64_t tail_bytes, struct buf *out);
