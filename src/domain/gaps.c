/* gaps.c: see gaps.h. */
#include "domain/gaps.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "domain/append.h"
#include "domain/work.h"

static const char *const kind_names[] = {
#define X(name, text) [GAP_##name] = text,
    GAP_KIND_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(kind_names) == GAP_KIND_COUNT, "a name for each kind");

const char *gap_kind_name(enum gap_kind kind)
{
    return kind_names[kind];
}

/* Index of the first gap that ends after `at`. */
static size_t first_after(const struct gaps *g, int64_t at_ms)
{
    size_t low = 0, high = g->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (g->list[middle].to_ms > at_ms)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int64_t gaps_due_ms(const struct gaps *g, int64_t since_ms, int64_t limit_ms)
{
    int64_t due_ms = since_ms + limit_ms + 1;
    for (size_t i = first_after(g, since_ms); i < g->count && g->list[i].from_ms < due_ms; i++)
        due_ms += g->list[i].to_ms - MAX(g->list[i].from_ms, since_ms);
    return due_ms;
}

int64_t gaps_back_ms(const struct gaps *g, int64_t at_ms, int64_t watched_ms)
{
    for (size_t i = g->count; i-- > 0;) {
        const struct gap *gap = &g->list[i];
        if (gap->from_ms >= at_ms)
            continue;
        int64_t watched_after_ms = MAX(at_ms - gap->to_ms, INT64_C(0));
        if (watched_after_ms >= watched_ms)
            break;
        watched_ms -= watched_after_ms;
        at_ms = gap->from_ms;
    }
    return at_ms - watched_ms;
}

int64_t gaps_within_ms(const struct gaps *g, int64_t from_ms, int64_t to_ms)
{
    int64_t sum = 0;
    for (size_t i = first_after(g, from_ms); i < g->count && g->list[i].from_ms < to_ms; i++)
        sum += MIN(g->list[i].to_ms, to_ms) - MAX(g->list[i].from_ms, from_ms);
    return sum;
}

int64_t gaps_watched_ms(const struct gaps *g, int64_t from_ms, int64_t to_ms)
{
    return to_ms - from_ms - gaps_within_ms(g, from_ms, to_ms);
}

int64_t gaps_after_block_ms(const struct gaps *g, int64_t since_ms, int64_t blocked_at_ms,
                            int64_t now_ms)
{
    if (!since_ms)
        return 0;
    if (since_ms >= blocked_at_ms)
        return now_ms;
    int64_t ran_ms = gaps_watched_ms(g, since_ms, blocked_at_ms);
    return gaps_back_ms(g, now_ms, ran_ms);
}

void gaps_add(struct gaps *g, int64_t from_ms, int64_t to_ms)
{
    REQUIRE(from_ms < to_ms);
    REQUIRE(g->count == 0 || g->list[g->count - 1].to_ms <= from_ms);
    g->list = mem_grow(g->list, &g->room, g->count + 1, sizeof *g->list);
    g->list[g->count++] = (struct gap){from_ms, to_ms};
}

void gaps_release(struct gaps *g)
{
    free(g->list);
    *g = (struct gaps){0};
}

int gaps_read(struct work *w, struct gaps *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_GAP_LIST);
    int r;
    gaps_release(ret);
    while ((r = query_step(q, err)) == STORE_ROW)
        gaps_add(ret, query_get_int(q, 0), query_get_int(q, 1));
    return r;
}

static int append_gap(struct work *w, enum gap_kind kind, int64_t ms, int64_t from_ms,
                      struct err *err)
{
    char from[CLOCK_ISO_BYTES], to[CLOCK_ISO_BYTES];
    clock_iso(from_ms, from);
    clock_iso(w->now_ms, to);
    struct str data =
        arena_printf(&w->arena, "{\"kind\":\"%s\",\"ms\":%lld,\"from\":\"%s\",\"to\":\"%s\"}",
                     kind_names[kind], (long long)ms, from, to);
    struct event e;
    return append_system(w, 0, "system-watchdog", "watch.gap", data, NULL, &e, err);
}

int gaps_record(struct work *w, enum gap_kind kind, int64_t from_ms, struct err *err)
{
    if (w->gaps.count) /* what is a gap already is not one twice */
        from_ms = MAX(from_ms, w->gaps.list[w->gaps.count - 1].to_ms);
    if (from_ms >= w->now_ms)
        return 0;
    struct query *q = store_query(w->store, SQL_GAP_INSERT);
    query_int(q, 1, from_ms);
    query_int(q, 2, w->now_ms);
    int r = query_run(q, NULL, err);
    if (r == 0)
        r = append_gap(w, kind, w->now_ms - from_ms, from_ms, err);
    if (r == 0)
        gaps_add(&w->gaps, from_ms, w->now_ms);
    return r;
}

int gaps_note_wall_step(struct work *w, int64_t step_ms, struct err *err)
{
    return append_gap(w, GAP_WALL_STEP, step_ms, w->now_ms, err);
}
