/*
 * ladder.c: see ladder.h. First the moves, then the table; engine.c applies it.
 *
 * To add a rule: its name and arithmetic in domain/rule.[ch] (limit, base, when it applies), a
 * column with an index and its LOOK_ statements, a move, a row here; if it moves something new, a
 * source in engine.c. docs/ladder.md and `watchdog.rules` follow; `why`, `reeve why` and `backtest`
 * want a word each for what it does.
 *
 * Of several rules due for one thing the earliest acts, and of those due together the first in the
 * table.
 */
#include "watch/ladder.h"

#include <string.h>

#include "base/clock.h"
#include "base/fail_point.h"
#include "base/mem.h"
#include "base/planted.h"
#include "domain/agent.h"
#include "domain/process.h"
#include "domain/start.h"
#include "domain/append.h"
#include "domain/command.h"
#include "domain/conversation.h"
#include "domain/head.h"
#include "domain/inbox.h"
#include "domain/machine.h"
#include "domain/participant.h"
#include "domain/task.h"
#include "domain/tool.h"
#include "domain/work.h"
#include "watch/ring.h"

/* ---- moves ---- */

static int append_advisory(struct work *w, const struct head *h, enum rule_id rule,
                           const char *last_event, struct event *ret, struct err *err)
{
    struct str data = arena_printf(&w->arena, "{\"lastEventTs\":\"%s\",\"idleMs\":%lld}",
                                   last_event, (long long)rule_limit(rule, w->options, h));
    return append_system(w, h->conversation, "system-watchdog", "idle_timeout", data, NULL, ret,
                         err);
}

/* conversation.idle, conversation.global_idle: the advisory and the end, together or not at all. */
static int cancel_idle(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    struct head *h = s->head;
    const bool is_global = rule == RULE_GLOBAL_IDLE;
    const char *reason = is_global ? "global_idle_timeout" : "idle_timeout";
    char last_event[CLOCK_ISO_BYTES];
    clock_iso(h->last_activity_ms, last_event);
    struct event advisory, terminal;
    int r = append_advisory(w, h, rule, last_event, &advisory, err);
    if (r < 0)
        return r;
    fail_point(FAIL_WITHIN_MOVE);
    const struct append a = {
        .conversation = h->conversation,
        .agent_id = STR("system-watchdog"),
        .finality = FINALITY_CONVERSATION,
        .payload = arena_printf(&w->arena,
                                "{\"text\":\"Auto-canceled after idle timeout.\","
                                "\"outcome\":{\"status\":\"canceled\",\"reason\":\"%s\"},"
                                "\"metadata\":{\"reason\":\"%s\",\"lastEventTs\":\"%s\"}}",
                                reason, reason, last_event),
        .precondition_closed_seq = -1,
        .outcome = OUTCOME_CANCELED,
        .stop_reason = is_global ? STOP_GLOBAL_IDLE_TIMEOUT : STOP_IDLE_TIMEOUT,
        .is_from_above = true};
    r = append_message(w, &a, &terminal, err);
    return r < 0 ? r : work_note_move(w, h->conversation, &advisory, rule_name(rule), err);
}

/* session.wall_clock: no end, but nothing more is written until somebody resumes it. */
static int block(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    return conversation_block(w, s->head, rule_limit(rule, w->options, s->head) / 1000, err);
}

/* session.wall_clock_notice: says so once per window. */
static int give_notice(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    struct head *h = s->head;
    char started[CLOCK_ISO_BYTES], blocks[CLOCK_ISO_BYTES];
    int64_t budget_ms = rule_limit(RULE_WALL_CLOCK, w->options, h);
    clock_iso(h->window_started_ms, started);
    clock_iso(h->window_started_ms + budget_ms, blocks);
    struct str data = arena_printf(
        &w->arena,
        "{\"session_started_at\":\"%s\",\"elapsed_seconds\":%lld,"
        "\"configured_budget_seconds\":%lld,\"budget_ends_at\":\"%s\",\"window\":%lld}",
        started, (long long)((w->now_ms - h->window_started_ms) / 1000),
        (long long)(budget_ms / 1000), blocks, (long long)h->window);
    struct event e;
    int r = append_system(w, h->conversation, "system-watchdog", "runtime.watchdog.notice", data,
                          NULL, &e, err);
    if (r < 0)
        return r;
    h->notice_given = true;
    r = head_write_state(w, h, err);
    return r < 0 ? r : work_note_move(w, h->conversation, &e, rule_name(rule), err);
}

/* participant.expire */
static int expire(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    (void)rule;
    return participant_expire(w, s->agent, err);
}

/* agent.exited: the wait is over. */
static int start_again(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    (void)rule;
    return agent_start_again(w, s->agent, err);
}

static int expire_command(struct work *w, const struct subject *s, enum rule_id rule,
                          struct err *err)
{
    (void)rule;
    return command_expire(w, s->command, err);
}

static int go_offline(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    (void)rule;
    return machine_move(w, s->machine, err);
}

/* What the rules of suspended tasks look at, as more members; nothing of others. */
static struct str evidence_of_calls(struct work *w, const struct task *t)
{
    struct tools_summary s;
    char suspended[CLOCK_ISO_BYTES], settled[CLOCK_ISO_BYTES];
    if (t->status != TASK_SUSPENDED || tools_summarize(w, t, &s, NULL) < 0)
        return STR("");
    clock_iso(t->suspended_ms, suspended);
    clock_iso(MAX(t->suspended_ms, s.settled_ms), settled);
    return arena_printf(&w->arena,
                        ",\"suspendedAt\":\"%s\",\"lastSettledAt\":\"%s\",\"calls\":%lld,"
                        "\"waiting\":%lld",
                        suspended, settled, (long long)s.calls, (long long)s.waiting);
}

/* What a rule saw of a task, and its limit: JSON members. */
static struct str evidence(struct work *w, const struct task *t, enum rule_id rule)
{
    char until[CLOCK_ISO_BYTES], pending[CLOCK_ISO_BYTES];
    struct str calls = evidence_of_calls(w, t);
    clock_iso(task_active_until_ms(w, t), until);
    clock_iso(t->pending_ms, pending);
    return arena_printf(
        &w->arena,
        "\"status\":\"%s\",\"pendingAt\":\"%s\",\"activeUntil\":%s%s%s,"
        "\"limit\":%lld%.*s",
        task_status_name(t->status), pending, t->beat_ms ? "\"" : "", t->beat_ms ? until : "null",
        t->beat_ms ? "\"" : "",
        (long long)(rule == RULE_TASK_ORPHANED ? t->lease_ms : rule_task_limit(rule, w->options)),
        STR_ARG(calls));
}

static int move_task(struct work *w, struct task *t, enum task_trigger trigger,
                     enum stop_reason stop_reason, enum rule_id rule, struct err *err)
{
    struct task_move m = TASK_MOVE(trigger);
    m.stop_reason = stop_reason;
    int r = task_hold(w, t, &m, err);
    if (r < 0)
        return r;
    m.rule = rule_name(rule);
    m.evidence = evidence(w, t, rule);
    return task_move(w, t, &m, err);
}

static int restart(struct work *w, const struct task *t, enum rule_id rule, struct err *err)
{
    struct agent *a;
    int r = agent_get(w, t->conversation, str_of(t->role), &a, err);
    return r < 0 ? r : agent_replace(w, a, rule_name(rule), err);
}

/* queue.sweep: what should have been dispatched when its agent became free. */
static int sweep(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    struct agent *a;
    int r = move_task(w, s->task, TRIGGER_PROMOTE, STOP_REASON_NONE, rule, err);
    if (r == 0)
        r = agent_get(w, s->task->conversation, str_of(s->task->role), &a, err);
    return r < 0 ? r : agent_bring_up(w, a, rule_name(rule), err);
}

/* task.acknowledged, task.orphaned: back to pending, an attempt is lost. */
static int take_back(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    struct task *t = s->task;
    int r =
        move_task(w, t, rule == RULE_TASK_ORPHANED ? TRIGGER_RECOVER : TRIGGER_RECOVER_ACKNOWLEDGED,
                  STOP_REASON_NONE, rule, err);
    bool is_given_up = t->attempts >= rule_task_limit(RULE_TASK_EXHAUSTED, w->options);
    return r < 0 || is_given_up ? r : restart(w, t, rule, err);
}

/* inbox.processing: of a turn, its task is taken back, and its row with it. */
static int hand_out_again(struct work *w, const struct subject *s, enum rule_id rule,
                          struct err *err)
{
    struct subject of = {0};
    int64_t task;
    if (s->inbox->type != INBOX_OF_TURN)
        return ring_taken(w, s, rule, err);
    if (!str_to_int(s->inbox->correlation, &task))
        return err_set(err, ERR_INTERNAL, "inbox row %lld is damaged", (long long)s->inbox->inbox);
    int r = task_get(w, task, &of.task, err);
    return r < 0 ? r : take_back(w, &of, rule, err);
}

/* task.unattended, task.unresumed: one start of its agent; the clock begins anew. Nothing can be
 * started for an unmanaged one: that nobody is there is on record then, once for the time it is so.
 */
static int attend(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    struct task *t = s->task;
    struct agent *a;
    struct event e;
    int r = agent_get(w, t->conversation, str_of(t->role), &a, err);
    if (r < 0)
        return r;
    struct str data = arena_printf(
        &w->arena, "{\"task\":%lld,\"agent\":\"%lld:%s\",%.*s,\"listens\":%s%s}",
        (long long)t->task, (long long)t->conversation, t->role, STR_ARG(evidence(w, t, rule)),
        agent_is_attended(w, a) ? "true" : "false", a->kind[0] ? "" : ",\"reason\":\"unmanaged\"");
    struct str kind = arena_printf(&w->arena, "watch.%s", rule_name(rule));
    r = append_system(w, t->conversation, "system-watchdog", kind.p, data, NULL, &e, err);
    if (r == 0)
        r = work_note_move(w, t->conversation, &e, rule_name(rule), err);
    if (r == 0)
        r = task_note_restart(w, t, err);
    return r < 0 ? r : agent_replace(w, a, rule_name(rule), err);
}

/* Beside the task's own end: who made it, on what evidence and by which limit (P13). */
static int append_terminated(struct work *w, const struct task *t, int64_t epoch, enum rule_id rule,
                             struct str saw, struct err *err)
{
    struct str data = arena_printf(&w->arena,
                                   "{\"task\":%lld,\"agent\":\"%lld:%s\",\"reason\":\"%s\","
                                   "\"epoch\":%lld,\"rule\":\"%s\",%.*s}",
                                   (long long)t->task, (long long)t->conversation, t->role,
                                   stop_reason_name(t->stop_reason), (long long)epoch,
                                   rule_name(rule), STR_ARG(saw));
    struct event e;
    return append_system(w, t->conversation, "system-watchdog", "agent.force_terminated", data,
                         NULL, &e, err);
}

/* The rules that end a task. */
static int reap(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    static const struct {
        enum rule_id rule;
        enum task_trigger trigger;
        enum stop_reason reason;
    } ends[] = {
        {RULE_DISPATCH_REAP, TRIGGER_DISPATCH_TIMEOUT, STOP_DISPATCH_TIMEOUT},
        {RULE_RUNNING_REAP, TRIGGER_REAP_TIMEOUT, STOP_REAPED},
        {RULE_SUSPENDED_REAP, TRIGGER_REAP_TIMEOUT, STOP_REAPED},
        {RULE_TASK_EXHAUSTED, TRIGGER_ATTEMPTS_EXHAUSTED, STOP_ATTEMPTS_EXHAUSTED},
        {RULE_TASK_MAX_SECONDS, TRIGGER_DEADLINE_EXCEEDED, STOP_TASK_DEADLINE},
    };
    size_t i = 0;
    while (ends[i].rule != rule)
        REQUIRE(++i < ARRAY_LEN(ends));
    int64_t epoch = s->task->epoch;
    struct str saw = evidence(w, s->task, rule);
    int r = move_task(w, s->task, ends[i].trigger, ends[i].reason, rule, err);
    return r < 0 || planted(NO_REASON) ? r : append_terminated(w, s->task, epoch, rule, saw, err);
}

static int time_out(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    (void)rule;
    return tool_time_out(w, s->tool, err);
}

static int requeue(struct work *w, const struct subject *s, enum rule_id rule, struct err *err)
{
    (void)rule;
    return tool_requeue(w, s->tool, err);
}

/* ---- the table ---- */

// clang-format off
const struct rule ladder_rules[RULE_COUNT] = {
    [RULE_WALL_CLOCK_NOTICE] = {
        .rung = RUNG_RING, .seed = "003", .next = SQL_LOOK_NEXT_NOTICE,
        .key = "runtime_controls.session_wall_clock_seconds", .unit_ms = 1000,
        .own = "runtime_controls.session_wall_clock_seconds",
        .replayed = "the log: when a window began",
        .due = "active, and 80 % of the window's budget is used",
        .does = "tells everybody who listens, once per window",
        .event = "`runtime.watchdog.notice`",
        .act = give_notice},
    [RULE_WALL_CLOCK] = {
        .rung = RUNG_CANCEL, .seed = "003", .next = SQL_LOOK_NEXT_WALL_CLOCK,
        .key = "runtime_controls.session_wall_clock_seconds", .unit_ms = 1000,
        .own = "runtime_controls.session_wall_clock_seconds",
        .replayed = "the log: when a window began",
        .due = "active, and the window is older than its budget; unwatched time counts",
        .does = "blocks it (`watchdog_wall_clock_exceeded`); its agents are stopped; `conversation.resume` opens a new window",
        .event = "`runtime.watchdog.cancel`",
        .act = block},
    [RULE_IDLE] = {
        .rung = RUNG_CANCEL, .seed = "000", .next = SQL_LOOK_NEXT_IDLE,
        .key = "watchdog.idle_ms", .unit_ms = 1,
        .own = "watchdog.idleMs",
        .replayed = "the log, and when tasks were open",
        .due = "active, a turn is open, and nobody has written for the limit of watched time",
        .does = "ends it: canceled, `idle_timeout`; its agents are stopped",
        .event = "`idle_timeout`, then the terminal message",
        .act = cancel_idle},
    [RULE_GLOBAL_IDLE] = {
        .rung = RUNG_CANCEL, .seed = "000", .next = SQL_LOOK_NEXT_GLOBAL_IDLE,
        .key = "watchdog.global_idle_ms", .unit_ms = 1,
        .own = "watchdog.globalIdleMs",
        .replayed = "the log, and when tasks were open",
        .due = "active, no turn is open, and nobody has written for the limit of watched time",
        .does = "ends it: canceled, `global_idle_timeout`; its agents are stopped",
        .event = "`idle_timeout`, then the terminal message",
        .act = cancel_idle},
    [RULE_MAX_TURNS] = {
        .rung = RUNG_CANCEL, .seed = "000",
        .key = NULL,
        .own = "maxTurns",
        .due = "a message closes the last turn that is allowed",
        .does = "ends it in the transaction of that message: canceled, `max_turns`",
        .event = "the terminal message"},
    [RULE_MACHINE_OFFLINE] = {
        .rung = RUNG_RING, .seed = "001",
        .key = "machine.ttl_seconds", .unit_ms = 1000,
        .not_replayed = "the polls of machines are kept in memory only",
        .due = "a machine has not polled for the limit of watched time",
        .does = "offline; what is known of its processes becomes unknown, and their work is held; after `machine.fence_seconds` more of watched time it is lost: work is given to others, and agents that nobody pinned to it are started on other machines",
        .event = "`machine.offline`, `machine.fenced` in conversation 0",
        .act = go_offline},
    [RULE_AGENT_EXITED] = {
        .rung = RUNG_RESTART, .seed = "001",
        .key = "restart.backoff_first_ms", .unit_ms = 1,
        .not_replayed = "what an agent does after an earlier or later start is in no record",
        .due = "its process failed or ended unasked, and the wait before the next start is over",
        .does = "starts it again, unless nobody wants it any more; too many failures open the breaker",
        .event = "`watch.agent.exited`, if there was a wait; `agent.state`",
        .act = start_again},
    [RULE_COMMAND_EXPIRED] = {
        .rung = RUNG_RESTART, .seed = "001", .next = SQL_LOOK_NEXT_COMMAND,
        .key = "restart.command_deadline_seconds", .unit_ms = 1000,
        .not_replayed = "what a machine does with an order that is given again is in no record",
        .due = "a start or stop was not confirmed by its deadline, and its machine is online",
        .does = "a start is closed, counted as a failure and tried again; a stop is sent again with twice the time, five times in all, and then `agent.unstoppable` says once that a person must act",
        .event = "`watch.command.expired`",
        .act = expire_command},
    [RULE_QUEUE_SWEEP] = {
        .rung = RUNG_RING, .seed = "002",
        .key = NULL,
        .due = "a task is queued and its agent has nothing to do; looked for in every pass",
        .does = "dispatches it, and starts its agent if it may be",
        .event = "`watch.queue.sweep`",
        .act = sweep},
    [RULE_INBOX_PENDING] = {
        .rung = RUNG_RING, .seed = "002", .next = SQL_LOOK_NEXT_INBOX_PENDING,
        .key = "pmo.pending_wakeup_seconds", .unit_ms = 1000, .is_ring = true,
        .not_replayed = "it only rings: it moves nothing",
        .due = "an inbox row is pending for the limit; again with waits that double up to a minute",
        .does = "rings; one that is no turn and has no channel is skipped after `pmo.pending_wakeup_skip_seconds` (`missing_channel`)",
        .event = "`watch.inbox.pending`, once per row",
        .act = ring_pending},
    [RULE_INBOX_PROCESSING] = {
        .rung = RUNG_RECLAIM, .seed = "002", .next = SQL_LOOK_NEXT_INBOX_PROCESSING,
        .key = "worker.inbox_processing_timeout_seconds", .unit_ms = 1000,
        .not_replayed = "it depends on the beats of workers, which are kept in memory only",
        .due = "an inbox row was received and not consumed for the limit; of a turn, also nobody works on its task",
        .does = "pending again, and a ring; of a turn, its task is taken back; after `liveness.max_attempts` times it is an error (`attempts_exhausted`)",
        .event = "`watch.inbox.processing`",
        .act = hand_out_again},
    [RULE_PARTICIPANT_EXPIRE] = {
        .rung = RUNG_RECLAIM, .seed = "001",
        .key = "liveness.ttl_seconds", .unit_ms = 1000,
        .not_replayed = "the beats of listeners are kept in memory only",
        .due = "the listener has not beaten for the limit of watched time",
        .does = "disconnected; if a task waits for it and no process of it is known, it is started",
        .event = "`watch.participant.expire`",
        .act = expire},
    [RULE_TOOL_TIMEOUT] = {
        .rung = RUNG_RECLAIM, .seed = "002", .next = SQL_LOOK_NEXT_TOOL,
        .key = "worker.suspend_timeout_seconds", .unit_ms = 1000,
        .replayed = "how long calls were open, and what they asked for",
        .due = "suspended, and the deadline of a call has passed: the setting, or what the call asked for if that is longer",
        .does = "its result is a timeout (`tool_timeout`), in the agent's inbox; a call whose card is lost is `expired`",
        .event = "`watch.tool.timeout`",
        .act = time_out},
    [RULE_LEDGER_REQUEUE] = {
        .rung = RUNG_RECLAIM, .seed = "002", .next = SQL_LOOK_NEXT_TOOL,
        .key = "worker.watchdog_interval_seconds", .unit_ms = 1000,
        .not_replayed = "when results were lent is not kept once they are applied",
        .due = "a result was taken by `task.resume` and not applied for twice the setting, at least 10 s",
        .does = "it can be taken again",
        .event = "`watch.ledger.requeue`",
        .act = requeue},
    [RULE_LEDGER_RECONCILE] = {
        .rung = RUNG_RECLAIM, .seed = "002",
        .key = "worker.watchdog_interval_seconds", .unit_ms = 1000,
        .not_replayed = "it moves nothing",
        .due = "never: a result and its entry in the ledger are one row, which the store holds to that",
        .does = "nothing",
        .event = "none"},
    [RULE_DISPATCH_RETRY] = {
        .rung = RUNG_RING, .seed = "002", .next = SQL_LOOK_NEXT_TASK,
        .key = "pmo.dispatched_retry_seconds", .unit_ms = 1000, .is_ring = true,
        .not_replayed = "it only rings: it moves nothing",
        .due = "pending and not claimed for the limit; again with waits that double up to a minute",
        .does = "makes sure that its inbox row is there and pending, and rings",
        .event = "`watch.dispatch.retry`, if it is the first ring or the row had to be put right",
        .act = ring_dispatched},
    [RULE_TASK_ACKNOWLEDGED] = {
        .rung = RUNG_RECLAIM, .seed = "001", .next = SQL_LOOK_NEXT_TASK,
        .key = "liveness.acknowledged_timeout_seconds", .unit_ms = 1000,
        .not_replayed = "the beats of workers are kept in memory only",
        .due = "claimed and not started for the limit, and the worker lease is over",
        .does = "back to pending with a new epoch, an attempt lost; its agent is started",
        .event = "`watch.task.acknowledged`",
        .act = take_back},
    [RULE_TASK_ORPHANED] = {
        .rung = RUNG_RECLAIM, .seed = "001",
        .key = "liveness.active_ttl_seconds", .unit_ms = 1000,
        .not_replayed = "the beats of workers are kept in memory only",
        .due = "in progress, and the worker lease is over",
        .does = "back to pending with a new epoch, an attempt lost; its agent is started",
        .event = "`watch.task.orphaned`",
        .act = take_back},
    [RULE_TASK_UNATTENDED] = {
        .rung = RUNG_RESTART, .seed = "001", .next = SQL_LOOK_NEXT_TASK,
        .key = "liveness.pending_timeout_seconds", .unit_ms = 1000,
        .not_replayed = "the beats of listeners are kept in memory only",
        .due = "pending, and nobody has listened for the limit",
        .does = "one start of its agent, unless a person stopped it; for an unmanaged one, which nobody can start, it is told once",
        .event = "`watch.task.unattended`",
        .act = attend},
    [RULE_TASK_UNRESUMED] = {
        .rung = RUNG_RESTART, .seed = "002", .next = SQL_LOOK_NEXT_TASK,
        .key = "liveness.pending_timeout_seconds", .unit_ms = 1000,
        .not_replayed = "whether somebody resumed in time depends on processes that ran",
        .due = "suspended, all its calls are settled, and for the limit nobody has resumed it, whether somebody listens or not",
        .does = "one start of its agent in place of the process it has, unless a person stopped it; where nothing can be started it is told once",
        .event = "`watch.task.unresumed`",
        .act = attend},
    [RULE_DISPATCH_REAP] = {
        .rung = RUNG_REAP, .seed = "002", .next = SQL_LOOK_NEXT_TASK,
        .key = "pmo.dispatched_timeout_seconds", .unit_ms = 1000,
        .replayed = "how long tasks were pending, and claimed",
        .due = "pending or claimed, and not started for the limit",
        .does = "ends it: timeout, `dispatch_timeout`; the next in the queue is dispatched",
        .event = "`agent.task`, `agent.force_terminated`",
        .act = reap},
    [RULE_RUNNING_REAP] = {
        .rung = RUNG_REAP, .seed = "002", .next = SQL_LOOK_NEXT_TASK,
        .key = "pmo.active_reap_seconds", .unit_ms = 1000,
        .replayed = "how long tasks were without progress",
        .due = "in progress, and no progress for the limit, alive or not",
        .does = "ends it: failed, `timeout_reaped_by_watchdog`; the next in the queue is dispatched",
        .event = "`agent.task`, `agent.force_terminated`",
        .act = reap},
    [RULE_SUSPENDED_REAP] = {
        .rung = RUNG_REAP, .seed = "002", .next = SQL_LOOK_NEXT_TASK,
        .key = "pmo.suspended_reap_seconds", .unit_ms = 1000,
        .replayed = "how long tasks were suspended with no deadline ahead",
        .due = "suspended, no deadline of a call is ahead, and the limit has passed since it was suspended or the last call was settled",
        .does = "ends it: failed, `timeout_reaped_by_watchdog`; calls that are open are closed as `interrupted`; the next in the queue is dispatched",
        .event = "`agent.task`, `agent.force_terminated`",
        .act = reap},
    [RULE_TASK_EXHAUSTED] = {
        .rung = RUNG_REAP, .seed = "001", .next = SQL_LOOK_NEXT_TASK,
        .key = "liveness.max_attempts", .unit_ms = 1,
        .replayed = "the log: when attempts were lost",
        .due = "pending, and as many attempts were lost",
        .does = "ends it: failed, `attempts_exhausted`",
        .event = "`agent.task`, `agent.force_terminated`",
        .act = reap},
    [RULE_TASK_MAX_SECONDS] = {
        .rung = RUNG_REAP, .seed = "002", .next = SQL_LOOK_NEXT_TASK,
        .key = "task.max_seconds", .unit_ms = 1000,
        .replayed = "when tasks were dispatched and ended, and windows began",
        .due = "the limit has passed since it was first dispatched, or since the window began; unwatched time counts",
        .does = "ends it: failed, `task_deadline_exceeded`",
        .event = "`agent.task`, `agent.force_terminated`",
        .act = reap},
};
// clang-format on

static const char *const rung_names[] = {
#define X(name, text) [RUNG_##name] = text,
    RUNG_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(rung_names) == RUNG_COUNT, "a name for each rung");

const char *rung_name(enum rung rung)
{
    return rung_names[rung];
}

enum rule_id ladder_first_due(const struct options *o, const struct gaps *g, const struct head *h,
                              int64_t *ret_due_ms)
{
    enum rule_id first = RULE_COUNT;
    *ret_due_ms = NEVER_MS;
    for (enum rule_id rule = 0; rule < TIMED_RULE_COUNT; rule++) {
        int64_t due_ms = rule_due_ms(rule, o, g, h);
        if (due_ms < *ret_due_ms) {
            *ret_due_ms = due_ms;
            first = rule;
        }
    }
    return first;
}

int64_t ladder_limit(const struct options *o, enum rule_id rule)
{
    const struct head none = {.idle_ms = LIMIT_DEFAULT,
                              .global_idle_ms = LIMIT_DEFAULT,
                              .session_wall_clock_seconds = LIMIT_DEFAULT};
    return rule > RULE_MAX_TURNS ? rule_task_limit(rule, o) : rule_limit(rule, o, &none);
}

const char *ladder_not_replayed(const char *key, bool *ret_is_limit)
{
    const char *why = NULL;
    *ret_is_limit = false;
    for (enum rule_id rule = 0; rule < RULE_COUNT; rule++) {
        const struct rule *row = &ladder_rules[rule];
        if (!row->key || strcmp(row->key, key) != 0)
            continue;
        *ret_is_limit = true;
        if (row->not_replayed)
            why = row->not_replayed;
    }
    return why;
}

static void write_backtest_docs(struct buf *out)
{
    buf_addz(out,
             "\n## What `reeve backtest` replays\n\n"
             "A backtest begins with the limits in force, and follows each conversation and each "
             "task up to the first move that the record does not have. A setting that cannot be "
             "replayed is refused. Of tasks from before schema 6 only what the log tells is "
             "replayed; they are counted.\n\n"
             "| rule | setting | replayed from | not replayed, because |\n|---|---|---|---|\n");
    for (enum rule_id rule = 0; rule < RULE_COUNT; rule++) {
        const struct rule *row = &ladder_rules[rule];
        if (row->key)
            buf_addf(out, "| `%s` | `%s` | %s | %s |\n", rule_name(rule), row->key,
                     row->replayed ? row->replayed : "",
                     row->not_replayed ? row->not_replayed : "");
    }
}

void ladder_write_docs(struct buf *out)
{
    buf_addz(out,
             "# The ladder\n\nGenerated from the table of rules (`src/watch/ladder.c`) by "
             "`make docs`.\n\n"
             "Whatever stalls is moved up one ladder: ring → reclaim → restart → reap → cancel. A "
             "limit is exceeded when more than it has passed; evidence in the same millisecond "
             "wins; 0 is always off. Of the rules due for a conversation the earliest acts, and of "
             "those due together the first in this table. Time in which nobody watched (the server "
             "down, stopped or suspended: `watch.gap` in conversation 0) is left out, except where "
             "the table says otherwise.\n\n"
             "| rule | rung | due when | what it does | event | setting | of a conversation | seed "
             "|\n|---|---|---|---|---|---|---|---|\n");
    for (enum rule_id rule = 0; rule < RULE_COUNT; rule++) {
        const struct rule *row = &ladder_rules[rule];
        buf_addf(out, "| `%s` | %s | %s | %s | %s | ", rule_name(rule), rung_name(row->rung),
                 row->due, row->does, row->event);
        if (row->key)
            buf_addf(out, "`%s`", row->key);
        buf_addf(out, " | %s%s%s | %s |\n", row->own ? "`" : "", row->own ? row->own : "",
                 row->own ? "`" : "", row->seed);
    }
    buf_addz(out,
             "\n`reeve watchdog rules` shows each rule with its limit, when it falls due next and "
             "how often it has acted; `reeve watchdog run-once` makes a pass now; `reeve why "
             "CONVERSATION` tells what is next for one; `reeve backtest` what other limits would "
             "have done.\n");
    write_backtest_docs(out);
}
