/*
 * cli.h: what a verb is, and what its function gets.
 *
 * One verb = one file cmd_*.c that ends in a `const struct verb` row; verbs.c lists the rows. The
 * row gives parsing, checks, `reeve help`, `reeve VERB --help` and docs/cli.md, so that none of
 * them can disagree:
 *
 *     static const struct verb_option options[] = {
 *         {"as", 0, "AGENT", ARG_REQUIRED, "who speaks"},
 *         {"attach", 0, "FILE", ARG_REPEAT, "a file to send along"},
 *         {"final", 0, "turn|conversation", 0, "close the turn or the conversation"},
 *         OPTIONS_END,
 *     };
 *
 * A value name with a `|` in it lists the only values allowed. The words of a verb come from its
 * synopsis: `CONVERSATION [TEXT]` takes one or two, `CMD...` one or more.
 *
 * A verb's function returns 0, a negative code of err.h with `err` filled, which the dispatcher
 * reports once and turns into the exit status of PROTOCOL §7, or a positive exit status of its own
 * after it has said why.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct cli_args;

/* ARG_REST: the last option there is; whatever follows its value are words, dashes or not. */
enum { ARG_REPEAT = 1, ARG_REQUIRED = 2, ARG_REST = 4 };

struct verb_option {
    const char *name;  /* without the dashes */
    char letter;       /* its short form, or 0 */
    const char *value; /* name of its value; NULL for a flag */
    unsigned flags;
    const char *help;
};

#define OPTIONS_END  \
    {                \
        .name = NULL \
    }

/* VERB_CLIENT: takes --data, --server and --token-file. VERB_JSON: takes --json. VERB_HIDDEN: not
 * in the overview, because people have no use for it. */
enum { VERB_CLIENT = 1, VERB_JSON = 2, VERB_HIDDEN = 4 };

struct verb {
    const char *name;     /* one word, or two: "conversation create" */
    const char *synopsis; /* its words, "" if none */
    const char *summary;  /* one line, lower case, no full stop */
    const char *details;  /* paragraphs for its own help; may be NULL */
    unsigned flags;
    const struct verb_option *options; /* its own; may be NULL */
    int (*run)(const struct cli_args *args, struct err *err);
};

struct cli_given {
    const struct verb_option *option;
    const char *value; /* NULL for a flag */
};

struct cli_args {
    const struct verb *verb;
    const char **words; /* what is no option, in order */
    size_t word_count;
    struct cli_given *values; /* in the order given */
    size_t value_count;
};

#define CLI_ARGS_INIT ((struct cli_args){0})

/*
 * Parses what follows the verb: `--x V`, `--x=V`, `--flag`, `-f`; `--` ends the options, and words
 * and options may be mixed. ERR_USAGE with a line that helps. With --help nothing else is checked:
 * see cli_flag(args, "help"). The strings of argv must outlive `ret`.
 */
int cli_parse(const struct verb *verb, int argc, char **argv, struct cli_args *ret,
              struct err *err);
void cli_args_release(struct cli_args *args);

/* All of these insist (REQUIRE) that the verb has the option in its table. */
bool cli_flag(const struct cli_args *args, const char *name);
const char *cli_value(const struct cli_args *args, const char *name); /* NULL if not given */
/* Each value of a repeated option: start with *cursor = 0, ends with NULL. */
const char *cli_next(const struct cli_args *args, const char *name, size_t *cursor);
/* 1 if given and a number ≥ least, 0 if not given, -ERR_USAGE. */
int cli_int(const struct cli_args *args, const char *name, int64_t least, int64_t *ret,
            struct err *err);
/* A word that must be the number of a conversation. */
int cli_conversation(const char *word, int64_t *ret, struct err *err);

/* The option tables of a verb: its own, then the shared ones its flags ask for. */
enum { VERB_TABLES = 4 };
size_t verb_tables(const struct verb *verb, const struct verb_option *ret[VERB_TABLES]);
const struct verb_option *verb_option_find(const struct verb *verb, struct str name);

/* What --log-level says, if it was given. */
void cli_set_log_level(const struct cli_args *args);

/* --data, or $XDG_STATE_HOME/reeve, or ~/.local/state/reeve. The caller frees. */
int cli_data_folder(const struct cli_args *args, char **ret, struct err *err);
