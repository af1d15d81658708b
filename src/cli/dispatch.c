/*
 * dispatch.c: finds the verb, runs it, and reports what went wrong, once.
 *
 * Every error of every verb is printed here and nowhere else, in one form: "reeve VERB: message",
 * with name and data of the error if the server sent it; with --json as one line of JSON. The exit
 * status comes from the row of the error (err.h).
 */
#include "cli/dispatch.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/macro.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "cli/print.h"
#include "cli/verbs.h"

static void complain(const struct buf *line)
{
    fwrite(line->data, 1, line->len, stderr);
}

/* Errors of this side have no name that would help anybody. */
static bool is_from_server(int code)
{
    return err_rpc_code(code) != err_rpc_code(ERR_INTERNAL);
}

static void write_error(struct buf *out, const char *verb, const struct err *err)
{
    buf_addf(out, "reeve%s%s: ", *verb ? " " : "", verb);
    print_clean(out, str_of(err->message[0] ? err->message : err_text(err->code)), 0);
    if (is_from_server(err->code)) {
        buf_addf(out, " (%s", err_name(err->code));
        if (err->data[0])
            buf_addz(out, ": ");
        print_clean(out, str_of(err->data), 0);
        buf_addc(out, ')');
    }
    buf_addc(out, '\n');
}

static void write_error_json(struct buf *out, const struct err *err)
{
    _cleanup_buf_ struct buf data = BUF_INIT(ERR_DATA_BYTES + 64);
    buf_addf(&data, "{\"name\":\"%s\"%s%s}", err_name(err->code), err->data[0] ? "," : "",
             err->data);
    struct json_out w = JSON_OUT(out);
    json_object(&w, NULL);
    json_object(&w, "error");
    json_int(&w, "code", err_rpc_code(err->code));
    json_stringz(&w, "message", err->message);
    json_raw(&w, "data", buf_str(&data));
    json_end(&w);
    json_end(&w);
    buf_addc(out, '\n');
}

static int report(const char *verb, const struct err *err, bool json)
{
    _cleanup_buf_ struct buf out = BUF_INIT(HELP_BYTES_MAX);
    if (json)
        write_error_json(&out, err);
    else
        write_error(&out, verb, err);
    complain(&out);
    return err_exit_status(err->code);
}

static int wrong_usage(const struct buf *line)
{
    complain(line);
    return err_exit_status(ERR_USAGE);
}

/* `reeve agent …`: the first word is a group of verbs. 0 if what follows asks for help. */
static int run_group(const char *group, const struct buf *list, const char *next)
{
    _cleanup_buf_ struct buf out = BUF_INIT(HELP_BYTES_MAX);
    struct err err = ERR_INIT;
    if (!next) {
        buf_addf(&out, "reeve %s: one of these is wanted:\n%s", group, list->data);
        return wrong_usage(&out);
    }
    buf_addf(&out, "usage: reeve %s WORD [OPTIONS]\n\n%s", group, list->data);
    return print_flush(&out, &err) < 0 ? report("help", &err, false) : 0;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static int unknown_verb(int argc, char **argv)
{
    _cleanup_buf_ struct buf out = BUF_INIT(HELP_BYTES_MAX), list = BUF_INIT(HELP_BYTES_MAX);
    const char *next = argc > 1 ? argv[1] : NULL;
    if ((!next || is_help(next)) && help_write_group(&list, argv[0]))
        return run_group(argv[0], &list, next);
    buf_addz(&out, "reeve: ");
    help_write_unknown(&out, argv[0], next);
    buf_addc(&out, '\n');
    return wrong_usage(&out);
}

static int print_verb_help(const struct verb *verb, struct err *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(HELP_BYTES_MAX);
    help_write_verb(&out, verb);
    return print_flush(&out, err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
    struct err err = ERR_INIT;
    _cleanup_(cli_args_release) struct cli_args args = CLI_ARGS_INIT;
    int r = cli_parse(verb, argc, argv, &args, &err);
    if (r < 0)
        return report(verb->name, &err, false);
    r = cli_flag(&args, "help") ? print_verb_help(verb, &err) : verb->run(&args, &err);
    if (r >= 0)
        return r;
    if (!err.code)
        err_set(&err, (enum err_code) - r, "%s", err_text(r));
    return report(verb->name, &err, (verb->flags & VERB_JSON) && cli_flag(&args, "json"));
}

/* What people try first, before they know that this program has verbs. */
static char *verb_of_flag(char *word)
{
    static char help[] = "help", version[] = "version";
    const struct {
        const char *flag;
        char *verb;
    } flags[] = {
        {"--help", help}, {"-h", help}, {"--version", version}, {"-v", version}, {"-V", version}};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (strcmp(word, flags[i].flag) == 0)
            return flags[i].verb;
    return word;
}

int cli_main(int argc, char **argv)
{
    int words;
    if (argc < 2) {
        _cleanup_buf_ struct buf out = BUF_INIT(HELP_BYTES_MAX);
        help_write_overview(&out);
        return wrong_usage(&out);
    }
    argv[1] = verb_of_flag(argv[1]);
    const struct verb *verb = verb_find(argc - 1, argv + 1, &words);
    return verb ? run(verb, argc - 1 - words, argv + 1 + words) : unknown_verb(argc - 1, argv + 1);
}
