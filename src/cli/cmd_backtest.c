/*
 * cmd_backtest.c: `reeve backtest`: what other limits would have done to the recorded log.
 *
 * Begins with the limits in force at the server, applies --set, replays (backtest.h) and lists the
 * moves with what the record says came after.
 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cli/backtest.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "cli/when.h"
#include "watch/ladder.h"

enum { CELL_BYTES_MAX = 256 };

/* ---- limits ---- */

/* Does a rule that is replayed depend on it? */
static bool is_limit(size_t option)
{
    char key[160];
    snprintf(key, sizeof key, "%s.%s", option_rows[option].section, option_rows[option].key);
    for (size_t rule = 0; rule < RULE_COUNT; rule++)
        if (ladder_rules[rule].key && strcmp(key, ladder_rules[rule].key) == 0)
            return true;
    return option == OPT_watchdog_enabled;
}

/* A setting that changes nothing here would only look as if it did. */
static int check_is_limit(const struct options *before, const struct options *after,
                          const char *assignment, struct err *err)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (before->source[i] != after->source[i] && !is_limit(i))
            return err_set(err, ERR_USAGE, "--set %.80s: no rule that is replayed depends on it",
                           assignment);
    return 0;
}

static int apply_set(const struct cli_args *args, struct options *o, struct err *err)
{
    const char *assignment;
    size_t cursor = 0;
    int r = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        o->source[i] = OPTION_FROM_DEFAULT; /* so that what --set touches can be told */
    while (r == 0 && (assignment = cli_next(args, "set", &cursor)) != NULL) {
        struct options before = *o;
        r = options_set(o, str_of(assignment), err);
        if (r == 0)
            r = check_is_limit(&before, o, assignment, err);
    }
    return r < 0 ? r : options_check(o, err);
}

/* ---- text ---- */

static void add_measure(struct table *t, const struct replay_move *m)
{
    _cleanup_buf_ struct buf b = BUF_INIT(CELL_BYTES_MAX);
    if (m->rule == RULE_MAX_TURNS) {
        buf_addf(&b, "used its %lld turns", (long long)m->limit);
    } else if (m->rule == RULE_WALL_CLOCK) {
        buf_addz(&b, "over budget by ");
        when_add_age(&b, m->at_ms - m->base_ms - m->limit);
    } else {
        buf_addz(&b, "silent for ");
        when_add_age(&b, m->at_ms - m->base_ms);
    }
    table_cell(t, buf_str(&b));
}

/* "canceled by conversation.idle" */
static void add_record(struct buf *out, const struct replay_record *record)
{
    buf_addz(out, record->outcome == OUTCOME_NONE ? conversation_status_name(record->status)
                                                  : outcome_name(record->outcome));
    if (record->rule != RULE_COUNT)
        buf_addf(out, " by %s", rule_name(record->rule));
}

static void add_truth(struct table *t, const struct backtest_move *m)
{
    _cleanup_buf_ struct buf b = BUF_INIT(CELL_BYTES_MAX);
    const struct replay_record *record = &m->record;
    switch (m->move.truth) {
    case REPLAY_SAME:
        buf_addz(&b, "so it was");
        break;
    case REPLAY_HEALTHY:
        buf_addz(&b, "healthy: somebody wrote ");
        when_add_age(&b, m->move.wrote_again_ms - m->move.at_ms);
        buf_addz(&b, " later");
        break;
    case REPLAY_UNKNOWN:
        buf_addz(&b, "not known: ");
        add_record(&b, &m->move.record);
        buf_addc(&b, ' ');
        when_add_age(&b, m->move.at_ms - m->move.record.since_ms);
        buf_addz(&b, " before");
        break;
    case REPLAY_SILENT:
    case REPLAY_TRUTH_COUNT:
        buf_addz(&b, "silent");
        if (record->status == CONVERSATION_ACTIVE) {
            buf_addz(&b, " until now");
            break;
        }
        buf_addz(&b, ", ");
        add_record(&b, record);
        buf_addc(&b, ' ');
        when_add_age(&b, record->since_ms - m->move.at_ms);
        buf_addz(&b, " later");
        break;
    }
    table_cell(t, buf_str(&b));
}

static void add_row(struct table *t, const struct backtest_move *m)
{
    _cleanup_buf_ struct buf at = BUF_INIT(CELL_BYTES_MAX);
    when_add_time(&at, m->move.at_ms);
    table_cell_int(t, m->conversation);
    table_cellz(t, rule_name(m->move.rule));
    table_cell(t, buf_str(&at));
    add_measure(t, &m->move);
    add_truth(t, m);
}

static void write_text(struct buf *out, const struct backtest *b)
{
    static const char *const heads[] = {"CONVERSATION", "RULE", "MOVED AT", "WHY", "IN TRUTH"};
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        table_cellz(&t, heads[i]);
    for (size_t i = 0; i < b->move_count; i++)
        add_row(&t, &b->moves[i]);
    if (b->move_count)
        table_write(&t, out);
    else
        buf_addz(out, "Nothing would have been moved.\n");
    buf_addf(out,
             "%lld conversation%s replayed, %lld would have been moved, %lld of them healthy "
             "(false alarms), %lld moved by the limits in force but not by these\n",
             (long long)b->counts.conversations, b->counts.conversations == 1 ? "" : "s",
             (long long)b->counts.moved, (long long)b->counts.healthy, (long long)b->counts.spared);
}

/* ---- JSON ---- */

static void write_option_value(struct json_out *w, const char *key, size_t i, int64_t value)
{
    if (option_rows[i].type == OPTION_BOOL)
        json_bool(w, key, value);
    else
        json_int(w, key, value);
}

static void write_limits(struct json_out *w, const struct backtest *b)
{
    json_object(w, "limits");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char key[160];
        if (!is_limit(i))
            continue;
        snprintf(key, sizeof key, "%s.%s", option_rows[i].section, option_rows[i].key);
        json_object(w, key);
        write_option_value(w, "value", i, b->limits.value[i]);
        write_option_value(w, "inForce", i, b->in_force.value[i]);
        json_end(w);
    }
    json_end(w);
}

static void write_record(struct json_out *w, const struct replay_record *record)
{
    json_object(w, "recorded");
    json_stringz(w, "status", conversation_status_name(record->status));
    json_stringz(w, "outcome", outcome_name(record->outcome));
    json_stringz(w, "rule", record->rule == RULE_COUNT ? NULL : rule_name(record->rule));
    json_time(w, "since", record->since_ms);
    json_end(w);
}

static void write_move(struct json_out *w, const struct backtest_move *m)
{
    const struct replay_move *move = &m->move;
    json_object(w, NULL);
    json_int(w, "conversation", m->conversation);
    json_stringz(w, "rule", rule_name(move->rule));
    json_time(w, "at", move->at_ms);
    if (move->rule == RULE_MAX_TURNS) {
        json_int(w, "turns", move->limit);
    } else {
        json_time(w, "since", move->base_ms);
        json_int(w, "limitMs", move->limit);
        json_int(w, move->rule == RULE_WALL_CLOCK ? "overBudgetMs" : "silentMs",
                 move->at_ms - move->base_ms - (move->rule == RULE_WALL_CLOCK ? move->limit : 0));
    }
    json_stringz(w, "truth", replay_truth_name(move->truth));
    if (move->truth == REPLAY_HEALTHY)
        json_int(w, "wroteAgainAfterMs", move->wrote_again_ms - move->at_ms);
    else
        json_null(w, "wroteAgainAfterMs");
    write_record(w, &m->record);
    json_end(w);
}

static void write_json(struct buf *out, const struct backtest *b)
{
    struct json_out w = JSON_OUT(out);
    json_object(&w, NULL);
    write_limits(&w, b);
    json_array(&w, "moves");
    for (size_t i = 0; i < b->move_count; i++)
        write_move(&w, &b->moves[i]);
    json_end(&w);
    json_object(&w, "summary");
    json_int(&w, "conversations", b->counts.conversations);
    json_int(&w, "events", b->counts.events);
    json_int(&w, "moved", b->counts.moved);
    json_int(&w, "healthy", b->counts.healthy);
    json_int(&w, "spared", b->counts.spared);
    json_int(&w, "notices", b->counts.notices);
    json_end(&w);
    json_end(&w);
    buf_addc(out, '\n');
}

/* ---- the verb ---- */

static int read_only(const struct cli_args *args, int64_t *ret, struct err *err)
{
    *ret = CLIENT_ALL;
    int r = cli_int(args, "conversation", 1, ret, err);
    return r < 0 ? r : 0;
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(cli_disconnect) struct client *client = NULL;
    _cleanup_(backtest_release) struct backtest b;
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    struct options defaults;
    int64_t only = CLIENT_ALL;
    backtest_init(&b);
    options_init(&defaults);
    int r = read_only(args, &only, err);
    if (r == 0)
        r = apply_set(args, &defaults, err); /* what is wrong in itself needs no server */
    if (r == 0)
        r = cli_connect(args, &client, err);
    if (r == 0)
        r = backtest_read_limits(&b, client, err);
    if (r == 0)
        r = apply_set(args, &b.limits, err);
    if (r == 0)
        r = backtest_run(&b, client, only, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        write_json(&out, &b);
    else
        write_text(&out, &b);
    return print_flush(&out, err);
}

// clang-format off
static const struct verb_option options[] = {
    {"set", 0, "SECTION.KEY=VALUE", ARG_REPEAT, "a limit other than the one in force, as for 'reeve serve'"},
    {"conversation", 0, "N", 0, "only this one"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_backtest = {
    .name = "backtest",
    .synopsis = "",
    .summary = "replay the log against other limits and list what they would have moved",
    .details =
        "Nothing is changed. Begins with the limits in force and replays every conversation by "
        "the\n"
        "rules' own code. A move is healthy, a false alarm, if somebody wrote after it; silent if\n"
        "nobody did; not known if the ladder had stopped the conversation before. Each\n"
        "conversation is followed up to the first move that the record does not have.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
