/*
 * log.h: structured lines for people and machines, on standard error.
 *
 *     info store opened path=/var/lib/reeve/reeve.db version=1
 *
 * One line per event: level, area, event, then key=value. LOG() takes the pairs as a printf format.
 * Values with blanks or quotes are the caller's to quote with %s of log_quote() if they come from
 * outside. The function that decides logs, once; functions that return an error do not log.
 * Thread-safe: each line is one write(2) of at most 1024 bytes; a longer one ends in "...". Control
 * characters and bytes that are not UTF-8 come out as \xNN, so one call is one line, whatever the
 * values hold. Time stamps are added unless the stream is the journal's own (JOURNAL_STREAM names
 * it). errno survives. Lines below LOG_INFO are dropped until log_set_level() says otherwise.
 */
#pragma once

#include "base/macro.h"
#include "base/str.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_set_level(enum log_level least);
/* Where lines go; default standard error (2). For tests. */
void log_set_fd(int fd);
void log_line(enum log_level level, const char *area, const char *event, const char *fmt, ...)
    _printf_(4, 5);

#define log_debug(area, event, ...) log_line(LOG_DEBUG, area, event, __VA_ARGS__)
#define log_info(area, event, ...) log_line(LOG_INFO, area, event, __VA_ARGS__)
#define log_warn(area, event, ...) log_line(LOG_WARN, area, event, __VA_ARGS__)
#define log_error(area, event, ...) log_line(LOG_ERROR, area, event, __VA_ARGS__)

/* s in double quotes, with control characters and quotes escaped, cut at 120 bytes. The result
 * lives in one of eight thread-local buffers, until the eighth next call. */
const char *log_quote(struct str s);
