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

static int unknown_verb(const char *word)
{
    _cleanup_buf_ struct buf out = BUF_INIT(HELP_BYTES_MAX), group = BUF_INIT(HELP_BYTES_MAX);
    const struct verb *near = verb_nearest(word);
    if (help_write_group(&group, word)) {
        buf_addf(&out, "reeve %s: one word more, please:\n", word);
        buf_add_str(&out, buf_str(&group));
    } else {
        buf_addz(&out, "reeve: no verb '");
        print_clean(&out, str_of(word), 0);
        buf_addz(&out, "'; ");
        if (near)
            buf_addf(&out, "did you mean '%s'?\n", near->name);
        else
            buf_addz(&out, "see 'reeve help'\n");
    }
    complain(&out);
    return err_exit_status(ERR_USAGE);
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

int cli_main(int argc, char **argv)
{
    /* What people try first, before they know that this program has verbs. */
    static char help[] = "help", version[] = "version";
    if (argc < 2) {
        _cleanup_buf_ struct buf out = BUF_INIT(HELP_BYTES_MAX);
        help_write_overview(&out);
        complain(&out);
        return err_exit_status(ERR_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        argv[1] = help;
    else if (strcmp(argv[1], "--version") == 0)
        argv[1] = version;
    int words;
    const struct verb *verb = verb_find(argc - 1, argv + 1, &words);
    return verb ? run(verb, argc - 1 - words, argv + 1 + words) : unknown_verb(argv[1]);
}
