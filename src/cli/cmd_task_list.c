/*
 * cmd_task_list.c: `reeve task list`, one page of it.
 */
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"

static int write_params(struct json_out *w, const struct cli_args *args, struct err *err)
{
    static const struct {
        const char *name;
        int64_t least;
    } numbers[] = {{"conversation", 0}, {"after", 0}, {"limit", 1}};
    static const char *const texts[] = {"role", "status"};
    json_object(w, NULL);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        int64_t value;
        int r = cli_int(args, numbers[i].name, numbers[i].least, &value, err);
        if (r < 0)
            return r;
        if (r)
            json_int(w, numbers[i].name, value);
    }
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (cli_value(args, texts[i]))
            json_stringz(w, texts[i], cli_value(args, texts[i]));
    json_end(w);
    return 0;
}

static void add_row(struct table *t, const struct json *task)
{
    _cleanup_buf_ struct buf agent = BUF_INIT(PRINT_BYTES_MAX), content = BUF_INIT(PRINT_BYTES_MAX);
    struct str held = member_text(task, "held");
    struct str status = held.n ? STR("held") : member_text(task, "status");
    buf_addf(&agent, "%lld:", (long long)member_int(task, "conversation", -1));
    buf_add_str(&agent, member_text(task, "role"));
    json_write_value(&content, json_get(task, "content"));
    table_cell_int(t, member_int(task, "task", -1));
    table_cell(t, buf_str(&agent));
    table_cell(t, status);
    table_cell_int(t, member_int(task, "epoch", 0));
    table_cell_int(t, member_int(task, "attempts", 0));
    table_cell(t, member_text(task, "createdAt"));
    table_cell(t, buf_str(&content));
}

static void write_table(struct buf *out, const struct json *tasks)
{
    static const char *const heads[] = {"TASK",     "AGENT",   "STATUS", "EPOCH",
                                        "ATTEMPTS", "CREATED", "CONTENT"};
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        table_cellz(&t, heads[i]);
    JSON_FOREACH (task, tasks)
        add_row(&t, task);
    table_write(&t, out);
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *result;
    int r = write_params(&w, args, err);
    if (r == 0)
        r = cli_call(args, "task.list", &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    const struct json *tasks = json_get(result, "tasks");
    if (!tasks || tasks->type != JSON_ARRAY)
        return err_set(err, ERR_INTERNAL, "the answer has no list of tasks");
    int64_t next = member_int(result, "next", -1);
    write_table(&out, tasks);
    if (next >= 0)
        buf_addf(&out, "more: --after %lld\n", (long long)next);
    return print_flush(&out, err);
}

// clang-format off
static const struct verb_option options[] = {
    {"conversation", 0, "N", 0, "only of this conversation"},
    {"role", 0, "ROLE", 0, "only of this role; with --conversation"},
    {"status", 0, "queued|pending|acknowledged|in_progress|suspended|completed|failed|timeout|canceled", 0, "only those"},
    {"after", 0, "N", 0, "go on where the page before ended"},
    {"limit", 0, "N", 0, "at most so many (default 50, at most 500)"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_task_list = {
    .name = "task list",
    .synopsis = "",
    .summary = "list tasks",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
