/*
 * fuzz_ws_talk.c: conversations over WebSocket frames that are right, and what must come of them.
 *
 * Any bytes are read as a script: a frame per step, with its opcode, length, mask and whether it is
 * the last of its message. The frames are written as a client writes them, cut into pieces where
 * the script says, and read back. A model of a dozen lines predicts every message, control frame
 * and refusal: fragmented messages with control frames between their pieces come out whole.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "net/ws.h"

enum { MESSAGE_MAX = 512, FRAMES_MAX = 64, STEP_BYTES = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is expected, and what has come: the same text in the end. */
struct talk {
    struct buf wire, expected, message;
    int opcode; /* of the message under way; 0: none */
    bool over;  /* closed or refused: nothing more is expected */
};

static void tell(struct buf *out, int event, int opcode, int code, struct str payload)
{
    buf_addf(out, "%d %d %d %zu:", event, opcode, code, payload.n);
    buf_add_str(out, payload);
}

static void refuse(struct talk *t, int code)
{
    buf_addf(&t->expected, "refused %d", code);
    t->over = true;
}

static void expect_data(struct talk *t, int opcode, bool is_last, struct str payload)
{
    bool begins = opcode != WS_CONTINUATION;
    if (begins == (t->opcode != 0)) {
        refuse(t, 1002);
        return;
    }
    t->opcode = begins ? opcode : t->opcode;
    if (t->message.len + payload.n > MESSAGE_MAX) {
        refuse(t, 1009);
        return;
    }
    buf_add_str(&t->message, payload);
    if (!is_last)
        return;
    tell(&t->expected, WS_MESSAGE, t->opcode, 0, buf_str(&t->message));
    buf_clear(&t->message);
    t->opcode = 0;
}

static void expect_control(struct talk *t, int opcode, bool is_last, struct str payload)
{
    if (!is_last || payload.n > WS_CONTROL_BYTES_MAX) {
        refuse(t, 1002);
        return;
    }
    tell(&t->expected, WS_CONTROL, opcode, 0, payload);
    t->over = opcode == WS_CLOSE;
}

/* As a client does it: masked, with the shortest length there is. */
static void write_frame(struct buf *wire, int opcode, bool is_last, uint32_t mask,
                        struct str payload)
{
    const unsigned char key[4] = {(unsigned char)mask, (unsigned char)(mask >> 8),
                                  (unsigned char)(mask >> 16), (unsigned char)(mask >> 24)};
    buf_addc(wire, (char)(opcode | (is_last ? 0x80 : 0)));
    if (payload.n < 126) {
        buf_addc(wire, (char)(0x80 | payload.n));
    } else {
        buf_addc(wire, (char)(0x80 | 126));
        buf_addc(wire, (char)(payload.n >> 8));
        buf_addc(wire, (char)payload.n);
    }
    buf_add(wire, key, sizeof key);
    for (size_t i = 0; i < payload.n; i++)
        buf_addc(wire, (char)((unsigned char)payload.p[i] ^ key[i % 4]));
}

/* One step of the script: opcode and flags, length, mask. Payloads are plain letters, except that a
 * close carries code 1000. */
static void step(struct talk *t, const uint8_t *at)
{
    static const int opcodes[] = {WS_CONTINUATION, WS_TEXT, WS_BINARY, WS_CLOSE, WS_PING, WS_PONG};
    char payload[MESSAGE_MAX];
    int opcode = opcodes[at[0] % ARRAY_LEN(opcodes)];
    bool is_last = at[0] & 0x40;
    size_t n = (at[1] + ((at[0] & 0x80) ? 256u : 0u)) % MESSAGE_MAX;
    memset(payload, 'a' + at[2] % 26, n);
    if (opcode == WS_CLOSE) {
        n = 2;
        memcpy(payload, "\x03\xE8", n);
    }
    struct str text = {payload, n};
    write_frame(&t->wire, opcode, is_last, at[3] * 0x01010101u ^ at[2], text);
    if (t->over)
        return;
    if (opcode >= WS_CLOSE)
        expect_control(t, opcode, is_last, text);
    else
        expect_data(t, opcode, is_last, text);
}

/* False when it is over. */
static bool hear(struct ws_reader *r, struct str *in, struct buf *out)
{
    for (enum ws_event e; (e = ws_read(r, in)) != WS_MORE;) {
        if (e == WS_FAILED) {
            buf_addf(out, "refused %d", r->close_code);
            return false;
        }
        tell(out, (int)e, (int)r->opcode, 0, r->payload);
    }
    return true;
}

static void listen_in_pieces(const struct talk *t, size_t piece, struct buf *out)
{
    struct ws_reader r;
    ws_reader_init(&r, MESSAGE_MAX);
    bool goes_on = true;
    for (struct str rest = buf_str(&t->wire); goes_on && rest.n > 0;) {
        struct str in = {rest.p, MIN(piece, rest.n)};
        rest = str_skip(rest, in.n);
        goes_on = hear(&r, &in, out);
        REQUIRE(!goes_on || in.n == 0);
    }
    ws_reader_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct talk t = {.wire = BUF_INIT(1 << 20),
                     .expected = BUF_INIT(1 << 20),
                     .message = BUF_INIT(2 * MESSAGE_MAX)};
    _cleanup_buf_ struct buf heard = BUF_INIT(1 << 20);
    size_t piece = 1 + data[0] % 200, frames = MIN((size - 1) / STEP_BYTES, (size_t)FRAMES_MAX);
    for (size_t i = 0; i < frames; i++)
        step(&t, data + 1 + i * STEP_BYTES);
    listen_in_pieces(&t, piece, &heard);
    REQUIRE_F(str_eq(buf_str(&heard), buf_str(&t.expected)), "heard %s", heard.data);
    buf_release(&t.wire);
    buf_release(&t.expected);
    buf_release(&t.message);
    return 0;
}
