/*
 * head.c: see head.h.
 *
 * The cache is bounded: past HEADS_MAX, each tick throws out a few heads, going round the map, so
 * that no tick pays for all. Any may go, since any can be read again.
 */
#include "domain/head.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/names.h"
#include "base/planted.h"
#include "domain/log_index.h"
#include "domain/work.h"

enum { HEADS_MAX = 100000, EVICTIONS_PER_TICK = 64 };

static const char *const status_names[] = {
#define X(name, text) [CONVERSATION_##name] = text,
    CONVERSATION_STATUS_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(status_names) == CONVERSATION_STATUS_COUNT, "a name for each status");

static const char *const outcome_names[] = {
#define X(name, text) [OUTCOME_##name] = text,
    OUTCOME_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(outcome_names) == OUTCOME_COUNT, "a name for each outcome");

static const char *const stop_reason_names[] = {
#define X(name, text) [STOP_##name] = text,
    STOP_REASON_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(stop_reason_names) == STOP_REASON_COUNT, "a name for each reason");

const char *conversation_status_name(enum conversation_status status)
{
    return status_names[status];
}

bool conversation_status_parse(struct str s, enum conversation_status *ret)
{
    int i = names_find(status_names, CONVERSATION_STATUS_COUNT, s);
    if (i >= 0)
        *ret = (enum conversation_status)i;
    return i >= 0;
}

const char *outcome_name(enum outcome outcome)
{
    return outcome == OUTCOME_NONE ? NULL : outcome_names[outcome];
}

bool outcome_parse(struct str s, enum outcome *ret)
{
    int i = names_find(outcome_names, OUTCOME_COUNT, s);
    if (i >= 0)
        *ret = (enum outcome)i;
    return i >= 0;
}

const char *stop_reason_name(enum stop_reason reason)
{
    return reason == STOP_REASON_NONE ? NULL : stop_reason_names[reason];
}

bool stop_reason_parse(struct str s, enum stop_reason *ret)
{
    int i = names_find(stop_reason_names, STOP_REASON_COUNT, s);
    if (i >= 0)
        *ret = (enum stop_reason)i;
    return i >= 0;
}

/* ---- reading ---- */

static void copy_name(char ret[AGENT_ID_BYTES_MAX + 1], struct str s)
{
    size_t n = MIN(s.n, (size_t)AGENT_ID_BYTES_MAX);
    if (n)
        memcpy(ret, s.p, n);
    ret[n] = '\0';
}

static int64_t limit_column(struct query *q, int column)
{
    return query_is_null(q, column) ? LIMIT_DEFAULT : query_get_int(q, column);
}

static int head_from_row(struct query *q, int64_t conversation, struct head *ret, struct err *err)
{
    *ret = (struct head){
        .conversation = conversation,
        .outcome = (enum outcome)names_find(outcome_names, OUTCOME_COUNT, query_get_text(q, 1)),
        .stop_reason = (enum stop_reason)names_find(stop_reason_names, STOP_REASON_COUNT,
                                                    query_get_text(q, 2)),
        .max_turns = query_get_int(q, 4),
        .session_wall_clock_seconds = limit_column(q, 5),
        .watchdog_disabled = query_get_int(q, 6) != 0,
        .idle_ms = limit_column(q, 7),
        .global_idle_ms = limit_column(q, 8),
        .window = query_get_int(q, 9),
        .window_started_ms = query_get_int(q, 10),
        .last_seq = query_get_int(q, 11),
        .last_turn = query_get_int(q, 12),
        .last_closed_seq = query_get_int(q, 13),
        .turn_is_open = query_get_int(q, 14) != 0,
        .turn_is_cleared = query_get_int(q, 15) != 0,
        .turn_events = query_get_int(q, 17),
        .system_events = query_get_int(q, 18),
        .last_activity_ms = query_get_int(q, 19),
        .created_ms = query_get_int(q, 20),
        .updated_ms = query_get_int(q, 21),
        .notice_given = query_get_int(q, 22) != 0,
        .blocked_ms = query_get_int(q, 23),
        .open_tasks = query_get_int(q, 28),
        .last_task_ms = query_get_int(q, 29),
        .written_seq = query_get_int(q, 11),
    };
    for (int rule = 0; rule < TIMED_RULE_COUNT; rule++)
        ret->look_ms[rule] = query_is_null(q, 24 + rule) ? NEVER_MS : query_get_int(q, 24 + rule);
    copy_name(ret->starting_role, query_get_text(q, 3));
    copy_name(ret->turn_owner, query_get_text(q, 16));
    if (!conversation_status_parse(query_get_text(q, 0), &ret->status))
        return err_set(err, ERR_INTERNAL, "conversation %lld has an unknown status",
                       (long long)conversation);
    return 0;
}

static int not_found(int64_t conversation, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "there is no conversation %lld", (long long)conversation);
    err_str(err, "what", STR("conversation"));
    return err_int(err, "id", conversation);
}

static int read_row(struct work *w, int64_t conversation, struct head *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_CONVERSATION_GET);
    query_int(q, 1, conversation);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (r == STORE_DONE)
        return not_found(conversation, err);
    r = head_from_row(q, conversation, ret, err);
    query_end(q);
    return r;
}

/* ---- following the log ---- */

/* The payload this server writes when a turn is cleared; clients cannot write such a trace. */
static bool clears_turn(const struct event *e)
{
    return e->type == EVENT_TRACE && str_starts(e->payload, STR("{\"type\":\"turn_cleared\""));
}

static void apply_to_turn(struct head *h, const struct event *e)
{
    if (e->turn > h->last_turn) {
        h->last_turn = e->turn;
        h->turn_is_open = true;
        h->turn_is_cleared = true; /* nobody's yet */
    }
    if (h->turn_is_cleared)
        copy_name(h->turn_owner, e->agent_id);
    h->turn_is_cleared = clears_turn(e);
    h->turn_events = e->event;
    if (e->finality != FINALITY_NONE) {
        h->turn_is_open = false;
        h->last_closed_seq = e->seq;
    }
}

void head_apply(struct head *h, const struct event *e)
{
    REQUIRE_F(e->seq == h->last_seq + 1, "conversation %lld: seq %lld after %lld",
              (long long)h->conversation, (long long)e->seq, (long long)h->last_seq);
    h->last_seq = e->seq;
    h->updated_ms = e->ts_ms;
    if (e->turn == 0)
        h->system_events = e->event;
    else
        apply_to_turn(h, e);
    if (!str_starts(e->agent_id, STR("system-")))
        h->last_activity_ms = e->ts_ms;
}

static bool apply_from_tail(void *ctx, const struct event *e)
{
    struct head *h = ctx;
    if (e->seq != h->last_seq + 1) /* damaged: log_check_last() will say so */
        return false;
    head_apply(h, e);
    return true;
}

/* The row is written behind: what came after it is in the log. */
static int catch_up(struct work *w, struct head *h, struct err *err)
{
    int r = log_read_tail(w, h->conversation, h->last_seq, apply_from_tail, h, err);
    return r < 0 ? r : log_check_last(w, h->conversation, h->last_seq, err);
}

int head_get(struct work *w, int64_t conversation, struct head **ret, struct err *err)
{
    struct head *h = map_get(&w->heads, conversation);
    if (!h) {
        struct head read;
        int r = read_row(w, conversation, &read, err);
        if (r == 0 && !planted(SEQ_TWICE))
            r = catch_up(w, &read, err);
        if (r < 0)
            return r;
        h = mem_alloc(sizeof *h);
        *h = read;
        map_put(&w->heads, conversation, h);
    }
    *ret = h;
    return 0;
}

/* ---- changing ---- */

int head_check_active(const struct head *h, struct err *err)
{
    if (h->conversation == 0)
        return err_set(err, ERR_FORBIDDEN, "conversation 0 is the server's own log");
    if (h->status == CONVERSATION_COMPLETED)
        return err_set(err, ERR_CONVERSATION_FINALIZED, "conversation %lld has ended",
                       (long long)h->conversation);
    if (h->status == CONVERSATION_BLOCKED) {
        err_set(err, ERR_CONVERSATION_BLOCKED,
                "conversation %lld is blocked; conversation.resume continues it",
                (long long)h->conversation);
        return err_str(err, "stop_reason_code", str_of(stop_reason_name(h->stop_reason)));
    }
    return 0;
}

void head_edit(struct work *w, struct head *h)
{
    REQUIRE(w->request > 0);
    if (h->edited_in == w->request)
        return;
    work_remember(w, h, sizeof *h);
    h->edited_in = w->request;
    work_mark_written(w);
}

static void forget_head(struct work *w, void *object)
{
    struct head *h = object;
    map_remove(&w->heads, h->conversation);
    free(h);
}

static void bind_limit(struct query *q, int param, int64_t limit)
{
    if (limit != LIMIT_DEFAULT)
        query_int(q, param, limit);
}

int head_create(struct work *w, const struct head *initial, struct head **ret, struct err *err)
{
    int64_t conversation = w->last.conversation + 1;
    struct query *q = store_query(w->store, SQL_CONVERSATION_INSERT);
    query_int(q, 1, conversation);
    if (initial->starting_role[0])
        query_text(q, 2, str_of(initial->starting_role));
    query_int(q, 3, initial->max_turns);
    bind_limit(q, 4, initial->session_wall_clock_seconds);
    query_int(q, 5, initial->watchdog_disabled);
    bind_limit(q, 6, initial->idle_ms);
    bind_limit(q, 7, initial->global_idle_ms);
    query_int(q, 8, w->now_ms);
    int r = query_run(q, NULL, err);
    if (r < 0)
        return r;

    struct head *h = mem_alloc(sizeof *h);
    *h = *initial;
    h->conversation = w->last.conversation = conversation;
    h->status = CONVERSATION_ACTIVE;
    h->outcome = OUTCOME_NONE;
    h->stop_reason = STOP_REASON_NONE;
    h->window = 1;
    h->window_started_ms = h->last_activity_ms = h->created_ms = h->updated_ms = w->now_ms;
    for (int rule = 0; rule < TIMED_RULE_COUNT; rule++)
        h->look_ms[rule] = NEVER_MS;
    h->edited_in = w->request;
    map_put(&w->heads, conversation, h);
    work_remember_new(w, h, forget_head);
    work_mark_written(w);
    *ret = h;
    return 0;
}

/* ---- the moments of a tick ---- */

static int run_update(struct query *q, struct head *h, struct err *err)
{
    int64_t changes = 0;
    int r = query_run(q, &changes, err);
    REQUIRE_F(r < 0 || changes == 1, "conversation %lld", (long long)h->conversation);
    if (r == 0)
        h->written_seq = h->last_seq;
    return r;
}

/* What follows from the log, from parameter `at` on. */
static void bind_head(struct query *q, int at, const struct head *h)
{
    query_int(q, at, h->last_seq);
    query_int(q, at + 1, h->last_turn);
    query_int(q, at + 2, h->last_closed_seq);
    query_int(q, at + 3, h->turn_is_open);
    query_int(q, at + 4, h->turn_is_cleared);
    if (h->turn_owner[0])
        query_text(q, at + 5, str_of(h->turn_owner));
    query_int(q, at + 6, h->turn_events);
    query_int(q, at + 7, h->system_events);
    query_int(q, at + 8, h->last_activity_ms);
    query_int(q, at + 9, h->updated_ms);
}

static int write_row(struct work *w, struct head *h, struct err *err)
{
    struct query *q = store_query(w->store, SQL_HEAD_UPDATE);
    query_int(q, 1, h->conversation);
    bind_head(q, 2, h);
    return run_update(q, h, err);
}

int head_write_state(struct work *w, struct head *h, struct err *err)
{
    struct query *q = store_query(w->store, SQL_STATE_UPDATE);
    query_int(q, 1, h->conversation);
    query_text(q, 2, str_of(conversation_status_name(h->status)));
    query_text(q, 3, str_of(outcome_name(h->outcome)));
    query_text(q, 4, str_of(stop_reason_name(h->stop_reason)));
    bind_limit(q, 5, h->session_wall_clock_seconds);
    query_int(q, 6, h->window);
    query_int(q, 7, h->window_started_ms);
    query_int(q, 8, h->notice_given);
    if (h->blocked_ms)
        query_int(q, 9, h->blocked_ms);
    for (enum rule_id rule = 0; rule < TIMED_RULE_COUNT; rule++) {
        h->look_ms[rule] = rule_due_ms(rule, w->options, &w->gaps, h);
        w->next_look_ms = MIN(w->next_look_ms, h->look_ms[rule]);
        if (h->look_ms[rule] != NEVER_MS)
            query_int(q, 10 + (int)rule, h->look_ms[rule]);
    }
    bind_head(q, 14, h);
    return run_update(q, h, err);
}

int heads_write_behind(struct work *w, struct err *err)
{
    int64_t conversation;
    for (size_t i = 0; log_index_next_conversation(w->log_index, &i, &conversation);) {
        struct head *h;
        int r = head_get(w, conversation, &h, err);
        if (r == 0 && h->written_seq != h->last_seq)
            r = write_row(w, h, err);
        if (r < 0)
            return r;
    }
    return 0;
}

void heads_evict_some(struct work *w)
{
    struct head *out[EVICTIONS_PER_TICK], *h;
    int n = 0;
    while (n < EVICTIONS_PER_TICK && w->heads.count - (size_t)n > HEADS_MAX) {
        h = map_next(&w->heads, &w->evict_at);
        if (!h) {
            w->evict_at = 0;
            break;
        }
        out[n++] = h;
    }
    for (int i = 0; i < n; i++) {
        map_remove(&w->heads, out[i]->conversation);
        free(out[i]);
    }
}

void heads_drop(struct work *w)
{
    struct head *h;
    for (size_t i = 0; (h = map_next(&w->heads, &i));)
        free(h);
    map_release(&w->heads);
    w->evict_at = 0;
}
