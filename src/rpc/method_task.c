/* method_task.c: task.create, .wait, .claim, .start, .progress, .complete, .fail, .cancel, .get,
 * .list. */
#include "base/clock.h"
#include "domain/agent.h"
#include "domain/process.h"
#include "domain/start.h"
#include "domain/participant.h"
#include "domain/task.h"
#include "domain/task_end.h"
#include "rpc/method.h"
#include "rpc/rpc.h"

enum { TASK_CONTENT_BYTES_MAX = 64 << 20 };

const struct param params_task_create[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    {.name = "content", .type = PARAM_ANY, .required = true, .doc = "what is to be done: any JSON"},
    {.name = "channel",
     .type = PARAM_STRING,
     .min = 1,
     .max = TASK_CHANNEL_BYTES_MAX,
     .fallback = "public",
     .doc = "where it is talked about"},
    {.name = "options", .type = PARAM_OBJECT, .may_be_null = true, .doc = "kept for later"},
    KEY_ROW,
    PARAMS_END,
};

const struct param params_task_wait[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    CONNECTION_ROW,
    {.name = "timeoutMs",
     .type = PARAM_INT,
     .max = WAIT_MS_MAX,
     .fallback = "25000",
     .doc = "answer `none` after this time"},
    {.name = "settled",
     .type = PARAM_BOOL,
     .doc = "true: `resume` only once no call is open and all results can be taken together"},
    {.name = "task",
     .type = PARAM_INT,
     .max = ID_MAX,
     .doc = "with `epoch`: the one it works on; absent: the active one"},
    {.name = "epoch",
     .type = PARAM_INT,
     .max = ID_MAX,
     .doc = "of the work in hand: waits for bad news only, `stale`, `stop` or `ended`"},
    PARAMS_END,
};

const struct param params_task_claim[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    CONNECTION_ROW,
    {.name = "task", .type = PARAM_INT, .min = 1, .max = ID_MAX, .doc = "absent: the active one"},
    {.name = "unattended",
     .type = PARAM_BOOL,
     .doc = "nobody will beat for it: a longer lease (`liveness.unattended_work_seconds`)"},
    KEY_ROW,
    PARAMS_END,
};

const struct param params_task_epoch[] = {TASK_ROW, EPOCH_ROW, KEY_ROW, PARAMS_END};

const struct param params_task_progress[] = {
    TASK_ROW,
    EPOCH_ROW,
    {.name = "note", .type = PARAM_STRING, .max = 4000, .doc = "for people"},
    {.name = "progress", .type = PARAM_ANY, .doc = "for programs"},
    KEY_ROW,
    PARAMS_END,
};

static const struct param handoff_fields[] = {
    ROLE_ROW,
    {.name = "content", .type = PARAM_ANY, .required = true, .doc = "what is to be done"},
    PARAMS_END,
};

const struct param params_task_complete[] = {
    TASK_ROW,
    EPOCH_ROW,
    {.name = "deliverable", .type = PARAM_ANY, .doc = "kept as a card of type task.deliverable"},
    {.name = "handoff",
     .type = PARAM_OBJECT,
     .may_be_null = true,
     .fields = handoff_fields,
     .doc = "another role's task, in the same transaction"},
    KEY_ROW,
    PARAMS_END,
};

const struct param params_task_fail[] = {
    TASK_ROW,
    EPOCH_ROW,
    {.name = "reason", .type = PARAM_STRING, .required = true, .max = 4000, .doc = "the error"},
    KEY_ROW,
    PARAMS_END,
};

const struct param params_task_cancel[] = {
    TASK_ROW,
    {.name = "reason", .type = PARAM_STRING, .required = true, .max = 4000, .doc = "why"},
    KEY_ROW,
    PARAMS_END,
};

const struct param params_task[] = {TASK_ROW, PARAMS_END};

static const char *const status_choices[] = {
#define X(name, text) text,
    TASK_STATUS_LIST(X)
#undef X
        NULL,
};

const struct param params_task_list[] = {
    {.name = "conversation", .type = PARAM_INT, .max = ID_MAX, .doc = "only of this one"},
    {.name = "role", .type = PARAM_NAME, .doc = "only of this role; with `conversation`"},
    {.name = "status", .type = PARAM_CHOICE, .choices = status_choices, .doc = "only these"},
    {.name = "after",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "0",
     .doc = "continue after this number"},
    {.name = "limit", .type = PARAM_INT, .min = 1, .max = 500, .fallback = "50", .doc = "page"},
    {.name = "spans",
     .type = PARAM_BOOL,
     .doc = "with `dispatchedAt` and `spans`: the longest times of each kind that it waited, and "
            "who ended "
            "them; what `reeve backtest` reads"},
    PARAMS_END,
};

/* ---- finding ---- */

static int find_agent(struct method_context *c, struct agent **ret, struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", 0);
    struct head *h;
    int r = head_get(c->work, conversation, &h, err);
    return r < 0 ? r
                 : agent_get(c->work, conversation, params_name(c->arena, c->params, "role"), ret,
                             err);
}

/* What a token may not see is not there; an agent's token is for its own tasks. */
int method_find_task(struct method_context *c, struct task **ret, struct err *err)
{
    int64_t task = params_int(c->params, "task", 0);
    int r = task_get(c->work, task, ret, err);
    if (r < 0)
        return r;
    if (!grant_sees(c->grant, (*ret)->conversation)) {
        err_set(err, ERR_NOT_FOUND, "there is no task %lld", (long long)task);
        err_str(err, "what", STR("task"));
        return err_int(err, "id", task);
    }
    if (c->grant->scope == SCOPE_AGENT && !str_is(str_of((*ret)->role), c->grant->role))
        return err_set(err, ERR_FORBIDDEN, "task %lld is %s's", (long long)task, (*ret)->role);
    return 0;
}

struct str method_json_text(struct method_context *c, const struct json *v)
{
    struct buf b = BUF_INIT(TASK_CONTENT_BYTES_MAX);
    json_write_value(&b, v);
    struct str text = arena_str(c->arena, buf_str(&b));
    buf_release(&b);
    return text;
}

/* ---- create ---- */

static int create(struct method_context *c, struct agent *a, struct str content, struct str channel,
                  struct task **ret, struct err *err)
{
    struct head *h;
    int r = head_get(c->work, a->conversation, &h, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r == 0)
        r = task_create(c->work, a, content, channel, ret, err);
    return r < 0 ? r : agent_bring_up(c->work, a, "has_work", err); /* work wakes it */
}

int method_create_task(struct method_context *c, int64_t conversation, struct str role,
                       const struct json *content, struct task **ret, struct err *err)
{
    struct agent *a;
    int r = agent_get(c->work, conversation, role, &a, err);
    return r < 0 ? r : create(c, a, method_json_text(c, content), STR("public"), ret, err);
}

int method_task_create(struct method_context *c, struct json_out *out, struct err *err)
{
    struct agent *a;
    struct task *t;
    struct str channel = params_str(c->params, "channel");
    int r = find_agent(c, &a, err);
    if (r == 0)
        r = create(c, a, method_json_text(c, json_get(c->params, "content")),
                   channel.p ? channel : STR("public"), &t, err);
    return r < 0 ? r : task_write(c->work, t, out, "task", err);
}

/* ---- wait ---- */

bool method_may_wait(struct method_context *c, int64_t timeout_ms, int64_t key)
{
    int64_t now_us = clock_mono_us();
    if (!c->call->wait_until_us)
        c->call->wait_until_us = now_us + timeout_ms * 1000;
    if (c->call->wait_until_us <= now_us)
        return false;
    c->host->wait(c->host->ctx, c->request, c->call, key);
    return true;
}

/* Of a listener, or, if it names an epoch, of a worker, who need not be the listener. */
static int look(struct method_context *c, const struct agent *a, enum wait_status *ret,
                struct task **ret_task, struct err *err)
{
    int64_t epoch = params_int(c->params, "epoch", -1);
    *ret_task = NULL;
    if (epoch >= 0)
        return participant_watch_work(c->work, a, params_int(c->params, "task", 0), epoch, ret,
                                      err);
    return participant_look(c->work, a->conversation, str_of(a->role),
                            params_str(c->params, "connectionId"),
                            params_bool(c->params, "settled", false), ret, ret_task, err);
}

int method_task_wait(struct method_context *c, struct json_out *out, struct err *err)
{
    struct agent *a;
    struct task *t;
    enum wait_status status;
    int64_t timeout_ms = params_int(c->params, "timeoutMs", 25000);
    bool is_worker = params_get(c->params, "epoch");
    int r = find_agent(c, &a, err);
    if (r == 0)
        r = look(c, a, &status, &t, err);
    if (r < 0)
        return r;
    bool has_work = status == WAIT_TASK || status == WAIT_RESUME;
    if ((status == WAIT_NONE || has_work) && !is_worker && !c->call->wait_until_us)
        agent_beat(c->work, a); /* to ask is a sign of life; to be asked again is none */
    if (status == WAIT_NONE && method_may_wait(c, timeout_ms, agent_key(a)))
        return METHOD_PARKED;
    json_stringz(out, "status", wait_status_name(status));
    return has_work ? task_write(c->work, t, out, "task", err) : 0;
}

/* ---- claim, start, progress ---- */

int method_task_claim(struct method_context *c, struct json_out *out, struct err *err)
{
    struct agent *a;
    struct task *t;
    int r = find_agent(c, &a, err);
    if (r == 0)
        r = task_claim(c->work, a, params_str(c->params, "connectionId"),
                       str_of(c->grant->spawn_id), params_int(c->params, "task", 0),
                       params_bool(c->params, "unattended", false), &t, err);
    if (r == 0)
        r = task_write(c->work, t, out, "task", err);
    if (r == 0)
        json_int(out, "epoch", t->epoch);
    return r;
}

int method_task_start(struct method_context *c, struct json_out *out, struct err *err)
{
    struct task *t;
    int r = method_find_task(c, &t, err);
    if (r == 0)
        r = task_move_with_epoch(c->work, t, params_int(c->params, "epoch", 0),
                                 &TASK_MOVE(TRIGGER_START), err);
    return r < 0 ? r : task_write(c->work, t, out, "task", err);
}

int method_task_progress(struct method_context *c, struct json_out *out, struct err *err)
{
    struct head *h;
    struct task *t;
    struct str note = params_str(c->params, "note");
    int r = method_find_task(c, &t, err);
    if (r == 0)
        r = task_check_epoch(c->work, t, params_int(c->params, "epoch", 0), err);
    if (r == 0)
        r = head_get(c->work, t->conversation, &h, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r == 0 && t->status != TASK_ACKNOWLEDGED && t->status != TASK_IN_PROGRESS)
        r = task_refuse(t, TRIGGER_START, err);
    if (r < 0)
        return r;
    task_beat(c->work, t);
    r = task_note_progress(c->work, t, err);
    if (r == 0 && note.p)
        r = task_store_note(c->work, t, note, err);
    if (r == 0)
        json_time(out, "activeUntil", task_active_until_ms(c->work, t));
    return r;
}

/* ---- the ends ---- */

static int hand_off(struct method_context *c, struct task *from, struct json_out *out,
                    struct err *err)
{
    const struct json *handoff = params_get(c->params, "handoff");
    struct task *t;
    if (!handoff)
        return 0;
    int r = method_create_task(c, from->conversation, params_name(c->arena, handoff, "role"),
                               json_get(handoff, "content"), &t, err);
    if (r == 0)
        r = task_end_note_handoff(c->work, from, t->task, err);
    return r < 0 ? r : task_write(c->work, t, out, "handoffTask", err);
}

/* Of a repeat: what was handed on, as it stands now. */
static int show_handoff(struct method_context *c, const struct task *from, struct json_out *out,
                        struct err *err)
{
    struct task *t;
    int64_t next;
    int r = task_end_handoff(c->work, from, &next, err);
    if (r < 0 || !next)
        return r;
    r = task_get(c->work, next, &t, err);
    return r < 0 ? r : task_write(c->work, t, out, "handoffTask", err);
}

int method_task_complete(struct method_context *c, struct json_out *out, struct err *err)
{
    struct task *t;
    const struct json *deliverable = json_get(c->params, "deliverable"),
                      *handoff = params_get(c->params, "handoff");
    struct task_move m = TASK_MOVE(TRIGGER_COMPLETE);
    m.stop_reason = STOP_COMPLETED;
    if (deliverable)
        m.deliverable = method_json_text(c, deliverable);
    if (handoff) {
        m.handoff_role = params_name(c->arena, handoff, "role");
        m.handoff = method_json_text(c, json_get(handoff, "content"));
    }
    int r = method_find_task(c, &t, err);
    bool was_over = r == 0 && task_is_over(t);
    if (r == 0)
        r = task_move_with_epoch(c->work, t, params_int(c->params, "epoch", 0), &m, err);
    if (r == 0)
        r = task_write(c->work, t, out, "task", err);
    if (r < 0)
        return r;
    if (t->deliverable)
        json_int(out, "deliverableCardId", t->deliverable);
    else
        json_null(out, "deliverableCardId");
    return was_over ? show_handoff(c, t, out, err) : hand_off(c, t, out, err);
}

int method_task_fail(struct method_context *c, struct json_out *out, struct err *err)
{
    struct task *t;
    struct task_move m = TASK_MOVE(TRIGGER_FAIL);
    m.stop_reason = STOP_FAILED;
    m.error = params_str(c->params, "reason");
    int r = method_find_task(c, &t, err);
    if (r == 0)
        r = task_move_with_epoch(c->work, t, params_int(c->params, "epoch", 0), &m, err);
    return r < 0 ? r : task_write(c->work, t, out, "task", err);
}

int method_task_cancel(struct method_context *c, struct json_out *out, struct err *err)
{
    struct task *t;
    struct task_move m = TASK_MOVE(TRIGGER_CANCEL);
    m.stop_reason = STOP_CANCELED_BY_USER;
    m.error = params_str(c->params, "reason");
    int r = method_find_task(c, &t, err);
    if (r == 0)
        r = t->end_trigger == TRIGGER_CANCEL ? task_end_check_repeat(c->work, t, &m, err)
                                             : task_move(c->work, t, &m, err);
    return r < 0 ? r : task_write(c->work, t, out, "task", err);
}

/* ---- get, list ---- */

int method_see_task(struct method_context *c, struct task **ret, struct err *err)
{
    int64_t task = params_int(c->params, "task", 0);
    int r = task_get(c->work, task, ret, err);
    if (r < 0 || grant_sees(c->grant, (*ret)->conversation))
        return r;
    err_set(err, ERR_NOT_FOUND, "there is no task %lld", (long long)task);
    err_str(err, "what", STR("task"));
    return err_int(err, "id", task);
}

int method_task_get(struct method_context *c, struct json_out *out, struct err *err)
{
    struct task *t;
    int r = method_see_task(c, &t, err);
    return r < 0 ? r : task_write(c->work, t, out, "task", err);
}

static struct query *list_query(struct method_context *c, int64_t conversation, struct str role)
{
    struct str status = params_str(c->params, "status");
    struct query *q;
    if (conversation < 0 && status.p) {
        q = store_query(c->work->store, SQL_TASK_LIST_BY_STATUS);
        query_text(q, 3, status);
        return q;
    }
    if (conversation < 0)
        return store_query(c->work->store, SQL_TASK_LIST);
    q = store_query(c->work->store,
                    role.p ? SQL_TASK_LIST_OF_AGENT : SQL_TASK_LIST_OF_CONVERSATION);
    query_int(q, 3, conversation);
    if (role.p)
        query_text(q, 4, role);
    return q;
}

static bool is_wanted(struct method_context *c, const struct task *t)
{
    struct str status = params_str(c->params, "status");
    return grant_sees(c->grant, t->conversation) &&
           (!status.p || str_is(status, task_status_name(t->status)));
}

/* A page is what was looked at: with a filter it may hold fewer, even none, and still have a next.
 */
int method_task_list(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t limit = params_int(c->params, "limit", 50), n = 0, shown = 0;
    int64_t conversation = params_int(c->params, "conversation", -1);
    struct str role = params_name(c->arena, c->params, "role");
    bool has_spans = params_bool(c->params, "spans", false);
    if (role.p && conversation < 0)
        return params_refuse(err, "role", "only with conversation");
    if (conversation < 0 && c->grant->conversation)
        conversation = c->grant->conversation;
    int64_t *numbers = arena_alloc(c->arena, (size_t)(limit + 1) * sizeof *numbers);
    struct query *q = list_query(c, conversation, role);
    query_int(q, 1, params_int(c->params, "after", 0));
    query_int(q, 2, limit + 1);
    int r;
    while ((r = query_step(q, err)) == STORE_ROW)
        numbers[n++] = query_get_int(q, 0);
    json_array(out, "tasks");
    for (; r == 0 && shown < n && shown < limit && out->buf->len < RPC_PAGE_BYTES; shown++) {
        struct task *t;
        r = task_get(c->work, numbers[shown], &t, err);
        if (r == 0 && is_wanted(c, t))
            r = has_spans ? task_write_with_spans(c->work, t, out, NULL, err)
                          : task_write(c->work, t, out, NULL, err);
    }
    json_end(out);
    if (n > shown)
        json_int(out, "next", numbers[shown - 1]);
    else
        json_null(out, "next");
    return r;
}
