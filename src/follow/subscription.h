/*
 * subscription.h: followers of the log that live as long as their connection.
 *
 * A subscription is a cursor. It begins where the client asked, reads the log from the store page
 * by page until it has caught up, and from then on is handed the events of each tick after its
 * commit. Because both happen in the core's thread and a page is read to its end, there is no gap
 * between backlog and live events and no repeat (L09). When its peer does not read, the
 * subscription simply falls behind: it stops being live, keeps its cursor, and reads from the store
 * again once the peer has room. So a slow reader costs no memory and loses nothing.
 *
 * Guidance is not in the log: subscribers that asked for it get the current one when they have
 * caught up, and changes while they are live.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/peer.h"
#include "domain/event.h"
#include "domain/work.h"

struct subscriptions;

enum { SUBSCRIPTIONS_PER_PEER_MAX = 64 };
#define SUBSCRIBE_ALL INT64_C(-1)

struct subscribe {
    int64_t conversation; /* or SUBSCRIBE_ALL */
    int64_t after_seq;    /* of the conversation; -1: not given */
    int64_t after_id;     /* global; -1: not given. Neither given: from now on */
    unsigned types;       /* a bit per enum event_type; 0: all */
    bool include_guidance;
    bool hides_server_log; /* SUBSCRIBE_ALL without conversation 0 */
    bool is_stream;        /* server-sent events instead of JSON-RPC notifications */
    int64_t expires_ms;    /* when its token does; 0: never */
};

struct subscriptions *subscriptions_new(struct work *w);
struct subscriptions *subscriptions_free(struct subscriptions *s); /* NULL */

/* ERR_NOT_FOUND (conversation), ERR_RATE_LIMITED. *ret is its number, unique in this server. */
int subscription_add(struct subscriptions *s, struct peer *p, const struct subscribe *ask,
                     int64_t *ret, struct err *err);
/* Ends with the commit of this tick. ERR_NOT_FOUND if this peer has no such subscription. */
int subscription_remove(struct subscriptions *s, struct peer *p, int64_t number, struct err *err);
void subscriptions_drop_peer(struct subscriptions *s, struct peer *p);
void subscriptions_drained(struct subscriptions *s, struct peer *p);

/* A tick whose commit failed: what was asked for in it, and what was given up, never was. */
void subscriptions_abort_staged(struct subscriptions *s);
/* After a commit: hands the tick's events and guidance to live subscriptions. */
void subscriptions_publish(struct subscriptions *s, struct outbox *out);
/* Reads on for those that are behind and have room, one page each. True if there is more to do. */
bool subscriptions_pump(struct subscriptions *s, struct outbox *out);
size_t subscriptions_count(const struct subscriptions *s);
