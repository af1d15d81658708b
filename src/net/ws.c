/*
 * ws.c: see ws.h.
 *
 * A frame is read in two steps, head and payload, each resumable at any byte. A head is judged
 * twice, at fixed places (after two bytes, and when whole), so that the verdict never depends on
 * how it arrived. The payload is unmasked on its single way from the input into `data`; a whole
 * message in the input therefore costs one allocation of its size and one copy.
 *
 * One buffer serves both kinds of payload: a control frame between two fragments is appended behind
 * the message and cut off again when it has been looked at. That keeps the 125 bytes it may need
 * out of the reader, of which there is one per idle connection.
 *
 *     data: [ fragments 1 … n-1 | this frame's payload ]
 *                               └ message_len
 *
 * Invariants: data.len ≥ message_len; data.len - message_len + left is this frame's length while
 * in_payload; a data frame is never begun that would take the message past message_bytes_max; utf8
 * is 0 whenever no text message is open.
 *
 * Rejected: unmasking in place. It would save the copy, but the input buffer would have to be lent
 * out writable and kept until the message has been handled.
 */
#include "net/ws.h"

#include "base/crypto.h"
#include "base/mem.h"

enum {
    CODE_PROTOCOL = 1002,
    CODE_NOT_UTF8 = 1007,
    CODE_TOO_BIG = 1009,
};

enum { FIN = 0x80, RESERVED = 0x70, OPCODE = 0x0F, MASKED = 0x80, LENGTH = 0x7F, CONTROL = 0x08 };
enum { LENGTH_16 = 126, LENGTH_64 = 127, MASK_BYTES = 4 };

/* ---- UTF-8 ---------------------------------------------------------------------------------- */

/* Continuation bytes still to come, and the range of the next one; all 0 between characters. */
#define UTF8_EXPECT(count, low, high) ((uint32_t)(count) | (low) << 8 | (uint32_t)(high) << 16)

/* What must follow a first byte above 0x7F (RFC 3629 §4), or 0 if nothing can. */
static uint32_t utf8_begin(unsigned char c)
{
    if (c < 0xC2 || c > 0xF4)
        return 0;
    if (c < 0xE0)
        return UTF8_EXPECT(1, 0x80, 0xBF);
    if (c < 0xF0)
        return UTF8_EXPECT(2, c == 0xE0 ? 0xA0 : 0x80, c == 0xED ? 0x9F : 0xBF);
    return UTF8_EXPECT(3, c == 0xF0 ? 0x90 : 0x80, c == 0xF4 ? 0x8F : 0xBF);
}

static const unsigned char *skip_ascii(const unsigned char *p, const unsigned char *end)
{
    uint64_t word;
    for (; end - p >= (ptrdiff_t)sizeof word; p += sizeof word) {
        memcpy(&word, p, sizeof word);
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    while (p < end && *p < 0x80)
        p++;
    return p;
}

bool ws_utf8_feed(uint32_t *state, struct str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.p, *end = p + bytes.n;
    uint32_t expect = *state;
    for (;;) {
        if (expect == 0)
            p = skip_ascii(p, end);
        if (p == end)
            break;
        unsigned char c = *p++;
        if (expect == 0) {
            expect = utf8_begin(c);
            if (expect == 0)
                return false;
            continue;
        }
        if (c < (expect >> 8 & 0xFF) || c > expect >> 16)
            return false;
        uint32_t more = (expect & 0xFF) - 1;
        expect = more ? UTF8_EXPECT(more, 0x80, 0xBF) : 0;
    }
    *state = expect;
    return true;
}

/* ---- reading -------------------------------------------------------------------------------- */

void ws_reader_init(struct ws_reader *r, size_t message_bytes_max)
{
    *r = (struct ws_reader){
        .message_bytes_max = message_bytes_max,
        .data = BUF_INIT(message_bytes_max + WS_CONTROL_BYTES_MAX),
    };
}

void ws_reader_release(struct ws_reader *r)
{
    if (r)
        buf_release(&r->data);
}

static enum ws_event fail(struct ws_reader *r, int code, const char *reason)
{
    buf_release(&r->data);
    r->payload = STR_NONE;
    r->failed = true;
    r->close_code = code;
    r->reason = reason;
    return WS_FAILED;
}

bool ws_close_code_is_valid(int code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

static bool frame_is_control(const struct ws_reader *r)
{
    return r->head[0] & CONTROL;
}

static size_t head_size(const struct ws_reader *r)
{
    uint8_t length = r->head[1] & LENGTH;
    size_t extended = length == LENGTH_64 ? 8 : length == LENGTH_16 ? 2 : 0;
    return 2 + extended + MASK_BYTES;
}

static bool head_fill(struct ws_reader *r, struct str *in, size_t want)
{
    size_t n = MIN(want - r->head_len, in->n);
    if (n > 0)
        memcpy(r->head + r->head_len, in->p, n);
    r->head_len += (uint8_t)n;
    *in = str_skip(*in, n);
    return r->head_len == want;
}

/* The first two bytes are here. NULL, or what is wrong with them. */
static const char *head_check(const struct ws_reader *r)
{
    const unsigned known = 1 << WS_CONTINUATION | 1 << WS_TEXT | 1 << WS_BINARY | 1 << WS_CLOSE |
                           1 << WS_PING | 1 << WS_PONG;
    unsigned opcode = r->head[0] & OPCODE;
    if (r->head[0] & RESERVED)
        return "a reserved bit is set";
    if (!(known >> opcode & 1))
        return "unknown opcode";
    if (!(r->head[1] & MASKED))
        return "a frame is not masked";
    if (frame_is_control(r)) {
        if (!(r->head[0] & FIN))
            return "a control frame is fragmented";
        return (r->head[1] & LENGTH) > WS_CONTROL_BYTES_MAX ? "a control frame is too long" : NULL;
    }
    if (opcode == WS_CONTINUATION)
        return r->message_opcode ? NULL : "nothing to continue";
    return r->message_opcode ? "a message is begun inside another" : NULL;
}

/* False if it is not in the shortest form, or beyond 63 bits. */
static bool head_length(const struct ws_reader *r, uint64_t *ret)
{
    uint8_t form = r->head[1] & LENGTH;
    size_t bytes = form == LENGTH_64 ? 8 : form == LENGTH_16 ? 2 : 0;
    uint64_t length = bytes ? 0 : form;
    for (size_t i = 0; i < bytes; i++)
        length = length << 8 | r->head[2 + i];
    if ((form == LENGTH_16 && length < LENGTH_16) || (form == LENGTH_64 && length <= UINT16_MAX) ||
        length > INT64_MAX)
        return false;
    *ret = length;
    return true;
}

static enum ws_event payload_begin(struct ws_reader *r)
{
    uint64_t length;
    if (!head_length(r, &length))
        return fail(r, CODE_PROTOCOL, "a frame's length is badly encoded");
    if (!frame_is_control(r)) {
        if (length > r->message_bytes_max - r->message_len)
            return fail(r, CODE_TOO_BIG, "the message is too big");
        if ((r->head[0] & OPCODE) != WS_CONTINUATION)
            r->message_opcode = r->head[0] & OPCODE;
    }
    r->left = length;
    r->mask_at = 0;
    r->in_payload = true;
    return WS_MORE;
}

static enum ws_event read_head(struct ws_reader *r, struct str *in)
{
    if (r->head_len < 2) {
        if (!head_fill(r, in, 2))
            return WS_MORE;
        const char *wrong = head_check(r);
        if (wrong)
            return fail(r, CODE_PROTOCOL, wrong);
    }
    return head_fill(r, in, head_size(r)) ? payload_begin(r) : WS_MORE;
}

/* dst = src ^ mask, beginning at byte `at` of the mask. */
static void unmask(char *dst, const char *src, size_t n, const uint8_t *mask, size_t at)
{
    uint8_t turned[8];
    uint64_t key, word;
    for (size_t i = 0; i < sizeof turned; i++)
        turned[i] = mask[(at + i) % MASK_BYTES];
    memcpy(&key, turned, sizeof key);
    size_t i = 0;
    for (; i + sizeof word <= n; i += sizeof word) {
        memcpy(&word, src + i, sizeof word);
        word ^= key;
        memcpy(dst + i, &word, sizeof word);
    }
    for (; i < n; i++)
        dst[i] = (char)(src[i] ^ turned[i % sizeof turned]);
}

static enum ws_event read_payload(struct ws_reader *r, struct str *in)
{
    size_t n = (size_t)MIN(r->left, (uint64_t)in->n);
    if (n == 0)
        return WS_MORE;
    char *room = buf_reserve(&r->data, n);
    REQUIRE(room);
    unmask(room, in->p, n, r->head + r->head_len - MASK_BYTES, r->mask_at);
    buf_grown(&r->data, n);
    *in = str_skip(*in, n);
    r->left -= n;
    r->mask_at = (uint8_t)((r->mask_at + n) % MASK_BYTES);
    if (!frame_is_control(r) && r->message_opcode == WS_TEXT &&
        !ws_utf8_feed(&r->utf8, (struct str){room, n}))
        return fail(r, CODE_NOT_UTF8, "text is not UTF-8");
    return WS_MORE;
}

static enum ws_event deliver(struct ws_reader *r, enum ws_event event, unsigned opcode)
{
    r->opcode = (enum ws_opcode)opcode;
    r->delivered = true;
    return event;
}

static enum ws_event finish_close(struct ws_reader *r)
{
    struct str p = r->payload;
    if (p.n == 1)
        return fail(r, CODE_PROTOCOL, "half a close code");
    int code = WS_NO_STATUS;
    if (p.n >= 2) {
        code = (unsigned char)p.p[0] << 8 | (unsigned char)p.p[1];
        if (!ws_close_code_is_valid(code))
            return fail(r, CODE_PROTOCOL, "not a close code");
        if (!str_is_utf8(str_skip(p, 2)))
            return fail(r, CODE_NOT_UTF8, "the reason of a close is not UTF-8");
    }
    r->close_code = code;
    r->closed = true;
    r->message_len = 0; /* a message it interrupted will not come to an end */
    return deliver(r, WS_CONTROL, WS_CLOSE);
}

static enum ws_event finish_message(struct ws_reader *r)
{
    unsigned opcode = r->message_opcode;
    if (opcode == WS_TEXT && r->utf8 != 0)
        return fail(r, CODE_NOT_UTF8, "text ends inside a character");
    r->message_opcode = 0;
    r->message_len = 0;
    r->payload = buf_str(&r->data);
    return deliver(r, WS_MESSAGE, opcode);
}

/* The current frame is whole. WS_MORE if it was a fragment with more to come. */
static enum ws_event finish_frame(struct ws_reader *r)
{
    r->head_len = 0;
    r->in_payload = false;
    if (frame_is_control(r)) {
        unsigned opcode = r->head[0] & OPCODE;
        r->payload = str_skip(buf_str(&r->data), r->message_len);
        return opcode == WS_CLOSE ? finish_close(r) : deliver(r, WS_CONTROL, opcode);
    }
    if (r->head[0] & FIN)
        return finish_message(r);
    r->message_len = r->data.len;
    return WS_MORE;
}

static void drop_delivered(struct ws_reader *r)
{
    if (!r->delivered)
        return;
    r->delivered = false;
    r->payload = STR_NONE;
    if (r->message_len > 0)
        buf_truncate(&r->data, r->message_len);
    else
        buf_release(&r->data);
}

enum ws_event ws_read(struct ws_reader *r, struct str *in)
{
    drop_delivered(r);
    if (r->failed)
        return WS_FAILED;
    if (r->closed)
        *in = str_skip(*in, in->n);
    enum ws_event event = WS_MORE;
    while (event == WS_MORE && !r->closed) {
        if (!r->in_payload)
            event = read_head(r, in);
        if (event != WS_MORE || !r->in_payload)
            break;
        event = read_payload(r, in);
        if (event != WS_MORE || r->left > 0)
            break;
        event = finish_frame(r);
    }
    return event;
}

bool ws_is_reading(const struct ws_reader *r)
{
    return !r->closed && (r->head_len > 0 || r->message_opcode != 0);
}

/* ---- writing -------------------------------------------------------------------------------- */

void ws_write_frame(struct buf *out, enum ws_opcode opcode, struct str payload)
{
    uint8_t head[10] = {(uint8_t)(FIN | opcode)};
    size_t bytes = payload.n <= WS_CONTROL_BYTES_MAX ? 0 : payload.n <= UINT16_MAX ? 2 : 8;
    REQUIRE(!(opcode & CONTROL) || bytes == 0);
    head[1] = (uint8_t)(bytes == 8 ? LENGTH_64 : bytes == 2 ? LENGTH_16 : payload.n);
    for (size_t i = 0; i < bytes; i++)
        head[2 + i] = (uint8_t)((uint64_t)payload.n >> 8 * (bytes - 1 - i));
    buf_add(out, head, 2 + bytes);
    buf_add_str(out, payload);
}

void ws_write_close(struct buf *out, int code, const char *reason)
{
    char payload[WS_CONTROL_BYTES_MAX] = {(char)(code >> 8), (char)code};
    const size_t room = sizeof payload - 2;
    if (code == WS_NO_STATUS) {
        ws_write_frame(out, WS_CLOSE, STR_NONE);
        return;
    }
    REQUIRE_F(ws_close_code_is_valid(code), "code %d", code);
    struct str text = str_of(reason);
    if (text.n > room) {
        text.n = room;
        while (text.n > 0 && (text.p[text.n] & 0xC0) == 0x80)
            text.n--;
    }
    if (text.n > 0)
        memcpy(payload + 2, text.p, text.n);
    ws_write_frame(out, WS_CLOSE, (struct str){payload, 2 + text.n});
}

bool ws_accept_key(struct str key, struct buf *ret)
{
    _cleanup_buf_ struct buf nonce = BUF_INIT(16), text = BUF_INIT(128);
    uint8_t digest[SHA1_BYTES];
    if (!base64_read(&nonce, key) || nonce.len != 16)
        return false;
    buf_add_str(&text, key);
    buf_addz(&text, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"); /* RFC 6455 §1.3 */
    crypto_sha1(buf_str(&text), digest);
    base64_write(ret, digest, sizeof digest);
    return true;
}
