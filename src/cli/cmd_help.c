/*
 * cmd_help.c: `reeve help`, and the source of docs/cli.md.
 */
#include "base/buf.h"
#include "base/macro.h"
#include "cli/help.h"
#include "cli/print.h"
#include "cli/verbs.h"

static int write_about(struct buf *out, const struct cli_args *args, struct err *err)
{
    int words;
    const struct verb *verb = verb_find((int)args->word_count, (char **)args->words, &words);
    if (verb && (size_t)words == args->word_count)
        help_write_verb(out, verb);
    else if (args->word_count != 1 || !help_write_group(out, args->words[0])) {
        help_write_unknown(out, args->words[0], args->word_count > 1 ? args->words[1] : NULL);
        return err_set(err, ERR_USAGE, "%s", buf_str(out).p);
    }
    return 0;
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(HELP_BYTES_MAX);
    int r = 0;
    if (cli_flag(args, "markdown"))
        cli_write_markdown(&out);
    else if (args->word_count)
        r = write_about(&out, args, err);
    else
        help_write_overview(&out);
    return r < 0 ? r : print_flush(&out, err);
}

static const struct verb_option options[] = {
    {"markdown", 0, NULL, 0, "print the whole manual of the command line as Markdown"},
    OPTIONS_END,
};

const struct verb verb_help = {
    .name = "help",
    .synopsis = "[VERB] [WORD]",
    .summary = "say what there is, or more about one verb",
    .options = options,
    .run = run,
};
