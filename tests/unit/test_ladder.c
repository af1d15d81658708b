/*
 * test_ladder.c: the ladder in the core: pages, order, rows that fail, ticks that fail, a clock
 * that is advanced by hand. What is due when is test_watch.c's.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "lib/watch_world.h"
#include "tap.h"

/* ---- pages ---- */

TEST(L05_a_pass_moves_all_that_is_due_a_page_per_tick)
{
    enum { COUNT = 3 * LADDER_PAGE_ROWS - 2 };
    struct world *w = world_watching();
    create_idle(w, COUNT, LIMIT_MS);
    create_idle(w, 1, 10 * LIMIT_MS);
    uint64_t passes = core_stats(w->core)->ladder.passes;
    clock_advance(&w->clock, LIMIT_MS);
    CHECK(!core_wants_tick(w->core)); /* the limit is reached, not exceeded */
    clock_advance(&w->clock, 1);
    for (int page = 1; page <= 3; page++) {
        CHECK(core_wants_tick(w->core));
        say(w, COUNT + 1);
        CHECK_INT(take_int(w, "result.seq"), 1 + page); /* nobody waits for the pass */
        CHECK_INT(moved(w), MIN(page * LADDER_PAGE_ROWS, (int)COUNT));
        CHECK_INT(core_stats(w->core)->ladder.passes - passes, page == 3);
    }
    settle(w);
    CHECK_INT(core_stats(w->core)->ladder.passes - passes, 1);
    check_all_moved_once(w, COUNT);
    CHECK_INT(times_cancelled(w, COUNT + 1), 0);
    world_free(w);
}

TEST(L05_a_pass_looks_at_each_row_once)
{
    enum { COUNT = 3 * LADDER_PAGE_ROWS };
    struct world *w = world_watching();
    create_idle(w, COUNT, LIMIT_MS);
    clock_advance(&w->clock, LIMIT_MS + 1);
    uint64_t checked = core_stats(w->core)->ladder.checked;
    settle(w);
    CHECK_INT(moved(w), COUNT);
    CHECK_INT(core_stats(w->core)->ladder.checked - checked, COUNT);
    world_free(w);
}

TEST(L01_what_was_written_to_a_moment_ago_is_not_due)
{
    struct world *w = world_watching();
    ask(w, CALL("conversation.create", "{'agents':[],'watchdog':{'idleMs':%d}}"), LIMIT_MS);
    tick(w);
    take_ok(w);
    say(w, 1);
    take_ok(w);
    for (int i = 0; i < 10; i++) {
        clock_advance(&w->clock, LIMIT_MS + 1); /* late, and in the same tick there is evidence */
        say(w, 1);
        take_ok(w);
        settle(w);
        CHECK_INT(moved(w), 0);
    }
    clock_advance(&w->clock, LIMIT_MS);
    CHECK_INT(settle(w), 0);
    clock_advance(&w->clock, 1);
    settle(w);
    CHECK_INT(times_cancelled(w, 1), 1);
    world_free(w);
}

/* ---- order ---- */

TEST(a_late_tick_moves_in_the_order_in_which_things_fell_due)
{
    struct world *w = world_watching();
    int64_t start = now(w);
    create_idle(w, 1, 5000);
    create_idle(w, 1, 999); /* due together with the budgets */
    ask(w, CREATE_BUDGET, 1);
    ask(w, CREATE_BUDGET, 3);
    tick(w);
    take_ok(w);
    take_ok(w);
    create_idle(w, 1, 1500);
    create_idle(w, 1, 1000);
    clock_advance(&w->clock, 801);
    settle(w); /* the notice of 3 */
    clock_advance(&w->clock, 60000);
    settle(w);
    struct move m[10];
    CHECK_INT(list_moves(w, m, 10), 8);
    int64_t late = start + 60801;
    check_move(&m[0], 3, "runtime.watchdog.notice", start + 801);
    check_move(&m[1], 2, "idle_timeout", late);            /* 1000 */
    check_move(&m[2], 3, "runtime.watchdog.cancel", late); /* 1001, a budget first */
    check_move(&m[3], 6, "idle_timeout", late);            /* 1001 */
    check_move(&m[4], 5, "idle_timeout", late);            /* 1501 */
    check_move(&m[5], 4, "runtime.watchdog.notice", late); /* 2401 */
    check_move(&m[6], 4, "runtime.watchdog.cancel", late); /* 3001 */
    check_move(&m[7], 1, "idle_timeout", late);            /* 5001 */
    world_free(w);
}

/* The stored time to look is earlier than due, if somebody wrote meanwhile: due decides. */
TEST(a_late_tick_does_not_go_by_when_it_meant_to_look)
{
    struct world *w = world_watching();
    ask(w, CALL("conversation.create", "{'agents':[],'watchdog':{'idleMs':1000}}"));
    tick(w);
    take_ok(w);
    say(w, 1); /* look and due at 1001 */
    take_ok(w);
    create_idle(w, 1, 1200);
    clock_advance(&w->clock, 500);
    say(w, 1); /* due at 1501 */
    take_ok(w);
    clock_advance(&w->clock, 5000);
    settle(w);
    struct move m[2];
    CHECK_INT(list_moves(w, m, 2), 2);
    CHECK_INT(m[0].conversation, 2);
    CHECK_INT(m[1].conversation, 1);
    world_free(w);
}

TEST(moves_due_in_the_same_millisecond_go_by_number)
{
    struct world *w = world_watching();
    create_idle(w, LADDER_PAGE_ROWS, LIMIT_MS);
    clock_advance(&w->clock, 2 * LIMIT_MS);
    settle(w);
    struct move m[LADDER_PAGE_ROWS];
    CHECK_INT(list_moves(w, m, LADDER_PAGE_ROWS), LADDER_PAGE_ROWS);
    for (int i = 0; i < LADDER_PAGE_ROWS; i++)
        CHECK_INT(m[i].conversation, i + 1);
    world_free(w);
}

/* ---- what fails ---- */

/* The ladder cannot move this one; others can write to it and end it. */
static void poison_moves_of(struct world *w, int conversation)
{
    char when[64];
    snprintf(when, sizeof when, "NEW.conversation = %d", conversation);
    poison(w, "INSERT ON moves", when);
}

TEST(L04_one_row_that_fails_is_counted_and_waits_and_the_others_are_moved)
{
    enum { COUNT = LADDER_PAGE_ROWS + 5, BAD = 3 };
    struct world *w = world_watching();
    const struct ladder_stats *stats = &core_stats(w->core)->ladder;
    create_idle(w, COUNT, LIMIT_MS);
    poison_moves_of(w, BAD);
    clock_advance(&w->clock, LIMIT_MS + 1);
    settle(w);
    for (int c = 1; c <= COUNT; c++)
        CHECK_INT(times_cancelled(w, c), c != BAD);
    CHECK_INT(stats->errors, 1);
    CHECK_INT(stats->errors_by_rule[RULE_GLOBAL_IDLE], 1);
    for (int wait_ms = 1000, tries = 2; wait_ms <= 8000; wait_ms *= 2, tries++) {
        clock_advance(&w->clock, wait_ms - 1);
        CHECK_INT(settle(w), 0); /* it is not tried in every pass, and nothing spins */
        CHECK_INT(stats->errors, tries - 1);
        clock_advance(&w->clock, 1);
        CHECK(settle(w) > 0);
        CHECK_INT(stats->errors, tries);
    }
    cure(w);
    clock_advance(&w->clock, 16000);
    settle(w);
    CHECK_INT(stats->errors, 5);
    check_all_moved_once(w, COUNT);
    world_free(w);
}

TEST(L04_a_page_of_rows_that_fail_hides_none_behind_it)
{
    enum { BAD = 2 * LADDER_PAGE_ROWS + 3, COUNT = BAD + 5 };
    struct world *w = world_watching();
    create_idle(w, BAD, LIMIT_MS);
    create_idle(w, COUNT - BAD, LIMIT_MS + 1);
    char when[64];
    snprintf(when, sizeof when, "NEW.conversation <= %d", BAD);
    poison(w, "INSERT ON moves", when);
    for (int i = 0; i < 3; i++) {
        clock_advance(&w->clock, LIMIT_MS + 2);
        settle(w);
        for (int c = BAD + 1; c <= COUNT; c++)
            CHECK_INT(times_cancelled(w, c), 1);
    }
    cure(w);
    clock_advance(&w->clock, 60000);
    settle(w);
    check_all_moved_once(w, COUNT);
    world_free(w);
}

TEST(L04_a_pass_somebody_asks_for_tries_what_waits)
{
    struct world *w = world_watching();
    create_idle(w, 2, LIMIT_MS);
    poison_moves_of(w, 1);
    clock_advance(&w->clock, LIMIT_MS + 1);
    settle(w);
    ask(w, RUN_ONCE);
    tick(w);
    settle(w);
    struct reply r = take(w);
    CHECK_INT(int_at(r.json, "result.checked"), 1);
    CHECK_INT(int_at(r.json, "result.errors"), 1);
    CHECK_INT(int_at(r.json, "result.canceled"), 0);
    done(&r);
    cure(w);
    ask(w, RUN_ONCE);
    tick(w);
    settle(w);
    CHECK_INT(take_int(w, "result.canceled"), 1);
    check_all_moved_once(w, 2);
    world_free(w);
}

TEST(a_row_that_failed_and_was_ended_by_somebody_is_forgotten)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    poison_moves_of(w, 1);
    clock_advance(&w->clock, LIMIT_MS + 1);
    settle(w);
    CHECK_INT(core_stats(w->core)->ladder.errors, 1);
    ask(w, CALL("conversation.end", "{'conversation':1}"));
    tick(w);
    take_ok(w);
    clock_advance(&w->clock, 3600000);
    settle(w);
    CHECK(!core_wants_tick(w->core));
    CHECK_INT(core_stats(w->core)->ladder.errors, 1);
    world_free(w);
}

/* Whichever write of a pass fails: its tick is lost, the pass too, and then all are moved. */
static bool sweep_one(uint64_t nth)
{
    enum { COUNT = 2 * LADDER_PAGE_ROWS + 3 };
    struct world *w = world_watching();
    create_idle(w, COUNT, LIMIT_MS);
    clock_advance(&w->clock, LIMIT_MS + 1);
    fault_vfs_plan(w->disk, FAULT_FULL, nth, false);
    for (int i = 0; i < 4; i++) {
        settle(w);
        if (fault_vfs_has_struck(w->disk))
            CHECK_INT(core_stats(w->core)->commits_failed, 1);
        pass_pause();
    }
    bool struck = fault_vfs_has_struck(w->disk);
    check_all_moved_once(w, COUNT);
    CHECK_INT(moved(w), COUNT);
    CHECK_INT(core_stats(w->core)->fired[RULE_GLOBAL_IDLE], COUNT);
    world_free(w);
    return struck;
}

TEST(L03_whichever_write_of_a_pass_fails_all_are_moved_once)
{
    uint64_t nth = 1;
    for (; sweep_one(nth); nth++)
        CHECK(nth < 5000);
    CHECK(nth > 10);
}

TEST(a_full_disk_makes_the_ladder_wait_not_spin)
{
    enum { COUNT = LADDER_PAGE_ROWS + 3 };
    struct world *w = world_living();
    create_idle(w, COUNT, LIMIT_MS);
    live(w, LIMIT_MS + 1);
    fill_disk(w);
    for (int i = 0; i < 5; i++) {
        CHECK(core_wants_tick(w->core));
        CHECK_INT(core_wait_us(w->core), 0);
        tick(w);
        CHECK_INT(core_stats(w->core)->commits_failed, i + 1);
        CHECK(!core_wants_tick(w->core));
        CHECK(core_wait_us(w->core) > 0);
        ask(w, INFO); /* reads are served meanwhile, and do not try */
        tick(w);
        take_ok(w);
        CHECK_INT(core_stats(w->core)->commits_failed, i + 1);
        pass_pause();
    }
    CHECK_INT(moved(w), 0);
    free_disk(w);
    settle(w);
    check_all_moved_once(w, COUNT);
    CHECK_INT(moved(w), COUNT);
    world_free(w);
}

TEST(reads_go_on_while_the_disk_is_full)
{
    struct world *w = world_living();
    create_idle(w, 1, 3600000);
    fill_disk(w);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 14; k++) { /* longer than between two signs of life */
            live(w, 500);
            core_beat(w->core);
        }
        ask(w, GET, 1);
        tick(w);
        take_ok(w);
    }
    free_disk(w);
    world_free(w);
}

TEST(a_lost_tick_gives_back_what_it_counted)
{
    struct world *w = world_watching();
    create_idle(w, 3, LIMIT_MS);
    clock_advance(&w->clock, LIMIT_MS + 1);
    fill_disk(w);
    tick(w);
    CHECK_INT(moved(w), 0);
    CHECK_INT(core_stats(w->core)->fired[RULE_GLOBAL_IDLE], 0);
    free_disk(w);
    pass_pause();
    settle(w);
    CHECK_INT(core_stats(w->core)->fired[RULE_GLOBAL_IDLE], 3);
    world_free(w);
}

TEST(a_restart_in_the_middle_of_a_pass_goes_on)
{
    enum { COUNT = 2 * LADDER_PAGE_ROWS + 3 };
    struct world *w = world_watching();
    create_idle(w, COUNT, LIMIT_MS);
    clock_advance(&w->clock, LIMIT_MS + 1);
    tick(w);
    CHECK_INT(moved(w), LADDER_PAGE_ROWS);
    world_restart(w);
    settle(w);
    check_all_moved_once(w, COUNT);
    CHECK_INT(moved(w), COUNT - LADDER_PAGE_ROWS);
    world_free(w);
}

/* ---- watchdog.runOnce ---- */

TEST(a_pass_never_overlaps_another)
{
    enum { COUNT = 2 * LADDER_PAGE_ROWS };
    struct world *w = world_watching();
    create_idle(w, COUNT, LIMIT_MS);
    clock_advance(&w->clock, LIMIT_MS + 1);
    ask(w, RUN_ONCE);
    ask_other(w, RUN_ONCE);
    tick(w);
    struct reply r = take(w); /* the other's: the first waits for its pass */
    CHECK(r.message->peer == w->other);
    CHECK(json_get(json_get(r.json, "result"), "running")->boolean);
    CHECK_INT(int_at(r.json, "result.checked"), 0);
    done(&r);
    check_nothing_left(w);
    ask_other(w, RUN_ONCE);
    tick(w);
    r = take(w);
    CHECK(json_get(json_get(r.json, "result"), "running")->boolean);
    done(&r);
    settle(w);
    r = take(w);
    CHECK(r.message->peer == w->peer);
    CHECK(!json_get(json_get(r.json, "result"), "running"));
    CHECK_INT(int_at(r.json, "result.checked"), COUNT);
    CHECK_INT(int_at(r.json, "result.candidates"), COUNT);
    CHECK_INT(int_at(r.json, "result.canceled"), COUNT);
    done(&r);
    check_nothing_left(w);
    check_all_moved_once(w, COUNT);
    world_free(w);
}

TEST(a_pass_that_was_under_way_is_not_asked_for_twice)
{
    struct world *w = world_watching();
    create_idle(w, LADDER_PAGE_ROWS + 1, LIMIT_MS);
    clock_advance(&w->clock, LIMIT_MS + 1);
    tick(w);
    CHECK_INT(moved(w), LADDER_PAGE_ROWS);
    ask(w, RUN_ONCE);
    tick(w);
    struct reply r = take(w);
    CHECK(json_get(json_get(r.json, "result"), "running")->boolean);
    done(&r);
    settle(w);
    check_nothing_left(w);
    check_all_moved_once(w, LADDER_PAGE_ROWS + 1);
    world_free(w);
}

TEST(a_pass_over_one_rule_leaves_the_others_alone)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    ask(w, CREATE_BUDGET, 1);
    tick(w);
    take_ok(w);
    clock_advance(&w->clock, 5000);
    ask(w, CALL("watchdog.runOnce", "{'rule':'conversation.global_idle'}"));
    tick(w); /* requests come first, so what is due by itself has not begun */
    struct reply r = take(w);
    CHECK_INT(int_at(r.json, "result.checked"), 1);
    CHECK_INT(int_at(r.json, "result.canceled"), 1);
    done(&r);
    CHECK_INT(times_cancelled(w, 1), 1);
    CHECK_INT(store_int(w, "SELECT status = 'active' FROM conversations WHERE conversation = 2"),
              1);
    settle(w);
    CHECK_INT(store_int(w, "SELECT status = 'blocked' FROM conversations WHERE conversation = 2"),
              1);
    world_free(w);
}

TEST(a_pass_asked_for_in_a_tick_that_fails_is_unavailable)
{
    struct world *w = world_watching();
    create_idle(w, 1, LIMIT_MS);
    clock_advance(&w->clock, LIMIT_MS + 1);
    fill_disk(w);
    ask(w, RUN_ONCE);
    tick(w);
    take_error(w, "UNAVAILABLE");
    check_nothing_left(w);
    free_disk(w);
    pass_pause();
    settle(w);
    check_nothing_left(w);
    check_all_moved_once(w, 1);
    world_free(w);
}
