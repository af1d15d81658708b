/*
 * watched.c: see model.h. When the server could watch, and when what was due can be asked for.
 *
 * There are two lists of gaps. The truth is made here, from what was done to the server: it was
 * down, asleep or stopped. The other is what the store has on record. Limits are counted by the
 * record, so that they are those of the server; that the record has all of the truth is P16.
 */
#include "sim/checker.h"
#include "sim/model.h"
#include "sim/world.h"

/* ---- by the record ---- */

int64_t due_ms(const struct checker *c, int64_t since_ms, int64_t limit_ms)
{
    const struct gaps *g = &c->recorded;
    int64_t due = since_ms + limit_ms + 1;
    for (size_t i = 0; i < g->count; i++)
        if (g->list[i].to_ms > since_ms && g->list[i].from_ms < due)
            due += g->list[i].to_ms - later_ms(g->list[i].from_ms, since_ms);
    return due;
}

int64_t could_be_ms(const struct checker *c, int64_t due_ms)
{
    bool slept_then = c->slept.from_ms <= due_ms + LATE_MS && due_ms < c->slept.to_ms;
    return slept_then ? c->slept.to_ms : due_ms;
}

bool is_late(const struct sim *s, int64_t due)
{
    return sim_server_ms(s) > could_be_ms(s->checker, due) + LATE_MS;
}

void read_gaps(struct sim *s)
{
    struct gaps *g = &s->checker->recorded;
    sqlite3_stmt *q = look_at(s, LOOK_GAPS);
    int64_t last_ms = g->count ? g->list[g->count - 1].to_ms : INT64_MIN;
    sqlite3_bind_int64(q, 1, last_ms);
    while (look_next(s, q))
        gaps_add(g, look_int(q, 0), look_int(q, 1));
}

/* ---- in truth ---- */

int64_t unwatched_ms(const struct checker *c, int64_t from_ms, int64_t to_ms)
{
    const struct gaps *g = &c->truth;
    int64_t sum = 0;
    for (size_t i = 0; i < g->count; i++)
        sum += overlap_ms(g->list[i], from_ms, to_ms);
    return sum;
}

static void add_truth(struct checker *c, int64_t from_ms, int64_t to_ms)
{
    struct gaps *g = &c->truth;
    c->gap_events = c->event_count;
    if (g->count)
        from_ms = MAX(from_ms, g->list[g->count - 1].to_ms);
    if (from_ms < to_ms)
        gaps_add(g, from_ms, to_ms);
}

/* What is shorter need not be noticed. */
static int64_t least_ms(const struct sim *s)
{
    return option_get(&s->swarm.options, watch, gap_seconds) * 1000 + 500;
}

void checker_server_sleeps(struct sim *s, int64_t ms)
{
    int64_t now_ms = sim_server_ms(s);
    if (now_ms > s->checker->slept.to_ms + LATE_MS) /* else it hardly woke */
        s->checker->slept.from_ms = now_ms;
    s->checker->slept.to_ms = now_ms + ms;
    if (ms > least_ms(s))
        add_truth(s->checker, now_ms, now_ms + ms);
}

void checker_server_wakes(struct sim *s)
{
    struct gaps *g = &s->checker->truth;
    int64_t now_ms = s->core ? sim_server_ms(s) : INT64_MAX;
    s->checker->slept.to_ms = MIN(s->checker->slept.to_ms, now_ms);
    if (g->count && g->list[g->count - 1].to_ms > now_ms)
        g->list[g->count - 1].to_ms = now_ms;
    if (g->count && g->list[g->count - 1].to_ms <= g->list[g->count - 1].from_ms + least_ms(s))
        g->count--; /* too short to be noticed */
}

/* Its clock may begin before the time at which it was killed, if the wall clock was set back: then
 * what came after the last commit never was. */
static void forget_after(struct gaps *g, int64_t now_ms)
{
    while (g->count && g->list[g->count - 1].from_ms >= now_ms)
        g->count--;
    if (g->count)
        g->list[g->count - 1].to_ms = MIN(g->list[g->count - 1].to_ms, now_ms);
}

void watched_again(struct checker *c, int64_t now_ms)
{
    forget_after(&c->truth, now_ms);
    if (c->nap_from_ms)
        add_truth(c, c->nap_from_ms, now_ms);
    c->nap_from_ms = 0;
    c->slept = (struct gap){0};
}

void p16_gaps_are_on_record(struct sim *s)
{
    const struct gaps *truth = &s->checker->truth, *told = &s->checker->recorded;
    int64_t now_ms = sim_server_ms(s);
    if (!truth->count)
        return;
    struct gap t = truth->list[truth->count - 1]; /* those before it were looked at */
    int64_t to_ms = MIN(t.to_ms, now_ms), covered_ms = 0;
    if (s->checker->event_count == s->checker->gap_events && now_ms <= to_ms + LATE_MS)
        return;
    for (size_t i = 0; i < told->count; i++)
        covered_ms += overlap_ms(told->list[i], t.from_ms, to_ms);
    if (covered_ms < to_ms - t.from_ms)
        sim_fail(s, "P16", "nobody watched from %lld to %lld, and %lld ms of it are on record",
                 (long long)t.from_ms, (long long)to_ms, (long long)covered_ms);
}
