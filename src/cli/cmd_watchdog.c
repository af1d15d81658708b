/*
 * cmd_watchdog.c: `reeve watchdog rules` and `reeve watchdog run-once`: the ladder's table as the
 * server has it, and a pass over everything that is due.
 */
#include <stdio.h>

#include "base/macro.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "cli/when.h"
#include "domain/rule.h"

/* ---- rules ---- */

static bool ends_with(struct str s, struct str suffix)
{
    return s.n > suffix.n && str_eq(str_skip(s, s.n - suffix.n), suffix);
}

/* The unit of a setting ends its name; one without is a count. */
static int64_t unit_ms(struct str key)
{
    return ends_with(key, STR("_ms")) ? 1 : ends_with(key, STR("_seconds")) ? 1000 : 0;
}

static void add_limit(struct table *t, const struct json *rule)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    int64_t limit = json_get_int(rule, "limit", -1), unit = unit_ms(json_get_text(rule, "key"));
    if (limit > 0 && unit)
        when_add_limit(&b, MIN(limit, OPTION_MS_MAX / unit) * unit);
    else if (limit > 0)
        buf_addf(&b, "%lld", (long long)limit);
    else
        buf_addz(&b, limit == 0 ? "off" : "-");
    table_cell(t, buf_str(&b));
}

static void add_setting(struct table *t, const struct json *rule)
{
    _cleanup_buf_ struct buf b = BUF_INIT(PRINT_BYTES_MAX);
    struct str key = json_get_text(rule, "key"), own = json_get_text(rule, "own");
    buf_add_str(&b, key.n ? key : own);
    if (!key.n && own.n)
        buf_addz(&b, " (of a conversation)");
    table_cell(t, b.len ? buf_str(&b) : STR("-"));
}

static void add_rule(struct table *t, const struct json *rule)
{
    struct str next = json_get_text(rule, "nextDueAt");
    table_cell(t, json_get_text(rule, "rule"));
    table_cell(t, json_get_text(rule, "rung"));
    add_limit(t, rule);
    table_cell(t, next.n ? next : STR("-"));
    table_cell_int(t, json_get_int(rule, "fired", 0));
    table_cell_int(t, json_get_int(rule, "errors", 0));
    add_setting(t, rule);
}

static int run_rules(const struct cli_args *args, struct err *err)
{
    static const char *const heads[] = {"RULE",  "RUNG",   "LIMIT",  "NEXT DUE",
                                        "FIRED", "ERRORS", "SETTING"};
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    const struct json *result;
    buf_addz(&params, "{}");
    int r = cli_call(args, "watchdog.rules", &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    const struct json *rules = json_get(result, "rules");
    if (!rules || rules->type != JSON_ARRAY)
        return err_set(err, ERR_INTERNAL, "the answer has no list of rules");
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        table_cellz(&t, heads[i]);
    JSON_FOREACH (rule, rules)
        add_rule(&t, rule);
    table_write(&t, &out);
    return print_flush(&out, err);
}

const struct verb verb_watchdog_rules = {
    .name = "watchdog rules",
    .synopsis = "",
    .summary = "list the rules of the ladder, their limits and what they did",
    .details =
        "NEXT DUE is when the ladder looks at the first conversation: never later than one is "
        "due,\n"
        "earlier if somebody wrote since. FIRED and ERRORS count from the start of the server.",
    .flags = VERB_CLIENT | VERB_JSON,
    .run = run_rules,
};

/* ---- run-once ---- */

static int write_params(struct buf *params, const char *rule, struct err *err)
{
    struct json_out w = JSON_OUT(params);
    enum rule_id id;
    if (rule && !rule_parse(str_of(rule), &id))
        return err_set(err, ERR_USAGE, "no rule '%.60s'; `reeve watchdog rules` lists them", rule);
    json_object(&w, NULL);
    if (rule)
        json_stringz(&w, "rule", rule);
    json_end(&w);
    return 0;
}

static int print_pass(const struct json *pass, struct err *err)
{
    static const struct {
        const char *word, *member;
    } counts[] = {{"checked", "checked"},
                  {"due", "candidates"},
                  {"moved", "canceled"},
                  {"skipped", "skipped"},
                  {"errors", "errors"}};
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        buf_addf(&out, "%s%s %lld", i ? ", " : "", counts[i].word,
                 (long long)json_get_int(pass, counts[i].member, 0));
    buf_addc(&out, '\n');
    return print_flush(&out, err);
}

static int run_once(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *pass;
    int r = write_params(&params, cli_value(args, "rule"), err);
    if (r == 0)
        r = cli_call(args, "watchdog.runOnce", &params, &a, &pass, err);
    if (r < 0)
        return r;
    bool is_running = json_get_bool(pass, "running"), json = cli_flag(args, "json");
    if (json)
        r = print_result(pass, err);
    else if (is_running)
        fprintf(stderr, "reeve watchdog run-once: a pass is under way; try again\n");
    else
        r = print_pass(pass, err);
    if (r < 0)
        return r;
    if (is_running)
        return err_exit_status(ERR_UNAVAILABLE);
    return json_get_int(pass, "errors", 0) > 0;
}

// clang-format off
static const struct verb_option once_options[] = {
    {"rule", 0, "NAME", 0, "only this one; see 'reeve watchdog rules'"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_watchdog_run_once = {
    .name = "watchdog run-once",
    .synopsis = "",
    .summary = "look now at everything that may be due, and move what is",
    .details = "Exit status 1 if something could not be moved, 75 if a pass is under way already.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = once_options,
    .run = run_once,
};
