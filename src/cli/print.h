/*
 * print.h: output for people and for programs.
 *
 * What agents write ends up on an operator's terminal, so nothing of it may move the cursor, change
 * colours, set a title or reorder text: control characters (C0, DEL, C1), line and paragraph
 * separators and the bidirectional controls are shown, not sent. JSON gets the same treatment with
 * \u escapes, which leaves its meaning as it was.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

enum { PRINT_BYTES_MAX = 256 * 1024 * 1024, PRINT_TEXT_CHARS_MAX = 400 };

/*
 * One line of text, safe to show: line breaks and tabs become blanks, other characters a terminal
 * would act upon become \x1b or \u202e, bytes that are not UTF-8 U+FFFD. After chars_max characters
 * it is cut with an ellipsis; 0 means no limit.
 */
void print_clean(struct buf *out, struct str text, size_t chars_max);
/* A value as compact JSON, safe to show. */
void print_json(struct buf *out, const struct json *value);
/* "2026-11-15T09:30:00.123Z 12:3.1 builder message/turn Text" and a line feed, in columns; on a
 * screen that is too narrow in several lines. */
void print_event(struct buf *out, const struct json *event);

/* Writes `out` to standard output, at once, and empties it. If nobody reads any more (EPIPE) the
 * process ends like any other tool in a pipeline, by SIGPIPE. */
int print_flush(struct buf *out, struct err *err);
/* A result as one line of JSON. */
int print_result(const struct json *result, struct err *err);
