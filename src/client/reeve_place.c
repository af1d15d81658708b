/*
 * reeve_place.c: joining, waiting and leaving.
 *
 * The wait is a chain of long polls, each a sign of life, each no longer than the interval of
 * heartbeats. What the server says in between (join again, not now, somebody else) is worked off
 * here. A place that was asked for once counts as joined, whether or not the answer arrived: better
 * one leave too many than a listener that nobody has.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "client/reeve_handle.h"

enum {
    QUIET_FIRST_MS = 200, /* between polls that are answered at once */
    QUIET_MAX_MS = 5000,
    ANSWER_MS_MAX = 10000, /* for the answer of a poll, after its own time */
    HEARTBEAT_MS_MIN = 50,
    HEARTBEAT_MS_DEFAULT = 30000,
};

/* What a poll may answer besides the results of reeve.h. */
enum { PLACE_BLOCKED = 100, PLACE_LOST };

void place_write(const struct reeve *r, struct json_out *w)
{
    json_object(w, NULL);
    json_int(w, "conversation", r->conversation);
    json_stringz(w, "role", r->role);
    json_stringz(w, "connectionId", r->connection);
}

static int64_t member(const struct json *object, const char *key, int64_t otherwise)
{
    const struct json *m = json_get(object, key);
    return m && m->type == JSON_INT && m->integer > 0 ? m->integer : otherwise;
}

/* As often as the server wishes, and in any case twice within a lease. */
static int64_t heartbeat_of(const struct json *joined)
{
    int64_t ms = member(joined, "heartbeatMs", HEARTBEAT_MS_DEFAULT),
            ttl_ms = member(joined, "ttlMs", 2 * HEARTBEAT_MS_DEFAULT);
    return MAX(MIN(ms, ttl_ms / 2), (int64_t)HEARTBEAT_MS_MIN);
}

int place_join(const struct reeve *r, struct line *l, int64_t *ret_heartbeat_ms, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *joined;
    place_write(r, &w);
    json_end(&w);
    int code = line_call(l, "participant.join", &params, REEVE_CALL_MS_MAX, &a, &joined, err);
    if (code == 0)
        *ret_heartbeat_ms = heartbeat_of(joined);
    return code;
}

/* ---- joining ---- */

static int64_t longer(int64_t ms)
{
    return ms ? MIN(ms * 2, (int64_t)QUIET_MAX_MS) : QUIET_FIRST_MS;
}

static int64_t left_ms(int64_t deadline_us)
{
    return deadline_us == INT64_MAX ? INT64_MAX
                                    : MAX((deadline_us - clock_mono_us()) / 1000, (int64_t)0);
}

/* Until it has worked, the deadline, or an end to it. */
static int join_until(struct reeve *r, int64_t deadline_us)
{
    int64_t quiet_ms = 0, patience_us = MIN(deadline_us, reeve_deadline_us(r->patience_ms));
    for (;;) {
        r->err = ERR_INIT;
        int code = place_join(r, &r->line, &r->heartbeat_ms, &r->err);
        bool is_blocked = code == -ERR_CONVERSATION_BLOCKED;
        if (code >= 0 || !(is_blocked || err_may_retry(code)) ||
            left_ms(is_blocked ? deadline_us : patience_us) == 0)
            return code;
        quiet_ms = is_blocked ? longer(quiet_ms) : line_lost(&r->line, &r->err);
        if (line_pause(&r->line, MIN(quiet_ms, left_ms(deadline_us))) == LINE_STOPPED)
            return LINE_STOPPED;
    }
}

int reeve_join(struct reeve *r, int64_t conversation, const char *role)
{
    if (conversation < 1 || !role || r->has_joined) {
        err_set(&r->err, ERR_USAGE, "a conversation and a role, and one place at a time");
        return REEVE_MISUSE;
    }
    r->conversation = conversation;
    free(r->role);
    r->role = mem_strdup(role);
    r->has_joined = true;
    return reeve_outcome(join_until(r, INT64_MAX));
}

/* ---- waiting ---- */

static int answer_of(const struct json *waited)
{
    static const struct {
        const char *status;
        int answer;
    } rows[] = {
        {"task", REEVE_TASK},       {"resume", REEVE_RESUME},         {"none", REEVE_NONE},
        {"stop", REEVE_STOP},       {"superseded", REEVE_SUPERSEDED}, {"ended", REEVE_ENDED},
        {"blocked", PLACE_BLOCKED}, {"rejoin_required", PLACE_LOST},
    };
    const struct json *status = json_get(waited, "status");
    for (size_t i = 0; status && status->type == JSON_STRING && i < ARRAY_LEN(rows); i++)
        if (str_is(status->string, rows[i].status))
            return rows[i].answer;
    return PLACE_BLOCKED; /* of a newer server: nothing for us, and no hurry */
}

static int poll_once(struct reeve *r, int64_t deadline_us, int *ret_answer)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *waited;
    int64_t most_ms = MIN((int64_t)REEVE_POLL_MS_MAX, r->heartbeat_ms),
            ms = MIN(most_ms, left_ms(deadline_us));
    place_write(r, &w);
    json_int(&w, "timeoutMs", ms);
    json_bool(&w, "settled", true);
    json_end(&w);
    int code =
        line_call_until(&r->line, "task.wait", &params, ms + ANSWER_MS_MAX,
                        MIN(deadline_us, reeve_deadline_us(r->patience_ms)), &a, &waited, &r->err);
    if (code != 0)
        return code;
    *ret_answer = answer_of(waited);
    const struct json *task = json_get(waited, "task");
    r->offered = member(task, "task", 0);
    r->offered_epoch = *ret_answer == REEVE_RESUME ? json_get_int(task, "epoch", -1) : -1;
    if (r->offered_epoch >= 0)
        hand_keep_task(r, task);
    return 0;
}

struct waiting {
    int64_t deadline_us, quiet_ms;
    bool was_lost;
};

/* What an answer that brings nothing asks for before the next poll. */
static int prepare_next(struct reeve *r, struct waiting *w, int answer)
{
    int code = 0;
    if (answer == REEVE_NONE) {
        *w = (struct waiting){.deadline_us = w->deadline_us};
        return 0;
    }
    if (answer == PLACE_BLOCKED || w->was_lost) {
        w->quiet_ms = longer(w->quiet_ms);
        code = line_pause(&r->line, MIN(w->quiet_ms, left_ms(w->deadline_us)));
    }
    w->was_lost = answer == PLACE_LOST;
    return code == 0 && w->was_lost ? join_until(r, w->deadline_us) : code;
}

static int wait_until(struct reeve *r, struct waiting *w)
{
    int answer, code = 0;
    if (r->was_refused) /* announced and not to be had: no hurry to hear of it again */
        code = line_pause(&r->line, MIN((int64_t)QUIET_FIRST_MS, left_ms(w->deadline_us)));
    r->was_refused = false;
    while (code == 0) {
        code = poll_once(r, w->deadline_us, &answer);
        if (code == 0 && answer < PLACE_BLOCKED && answer != REEVE_NONE)
            return answer;
        if (code == 0 && left_ms(w->deadline_us) == 0)
            return REEVE_NONE;
        if (code == 0)
            code = prepare_next(r, w, answer);
    }
    /* Blocked to the last: nothing has come. */
    return code == -ERR_CONVERSATION_BLOCKED ? REEVE_NONE : reeve_outcome(code);
}

int reeve_wait(struct reeve *r, int64_t timeout_ms)
{
    struct waiting w = {.deadline_us = reeve_deadline_us(timeout_ms)};
    r->err = ERR_INIT;
    if (!r->has_joined) {
        err_set(&r->err, ERR_USAGE, "join first");
        return REEVE_MISUSE;
    }
    return wait_until(r, &w);
}

/* ---- leaving ---- */

int reeve_leave(struct reeve *r)
{
    hand_forget(r);
    r->is_resuming = false;
    r->offered = 0;
    r->offered_epoch = -1;
    if (!r->has_joined)
        return REEVE_OK;
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *none;
    struct err unheard = ERR_INIT;
    int stop_fd = r->line.stop_fd;
    place_write(r, &w);
    json_end(&w);
    r->line.stop_fd = -1;
    line_call(&r->line, "participant.leave", &params, REEVE_LEAVE_MS_MAX, &a, &none, &unheard);
    r->line.stop_fd = stop_fd;
    r->has_joined = false;
    return REEVE_OK;
}
