/*
 * peer_beanstalk.c: beanstalkd: `touch` of a reserved job as a heartbeat, and jobs from put over
 * reserve to delete. A tube per connection.
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOB_SECONDS = 3600, CYCLE_STEPS = 3 };

/* One reply without its line ends; after RESERVED comes the job's body, which is skipped. */
static bool take_reply(struct conn *c, struct str *ret)
{
    struct str in = conn_pending(c);
    const char *end = memmem(in.p, in.n, "\r\n", 2);
    if (!end)
        return false;
    struct str line = {in.p, (size_t)(end - in.p)};
    size_t whole = line.n + 2;
    if (str_starts(line, STR("RESERVED "))) {
        char *size;
        strtoll(in.p + strlen("RESERVED "), &size, 10);
        whole += strtoul(size, NULL, 10) + 2;
    }
    if (in.n < whole)
        return false;
    *ret = line;
    conn_consume(c, whole);
    return true;
}

static struct str expect(struct conn *c, struct str what)
{
    struct str reply;
    while (conn_flush(c))
        ;
    while (!take_reply(c, &reply))
        conn_receive(c);
    if (!str_starts(reply, what))
        die("beanstalkd: %.*s", STR_ARG(reply));
    return reply;
}

static void beanstalk_open(struct conn *c, const struct in_addr *source)
{
    conn_connect(c, source);
    buf_addf(&c->out, "use t%lld\r\n", (long long)c->stream);
    expect(c, STR("USING "));
}

static void cycle_begin(struct conn *c, const struct conn *shared)
{
    (void)shared;
    buf_addf(&c->out, "watch t%lld\r\n", (long long)c->stream);
    expect(c, STR("WATCHING "));
    buf_addz(&c->out, "ignore default\r\n");
    expect(c, STR("WATCHING "));
}

static void write_step(struct conn *c)
{
    if (c->step == 0) {
        buf_addf(&c->out, "put 0 0 %d %zu\r\n", JOB_SECONDS, c->target->payload.n);
        buf_add_str(&c->out, c->target->payload);
        buf_addz(&c->out, "\r\n");
    } else if (c->step == 1) {
        buf_addz(&c->out, "reserve\r\n");
    } else {
        buf_addf(&c->out, "delete %lld\r\n", (long long)c->task);
    }
}

static void beat_begin(struct conn *c, const struct conn *shared)
{
    cycle_begin(c, shared);
    write_step(c);
    expect(c, STR("INSERTED "));
    c->step = 1;
    write_step(c);
    struct str reply = expect(c, STR("RESERVED "));
    c->task = strtoll(reply.p + strlen("RESERVED "), NULL, 10);
    buf_addf(&c->request, "touch %lld\r\n", (long long)c->task);
}

static void beat_submit(struct conn *c)
{
    buf_add_str(&c->out, buf_str(&c->request));
}

static enum reply bad(struct str reply)
{
    fprintf(stderr, "load: beanstalkd: %.*s\n", STR_ARG(reply));
    return REPLY_BAD;
}

static enum reply beat_next(struct conn *c)
{
    struct str reply;
    if (!take_reply(c, &reply))
        return REPLY_NONE;
    return str_starts(reply, STR("TOUCHED")) ? REPLY_OK : bad(reply);
}

static void cycle_submit(struct conn *c)
{
    c->step = 0;
    write_step(c);
}

static enum reply cycle_next(struct conn *c)
{
    const struct str expected[CYCLE_STEPS] = {STR("INSERTED "), STR("RESERVED "), STR("DELETED")};
    struct str reply;
    if (!take_reply(c, &reply))
        return REPLY_NONE;
    if (!str_starts(reply, expected[c->step]))
        return bad(reply);
    if (c->step < 2)
        c->task = strtoll(reply.p + expected[c->step].n, NULL, 10);
    if (++c->step == CYCLE_STEPS)
        return REPLY_OK;
    write_step(c);
    return REPLY_NONE;
}

const struct peer peer_beanstalk_beat = {
    .name = "beanstalk-beat",
    .open = beanstalk_open,
    .begin = beat_begin,
    .submit = beat_submit,
    .flush = conn_flush,
    .receive = conn_receive,
    .next = beat_next,
    .close = conn_release,
};

const struct peer peer_beanstalk_cycle = {
    .name = "beanstalk-cycle",
    .open = beanstalk_open,
    .begin = cycle_begin,
    .submit = cycle_submit,
    .flush = conn_flush,
    .receive = conn_receive,
    .next = cycle_next,
    .close = conn_release,
    .one_in_flight = true,
};
