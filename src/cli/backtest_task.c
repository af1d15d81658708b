/* backtest_task.c: see backtest_task.h. What a server answers is checked as in backtest.c. */
#include "cli/backtest_task.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/macro.h"
#include "base/mem.h"
#include "cli/when.h"

enum { PAGE_TASKS = 500 };

static int refuse(int64_t task, const char *what, struct err *err)
{
    return err_set(err, ERR_INTERNAL, "task %lld of the server has no %s", (long long)task, what);
}

/* null and absent: 0. */
static bool read_time(const struct json *object, const char *key, int64_t *ret)
{
    const struct json *v = json_get(object, key);
    *ret = 0;
    return !v || v->type == JSON_NULL || when_parse(json_get_text(object, key), ret);
}

static bool read_status(const struct json *j, enum task_status *ret)
{
    for (int i = 0; i < TASK_STATUS_COUNT; i++) {
        *ret = (enum task_status)i;
        if (str_is(json_get_text(j, "status"), task_status_name(*ret)))
            return true;
    }
    return false;
}

static bool read_span(const struct json *j, struct span_record *ret)
{
    *ret = (struct span_record){.least_ms = json_get_int(j, "leastMs", 0),
                                .limit_ms = json_get_int(j, "limitMs", 0)};
    if (!span_parse(json_get_text(j, "what"), &ret->kind) || !read_time(j, "from", &ret->from_ms) ||
        !read_time(j, "to", &ret->to_ms) || ret->from_ms <= 0 || ret->least_ms < 0 ||
        ret->least_ms > OPTION_MS_MAX)
        return false;
    ret->by = span_ended_by(json_get_text(j, "by"), &ret->rule);
    if (!ret->to_ms)
        ret->to_ms = NEVER_MS;
    return ret->to_ms >= ret->from_ms && (ret->to_ms == NEVER_MS) == (ret->by == ENDED_NOT);
}

static int read_spans(const struct json *list, struct task_record *t, struct err *err)
{
    size_t cap = 0;
    JSON_FOREACH (item, list) {
        t->spans = mem_grow(t->spans, &cap, t->span_count + 1, sizeof *t->spans);
        if (!read_span(item, &t->spans[t->span_count++]))
            return refuse(t->task, "sound span", err);
    }
    return 0;
}

static int read_task(const struct json *j, struct replay_tasks *ret, int64_t *unrecorded,
                     struct err *err)
{
    const struct json *spans = json_get(j, "spans");
    struct task_record t = {.task = json_get_int(j, "task", 0)};
    int r = 0;
    if (t.task <= (ret->count ? ret->tasks[ret->count - 1].task : 0))
        return err_set(err, ERR_INTERNAL, "task.list does not go on");
    if (!read_status(j, &t.status))
        return refuse(t.task, "status", err);
    if (!read_time(j, "dispatchedAt", &t.dispatched_ms) ||
        !read_time(j, "completedAt", &t.completed_ms))
        return refuse(t.task, "sound time", err);
    if (spans && spans->type == JSON_ARRAY)
        r = read_spans(spans, &t, err);
    else
        ++*unrecorded;
    replay_tasks_add(ret, &t); /* also takes over the spans of one that is refused */
    return r;
}

static int read_page(const struct json *page, struct replay_tasks *ret, int64_t *unrecorded,
                     struct err *err)
{
    const struct json *list = json_get(page, "tasks");
    if (!list || list->type != JSON_ARRAY)
        return err_set(err, ERR_INTERNAL, "task.list answers without tasks");
    JSON_FOREACH (item, list) {
        int r = read_task(item, ret, unrecorded, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int backtest_read_tasks(struct client *client, int64_t conversation, struct replay_tasks *ret,
                        int64_t *ret_unrecorded, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    for (int64_t after = 0, next = 0; next >= 0; after = next) {
        char params[128];
        const struct json *page;
        arena_clear(&a);
        snprintf(params, sizeof params,
                 "{\"conversation\":%lld,\"after\":%lld,\"limit\":%d,\"spans\":true}",
                 (long long)conversation, (long long)after, PAGE_TASKS);
        int r = client_call(client, "task.list", str_of(params), &a, &page, err);
        if (r == 0)
            r = read_page(page, ret, ret_unrecorded, err);
        if (r < 0)
            return r;
        next = json_get_int(page, "next", -1);
        if (next >= 0 && next <= after)
            return err_set(err, ERR_INTERNAL, "task.list does not go on");
    }
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct replay_point *x = a, *y = b;
    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    return y->change - x->change; /* one ends and the next is dispatched: never none */
}

size_t backtest_points(const struct replay_tasks *tasks, struct replay_point **ret)
{
    struct replay_point *points = mem_alloc((2 * tasks->count + 1) * sizeof *points);
    size_t n = 0;
    for (size_t i = 0; i < tasks->count; i++) {
        const struct task_record *t = &tasks->tasks[i];
        if (t->dispatched_ms)
            points[n++] = (struct replay_point){t->dispatched_ms, 1};
        if (t->dispatched_ms && t->completed_ms)
            points[n++] = (struct replay_point){t->completed_ms, -1};
    }
    qsort(points, n, sizeof *points, by_time);
    *ret = points;
    return n;
}
