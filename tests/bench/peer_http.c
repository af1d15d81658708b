/*
 * peer_http.c: reeve over HTTP/1.1 keep-alive, one POST /rpc per append.
 *
 * The whole request, head and body, is one template of constant length, so sending costs two
 * patched numbers and a copy. Replies need a Content-Length; the server always knows it, and a
 * chunked answer to so small a request would be worth stumbling over.
 */
#include "peer.h"

#include <stdlib.h>
#include <string.h>

#include "rpc.h"

static void write_request(struct conn *c, struct buf *out, struct str body)
{
    buf_addf(out,
             "POST /rpc HTTP/1.1\r\nHost: %s:%s\r\nAuthorization: Bearer %s\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             c->target->host, c->target->port, c->target->secret, body.n);
    buf_add_str(out, body);
}

/* One whole response with status 200; its body is good until the next receive. */
static bool take_response(struct conn *c, struct str *ret_body)
{
    struct str in = conn_pending(c);
    const char *end = memmem(in.p, in.n, "\r\n\r\n", 4);
    if (!end)
        return false;
    if (!str_starts(in, STR("HTTP/1.1 200 ")))
        die("HTTP: %.*s", STR_ARG(in));
    size_t head = (size_t)(end - in.p) + 4;
    const char *length = strcasestr(in.p, "\r\nContent-Length:");
    if (!length || length > end)
        die("HTTP response without Content-Length: %.*s", (int)head, in.p);
    size_t body = strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
    if (body > CONN_BYTES_MAX)
        die("HTTP response of %zu bytes", body);
    if (in.n < head + body)
        return false;
    *ret_body = (struct str){in.p + head, body};
    conn_consume(c, head + body);
    return true;
}

static struct str wait_response(struct conn *c)
{
    struct str body;
    while (conn_flush(c))
        ;
    while (!take_response(c, &body))
        conn_receive(c);
    return body;
}

static void http_open(struct conn *c, const struct in_addr *source)
{
    conn_connect(c, source);
    buf_addf(&c->out, "GET /healthz HTTP/1.1\r\nHost: %s:%s\r\n\r\n", c->target->host,
             c->target->port);
    wait_response(c);
}

static void http_begin(struct conn *c, const struct conn *shared)
{
    struct buf body = BUF_INIT(CONN_BYTES_MAX);
    if (shared) {
        c->stream = shared->stream;
    } else {
        rpc_write_create(&body);
        write_request(c, &c->out, buf_str(&body));
        c->stream = rpc_read_create(wait_response(c));
        buf_clear(&body);
    }
    rpc_write_send(&body, c, c->number_at);
    write_request(c, &c->request, buf_str(&body));
    for (size_t i = 0; i < ARRAY_LEN(c->number_at); i++)
        c->number_at[i] += c->request.len - body.len;
    buf_release(&body);
}

static void http_submit(struct conn *c)
{
    conn_number_request(c);
    buf_add_str(&c->out, buf_str(&c->request));
}

static enum reply http_next(struct conn *c)
{
    struct str body;
    return take_response(c, &body) ? rpc_check_send(c, body) : REPLY_NONE;
}

const struct peer peer_http = {
    .name = "http",
    .open = http_open,
    .begin = http_begin,
    .submit = http_submit,
    .flush = conn_flush,
    .receive = conn_receive,
    .next = http_next,
    .close = conn_release,
};
