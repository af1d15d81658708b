/*
 * checker.c: see checker.h. Promises that show in single events and single answers.
 *
 * An event is looked at once, when the tick that wrote it is committed; after a crash the whole log
 * is read again and compared with what had been there (P12). An answer is compared with what the
 * store holds at that moment: what it tells of must be in it.
 */
#include "sim/checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/params.h"
#include "sim/model.h"
#include "sim/why.h"
#include "sim/world.h"

#define KEYS_KEPT_MS INT64_C(86000000)

/* ---- events ---- */

static void p6_the_log_has_no_holes(struct sim *s, const struct told *e)
{
    struct known_conversation *k = known_conversation(s->checker, e->conversation);
    if (e->seq != k->last_seq + 1)
        sim_fail(s, "P6", "conversation %lld: seq %lld follows %lld", (long long)e->conversation,
                 (long long)e->seq, (long long)k->last_seq);
    if (k->has_ended)
        sim_fail(s, "P6", "conversation %lld: event %lld (%s %s) after the terminal message",
                 (long long)e->conversation, (long long)e->id, e->type, e->kind);
    k->last_seq = e->seq;
}

static bool is_ladder_reason(struct str reason)
{
    return str_is(reason, "dispatch_timeout") || str_is(reason, "timeout_reaped_by_watchdog") ||
           str_is(reason, "task_deadline_exceeded") || str_is(reason, "attempts_exhausted");
}

/* The one terminal event of a task. */
static void p7_one_end(struct sim *s, const struct told *e)
{
    struct known_task *t = known_task(s->checker, params_int(e->data, "task", 0));
    struct str reason = params_str(e->data, "reason");
    if (++t->terminal_events > 1)
        sim_fail(s, "P7", "task %lld: a second terminal event, %lld",
                 (long long)params_int(e->data, "task", 0), (long long)e->id);
    if (!reason.n)
        sim_fail(s, "P7", "task %lld has ended without a reason",
                 (long long)params_int(e->data, "task", 0));
    t->ended_in = (int64_t)s->ticks;
    t->ended_by_rule = is_ladder_reason(reason);
    t->ended_by_force = t->ended_by_rule || str_is(reason, "canceled_by_user");
    if (str_is(reason, "conversation_ended"))
        known_conversation(s->checker, e->conversation)->ended_tasks_in = (int64_t)s->ticks;
}

static void p10_every_end_leaves_something(struct sim *s, const struct told *e)
{
    int64_t card = params_int(e->data, "deliverable_card_id", 0),
            task = params_int(e->data, "task", 0);
    bool has_why = params_str(e->data, "deliverable_error").n > 0;
    if (!card) {
        if (!has_why && is_ladder_reason(params_str(e->data, "reason")))
            sim_fail(s, "P10", "task %lld: no deliverable, and no word why", (long long)task);
        return;
    }
    sqlite3_stmt *q = look_at(s, LOOK_CARD);
    sqlite3_bind_int64(q, 1, card);
    sqlite3_bind_int64(q, 2, task);
    bool is_there = look_next(s, q);
    look_end(s, q);
    if (!is_there)
        sim_fail(s, "P10", "task %lld: its card %lld does not exist", (long long)task,
                 (long long)card);
}

/* Moves that are made by rules say on what evidence and by which limit. */
static void p13_moves_have_reasons(struct sim *s, const struct told *e)
{
    bool is_forced = strcmp(e->kind, "agent.force_terminated") == 0;
    bool is_rule =
        strncmp(e->kind, "watch.task.", 11) == 0 || strncmp(e->kind, "watch.tool.", 11) == 0 ||
        strncmp(e->kind, "watch.inbox.", 12) == 0 || strncmp(e->kind, "watch.dispatch.", 15) == 0 ||
        strcmp(e->kind, "watch.participant.expire") == 0;
    if (is_forced)
        known_task(s->checker, params_int(e->data, "task", 0))->forced_in = (int64_t)s->ticks;
    bool has_evidence = json_get(e->data, "limit") || json_get(e->data, "evidence");
    if ((is_forced || is_rule) && !has_evidence)
        sim_fail(s, "P13", "event %lld, %s, names no limit: %s", (long long)e->id, e->kind,
                 e->payload);
}

/* A budget fires once per window. */
static void p20_one_cancel(struct sim *s, const struct told *e)
{
    struct known_conversation *k = known_conversation(s->checker, e->conversation);
    int64_t window = params_int(e->data, "window", 0);
    if (window <= k->cancelled_window)
        sim_fail(s, "P20", "conversation %lld: window %lld is cancelled again",
                 (long long)e->conversation, (long long)window);
    k->cancelled_window = window;
    int64_t elapsed = params_int(e->data, "elapsed_seconds", 0),
            budget = params_int(e->data, "configured_budget_seconds", 0);
    if (elapsed < budget)
        sim_fail(s, "P20", "conversation %lld: blocked after %lld of %lld seconds",
                 (long long)e->conversation, (long long)elapsed, (long long)budget);
}

/* Nobody who was heard of in time is taken for gone; unwatched time counts for nothing. */
static void p1_who_beats_is_there(struct sim *s, const struct told *e)
{
    struct str agent = params_str(e->data, "agent");
    int role = agent.n > 2 ? agent.p[agent.n - 1] - '0' : -1;
    if (role < 0 || role >= SIM_ROLES_MAX)
        return;
    int64_t conversation = params_int(e->data, "conversation", 0),
            ttl_ms = option_get(&s->swarm.options, liveness, ttl_seconds) * 1000;
    struct known_agent *k = known_agent(s->checker, conversation, role);
    int64_t watched_ms = e->ts_ms - k->beat_ms - unwatched_ms(s->checker, k->beat_ms, e->ts_ms);
    if (k->is_listening && watched_ms <= ttl_ms)
        sim_fail(s, unwatched_ms(s->checker, k->beat_ms, e->ts_ms) ? "P16" : "P1",
                 "%lld:r%d was heard %lld ms ago and is expired; its lease is %lld ms",
                 (long long)conversation, role, (long long)watched_ms, (long long)ttl_ms);
    read_gaps(s);
    int64_t due = due_ms(s->checker, later_ms(k->beat_ms, k->granted_ms), ttl_ms);
    bool is_excused = s->disk_is_bad || due <= s->checker->refused_until_ms + 2000;
    if (k->is_listening && e->ts_ms > could_be_ms(s->checker, due) + LATE_MS && !is_excused)
        sim_fail(s, "P2", "%lld:r%d is expired at %lld; it was due at %lld",
                 (long long)conversation, role, (long long)e->ts_ms, (long long)due);
    k->is_listening = false;
    k->unlistened_ms = e->ts_ms;
}

static void note_exit(struct sim *s, const struct told *e)
{
    struct str agent = params_str(e->data, "agent");
    int role = agent.n > 2 ? agent.p[agent.n - 1] - '0' : -1;
    int64_t conversation = params_int(e->data, "conversation", 0);
    if (role >= 0 && role < SIM_ROLES_MAX && conversation) {
        struct known_agent *k = known_agent(s->checker, conversation, role);
        k->is_listening = false; /* its own process, or another: at least it may be so */
        k->unlistened_ms = e->ts_ms;
    }
}

static void note_idle(struct sim *s, const struct told *e)
{
    known_conversation(s->checker, e->conversation)->idle_in = (int64_t)s->ticks;
}

static const struct {
    const char *kind;
    void (*check)(struct sim *s, const struct told *e);
} of_kind[] = {
    {"agent.task", p7_one_end},
    {"agent.task", p10_every_end_leaves_something},
    {"runtime.watchdog.cancel", p20_one_cancel},
    {"watch.participant.expire", p1_who_beats_is_there},
    {"agent.exited", note_exit},
    {"idle_timeout", note_idle},
    {"machine.offline", note_offline},
    {"machine.online", note_online},
    {"machine.registered", note_online},
    {"machine.forgotten", note_forgotten},
    {"machine.fenced", p16_a_fence_is_watched},
    {"watch.command.expired", p16_an_order_had_its_time},
    {"agent.given_up", p21_a_process_is_given_up_late},
    {"agent.given_up", note_exit},
};

static void note_message(struct sim *s, const struct told *e)
{
    struct known_conversation *k = known_conversation(s->checker, e->conversation);
    bool is_system = strcmp(e->type, "system") == 0;
    if (strcmp(e->finality, "conversation") == 0)
        k->has_ended = true;
    if (!is_system && strncmp(e->author, "system-", 7) != 0)
        k->activity_ms = e->ts_ms;
    if (!is_system)
        k->turn_is_open = strcmp(e->finality, "none") == 0;
}

static void take_event(struct sim *s, struct told *e)
{
    struct arena arena = ARENA_INIT;
    const struct json *payload = NULL;
    struct err err = ERR_INIT;
    e->kind = "";
    char kind[64] = "";
    if (strcmp(e->type, "system") == 0 &&
        json_parse(&arena, str_of(e->payload), 64, &payload, &err) == 0) {
        struct str k = params_str(payload, "kind");
        snprintf(kind, sizeof kind, "%.*s", STR_ARG(k));
        e->kind = kind;
        e->data = json_get(payload, "data");
    }
    p6_the_log_has_no_holes(s, e);
    note_message(s, e);
    p13_moves_have_reasons(s, e);
    for (size_t i = 0; i < ARRAY_LEN(of_kind); i++)
        if (strcmp(of_kind[i].kind, e->kind) == 0)
            of_kind[i].check(s, e);
    inbox_told(s, e->kind, e->data);
    why_told(s, e->conversation, e->ts_ms, e->kind, e->data);
    arena_release(&arena);
}

static uint64_t hash_event(sqlite3_stmt *q)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int column = 0; column < 10; column++)
        for (const char *p = look_text(q, column); *p; p++)
            hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    return hash;
}

static void read_event(struct sim *s, sqlite3_stmt *q)
{
    struct checker *c = s->checker;
    struct told e = {.id = look_int(q, 0),
                     .conversation = look_int(q, 1),
                     .seq = look_int(q, 2),
                     .ts_ms = look_int(q, 5)};
    c->events = mem_grow(c->events, &c->event_room, c->event_count + 1, sizeof *c->events);
    c->events[c->event_count++] = (struct known_event){e.id, hash_event(q)};
    e.type = look_text(q, 6);
    e.finality = look_text(q, 7);
    e.author = look_text(q, 8);
    e.payload = look_text(q, 9);
    sim_hash(s, &c->events[c->event_count - 1], sizeof *c->events);
    sim_trace(s, "     event %lld of %lld at %lld by %s: %.200s", (long long)e.id,
              (long long)e.conversation, (long long)e.ts_ms, e.author, e.payload);
    take_event(s, &e);
}

static int64_t last_event(const struct checker *c)
{
    return c->event_count ? c->events[c->event_count - 1].id : 0;
}

static void read_new_events(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_EVENTS);
    sqlite3_bind_int64(q, 1, last_event(s->checker));
    while (look_next(s, q))
        read_event(s, q);
}

/* ---- commands ---- */

static void read_new_commands(struct sim *s)
{
    struct checker *c = s->checker;
    sqlite3_stmt *q = look_at(s, LOOK_COMMANDS);
    sqlite3_bind_int64(q, 1, c->last_command);
    while (look_next(s, q)) {
        c->last_command = look_int(q, 0);
        p14_a_stop_stands(s, look_text(q, 1), look_int(q, 2), look_text(q, 3), c->last_command);
    }
    wishes_are_known(c);
}

/* ---- answers ---- */

struct ask *root_of(const struct sim *s, const struct ask *a)
{
    return s->asks[a->repeats ? a->repeats : a->id];
}

bool has_effect(const struct sim *s, const struct ask *a)
{
    return !a->is_keyed || !root_of(s, a)->is_ok;
}

bool has_new_effect(const struct sim *s, const struct ask *a)
{
    return has_effect(s, a) && !(a->is_keyed && root_of(s, a)->may_be_done);
}

static void p12_what_it_says_is_stored(struct sim *s, const struct ask *a,
                                       const struct json *result)
{
    const struct json *task = json_get(result, "task");
    if (a->method == ASK_SAY || a->method == ASK_TRACE) {
        int64_t id = params_int(result, "id", 0);
        const struct checker *c = s->checker;
        bool is_there = false;
        for (size_t i = c->event_count; i-- > 0 && c->events[i].id >= id;)
            is_there = is_there || c->events[i].id == id;
        if (!is_there)
            sim_fail(s, "P12", "event %lld was acknowledged and is not in the log", (long long)id);
    }
    if (!task || task->type != JSON_OBJECT)
        return;
    int64_t number = params_int(task, "task", 0), epoch = params_int(task, "epoch", 0);
    char status[24];
    snprintf(status, sizeof status, "%.*s", STR_ARG(params_str(task, "status")));
    sqlite3_stmt *q = look_at(s, LOOK_TASK);
    sqlite3_bind_int64(q, 1, number);
    bool is_there = look_next(s, q);
    int64_t stored_epoch = is_there ? look_int(q, 0) : -1;
    int rank = is_there ? status_rank(look_text(q, 1)) : -1;
    look_end(s, q);
    if (stored_epoch < epoch || (stored_epoch == epoch && rank < status_rank(status)))
        sim_fail(s, "P12", "task %lld was said to be %s in epoch %lld; in the store it is not",
                 (long long)number, status, (long long)epoch);
}

/* What a request hands in, as the store would hold it: at most `room` bytes of JSON. */
static void handed_in(const struct ask *a, const char *key, char *ret, size_t room)
{
    const char *at = strstr(a->params, key);
    size_t n = at ? strcspn(at + strlen(key), ",}") : 0;
    bool is_object = n && at[strlen(key)] == '{';
    snprintf(ret, room, "%.*s", (int)(n + is_object), n ? at + strlen(key) : "");
}

/* Who is told that its task has ended as it said finds there what it handed in, not what another
 * call did. */
static void p19_what_was_handed_in_is_kept(struct sim *s, const struct ask *a)
{
    char wanted[64], role[64], kept[64], next[64];
    handed_in(a, a->method == ASK_COMPLETE ? "\"deliverable\":" : "\"reason\":", wanted,
              sizeof wanted);
    handed_in(a, "\"handoff\":{\"role\":", role, sizeof role);
    sqlite3_stmt *q = look_at(s, LOOK_KEPT);
    sqlite3_bind_int64(q, 1, a->task);
    look_next(s, q);
    const char *quotes = a->method == ASK_FAIL ? "\"" : "";
    snprintf(kept, sizeof kept, "%s%s%s", quotes, look_text(q, 0), quotes);
    const char *next_role = look_text(q, 1);
    snprintf(next, sizeof next, "%s%s%s", *next_role ? "\"" : "", next_role,
             *next_role ? "\"" : "");
    look_end(s, q);
    if (strcmp(kept, wanted) != 0 || strcmp(next, role) != 0)
        sim_fail(s, "P19",
                 "task %lld: %s handed in '%s' for '%s' and was told OK; kept is '%s' for '%s'",
                 (long long)a->task, ask_names[a->method], wanted, role, kept, next);
}

/* A message that hands out work tells how that stands, each time (decisions.md): the receipt before
 * it, and which task it is, do not change. */
static bool is_same_answer(const struct ask *a, struct str now, struct str first)
{
    const char *status = memmem(first.p, first.n, "\"status\":", 9);
    size_t same = a->method == ASK_SAY && status ? (size_t)(status - first.p) : 0;
    return same ? now.n > same && memcmp(now.p, first.p, same) == 0 : str_eq(now, first);
}

/* The same request with the same key: one answer. */
static void p19_a_repeat_changes_nothing(struct sim *s, struct ask *a, const struct json *result,
                                         struct str error)
{
    struct ask *root = root_of(s, a);
    bool is_for_ever = a->method == ASK_SAY || a->method == ASK_TRACE;
    if (!a->is_keyed ||
        (!is_for_ever && sim_server_ms(s) - root->answered_ms > KEYS_KEPT_MS && root->is_ok))
        return;
    if (!result) {
        bool may_be = str_is(error, "UNAVAILABLE") || str_is(error, "UNAUTHENTICATED") ||
                      str_is(error, "SUPERSEDED");
        if (root->is_ok && !may_be)
            sim_fail(s, "P19", "%s %s: the repeat is refused with %.*s", ask_names[a->method],
                     a->params, STR_ARG(error));
        return;
    }
    if (root->is_ok && !is_same_answer(a, result->span, str_of(root->answer)))
        sim_fail(s, "P19", "%s %s: first %.150s, then %.*s", ask_names[a->method], a->params,
                 root->answer, (int)MIN(result->span.n, (size_t)150), result->span.p);
    if (!root->is_ok) {
        root->is_ok = true;
        root->answered_ms = sim_server_ms(s);
        root->answer = mem_strndup(result->span.p, result->span.n);
    }
}

/* A write with an epoch that was over before this tick has no effect, and is told so. */
static void p8_old_epochs_are_refused(struct sim *s, const struct ask *a, const struct json *result)
{
    if (!a->task || a->epoch < 0 || !result || !has_new_effect(s, a))
        return;
    const struct known_task *t = known_task(s->checker, a->task);
    bool is_told = a->method == ASK_HEARTBEAT && !json_get(result, "activeUntil");
    if (t->is_known && a->epoch < t->epoch && !is_told)
        sim_fail(s, "P8", "%s of task %lld with epoch %lld succeeded; it is %lld",
                 ask_names[a->method], (long long)a->task, (long long)a->epoch,
                 (long long)t->epoch);
}

/* It has this task; or one that was taken from it, and a process that replaces it takes the next:
 * it may still be at it. (Who takes part by himself may take other work at any time.) */
static bool still_works(struct sim *s, const struct worker *w, const struct ask *a, int64_t number)
{
    bool is_of_agent = w->conversation == a->conversation && w->role == a->role;
    if (!is_of_agent || !w->task || w->state == WORKER_SUSPENDED)
        return false;
    if (s->fleet.hosts[w->machine].fenced_until_ms > w->born_ms || is_given_up(s, w))
        return false;
    return w->task == number ||
           (a->kind == ACTOR_PROCESS && known_task(s->checker, w->task)->ended_by_force);
}

/* Where the machine can be reached, work is handed to another only after the old process is dead.
 */
static void p21_one_worker(struct sim *s, const struct ask *a, const struct json *result)
{
    const struct json *task = json_get(result, "task");
    int64_t number = params_int(task, "task", 0);
    if (!has_new_effect(s, a))
        return;
    for (int i = 0; i < s->swarm.processes; i++) {
        const struct worker *w = &s->fleet.workers[SIM_ACTORS_MAX + i];
        bool is_other = a->kind != ACTOR_PROCESS || i != a->who;
        if (!w->is_alive || !is_other || !still_works(s, w, a, number))
            continue;
        sqlite3_stmt *q = look_at(s, LOOK_MACHINE_ONLINE);
        char name[8];
        snprintf(name, sizeof name, "m%d", w->machine);
        sqlite3_bind_text(q, 1, name, -1, SQLITE_TRANSIENT);
        bool is_online = look_next(s, q) && look_int(q, 0);
        look_end(s, q);
        if (is_online)
            sim_fail(s, "P21", "task %lld is claimed while process %d, which has it, lives",
                     (long long)number, i);
    }
}

/* A fresh window begins when it is resumed. */
static void p20_a_new_window_is_new(struct sim *s, const struct ask *a, const struct json *result)
{
    char now[CLOCK_ISO_BYTES];
    clock_iso(sim_server_ms(s), now);
    if (has_new_effect(s, a) && !str_is(params_str(result, "windowStartedAt"), now))
        sim_fail(s, "P20", "resumed at %s: %.*s", now, STR_ARG(result->span));
}

static void beat(struct sim *s, const struct ask *a)
{
    struct known_agent *k = known_agent(s->checker, a->conversation, a->role);
    k->beat_ms = sim_server_ms(s);
    k->is_listening = true;
    snprintf(k->connection, sizeof k->connection, "%s", a->connection);
}

/* To ask for messages renews a lease that is there; of one that may be over, or may be somebody
 * else's by now, we know only that it is not older. */
static void beat_by_receiving(struct sim *s, const struct ask *a)
{
    struct known_agent *k = known_agent(s->checker, a->conversation, a->role);
    int64_t now_ms = sim_server_ms(s),
            ttl_ms = option_get(&s->swarm.options, liveness, ttl_seconds) * 1000;
    if (!has_effect(s, a) || strcmp(k->connection, a->connection) != 0)
        return;
    if (k->is_listening && now_ms <= k->beat_ms + ttl_ms && has_new_effect(s, a))
        k->beat_ms = now_ms;
    else
        k->granted_ms = now_ms;
}

/* A process that speaks is one, whether its machine has said so or not. */
static void note_seen(struct sim *s, const struct worker *w)
{
    struct host *h = &s->fleet.hosts[w->machine];
    for (size_t i = 0; i < h->known_count; i++)
        if (strcmp(h->known[i].spawn, w->spawn) == 0 && !h->known[i].polled_ms)
            h->known[i].polled_ms = 1;
}

static void note_listener(struct sim *s, const struct ask *a, const struct json *result)
{
    struct known_agent *k;
    if (a->role < 0)
        return;
    k = known_agent(s->checker, a->conversation, a->role);
    switch (a->method) {
    case ASK_JOIN:
        beat(s, a);
        k->joined_in = s->ticks;
        if (a->kind == ACTOR_PROCESS)
            note_seen(s, &s->fleet.workers[SIM_ACTORS_MAX + a->who]);
        break;
    case ASK_HEARTBEAT:
        if (str_is(params_str(result, "status"), "ok"))
            beat(s, a);
        break;
    case ASK_WAIT: /* answered at once; one that was parked has been noted */
        if (a->taken_in == s->ticks && !str_is(params_str(result, "status"), "superseded") &&
            (json_get(result, "task") || str_is(params_str(result, "status"), "none")))
            beat(s, a);
        break;
    case ASK_RECEIVE:
        if (a->taken_in == s->ticks)
            beat_by_receiving(s, a);
        break;
    case ASK_LEAVE:
        if (strcmp(k->connection, a->connection) == 0) {
            k->is_listening = false;
            k->unlistened_ms = sim_server_ms(s);
        }
        break;
    default:
        break;
    }
}

/* Whoever proves to have it, at most. */
static void note_worker(struct sim *s, const struct ask *a, const struct json *result)
{
    const struct json *task = json_get(result, "task");
    int64_t number = a->task ? a->task : params_int(task, "task", 0);
    if (!number || a->method == ASK_TASK_CREATE)
        return;
    known_task(s->checker, number)->beat_ms = sim_server_ms(s);
}

static void note_made(struct sim *s, const struct ask *a, const struct json *result)
{
    struct fleet *f = &s->fleet;
    if (!has_effect(s, a))
        return;
    int64_t conversation = params_int(result, "conversation", 0),
            task = params_int(json_get(result, "task"), "task", 0);
    if (a->method == ASK_CREATE && f->conversation_count < SIM_ACTORS_MAX)
        f->conversations[f->conversation_count++] = conversation;
    if ((a->method == ASK_TASK_CREATE || a->method == ASK_SAY) && task &&
        f->task_count < (int)ARRAY_LEN(f->tasks))
        f->tasks[f->task_count++] = task;
    if (a->method == ASK_SUBSCRIBE)
        f->clients[a->who] = (struct client){.last_keyed = f->clients[a->who].last_keyed,
                                             .is_subscribed = true,
                                             .subscription = params_int(result, "subscription", 0),
                                             .last_event = a->after};
}

static bool is_inventory(const struct ask *a)
{
    return a->method == ASK_POLL || a->method == ASK_REGISTER;
}

/* Those it named are alive; what they have claimed has a worker. */
static void note_poll(struct sim *s, const struct ask *a)
{
    struct host *h = &s->fleet.hosts[a->who];
    h->has_listed = h->is_online;
    for (size_t i = 0; i < h->known_count; i++)
        if (strstr(a->params, h->known[i].spawn))
            h->known[i].polled_ms = sim_server_ms(s);
}

static void check_success(struct sim *s, struct ask *a, const struct json *result)
{
    p12_what_it_says_is_stored(s, a, result);
    p8_old_epochs_are_refused(s, a, result);
    if (a->method == ASK_CLAIM)
        p21_one_worker(s, a, result);
    if (a->method == ASK_COMPLETE || a->method == ASK_FAIL)
        p19_what_was_handed_in_is_kept(s, a);
    if (a->method == ASK_CONTINUE)
        p20_a_new_window_is_new(s, a, result);
    if (is_inventory(a) && a->taken_in == s->ticks)
        note_poll(s, a);
    if (has_new_effect(s, a))
        inbox_answered(s, a, result);
    note_listener(s, a, result);
    note_worker(s, a, result);
    note_wish(s, a);
    note_made(s, a, result);
}

void checker_answer(struct sim *s, struct ask *a, const struct json *reply)
{
    const struct json *result = json_get(reply, "result"),
                      *data = json_get(json_get(reply, "error"), "data");
    struct str error = params_str(data, "name");
    if (result && a->state == ASK_ANSWERED)
        check_success(s, a, result);
    else if (str_is(error, "INTERNAL") && !s->disk_is_bad)
        sim_fail(s, "P17", "%s %s: an internal error: %.*s", ask_names[a->method], a->params,
                 STR_ARG(reply->span));
    else if (str_is(error, "INVALID_PARAMS") || str_is(error, "NO_METHOD"))
        sim_fail(s, "SIM", "%s %s: %.*s", ask_names[a->method], a->params, STR_ARG(reply->span));
    p19_a_repeat_changes_nothing(s, a, result, error);
}

/* Whoever follows the log gets all of it, once, in order. */
void checker_push(struct sim *s, const struct peer *peer, const struct json *message)
{
    const struct json *params = json_get(message, "params");
    const struct checker *c = s->checker;
    if (!str_is(params_str(message, "method"), "event"))
        return;
    for (int i = 0; i < s->swarm.clients; i++) {
        struct client *client = &s->fleet.clients[i];
        if (s->peers[ACTOR_CLIENT][i] != peer ||
            params_int(params, "subscription", 0) != client->subscription)
            continue;
        int64_t id = params_int(params, "id", 0), want = 0;
        for (size_t k = c->event_count; k-- > 0 && c->events[k].id > client->last_event;)
            want = c->events[k].id;
        if (id != want)
            sim_fail(s, "P6", "client %d is given event %lld; after %lld comes %lld", i,
                     (long long)id, (long long)client->last_event, (long long)want);
        client->last_event = id;
    }
}

/* ---- ticks ---- */

void checker_tick_begins(struct sim *s)
{
    s->checker->commits_failed = core_stats(s->core)->commits_failed;
}

/* What was in memory is gone, and everybody has a lease anew. */
static void grant_all(struct sim *s)
{
    struct checker *c = s->checker;
    int64_t now_ms = sim_server_ms(s);
    for (size_t i = 0; i < c->agent_room; i++)
        c->agents[i].granted_ms = now_ms;
    for (size_t i = 0; i < c->task_room; i++)
        c->tasks[i].beat_ms = now_ms;
    for (int i = 0; i < s->swarm.machines; i++)
        for (size_t k = 0; k < s->fleet.hosts[i].known_count; k++)
            s->fleet.hosts[i].known[k].polled_ms = now_ms;
}

void checker_tick_ends(struct sim *s)
{
    struct checker *c = s->checker;
    c->commit_failed = core_stats(s->core)->commits_failed != c->commits_failed;
    if (c->commit_failed)
        grant_all(s);
    if (c->commit_failed || !core_is_writable(s->core)) {
        c->refused_until_ms = sim_server_ms(s);
        c->refused_until_mono_ms = clock_mono_us() / 1000;
    }
    read_new_events(s);
}

static bool has_been_joined(const struct sim *s, const struct ask *a)
{
    return known_agent(s->checker, a->conversation, a->role)->joined_in == s->ticks;
}

/* A poll that is not answered in its tick was parked: to ask is a sign of life. */
static void note_parked(struct sim *s)
{
    for (size_t i = 0; i < s->open_count; i++) {
        const struct ask *a = sim_open(s, i);
        if (is_inventory(a) && a->taken_in == s->ticks)
            note_poll(s, a);
        if (a->state != ASK_TAKEN || a->taken_in != s->ticks || s->checker->commit_failed)
            continue;
        if (a->method == ASK_WAIT && !has_been_joined(s, a)) /* it may have been superseded since */
            beat(s, a);
        if (a->method == ASK_RECEIVE)
            beat_by_receiving(s, a);
    }
}

static void p7_and_p13_ends_are_whole(struct sim *s)
{
    struct checker *c = s->checker;
    for (size_t i = 1; i < c->task_room; i++) {
        const struct known_task *t = &c->tasks[i];
        if (t->ended_in == (int64_t)s->ticks && t->ended_by_rule && t->forced_in != t->ended_in)
            sim_fail(s, "P13", "task %zu was ended by a rule that does not say why", i);
    }
    for (size_t i = 1; i < c->conversation_room; i++) {
        const struct known_conversation *k = &c->conversations[i];
        if (k->idle_in == (int64_t)s->ticks && !k->has_ended)
            sim_fail(s, "P7", "conversation %zu is idle, and not ended with it", i);
        if (k->idle_in && k->idle_in == k->ended_tasks_in)
            sim_fail(s, "P9", "conversation %zu is ended as idle while work was open", i);
    }
}

void checker_tick_answered(struct sim *s)
{
    note_parked(s);
    end_doubts(s);
    read_new_commands(s);
    p7_and_p13_ends_are_whole(s);
}

/* ---- the server comes and goes ---- */

static void compare_logs(struct sim *s)
{
    struct checker *c = s->checker;
    size_t i = 0;
    sqlite3_stmt *q = look_at(s, LOOK_EVENTS);
    sqlite3_bind_int64(q, 1, 0);
    while (look_next(s, q)) {
        if (i == c->event_count) {
            read_event(s, q);
            i = c->event_count;
            continue;
        }
        if (c->events[i].id != look_int(q, 0) || c->events[i].hash != hash_event(q))
            sim_fail(s, "P12", "event %lld of the log is another than before the crash",
                     (long long)c->events[i].id);
        i++;
    }
    if (i < c->event_count)
        sim_fail(s, "P12", "event %lld was in the log and is lost", (long long)c->events[i].id);
}

/* One may have joined and had no answer; a start renews leases, and that is promised. */
static void learn_listeners(struct sim *s)
{
    struct checker *c = s->checker;
    sqlite3_stmt *q = look_at(s, LOOK_LISTENERS);
    while (look_next(s, q)) {
        struct known_agent *k = known_agent(c, look_int(q, 0), role_number(look_text(q, 1)));
        k->is_listening = true;
        snprintf(k->connection, sizeof k->connection, "%s", look_text(q, 2));
    }
    for (size_t i = 0; i < c->agent_room; i++)
        c->agents[i].beat_ms = sim_server_ms(s);
}

void checker_server_started(struct sim *s)
{
    watched_again(s->checker, sim_server_ms(s));
    compare_logs(s);
    end_doubts(s);
    grant_all(s);
    learn_listeners(s);
    read_new_commands(s);
    checker_look_at_all(s);
}

/* What it had in hand, and answered nobody. */
static void note_undone(struct sim *s)
{
    for (size_t i = 0; i < s->open_count; i++) {
        const struct ask *a = sim_open(s, i);
        if (a->state != ASK_TAKEN)
            continue;
        root_of(s, a)->may_be_done = true;
        doubt_wish(s, a);
    }
}

void checker_server_ends(struct sim *s)
{
    struct checker *c = s->checker;
    int64_t now_ms = sim_server_ms(s);
    for (int i = 0; i < LOOK_COUNT; i++) {
        sqlite3_finalize(c->looks[i]);
        c->looks[i] = NULL;
    }
    fault_vfs_pause(s->disk, false);
    note_undone(s);
    checker_server_wakes(s); /* asleep when it was killed */
    c->nap_from_ms = now_ms;
}
