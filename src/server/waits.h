/*
 * waits.h: long polls.
 *
 * A call that finds nothing to do parks itself here under a number that stands for what it waits
 * for (an agent, a machine). When the bell rings for that (bell/bell.h), or its time is over (on
 * the real clock: it is a matter of transport), the call is executed again; it then answers, or
 * waits on. Nobody else is disturbed, and nothing is announced to anybody who is not in here (L27).
 *
 * Executed when? In the tick that touched what it waits for, at its end, if the bell is in this
 * process: what it does then, such as to mark a command as delivered, goes into the same commit,
 * and whoever waits is told after one fsync instead of two. What is touched only after that, and
 * what began to wait in this very tick, has its turn in the next.
 *
 * A bell may be lost. So each call also looks by itself every worker.watchdog_interval_seconds:
 * what it waits for is found without any ring, only later (P11).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/peer.h"
#include "rpc/rpc.h"

struct waits;
/* Gets the request of a call that is to be executed again, or, if code < 0, to be failed; owns it
 * from then on. */
typedef void wait_over_fn(void *ctx, struct rpc_request *request, struct rpc_call *call, int code,
                          const struct err *err);

struct waits *waits_new(wait_over_fn *over, void *ctx, int64_t look_every_us);
struct waits *waits_free(struct waits *w); /* NULL; requests are freed unanswered */
size_t waits_count(const struct waits *w);

/* Within a tick; takes the request. call->wait_until_us says how long. */
void waits_add(struct waits *w, struct rpc_request *request, struct rpc_call *call, int64_t key);
/* At the end of a tick, before its commit: those that wait for what it has touched are over now. */
void waits_wake(struct waits *w, const struct work *work);
/* After the commit: what was added in it waits. What of work->touched the calls have heard of is
 * from the returned one on; NULL: nothing. */
const struct touched *waits_committed(struct waits *w);
/* Somebody rings for this key. */
void waits_ring(struct waits *w, int64_t key);
/* After a lost tick: those that were added in it fail. */
void waits_lost(struct waits *w, const struct err *err);
void waits_time_out(struct waits *w, int64_t now_us);
void waits_stop(struct waits *w, const struct err *err);
void waits_drop_peer(struct waits *w, const struct peer *peer);
/* When the next one is late or looks by itself, monotonic; INT64_MAX if none waits. */
int64_t waits_next_us(const struct waits *w);
