/*
 * replay.c: see replay.h.
 *
 * Two times of production need care. A tick runs what has arrived before it judges, so an event in
 * the very millisecond of a move comes first, unless the ladder itself wrote it. And a budget may
 * run out while nobody watches: the move is then made by the first tick after the gap.
 */
#include "watch/replay.h"

#include <stdlib.h>

#include "base/mem.h"
#include "watch/ladder.h"

static const char *const truth_names[] = {
#define X(name, text) [REPLAY_##name] = text,
    REPLAY_TRUTH_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(truth_names) == REPLAY_TRUTH_COUNT, "a name for each truth");

const char *replay_truth_name(enum replay_truth truth)
{
    return truth_names[truth];
}

/* ---- what an event says ---- */

static struct str text(const struct json *object, const char *key)
{
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_STRING ? v->string : STR("");
}

/* A limit of the conversation's own; absent or not one: as configured. */
static int64_t own_limit(const struct json *object, const char *key, int64_t most)
{
    int64_t limit = json_get_int(object, key, LIMIT_DEFAULT);
    return limit < 0 ? LIMIT_DEFAULT : MIN(limit, most);
}

static bool is_kind(const struct event *e, const struct json *payload, const char *kind)
{
    return e->type == EVENT_SYSTEM && str_is(text(payload, "kind"), kind);
}

static bool is_ladders(const struct event *e)
{
    return str_is(e->agent_id, "system-watchdog");
}

/* Of a terminal message. */
static bool has_outcome(const struct json *payload, const char *key, const char *value)
{
    return str_is(text(json_get(payload, "outcome"), key), value);
}

/* A move that the record has at this event. */
struct recorded {
    enum rule_id rule; /* RULE_COUNT: none */
    int64_t limit;
};

static struct recorded recorded_move(const struct replay *r, const struct event *e,
                                     const struct json *payload)
{
    const struct json *data = json_get(payload, "data");
    if (is_ladders(e) && is_kind(e, payload, "idle_timeout"))
        return (struct recorded){.rule = r->head.turn_is_open ? RULE_IDLE : RULE_GLOBAL_IDLE,
                                 .limit = json_get_int(data, "idleMs", 0)};
    if (is_ladders(e) && is_kind(e, payload, "runtime.watchdog.cancel"))
        return (struct recorded){
            .rule = RULE_WALL_CLOCK,
            .limit = own_limit(data, "configured_budget_seconds", OPTION_SECONDS_MAX) * 1000};
    if (e->finality == FINALITY_CONVERSATION && str_is(e->agent_id, "system-orchestrator") &&
        has_outcome(payload, "reason", "max_turns"))
        return (struct recorded){.rule = RULE_MAX_TURNS, .limit = r->head.max_turns};
    return (struct recorded){.rule = RULE_COUNT};
}

/* ---- judging ---- */

int64_t replay_watched_ms(const struct gaps *g, int64_t due_ms)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->list[i].from_ms < due_ms && due_ms < g->list[i].to_ms)
            return g->list[i].to_ms;
    return due_ms;
}

static void add_move(struct replay *r, enum rule_id rule, int64_t at_ms)
{
    r->moves = mem_grow(r->moves, &r->move_cap, r->move_count + 1, sizeof *r->moves);
    r->moves[r->move_count++] = (struct replay_move){
        .rule = rule,
        .at_ms = at_ms,
        .base_ms = rule_base_ms(rule, &r->head),
        .limit = rule_limit(rule, r->options, &r->head),
        .truth = r->is_cut || r->is_record_blocked ? REPLAY_UNKNOWN : REPLAY_SILENT,
        .record = r->record,
    };
    r->is_over = true; /* unless the record has it too: follow_move() */
}

/* The move that is due first, and when. */
static enum rule_id first_due(const struct replay *r, int64_t *ret_due_ms)
{
    struct head h = r->head;
    h.watchdog_disabled |= r->is_record_blocked; /* nobody could write: silence proves nothing */
    return ladder_first_due(r->options, r->gaps, &h, ret_due_ms);
}

/* Makes what falls due before until_ms, or in it, with the tasks that are open now. */
static void judge_silence(struct replay *r, int64_t until_ms, bool is_inclusive)
{
    while (!r->is_over) {
        int64_t due_ms;
        enum rule_id rule = first_due(r, &due_ms);
        if (due_ms > until_ms)
            return;
        int64_t at_ms = replay_watched_ms(r->gaps, due_ms);
        if (at_ms > until_ms || (at_ms == until_ms && !is_inclusive))
            return;
        if (rule == RULE_WALL_CLOCK_NOTICE) {
            r->head.notice_given = true;
            r->notices++;
        } else {
            add_move(r, rule, at_ms);
        }
    }
}

/* The same with tasks that open and end meanwhile. */
static void judge(struct replay *r, int64_t until_ms, bool is_inclusive)
{
    for (; r->points_seen < r->point_count; r->points_seen++) {
        const struct replay_point *p = &r->points[r->points_seen];
        if (p->at_ms > until_ms)
            break;
        judge_silence(r, p->at_ms, false);
        r->head.open_tasks += p->change;
        if (p->change < 0)
            r->head.last_task_ms = p->at_ms;
    }
    judge_silence(r, until_ms, is_inclusive);
}

/* ---- following the record ---- */

static int begin(struct replay *r, const struct event *e, const struct json *payload,
                 struct err *err)
{
    const struct json *data = json_get(payload, "data"), *watchdog = json_get(data, "watchdog"),
                      *disabled = json_get(watchdog, "disabled");
    if (!is_kind(e, payload, "meta_created"))
        return err_set(err, ERR_INTERNAL, "the log of conversation %lld begins with no creation",
                       (long long)e->conversation);
    r->head = (struct head){
        .conversation = e->conversation,
        .status = CONVERSATION_ACTIVE,
        .outcome = OUTCOME_NONE,
        .stop_reason = STOP_REASON_NONE,
        .max_turns = json_get_int(data, "maxTurns", 0),
        .session_wall_clock_seconds = own_limit(json_get(data, "runtime_controls"),
                                                "session_wall_clock_seconds", OPTION_SECONDS_MAX),
        .watchdog_disabled = disabled && disabled->type == JSON_BOOL && disabled->boolean,
        .idle_ms = own_limit(watchdog, "idleMs", OPTION_MS_MAX),
        .global_idle_ms = own_limit(watchdog, "globalIdleMs", OPTION_MS_MAX),
        .window = 1,
        .window_started_ms = e->ts_ms,
        .last_activity_ms = e->ts_ms,
        .created_ms = e->ts_ms,
    };
    r->record.since_ms = e->ts_ms;
    return 0;
}

static void note_record(struct replay *r, enum conversation_status status, enum outcome outcome,
                        enum rule_id rule, int64_t since_ms)
{
    r->record = (struct replay_record){status, outcome, rule, since_ms};
}

/* Is the last move of ours the one that the record has here? */
static bool is_ours(const struct replay *r, const struct recorded *move)
{
    const struct replay_move *last = r->move_count ? &r->moves[r->move_count - 1] : NULL;
    return last && last->rule == move->rule && last->limit == move->limit &&
           last->base_ms == rule_base_ms(move->rule, &r->head);
}

/* A move that the record has and time alone does not explain: the turn limit; and one within a gap,
 * by a watcher that was awake. A tick that takes long itself makes such gaps. */
static bool is_beyond_time(const struct replay *r, const struct event *e,
                           const struct recorded *move)
{
    return move->rule == RULE_MAX_TURNS ||
           (r->head.status == CONVERSATION_ACTIVE &&
            move->limit == rule_limit(move->rule, r->options, &r->head) &&
            gaps_within_ms(r->gaps, e->ts_ms, e->ts_ms + 1) > 0);
}

/* A move of the record; what was due before it has been judged. */
static void follow_move(struct replay *r, const struct event *e, const struct recorded *move)
{
    if (!r->is_over && is_beyond_time(r, e, move))
        add_move(r, move->rule, e->ts_ms);
    bool is_same = is_ours(r, move);
    if (is_same)
        r->moves[r->move_count - 1].truth = REPLAY_SAME;
    if (move->rule == RULE_WALL_CLOCK) {
        r->blocked_budget_seconds = move->limit / 1000;
        r->is_record_blocked = !is_same;
        if (is_same) { /* the log knows what came of it */
            r->head.status = CONVERSATION_BLOCKED;
            r->is_over = false;
        }
        note_record(r, CONVERSATION_BLOCKED, OUTCOME_NONE, move->rule, e->ts_ms);
    } else if (move->rule != RULE_MAX_TURNS) {
        r->is_cut = true;
        note_record(r, CONVERSATION_COMPLETED, OUTCOME_CANCELED, move->rule, e->ts_ms);
    }
}

static void follow_resume(struct replay *r, const struct event *e, const struct json *data)
{
    int64_t budget = own_limit(data, "configured_budget_seconds", OPTION_SECONDS_MAX);
    if (budget != LIMIT_DEFAULT && budget != r->blocked_budget_seconds)
        r->head.session_wall_clock_seconds = budget;
    r->head.status = CONVERSATION_ACTIVE;
    r->head.window = json_get_int(data, "window", r->head.window + 1);
    r->head.window_started_ms = e->ts_ms;
    r->head.notice_given = false;
    r->is_record_blocked = false;
    note_record(r, CONVERSATION_ACTIVE, OUTCOME_NONE, RULE_COUNT, e->ts_ms);
}

static void follow_end(struct replay *r, const struct event *e, const struct json *payload,
                       enum rule_id rule)
{
    enum outcome outcome = OUTCOME_COMPLETED;
    outcome_parse(text(json_get(payload, "outcome"), "status"), &outcome);
    if (is_ladders(e)) /* cut already, by what it wrote before */
        return;
    r->is_over = true;
    note_record(r, CONVERSATION_COMPLETED, outcome, rule, e->ts_ms);
}

/* Did the last move stop somebody who was at work? */
static void note_writer(struct replay *r, const struct event *e, const struct json *payload)
{
    struct replay_move *last = r->move_count ? &r->moves[r->move_count - 1] : NULL;
    bool is_cancel =
        e->finality == FINALITY_CONVERSATION && has_outcome(payload, "status", "canceled");
    if (!last || last->truth != REPLAY_SILENT || is_cancel ||
        str_starts(e->agent_id, STR("system-")))
        return;
    last->truth = REPLAY_HEALTHY;
    last->wrote_again_ms = e->ts_ms;
}

/* ---- the calls ---- */

void replay_init(struct replay *r, const struct options *o, const struct gaps *g)
{
    *r = (struct replay){.options = o, .gaps = g};
    note_record(r, CONVERSATION_ACTIVE, OUTCOME_NONE, RULE_COUNT, 0);
}

void replay_set_work(struct replay *r, const struct replay_point *points, size_t count)
{
    r->points = points;
    r->point_count = count;
}

void replay_release(struct replay *r)
{
    free(r->moves);
    r->moves = NULL;
    r->move_count = r->move_cap = 0;
}

int replay_event(struct replay *r, const struct event *e, const struct json *payload,
                 struct err *err)
{
    if (e->seq != r->head.last_seq + 1)
        return err_set(err, ERR_INTERNAL, "the log of conversation %lld goes from %lld to %lld",
                       (long long)e->conversation, (long long)r->head.last_seq, (long long)e->seq);
    int code = e->seq == 1 ? begin(r, e, payload, err) : 0;
    if (code < 0)
        return code;
    struct recorded move = recorded_move(r, e, payload);
    if (!r->is_cut)
        judge(r, e->ts_ms, move.rule < TIMED_RULE_COUNT);
    note_writer(r, e, payload);
    if (move.rule != RULE_COUNT)
        follow_move(r, e, &move);
    if (is_kind(e, payload, "runtime.resumed"))
        follow_resume(r, e, json_get(payload, "data"));
    if (e->finality == FINALITY_CONVERSATION)
        follow_end(r, e, payload, move.rule);
    if (r->is_cut)
        r->head.last_seq = e->seq; /* the ladder's words are no activity and close no turn */
    else
        head_apply(&r->head, e);
    return 0;
}

void replay_finish(struct replay *r, int64_t now_ms)
{
    if (r->head.last_seq > 0)
        judge(r, now_ms, true);
}
