/*
 * test_follow_drained.c: a subscription whose peer another thread drains, as in the server. The
 * rest, in ticks driven by hand: test_follow.c.
 */
#include "tap.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "lib/core_world.h"

static void *drain_for_ever(void *arg)
{
    struct peer *p = arg;
    while (!atomic_load(&p->is_closed)) {
        atomic_store(&p->queued_bytes, 0);
        sched_yield(); /* on one core it would else spend its slice on nothing */
    }
    return NULL;
}

/* The peer is drained at any moment by another thread: a page that ended for want of room is not
 * the end of the log, though there is room when one looks again. */
TEST(L09_no_gap_when_room_comes_back_while_a_page_is_read)
{
    enum { EVENTS = 3000, ROUNDS = 20 };
    struct world *w = world_new();
    create(w, 1);
    for (int i = 0; i < EVENTS; i++)
        ask(w, SAY, 1);
    tick(w);
    outbox_release(&w->out);
    for (int round = 0; round < ROUNDS; round++) {
        struct peer *p = peer_new(NULL, 500); /* two events fill it */
        pthread_t thread;
        CHECK_INT(pthread_create(&thread, NULL, drain_for_ever, p), 0);
        ask_stream(w, p, 1, 0);
        tick(w);
        int64_t seen = 0, id = 0;
        /* However rarely the other thread runs: only steps with room and no event count. */
        for (int stuck = 0; stuck < 1000 && seen < EVENTS + 1; stuck++) {
            while (!peer_has_room(p))
                sched_yield();
            int64_t before = seen;
            core_idle(w->core, &w->out);
            if (atomic_exchange(&p->wants_drain, false))
                input(w, CORE_DRAINED, p);
            tick(w);
            for (struct message *m; (m = outbox_take_first(&w->out)); message_free(m))
                if (m->status == MESSAGE_DATA) {
                    int64_t got = strtoll(m->data.data + 4, NULL, 10); /* "id: 17\n…" */
                    CHECK(seen == 0 || got == id + 1);
                    id = got;
                    seen++;
                }
            if (seen > before)
                stuck = 0;
        }
        ask(w, SAY, 1); /* live by now, or it would not come */
        tick(w);
        idle(w);
        outbox_release(&w->out);
        atomic_store(&p->is_closed, true);
        CHECK_INT(pthread_join(thread, NULL), 0);
        CHECK(seen >= EVENTS + 1);
        input(w, CORE_CLOSED, p);
        tick(w);
        CHECK_INT(core_stats(w->core)->subscriptions, 0);
        CHECK_INT(atomic_load(&p->refs), 1);
        peer_unref(p);
    }
    world_free(w);
}
