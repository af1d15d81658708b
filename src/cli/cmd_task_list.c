/*
 * cmd_task_list.c: `reeve task list`, one page of it.
 */
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/page.h"
#include "cli/print.h"
#include "cli/verbs.h"

static int write_whose(struct json_out *w, const struct cli_args *args, struct err *err)
{
    int64_t conversation;
    int r = cli_int(args, "conversation", 0, &conversation, err);
    if (r < 0)
        return r;
    json_object(w, NULL);
    if (r)
        json_int(w, "conversation", conversation);
    if (cli_value(args, "role"))
        json_stringz(w, "role", cli_value(args, "role"));
    return 0;
}

static void add_row(struct table *t, const struct json *task)
{
    _cleanup_buf_ struct buf agent = BUF_INIT(PRINT_BYTES_MAX), content = BUF_INIT(PRINT_BYTES_MAX);
    struct str held = json_get_text(task, "held");
    struct str status = held.n ? STR("held") : json_get_text(task, "status");
    buf_addf(&agent, "%lld:", (long long)json_get_int(task, "conversation", -1));
    buf_add_str(&agent, json_get_text(task, "role"));
    json_write_value(&content, json_get(task, "content"));
    table_cell_int(t, json_get_int(task, "task", -1));
    table_cell(t, buf_str(&agent));
    table_cell(t, status);
    table_cell_int(t, json_get_int(task, "epoch", 0));
    table_cell_int(t, json_get_int(task, "attempts", 0));
    table_cell(t, json_get_text(task, "createdAt"));
    table_cell(t, buf_str(&content));
}

static int run(const struct cli_args *args, struct err *err)
{
    static const char *const heads[] = {"TASK",     "AGENT",   "STATUS", "EPOCH",
                                        "ATTEMPTS", "CREATED", "CONTENT"};
    static const struct page page = {"task.list", "tasks", heads, ARRAY_LEN(heads), add_row};
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int r = write_whose(&w, args, err);
    return r < 0 ? r : page_show(args, &page, &w, err);
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
