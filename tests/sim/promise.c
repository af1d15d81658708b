/*
 * promise.c: see why.h. The next move.
 *
 * A promise is what agent.why said would happen next to an agent, and when. It is kept until the
 * ladder moves the agent: then it was right, or it was not. Until then nothing may happen that
 * bears on it; whatever arrives for the agent, for its conversation or from a machine ends the
 * promise, except what was taken for granted: beats, where the promise assumes them.
 *
 * A move is an event of the ladder after which something has changed. A rule that was to start an
 * agent and ordered no start has moved nothing, though it has written its event.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "rpc/params.h"
#include "sim/checker.h"
#include "sim/model.h"
#include "sim/why_model.h"
#include "sim/world.h"

static struct promise *promise_of(struct sim *s, int64_t conversation, int role)
{
    struct oracle *w = s->oracle;
    size_t at = (size_t)(conversation * SIM_ROLES_MAX + role), had = w->promise_room;
    w->promises = mem_grow(w->promises, &w->promise_room, at + 1, sizeof *w->promises);
    if (w->promise_room > had)
        memset(w->promises + had, 0, (w->promise_room - had) * sizeof *w->promises);
    return &w->promises[at];
}

static bool is(const struct promise *p, const char *rule)
{
    return strcmp(p->rule, rule) == 0;
}

static bool is_of_conversation(const struct promise *p)
{
    return strncmp(p->rule, "conversation.", 13) == 0 || strncmp(p->rule, "session.", 8) == 0;
}

/* The end of a lease that whoever holds it can renew. */
static bool is_of_lease(const char *rule)
{
    static const char *const rules[] = {"participant.expire", "task.orphaned", "task.acknowledged",
                                        "inbox.processing", "machine.offline"};
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (strcmp(rule, rules[i]) == 0)
            return true;
    return false;
}

/* The newest order to start this agent. */
static int64_t last_start(struct sim *s, int64_t conversation, int role)
{
    char name[3] = {'r', (char)('0' + role), 0};
    sqlite3_stmt *q = look_at(s, LOOK_WHY_LAST_START);
    sqlite3_bind_int64(q, 1, conversation);
    sqlite3_bind_text(q, 2, name, -1, SQLITE_TRANSIENT);
    int64_t last = look_next(s, q) ? look_int(q, 0) : 0;
    look_end(s, q);
    return last;
}

/* ---- what ends a promise ---- */

void why_disturbed(struct sim *s)
{
    for (size_t i = 0; i < s->oracle->promise_room; i++)
        s->oracle->promises[i].is_open = false;
}

static bool only_looks(enum ask_method method)
{
    return method == ASK_AGENTS || method == ASK_INBOX || method == ASK_MESSAGE ||
           method == ASK_SUBSCRIBE || method == ASK_RUN_ONCE || method == ASK_CREATE;
}

static bool is_beat(const struct ask *a)
{
    return a->method == ASK_WAIT || a->method == ASK_POLL || a->method == ASK_RECEIVE ||
           (a->method == ASK_HEARTBEAT && !strstr(a->params, "progress"));
}

static bool is_of_machines(const struct ask *a)
{
    return a->kind == ACTOR_MACHINE;
}

/* Of what the request is about: everything, if that cannot be said. */
static bool bears_on(const struct ask *a, const struct promise *p, int64_t conversation, int role)
{
    if (is_beat(a) && !is_of_lease(p->rule))
        return false;
    if (is_of_machines(a))
        return p->machine >= 0 || !is_beat(a);
    if (!a->conversation)
        return true;
    if (a->conversation != conversation)
        return false;
    return a->role < 0 || a->role == role || is_of_conversation(p) || a->method == ASK_SAY;
}

void why_input(struct sim *s, const struct ask *a)
{
    if (only_looks(a->method))
        return;
    for (size_t i = 0; i < s->oracle->promise_room; i++) {
        struct promise *p = &s->oracle->promises[i];
        if (p->is_open && bears_on(a, p, (int64_t)i / SIM_ROLES_MAX, (int)(i % SIM_ROLES_MAX)))
            p->is_open = false;
    }
}

/* ---- what is promised ---- */

static bool read_time(struct str iso, int64_t *ret_ms)
{
    char text[32];
    struct tm tm = {0};
    int ms;
    snprintf(text, sizeof text, "%.*s", STR_ARG(iso));
    if (sscanf(text, "%d-%d-%dT%d:%d:%d.%dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &ms) != 7)
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret_ms = (int64_t)timegm(&tm) * 1000 + ms;
    return true;
}

/* Told again, with nothing in between: it is the same. Silence alone may end an assumption. */
static bool is_as_before(struct sim *s, const struct promise *before, const struct promise *now,
                         int64_t conversation, int role)
{
    if (!before->is_open || before->assumes_beats)
        return true;
    if (strcmp(before->rule, now->rule) == 0 && before->due_ms == now->due_ms)
        return true;
    why_wrong(s, true,
              "%lld:r%d: %s at %lld was promised, and now, with nothing in between, %s at %lld",
              (long long)conversation, role, before->rule, (long long)before->due_ms, now->rule,
              (long long)now->due_ms);
    return false;
}

static int machine_of(struct sim *s, int64_t conversation, int role)
{
    char name[3] = {'r', (char)('0' + role), 0};
    int machine = -1;
    sqlite3_stmt *q = look_at(s, LOOK_WHY_AGENT);
    sqlite3_bind_int64(q, 1, conversation);
    sqlite3_bind_text(q, 2, name, -1, SQLITE_TRANSIENT);
    if (look_next(s, q) && strcmp(look_text(q, 2), "none") != 0)
        machine = why_machine(look_text(q, 5));
    look_end(s, q);
    return machine;
}

void promise_note(struct sim *s, int64_t conversation, int role, const struct json *why)
{
    struct promise *p = promise_of(s, conversation, role), now = {.is_open = true};
    const struct json *next = json_get(why, "next");
    struct str rule = params_str(next, "rule");
    snprintf(now.rule, sizeof now.rule, "%.*s", STR_ARG(rule));
    if (rule.n && !read_time(params_str(next, "dueAt"), &now.due_ms))
        sim_fail(s, "W16", "dueAt is no time: %.*s", STR_ARG(why->span));
    now.is_of_stop = str_is(params_str(next, "what"), "its stop");
    now.assumes_beats = params_str(next, "assumes").n > 0 || !rule.n;
    now.asked_ms = sim_server_ms(s);
    now.last_start = last_start(s, conversation, role);
    now.machine = machine_of(s, conversation, role);
    if (is_as_before(s, p, &now, conversation, role))
        *p = now;
    else
        p->is_open = false;
}

/* ---- what happens ---- */

static bool is_rule_of(const struct promise *p, const char *rule)
{
    bool is_idle = strcmp(rule, "conversation.idle") == 0; /* the event is the same for both */
    return is(p, rule) || (is_idle && is(p, "conversation.global_idle"));
}

/* The ladder has moved the agent. */
static void moved(struct sim *s, int64_t conversation, int role, const char *rule, int64_t at_ms)
{
    struct promise *p = promise_of(s, conversation, role);
    if (!p->is_open || at_ms < p->asked_ms)
        return;
    p->is_open = false;
    if (is_rule_of(p, rule) && at_ms >= p->due_ms && at_ms <= p->due_ms + LATE_MS)
        why_right(s, true);
    else if (!(p->assumes_beats && is_of_lease(rule))) /* whoever beat has fallen silent */
        why_wrong(s, true, "%lld:r%d: %s at %lld was promised at %lld; %s came at %lld",
                  (long long)conversation, role, p->rule[0] ? p->rule : "nothing",
                  (long long)p->due_ms, (long long)p->asked_ms, rule, (long long)at_ms);
}

static void moved_all_of(struct sim *s, int64_t conversation, const char *rule, int64_t at_ms)
{
    for (int role = 0; role < s->swarm.roles; role++)
        moved(s, conversation, role, rule, at_ms);
}

static void moved_all_on(struct sim *s, int machine, int64_t at_ms)
{
    for (size_t i = 0; i < s->oracle->promise_room; i++)
        if (s->oracle->promises[i].is_open && s->oracle->promises[i].machine == machine)
            moved(s, (int64_t)i / SIM_ROLES_MAX, (int)(i % SIM_ROLES_MAX), "machine.offline",
                  at_ms);
}

/* The fence moves who was promised it, and whoever is started elsewhere. Of the others something
 * may have changed that they wait for. */
static void fenced_all_on(struct sim *s, int machine, int64_t at_ms)
{
    for (size_t i = 0; i < s->oracle->promise_room; i++) {
        struct promise *p = &s->oracle->promises[i];
        int64_t conversation = (int64_t)i / SIM_ROLES_MAX;
        int role = (int)(i % SIM_ROLES_MAX);
        if (!p->is_open || p->machine != machine)
            continue;
        if (is(p, "machine.offline") || last_start(s, conversation, role) != p->last_start)
            moved(s, conversation, role, "machine.offline", at_ms);
        p->is_open = false;
    }
}

/* Work of another agent may have kept the conversation from being idle. */
static void forget_conversation(struct sim *s, int64_t conversation)
{
    for (int role = 0; role < s->swarm.roles; role++) {
        struct promise *p = promise_of(s, conversation, role);
        if (is_of_conversation(p))
            p->is_open = false;
    }
}

/* A rule that starts agents: it has moved something if there is a start now. */
static bool is_starting_rule(const char *rule)
{
    return strcmp(rule, "task.unattended") == 0 || strcmp(rule, "task.unresumed") == 0 ||
           strcmp(rule, "agent.exited") == 0;
}

static bool is_ring(const char *rule)
{
    return strcmp(rule, "inbox.pending") == 0 || strcmp(rule, "dispatch.retry") == 0;
}

static void take_move(struct sim *s, int64_t conversation, const char *rule, int64_t at_ms,
                      const struct json *data)
{
    struct str agent = params_str(data, "agent");
    int role = agent.n > 2 ? agent.p[agent.n - 1] - '0' : -1;
    bool is_message = strcmp(rule, "inbox.processing") == 0 &&
                      !str_is(params_str(data, "messageType"), "turn") &&
                      params_str(data, "messageType").n > 0;
    if (role < 0 || role >= s->swarm.roles || is_ring(rule) || is_message)
        return;
    int64_t of = params_int(data, "conversation", conversation);
    struct promise *p = promise_of(s, of, role);
    if (is_starting_rule(rule) && last_start(s, of, role) == p->last_start)
        return;
    if (str_is(params_str(data, "type"), "stop-agent") && !p->is_of_stop)
        return; /* of a process that the agent had before */
    moved(s, of, role, rule, at_ms);
    forget_conversation(s, of);
}

/* A machine is gone on which they could have been made. */
static void forget_starts(struct sim *s)
{
    for (size_t i = 0; i < s->oracle->promise_room; i++) {
        struct promise *p = &s->oracle->promises[i];
        if (is_starting_rule(p->rule) || is(p, "machine.offline"))
            p->is_open = false;
    }
}

static void note_machine(struct sim *s, const char *kind, int64_t at_ms, const struct json *data)
{
    char name[8];
    snprintf(name, sizeof name, "%.*s", STR_ARG(params_str(data, "machine")));
    int machine = why_machine(name);
    if (machine < 0)
        return;
    if (strcmp(kind, "machine.offline") == 0) {
        moved_all_on(s, machine, at_ms);
        forget_starts(s);
        return;
    }
    if (strcmp(kind, "machine.fenced") == 0) {
        s->oracle->is_lost[machine] = true;
        fenced_all_on(s, machine, at_ms);
        return;
    }
    s->oracle->is_lost[machine] = false;
    if (strcmp(kind, "machine.forgotten") == 0)
        s->oracle->has_registered[machine] = false;
    if (strcmp(kind, "machine.registered") == 0)
        s->oracle->has_registered[machine] = true;
    why_disturbed(s);
}

void why_told(struct sim *s, int64_t conversation, int64_t ts_ms, const char *kind,
              const struct json *data)
{
    if (strncmp(kind, "machine.", 8) == 0)
        note_machine(s, kind, ts_ms, data);
    else if (strcmp(kind, "runtime.watchdog.cancel") == 0) {
        *why_is_blocked(s, conversation) = true;
        moved_all_of(s, conversation, "session.wall_clock", ts_ms);
    } else if (strcmp(kind, "runtime.resumed") == 0)
        *why_is_blocked(s, conversation) = false;
    else if (strcmp(kind, "idle_timeout") == 0)
        moved_all_of(s, conversation, "conversation.idle", ts_ms);
    else if (strcmp(kind, "agent.force_terminated") == 0) {
        char rule[32];
        snprintf(rule, sizeof rule, "%.*s", STR_ARG(params_str(data, "rule")));
        take_move(s, conversation, rule, ts_ms, data);
    } else if (strncmp(kind, "watch.", 6) == 0 && strcmp(kind, "watch.gap") != 0)
        take_move(s, conversation, kind + 6, ts_ms, data);
}

/* Nothing came, and nothing stood in the way. */
void promises_look(struct sim *s)
{
    int64_t now_ms = sim_server_ms(s);
    for (size_t i = 0; i < s->oracle->promise_room; i++) {
        struct promise *p = &s->oracle->promises[i];
        if (!p->is_open || !p->rule[0] || now_ms <= could_be_ms(s->checker, p->due_ms) + LATE_MS)
            continue;
        p->is_open = false;
        why_wrong(s, true, "%lld:r%d: %s at %lld was promised at %lld; nothing came by %lld",
                  (long long)i / SIM_ROLES_MAX, (int)(i % SIM_ROLES_MAX), p->rule,
                  (long long)p->due_ms, (long long)p->asked_ms, (long long)now_ms);
    }
}
