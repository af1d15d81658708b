/* task_end.c: see task_end.h. */
#include "domain/task_end.h"

#include <string.h>

#include "base/crypto.h"
#include "base/planted.h"
#include "domain/append.h"
#include "domain/card.h"
#include "domain/task_row.h"
#include "domain/work.h"

/* ---- what is told ---- */

struct str task_end_error(const struct task *t, const struct task_move *m)
{
    return m->error.p || !m->rule ? m->error : str_of(stop_reason_name(t->stop_reason));
}

int task_end_store_error(struct work *w, struct task *t, struct str error, struct err *err)
{
    t->has_words = true;
    struct query *q = store_query(w->store, SQL_TASK_ERROR_UPDATE);
    query_int(q, 1, t->task);
    query_text(q, 2, error);
    return query_run(q, NULL, err);
}

static void write_deliverable(struct json_out *j, const struct task *t, struct str undelivered)
{
    if (t->deliverable) {
        json_int(j, "deliverable_card_id", t->deliverable);
        json_null(j, "deliverable_error");
    } else {
        json_null(j, "deliverable_card_id");
        json_string(j, "deliverable_error", undelivered);
    }
}

static void write_stats(struct json_out *j, const struct task *t, int64_t now_ms)
{
    json_object(j, "stats");
    json_int(j, "waited_ms", (t->acknowledged_ms ? t->acknowledged_ms : now_ms) - t->created_ms);
    json_int(j, "worked_ms", t->started_ms ? now_ms - t->started_ms : 0);
    json_int(j, "lost_attempts", t->attempts);
    json_end(j);
}

int task_end_append(struct work *w, const struct task *t, int64_t epoch, const struct task_move *m,
                    struct str undelivered, struct err *err)
{
    _cleanup_buf_ struct buf data = BUF_INIT(1 << 20);
    struct json_out j = JSON_OUT(&data);
    json_object(&j, NULL);
    json_int(&j, "task", t->task);
    json_string(&j, "agent",
                arena_printf(&w->arena, "%lld:%s", (long long)t->conversation, t->role));
    json_stringz(&j, "status", task_outcome_name(t->status));
    json_int(&j, "attempt", t->attempts + (t->acknowledged_ms ? 1 : 0));
    json_stringz(&j, "reason", stop_reason_name(t->stop_reason));
    json_string(&j, "error", task_end_error(t, m));
    json_int(&j, "epoch", epoch);
    write_deliverable(&j, t, undelivered);
    write_stats(&j, t, w->now_ms);
    json_end(&j);
    struct event e;
    int r = append_system(w, t->conversation, "system-tasks", "agent.task", buf_str(&data), NULL,
                          &e, err);
    return r < 0 ? r : work_note_move(w, t->conversation, &e, m->rule ? m->rule : "task", err);
}

/* ---- the hand-off ---- */

int task_end_note_handoff(struct work *w, struct task *t, int64_t next, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TASK_HANDOFF_UPDATE);
    query_int(q, 1, t->task);
    query_int(q, 2, next);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

int task_end_handoff(struct work *w, const struct task *t, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TASK_HANDOFF);
    query_int(q, 1, t->task);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = r == STORE_ROW ? query_get_int(q, 0) : 0;
    query_end(q);
    return 0;
}

/* ---- repeats ---- */

static bool hash_json(struct work *w, struct str text, uint8_t ret[SHA256_BYTES])
{
    const struct json *v;
    struct err ignored = ERR_INIT;
    if (json_parse(&w->arena, text, JSON_DEPTH_MAX, &v, &ignored) < 0)
        return false;
    json_canonical_hash(v, NULL, ret);
    return true;
}

bool task_same_json(struct work *w, struct str a, struct str b)
{
    uint8_t hash_a[SHA256_BYTES], hash_b[SHA256_BYTES];
    if (!a.p || !b.p)
        return a.p == b.p;
    return str_eq(a, b) || (hash_json(w, a, hash_a) && hash_json(w, b, hash_b) &&
                            memcmp(hash_a, hash_b, sizeof hash_a) == 0);
}

static int refuse(const struct task *t, const char *what, struct err *err)
{
    err_set(err, ERR_IDEMPOTENCY_CONFLICT,
            "task %lld is %s already, by a call with another %s: this call changed nothing",
            (long long)t->task, task_status_name(t->status), what);
    return err_str(err, "what", str_of(what));
}

static int check_reason(struct work *w, const struct task *t, const struct task_move *m,
                        struct err *err)
{
    struct query *q = store_query(w->store, SQL_TASK_TEXTS);
    query_int(q, 1, t->task);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    bool is_same = r == STORE_ROW && !query_is_null(q, 1) && str_eq(query_get_text(q, 1), m->error);
    query_end(q);
    return is_same ? 0 : refuse(t, "reason", err);
}

static int check_deliverable(struct work *w, const struct task *t, const struct task_move *m,
                             struct err *err)
{
    struct str kept = STR_NONE;
    int r = t->deliverable ? card_content(w, t->deliverable, &kept, err) : 0;
    if (r < 0 || task_same_json(w, kept, m->deliverable))
        return r;
    refuse(t, "deliverable", err);
    return t->deliverable ? err_int(err, "deliverableCardId", t->deliverable)
                          : -ERR_IDEMPOTENCY_CONFLICT;
}

static int check_handoff(struct work *w, const struct task *t, const struct task_move *m,
                         struct err *err)
{
    struct task *next;
    struct str content;
    int64_t number;
    int r = task_end_handoff(w, t, &number, err);
    if (r < 0)
        return r;
    if (!number || !m->handoff.p)
        return !number && !m->handoff.p ? 0 : refuse(t, "handoff", err);
    r = task_get(w, number, &next, err);
    if (r == 0)
        r = task_content(w, next, &content, err);
    if (r < 0)
        return r;
    bool is_same = str_is(m->handoff_role, next->role) && task_same_json(w, content, m->handoff);
    return is_same ? 0 : refuse(t, "handoff", err);
}

int task_end_check_repeat(struct work *w, const struct task *t, const struct task_move *m,
                          struct err *err)
{
    bool is_its_own = t->stop_reason == m->stop_reason; /* not by the end of the conversation */
    if (!is_its_own || planted(SECOND_BODY_DROPPED))
        return 0;
    if (m->trigger != TRIGGER_COMPLETE)
        return check_reason(w, t, m, err);
    int r = check_deliverable(w, t, m, err);
    return r < 0 ? r : check_handoff(w, t, m, err);
}
