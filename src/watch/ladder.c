/*
 * ladder.c: see ladder.h. First the moves, then the table, then the engine.
 *
 * To add a rule: its name and arithmetic in domain/rule.[ch] (limit, base, when it applies), a
 * column with an index and its four LOOK_ statements, a move, a row here. docs/ladder.md and
 * `watchdog.rules` follow; `why`, `reeve why` and `backtest` want a word each for what it does.
 *
 * Why nothing can stall the engine itself:
 *   - a pass visits each row once: it pages by key, so a row that cannot be moved is passed by, and
 *     tried again later with growing waits (backoff.h);
 *   - what is due is decided on the head inside the row's own request, whatever the query said: a
 *     conversation that was written to a moment ago is not due, and is given its new time to look;
 *   - of several rules due for one conversation the earliest acts, and of those due together the
 *     first in the table.
 */
#include "watch/ladder.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/fail_point.h"
#include "base/log.h"
#include "base/mem.h"
#include "domain/append.h"
#include "domain/conversation.h"
#include "domain/head.h"
#include "domain/work.h"

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
static int cancel_idle(struct work *w, struct head *h, enum rule_id rule, struct err *err)
{
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
    return r < 0 ? r : work_note_rule(w, h->conversation, &advisory, rule, err);
}

/* session.wall_clock: no end, but nothing more is written until somebody resumes it. */
static int block(struct work *w, struct head *h, enum rule_id rule, struct err *err)
{
    return conversation_block(w, h, rule_limit(rule, w->options, h) / 1000, err);
}

/* session.wall_clock_notice: says so once per window. */
static int give_notice(struct work *w, struct head *h, enum rule_id rule, struct err *err)
{
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
    return r < 0 ? r : work_note_rule(w, h->conversation, &e, rule, err);
}

/* ---- the table ---- */

// clang-format off
const struct rule ladder_rules[RULE_COUNT] = {
    [RULE_WALL_CLOCK_NOTICE] = {
        .rung = RUNG_RING, .seed = "003", .find = SQL_LOOK_DUE_NOTICE, .next = SQL_LOOK_NEXT_NOTICE,
        .key = "runtime_controls.session_wall_clock_seconds", .unit_ms = 1000,
        .own = "runtime_controls.session_wall_clock_seconds",
        .due = "active, and 80 % of the window's budget is used",
        .does = "tells everybody who listens, once per window",
        .event = "`runtime.watchdog.notice`",
        .act = give_notice},
    [RULE_WALL_CLOCK] = {
        .rung = RUNG_CANCEL, .seed = "003", .find = SQL_LOOK_DUE_WALL_CLOCK, .next = SQL_LOOK_NEXT_WALL_CLOCK,
        .key = "runtime_controls.session_wall_clock_seconds", .unit_ms = 1000,
        .own = "runtime_controls.session_wall_clock_seconds",
        .due = "active, and the window is older than its budget; unwatched time counts",
        .does = "blocks it (`watchdog_wall_clock_exceeded`); its agents are stopped; `conversation.resume` opens a new window",
        .event = "`runtime.watchdog.cancel`",
        .act = block},
    [RULE_IDLE] = {
        .rung = RUNG_CANCEL, .seed = "000", .find = SQL_LOOK_DUE_IDLE, .next = SQL_LOOK_NEXT_IDLE,
        .key = "watchdog.idle_ms", .unit_ms = 1,
        .own = "watchdog.idleMs",
        .due = "active, a turn is open, and nobody has written for the limit of watched time",
        .does = "ends it: canceled, `idle_timeout`; its agents are stopped",
        .event = "`idle_timeout`, then the terminal message",
        .act = cancel_idle},
    [RULE_GLOBAL_IDLE] = {
        .rung = RUNG_CANCEL, .seed = "000", .find = SQL_LOOK_DUE_GLOBAL_IDLE, .next = SQL_LOOK_NEXT_GLOBAL_IDLE,
        .key = "watchdog.global_idle_ms", .unit_ms = 1,
        .own = "watchdog.globalIdleMs",
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

/* ---- the engine ---- */

/* A row that a query has named. */
struct nominee {
    int64_t conversation, due_ms;
    enum rule_id rule;
};

struct ladder {
    struct work *work;
    struct {
        bool is_active, is_asked_for;
        enum rule_id only; /* RULE_COUNT: all */
        int64_t horizon_ms;
        struct {
            bool is_done;
            int64_t look_ms, conversation; /* the last row seen */
        } at[TIMED_RULE_COUNT];
        struct pass so_far;
    } pass;
    struct pass last_pass;
    int64_t pass_began_ms;
    bool has_begun; /* the pass at start */
    struct backoff backoff;
    struct ladder_stats stats;
    int64_t last_run_ms[RULE_COUNT];
    /* of this tick, told when it is committed */
    struct nominee moved[TIMED_RULE_COUNT * LADDER_PAGE_ROWS];
    size_t moved_count;
    bool pass_ended;
};

struct ladder *ladder_new(struct work *w)
{
    struct ladder *l = mem_zalloc(sizeof *l);
    l->work = w;
    log_info("watch", "started", "interval_ms=%lld idle_ms=%lld global_idle_ms=%lld",
             (long long)option_get(w->options, watchdog, interval_ms),
             (long long)option_get(w->options, watchdog, idle_ms),
             (long long)option_get(w->options, watchdog, global_idle_ms));
    return l;
}

struct ladder *ladder_free(struct ladder *l)
{
    if (!l)
        return NULL;
    log_info("watch", "stopped", "passes=%llu moved=%llu errors=%llu",
             (unsigned long long)l->stats.passes, (unsigned long long)l->stats.moved,
             (unsigned long long)l->stats.errors);
    backoff_release(&l->backoff);
    free(l);
    return NULL;
}

bool ladder_is_in_pass(const struct ladder *l)
{
    return l->pass.is_active;
}

const struct pass *ladder_last_pass(const struct ladder *l)
{
    return &l->last_pass;
}

const struct ladder_stats *ladder_stats(const struct ladder *l)
{
    return &l->stats;
}

int64_t ladder_next_due_ms(const struct ladder *l)
{
    if (l->pass.is_active || !l->has_begun)
        return INT64_MIN;
    return l->work->next_look_ms;
}

int64_t ladder_next_ms(const struct ladder *l)
{
    int64_t due_ms = ladder_next_due_ms(l),
            cadence_ms = l->pass_began_ms + option_get(l->work->options, watchdog, interval_ms);
    return MIN(due_ms, cadence_ms);
}

static void begin_pass(struct ladder *l, enum rule_id only, bool is_asked_for)
{
    memset(&l->pass, 0, sizeof l->pass);
    l->pass.is_active = true;
    l->pass.is_asked_for = is_asked_for;
    l->pass.only = only;
    l->pass.horizon_ms = l->work->now_ms;
    for (enum rule_id rule = 0; rule < TIMED_RULE_COUNT; rule++) {
        l->pass.at[rule].look_ms = INT64_MIN;
        l->pass.at[rule].is_done = only != RULE_COUNT && only != rule;
    }
    if (only != RULE_COUNT)
        return;
    l->has_begun = true;
    l->pass_began_ms = l->work->now_ms;
    l->work->next_look_ms = NEVER_MS; /* computed anew at its end */
}

bool ladder_begin_pass(struct ladder *l, enum rule_id only)
{
    if (l->pass.is_active)
        return false;
    begin_pass(l, only, true);
    return true;
}

/* One page of what a rule should look at. Returns the number of rows, or an error. */
static int nominate(struct ladder *l, enum rule_id rule, struct nominee *ret, struct err *err)
{
    struct query *q = store_query(l->work->store, ladder_rules[rule].find);
    query_int(q, 1, l->pass.horizon_ms);
    query_int(q, 2, l->pass.at[rule].look_ms);
    query_int(q, 3, l->pass.at[rule].conversation);
    query_int(q, 4, LADDER_PAGE_ROWS);
    int n = 0, r;
    while ((r = query_step(q, err)) == STORE_ROW) {
        l->pass.at[rule].conversation = query_get_int(q, 0);
        l->pass.at[rule].look_ms = query_get_int(q, 1);
        ret[n++] = (struct nominee){.conversation = l->pass.at[rule].conversation,
                                    .due_ms = l->pass.at[rule].look_ms,
                                    .rule = rule};
    }
    l->pass.at[rule].is_done = n < LADDER_PAGE_ROWS;
    l->pass.so_far.checked += n;
    l->stats.checked += (uint64_t)n;
    l->last_run_ms[rule] = l->work->now_ms;
    return r < 0 ? r : n;
}

/* When and by which rule it is really due, so that a late step still moves in the right order. */
static void resolve(struct ladder *l, struct nominee *n)
{
    struct head *h;
    if (head_get(l->work, n->conversation, &h, NULL) < 0)
        return; /* visit() will find out, and say so */
    int64_t due_ms;
    enum rule_id rule = ladder_first_due(l->work->options, &l->work->gaps, h, &due_ms);
    if (rule != RULE_COUNT) {
        n->rule = rule;
        n->due_ms = due_ms;
    }
}

static int by_due(const void *a, const void *b)
{
    const struct nominee *x = a, *y = b;
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms ? -1 : 1;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    return (x->conversation > y->conversation) - (x->conversation < y->conversation);
}

/* A conversation that two rules have named is due anew once the first has moved it: the next one in
 * line may have to let others pass. True if it did. */
static bool falls_behind(struct ladder *l, struct nominee *page, size_t i, size_t count)
{
    struct nominee n = page[i];
    resolve(l, &n);
    size_t to = i;
    for (; to + 1 < count && by_due(&page[to + 1], &n) < 0; to++)
        page[to] = page[to + 1];
    page[to] = n;
    return to > i;
}

enum verdict { NOT_DUE, MOVED, LEFT_ALONE /* due by a rule that is not of this pass */ };

/* Moves it if it is due, now and by a rule of this pass; else says when to look again. */
static int judge(struct ladder *l, struct nominee *n, enum verdict *ret, struct err *err)
{
    struct head *h;
    int64_t due_ms;
    int r = head_get(l->work, n->conversation, &h, err);
    if (r < 0)
        return r;
    enum rule_id rule = ladder_first_due(l->work->options, &l->work->gaps, h, &due_ms);
    if (due_ms > l->work->now_ms)
        return head_watch_again(l->work, h, err);
    n->rule = rule;
    l->pass.so_far.candidates++;
    *ret = l->pass.only == RULE_COUNT || l->pass.only == rule ? MOVED : LEFT_ALONE;
    if (*ret == LEFT_ALONE)
        return 0;
    head_edit(l->work, h);
    return ladder_rules[rule].act(l->work, h, rule, err);
}

static void note_failure(struct ladder *l, const struct nominee *n, int code, const struct err *err)
{
    int64_t wait_ms = backoff_failed(&l->backoff, n->conversation, l->work->now_ms);
    l->pass.so_far.errors++;
    l->stats.errors++;
    l->stats.errors_by_rule[n->rule]++;
    log_error("watch", "not_moved",
              "rule=%s conversation=%lld error=%s reason=%s try_again_in_ms=%lld",
              rule_name(n->rule), (long long)n->conversation, err_name(code),
              log_quote(str_of(err->message)), (long long)wait_ms);
}

/* A row, in its own savepoint. False if the store has given up the tick. */
static bool visit(struct ladder *l, struct nominee *n)
{
    struct err err = ERR_INIT;
    enum verdict verdict = NOT_DUE;
    if (!l->pass.is_asked_for && backoff_holds(&l->backoff, n->conversation, l->work->now_ms)) {
        l->pass.so_far.skipped++;
        return true;
    }
    int r = work_request_begin(l->work, &err);
    if (r < 0)
        return false;
    r = judge(l, n, &verdict, &err);
    int end = work_request_end(l->work, r == 0, &err);
    if (r == -ERR_UNAVAILABLE || end < 0)
        return false;
    if (r < 0) {
        note_failure(l, n, r, &err);
        return true;
    }
    if (verdict != LEFT_ALONE)
        backoff_worked(&l->backoff, n->conversation);
    if (verdict == MOVED) {
        l->moved[l->moved_count++] = *n;
        fail_point(FAIL_BETWEEN_MOVES);
    } else {
        l->pass.so_far.skipped++;
    }
    return true;
}

/* The first look after the horizon, of all rules. A row that failed and was not among those of this
 * pass has been ended by somebody else. */
static int find_next(struct ladder *l, struct err *err)
{
    backoff_forget_until(&l->backoff, l->pass.horizon_ms);
    int64_t next_ms = backoff_next_ms(&l->backoff, NULL);
    for (enum rule_id rule = 0; rule < TIMED_RULE_COUNT; rule++) {
        struct query *q = store_query(l->work->store, ladder_rules[rule].next);
        query_int(q, 1, l->pass.horizon_ms);
        int r = query_one(q, err);
        if (r < 0)
            return r;
        if (!query_is_null(q, 0))
            next_ms = MIN(next_ms, query_get_int(q, 0));
        query_end(q);
    }
    l->work->next_look_ms = MIN(l->work->next_look_ms, next_ms);
    return 0;
}

static int end_pass_if_done(struct ladder *l, struct err *err)
{
    for (enum rule_id rule = 0; rule < TIMED_RULE_COUNT; rule++)
        if (!l->pass.at[rule].is_done)
            return 0;
    l->pass_ended = true;
    return l->pass.only == RULE_COUNT ? find_next(l, err) : 0;
}

static int step(struct ladder *l, struct err *err)
{
    struct nominee page[TIMED_RULE_COUNT * LADDER_PAGE_ROWS];
    size_t count = 0;
    for (enum rule_id rule = 0; rule < TIMED_RULE_COUNT; rule++) {
        if (l->pass.at[rule].is_done)
            continue;
        int n = nominate(l, rule, &page[count], err);
        if (n < 0)
            return n;
        count += (size_t)n;
    }
    for (size_t i = 0; i < count; i++)
        resolve(l, &page[i]);
    qsort(page, count, sizeof page[0], by_due);
    for (size_t i = 0; i < count; i++) {
        while (falls_behind(l, page, i, count))
            ;
        if (!visit(l, &page[i]))
            return err_set(err, ERR_UNAVAILABLE, "%s", err_text(ERR_UNAVAILABLE));
    }
    return end_pass_if_done(l, err);
}

int ladder_step(struct ladder *l, struct err *err)
{
    l->moved_count = 0;
    l->pass_ended = false;
    if (!l->pass.is_active) {
        if (ladder_next_ms(l) > l->work->now_ms)
            return 0;
        begin_pass(l, RULE_COUNT, false);
    }
    int r = step(l, err);
    if (r < 0)
        ladder_lost(l);
    return r;
}

void ladder_committed(struct ladder *l)
{
    struct pass *p = &l->pass.so_far;
    for (size_t i = 0; i < l->moved_count; i++)
        log_info("watch", "moved", "rule=%s conversation=%lld late_ms=%lld",
                 rule_name(l->moved[i].rule), (long long)l->moved[i].conversation,
                 (long long)(l->work->now_ms - l->moved[i].due_ms));
    p->moved += (int64_t)l->moved_count;
    l->stats.moved += l->moved_count;
    l->moved_count = 0;
    if (!l->pass_ended)
        return;
    l->pass_ended = false;
    l->pass.is_active = false;
    l->last_pass = *p;
    l->stats.passes++;
    if (p->candidates || p->errors)
        log_info("watch", "pass",
                 "checked=%lld candidates=%lld moved=%lld skipped=%lld errors=%lld",
                 (long long)p->checked, (long long)p->candidates, (long long)p->moved,
                 (long long)p->skipped, (long long)p->errors);
}

void ladder_lost(struct ladder *l)
{
    l->moved_count = 0;
    l->pass_ended = false;
    if (!l->pass.is_active)
        return;
    l->pass.is_active = false;
    l->work->next_look_ms = INT64_MIN;
}

/* ---- what it looks like ---- */

/* Rows that are looked at to find out when a rule is due next. */
enum { NEXT_ROWS = 64 };

/*
 * When the rule is due next. Rows come in the order of their times to look, none of which is later
 * than due: once a time to look is not earlier than the earliest due found, none that follows can
 * be.
 */
static int find_next_due(struct ladder *l, enum rule_id rule, int64_t *ret_ms, struct err *err)
{
    int64_t conversations[NEXT_ROWS], looks[NEXT_ROWS];
    struct query *q = store_query(l->work->store, ladder_rules[rule].find);
    query_int(q, 1, INT64_MAX);
    query_int(q, 2, INT64_MIN);
    query_int(q, 3, 0);
    query_int(q, 4, NEXT_ROWS);
    size_t n = 0;
    int r;
    for (; (r = query_step(q, err)) == STORE_ROW; n++) {
        conversations[n] = query_get_int(q, 0);
        looks[n] = query_get_int(q, 1);
    }
    *ret_ms = NEVER_MS;
    for (size_t i = 0; r == 0 && i < n && looks[i] < *ret_ms; i++) {
        struct head *h;
        r = head_get(l->work, conversations[i], &h, err);
        if (r == 0)
            *ret_ms = MIN(*ret_ms, rule_due_ms(rule, l->work->options, &l->work->gaps, h));
        if (i + 1 == NEXT_ROWS) /* many were written to since: not before this one's look */
            *ret_ms = MIN(*ret_ms, looks[i]);
    }
    return r;
}

static int write_next(struct ladder *l, enum rule_id rule, struct json_out *out, struct err *err)
{
    int64_t next_ms;
    int r = find_next_due(l, rule, &next_ms, err);
    if (r < 0)
        return r;
    if (next_ms == NEVER_MS)
        json_null(out, "nextDueAt");
    else
        json_time(out, "nextDueAt", next_ms);
    return 0;
}

static int64_t configured_limit(const struct options *o, enum rule_id rule)
{
    const struct head none = {.idle_ms = LIMIT_DEFAULT,
                              .global_idle_ms = LIMIT_DEFAULT,
                              .session_wall_clock_seconds = LIMIT_DEFAULT};
    return rule_limit(rule, o, &none);
}

int ladder_write_rules(struct ladder *l, struct json_out *out, const char *key, struct err *err)
{
    int r = 0;
    json_array(out, key);
    for (enum rule_id rule = 0; r == 0 && rule < RULE_COUNT; rule++) {
        const struct rule *row = &ladder_rules[rule];
        json_object(out, NULL);
        json_stringz(out, "rule", rule_name(rule));
        json_stringz(out, "rung", rung_name(row->rung));
        json_stringz(out, "seed", row->seed);
        json_stringz(out, "key", row->key);
        json_stringz(out, "own", row->own);
        if (row->key)
            json_int(out, "limit", configured_limit(l->work->options, rule) / row->unit_ms);
        else
            json_null(out, "limit");
        if (l->last_run_ms[rule])
            json_time(out, "lastRunAt", l->last_run_ms[rule]);
        else
            json_null(out, "lastRunAt");
        if (row->act)
            r = write_next(l, rule, out, err);
        else
            json_null(out, "nextDueAt");
        json_int(out, "fired", l->work->fired[rule]);
        json_int(out, "errors", l->stats.errors_by_rule[rule]);
        json_end(out);
    }
    json_end(out);
    return r;
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
        buf_addf(out, " | `%s` | %s |\n", row->own, row->seed);
    }
    buf_addz(out,
             "\n`reeve watchdog rules` shows each rule with its limit, when it falls due next and "
             "how often it has acted; `reeve watchdog run-once` makes a pass now; `reeve why "
             "CONVERSATION` tells what is next for one; `reeve backtest` what other limits would "
             "have done.\n");
}
