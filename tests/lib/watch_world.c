/* watch_world.c: see watch_world.h. */
#include "lib/watch_world.h"

#include "tap.h"

struct world *world_watching(void)
{
    struct world *w = world_new();
    settle(w);
    return w;
}

struct world *world_living(void)
{
    struct world *w = world_new();
    world_use_real_clock(w);
    settle(w);
    return w;
}

void create_idle(struct world *w, int count, int limit_ms)
{
    for (int i = 0; i < count; i++)
        ask_other(w, CREATE_IDLE, limit_ms);
    tick(w);
    for (int i = 0; i < count; i++)
        take_ok(w);
}

uint64_t moved(struct world *w)
{
    return core_stats(w->core)->ladder.moved;
}

int64_t now(struct world *w)
{
    return clock_now_ms(&w->clock);
}

int64_t times_cancelled(struct world *w, int conversation)
{
    int64_t ends = store_int(w,
                             "SELECT COUNT(*) FROM conversation_events WHERE conversation = %d"
                             " AND agent_id = 'system-watchdog' AND finality = 'conversation'",
                             conversation);
    CHECK_INT(store_int(w,
                        "SELECT COUNT(*) FROM conversation_events WHERE conversation = %d"
                        " AND agent_id = 'system-watchdog' AND type = 'system'",
                        conversation),
              ends);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM moves WHERE conversation = %d", conversation),
              ends);
    CHECK_INT(store_int(w, "SELECT status = 'completed' FROM conversations WHERE conversation = %d",
                        conversation),
              ends > 0);
    return ends;
}

void check_all_moved_once(struct world *w, int count)
{
    for (int c = 1; c <= count; c++)
        CHECK_INT(times_cancelled(w, c), 1);
    CHECK_INT(store_int(w, "SELECT MAX(id) - COUNT(*) FROM conversation_events"), 0);
}

size_t list_moves(struct world *w, struct move *ret, size_t max)
{
    size_t n = 0;
    struct query *q = store_query(w->store, SQL_EVENT_LIST_ALL);
    query_int(q, 1, 0);
    query_int(q, 2, 100000);
    while (query_step(q, NULL) == STORE_ROW) {
        if (!str_is(query_get_text(q, 8), "system-watchdog") || query_get_int(q, 3) != 0 ||
            query_get_int(q, 1) == 0)
            continue;
        CHECK(n < max);
        ret[n] = (struct move){.conversation = query_get_int(q, 1), .ts_ms = query_get_int(q, 5)};
        /* {"kind":"… */
        struct str kind = str_skip(query_get_text(q, 9), 9);
        snprintf(ret[n].kind, sizeof ret[n].kind, "%.*s",
                 (int)((const char *)memchr(kind.p, '"', kind.n) - kind.p), kind.p);
        n++;
    }
    return n;
}

void check_move(const struct move *m, int64_t conversation, const char *kind, int64_t ts_ms)
{
    CHECK_INT(m->conversation, conversation);
    CHECK_Z(m->kind, kind);
    CHECK_INT(m->ts_ms, ts_ms);
}
