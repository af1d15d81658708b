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

enum { CELL_BYTES_MAX = 256, KEY_BYTES_MAX = 160 };

/* ---- limits ---- */

static void option_key(size_t option, char *ret, size_t room)
{
    snprintf(ret, room, "%s.%s", option_rows[option].section, option_rows[option].key);
}

/* Does a rule that is replayed depend on it? *ret_why: if one does that is not, why. */
static bool is_limit(size_t option, const char **ret_why)
{
    char key[KEY_BYTES_MAX];
    bool has_rule;
    option_key(option, key, sizeof key);
    *ret_why = ladder_not_replayed(key, &has_rule);
    return option == OPT_watchdog_enabled || (has_rule && !*ret_why);
}

/* A setting that changes nothing here would only look as if it did. */
static int refuse(size_t option, const char *why, struct err *err)
{
    char key[KEY_BYTES_MAX];
    option_key(option, key, sizeof key);
    return err_set(err, ERR_USAGE,
                   "%s cannot be replayed: %s; 'reeve help backtest' lists what can be", key,
                   why ? why : "no rule has it for its limit");
}

static int check_is_limit(const struct options *before, const struct options *after,
                          struct err *err)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *why;
        if (before->source[i] != after->source[i] && !is_limit(i, &why))
            return refuse(i, why, err);
    }
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
            r = check_is_limit(&before, o, err);
    }
    return r < 0 ? r : options_check(o, err);
}

/* ---- text ---- */

/* What a rule measures, before the time. */
static const char *measure_of(enum rule_id rule)
{
    static const char *const words[RULE_COUNT] = {
        [RULE_WALL_CLOCK] = "over budget by ",      [RULE_TOOL_TIMEOUT] = "waited for a tool for ",
        [RULE_DISPATCH_REAP] = "not started for ",  [RULE_RUNNING_REAP] = "no progress for ",
        [RULE_SUSPENDED_REAP] = "not resumed for ", [RULE_TASK_MAX_SECONDS] = "not done after ",
    };
    return words[rule] ? words[rule] : "silent for ";
}

/* What it measures when it moves; a budget is told by what was used beyond it. */
static int64_t measured_ms(const struct replay_move *m)
{
    return m->at_ms - m->base_ms - (m->rule == RULE_WALL_CLOCK ? m->limit : 0);
}

static void add_measure(struct table *t, const struct replay_move *m)
{
    _cleanup_buf_ struct buf b = BUF_INIT(CELL_BYTES_MAX);
    if (m->rule == RULE_MAX_TURNS) {
        buf_addf(&b, "used its %lld turns", (long long)m->limit);
    } else if (m->rule == RULE_TASK_EXHAUSTED) {
        buf_addf(&b, "lost %lld attempt%s", (long long)m->limit, m->limit == 1 ? "" : "s");
    } else {
        buf_addz(&b, measure_of(m->rule));
        when_add_age(&b, measured_ms(m));
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

/* "failed by running.reap" */
static void add_task_record(struct buf *out, const struct backtest_move *m)
{
    buf_addz(out, task_status_name(m->task_record.status));
    if (m->task_record.rule != RULE_COUNT)
        buf_addf(out, " by %s", rule_name(m->task_record.rule));
}

/* Where the record has it at the end; false: it is open. */
static bool add_end(struct buf *out, const struct backtest_move *m, int64_t *ret_ms)
{
    if (m->task ? !m->task_record.completed_ms : m->record.status == CONVERSATION_ACTIVE)
        return false;
    if (m->task)
        add_task_record(out, m);
    else
        add_record(out, &m->record);
    *ret_ms = m->task ? m->task_record.completed_ms : m->record.since_ms;
    return true;
}

/* Where the record had it before the move. */
static void add_before(struct buf *out, const struct backtest_move *m)
{
    if (m->task)
        add_task_record(out, m);
    else
        add_record(out, &m->move.record);
    buf_addc(out, ' ');
    when_add_age(out,
                 m->move.at_ms - (m->task ? m->task_record.completed_ms : m->move.record.since_ms));
    buf_addz(out, " before");
}

static void add_silent(struct buf *out, const struct backtest_move *m)
{
    _cleanup_buf_ struct buf end = BUF_INIT(CELL_BYTES_MAX);
    int64_t end_ms;
    if (!add_end(&end, m, &end_ms)) {
        buf_addz(out, "silent until now");
        return;
    }
    buf_addf(out, "silent, %.*s ", STR_ARG(buf_str(&end)));
    when_add_age(out, end_ms - m->move.at_ms);
    buf_addz(out, " later");
}

static void add_truth(struct table *t, const struct backtest_move *m)
{
    _cleanup_buf_ struct buf b = BUF_INIT(CELL_BYTES_MAX);
    switch (m->move.truth) {
    case REPLAY_SAME:
        buf_addz(&b, "so it was");
        break;
    case REPLAY_HEALTHY:
        buf_addz(&b, m->task ? "healthy: it went on " : "healthy: somebody wrote ");
        when_add_age(&b, m->move.wrote_again_ms - m->move.at_ms);
        buf_addz(&b, " later");
        break;
    case REPLAY_UNKNOWN:
        buf_addz(&b, "not known: ");
        add_before(&b, m);
        break;
    case REPLAY_SILENT:
    case REPLAY_TRUTH_COUNT:
        add_silent(&b, m);
        break;
    }
    table_cell(t, buf_str(&b));
}

static void add_row(struct table *t, const struct backtest_move *m)
{
    _cleanup_buf_ struct buf at = BUF_INIT(CELL_BYTES_MAX);
    when_add_time(&at, m->move.at_ms);
    table_cell_int(t, m->conversation);
    if (m->task)
        table_cell_int(t, m->task);
    else
        table_cellz(t, "");
    table_cellz(t, rule_name(m->move.rule));
    table_cell(t, buf_str(&at));
    add_measure(t, &m->move);
    add_truth(t, m);
}

static void write_text(struct buf *out, const struct backtest *b)
{
    static const char *const heads[] = {"CONVERSATION", "TASK", "RULE",
                                        "MOVED AT",     "WHY",  "IN TRUTH"};
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
    if (b->counts.tasks)
        buf_addf(out,
                 "%lld task%s replayed, %lld would have been moved, %lld of them healthy, "
                 "%lld moved by the limits in force but not by these\n",
                 (long long)b->counts.tasks, b->counts.tasks == 1 ? "" : "s",
                 (long long)b->counts.tasks_moved, (long long)b->counts.tasks_healthy,
                 (long long)b->counts.tasks_spared);
    if (b->counts.tasks_unrecorded)
        buf_addf(out,
                 "%lld of these tasks are from an older reeve, which did not record how long they "
                 "waited: not all rules could be replayed for them\n",
                 (long long)b->counts.tasks_unrecorded);
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
        char key[KEY_BYTES_MAX];
        const char *ignored;
        if (!is_limit(i, &ignored))
            continue;
        option_key(i, key, sizeof key);
        json_object(w, key);
        write_option_value(w, "value", i, b->limits.value[i]);
        write_option_value(w, "inForce", i, b->in_force.value[i]);
        json_end(w);
    }
    json_end(w);
}

static void write_record(struct json_out *w, const struct backtest_move *m)
{
    const struct replay_record *record = &m->record;
    enum rule_id rule = m->task ? m->task_record.rule : record->rule;
    json_object(w, "recorded");
    json_stringz(w, "status",
                 m->task ? task_status_name(m->task_record.status)
                         : conversation_status_name(record->status));
    json_stringz(w, "outcome", m->task ? NULL : outcome_name(record->outcome));
    json_stringz(w, "rule", rule == RULE_COUNT ? NULL : rule_name(rule));
    if (!m->task)
        json_time(w, "since", record->since_ms);
    else if (m->task_record.completed_ms)
        json_time(w, "since", m->task_record.completed_ms);
    else
        json_null(w, "since");
    json_end(w);
}

static void write_measure(struct json_out *w, const struct replay_move *m)
{
    if (m->rule == RULE_MAX_TURNS) {
        json_int(w, "turns", m->limit);
    } else if (m->rule == RULE_TASK_EXHAUSTED) {
        json_int(w, "attempts", m->limit);
    } else {
        json_time(w, "since", m->base_ms);
        json_int(w, "limitMs", m->limit);
        json_int(w, m->rule == RULE_WALL_CLOCK ? "overBudgetMs" : "silentMs", measured_ms(m));
    }
}

static void write_move(struct json_out *w, const struct backtest_move *m)
{
    const struct replay_move *move = &m->move;
    json_object(w, NULL);
    json_int(w, "conversation", m->conversation);
    if (m->task)
        json_int(w, "task", m->task);
    else
        json_null(w, "task");
    json_stringz(w, "rule", rule_name(move->rule));
    json_time(w, "at", move->at_ms);
    write_measure(w, move);
    json_stringz(w, "truth", replay_truth_name(move->truth));
    if (move->truth == REPLAY_HEALTHY)
        json_int(w, "wroteAgainAfterMs", move->wrote_again_ms - move->at_ms);
    else
        json_null(w, "wroteAgainAfterMs");
    write_record(w, m);
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
    json_int(&w, "tasks", b->counts.tasks);
    json_int(&w, "tasksMoved", b->counts.tasks_moved);
    json_int(&w, "tasksHealthy", b->counts.tasks_healthy);
    json_int(&w, "tasksSpared", b->counts.tasks_spared);
    json_int(&w, "tasksUnrecorded", b->counts.tasks_unrecorded);
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
        "Nothing is changed. Begins with the limits in force and replays every conversation and\n"
        "every task by the rules' own code. A move is healthy, a false alarm, if somebody wrote\n"
        "after it, or the task went on; silent if not; not known if the ladder had stopped it\n"
        "before. Each is followed up to the first move that the record does not have.\n"
        "Settings that can be replayed: watchdog.enabled, watchdog.idle_ms,\n"
        "watchdog.global_idle_ms, runtime_controls.session_wall_clock_seconds,\n"
        "pmo.dispatched_timeout_seconds, pmo.active_reap_seconds, pmo.suspended_reap_seconds,\n"
        "task.max_seconds, liveness.max_attempts, worker.suspend_timeout_seconds. Others are\n"
        "refused; docs/ladder.md says why.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
