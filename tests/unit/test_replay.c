/*
 * test_replay.c: recorded conversations against limits. Times are milliseconds from nothing; the
 * record is written here as the server writes it.
 */
#include "watch/replay.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/macro.h"
#include "tap.h"

enum { IDLE = 1000, BUDGET = 100 /* seconds */ };

/* A replay and the log that is fed to it. */
static struct {
    struct options options;
    struct gaps gaps;
    struct replay replay;
    struct arena arena;
    int64_t seq, turn, turn_event, system_event;
    bool turn_is_open;
    struct err err;
} t;

static void limit(int64_t idle_ms, int64_t global_idle_ms, int64_t budget_seconds)
{
    options_init(&t.options);
    option_get(&t.options, watchdog, idle_ms) = idle_ms;
    option_get(&t.options, watchdog, global_idle_ms) = global_idle_ms;
    option_get(&t.options, runtime_controls, session_wall_clock_seconds) = budget_seconds;
    replay_init(&t.replay, &t.options, &t.gaps);
}

static int feed(struct event *e)
{
    const struct json *payload;
    e->conversation = 7;
    e->seq = ++t.seq;
    CHECK_INT(json_parse(&t.arena, e->payload, JSON_DEPTH_MAX, &payload, &t.err), 0);
    return replay_event(&t.replay, e, payload, &t.err);
}

/* A system event of the server. */
static void note(int64_t ts_ms, const char *agent, const char *kind, const char *data)
{
    struct event e = {.ts_ms = ts_ms,
                      .type = EVENT_SYSTEM,
                      .event = ++t.system_event,
                      .agent_id = str_of(agent),
                      .payload =
                          arena_printf(&t.arena, "{\"kind\":\"%s\",\"data\":%s}", kind, data)};
    CHECK_INT(feed(&e), 0);
}

static void created(int64_t ts_ms, const char *data)
{
    note(ts_ms, "system-orchestrator", "meta_created", data);
}

static void message(int64_t ts_ms, const char *agent, enum finality finality, const char *payload)
{
    if (!t.turn_is_open) {
        t.turn++;
        t.turn_event = 0;
    }
    t.turn_is_open = finality == FINALITY_NONE;
    struct event e = {.ts_ms = ts_ms,
                      .type = EVENT_MESSAGE,
                      .finality = finality,
                      .turn = t.turn,
                      .event = ++t.turn_event,
                      .agent_id = str_of(agent),
                      .payload = str_of(payload)};
    CHECK_INT(feed(&e), 0);
}

static void said(int64_t ts_ms)
{
    message(ts_ms, "a", FINALITY_NONE, "{\"text\":\"x\"}");
}

static void closed_turn(int64_t ts_ms)
{
    message(ts_ms, "a", FINALITY_TURN, "{\"text\":\"x\"}");
}

/* What conversation.idle and conversation.global_idle write. */
static void canceled_idle(int64_t ts_ms, const char *idle_ms)
{
    note(ts_ms, "system-watchdog", "idle_timeout",
         arena_printf(&t.arena, "{\"idleMs\":%s}", idle_ms).p);
    message(ts_ms, "system-watchdog", FINALITY_CONVERSATION,
            "{\"text\":\"x\",\"outcome\":{\"status\":\"canceled\",\"reason\":\"idle_timeout\"}}");
}

static void blocked(int64_t ts_ms, int window, int budget)
{
    note(ts_ms, "system-watchdog", "runtime.watchdog.cancel",
         arena_printf(&t.arena, "{\"configured_budget_seconds\":%d,\"window\":%d}", budget, window)
             .p);
}

static void resumed(int64_t ts_ms, int window, int budget)
{
    note(ts_ms, "system-orchestrator", "runtime.resumed",
         arena_printf(&t.arena, "{\"window\":%d,\"configured_budget_seconds\":%d}", window, budget)
             .p);
}

#define CHECK_MOVE(i, rule_, at_, truth_)                                               \
    do {                                                                                \
        CHECK(t.replay.move_count > (i));                                               \
        CHECK_Z(rule_name(t.replay.moves[i].rule), rule_name(rule_));                   \
        CHECK_INT(t.replay.moves[i].at_ms, at_);                                        \
        CHECK_Z(replay_truth_name(t.replay.moves[i].truth), replay_truth_name(truth_)); \
    } while (0)

#define CHECK_MOVES(n) CHECK_INT(t.replay.move_count, n)

/* ---- silence ---- */

TEST(a_cancel_comes_out_again)
{
    limit(IDLE, 0, 0);
    created(0, "{}");
    said(500);
    said(1200);
    canceled_idle(2201, "1000");
    replay_finish(&t.replay, 99999);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_IDLE, 2201, REPLAY_SAME);
    CHECK_INT(t.replay.moves[0].base_ms, 1200);
    CHECK_INT(t.replay.record.status, CONVERSATION_COMPLETED);
    CHECK_INT(t.replay.record.rule, RULE_IDLE);
}

TEST(an_event_in_the_millisecond_of_a_move_comes_first)
{
    limit(IDLE, 0, 0);
    created(0, "{}");
    said(0);
    said(1001); /* due just now */
    replay_finish(&t.replay, 1500);
    CHECK_MOVES(0);
}

TEST(who_writes_a_millisecond_later_was_healthy)
{
    limit(IDLE, 0, 0);
    created(0, "{}");
    said(0);
    said(1002);
    said(9000);
    replay_finish(&t.replay, 9000);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_IDLE, 1001, REPLAY_HEALTHY);
    CHECK_INT(t.replay.moves[0].wrote_again_ms, 1002);
}

TEST(what_the_ladder_writes_is_no_sign_of_health)
{
    limit(IDLE / 2, 0, 0);
    created(0, "{}");
    said(0);
    canceled_idle(1001, "1000");
    replay_finish(&t.replay, 9000);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_IDLE, 501, REPLAY_SILENT);
    CHECK_INT(t.replay.record.since_ms, 1001);
}

TEST(to_cancel_is_no_sign_of_health_to_complete_is)
{
    limit(IDLE, 0, 0);
    created(0, "{}");
    said(0);
    message(5000, "operator", FINALITY_CONVERSATION,
            "{\"text\":\"x\",\"outcome\":{\"status\":\"canceled\"}}");
    CHECK_MOVE(0, RULE_IDLE, 1001, REPLAY_SILENT);
    CHECK_INT(t.replay.record.outcome, OUTCOME_CANCELED);

    replay_release(&t.replay);
    limit(IDLE, 0, 0);
    t.seq = t.turn = 0;
    created(0, "{}");
    said(0);
    message(5000, "a", FINALITY_CONVERSATION,
            "{\"text\":\"x\",\"outcome\":{\"status\":\"completed\"}}");
    CHECK_MOVE(0, RULE_IDLE, 1001, REPLAY_HEALTHY);
    CHECK_INT(t.replay.record.outcome, OUTCOME_COMPLETED);
}

TEST(silence_that_was_cut_short_is_taken_to_go_on)
{
    limit(2 * IDLE, 0, 0);
    created(0, "{}");
    said(0);
    canceled_idle(1001, "1000");
    replay_finish(&t.replay, 2000);
    CHECK_MOVES(0);
    replay_finish(&t.replay, 2001);
    CHECK_MOVES(1); /* by the rule of an open turn: the ladder's last word closed none */
    CHECK_MOVE(0, RULE_IDLE, 2001, REPLAY_UNKNOWN);
    CHECK_INT(t.replay.moves[0].record.since_ms, 1001);
}

TEST(a_limit_that_is_off_moves_nothing)
{
    limit(0, 0, 0);
    created(0, "{}");
    said(0);
    canceled_idle(1001, "1000");
    replay_finish(&t.replay, 1000000);
    CHECK_MOVES(0);
    CHECK_INT(t.replay.record.rule, RULE_IDLE);
}

TEST(closed_turns_have_a_limit_of_their_own)
{
    limit(IDLE, 3 * IDLE, 0);
    created(0, "{}");
    closed_turn(100);
    canceled_idle(3101, "3000");
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_GLOBAL_IDLE, 3101, REPLAY_SAME);
}

TEST(an_ended_conversation_is_left_alone)
{
    limit(IDLE, IDLE, 1);
    created(0, "{}");
    message(500, "a", FINALITY_CONVERSATION, "{\"text\":\"x\"}");
    replay_finish(&t.replay, 1000000);
    CHECK_MOVES(0);
    CHECK_INT(t.replay.record.status, CONVERSATION_COMPLETED);
}

/* ---- gaps ---- */

TEST(P16_unwatched_time_is_no_silence)
{
    gaps_add(&t.gaps, 800, 5800);
    limit(IDLE, 0, 0);
    created(0, "{}");
    said(0);
    canceled_idle(6001, "1000");
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_IDLE, 6001, REPLAY_SAME);
}

TEST(a_budget_that_runs_out_unwatched_is_judged_after_the_gap)
{
    gaps_add(&t.gaps, 50000, 250000);
    limit(0, 0, BUDGET);
    created(0, "{}");
    blocked(250000, 1, BUDGET);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_WALL_CLOCK, 250000, REPLAY_SAME);
    CHECK_INT(t.replay.notices, 1);
}

TEST(a_tick_that_moved_and_was_slow_itself)
{
    gaps_add(&t.gaps, 1000, 9000); /* from the beat before the tick at 1001 */
    limit(IDLE, 0, 0);
    created(0, "{}");
    said(0);
    canceled_idle(1001, "1000");
    replay_finish(&t.replay, 99999);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_IDLE, 1001, REPLAY_SAME);
}

/* ---- budgets ---- */

TEST(blocks_that_the_record_has_do_not_end_the_replay)
{
    limit(IDLE, 0, BUDGET);
    created(0, "{}");
    closed_turn(0);
    blocked(100001, 1, BUDGET);
    resumed(500000, 2, BUDGET);
    closed_turn(550000);
    blocked(600001, 2, BUDGET);
    resumed(600001, 3, BUDGET);
    said(610000);
    canceled_idle(611001, "1000");
    replay_finish(&t.replay, 9999999);
    CHECK_MOVES(3);
    CHECK_MOVE(0, RULE_WALL_CLOCK, 100001, REPLAY_SAME);
    CHECK_MOVE(1, RULE_WALL_CLOCK, 600001, REPLAY_SAME);
    CHECK_MOVE(2, RULE_IDLE, 611001, REPLAY_SAME);
    CHECK_INT(t.replay.notices, 2);
}

TEST(an_earlier_block_ends_the_replay)
{
    limit(0, 0, BUDGET / 2);
    created(0, "{}");
    closed_turn(70000);
    blocked(100001, 1, BUDGET);
    resumed(500000, 2, BUDGET);
    replay_finish(&t.replay, 9999999);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_WALL_CLOCK, 50001, REPLAY_HEALTHY);
    CHECK_INT(t.replay.moves[0].wrote_again_ms, 70000);
    CHECK_INT(t.replay.record.status, CONVERSATION_ACTIVE);
}

TEST(while_the_record_is_blocked_silence_proves_nothing)
{
    limit(IDLE, IDLE, 10 * BUDGET);
    created(0, "{\"runtime_controls\":null}");
    said(100000);
    blocked(100001, 1, BUDGET);
    resumed(500000, 2, BUDGET);
    said(500100);
    replay_finish(&t.replay, 500200);
    CHECK_MOVES(1); /* the silence before anybody wrote at all */
    CHECK_MOVE(0, RULE_GLOBAL_IDLE, 1001, REPLAY_HEALTHY);

    replay_release(&t.replay);
    limit(IDLE, 0, 10 * BUDGET);
    t.seq = t.turn = 0;
    t.turn_is_open = false;
    created(0, "{}");
    said(100000);
    blocked(100001, 1, BUDGET);
    replay_finish(&t.replay, 500000);
    CHECK_MOVES(0);
    resumed(500000, 2, BUDGET); /* opens a window: silence begins anew */
    replay_finish(&t.replay, 501000);
    CHECK_MOVES(0);
    replay_finish(&t.replay, 501001);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_IDLE, 501001, REPLAY_SILENT);
}

TEST(a_longer_budget_runs_out_while_the_record_is_blocked)
{
    limit(0, 0, 2 * BUDGET);
    created(0, "{}");
    blocked(100001, 1, BUDGET);
    replay_finish(&t.replay, 9999999);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_WALL_CLOCK, 200001, REPLAY_UNKNOWN);
}

TEST(a_budget_given_with_a_resume_is_the_conversations_own)
{
    limit(0, 0, BUDGET);
    created(0, "{}");
    blocked(100001, 1, BUDGET);
    resumed(200000, 2, 10);
    replay_finish(&t.replay, 9999999);
    CHECK_MOVES(2);
    CHECK_MOVE(1, RULE_WALL_CLOCK, 210001, REPLAY_SILENT);
    CHECK_INT(t.replay.moves[1].limit, 10000);
}

/* ---- of the conversation ---- */

TEST(own_limits_win_over_configured_ones)
{
    limit(IDLE, 0, BUDGET);
    created(0, "{\"watchdog\":{\"idleMs\":3000},"
               "\"runtime_controls\":{\"session_wall_clock_seconds\":2}}");
    said(100);
    replay_finish(&t.replay, 99999);
    CHECK_MOVES(1); /* the budget of 2 s, not the silence of 3 */
    CHECK_MOVE(0, RULE_WALL_CLOCK, 2001, REPLAY_SILENT);
}

TEST(a_conversation_without_watchdog_has_a_budget_still)
{
    limit(IDLE, IDLE, BUDGET);
    created(0, "{\"watchdog\":{\"disabled\":true}}");
    said(0);
    replay_finish(&t.replay, 999999);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_WALL_CLOCK, 100001, REPLAY_SILENT);
}

TEST(the_turn_limit_is_as_recorded)
{
    limit(IDLE, 0, BUDGET);
    created(0, "{\"maxTurns\":1}");
    closed_turn(10);
    message(10, "system-orchestrator", FINALITY_CONVERSATION,
            "{\"text\":\"x\",\"outcome\":{\"status\":\"canceled\",\"reason\":\"max_turns\"}}");
    replay_finish(&t.replay, 999999);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_MAX_TURNS, 10, REPLAY_SAME);
    CHECK_INT(t.replay.moves[0].limit, 1);
    CHECK_INT(t.replay.record.rule, RULE_MAX_TURNS);
}

/* ---- what is no log ---- */

TEST(a_log_with_holes_is_refused)
{
    limit(IDLE, 0, 0);
    created(0, "{}");
    t.seq++;
    struct event e = {.type = EVENT_TRACE, .turn = 1, .agent_id = STR("a"), .payload = STR("{}")};
    CHECK_INT(feed(&e), -ERR_INTERNAL);
    CHECK(strstr(t.err.message, "from 1 to 3"));
}

TEST(a_log_that_begins_in_the_middle_is_refused)
{
    limit(IDLE, 0, 0);
    struct event e = {
        .type = EVENT_MESSAGE, .turn = 1, .agent_id = STR("a"), .payload = STR("{\"kind\":1}")};
    CHECK_INT(feed(&e), -ERR_INTERNAL);
    CHECK_MOVES(0);
    replay_finish(&t.replay, 1); /* of nothing */
    CHECK_MOVES(0);
}

TEST(absurd_limits_in_a_log_do_not_overflow)
{
    limit(IDLE, IDLE, 0);
    created(CLOCK_MS_MAX, "{\"watchdog\":{\"idleMs\":9223372036854775807,\"globalIdleMs\":-5},"
                          "\"runtime_controls\":{\"session_wall_clock_seconds\":"
                          "9223372036854775807}}");
    said(CLOCK_MS_MAX);
    blocked(CLOCK_MS_MAX, 1, -1);
    resumed(CLOCK_MS_MAX, 2, -1);
    replay_finish(&t.replay, CLOCK_MS_MAX);
    CHECK_MOVES(0);
}

/* ---- a ladder that was late ---- */

static void notice_given(int64_t ts_ms)
{
    note(ts_ms, "system-watchdog", "runtime.watchdog.notice", "{}");
}

TEST(notice_and_block_in_one_millisecond)
{
    gaps_add(&t.gaps, 50000, 250000);
    limit(0, 0, BUDGET);
    created(0, "{}");
    notice_given(250000);
    blocked(250000, 1, BUDGET);
    resumed(250000, 2, BUDGET);
    blocked(350001, 2, BUDGET);
    CHECK_MOVES(2);
    CHECK_MOVE(0, RULE_WALL_CLOCK, 250000, REPLAY_SAME);
    CHECK_MOVE(1, RULE_WALL_CLOCK, 350001, REPLAY_SAME);
}

TEST(a_late_block_is_the_same_block)
{
    limit(0, 0, BUDGET);
    created(0, "{}");
    notice_given(80003);
    closed_turn(100002); /* due, and not blocked yet */
    blocked(100003, 1, BUDGET);
    resumed(200000, 2, BUDGET);
    replay_finish(&t.replay, 300001);
    CHECK_MOVES(2);
    CHECK_MOVE(0, RULE_WALL_CLOCK, 100001, REPLAY_SAME);
    CHECK_MOVE(1, RULE_WALL_CLOCK, 300001, REPLAY_SILENT);
}

/* ---- work ---- */

TEST(a_conversation_is_not_silent_while_tasks_are_open)
{
    static const struct replay_point points[] = {{700, 1}, {900, 1}, {3000, -1}, {5000, -1}};
    limit(IDLE, 0, 0);
    replay_set_work(&t.replay, points, ARRAY_LEN(points));
    created(0, "{}");
    said(500);
    canceled_idle(6001, "1000");
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_IDLE, 6001, REPLAY_SAME);
    CHECK_INT(t.replay.moves[0].base_ms, 5000);
}

TEST(silence_before_work_and_between_is_silence)
{
    static const struct replay_point points[] = {{2000, 1}, {2500, -1}};
    limit(IDLE, 0, 0);
    replay_set_work(&t.replay, points, ARRAY_LEN(points));
    created(0, "{}");
    said(500);
    said(9000);
    CHECK_MOVES(1);
    CHECK_MOVE(0, RULE_IDLE, 1501, REPLAY_HEALTHY);
}
