/*
 * test_time.c: how time passes for the core: a clock that is advanced by hand and stops wherever
 * something is due, calls that wait for it, a real clock, gaps.
 */
#include "lib/watch_world.h"
#include "tap.h"

/* ---- clock.advance ---- */

TEST(the_clock_stops_at_each_due_time_on_its_way)
{
    struct world *w = world_watching();
    int64_t start = now(w);
    create_idle(w, 2, 1500);
    ask(w, CREATE_BUDGET, 2);
    tick(w);
    take_ok(w);
    create_idle(w, 1, 1000);
    ask(w, ADVANCE, 10000);
    int ticks = 0;
    do {
        tick(w);
        ticks++;
        CHECK(!w->out.first || now(w) == start + 10000); /* answered at the end only */
    } while (core_wants_tick(w->core));
    CHECK(ticks >= 5);
    struct reply r = take(w);
    CHECK_STR(string_at(r.json, "result.now"), "1970-01-20T16:13:30.000Z");
    done(&r);
    check_nothing_left(w);
    struct move m[6];
    CHECK_INT(list_moves(w, m, 6), 5);
    check_move(&m[0], 4, "idle_timeout", start + 1001);
    check_move(&m[1], 1, "idle_timeout", start + 1501);
    check_move(&m[2], 2, "idle_timeout", start + 1501);
    check_move(&m[3], 3, "runtime.watchdog.notice", start + 1601);
    check_move(&m[4], 3, "runtime.watchdog.cancel", start + 2001);
    CHECK_INT(now(w), start + 10000);
    CHECK_INT(store_int(w, "SELECT last_tick_at FROM servers"), start + 10000);
    world_free(w);
}

TEST(an_advance_stops_short_of_what_is_not_yet_due)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    ask(w, ADVANCE, LIMIT_MS);
    tick(w);
    settle(w);
    take_ok(w);
    CHECK_INT(moved(w), 0);
    ask(w, ADVANCE, 0);
    tick(w);
    take_ok(w);
    CHECK_INT(moved(w), 0);
    ask(w, ADVANCE, 1);
    tick(w);
    settle(w);
    take_ok(w);
    CHECK_INT(times_cancelled(w, 1), 1);
    world_free(w);
}

TEST(an_advance_is_answered_when_all_that_is_due_is_done)
{
    enum { COUNT = 2 * LADDER_PAGE_ROWS + 1 };
    struct world *w = world_watching();
    create_idle(w, COUNT, LIMIT_MS);
    ask(w, ADVANCE, LIMIT_MS + 1);
    while (!w->out.first) {
        tick(w);
        CHECK(w->out.first || core_wants_tick(w->core));
    }
    CHECK_INT(moved(w), COUNT);
    CHECK_INT(core_stats(w->core)->lifecycle.behind, 0);
    take_ok(w);
    world_free(w);
}

TEST(others_are_served_while_the_clock_advances)
{
    struct world *w = world_watching();
    for (int i = 0; i < 5; i++)
        create_idle(w, 1, LIMIT_MS * (i + 1));
    create_idle(w, 1, 3600000);
    int64_t start = now(w);
    ask(w, ADVANCE, 10 * LIMIT_MS);
    tick(w);
    for (int i = 0; i < 5; i++) {
        ask_other(w, SAY, 6);
        tick(w);
        struct reply r = take(w);
        CHECK(r.message->peer == w->other);
        CHECK_INT(int_at(r.json, "result.seq"), 2 + i);
        done(&r);
        CHECK(now(w) < start + 10 * LIMIT_MS); /* it is still on its way */
    }
    settle(w);
    take_ok(w);
    CHECK_INT(now(w), start + 10 * LIMIT_MS);
    check_all_moved_once(w, 5);
    world_free(w);
}

TEST(a_batch_goes_on_when_the_clock_has_arrived)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    ask(w, "[" GET "," ADVANCE "," GET "]", 1, 5 * LIMIT_MS, 1);
    tick(w);
    check_nothing_left(w);
    settle(w);
    struct reply r = take(w);
    CHECK_INT(r.json->count, 3);
    CHECK_STR(string_at(r.json->first, "result.status"), "active");
    CHECK_STR(string_at(r.json->first->next->next, "result.status"), "completed");
    done(&r);
    check_nothing_left(w);
    world_free(w);
}

TEST(one_advance_at_a_time)
{
    struct world *w = world_watching();
    int64_t start = now(w);
    ask(w, ADVANCE, 100);
    ask(w, ADVANCE, 1000);
    ask(w, GAP, 1000);
    tick(w);
    take_error(w, "RATE_LIMITED");
    take_error(w, "RATE_LIMITED");
    ask(w, ADVANCE, 1000);
    tick(w); /* the clock arrives in this tick, after the request was refused */
    take_error(w, "RATE_LIMITED");
    take_ok(w);
    settle(w);
    CHECK_INT(now(w), start + 100);
    ask(w, ADVANCE, 1000);
    tick(w);
    settle(w);
    take_ok(w);
    CHECK_INT(now(w), start + 1100);
    world_free(w);
}

TEST(an_advance_in_a_tick_that_fails_moves_nothing)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    int64_t start = now(w);
    fill_disk(w);
    ask(w, ADVANCE, 5 * LIMIT_MS);
    ask(w, SAY, 1);
    tick(w);
    take_error(w, "UNAVAILABLE");
    take_error(w, "UNAVAILABLE");
    check_nothing_left(w);
    free_disk(w);
    pass_pause();
    settle(w);
    CHECK_INT(now(w), start);
    CHECK_INT(moved(w), 0);
    world_free(w);
}

TEST(an_advance_whose_step_fails_stays_where_it_was)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    create_idle(w, 1, 2 * LIMIT_MS);
    int64_t start = now(w);
    ask(w, ADVANCE, 5 * LIMIT_MS);
    tick(w);
    tick(w); /* the first of the two */
    CHECK_INT(now(w), start + LIMIT_MS + 1);
    fill_disk(w);
    tick(w);
    take_error(w, "UNAVAILABLE");
    CHECK_INT(now(w), start + LIMIT_MS + 1);
    free_disk(w);
    pass_pause();
    settle(w);
    CHECK_INT(now(w), start + LIMIT_MS + 1);
    CHECK_INT(moved(w), 1);
    ask(w, ADVANCE, 4 * LIMIT_MS);
    tick(w);
    settle(w);
    take_ok(w);
    check_all_moved_once(w, 2);
    world_free(w);
}

TEST(L30_a_gap_convicts_nobody)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    int64_t start = now(w);
    ask(w, GAP, 60 * LIMIT_MS);
    tick(w);
    settle(w);
    take_ok(w);
    CHECK_INT(now(w), start + 60 * LIMIT_MS);
    CHECK_INT(moved(w), 0);
    CHECK_INT(core_stats(w->core)->gaps, 1);
    ask(w, ADVANCE, LIMIT_MS);
    tick(w);
    settle(w);
    take_ok(w);
    CHECK_INT(moved(w), 0);
    ask(w, ADVANCE, 1);
    tick(w);
    settle(w);
    take_ok(w);
    CHECK_INT(times_cancelled(w, 1), 1);
    CHECK_INT(store_int(w, "SELECT to_at - from_at FROM watch_gaps"), 60 * LIMIT_MS);
    world_free(w);
}

TEST(a_gap_in_a_tick_that_fails_never_was)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    int64_t start = now(w);
    fill_disk(w);
    ask(w, GAP, 5 * LIMIT_MS);
    ask(w, SAY, 1);
    tick(w);
    take_error(w, "UNAVAILABLE");
    take_error(w, "UNAVAILABLE");
    free_disk(w);
    ask(w, GAP, 5 * LIMIT_MS);
    tick(w);
    fill_disk(w); /* now its own tick */
    tick(w);
    take_error(w, "UNAVAILABLE");
    free_disk(w);
    pass_pause();
    settle(w);
    CHECK_INT(now(w), start);
    CHECK_INT(core_stats(w->core)->gaps, 0);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM watch_gaps"), 0);
    ask(w, ADVANCE, LIMIT_MS + 1);
    tick(w);
    settle(w);
    take_ok(w);
    CHECK_INT(times_cancelled(w, 1), 1); /* no gap is left over that would excuse it */
    CHECK_INT(core_stats(w->core)->gaps, 0);
    world_free(w);
}

/* ---- calls that wait ---- */

TEST(calls_that_wait_are_answered_when_the_core_stops)
{
    struct world *w = world_watching();
    create_idle(w, 2 * LADDER_PAGE_ROWS, LIMIT_MS);
    clock_advance(&w->clock, LIMIT_MS + 1);
    ask(w, RUN_ONCE);
    ask(w, "[" ADVANCE "," INFO "]", 1000);
    tick(w);
    check_nothing_left(w);
    core_stop(w->core, &w->out);
    take_error(w, "UNAVAILABLE");
    struct reply r = take(w);
    CHECK_INT(r.json->count, 2);
    JSON_FOREACH (item, r.json)
        CHECK_STR(string_at(item, "error.data.name"), "UNAVAILABLE");
    done(&r);
    check_nothing_left(w);
    core_stop(w->core, &w->out);
    check_nothing_left(w);
    world_free(w);
}

TEST(calls_that_wait_go_with_the_core)
{
    struct world *w = world_watching();
    create_idle(w, 2 * LADDER_PAGE_ROWS, LIMIT_MS);
    clock_advance(&w->clock, LIMIT_MS + 1);
    ask(w, RUN_ONCE);
    ask(w, ADVANCE, 1000);
    tick(w);
    world_restart(w); /* frees them: the sanitizer would say so, and world_free counts the peer */
    world_free(w);
}

TEST(a_peer_that_closes_while_its_call_waits_stops_nobody)
{
    struct world *w = world_watching();
    create_idle(w, 2 * LADDER_PAGE_ROWS, LIMIT_MS);
    int64_t start = now(w);
    ask(w, "[" ADVANCE "," SAY "]", 2 * LIMIT_MS, 1);
    tick(w);
    atomic_store(&w->peer->is_closed, true);
    input(w, CORE_CLOSED, w->peer);
    tick(w);
    settle(w);
    CHECK_INT(now(w), start + 2 * LIMIT_MS);
    check_all_moved_once(w, 2 * LADDER_PAGE_ROWS);
    outbox_release(&w->out);
    ask_other(w, ADVANCE, 1); /* the clock is free again */
    tick(w);
    settle(w);
    take_ok(w);
    world_free(w);
}

TEST(an_idle_server_with_a_clock_that_stands_waits_for_ever)
{
    struct world *w = world_watching();
    create_idle(w, 3, LIMIT_MS);
    CHECK(!core_wants_tick(w->core));
    CHECK_INT(core_wait_us(w->core), -1);
    world_free(w);
}

/* ---- a real clock ---- */

TEST(a_living_server_waits_until_something_is_due)
{
    struct world *w = world_living();
    create_idle(w, 1, 300);
    CHECK(!core_wants_tick(w->core));
    CHECK_INT(core_wait_us(w->core), 301000);
    live(w, 300);
    CHECK(!core_wants_tick(w->core));
    CHECK_INT(core_wait_us(w->core), 1000);
    live(w, 1);
    CHECK_INT(core_wait_us(w->core), 0);
    settle(w);
    CHECK_INT(times_cancelled(w, 1), 1);
    CHECK_INT(core_wait_us(w->core), 500000); /* nothing is due: the pulse */
    world_free(w);
}

TEST(L30_a_process_that_was_stopped_convicts_nobody)
{
    struct world *w = world_living();
    create_idle(w, 1, LIMIT_MS);
    live(w, 500);
    core_beat(w->core);
    live(w, 60000); /* nobody beats */
    core_beat(w->core);
    settle(w);
    CHECK_INT(core_stats(w->core)->gaps, 1);
    CHECK_INT(store_int(w, "SELECT to_at - from_at FROM watch_gaps"), 60000);
    live(w, 500);
    core_beat(w->core);
    settle(w);
    CHECK_INT(moved(w), 0);
    live(w, 1);
    settle(w);
    CHECK_INT(times_cancelled(w, 1), 1);
    world_free(w);
}

static void take_a_minute(void *ctx)
{
    struct world *w = ctx;
    fault_vfs_watch(w->disk, NULL, NULL);
    live(w, 60000);
}

/* A tick that is due for its chores follows at once. */
TEST(L30_W7_a_commit_that_takes_long_convicts_nobody)
{
    struct world *w = world_living();
    create_idle(w, 2, LIMIT_MS);
    fault_vfs_watch(w->disk, take_a_minute, w);
    say(w, 1);
    CHECK_INT(moved(w), 0);
    settle(w);
    CHECK_INT(moved(w), 0);
    CHECK_INT(store_int(w, "SELECT to_at - from_at FROM watch_gaps"), 60000);
    take_ok(w);
    live(w, LIMIT_MS + 1);
    settle(w);
    CHECK_INT(times_cancelled(w, 2), 1);
    world_free(w);
}

TEST(L30_W7_a_server_that_is_told_to_end_when_it_wakes_convicts_nobody)
{
    struct world *w = world_living();
    create_idle(w, 1, LIMIT_MS);
    live(w, 500);
    core_beat(w->core);
    live(w, 60000);
    core_stop(w->core, &w->out);
    world_restart(w);
    settle(w);
    CHECK_INT(moved(w), 0);
    CHECK_INT(store_int(w, "SELECT to_at - from_at FROM watch_gaps"), 60500);
    live(w, LIMIT_MS + 1);
    core_beat(w->core);
    settle(w);
    check_all_moved_once(w, 1);
    world_free(w);
}

/* The store has refused a write, has room again, and the machine was suspended for a minute before
 * anybody tried: monotonic time stood still, and the pause after the failure with it. */
static struct world *slept_after_a_full_disk(void)
{
    struct world *w = world_living();
    create_idle(w, 1, LIMIT_MS);
    fill_disk(w);
    say(w, 1);
    tick(w);
    take_error(w, "UNAVAILABLE");
    free_disk(w);
    w->lived_us += 60000000;
    core_beat(w->core);
    return w;
}

static void check_the_sleep_is_on_record(struct world *w)
{
    say(w, 1);
    tick(w);
    take_ok(w);
    CHECK_INT(store_int(w, "SELECT SUM(to_at - from_at) >= 60000 FROM watch_gaps"), 1);
}

TEST(P16_what_is_written_after_a_sleep_comes_with_its_gap)
{
    struct world *w = slept_after_a_full_disk();
    check_the_sleep_is_on_record(w);
    world_free(w);
}

/* The disk fails once more, for the gap, and would take the rest. */
TEST(P16_nothing_is_written_before_a_gap_that_could_not_be_told)
{
    struct world *w = slept_after_a_full_disk();
    fault_vfs_plan(w->disk, FAULT_CHANGE, 1, false);
    say(w, 1);
    tick(w);
    CHECK(fault_vfs_has_struck(w->disk));
    take_error(w, "UNAVAILABLE");
    check_the_sleep_is_on_record(w);
    world_free(w);
}

/* The store takes everything but this one row. */
TEST(P16_a_gap_that_is_refused_alone_holds_up_what_would_be_written_before_it)
{
    struct world *w = world_living();
    create_idle(w, 1, LIMIT_MS);
    poison(w, "INSERT ON watch_gaps", "1");
    live(w, 60000);
    core_beat(w->core);
    say(w, 1);
    tick(w);
    take_error(w, "UNAVAILABLE");
    cure(w);
    check_the_sleep_is_on_record(w);
    world_free(w);
}

TEST(L30_a_gap_that_cannot_be_told_yet_is_told_later_and_nobody_is_judged_before)
{
    struct world *w = world_living();
    create_idle(w, 1, LIMIT_MS);
    fill_disk(w);
    live(w, 60000);
    core_beat(w->core);
    tick(w);
    CHECK(!core_wants_tick(w->core));
    live(w, 3000); /* another one, while the first waits */
    core_beat(w->core);
    free_disk(w);
    pass_pause();
    settle(w);
    CHECK_INT(moved(w), 0);
    CHECK_INT(core_stats(w->core)->gaps, 1);
    CHECK_INT(store_int(w, "SELECT to_at - from_at FROM watch_gaps"), 63000);
    live(w, LIMIT_MS + 1);
    core_beat(w->core);
    settle(w);
    CHECK_INT(times_cancelled(w, 1), 1);
    world_free(w);
}

TEST(L30_time_in_which_the_store_refused_writes_convicts_nobody)
{
    struct world *w = world_living();
    create_idle(w, 1, LIMIT_MS);
    fill_disk(w);
    ask(w, SAY, 1);
    tick(w);
    take_error(w, "UNAVAILABLE"); /* it is alive, and was sent away */
    for (int i = 0; i < 20; i++) {
        live(w, 500);
        core_beat(w->core);
        tick(w);
    }
    free_disk(w);
    pass_pause();
    settle(w);
    CHECK_INT(moved(w), 0);
    CHECK_INT(store_int(w, "SELECT to_at - from_at FROM watch_gaps"), 10000);
    live(w, LIMIT_MS + 1);
    core_beat(w->core);
    settle(w);
    CHECK_INT(moved(w), 1);
    world_free(w);
}

TEST(a_server_that_watches_leaves_signs_of_life)
{
    struct world *w = world_living();
    create_idle(w, 1, 3600000);
    for (int i = 0; i < 20; i++) {
        live(w, 500);
        core_beat(w->core);
        settle(w);
        CHECK(now(w) - store_int(w, "SELECT last_tick_at FROM servers") < 5500);
    }
    world_free(w);
}

/* What was committed before the parked call was is true, whatever comes after. */
TEST(the_calls_before_a_parked_one_keep_their_answers)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    ask(w, "[" SAY "," CALL("clock.advance", "{'ms':100000}") "," SAY "]", 1, 1);
    tick(w); /* the first is committed, the second has begun */
    fill_disk(w);
    tick(w);
    free_disk(w);
    pass_pause();
    settle(w);
    struct reply r = take(w);
    CHECK_INT(r.json->count, 3);
    CHECK_INT(int_at(r.json->first, "result.seq"), 2);
    CHECK_STR(string_at(r.json->first->next, "error.data.name"), "UNAVAILABLE");
    CHECK_INT(int_at(r.json->first->next->next, "result.seq"), 3);
    done(&r);
    world_free(w);
}

/* ---- the fixed cadence ---- */

/* Whatever the timers say, and whether anything seems due or not. */
TEST(a_pass_is_made_at_the_least_of_the_fixed_intervals)
{
    static const struct {
        int option;
        int64_t value, ms;
    } cases[] = {
        {OPT_pmo_watchdog_interval_seconds, 3, 3000},
        {OPT_worker_watchdog_interval_seconds, 2, 2000},
        {OPT_watchdog_interval_ms, 1500, 1500},
    };
    struct world *w = world_watching();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t k = 0; k < ARRAY_LEN(cases); k++)
            w->options.value[cases[k].option] = 1000000;
        w->options.value[cases[i].option] = cases[i].value;
        uint64_t passes = core_stats(w->core)->ladder.passes;
        clock_advance(&w->clock, cases[i].ms - 1);
        settle(w);
        CHECK_INT(core_stats(w->core)->ladder.passes - passes, 0);
        clock_advance(&w->clock, 1);
        settle(w);
        CHECK_INT(core_stats(w->core)->ladder.passes - passes, 1);
    }
    world_free(w);
}
