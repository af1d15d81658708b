/*
 * cmd_machines.c: `reeve machine list` and `reeve machine forget`: the machines as the server knows
 * them. `reeve machine` itself, the daemon, is in cmd_machine.c.
 */
#include "base/macro.h"
#include "base/mem.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"

static struct str kinds_text(struct arena *a, const struct json *machine)
{
    struct str text = STR("");
    JSON_FOREACH (kind, json_get(machine, "kinds"))
        text = arena_printf(a, "%.*s%s%.*s", STR_ARG(text), text.n ? "," : "",
                            STR_ARG(json_get_text(kind, "name")));
    return text.n ? text : STR("-");
}

static struct str status_text(const struct json *machine)
{
    return json_get_bool(machine, "lost") ? STR("lost") : json_get_text(machine, "status");
}

static void write_table(struct buf *out, struct arena *a, const struct json *machines)
{
    static const char *const heads[] = {"MACHINE", "STATUS", "SINCE", "HOST", "KINDS"};
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        table_cellz(&t, heads[i]);
    JSON_FOREACH (m, machines) {
        struct str offline = json_get_text(m, "offlineSince");
        table_cell(&t, json_get_text(m, "machine"));
        table_cell(&t, status_text(m));
        table_cell(&t, offline.n ? offline : json_get_text(m, "registeredAt"));
        table_cell(&t, json_get_text(m, "hostname"));
        table_cell(&t, kinds_text(a, m));
    }
    table_write(&t, out);
}

static int run_list(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    const struct json *result;
    buf_addz(&params, "{}");
    int r = cli_call(args, "machine.list", &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    write_table(&out, &a, json_get(result, "machines"));
    return print_flush(&out, err);
}

static int run_forget(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *result;
    json_object(&w, NULL);
    json_stringz(&w, "machine", args->words[0]);
    if (cli_flag(args, "force"))
        json_bool(&w, "force", true);
    json_end(&w);
    int r = cli_call(args, "machine.forget", &params, &a, &result, err);
    if (r < 0 || cli_flag(args, "json"))
        return r < 0 ? r : print_result(result, err);
    print_clean(&out, str_of(args->words[0]), PRINT_TEXT_CHARS_MAX);
    buf_addz(&out, " forgotten\n");
    return print_flush(&out, err);
}

// clang-format off
static const struct verb_option list_options[] = {OPTIONS_END};
static const struct verb_option forget_options[] = {
    {"force", 0, NULL, 0, "although the machine may still come back with its processes"},
    OPTIONS_END,
};

const struct verb verb_machine_list = {
    "machine list", "", "list machines, what they offer and whether they are there",
    "A machine is lost when it was offline for machine.fence_seconds.",
    VERB_CLIENT | VERB_JSON, list_options, run_list};
const struct verb verb_machine_forget = {
    "machine forget", "MACHINE", "let go of a host that will not come back",
    "Its agents are let go; those that nobody pinned to it are started elsewhere. The machine must\n"
    "be lost, or offline and --force given.",
    VERB_CLIENT | VERB_JSON, forget_options, run_forget};
// clang-format on
