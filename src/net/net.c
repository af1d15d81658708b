/* net.c: listening, accepting, delivering. See net.h; conn.h for what a connection does. */
#include "net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/conn.h"

enum { ACCEPTS_PER_TURN = 64, BACKLOG = 1024, RETRY_US = 100000 };

struct listener {
    struct loop_io io;
    struct loop_timer retry; /* out of descriptors: look again soon */
    struct net *net;
    struct listener *next;
};

/* ---- addresses ---- */

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t bytes;
};

/* "HOST:PORT" with a numeric host, "[V6]:PORT", or "localhost:PORT". */
static bool address_parse(const char *text, struct address *ret)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    int64_t port;
    *ret = (struct address){0};
    if (!colon || !str_to_int(str_of(colon + 1), &port) || port < 0 || port > 65535)
        return false;
    size_t n = (size_t)(colon - text);
    bool bracketed = n >= 2 && text[0] == '[' && text[n - 1] == ']';
    if (bracketed) {
        text++;
        n -= 2;
    }
    if (n >= sizeof host)
        return false;
    memcpy(host, text, n);
    host[n] = '\0';
    if (bracketed) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons((uint16_t)port);
        ret->bytes = sizeof ret->v6;
        return inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1;
    }
    ret->v4.sin_family = AF_INET;
    ret->v4.sin_port = htons((uint16_t)port);
    ret->bytes = sizeof ret->v4;
    return inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                     &ret->v4.sin_addr) == 1;
}

static bool address_is_loopback(const struct address *a)
{
    if (a->any.sa_family == AF_INET)
        return (ntohl(a->v4.sin_addr.s_addr) >> 24) == 127;
    if (a->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr) && a->v6.sin6_addr.s6_addr[12] == 127);
    return false;
}

int net_check_address(const char *address, struct err *err)
{
    struct address a;
    if (address_parse(address, &a))
        return 0;
    return err_set(err, ERR_USAGE,
                   "--listen %.64s: give PORT, or ADDRESS:PORT with a numeric address", address);
}

bool net_address_is_loopback(const char *address)
{
    struct address a;
    return address_parse(address, &a) && address_is_loopback(&a);
}

/* ---- accepting ---- */

/* Over the limit: say so and go. The answer fits the socket's buffer, so one send is all. */
static void refuse(struct net *n, int fd)
{
    struct buf body = BUF_INIT(4096), out = BUF_INIT(8192);
    n->stats.refused++;
    n->handlers.write_error(n->handlers.ctx, &body, 503, "too many connections");
    http_write_status(&out, 503);
    buf_addf(&out,
             "Date: %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
             "Retry-After: 1\r\nConnection: close\r\n\r\n%s",
             net_date(n), body.len, body.data);
    if (!n->tls && send(fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_debug("net", "refused", "errno=%d", errno);
    shutdown(fd, SHUT_WR);
    close(fd);
    buf_release(&body);
    buf_release(&out);
}

static void prepare_socket(struct net *n, int fd)
{
    int one = 1;
    /* Twice, so that a peer which is there but does not read is dropped by us, and counted. */
    unsigned timeout_ms = (unsigned)option_get(n->options, net, stall_seconds) * 2000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* A peer that vanished without a word: pings that nobody acknowledges end it. */
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
}

static void listener_ready(struct loop_io *io, uint32_t events);

static void listener_retry(struct loop_timer *t)
{
    struct listener *l = CONTAINER_OF(t, struct listener, retry);
    loop_rewatch(l->net->loop, &l->io, EPOLLIN);
}

/* No descriptors left: stop listening for a moment instead of spinning. */
static void listener_pause(struct listener *l)
{
    log_warn("net", "accept_failed", "errno=%d retry_ms=%d", errno, RETRY_US / 1000);
    loop_rewatch(l->net->loop, &l->io, 0);
    loop_timer_set(l->net->loop, &l->retry, loop_now_us(l->net->loop) + RETRY_US, listener_retry);
}

static void listener_ready(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct listener *l = CONTAINER_OF(io, struct listener, io);
    struct net *n = l->net;
    size_t max = (size_t)option_get(n->options, net, connections_max);
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct address from = {.bytes = sizeof from.v6};
        int fd = accept4(io->fd, &from.any, &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                listener_pause(l);
            return;
        }
        n->stats.accepted++;
        if (n->stats.connections >= max) {
            refuse(n, fd);
            continue;
        }
        prepare_socket(n, fd);
        conn_open(n, fd, address_is_loopback(&from));
    }
}

static int bind_listen(const struct address *a, int *ret_fd)
{
    int one = 1;
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, &a->any, a->bytes) < 0 || listen(fd, BACKLOG) < 0) {
        int saved = errno;
        close(fd);
        return -saved;
    }
    *ret_fd = fd;
    return 0;
}

int net_listen(struct net *n, const char *address, int *ret_port, struct err *err)
{
    struct address a;
    int fd = -1;
    int r = net_check_address(address, err);
    if (r < 0)
        return r;
    address_parse(address, &a);
    r = bind_listen(&a, &fd);
    if (r == -EADDRINUSE)
        return err_set(err, ERR_LOCKED,
                       "port %s is in use; try --listen 127.0.0.1:0, which takes a free one",
                       strrchr(address, ':') + 1);
    if (r < 0)
        return err_set(err, ERR_CONFIG, "cannot listen on %.64s: %s; give another --listen",
                       address, strerror(-r));
    a.bytes = sizeof a.v6;
    REQUIRE(getsockname(fd, &a.any, &a.bytes) == 0);
    struct listener *l = mem_zalloc(sizeof *l);
    l->io = LOOP_IO_INIT;
    l->net = n;
    l->next = n->listeners;
    n->listeners = l;
    *ret_port = ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
    r = loop_watch(n->loop, &l->io, fd, EPOLLIN, listener_ready);
    return r < 0 ? err_set(err, ERR_IO, "cannot watch the listening socket") : 0;
}

/* ---- lifetime ---- */

static void end_of_turn(void *ctx)
{
    struct net *n = ctx;
    conn_flush_all(n);
    n->handlers.turn_end(n->handlers.ctx);
}

struct net *net_new(struct loop *loop, const struct options *options, struct tls *tls,
                    const struct net_handlers *handlers)
{
    struct net *n = mem_zalloc(sizeof *n);
    n->loop = loop;
    n->options = options;
    n->tls = tls;
    n->handlers = *handlers;
    n->flush_end = &n->flush;
    loop_on_turn_end(loop, end_of_turn, n);
    return n;
}

void net_stop_accepting(struct net *n)
{
    while (n->listeners) {
        struct listener *l = n->listeners;
        int fd = l->io.fd;
        n->listeners = l->next;
        loop_timer_stop(n->loop, &l->retry);
        loop_unwatch(n->loop, &l->io);
        if (fd >= 0)
            close(fd);
        free(l);
    }
}

struct net *net_free(struct net *n)
{
    if (!n)
        return NULL;
    net_stop_accepting(n);
    while (n->conns)
        conn_free(n->conns);
    loop_on_turn_end(n->loop, NULL, NULL);
    free(n);
    return NULL;
}

void conn_end(struct conn *c, int code, const char *reason)
{
    if (c->state == CONN_SOCKET) {
        conn_ws_close(c, code, reason);
    } else if (c->state == CONN_STREAM) {
        _cleanup_buf_ struct buf last = BUF_INIT(512);
        buf_addf(&last, ": end: %s\n\n", reason);
        conn_out(c, buf_str(&last));
        conn_begin_close(c);
    }
}

void net_each(struct net *n, void (*fn)(void *ctx, struct conn *c), void *ctx)
{
    for (struct conn *c = n->conns, *next; c; c = next) {
        next = c->next;
        fn(ctx, c);
    }
}

static void shut_down_conn(void *ctx, struct conn *c)
{
    (void)ctx;
    switch (c->state) {
    case CONN_SOCKET:
    case CONN_STREAM:
        conn_end(c, 1001, "the server is shutting down");
        break;
    case CONN_HTTP_WAITING:
        c->keep_alive = false; /* closes after its answer */
        break;
    case CONN_HTTP_READING:
    case CONN_HANDSHAKE:
        if (c->out.len)
            conn_begin_close(c);
        else
            conn_free(c); /* nothing is on its way */
        break;
    case CONN_CLOSING:
        break;
    }
}

void net_shut_down(struct net *n)
{
    n->shutting_down = true;
    net_stop_accepting(n);
    net_each(n, shut_down_conn, NULL);
}

size_t net_connection_count(const struct net *n)
{
    return n->stats.connections;
}

const struct net_stats *net_stats(const struct net *n)
{
    return &n->stats;
}

/* ---- delivering ---- */

static void deliver(struct conn *c, const struct message *m)
{
    struct str data = buf_str(&m->data);
    if (c->state == CONN_CLOSING)
        return;
    if (m->status == MESSAGE_CLOSE || m->status == MESSAGE_EXPEL) {
        conn_end(c, m->status == MESSAGE_CLOSE ? 1011 : 1008, m->data.data);
    } else if (m->status == MESSAGE_STREAM) {
        conn_stream_begin(c);
        conn_out(c, data);
    } else if (m->status == MESSAGE_DATA && c->state == CONN_SOCKET) {
        conn_ws_send(c, data);
    } else if (m->status == MESSAGE_DATA) {
        REQUIRE(c->state == CONN_STREAM);
        conn_out(c, data);
    } else if (c->state == CONN_SOCKET) {
        conn_ws_answer(c, data);
    } else {
        conn_respond(c, m->status, "application/json",
                     m->status == 401 ? "WWW-Authenticate: Bearer\r\n" : "", data);
    }
}

void net_deliver(struct net *n, struct outbox *o)
{
    (void)n;
    struct message *m;
    while ((m = outbox_take_first(o))) {
        atomic_fetch_sub(&m->peer->queued_bytes, m->data.len);
        if (m->peer->conn)
            deliver(m->peer->conn, m);
        message_free(m);
    }
}

/* ---- for handlers ---- */

struct peer *conn_peer(struct conn *c)
{
    c->is_announced = true;
    return c->peer;
}

bool conn_is_loopback(const struct conn *c)
{
    return c->is_loopback;
}

void conn_set_data(struct conn *c, void *data, void (*release)(void *data))
{
    if (c->release_data)
        c->release_data(c->data);
    c->data = data;
    c->release_data = release;
}

void *conn_data(const struct conn *c)
{
    return c->data;
}
