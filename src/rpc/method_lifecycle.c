/* method_lifecycle.c: lifecycle.ensure, .stop, .getEnsured, command.list. */
#include "domain/agent.h"
#include "domain/process.h"
#include "domain/start.h"
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

static bool is_among(struct str name, const struct agent_role *list)
{
    for (; list; list = list->next)
        if (str_eq(name, list->name))
            return true;
    return false;
}

/* The agents that are meant, in order, each once. */
static int find_roles(struct method_context *c, struct agent_role **ret, struct err *err)
{
    const struct json *roles = params_get(c->params, "roles");
    struct agent_role *first = NULL, **at = &first;
    if (!roles)
        return agent_roles(c->work, params_int(c->params, "conversation", 0), ret, err);
    JSON_FOREACH (item, roles) {
        struct agent_role *role = arena_alloc(c->arena, sizeof *role);
        *role = (struct agent_role){.name = params_lower(c->arena, item->string)};
        if (is_among(role->name, first))
            continue;
        *at = role;
        at = &role->next;
    }
    *ret = first;
    return 0;
}

typedef int agent_fn(struct method_context *c, struct agent *a, struct json_out *out,
                     struct err *err);

/* ERR_NOT_FOUND if a role, or the conversation, is not there. */
static int each_agent(struct method_context *c, agent_fn *fn, struct json_out *out, struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", 0);
    struct head *h;
    struct agent_role *roles;
    int r = head_get(c->work, conversation, &h, err);
    if (r == 0)
        r = find_roles(c, &roles, err);
    for (struct agent_role *role = r == 0 ? roles : NULL; r == 0 && role; role = role->next) {
        struct agent *a;
        r = agent_get(c->work, conversation, role->name, &a, err);
        if (r == 0)
            r = fn(c, a, out, err);
    }
    return r;
}

static int write_if_ensured(struct method_context *c, struct agent *a, struct json_out *out,
                            struct err *err)
{
    (void)c;
    (void)err;
    if (!a->is_ensured && a->process == PROCESS_NONE)
        return 0;
    json_object(out, NULL);
    json_stringz(out, "role", a->role);
    json_stringz(out, "view", agent_view_name(a->view));
    json_end(out);
    return 0;
}

static int ensure(struct method_context *c, struct agent *a, struct json_out *out, struct err *err)
{
    int r = agent_start_by_person(c->work, a, false, "ensured_by_user", err);
    return r < 0 ? r : write_if_ensured(c, a, out, err);
}

static int stop(struct method_context *c, struct agent *a, struct json_out *out, struct err *err)
{
    (void)out;
    return agent_stop_by_person(c->work, a, false, err);
}

int method_lifecycle_ensure(struct method_context *c, struct json_out *out, struct err *err)
{
    struct head *h;
    int r = head_get(c->work, params_int(c->params, "conversation", 0), &h, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r < 0)
        return r;
    json_array(out, "ensured");
    r = each_agent(c, ensure, out, err);
    json_end(out);
    return r;
}

int method_lifecycle_stop(struct method_context *c, struct json_out *out, struct err *err)
{
    return each_agent(c, stop, out, err);
}

int method_lifecycle_get_ensured(struct method_context *c, struct json_out *out, struct err *err)
{
    json_array(out, "ensured");
    int r = each_agent(c, write_if_ensured, out, err);
    json_end(out);
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
