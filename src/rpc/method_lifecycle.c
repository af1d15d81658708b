/* method_lifecycle.c: lifecycle.ensure, .stop, .getEnsured, command.list. */
#include "domain/agent.h"
#include "domain/command.h"
#include "rpc/method.h"

enum { COMMANDS_PER_PAGE_MAX = 500 };

static const struct param role_item = {.type = PARAM_NAME};

#define ROLES_ROW                                                                                 \
    {                                                                                             \
        .name = "roles", .type = PARAM_LIST, .may_be_null = true, .max = CONVERSATION_AGENTS_MAX, \
        .item = &role_item, .doc = "only these; all if absent"                                    \
    }

const struct param params_lifecycle[] = {CONVERSATION_ROW, ROLES_ROW, KEY_ROW, PARAMS_END};
const struct param params_lifecycle_get[] = {CONVERSATION_ROW, ROLES_ROW, PARAMS_END};

static const char *const status_choices[] = {"pending", "delivered", "booting", "done",
                                             "failed",  "expired",   NULL};

const struct param params_command_list[] = {
    {.name = "conversation", .type = PARAM_INT, .max = ID_MAX, .doc = "only of this one"},
    {.name = "machine", .type = PARAM_NAME, .doc = "only for this one"},
    {.name = "status", .type = PARAM_CHOICE, .choices = status_choices, .doc = "only these"},
    {.name = "after",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "0",
     .doc = "continue after this number"},
    {.name = "limit",
     .type = PARAM_INT,
     .min = 1,
     .max = COMMANDS_PER_PAGE_MAX,
     .fallback = "50",
     .doc = "page"},
    PARAMS_END,
};

static bool is_among(struct str role, const struct agent *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_is(role, list[i].role))
            return true;
    return false;
}

/* The agents that are meant, in order; ERR_NOT_FOUND if a role is not there. */
static int find_agents(struct method_context *c, struct agent **ret, size_t *ret_count,
                       struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", 0);
    const struct json *roles = params_get(c->params, "roles");
    if (!roles)
        return agents_get(c->work, conversation, ret, ret_count, err);
    struct agent *list = arena_alloc(c->arena, (roles->count + 1) * sizeof *list);
    int r = 0;
    *ret_count = 0;
    JSON_FOREACH (item, roles) {
        struct str role = params_lower(c->arena, item->string);
        if (is_among(role, list, *ret_count))
            continue;
        r = agent_get(c->work, conversation, role, &list[*ret_count], err);
        if (r < 0)
            return r;
        (*ret_count)++;
    }
    *ret = list;
    return 0;
}

static void write_ensured(struct json_out *out, const struct agent *list, size_t count)
{
    json_array(out, "ensured");
    for (size_t i = 0; i < count; i++) {
        if (!list[i].is_ensured && list[i].view == VIEW_STOPPED)
            continue;
        json_object(out, NULL);
        json_stringz(out, "role", list[i].role);
        json_stringz(out, "view", agent_view_name(list[i].view));
        json_end(out);
    }
    json_end(out);
}

int method_lifecycle_ensure(struct method_context *c, struct json_out *out, struct err *err)
{
    struct head *h;
    struct agent *list;
    size_t count;
    int r = head_get(c->work, params_int(c->params, "conversation", 0), &h, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r == 0)
        r = find_agents(c, &list, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        list[i].desired = DESIRED_RUNNING;
        r = agent_ensure(c->work, &list[i], "ensured_by_user", err);
    }
    if (r == 0)
        write_ensured(out, list, count);
    return r;
}

int method_lifecycle_stop(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)out;
    struct head *h;
    struct agent *list;
    size_t count;
    int r = head_get(c->work, params_int(c->params, "conversation", 0), &h, err);
    if (r == 0)
        r = find_agents(c, &list, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++) {
        list[i].desired = DESIRED_STOPPED;
        r = agent_stop(c->work, &list[i], "stopped_by_user", err);
    }
    return r;
}

int method_lifecycle_get_ensured(struct method_context *c, struct json_out *out, struct err *err)
{
    struct head *h;
    struct agent *list;
    size_t count;
    int r = head_get(c->work, params_int(c->params, "conversation", 0), &h, err);
    if (r == 0)
        r = find_agents(c, &list, &count, err);
    if (r == 0)
        write_ensured(out, list, count);
    return r;
}

int method_command_list(struct method_context *c, struct json_out *out, struct err *err)
{
    const struct command_filter filter = {
        .conversation = params_int(c->params, "conversation", -1),
        .machine = params_name(c->arena, c->params, "machine"),
        .status = params_str(c->params, "status"),
    };
    int64_t next;
    int r = commands_write(c->work, &filter, params_int(c->params, "after", 0),
                           params_int(c->params, "limit", 50), out, "commands", &next, err);
    if (r < 0)
        return r;
    if (next)
        json_int(out, "next", next);
    else
        json_null(out, "next");
    return 0;
}
