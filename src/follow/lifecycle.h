/*
 * lifecycle.h: stops the agents of every conversation that ended or was blocked, whoever ended it.
 *
 * One follower of the log does this and nobody else (seed 004): ends come from people, agents, the
 * turn limit and the ladder, and none of them has to remember the agents. It reads the log behind a
 * durable cursor, which it moves in the transaction of what it writes; so a crash between "ended"
 * and "stopped" only means that the stopping comes after the restart (L17).
 *
 * An event is only the reason to look. What is done follows from the state: an agent of an active
 * conversation is left alone (it was resumed meanwhile), any other is stopped. Doing it twice does
 * nothing.
 *
 * At start it first goes over all agents that should be up: those of active conversations that are
 * not get started, those of others get stopped. Each agent has its own savepoint: one that fails is
 * logged and tried again later, and the next one is served (L18).
 *
 *     if (lifecycle_next_ms(f) <= now) tick, and in it lifecycle_step(f)
 *     lifecycle_committed(f) | lifecycle_lost(f)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct lifecycle;
struct work;

int lifecycle_new(struct work *w, struct lifecycle **ret, struct err *err);
struct lifecycle *lifecycle_free(struct lifecycle *f); /* NULL */

/* When it next has something to do: INT64_MIN for now, INT64_MAX for never. */
int64_t lifecycle_next_ms(struct lifecycle *f);
/* Has it gone over the agents of the last run? */
bool lifecycle_has_resumed(const struct lifecycle *f);
/* Within a tick: a page. If it fails the caller should pause before the next. */
int lifecycle_step(struct lifecycle *f, struct err *err);
/* After it, with the tick's events in work->events. */
void lifecycle_committed(struct lifecycle *f);
void lifecycle_lost(struct lifecycle *f);

struct lifecycle_stats {
    uint64_t stopped, resumed, errors;
    int64_t behind; /* events not yet looked at */
};
struct lifecycle_stats lifecycle_stats(const struct lifecycle *f);
