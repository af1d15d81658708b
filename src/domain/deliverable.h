/*
 * deliverable.h: what is left of a task when it ends.
 *
 * Whoever completes a task hands in its result. An end that is not the worker's own (a rule, a
 * cancel, the end of the conversation) has a deliverable all the same (P10): the newest that there
 * is, else one that says what is known: why it ended, how often it was tried, the last progress,
 * the results of its tools. A worker that fails its task, or completes it without a result, has
 * decided that there is none.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "domain/task.h"

struct work;

/*
 * The card of a task that has just ended by this move, in its transaction. *ret_card is 0 if there
 * is none, and *ret_error then says why. The end does not depend on it: only a transaction that is
 * lost is an error.
 */
int deliverable_of_end(struct work *w, const struct task *t, const struct task_move *m,
                       int64_t *ret_card, struct str *ret_error, struct err *err);
