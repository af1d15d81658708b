/*
 * task_span.c: see task_span.h.
 *
 * Kept as JSON objects, each followed by a comma, in one column to which the row's own UPDATE
 * appends. A table of their own was rejected: a statement more for every move of every task.
 */
#include "domain/task_span.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/names.h"
#include "domain/gaps.h"
#include "domain/task.h"
#include "domain/tool.h"
#include "domain/work.h"

enum { SPAN_BYTES_MAX = 512 };
static const char not_recorded = '?'; /* begins the column of a task from before (schema.c) */

static const char *const names[] = {
#define X(name, text) [SPAN_##name] = text,
    SPAN_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(names) == SPAN_COUNT, "a name for each kind");

const char *span_name(enum span_kind kind)
{
    return names[kind];
}

bool span_parse(struct str s, enum span_kind *ret)
{
    int i = names_find(names, SPAN_COUNT, s);
    if (i >= 0)
        *ret = (enum span_kind)i;
    return i >= 0;
}

struct span {
    enum span_kind kind;
    int64_t from_ms;
    int64_t least_ms; /* of a call: the deadline it asked for itself */
    int64_t limit_ms; /* … and the one it was given */
};

/* to_ms 0: it is open. */
static void write_span(struct json_out *j, const struct span *s, int64_t to_ms, const char *by)
{
    json_object(j, NULL);
    json_stringz(j, "what", names[s->kind]);
    json_time(j, "from", s->from_ms);
    if (to_ms)
        json_time(j, "to", to_ms);
    else
        json_null(j, "to");
    json_stringz(j, "by", by);
    if (s->least_ms)
        json_int(j, "leastMs", s->least_ms);
    if (s->limit_ms)
        json_int(j, "limitMs", s->limit_ms);
    json_end(j);
}

/* ---- ending ---- */

static void end_span(struct work *w, struct task *t, const struct span *s, const char *by)
{
    int64_t least_ms = MAX(s->least_ms, (int64_t)SPAN_MS_MIN), watched_ms = w->now_ms - s->from_ms;
    least_ms = MAX(least_ms, t->longest_ms[s->kind]);
    if (watched_ms > least_ms)
        watched_ms -= gaps_within_ms(&w->gaps, s->from_ms, w->now_ms);
    if (watched_ms <= least_ms)
        return;
    _cleanup_buf_ struct buf text = BUF_INIT(SPAN_BYTES_MAX);
    struct json_out j = JSON_OUT(&text);
    t->longest_ms[s->kind] = watched_ms;
    write_span(&j, s, w->now_ms, by);
    t->spans = arena_printf(&w->arena, "%.*s%.*s,", STR_ARG(t->spans), STR_ARG(buf_str(&text)));
}

static struct span span_of_call(const struct tool *tool)
{
    return (struct span){SPAN_TOOL, tool->since_ms, tool->asked_ms, tool->timeout_ms};
}

/* Since when suspended.reap counts; 0: a deadline is ahead, or has just passed. */
static int suspended_since_ms(struct work *w, const struct task *t, int64_t *ret, struct err *err)
{
    struct tools_summary s;
    int r = tools_summarize(w, t, &s, err);
    if (r == 0)
        *ret = s.last_deadline_ms + 1 >= w->now_ms ? 0 : MAX(t->suspended_ms, s.settled_ms);
    return r;
}

/* The span that its status is; from_ms 0: none. */
static int span_of_status(struct work *w, const struct task *t, struct span *ret, struct err *err)
{
    *ret = (struct span){.kind = SPAN_PENDING};
    switch (t->status) {
    case TASK_PENDING:
        ret->from_ms = t->pending_ms;
        return 0;
    case TASK_ACKNOWLEDGED:
        *ret = (struct span){.kind = SPAN_ACKNOWLEDGED,
                             .from_ms = MAX(t->pending_ms, t->acknowledged_ms)};
        return 0;
    case TASK_IN_PROGRESS:
        *ret = (struct span){.kind = SPAN_SILENT, .from_ms = t->progress_ms};
        return 0;
    case TASK_SUSPENDED:
        ret->kind = SPAN_SUSPENDED;
        return suspended_since_ms(w, t, &ret->from_ms, err);
    default:
        return 0;
    }
}

static int end_status(struct work *w, struct task *t, const char *by, struct err *err)
{
    struct span s;
    int r = span_of_status(w, t, &s, err);
    if (r == 0 && s.from_ms)
        end_span(w, t, &s, by);
    return r;
}

int task_span_end(struct work *w, struct task *t, const char *by, struct err *err)
{
    struct tool_list *list = NULL;
    int r = end_status(w, t, by, err);
    if (r == 0 && t->status == TASK_SUSPENDED)
        r = tools_list(w, t->task, t->epoch, &list, err);
    for (; r == 0 && list; list = list->next) {
        const struct span s = span_of_call(&list->tool);
        if (list->tool.status == TOOL_WAITING)
            end_span(w, t, &s, by);
    }
    return r;
}

int task_span_settle(struct work *w, struct task *t, const struct tool *tool, const char *by,
                     struct err *err)
{
    const struct span s = span_of_call(tool);
    end_span(w, t, &s, by);
    return end_status(w, t, "settled", err);
}

/* ---- showing ---- */

static int write_open(struct work *w, const struct task *t, struct json_out *out, struct err *err)
{
    struct tool_list *list = NULL;
    struct span s;
    int r = span_of_status(w, t, &s, err);
    if (r == 0 && s.from_ms)
        write_span(out, &s, 0, NULL);
    if (r == 0 && t->status == TASK_SUSPENDED)
        r = tools_list(w, t->task, t->epoch, &list, err);
    for (; r == 0 && list; list = list->next) {
        s = span_of_call(&list->tool);
        if (list->tool.status == TOOL_WAITING)
            write_span(out, &s, 0, NULL);
    }
    return r;
}

static int read_kept(struct work *w, const struct task *t, struct str *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TASK_SPANS);
    query_int(q, 1, t->task);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = r == STORE_ROW ? arena_str(&w->arena, query_get_text(q, 0)) : STR("");
    query_end(q);
    return 0;
}

int task_span_write(struct work *w, const struct task *t, struct json_out *out, struct err *err)
{
    const struct json *list;
    struct str kept;
    struct err damage = ERR_INIT;
    int r = read_kept(w, t, &kept, err);
    if (r < 0)
        return r;
    if (t->dispatched_ms)
        json_time(out, "dispatchedAt", t->dispatched_ms);
    else
        json_null(out, "dispatchedAt");
    bool is_recorded = !kept.n || kept.p[0] != not_recorded;
    struct str text = arena_printf(&w->arena, "[%.*s]", (int)(kept.n ? kept.n - 1 : 0), kept.p);
    if (!is_recorded || json_parse(&w->arena, text, JSON_DEPTH_DEFAULT, &list, &damage) < 0) {
        json_null(out, "spans");
        return 0;
    }
    json_array(out, "spans");
    JSON_FOREACH (span, list)
        json_value(out, NULL, span);
    r = write_open(w, t, out, err);
    json_end(out);
    return r;
}
