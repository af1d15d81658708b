/*
 * wishes.c: see model.h. What persons want of agents: P14.
 *
 * A wish is known when it is answered. Of one that a server had in hand when it died, and of its
 * repeats, nobody knows whether it was done before: then the store is asked, once, what holds.
 */
#include <stdio.h>
#include <string.h>

#include "sim/checker.h"
#include "sim/model.h"
#include "sim/world.h"

static bool is_about(const struct ask *a, int role)
{
    bool is_wish = a->method == ASK_AGENT_STOP || a->method == ASK_AGENT_START ||
                   a->method == ASK_AGENT_RESTART;
    return a->kind == ACTOR_PERSON && (a->method == ASK_ENSURE || (is_wish && a->role == role));
}

void doubt_wish(struct sim *s, const struct ask *a)
{
    for (int role = 0; role < SIM_ROLES_MAX; role++)
        if (is_about(a, role))
            known_agent(s->checker, a->conversation, role)->may_be_stopped =
                s->checker->has_doubts = true;
}

void end_doubts(struct sim *s)
{
    if (!s->checker->has_doubts)
        return;
    sqlite3_stmt *q = look_at(s, LOOK_AGENTS);
    while (look_next(s, q)) {
        int role = role_number(look_text(q, 1));
        struct known_agent *k = known_agent(s->checker, look_int(q, 0), role);
        if (!k->may_be_stopped)
            continue;
        k->may_be_stopped = k->was_stopped = false;
        k->is_stopped = strcmp(look_text(q, 2), "stopped") == 0;
    }
    s->checker->has_doubts = false;
}

void note_wish(struct sim *s, const struct ask *a)
{
    if (!has_new_effect(s, a)) {
        if (has_effect(s, a))
            doubt_wish(s, a);
        return;
    }
    for (int role = 0; role < SIM_ROLES_MAX; role++) {
        struct known_agent *k = known_agent(s->checker, a->conversation, role);
        if (!is_about(a, role))
            continue;
        k->is_stopped = a->method == ASK_AGENT_STOP;
        k->was_stopped &= k->is_stopped;
    }
}

/* ---- what is done about them ---- */

void p14_a_stop_stands(struct sim *s, const char *type, int64_t conversation, const char *role,
                       int64_t command)
{
    int number = role_number(role);
    if (number < 0 || strcmp(type, "stop-agent") == 0)
        return;
    const struct known_agent *k = known_agent(s->checker, conversation, number);
    if (k->was_stopped && k->is_stopped)
        sim_fail(s, "P14", "command %lld starts %lld:%s, which a person stopped",
                 (long long)command, (long long)conversation, role);
}

void p14_desired_is_a_persons(struct sim *s, sqlite3_stmt *q)
{
    int role = role_number(look_text(q, 1));
    const struct known_agent *k = known_agent(s->checker, look_int(q, 0), role);
    if (k->is_stopped != (strcmp(look_text(q, 2), "stopped") == 0))
        sim_fail(s, "P14", "%lld:r%d is desired %s; a person %s", (long long)look_int(q, 0), role,
                 look_text(q, 2), k->is_stopped ? "stopped it" : "did not stop it");
}

void wishes_are_known(struct checker *c)
{
    for (size_t i = 0; i < c->agent_room; i++)
        c->agents[i].was_stopped = c->agents[i].is_stopped;
}
