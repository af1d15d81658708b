/*
 * cmd_ps.c: `reeve ps` and `reeve agent list`: who is there, in what state, since when.
 *
 * Both are agent.list; `ps` leaves out agents that neither run nor should and have nothing to do,
 * unless asked for all of them.
 */
#include "base/clock.h"
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "cli/when.h"

/* A member that may be a text, a number, or an object known by one of its members. */
static void cell_of(struct table *t, const struct json *row, const char *key, const char *inner)
{
    const struct json *m = json_get(row, key);
    if (m && m->type == JSON_OBJECT)
        m = json_get(m, inner);
    if (m && m->type == JSON_INT)
        table_cell_int(t, m->integer);
    else if (m && m->type == JSON_STRING && m->string.n)
        table_cell(t, m->string);
    else
        table_cellz(t, "-");
}

/* How long it has been so; if the server does not say, since when its process is there. */
static void cell_of_since(struct table *t, const struct json *agent, struct str now)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    struct str since = json_get_text(agent, "since");
    int64_t now_ms, since_ms;
    if (!since.n)
        since = json_get_text(json_get(agent, "process"), "since");
    if (when_parse(now, &now_ms) && when_parse(since, &since_ms))
        when_add_age(&b, MAX(now_ms - since_ms, (int64_t)0));
    table_cell(t, b.len ? buf_str(&b) : STR("-"));
}

static bool is_idle(const struct json *agent)
{
    const struct json *task = json_get(agent, "task");
    return str_is(json_get_text(agent, "view"), "stopped") && (!task || task->type == JSON_NULL);
}

static void add_row(struct table *t, const struct json *agent, struct str now)
{
    cell_of(t, agent, "agent", "agent");
    cell_of(t, agent, "view", "view");
    cell_of_since(t, agent, now);
    cell_of(t, agent, "task", "task");
    cell_of(t, agent, "machine", "machine");
    cell_of(t, agent, "process", "pid");
    cell_of(t, agent, "desired", "desired");
    cell_of(t, agent, "restarts", "restarts");
    cell_of(t, agent, "kind", "kind");
}

static void write_table(struct buf *out, const struct json *agents, struct str now, bool all)
{
    static const char *const heads[] = {"AGENT", "VIEW",    "SINCE",    "TASK", "MACHINE",
                                        "PID",   "DESIRED", "RESTARTS", "KIND"};
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        table_cellz(&t, heads[i]);
    JSON_FOREACH (agent, agents)
        if (all || !is_idle(agent))
            add_row(&t, agent, now);
    table_write(&t, out);
}

/* The server's time: what is manual there, or wrong here, must not matter. */
static struct str time_of_server(struct client *client, struct arena *a)
{
    const struct json *info;
    struct err none = ERR_INIT;
    int r = client_call(client, "server.info", STR("{}"), a, &info, &none);
    return r == 0 ? json_get_text(info, "now") : STR("");
}

static int show(const struct cli_args *args, bool all, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_(cli_disconnect) struct client *client = NULL;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    const struct json *result;
    int64_t conversation = 0;
    int r = cli_int(args, "conversation", 0, &conversation, err);
    if (r < 0)
        return r;
    buf_addz(&params, "{");
    if (r)
        buf_addf(&params, "\"conversation\":%lld", (long long)conversation);
    buf_addz(&params, "}");
    r = cli_connect(args, &client, err);
    if (r == 0)
        r = client_call(client, "agent.list", buf_str(&params), &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    const struct json *agents = json_get(result, "agents");
    if (!agents || agents->type != JSON_ARRAY)
        return err_set(err, ERR_INTERNAL, "the answer has no list of agents");
    write_table(&out, agents, time_of_server(client, &a), all);
    return print_flush(&out, err);
}

static int run_list(const struct cli_args *args, struct err *err)
{
    return show(args, true, err);
}

static int run_ps(const struct cli_args *args, struct err *err)
{
    return show(args, cli_flag(args, "all"), err);
}

// clang-format off
#define CONVERSATION_OPTION {"conversation", 0, "N", 0, "only of this conversation"}

static const struct verb_option list_options[] = {CONVERSATION_OPTION, OPTIONS_END};

static const struct verb_option ps_options[] = {
    {"all", 'a', NULL, 0, "also those that are stopped and have nothing to do"},
    CONVERSATION_OPTION,
    OPTIONS_END,
};
// clang-format on

const struct verb verb_agent_list = {
    .name = "agent list",
    .synopsis = "",
    .summary = "list agents and how each of them stands",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = list_options,
    .run = run_list,
};

const struct verb verb_ps = {
    .name = "ps",
    .synopsis = "",
    .summary = "who is there: every agent, its state and its task",
    .details = "With --json the whole answer of agent.list, all agents included.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = ps_options,
    .run = run_ps,
};
