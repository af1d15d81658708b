/*
 * reeve_work.c: claiming a task, and saying what becomes of it.
 *
 * Every call here carries the epoch of the claim and may be repeated: the server makes a move once.
 * A task that is stale is forgotten at once, with its heartbeats; nothing that is said about it
 * later can do harm, since the epoch is checked at the server.
 */
#include <stdlib.h>

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

void hand_forget(struct reeve *r)
{
    beat_stop(r);
    r->has_task = false;
}

void hand_take(struct reeve *r, int64_t task, int64_t epoch, unsigned flags)
{
    r->task = task;
    r->epoch = epoch;
    r->has_task = true;
    beat_forget(r);
    if (!(flags & REEVE_UNATTENDED))
        beat_start(r);
}

void hand_keep_task(struct reeve *r, const struct json *task)
{
    replace(&r->task_json, task);
    replace(&r->content, json_get(task, "content"));
}

int hand_call(struct reeve *r, const char *method, const struct buf *params, struct arena *a,
              const struct json **ret)
{
    r->err = ERR_INIT;
    int code = line_call_until(&r->line, method, params, REEVE_CALL_MS_MAX,
                               reeve_deadline_us(r->patience_ms), a, ret, &r->err);
    const struct json *task = code == 0 ? json_get(*ret, "task") : NULL;
    if (task && task->type == JSON_OBJECT)
        replace(&r->task_json, task);
    return code;
}

/* ---- claiming ---- */

static int read_claim(struct reeve *r, const struct json *claimed, unsigned flags)
{
    const struct json *task = json_get(claimed, "task");
    if (!task || task->type != JSON_OBJECT || json_get_int(task, "task", 0) < 1)
        return err_set(&r->err, ERR_INTERNAL, "task.claim answers without a task");
    hand_keep_task(r, task);
    hand_take(r, json_get_int(task, "task", 0), json_get_int(claimed, "epoch", 0), flags);
    return 0;
}

bool hand_is_gone(int code)
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
    int code = hand_call(r, "task.claim", &params, &a, &claimed);
    r->was_refused = hand_is_gone(code);
    if (r->was_refused)
        return REEVE_NONE;
    return reeve_outcome(code == 0 ? read_claim(r, claimed, flags) : code);
}

/* ---- working ---- */

int hand_begin(struct reeve *r, struct json_out *w)
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

int hand_add_json(struct reeve *r, struct json_out *w, struct arena *a, const char *key,
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

int hand_outcome(struct reeve *r, int code, bool is_over)
{
    if (code == -ERR_STALE_EPOCH || (code == 0 && is_over))
        hand_forget(r);
    return reeve_outcome(code);
}

static int tell(struct reeve *r, const char *method, const struct buf *params)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *result;
    return hand_outcome(r, hand_call(r, method, params, &a, &result), false);
}

/* The end of the task: that the thread finds it gone meanwhile is no news. */
static int hand_in(struct reeve *r, const char *method, const struct buf *params)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *result;
    __atomic_store_n(&r->is_ending, true, __ATOMIC_RELEASE);
    int outcome = hand_outcome(r, hand_call(r, method, params, &a, &result), true);
    __atomic_store_n(&r->is_ending, false, __ATOMIC_RELEASE);
    return outcome;
}

int reeve_start(struct reeve *r)
{
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int code = hand_begin(r, &w);
    if (code < 0)
        return reeve_outcome(code);
    json_end(&w);
    return tell(r, "task.start", &params);
}

int reeve_progress(struct reeve *r, const char *note, const char *progress)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int code = hand_begin(r, &w);
    if (code == 0)
        code = hand_add_json(r, &w, &a, "progress", progress);
    if (code < 0)
        return reeve_outcome(code);
    if (note)
        json_stringz(&w, "note", note);
    json_end(&w);
    return tell(r, "task.progress", &params);
}

int reeve_complete(struct reeve *r, const char *deliverable)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int code = hand_begin(r, &w);
    if (code == 0)
        code = hand_add_json(r, &w, &a, "deliverable", deliverable);
    if (code < 0)
        return reeve_outcome(code);
    json_end(&w);
    return hand_in(r, "task.complete", &params);
}

int reeve_fail(struct reeve *r, const char *reason)
{
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int code = hand_begin(r, &w);
    if (code < 0)
        return reeve_outcome(code);
    json_stringz(&w, "reason", reason ? reason : "");
    json_end(&w);
    return hand_in(r, "task.fail", &params);
}
