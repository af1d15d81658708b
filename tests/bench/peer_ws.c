/*
 * peer_ws.c: reeve over WebSocket, one masked text frame per append.
 *
 * The handshake uses the sample key of RFC 6455, whose answer is known: no SHA-1 needed to check
 * it. Masking is done as any client must, with a new key per frame; the keys come from a small
 * generator, because nobody between us and the server has to be kept from guessing them.
 */
#include "peer.h"

#include <endian.h>
#include <string.h>

#include "rpc.h"
#include "ws.h"

enum { OPCODE_TEXT = 1, OPCODE_CLOSE = 8, OPCODE_PING = 9, OPCODE_PONG = 10 };

struct frame {
    unsigned opcode;
    struct str payload;
};

static uint32_t next_mask(void)
{
    static uint64_t state = 0x9e3779b97f4a7c15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static void write_head(struct buf *out, unsigned opcode, size_t n)
{
    buf_addc(out, (char)(0x80 | opcode));
    if (n < 126) {
        buf_addc(out, (char)(0x80 | n));
    } else if (n <= UINT16_MAX) {
        uint16_t wide = htobe16((uint16_t)n);
        buf_addc(out, (char)(0x80 | 126));
        buf_add(out, &wide, sizeof wide);
    } else {
        uint64_t wide = htobe64(n);
        buf_addc(out, (char)(0x80 | 127));
        buf_add(out, &wide, sizeof wide);
    }
}

static void write_frame(struct buf *out, unsigned opcode, struct str payload)
{
    uint32_t word = next_mask();
    char mask[4];
    memcpy(mask, &word, sizeof mask);
    write_head(out, opcode, payload.n);
    buf_add(out, mask, sizeof mask);
    char *to = buf_reserve(out, payload.n);
    if (!to)
        die("more than %d bytes are waiting to be sent", CONN_BYTES_MAX);
    for (size_t i = 0; i < payload.n; i++)
        to[i] = payload.p[i] ^ mask[i & 3];
    buf_grown(out, payload.n);
}

/* Size of the head and, in *ret_payload, of the payload; 0 if the head is not whole. */
static size_t read_head(struct str in, size_t *ret_payload)
{
    if (in.n < 2)
        return 0;
    unsigned length = (unsigned char)in.p[1];
    size_t head = length < 126 ? 2 : length == 126 ? 4 : 10;
    if ((in.p[0] & 0x80) == 0 || length > 127)
        die("a fragmented or masked frame from the server");
    if (in.n < head)
        return 0;
    uint16_t wide16;
    uint64_t wide64 = 0;
    if (length == 126) {
        memcpy(&wide16, in.p + 2, sizeof wide16);
        *ret_payload = be16toh(wide16);
    } else if (length == 127) {
        memcpy(&wide64, in.p + 2, sizeof wide64);
        *ret_payload = be64toh(wide64);
    } else {
        *ret_payload = length;
    }
    if (*ret_payload > CONN_BYTES_MAX)
        die("a frame of %zu bytes from the server", *ret_payload);
    return head;
}

static bool take_frame(struct conn *c, struct frame *ret)
{
    struct str in = conn_pending(c);
    size_t payload, head = read_head(in, &payload);
    if (head == 0 || in.n < head + payload)
        return false;
    *ret = (struct frame){(unsigned char)in.p[0] & 0xf, {in.p + head, payload}};
    conn_consume(c, head + payload);
    return true;
}

bool ws_take(struct conn *c, struct str *ret)
{
    struct frame frame;
    while (take_frame(c, &frame)) {
        if (frame.opcode == OPCODE_TEXT) {
            *ret = frame.payload;
            return true;
        }
        if (frame.opcode == OPCODE_CLOSE)
            die("connection %u: closed by the server (WebSocket)", c->index);
        if (frame.opcode == OPCODE_PING)
            write_frame(&c->out, OPCODE_PONG, frame.payload);
    }
    return false;
}

void ws_write(struct conn *c, struct str text)
{
    write_frame(&c->out, OPCODE_TEXT, text);
}

struct str ws_wait(struct conn *c)
{
    struct str message;
    while (conn_flush(c))
        ;
    while (!ws_take(c, &message))
        conn_receive(c);
    return message;
}

static void upgrade(struct conn *c)
{
    buf_addf(&c->out,
             "GET /ws HTTP/1.1\r\nHost: %s:%s\r\nAuthorization: Bearer %s\r\n"
             "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
             c->target->host, c->target->port, c->target->secret);
    while (conn_flush(c))
        ;
    const char *end;
    struct str in;
    do {
        conn_receive(c);
        in = conn_pending(c);
        end = memmem(in.p, in.n, "\r\n\r\n", 4);
    } while (!end);
    size_t head = (size_t)(end - in.p) + 4;
    if (!str_starts(in, STR("HTTP/1.1 101 ")) ||
        !memmem(in.p, head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", 28))
        die("WebSocket handshake: %.*s", (int)head, in.p);
    conn_consume(c, head);
}

void ws_open(struct conn *c, const struct in_addr *source)
{
    conn_connect(c, source);
    upgrade(c);
    struct str welcome = ws_wait(c);
    if (!memmem(welcome.p, welcome.n, "\"welcome\"", 9))
        die("no welcome but %.*s", STR_ARG(welcome));
}

void ws_create(struct conn *c)
{
    struct buf body = BUF_INIT(CONN_BYTES_MAX);
    rpc_write_create(&body);
    ws_write(c, buf_str(&body));
    c->stream = rpc_read_create(ws_wait(c));
    buf_release(&body);
}

static void ws_begin(struct conn *c, const struct conn *shared)
{
    if (shared)
        c->stream = shared->stream;
    else
        ws_create(c);
    rpc_write_send(&c->request, c, c->number_at);
}

static void ws_submit(struct conn *c)
{
    conn_number_request(c);
    ws_write(c, buf_str(&c->request));
}

static enum reply ws_next(struct conn *c)
{
    struct str message;
    return ws_take(c, &message) ? rpc_check_send(c, message) : REPLY_NONE;
}

static void ws_idle(struct conn *c)
{
    struct str message;
    conn_receive(c);
    if (ws_take(c, &message))
        die("an idle connection was told %.*s", STR_ARG(message));
    while (conn_flush(c))
        ;
}

const struct peer peer_ws = {
    .name = "ws",
    .open = ws_open,
    .begin = ws_begin,
    .submit = ws_submit,
    .flush = conn_flush,
    .receive = conn_receive,
    .next = ws_next,
    .close = conn_release,
    .idle = ws_idle,
};
