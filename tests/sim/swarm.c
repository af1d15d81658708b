/* swarm.c: see swarm.h. */
#include "sim/swarm.h"

#include "base/err.h"
#include "lib/fault_vfs.h"

uint64_t sim_random(uint64_t *state)
{
    return fault_random(state);
}

int64_t sim_between(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(sim_random(state) % (uint64_t)(high - low + 1));
}

/* Off in half of all histories, else anything up to `most`. */
static int64_t rate(uint64_t *r, int64_t most)
{
    return sim_random(r) & 1 ? sim_between(r, 1, most) : 0;
}

static void choose_numbers(struct swarm *s, uint64_t *r)
{
    bool is_large = sim_between(r, 0, 63) == 0;
    s->machines = sim_between(r, 0, 3);
    s->processes = 48;
    s->agents = sim_between(r, s->machines ? 0 : 2, is_large ? 150 : 10);
    s->tools = sim_between(r, 1, 3);
    s->clients = sim_between(r, 1, 3);
    s->persons = 1;
    s->conversations = sim_between(r, 1, is_large ? 40 : 5);
    s->roles = sim_between(r, 1, 4);
    s->managed_roles = s->machines ? sim_between(r, 1, s->roles) : 0;
    s->steps = sim_between(r, 50, is_large ? 1250 : 450);
    s->pace_ms = sim_between(r, 200, 8000);
    s->delay_ms = sim_between(r, 10, 60000);
    s->down_ms = sim_between(r, 100, 120000);
}

static void choose_faults(struct swarm *s, uint64_t *r)
{
    s->lose_request = rate(r, 150);
    s->lose_reply = rate(r, 150);
    s->duplicate = rate(r, 150);
    s->delay = rate(r, 300);
    s->agent_lies = rate(r, 150);
    s->agent_dies = rate(r, 60);
    s->agent_hangs = rate(r, 60);
    s->machine_crashes = rate(r, 60);
    s->machine_reboots = rate(r, 40);
    s->partitions = rate(r, 60);
    s->start_fails = rate(r, 300);
    s->person_meddles = rate(r, 600);
    s->server_crashes = rate(r, 400);
    s->power_cuts = rate(r, 400);
    s->disk_faults = rate(r, 300);
    s->sleeps = rate(r, 300);
    s->wall_steps = rate(r, 200);
    s->core_of_actors = sim_between(r, 200, 1000);
}

static void choose_limits(struct swarm *s, uint64_t *r)
{
    struct options *o = &s->options;
    options_init(o);
#define SET(section, key, low, high) option_get(o, section, key) = sim_between(r, low, high)
    SET(watchdog, idle_ms, 10000, 300000);
    option_get(o, watchdog, global_idle_ms) = rate(r, 300000);
    SET(runtime_controls, session_wall_clock_seconds, 30, sim_random(r) & 1 ? 200 : 2000);
    SET(liveness, ttl_seconds, 6, 40);
    option_get(o, liveness, heartbeat_seconds) = option_get(o, liveness, ttl_seconds) / 3;
    SET(liveness, active_ttl_seconds, option_get(o, liveness, heartbeat_seconds), 40);
    SET(liveness, acknowledged_timeout_seconds, 5, 60);
    SET(liveness, pending_timeout_seconds, 5, 120);
    SET(liveness, unattended_work_seconds, 30, 300);
    SET(liveness, max_attempts, 1, 4);
    SET(task, max_seconds, 60, 500);
    SET(pmo, dispatched_timeout_seconds, 30, 300);
    SET(pmo, active_reap_seconds, 30, 300);
    SET(pmo, suspended_reap_seconds, 30, 300);
    SET(worker, suspend_timeout_seconds, 2, 40);
    SET(restart, burst, 2, 6);
    SET(restart, window_seconds, 30, 300);
    SET(restart, command_deadline_seconds, 5, 60);
    SET(machine, ttl_seconds, 9, 60);
    option_get(o, machine, heartbeat_seconds) = option_get(o, machine, ttl_seconds) / 3;
    SET(machine, fence_seconds, 5, 100);
}

/* Chosen last, so that what a seed chose before there were inboxes stays. The bell is whole in half
 * of all histories, and dumb in some. */
static void choose_inbox(struct swarm *s, uint64_t *r)
{
    struct options *o = &s->options;
    bool is_whole = sim_random(r) & 1;
    s->inbox_acts = rate(r, 600);
    s->rings_lost = is_whole ? 0 : rate(r, 1000);
    s->rings_doubled = is_whole ? 0 : rate(r, 500);
    s->rings_late = is_whole ? 0 : rate(r, 500);
    SET(pmo, dispatched_retry_seconds, 0, 60);
    SET(pmo, pending_wakeup_seconds, 0, 30);
    SET(pmo, pending_wakeup_skip_seconds, 0, 300);
    SET(worker, watchdog_interval_seconds, 1, 10);
    SET(worker, inbox_processing_timeout_seconds, 0, 90);
}
#undef SET

/* Chosen after that: how often people move agents, and forget hosts. */
static void choose_moves(struct swarm *s, uint64_t *r)
{
    s->moves = s->machines ? rate(r, 400) : 0;
}

/* Chosen after all that was there before it, for the same reason. */
static void choose_workers(struct swarm *s, uint64_t *r)
{
    s->deaf_workers = rate(r, 700);
}

static void choose_kinds(struct swarm *s, uint64_t *r)
{
    s->odd_kinds = rate(r, 300);
}

struct swarm swarm_of_seed(uint64_t seed)
{
    struct swarm s = {.seed = seed};
    uint64_t r = seed ^ UINT64_C(0x5eed5eed5eed5eed);
    choose_numbers(&s, &r);
    choose_faults(&s, &r);
    choose_limits(&s, &r);
    choose_inbox(&s, &r);
    choose_moves(&s, &r);
    choose_workers(&s, &r);
    choose_kinds(&s, &r);
    return s;
}

void swarm_write(const struct swarm *s, struct buf *out)
{
    buf_addf(out, "seed %llu\n", (unsigned long long)s->seed);
#define X(name) buf_addf(out, "swarm " #name " %lld\n", (long long)s->name);
    SWARM_LIST(X)
#undef X
#define X(section, key)                               \
    buf_addf(out, "set " #section "." #key "=%lld\n", \
             (long long)option_get(&s->options, section, key));
    SWARM_OPTION_LIST(X)
#undef X
}

static bool read_number(struct swarm *s, struct str rest)
{
    const char *blank = memchr(rest.p, ' ', rest.n);
    int64_t value;
    if (!blank || !str_to_int(str_skip(rest, (size_t)(blank - rest.p) + 1), &value))
        return false;
    struct str name = {rest.p, (size_t)(blank - rest.p)};
#define X(field)                \
    if (str_is(name, #field)) { \
        s->field = value;       \
        return true;            \
    }
    SWARM_LIST(X)
#undef X
    return false;
}

bool swarm_read(struct swarm *s, struct str what, struct str rest)
{
    int64_t seed;
    struct err err = ERR_INIT;
    if (str_is(what, "swarm"))
        return read_number(s, rest);
    if (str_is(what, "set"))
        return options_set(&s->options, rest, &err) == 0;
    if (!str_is(what, "seed") || !str_to_int(rest, &seed))
        return false;
    s->seed = (uint64_t)seed;
    return true;
}
