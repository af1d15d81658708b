/* bound.c: see bound.h. */
#include "watch/bound.h"

#include "domain/rule.h"

/* When the rule acts, counted from its clock's base; NEVER_MS if it is off. */
static int64_t exceeded_ms(enum rule_id rule, const struct options *o)
{
    int64_t limit_ms = rule_task_limit(rule, o);
    return limit_ms ? limit_ms + 1 : NEVER_MS;
}

static int64_t sum_ms(int64_t a, int64_t b)
{
    return a == NEVER_MS || b == NEVER_MS ? NEVER_MS : a + b;
}

static int64_t longest_lease_ms(const struct options *o)
{
    int64_t seconds = MAX(option_get(o, liveness, active_ttl_seconds),
                          option_get(o, liveness, unattended_work_seconds));
    return MAX(seconds, option_get(o, machine, ttl_seconds)) * 1000 + 1;
}

/* When what is claimed is taken back: both wait for the lease. */
static int64_t taken_back_ms(const struct options *o)
{
    int64_t first_ms =
        MIN(exceeded_ms(RULE_TASK_ACKNOWLEDGED, o), exceeded_ms(RULE_INBOX_PROCESSING, o));
    return first_ms == NEVER_MS ? NEVER_MS : MAX(first_ms, longest_lease_ms(o));
}

void bounds_of(const struct options *o, struct bounds *ret)
{
    int64_t any_ms = exceeded_ms(RULE_TASK_MAX_SECONDS, o),
            pending_ms = exceeded_ms(RULE_DISPATCH_REAP, o),
            acknowledged_ms = MIN(taken_back_ms(o), pending_ms),
            in_progress_ms = MIN(longest_lease_ms(o), exceeded_ms(RULE_RUNNING_REAP, o));
    *ret = (struct bounds){.any_ms = any_ms, .queued_ms = sum_ms(any_ms, any_ms)};
    int64_t *dead_ms = ret->dead_ms, worst_ms = 0;
    dead_ms[TASK_PENDING] = MIN(pending_ms, any_ms);
    dead_ms[TASK_ACKNOWLEDGED] = MIN(sum_ms(acknowledged_ms, pending_ms), any_ms);
    dead_ms[TASK_IN_PROGRESS] = MIN(sum_ms(in_progress_ms, pending_ms), any_ms);
    dead_ms[TASK_SUSPENDED] = any_ms;
    for (int status = TASK_PENDING; status <= TASK_SUSPENDED; status++)
        worst_ms = MAX(worst_ms, dead_ms[status]);
    dead_ms[TASK_QUEUED] = sum_ms(worst_ms, dead_ms[TASK_PENDING]);
}
