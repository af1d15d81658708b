/*
 * test_tool.c: suspended tasks in a core whose disk and rows fail (domain/tool.h,
 * domain/deliverable.h): one bad row alone is held up, whichever write fails everything happens
 * once, and a pass over many costs what is due.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "lib/watch_world.h"
#include "tap.h"

enum { SUSPEND_MS = 30000, REAP_MS = 7200000, DISPATCH_MS = 900000 };

#define CREATE_QUIET                                                                     \
    CALL("conversation.create", "{'agents':[{'role':'a'}],'watchdog':{'disabled':true}," \
                                "'runtime_controls':{'session_wall_clock_seconds':0}}")
#define JOIN CALL("participant.join", "{'conversation':%d,'role':'a','connectionId':'c1'}")
#define GIVE CALL("task.create", "{'conversation':%d,'role':'a','content':1}")
#define TAKE CALL("task.claim", "{'conversation':%d,'role':'a','connectionId':'c1'}")
#define START CALL("task.start", "{'task':%d,'epoch':1}")
#define SUSPEND                                                                         \
    CALL("task.suspend", "{'task':%d,'epoch':1,'tools':[{'toolCallId':'x','name':'n'}," \
                         "{'toolCallId':'y','name':'n'},{'toolCallId':'z','name':'n'}]}")
#define REPORT CALL("tool.report", "{'task':%d,'toolCallId':'%s','status':'success','result':1}")
#define RESUME CALL("task.resume", "{'task':%d,'epoch':1}")
#define APPLIED CALL("task.applied", "{'task':%d,'epoch':1,'toolCallIds':['x','y','z']}")

#define OK(w, ...) (ask(w, __VA_ARGS__), tick(w), take_ok(w))

/* Conversations 1 to count, each with a task that waits for x, y and z. */
static struct world *world_suspended(int count)
{
    struct world *w = world_watching();
    for (int c = 1; c <= count; c++) {
        OK(w, CREATE_QUIET);
        OK(w, JOIN, c);
        OK(w, GIVE, c);
        OK(w, TAKE, c);
        OK(w, START, c);
        OK(w, SUSPEND, c);
    }
    settle(w);
    return w;
}

static void pass_ms(struct world *w, int64_t ms)
{
    clock_advance(&w->clock, ms);
    settle(w);
}

static int64_t in_status(struct world *w, const char *status)
{
    return store_int(w, "SELECT COUNT(*) FROM tasks WHERE status = '%s'", status);
}

static int64_t waits(struct world *w, const char *status)
{
    return store_int(w, "SELECT COUNT(*) FROM turn_waiting_tools WHERE wait_status = '%s'", status);
}

static int64_t events(struct world *w, const char *kind)
{
    return store_int(w,
                     "SELECT COUNT(*) FROM conversation_events WHERE payload LIKE"
                     " '{\"kind\":\"%s\"%%'",
                     kind);
}

static int64_t cards(struct world *w, const char *type)
{
    return store_int(w, "SELECT COUNT(*) FROM cards WHERE type = '%s'", type);
}

/* ---- one bad row ---- */

TEST(L61_one_call_that_cannot_time_out_stands_alone)
{
    struct world *w = world_suspended(2);
    poison(w, "UPDATE ON turn_waiting_tools",
           "NEW.task = 1 AND NEW.tool_call_id = 'x' AND NEW.wait_status <> 'waiting'");
    pass_ms(w, SUSPEND_MS + 1);
    CHECK_INT(waits(w, "waiting"), 1);
    CHECK_INT(waits(w, "received"), 5);
    CHECK_INT(events(w, "watch.tool.timeout"), 5);
    CHECK_INT(cards(w, "tool.result"), 5); /* nothing is left of the one that failed */
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agent_inbox WHERE type = 'timeout'"), 5);
    CHECK_INT(core_stats(w->core)->ladder.errors_by_rule[RULE_TOOL_TIMEOUT], 1);
    cure(w);
    pass_ms(w, 600000);
    CHECK_INT(waits(w, "received"), 6);
    CHECK_INT(events(w, "watch.tool.timeout"), 6);
    world_free(w);
}

/* P9: what keeps one rule from acting does not keep the next rung from it. */
TEST(a_call_that_never_times_out_does_not_save_its_task_from_the_reap)
{
    struct world *w = world_suspended(1);
    poison(w, "UPDATE ON turn_waiting_tools",
           "NEW.tool_call_id = 'x' AND NEW.result_status = 'timeout'");
    pass_ms(w, SUSPEND_MS + 1);
    pass_ms(w, REAP_MS + 1);
    CHECK_INT(in_status(w, "failed"), 1);
    CHECK_INT(waits(w, "interrupted"), 1);
    CHECK_INT(events(w, "agent.task"), 1);
    world_free(w);
}

TEST(a_result_that_cannot_be_put_back_stands_alone)
{
    struct world *w = world_suspended(3);
    w->options.value[OPT_worker_watchdog_interval_seconds] = 5; /* a resume is lent for 10 s */
    for (int t = 1; t <= 3; t++) {
        OK(w, REPORT, t, "x");
        OK(w, RESUME, t);
    }
    poison(w, "UPDATE ON turn_waiting_tools", "NEW.task = 2 AND NEW.ledger_status = 'pending'");
    pass_ms(w, 10001);
    CHECK_INT(events(w, "watch.ledger.requeue"), 2);
    cure(w);
    pass_ms(w, 5000);
    CHECK_INT(events(w, "watch.ledger.requeue"), 3);
    world_free(w);
}

TEST(L62_a_task_that_cannot_be_reaped_stands_alone_and_is_reaped_once)
{
    struct world *w = world_suspended(5);
    pass_ms(w, SUSPEND_MS + 1);
    poison(w, "INSERT ON conversation_events",
           "NEW.conversation = 3 AND NEW.payload LIKE '%agent.force_terminated%'");
    pass_ms(w, REAP_MS + 1);
    CHECK_INT(in_status(w, "failed"), 4);
    CHECK_INT(in_status(w, "suspended"), 1); /* all of its end, or nothing of it */
    CHECK_INT(events(w, "agent.task"), 4);
    CHECK_INT(cards(w, "task.deliverable"), 4);
    cure(w);
    pass_ms(w, 600000);
    CHECK_INT(in_status(w, "failed"), 5);
    CHECK_INT(events(w, "agent.task"), 5);
    CHECK_INT(cards(w, "task.deliverable"), 5);
    world_free(w);
}

TEST(a_start_that_cannot_be_noted_stands_alone)
{
    struct world *w = world_watching();
    for (int c = 1; c <= 2; c++) {
        OK(w, CALL("conversation.create",
                   "{'agents':[{'role':'a','kind':'k'}],'watchdog':{'disabled':true},"
                   "'runtime_controls':{'session_wall_clock_seconds':0}}"));
        OK(w, JOIN, c);
        OK(w, GIVE, c);
        OK(w, TAKE, c);
        OK(w, START, c);
        OK(w, SUSPEND, c);
        OK(w, CALL("participant.leave", "{'conversation':%d,'role':'a','connectionId':'c1'}"), c);
    }
    poison(w, "UPDATE ON tasks", "NEW.task = 1 AND NEW.restarted_at IS NOT NULL");
    pass_ms(w, SUSPEND_MS + 1);
    pass_ms(w, 300001);
    CHECK_INT(events(w, "watch.task.unresumed"), 1);
    CHECK_INT(store_int(w, "SELECT conversation FROM machine_commands"), 2);
    world_free(w);
}

/* P10: null, with the reason why. */
TEST(an_end_does_not_depend_on_its_deliverable)
{
    struct world *w = world_suspended(2);
    pass_ms(w, SUSPEND_MS + 1);
    poison(w, "INSERT ON cards", "NEW.type = 'task.deliverable' AND NEW.task = 1");
    pass_ms(w, REAP_MS + 1);
    CHECK_INT(in_status(w, "failed"), 2);
    CHECK_INT(cards(w, "task.deliverable"), 1);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM tasks WHERE deliverable IS NULL"), 1);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM conversation_events WHERE payload LIKE"
                           " '%%\"deliverable_card_id\":null,\"deliverable_error\":\"_%%poison%%'"),
              1);
    world_free(w);
}

/* ---- a disk that is full at the wrong moment ---- */

/* The life of a task with the Nth write failing: what was refused is sent again. */
static bool sweep_calls(uint64_t nth)
{
    static const char *const ids[] = {"y", "x", "z"};
    struct world *w = world_suspended(1);
    fault_vfs_plan(w->disk, FAULT_FULL, nth, false);
    for (int step = 0; step < 5; step++) {
        if (step < 3)
            ask(w, REPORT, 1, ids[step]);
        else
            ask(w, step == 3 ? RESUME : APPLIED, 1);
        tick(w);
        struct reply r = take(w);
        bool was_refused = !json_get(r.json, "result");
        done(&r);
        if (was_refused) {
            pass_pause();
            step--;
        }
    }
    bool struck = fault_vfs_has_struck(w->disk);
    CHECK_INT(waits(w, "applied"), 3);
    CHECK_INT(cards(w, "tool.result"), 3);
    CHECK_INT(in_status(w, "in_progress"), 1);
    CHECK_INT(store_int(w, "SELECT epoch FROM tasks"), 2);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agent_inbox WHERE status = 'consumed'"), 4);
    world_free(w);
    return struck;
}

/* Every Nth write, or every so many of them: REEVE_WRITES. */
static void sweep(bool (*with_failing)(uint64_t nth), uint64_t least)
{
    const char *setting = getenv("REEVE_WRITES");
    uint64_t every = setting ? strtoull(setting, NULL, 10) : 1, nth = 1;
    CHECK(every > 0);
    for (; with_failing(nth); nth += every)
        CHECK(nth < 5000);
    CHECK(nth > least);
}

TEST(whichever_write_fails_the_same_calls_can_be_sent_again)
{
    sweep(sweep_calls, 5);
}

/* Timeouts and reaps with the Nth write failing: all of them, each once. */
static bool sweep_rules(uint64_t nth)
{
    enum { COUNT = 5 };
    struct world *w = world_suspended(COUNT);
    clock_advance(&w->clock, SUSPEND_MS + 1);
    fault_vfs_plan(w->disk, FAULT_FULL, nth, false);
    for (int i = 0; i < 4; i++) {
        settle(w);
        pass_pause();
    }
    for (int i = 0; i < 4; i++) {
        pass_ms(w, i ? 0 : REAP_MS + 60000);
        pass_pause();
    }
    bool struck = fault_vfs_has_struck(w->disk);
    CHECK_INT(events(w, "watch.tool.timeout"), 3 * COUNT);
    CHECK_INT(cards(w, "tool.result"), 3 * COUNT);
    CHECK_INT(in_status(w, "failed"), COUNT);
    CHECK_INT(events(w, "agent.task"), COUNT);
    CHECK_INT(cards(w, "task.deliverable"), COUNT);
    world_free(w);
    return struck;
}

TEST(P7_whichever_write_of_a_pass_fails_each_task_ends_once)
{
    sweep(sweep_rules, 10);
}

/* ---- many ---- */

/* All in one pass, and O(due): what has time left is not looked at. */
TEST(P18_a_pass_over_suspended_tasks_costs_what_is_due)
{
    enum { COUNT = 300 };
    struct world *w = world_suspended(COUNT);
    const uint64_t at_first = core_stats(w->core)->ladder.checked;
    pass_ms(w, SUSPEND_MS);
    const uint64_t before = core_stats(w->core)->ladder.checked;
    CHECK_INT(before - at_first, 0);
    pass_ms(w, 1);
    CHECK_INT(waits(w, "received"), 3 * COUNT);
    CHECK_INT(core_stats(w->core)->ladder.checked - before, 3 * COUNT);
    pass_ms(w, 1000);
    CHECK_INT(core_stats(w->core)->ladder.checked - before, 3 * COUNT);
    world_free(w);
}

/* All due in one millisecond. */
TEST(P7_a_thousand_are_reaped_in_one_pass_each_once)
{
    enum { COUNT = 1000 };
    struct world *w = world_watching();
    w->options.value[OPT_pmo_dispatched_retry_seconds] = 0; /* no other rule is due before */
    w->options.value[OPT_pmo_pending_wakeup_seconds] = 0;
    w->options.value[OPT_liveness_pending_timeout_seconds] = 0;
    for (int c = 1; c <= COUNT; c++) {
        ask(w, CREATE_QUIET);
        ask(w, GIVE, c);
        ask(w, GIVE, c); /* and one in the queue behind it */
        tick(w);
        for (int i = 0; i < 3; i++)
            take_ok(w);
    }
    settle(w);
    const uint64_t passes = core_stats(w->core)->ladder.passes;
    pass_ms(w, DISPATCH_MS + 1);
    CHECK_INT(core_stats(w->core)->ladder.passes, passes + 1);
    CHECK_INT(in_status(w, "timeout"), COUNT);
    CHECK_INT(in_status(w, "pending"), COUNT); /* the next ones */
    CHECK_INT(events(w, "agent.task"), COUNT);
    CHECK_INT(events(w, "agent.force_terminated"), COUNT);
    CHECK_INT(cards(w, "task.deliverable"), COUNT);
    CHECK_INT(store_int(w, "SELECT COUNT(DISTINCT task) FROM cards"), COUNT);
    CHECK_INT(store_int(w, "SELECT COUNT(DISTINCT deliverable) FROM tasks"), COUNT);
    world_free(w);
}
