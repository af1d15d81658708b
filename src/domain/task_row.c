/* task_row.c: see task_row.h. */
#include "domain/task_row.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "domain/work.h"

enum { TASKS_MAX = 100000, EVICTIONS_PER_TICK = 64 };

static const char *const status_names[] = {
#define X(name, text) [TASK_##name] = text,
    TASK_STATUS_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(status_names) == TASK_STATUS_COUNT, "a name for each status");

static const char *const trigger_names[] = {
#define X(name, text) [TRIGGER_##name] = text,
    TASK_TRIGGER_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(trigger_names) == TRIGGER_COUNT, "a name for each trigger");

static const char *const held_names[] = {
#define X(name, text) [HELD_##name] = text,
    TASK_HELD_LIST(X)
#undef X
};

const char *task_status_name(enum task_status status)
{
    return status_names[status];
}

const char *task_trigger_name(enum task_trigger trigger)
{
    return trigger == TRIGGER_NONE ? NULL : trigger_names[trigger];
}

const char *task_outcome_name(enum task_status status)
{
    return status == TASK_COMPLETED ? "success" : status_names[status];
}

const char *task_held_name(enum task_held held)
{
    return held_names[held];
}

/* ---- reading ---- */

static int from_row(struct query *q, struct task *t, struct err *err)
{
    int status = names_find(status_names, TASK_STATUS_COUNT, query_get_text(q, 2));
    if (status < 0)
        return err_set(err, ERR_INTERNAL, "task %lld is damaged", (long long)t->task);
    t->conversation = query_get_int(q, 0);
    snprintf(t->role, sizeof t->role, "%.*s", STR_ARG(query_get_text(q, 1)));
    t->status = (enum task_status)status;
    snprintf(t->channel, sizeof t->channel, "%.*s", STR_ARG(query_get_text(q, 3)));
    t->epoch = query_get_int(q, 4);
    t->attempts = query_get_int(q, 5);
    snprintf(t->claimed_by, sizeof t->claimed_by, "%.*s", STR_ARG(query_get_text(q, 6)));
    t->lease_ms = query_get_int(q, 7);
    t->held = (enum task_held)names_find(held_names, HELD_COUNT, query_get_text(q, 8));
    int64_t *const times[] = {&t->created_ms,   &t->dispatched_ms,   &t->pending_ms,
                              &t->restarted_ms, &t->acknowledged_ms, &t->started_ms,
                              &t->progress_ms,  &t->suspended_ms,    &t->completed_ms};
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        *times[i] = query_get_int(q, 9 + (int)i);
    t->end_trigger =
        (enum task_trigger)names_find(trigger_names, TRIGGER_COUNT, query_get_text(q, 18));
    t->stop_reason = STOP_REASON_NONE;
    if (!query_is_null(q, 19))
        stop_reason_parse(query_get_text(q, 19), &t->stop_reason);
    t->deliverable = query_get_int(q, 20);
    t->look_ms = query_is_null(q, 21) ? NEVER_MS : query_get_int(q, 21);
    snprintf(t->claimed_spawn, sizeof t->claimed_spawn, "%.*s", STR_ARG(query_get_text(q, 22)));
    snprintf(t->held_spawn, sizeof t->held_spawn, "%.*s", STR_ARG(query_get_text(q, 23)));
    t->retried_ms = query_get_int(q, 24);
    t->retries = query_get_int(q, 25);
    return 0;
}

static void free_task(struct task *t)
{
    free(t->content);
    free(t);
}

static void forget_task(struct work *w, void *object)
{
    struct task *t = object;
    map_remove(&w->tasks, t->task);
    free_task(t);
}

struct task *task_add(struct work *w, const struct task *as_known)
{
    struct task *t = mem_alloc(sizeof *t);
    *t = *as_known;
    map_put(&w->tasks, t->task, t);
    work_remember_new(w, t, forget_task); /* its row may be this request's */
    return t;
}

static int not_found(int64_t task, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "there is no task %lld", (long long)task);
    err_str(err, "what", STR("task"));
    return err_int(err, "id", task);
}

int task_get(struct work *w, int64_t task, struct task **ret, struct err *err)
{
    struct task *t = map_get(&w->tasks, task);
    if (t) {
        *ret = t;
        return 0;
    }
    struct query *q = store_query(w->store, SQL_TASK_GET);
    query_int(q, 1, task);
    int r = query_one(q, err);
    if (r <= 0)
        return r < 0 ? r : not_found(task, err);
    struct task read = {.task = task, .lease_look_ms = NEVER_MS};
    r = from_row(q, &read, err);
    query_end(q);
    if (r == 0)
        *ret = task_add(w, &read);
    return r;
}

void task_edit(struct work *w, struct task *t)
{
    if (t->edited_in == w->request)
        return;
    work_remember(w, t, sizeof *t);
    t->edited_in = w->request;
}

/* ---- writing ---- */

static void bind_time(struct query *q, int param, int64_t ms)
{
    if (ms)
        query_int(q, param, ms);
}

static void bind_origin(struct query *q, const struct task *t)
{
    query_int(q, 24, t->conversation);
    query_text(q, 25, str_of(t->role));
    query_text(q, 26, t->unsaved);
    query_text(q, 27, str_of(t->channel));
    query_int(q, 28, t->created_ms);
}

int task_write_row(struct work *w, struct task *t, struct err *err)
{
    struct query *q = store_query(w->store, t->unsaved.p ? SQL_TASK_INSERT : SQL_TASK_UPDATE);
    if (t->unsaved.p)
        bind_origin(q, t);
    t->unsaved = STR_NONE;
    t->progress_stored_ms = t->progress_ms;
    query_int(q, 1, t->task);
    query_text(q, 2, str_of(status_names[t->status]));
    query_int(q, 3, t->epoch);
    query_int(q, 4, t->attempts);
    if (t->claimed_by[0])
        query_text(q, 5, str_of(t->claimed_by));
    query_int(q, 6, t->lease_ms);
    if (t->held != HELD_NOT)
        query_text(q, 7, str_of(held_names[t->held]));
    bind_time(q, 8, t->dispatched_ms);
    bind_time(q, 9, t->pending_ms);
    bind_time(q, 10, t->restarted_ms);
    bind_time(q, 11, t->acknowledged_ms);
    bind_time(q, 12, t->started_ms);
    bind_time(q, 13, t->progress_ms);
    bind_time(q, 14, t->suspended_ms);
    bind_time(q, 15, t->completed_ms);
    query_text(q, 16, str_of(task_trigger_name(t->end_trigger)));
    query_text(q, 17, str_of(stop_reason_name(t->stop_reason)));
    if (t->deliverable)
        query_int(q, 18, t->deliverable);
    if (t->look_ms != NEVER_MS)
        query_int(q, 19, t->look_ms);
    if (t->claimed_spawn[0])
        query_text(q, 20, str_of(t->claimed_spawn));
    if (t->held_spawn[0])
        query_text(q, 21, str_of(t->held_spawn));
    bind_time(q, 22, t->retried_ms);
    query_int(q, 23, t->retries);
    if (t->spans.p) /* a new task has none */
        query_text(q, 24, t->spans);
    t->spans = STR_NONE;
    work_mark_written(w);
    return query_run(q, NULL, err);
}

/* ---- showing ---- */

static void write_time(struct json_out *out, const char *key, int64_t ms)
{
    if (ms)
        json_time(out, key, ms);
    else
        json_null(out, key);
}

static void write_outcome(const struct task *t, struct str error, struct json_out *out)
{
    json_object(out, "outcome");
    json_stringz(out, "status", task_outcome_name(t->status));
    json_string(out, "error", error);
    json_stringz(out, "stop_reason_code", stop_reason_name(t->stop_reason));
    if (t->deliverable)
        json_int(out, "deliverableCardId", t->deliverable);
    else
        json_null(out, "deliverableCardId");
    json_end(out);
}

/* The texts of its row. */
struct words {
    struct str content, error, note;
};

static int read_words(struct work *w, const struct task *t, struct words *ret, struct err *err)
{
    if (t->content && !t->has_words) {
        *ret = (struct words){.content = str_of(t->content)};
        return 0;
    }
    struct query *q = store_query(w->store, SQL_TASK_TEXTS);
    query_int(q, 1, t->task);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (r == STORE_DONE)
        return err_set(err, ERR_INTERNAL, "task %lld is not in the store", (long long)t->task);
    struct str *const texts[] = {&ret->content, &ret->error, &ret->note};
    for (int i = 0; i < 3; i++)
        *texts[i] = query_is_null(q, i) ? STR_NONE : arena_str(&w->arena, query_get_text(q, i));
    query_end(q);
    return 0;
}

int task_content(struct work *w, const struct task *t, struct str *ret, struct err *err)
{
    struct words words;
    int r = read_words(w, t, &words, err);
    if (r == 0)
        *ret = words.content;
    return r;
}

static int write_members(struct work *w, const struct task *t, struct json_out *out,
                         struct err *err)
{
    struct words words;
    int r = read_words(w, t, &words, err);
    if (r < 0)
        return r;
    json_int(out, "task", t->task);
    json_int(out, "conversation", t->conversation);
    json_stringz(out, "role", t->role);
    json_stringz(out, "status", status_names[t->status]);
    json_raw(out, "content", words.content);
    json_stringz(out, "channel", t->channel);
    json_int(out, "epoch", t->epoch);
    json_int(out, "attempts", t->attempts);
    json_stringz(out, "assignedTo", t->role);
    json_stringz(out, "claimedBy", t->claimed_by[0] ? t->claimed_by : NULL);
    if (t->held != HELD_NOT)
        json_stringz(out, "held", held_names[t->held]);
    json_string(out, "note", words.note);
    write_time(out, "createdAt", t->created_ms);
    write_time(out, "pendingAt", t->pending_ms);
    write_time(out, "acknowledgedAt", t->acknowledged_ms);
    write_time(out, "startedAt", t->started_ms);
    write_time(out, "completedAt", t->completed_ms);
    if (task_is_over(t))
        write_outcome(t, words.error, out);
    return 0;
}

int task_write(struct work *w, const struct task *t, struct json_out *out, const char *key,
               struct err *err)
{
    json_object(out, key);
    int r = write_members(w, t, out, err);
    json_end(out);
    return r;
}

int task_write_with_spans(struct work *w, const struct task *t, struct json_out *out,
                          const char *key, struct err *err)
{
    json_object(out, key);
    int r = write_members(w, t, out, err);
    if (r == 0)
        r = task_span_write(w, t, out, err);
    json_end(out);
    return r;
}

/* ---- the cache ---- */

void tasks_evict_some(struct work *w)
{
    struct task *out[EVICTIONS_PER_TICK], *t;
    int n = 0;
    if (w->tasks.count <= TASKS_MAX)
        return;
    for (int seen = 0; seen < EVICTIONS_PER_TICK; seen++) {
        t = map_next(&w->tasks, &w->evict_task_at);
        if (!t) {
            w->evict_task_at = 0;
            break;
        }
        if (!t->beat_ms) /* a lease is nowhere but here */
            out[n++] = t;
    }
    for (int i = 0; i < n; i++) {
        map_remove(&w->tasks, out[i]->task);
        free_task(out[i]);
    }
}

void tasks_drop(struct work *w)
{
    struct task *t;
    for (size_t i = 0; (t = map_next(&w->tasks, &i));)
        free_task(t);
    map_release(&w->tasks);
    w->evict_task_at = 0;
}
