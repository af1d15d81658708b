/*
 * help.c: help and docs/cli.md, generated from the rows of the verbs.
 *
 * Owns no text about any verb: what is said of one stands in its row. What belongs to no verb (how
 * the server is found, what exit codes mean) stands here, once, and is used in both outputs.
 */
#include "cli/help.h"

#include <string.h>

#include "base/macro.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/print.h"
#include "cli/screen.h"
#include "cli/verbs.h"

enum { OPTION_COLUMN = 34, MEANING_WIDTH_MIN = 16 };

static const char purpose[] =
    "reeve oversees agents: one log, one ladder, a reason for everything.";

static const char finding[] =
    "The server is found by --data DIR (its data folder), by --server URL with --token-file FILE,\n"
    "by REEVE_URL and REEVE_TOKEN, or in the default data folder, $XDG_STATE_HOME/reeve.";

static const struct {
    const char *status, *meaning;
} statuses[] = {
    {"0", "done"},
    {"1", "no: refused, or not found"},
    {"2", "wrong usage or configuration"},
    {"69", "the server cannot be reached"},
    {"70", "a bug"},
    {"75", "not now: try the same again"},
};

static void add_usage(struct buf *out, const struct verb *verb)
{
    buf_addf(out, "reeve %s", verb->name);
    if (*verb->synopsis)
        buf_addf(out, " %s", verb->synopsis);
    for (const struct verb_option *o = verb->options; o && o->name; o++)
        if (o->flags & ARG_REQUIRED)
            buf_addf(out, " --%s %s", o->name, o->value);
    buf_addz(out, " [OPTIONS]");
}

static void add_option_name(struct buf *out, const struct verb_option *o)
{
    if (o->letter)
        buf_addf(out, "-%c, ", o->letter);
    buf_addf(out, "--%s", o->name);
    if (o->value)
        buf_addf(out, " %s", o->value);
}

static void pad_to(struct buf *out, size_t line_start, size_t column)
{
    if (out->len - line_start >= column) {
        buf_addc(out, '\n');
        line_start = out->len;
    }
    while (out->len - line_start < column)
        buf_addc(out, ' ');
}

/* What stands in the second column: broken into lines there if the screen is too narrow for it. */
static void add_meaning(struct buf *out, size_t line_start, const char *text)
{
    size_t columns = screen_columns();
    pad_to(out, line_start, OPTION_COLUMN);
    if (columns > OPTION_COLUMN + MEANING_WIDTH_MIN)
        screen_add_wrapped(out, str_of(text), columns, OPTION_COLUMN, OPTION_COLUMN);
    else
        buf_addf(out, "%s\n", text);
}

/* Text whose lines are broken once more if the screen is too narrow for them. */
static void add_paragraphs(struct buf *out, const char *text)
{
    size_t columns = screen_columns();
    while (*text) {
        struct str line = {text, strcspn(text, "\n")};
        screen_add_wrapped(out, line, columns ? columns : line.n, 0, 0);
        text += line.n + (text[line.n] == '\n');
    }
}

static void add_option(struct buf *out, const struct verb_option *o)
{
    size_t line_start = out->len;
    _cleanup_free_ char *text =
        mem_printf("%s%s", o->help, o->flags & ARG_REPEAT ? " (may be repeated)" : "");
    buf_addz(out, o->letter ? "  " : "      ");
    add_option_name(out, o);
    add_meaning(out, line_start, text);
}

void help_write_verb(struct buf *out, const struct verb *verb)
{
    buf_addz(out, "usage: ");
    add_usage(out, verb);
    buf_addf(out, "\n\n%s\n", verb->summary);
    if (verb->details) {
        buf_addc(out, '\n');
        add_paragraphs(out, verb->details);
    }
    buf_addz(out, "\noptions:\n");
    const struct verb_option *tables[VERB_TABLES];
    size_t n = verb_tables(verb, tables);
    for (size_t i = 0; i < n; i++)
        for (const struct verb_option *o = tables[i]; o->name; o++)
            add_option(out, o);
}

static void add_summary(struct buf *out, const struct verb *verb)
{
    size_t line_start = out->len;
    buf_addf(out, "  %s", verb->name);
    if (*verb->synopsis)
        buf_addf(out, " %s", verb->synopsis);
    add_meaning(out, line_start, verb->summary);
}

size_t help_write_group(struct buf *out, const char *word)
{
    size_t n = strlen(word), count = 0;
    for (const struct verb *const *v = cli_verbs; *v; v++) {
        if (strncmp((*v)->name, word, n) != 0 || (*v)->name[n] != ' ')
            continue;
        add_summary(out, *v);
        count++;
    }
    return count;
}

static bool is_group(const char *word)
{
    _cleanup_buf_ struct buf list = BUF_INIT(HELP_BYTES_MAX);
    return help_write_group(&list, word) > 0;
}

void help_write_unknown(struct buf *out, const char *word, const char *next)
{
    bool in_group = next && is_group(word);
    struct str group = in_group ? str_of(word) : verb_nearest_group(str_of(word));
    const struct verb *near =
        verb_nearest(in_group ? group : STR(""), str_of(in_group ? next : word));
    buf_addz(out, "no verb '");
    print_clean(out, str_of(word), 0);
    if (in_group) {
        buf_addc(out, ' ');
        print_clean(out, str_of(next), 0);
    }
    if (near)
        buf_addf(out, "'; did you mean '%s'?", near->name);
    else if (in_group)
        buf_addf(out, "'; see 'reeve help %s'", word);
    else if (group.n)
        buf_addf(out, "'; did you mean '%.*s'?", STR_ARG(group));
    else
        buf_addz(out, "'; see 'reeve help'");
}

void help_write_overview(struct buf *out)
{
    buf_addz(out, "usage: reeve VERB [OPTIONS]\n\n");
    add_paragraphs(out, purpose);
    buf_addz(out, "\nverbs:\n");
    for (const struct verb *const *v = cli_verbs; *v; v++)
        if (!((*v)->flags & VERB_HIDDEN))
            add_summary(out, *v);
    buf_addc(out, '\n');
    add_paragraphs(out, finding);
    buf_addz(out, "\nexit status:\n");
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        buf_addf(out, "  %-4s%s\n", statuses[i].status, statuses[i].meaning);
    buf_addz(out, "\n'reeve help VERB' says more about one of them.\n");
}

static void add_markdown_text(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("|<>*_`", *text))
            buf_addc(out, '\\');
        buf_addc(out, *text);
    }
}

static void add_markdown_option(struct buf *out, const struct verb_option *o)
{
    buf_addz(out, "- `");
    add_option_name(out, o);
    buf_addz(out, "`: ");
    add_markdown_text(out, o->help);
    buf_addz(out, o->flags & ARG_REPEAT ? " (may be repeated)\n" : "\n");
}

static void add_markdown_verb(struct buf *out, const struct verb *verb)
{
    buf_addf(out, "\n## reeve %s\n\n`", verb->name);
    add_usage(out, verb);
    buf_addz(out, "`\n\n");
    add_markdown_text(out, verb->summary);
    buf_addz(out, "\n\n");
    if (verb->details) {
        add_markdown_text(out, verb->details);
        buf_addz(out, "\n\n");
    }
    const struct verb_option *tables[VERB_TABLES];
    size_t n = verb_tables(verb, tables);
    for (size_t i = 0; i < n; i++)
        for (const struct verb_option *o = tables[i]; o->name; o++)
            add_markdown_option(out, o);
}

void cli_write_markdown(struct buf *out)
{
    buf_addf(out, "# The command line\n\nGenerated from the verb table; do not edit.\n\n%s\n\n",
             purpose);
    add_markdown_text(out, finding);
    buf_addz(out, "\n\n| exit status | meaning |\n|---|---|\n");
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        buf_addf(out, "| %s | %s |\n", statuses[i].status, statuses[i].meaning);
    for (const struct verb *const *v = cli_verbs; *v; v++)
        add_markdown_verb(out, *v);
}
