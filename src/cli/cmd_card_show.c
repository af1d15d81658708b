/*
 * cmd_card_show.c: `reeve card show`: what a task has left behind.
 */
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/verbs.h"

static void write_card(struct buf *out, const struct json *card)
{
    buf_addf(out, "card %lld ", (long long)json_get_int(card, "card", -1));
    print_clean(out, json_get_text(card, "type"), PRINT_TEXT_CHARS_MAX);
    buf_addf(out, " of task %lld, conversation %lld, ", (long long)json_get_int(card, "task", -1),
             (long long)json_get_int(card, "conversation", -1));
    print_clean(out, json_get_text(card, "createdAt"), PRINT_TEXT_CHARS_MAX);
    buf_addc(out, '\n');
    print_json(out, json_get(card, "content"));
    buf_addc(out, '\n');
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *result;
    int64_t number;
    if (!str_to_int(str_of(args->words[0]), &number) || number < 1)
        return err_set(err, ERR_USAGE, "'%s' is no number of a card", args->words[0]);
    json_object(&w, NULL);
    json_int(&w, "card", number);
    json_end(&w);
    int r = cli_call(args, "card.get", &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    const struct json *card = json_get(result, "card");
    if (!card || card->type != JSON_OBJECT)
        return err_set(err, ERR_INTERNAL, "the answer has no card");
    write_card(&out, card);
    return print_flush(&out, err);
}

const struct verb verb_card_show = {
    .name = "card show",
    .synopsis = "CARD",
    .summary = "show a card: a deliverable, a tool call or its result",
    .flags = VERB_CLIENT | VERB_JSON,
    .run = run,
};
