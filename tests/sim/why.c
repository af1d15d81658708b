/*
 * why.c: see why.h. The cause.
 *
 * What is true is put together from the world, and from rows of the store that other promises are
 * about (which task an agent has: HEAD; what is desired: P14; what is seen of processes: P22).
 * Where the world cannot know, several causes are true: a lease that may have been renewed by a
 * call whose answer was lost is fresh or not.
 */
#include "sim/why.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/params.h"
#include "sim/checker.h"
#include "sim/model.h"
#include "sim/why_model.h"
#include "sim/world.h"

enum { ASK_EVERY_MS = 6000, ALLOWED_MAX = 4, NO_PROGRESS_PART = 10 };

/* ---- remembering ---- */

struct oracle *why_new(void)
{
    return mem_zalloc(sizeof(struct oracle));
}

struct oracle *why_free(struct oracle *w)
{
    free(w->is_blocked);
    free(w->promises);
    free(w);
    return NULL;
}

const struct why_score *why_score_of(const struct sim *s)
{
    return &s->oracle->score;
}

bool *why_is_blocked(struct sim *s, int64_t conversation)
{
    struct oracle *w = s->oracle;
    size_t had = w->conversation_room;
    w->is_blocked = mem_grow(w->is_blocked, &w->conversation_room, (size_t)conversation + 1,
                             sizeof *w->is_blocked);
    if (w->conversation_room > had)
        memset(w->is_blocked + had, 0, (w->conversation_room - had) * sizeof *w->is_blocked);
    return &w->is_blocked[conversation];
}

void why_right(struct sim *s, bool is_of_move)
{
    s->oracle->score.moves += is_of_move;
    s->oracle->score.causes += !is_of_move;
}

void why_wrong(struct sim *s, bool is_of_move, const char *fmt, ...)
{
    struct why_score *score = &s->oracle->score;
    char text[sizeof score->first];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    why_right(s, is_of_move);
    sim_trace(s, "  why is wrong: %s", text);
    if (score->wrong++ == 0)
        memcpy(score->first, text, sizeof text);
    if (s->stops_at_wrong_why)
        sim_fail(s, "W16", "%s", text);
}

int why_machine(const char *name)
{
    bool is_ours = name[0] == 'm' && name[1] >= '0' && name[1] < '0' + SIM_MACHINES_MAX && !name[2];
    return is_ours ? name[1] - '0' : -1;
}

/* ---- what is true ---- */

/* The causes that are true of something: any of them is right. */
struct truth {
    const char *allowed[ALLOWED_MAX];
    int count;
};

static void allow(struct truth *t, const char *cause)
{
    t->allowed[t->count++] = cause;
}

static bool is_one(struct truth *t, const char *cause)
{
    allow(t, cause);
    return true;
}

/* An agent, by its rows. */
struct row {
    int64_t conversation, task, restart_ms, start, lease_ms, progress_ms;
    int64_t waiting, to_take, lent;
    int role;
    char desired[12], process[12], spawn[33], machine[8], start_machine[8], start_spawn[33],
        status[16], held[12], claimed_spawn[33], pinned[8];
    bool may_live, is_ensured, is_managed, is_misspelt, is_listening, is_breaker_open, is_crashed,
        is_seen;
};

static void copy(char *ret, size_t room, sqlite3_stmt *q, int column)
{
    snprintf(ret, room, "%s", look_text(q, column));
}

static bool read_row(struct sim *s, int64_t conversation, int role, struct row *r)
{
    char name[3] = {'r', (char)('0' + role), 0};
    *r = (struct row){.conversation = conversation, .role = role};
    sqlite3_stmt *q = look_at(s, LOOK_WHY_AGENT);
    sqlite3_bind_int64(q, 1, conversation);
    sqlite3_bind_text(q, 2, name, -1, SQLITE_TRANSIENT);
    if (!look_next(s, q))
        return false;
    copy(r->desired, sizeof r->desired, q, 0);
    r->is_ensured = look_int(q, 1);
    copy(r->process, sizeof r->process, q, 2);
    copy(r->spawn, sizeof r->spawn, q, 3);
    r->is_managed = !look_is_null(q, 4);
    r->is_misspelt = strncmp(look_text(q, 4), "misspelt", 8) == 0;
    copy(r->machine, sizeof r->machine, q, 5);
    r->is_listening = look_int(q, 6);
    r->task = look_int(q, 7);
    r->is_breaker_open = look_int(q, 8);
    r->is_crashed = look_int(q, 9);
    r->restart_ms = look_int(q, 10);
    r->start = look_int(q, 11);
    copy(r->start_machine, sizeof r->start_machine, q, 12);
    copy(r->start_spawn, sizeof r->start_spawn, q, 13);
    r->is_seen = look_int(q, 14);
    copy(r->status, sizeof r->status, q, 15);
    copy(r->held, sizeof r->held, q, 16);
    r->lease_ms = look_int(q, 17);
    copy(r->claimed_spawn, sizeof r->claimed_spawn, q, 18);
    r->progress_ms = look_int(q, 19);
    r->waiting = look_int(q, 20);
    r->to_take = look_int(q, 21);
    r->lent = look_int(q, 22);
    copy(r->pinned, sizeof r->pinned, q, 23);
    r->may_live = look_int(q, 24);
    look_end(s, q);
    return true;
}

static bool is(const char *have, const char *want)
{
    return strcmp(have, want) == 0;
}

/* ---- leases ---- */

static int64_t seconds_ms(int64_t seconds)
{
    return seconds * 1000;
}

/* No beat is missing of whoever was heard of then. */
static bool is_fresh(const struct sim *s, int64_t heard_ms, int64_t lease_ms, int64_t heartbeat_ms)
{
    return heard_ms &&
           due_ms(s->checker, heard_ms, (lease_ms + heartbeat_ms) / 2) > sim_server_ms(s);
}

static bool is_listener_fresh(const struct sim *s, int64_t heard_ms)
{
    const struct options *o = &s->swarm.options;
    return is_fresh(s, heard_ms, seconds_ms(option_get(o, liveness, ttl_seconds)),
                    seconds_ms(option_get(o, liveness, heartbeat_seconds)));
}

static int64_t polled_ms(const struct sim *s, const char *spawn)
{
    int64_t last_ms = 0;
    for (int i = 0; i < s->swarm.machines; i++)
        for (size_t k = 0; k < s->fleet.hosts[i].known_count; k++)
            if (spawn[0] && is(s->fleet.hosts[i].known[k].spawn, spawn))
                last_ms = later_ms(last_ms, s->fleet.hosts[i].known[k].polled_ms);
    return last_ms;
}

/* At the most: of the worker's beats we know the last that can have been. */
static bool may_worker_be_fresh(struct sim *s, const struct row *r)
{
    const struct options *o = &s->swarm.options;
    return is_fresh(s, known_task(s->checker, r->task)->beat_ms, r->lease_ms,
                    seconds_ms(option_get(o, liveness, heartbeat_seconds))) ||
           is_fresh(s, polled_ms(s, r->claimed_spawn),
                    seconds_ms(option_get(o, machine, ttl_seconds)),
                    seconds_ms(option_get(o, machine, heartbeat_seconds)));
}

/* ---- the cause of an agent ---- */

/* By the log: it went, and has not come back. */
static bool is_away(const struct sim *s, const char *machine)
{
    int m = why_machine(machine);
    return m < 0 || s->fleet.hosts[m].offline_ms > 0;
}

/* Nobody waits for what it may still run. */
static bool is_lost(const struct sim *s, const char *machine)
{
    int m = why_machine(machine);
    return m < 0 || !s->oracle->has_registered[m] || s->oracle->is_lost[m];
}

/* A person wants it up, or work does, or its kind, if its machine is known to say so: the second is
 * `restart always` and wants whatever should be up, the third is `restart never`. What has failed
 * is to come back with all but the third. */
static bool is_wanted(const struct sim *s, const struct row *r)
{
    int m = why_machine(r->machine), kind = r->role % SIM_KINDS;
    bool is_known = !r->is_misspelt && m >= 0 && s->oracle->has_registered[m];
    bool is_never = is_known && kind == 2, is_always = is_known && kind == 1;
    bool by_kind = r->is_crashed ? !is_never : is_always && r->is_ensured;
    return r->task || is(r->desired, "running") || (r->is_managed && by_kind);
}

static bool has_any_registered(const struct sim *s)
{
    for (int i = 0; i < s->swarm.machines; i++)
        if (s->oracle->has_registered[i])
            return true;
    return false;
}

/* Each of them offers every kind that is not misspelt. */
static bool is_any_there(const struct sim *s)
{
    for (int i = 0; i < s->swarm.machines; i++)
        if (s->oracle->has_registered[i] && !s->fleet.hosts[i].offline_ms)
            return true;
    return false;
}

static bool may_not_run(struct sim *s, const struct row *r, struct truth *t)
{
    const struct known_agent *k = known_agent(s->checker, r->conversation, r->role);
    if (is(r->process, "stopping") && is_away(s, r->machine))
        return is_one(t, "stopping_machine_away");
    if (is(r->process, "stopping")) {
        allow(t, "unstoppable"); /* how often it was told to is looked at elsewhere (P9) */
        return is_one(t, "stopping");
    }
    if (!r->is_managed && r->is_listening && k->is_stopped)
        return is_one(t, "leaving");
    if (known_conversation(s->checker, r->conversation)->has_ended)
        return is_one(t, "conversation_over");
    if (*why_is_blocked(s, r->conversation))
        return is_one(t, "conversation_blocked");
    return k->is_stopped && is_one(t, "stopped_by_person");
}

/* Progress is on record a minute late: that it has moved is certain, that it has not is not. */
static void allow_working(struct sim *s, const struct row *r, struct truth *t)
{
    int64_t limit_ms = seconds_ms(option_get(&s->swarm.options, pmo, active_reap_seconds));
    allow(t, "working");
    if (due_ms(s->checker, r->progress_ms, limit_ms / NO_PROGRESS_PART) <= sim_server_ms(s))
        allow(t, "no_progress");
}

static bool is_in_hand(struct sim *s, const struct row *r, struct truth *t)
{
    bool is_claimed = is(r->status, "acknowledged");
    if (!is_claimed && !is(r->status, "in_progress"))
        return false;
    allow(t, "worker_silent");
    if (!may_worker_be_fresh(s, r))
        return true;
    if (is_claimed)
        allow(t, "claimed");
    else
        allow_working(s, r, t);
    return true;
}

static bool waits_for_others(struct sim *s, const struct row *r, struct truth *t)
{
    if (is(r->status, "suspended") && r->waiting)
        return is_one(t, "tool_wait");
    if (is(r->status, "suspended") && r->lent && !r->to_take)
        return is_one(t, "results_taken");
    if (is(r->status, "pending") && r->held[0])
        return is_one(t, is(r->held, "machine") ? "held_for_machine" : "held_for_process");
    return is(r->process, "unknown") && !(is_lost(s, r->machine) && is_wanted(s, r)) &&
           is_one(t, "machine_away");
}

static bool is_attended(struct sim *s, const struct row *r, struct truth *t)
{
    const struct known_agent *k = known_agent(s->checker, r->conversation, r->role);
    if (!r->is_listening)
        return false;
    if (!is_listener_fresh(s, k->beat_ms)) {
        allow(t, "listener_silent");
        if (!is_listener_fresh(s, later_ms(k->beat_ms, k->granted_ms)))
            return true;
    }
    return is_one(t, is(r->status, "suspended") ? "results_ready"
                     : r->task                  ? "offered"
                                                : "waiting");
}

/* Where it would be started; false: there is a place. */
static bool has_no_place(const struct sim *s, const struct row *r, struct truth *t)
{
    int pinned = why_machine(r->pinned);
    if (r->pinned[0] && (pinned < 0 || !s->oracle->has_registered[pinned]))
        return is_one(t, "machine_unknown");
    if (r->pinned[0])
        return is_away(s, r->pinned) && is_one(t, "machine_offline");
    if (r->machine[0] && !is_lost(s, r->machine) && is_away(s, r->machine) && r->may_live)
        return is_one(t, "machine_offline");
    if (!has_any_registered(s))
        return is_one(t, "no_machine");
    if (r->is_misspelt)
        return is_one(t, "kind_not_offered");
    return !is_any_there(s) && is_one(t, "kind_offline");
}

static bool cannot_start(struct sim *s, const struct row *r, struct truth *t)
{
    bool is_up = is(r->process, "running");
    if (!r->is_managed)
        return is_one(t, is_wanted(s, r) ? "unmanaged" : "absent");
    if (r->is_breaker_open && !is_up)
        return is_one(t, "breaker_open");
    if (!is_wanted(s, r))
        return false;
    if (r->restart_ms > sim_server_ms(s) && !is_up)
        return is_one(t, "crashed");
    return !is_up && (!r->start || !r->start_machine[0]) && has_no_place(s, r, t);
}

static bool is_on_its_way(const struct row *r, struct truth *t)
{
    if (!r->start)
        return false;
    bool is_of_current = is(r->start_spawn, r->spawn);
    if (r->is_seen && !is_of_current)
        return is_one(t, "replacing");
    return is_one(t, is(r->process, "running") ? "not_ready" : "starting");
}

static struct truth true_of_agent(struct sim *s, const struct row *r)
{
    struct truth t = {0};
    if (may_not_run(s, r, &t) || is_in_hand(s, r, &t) || waits_for_others(s, r, &t) ||
        is_attended(s, r, &t) || cannot_start(s, r, &t) || is_on_its_way(r, &t))
        return t;
    if (is(r->process, "running"))
        allow(&t, r->task ? "not_listening" : "running");
    else if (r->task)
        allow(&t, "unattended");
    else if (is_wanted(s, r))
        allow(&t, r->is_ensured ? "unattended" : "ended");
    else
        allow(&t, r->is_crashed ? "crashed_and_idle" : "idle");
    return t;
}

/* ---- of a task, a conversation, a machine ---- */

static struct truth true_of_task(struct sim *s, int64_t task, int64_t *ret_conversation)
{
    struct truth t = {0};
    struct row r;
    char status[16];
    sqlite3_stmt *q = look_at(s, LOOK_WHY_TASK);
    sqlite3_bind_int64(q, 1, task);
    if (!look_next(s, q))
        return t;
    int64_t conversation = look_int(q, 0);
    int role = role_number(look_text(q, 1));
    snprintf(status, sizeof status, "%s", look_text(q, 2));
    bool is_over = !look_is_null(q, 3);
    look_end(s, q);
    *ret_conversation = conversation;
    if (is_over)
        allow(&t, "task_over");
    else if (is(status, "queued") && !*why_is_blocked(s, conversation))
        allow(&t, "task_queued");
    else if (read_row(s, conversation, role, &r))
        t = true_of_agent(s, &r);
    return t;
}

static struct truth true_of_conversation(struct sim *s, int64_t conversation)
{
    struct truth t = {0};
    const struct known_conversation *k = known_conversation(s->checker, conversation);
    sqlite3_stmt *q = look_at(s, LOOK_WHY_OPEN);
    sqlite3_bind_int64(q, 1, conversation);
    bool is_busy = look_next(s, q) && look_int(q, 0) > 0;
    look_end(s, q);
    allow(&t, k->has_ended                       ? "conversation_over"
              : *why_is_blocked(s, conversation) ? "conversation_blocked"
              : is_busy                          ? "busy"
              : k->turn_is_open                  ? "turn_open"
                                                 : "quiet");
    return t;
}

static struct truth true_of_machine(const struct sim *s, int machine)
{
    struct truth t = {0};
    bool is_away = s->fleet.hosts[machine].offline_ms > 0;
    allow(&t, is_away ? "machine_held" : "machine_online");
    allow(&t, is_away ? "machine_gone" : "machine_silent");
    return t;
}

/* ---- asking ---- */

static void compare(struct sim *s, const char *about, const struct truth *t, const struct json *why)
{
    struct str cause = params_str(why, "cause"), says = params_str(why, "says");
    for (int i = 0; i < t->count; i++)
        if (str_is(cause, t->allowed[i])) {
            why_right(s, false);
            return;
        }
    why_wrong(s, false, "%s: the cause is %.*s, and in truth %s%s%s; it says: %.*s", about,
              STR_ARG(cause), t->count ? t->allowed[0] : "nothing", t->count > 1 ? " or " : "",
              t->count > 1 ? t->allowed[1] : "", (int)MIN(says.n, (size_t)120), says.p);
}

static const struct json *ask(struct sim *s, struct arena *a, const char *method,
                              const char *params)
{
    return sim_ask_now(s, a, method, params);
}

static void ask_agent(struct sim *s, struct arena *a, int64_t conversation, int role)
{
    char params[80], about[40];
    struct row r;
    snprintf(params, sizeof params, "{\"conversation\":%lld,\"role\":\"r%d\"}",
             (long long)conversation, role);
    snprintf(about, sizeof about, "%lld:r%d", (long long)conversation, role);
    const struct json *why = ask(s, a, "agent.why", params);
    if (!why || !read_row(s, conversation, role, &r))
        return;
    struct truth t = true_of_agent(s, &r);
    compare(s, about, &t, why);
    promise_note(s, conversation, role, why);
}

static void ask_task(struct sim *s, struct arena *a, int64_t task)
{
    char params[40], about[40];
    int64_t conversation = 0;
    snprintf(params, sizeof params, "{\"task\":%lld}", (long long)task);
    snprintf(about, sizeof about, "task %lld", (long long)task);
    const struct json *why = ask(s, a, "task.why", params);
    struct truth t = true_of_task(s, task, &conversation);
    if (why && t.count)
        compare(s, about, &t, why);
}

static void ask_conversation(struct sim *s, struct arena *a, int64_t conversation)
{
    char params[40], about[40];
    snprintf(params, sizeof params, "{\"conversation\":%lld}", (long long)conversation);
    snprintf(about, sizeof about, "conversation %lld", (long long)conversation);
    const struct json *why = ask(s, a, "conversation.why", params);
    struct truth t = true_of_conversation(s, conversation);
    if (why)
        compare(s, about, &t, why);
}

static void ask_machine(struct sim *s, struct arena *a, int machine)
{
    char params[40], about[16];
    if (!s->oracle->has_registered[machine])
        return;
    snprintf(params, sizeof params, "{\"machine\":\"m%d\"}", machine);
    snprintf(about, sizeof about, "m%d", machine);
    const struct json *why = ask(s, a, "machine.why", params);
    struct truth t = true_of_machine(s, machine);
    if (why)
        compare(s, about, &t, why);
}

/* Most often an agent: it has the most to tell. */
static void ask_somebody(struct sim *s, struct arena *a)
{
    const struct fleet *f = &s->fleet;
    uint64_t n = (uint64_t)s->oracle->asked++;
    uint64_t pick = n * UINT64_C(0x9E3779B97F4A7C15) >> 20;
    int64_t conversation = f->conversations[pick % (uint64_t)f->conversation_count];
    if (n % 8 == 5 && f->task_count)
        ask_task(s, a, f->tasks[pick % (uint64_t)f->task_count]);
    else if (n % 16 == 3)
        ask_conversation(s, a, conversation);
    else if (n % 16 == 11 && s->swarm.machines)
        ask_machine(s, a, (int)(pick % (uint64_t)s->swarm.machines));
    else
        ask_agent(s, a, conversation, (int)(pick / 64 % (uint64_t)s->swarm.roles));
}

/* While the disk refuses, or did a moment ago, what is due is late. */
static bool is_hindered(const struct sim *s)
{
    return s->disk_is_bad || !core_is_writable(s->core) ||
           clock_mono_us() / 1000 <= s->checker->refused_until_mono_ms + 2 * LATE_MS;
}

void why_at_rest(struct sim *s)
{
    struct arena a = ARENA_INIT;
    int64_t now_ms = sim_server_ms(s);
    if (is_hindered(s)) {
        why_disturbed(s);
        return;
    }
    promises_look(s);
    if (s->fleet.conversation_count == 0 || llabs(now_ms - s->oracle->asked_ms) < ASK_EVERY_MS)
        return;
    s->oracle->asked_ms = now_ms;
    ask_somebody(s, &a);
    arena_release(&a);
}
