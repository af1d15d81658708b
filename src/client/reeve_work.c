/*
 * reeve_work.c: claiming a task, and saying what becomes of it.
 *
 * Every call here carries the epoch of the claim and may be repeated: the server makes a move once.
 * A task that is stale is forgotten at once, with its heartbeats; nothing that is said about it
 * later can do harm, since the epoch is checked at the server.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"
#include "client/reeve_handle.h"

static void replace(char **text, const struct json *value)
{
    struct buf b = BUF_INIT(CLIENT_RESPONSE_BYTES_MAX);
    json_write_value(&b, value);
    free(*text);
    *text = buf_take(&b);
}

static void forget_task(struct reeve *r)
{
    beat_stop(r);
    r->has_task = false;
}

/* Calls `method`, and keeps the Task of its answer. */
static int call(struct reeve *r, const char *method, const struct buf *params)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *result;
    r->err = ERR_INIT;
    int code = line_call_until(&r->line, method, params, REEVE_CALL_MS_MAX,
                               reeve_deadline_us(r->patience_ms), &a, &result, &r->err);
    const struct json *task = code == 0 ? json_get(result, "task") : NULL;
    if (task && task->type == JSON_OBJECT)
        replace(&r->task_json, task);
    return code;
}

/* ---- claiming ---- */

static int read_claim(struct reeve *r, const struct json *claimed)
{
    const struct json *task = json_get(claimed, "task");
    if (!task || task->type != JSON_OBJECT || json_get_int(task, "task", 0) < 1)
        return err_set(&r->err, ERR_INTERNAL, "task.claim answers without a task");
    r->task = json_get_int(task, "task", 0);
    r->epoch = json_get_int(claimed, "epoch", 0);
    replace(&r->task_json, task);
    replace(&r->content, json_get(task, "content"));
    return 0;
}

static void no_news(struct reeve *r)
{
    uint64_t count;
    __atomic_store_n(&r->news, REEVE_OK, __ATOMIC_RELEASE);
    while (read(r->news_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

/* It was canceled, or handed to somebody else, or cannot be had for the moment. */
static bool is_gone(int code)
{
    return code == -ERR_NOT_FOUND || code == -ERR_INVALID_TRANSITION ||
           code == -ERR_CONVERSATION_BLOCKED;
}

int reeve_claim(struct reeve *r, unsigned flags)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *claimed;
    r->err = ERR_INIT;
    if (!r->has_joined || r->has_task) {
        err_set(&r->err, ERR_USAGE, r->has_task ? "one task at a time" : "join first");
        return REEVE_MISUSE;
    }
    place_write(r, &w);
    if (r->offered)
        json_int(&w, "task", r->offered);
    if (flags & REEVE_UNATTENDED)
        json_bool(&w, "unattended", true);
    json_end(&w);
    int code = line_call_until(&r->line, "task.claim", &params, REEVE_CALL_MS_MAX,
                               reeve_deadline_us(r->patience_ms), &a, &claimed, &r->err);
    r->was_refused = is_gone(code);
    if (r->was_refused)
        return REEVE_NONE;
    if (code == 0)
        code = read_claim(r, claimed);
    if (code != 0)
        return reeve_outcome(code);
    r->has_task = true;
    no_news(r);
    if (!(flags & REEVE_UNATTENDED))
        beat_start(r);
    return REEVE_OK;
}

/* ---- working ---- */

static int begin(struct reeve *r, struct json_out *w)
{
    if (!r->has_task) {
        err_set(&r->err, ERR_USAGE, "there is no task in hand");
        return -ERR_USAGE;
    }
    json_object(w, NULL);
    json_int(w, "task", r->task);
    json_int(w, "epoch", r->epoch);
    return 0;
}

/* A text that must be JSON becomes a member. */
static int add_json(struct reeve *r, struct json_out *w, struct arena *a, const char *key,
                    const char *text)
{
    const struct json *value;
    struct err wrong = ERR_INIT;
    if (!text)
        return 0;
    if (json_parse(a, str_of(text), JSON_DEPTH_MAX, &value, &wrong) < 0)
        return err_set(&r->err, ERR_USAGE, "%s is not JSON: %s", key, wrong.message);
    json_value(w, key, value);
    return 0;
}

static int conclude(struct reeve *r, int code, bool is_end)
{
    if (code == -ERR_STALE_EPOCH || (code == 0 && is_end))
        forget_task(r);
    return reeve_outcome(code);
}

int reeve_start(struct reeve *r)
{
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int code = begin(r, &w);
    if (code < 0)
        return reeve_outcome(code);
    json_end(&w);
    return conclude(r, call(r, "task.start", &params), false);
}

int reeve_progress(struct reeve *r, const char *note, const char *progress)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int code = begin(r, &w);
    if (code == 0)
        code = add_json(r, &w, &a, "progress", progress);
    if (code < 0)
        return reeve_outcome(code);
    if (note)
        json_stringz(&w, "note", note);
    json_end(&w);
    return conclude(r, call(r, "task.progress", &params), false);
}

int reeve_complete(struct reeve *r, const char *deliverable)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int code = begin(r, &w);
    if (code == 0)
        code = add_json(r, &w, &a, "deliverable", deliverable);
    if (code < 0)
        return reeve_outcome(code);
    json_end(&w);
    return conclude(r, call(r, "task.complete", &params), true);
}

int reeve_fail(struct reeve *r, const char *reason)
{
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int code = begin(r, &w);
    if (code < 0)
        return reeve_outcome(code);
    json_stringz(&w, "reason", reason ? reason : "");
    json_end(&w);
    return conclude(r, call(r, "task.fail", &params), true);
}
