/*
 * cmd_inbox.c: `reeve inbox list` and `reeve inbox show`: what waits for an agent, who has it, and
 * how often the bell was rung for it.
 */
#include <string.h>

#include "base/macro.h"
#include "cli/agent_name.h"
#include "cli/connect.h"
#include "cli/page.h"
#include "cli/print.h"
#include "cli/verbs.h"

/* ---- list ---- */

/* "12" or "12:builder". */
static int write_whose(struct json_out *w, const char *word, struct err *err)
{
    struct agent_name name;
    int64_t conversation;
    if (strchr(word, ':')) {
        int r = agent_name_parse(word, &name, err);
        if (r == 0)
            agent_name_write(&name, w);
        return r;
    }
    int r = cli_conversation(word, &conversation, err);
    if (r < 0)
        return r;
    json_object(w, NULL);
    json_int(w, "conversation", conversation);
    return 0;
}

static void add_row(struct table *t, const struct json *message)
{
    struct str error = json_get_text(message, "watchdog_error");
    table_cell_int(t, json_get_int(message, "inboxId", -1));
    table_cell(t, json_get_text(message, "role"));
    table_cell(t, json_get_text(message, "messageType"));
    table_cell(t, json_get_text(message, "correlationId"));
    table_cell(t, json_get_text(message, "status"));
    table_cell_int(t, json_get_int(message, "ringCount", 0));
    table_cell(t, json_get_text(message, "createdAt"));
    table_cell(t, error.n ? error : json_get_text(message, "receivedBy"));
}

static int run_list(const struct cli_args *args, struct err *err)
{
    static const char *const heads[] = {"INBOX",  "ROLE",  "TYPE",    "CORRELATION",
                                        "STATUS", "RINGS", "CREATED", "RECEIVED BY / WHY"};
    static const struct page page = {"inbox.list", "messages", heads, ARRAY_LEN(heads), add_row};
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int r = write_whose(&w, args->words[0], err);
    return r < 0 ? r : page_show(args, &page, &w, err);
}

/* ---- show ---- */

static void write_line(struct buf *out, const char *label, const struct json *value)
{
    if (!value || value->type == JSON_NULL)
        return;
    buf_addf(out, "%-13s ", label);
    if (value->type == JSON_STRING)
        print_clean(out, value->string, PRINT_TEXT_CHARS_MAX);
    else
        print_json(out, value);
    buf_addc(out, '\n');
}

static void write_message(struct buf *out, const struct json *message)
{
    static const struct {
        const char *label, *member;
    } lines[] = {
        {"inbox", "inboxId"},
        {"conversation", "conversation"},
        {"role", "role"},
        {"type", "messageType"},
        {"correlation", "correlationId"},
        {"epoch", "epoch"},
        {"status", "status"},
        {"why", "watchdog_error"},
        {"when", "watchdog_at"},
        {"channel", "channel"},
        {"created", "createdAt"},
        {"received by", "receivedBy"},
        {"received", "processedAt"},
        {"lost", "attempts"},
        {"ended", "archivedAt"},
        {"rings", "ringCount"},
        {"last ring", "lastRungAt"},
        {"payload", "payload"},
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        write_line(out, lines[i].label, json_get(message, lines[i].member));
}

static int run_show(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    const struct json *result;
    int64_t inbox;
    if (!str_to_int(str_of(args->words[0]), &inbox) || inbox < 1)
        return err_set(err, ERR_USAGE, "'%s' is no number of an inbox row", args->words[0]);
    buf_addf(&params, "{\"inboxId\":%lld}", (long long)inbox);
    int r = cli_call(args, "inbox.get", &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    const struct json *message = json_get(result, "message");
    if (!message || message->type != JSON_OBJECT)
        return err_set(err, ERR_INTERNAL, "the answer has no message");
    write_message(&out, message);
    return print_flush(&out, err);
}

// clang-format off
static const struct verb_option list_options[] = {
    {"status", 0, "pending|processing|consumed|skipped|error", 0, "only those"},
    {"after", 0, "N", 0, "go on where the page before ended"},
    {"limit", 0, "N", 0, "at most so many (default 50, at most 500)"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_inbox_list = {
    .name = "inbox list",
    .synopsis = "AGENT",
    .summary = "list what is or was in the inbox of an agent",
    .details = "AGENT is 12:builder, or 12 for all agents of a conversation.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = list_options,
    .run = run_list,
};

const struct verb verb_inbox_show = {
    .name = "inbox show",
    .synopsis = "INBOX",
    .summary = "show one row of an inbox",
    .flags = VERB_CLIENT | VERB_JSON,
    .run = run_show,
};
