/*
 * peer_ws_work.c: reeve over WebSocket: heartbeats of a joined participant, and tasks from their
 * creation to their end. A participant, conversation and role per connection.
 */
#include "peer.h"
#include "rpc.h"
#include "ws.h"

#include <string.h>

/* Conversations are never shared here: one role has one listener. */
static void work_begin(struct conn *c, const struct conn *shared)
{
    (void)shared;
    ws_create(c);
    rpc_write_join(&c->request, c);
    ws_write(c, buf_str(&c->request));
    struct str answer = ws_wait(c);
    if (!memmem(answer.p, answer.n, "\"waiting\"", 9))
        die("participant.join: %.*s", STR_ARG(answer));
    buf_clear(&c->request);
}

static void beat_begin(struct conn *c, const struct conn *shared)
{
    work_begin(c, shared);
    rpc_write_beat(&c->request, c, c->number_at);
}

static void beat_submit(struct conn *c)
{
    conn_number_request(c);
    ws_write(c, buf_str(&c->request));
}

static enum reply beat_next(struct conn *c)
{
    struct str message;
    return ws_take(c, &message) ? rpc_check_beat(c, message) : REPLY_NONE;
}

static void write_step(struct conn *c)
{
    buf_clear(&c->request);
    rpc_write_cycle(&c->request, c);
    ws_write(c, buf_str(&c->request));
}

static void cycle_submit(struct conn *c)
{
    c->step = 0;
    write_step(c);
}

/* A reply counts when it is the last of the cycle; each other one brings the next request. */
static enum reply cycle_next(struct conn *c)
{
    struct str message;
    if (!ws_take(c, &message))
        return REPLY_NONE;
    enum reply reply = rpc_read_cycle(c, message);
    if (reply == REPLY_BAD || ++c->step == RPC_CYCLE_STEPS)
        return reply;
    write_step(c);
    return REPLY_NONE;
}

const struct peer peer_ws_beat = {
    .name = "ws-beat",
    .open = ws_open,
    .begin = beat_begin,
    .submit = beat_submit,
    .flush = conn_flush,
    .receive = conn_receive,
    .next = beat_next,
    .close = conn_release,
};

const struct peer peer_ws_cycle = {
    .name = "ws-cycle",
    .open = ws_open,
    .begin = work_begin,
    .submit = cycle_submit,
    .flush = conn_flush,
    .receive = conn_receive,
    .next = cycle_next,
    .close = conn_release,
    .one_in_flight = true,
};
