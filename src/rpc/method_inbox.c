/* method_inbox.c: inbox.enqueue, .receive, .consume, .list, .get. */
#include "base/mem.h"
#include "domain/inbox.h"
#include "domain/work.h"
#include "rpc/method.h"
#include "rpc/rpc.h"

enum { ROWS_PER_PAGE_MAX = 500, RECEIVED_MAX = 100, PAYLOAD_BYTES_MAX = 64 << 20 };

/* A turn is a task's: task.create makes it, task.wait announces it. */
static const char *const type_choices[] = {"tool_result", "timeout", "stop", "ui_action", NULL};
static const char *const status_choices[] = {
#define X(name, text) text,
    INBOX_STATUS_LIST(X)
#undef X
        NULL,
};

const struct param params_inbox_enqueue[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    {.name = "messageType",
     .type = PARAM_CHOICE,
     .required = true,
     .choices = type_choices,
     .doc = "a `turn` is made by `task.create`"},
    {.name = "correlationId",
     .type = PARAM_STRING,
     .required = true,
     .min = 1,
     .max = RPC_KEY_BYTES_MAX,
     .doc = "what it is about: the same type and correlation again is the same message"},
    {.name = "payload", .type = PARAM_ANY, .required = true, .doc = "any JSON"},
    {.name = "channel",
     .type = PARAM_STRING,
     .may_be_null = true,
     .min = 1,
     .max = TASK_CHANNEL_BYTES_MAX,
     .fallback = "public",
     .doc = "where it is talked about; null: nobody knows"},
    KEY_ROW,
    PARAMS_END,
};

const struct param params_inbox_receive[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    CONNECTION_ROW,
    {.name = "limit",
     .type = PARAM_INT,
     .min = 1,
     .max = RECEIVED_MAX,
     .fallback = "20",
     .doc = "at most so many"},
    {.name = "timeoutMs",
     .type = PARAM_INT,
     .max = WAIT_MS_MAX,
     .fallback = "0",
     .doc = "wait this long for the first one"},
    KEY_ROW,
    PARAMS_END,
};

static const struct param inbox_item = {.name = "inboxIds", .type = PARAM_INT, .max = ID_MAX};

const struct param params_inbox_consume[] = {
    {.name = "inboxIds",
     .type = PARAM_LIST,
     .required = true,
     .max = ROWS_PER_PAGE_MAX,
     .item = &inbox_item,
     .doc = "what was dealt with"},
    CONNECTION_ROW,
    KEY_ROW,
    PARAMS_END,
};

const struct param params_inbox_list[] = {
    CONVERSATION_ROW,
    {.name = "role", .type = PARAM_NAME, .doc = "only of this one"},
    {.name = "status", .type = PARAM_CHOICE, .choices = status_choices, .doc = "only these"},
    {.name = "after",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "0",
     .doc = "continue after this number"},
    {.name = "limit",
     .type = PARAM_INT,
     .min = 1,
     .max = ROWS_PER_PAGE_MAX,
     .fallback = "50",
     .doc = "page"},
    PARAMS_END,
};

const struct param params_inbox_get[] = {
    {.name = "inboxId", .type = PARAM_INT, .required = true, .max = ID_MAX, .doc = "number"},
    PARAMS_END,
};

/* An agent whose conversation is active. */
static int find_agent(struct method_context *c, struct agent **ret, struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", 0);
    struct head *h;
    int r = head_get(c->work, conversation, &h, err);
    if (r == 0)
        r = agent_get(c->work, conversation, params_name(c->arena, c->params, "role"), ret, err);
    return r < 0 ? r : head_check_active(h, err);
}

/* ---- in ---- */

static struct str text_of(struct method_context *c, const struct json *v)
{
    _cleanup_buf_ struct buf b = BUF_INIT(PAYLOAD_BYTES_MAX);
    json_write_value(&b, v);
    return arena_str(c->arena, buf_str(&b));
}

static enum inbox_type type_of(struct str name)
{
    enum inbox_type type = 0;
    while (!str_is(name, inbox_type_name(type)))
        REQUIRE(++type < INBOX_TYPE_COUNT);
    return type;
}

int method_inbox_enqueue(struct method_context *c, struct json_out *out, struct err *err)
{
    struct agent *a;
    int64_t inbox;
    bool is_duplicate;
    struct str channel =
        json_get(c->params, "channel") ? params_str(c->params, "channel") : STR("public");
    int r = find_agent(c, &a, err);
    if (r == 0)
        r = inbox_put(c->work, a, type_of(params_str(c->params, "messageType")),
                      params_str(c->params, "correlationId"), channel,
                      text_of(c, json_get(c->params, "payload")), &inbox, &is_duplicate, err);
    if (r < 0)
        return r;
    json_int(out, "inboxId", inbox);
    if (is_duplicate)
        json_bool(out, "duplicate", true);
    return 0;
}

/* ---- out ---- */

int method_inbox_receive(struct method_context *c, struct json_out *out, struct err *err)
{
    struct agent *a;
    struct str connection = params_str(c->params, "connectionId");
    size_t count = (size_t)params_int(c->params, "limit", 20);
    struct inbox_row *rows = arena_alloc(c->arena, count * sizeof *rows);
    int r = find_agent(c, &a, err);
    if (r < 0)
        return r;
    bool listens = agent_is_attended(c->work, a);
    if (listens && !str_is(connection, a->connection))
        return err_set(err, ERR_SUPERSEDED, "another connection listens for %lld:%s",
                       (long long)a->conversation, a->role);
    if (listens && !c->call->wait_until_us)
        agent_beat(c->work, a); /* to ask is a sign of life; to be asked again is none */
    r = inbox_receive(c->work, a, connection, rows, &count, err);
    if (r < 0)
        return r;
    if (count == 0 && method_may_wait(c, params_int(c->params, "timeoutMs", 0), agent_key(a)))
        return METHOD_PARKED;
    json_array(out, "messages");
    for (size_t i = 0; i < count; i++)
        inbox_write_message(&rows[i], out, NULL);
    json_end(out);
    return 0;
}

/* What a token may not see is not there; an agent's token is for its own inbox. */
static int find_row(struct method_context *c, int64_t inbox, struct inbox_row *ret, struct err *err)
{
    const struct grant *g = c->grant;
    int r = inbox_get(c->work, inbox, ret, err);
    bool is_seen = r == 0 && grant_sees(g, ret->conversation) &&
                   (g->scope != SCOPE_AGENT || str_is(str_of(g->role), ret->role));
    return r < 0 || is_seen ? r : inbox_not_found(inbox, err);
}

/* Its conversation must be active, as for every other write. */
static int consume(struct method_context *c, int64_t inbox, bool *ret_done, struct err *err)
{
    struct inbox_row row;
    struct head *h;
    int r = find_row(c, inbox, &row, err);
    if (r == 0)
        r = head_get(c->work, row.conversation, &h, err);
    if (r == 0)
        r = head_check_active(h, err);
    return r < 0
               ? r
               : inbox_consume(c->work, &row, params_str(c->params, "connectionId"), ret_done, err);
}

int method_inbox_consume(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t done = 0;
    json_array(out, "refused");
    JSON_FOREACH (item, json_get(c->params, "inboxIds")) {
        bool is_done;
        int r = consume(c, item->integer, &is_done, err);
        if (r < 0)
            return r;
        done += is_done;
        if (!is_done)
            json_int(out, NULL, item->integer);
    }
    json_end(out);
    json_int(out, "consumed", done);
    return 0;
}

/* ---- looking ---- */

int method_inbox_get(struct method_context *c, struct json_out *out, struct err *err)
{
    struct inbox_row row;
    int r = find_row(c, params_int(c->params, "inboxId", 0), &row, err);
    if (r == 0)
        inbox_write(&row, out, "message");
    return r;
}

static int begin_list(struct method_context *c, int64_t limit, struct query **ret, struct err *err)
{
    struct head *h;
    int64_t conversation = params_int(c->params, "conversation", 0);
    struct str role = params_name(c->arena, c->params, "role");
    if (c->grant->scope == SCOPE_AGENT) {
        if (role.p && !str_is(role, c->grant->role))
            return err_set(err, ERR_FORBIDDEN, "this token speaks for %s", c->grant->role);
        role = str_of(c->grant->role);
    }
    int r = head_get(c->work, conversation, &h, err);
    if (r < 0)
        return r;
    struct query *q = store_query(c->work->store, SQL_INBOX_LIST);
    query_int(q, 1, conversation);
    query_text(q, 2, role);
    query_text(q, 3, params_str(c->params, "status"));
    query_int(q, 4, params_int(c->params, "after", 0));
    query_int(q, 5, limit + 1);
    *ret = q;
    return 0;
}

int method_inbox_list(struct method_context *c, struct json_out *out, struct err *err)
{
    struct query *q = NULL;
    struct inbox_row row = {0};
    int64_t limit = params_int(c->params, "limit", 50), shown = 0, last = 0;
    bool has_more = false;
    int r = begin_list(c, limit, &q, err);
    if (r < 0)
        return r;
    json_array(out, "messages");
    while (!has_more && (r = query_step(q, err)) == STORE_ROW) {
        has_more = shown++ == limit || out->buf->len >= RPC_PAGE_BYTES;
        if (has_more)
            break;
        r = inbox_from_row(c->work, q, &row, err);
        if (r < 0)
            break;
        last = row.inbox;
        inbox_write(&row, out, NULL);
    }
    query_end(q);
    json_end(out);
    if (has_more)
        json_int(out, "next", last);
    else
        json_null(out, "next");
    return MIN(r, 0);
}
