/*
 * cmd_rpc.c: `reeve rpc`: any method, as the wire has it.
 */
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/print.h"
#include "cli/verbs.h"

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf text = BUF_INIT(INPUT_BYTES_MAX), params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *given, *result;
    int r = input_text(args->word_count > 1 ? args->words[1] : "{}", &text, err);
    if (r == 0)
        r = input_json(&a, buf_str(&text), "the second word", &given, err);
    if (r < 0)
        return r;
    json_write_value(&params, given);
    r = cli_call(args, args->words[0], &params, &a, &result, err);
    return r < 0 ? r : print_result(result, err);
}

const struct verb verb_rpc = {
    .name = "rpc",
    .synopsis = "METHOD [JSON]",
    .summary = "call a method and print its result",
    .details =
        "JSON is the params, by default {}; '-' reads them from standard input. The result is\n"
        "one line of JSON; --json changes only how an error is written.",
    .flags = VERB_CLIENT | VERB_JSON,
    .run = run,
};
