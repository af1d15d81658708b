/*
 * reeve_tools.c: a task that waits for tools: suspend, resume, applied.
 *
 * A suspended task is in nobody's hand. So a suspend ends the beating, and what is resumed is not
 * ours before its results are applied: only then there is an epoch to beat with.
 *
 * An answer that is lost must not cost the results, nor the task: a resume lends what it answers
 * with, and a second task.applied is stale. So both carry a key, which stays the same until the
 * call was answered; the server then answers a repeat as it did the first time (D79).
 */
#include <stdlib.h>

#include "base/macro.h"
#include "base/mem.h"
#include "client/reeve_handle.h"

int reeve_suspend(struct reeve *r, const char *calls)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *suspended;
    int code = hand_begin(r, &w);
    if (code == 0)
        code = hand_add_json(r, &w, &a, "tools", calls ? calls : "[]");
    if (code < 0)
        return reeve_outcome(code);
    json_end(&w);
    return hand_outcome(r, hand_call(r, "task.suspend", &params, &a, &suspended), true);
}

/* ---- resuming ---- */

/* {"task":…,"epoch":…,"idempotencyKey":…, and the object is left open. */
static void begin_keyed(const struct reeve *r, int64_t task, int64_t epoch, struct json_out *w)
{
    _cleanup_free_ char *key =
        mem_printf("%s-%lld", r->connection, (long long)(r->keyed_calls + 1));
    json_object(w, NULL);
    json_int(w, "task", task);
    json_int(w, "epoch", epoch);
    json_stringz(w, "idempotencyKey", key);
}

static int call_keyed(struct reeve *r, const char *method, const struct buf *params,
                      struct arena *a, const struct json **ret)
{
    int code = hand_call(r, method, params, a, ret);
    if (code != LINE_STOPPED && !(code < 0 && err_may_retry(code)))
        r->keyed_calls++;
    return code;
}

struct taken {
    struct buf results, ids;
    struct json_out results_out, ids_out;
};

/* One answer of task.resume holds so much; *ret_count: how many results there were in it. */
static int take_page(struct reeve *r, struct taken *t, size_t *ret_count)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *answer;
    begin_keyed(r, r->offered, r->offered_epoch, &w);
    json_end(&w);
    *ret_count = 0;
    int code = call_keyed(r, "task.resume", &params, &a, &answer);
    const struct json *results = code == 0 ? json_get(answer, "results") : NULL;
    if (results && results->type == JSON_ARRAY)
        JSON_FOREACH (result, results) {
            json_value(&t->results_out, NULL, result);
            json_string(&t->ids_out, NULL, json_get_text(result, "toolCallId"));
            ++*ret_count;
        }
    return code;
}

static int take_all(struct reeve *r, struct taken *t)
{
    size_t count;
    int code;
    json_array(&t->results_out, NULL);
    json_array(&t->ids_out, NULL);
    do
        code = take_page(r, t, &count);
    while (code == 0 && count);
    json_end(&t->results_out);
    json_end(&t->ids_out);
    return code;
}

int reeve_resume(struct reeve *r)
{
    struct taken t = {.results = BUF_INIT(CLIENT_RESPONSE_BYTES_MAX),
                      .ids = BUF_INIT(CLIENT_RESPONSE_BYTES_MAX)};
    r->err = ERR_INIT;
    if (!r->has_joined || r->has_task || r->offered_epoch < 0) {
        err_set(&r->err, ERR_USAGE,
                r->has_task ? "one task at a time" : "reeve_wait() has announced no results");
        return REEVE_MISUSE;
    }
    t.results_out = JSON_OUT(&t.results);
    t.ids_out = JSON_OUT(&t.ids);
    int code = take_all(r, &t);
    free(r->results);
    free(r->ids);
    r->results = buf_take(&t.results);
    r->ids = buf_take(&t.ids);
    r->task = r->offered;
    r->epoch = r->offered_epoch;
    r->offered_epoch = -1; /* what is not applied is announced again */
    r->was_refused = hand_is_gone(code) || code == -ERR_STALE_EPOCH;
    r->is_resuming = code == 0;
    return r->was_refused ? REEVE_NONE : reeve_outcome(code);
}

/* Somebody else may have some of the results, or all: then it is not for us to go on. */
static int go_on(struct reeve *r, const struct json *applied, unsigned flags)
{
    const struct json *task = json_get(applied, "task");
    r->is_resuming = false;
    r->was_refused = !str_is(json_get_text(task, "status"), "in_progress");
    if (r->was_refused)
        return REEVE_NONE;
    hand_keep_task(r, task);
    hand_take(r, r->task, json_get_int(applied, "epoch", 0), flags);
    return REEVE_OK;
}

int reeve_applied(struct reeve *r, unsigned flags)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *applied;
    if (!r->is_resuming) {
        err_set(&r->err, ERR_USAGE, "no results were taken");
        return REEVE_MISUSE;
    }
    begin_keyed(r, r->task, r->epoch, &w);
    int code = hand_add_json(r, &w, &a, "toolCallIds", r->ids);
    json_bool(&w, "unattended", flags & REEVE_UNATTENDED);
    json_end(&w);
    if (code == 0)
        code = call_keyed(r, "task.applied", &params, &a, &applied);
    if (code == 0)
        return go_on(r, applied, flags);
    if (code == -ERR_STALE_EPOCH || hand_is_gone(code)) {
        r->is_resuming = false;
        r->was_refused = true;
        return REEVE_NONE;
    }
    return reeve_outcome(code);
}
