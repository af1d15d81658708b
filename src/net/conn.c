/*
 * conn.c: bytes in, bytes out, time-outs. See conn.h for the states.
 *
 * Output is collected and written once per turn of the loop, whatever the number of frames; what
 * the socket does not take waits for EPOLLOUT. There is one timer per connection, armed lazily: it
 * is set when something begins to wait and not moved while things go well; when it fires, it
 * looks at what is really due. So a busy connection touches no timer at all.
 */
#include "net/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum {
    IN_AHEAD_BYTES = 64 * 1024, /* pipelined input we take while an answer is being made */
    UNANSWERED_MAX = 64,        /* WebSocket messages of one peer that the owner has at once */
    CLOSE_LINGER_US = 2000000,
    SHUTDOWN_LINGER_US = 300000,
    IDLE_US_FACTOR = 60, /* an idle HTTP connection is kept this many times request_seconds */
};

static void conn_ready(struct loop_io *io, uint32_t events);
static void conn_timer(struct loop_timer *t);

/* ---- opening and closing ---- */

void conn_open(struct net *n, int fd, bool is_loopback)
{
    struct conn *c = mem_zalloc(sizeof *c);
    size_t body_max = (size_t)option_get(n->options, net, body_bytes_max),
           head_max = (size_t)option_get(n->options, net, header_bytes_max);
    c->net = n;
    c->io = LOOP_IO_INIT;
    c->is_loopback = is_loopback;
    c->in = BUF_INIT(head_max + body_max + IN_AHEAD_BYTES + NET_READ_BYTES);
    c->body = BUF_INIT(body_max);
    c->out = BUF_INIT(SIZE_MAX / 4);
    c->active_us = loop_now_us(n->loop);
    c->state = CONN_HTTP_READING;
    if (n->tls) {
        c->tls = tls_accept(n->tls, fd);
        c->state = CONN_HANDSHAKE;
        c->started_us = c->active_us;
    }
    if (loop_watch(n->loop, &c->io, fd, EPOLLIN, conn_ready) < 0) {
        close(fd);
        tls_session_free(c->tls);
        free(c);
        return;
    }
    c->peer = peer_new(c, (size_t)option_get(n->options, net, out_bytes_max));
    c->next = n->conns;
    if (c->next)
        c->next->prev = c;
    n->conns = c;
    n->stats.connections++;
    conn_touch_timer(c);
}

static void unlink_conn(struct conn *c)
{
    struct net *n = c->net;
    if (c->prev)
        c->prev->next = c->next;
    else
        n->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    for (struct conn **p = &n->flush; c->in_flush && *p; p = &(*p)->next_flush)
        if (*p == c) {
            *p = c->next_flush;
            if (!*p)
                n->flush_end = p;
            break;
        }
    n->stats.connections--;
}

void conn_free(struct conn *c)
{
    int fd = c->io.fd;
    unlink_conn(c);
    loop_timer_stop(c->net->loop, &c->timer);
    loop_unwatch(c->net->loop, &c->io);
    atomic_store(&c->peer->is_closed, true);
    c->peer->conn = NULL;
    if (c->is_announced)
        c->net->handlers.closed(c->net->handlers.ctx, c->peer);
    peer_unref(c->peer);
    if (c->release_data)
        c->release_data(c->data);
    tls_session_free(c->tls);
    if (fd >= 0)
        close(fd);
    buf_release(&c->in);
    buf_release(&c->body);
    buf_release(&c->out);
    free(c->chunked);
    if (c->ws)
        ws_reader_release(c->ws);
    free(c->ws);
    free(c);
}

/* ---- output ---- */

static size_t pending(const struct conn *c)
{
    return c->out.len - c->out_at;
}

void conn_out(struct conn *c, struct str bytes)
{
    if (c->sending_shut)
        return;
    if (pending(c) == 0)
        c->out_us = loop_now_us(c->net->loop);
    buf_add_str(&c->out, bytes);
    atomic_fetch_add(&c->peer->queued_bytes, bytes.n);
    if (!c->in_flush) {
        c->in_flush = true;
        c->next_flush = NULL;
        *c->net->flush_end = c;
        c->net->flush_end = &c->next_flush;
    }
}

static void want_events(struct conn *c)
{
    uint32_t events = c->reading_stopped || c->read_ended ? 0 : EPOLLIN;
    if (pending(c) || (c->tls && tls_wants_write(c->tls)))
        events |= EPOLLOUT;
    loop_rewatch(c->net->loop, &c->io, events);
}

static void shut_sending(struct conn *c)
{
    if (c->sending_shut)
        return;
    c->sending_shut = true;
    c->reading_stopped = false; /* to see the other side's end */
    if (c->tls)
        tls_shut(c->tls);
    shutdown(c->io.fd, SHUT_WR);
    c->deadline_us =
        loop_now_us(c->net->loop) + (c->net->shutting_down ? SHUTDOWN_LINGER_US : CLOSE_LINGER_US);
    conn_touch_timer(c);
}

/* Time in which we did not read is not held against a request that was arriving. */
static void read_again(struct conn *c)
{
    c->reading_stopped = false;
    if (c->started_us)
        c->started_us = loop_now_us(c->net->loop);
}

static void tell_drained(struct conn *c)
{
    struct peer *p = c->peer;
    if (atomic_load(&p->queued_bytes) > p->high_water_bytes / 2)
        return;
    if (c->reading_stopped && !conn_has_asked_enough(c))
        read_again(c);
    if (atomic_exchange(&p->wants_drain, false) && c->is_announced)
        c->net->handlers.drained(c->net->handlers.ctx, p);
}

static ssize_t raw_write(struct conn *c, const char *from, size_t n)
{
    if (c->tls)
        return tls_write(c->tls, from, n);
    return send(c->io.fd, from, n, MSG_NOSIGNAL);
}

/* Writes what the socket takes. False if the connection is gone. */
static bool flush_out(struct conn *c)
{
    while (pending(c)) {
        ssize_t n = raw_write(c, c->out.data + c->out_at, pending(c));
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0) {
            conn_free(c);
            return false;
        }
        c->out_at += (size_t)n;
        c->active_us = c->out_us = loop_now_us(c->net->loop);
        c->net->stats.bytes_out += (uint64_t)n;
        atomic_fetch_sub(&c->peer->queued_bytes, (size_t)n);
    }
    if (pending(c) == 0) {
        buf_release(&c->out);
        c->out_at = 0;
        if (c->state == CONN_CLOSING)
            shut_sending(c);
    } else if (c->out_at > c->out.len / 2) { /* amortised: what is written is not kept for ever */
        buf_drop_front(&c->out, c->out_at);
        c->out_at = 0;
    }
    tell_drained(c);
    conn_touch_timer(c);
    want_events(c);
    return true;
}

static void take_input(struct conn *c)
{
    switch (c->state) {
    case CONN_HTTP_READING:
        conn_http_input(c);
        break;
    case CONN_SOCKET:
        conn_ws_input(c);
        break;
    case CONN_STREAM:
    case CONN_CLOSING:
        buf_release(&c->in);
        break;
    case CONN_HANDSHAKE:
    case CONN_HTTP_WAITING:
        break; /* stays in the buffer */
    }
}

void conn_flush_all(struct net *n)
{
    while (n->flush) {
        struct conn *c = n->flush;
        n->flush = c->next_flush;
        if (!n->flush)
            n->flush_end = &n->flush;
        c->in_flush = false;
        if (flush_out(c) && c->in.len)
            take_input(c); /* pipelined: the next request has arrived already */
    }
}

void conn_begin_close(struct conn *c)
{
    if (c->state == CONN_CLOSING)
        return;
    c->state = CONN_CLOSING;
    c->deadline_us = 0;
    buf_release(&c->in);
    conn_out(c, STR("")); /* visits flush_out(), which shuts when all is sent */
}

/* ---- input ---- */

static ssize_t raw_read(struct conn *c, char *to, size_t n)
{
    if (c->tls)
        return tls_read(c->tls, to, n);
    return recv(c->io.fd, to, n, 0);
}

/* A client may send its requests and close its sending side: it still gets its answers. */
static void input_ended(struct conn *c)
{
    c->read_ended = true;
    if (c->state == CONN_HTTP_WAITING) {
        c->keep_alive = c->keep_alive && c->in.len > 0;
    } else if (c->state == CONN_SOCKET) {
        conn_ws_input_ended(c);
    } else if (c->state == CONN_HTTP_READING && pending(c)) {
        conn_begin_close(c);
    } else if (c->state != CONN_CLOSING || !pending(c)) {
        conn_free(c);
        return;
    }
    want_events(c);
}

bool conn_has_asked_enough(const struct conn *c)
{
    size_t body_max = (size_t)option_get(c->net->options, net, body_bytes_max);
    if (c->state == CONN_SOCKET)
        return c->unanswered >= UNANSWERED_MAX || c->unanswered_bytes >= body_max;
    return c->state == CONN_HTTP_WAITING && c->in.len >= IN_AHEAD_BYTES;
}

static bool must_stop_reading(const struct conn *c)
{
    if (c->state == CONN_CLOSING)
        return false; /* it is thrown away */
    return atomic_load(&c->peer->queued_bytes) >= c->peer->high_water_bytes ||
           conn_has_asked_enough(c);
}

static void read_ready(struct conn *c)
{
    if (must_stop_reading(c)) {
        c->reading_stopped = true;
        want_events(c);
        return;
    }
    do {
        char *to = c->net->read_to;
        ssize_t n = raw_read(c, to, sizeof c->net->read_to);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            want_events(c);
            return;
        }
        if (n < 0) {
            conn_free(c);
            return;
        }
        if (n == 0) {
            input_ended(c);
            return;
        }
        buf_add(&c->in, to, (size_t)n);
        REQUIRE(!c->in.overflow); /* every state bounds its input below the buffer's ceiling */
        c->net->stats.bytes_in += (uint64_t)n;
        c->active_us = loop_now_us(c->net->loop);
        take_input(c);
    } while (c->tls && tls_has_pending(c->tls) && !must_stop_reading(c));
    if (c->in.len == 0)
        buf_release(&c->in);
}

static void handshake(struct conn *c)
{
    int r = tls_handshake(c->tls);
    if (r < 0) {
        conn_free(c);
        return;
    }
    if (r > 0) {
        c->state = CONN_HTTP_READING;
        c->started_us = 0;
    }
    want_events(c);
}

static void conn_ready(struct loop_io *io, uint32_t events)
{
    struct conn *c = CONTAINER_OF(io, struct conn, io);
    if (c->state == CONN_HANDSHAKE) {
        handshake(c);
        return;
    }
    if ((events & EPOLLOUT) && !flush_out(c))
        return;
    if ((events & EPOLLOUT) && c->tls && tls_wants_write(c->tls) && !c->read_ended)
        events |= EPOLLIN; /* TLS may have had to write in order to read */
    bool gone = events & (EPOLLHUP | EPOLLERR);
    if (!gone && !(events & EPOLLIN))
        return;
    if (c->read_ended || (gone && must_stop_reading(c)))
        conn_free(c); /* reading would tell, but nothing is to be read */
    else
        read_ready(c);
}

/* ---- time ---- */

static int64_t seconds_us(int64_t seconds)
{
    return seconds * 1000000;
}

/* When something must be done about this connection if nothing changes. */
static int64_t due_us(const struct conn *c)
{
    const struct options *o = c->net->options;
    int64_t request_us = seconds_us(option_get(o, net, request_seconds));
    int64_t due = INT64_MAX;
    if (pending(c))
        due = c->out_us + seconds_us(option_get(o, net, stall_seconds));
    if (c->state == CONN_CLOSING && c->deadline_us)
        due = MIN(due, c->deadline_us);
    if (c->started_us && !c->reading_stopped)
        due = MIN(due, c->started_us + request_us);
    else if (c->state == CONN_HTTP_READING)
        due = MIN(due, c->active_us + IDLE_US_FACTOR * request_us);
    if (!pending(c) && (c->state == CONN_SOCKET || c->state == CONN_STREAM))
        due = MIN(due, c->active_us + seconds_us(option_get(o, net, ping_seconds)));
    return due;
}

void conn_touch_timer(struct conn *c)
{
    int64_t due = due_us(c);
    if (due == INT64_MAX || (c->timer.heap_index && c->timer.due_us <= due))
        return;
    loop_timer_set(c->net->loop, &c->timer, due, conn_timer);
}

static void keep_alive_peer(struct conn *c)
{
    if (c->state == CONN_SOCKET)
        conn_ws_probe(c);
    else
        conn_out(c, STR(": ping\n\n"));
    c->active_us = loop_now_us(c->net->loop);
}

static bool is_late(const struct conn *c)
{
    int64_t request_us = seconds_us(option_get(c->net->options, net, request_seconds));
    return c->started_us && !c->reading_stopped &&
           c->started_us + request_us <= loop_now_us(c->net->loop);
}

static void conn_timer(struct loop_timer *t)
{
    struct conn *c = CONTAINER_OF(t, struct conn, timer);
    int64_t now = loop_now_us(c->net->loop);
    int64_t stall_us = seconds_us(option_get(c->net->options, net, stall_seconds));
    if (due_us(c) > now) {
        conn_touch_timer(c);
        return;
    }
    if (pending(c) && c->out_us + stall_us <= now) {
        c->net->stats.dropped_stalled++;
        conn_free(c);
    } else if (c->state == CONN_CLOSING || c->state == CONN_HANDSHAKE) {
        conn_free(c);
    } else if (c->state == CONN_HTTP_READING) {
        conn_http_timed_out(c);
    } else if (is_late(c)) {
        conn_ws_close(c, 1008, "the message did not arrive in time");
    } else {
        keep_alive_peer(c);
        conn_touch_timer(c);
    }
}
