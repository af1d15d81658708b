/*
 * cmd_send.c: `reeve send`: a message into a conversation.
 */
#include <string.h>

#include "base/crypto.h"
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/print.h"
#include "cli/receipt.h"
#include "cli/verbs.h"

/* Enough for what people attach; anything else is bytes. */
static const char *content_type_of(const char *path)
{
    static const struct {
        const char *ending, *type;
    } types[] = {
        {".txt", "text/plain"},        {".log", "text/plain"},    {".md", "text/markdown"},
        {".json", "application/json"}, {".csv", "text/csv"},      {".html", "text/html"},
        {".diff", "text/x-diff"},      {".patch", "text/x-diff"}, {".pdf", "application/pdf"},
        {".png", "image/png"},         {".jpg", "image/jpeg"},    {".jpeg", "image/jpeg"},
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < ARRAY_LEN(types); i++)
        if (strcasecmp(dot, types[i].ending) == 0)
            return types[i].type;
    return "application/octet-stream";
}

static int write_attachment(struct json_out *w, const char *path, struct err *err)
{
    _cleanup_buf_ struct buf bytes = BUF_INIT(INPUT_BYTES_MAX);
    _cleanup_buf_ struct buf encoded = BUF_INIT(2 * INPUT_BYTES_MAX);
    int r = input_file(path, &bytes, err);
    if (r < 0)
        return r;
    const char *slash = strrchr(path, '/');
    base64_write(&encoded, bytes.data, bytes.len);
    json_object(w, NULL);
    json_stringz(w, "name", slash ? slash + 1 : path);
    json_stringz(w, "contentType", content_type_of(path));
    json_string(w, "content", buf_str(&encoded));
    json_end(w);
    return 0;
}

static int write_attachments(struct json_out *w, const struct cli_args *args, struct err *err)
{
    size_t cursor = 0;
    const char *path = cli_next(args, "attach", &cursor);
    if (!path)
        return 0;
    json_array(w, "attachments");
    for (; path; path = cli_next(args, "attach", &cursor)) {
        int r = write_attachment(w, path, err);
        if (r < 0)
            return r;
    }
    json_end(w);
    return 0;
}

static void write_outcome(struct json_out *w, const char *outcome, const char *reason)
{
    json_object(w, "outcome");
    json_stringz(w, "status", outcome);
    if (reason)
        json_stringz(w, "reason", reason);
    json_end(w);
}

static int write_params(struct json_out *w, const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(INPUT_BYTES_MAX);
    const char *final = cli_value(args, "final"), *key = cli_value(args, "key");
    const char *outcome = cli_value(args, "outcome"), *reason = cli_value(args, "reason");
    int64_t conversation, turn;
    int r = cli_conversation(args->words[0], &conversation, err);
    int has_turn = r < 0 ? r : cli_int(args, "turn", 1, &turn, err);
    if (has_turn < 0)
        return has_turn;
    if (reason && !outcome)
        return err_set(err, ERR_USAGE, "--reason goes with --outcome");
    r = input_text(args->words[1], &text, err);
    if (r < 0)
        return r;
    json_object(w, NULL);
    json_int(w, "conversation", conversation);
    json_stringz(w, "agentId", cli_value(args, "as"));
    json_string(w, "text", buf_str(&text));
    if (final)
        json_stringz(w, "finality", final);
    if (has_turn)
        json_int(w, "turn", turn);
    if (outcome)
        write_outcome(w, outcome, reason);
    if (key)
        json_stringz(w, "clientRequestId", key);
    if (!cli_flag(args, "guest"))
        json_raw(w, "precondition", STR("{\"knownRole\":true}"));
    r = write_attachments(w, args, err);
    if (r == 0)
        json_end(w);
    return r;
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *result;
    int r = write_params(&w, args, err);
    if (r == 0)
        r = cli_call(args, "message.send", &params, &a, &result, err);
    return r < 0 ? r : receipt_print(args, result, err);
}

// clang-format off
static const struct verb_option options[] = {
    {"as", 0, "ROLE", ARG_REQUIRED, "who speaks: a role of the conversation"},
    {"guest", 0, NULL, 0, "who speaks need not be a role of the conversation"},
    {"final", 0, "turn|conversation", 0, "close the turn, or the whole conversation"},
    {"turn", 0, "N", 0, "the turn it belongs to (default: the open one, else the next)"},
    {"outcome", 0, "completed|canceled|failed", 0, "how the conversation ended"},
    {"reason", 0, "TEXT", 0, "why it ended so"},
    {"attach", 0, "FILE", ARG_REPEAT, "send a file along"},
    {"key", 0, "KEY", 0, "idempotency key: the same key twice writes one message"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_send = {
    .name = "send",
    .synopsis = "CONVERSATION TEXT",
    .summary = "add a message to a conversation",
    .details = "A TEXT of '-' is read from standard input, less one line feed at its end.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
