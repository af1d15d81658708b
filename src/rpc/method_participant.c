/* method_participant.c: participant.join, .heartbeat, .leave, .list. */
#include "domain/agent.h"
#include "domain/participant.h"
#include "rpc/method.h"

enum { PARTICIPANTS_MAX = 1000 };

const struct param params_participant[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    CONNECTION_ROW,
    PARAMS_END,
};

const struct param params_participant_heartbeat[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    CONNECTION_ROW,
    {.name = "task",
     .type = PARAM_INT,
     .max = ID_MAX,
     .doc = "the one it works on; absent: the active one"},
    {.name = "epoch",
     .type = PARAM_INT,
     .max = ID_MAX,
     .doc = "of that task: renews the worker's lease too, and nothing else does"},
    {.name = "progress",
     .type = PARAM_ANY,
     .doc = "anything; a value that differs from the last one counts as progress"},
    {.name = "note",
     .type = PARAM_STRING,
     .max = 4000,
     .doc = "for people, with `epoch`; kept with the task, and no progress by itself"},
    PARAMS_END,
};

const struct param params_participant_list[] = {
    {.name = "conversation", .type = PARAM_INT, .max = ID_MAX, .doc = "only of this one"},
    PARAMS_END,
};

static struct str role_of(struct method_context *c)
{
    return params_name(c->arena, c->params, "role");
}

int method_participant_join(struct method_context *c, struct json_out *out, struct err *err)
{
    struct agent *a;
    bool superseded;
    int r = participant_join(c->work, params_int(c->params, "conversation", 0), role_of(c),
                             params_str(c->params, "connectionId"), str_of(c->grant->spawn_id), &a,
                             &superseded, err);
    if (r < 0)
        return r;
    const struct options *o = c->work->options;
    json_stringz(out, "status", "waiting");
    json_time(out, "readyUntil", agent_ready_until_ms(c->work, a));
    json_int(out, "ttlMs", option_get(o, liveness, ttl_seconds) * 1000);
    json_int(out, "heartbeatMs", option_get(o, liveness, heartbeat_seconds) * 1000);
    if (superseded)
        json_bool(out, "superseded", true);
    return 0;
}

int method_participant_heartbeat(struct method_context *c, struct json_out *out, struct err *err)
{
    const struct heartbeat beat = {
        .conversation = params_int(c->params, "conversation", 0),
        .role = role_of(c),
        .connection = params_str(c->params, "connectionId"),
        .task = params_int(c->params, "task", 0),
        .epoch = params_int(c->params, "epoch", -1),
        .progress = params_get(c->params, "progress"),
        .note = params_str(c->params, "note"),
    };
    return participant_heartbeat(c->work, &beat, out, err);
}

int method_participant_leave(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)out;
    return participant_leave(c->work, params_int(c->params, "conversation", 0), role_of(c),
                             params_str(c->params, "connectionId"), err);
}

static int write_of(struct method_context *c, int64_t conversation, struct str role,
                    struct json_out *out, struct err *err)
{
    struct agent *a;
    int r = agent_get(c->work, conversation, role, &a, err);
    return r < 0 ? r : participant_write(c->work, a, out, NULL, err);
}

/* Everybody who ever joined, of all conversations: at most PARTICIPANTS_MAX. */
static int write_all(struct method_context *c, struct json_out *out, struct err *err)
{
    struct seen {
        struct seen *next;
        int64_t conversation;
        struct str role;
    } *first = NULL, **at = &first;
    struct query *q = store_query(c->work->store, SQL_AGENT_LIST_SEEN);
    query_int(q, 1, PARTICIPANTS_MAX);
    int r;
    while ((r = query_step(q, err)) == STORE_ROW) {
        struct seen *s = arena_alloc(c->arena, sizeof *s);
        *s = (struct seen){.conversation = query_get_int(q, 0),
                           .role = arena_str(c->arena, query_get_text(q, 1))};
        *at = s;
        at = &s->next;
    }
    for (struct seen *s = first; r == 0 && s; s = s->next)
        if (grant_sees(c->grant, s->conversation))
            r = write_of(c, s->conversation, s->role, out, err);
    return r;
}

int method_participant_list(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", -1);
    struct agent_role *roles = NULL;
    struct head *h;
    int r = 0;
    if (conversation >= 0) {
        r = head_get(c->work, conversation, &h, err);
        if (r == 0)
            r = agent_roles(c->work, conversation, &roles, err);
        if (r < 0)
            return r;
    }
    json_array(out, "participants");
    if (conversation < 0)
        r = write_all(c, out, err);
    for (struct agent_role *role = roles; r == 0 && role; role = role->next)
        r = write_of(c, conversation, role->name, out, err);
    json_end(out);
    return r;
}
