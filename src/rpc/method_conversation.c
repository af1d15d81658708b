/* method_conversation.c: conversation.create, .get, .list, .end, .resume. */
#include <stdio.h>

#include "domain/offer.h"
#include "rpc/method.h"

static const char *const desired_choices[] = {"auto", "running", "stopped", NULL};
static const char *const status_choices[] = {"active", "blocked", "completed", NULL};
static const char *const outcome_choices[] = {"completed", "canceled", "failed", NULL};

static const struct param agent_fields[] = {
    {.name = "role", .type = PARAM_NAME, .required = true, .doc = "compared in lower case"},
    {.name = "kind",
     .type = PARAM_NAME,
     .may_be_null = true,
     .doc = "what the machine runs for it; without one the agent is unmanaged"},
    {.name = "machine", .type = PARAM_NAME, .may_be_null = true, .doc = "where it runs"},
    {.name = "desired",
     .type = PARAM_CHOICE,
     .choices = desired_choices,
     .fallback = "auto",
     .doc = "whether it should run"},
    PARAMS_END,
};

static const struct param runtime_fields[] = {
    {.name = "session_wall_clock_seconds",
     .type = PARAM_INT,
     .max = INT64_C(31536000000),
     .doc = "budget of a window; 0: none"},
    PARAMS_END,
};

static const struct param watchdog_fields[] = {
    {.name = "disabled", .type = PARAM_BOOL, .doc = "never cancel it for being idle"},
    {.name = "idleMs", .type = PARAM_INT, .max = OPTION_MS_MAX, .doc = "0: off"},
    {.name = "globalIdleMs", .type = PARAM_INT, .max = OPTION_MS_MAX, .doc = "0: off"},
    PARAMS_END,
};

const struct param params_conversation_create[] = {
    {.name = "title", .type = PARAM_STRING, .may_be_null = true, .max = 1000, .doc = "for people"},
    {.name = "agents",
     .type = PARAM_LIST,
     .required = true,
     .max = CONVERSATION_AGENTS_MAX,
     .fields = agent_fields,
     .doc = "who takes part, in the order of their turns"},
    {.name = "startingRole",
     .type = PARAM_NAME,
     .may_be_null = true,
     .doc = "one of `agents`; guidance names it first"},
    {.name = "maxTurns",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "40",
     .doc = "closing this turn ends the conversation; 0: no limit"},
    {.name = "runtime_controls",
     .type = PARAM_OBJECT,
     .may_be_null = true,
     .fields = runtime_fields,
     .doc = "budgets"},
    {.name = "watchdog",
     .type = PARAM_OBJECT,
     .may_be_null = true,
     .fields = watchdog_fields,
     .doc = "idle limits of its own"},
    {.name = "metadata", .type = PARAM_OBJECT, .may_be_null = true, .doc = "kept as given"},
    KEY_ROW,
    PARAMS_END,
};

const struct param params_conversation_resume[] = {
    CONVERSATION_ROW,
    {.name = "runtime_controls",
     .type = PARAM_OBJECT,
     .may_be_null = true,
     .fields = runtime_fields,
     .doc = "a new budget; absent: as before"},
    KEY_ROW,
    PARAMS_END,
};

const struct param params_conversation[] = {CONVERSATION_ROW, PARAMS_END};

const struct param params_conversation_list[] = {
    {.name = "status", .type = PARAM_CHOICE, .choices = status_choices, .doc = "only these"},
    {.name = "after",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "0",
     .doc = "continue after this number"},
    {.name = "limit", .type = PARAM_INT, .min = 1, .max = 500, .fallback = "50", .doc = "page"},
    PARAMS_END,
};

const struct param params_conversation_end[] = {
    CONVERSATION_ROW,
    {.name = "outcome",
     .type = PARAM_CHOICE,
     .choices = outcome_choices,
     .fallback = "completed",
     .doc = "how it ended"},
    {.name = "reason",
     .type = PARAM_STRING,
     .may_be_null = true,
     .max = 1000,
     .doc = "goes into the outcome"},
    {.name = "text",
     .type = PARAM_STRING,
     .fallback = "Conversation ended.",
     .doc = "of the terminal message"},
    {.name = "authorId", .type = PARAM_NAME, .fallback = "operator", .doc = "who ends it"},
    KEY_ROW,
    PARAMS_END,
};

/* ---- create ---- */

static int refuse_agent(struct err *err, size_t i, const char *reason)
{
    char path[48];
    snprintf(path, sizeof path, "agents[%zu].role", i);
    return params_refuse(err, path, reason);
}

static int read_agents(struct method_context *c, const struct agent_spec **ret, size_t *ret_count,
                       struct err *err)
{
    const struct json *list = json_get(c->params, "agents");
    struct agent_spec *agents = arena_alloc(c->arena, (list->count + 1) * sizeof *agents);
    size_t n = 0;
    JSON_FOREACH (item, list) {
        struct str desired = params_str(item, "desired");
        agents[n] = (struct agent_spec){
            .role = params_name(c->arena, item, "role"),
            .kind = params_str(item, "kind"),
            .machine = params_str(item, "machine"),
            .desired = desired.p ? desired : STR("auto"),
        };
        if (str_starts(agents[n].role, STR("system-")))
            return refuse_agent(err, n, "names that begin with system- are the server's");
        for (size_t i = 0; i < n; i++)
            if (str_eq(agents[i].role, agents[n].role))
                return refuse_agent(err, n, "is there twice");
        n++;
    }
    *ret = agents;
    *ret_count = n;
    return 0;
}

static int read_starting_role(struct method_context *c, struct conversation_spec *spec,
                              struct err *err)
{
    struct str role = params_name(c->arena, c->params, "startingRole");
    if (!role.p)
        return 0;
    snprintf(spec->settings.starting_role, sizeof spec->settings.starting_role, "%.*s",
             STR_ARG(role));
    for (size_t i = 0; i < spec->agent_count; i++)
        if (str_eq(spec->agents[i].role, role))
            return 0;
    return params_refuse(err, "startingRole", "is not one of agents");
}

/* What machines that are known cannot run. It may be that another one is to come. */
static void write_warnings(struct method_context *c, const struct conversation_spec *spec,
                           struct json_out *out)
{
    bool is_first = true;
    for (size_t i = 0; i < spec->agent_count; i++) {
        const struct agent_spec *a = &spec->agents[i];
        if (!a->kind.n || offer_may_come(c->work, a->kind, a->machine))
            continue;
        if (is_first)
            json_array(out, "warnings");
        is_first = false;
        json_string(out, NULL,
                    arena_printf(c->arena,
                                 "%.*s cannot start: no machine offers kind '%.*s' (%.*s)",
                                 STR_ARG(a->role), STR_ARG(a->kind),
                                 STR_ARG(offer_text(c->work, a->machine))));
    }
    if (!is_first)
        json_end(out);
}

int method_conversation_create(struct method_context *c, struct json_out *out, struct err *err)
{
    const struct json *runtime = params_get(c->params, "runtime_controls"),
                      *watchdog = params_get(c->params, "watchdog");
    struct conversation_spec spec = {
        .title = params_str(c->params, "title"),
        .settings =
            {
                .max_turns = params_int(c->params, "maxTurns", 40),
                .session_wall_clock_seconds =
                    params_int(runtime, "session_wall_clock_seconds", LIMIT_DEFAULT),
                .watchdog_disabled = params_bool(watchdog, "disabled", false),
                .idle_ms = params_int(watchdog, "idleMs", LIMIT_DEFAULT),
                .global_idle_ms = params_int(watchdog, "globalIdleMs", LIMIT_DEFAULT),
            },
        .runtime_controls = runtime,
        .watchdog = watchdog,
        .metadata = params_get(c->params, "metadata"),
    };
    int64_t conversation = 0;
    int r = read_agents(c, &spec.agents, &spec.agent_count, err);
    if (r == 0)
        r = read_starting_role(c, &spec, err);
    if (r == 0)
        r = conversation_create(c->work, &spec, &conversation, err);
    if (r < 0)
        return r;
    json_int(out, "conversation", conversation);
    write_warnings(c, &spec, out);
    return 0;
}

/* ---- get, list ---- */

int method_conversation_get(struct method_context *c, struct json_out *out, struct err *err)
{
    return conversation_write_members(c->work, params_int(c->params, "conversation", 0), out, err);
}

/* Numbers first, then one by one: a row is written with statements of its own. */
static int list_numbers(struct method_context *c, int64_t limit, int64_t *ret, int64_t *ret_count,
                        struct err *err)
{
    struct str status = params_str(c->params, "status");
    struct query *q = store_query(c->work->store, status.p ? SQL_CONVERSATION_LIST_BY_STATUS
                                                           : SQL_CONVERSATION_LIST);
    int64_t after = params_int(c->params, "after", 0);
    if (c->grant->conversation) { /* sees this one only */
        after = MAX(after, c->grant->conversation - 1);
        limit = 1;
    }
    query_int(q, 1, after);
    query_int(q, 2, limit);
    if (status.p)
        query_text(q, 3, status);
    int r;
    *ret_count = 0;
    while ((r = query_step(q, err)) == STORE_ROW)
        ret[(*ret_count)++] = query_get_int(q, 0);
    return r;
}

int method_conversation_list(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t limit = params_int(c->params, "limit", 50), count, shown = 0;
    int64_t *numbers = arena_alloc(c->arena, (size_t)(limit + 1) * sizeof *numbers);
    int r = list_numbers(c, limit + 1, numbers, &count, err);
    if (r < 0)
        return r;
    json_array(out, "conversations");
    for (; shown < count && shown < limit && out->buf->len < RPC_PAGE_BYTES; shown++) {
        if (!grant_sees(c->grant, numbers[shown]))
            continue;
        json_object(out, NULL);
        r = conversation_write_members(c->work, numbers[shown], out, err);
        if (r < 0)
            return r;
        json_end(out);
    }
    json_end(out);
    if (count > shown)
        json_int(out, "next", numbers[shown - 1]);
    else
        json_null(out, "next");
    return 0;
}

/* ---- end ---- */

int method_conversation_end(struct method_context *c, struct json_out *out, struct err *err)
{
    struct str outcome = params_str(c->params, "outcome"), text = params_str(c->params, "text"),
               author = params_name(c->arena, c->params, "authorId");
    struct conversation_end end = {
        .outcome = OUTCOME_COMPLETED,
        .author = author.p ? author : STR("operator"),
        .text = text.p ? text : STR("Conversation ended."),
        .reason = params_str(c->params, "reason"),
    };
    if (outcome.p)
        outcome_parse(outcome, &end.outcome);
    struct event e;
    int r = conversation_end(c->work, params_int(c->params, "conversation", 0), &end, &e, err);
    if (r == 0)
        event_write_receipt(out, &e);
    return r;
}

/* ---- resume ---- */

int method_conversation_resume(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", 0),
            seconds = params_int(params_get(c->params, "runtime_controls"),
                                 "session_wall_clock_seconds", LIMIT_DEFAULT);
    struct head *h;
    int r = conversation_resume(c->work, conversation, seconds, err);
    if (r == 0)
        r = head_get(c->work, conversation, &h, err);
    if (r < 0)
        return r;
    json_int(out, "conversation", conversation);
    json_stringz(out, "status", conversation_status_name(h->status));
    json_int(out, "window", h->window);
    json_time(out, "windowStartedAt", h->window_started_ms);
    return 0;
}
