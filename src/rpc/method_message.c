/* method_message.c: message.send, trace.append, turn.clear, attachment.get. */
#include <stdio.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "domain/attachment.h"
#include "domain/task.h"
#include "rpc/method.h"

enum { ATTACHMENTS_MAX = 100, PAYLOAD_BYTES_MAX = 256 << 20 };

static const char *const finality_choices[] = {"none", "turn", "conversation", NULL};
static const char *const outcome_choices[] = {"completed", "canceled", "failed", NULL};
static const char *const trace_choices[] = {
    "thought", "tool_call", "tool_result", "user_query", "user_response", "progress", NULL};

static const struct param attachment_fields[] = {
    {.name = "name",
     .type = PARAM_STRING,
     .required = true,
     .min = 1,
     .max = 255,
     .doc = "file name"},
    {.name = "contentType",
     .type = PARAM_STRING,
     .min = 1,
     .max = 255,
     .fallback = "application/octet-stream",
     .doc = "media type"},
    {.name = "content", .type = PARAM_STRING, .doc = "base64; this or `text`"},
    {.name = "text", .type = PARAM_STRING, .doc = "stored as UTF-8; this or `content`"},
    PARAMS_END,
};

static const struct param outcome_fields[] = {
    {.name = "status",
     .type = PARAM_CHOICE,
     .required = true,
     .choices = outcome_choices,
     .doc = "how it ended"},
    {.name = "reason", .type = PARAM_STRING, .may_be_null = true, .max = 1000, .doc = "why"},
    PARAMS_END,
};

static const struct param precondition_fields[] = {
    {.name = "lastClosedSeq",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "any",
     .doc = "as in `head`"},
    {.name = "knownRole",
     .type = PARAM_BOOL,
     .fallback = "false",
     .doc = "`agentId` is a role of the conversation; without it, guests may write too"},
    PARAMS_END,
};

static const struct param trace_fields[] = {
    {.name = "type",
     .type = PARAM_CHOICE,
     .required = true,
     .choices = trace_choices,
     .doc = "what it tells; other members are free"},
    PARAMS_END,
};

#define AGENT_ROW                                                                    \
    {                                                                                \
        .name = "agentId", .type = PARAM_NAME, .required = true, .doc = "who writes" \
    }
#define TURN_ROW                                                                      \
    {                                                                                 \
        .name = "turn", .type = PARAM_INT, .may_be_null = true, .max = ID_MAX,        \
        .fallback = "the open turn, else the next", .doc = "refused if it is another" \
    }
#define REQUEST_ROWS                                                                        \
    {.name = "clientRequestId",                                                             \
     .type = PARAM_STRING,                                                                  \
     .min = 1,                                                                              \
     .max = RPC_KEY_BYTES_MAX,                                                              \
     .doc = "the same again: the first answer, for ever"},                                  \
    {                                                                                       \
        .name = "idempotencyKey", .type = PARAM_STRING, .min = 1, .max = RPC_KEY_BYTES_MAX, \
        .doc = "another name for clientRequestId"                                           \
    }

const struct param params_message_send[] = {
    CONVERSATION_ROW,
    AGENT_ROW,
    {.name = "text", .type = PARAM_STRING, .required = true, .doc = "the message"},
    {.name = "finality",
     .type = PARAM_CHOICE,
     .choices = finality_choices,
     .fallback = "none",
     .doc = "what it closes"},
    TURN_ROW,
    {.name = "to",
     .type = PARAM_NAME,
     .may_be_null = true,
     .doc = "a role: the message is also that agent's task, made in the same transaction"},
    {.name = "attachments",
     .type = PARAM_LIST,
     .max = ATTACHMENTS_MAX,
     .fields = attachment_fields,
     .doc = "stored apart, byte-exact"},
    {.name = "outcome",
     .type = PARAM_OBJECT,
     .fields = outcome_fields,
     .fallback = "completed, with finality conversation",
     .doc = "only with finality conversation"},
    {.name = "metadata", .type = PARAM_OBJECT, .may_be_null = true, .doc = "kept as given"},
    {.name = "precondition",
     .type = PARAM_OBJECT,
     .may_be_null = true,
     .fields = precondition_fields,
     .doc = "refused if it does not hold"},
    REQUEST_ROWS,
    PARAMS_END,
};

const struct param params_trace_append[] = {
    CONVERSATION_ROW,
    AGENT_ROW,
    {.name = "payload",
     .type = PARAM_OBJECT,
     .required = true,
     .fields = trace_fields,
     .is_open = true,
     .doc = "kept as given"},
    TURN_ROW,
    {.name = "finality",
     .type = PARAM_CHOICE,
     .choices = finality_choices,
     .fallback = "none",
     .doc = "a trace closes nothing: anything but none is FINALITY_RULE"},
    REQUEST_ROWS,
    PARAMS_END,
};

const struct param params_turn_clear[] = {
    CONVERSATION_ROW,
    AGENT_ROW,
    {.name = "reason", .type = PARAM_STRING, .may_be_null = true, .max = 1000, .doc = "why"},
    KEY_ROW,
    PARAMS_END,
};

const struct param params_attachment_get[] = {
    {.name = "id", .type = PARAM_INT, .required = true, .max = ID_MAX, .doc = "from an event"},
    PARAMS_END,
};

/* ---- attachments ---- */

static int refuse_attachment(struct err *err, size_t i, const char *member, const char *reason)
{
    char path[64];
    snprintf(path, sizeof path, "attachments[%zu].%s", i, member);
    return params_refuse(err, path, reason);
}

static int read_content(struct method_context *c, const struct json *item, size_t i,
                        struct str *ret, struct err *err)
{
    struct str text = params_str(item, "text"), base64 = params_str(item, "content");
    if ((text.p != NULL) == (base64.p != NULL))
        return refuse_attachment(err, i, "content", "either content or text is required");
    *ret = text;
    if (text.p)
        return 0;
    _cleanup_buf_ struct buf bytes = BUF_INIT(base64.n);
    if (!base64_read(&bytes, base64))
        return refuse_attachment(err, i, "content", "is not base64");
    *ret = arena_str(c->arena, buf_str(&bytes));
    return 0;
}

static int read_attachments(struct method_context *c, struct attachment **ret, size_t *ret_count,
                            struct err *err)
{
    const struct json *list = params_get(c->params, "attachments");
    *ret = NULL;
    *ret_count = 0;
    if (!list)
        return 0;
    *ret = arena_alloc(c->arena, (list->count + 1) * sizeof **ret);
    JSON_FOREACH (item, list) {
        size_t i = (*ret_count)++;
        struct str type = params_str(item, "contentType");
        struct attachment *a = &(*ret)[i];
        *a = (struct attachment){
            .attachment = attachment_number(c->work, i),
            .conversation = params_int(c->params, "conversation", 0),
            .name = params_str(item, "name"),
            .content_type = type.p ? type : STR("application/octet-stream"),
        };
        int r = read_content(c, item, i, &a->content, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int store_attachments(struct method_context *c, const struct attachment *a, size_t count,
                             int64_t event_id, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = attachment_store(c->work, &a[i], event_id, err);
    return r;
}

static void write_attachments(struct json_out *j, const struct attachment *a, size_t count)
{
    json_array(j, "attachments");
    for (size_t i = 0; i < count; i++) {
        json_object(j, NULL);
        json_int(j, "id", a[i].attachment);
        json_string(j, "name", a[i].name);
        json_string(j, "contentType", a[i].content_type);
        json_int(j, "size", (int64_t)a[i].content.n);
        json_end(j);
    }
    json_end(j);
}

/* ---- message.send ---- */

static struct str message_payload(struct method_context *c, const struct attachment *attachments,
                                  size_t count, enum finality finality, struct str to)
{
    const struct json *outcome = params_get(c->params, "outcome"),
                      *metadata = params_get(c->params, "metadata");
    struct buf b = BUF_INIT(PAYLOAD_BYTES_MAX);
    struct json_out j = JSON_OUT(&b);
    json_object(&j, NULL);
    json_value(&j, "text", json_get(c->params, "text"));
    if (count)
        write_attachments(&j, attachments, count);
    if (outcome)
        json_value(&j, "outcome", outcome);
    else if (finality == FINALITY_CONVERSATION)
        json_raw(&j, "outcome", STR("{\"status\":\"completed\"}"));
    if (metadata)
        json_value(&j, "metadata", metadata);
    if (to.p) {
        json_string(&j, "to", to);
        json_int(&j, "task", c->work->last.task + 1);
    }
    json_end(&j);
    struct str payload = arena_str(c->arena, buf_str(&b));
    buf_release(&b);
    return payload;
}

static enum finality read_finality(const struct json *params)
{
    enum finality finality = FINALITY_NONE;
    struct str s = params_str(params, "finality");
    if (s.p)
        finality_parse(s, &finality);
    return finality;
}

/* An explicit turn of 0 is the lane of system events: never the next turn. */
static int64_t read_turn(const struct json *params)
{
    int64_t turn = params_int(params, "turn", -1);
    return turn == 0 ? ID_MAX : turn < 0 ? 0 : turn;
}

static int read_outcome(struct method_context *c, struct append *a, struct err *err)
{
    static const enum stop_reason reasons[] = {[OUTCOME_COMPLETED] = STOP_COMPLETED,
                                               [OUTCOME_CANCELED] = STOP_CANCELED_BY_CLIENT,
                                               [OUTCOME_FAILED] = STOP_FAILED};
    const struct json *outcome = params_get(c->params, "outcome");
    if (outcome && a->finality != FINALITY_CONVERSATION)
        return params_refuse(err, "outcome", "only with finality conversation");
    a->outcome = OUTCOME_COMPLETED;
    if (outcome)
        outcome_parse(params_str(outcome, "status"), &a->outcome);
    a->stop_reason = reasons[a->outcome];
    return 0;
}

/* The task of a message that was sent before: its number is in the event. */
static int find_task_of(struct method_context *c, const struct event *e, struct task **ret,
                        struct err *err)
{
    const struct json *payload;
    int r = json_parse(c->arena, e->payload, JSON_DEPTH_MAX, &payload, err);
    return r < 0 ? r : task_get(c->work, params_int(payload, "task", 0), ret, err);
}

/* A message to a role is its task, too; what is to be done is the message. */
static int address(struct method_context *c, const struct event *e, bool is_repeat, struct str to,
                   struct json_out *out, struct err *err)
{
    struct task *t;
    if (!to.p)
        return 0;
    const struct json *content = json_get(c->params, "text");
    int r = is_repeat ? find_task_of(c, e, &t, err)
                      : method_create_task(c, e->conversation, to, content, &t, err);
    return r < 0 ? r : task_write(c->work, t, out, "task", err);
}

int method_message_send(struct method_context *c, struct json_out *out, struct err *err)
{
    const struct json *precondition = params_get(c->params, "precondition");
    struct attachment *attachments = NULL;
    size_t count = 0;
    struct append a = {
        .conversation = params_int(c->params, "conversation", 0),
        .agent_id = params_name(c->arena, c->params, "agentId"),
        .turn = read_turn(c->params),
        .finality = read_finality(c->params),
        .precondition_closed_seq = params_int(precondition, "lastClosedSeq", -1),
        .precondition_known_role = params_bool(precondition, "knownRole", false),
        .key = c->key,
    };
    struct str to = params_name(c->arena, c->params, "to");
    int r = read_outcome(c, &a, err);
    if (r == 0 && to.p && a.finality == FINALITY_CONVERSATION)
        r = params_refuse(err, "to", "nobody works on a conversation that has ended");
    if (r == 0)
        r = read_attachments(c, &attachments, &count, err);
    if (r < 0)
        return r;
    a.payload = message_payload(c, attachments, count, a.finality, to);
    a.is_whole_request = count == 0 && !to.p;
    int64_t last = c->work->last.event;
    struct event e;
    r = append_message(c->work, &a, &e, err);
    if (r == 0 && e.id > last) /* not a repeat */
        r = store_attachments(c, attachments, count, e.id, err);
    if (r < 0)
        return r;
    event_write_receipt(out, &e);
    return address(c, &e, e.id <= last, to, out, err);
}

/* ---- trace.append, turn.clear, attachment.get ---- */

int method_trace_append(struct method_context *c, struct json_out *out, struct err *err)
{
    struct buf b = BUF_INIT(PAYLOAD_BYTES_MAX);
    json_write_value(&b, json_get(c->params, "payload"));
    struct append a = {
        .conversation = params_int(c->params, "conversation", 0),
        .agent_id = params_name(c->arena, c->params, "agentId"),
        .turn = read_turn(c->params),
        .finality = read_finality(c->params),
        .payload = arena_str(c->arena, buf_str(&b)),
        .precondition_closed_seq = -1,
        .key = c->key,
        .is_whole_request = true,
    };
    buf_release(&b);
    struct event e;
    int r = append_trace(c->work, &a, &e, err);
    if (r == 0)
        event_write_receipt(out, &e);
    return r;
}

int method_turn_clear(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t turn;
    int r = append_turn_cleared(c->work, params_int(c->params, "conversation", 0),
                                params_name(c->arena, c->params, "agentId"),
                                c->grant->scope == SCOPE_OPERATOR, params_str(c->params, "reason"),
                                &turn, err);
    if (r == 0)
        json_int(out, "turn", turn);
    return r;
}

int method_attachment_get(struct method_context *c, struct json_out *out, struct err *err)
{
    struct attachment a;
    int64_t id = params_int(c->params, "id", 0);
    int r = attachment_get(c->work, id, &a, err);
    if (r == 0 && !grant_sees(c->grant, a.conversation))
        r = attachment_not_found(id, err);
    if (r < 0)
        return r;
    json_string(out, "name", a.name);
    json_string(out, "contentType", a.content_type);
    json_int(out, "size", (int64_t)a.content.n);
    _cleanup_buf_ struct buf base64 = BUF_INIT(PAYLOAD_BYTES_MAX);
    base64_write(&base64, a.content.p, a.content.n);
    json_string(out, "content", buf_str(&base64));
    return 0;
}
