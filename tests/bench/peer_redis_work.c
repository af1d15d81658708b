/*
 * peer_redis_work.c: what Redis users build from it: `SET key value EX 60` as a heartbeat, and a
 * stream with a consumer group as a queue: XADD, XREADGROUP, XACK. A key or stream per connection.
 */
#include "peer.h"
#include "redis.h"

#include <stdio.h>
#include <string.h>

static struct str key_of(const struct conn *c, char ret[static 40])
{
    snprintf(ret, 40, "work:%lld", (long long)c->stream);
    return str_of(ret);
}

static void beat_begin(struct conn *c, const struct conn *shared)
{
    (void)shared;
    char key[40], value[20];
    snprintf(value, sizeof value, "bench-%u", c->index);
    struct str words[] = {STR("SET"), key_of(c, key), str_of(value), STR("EX"), STR("60")};
    redis_write(&c->request, words, ARRAY_LEN(words));
}

static void beat_submit(struct conn *c)
{
    buf_add_str(&c->out, buf_str(&c->request));
}

static enum reply bad(struct str reply)
{
    fprintf(stderr, "load: Redis: %.*s\n", STR_ARG(reply));
    return REPLY_BAD;
}

static enum reply beat_next(struct conn *c)
{
    struct str reply;
    if (!redis_take(c, &reply))
        return REPLY_NONE;
    return str_starts(reply, STR("+OK")) ? REPLY_OK : bad(reply);
}

static void cycle_begin(struct conn *c, const struct conn *shared)
{
    (void)shared;
    char key[40];
    struct str words[] = {STR("XGROUP"), STR("CREATE"), key_of(c, key),
                          STR("g"),      STR("$"),      STR("MKSTREAM")};
    redis_write(&c->out, words, ARRAY_LEN(words));
    struct str reply = redis_wait(c);
    if (reply.p[0] != '+')
        die("XGROUP: %.*s", STR_ARG(reply));
}

static void write_step(struct conn *c)
{
    char text[40];
    struct str key = key_of(c, text);
    struct str add[] = {STR("XADD"), key, STR("*"), STR("f"), c->target->payload};
    struct str read[] = {STR("XREADGROUP"), STR("GROUP"),   STR("g"), STR("c"), STR("COUNT"),
                         STR("1"),          STR("STREAMS"), key,      STR(">")};
    struct str ack[] = {STR("XACK"), key, STR("g"), str_of(c->entry)};
    if (c->step == 0)
        redis_write(&c->out, add, ARRAY_LEN(add));
    else if (c->step == 1)
        redis_write(&c->out, read, ARRAY_LEN(read));
    else
        redis_write(&c->out, ack, ARRAY_LEN(ack));
}

static void cycle_submit(struct conn *c)
{
    c->step = 0;
    write_step(c);
}

/* XADD answers the entry's id, XREADGROUP an array with that entry in it, XACK how many it knew. */
static bool read_step(struct conn *c, struct str reply)
{
    if (c->step == 2)
        return str_starts(reply, STR(":1"));
    if (c->step == 1)
        return reply.p[0] == '*' && memmem(reply.p, reply.n, c->entry, strlen(c->entry));
    const char *id = memchr(reply.p, '\n', reply.n);
    size_t n = id ? reply.n - (size_t)(id + 1 - reply.p) : 0;
    if (reply.p[0] != '$' || n < 3 || n - 2 >= sizeof c->entry)
        return false;
    memcpy(c->entry, id + 1, n - 2);
    c->entry[n - 2] = '\0';
    return true;
}

static enum reply cycle_next(struct conn *c)
{
    struct str reply;
    if (!redis_take(c, &reply))
        return REPLY_NONE;
    if (!read_step(c, reply))
        return bad(reply);
    if (++c->step == 3)
        return REPLY_OK;
    write_step(c);
    return REPLY_NONE;
}

const struct peer peer_redis_beat = {
    .name = "redis-beat",
    .open = redis_open,
    .begin = beat_begin,
    .submit = beat_submit,
    .flush = conn_flush,
    .receive = conn_receive,
    .next = beat_next,
    .close = conn_release,
};

const struct peer peer_redis_cycle = {
    .name = "redis-cycle",
    .open = redis_open,
    .begin = cycle_begin,
    .submit = cycle_submit,
    .flush = conn_flush,
    .receive = conn_receive,
    .next = cycle_next,
    .close = conn_release,
    .one_in_flight = true,
};
