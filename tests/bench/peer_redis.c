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

#include "redis.h"

void redis_write(struct buf *out, const struct str *words, size_t n)
{
    buf_addf(out, "*%zu\r\n", n);
    for (size_t i = 0; i < n; i++) {
        buf_addf(out, "$%zu\r\n", words[i].n);
        buf_add_str(out, words[i]);
        buf_addz(out, "\r\n");
    }
}

/* Bytes of the reply that `in` begins with; 0 if it is not whole. */
static size_t reply_size(struct str in)
{
    const char *end = memmem(in.p, in.n, "\r\n", 2);
    if (!end)
        return 0;
    size_t whole = (size_t)(end - in.p) + 2;
    bool bulk = in.p[0] == '$', array = in.p[0] == '*';
    long n = bulk || array ? strtol(in.p + 1, NULL, 10) : 0;
    if (n > CONN_BYTES_MAX)
        die("Redis: %.*s", STR_ARG(in));
    if (bulk && n >= 0)
        whole += (size_t)n + 2;
    for (long i = 0; array && i < n; i++) {
        size_t part = in.n > whole ? reply_size((struct str){in.p + whole, in.n - whole}) : 0;
        if (part == 0)
            return 0;
        whole += part;
    }
    return in.n < whole ? 0 : whole;
}

bool redis_take(struct conn *c, struct str *ret)
{
    struct str in = conn_pending(c);
    size_t whole = reply_size(in);
    if (whole == 0)
        return false;
    *ret = (struct str){in.p, whole};
    conn_consume(c, whole);
    return true;
}

struct str redis_wait(struct conn *c)
{
    struct str reply;
    while (conn_flush(c))
        ;
    while (!redis_take(c, &reply))
        conn_receive(c);
    return reply;
}

void redis_open(struct conn *c, const struct in_addr *source)
{
    conn_connect(c, source);
    if (c->target->secret[0])
        redis_write(&c->out, (struct str[]){STR("AUTH"), str_of(c->target->secret)}, 2);
    else
        redis_write(&c->out, (struct str[]){STR("PING")}, 1);
    struct str reply = redis_wait(c);
    if (reply.p[0] != '+')
        die("Redis: %.*s", STR_ARG(reply));
}

static void redis_begin(struct conn *c, const struct conn *shared)
{
    char key[40];
    if (shared)
        c->stream = shared->stream;
    snprintf(key, sizeof key, "stream:%lld", (long long)c->stream);
    struct str words[] = {STR("XADD"), str_of(key), STR("*"), STR("f"), c->target->payload};
    redis_write(&c->request, words, ARRAY_LEN(words));
}

static void redis_submit(struct conn *c)
{
    buf_add_str(&c->out, buf_str(&c->request));
}

/* Success is the new entry's id, "<ms>-<n>". */
static enum reply redis_next(struct conn *c)
{
    struct str reply;
    if (!redis_take(c, &reply))
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
