/*
 * replay_task.c: see replay_task.h.
 *
 * Each rule has a function that proposes the first move it would make after a given time; the
 * earliest of all proposals is the move. One that the record has too does not end the replay unless
 * it ended the task.
 */
#include "watch/replay_task.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/names.h"

/* ---- words ---- */

enum ended_by span_ended_by(struct str word, enum rule_id *ret_rule)
{
    static const char *const of_work[] = {"progress", "settled", "success", "failed", "canceled"};
    static const enum task_trigger by_work[] = {TRIGGER_CLAIM,  TRIGGER_START,    TRIGGER_SUSPEND,
                                                TRIGGER_RESUME, TRIGGER_COMPLETE, TRIGGER_FAIL};
    *ret_rule = RULE_COUNT;
    if (!word.n)
        return ENDED_NOT;
    if (str_is(word, "timeout")) { /* of a call */
        *ret_rule = RULE_TOOL_TIMEOUT;
        return ENDED_BY_RULE;
    }
    if (rule_parse(word, ret_rule))
        return ENDED_BY_RULE;
    for (size_t i = 0; i < ARRAY_LEN(by_work); i++)
        if (str_is(word, task_trigger_name(by_work[i])))
            return ENDED_BY_WORK;
    return names_find(of_work, ARRAY_LEN(of_work), word) >= 0 ? ENDED_BY_WORK : ENDED_BY_OTHERS;
}

enum rule_id span_rule(enum span_kind kind)
{
    static const enum rule_id rules[] = {
        [SPAN_PENDING] = RULE_DISPATCH_REAP, [SPAN_ACKNOWLEDGED] = RULE_DISPATCH_REAP,
        [SPAN_SILENT] = RULE_RUNNING_REAP,   [SPAN_SUSPENDED] = RULE_SUSPENDED_REAP,
        [SPAN_TOOL] = RULE_TOOL_TIMEOUT,
    };
    _Static_assert(ARRAY_LEN(rules) == SPAN_COUNT, "a rule for each kind");
    return rules[kind];
}

/* ---- the record ---- */

void replay_tasks_add(struct replay_tasks *r, const struct task_record *t)
{
    r->tasks = mem_grow(r->tasks, &r->cap, r->count + 1, sizeof *r->tasks);
    r->tasks[r->count] = *t;
    r->tasks[r->count++].end_rule = RULE_COUNT;
}

void replay_tasks_release(struct replay_tasks *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->tasks[i].spans);
        free(r->tasks[i].lost_ms);
    }
    free(r->tasks);
    free(r->moves);
    free(r->windows);
    *r = (struct replay_tasks){0};
}

static int by_number(const void *key, const void *element)
{
    int64_t number = *(const int64_t *)key, task = ((const struct task_record *)element)->task;
    return (number > task) - (number < task);
}

static struct task_record *find_task(struct replay_tasks *r, int64_t number)
{
    return r->count ? bsearch(&number, r->tasks, r->count, sizeof *r->tasks, by_number) : NULL;
}

static void open_window(struct replay_tasks *r, int64_t at_ms)
{
    r->windows = mem_grow(r->windows, &r->window_cap, r->window_count + 1, sizeof *r->windows);
    r->windows[r->window_count++] = (struct gap){at_ms, NEVER_MS};
}

static void close_window(struct replay_tasks *r, int64_t at_ms)
{
    if (r->window_count && r->windows[r->window_count - 1].to_ms == NEVER_MS)
        r->windows[r->window_count - 1].to_ms = at_ms;
}

static void note_lost(struct task_record *t, int64_t attempts, int64_t at_ms)
{
    while (attempts > 0 && t->lost_count < (size_t)attempts && t->lost_count < 1000) {
        t->lost_ms = mem_grow(t->lost_ms, &t->lost_cap, t->lost_count + 1, sizeof *t->lost_ms);
        t->lost_ms[t->lost_count++] = at_ms;
    }
}

void replay_tasks_event(struct replay_tasks *r, const struct event *e, const struct json *payload)
{
    struct str kind = e->type == EVENT_SYSTEM ? json_get_text(payload, "kind") : STR("");
    const struct json *data = json_get(payload, "data");
    struct task_record *t = find_task(r, json_get_int(data, "task", 0));
    if (e->seq == 1 || str_is(kind, "runtime.resumed"))
        open_window(r, e->ts_ms);
    if (str_is(kind, "runtime.watchdog.cancel") || e->finality == FINALITY_CONVERSATION)
        close_window(r, e->ts_ms);
    if (t && str_starts(kind, STR("watch.")))
        note_lost(t, json_get_int(data, "attempts", 0), e->ts_ms);
    if (t && str_is(kind, "agent.force_terminated") &&
        rule_parse(json_get_text(data, "rule"), &t->end_rule))
        t->end_limit = json_get_int(data, "limit", 0);
}

/* ---- proposals ---- */

/* What is judged: a task by limits. */
struct judged {
    const struct replay_tasks *of;
    const struct task_record *task;
    const struct options *options;
    const struct gaps *gaps;
    int64_t now_ms, after_ms;
};

static bool is_active(const struct replay_tasks *r, int64_t at_ms)
{
    for (size_t i = 0; i < r->window_count; i++)
        if (r->windows[i].from_ms <= at_ms && at_ms <= r->windows[i].to_ms)
            return true;
    return false;
}

/* Takes a proposal if it is earlier than the best so far. */
static void propose(const struct judged *j, struct replay_move *best, struct replay_move proposal)
{
    bool is_possible = proposal.at_ms > j->after_ms && proposal.at_ms <= j->now_ms &&
                       (proposal.truth == REPLAY_UNKNOWN || is_active(j->of, proposal.at_ms));
    bool is_earlier = proposal.at_ms < best->at_ms ||
                      (proposal.at_ms == best->at_ms && proposal.rule < best->rule);
    if (is_possible && is_earlier)
        *best = proposal;
}

/* How the record has what a move would have ended. */
struct end {
    int64_t at_ms; /* NEVER_MS: it is open */
    enum ended_by by;
    enum rule_id rule;
    int64_t limit;
};

/* What the record says of a move; false: it would not have been made. A call in the millisecond of
 * a move comes first. A move of the record may be late, by what a tick takes. */
static bool compare(struct replay_move *m, const struct end *end)
{
    bool is_its_own = end->by == ENDED_BY_RULE && end->rule == m->rule;
    if (m->at_ms > end->at_ms || (m->at_ms == end->at_ms && !is_its_own)) {
        m->truth = REPLAY_UNKNOWN; /* as if what was cut short had gone on */
        return is_its_own;
    }
    m->truth = is_its_own && m->limit == end->limit ? REPLAY_SAME
               : end->by == ENDED_BY_WORK           ? REPLAY_HEALTHY
                                                    : REPLAY_SILENT;
    if (m->truth == REPLAY_HEALTHY)
        m->wrote_again_ms = end->at_ms;
    return true;
}

static void propose_by_spans(const struct judged *j, struct replay_move *best)
{
    for (size_t i = 0; i < j->task->span_count; i++) {
        const struct span_record *s = &j->task->spans[i];
        struct replay_move m = {.rule = span_rule(s->kind), .base_ms = s->from_ms};
        m.limit = MAX(rule_task_limit(m.rule, j->options), s->least_ms);
        m.at_ms = m.limit ? replay_watched_ms(j->gaps, gaps_due_ms(j->gaps, s->from_ms, m.limit))
                          : NEVER_MS;
        const struct end end = {s->to_ms, s->by, s->rule,
                                s->kind == SPAN_TOOL ? s->limit_ms : j->task->end_limit};
        if (compare(&m, &end))
            propose(j, best, m);
    }
}

static struct end end_of(const struct task_record *t)
{
    bool is_by_work = t->status == TASK_COMPLETED || t->status == TASK_FAILED;
    return (struct end){.at_ms = t->completed_ms ? t->completed_ms : NEVER_MS,
                        .by = !t->completed_ms            ? ENDED_NOT
                              : t->end_rule != RULE_COUNT ? ENDED_BY_RULE
                              : is_by_work                ? ENDED_BY_WORK
                                                          : ENDED_BY_OTHERS,
                        .rule = t->end_rule,
                        .limit = t->end_limit};
}

static void propose_by_age(const struct judged *j, struct replay_move *best)
{
    int64_t limit = rule_task_limit(RULE_TASK_MAX_SECONDS, j->options);
    const struct end end = end_of(j->task);
    for (size_t i = 0; limit && j->task->dispatched_ms && i < j->of->window_count; i++) {
        struct replay_move m = {.rule = RULE_TASK_MAX_SECONDS, .limit = limit};
        m.base_ms = MAX(j->task->dispatched_ms, j->of->windows[i].from_ms);
        m.at_ms = replay_watched_ms(j->gaps, rule_task_deadline_ms(m.base_ms, limit));
        if (m.at_ms <= j->of->windows[i].to_ms && compare(&m, &end))
            propose(j, best, m);
    }
}

static void propose_by_attempts(const struct judged *j, struct replay_move *best)
{
    int64_t limit = rule_task_limit(RULE_TASK_EXHAUSTED, j->options);
    const struct end end = end_of(j->task);
    if (limit <= 0 || j->task->lost_count < (size_t)limit)
        return;
    int64_t lost_ms = j->task->lost_ms[limit - 1];
    struct replay_move m = {
        .rule = RULE_TASK_EXHAUSTED, .limit = limit, .base_ms = lost_ms, .at_ms = lost_ms};
    if (compare(&m, &end))
        propose(j, best, m);
}

/* ---- judging ---- */

static void judge(struct replay_tasks *r, struct judged j, int64_t cut_ms)
{
    for (bool is_over = false; !is_over;) {
        struct replay_move best = {.rule = RULE_COUNT, .at_ms = NEVER_MS};
        propose_by_spans(&j, &best);
        propose_by_age(&j, &best);
        propose_by_attempts(&j, &best);
        if (best.at_ms >= cut_ms)
            return;
        r->moves = mem_grow(r->moves, &r->move_cap, r->move_count + 1, sizeof *r->moves);
        r->moves[r->move_count++] = (struct task_replay_move){j.task, best};
        is_over = best.truth != REPLAY_SAME || best.rule == j.task->end_rule;
        j.after_ms = best.at_ms;
    }
}

void replay_tasks_judge(struct replay_tasks *r, const struct options *o, const struct gaps *g,
                        int64_t now_ms, int64_t cut_ms)
{
    r->move_count = 0;
    for (size_t i = 0; i < r->count; i++)
        judge(r,
              (struct judged){.of = r,
                              .task = &r->tasks[i],
                              .options = o,
                              .gaps = g,
                              .now_ms = now_ms,
                              .after_ms = INT64_MIN},
              cut_ms);
}
