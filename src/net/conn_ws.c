/*
 * conn_ws.c: a connection that has become a WebSocket.
 *
 * Text messages go to the owner; binary ones are refused (1003). Pings are answered at once, pongs
 * are only a sign of life. A close is answered by a close, and then the connection drains and ends.
 *
 * A client that ends its sending side without a close still gets the answers to what it sent. One
 * that has died looks the same, and must be noticed at once: who waits for work is given none. So a
 * pong is sent, which nobody has to answer: a socket that is there takes it, and for one that is
 * not the kernel on the other side sends a reset.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "net/conn.h"

static struct str trim(struct str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = str_skip(s, 1);
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* The token in the lists of all headers of that name, as it is written there; n == 0 if absent. */
static struct str find_token(const struct http_head *head, const char *name, const char *token)
{
    for (size_t i = 0; i < head->header_count; i++) {
        if (!str_eq_nocase(head->headers[i].name, str_of(name)))
            continue;
        struct str rest = head->headers[i].value;
        while (rest.n) {
            const char *comma = memchr(rest.p, ',', rest.n);
            struct str item = {rest.p, comma ? (size_t)(comma - rest.p) : rest.n};
            rest = str_skip(rest, item.n + 1);
            item = trim(item);
            if (str_eq_nocase(item, str_of(token)))
                return item;
        }
    }
    return STR_NONE;
}

static void refuse(struct conn *c, int status, const char *extra_headers, const char *reason)
{
    struct buf body = BUF_INIT(4096);
    c->net->handlers.write_error(c->net->handlers.ctx, &body, status, reason);
    conn_respond(c, status, "application/json", extra_headers, buf_str(&body));
    buf_release(&body);
}

static void write_upgrade(struct conn *c, const struct buf *key, struct str protocol)
{
    _cleanup_buf_ struct buf out = BUF_INIT(1024);
    buf_addf(&out,
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Accept: %s\r\n",
             key->data);
    if (protocol.n)
        buf_addf(&out, "Sec-WebSocket-Protocol: %.*s\r\n", STR_ARG(protocol));
    buf_addz(&out, "\r\n");
    conn_out(c, buf_str(&out));
}

bool conn_accept_socket(struct conn *c, const struct http_head *head, const char *protocol,
                        struct str greeting)
{
    struct buf key = BUF_INIT(64);
    if (head->method != HTTP_GET || head->minor < 1 || !head->connection_upgrade ||
        !find_token(head, "Upgrade", "websocket").n) {
        refuse(c, 426, "Upgrade: websocket\r\nConnection: Upgrade\r\n",
               "this is a WebSocket endpoint");
        return false;
    }
    if (!str_is(head->ws_version, "13")) {
        refuse(c, 426, "Sec-WebSocket-Version: 13\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
               "WebSocket version 13 is required");
        return false;
    }
    if (!ws_accept_key(head->ws_key, &key)) {
        buf_release(&key);
        refuse(c, 400, "", "Sec-WebSocket-Key must be 16 bytes in base64");
        return false;
    }
    write_upgrade(c, &key, find_token(head, "Sec-WebSocket-Protocol", protocol));
    buf_release(&key);
    c->ws = mem_alloc(sizeof *c->ws);
    ws_reader_init(c->ws, (size_t)option_get(c->net->options, net, body_bytes_max));
    c->state = CONN_SOCKET;
    conn_ws_send(c, greeting);
    conn_touch_timer(c);
    if (c->net->shutting_down)
        conn_ws_close(c, 1001, "the server is shutting down");
    else if (c->in.len)
        conn_ws_input(c); /* it did not wait for our answer */
    return true;
}

void conn_ws_send(struct conn *c, struct str text)
{
    if (c->sent_close)
        return;
    _cleanup_buf_ struct buf frame = BUF_INIT(SIZE_MAX / 4);
    ws_write_frame(&frame, WS_TEXT, text);
    conn_out(c, buf_str(&frame));
}

void conn_ws_answer(struct conn *c, struct str text)
{
    REQUIRE(c->unanswered > 0);
    if (--c->unanswered == 0)
        c->unanswered_bytes = 0;
    if (text.n)
        conn_ws_send(c, text);
    if (c->unanswered == 0 && (c->close_code || (c->read_ended && !c->in.len)))
        conn_ws_close(c, c->close_code ? c->close_code : WS_NO_STATUS, NULL);
    else if (c->reading_stopped || c->in.len)
        conn_out(c, STR("")); /* visits conn_flush_all(), which goes on reading */
}

void conn_ws_probe(struct conn *c)
{
    _cleanup_buf_ struct buf frame = BUF_INIT(64);
    ws_write_frame(&frame, c->read_ended ? WS_PONG : WS_PING, STR_NONE);
    conn_out(c, buf_str(&frame));
}

void conn_ws_close(struct conn *c, int code, const char *reason)
{
    if (!c->sent_close) {
        _cleanup_buf_ struct buf frame = BUF_INIT(256);
        c->sent_close = true;
        ws_write_close(&frame, code, reason);
        conn_out(c, buf_str(&frame));
    }
    conn_begin_close(c);
}

static void control(struct conn *c)
{
    _cleanup_buf_ struct buf frame = BUF_INIT(256);
    switch (c->ws->opcode) {
    case WS_PING:
        ws_write_frame(&frame, WS_PONG, c->ws->payload);
        conn_out(c, buf_str(&frame));
        break;
    case WS_CLOSE:
        c->close_code = c->ws->close_code;
        if (c->unanswered == 0)
            conn_ws_close(c, c->close_code, NULL);
        break;
    default:
        break;
    }
}

static void message(struct conn *c)
{
    if (c->ws->opcode == WS_BINARY) {
        conn_ws_close(c, 1003, "text frames only");
        return;
    }
    c->net->stats.messages++;
    c->unanswered++;
    c->unanswered_bytes += c->ws->payload.n;
    c->net->handlers.message(c->net->handlers.ctx, c, c->ws->payload);
}

/* A message has as long to arrive as a request has; one that cannot arrive is not waited for. */
static void note_arriving(struct conn *c)
{
    if (!ws_is_reading(c->ws) || c->read_ended)
        c->started_us = 0;
    else if (!c->started_us)
        c->started_us = loop_now_us(c->net->loop);
    conn_touch_timer(c);
}

void conn_ws_input(struct conn *c)
{
    struct str in = buf_str(&c->in);
    while (c->state == CONN_SOCKET && !conn_has_asked_enough(c)) {
        enum ws_event event = ws_read(c->ws, &in);
        if (event == WS_MORE)
            break;
        if (event == WS_MESSAGE)
            message(c);
        else if (event == WS_CONTROL)
            control(c);
        else
            conn_ws_close(c, c->ws->close_code, c->ws->reason);
    }
    if (c->state != CONN_SOCKET)
        return; /* closing: what it sent is gone */
    note_arriving(c);
    if (in.n)
        buf_drop_front(&c->in, c->in.len - in.n);
    else
        buf_release(&c->in);
    if (c->read_ended && c->unanswered == 0)
        conn_ws_close(c, WS_NO_STATUS, NULL);
}

void conn_ws_input_ended(struct conn *c)
{
    conn_ws_input(c);
    if (c->state == CONN_SOCKET)
        conn_ws_probe(c);
}
