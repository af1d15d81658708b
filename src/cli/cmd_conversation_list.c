/*
 * cmd_conversation_list.c: `reeve conversation list`, one page of it.
 */
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/page.h"
#include "cli/verbs.h"

static void add_row(struct table *t, const struct json *c)
{
    const struct json *head = json_get(c, "head");
    struct str reason = json_get_text(c, "stop_reason_code");
    table_cell_int(t, json_get_int(c, "conversation", -1));
    table_cell(t, json_get_text(c, "status"));
    table_cell(t, reason.n ? reason : STR("-"));
    table_cell_int(t, json_get_int(head, "lastTurn", 0));
    table_cell(t, json_get_text(c, "updatedAt"));
    table_cell(t, json_get_text(c, "title"));
}

static int run(const struct cli_args *args, struct err *err)
{
    static const char *const heads[] = {"CONVERSATION", "STATUS",  "REASON",
                                        "TURN",         "UPDATED", "TITLE"};
    static const struct page page = {"conversation.list", "conversations", heads, ARRAY_LEN(heads),
                                     add_row};
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    json_object(&w, NULL);
    return page_show(args, &page, &w, err);
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
