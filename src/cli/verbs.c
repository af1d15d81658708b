/*
 * verbs.c: every verb of the program, in the order people meet them.
 *
 * Owns nothing but the list. A verb is added by writing its cmd_*.c and one line here; parsing,
 * help and docs/cli.md follow from the row. The row of `serve` is kept here and not in cmd_serve.c,
 * so that tests of the command line need not link the whole server.
 */
#include "cli/verbs.h"

#include <string.h>

#include "base/macro.h"
#include "base/str.h"
#include "cli/suggest.h"

// clang-format off
static const struct verb_option serve_options[] = {
    {"data", 0, "DIR", 0, "the data folder (default: $XDG_STATE_HOME/reeve)"},
    {"listen", 0, "[ADDRESS:]PORT", 0, "where to listen (default 127.0.0.1:7433); port 0 takes a free one"},
    {"config", 0, "FILE", 0, "read settings from FILE"},
    {"set", 0, "SECTION.KEY=VALUE", ARG_REPEAT, "change one setting; wins over file and environment"},
    {"store", 0, "URL", 0, "sqlite:PATH (default: reeve.db in the data folder)"},
    {"bell", 0, "URL", 0, "local (default)"},
    {"clock", 0, "real|manual", 0, "manual: time moves only by clock.advance"},
    {"tls-cert", 0, "FILE", 0, "serve TLS with this certificate chain (PEM)"},
    {"tls-key", 0, "FILE", 0, "and this key"},
    {"insecure", 0, NULL, 0, "allow listening beyond loopback without TLS"},
    {"allow-host", 0, "NAME", ARG_REPEAT, "also answer requests whose Host is NAME"},
    {"log-level", 0, "debug|info|warn|error", 0, "the least level that is logged (default info)"},
    OPTIONS_END,
};
// clang-format on

static const struct verb verb_serve = {
    .name = "serve",
    .synopsis = "",
    .summary = "run the server",
    .details =
        "When ready it writes, if absent, DIR/operator.token, and after it DIR/server.json.\n"
        "SIGTERM and SIGINT end it cleanly.",
    .options = serve_options,
    .run = cmd_serve,
};

const struct verb *const cli_verbs[] = {
    &verb_up,
    &verb_serve,
    &verb_machine,
    &verb_machine_list,
    &verb_machine_forget,
    &verb_down,
    &verb_status,
    &verb_conversation_create,
    &verb_conversation_show,
    &verb_conversation_list,
    &verb_conversation_end,
    &verb_conversation_resume,
    &verb_send,
    &verb_events,
    &verb_wait_for_task,
    &verb_task_create,
    &verb_task_list,
    &verb_task_show,
    &verb_task_claim,
    &verb_task_start,
    &verb_task_progress,
    &verb_task_suspend,
    &verb_task_report,
    &verb_task_resume,
    &verb_task_applied,
    &verb_task_complete,
    &verb_task_fail,
    &verb_task_cancel,
    &verb_card_show,
    &verb_inbox_list,
    &verb_inbox_show,
    &verb_ps,
    &verb_logs,
    &verb_agent_list,
    &verb_agent_start,
    &verb_agent_stop,
    &verb_agent_restart,
    &verb_agent_set,
    &verb_why,
    &verb_watchdog_rules,
    &verb_watchdog_run_once,
    &verb_backtest,
    &verb_rpc,
    &verb_config_check,
    &verb_version,
    &verb_help,
    &verb_shim,
    NULL,
};

/* How many words of argv spell this name; 0 if they do not. */
static int name_matches(const char *name, int argc, char **argv)
{
    int words = 0;
    while (*name && words < argc) {
        size_t n = strcspn(name, " ");
        if (!str_eq((struct str){name, n}, str_of(argv[words])))
            return 0;
        words++;
        name += n + (name[n] == ' ');
    }
    return *name ? 0 : words;
}

const struct verb *verb_find(int argc, char **argv, int *ret_words)
{
    const struct verb *best = NULL;
    int best_words = 0;
    for (const struct verb *const *v = cli_verbs; *v; v++) {
        int words = name_matches((*v)->name, argc, argv);
        if (words > best_words) {
            best = *v;
            best_words = words;
        }
    }
    if (best)
        *ret_words = best_words;
    return best;
}

/* The name without its group, if it has this one ("conversation"; "" means none); else nothing. */
static struct str within(const char *name, struct str group)
{
    size_t n = strlen(name);
    if (!group.n)
        return (struct str){name, n};
    bool is_in = n > group.n && memcmp(name, group.p, group.n) == 0 && name[group.n] == ' ';
    return is_in ? (struct str){name + group.n + 1, n - group.n - 1} : STR_NONE;
}

/* What other programs call it. */
static struct str synonym_of(struct str word)
{
    static const struct {
        const char *word, *ours;
    } synonyms[] = {{"ls", "list"},         {"get", "show"},      {"new", "create"},
                    {"add", "create"},      {"kill", "stop"},     {"abort", "cancel"},
                    {"finish", "complete"}, {"done", "complete"}, {"close", "end"}};
    for (size_t i = 0; i < ARRAY_LEN(synonyms); i++)
        if (str_is(word, synonyms[i].word))
            return str_of(synonyms[i].ours);
    return word;
}

const struct verb *verb_nearest(struct str group, struct str name)
{
    const struct verb *best = NULL;
    unsigned best_distance = SUGGEST_DISTANCE_MAX + 1;
    for (const struct verb *const *v = cli_verbs; *v; v++) {
        struct str candidate = within((*v)->name, group);
        unsigned distance = candidate.n ? MIN(suggest_distance(name, candidate),
                                              suggest_distance(synonym_of(name), candidate))
                                        : SUGGEST_DISTANCE_MAX + 1;
        if (distance < best_distance && !((*v)->flags & VERB_HIDDEN)) {
            best = *v;
            best_distance = distance;
        }
    }
    return best;
}

struct str verb_nearest_group(struct str word)
{
    struct str best = STR_NONE;
    unsigned best_distance = SUGGEST_DISTANCE_MAX + 1;
    for (const struct verb *const *v = cli_verbs; *v; v++) {
        struct str group = {(*v)->name, strcspn((*v)->name, " ")};
        unsigned distance = suggest_distance(word, group);
        if ((*v)->name[group.n] && distance < best_distance) {
            best = group;
            best_distance = distance;
        }
    }
    return best;
}
