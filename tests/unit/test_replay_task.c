/*
 * test_replay_task.c: recorded tasks against limits. Times are milliseconds from nothing, limits
 * are seconds; the record is written here as the server writes it.
 */
#include "watch/replay_task.h"

#include "base/arena.h"
#include "base/macro.h"
#include "base/mem.h"
#include "tap.h"

enum { NOW = 100000000, TASK = 5 };

static struct {
    struct options options;
    struct gaps gaps;
    struct replay_tasks replay;
    struct arena arena;
    int64_t seq;
    struct err err;
} t;

/* Every limit is off but the one that a test sets. */
static void no_limits(void)
{
    options_init(&t.options);
    option_get(&t.options, pmo, dispatched_timeout_seconds) = 0;
    option_get(&t.options, pmo, active_reap_seconds) = 0;
    option_get(&t.options, pmo, suspended_reap_seconds) = 0;
    option_get(&t.options, worker, suspend_timeout_seconds) = 0;
    option_get(&t.options, task, max_seconds) = 0;
    option_get(&t.options, liveness, max_attempts) = 1000;
}

static struct task_record completed(int64_t completed_ms)
{
    no_limits();
    return (struct task_record){
        .task = TASK, .status = TASK_COMPLETED, .dispatched_ms = 1, .completed_ms = completed_ms};
}

static void add_span(struct task_record *task, enum span_kind kind, int64_t from_ms, int64_t to_ms,
                     const char *by)
{
    struct span_record s = {.kind = kind, .from_ms = from_ms, .to_ms = to_ms};
    size_t cap = task->span_count;
    s.by = span_ended_by(str_of(by), &s.rule);
    task->spans = mem_grow(task->spans, &cap, task->span_count + 1, sizeof s);
    task->spans[task->span_count++] = s;
}

static void tell(int64_t ts_ms, const char *kind, const char *data)
{
    const struct json *payload;
    struct event e = {.seq = ++t.seq, .ts_ms = ts_ms, .type = EVENT_SYSTEM};
    e.payload = arena_printf(&t.arena, "{\"kind\":\"%s\",\"data\":%s}", kind, data);
    CHECK_INT(json_parse(&t.arena, e.payload, JSON_DEPTH_MAX, &payload, &t.err), 0);
    replay_tasks_event(&t.replay, &e, payload);
}

static void begin(const struct task_record *task)
{
    t.seq = 0;
    replay_tasks_add(&t.replay, task);
    tell(0, "meta_created", "{}");
}

static void judge(void)
{
    replay_tasks_judge(&t.replay, &t.options, &t.gaps, NOW, NEVER_MS);
}

#define CHECK_MOVES(n) CHECK_INT(t.replay.move_count, n)
#define CHECK_MOVE(i, rule_, at_, truth_)                                                    \
    do {                                                                                     \
        CHECK(t.replay.move_count > (i));                                                    \
        CHECK_Z(rule_name(t.replay.moves[i].move.rule), rule_name(rule_));                   \
        CHECK_INT(t.replay.moves[i].move.at_ms, at_);                                        \
        CHECK_Z(replay_truth_name(t.replay.moves[i].move.truth), replay_truth_name(truth_)); \
    } while (0)

TEST(the_first_span_beyond_the_limit_is_the_move)
{
    struct task_record task = completed(90000);
    add_span(&task, SPAN_SILENT, 1000, 11000, "progress");
    add_span(&task, SPAN_SILENT, 20000, 50000, "progress");
    add_span(&task, SPAN_SILENT, 50000, 90000, "completeTask");
    begin(&task);
    option_get(&t.options, pmo, active_reap_seconds) = 10;
    judge();
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_RUNNING_REAP, 30001, REPLAY_HEALTHY);
    CHECK_INT(t.replay.moves[0].move.wrote_again_ms, 50000);
    option_get(&t.options, pmo, active_reap_seconds) = 40;
    judge();
    CHECK_MOVES(0);
}

TEST(a_call_in_the_millisecond_of_a_move_comes_first)
{
    struct task_record task = completed(10001);
    add_span(&task, SPAN_SILENT, 0, 10001, "completeTask");
    begin(&task);
    option_get(&t.options, pmo, active_reap_seconds) = 10;
    judge();
    CHECK_MOVES(0);
}

TEST(each_kind_of_span_is_evidence_of_its_rule)
{
    static const struct {
        enum span_kind kind;
        enum option_id option;
        enum rule_id rule;
    } kinds[] = {
        {SPAN_PENDING, OPT_pmo_dispatched_timeout_seconds, RULE_DISPATCH_REAP},
        {SPAN_ACKNOWLEDGED, OPT_pmo_dispatched_timeout_seconds, RULE_DISPATCH_REAP},
        {SPAN_SILENT, OPT_pmo_active_reap_seconds, RULE_RUNNING_REAP},
        {SPAN_SUSPENDED, OPT_pmo_suspended_reap_seconds, RULE_SUSPENDED_REAP},
        {SPAN_TOOL, OPT_worker_suspend_timeout_seconds, RULE_TOOL_TIMEOUT},
    };
    _Static_assert(ARRAY_LEN(kinds) == SPAN_COUNT, "every kind");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct task_record task = completed(90000);
        add_span(&task, kinds[i].kind, 1000, 90000, "cancelTask");
        begin(&task);
        t.options.value[kinds[i].option] = 7;
        judge();
        CHECK_MOVES(1);
        CHECK_MOVE(0, kinds[i].rule, 8001, REPLAY_SILENT);
        replay_tasks_release(&t.replay);
    }
}

TEST(a_move_of_the_record_comes_out_again_though_it_was_late)
{
    struct task_record task = completed(10500);
    task.status = TASK_FAILED;
    add_span(&task, SPAN_SILENT, 0, 10500, "running.reap");
    begin(&task);
    tell(10500, "agent.force_terminated", "{\"task\":5,\"rule\":\"running.reap\",\"limit\":10000}");
    option_get(&t.options, pmo, active_reap_seconds) = 10;
    judge();
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_RUNNING_REAP, 10001, REPLAY_SAME);
    option_get(&t.options, pmo, active_reap_seconds) = 5;
    judge();
    CHECK_MOVE(0, RULE_RUNNING_REAP, 5001, REPLAY_SILENT);
    option_get(&t.options, pmo, active_reap_seconds) = 20;
    judge();
    CHECK_MOVE(0, RULE_RUNNING_REAP, 20001, REPLAY_UNKNOWN);
}

TEST(a_timed_out_call_does_not_end_the_replay)
{
    struct task_record task = completed(90000);
    add_span(&task, SPAN_TOOL, 0, 10001, "timeout");
    task.spans[0].limit_ms = 10000;
    add_span(&task, SPAN_SILENT, 20000, 90000, "completeTask");
    begin(&task);
    option_get(&t.options, worker, suspend_timeout_seconds) = 10;
    option_get(&t.options, pmo, active_reap_seconds) = 30;
    judge();
    CHECK_MOVES(2);
    CHECK_MOVE(0, RULE_TOOL_TIMEOUT, 10001, REPLAY_SAME);
    CHECK_MOVE(1, RULE_RUNNING_REAP, 50001, REPLAY_HEALTHY);
}

TEST(what_a_call_asked_for_is_its_least_limit)
{
    struct task_record task = completed(90000);
    add_span(&task, SPAN_TOOL, 0, 30000, "success");
    task.spans[0].least_ms = 20000;
    begin(&task);
    option_get(&t.options, worker, suspend_timeout_seconds) = 10;
    judge();
    CHECK_MOVE(0, RULE_TOOL_TIMEOUT, 20001, REPLAY_HEALTHY);
}

TEST(P16_unwatched_time_counts_for_deadlines_only)
{
    struct task_record task = completed(90000);
    gaps_add(&t.gaps, 5000, 45000);
    add_span(&task, SPAN_SILENT, 0, 90000, "completeTask");
    begin(&task);
    option_get(&t.options, pmo, active_reap_seconds) = 10;
    judge();
    CHECK_MOVE(0, RULE_RUNNING_REAP, 50001, REPLAY_HEALTHY);
    option_get(&t.options, task, max_seconds) = 10;
    judge();
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_TASK_MAX_SECONDS, 45000, REPLAY_HEALTHY);
}

TEST(nothing_is_moved_while_the_conversation_is_blocked)
{
    struct task_record task = completed(90000);
    task.status = TASK_CANCELED;
    add_span(&task, SPAN_PENDING, 0, 90000, "cancelTask");
    begin(&task);
    tell(5000, "runtime.watchdog.cancel", "{}");
    option_get(&t.options, pmo, dispatched_timeout_seconds) = 10;
    option_get(&t.options, task, max_seconds) = 20;
    judge();
    CHECK_MOVES(0);
    tell(60000, "runtime.resumed", "{}");
    judge();
    CHECK_MOVE(0, RULE_TASK_MAX_SECONDS, 80001, REPLAY_SILENT);
}

TEST(attempts_are_counted_as_they_were_lost)
{
    struct task_record task = completed(90000);
    begin(&task);
    tell(1000, "watch.task.orphaned", "{\"task\":5,\"attempts\":1}");
    tell(2000, "watch.task.orphaned", "{\"task\":5,\"attempts\":3}");
    tell(3000, "watch.task.orphaned", "{\"task\":4,\"attempts\":9}");
    option_get(&t.options, liveness, max_attempts) = 2;
    judge();
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_TASK_EXHAUSTED, 2000, REPLAY_HEALTHY);
    option_get(&t.options, liveness, max_attempts) = 4;
    judge();
    CHECK_MOVES(0);
}

TEST(a_conversation_that_would_have_been_stopped_ends_the_replay_of_its_tasks)
{
    struct task_record task = completed(90000);
    add_span(&task, SPAN_SILENT, 0, 90000, "completeTask");
    begin(&task);
    option_get(&t.options, pmo, active_reap_seconds) = 10;
    replay_tasks_judge(&t.replay, &t.options, &t.gaps, NOW, 10001);
    CHECK_MOVES(0);
    replay_tasks_judge(&t.replay, &t.options, &t.gaps, NOW, 10002);
    CHECK_MOVES(1);
}

TEST(who_ended_a_span)
{
    enum rule_id rule;
    CHECK_INT(span_ended_by(STR(""), &rule), ENDED_NOT);
    CHECK_INT(span_ended_by(STR("progress"), &rule), ENDED_BY_WORK);
    CHECK_INT(span_ended_by(STR("claimTask"), &rule), ENDED_BY_WORK);
    CHECK_INT(span_ended_by(STR("cancelTask"), &rule), ENDED_BY_OTHERS);
    CHECK_INT(span_ended_by(STR("blockSession"), &rule), ENDED_BY_OTHERS);
    CHECK_INT(span_ended_by(STR("recover"), &rule), ENDED_BY_OTHERS);
    CHECK_INT(span_ended_by(STR("task.orphaned"), &rule), ENDED_BY_RULE);
    CHECK_INT(rule, RULE_TASK_ORPHANED);
    CHECK_INT(span_ended_by(STR("timeout"), &rule), ENDED_BY_RULE);
    CHECK_INT(rule, RULE_TOOL_TIMEOUT);
}
