/*
 * agent_log.h: what an agent has printed, for people who ask the server for it.
 *
 * A log is two files: the one that is written, and the one before it, PATH.1. A position names a
 * file by its inode and a place in it, so that whoever reads on is not fooled by a file that was
 * begun anew meanwhile: he gets the rest of the old one, and all of the new one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { AGENT_LOG_TAIL_BYTES_MAX = 1024 * 1024, AGENT_LOG_POSITION_BYTES = 48 };

/* DIR/logs/<conversation>/<role>.log; the caller frees. */
char *agent_log_path(const char *data_folder, int64_t conversation, const char *role);
/*
 * What was written after the position `after`, or all there is if that is empty, or of a file that
 * is gone; at most the last `bytes_max` (AGENT_LOG_TAIL_BYTES_MAX) of it, then from the start of a
 * line on, and true: there is more in front. ret_next: where to go on. No file: nothing.
 */
bool agent_log_read(const char *path, struct str after, int64_t bytes_max, struct buf *out,
                    char ret_next[static AGENT_LOG_POSITION_BYTES]);
