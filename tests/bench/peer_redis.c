/*
 * peer_redis.c: Redis streams, one `XADD stream * f payload` per append.
 *
 * With appendfsync always Redis answers after the fsync, once per turn of its event loop for
 * everything that came in with it: the same group commit, so the same promise to the client.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_bulk(struct buf *out, struct str s)
{
    buf_addf(out, "$%zu\r\n", s.n);
    buf_add_str(out, s);
    buf_addz(out, "\r\n");
}

/* A simple string, error or bulk string, whole, type byte first. */
static bool take_reply(struct conn *c, struct str *ret)
{
    struct str in = conn_pending(c);
    const char *end = memmem(in.p, in.n, "\r\n", 2);
    if (!end)
        return false;
    size_t whole = (size_t)(end - in.p) + 2;
    if (in.p[0] == '$') {
        long n = strtol(in.p + 1, NULL, 10);
        if (n < 0 || n > CONN_BYTES_MAX)
            die("Redis: %.*s", STR_ARG(in));
        whole += (size_t)n + 2;
    }
    if (in.n < whole)
        return false;
    *ret = (struct str){in.p, whole};
    conn_consume(c, whole);
    return true;
}

static struct str wait_reply(struct conn *c)
{
    struct str reply;
    while (conn_flush(c))
        ;
    while (!take_reply(c, &reply))
        conn_receive(c);
    return reply;
}

static void redis_open(struct conn *c, const struct in_addr *source)
{
    conn_connect(c, source);
    if (c->target->secret[0]) {
        buf_addz(&c->out, "*2\r\n");
        write_bulk(&c->out, STR("AUTH"));
        write_bulk(&c->out, str_of(c->target->secret));
    } else {
        buf_addz(&c->out, "*1\r\n");
        write_bulk(&c->out, STR("PING"));
    }
    struct str reply = wait_reply(c);
    if (reply.p[0] != '+')
        die("Redis: %.*s", STR_ARG(reply));
}

static void redis_begin(struct conn *c, const struct conn *shared)
{
    char key[40];
    if (shared)
        c->stream = shared->stream;
    snprintf(key, sizeof key, "stream:%lld", (long long)c->stream);
    buf_addz(&c->request, "*5\r\n");
    write_bulk(&c->request, STR("XADD"));
    write_bulk(&c->request, str_of(key));
    write_bulk(&c->request, STR("*"));
    write_bulk(&c->request, STR("f"));
    write_bulk(&c->request, c->target->payload);
}

static void redis_submit(struct conn *c)
{
    buf_add_str(&c->out, buf_str(&c->request));
}

/* Success is the new entry's id, "<ms>-<n>". */
static enum reply redis_next(struct conn *c)
{
    struct str reply;
    if (!take_reply(c, &reply))
        return REPLY_NONE;
    if (reply.p[0] == '$' && memchr(reply.p, '-', reply.n))
        return REPLY_OK;
    fprintf(stderr, "load: Redis: %.*s", STR_ARG(reply));
    return REPLY_BAD;
}

const struct peer peer_redis = {
    .name = "redis",
    .open = redis_open,
    .begin = redis_begin,
    .submit = redis_submit,
    .flush = conn_flush,
    .receive = conn_receive,
    .next = redis_next,
    .close = conn_release,
};
