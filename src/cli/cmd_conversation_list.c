/*
 * cmd_conversation_list.c: `reeve conversation list`, one page of it.
 */
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"

static int write_params(struct json_out *w, const struct cli_args *args, struct err *err)
{
    const char *status = cli_value(args, "status");
    int64_t after = 0, limit = 0;
    int has_after = cli_int(args, "after", 0, &after, err);
    int has_limit = has_after < 0 ? has_after : cli_int(args, "limit", 1, &limit, err);
    if (has_limit < 0)
        return has_limit;
    json_object(w, NULL);
    if (status)
        json_stringz(w, "status", status);
    if (has_after)
        json_int(w, "after", after);
    if (has_limit)
        json_int(w, "limit", limit);
    json_end(w);
    return 0;
}

static void add_row(struct table *t, const struct json *c)
{
    const struct json *head = json_get(c, "head");
    struct str reason = member_text(c, "stop_reason_code");
    table_cell_int(t, member_int(c, "conversation", -1));
    table_cell(t, member_text(c, "status"));
    table_cell(t, reason.n ? reason : STR("-"));
    table_cell_int(t, member_int(head, "lastTurn", 0));
    table_cell(t, member_text(c, "updatedAt"));
    table_cell(t, member_text(c, "title"));
}

static void write_table(struct buf *out, const struct json *conversations)
{
    static const char *const heads[] = {"CONVERSATION", "STATUS",  "REASON",
                                        "TURN",         "UPDATED", "TITLE"};
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        table_cellz(&t, heads[i]);
    JSON_FOREACH (c, conversations)
        add_row(&t, c);
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
        r = cli_call(args, "conversation.list", &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    const struct json *conversations = json_get(result, "conversations");
    if (!conversations || conversations->type != JSON_ARRAY)
        return err_set(err, ERR_INTERNAL, "the answer has no list of conversations");
    int64_t next = member_int(result, "next", -1);
    write_table(&out, conversations);
    if (next >= 0)
        buf_addf(&out, "more: --after %lld\n", (long long)next);
    return print_flush(&out, err);
}

// clang-format off
static const struct verb_option options[] = {
    {"status", 0, "active|blocked|completed", 0, "only those"},
    {"after", 0, "N", 0, "go on where the page before ended"},
    {"limit", 0, "N", 0, "at most so many (default 50, at most 500)"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_conversation_list = {
    .name = "conversation list",
    .synopsis = "",
    .summary = "list conversations",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
