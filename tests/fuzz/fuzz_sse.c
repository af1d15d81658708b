/*
 * fuzz_sse.c: any bytes at all, as an event stream (client/sse.h).
 *
 * The first two bytes of an input say where the rest is cut, twice; whole and cut must give the
 * same events and the same end.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "client/sse.h"

enum { EVENT_MAX = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_field(struct buf *out, struct str s)
{
    buf_addf(out, "%zu:", s.n);
    buf_add_str(out, s);
}

static int on_event(void *ctx, const struct sse_event *e)
{
    REQUIRE(e->data.n <= EVENT_MAX && e->type.n > 0);
    REQUIRE(!e->id.n || !memchr(e->id.p, '\0', e->id.n));
    add_field(ctx, e->id);
    add_field(ctx, e->type);
    add_field(ctx, e->data);
    return e->data.n == 7 && memcmp(e->data.p, "enough!", 7) == 0 ? 1 : 0;
}

static int feed(struct sse *s, struct str piece, struct buf *out)
{
    struct err err = ERR_INIT;
    _cleanup_free_ char *copy = mem_alloc(piece.n);
    if (piece.n > 0)
        memcpy(copy, piece.p, piece.n);
    int r = sse_feed(s, (struct str){copy, piece.n}, on_event, out, &err);
    REQUIRE((r < 0) == (err.code == ERR_TOO_LARGE));
    return r;
}

static void run(struct buf *out, struct str in, size_t first, size_t second)
{
    struct sse s;
    sse_init(&s, EVENT_MAX);
    int r = feed(&s, (struct str){in.p, first}, out);
    if (r == 0)
        r = feed(&s, (struct str){in.p + first, second - first}, out);
    if (r == 0)
        r = feed(&s, str_skip(in, second), out);
    buf_addf(out, "end %d", r);
    sse_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct str in = {(const char *)data + 2, size - 2};
    size_t first = MIN(data[0], in.n), second = MIN(first + data[1], in.n);
    _cleanup_buf_ struct buf whole = BUF_INIT(1 << 24), pieces = BUF_INIT(1 << 24);
    run(&whole, in, in.n, in.n);
    run(&pieces, in, first, second);
    REQUIRE(str_eq(buf_str(&whole), buf_str(&pieces)));
    return 0;
}
