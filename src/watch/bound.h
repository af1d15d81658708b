/*
 * bound.h: within which time a task ends, by the configuration alone (P9).
 *
 * Two questions, and the operator wants both answered:
 *
 * *Whatever anybody does.* An agent that lives may claim a task again and again, beat and make
 * progress for ever; the one clock that nothing moves is task.max_seconds, which runs from the
 * first dispatch (or from a resume, which opens a new window). So that is the bound, and if it is
 * off there is none. The clock of a queued task begins when it is dispatched, and its agent may
 * take as long for each one before it: behind one other it is twice that, and once more for each
 * further one.
 *
 * *If nobody is alive any more*, it ends sooner, by the rules of its status. From the moment of the
 * last sign of life
 *
 *     pending        dispatch.reap ends it
 *     acknowledged   it is taken back by task.acknowledged or inbox.processing, neither of which
 *                    waits for longer than its limit and the longest lease, or dispatch.reap ends
 *                    it; taken back it is pending
 *     in_progress    it is taken back when its lease is over, or running.reap ends it; taken back
 *                    it is pending
 *     suspended      the deadlines of its tools are their own, not the configuration's: nothing
 *                    but task.max_seconds is sure
 *
 * and never later than task.max_seconds. It is taken back at most once, since nobody claims it
 * again. A hold (P21) does not stop the clock of the reap. A lease lasts at most as long as the
 * longest kind of it: a beat's, an unattended claim's, or that of a machine which spoke for the
 * process. Each step adds the millisecond by which a limit is exceeded.
 *
 * All of this is watched time in an active conversation: what nobody watched convicts nobody (P16),
 * except by task.max_seconds; a blocked conversation stands still.
 */
#pragma once

#include <stdint.h>

#include "base/options.h"
#include "domain/task.h"

struct bounds {
    int64_t any_ms;    /* from its first dispatch; NEVER_MS: there is none */
    int64_t queued_ms; /* of one behind another, from that one's dispatch */
    /* From the last sign of life on. Of a status that is an end: 0; queued: as pending, behind one
     * that is in the worst of them. */
    int64_t dead_ms[TASK_STATUS_COUNT];
};

void bounds_of(const struct options *o, struct bounds *ret);
