/* conn.c: see conn.h. */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECEIVE_BYTES = 16384, REPLY_SECONDS = 60 };

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("load: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

void conn_init(struct conn *c, const struct target *target, unsigned index)
{
    *c = (struct conn){
        .target = target,
        .index = index,
        .fd = -1,
        .stream = (int64_t)getpid() << 16 | index,
        .in = BUF_INIT(CONN_BYTES_MAX),
        .out = BUF_INIT(CONN_BYTES_MAX),
        .request = BUF_INIT(CONN_BYTES_MAX),
    };
}

void conn_release(struct conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    buf_release(&c->in);
    buf_release(&c->out);
    buf_release(&c->request);
}

static void bind_source(int fd, struct in_addr source)
{
    int one = 1;
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = source};
    /* Leaves the port to connect(), which may then reuse one that is taken towards another peer. */
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&from, sizeof from) < 0)
        die("bind: %s", strerror(errno));
}

void conn_connect(struct conn *c, const struct in_addr *source)
{
    int one = 1;
    struct timeval patience = {.tv_sec = REPLY_SECONDS};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        die("socket %u: %s", c->index, strerror(errno));
    if (source)
        bind_source(c->fd, *source);
    if (connect(c->fd, (const struct sockaddr *)&c->target->address, sizeof c->target->address) < 0)
        die("connect %u to %s:%s: %s", c->index, c->target->host, c->target->port, strerror(errno));
    if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0 ||
        setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0)
        die("setsockopt: %s", strerror(errno));
}

void conn_set_nonblocking(struct conn *c)
{
    int flags = fcntl(c->fd, F_GETFL);
    if (flags < 0 || fcntl(c->fd, F_SETFL, flags | O_NONBLOCK) < 0)
        die("O_NONBLOCK: %s", strerror(errno));
    c->nonblocking = true;
}

void conn_receive(struct conn *c)
{
    buf_drop_front(&c->in, c->in_at);
    c->in_at = 0;
    char *room = buf_reserve(&c->in, RECEIVE_BYTES);
    if (!room)
        die("connection %u: a reply of more than %d bytes", c->index, CONN_BYTES_MAX);
    ssize_t n = recv(c->fd, room, RECEIVE_BYTES, 0);
    if (n == 0)
        die("connection %u: closed by the server", c->index);
    if (n < 0 && errno == EAGAIN && !c->nonblocking)
        die("connection %u: no reply within %d s", c->index, REPLY_SECONDS);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        die("connection %u: recv: %s", c->index, strerror(errno));
    if (n > 0)
        buf_grown(&c->in, (size_t)n);
}

struct str conn_pending(const struct conn *c)
{
    struct str all = buf_str(&c->in);
    return (struct str){all.p + c->in_at, all.n - c->in_at};
}

void conn_consume(struct conn *c, size_t n)
{
    c->in_at += n;
}

bool conn_flush(struct conn *c)
{
    if (c->out_at == c->out.len)
        return false;
    ssize_t n = send(c->fd, c->out.data + c->out_at, c->out.len - c->out_at, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        die("connection %u: send: %s", c->index, strerror(errno));
    if (n > 0)
        c->out_at += (size_t)n;
    if (c->out_at < c->out.len)
        return true;
    buf_clear(&c->out);
    c->out_at = 0;
    return false;
}

void conn_trim(struct conn *c)
{
    if (c->in_at == c->in.len) {
        buf_release(&c->in);
        c->in_at = 0;
    }
    if (c->out_at == c->out.len) {
        buf_release(&c->out);
        c->out_at = 0;
    }
}

void conn_format_number(uint64_t number, char ret[CONN_NUMBER_DIGITS])
{
    for (int i = CONN_NUMBER_DIGITS; i-- > 0; number /= 10)
        ret[i] = (char)('0' + number % 10);
}

void conn_number_request(struct conn *c)
{
    for (size_t i = 0; i < ARRAY_LEN(c->number_at); i++) {
        if (c->number_at[i])
            conn_format_number(c->sent, c->request.data + c->number_at[i]);
    }
}
