/*
 * task_end.h: the end of a task: its error, its one terminal event, and calls that repeat it.
 *
 * A worker that got no answer repeats its call. If the body is that of the call which ended the
 * task, the repeat has no effect and gets the same answer. If the body is another one, something
 * would be lost without a word: that is ERR_IDEMPOTENCY_CONFLICT. What the first body was follows
 * from what is stored: the deliverable is a card, the reason is the task's error, the hand-off is
 * a task of its own.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "domain/task.h"

struct work;

/* What outcome.error says: what the caller gave or, of an end by a rule, its stop reason. */
struct str task_end_error(const struct task *t, const struct task_move *m);
int task_end_store_error(struct work *w, struct task *t, struct str error, struct err *err);
/* epoch: of the attempt that ended; undelivered: why there is no deliverable. */
int task_end_append(struct work *w, const struct task *t, int64_t epoch, const struct task_move *m,
                    struct str undelivered, struct err *err);

/* The task that it was handed on to; 0: none. */
int task_end_note_handoff(struct work *w, struct task *t, int64_t next, struct err *err);
int task_end_handoff(struct work *w, const struct task *t, int64_t *ret, struct err *err);

/* The task has ended by this trigger: 0 if it was by this body, too; ERR_IDEMPOTENCY_CONFLICT. */
int task_end_check_repeat(struct work *w, const struct task *t, const struct task_move *m,
                          struct err *err);
/* Do two JSON texts mean the same? Texts that are not there (p == NULL) equal each other only. */
bool task_same_json(struct work *w, struct str a, struct str b);
