/*
 * tool.c: see tool.h.
 *
 * Every change of a row goes through write_row(), which also stores when the ladder must look at it
 * next. Clocks are a base and a limit, never a deadline: so a gap shifts them all (D46, D59).
 * Nothing but a suspend moves the base of a wait (L65), and each row has its own (L64).
 *
 * A crash leaves a suspension as the last commit had it: calls that wait, results that wait to be
 * taken, results that are lent until their lease is over.
 */
#include "domain/tool.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/names.h"
#include "domain/append.h"
#include "domain/card.h"
#include "domain/head.h"
#include "domain/inbox.h"
#include "domain/task_end.h"
#include "domain/task_row.h"
#include "domain/task_span.h"
#include "domain/work.h"

enum { CARD_BYTES_MAX = 64 << 20 }; /* far above any request: net.body_bytes_max */

static const char *const status_names[] = {
#define X(name, text) [TOOL_##name] = text,
    TOOL_STATUS_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(status_names) == TOOL_STATUS_COUNT, "a name for each status");

static const char *const ledger_names[] = {
#define X(name, text) [LEDGER_##name] = text,
    LEDGER_STATUS_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(ledger_names) == LEDGER_STATUS_COUNT, "a name for each status");

static const char *const result_names[] = {
#define X(name, text) [RESULT_##name] = text,
    RESULT_STATUS_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(result_names) == RESULT_STATUS_COUNT, "a name for each status");

const char *tool_status_name(enum tool_status status)
{
    return status_names[status];
}

const char *result_status_name(enum result_status status)
{
    return status == RESULT_NONE ? NULL : result_names[status];
}

/* ---- reading ---- */

static int from_row(struct work *w, struct query *q, struct tool *ret, struct err *err)
{
    int status = names_find(status_names, TOOL_STATUS_COUNT, query_get_text(q, 6));
    if (status < 0)
        return err_set(err, ERR_INTERNAL, "wait %lld is damaged", (long long)query_get_int(q, 0));
    *ret = (struct tool){
        .wait = query_get_int(q, 0),
        .task = query_get_int(q, 1),
        .epoch = query_get_int(q, 2),
        .id = arena_str(&w->arena, query_get_text(q, 3)),
        .name = query_is_null(q, 4) ? STR_NONE : arena_str(&w->arena, query_get_text(q, 4)),
        .call_card = query_get_int(q, 5),
        .status = (enum tool_status)status,
        .since_ms = query_get_int(q, 7),
        .timeout_ms = query_get_int(q, 8),
        .settled_ms = query_get_int(q, 9),
        .result = (enum result_status)names_find(result_names, RESULT_STATUS_COUNT,
                                                 query_get_text(q, 10)),
        .result_card = query_get_int(q, 11),
        .ledger = (enum ledger_status)names_find(ledger_names, LEDGER_STATUS_COUNT,
                                                 query_get_text(q, 12)),
        .leased_ms = query_get_int(q, 13),
        .lease_ms = query_get_int(q, 14),
        .deliveries = query_get_int(q, 15),
        .look_ms = query_is_null(q, 16) ? NEVER_MS : query_get_int(q, 16),
        .asked_ms = query_get_int(q, 17),
    };
    return 0;
}

static int read_one(struct work *w, struct query *q, struct tool **ret, struct err *err)
{
    *ret = NULL;
    int r = query_one(q, err);
    if (r <= 0)
        return r;
    struct tool *tool = arena_alloc(&w->arena, sizeof *tool);
    r = from_row(w, q, tool, err);
    query_end(q);
    if (r == 0)
        *ret = tool;
    return r;
}

int tool_get(struct work *w, int64_t wait, struct tool **ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOOL_GET);
    query_int(q, 1, wait);
    int r = read_one(w, q, ret, err);
    return r < 0 || *ret ? r : err_set(err, ERR_NOT_FOUND, "no wait %lld", (long long)wait);
}

/* *ret == NULL: there is none. */
static int find(struct work *w, int64_t task, int64_t epoch, struct str id, struct tool **ret,
                struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOOL_FIND);
    query_int(q, 1, task);
    query_text(q, 2, id);
    if (epoch >= 0)
        query_int(q, 3, epoch);
    return read_one(w, q, ret, err);
}

int tools_list(struct work *w, int64_t task, int64_t epoch, struct tool_list **ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOOL_LIST);
    query_int(q, 1, task);
    query_int(q, 2, epoch);
    struct tool_list *first = NULL, **at = &first;
    int r;
    while ((r = query_step(q, err)) == STORE_ROW) {
        struct tool_list *one = arena_alloc(&w->arena, sizeof *one);
        one->next = NULL;
        r = from_row(w, q, &one->tool, err);
        if (r < 0)
            break;
        *at = one;
        at = &one->next;
    }
    query_end(q);
    *ret = first;
    return r;
}

int tools_summarize(struct work *w, const struct task *t, struct tools_summary *ret,
                    struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOOL_SUMMARY);
    query_int(q, 1, t->task);
    query_int(q, 2, t->epoch);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    int64_t since_ms = query_get_int(q, 5), first_ms = query_get_int(q, 6),
            last_ms = query_get_int(q, 7);
    *ret = (struct tools_summary){
        .calls = query_get_int(q, 0),
        .waiting = query_get_int(q, 1),
        .received = query_get_int(q, 2),
        .to_take = query_get_int(q, 3),
        .settled_ms = query_get_int(q, 4),
        /* All calls of a suspension were made in one moment. */
        .first_deadline_ms = first_ms ? gaps_due_ms(&w->gaps, since_ms, first_ms) - 1 : 0,
        .last_deadline_ms = last_ms ? gaps_due_ms(&w->gaps, since_ms, last_ms) - 1 : 0,
    };
    query_end(q);
    return 0;
}

bool tools_may_resume(const struct tools_summary *s)
{
    return s->to_take > 0 || (s->waiting == 0 && s->received == 0);
}

bool tools_are_settled(const struct tools_summary *s)
{
    return s->waiting == 0 && s->to_take == s->received;
}

/* ---- writing ---- */

/* When its clock runs out, if it is allowed to. */
static int64_t clock_due_ms(const struct work *w, const struct tool *tool, enum rule_id *ret_rule)
{
    if (tool->status == TOOL_WAITING && tool->timeout_ms) {
        *ret_rule = RULE_TOOL_TIMEOUT;
        return gaps_due_ms(&w->gaps, tool->since_ms, tool->timeout_ms);
    }
    if (tool->ledger == LEDGER_PROCESSING) {
        *ret_rule = RULE_LEDGER_REQUEUE;
        return gaps_due_ms(&w->gaps, tool->leased_ms, tool->lease_ms);
    }
    return NEVER_MS;
}

static void bind_positive(struct query *q, int param, int64_t value)
{
    if (value)
        query_int(q, param, value);
}

static int write_row(struct work *w, const struct tool *tool, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOOL_UPDATE);
    query_int(q, 1, tool->wait);
    query_text(q, 2, tool->name);
    bind_positive(q, 3, tool->call_card);
    query_text(q, 4, str_of(status_names[tool->status]));
    query_int(q, 5, tool->since_ms);
    bind_positive(q, 6, tool->timeout_ms);
    bind_positive(q, 7, tool->settled_ms);
    query_text(q, 8, str_of(result_status_name(tool->result)));
    bind_positive(q, 9, tool->result_card);
    if (tool->ledger != LEDGER_NONE)
        query_text(q, 10, str_of(ledger_names[tool->ledger]));
    if (tool->ledger == LEDGER_PROCESSING) {
        query_int(q, 11, tool->leased_ms);
        query_int(q, 12, tool->lease_ms);
    }
    query_int(q, 13, tool->deliveries);
    if (tool->look_ms != NEVER_MS)
        query_int(q, 14, tool->look_ms);
    bind_positive(q, 15, tool->asked_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

static int store_tool(struct work *w, struct tool *tool, struct err *err)
{
    enum rule_id rule;
    tool->look_ms = clock_due_ms(w, tool, &rule);
    w->next_look_ms = MIN(w->next_look_ms, tool->look_ms);
    return write_row(w, tool, err);
}

static int insert(struct work *w, const struct task *t, struct str id, struct tool **ret,
                  struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOOL_INSERT);
    query_int(q, 1, t->task);
    query_int(q, 2, t->epoch);
    query_text(q, 3, id);
    query_int(q, 4, w->now_ms);
    work_mark_written(w);
    int r = query_run(q, NULL, err);
    return r < 0 ? r : find(w, t->task, t->epoch, id, ret, err);
}

/* ---- cards ---- */

static void add_json(struct json_out *j, const char *key, struct str json)
{
    if (json.p)
        json_raw(j, key, json);
}

static void write_call(struct buf *content, const struct task *t, const struct tool_call *call)
{
    struct json_out j = JSON_OUT(content);
    json_object(&j, NULL);
    json_string(&j, "toolCallId", call->id);
    json_string(&j, "name", call->name);
    add_json(&j, "arguments", call->arguments);
    add_json(&j, "options", call->options);
    json_int(&j, "epoch", t->epoch);
    json_end(&j);
}

static int make_call_card(struct work *w, const struct task *t, const struct tool_call *call,
                          int64_t *ret, struct err *err)
{
    _cleanup_buf_ struct buf content = BUF_INIT(CARD_BYTES_MAX);
    write_call(&content, t, call);
    return card_create(w, "tool.call", t->conversation, t->task, buf_str(&content), ret, err);
}

static int make_result_card(struct work *w, const struct task *t, const struct tool *tool,
                            const struct tool_result *result, int64_t *ret, struct err *err)
{
    _cleanup_buf_ struct buf content = BUF_INIT(CARD_BYTES_MAX);
    struct json_out j = JSON_OUT(&content);
    json_object(&j, NULL);
    json_string(&j, "toolCallId", tool->id);
    json_string(&j, "name", tool->name);
    json_stringz(&j, "status", result_names[result->status]);
    add_json(&j, "result", result->result);
    add_json(&j, "error", result->error);
    json_int(&j, "epoch", tool->epoch);
    json_end(&j);
    return card_create(w, "tool.result", t->conversation, t->task, buf_str(&content), ret, err);
}

/* ---- settling ---- */

static enum inbox_type inbox_type(const struct tool *tool)
{
    return tool->result == RESULT_TIMEOUT ? INBOX_OF_TIMEOUT : INBOX_OF_TOOL_RESULT;
}

static int put_into_inbox(struct work *w, const struct task *t, const struct tool *tool,
                          struct err *err)
{
    struct str payload = arena_printf(
        &w->arena,
        "{\"status\":\"%s\",\"after_execution\":\"suspend\",\"tool_result_card_id\":%lld}",
        result_names[tool->result], (long long)tool->result_card);
    return inbox_put_result(w, t, inbox_type(tool), tool->id, payload, err);
}

/* It waits no longer: this is its result, for ever. */
static int settle(struct work *w, const struct task *t, struct tool *tool,
                  const struct tool_result *result, struct err *err)
{
    int r = make_result_card(w, t, tool, result, &tool->result_card, err);
    if (r < 0)
        return r;
    bool is_cut_off = result->status == RESULT_INTERRUPTED;
    tool->status = is_cut_off ? TOOL_INTERRUPTED : TOOL_RECEIVED;
    tool->ledger = is_cut_off ? LEDGER_APPLIED : LEDGER_PENDING; /* nobody is left to take it */
    tool->result = result->status;
    tool->settled_ms = w->now_ms;
    return store_tool(w, tool, err);
}

/* The same, of a call that its task waits for: it is told. */
static int receive(struct work *w, struct task *t, struct tool *tool,
                   const struct tool_result *result, struct err *err)
{
    task_edit(w, t);
    int r = task_span_settle(w, t, tool, result_names[result->status], err);
    if (r == 0)
        r = settle(w, t, tool, result, err);
    if (r == 0 && t->spans.p)
        r = task_write_row(w, t, err);
    if (r == 0)
        r = put_into_inbox(w, t, tool, err);
    return r < 0 ? r : task_watch(w, t, err); /* nothing may be left to wait for */
}

/* ---- suspend ---- */

static int check_active(struct work *w, const struct task *t, struct err *err)
{
    struct head *h;
    int r = head_get(w, t->conversation, &h, err);
    return r < 0 ? r : head_check_active(h, err);
}

/* One call; its result may be there already. */
static int expect(struct work *w, const struct task *t, const struct tool_call *call,
                  struct err *err)
{
    struct tool *tool;
    int r = find(w, t->task, t->epoch, call->id, &tool, err);
    if (r == 0 && !tool)
        r = insert(w, t, call->id, &tool, err);
    if (r == 0)
        r = make_call_card(w, t, call, &tool->call_card, err);
    if (r < 0)
        return r;
    tool->name = call->name;
    tool->since_ms = w->now_ms;
    tool->asked_ms = call->timeout_ms;
    tool->timeout_ms =
        MAX(option_get(w->options, worker, suspend_timeout_seconds) * 1000, call->timeout_ms);
    r = store_tool(w, tool, err);
    return r < 0 || tool->status == TOOL_WAITING ? r : put_into_inbox(w, t, tool, err);
}

static int check_repeat_of(struct work *w, const struct task *t, const struct tool_call *call,
                           struct err *err)
{
    _cleanup_buf_ struct buf content = BUF_INIT(CARD_BYTES_MAX);
    struct tool *tool;
    struct str kept;
    int r = find(w, t->task, t->epoch, call->id, &tool, err);
    if (r < 0)
        return r;
    if (!tool || !tool->call_card)
        return task_refuse(t, TRIGGER_SUSPEND, err);
    write_call(&content, t, call);
    r = card_content(w, tool->call_card, &kept, err);
    if (r < 0 || !kept.p || task_same_json(w, kept, buf_str(&content))) /* a lost card: no word */
        return r;
    err_set(err, ERR_IDEMPOTENCY_CONFLICT,
            "task %lld is suspended already, for another tool call %.*s: this call changed nothing",
            (long long)t->task, STR_ARG(call->id));
    return err_str(err, "what", call->id);
}

static int check_repeat(struct work *w, const struct task *t, const struct tool_call *calls,
                        size_t count, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = check_repeat_of(w, t, &calls[i], err);
    return r;
}

int tools_suspend(struct work *w, struct task *t, int64_t epoch, const struct tool_call *calls,
                  size_t count, struct err *err)
{
    int r = task_check_epoch(w, t, epoch, err);
    if (r < 0)
        return r;
    if (t->status == TASK_SUSPENDED)
        return check_repeat(w, t, calls, count, err);
    r = check_active(w, t, err);
    if (r == 0 && t->status != TASK_IN_PROGRESS)
        r = task_refuse(t, TRIGGER_SUSPEND, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = expect(w, t, &calls[i], err);
    return r < 0 ? r : task_move(w, t, &TASK_MOVE(TRIGGER_SUSPEND), err);
}

/* ---- report ---- */

static int no_such_call(const struct task *t, struct str id, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "task %lld waits for no tool call %.*s", (long long)t->task,
            STR_ARG(id));
    err_str(err, "what", STR("tool call"));
    return err_str(err, "id", id);
}

static int report_unknown(struct work *w, const struct task *t, int64_t epoch, struct str id,
                          const struct tool_result *result, enum report *ret, struct err *err)
{
    struct tool *tool;
    bool is_of_another_time = epoch >= 0 && epoch != t->epoch;
    if (!is_of_another_time && t->status == TASK_SUSPENDED)
        return no_such_call(t, id, err);
    *ret = is_of_another_time || t->status != TASK_IN_PROGRESS ? REPORT_LATE : REPORT_EARLY;
    if (*ret == REPORT_LATE)
        return 0;
    int r = insert(w, t, id, &tool, err);
    return r < 0 ? r : settle(w, t, tool, result, err);
}

int tool_report(struct work *w, struct task *t, int64_t epoch, struct str id,
                const struct tool_result *result, enum report *ret, struct err *err)
{
    struct tool *tool;
    int r = find(w, t->task, epoch, id, &tool, err);
    if (r < 0)
        return r;
    if (!tool)
        return report_unknown(w, t, epoch, id, result, ret, err);
    bool was_reported = tool->result >= 0 && tool->result < RESULT_TIMEOUT;
    *ret = tool->status == TOOL_WAITING ? REPORT_ACCEPTED
           : was_reported               ? REPORT_DUPLICATE
                                        : REPORT_LATE;
    return *ret == REPORT_ACCEPTED ? receive(w, t, tool, result, err) : 0;
}

/* ---- resume ---- */

static int check_suspended(struct work *w, struct task *t, int64_t epoch, struct err *err)
{
    int r = task_check_epoch(w, t, epoch, err);
    if (r == 0)
        r = check_active(w, t, err);
    if (r == 0 && t->status != TASK_SUSPENDED)
        r = task_refuse(t, TRIGGER_RESUME, err);
    return r;
}

/* Of its card, as it was reported. */
static int write_result(struct work *w, const struct tool *tool, struct json_out *out,
                        struct err *err)
{
    struct str content;
    const struct json *card;
    int r = card_content(w, tool->result_card, &content, err);
    if (r == 0 && !content.p)
        r = err_set(err, ERR_INTERNAL, "card %lld is missing", (long long)tool->result_card);
    if (r == 0)
        r = json_parse(&w->arena, content, JSON_DEPTH_MAX, &card, err);
    if (r < 0)
        return r;
    json_object(out, NULL);
    json_string(out, "toolCallId", tool->id);
    json_stringz(out, "status", result_names[tool->result]);
    if (json_get(card, "result"))
        json_value(out, "result", json_get(card, "result"));
    if (json_get(card, "error"))
        json_value(out, "error", json_get(card, "error"));
    json_end(out);
    return 0;
}

/* Long enough that a resumer is not overtaken, short enough that a dead one is not waited for. */
static int64_t lease_ms(const struct work *w)
{
    return 1000 * MAX(INT64_C(10), 2 * option_get(w->options, worker, watchdog_interval_seconds));
}

static int lend(struct work *w, struct tool *tool, struct json_out *out, struct err *err)
{
    tool->ledger = LEDGER_PROCESSING;
    tool->leased_ms = w->now_ms;
    tool->lease_ms = lease_ms(w);
    tool->deliveries++;
    int r = store_tool(w, tool, err);
    return r < 0 ? r : write_result(w, tool, out, err);
}

int tools_resume(struct work *w, struct task *t, int64_t epoch, size_t bytes_max,
                 struct json_out *out, struct err *err)
{
    struct tool_list *list = NULL;
    int64_t taken = 0;
    int r = check_suspended(w, t, epoch, err);
    if (r == 0)
        r = tools_list(w, t->task, t->epoch, &list, err);
    if (r < 0)
        return r;
    json_array(out, "results");
    for (; r == 0 && list && out->buf->len < bytes_max; list = list->next)
        if (list->tool.ledger == LEDGER_PENDING) {
            r = lend(w, &list->tool, out, err);
            taken++;
        }
    json_end(out);
    if (taken)
        json_time(out, "leaseUntil", gaps_due_ms(&w->gaps, w->now_ms, lease_ms(w)) - 1);
    else
        json_null(out, "leaseUntil");
    return r;
}

/* ---- apply ---- */

static int apply(struct work *w, const struct task *t, struct str id, struct err *err)
{
    struct tool *tool;
    int r = find(w, t->task, t->epoch, id, &tool, err);
    if (r < 0)
        return r;
    if (!tool || !tool->call_card)
        return no_such_call(t, id, err);
    if (tool->status == TOOL_WAITING) {
        err_set(err, ERR_PRECONDITION_FAILED, "tool call %.*s has no result yet", STR_ARG(id));
        err_str(err, "expected", STR("received"));
        return err_str(err, "actual", STR("waiting"));
    }
    if (tool->status != TOOL_RECEIVED)
        return 0; /* a repeat */
    tool->status = TOOL_APPLIED;
    tool->ledger = LEDGER_APPLIED;
    r = store_tool(w, tool, err);
    return r < 0 ? r
                 : inbox_end_result(w, t, t->epoch, inbox_type(tool), id, INBOX_IS_CONSUMED, err);
}

/* Whoever applied the last one goes on, and is the holder from now on: the process, if it is one of
 * ours, and the connection that listens for it, which was told to resume. */
static int go_on(struct work *w, struct task *t, struct str spawn, int64_t lease_ms,
                 struct err *err)
{
    struct agent *a;
    struct task_move m = TASK_MOVE(TRIGGER_RESUME);
    int r = agent_get(w, t->conversation, str_of(t->role), &a, err);
    if (r < 0)
        return r;
    m.spawn = spawn;
    m.lease_ms = lease_ms;
    if (agent_is_attended(w, a) && str_is(spawn, a->listener_spawn))
        m.connection = arena_str(&w->arena, str_of(a->connection));
    return task_move(w, t, &m, err);
}

int tools_apply(struct work *w, struct task *t, int64_t epoch, const struct str *ids, size_t count,
                struct str spawn, int64_t lease_ms, struct err *err)
{
    struct tools_summary s;
    int r = check_suspended(w, t, epoch, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = apply(w, t, ids[i], err);
    if (r == 0)
        r = tools_summarize(w, t, &s, err);
    if (r < 0)
        return r;
    bool is_open = s.waiting || s.received; /* then the others may be left lying from now on */
    return is_open ? task_watch(w, t, err) : go_on(w, t, spawn, lease_ms, err);
}

/* ---- rules ---- */

int tool_due_ms(struct work *w, const struct tool *tool, enum rule_id *ret_rule, int64_t *ret_ms,
                struct err *err)
{
    struct task *t;
    struct head *h;
    *ret_ms = NEVER_MS;
    int r = task_get(w, tool->task, &t, err);
    if (r == 0)
        r = head_get(w, t->conversation, &h, err);
    if (r < 0 || t->status != TASK_SUSPENDED || t->epoch != tool->epoch ||
        h->status != CONVERSATION_ACTIVE)
        return r;
    *ret_ms = clock_due_ms(w, tool, ret_rule);
    return 0;
}

int tool_watch_again(struct work *w, struct tool *tool, struct err *err)
{
    enum rule_id rule;
    int64_t due_ms;
    int r = tool_due_ms(w, tool, &rule, &due_ms, err);
    if (r < 0 || due_ms == tool->look_ms)
        return r;
    tool->look_ms = due_ms;
    w->next_look_ms = MIN(w->next_look_ms, due_ms);
    return write_row(w, tool, err);
}

/* What a rule did with it: `watch.<rule>`. */
static int append_watch(struct work *w, const struct task *t, const struct tool *tool,
                        enum rule_id rule, int64_t since_ms, int64_t limit_ms, struct err *err)
{
    _cleanup_buf_ struct buf data = BUF_INIT(1 << 16);
    struct json_out j = JSON_OUT(&data);
    json_object(&j, NULL);
    json_int(&j, "task", t->task);
    json_string(&j, "agent",
                arena_printf(&w->arena, "%lld:%s", (long long)t->conversation, t->role));
    json_string(&j, "toolCallId", tool->id);
    json_string(&j, "name", tool->name);
    json_stringz(&j, "status", status_names[tool->status]);
    json_time(&j, "since", since_ms);
    json_int(&j, "limit", limit_ms);
    json_int(&j, "deliveries", tool->deliveries);
    json_int(&j, "epoch", tool->epoch);
    json_end(&j);
    struct event e;
    struct str kind = arena_printf(&w->arena, "watch.%s", rule_name(rule));
    int r =
        append_system(w, t->conversation, "system-watchdog", kind.p, buf_str(&data), NULL, &e, err);
    return r < 0 ? r : work_note_move(w, t->conversation, &e, rule_name(rule), err);
}

/* Its call cannot be shown to anybody: it is given up, and that is told once. */
static int expire(struct work *w, struct task *t, struct tool *tool, struct err *err)
{
    log_error("watch", "tool_call_lost", "task=%lld wait=%lld card=%lld", (long long)t->task,
              (long long)tool->wait, (long long)tool->call_card);
    tool->status = TOOL_EXPIRED;
    tool->settled_ms = w->now_ms;
    int r = store_tool(w, tool, err);
    work_touch(w, agent_key_of(t->conversation, str_of(t->role)));
    return r < 0 ? r : task_watch(w, t, err);
}

int tool_time_out(struct work *w, struct tool *tool, struct err *err)
{
    struct task *t;
    struct str call = STR_NONE;
    const struct tool_result result = {
        .status = RESULT_TIMEOUT,
        .error = arena_printf(&w->arena,
                              "{\"code\":\"tool_timeout\",\"message\":\"no result came within "
                              "%lld ms\"}",
                              (long long)tool->timeout_ms)};
    int r = task_get(w, tool->task, &t, err);
    if (r == 0)
        r = card_content(w, tool->call_card, &call, err);
    if (r == 0)
        r = call.p ? receive(w, t, tool, &result, err) : expire(w, t, tool, err);
    return r < 0
               ? r
               : append_watch(w, t, tool, RULE_TOOL_TIMEOUT, tool->since_ms, tool->timeout_ms, err);
}

int tool_requeue(struct work *w, struct tool *tool, struct err *err)
{
    struct task *t;
    int64_t leased_ms = tool->leased_ms, limit_ms = tool->lease_ms;
    int r = task_get(w, tool->task, &t, err);
    if (r < 0)
        return r;
    tool->ledger = LEDGER_PENDING;
    r = store_tool(w, tool, err);
    work_touch(w, agent_key_of(t->conversation, str_of(t->role)));
    if (r == 0)
        r = task_watch(w, t, err); /* nobody has the results now: task.unresumed may be due */
    return r < 0 ? r : append_watch(w, t, tool, RULE_LEDGER_REQUEUE, leased_ms, limit_ms, err);
}

/* ---- with the task ---- */

static int close_one(struct work *w, const struct task *t, struct tool *tool, struct err *err)
{
    const struct tool_result result = {
        .status = RESULT_INTERRUPTED,
        .error = STR("{\"code\":\"interrupted\",\"message\":\"its task ended while the call was"
                     " open; it may have been carried out: verify side effects\"}")};
    if (tool->status == TOOL_WAITING)
        return settle(w, t, tool, &result, err);
    if (tool->status != TOOL_RECEIVED)
        return 0;
    int r =
        inbox_end_result(w, t, tool->epoch, inbox_type(tool), tool->id,
                         t->status == TASK_CANCELED ? INBOX_IS_SKIPPED : INBOX_IS_CONSUMED, err);
    if (r < 0 || tool->ledger != LEDGER_PROCESSING)
        return r;
    tool->ledger = LEDGER_PENDING; /* it was never applied, and nobody waits for the lease */
    return store_tool(w, tool, err);
}

int tools_interrupt(struct work *w, const struct task *t, int64_t epoch, struct err *err)
{
    struct tool_list *list;
    int r = tools_list(w, t->task, epoch, &list, err);
    for (; r == 0 && list; list = list->next)
        r = close_one(w, t, &list->tool, err);
    return r;
}

int tools_unblock(struct work *w, const struct task *t, int64_t blocked_at_ms, struct err *err)
{
    struct tool_list *list;
    int r = tools_list(w, t->task, t->epoch, &list, err);
    for (; r == 0 && list; list = list->next) {
        int64_t *const clocks[] = {&list->tool.since_ms, &list->tool.settled_ms,
                                   &list->tool.leased_ms};
        for (size_t i = 0; i < ARRAY_LEN(clocks); i++)
            *clocks[i] = gaps_after_block_ms(&w->gaps, *clocks[i], blocked_at_ms, w->now_ms);
        r = store_tool(w, &list->tool, err);
    }
    return r;
}
