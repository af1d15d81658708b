/*
 * sse.c: the event stream reader (see sse.h).
 *
 * Owns the unfinished line and the fields of the unfinished event; both survive between pieces, so
 * a cut may fall anywhere, even between CR and LF or inside the byte order mark. What is left over
 * when a connection ends is dropped, as the standard says: an event counts when its empty line has
 * come, and the next connection resumes after the last id that was dispatched.
 */
#include "client/sse.h"

#include <string.h>

enum { NAME_BYTES_MAX = 256 };

void sse_init(struct sse *s, size_t event_bytes_max)
{
    *s = (struct sse){
        .line = BUF_INIT(event_bytes_max),
        .data = BUF_INIT(event_bytes_max),
        .type = BUF_INIT(NAME_BYTES_MAX),
        .id = BUF_INIT(NAME_BYTES_MAX),
    };
}

void sse_release(struct sse *s)
{
    if (!s)
        return;
    buf_release(&s->line);
    buf_release(&s->data);
    buf_release(&s->type);
    buf_release(&s->id);
}

static void set_text(struct buf *b, struct str value)
{
    buf_clear(b);
    buf_add_str(b, value);
}

static void take_field(struct sse *s, struct str name, struct str value)
{
    if (str_is(name, "data")) {
        if (s->has_data)
            buf_addc(&s->data, '\n');
        buf_add_str(&s->data, value);
        s->has_data = true;
    } else if (str_is(name, "id")) {
        if (!value.n || !memchr(value.p, '\0', value.n))
            set_text(&s->id, value);
    } else if (str_is(name, "event")) {
        set_text(&s->type, value);
    }
}

static int dispatch(struct sse *s, sse_event_fn *fn, void *ctx)
{
    int r = 0;
    if (s->has_data) {
        struct sse_event event = {
            .id = buf_str(&s->id),
            .type = s->type.len ? buf_str(&s->type) : STR("message"),
            .data = buf_str(&s->data),
        };
        r = fn(ctx, &event);
    }
    buf_clear(&s->data);
    buf_clear(&s->type);
    s->has_data = false;
    return r;
}

static int take_line(struct sse *s, sse_event_fn *fn, void *ctx)
{
    struct str line = buf_str(&s->line);
    if (!s->begun && str_starts(line, STR("\xEF\xBB\xBF")))
        line = str_skip(line, 3);
    s->begun = true;
    if (line.n == 0)
        return dispatch(s, fn, ctx);
    const char *colon = memchr(line.p, ':', line.n);
    struct str name = {line.p, colon ? (size_t)(colon - line.p) : line.n};
    struct str value = str_skip(line, name.n + (colon ? 1 : 0));
    if (value.n && value.p[0] == ' ')
        value = str_skip(value, 1);
    if (name.n) /* a line that begins with a colon is a comment */
        take_field(s, name, value);
    return 0;
}

/* Bytes up to the next CR or LF. */
static size_t line_length(struct str bytes)
{
    for (size_t i = 0; i < bytes.n; i++)
        if (bytes.p[i] == '\n' || bytes.p[i] == '\r')
            return i;
    return bytes.n;
}

static bool overflowed(const struct sse *s)
{
    return s->line.overflow || s->data.overflow || s->type.overflow || s->id.overflow;
}

int sse_feed(struct sse *s, struct str bytes, sse_event_fn *fn, void *ctx, struct err *err)
{
    while (bytes.n > 0) {
        bool second_half = s->after_cr && bytes.p[0] == '\n';
        s->after_cr = false;
        if (second_half) {
            bytes = str_skip(bytes, 1);
            continue;
        }
        size_t n = line_length(bytes);
        bool ended = n < bytes.n;
        buf_add(&s->line, bytes.p, n);
        s->after_cr = ended && bytes.p[n] == '\r';
        int r = ended && !s->line.overflow ? take_line(s, fn, ctx) : 0;
        if (overflowed(s))
            return err_set(err, ERR_TOO_LARGE, "an event of the stream is over %zu bytes",
                           s->data.max);
        if (r != 0)
            return r;
        if (ended)
            buf_clear(&s->line);
        bytes = str_skip(bytes, n + ended);
    }
    return 0;
}
