/* deliverable.c: see deliverable.h. */
#include "domain/deliverable.h"

#include "base/planted.h"

#include "domain/card.h"
#include "domain/tool.h"
#include "domain/work.h"

/* A card is read by people: the newest results are enough, all are cards of their own. */
enum { RESULTS_MAX = 50, CARD_BYTES_MAX = 1 << 20 };

static const char card_type[] = "task.deliverable";

/* What is known of the work, read before anything is written. */
struct known {
    struct str note; /* the last progress; p == NULL: none was told */
    int64_t results; /* of its tools */
    int64_t attempts;
    const char *source, *reason;
    struct str message;
};

static int read_note(struct work *w, const struct task *t, struct known *k, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TASK_TEXTS);
    query_int(q, 1, t->task);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    k->note = query_is_null(q, 2) ? STR_NONE : arena_str(&w->arena, query_get_text(q, 2));
    query_end(q);
    return 0;
}

static int count_results(struct work *w, const struct task *t, struct known *k, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOOL_COUNT_RESULTS);
    query_int(q, 1, t->task);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    k->results = query_get_int(q, 0);
    query_end(q);
    return 0;
}

static int learn(struct work *w, const struct task *t, const struct task_move *m, struct known *ret,
                 struct err *err)
{
    *ret = (struct known){
        .attempts = t->attempts + (t->acknowledged_ms ? 1 : 0),
        .source = m->rule ? m->rule : task_trigger_name(m->trigger),
        .reason = stop_reason_name(t->stop_reason),
    };
    int r = read_note(w, t, ret, err);
    if (r == 0)
        r = count_results(w, t, ret, err);
    if (r < 0)
        return r;
    ret->message = arena_printf(
        &w->arena,
        "Task %lld was not completed: %s (%s)%s%.*s. Attempts: %lld; tool results: %lld. %s%.*s",
        (long long)t->task, ret->reason, ret->source, m->error.n ? ": " : "", STR_ARG(m->error),
        (long long)ret->attempts, (long long)ret->results,
        ret->note.p ? "Last progress: " : "No progress was told.", STR_ARG(ret->note));
    return 0;
}

static void write_field(struct json_out *j, const char *name, struct str value)
{
    json_object(j, NULL);
    json_stringz(j, "name", name);
    json_string(j, "value", value);
    json_end(j);
}

static int write_results(struct work *w, const struct task *t, struct json_out *j, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOOL_LIST_RESULTS);
    query_int(q, 1, t->task);
    query_int(q, 2, RESULTS_MAX);
    int r;
    json_object(j, NULL);
    json_stringz(j, "name", "tool_results");
    json_array(j, "value");
    while ((r = query_step(q, err)) == STORE_ROW) {
        json_object(j, NULL);
        json_string(j, "toolCallId", query_get_text(q, 0));
        json_string(j, "name", query_get_text(q, 1));
        json_string(j, "status", query_get_text(q, 2));
        json_int(j, "card", query_get_int(q, 3));
        json_end(j);
    }
    json_end(j);
    json_end(j);
    return r;
}

static int write_fields(struct work *w, const struct task *t, const struct known *k,
                        struct json_out *j, struct err *err)
{
    struct str no_output = arena_printf(&w->arena, "reason=%s", k->reason);
    json_array(j, "fields");
    write_field(j, "summary", k->message);
    write_field(j, "output", k->note.p ? k->note : no_output);
    write_field(j, "reason", str_of(k->reason));
    int r = write_results(w, t, j, err);
    json_end(j);
    return r;
}

static int make_fallback(struct work *w, const struct task *t, const struct task_move *m,
                         int64_t *ret, struct err *err)
{
    _cleanup_buf_ struct buf content = BUF_INIT(CARD_BYTES_MAX);
    struct json_out j = JSON_OUT(&content);
    struct known k;
    int r = learn(w, t, m, &k, err);
    if (r < 0)
        return r;
    json_object(&j, NULL);
    json_int(&j, "schema_version", 1);
    json_stringz(&j, "kind", "fallback_deliverable");
    json_stringz(&j, "status", "partial");
    json_string(&j, "message", k.message);
    r = write_fields(w, t, &k, &j, err);
    if (r < 0)
        return r;
    json_object(&j, "diagnostics");
    json_stringz(&j, "source", k.source);
    json_stringz(&j, "reason", k.reason);
    json_int(&j, "tool_result_count", k.results);
    json_int(&j, "attempts", k.attempts);
    json_string(&j, "last_progress", k.note);
    json_end(&j);
    json_end(&j);
    return card_create(w, card_type, t->conversation, t->task, buf_str(&content), ret, err);
}

/* 0: none. */
static int find_newest(struct work *w, const struct task *t, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_CARD_LAST_DELIVERABLE);
    query_int(q, 1, t->task);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = query_get_int(q, 0);
    query_end(q);
    return 0;
}

int deliverable_of_end(struct work *w, const struct task *t, const struct task_move *m,
                       int64_t *ret_card, struct str *ret_error, struct err *err)
{
    struct err why = ERR_INIT;
    bool is_its_own = m->trigger == TRIGGER_COMPLETE || m->trigger == TRIGGER_FAIL;
    *ret_card = 0;
    *ret_error = STR("none was given");
    if (is_its_own && m->deliverable.p)
        return card_create(w, card_type, t->conversation, t->task, m->deliverable, ret_card, err);
    if (planted(NO_DELIVERABLE))
        *ret_error = STR_NONE;
    if (is_its_own || planted(NO_DELIVERABLE))
        return 0;
    int r = find_newest(w, t, ret_card, &why);
    if (r == 0 && !*ret_card)
        r = make_fallback(w, t, m, ret_card, &why);
    if (r == -ERR_UNAVAILABLE)
        return err_set(err, ERR_UNAVAILABLE, "%s", why.message);
    if (r < 0) /* the end is worth more than what is said about it */
        *ret_error = arena_str(&w->arena, str_of(why.message));
    return 0;
}
