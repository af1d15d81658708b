/*
 * hosts.c: see model.h. Machines that go away, come back or do not, and the orders they were given.
 *
 * What the server knows of a machine is taken from its log (machine.offline and the like). When it
 * is lost follows from that, from the fence and from the gaps on record; so does the time that a
 * machine has to confirm an order. None of it is read from where the server keeps it.
 */
#include <stdio.h>
#include <string.h>

#include "rpc/params.h"
#include "sim/checker.h"
#include "sim/model.h"
#include "sim/world.h"

static struct host *host_named(struct sim *s, struct str machine)
{
    int number = machine.n == 2 && machine.p[0] == 'm' ? machine.p[1] - '0' : -1;
    return number >= 0 && number < s->swarm.machines ? &s->fleet.hosts[number] : NULL;
}

static struct host *host_of(struct sim *s, const struct told *e)
{
    return host_named(s, params_str(e->data, "machine"));
}

static int64_t fence_ms(const struct sim *s)
{
    return option_get(&s->swarm.options, machine, fence_seconds) * 1000;
}

/* ---- told ---- */

void note_offline(struct sim *s, const struct told *e)
{
    struct host *h = host_of(s, e);
    if (!h)
        return;
    h->offline_ms = e->ts_ms;
    h->is_online = h->has_listed = false;
}

/* Away for so long, what it had may have been given to others: its processes do not know. */
void note_online(struct sim *s, const struct told *e)
{
    struct host *h = host_of(s, e);
    if (!h)
        return;
    if (h->offline_ms && e->ts_ms - h->offline_ms >= fence_ms(s))
        h->fenced_until_ms = s->now_ms;
    h->offline_ms = 0;
    h->is_online = true;
    h->is_forced = false;
}

/* A person says that it does not come back: it is lost at once. */
void note_forgotten(struct sim *s, const struct told *e)
{
    struct host *h = host_of(s, e);
    if (h)
        h->fenced_until_ms = s->now_ms;
}

void p16_a_fence_is_watched(struct sim *s, const struct told *e)
{
    const struct host *h = host_of(s, e);
    read_gaps(s);
    if (h && !h->is_forced && e->ts_ms < due_ms(s->checker, h->offline_ms, fence_ms(s)))
        sim_fail(s, "P16", "a machine that is offline since %lld is lost at %lld",
                 (long long)h->offline_ms, (long long)e->ts_ms);
}

/* At least, counted from the time it was given; for a stop that was sent again even more. */
void p16_an_order_had_its_time(struct sim *s, const struct told *e)
{
    int64_t limit_ms = option_get(&s->swarm.options, restart, command_deadline_seconds) * 1000;
    sqlite3_stmt *q = look_at(s, LOOK_COMMAND);
    sqlite3_bind_int64(q, 1, params_int(e->data, "command", 0));
    int64_t created_ms = look_next(s, q) ? look_int(q, 0) : 0;
    look_end(s, q);
    read_gaps(s);
    if (e->ts_ms < due_ms(s->checker, created_ms, limit_ms))
        sim_fail(s, "P16", "command %lld of %lld expires at %lld",
                 (long long)params_int(e->data, "command", 0), (long long)created_ms,
                 (long long)e->ts_ms);
}

static struct known_spawn *spawn_of(struct sim *s, struct str spawn)
{
    for (int i = 0; i < s->swarm.machines; i++)
        for (size_t k = 0; k < s->fleet.hosts[i].known_count; k++)
            if (str_is(spawn, s->fleet.hosts[i].known[k].spawn))
                return &s->fleet.hosts[i].known[k];
    return NULL;
}

/* By a person at any time; else only when its machine is lost. */
void p21_a_process_is_given_up_late(struct sim *s, const struct told *e)
{
    const struct host *h = host_of(s, e);
    struct str reason = params_str(e->data, "reason");
    bool is_forced = str_is(reason, "stopped_by_user") || str_is(reason, "moved_by_user") ||
                     str_is(reason, "machine.forgotten") || (h && h->is_forced);
    struct known_spawn *k = spawn_of(s, params_str(e->data, "spawnId"));
    if (k)
        k->is_given_up = true;
    read_gaps(s);
    if (h && !is_forced &&
        (h->is_online || e->ts_ms < due_ms(s->checker, h->offline_ms, fence_ms(s))))
        sim_fail(s, "P21", "a process on a machine that is %s since %lld is given up at %lld",
                 h->is_online ? "online" : "offline", (long long)h->offline_ms,
                 (long long)e->ts_ms);
}

bool is_given_up(const struct sim *s, const struct worker *w)
{
    const struct host *h = &s->fleet.hosts[w->machine];
    for (size_t i = 0; i < h->known_count; i++)
        if (strcmp(h->known[i].spawn, w->spawn) == 0)
            return h->known[i].is_given_up;
    return false;
}

/* ---- at rest ---- */

static bool is_another_online(const struct sim *s, const struct host *lost)
{
    for (int i = 0; i < s->swarm.machines; i++)
        if (&s->fleet.hosts[i] != lost && s->fleet.hosts[i].has_listed)
            return true;
    return false;
}

/* It may be started now, as far as it and its conversation are concerned. */
static bool may_start(struct sim *s, sqlite3_stmt *q)
{
    bool may_run = strcmp(look_text(q, 11), "active") == 0 &&
                   strcmp(look_text(q, 2), "stopped") != 0 && !look_int(q, 18);
    bool is_held_up =
        look_int(q, 5) || look_int(q, 9) || look_int(q, 17) > sim_server_ms(s) - LATE_MS;
    return may_run && !is_held_up && !look_is_null(q, 8);
}

/* Since when it is needed: it has work that nobody has in hand, or no work and a person wants it
 * up. 0: it is not. */
static int64_t needed_ms(struct sim *s, sqlite3_stmt *agent)
{
    int64_t task = look_int(agent, 12), since_ms = 0;
    if (!task)
        return strcmp(look_text(agent, 2), "running") == 0;
    sqlite3_stmt *q = look_at(s, LOOK_OPEN_TASKS);
    while (look_next(s, q))
        if (look_int(q, 0) == task && strcmp(look_text(q, 3), "pending") == 0)
            since_ms = later_ms(look_int(q, 5), look_int(q, 6));
    return since_ms;
}

void p3_nobody_is_bound_for_ever(struct sim *s, sqlite3_stmt *q)
{
    const struct host *h = host_named(s, str_of(look_text(q, 15)));
    bool is_down = strcmp(look_text(q, 6), "unknown") == 0 ||
                   (strcmp(look_text(q, 6), "none") == 0 && look_int(q, 19)); /* and is to be up */
    bool is_stuck = is_down && look_is_null(q, 16);
    if (!is_stuck || !h || h->is_online || !is_another_online(s, h) || !may_start(s, q))
        return;
    int64_t since_ms = needed_ms(s, q), fence = due_ms(s->checker, h->offline_ms, fence_ms(s));
    if (!since_ms || !is_late(s, later_ms(since_ms, fence)))
        return;
    sim_fail(s, "P3", "%lld:%s is needed, and stays on %s, which is offline since %lld",
             (long long)look_int(q, 0), look_text(q, 1), look_text(q, 15),
             (long long)h->offline_ms);
}

void p9_orders_end(struct sim *s)
{
    enum { SENDS_MAX = 5 };
    int64_t limit_ms = option_get(&s->swarm.options, restart, command_deadline_seconds) * 1000;
    sqlite3_stmt *q = look_at(s, LOOK_OPEN_ORDERS);
    while (look_next(s, q)) {
        const struct host *h = host_named(s, str_of(look_text(q, 4)));
        int64_t due = due_ms(s->checker, look_int(q, 2), limit_ms << look_int(q, 3));
        if (h && h->is_online && look_int(q, 3) < SENDS_MAX && is_late(s, due))
            sim_fail(s, "P9", "command %lld, %s, was to be confirmed by %lld",
                     (long long)look_int(q, 0), look_text(q, 1), (long long)due);
    }
}
