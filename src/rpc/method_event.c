/* method_event.c: event.list, event.subscribe, event.unsubscribe. */
#include "domain/head.h"
#include "domain/log_index.h"
#include "rpc/method.h"
#include "rpc/rpc.h"

static const char *const type_choices[] = {"message", "trace", "system", NULL};
static const struct param type_item = {.type = PARAM_CHOICE, .choices = type_choices};

const struct param params_event_list[] = {
    {.name = "conversation",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "all that the token may see",
     .doc = "number"},
    {.name = "afterSeq",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "0",
     .doc = "continue after this one; with `conversation` only"},
    {.name = "afterId",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "0",
     .doc = "a global id; not together with `afterSeq`"},
    {.name = "limit", .type = PARAM_INT, .min = 1, .max = 1000, .fallback = "200", .doc = "page"},
    PARAMS_END,
};

const struct param params_event_subscribe[] = {
    {.name = "conversation",
     .type = PARAM_INT,
     .may_be_null = true,
     .max = ID_MAX,
     .fallback = "all that the token may see",
     .doc = "number"},
    {.name = "afterSeq",
     .type = PARAM_INT,
     .may_be_null = true,
     .max = ID_MAX,
     .fallback = "from now on",
     .doc = "with `conversation` only"},
    {.name = "afterId",
     .type = PARAM_INT,
     .may_be_null = true,
     .max = ID_MAX,
     .fallback = "from now on",
     .doc = "a global id"},
    {.name = "types",
     .type = PARAM_LIST,
     .min = 1,
     .max = 3,
     .item = &type_item,
     .fallback = "all",
     .doc = "message, trace, system"},
    {.name = "includeGuidance",
     .type = PARAM_BOOL,
     .fallback = "false",
     .doc = "also whose turn it is"},
    PARAMS_END,
};

const struct param params_event_unsubscribe[] = {
    {.name = "subscription",
     .type = PARAM_INT,
     .required = true,
     .max = ID_MAX,
     .doc = "of this connection"},
    PARAMS_END,
};

struct listing {
    struct json_out *out;
    int64_t next; /* seq of the conversation, or global id */
    bool is_of_all, hides_server_log;
    int64_t shown;
};

static bool list_event(void *ctx, const struct event *e)
{
    struct listing *l = ctx;
    l->next = l->is_of_all ? e->id : e->seq;
    if (e->conversation == 0 && l->hides_server_log)
        return true;
    event_write(l->out, NULL, e);
    l->shown++;
    return l->out->buf->len < RPC_PAGE_BYTES && !l->out->buf->overflow;
}

/* A page of which nothing may be seen would look like the end: the next one is read instead. */
static int list_all(struct method_context *c, struct listing *l, int64_t limit, struct err *err)
{
    int64_t before;
    int r;
    do {
        before = l->next;
        r = log_read_all(c->work, l->next, limit, list_event, l, err);
    } while (r == 0 && l->shown == 0 && l->next > before);
    return r;
}

static int list_conversation(struct method_context *c, int64_t conversation, struct listing *l,
                             int64_t limit, struct err *err)
{
    struct head *h;
    int64_t after_id = params_int(c->params, "afterId", -1);
    int r = head_get(c->work, conversation, &h, err);
    if (r == 0 && after_id >= 0)
        r = log_seq_at_id(c->work, conversation, h->last_seq, after_id, &l->next, err);
    return r < 0 ? r : log_read(c->work, conversation, l->next, limit, list_event, l, err);
}

int method_event_list(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", -1);
    int64_t after_seq = params_int(c->params, "afterSeq", -1);
    int64_t after_id = params_int(c->params, "afterId", -1);
    int64_t limit = params_int(c->params, "limit", 200);
    if (after_seq >= 0 && after_id >= 0)
        return params_refuse(err, "afterId", "not together with afterSeq");
    if (after_seq >= 0 && conversation < 0)
        return params_refuse(err, "afterSeq", "only with conversation");
    if (conversation < 0 && c->grant->conversation)
        conversation = c->grant->conversation;
    bool is_of_all = conversation < 0;
    struct listing l = {
        .out = out,
        .next = MAX(is_of_all ? after_id : after_seq, INT64_C(0)),
        .is_of_all = is_of_all,
        .hides_server_log = is_of_all && c->grant->scope != SCOPE_OPERATOR,
    };
    json_array(out, "events");
    int r = is_of_all ? list_all(c, &l, limit, err)
                      : list_conversation(c, conversation, &l, limit, err);
    json_end(out);
    json_int(out, is_of_all ? "nextAfterId" : "nextAfterSeq", l.next);
    return r;
}

static unsigned read_types(const struct json *list)
{
    unsigned types = 0;
    if (list)
        JSON_FOREACH (item, list) {
            enum event_type type;
            if (event_type_parse(item->string, &type))
                types |= 1u << type;
        }
    return types;
}

int method_event_subscribe(struct method_context *c, struct json_out *out, struct err *err)
{
    struct subscribe ask = {
        .conversation = params_int(c->params, "conversation", SUBSCRIBE_ALL),
        .after_seq = params_int(c->params, "afterSeq", -1),
        .after_id = params_int(c->params, "afterId", -1),
        .types = read_types(params_get(c->params, "types")),
        .include_guidance = params_bool(c->params, "includeGuidance", false),
        .hides_server_log = c->grant->scope != SCOPE_OPERATOR,
        .expires_ms = c->grant->expires_ms,
    };
    if (!c->request->is_socket)
        return err_set(err, ERR_INVALID_REQUEST, "subscriptions need a WebSocket (or GET /events)");
    if (ask.after_seq >= 0 && ask.after_id >= 0)
        return params_refuse(err, "afterId", "not together with afterSeq");
    if (ask.after_seq >= 0 && ask.conversation == SUBSCRIBE_ALL)
        return params_refuse(err, "afterSeq", "only with conversation");
    if (ask.conversation == SUBSCRIBE_ALL && c->grant->conversation)
        ask.conversation = c->grant->conversation;
    int64_t number;
    int r = subscription_add(c->subscriptions, c->request->peer, &ask, &number, err);
    if (r == 0)
        json_int(out, "subscription", number);
    return r;
}

int method_event_unsubscribe(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)out;
    return subscription_remove(c->subscriptions, c->request->peer,
                               params_int(c->params, "subscription", 0), err);
}
