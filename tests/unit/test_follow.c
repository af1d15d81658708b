/* test_follow.c: subscriptions, in ticks driven by hand: no gap, no repeat, no more than allowed.
 */
#include "tap.h"

#include <stdlib.h>

#include "lib/core_world.h"

/* The seqs of all events for the peer that wait in the outbox must go on from *seq. */
static void take_events(struct world *w, int64_t *seq)
{
    struct message *m;
    while ((m = outbox_take_first(&w->out))) {
        struct arena arena = ARENA_INIT;
        const struct json *v;
        CHECK_INT(json_parse(&arena, buf_str(&m->data), 64, &v, NULL), 0);
        if (str_is(string_at(v, "method"), "event")) {
            CHECK_INT(int_at(v, "params.seq"), *seq + 1);
            ++*seq;
        }
        arena_release(&arena);
        atomic_fetch_sub(&m->peer->queued_bytes, m->data.len);
        message_free(m);
    }
}

/* As the net thread does after writing. */
static void tell_drained(struct world *w)
{
    if (atomic_load(&w->peer->queued_bytes) <= w->peer->high_water_bytes / 2 &&
        atomic_exchange(&w->peer->wants_drain, false))
        input(w, CORE_DRAINED, w->peer);
}

/* Appends, ticks, steps of catching up, and a peer that takes what it has been sent, in any order
 * (REEVE_ORDERS: in how many): nothing is missing, nothing comes twice. */
TEST(L09_no_gap_and_no_repeat_in_any_order_of_steps)
{
    const char *setting = getenv("REEVE_ORDERS");
    uint64_t orders = setting ? strtoull(setting, NULL, 10) : 200;
    CHECK(orders > 0);
    for (uint64_t seed = 1; seed <= orders; seed++) {
        struct world *w = world_new();
        uint64_t random = seed;
        int64_t seen = 0, written = 1;
        w->peer->high_water_bytes = 300 + fault_random(&random) % 2000;
        create(w, 1);
        ask(w, SUBSCRIBE, 1, 0);
        for (int step = 0; step < 300; step++) {
            switch (fault_random(&random) % 6) {
            case 0:
            case 1:
                ask_other(w, SAY, 1);
                written++;
                break;
            case 2:
                tick(w);
                break;
            case 3:
                core_idle(w->core, &w->out);
                break;
            case 4:
                take_events(w, &seen);
                tell_drained(w);
                break;
            case 5: /* a failed tick in between changes nothing */
                tick(w);
                fill_disk(w);
                ask_other(w, SAY, 1);
                tick(w);
                free_disk(w);
                break;
            }
        }
        for (int i = 0; i < 1000 && seen < written; i++) {
            tick(w);
            idle(w);
            take_events(w, &seen);
            tell_drained(w);
        }
        CHECK_INT(seen, written);
        tick(w);
        world_free(w);
    }
}

TEST(a_cursor_beyond_the_end_waits_for_what_comes_after_it)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, SUBSCRIBE, 1, 3);
    ask(w, CALL("event.subscribe", "{'afterId':1000000}"));
    tick(w);
    take_ok(w);
    take_ok(w);
    idle(w);
    for (int seq = 2; seq <= 5; seq++) {
        say(w, 1);
        CHECK_INT(take_int(w, "result.seq"), seq);
        if (seq > 3)
            CHECK_INT(take_int(w, "params.seq"), seq);
        check_nothing_left(w);
    }
    world_free(w);
}

TEST(a_subscription_ends_with_its_token)
{
    struct world *w = world_new();
    create(w, 1);
    w->grant.expires_ms = clock_now_ms(&w->clock) + 1000;
    ask(w, SUBSCRIBE, 1, 1);
    tick(w);
    take_ok(w);
    idle(w);
    w->grant.expires_ms = 0;
    say(w, 1);
    take_ok(w);
    CHECK_INT(take_int(w, "params.seq"), 2);
    clock_advance(&w->clock, 1000);
    say(w, 1);
    idle(w);
    take_ok(w);
    struct reply r = take(w);
    CHECK_INT(r.message->status, MESSAGE_EXPEL);
    done(&r);
    check_nothing_left(w);
    CHECK_INT(core_stats(w->core)->subscriptions, 0);
    world_free(w);
}

TEST(guidance_missed_while_behind_is_told_when_caught_up)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, CALL("event.subscribe", "{'conversation':1,'includeGuidance':true}"));
    tick(w);
    take_ok(w);
    idle(w);
    check_nothing_left(w); /* no starting role, so nobody is asked to act */
    atomic_store(&w->peer->queued_bytes, WORLD_ROOM_BYTES);
    ask_other(w,
              CALL("message.send", "{'conversation':1,'agentId':'a','text':'','finality':'turn'}"));
    tick(w);
    take_ok(w);
    check_nothing_left(w);
    atomic_store(&w->peer->queued_bytes, 0);
    tell_drained(w);
    tick(w);
    idle(w);
    CHECK_INT(take_int(w, "params.seq"), 2);
    struct reply r = take(w);
    CHECK_STR(string_at(r.json, "method"), "guidance");
    CHECK_STR(string_at(r.json, "params.nextAgentId"), "b");
    done(&r);
    check_nothing_left(w);
    world_free(w);
}

TEST(a_peer_that_closed_takes_its_subscriptions_along)
{
    struct world *w = world_new();
    create(w, 1);
    for (int i = 0; i < SUBSCRIPTIONS_PER_PEER_MAX + 1; i++)
        ask(w, SUBSCRIBE, 1, i % 2);
    tick(w);
    for (int i = 0; i < SUBSCRIPTIONS_PER_PEER_MAX; i++)
        take_ok(w);
    take_error(w, "RATE_LIMITED");
    ask(w, SUBSCRIBE, 1, 0);
    ask(w, CALL("event.unsubscribe", "{'subscription':5}"));
    ask(w, SUBSCRIBE, 1, 0); /* one went, one may come */
    input(w, CORE_CLOSED, w->peer);
    tick(w);
    outbox_release(&w->out);
    CHECK_INT(core_stats(w->core)->subscriptions, 0);
    world_free(w);
}

TEST(an_unsubscribe_that_was_not_committed_did_not_happen)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, SUBSCRIBE, 1, 1);
    tick(w);
    CHECK_INT(take_int(w, "result.subscription"), 1);
    idle(w);
    fill_disk(w);
    ask(w, CALL("event.unsubscribe", "{'subscription':1}"));
    ask(w, SAY, 1);
    tick(w);
    take_error(w, "UNAVAILABLE");
    take_error(w, "UNAVAILABLE");
    free_disk(w);
    say(w, 1);
    take_ok(w);
    CHECK_INT(take_int(w, "params.seq"), 2); /* it goes on */
    ask(w, SAY, 1);
    ask(w, CALL("event.unsubscribe", "{'subscription':1}"));
    ask(w, CALL("event.unsubscribe", "{'subscription':1}"));
    tick(w);
    take_ok(w);
    take_ok(w);
    take_error(w, "NOT_FOUND");
    check_nothing_left(w); /* ended with its tick, the event of that tick included */
    CHECK_INT(core_stats(w->core)->subscriptions, 0);
    world_free(w);
}
