/*
 * sse.h: reading a stream of server-sent events.
 *
 * Pure: bytes in, events out, in pieces of any size. Follows the event stream grammar of the HTML
 * standard: lines end in LF, CR or CRLF; `data:` lines of one event are joined by a line feed; an
 * event without data is dropped but its id is kept; unknown fields are ignored; one byte order mark
 * at the start is skipped. `retry:` is ignored: how long to wait is the client's own decision.
 *
 * A line and an event are capped. After ERR_TOO_LARGE the reader is of no more use.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct sse_event {
    struct str id;   /* the last one seen on the stream; n == 0 if none */
    struct str type; /* "message" unless an event: line says otherwise */
    struct str data;
};

/* Non-zero stops the feeding and is what sse_feed() returns. The strings live until it returns. */
typedef int sse_event_fn(void *ctx, const struct sse_event *event);

struct sse {
    struct buf line, data, type, id;
    bool after_cr; /* an LF now belongs to the line end before it */
    bool begun;    /* past the place where a byte order mark may stand */
    bool has_data; /* a data: line, even an empty one */
};

void sse_init(struct sse *s, size_t event_bytes_max);
int sse_feed(struct sse *s, struct str bytes, sse_event_fn *fn, void *ctx, struct err *err);
void sse_release(struct sse *s);
