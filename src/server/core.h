/*
 * core.h: the one thread that owns the store, the clock and all state. This is the tick.
 *
 *     freeze now
 *     1 the lifecycle follower, a page: what ended in the tick before
 *     2 every request that has arrived, each call in its own savepoint
 *     3 what is due: a page of every rule of the ladder
 *     4 COMMIT: one transaction, one fsync, for all of it
 *     5 only now: replies, event pushes; then a step of checkpoint, backlog and backup
 *
 * The core itself has no thread: core_tick() is a function of its inputs and `now`, so that a
 * simulator can drive exactly this code. server.c runs it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/options.h"
#include "base/peer.h"
#include "domain/token.h"
#include "follow/lifecycle.h"
#include "follow/subscription.h"
#include "rpc/rpc.h"
#include "store/store.h"
#include "watch/engine.h"

enum core_input_kind {
    CORE_REQUEST, /* request */
    CORE_STREAM,  /* a GET /events: subscribe */
    CORE_CLOSED,  /* the peer is gone */
    CORE_DRAINED, /* the peer has room again */
};

struct core_input {
    struct core_input *next;
    enum core_input_kind kind;
    struct peer *peer; /* a reference */
    struct rpc_request *request;
    struct subscribe subscribe;
    struct grant grant;
    size_t bytes; /* of the request's text */
};

struct core_input *core_input_new(enum core_input_kind kind, struct peer *p);
struct core_input *core_input_free(struct core_input *in); /* NULL */

struct core_stats {
    uint64_t ticks, requests, calls_failed, events, commits_failed;
    int64_t tick_us_last, tick_us_max;
    int64_t batch_last, batch_max;
    size_t subscriptions;
    struct ladder_stats ladder;
    int64_t fired[RULE_COUNT];
    struct lifecycle_stats lifecycle;
    int64_t gaps;
};

struct core;

struct core_config {
    struct store *store;             /* taken */
    struct clock *clock;             /* borrowed */
    const struct options *options;   /* borrowed */
    const char *version, *store_url; /* borrowed */
    const char *bell_fault;          /* bell.h; NULL: none */
    /* Called after a commit that changed tokens, and once by core_new(). */
    void (*tokens_changed)(void *ctx, struct store *store);
    void *ctx;
};

int core_new(const struct core_config *config, struct core **ret, struct err *err);
struct core *core_free(struct core *c); /* NULL; closes the store */

/*
 * One tick over a list of inputs (taken). Replies and pushes are added to `out`.
 */
void core_tick(struct core *c, struct core_input *inputs, struct outbox *out);
/* Tick, with or without inputs: something is due, or requests were left for another tick. */
bool core_wants_tick(const struct core *c);
/* How long to wait for input before asking again, in microseconds; -1: for ever. */
int64_t core_wait_us(const struct core *c);
/* Call whenever the thread wakes: finds out whether it overslept (watch/pulse.h). */
void core_beat(struct core *c);
/* After the outputs of a tick are on their way: one step of everything that is not urgent. True if
 * it should be called again before waiting. */
bool core_idle(struct core *c, struct outbox *out);
/* No more ticks will follow: answers what still waits for one, and stores until when we watched. */
void core_stop(struct core *c, struct outbox *out);
const struct core_stats *core_stats(const struct core *c);
const struct store_stats *core_store_stats(const struct core *c);
bool core_is_writable(const struct core *c);
