/*
 * cli.c: the one option parser, driven by the verb's tables.
 *
 * Owns the lists of words and values of a command line; the strings stay where argv has them.
 * getopt_long was rejected: its tables would have to be built from ours, it keeps its place in
 * globals, and it accepts abbreviations, which turn into breakage on the day an option is added.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/names.h"
#include "cli/suggest.h"
#include "client/endpoint.h"

// clang-format off
static const struct verb_option client_options[] = {
    {"data", 0, "DIR", 0, "the server's data folder (default: $XDG_STATE_HOME/reeve)"},
    {"server", 0, "URL", 0, "the server's address instead (or REEVE_URL)"},
    {"token-file", 0, "FILE", 0, "the token to show it (or REEVE_TOKEN, the token itself)"},
    OPTIONS_END,
};

static const struct verb_option json_options[] = {
    {"json", 0, NULL, 0, "print JSON, one document per line"},
    OPTIONS_END,
};

static const struct verb_option help_options[] = {
    {"help", 'h', NULL, 0, "print this help"},
    OPTIONS_END,
};
// clang-format on

size_t verb_tables(const struct verb *verb, const struct verb_option *ret[VERB_TABLES])
{
    size_t n = 0;
    if (verb->options)
        ret[n++] = verb->options;
    if (verb->flags & VERB_CLIENT)
        ret[n++] = client_options;
    if (verb->flags & VERB_JSON)
        ret[n++] = json_options;
    ret[n++] = help_options;
    return n;
}

/* The option called `name`, or, if name is empty, the one with this letter. */
static const struct verb_option *find(const struct verb *verb, struct str name, char letter)
{
    const struct verb_option *tables[VERB_TABLES];
    size_t n = verb_tables(verb, tables);
    for (size_t i = 0; i < n; i++)
        for (const struct verb_option *o = tables[i]; o->name; o++)
            if (name.n ? str_is(name, o->name) : o->letter == letter)
                return o;
    return NULL;
}

const struct verb_option *verb_option_find(const struct verb *verb, struct str name)
{
    return find(verb, name, 0);
}

static const char *nearest_option(const struct verb *verb, struct str name)
{
    const struct verb_option *tables[VERB_TABLES];
    size_t n = verb_tables(verb, tables);
    const char *best = NULL;
    unsigned best_distance = SUGGEST_DISTANCE_MAX + 1;
    for (size_t i = 0; i < n; i++)
        for (const struct verb_option *o = tables[i]; o->name; o++) {
            unsigned distance = suggest_distance(name, str_of(o->name));
            if (distance < best_distance) {
                best = o->name;
                best_distance = distance;
            }
        }
    return best;
}

static int unknown_option(const struct verb *verb, const char *arg, struct str name,
                          struct err *err)
{
    const char *near = name.n ? nearest_option(verb, name) : NULL;
    int shown = (int)strcspn(arg, "=");
    if (near)
        return err_set(err, ERR_USAGE, "no option %.*s; did you mean --%s?", shown, arg, near);
    return err_set(err, ERR_USAGE, "no option %.*s; see 'reeve help %s'", shown, arg, verb->name);
}

/* Is `value` one of the words of "a|b|c"? */
static bool is_choice(const char *choices, const char *value)
{
    while (*choices) {
        size_t n = strcspn(choices, "|");
        if (str_eq((struct str){choices, n}, str_of(value)))
            return true;
        choices += n + (choices[n] == '|');
    }
    return false;
}

static int add_value(struct cli_args *args, const struct verb_option *option, const char *value,
                     struct err *err)
{
    if (value && strchr(option->value, '|') && !is_choice(option->value, value))
        return err_set(err, ERR_USAGE, "--%s takes one of %s, not '%s'", option->name,
                       option->value, value);
    if (!(option->flags & ARG_REPEAT))
        for (size_t i = 0; i < args->value_count; i++)
            if (args->values[i].option == option) { /* the last one wins, as scripts expect */
                args->values[i].value = value;
                return 0;
            }
    args->values[args->value_count++] = (struct cli_given){option, value};
    return 0;
}

/* One option at argv[0]; returns how many entries of argv it used, or a negative code. *ret_rest:
 * no option may follow. */
static int parse_option(struct cli_args *args, int argc, char **argv, bool *ret_rest,
                        struct err *err)
{
    const char *arg = argv[0];
    bool is_long = arg[1] == '-';
    const char *equals = is_long ? strchr(arg, '=') : NULL;
    struct str name = STR_NONE;
    if (is_long)
        name = (struct str){arg + 2, equals ? (size_t)(equals - arg - 2) : strlen(arg + 2)};
    const struct verb_option *option = NULL;
    if (name.n || (!is_long && arg[2] == '\0'))
        option = find(args->verb, name, arg[1]);
    if (!option)
        return unknown_option(args->verb, arg, name, err);
    const char *value = equals ? equals + 1 : NULL;
    if (!option->value && value)
        return err_set(err, ERR_USAGE, "--%s takes no value", option->name);
    int used = option->value && !value ? 2 : 1;
    if (used == 2 && (option->flags & ARG_REST) && argc > 2 && strcmp(argv[1], "--") == 0)
        used = 3; /* for those who are used to it */
    if (argc < used)
        return err_set(err, ERR_USAGE, "--%s needs a value: %s", option->name, option->value);
    int r = add_value(args, option, used > 1 ? argv[used - 1] : value, err);
    *ret_rest = option->flags & ARG_REST;
    return r < 0 ? r : used;
}

static int parse_all(struct cli_args *args, int argc, char **argv, struct err *err)
{
    bool options_over = false;
    for (int i = 0; i < argc;) {
        if (!options_over && strcmp(argv[i], "--") == 0) {
            options_over = true;
            i++;
        } else if (!options_over && argv[i][0] == '-' && argv[i][1] != '\0') {
            int used = parse_option(args, argc - i, argv + i, &options_over, err);
            if (used < 0)
                return used;
            i += used;
        } else {
            args->words[args->word_count++] = argv[i++];
        }
    }
    return 0;
}

/* Was an option given that takes all words? */
static bool has_rest(const struct cli_args *args)
{
    for (size_t i = 0; i < args->value_count; i++)
        if (args->values[i].option->flags & ARG_REST)
            return true;
    return false;
}

static int check_words(const struct cli_args *args, struct err *err)
{
    const char *p = args->verb->synopsis;
    size_t place = 0;
    bool more = has_rest(args);
    for (; *p; place++) {
        size_t n = strcspn(p, " ");
        if (place >= args->word_count && *p != '[')
            return err_set(err, ERR_USAGE, "%.*s is missing; see 'reeve help %s'", (int)n, p,
                           args->verb->name);
        more = more || memmem(p, n, "...", 3) != NULL;
        p += n + (p[n] == ' ');
    }
    if (args->word_count > place && !more)
        return err_set(err, ERR_USAGE, "'%s' is one word too many; see 'reeve help %s'",
                       args->words[place], args->verb->name);
    return 0;
}

static int check_required(const struct cli_args *args, struct err *err)
{
    for (const struct verb_option *o = args->verb->options; o && o->name; o++)
        if ((o->flags & ARG_REQUIRED) && !cli_value(args, o->name))
            return err_set(err, ERR_USAGE, "--%s %s is missing; see 'reeve help %s'", o->name,
                           o->value, args->verb->name);
    return 0;
}

int cli_parse(const struct verb *verb, int argc, char **argv, struct cli_args *ret, struct err *err)
{
    struct cli_args args = {
        .verb = verb,
        .words = mem_zalloc((size_t)argc * sizeof *args.words),
        .values = mem_zalloc((size_t)argc * sizeof *args.values),
    };
    int r = parse_all(&args, argc, argv, err);
    if (r == 0 && !cli_flag(&args, "help")) {
        r = check_words(&args, err);
        if (r == 0)
            r = check_required(&args, err);
    }
    if (r < 0) {
        cli_args_release(&args);
        return r;
    }
    *ret = args;
    return 0;
}

void cli_args_release(struct cli_args *args)
{
    if (!args)
        return;
    free(args->words);
    free(args->values);
    *args = CLI_ARGS_INIT;
}

/* The entry at or after *cursor that gives `name`, or NULL; moves the cursor past it. */
static const struct cli_given *next_given(const struct cli_args *args, const char *name,
                                          size_t *cursor)
{
    const struct verb_option *option = verb_option_find(args->verb, str_of(name));
    REQUIRE_F(option, "verb %s, option %s", args->verb->name, name);
    while (*cursor < args->value_count) {
        const struct cli_given *v = &args->values[(*cursor)++];
        if (v->option == option)
            return v;
    }
    return NULL;
}

bool cli_flag(const struct cli_args *args, const char *name)
{
    size_t cursor = 0;
    return next_given(args, name, &cursor) != NULL;
}

const char *cli_next(const struct cli_args *args, const char *name, size_t *cursor)
{
    const struct cli_given *v = next_given(args, name, cursor);
    return v ? v->value : NULL;
}

const char *cli_value(const struct cli_args *args, const char *name)
{
    size_t cursor = 0;
    return cli_next(args, name, &cursor);
}

int cli_int(const struct cli_args *args, const char *name, int64_t least, int64_t *ret,
            struct err *err)
{
    const char *text = cli_value(args, name);
    int64_t value;
    if (!text)
        return 0;
    if (!str_to_int(str_of(text), &value) || value < least)
        return err_set(err, ERR_USAGE, "--%s takes a number from %lld on, not '%s'", name,
                       (long long)least, text);
    *ret = value;
    return 1;
}

int cli_conversation(const char *word, int64_t *ret, struct err *err)
{
    int64_t value;
    if (!str_to_int(str_of(word), &value) || value < 0)
        return err_set(err, ERR_USAGE, "a conversation is a number, not '%s'", word);
    *ret = value;
    return 0;
}

void cli_set_log_level(const struct cli_args *args)
{
    static const char *const names[] = {
        [LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};
    const char *given = cli_value(args, "log-level");
    int level = given ? names_find(names, ARRAY_LEN(names), str_of(given)) : -1;
    if (level >= 0)
        log_set_level((enum log_level)level);
}

int cli_data_folder(const struct cli_args *args, char **ret, struct err *err)
{
    const char *given = cli_value(args, "data");
    struct endpoint_source source = endpoint_source_of_environment();
    source.data = given;
    return endpoint_data_folder(&source, ret, err);
}
