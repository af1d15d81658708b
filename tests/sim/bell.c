/* bell.c: see bell.h. The linker puts these in place of bell_ring() and bell_is_here(): --wrap. */
#include "bell/bell.h"

#include "base/mem.h"
#include "sim/bell.h"
#include "sim/world.h"

static struct sim *the_sim; /* one at a time: a bell knows nothing of worlds */

bool is_here_in_the_sim(const struct bell *b) __asm__("__wrap_bell_is_here");
void ring_in_the_sim(struct bell *b, int64_t key) __asm__("__wrap_bell_ring");
void ring_for_real(struct bell *b, int64_t key) __asm__("__real_bell_ring");

void bell_attach(struct sim *s)
{
    the_sim = s;
}

bool is_here_in_the_sim(const struct bell *b)
{
    const struct swarm *w = &the_sim->swarm;
    (void)b;
    return !w->rings_lost && !w->rings_doubled && !w->rings_late;
}

static void ring_later(struct sim *s, struct bell *b, int64_t key, uint64_t *random)
{
    struct late_rings *r = &s->rings;
    r->list = mem_grow(r->list, &r->room, r->count + 1, sizeof *r->list);
    r->list[r->count++] = (struct late_ring){
        .bell = b, .key = key, .at_ms = s->now_ms + sim_between(random, 1, s->swarm.delay_ms)};
}

/* Its fate follows from whom it is for and when, so that a scenario with fewer steps keeps it. */
void ring_in_the_sim(struct bell *b, int64_t key)
{
    struct sim *s = the_sim;
    uint64_t r = s->swarm.seed ^ ((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15)) ^
                 ((uint64_t)s->now_ms * UINT64_C(0xD1B54A32D192ED03));
    bool is_lost = sim_happens(s, &r, s->swarm.rings_lost),
         is_late = sim_happens(s, &r, s->swarm.rings_late),
         is_doubled = sim_happens(s, &r, s->swarm.rings_doubled);
    if (is_lost)
        return;
    if (is_late || is_doubled)
        ring_later(s, b, key, &r);
    if (!is_late)
        ring_for_real(b, key);
}

void bell_ring_late(struct sim *s)
{
    struct late_rings *r = &s->rings;
    for (size_t i = 0; i < r->count;) {
        struct late_ring ring = r->list[i];
        if (ring.at_ms > s->now_ms) {
            i++;
            continue;
        }
        r->list[i] = r->list[--r->count]; /* and so they overtake each other */
        ring_for_real(ring.bell, ring.key);
    }
}

/* While it sleeps nobody hears any: they are rung when it wakes. */
int64_t bell_next_ms(const struct sim *s)
{
    int64_t next_ms = INT64_MAX;
    for (size_t i = 0; i < s->rings.count && s->awake_at_ms <= s->now_ms; i++)
        next_ms = MIN(next_ms, s->rings.list[i].at_ms);
    return next_ms;
}

void bell_forget(struct sim *s)
{
    s->rings.count = 0;
}
