/*
 * conn_http.c: a connection that speaks HTTP.
 *
 * The bytes of a request stay in the input buffer until all of it is there; the head is parsed once
 * when it is complete, to learn what follows, and once more when the body is: that is cheaper than
 * keeping 3 KiB of parsed headers per connection. In between only lengths are looked at, so a body
 * that comes byte by byte costs no more than its bytes. A chunked body is decoded as it arrives.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/conn.h"

/* ---- answering ---- */

const char *net_date(struct net *n)
{
    int64_t second = clock_kernel.wall_ms(NULL) / 1000;
    if (second != n->date_second) {
        time_t t = (time_t)second;
        struct tm tm;
        gmtime_r(&t, &tm);
        strftime(n->date, sizeof n->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        n->date_second = second;
    }
    return n->date;
}

static void write_head(struct conn *c, struct buf *out, int status, const char *content_type,
                       const char *extra_headers, size_t body_bytes)
{
    http_write_status(out, status);
    buf_addz(out, "Date: ");
    buf_addz(out, net_date(c->net));
    if (status != 204) {
        buf_addz(out, "\r\nContent-Type: ");
        buf_addz(out, content_type);
        buf_addz(out, "\r\nContent-Length: ");
        buf_add_int(out, (int64_t)body_bytes);
    }
    buf_addz(out, "\r\n");
    buf_addz(out, extra_headers);
    if (!c->keep_alive)
        buf_addz(out, "Connection: close\r\n");
    else if (c->is_http_1_0)
        buf_addz(out, "Connection: keep-alive\r\n");
    buf_addz(out, "\r\n");
}

static void request_over(struct conn *c)
{
    c->head_bytes = c->need_bytes = c->scanned = 0;
    c->started_us = 0;
    c->sent_continue = false;
    free(TAKE_PTR(c->chunked));
    buf_release(&c->body);
}

void conn_respond(struct conn *c, int status, const char *content_type, const char *extra_headers,
                  struct str body)
{
    REQUIRE(c->state == CONN_HTTP_WAITING);
    if (c->net->shutting_down)
        c->keep_alive = false;
    _cleanup_buf_ struct buf head = BUF_INIT(4096);
    write_head(c, &head, status, content_type, extra_headers, body.n);
    conn_out(c, buf_str(&head));
    if (!c->is_head_request && status != 204)
        conn_out(c, body);
    if (!c->keep_alive) {
        conn_begin_close(c);
        return;
    }
    c->state = CONN_HTTP_READING; /* conn_flush_all() goes on with what has arrived meanwhile */
    conn_touch_timer(c);
}

/* Also of a request that is not whole, or not well-formed. */
static bool asks_for_head(const struct conn *c)
{
    struct str in = buf_str(&c->in);
    return str_starts(str_skip(in, http_skip_empty_lines(in)), STR("HEAD "));
}

/* The place of the next request is unknown: answer and close. */
void conn_http_fail(struct conn *c, int status, const char *reason)
{
    struct buf body = BUF_INIT(4096);
    c->net->handlers.write_error(c->net->handlers.ctx, &body, status, reason);
    c->keep_alive = false;
    c->is_head_request = asks_for_head(c);
    c->state = CONN_HTTP_WAITING;
    request_over(c);
    conn_respond(c, status, "application/json", "", buf_str(&body));
    buf_release(&body);
}

void conn_http_timed_out(struct conn *c)
{
    if (c->in.len || c->head_bytes)
        conn_http_fail(c, 408, "the request did not arrive in time");
    else
        conn_begin_close(c); /* idle */
}

void conn_stream_begin(struct conn *c)
{
    REQUIRE(c->state == CONN_HTTP_WAITING);
    _cleanup_buf_ struct buf head = BUF_INIT(4096);
    http_write_status(&head, 200);
    buf_addf(&head,
             "Date: %s\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
             "X-Accel-Buffering: no\r\nConnection: close\r\n\r\n",
             net_date(c->net));
    conn_out(c, buf_str(&head));
    c->keep_alive = false;
    c->state = CONN_STREAM;
    buf_release(&c->in);
    if (c->net->shutting_down)
        conn_begin_close(c);
    else
        conn_touch_timer(c);
}

/* ---- reading ---- */

static void dispatch(struct conn *c, const struct http_head *head, struct str body, size_t consumed)
{
    c->state = CONN_HTTP_WAITING;
    c->keep_alive = head->keep_alive && (!c->read_ended || c->in.len > consumed);
    c->is_head_request = head->method == HTTP_HEAD;
    c->is_http_1_0 = head->minor == 0;
    c->net->stats.requests++;
    /* The request's bytes leave the buffer only after the handler has seen them, and the handler
     * may answer at once, which must not look at them again: so they are taken aside first. */
    struct buf taken = c->in, taken_body = c->body;
    c->in = BUF_INIT(taken.max);
    c->body = BUF_INIT(taken_body.max);
    if (taken.len > consumed)
        buf_add(&c->in, taken.data + consumed, taken.len - consumed);
    request_over(c);
    c->net->handlers.request(c->net->handlers.ctx, c, head, body);
    buf_release(&taken);
    buf_release(&taken_body);
}

static void send_continue(struct conn *c, const struct http_head *head)
{
    if (!head->expect_continue || c->sent_continue)
        return;
    c->sent_continue = true;
    conn_out(c, STR("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* A body of known length. True if the request was dispatched. */
static bool read_plain_body(struct conn *c, const struct http_head *head)
{
    c->need_bytes = c->head_bytes + (size_t)head->content_length;
    if (c->in.len < c->need_bytes) {
        send_continue(c, head);
        return false;
    }
    struct str body = {c->in.data + c->head_bytes, (size_t)head->content_length};
    dispatch(c, head, body, c->need_bytes);
    return true;
}

/* Decodes what has come of a chunked body: the bytes go to c->body, and the input they came in
 * leaves the buffer behind the head. True once the body is whole. */
static bool decode_chunks(struct conn *c)
{
    size_t max = (size_t)option_get(c->net->options, net, body_bytes_max);
    struct str rest = str_skip(buf_str(&c->in), c->head_bytes);
    int64_t used = http_chunked_feed(c->chunked, rest, max, &c->body);
    if (used < 0) {
        conn_http_fail(c, (int)-used, used == -413 ? "the body is too large" : "bad chunked body");
        return false;
    }
    memmove(c->in.data + c->head_bytes, rest.p + used, rest.n - (size_t)used);
    buf_truncate(&c->in, c->in.len - (size_t)used);
    return c->chunked->done;
}

static bool read_chunked_body(struct conn *c, const struct http_head *head)
{
    if (!c->chunked) {
        c->chunked = mem_zalloc(sizeof *c->chunked);
        if (c->in.len == c->head_bytes)
            send_continue(c, head);
        if (!decode_chunks(c))
            return false;
    }
    dispatch(c, head, buf_str(&c->body), c->head_bytes);
    return true;
}

/* Looks for the end of the head; sets head_bytes (with the empty lines before it). */
static bool find_head(struct conn *c)
{
    size_t max = (size_t)option_get(c->net->options, net, header_bytes_max);
    if (c->head_bytes)
        return true;
    size_t skipped = http_skip_empty_lines(buf_str(&c->in));
    int n = http_head_length(str_skip(buf_str(&c->in), skipped), max, &c->scanned);
    if (n < 0)
        conn_http_fail(c, -n, n == -431 ? "the head is too large" : "malformed head");
    if (n <= 0)
        return false;
    c->head_bytes = skipped + (size_t)n;
    return true;
}

/* One request, if it is whole. False if more input is needed or the connection is closing. */
static bool read_request(struct conn *c)
{
    struct http_head head;
    const char *reason = "malformed request";
    if (!find_head(c) || c->in.len < c->need_bytes || (c->chunked && !decode_chunks(c)))
        return false;
    struct str in = {c->in.data, c->head_bytes};
    int status = http_parse_head(str_skip(in, http_skip_empty_lines(in)), &head, &reason);
    if (status < 0) {
        conn_http_fail(c, -status, reason);
        return false;
    }
    if (head.is_https && !c->tls) {
        conn_http_fail(c, 421, "an https target is served over TLS only");
        return false;
    }
    if (head.content_length > option_get(c->net->options, net, body_bytes_max)) {
        conn_http_fail(c, 413, "the body is too large");
        return false;
    }
    return head.chunked ? read_chunked_body(c, &head) : read_plain_body(c, &head);
}

void conn_http_input(struct conn *c)
{
    do {
        if (c->in.len && !c->started_us)
            c->started_us = loop_now_us(c->net->loop);
    } while (c->in.len && read_request(c) && c->state == CONN_HTTP_READING);
    if (c->state != CONN_HTTP_READING || !c->in.len)
        return;
    if (c->read_ended)
        conn_begin_close(c); /* the rest of it will never come */
    else
        conn_touch_timer(c);
}
