/*
 * queue.h: the tasks that wait behind the one an agent works on.
 *
 * A task is promoted in the transaction that frees its agent, so an agent with a queue and no
 * active task cannot come to be: enqueueing and finishing are moves of one thread. If it is there
 * all the same (a store that was repaired by hand, a bug), nobody would ever look at it again
 * (L63). So the agent's row knows the first of its queue, and an index holds those agents that have
 * one and no active task: in all of a healthy server's life, none. What the ladder asks it
 * (queue.sweep) costs nothing then, however many tasks are queued.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct agent;
struct task;
struct work;

/* The queue changes; the caller has edited the agent, and stores it. A task that was never stored
 * has nobody behind it. */
void queue_join(struct agent *a, const struct task *t);
int queue_left(struct work *w, struct agent *a, const struct task *t, bool is_new, struct err *err);
/* NULL: nobody waits. What the agent's row says is checked, and looked up if it is wrong. */
int queue_first(struct work *w, struct agent *a, struct task **ret, struct err *err);

/* When queue.sweep is due for this task: at once if it could be promoted, else NEVER_MS. */
int queue_due_ms(struct work *w, const struct task *t, int64_t *ret, struct err *err);
