/*
 * server.c: what happens to the server itself: kill -9, power cuts in the middle of a write, a disk
 * that is full or fails, a machine that sleeps, a process that is not scheduled, wall clocks that
 * are stepped. And the end of all that: `settle`.
 */
#include "sim/server.h"

#include "sim/actor.h"
#include "sim/checker.h"
#include "sim/why.h"
#include "sim/worker.h"
#include "sim/world.h"

static void crash(struct sim *s, int who, uint32_t arg)
{
    (void)who, (void)arg;
    sim_kill_server(s);
}

static void start(struct sim *s, int who, uint32_t arg)
{
    (void)who, (void)arg;
    sim_start_server(s);
}

static void cut(struct sim *s, int who, uint32_t arg)
{
    (void)who;
    if (s->core && !s->disk_is_bad)
        fault_vfs_plan(s->disk, FAULT_DEATH, 1 + arg % 40, false);
}

static void fill(struct sim *s, int who, uint32_t arg)
{
    (void)who;
    if (!s->core)
        return;
    s->disk_is_bad = true;
    fault_vfs_plan(s->disk, arg % 2 ? FAULT_FULL : FAULT_SHORT_WRITE, 1 + arg / 2 % 8, true);
}

static void fail_once(struct sim *s, int who, uint32_t arg)
{
    (void)who;
    if (!s->core)
        return;
    s->disk_is_bad = true;
    fault_vfs_plan(s->disk, FAULT_CHANGE, 1 + arg % 30, false);
}

static void mend(struct sim *s, int who, uint32_t arg)
{
    (void)who, (void)arg;
    s->disk_is_bad = false;
    why_disturbed(s);
    fault_vfs_plan(s->disk, FAULT_DEATH, 0, false);
}

static int64_t long_time_ms(uint32_t arg)
{
    static const int64_t times_ms[] = {100, 1900, 2100, 10000, 60000, 600000, 3600000, 86400000};
    return times_ms[arg % ARRAY_LEN(times_ms)] + (int64_t)(arg / 8 % 1000);
}

static void unwatched(struct sim *s, int64_t ms)
{
    if (!s->core || s->awake_at_ms > s->now_ms)
        return;
    s->awake_at_ms = s->now_ms + ms;
    checker_server_sleeps(s, ms);
    why_disturbed(s);
}

/* Boot time goes on, monotonic time does not. */
static void nap(struct sim *s, int who, uint32_t arg)
{
    (void)who;
    if (!s->core || s->awake_at_ms > s->now_ms)
        return;
    unwatched(s, long_time_ms(arg));
    s->nap_from_ms = s->now_ms;
}

static void stall(struct sim *s, int who, uint32_t arg)
{
    (void)who;
    unwatched(s, long_time_ms(arg) % 700000);
}

static void step(struct sim *s, int who, uint32_t arg)
{
    (void)who;
    int64_t ms = long_time_ms(arg) * (arg / 16 % 3 == 0 ? 3650 : 1);
    s->wall_ahead_ms += arg / 8 % 2 ? ms : -MIN(ms, INT64_C(31536000000));
}

static void maybe_hang(const struct sim *s, struct worker *w, uint64_t *random)
{
    if ((int64_t)(sim_random(random) % 1000) < s->swarm.core_of_actors)
        return;
    w->is_hung = true;
    w->back_at_ms = INT64_MAX;
}

/* A host that is lost for good: cut off with all it has, or without its daemon only. */
static void maybe_lose(const struct sim *s, struct host *h, uint64_t *random)
{
    uint64_t choice = sim_random(random);
    bool stays = (int64_t)(choice % 1000) < s->swarm.core_of_actors;
    h->is_gone = !stays && choice / 1000 % 2;
    h->cut_until_ms = stays || h->is_gone ? 0 : INT64_MAX;
    if (h->is_gone)
        h->is_up = h->is_registered = false;
}

/* Who goes on from here is chosen; the others are never heard of again. */
static void settle(struct sim *s, int who, uint32_t arg)
{
    uint64_t r = arg;
    mend(s, who, arg);
    checker_server_wakes(s);
    why_disturbed(s);
    s->awake_at_ms = MIN(s->awake_at_ms, s->now_ms);
    for (int i = 0; i < s->swarm.machines; i++)
        maybe_lose(s, &s->fleet.hosts[i], &r);
    for (int i = 0; i < s->swarm.agents; i++)
        maybe_hang(s, worker_agent(s, i), &r);
    for (int i = 0; i < s->swarm.processes; i++) /* its machine can end it, and nobody else */
        maybe_hang(s, worker_process(s, i), &r);
    s->is_settling = true;
    for (size_t i = 0; i < s->open_count; i++)
        if (sim_open(s, i)->state == ASK_ON_ITS_WAY) /* no new work from before */
            sim_open(s, i)->state = ASK_LOST;
    sim_start_server(s);
    sim_pump(s);
    checker_settles(s);
}

static void wait_till_then(struct sim *s, int who, uint32_t arg)
{
    (void)s, (void)who, (void)arg;
}

enum {
    V_CRASH,
    V_START,
    V_CUT,
    V_FILL,
    V_FAIL,
    V_MEND,
    V_NAP,
    V_STALL,
    V_STEP,
    V_SETTLE,
    V_WAIT,
};
static const struct verb verbs[] = {
    [V_CRASH] = {"crash", crash},    [V_START] = {"start", start},        [V_CUT] = {"cut", cut},
    [V_FILL] = {"fill", fill},       [V_FAIL] = {"fail", fail_once},      [V_MEND] = {"mend", mend},
    [V_NAP] = {"nap", nap},          [V_STALL] = {"stall", stall},        [V_STEP] = {"step", step},
    [V_SETTLE] = {"settle", settle}, [V_WAIT] = {"wait", wait_till_then}, {NULL, NULL}};

const int server_settle = V_SETTLE, server_wait = V_WAIT;

static int choose(struct sim *s, int who, uint64_t *random, int64_t *ret_pause_ms)
{
    (void)who;
    *ret_pause_ms = sim_between(random, 1, 20 * s->swarm.pace_ms);
    if (s->is_settling)
        return s->core ? -1 : V_START;
    if (!s->core)
        return V_START;
    if (s->disk_is_bad)
        return V_MEND;
    if (sim_happens(s, random, s->swarm.power_cuts) ||
        sim_happens(s, random, s->swarm.server_crashes)) {
        *ret_pause_ms = sim_between(random, 1, s->swarm.down_ms);
        return sim_happens(s, random, s->swarm.power_cuts) ? V_CUT : V_CRASH;
    }
    if (sim_happens(s, random, s->swarm.disk_faults))
        return sim_random(random) & 1 ? V_FILL : V_FAIL;
    if (sim_happens(s, random, s->swarm.sleeps))
        return sim_random(random) & 1 ? V_NAP : V_STALL;
    return sim_happens(s, random, s->swarm.wall_steps) ? V_STEP : -1;
}

static void hear(struct sim *s, const struct ask *a, const struct json *result, struct str error)
{
    (void)s, (void)a, (void)result, (void)error;
}

static int64_t one(const struct sim *s)
{
    (void)s;
    return 1;
}

const struct actor_kind actor_server = {
    .name = "server", .verbs = verbs, .count = one, .choose = choose, .hear = hear};
