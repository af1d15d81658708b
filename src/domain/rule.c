/* rule.c: see rule.h. */
#include "domain/rule.h"

#include "base/mem.h"
#include "base/names.h"
#include "base/planted.h"
#include "domain/agent.h"
#include "domain/head.h"
#include "domain/task.h"
#include "domain/tool.h"
#include "domain/work.h"

static const char *const rule_names[] = {
#define X(name, text) [RULE_##name] = text,
    RULE_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(rule_names) == RULE_COUNT, "a name for each rule");

const char *rule_name(enum rule_id rule)
{
    return rule_names[rule];
}

bool rule_parse(struct str s, enum rule_id *ret)
{
    int i = names_find(rule_names, RULE_COUNT, s);
    if (i >= 0)
        *ret = (enum rule_id)i;
    return i >= 0;
}

/* ---- due ---- */

/* As configured, for conversations that set no limit of their own; 0: off. */
static int64_t default_limit(enum rule_id rule, const struct options *o)
{
    switch (rule) {
    case RULE_IDLE:
        return option_get(o, watchdog, idle_ms);
    case RULE_GLOBAL_IDLE:
        return option_get(o, watchdog, global_idle_ms);
    case RULE_WALL_CLOCK:
        return option_get(o, runtime_controls, session_wall_clock_seconds) * 1000;
    case RULE_WALL_CLOCK_NOTICE: /* at 80 % of the budget */
        return option_get(o, runtime_controls, session_wall_clock_seconds) * 800;
    default:
        return 0;
    }
}

static int64_t own_limit(enum rule_id rule, const struct head *h)
{
    switch (rule) {
    case RULE_IDLE:
        return h->idle_ms;
    case RULE_GLOBAL_IDLE:
        return h->global_idle_ms;
    case RULE_WALL_CLOCK:
        return h->session_wall_clock_seconds < 0 ? LIMIT_DEFAULT
                                                 : h->session_wall_clock_seconds * 1000;
    case RULE_WALL_CLOCK_NOTICE:
        return h->session_wall_clock_seconds < 0 ? LIMIT_DEFAULT
                                                 : h->session_wall_clock_seconds * 800;
    case RULE_MAX_TURNS:
        return h->max_turns;
    default:
        return LIMIT_DEFAULT;
    }
}

static bool measures_silence(enum rule_id rule)
{
    return rule == RULE_IDLE || rule == RULE_GLOBAL_IDLE;
}

int64_t rule_limit(enum rule_id rule, const struct options *o, const struct head *h)
{
    int64_t own = own_limit(rule, h);
    if (measures_silence(rule) && (h->watchdog_disabled || !option_get(o, watchdog, enabled)))
        return 0;
    return own == LIMIT_DEFAULT ? default_limit(rule, o) : own;
}

int64_t rule_base_ms(enum rule_id rule, const struct head *h)
{
    if (!measures_silence(rule))
        return h->window_started_ms;
    int64_t last_ms = MAX(h->last_activity_ms, h->last_task_ms);
    return MAX(last_ms, h->window_started_ms);
}

static bool applies(enum rule_id rule, const struct head *h)
{
    if (h->status != CONVERSATION_ACTIVE || h->conversation == 0)
        return false;
    switch (rule) {
    case RULE_IDLE: /* what is worked on reaches its end by its own rules */
        return h->turn_is_open && (h->open_tasks == 0 || planted(IDLE_WITH_WORK));
    case RULE_GLOBAL_IDLE:
        return !h->turn_is_open && h->open_tasks == 0;
    case RULE_WALL_CLOCK:
        return true;
    case RULE_WALL_CLOCK_NOTICE:
        return !h->notice_given;
    default:
        return false;
    }
}

int64_t rule_due_ms(enum rule_id rule, const struct options *o, const struct gaps *g,
                    const struct head *h)
{
    int64_t limit = applies(rule, h) ? rule_limit(rule, o, h) : 0;
    if (limit == 0)
        return NEVER_MS;
    int64_t base_ms = rule_base_ms(rule, h);
    /* A budget is wall-clock time: what nobody watched counts too. */
    return measures_silence(rule) ? gaps_due_ms(g, base_ms, limit)
                                  : all_time_until_ms(ALL_TIME_SESSION_BUDGET, base_ms, limit) + 1;
}

/* ---- tasks ---- */

#define REPEAT_MS_MAX INT64_C(60000)

int64_t rule_task_limit(enum rule_id rule, const struct options *o)
{
    switch (rule) {
    case RULE_MACHINE_OFFLINE:
        return option_get(o, machine, ttl_seconds) * 1000;
    case RULE_COMMAND_EXPIRED:
        return option_get(o, restart, command_deadline_seconds) * 1000;
    case RULE_AGENT_EXITED:
        return option_get(o, restart, backoff_first_ms);
    case RULE_PARTICIPANT_EXPIRE:
        return option_get(o, liveness, ttl_seconds) * 1000;
    case RULE_INBOX_PENDING:
        return option_get(o, pmo, pending_wakeup_seconds) * 1000;
    case RULE_INBOX_PROCESSING:
        return option_get(o, worker, inbox_processing_timeout_seconds) * 1000;
    case RULE_DISPATCH_RETRY:
        return option_get(o, pmo, dispatched_retry_seconds) * 1000;
    case RULE_TASK_ACKNOWLEDGED:
        return option_get(o, liveness, acknowledged_timeout_seconds) * 1000;
    case RULE_TASK_ORPHANED:
        return option_get(o, liveness, active_ttl_seconds) * 1000;
    case RULE_TOOL_TIMEOUT:
        return option_get(o, worker, suspend_timeout_seconds) * 1000;
    case RULE_LEDGER_REQUEUE:
    case RULE_LEDGER_RECONCILE:
        return option_get(o, worker, watchdog_interval_seconds) * 1000;
    case RULE_TASK_UNATTENDED:
    case RULE_TASK_UNRESUMED:
        return option_get(o, liveness, pending_timeout_seconds) * 1000;
    case RULE_DISPATCH_REAP:
        return option_get(o, pmo, dispatched_timeout_seconds) * 1000;
    case RULE_RUNNING_REAP:
        return option_get(o, pmo, active_reap_seconds) * 1000;
    case RULE_SUSPENDED_REAP:
        return option_get(o, pmo, suspended_reap_seconds) * 1000;
    case RULE_TASK_EXHAUSTED:
        return option_get(o, liveness, max_attempts);
    case RULE_TASK_MAX_SECONDS:
        return option_get(o, task, max_seconds) * 1000;
    default:
        return 0;
    }
}

int64_t rule_repeat_ms(int64_t limit_ms, int64_t count)
{
    int64_t wait_ms = limit_ms, most_ms = MAX(limit_ms, REPEAT_MS_MAX);
    for (int64_t i = 0; i < count && wait_ms < most_ms; i++)
        wait_ms *= 2;
    return MIN(wait_ms, most_ms);
}

/* May a rule that starts its agent act? A person's stop is not undone. Where nothing can be
 * started, for an unmanaged agent or beside a listener that is no process of ours, that is told
 * once since then. */
static bool may_be_started(const struct work *w, const struct task *t, const struct agent *a,
                           int64_t since_ms)
{
    bool can_start = a->kind[0] && (a->process == PROCESS_RUNNING || !agent_is_attended(w, a));
    bool is_told = !can_start && t->restarted_ms && t->restarted_ms >= since_ms;
    return a->desired != DESIRED_STOPPED && !is_told;
}

static bool is_unattended(const struct work *w, const struct task *t, const struct agent *a,
                          int64_t since_ms)
{
    return may_be_started(w, t, a, since_ms) && !agent_is_attended(w, a);
}

/* What is due while it waits to be taken up. */
static int64_t due_pending(const struct work *w, enum rule_id rule, int64_t limit,
                           const struct task *t, const struct agent *a)
{
    if (rule == RULE_TASK_EXHAUSTED)
        return t->attempts >= limit ? t->pending_ms : NEVER_MS;
    if (rule == RULE_TASK_UNATTENDED && is_unattended(w, t, a, t->pending_ms))
        return gaps_due_ms(&w->gaps, MAX(t->pending_ms, t->restarted_ms), limit);
    if (rule == RULE_DISPATCH_REAP)
        return gaps_due_ms(&w->gaps, t->pending_ms, limit);
    if (rule == RULE_DISPATCH_RETRY)
        return gaps_due_ms(&w->gaps, MAX(t->pending_ms, t->retried_ms),
                           rule_repeat_ms(limit, t->retries));
    return NEVER_MS;
}

static int64_t due_in_hand(const struct work *w, enum rule_id rule, int64_t limit,
                           const struct task *t)
{
    int64_t lease_over_ms = task_active_until_ms(w, t) + 1;
    if (t->status == TASK_ACKNOWLEDGED && rule == RULE_TASK_ACKNOWLEDGED)
        return MAX(gaps_due_ms(&w->gaps, t->acknowledged_ms, limit), lease_over_ms);
    if (t->status == TASK_ACKNOWLEDGED && rule == RULE_DISPATCH_REAP)
        return gaps_due_ms(&w->gaps, MAX(t->pending_ms, t->acknowledged_ms), limit);
    if (t->status == TASK_IN_PROGRESS && rule == RULE_TASK_ORPHANED)
        return lease_over_ms;
    if (t->status == TASK_IN_PROGRESS && rule == RULE_RUNNING_REAP)
        return gaps_due_ms(&w->gaps, t->progress_ms, limit);
    return NEVER_MS;
}

/* What is due while it waits for tools. A deadline that has passed is no deadline ahead, whether
 * tool.timeout could act on it or not. To listen is not to resume: task.unresumed goes by the
 * results alone. It waits while they are lent to somebody, and for a process that is new. */
static int due_suspended(struct work *w, enum rule_id rule, int64_t limit, const struct task *t,
                         const struct agent *a, int64_t *ret, struct err *err)
{
    struct tools_summary s;
    if (rule != RULE_TASK_UNRESUMED && rule != RULE_SUSPENDED_REAP)
        return 0;
    int r = tools_summarize(w, t, &s, err);
    if (r < 0)
        return r;
    int64_t settled_ms = MAX(t->suspended_ms, s.settled_ms),
            started_ms = MAX(t->restarted_ms, a->process_ms);
    if (rule == RULE_SUSPENDED_REAP)
        *ret = MAX(gaps_due_ms(&w->gaps, settled_ms, limit), s.last_deadline_ms + 1);
    else if (planted(LISTENING_IS_RESUMING) && agent_is_attended(w, a))
        *ret = NEVER_MS;
    else if (tools_are_settled(&s) && may_be_started(w, t, a, settled_ms))
        *ret = gaps_due_ms(&w->gaps, MAX(settled_ms, started_ms), limit);
    return 0;
}

int64_t rule_task_deadline_ms(int64_t since_ms, int64_t limit_ms)
{
    return all_time_until_ms(ALL_TIME_TASK_BUDGET, since_ms, limit_ms) + 1;
}

int rule_task_due_ms(struct work *w, enum rule_id rule, const struct task *t, int64_t *ret,
                     struct err *err)
{
    struct head *h;
    struct agent *a;
    int64_t limit = rule_task_limit(rule, w->options);
    *ret = NEVER_MS;
    if (!task_is_active(t) || limit == 0)
        return 0;
    int r = head_get(w, t->conversation, &h, err);
    if (r == 0)
        r = agent_get(w, t->conversation, str_of(t->role), &a, err);
    if (r < 0 || h->status != CONVERSATION_ACTIVE)
        return r;
    if (rule == RULE_TASK_MAX_SECONDS)
        *ret = rule_task_deadline_ms(MAX(t->dispatched_ms, h->window_started_ms), limit);
    else if (t->status == TASK_PENDING)
        *ret = due_pending(w, rule, limit, t, a);
    else if (t->status == TASK_SUSPENDED)
        return due_suspended(w, rule, limit, t, a, ret, err);
    else
        *ret = due_in_hand(w, rule, limit, t);
    return 0;
}

/* ---- look ---- */

static const enum statement look_updates[TIMED_RULE_COUNT] = {
    [RULE_WALL_CLOCK_NOTICE] = SQL_LOOK_UPDATE_NOTICE,
    [RULE_WALL_CLOCK] = SQL_LOOK_UPDATE_WALL_CLOCK,
    [RULE_IDLE] = SQL_LOOK_UPDATE_IDLE,
    [RULE_GLOBAL_IDLE] = SQL_LOOK_UPDATE_GLOBAL_IDLE,
};

static int set_look(struct work *w, struct head *h, enum rule_id rule, int64_t look_ms,
                    struct err *err)
{
    head_edit(w, h);
    h->look_ms[rule] = look_ms;
    w->next_look_ms = MIN(w->next_look_ms, look_ms);
    struct query *q = store_query(w->store, look_updates[rule]);
    query_int(q, 1, h->conversation);
    if (look_ms != NEVER_MS)
        query_int(q, 2, look_ms);
    return query_run(q, NULL, err);
}

int head_watch(struct work *w, struct head *h, struct err *err)
{
    int r = 0;
    for (enum rule_id rule = 0; r == 0 && rule < TIMED_RULE_COUNT; rule++) {
        int64_t due_ms = rule_due_ms(rule, w->options, &w->gaps, h);
        if (due_ms < h->look_ms[rule])
            r = set_look(w, h, rule, due_ms, err);
    }
    return r;
}

bool head_watch_would_write(const struct work *w, const struct head *h)
{
    int64_t limit = rule_limit(RULE_IDLE, w->options, h);
    return limit > 0 && gaps_due_ms(&w->gaps, w->now_ms, limit) < h->look_ms[RULE_IDLE];
}

int head_watch_again(struct work *w, struct head *h, struct err *err)
{
    int r = 0;
    for (enum rule_id rule = 0; r == 0 && rule < TIMED_RULE_COUNT; rule++) {
        int64_t due_ms = rule_due_ms(rule, w->options, &w->gaps, h);
        if (due_ms != h->look_ms[rule])
            r = set_look(w, h, rule, due_ms, err);
    }
    return r;
}

/* ---- limits that changed ---- */

/* -1: the rule is off for all, whatever a conversation asks for. */
static int64_t limit_in_force(enum rule_id rule, const struct options *o)
{
    if (measures_silence(rule) && !option_get(o, watchdog, enabled))
        return -1;
    if (rule == RULE_INBOX_PENDING) /* it has two; each has its digits */
        return rule_task_limit(rule, o) / 1000 * OPTION_SECONDS_MAX +
               option_get(o, pmo, pending_wakeup_skip_seconds);
    return rule < TIMED_RULE_COUNT ? default_limit(rule, o) : rule_task_limit(rule, o);
}

/* Those whose stored times to look were computed with a limit. */
static bool has_stored_look(enum rule_id rule)
{
    return rule < TIMED_RULE_COUNT || rule == RULE_INBOX_PENDING || rule == RULE_INBOX_PROCESSING ||
           (rule >= FIRST_TASK_RULE && rule <= LAST_TASK_RULE);
}

static int read_limit(struct work *w, enum rule_id rule, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_LIMIT_GET);
    query_text(q, 1, str_of(rule_name(rule)));
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = r == STORE_ROW ? query_get_int(q, 0) : INT64_MIN; /* unlike any limit */
    query_end(q);
    return 0;
}

static int store_limit(struct work *w, enum rule_id rule, struct err *err)
{
    struct query *q = store_query(w->store, SQL_LIMIT_PUT);
    query_text(q, 1, str_of(rule_name(rule)));
    query_int(q, 2, limit_in_force(rule, w->options));
    return query_run(q, NULL, err);
}

int rules_limits_changed(struct work *w, bool *ret, struct err *err)
{
    *ret = false;
    for (enum rule_id rule = 0; rule < RULE_COUNT; rule++) {
        int64_t before;
        if (!has_stored_look(rule))
            continue;
        int r = read_limit(w, rule, &before, err);
        if (r < 0)
            return r;
        *ret |= before != limit_in_force(rule, w->options);
    }
    return 0;
}

static int look_again(struct work *w, enum rule_id rule, struct err *err)
{
    static const enum statement statements[TIMED_RULE_COUNT] = {
        [RULE_WALL_CLOCK_NOTICE] = SQL_LOOK_AGAIN_NOTICE,
        [RULE_WALL_CLOCK] = SQL_LOOK_AGAIN_WALL_CLOCK,
        [RULE_IDLE] = SQL_LOOK_AGAIN_IDLE,
        [RULE_GLOBAL_IDLE] = SQL_LOOK_AGAIN_GLOBAL_IDLE,
    };
    struct query *q = store_query(w->store, statements[rule]);
    query_int(q, 1, limit_in_force(rule, w->options));
    return query_run(q, NULL, err);
}

int rules_apply_limits(struct work *w, struct err *err)
{
    int r = 0;
    work_mark_written(w);
    for (enum rule_id rule = 0; r == 0 && rule < TIMED_RULE_COUNT; rule++)
        r = look_again(w, rule, err);
    if (r == 0) /* each task and inbox row is looked at once, at the start */
        r = query_run(store_query(w->store, SQL_TASK_LOOK_AGAIN), NULL, err);
    if (r == 0)
        r = query_run(store_query(w->store, SQL_INBOX_LOOK_AGAIN), NULL, err);
    for (enum rule_id rule = 0; r == 0 && rule < RULE_COUNT; rule++)
        if (has_stored_look(rule))
            r = store_limit(w, rule, err);
    return r;
}
