/*
 * cmd_conversation_end.c: `reeve conversation end`.
 */
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/receipt.h"
#include "cli/verbs.h"

static void write_params(struct json_out *w, const struct cli_args *args, int64_t conversation)
{
    static const struct {
        const char *option, *param;
    } map[] = {{"outcome", "outcome"},
               {"reason", "reason"},
               {"text", "text"},
               {"as", "authorId"},
               {"key", "idempotencyKey"}};
    json_object(w, NULL);
    json_int(w, "conversation", conversation);
    for (size_t i = 0; i < ARRAY_LEN(map); i++) {
        const char *value = cli_value(args, map[i].option);
        if (value)
            json_stringz(w, map[i].param, value);
    }
    json_end(w);
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *result;
    int64_t conversation;
    int r = cli_conversation(args->words[0], &conversation, err);
    if (r < 0)
        return r;
    write_params(&w, args, conversation);
    r = cli_call(args, "conversation.end", &params, &a, &result, err);
    return r < 0 ? r : receipt_print(args, result, err);
}

// clang-format off
static const struct verb_option options[] = {
    {"outcome", 0, "completed|canceled|failed", 0, "how it ended (default completed)"},
    {"reason", 0, "TEXT", 0, "why"},
    {"text", 0, "TEXT", 0, "the closing message"},
    {"as", 0, "AGENT", 0, "who signs the closing message"},
    {"key", 0, "KEY", 0, "idempotency key, for a safe repeat"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_conversation_end = {
    .name = "conversation end",
    .synopsis = "CONVERSATION",
    .summary = "end a conversation by a closing message",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
