/*
 * peer.h: what differs between the systems compared, as one table of functions each.
 *
 * Calling sequence for a connection: open, begin, then submit / flush / receive / next for as long
 * as the run lasts, close. The loop that times them (drive.c) is the same for all.
 */
#pragma once

#include "conn.h"

enum reply {
    REPLY_NONE, /* not whole yet */
    REPLY_OK,   /* the server says that it is done: of an append, that it is durable */
    REPLY_BAD,  /* anything else; told on stderr */
};

struct peer {
    const char *name;
    /* Connects and authenticates; afterwards the server has answered on this connection. */
    void (*open)(struct conn *c, const struct in_addr *source);
    /* Makes the stream this connection appends to (or takes that of `shared`), and its request. */
    void (*begin)(struct conn *c, const struct conn *shared);
    /* Queues one append; the caller counts it in c->sent afterwards. */
    void (*submit)(struct conn *c);
    bool (*flush)(struct conn *c); /* true: call again when writable */
    void (*receive)(struct conn *c);
    /* The next reply out of what was received; the caller counts it in c->done. */
    enum reply (*next)(struct conn *c);
    void (*close)(struct conn *c);
    /* Answers what an idle connection is asked (pings); NULL: nothing may come. */
    void (*idle)(struct conn *c);
    /* What is counted takes several requests, each made from the answer to the one before. */
    bool one_in_flight;
};

extern const struct peer peer_http, peer_ws, peer_redis, peer_pg;
extern const struct peer peer_ws_beat, peer_redis_beat, peer_beanstalk_beat;
extern const struct peer peer_ws_cycle, peer_redis_cycle, peer_beanstalk_cycle, peer_pg_cycle;
