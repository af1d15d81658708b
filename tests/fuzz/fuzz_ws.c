/*
 * fuzz_ws.c: any bytes at all, as what a WebSocket client sends.
 *
 * The first two bytes of an input (little-endian) say where the rest is cut in two; whole and cut
 * must give the same events. Whatever is delivered must hold what ws.h promises.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "net/ws.h"

enum { MESSAGE_MAX = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_event(const struct ws_reader *r, enum ws_event event)
{
    if (event == WS_FAILED) {
        REQUIRE(r->reason);
        REQUIRE(r->close_code == 1002 || r->close_code == 1007 || r->close_code == 1009);
        return;
    }
    REQUIRE(r->payload.n <= (event == WS_CONTROL ? (size_t)WS_CONTROL_BYTES_MAX : MESSAGE_MAX));
    REQUIRE((event == WS_CONTROL) == (r->opcode >= WS_CLOSE));
    if (r->opcode == WS_TEXT)
        REQUIRE(str_is_utf8(r->payload));
    if (r->opcode == WS_CLOSE)
        REQUIRE(ws_close_code_is_valid(r->close_code) || r->payload.n == 0);
}

/* False when the reader has failed. */
static bool read_piece(struct ws_reader *r, struct str piece, struct buf *out)
{
    _cleanup_free_ char *copy = mem_alloc(piece.n);
    if (piece.n > 0)
        memcpy(copy, piece.p, piece.n);
    struct str in = {copy, piece.n};
    for (enum ws_event e; (e = ws_read(r, &in)) != WS_MORE;) {
        check_event(r, e);
        buf_addf(out, "%d %d %d %zu:", (int)e, e == WS_FAILED ? 0 : (int)r->opcode, r->close_code,
                 r->payload.n);
        buf_add_str(out, r->payload);
        if (e == WS_FAILED)
            return false;
    }
    REQUIRE(in.n == 0);
    return true;
}

static void run(struct buf *out, struct str in, size_t cut)
{
    struct ws_reader r;
    ws_reader_init(&r, MESSAGE_MAX);
    if (read_piece(&r, (struct str){in.p, cut}, out))
        read_piece(&r, str_skip(in, cut), out);
    REQUIRE(r.data.len <= MESSAGE_MAX + WS_CONTROL_BYTES_MAX);
    ws_reader_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct str in = {(const char *)data + 2, size - 2};
    size_t cut = MIN((size_t)(data[0] | data[1] << 8), in.n);
    _cleanup_buf_ struct buf whole = BUF_INIT(1 << 24), pieces = BUF_INIT(1 << 24);
    run(&whole, in, in.n);
    run(&pieces, in, cut);
    REQUIRE(str_eq(buf_str(&whole), buf_str(&pieces)));
    return 0;
}
