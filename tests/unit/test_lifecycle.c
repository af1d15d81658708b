/*
 * test_lifecycle.c: the follower that stops agents (follow/lifecycle.h): its cursor, what it finds
 * after a crash, what fails.
 */
#include "base/mem.h"
#include "lib/core_world.h"
#include "tap.h"

enum { CURSOR_LAG_MAX = 10000, PAGE_EVENTS = 512, PAGE_AGENTS = 64 };

#define CREATE_AGENTS                                                     \
    CALL("conversation.create",                                           \
         "{'agents':[{'role':'a','kind':'shell','desired':'running'},"    \
         "{'role':'b','kind':'shell','desired':'running'},"               \
         "{'role':'c','kind':'shell','desired':'running'}],'maxTurns':0," \
         "'runtime_controls':{'session_wall_clock_seconds':0},'watchdog':{'disabled':true}}")
#define END CALL("conversation.end", "{'conversation':%d}")

#define CREATE_BUDGET                                                                          \
    CALL("conversation.create", "{'agents':[{'role':'a','kind':'shell','desired':'running'}]," \
                                "'runtime_controls':{'session_wall_clock_seconds':1}}")

static struct world *world_settled(void)
{
    struct world *w = world_new();
    settle(w);
    return w;
}

static void create_agents(struct world *w, int count)
{
    for (int i = 0; i < count; i++)
        ask_other(w, CREATE_AGENTS);
    tick(w);
    for (int i = 0; i < count; i++)
        take_ok(w);
    settle(w);
}

/* A tick, and not yet the one in which the follower sees it. */
static void end_one(struct world *w, int conversation)
{
    ask(w, END, conversation);
    tick(w);
    take_ok(w);
}

/* How many of its agents are up, or should be. */
static int64_t agents_up(struct world *w, int conversation)
{
    return store_int(w,
                     "SELECT COUNT(*) FROM agents WHERE conversation = %d"
                     " AND (ensured = 1 OR view <> 'stopped')",
                     conversation);
}

static int64_t stops_told(struct world *w, int conversation)
{
    return store_int(
        w,
        "SELECT COUNT(*) FROM conversation_events WHERE conversation = 0"
        " AND payload LIKE '{\"kind\":\"agent.state\"%%\"conversation\":%d,%%stopped%%'",
        conversation);
}

static bool is_blocked(struct world *w)
{
    return store_int(w, "SELECT status = 'blocked' FROM conversations WHERE conversation = 1") == 1;
}

static int64_t cursor_stored(struct world *w)
{
    return store_int(w, "SELECT id FROM cursors WHERE name = 'lifecycle'");
}

static int64_t last_event(struct world *w)
{
    return store_int(w, "SELECT MAX(id) FROM conversation_events");
}

static const struct lifecycle_stats *stats(struct world *w)
{
    return &core_stats(w->core)->lifecycle;
}

/* ---- ends ---- */

/* A row as no method leaves it; within a transaction of the test's. */
static void put_agent(struct world *w, int conversation, const char *role, bool is_ensured,
                      const char *view, const char *process)
{
    struct query *q = store_query(w->store, SQL_AGENT_UPDATE);
    query_int(q, 1, conversation);
    query_text(q, 2, str_of(role));
    query_text(q, 3, STR("running"));
    query_int(q, 4, is_ensured);
    query_text(q, 5, str_of(view));
    query_text(q, 11, str_of(process));
    static const int zeroes[] = {6, 9, 10, 13, 15, 16, 17, 18, 22, 23, 24};
    for (size_t i = 0; i < ARRAY_LEN(zeroes); i++)
        query_int(q, zeroes[i], 0);
    query_text(q, 20, STR("worker"));
    CHECK_INT(query_run(q, NULL, NULL), 0);
}

TEST(an_end_stops_every_agent_once)
{
    struct world *w = world_settled();
    create_agents(w, 2);
    CHECK_INT(agents_up(w, 1), 3);
    end_one(w, 1);
    settle(w);
    CHECK_INT(agents_up(w, 1), 0);
    CHECK_INT(agents_up(w, 2), 3);
    CHECK_INT(stats(w)->stopped, 3);
    CHECK_INT(stats(w)->behind, 0);
    CHECK_INT(stops_told(w, 1), 3);
    say(w, 2);
    take_ok(w);
    settle(w);
    CHECK_INT(stats(w)->stopped, 3);
    CHECK_INT(stops_told(w, 1), 3);
    world_free(w);
}

TEST(a_block_stops_agents_and_resume_starts_them)
{
    struct world *w = world_settled();
    ask(w, CREATE_BUDGET);
    tick(w);
    take_ok(w);
    clock_advance(&w->clock, 1001);
    settle(w);
    CHECK(is_blocked(w));
    CHECK_INT(agents_up(w, 1), 0);
    ask(w, CALL("conversation.resume", "{'conversation':1}"));
    tick(w);
    take_ok(w);
    settle(w);
    CHECK_INT(agents_up(w, 1), 1);
    world_free(w);
}

/* The event is only the reason to look. */
TEST(what_was_resumed_before_the_follower_looked_is_left_alone)
{
    struct world *w = world_settled();
    ask(w, CREATE_BUDGET);
    tick(w);
    take_ok(w);
    clock_advance(&w->clock, 1001);
    while (!is_blocked(w))
        tick(w);
    fill_disk(w);
    tick(w); /* the follower would have stopped it */
    free_disk(w);
    CHECK_INT(agents_up(w, 1), 1);
    ask(w, CALL("conversation.resume", "{'conversation':1}"));
    tick(w); /* meanwhile it waits */
    take_ok(w);
    pass_pause();
    settle(w);
    CHECK_INT(stats(w)->behind, 0);
    CHECK_INT(agents_up(w, 1), 1);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM conversation_events"
                           " WHERE payload LIKE '%%\"status\":\"stopped\"%%'"),
              0);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM machine_commands WHERE closed_at IS NULL"), 1);
    world_free(w);
}

TEST(an_end_that_was_undone_stops_nobody)
{
    struct world *w = world_settled();
    create_agents(w, 1);
    poison(w, "INSERT ON attachments", "1"); /* which come after the terminal message */
    ask(w,
        CALL("message.send", "{'conversation':1,'agentId':'a','text':'','finality':'conversation',"
                             "'attachments':[{'name':'x','text':'y'}]}"));
    tick(w);
    take_error(w, "INTERNAL");
    settle(w);
    CHECK_INT(agents_up(w, 1), 3);
    CHECK_INT(stats(w)->stopped, 0);
    fill_disk(w);
    ask(w, END, 1);
    tick(w);
    take_error(w, "UNAVAILABLE");
    free_disk(w);
    pass_pause();
    settle(w);
    CHECK_INT(agents_up(w, 1), 3);
    CHECK_INT(stats(w)->stopped, 0);
    end_one(w, 1);
    settle(w);
    CHECK_INT(agents_up(w, 1), 0);
    world_free(w);
}

TEST(a_stop_that_was_lost_with_its_tick_is_not_counted)
{
    struct world *w = world_settled();
    create_agents(w, 1);
    end_one(w, 1);
    fill_disk(w);
    tick(w);
    CHECK_INT(stats(w)->stopped, 0);
    free_disk(w);
    pass_pause();
    settle(w);
    CHECK_INT(stats(w)->stopped, 3);
    world_free(w);
}

/* ---- the cursor ---- */

TEST(the_cursor_is_stored_with_what_it_led_to)
{
    struct world *w = world_settled();
    create_agents(w, 1);
    int64_t before = cursor_stored(w);
    say(w, 1);
    take_ok(w);
    settle(w);
    CHECK_INT(cursor_stored(w), before); /* nothing ended: no write */
    CHECK_INT(stats(w)->behind, 0);
    end_one(w, 1);
    int64_t end_id = last_event(w);
    CHECK(cursor_stored(w) < end_id);
    CHECK_INT(agents_up(w, 1), 3);
    fill_disk(w);
    tick(w); /* neither */
    free_disk(w);
    CHECK(cursor_stored(w) < end_id);
    CHECK_INT(agents_up(w, 1), 3);
    pass_pause();
    tick(w); /* or both */
    CHECK(cursor_stored(w) >= end_id);
    CHECK_INT(agents_up(w, 1), 0);
    CHECK_INT(stops_told(w, 1), 3);
    world_free(w);
}

static void say_many(struct world *w, int conversation, int64_t count)
{
    for (; count > 0; count -= MIN(count, INT64_C(500))) {
        for (int64_t i = 0; i < MIN(count, INT64_C(500)); i++)
            ask_other(w, SAY, conversation);
        tick(w);
        outbox_release(&w->out);
        atomic_store(&w->other->queued_bytes, 0);
    }
}

TEST(a_cursor_that_finds_nothing_is_stored_now_and_then)
{
    struct world *w = world_settled();
    create_agents(w, 1);
    int64_t before = cursor_stored(w);
    int64_t left = CURSOR_LAG_MAX - (last_event(w) - before);
    say_many(w, 1, left);
    settle(w);
    CHECK_INT(last_event(w) - cursor_stored(w), CURSOR_LAG_MAX);
    CHECK_INT(cursor_stored(w), before);
    say_many(w, 1, 1);
    settle(w);
    CHECK_INT(cursor_stored(w), last_event(w));
    world_free(w);
}

/* ---- after a crash ---- */

TEST(L17_an_end_that_nobody_has_acted_on_is_found_after_a_restart)
{
    struct world *w = world_settled();
    create_agents(w, 2);
    end_one(w, 1);
    CHECK_INT(agents_up(w, 1), 3);
    world_restart(w);
    settle(w);
    CHECK_INT(agents_up(w, 1), 0);
    CHECK_INT(stops_told(w, 1), 3);
    CHECK_INT(agents_up(w, 2), 3);
    CHECK_INT(stats(w)->behind, 0);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM machine_commands WHERE closed_at IS NULL"), 3);
    world_free(w);
}

/* What the list of agents that should be up does not show, the log still does. */
TEST(L17_the_log_behind_the_cursor_is_read_a_page_at_a_time)
{
    struct world *w = world_settled();
    create_agents(w, 2);
    int64_t before = cursor_stored(w);
    end_one(w, 1);
    say_many(w, 2, 3 * PAGE_EVENTS);
    settle(w);
    CHECK_INT(agents_up(w, 1), 0);
    CHECK_INT(store_begin(w->store, NULL), 0);
    struct query *q = store_query(w->store, SQL_CURSOR_PUT);
    query_text(q, 1, STR("lifecycle"));
    query_int(q, 2, before);
    CHECK_INT(query_run(q, NULL, NULL), 0);
    put_agent(w, 1, "b", false, "starting", "starting");
    CHECK_INT(store_commit(w->store, NULL), 0);
    world_restart(w);
    int ticks = settle(w);
    CHECK(ticks >= 4);
    CHECK_INT(agents_up(w, 1), 0);
    CHECK_INT(stats(w)->stopped, 1);
    CHECK_INT(stats(w)->behind, 0);
    CHECK_INT(cursor_stored(w), last_event(w));
    world_free(w);
}

TEST(L18_agents_are_resumed_page_by_page_and_one_that_fails_stops_nobody)
{
    enum { COUNT = PAGE_AGENTS + 10 };
    struct world *w = world_settled();
    create_agents(w, COUNT);
    /* As if the starts had failed: they should be up, and are not. */
    CHECK_INT(store_begin(w->store, NULL), 0);
    for (int c = 1; c <= COUNT; c++) {
        struct query *q = store_query(w->store, SQL_COMMAND_FAIL_OPEN_STARTS);
        query_int(q, 1, c);
        query_text(q, 2, STR("test"));
        query_int(q, 3, WORLD_START_MS);
        CHECK_INT(query_run(q, NULL, NULL), 0);
        for (int role = 0; role < 3; role++) {
            put_agent(w, c, role == 0 ? "a" : role == 1 ? "b" : "c", true, "stopped", "none");
        }
    }
    CHECK_INT(store_commit(w->store, NULL), 0);
    world_restart(w);
    poison(w, "INSERT ON machine_commands", "NEW.conversation = 2 AND NEW.role = 'b'");
    CHECK(settle(w) >= 3 * COUNT / PAGE_AGENTS);
    CHECK_INT(stats(w)->errors, 1);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agents WHERE view = 'starting'"), 3 * COUNT - 1);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agents WHERE view = 'stopped' AND conversation = 2"
                           " AND role = 'b'"),
              1);
    cure(w);
    clock_advance(&w->clock, 1000);
    settle(w);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agents WHERE view = 'starting'"), 3 * COUNT);
    CHECK_INT(stats(w)->errors, 1);
    world_free(w);
}

/* ---- what fails ---- */

TEST(L18_an_agent_that_cannot_be_stopped_is_tried_again_and_the_others_are_stopped)
{
    struct world *w = world_settled();
    create_agents(w, 2);
    poison(w, "UPDATE ON agents", "NEW.conversation = 1 AND NEW.role = 'b'");
    end_one(w, 1);
    end_one(w, 2);
    settle(w);
    CHECK_INT(agents_up(w, 1), 1); /* a and c, before and after it, are stopped */
    CHECK_INT(agents_up(w, 2), 0);
    CHECK_INT(stats(w)->errors, 1);
    CHECK_INT(stats(w)->behind, 0); /* the cursor does not wait for it */
    for (int wait_ms = 1000, tries = 2; wait_ms <= 8000; wait_ms *= 2, tries++) {
        clock_advance(&w->clock, wait_ms - 1);
        CHECK_INT(settle(w), 0);
        clock_advance(&w->clock, 1);
        CHECK(settle(w) > 0);
        CHECK_INT(stats(w)->errors, tries);
    }
    cure(w);
    clock_advance(&w->clock, 16000);
    settle(w);
    CHECK_INT(agents_up(w, 1), 0);
    CHECK_INT(stats(w)->errors, 5);
    CHECK_INT(stops_told(w, 1), 3);
    clock_advance(&w->clock, 3600000);
    settle(w);
    CHECK_INT(stats(w)->errors, 5);
    world_free(w);
}

TEST(L18_a_retry_whose_tick_is_lost_is_not_forgotten)
{
    struct world *w = world_settled();
    create_agents(w, 1);
    poison(w, "UPDATE ON agents", "NEW.conversation = 1 AND NEW.role = 'b'");
    end_one(w, 1);
    settle(w);
    CHECK_INT(agents_up(w, 1), 1);
    cure(w);
    clock_advance(&w->clock, 1000);
    fill_disk(w);
    tick(w); /* tried again, and lost */
    free_disk(w);
    pass_pause();
    clock_advance(&w->clock, 10000000);
    settle(w);
    CHECK_INT(agents_up(w, 1), 0);
    world_free(w);
}

TEST(L18_a_row_that_cannot_be_read_hides_no_other)
{
    struct world *w = world_settled();
    create_agents(w, 1);
    CHECK_INT(store_begin(w->store, NULL), 0);
    put_agent(w, 1, "a", true, "dancing", "none");
    CHECK_INT(store_commit(w->store, NULL), 0);
    world_restart(w); /* what is in memory is not read again */
    settle(w);
    end_one(w, 1);
    settle(w);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agents WHERE view = 'stopped' AND ensured = 0"),
              2);
    CHECK(stats(w)->errors > 0);
    world_free(w);
}

/* Whichever write fails: the agents of what ended are stopped, each told once. */
static bool sweep_one(uint64_t nth)
{
    struct world *w = world_settled();
    create_agents(w, 5);
    for (int c = 1; c <= 4; c++)
        ask(w, END, c);
    tick(w);
    for (int c = 1; c <= 4; c++)
        take_ok(w);
    fault_vfs_plan(w->disk, FAULT_FULL, nth, false);
    for (int i = 0; i < 4; i++) {
        settle(w);
        pass_pause();
    }
    bool struck = fault_vfs_has_struck(w->disk);
    for (int c = 1; c <= 4; c++) {
        CHECK_INT(agents_up(w, c), 0);
        CHECK_INT(stops_told(w, c), 3);
    }
    CHECK_INT(agents_up(w, 5), 3);
    CHECK_INT(stats(w)->behind, 0);
    world_free(w);
    return struck;
}

TEST(L17_whichever_write_fails_every_agent_is_stopped_once)
{
    uint64_t nth = 1;
    for (; sweep_one(nth); nth++)
        CHECK(nth < 5000);
    CHECK(nth > 2);
}
