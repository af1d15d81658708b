/* task.c: see task.h. */
#include "domain/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/planted.h"
#include "domain/append.h"
#include "domain/deliverable.h"
#include "domain/inbox.h"
#include "domain/process.h"
#include "domain/start.h"
#include "domain/tool.h"
#include "domain/queue.h"
#include "domain/task_end.h"
#include "domain/task_row.h"
#include "domain/task_span.h"
#include "domain/work.h"

enum { PAGE_ROWS = 256 };
enum { CONTENT_KEPT_BYTES_MAX = 1024 };

// clang-format off
const struct task_transition task_transitions[] = {
    /* from               trigger                      to                 epoch  attempt  inbox row */
    {TASK_QUEUED,       TRIGGER_PROMOTE,              TASK_PENDING,      true,  false, INBOX_NEW},
    {TASK_PENDING,      TRIGGER_CLAIM,                TASK_ACKNOWLEDGED, false, false, INBOX_PROCESSING},
    {TASK_ACKNOWLEDGED, TRIGGER_CLAIM,                TASK_ACKNOWLEDGED, true,  true,  INBOX_REFENCED},
    {TASK_ACKNOWLEDGED, TRIGGER_START,                TASK_IN_PROGRESS,  false, false, INBOX_CONSUMED},
    {TASK_IN_PROGRESS,  TRIGGER_SUSPEND,              TASK_SUSPENDED,    false, false, INBOX_STAYS},
    {TASK_SUSPENDED,    TRIGGER_RESUME,               TASK_IN_PROGRESS,  true,  false, INBOX_STAYS},
    {TASK_ACKNOWLEDGED, TRIGGER_RECOVER_ACKNOWLEDGED, TASK_PENDING,      true,  true,  INBOX_RENEWED},
    {TASK_IN_PROGRESS,  TRIGGER_RECOVER,              TASK_PENDING,      true,  true,  INBOX_NEW},
    {TASK_ACKNOWLEDGED, TRIGGER_BLOCK,                TASK_PENDING,      true,  false, INBOX_RENEWED},
    {TASK_IN_PROGRESS,  TRIGGER_BLOCK,                TASK_PENDING,      true,  false, INBOX_NEW},
    {TASK_IN_PROGRESS,  TRIGGER_COMPLETE,             TASK_COMPLETED,    false, false, INBOX_STAYS},
    {TASK_ACKNOWLEDGED, TRIGGER_FAIL,                 TASK_FAILED,       false, false, INBOX_CONSUMED},
    {TASK_IN_PROGRESS,  TRIGGER_FAIL,                 TASK_FAILED,       false, false, INBOX_STAYS},
    {TASK_SUSPENDED,    TRIGGER_FAIL,                 TASK_FAILED,       false, false, INBOX_STAYS},
    {TASK_PENDING,      TRIGGER_DISPATCH_TIMEOUT,     TASK_TIMEOUT,      true,  false, INBOX_CONSUMED},
    {TASK_ACKNOWLEDGED, TRIGGER_DISPATCH_TIMEOUT,     TASK_TIMEOUT,      true,  false, INBOX_CONSUMED},
    {TASK_IN_PROGRESS,  TRIGGER_REAP_TIMEOUT,         TASK_FAILED,       true,  false, INBOX_STAYS},
    {TASK_SUSPENDED,    TRIGGER_REAP_TIMEOUT,         TASK_FAILED,       true,  false, INBOX_STAYS},
    {TASK_PENDING,      TRIGGER_ATTEMPTS_EXHAUSTED,   TASK_FAILED,       true,  false, INBOX_CONSUMED},
    {TASK_PENDING,      TRIGGER_DEADLINE_EXCEEDED,    TASK_FAILED,       true,  false, INBOX_CONSUMED},
    {TASK_ACKNOWLEDGED, TRIGGER_DEADLINE_EXCEEDED,    TASK_FAILED,       true,  false, INBOX_CONSUMED},
    {TASK_IN_PROGRESS,  TRIGGER_DEADLINE_EXCEEDED,    TASK_FAILED,       true,  false, INBOX_STAYS},
    {TASK_SUSPENDED,    TRIGGER_DEADLINE_EXCEEDED,    TASK_FAILED,       true,  false, INBOX_STAYS},
    {TASK_QUEUED,       TRIGGER_CANCEL,               TASK_CANCELED,     true,  false, INBOX_STAYS},
    {TASK_PENDING,      TRIGGER_CANCEL,               TASK_CANCELED,     true,  false, INBOX_SKIPPED},
    {TASK_ACKNOWLEDGED, TRIGGER_CANCEL,               TASK_CANCELED,     true,  false, INBOX_SKIPPED},
    {TASK_IN_PROGRESS,  TRIGGER_CANCEL,               TASK_CANCELED,     true,  false, INBOX_STAYS},
    {TASK_SUSPENDED,    TRIGGER_CANCEL,               TASK_CANCELED,     true,  false, INBOX_STAYS},
};
// clang-format on
const size_t task_transition_count = ARRAY_LEN(task_transitions);

static bool is_active(enum task_status status)
{
    return status >= TASK_PENDING && status <= TASK_SUSPENDED;
}

bool task_is_active(const struct task *t)
{
    return is_active(t->status);
}

bool task_is_over(const struct task *t)
{
    return t->status >= TASK_COMPLETED;
}

/* ---- leases and looks ---- */

/* By what the worker itself says. */
static int64_t beats_until_ms(const struct work *w, const struct task *t)
{
    return t->beat_ms ? gaps_due_ms(&w->gaps, t->beat_ms, t->lease_ms) - 1 : 0;
}

int64_t task_active_until_ms(const struct work *w, const struct task *t)
{
    int64_t ttl_ms = option_get(w->options, machine, ttl_seconds) * 1000;
    int64_t by_machine_ms =
        t->machine_beat_ms ? gaps_due_ms(&w->gaps, t->machine_beat_ms, ttl_ms) - 1 : 0;
    return MAX(beats_until_ms(w, t), by_machine_ms);
}

void task_beat_by_machine(struct work *w, struct task *t)
{
    task_edit(w, t);
    t->machine_beat_ms = w->now_ms;
}

static bool has_worker(const struct task *t)
{
    return t->status == TASK_ACKNOWLEDGED || t->status == TASK_IN_PROGRESS;
}

int64_t task_lease_ms(const struct work *w, bool is_unattended)
{
    return 1000 * (is_unattended ? option_get(w->options, liveness, unattended_work_seconds)
                                 : option_get(w->options, liveness, active_ttl_seconds));
}

bool task_is_worked_on(const struct work *w, const struct task *t)
{
    return has_worker(t) && task_active_until_ms(w, t) >= w->now_ms;
}

bool task_worker_beats(const struct work *w, const struct task *t)
{
    return has_worker(t) && beats_until_ms(w, t) >= w->now_ms;
}

void task_beat(struct work *w, struct task *t)
{
    task_edit(w, t);
    t->beat_ms = w->now_ms;
    int64_t due_ms = task_active_until_ms(w, t) + 1;
    if (due_ms >= t->lease_look_ms)
        return;
    t->lease_look_ms = due_ms;
    leases_add(&w->leases, LEASE_WORKER, t->task, due_ms);
}

int task_check_epoch(struct work *w, struct task *t, int64_t epoch, struct err *err)
{
    (void)w;
    if (epoch == t->epoch || planted(STALE_EPOCH_ACCEPTED))
        return 0;
    err_set(err, ERR_STALE_EPOCH, "task %lld was handed out anew: its epoch is %lld",
            (long long)t->task, (long long)t->epoch);
    return err_int(err, "epoch", t->epoch);
}

/* The earliest time a rule could be due, the worker lease left out: that is looked at by itself. */
static int stored_due_ms(struct work *w, const struct task *t, int64_t *ret, struct err *err)
{
    *ret = NEVER_MS;
    for (enum rule_id rule = FIRST_TASK_RULE; rule <= LAST_TASK_RULE; rule++) {
        int64_t due_ms;
        if (rule == RULE_TASK_ORPHANED)
            continue;
        int r = rule_task_due_ms(w, rule, t, &due_ms, err);
        if (r < 0)
            return r;
        *ret = MIN(*ret, due_ms);
    }
    return 0;
}

static int set_look(struct work *w, struct task *t, int64_t look_ms, struct err *err)
{
    task_edit(w, t);
    t->look_ms = look_ms;
    w->next_look_ms = MIN(w->next_look_ms, look_ms);
    struct query *q = store_query(w->store, SQL_TASK_LOOK_UPDATE);
    query_int(q, 1, t->task);
    if (look_ms != NEVER_MS)
        query_int(q, 2, look_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

int task_watch(struct work *w, struct task *t, struct err *err)
{
    int64_t due_ms;
    int r = stored_due_ms(w, t, &due_ms, err);
    if (r < 0 || due_ms >= t->look_ms)
        return r;
    return set_look(w, t, due_ms, err);
}

int task_watch_again(struct work *w, struct task *t, struct err *err)
{
    int64_t due_ms;
    int r = stored_due_ms(w, t, &due_ms, err);
    if (r < 0 || due_ms == t->look_ms)
        return r;
    return set_look(w, t, due_ms, err);
}

int task_note_progress(struct work *w, struct task *t, struct err *err)
{
    if (t->status != TASK_IN_PROGRESS || t->progress_ms == w->now_ms)
        return 0;
    task_edit(w, t);
    int r = task_span_end(w, t, "progress", err);
    if (r < 0)
        return r;
    t->progress_ms = w->now_ms;
    bool is_kept = !t->spans.p && t->progress_ms - t->progress_stored_ms < PROGRESS_STORE_MS;
    return is_kept ? 0 : task_write_row(w, t, err);
}

int task_store(struct work *w, struct task *t, struct err *err)
{
    int r = stored_due_ms(w, t, &t->look_ms, err);
    if (r < 0)
        return r;
    w->next_look_ms = MIN(w->next_look_ms, t->look_ms);
    return task_write_row(w, t, err);
}

int task_note_restart(struct work *w, struct task *t, struct err *err)
{
    task_edit(w, t);
    t->restarted_ms = w->now_ms;
    return task_store(w, t, err);
}

int task_store_note(struct work *w, struct task *t, struct str note, struct err *err)
{
    task_edit(w, t);
    t->has_words = true;
    struct query *q = store_query(w->store, SQL_TASK_NOTE_UPDATE);
    query_int(q, 1, t->task);
    query_text(q, 2, note);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

/* ---- moving ---- */

static const struct task_transition *find_transition(enum task_status from,
                                                     enum task_trigger trigger)
{
    for (size_t i = 0; i < task_transition_count; i++)
        if (task_transitions[i].from == from && task_transitions[i].trigger == trigger)
            return &task_transitions[i];
    return NULL;
}

int task_refuse(const struct task *t, enum task_trigger trigger, struct err *err)
{
    _cleanup_buf_ struct buf allowed = BUF_INIT(1024);
    struct json_out j = JSON_OUT(&allowed);
    json_array(&j, NULL);
    for (size_t i = 0; i < task_transition_count; i++)
        if (task_transitions[i].from == t->status)
            json_stringz(&j, NULL, task_trigger_name(task_transitions[i].trigger));
    json_end(&j);
    err_set(err, ERR_INVALID_TRANSITION, "task %lld is %s: it cannot %s", (long long)t->task,
            task_status_name(t->status), task_trigger_name(trigger));
    err_str(err, "from", str_of(task_status_name(t->status)));
    err_str(err, "trigger", str_of(task_trigger_name(trigger)));
    return err_json(err, "allowed", buf_str(&allowed));
}

/* The times and the holder that belong to the status it enters. */
static void enter(struct work *w, struct task *t, const struct task_move *m)
{
    switch (t->status) {
    case TASK_PENDING:
        t->pending_ms = w->now_ms;
        if (!t->dispatched_ms)
            t->dispatched_ms = w->now_ms;
        t->restarted_ms = t->acknowledged_ms = t->started_ms = t->progress_ms = t->beat_ms = 0;
        t->machine_beat_ms = t->retried_ms = t->retries = 0;
        t->claimed_by[0] = t->claimed_spawn[0] = '\0';
        t->held = m->held;
        snprintf(t->held_spawn, sizeof t->held_spawn, "%.*s", STR_ARG(m->held_spawn));
        break;
    case TASK_ACKNOWLEDGED:
        t->acknowledged_ms = w->now_ms;
        t->lease_ms = m->lease_ms;
        snprintf(t->claimed_by, sizeof t->claimed_by, "%.*s", STR_ARG(m->connection));
        snprintf(t->claimed_spawn, sizeof t->claimed_spawn, "%.*s", STR_ARG(m->spawn));
        task_beat(w, t);
        break;
    case TASK_IN_PROGRESS:
        if (m->trigger == TRIGGER_START)
            t->started_ms = w->now_ms;
        if (m->trigger == TRIGGER_RESUME && m->connection.n)
            snprintf(t->claimed_by, sizeof t->claimed_by, "%.*s", STR_ARG(m->connection));
        if (m->trigger == TRIGGER_RESUME && m->spawn.n)
            snprintf(t->claimed_spawn, sizeof t->claimed_spawn, "%.*s", STR_ARG(m->spawn));
        if (m->trigger == TRIGGER_RESUME && m->lease_ms)
            t->lease_ms = m->lease_ms;
        t->progress_ms = w->now_ms;
        t->suspended_ms = 0;
        task_beat(w, t);
        break;
    case TASK_SUSPENDED:
        t->suspended_ms = w->now_ms;
        break;
    case TASK_COMPLETED:
    case TASK_FAILED:
    case TASK_TIMEOUT:
    case TASK_CANCELED:
        t->completed_ms = w->now_ms;
        t->end_trigger = m->trigger;
        t->stop_reason = m->stop_reason;
        t->beat_ms = t->machine_beat_ms = 0;
        t->held = HELD_NOT;
        t->held_spawn[0] = '\0';
        break;
    case TASK_QUEUED:
    case TASK_STATUS_COUNT:
        REQUIRE(!"a status to enter");
    }
}

/* A rule has taken it back: the reason, with what it saw. */
static int append_lost(struct work *w, const struct task *t, const struct task_move *m,
                       struct err *err)
{
    struct str data = arena_printf(
        &w->arena,
        "{\"task\":%lld,\"agent\":\"%lld:%s\",\"attempts\":%lld,\"epoch\":%lld,\"trigger\":\"%s\""
        "%s%.*s}",
        (long long)t->task, (long long)t->conversation, t->role, (long long)t->attempts,
        (long long)t->epoch, task_trigger_name(m->trigger), m->evidence.n ? "," : "",
        STR_ARG(m->evidence));
    struct event e;
    _cleanup_free_ char *kind = mem_printf("watch.%s", m->rule);
    int r = append_system(w, t->conversation, "system-watchdog", kind, data, NULL, &e, err);
    return r < 0 ? r : work_note_move(w, t->conversation, &e, m->rule, err);
}

static int append_move(struct work *w, const struct task *t, int64_t epoch,
                       const struct task_move *m, struct str undelivered, struct err *err)
{
    if (planted(TWO_TERMINAL_EVENTS) && task_is_over(t))
        task_end_append(w, t, epoch, m, undelivered, err);
    if (task_is_over(t))
        return task_end_append(w, t, epoch, m, undelivered, err);
    return m->rule ? append_lost(w, t, m, err) : 0;
}

/* The conversation counts what is open: its idle clock stands while anything is. */
static int count_open(struct work *w, struct head *h, bool was_active, bool is_active_now,
                      struct err *err)
{
    if (was_active == is_active_now)
        return 0;
    head_edit(w, h);
    h->open_tasks += is_active_now ? 1 : -1;
    if (!is_active_now)
        h->last_task_ms = w->now_ms;
    struct query *q = store_query(w->store, SQL_CONVERSATION_TASKS);
    query_int(q, 1, h->conversation);
    query_int(q, 2, h->open_tasks);
    query_int(q, 3, h->last_task_ms);
    int r = query_run(q, NULL, err);
    return r < 0 ? r : head_watch(w, h, err);
}

/* The agent as the move leaves it. That it is idle again is told of every end by a rule, with the
 * reason, even if nobody sees a difference. */
static int store_agent(struct work *w, struct agent *a, const struct task *t,
                       const struct task_move *m, struct err *err)
{
    if (m->rule && task_is_over(t))
        return agent_store_ended(w, a, m->rule, stop_reason_name(t->stop_reason), err);
    return agent_store(w, a, m->rule ? m->rule : task_trigger_name(m->trigger), err);
}

/* What changes with the task: agent, inbox row, conversation, and their rows. */
static int carry_out(struct work *w, struct task *t, struct agent *a, struct head *h,
                     const struct task_transition *tr, const struct task_move *m, struct err *err)
{
    int64_t old_epoch = t->epoch;
    struct str undelivered = STR_NONE;
    int r = task_span_end(w, t, m->rule ? m->rule : task_trigger_name(m->trigger), err);
    if (r < 0)
        return r;
    bool keeps_epoch = planted(NO_EPOCH_ON_RECOVER) && tr->loses_attempt;
    if (tr->bumps_epoch && !keeps_epoch)
        t->epoch = ++a->turn_epoch;
    t->attempts += tr->loses_attempt;
    t->status = tr->to;
    enter(w, t, m);
    if (a->spawn_id[0] && strcmp(t->claimed_spawn, a->spawn_id) == 0)
        a->has_delivered = m->trigger == TRIGGER_COMPLETE || m->trigger == TRIGGER_FAIL ||
                           m->trigger == TRIGGER_SUSPEND;
    if (is_active(tr->to))
        a->active_task = t->task;
    else if (a->active_task == t->task)
        a->active_task = 0;
    if (tr->from == TASK_SUSPENDED && tr->to != TASK_IN_PROGRESS)
        r = tools_interrupt(w, t, old_epoch, err);
    if (r == 0 && task_is_over(t))
        r = deliverable_of_end(w, t, m, &t->deliverable, &undelivered, err);
    if (r == 0)
        r = inbox_follow(w, t, old_epoch, tr->inbox, err);
    struct str error = task_end_error(t, m);
    if (r == 0 && error.p)
        r = task_end_store_error(w, t, error, err);
    if (r == 0)
        r = append_move(w, t, old_epoch, m, undelivered, err);
    if (r == 0)
        r = stored_due_ms(w, t, &t->look_ms, err);
    if (r < 0)
        return r;
    w->next_look_ms = MIN(w->next_look_ms, t->look_ms);
    bool is_new = t->unsaved.p;
    r = task_write_row(w, t, err);
    if (r == 0 && tr->from == TASK_QUEUED)
        r = queue_left(w, a, t, is_new, err);
    if (r == 0)
        r = store_agent(w, a, t, m, err);
    return r < 0 ? r : count_open(w, h, is_active(tr->from), is_active(tr->to), err);
}

/* Whose process does not do its work, or is not wanted to, is replaced; the next task is held until
 * the old process is proven dead. A hold passes on. */
static int hold_next(struct work *w, struct agent *a, const struct task *t, struct err *err)
{
    struct task *next;
    bool may_live;
    int r = process_may_live(w, t->claimed_spawn, &may_live, err);
    if (r < 0 || (!may_live && t->held == HELD_NOT))
        return r;
    r = a->active_task ? task_get(w, a->active_task, &next, err) : 0;
    if (r == 0 && a->active_task) {
        task_edit(w, next);
        next->held = !may_live                       ? t->held
                     : a->process == PROCESS_UNKNOWN ? HELD_MACHINE
                                                     : HELD_PROCESS;
        memcpy(next->held_spawn, may_live ? t->claimed_spawn : t->held_spawn,
               sizeof next->held_spawn);
        r = task_store(w, next, err);
    }
    return r < 0 || !may_live ? r : agent_replace(w, a, "its_task_ended", err);
}

static int give_next(struct work *w, struct agent *a, const struct task *t,
                     const struct task_move *m, struct err *err)
{
    int r = planted(NO_PROMOTION) ? 0 : task_promote(w, a, err);
    bool is_by_force = m->rule || m->trigger == TRIGGER_CANCEL;
    if (r == 0 && is_by_force)
        r = hold_next(w, a, t, err);
    if (r < 0 || a->process == PROCESS_RUNNING)
        return r;
    return agent_bring_up(w, a, "its_task_ended", err); /* who did it need not be its process */
}

int task_move(struct work *w, struct task *t, const struct task_move *m, struct err *err)
{
    struct agent *a;
    struct head *h;
    const struct task_transition *tr = find_transition(t->status, m->trigger);
    if (!tr)
        return task_refuse(t, m->trigger, err);
    REQUIRE((tr->to >= TASK_COMPLETED) == (m->stop_reason != STOP_REASON_NONE));
    int r = head_get(w, t->conversation, &h, err);
    if (r == 0)
        r = agent_get(w, t->conversation, str_of(t->role), &a, err);
    if (r < 0)
        return r;
    const struct task before = *t;
    task_edit(w, t);
    agent_edit(w, a);
    r = carry_out(w, t, a, h, tr, m, err);
    if (r < 0)
        return r;
    work_touch(w, agent_key_of(t->conversation, str_of(t->role)));
    bool frees = is_active(tr->from) && !is_active(tr->to) && !m->is_end_of_conversation;
    return frees ? give_next(w, a, &before, m, err) : 0;
}

/* ---- what agents ask for ---- */

static bool is_repeat(const struct task *t, const struct task_move *m)
{
    return t->end_trigger == m->trigger ||
           (m->trigger == TRIGGER_START && t->status == TASK_IN_PROGRESS);
}

int task_move_with_epoch(struct work *w, struct task *t, int64_t epoch, const struct task_move *m,
                         struct err *err)
{
    struct head *h;
    int r = task_check_epoch(w, t, epoch, err);
    if (r < 0)
        return r;
    if (is_repeat(t, m) && task_is_over(t))
        return task_end_check_repeat(w, t, m, err);
    if (is_repeat(t, m)) {
        task_beat(w, t);
        return 0;
    }
    r = head_get(w, t->conversation, &h, err);
    if (r == 0)
        r = head_check_active(h, err);
    return r < 0 ? r : task_move(w, t, m, err);
}

static int nothing_to_claim(const struct agent *a, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "there is nothing to claim for %lld:%s", (long long)a->conversation,
            a->role);
    err_str(err, "what", STR("task"));
    return err_str(err, "id", str_of(a->role));
}

static int refuse_claim(const struct task *t, struct err *err)
{
    if (t->held != HELD_NOT) {
        err_set(err, ERR_PRECONDITION_FAILED, "task %lld is held: its old %s is not proven dead",
                (long long)t->task, task_held_name(t->held));
        err_str(err, "expected", STR("not held"));
        return err_str(err, "actual", str_of(task_held_name(t->held)));
    }
    return task_refuse(t, TRIGGER_CLAIM, err);
}

int task_is_free(struct work *w, const struct task *t, struct str spawn, bool *ret, struct err *err)
{
    bool may_live = false;
    *ret = t->status == TASK_PENDING && (t->held == HELD_NOT || planted(HOLD_IGNORED));
    if (t->status != TASK_ACKNOWLEDGED || t->held != HELD_NOT || task_is_worked_on(w, t))
        return 0;
    /* A newcomer costs an attempt: the last one is the ladder's to take. */
    bool is_used_up = t->attempts + 1 >= rule_task_limit(RULE_TASK_EXHAUSTED, w->options);
    int r =
        str_is(spawn, t->claimed_spawn) ? 0 : process_may_live(w, t->claimed_spawn, &may_live, err);
    *ret = r == 0 && !is_used_up && (!may_live || planted(HOLD_IGNORED));
    return r;
}

int task_claim(struct work *w, struct agent *a, struct str connection, struct str spawn,
               int64_t task, bool is_unattended, struct task **ret, struct err *err)
{
    struct head *h;
    struct task *t;
    int r = head_get(w, a->conversation, &h, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r < 0)
        return r;
    if (agent_is_attended(w, a) && !str_is(connection, a->connection))
        return err_set(err, ERR_SUPERSEDED, "another connection listens for %lld:%s",
                       (long long)a->conversation, a->role);
    if (!a->active_task || (task && task != a->active_task))
        return nothing_to_claim(a, err);
    r = task_get(w, a->active_task, &t, err);
    if (r < 0)
        return r;
    *ret = t;
    bool is_its_own = str_is(connection, t->claimed_by) && str_is(spawn, t->claimed_spawn);
    if (is_its_own && (t->status == TASK_ACKNOWLEDGED || t->status == TASK_IN_PROGRESS)) {
        task_beat(w, t);
        return 0;
    }
    bool is_free;
    r = task_is_free(w, t, spawn, &is_free, err);
    if (r < 0 || !is_free)
        return r < 0 ? r : refuse_claim(t, err);
    struct task_move m = TASK_MOVE(TRIGGER_CLAIM);
    m.connection = connection;
    m.spawn = spawn;
    m.lease_ms = task_lease_ms(w, is_unattended);
    return task_move(w, t, &m, err);
}

/* ---- the queue ---- */

int task_promote(struct work *w, struct agent *a, struct err *err)
{
    struct head *h;
    struct task *t;
    int r = head_get(w, a->conversation, &h, err);
    if (r < 0 || a->active_task || h->status != CONVERSATION_ACTIVE)
        return r;
    r = queue_first(w, a, &t, err);
    return r < 0 || !t ? r : task_move(w, t, &TASK_MOVE(TRIGGER_PROMOTE), err);
}

int task_create(struct work *w, struct agent *a, struct str content, struct str channel,
                struct task **ret, struct err *err)
{
    struct task made = {.task = ++w->last.task,
                        .conversation = a->conversation,
                        .status = TASK_QUEUED,
                        .held = HELD_NOT,
                        .end_trigger = TRIGGER_NONE,
                        .stop_reason = STOP_REASON_NONE,
                        .created_ms = w->now_ms,
                        .look_ms = NEVER_MS,
                        .lease_look_ms = NEVER_MS,
                        .unsaved = content};
    snprintf(made.role, sizeof made.role, "%s", a->role);
    snprintf(made.channel, sizeof made.channel, "%.*s", STR_ARG(channel));
    if (content.n <= CONTENT_KEPT_BYTES_MAX)
        made.content = mem_strndup(content.p, content.n);
    struct task *t = *ret = task_add(w, &made);
    agent_edit(w, a);
    queue_join(a, t);
    int r = task_promote(w, a, err);
    if (r < 0 || t->status != TASK_QUEUED)
        return r;
    r = task_write_row(w, t, err);
    return r < 0 ? r : agent_store(w, a, "has_work", err);
}

/* ---- all of a conversation ---- */

typedef int each_fn(struct work *w, struct task *t, int64_t arg, struct err *err);

/* Page by page, since fn has statements of its own. */
static int each_open(struct work *w, int64_t conversation, each_fn *fn, int64_t arg,
                     struct err *err)
{
    int64_t page[PAGE_ROWS], after = 0;
    size_t n = PAGE_ROWS;
    int r = 0;
    while (r == 0 && n == PAGE_ROWS) {
        struct query *q = store_query(w->store, SQL_TASK_OPEN);
        query_int(q, 1, conversation);
        query_int(q, 2, after);
        query_int(q, 3, PAGE_ROWS);
        for (n = 0; (r = query_step(q, err)) == STORE_ROW;)
            page[n++] = query_get_int(q, 0);
        for (size_t i = 0; r == 0 && i < n; i++) {
            struct task *t;
            r = task_get(w, page[i], &t, err);
            if (r == 0)
                r = fn(w, t, arg, err);
            after = page[i];
        }
    }
    return r;
}

static int cancel_one(struct work *w, struct task *t, int64_t arg, struct err *err)
{
    (void)arg;
    struct task_move m = TASK_MOVE(TRIGGER_CANCEL);
    m.stop_reason = STOP_CONVERSATION_ENDED;
    m.is_end_of_conversation = true;
    return task_move(w, t, &m, err);
}

int tasks_cancel_open(struct work *w, int64_t conversation, struct err *err)
{
    return each_open(w, conversation, cancel_one, 0, err);
}

struct of_agent {
    const struct agent *agent;
    enum stop_reason reason;
};

static int cancel_of(struct work *w, struct task *t, int64_t arg, struct err *err)
{
    const struct of_agent *of = (const struct of_agent *)(intptr_t)arg;
    struct task_move m = TASK_MOVE(TRIGGER_CANCEL);
    m.stop_reason = of->reason;
    m.is_end_of_conversation = true; /* nothing is promoted */
    return strcmp(t->role, of->agent->role) == 0 ? task_move(w, t, &m, err) : 0;
}

int tasks_cancel_of(struct work *w, const struct agent *a, enum stop_reason reason, struct err *err)
{
    struct of_agent of = {a, reason};
    return each_open(w, a->conversation, cancel_of, (int64_t)(intptr_t)&of, err);
}

int task_hold(struct work *w, const struct task *t, struct task_move *m, struct err *err)
{
    struct agent *a;
    bool may_live = false;
    int r = agent_get(w, t->conversation, str_of(t->role), &a, err);
    if (r == 0)
        r = process_may_live(w, t->claimed_spawn, &may_live, err);
    if (r < 0 || !may_live)
        return r;
    m->held = a->process == PROCESS_UNKNOWN ? HELD_MACHINE : HELD_PROCESS;
    m->held_spawn = arena_str(&w->arena, str_of(t->claimed_spawn));
    return 0;
}

/* Its clocks stand while the conversation is blocked, and go on when that is resumed. */
static int stop_clocks(struct work *w, struct task *t, struct err *err)
{
    task_edit(w, t);
    int r = task_span_end(w, t, task_trigger_name(TRIGGER_BLOCK), err);
    return r < 0 || !t->spans.p ? r : task_write_row(w, t, err);
}

static int block_one(struct work *w, struct task *t, int64_t arg, struct err *err)
{
    struct task_move m = TASK_MOVE(TRIGGER_BLOCK);
    (void)arg;
    if (t->status != TASK_ACKNOWLEDGED && t->status != TASK_IN_PROGRESS)
        return stop_clocks(w, t, err);
    int r = task_hold(w, t, &m, err);
    return r < 0 ? r : task_move(w, t, &m, err);
}

int tasks_block(struct work *w, int64_t conversation, struct err *err)
{
    return each_open(w, conversation, block_one, 0, err);
}

static int resume_one(struct work *w, struct task *t, int64_t blocked_at_ms, struct err *err)
{
    if (!task_is_active(t))
        return 0;
    task_edit(w, t);
    int64_t *const clocks[] = {&t->pending_ms, &t->restarted_ms, &t->suspended_ms, &t->retried_ms};
    for (size_t i = 0; i < ARRAY_LEN(clocks); i++)
        *clocks[i] = gaps_after_block_ms(&w->gaps, *clocks[i], blocked_at_ms, w->now_ms);
    int r = t->status == TASK_SUSPENDED ? tools_unblock(w, t, blocked_at_ms, err) : 0;
    if (r == 0)
        r = stored_due_ms(w, t, &t->look_ms, err);
    if (r < 0)
        return r;
    w->next_look_ms = MIN(w->next_look_ms, t->look_ms);
    work_touch(w, agent_key_of(t->conversation, str_of(t->role)));
    return task_write_row(w, t, err);
}

int tasks_resume(struct work *w, int64_t conversation, int64_t blocked_at_ms, struct err *err)
{
    struct agent_role *roles;
    int r = each_open(w, conversation, resume_one, blocked_at_ms, err);
    if (r == 0)
        r = inbox_resume(w, conversation, blocked_at_ms, err);
    if (r == 0)
        r = agent_roles(w, conversation, &roles, err);
    for (struct agent_role *role = r == 0 ? roles : NULL; r == 0 && role; role = role->next) {
        struct agent *a;
        r = agent_get(w, conversation, role->name, &a, err);
        if (r == 0)
            r = task_promote(w, a, err); /* what was queued while nothing could be promoted */
    }
    return r;
}

/* ---- at a start ---- */

/* What could not be heard or was not stored is given back. */
static void grant(struct work *w, struct task *t)
{
    task_beat(w, t);
    t->progress_stored_ms = t->progress_ms;
    if (t->progress_ms)
        t->progress_ms = MIN(t->progress_ms + PROGRESS_STORE_MS, w->now_ms);
}

static int grant_status(struct work *w, enum task_status status, struct err *err)
{
    int64_t page[PAGE_ROWS], after = 0;
    size_t n = PAGE_ROWS;
    int r = 0;
    while (r == 0 && n == PAGE_ROWS) {
        struct query *q = store_query(w->store, SQL_TASK_LIST_BY_STATUS);
        query_int(q, 1, after);
        query_int(q, 2, PAGE_ROWS);
        query_text(q, 3, str_of(task_status_name(status)));
        for (n = 0; (r = query_step(q, err)) == STORE_ROW;)
            page[n++] = query_get_int(q, 0);
        for (size_t i = 0; r == 0 && i < n; i++) {
            struct task *t;
            r = task_get(w, page[i], &t, err);
            if (r == 0)
                grant(w, t);
            after = page[i];
        }
    }
    return r;
}

int tasks_grant_leases(struct work *w, struct err *err)
{
    int r = grant_status(w, TASK_ACKNOWLEDGED, err);
    return r < 0 ? r : grant_status(w, TASK_IN_PROGRESS, err);
}
