/*
 * core_private.h: the inside of a core, for core.c and core_parked.c.
 *
 * core.c has the tick and everything whose order in it matters. core_parked.c has the calls that
 * are not answered in the tick that executes them, because they take longer: a backup, a step of
 * the manual clock, a pass of the ladder. Those that wait for something to happen are in waits.h.
 */
#pragma once

#include "server/core.h"
#include "server/waits.h"
#include "watch/pulse.h"

/* A call that waits for something to be done; request == NULL: none. */
struct parked {
    struct rpc_request *request;
    struct rpc_call *call;
    uint64_t tick; /* in which it was parked */
};

/* A backup under way. */
struct backup {
    struct parked by;
    struct store_backup *copy;
    char *path;
};

/* clock.advance or clock.gap under way: ticks go from one due time to the next. */
struct stepping {
    struct parked by;
    int64_t target_ms;
    bool jumps; /* a gap: straight to the target */
};

struct core {
    struct core_config config;
    struct work work;
    struct subscriptions *subscriptions;
    struct rpc_host host;
    struct ladder *ladder;
    struct lifecycle *lifecycle;
    struct waits *waits;
    struct bell *bell;        /* rings those who wait */
    struct outbox *wait_out;  /* where their answers go, while they are being looked at */
    struct core_input *woken; /* those of them that this tick executes again */
    bool is_waking;
    struct pulse pulse;
    struct pulse_finding found; /* by the pulse, not yet told */
    int64_t refusing_since_ms;  /* the store takes no writes; 0: it does */
    struct backup backup;
    struct stepping stepping;
    struct parked pass;            /* watchdog.runOnce */
    bool gap_is_told, step_failed; /* in this tick */
    int64_t paused_until_us;       /* after a failure, what is due waits a little; monotonic */
    struct core_input *later, *later_last; /* requests that wait for room: pass_over() */
    size_t result_bytes;                   /* of this tick */
    bool wants_tick;                       /* some of `later` could run at once */
    int64_t started_ms, pruned_ms;
    struct core_stats stats;
};

/* ---- core.c ---- */

/* Its answers go out. */
void core_reply(struct core *c, struct rpc_request *r, struct outbox *out);
/* In the next tick: it has calls left. */
void core_execute_later(struct core *c, struct rpc_request *r);

/* ---- core_parked.c ---- */

/* What methods ask of the server; all but `wait`. */
struct rpc_host parked_host(struct core *c);
/* The call is done: answers its request, or goes on with the calls behind it in the batch. */
void parked_done(struct core *c, struct parked *p, int code, const struct err *err,
                 struct outbox *out);
/* The tick in which some were parked is committed; or lost. */
void parked_committed(struct core *c);
void parked_lost(struct core *c, int code, const struct err *err, struct outbox *out);
/* Answers the pass and the step of the clock, if they are over. */
void parked_finish(struct core *c, struct outbox *out);
/* True if there is more to copy. */
bool parked_step_backup(struct core *c, struct outbox *out);
/* Nobody waits any longer. */
void parked_stop(struct core *c, int code, const struct err *err, struct outbox *out);
void parked_release(struct core *c);
