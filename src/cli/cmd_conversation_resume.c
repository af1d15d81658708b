/*
 * cmd_conversation_resume.c: `reeve conversation resume`: a new window for one that is blocked.
 */
#include "base/clock.h"
#include "base/macro.h"
#include "base/options.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/verbs.h"
#include "cli/when.h"

/* --budget in seconds, which is what the server counts budgets in; -1 if it is not given. */
static int read_budget(const struct cli_args *args, int64_t *ret_seconds, struct err *err)
{
    const char *text = cli_value(args, "budget");
    int64_t ms;
    *ret_seconds = -1;
    if (!text)
        return 0;
    if (!clock_parse_duration(str_of(text), &ms) || ms % 1000)
        return err_set(err, ERR_USAGE,
                       "--budget takes whole seconds, like 90s, 30m or 4h, not '%s'", text);
    *ret_seconds = ms / 1000;
    return 0;
}

static void write_params(struct buf *params, int64_t conversation, int64_t budget_seconds,
                         const char *key)
{
    struct json_out w = JSON_OUT(params);
    json_object(&w, NULL);
    json_int(&w, "conversation", conversation);
    if (budget_seconds >= 0) {
        json_object(&w, "runtime_controls");
        json_int(&w, "session_wall_clock_seconds", budget_seconds);
        json_end(&w);
    }
    if (key)
        json_stringz(&w, "idempotencyKey", key);
    json_end(&w);
}

static int print_window(const struct json *resumed, const struct json *conversation,
                        struct err *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    struct str started = json_get_text(resumed, "windowStartedAt");
    int64_t started_ms, seconds = json_get_int(json_get(conversation, "runtime_controls"),
                                               "session_wall_clock_seconds", 0);
    buf_addf(&out, "conversation %lld is active: window %lld since ",
             (long long)json_get_int(resumed, "conversation", -1),
             (long long)json_get_int(resumed, "window", -1));
    print_clean(&out, started, PRINT_TEXT_CHARS_MAX);
    seconds = MIN(seconds, OPTION_SECONDS_MAX);
    if (seconds > 0 && when_parse(started, &started_ms)) {
        buf_addz(&out, ", budget ");
        when_add_limit(&out, seconds * 1000);
        buf_addz(&out, " until ");
        when_add_time(&out, started_ms + seconds * 1000);
    } else {
        buf_addz(&out, ", no budget");
    }
    buf_addc(&out, '\n');
    return print_flush(&out, err);
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_(cli_disconnect) struct client *client = NULL;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *resumed, *conversation;
    int64_t number, budget_seconds = -1;
    int r = cli_conversation(args->words[0], &number, err);
    if (r == 0)
        r = read_budget(args, &budget_seconds, err);
    if (r == 0)
        r = cli_connect(args, &client, err);
    if (r < 0)
        return r;
    write_params(&params, number, budget_seconds, cli_value(args, "key"));
    r = client_call(client, "conversation.resume", buf_str(&params), &a, &resumed, err);
    if (r == 0 && cli_flag(args, "json"))
        return print_result(resumed, err);
    buf_clear(&params);
    buf_addf(&params, "{\"conversation\":%lld}", (long long)number);
    if (r == 0)
        r = client_call(client, "conversation.get", buf_str(&params), &a, &conversation, err);
    return r < 0 ? r : print_window(resumed, conversation, err);
}

// clang-format off
static const struct verb_option options[] = {
    {"budget", 0, "DURATION", 0, "how long the window may last, like 90s, 30m or 4h; 0s: for ever (default: as before)"},
    {"key", 0, "KEY", 0, "idempotency key, for a safe repeat"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_conversation_resume = {
    .name = "conversation resume",
    .synopsis = "CONVERSATION",
    .summary = "let a blocked conversation go on, in a new window",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
