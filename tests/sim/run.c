/*
 * run.c: see run.h.
 *
 * First the safety phase: as many steps as the swarm says, whoever's turn it is, faults and all.
 * Then `settle`: no more faults, no new work, and of the actors only some are left; now everything
 * must end, by a time that follows from the options.
 */
#include "sim/run.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/actor.h"
#include "sim/checker.h"
#include "sim/model.h"
#include "sim/server.h"
#include "sim/world.h"
#include "store/sqlite_store.h"

static void act(struct sim *s, struct step step)
{
    const struct actor_kind *kind = actor_kinds[step.kind];
    if (s->record)
        script_add(s->record, step);
    sim_trace(s, "%s %d %s %u", kind->name, step.who, kind->verbs[step.verb].name, step.arg);
    s->steps++;
    sim_hash(s, &step.verb, sizeof step.verb);
    if (step.who < kind->count(s))
        kind->verbs[step.verb].act(s, step.who, step.arg);
    if (!s->has_failed)
        sim_pump(s);
}

/* Whose turn it is, and when. */
static int64_t next_turn(const struct sim *s, int *ret_kind, int *ret_who)
{
    int64_t first_ms = INT64_MAX;
    for (int kind = 0; kind < ACTOR_KINDS; kind++)
        for (int who = 0; who < actor_kinds[kind]->count(s); who++)
            if (s->next_act_ms[kind][who] < first_ms) {
                first_ms = s->next_act_ms[kind][who];
                *ret_kind = kind;
                *ret_who = who;
            }
    return first_ms;
}

/* One actor's turn; it may choose to do nothing. */
static void take_turn(struct sim *s, int64_t until_ms)
{
    int kind = 0, who = 0;
    int64_t pause_ms, at_ms = MIN(next_turn(s, &kind, &who), until_ms);
    sim_advance(s, MAX(at_ms, s->now_ms));
    if (s->has_failed || at_ms == until_ms)
        return;
    int verb = actor_kinds[kind]->choose(s, who, &s->random, &pause_ms);
    s->next_act_ms[kind][who] = s->now_ms + pause_ms;
    if (verb >= 0)
        act(s, (struct step){.at_ms = s->now_ms,
                             .kind = kind,
                             .who = who,
                             .verb = verb,
                             .arg = (uint32_t)sim_random(&s->random)});
}

/* Everything has ended, or it is too late. Looked at now and then: it costs as much as a step. */
static bool is_settled(struct sim *s)
{
    enum { LOOK_EVERY = 8 };
    if (s->steps % LOOK_EVERY && s->now_ms < checker_settled_by_ms(s))
        return false;
    const char *open = checker_what_is_open(s);
    char promise[8] = "";
    if (!open)
        return true;
    if (s->now_ms < checker_settled_by_ms(s))
        return false;
    sscanf(open, "%7s", promise);
    sim_fail(s, promise, "%s", open + strlen(promise) + 1);
    return true;
}

/* Everybody's next turn. */
static void deal(struct sim *s)
{
    for (int kind = 0; kind < ACTOR_KINDS; kind++)
        for (int who = 0; who < actor_kinds[kind]->count(s); who++)
            s->next_act_ms[kind][who] = s->now_ms + sim_between(&s->random, 1, s->swarm.pace_ms);
}

/* What comes after `settle` follows from its number, in a replay too: if its steps were part of the
 * scenario, one in which nobody acts any more would be the shortest that does not end. */
static void converge(struct sim *s, uint32_t arg)
{
    s->record = NULL;
    s->random = arg;
    deal(s);
    while (!s->has_failed && !is_settled(s))
        take_turn(s, checker_settled_by_ms(s));
}

static void generate(struct sim *s)
{
    deal(s);
    while (s->steps < s->swarm.steps && !s->has_failed)
        take_turn(s, INT64_MAX);
    struct step last = {.at_ms = s->now_ms,
                        .kind = ACTOR_SERVER,
                        .verb = s->has_failed ? server_wait : server_settle,
                        .arg = (uint32_t)sim_random(&s->random)};
    if (s->has_failed && s->record) /* it may be that all it takes is time */
        script_add(s->record, last);
    if (s->has_failed)
        return;
    act(s, last);
    converge(s, last.arg);
}

static void replay(struct sim *s, const struct script *script)
{
    for (size_t i = 0; i < script->count && !s->has_failed; i++) {
        sim_advance(s, MAX(script->steps[i].at_ms, s->now_ms));
        if (s->has_failed)
            return;
        act(s, script->steps[i]);
        if (s->is_settling) {
            converge(s, script->steps[i].arg);
            return;
        }
    }
}

/* What the store held when it failed, for whoever wants to know. */
static void dump(struct sim *s)
{
    const char *path = getenv("SIM_DUMP");
    sqlite3_int64 n = 0;
    if (!path || !s->core)
        return;
    unsigned char *data = sqlite3_serialize(s->store->db, "main", &n, 0);
    FILE *f = fopen(path, "w");
    data[18] = data[19] = 1; /* no WAL */
    fwrite(data, 1, (size_t)n, f);
    fclose(f);
}

static struct history finish(struct sim *s)
{
    if (s->has_failed)
        dump(s);
    if (!s->has_failed && s->core)
        checker_look_at_all(s);
    struct history o = {.has_failed = s->has_failed,
                        .hash = s->hash,
                        .ticks = s->ticks,
                        .steps = s->steps,
                        .events = (int64_t)s->checker->event_count,
                        .simulated_ms = s->now_ms,
                        .agents = s->fleet.conversation_count * s->swarm.roles,
                        .score = *why_score_of(s)};
    snprintf(o.promise, sizeof o.promise, "%s", s->promise);
    snprintf(o.why, sizeof o.why, "%s", s->why);
    sim_free(s);
    return o;
}

struct history run_seed(uint64_t seed, struct script *record, struct how how)
{
    struct swarm swarm = swarm_of_seed(seed);
    struct sim *s = sim_new(&swarm);
    if (record)
        record->swarm = swarm;
    s->record = record;
    s->traces = how.traces;
    s->stops_at_wrong_why = how.stops_at_wrong_why;
    generate(s);
    return finish(s);
}

struct history run_script(const struct script *script, struct how how)
{
    struct sim *s = sim_new(&script->swarm);
    s->traces = how.traces;
    s->stops_at_wrong_why = how.stops_at_wrong_why;
    replay(s, script);
    return finish(s);
}
