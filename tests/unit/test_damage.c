/*
 * test_damage.c: what was found by fuzz_stored.c and fuzz_shim.c, each by its name. A damaged store
 * is an error, told in words; what is not damaged is served (P17).
 */
#include "tap.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "lib/core_world.h"
#include "lib/watch_world.h"
#include "machine/facts.h"
#include "machine/order.h"
#include "store/sqlite_store.h"

/* ---- the store ---- */

static void damage(struct world *w, const char *sql)
{
    if (sqlite_exec(w->store->db, sql) != SQLITE_OK)
        tap_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(w->store->db));
    CHECK(sqlite3_changes(w->store->db) > 0);
}

/* It does not start, and says why. */
static void check_refused(struct world *w, const char *words)
{
    struct err err = ERR_INIT;
    CHECK(world_try_restart(w, &err) < 0);
    if (!strstr(err.message, words))
        tap_fail(__FILE__, __LINE__, "no word of \"%s\" in \"%s\"", words, err.message);
    world_free(w);
}

TEST(P17_a_machine_whose_kinds_are_no_list_may_run_nothing)
{
    struct world *w = world_new();
    ask(w, CALL("machine.register", "{'machine':'m','instance':'i','hostname':'h','bootId':'b',"
                                    "'kinds':[{'name':'k','restart':'always','ready':'none',"
                                    "'stopGraceMs':1}],'processes':[]}"));
    tick(w);
    take_ok(w);
    damage(w, "UPDATE machines SET kinds = '17'");
    world_restart(w);
    create(w, 1);
    world_free(w);
}

TEST(a_store_without_the_cursor_of_lifecycle_is_refused)
{
    struct world *w = world_new();
    damage(w, "DELETE FROM cursors WHERE name = 'lifecycle'");
    check_refused(w, "lifecycle has no cursor");
}

TEST(P6_a_log_with_a_hole_in_its_numbers_is_refused)
{
    struct world *w = world_new();
    create(w, 1);
    say(w, 1);
    take_ok(w);
    damage(w, "UPDATE conversation_events SET seq = 7 WHERE conversation = 1 AND seq = 2");
    check_refused(w, "has seq 7, after 1");
}

TEST(P6_P17_a_head_that_is_not_where_its_log_ends_harms_itself_only)
{
    for (int last_seq = 0; last_seq <= 9; last_seq += 9) {
        struct world *w = world_new();
        create(w, 1);
        create(w, 2);
        say(w, 1);
        take_ok(w);
        damage(w, "DELETE FROM cursors WHERE name = 'log_index'");
        damage(w, "INSERT INTO cursors VALUES ('log_index', 1000000)"); /* no tail */
        damage(w, "INSERT INTO log_by_seq SELECT conversation, seq, id FROM conversation_events");
        damage(w, "UPDATE conversations SET last_seq = (SELECT count(*) FROM conversation_events e"
                  " WHERE e.conversation = conversations.conversation)");
        _cleanup_free_ char *sql =
            mem_printf("UPDATE conversations SET last_seq = %d WHERE conversation = 1", last_seq);
        damage(w, sql);
        world_restart(w);
        say(w, 1);
        take_error(w, "INTERNAL");
        say(w, 2);
        take_ok(w);
        world_free(w);
    }
}

TEST(P17_a_first_event_that_is_not_there_is_an_error)
{
    struct world *w = world_new();
    create(w, 1);
    damage(w, "UPDATE cursors SET id = 1000000 WHERE name = 'log_index'");
    damage(w, "UPDATE conversations SET last_seq = 0 WHERE conversation = 1");
    world_restart(w);
    ask(w, CALL("conversation.get", "{'conversation':1}"));
    tick(w);
    take_error(w, "INTERNAL");
    world_free(w);
}

/* It would have been looked at next, at no time at all, again and again. */
TEST(P17_a_time_to_look_that_is_no_time_stops_no_clock)
{
    struct world *w = world_watching();
    create_idle(w, 2, LIMIT_MS);
    damage(w, "UPDATE conversations SET global_idle_look_at = 'soon' WHERE conversation = 1");
    world_restart(w);
    settle(w);
    ask(w, ADVANCE, 10 * LIMIT_MS);
    tick(w);
    settle(w);
    take_ok(w);
    CHECK_INT(times_cancelled(w, 2), 1);
    world_free(w);
}

/* ---- files of machines and shims ---- */

TEST(an_order_that_is_not_JSON_is_refused)
{
    struct arena a = ARENA_INIT;
    struct order o;
    struct err err = ERR_INIT;
    CHECK_INT(order_parse(&a, STR("{"), &o, &err), -ERR_PARSE);
    arena_release(&a);
}

TEST(the_last_number_there_is_is_no_number_of_a_fact)
{
    static const char *const lines[] = {
        "{\"n\":9223372036854775807,\"fact\":\"exited\",\"spawnId\":\"1\"}\n",
        "{\"acceptedTo\":9223372036854775807}\n"};
    log_set_level(LOG_ERROR + 1);
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct facts *f = NULL;
        struct err err = ERR_INIT;
        _cleanup_free_ char *path = mem_printf("%s/outbox", tap_folder());
        CHECK_INT(file_replace(path, str_of(lines[i]), false, &err), 0);
        CHECK_INT(facts_open(tap_folder(), &f, &err), 0);
        CHECK(facts_is_empty(f));
        facts_add(f, "exited", "2", STR(""), 1);
        CHECK_INT(facts_first(f), 1);
        facts_close(f);
    }
}
