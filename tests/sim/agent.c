/*
 * agent.c: agents at work, those of nobody and the processes of machines.
 *
 * An honest one finds its conversation, joins, waits, claims, starts, shows progress, suspends for
 * tools and resumes, completes, and beats in between; it receives messages and says which it has
 * dealt with. Faults: it dies without a word, hangs for a time and goes on as if nothing had
 * happened, writes with an epoch it no longer has, claims what it was not told of, consumes what it
 * never received, forgets what it did, repeats itself, and lags.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/params.h"
#include "sim/actor.h"
#include "sim/worker.h"
#include "sim/world.h"

enum { CALLS_MAX = 4 };

struct worker *worker_agent(struct sim *s, int who)
{
    return &s->fleet.workers[who];
}

struct worker *worker_process(struct sim *s, int who)
{
    return &s->fleet.workers[SIM_ACTORS_MAX + who];
}

static bool is_process(const struct sim *s, const struct worker *w)
{
    return w >= &s->fleet.workers[SIM_ACTORS_MAX];
}

static int number_of(const struct sim *s, const struct worker *w)
{
    return (int)(w - s->fleet.workers) % SIM_ACTORS_MAX;
}

static void forget_work(struct worker *w)
{
    w->state = WORKER_IDLE;
    w->task = 0;
    w->epoch = -1;
    w->is_offered = false;
    w->taken_calls = 0;
}

static void new_life(struct sim *s, struct worker *w)
{
    w->life++;
    w->is_alive = true;
    w->born_ms = s->now_ms;
    w->is_hung = w->has_joined = w->is_stopping = false;
    w->poll = w->last_keyed = 0;
    forget_work(w);
    snprintf(w->connection, sizeof w->connection, "%c%d-%u", is_process(s, w) ? 'p' : 'a',
             number_of(s, w), w->life);
}

int worker_spawn(struct sim *s)
{
    for (int i = 0; i < s->swarm.processes; i++) {
        struct worker *w = worker_process(s, i);
        if (w->is_alive)
            continue;
        new_life(s, w);
        s->next_act_ms[ACTOR_PROCESS][i] = s->now_ms + 1 + w->life % 50;
        return i;
    }
    return -1;
}

void worker_die(struct sim *s, struct worker *w)
{
    enum actor kind = is_process(s, w) ? ACTOR_PROCESS : ACTOR_AGENT;
    if (!w->is_alive)
        return;
    w->is_alive = false;
    w->life++; /* answers to it reach nobody */
    forget_work(w);
    sim_close_peer(s, kind, number_of(s, w));
}

/* ---- asking ---- */

static struct grant grant_of(const struct sim *s, const struct worker *w)
{
    struct grant g = {.scope = SCOPE_AGENT, .conversation = w->conversation};
    snprintf(g.role, sizeof g.role, "r%d", w->role);
    snprintf(g.subject, sizeof g.subject, "token:u%d", number_of(s, w));
    return g;
}

static struct ask *note(struct sim *s, struct worker *w, struct ask *a)
{
    a->conversation = w->conversation;
    a->role = w->role;
    snprintf(a->connection, sizeof a->connection, "%s", w->connection);
    if (is_process(s, w)) {
        a->has_token = true;
        memcpy(a->token, w->token, sizeof a->token);
    }
    if (a->is_keyed)
        w->last_keyed = a->id;
    return a;
}

#define ASK(s, w, arg, method, ...)                                                            \
    note((s), (w),                                                                             \
         sim_ask((s), is_process((s), (w)) ? ACTOR_PROCESS : ACTOR_AGENT, number_of((s), (w)), \
                 &(const struct grant){0}, (arg), (method), __VA_ARGS__))

static struct ask *ask(struct sim *s, struct worker *w, struct ask *a)
{
    if (!is_process(s, w))
        a->grant = grant_of(s, w);
    return a;
}

static void ask_place(struct sim *s, struct worker *w, uint32_t arg, enum ask_method method)
{
    ask(s, w,
        ASK(s, w, arg, method, "{'conversation':%lld,'role':'r%d','connectionId':'%s'}",
            (long long)w->conversation, w->role, w->connection));
}

/* A call about its task, with `members` besides. */
static struct ask *ask_task(struct sim *s, struct worker *w, uint32_t arg, enum ask_method method,
                            int64_t epoch, const char *members)
{
    struct ask *a = ask(s, w,
                        ASK(s, w, arg, method, "{'task':%lld,'epoch':%lld%s}", (long long)w->task,
                            (long long)epoch, members));
    a->task = w->task;
    a->epoch = epoch;
    return a;
}

/* ---- verbs ---- */

static bool may_act(const struct sim *s, const struct worker *w)
{
    return w->is_alive && !w->is_hung && w->conversation && s->now_ms >= 0;
}

/* An unmanaged agent takes a place that is its own, or somebody else's. */
static void find_place(struct sim *s, struct worker *w, uint32_t arg)
{
    if (is_process(s, w) || s->fleet.conversation_count == 0)
        return;
    if (!w->is_alive)
        new_life(s, w);
    int place = number_of(s, w) + (arg % 8 == 0 ? (int)(arg / 8 % 3) : 0);
    int unmanaged = (int)(s->swarm.roles - s->swarm.managed_roles);
    w->conversation = s->fleet.conversations[place % s->fleet.conversation_count];
    w->role = unmanaged > 0
                  ? (int)s->swarm.managed_roles + place / s->fleet.conversation_count % unmanaged
                  : place % (int)s->swarm.roles;
    if (arg / 64 % 4 == 0) /* a place for which a machine starts processes, too */
        w->role = place % (int)s->swarm.roles;
    w->has_joined = false;
    forget_work(w);
}

static void join(struct sim *s, struct worker *w, uint32_t arg)
{
    if (may_act(s, w))
        ask_place(s, w, arg, ASK_JOIN);
}

static void leave(struct sim *s, struct worker *w, uint32_t arg)
{
    if (!may_act(s, w))
        return;
    ask_place(s, w, arg, ASK_LEAVE);
    w->has_joined = false;
}

static void beat(struct sim *s, struct worker *w, uint32_t arg)
{
    char work[96] = "";
    if (!may_act(s, w))
        return;
    if (w->task)
        snprintf(work, sizeof work, ",'task':%lld,'epoch':%lld%s", (long long)w->task,
                 (long long)w->epoch, arg % 4 == 0 ? ",'progress':1" : "");
    struct ask *a = ask(s, w,
                        ASK(s, w, arg, ASK_HEARTBEAT,
                            "{'conversation':%lld,'role':'r%d','connectionId':'%s'%s}",
                            (long long)w->conversation, w->role, w->connection, work));
    a->task = w->task;
    a->epoch = w->task ? w->epoch : -1;
}

static void wait_for_work(struct sim *s, struct worker *w, uint32_t arg)
{
    if (!may_act(s, w))
        return;
    int64_t timeout_ms = arg % 5 == 0 ? 0 : arg % 30000;
    struct ask *a =
        ask(s, w,
            ASK(s, w, arg, ASK_WAIT,
                "{'conversation':%lld,'role':'r%d','connectionId':'%s','timeoutMs':%lld}",
                (long long)w->conversation, w->role, w->connection, (long long)timeout_ms));
    w->poll = a->id;
}

static void claim(struct sim *s, struct worker *w, uint32_t arg)
{
    if (!may_act(s, w))
        return;
    ask(s, w,
        ASK(s, w, arg, ASK_CLAIM, "{'conversation':%lld,'role':'r%d','connectionId':'%s'%s}",
            (long long)w->conversation, w->role, w->connection,
            arg % 16 == 0 ? ",'unattended':true" : ""));
    w->is_offered = false;
}

static void start(struct sim *s, struct worker *w, uint32_t arg)
{
    if (may_act(s, w) && w->task)
        ask_task(s, w, arg, ASK_START, w->epoch, "");
}

static void progress(struct sim *s, struct worker *w, uint32_t arg)
{
    if (may_act(s, w) && w->task)
        ask_task(s, w, arg, ASK_PROGRESS, w->epoch, ",'note':'moving'");
}

static void suspend(struct sim *s, struct worker *w, uint32_t arg)
{
    struct buf tools = BUF_INIT(4096);
    int count = 1 + (int)(arg % CALLS_MAX);
    if (!may_act(s, w) || !w->task)
        return;
    buf_addz(&tools, ",'tools':[");
    for (int i = 0; i < count; i++)
        buf_addf(&tools, "%s{'toolCallId':'c%d','name':'t','options':{'timeout_seconds':%d}}",
                 i ? "," : "", i, (int)(arg / 16 % 40));
    buf_addz(&tools, "]");
    buf_addc(&tools, '\0');
    ask_task(s, w, arg, ASK_SUSPEND, w->epoch, tools.data);
    buf_release(&tools);
    w->calls = count;
    for (int i = 0; i < count; i++) {
        int at = s->fleet.call_count++ % SIM_CALLS_MAX;
        s->fleet.calls[at] = (struct tool_wait){w->task, w->epoch, i};
    }
}

static void resume(struct sim *s, struct worker *w, uint32_t arg)
{
    if (may_act(s, w) && w->task)
        ask_task(s, w, arg, ASK_RESUME, w->epoch, "");
}

static void apply(struct sim *s, struct worker *w, uint32_t arg)
{
    char ids[128] = ",'toolCallIds':[";
    if (!may_act(s, w) || !w->task)
        return;
    for (int i = 0; i < CALLS_MAX; i++)
        if (w->taken_calls & (1u << i))
            snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s'c%d'",
                     ids[strlen(ids) - 1] == '[' ? "" : ",", i);
    strcat(ids, "]");
    if (w->taken_calls)
        ask_task(s, w, arg, ASK_APPLIED, w->epoch, ids);
}

static void complete(struct sim *s, struct worker *w, uint32_t arg)
{
    char members[96] = "";
    if (!may_act(s, w) || !w->task)
        return;
    if (arg % 3 == 0)
        snprintf(members, sizeof members, ",'deliverable':{'n':%u}", arg % 100);
    if (arg % 7 == 0 && s->swarm.roles > 1 && !s->is_settling) /* no new work then */
        snprintf(members + strlen(members), sizeof members - strlen(members),
                 ",'handoff':{'role':'r%u','content':'next'}", arg / 7 % (unsigned)s->swarm.roles);
    ask_task(s, w, arg, ASK_COMPLETE, w->epoch, members);
}

static void fail(struct sim *s, struct worker *w, uint32_t arg)
{
    if (may_act(s, w) && w->task)
        ask_task(s, w, arg, ASK_FAIL, w->epoch,
                 arg % 2 ? ",'reason':'cannot'" : ",'reason':'will not'");
}

static void say(struct sim *s, struct worker *w, uint32_t arg)
{
    if (!may_act(s, w))
        return;
    ask(s, w,
        ASK(s, w, arg, ASK_SAY,
            "{'conversation':%lld,'agentId':'r%d','text':'done','finality':'%s'}",
            (long long)w->conversation, w->role, arg % 3 ? "none" : "turn"));
}

/* With an epoch it never had, or no longer has. */
static void lie(struct sim *s, struct worker *w, uint32_t arg)
{
    static const enum ask_method methods[] = {ASK_START, ASK_PROGRESS, ASK_COMPLETE, ASK_FAIL,
                                              ASK_RESUME};
    enum ask_method method = methods[arg % ARRAY_LEN(methods)];
    if (!may_act(s, w) || s->fleet.task_count == 0)
        return;
    int64_t kept_task = w->task;
    if (!w->task)
        w->task = s->fleet.tasks[arg % (unsigned)s->fleet.task_count];
    ask_task(s, w, arg, method, MAX(w->epoch, INT64_C(1)) - 1,
             method == ASK_FAIL ? ",'reason':'lie'" : "");
    w->task = kept_task;
}

/* ---- its inbox ---- */

static void receive(struct sim *s, struct worker *w, uint32_t arg)
{
    if (may_act(s, w))
        ask(s, w,
            ASK(s, w, arg, ASK_RECEIVE,
                "{'conversation':%lld,'role':'r%d','connectionId':'%s','limit':%u,'timeoutMs':%u}",
                (long long)w->conversation, w->role, w->connection, 1 + arg % 4,
                arg % 3 ? arg % 30000 : 0));
}

static void ask_consume(struct sim *s, struct worker *w, uint32_t arg, const int64_t *messages,
                        int count)
{
    _cleanup_buf_ struct buf ids = BUF_INIT(4096);
    for (int i = 0; i < count; i++)
        buf_addf(&ids, "%s%lld", i ? "," : "", (long long)messages[i]);
    buf_addc(&ids, '\0');
    ask(s, w,
        ASK(s, w, arg, ASK_CONSUME, "{'inboxIds':[%s],'connectionId':'%s'}", ids.data,
            w->connection));
}

/* All it has, or some. What it has from a former life is refused: that had another connection. */
static void consume(struct sim *s, struct worker *w, uint32_t arg)
{
    if (may_act(s, w) && w->message_count)
        ask_consume(s, w, arg, w->messages,
                    arg % 4 ? w->message_count : 1 + (int)(arg / 4) % w->message_count);
}

/* What it never received, or no longer has. */
static void grab(struct sim *s, struct worker *w, uint32_t arg)
{
    int64_t any = 1 + arg % (uint32_t)(s->fleet.last_message + 1);
    if (may_act(s, w))
        ask_consume(s, w, arg, &any, 1);
}

static void peek(struct sim *s, struct worker *w, uint32_t arg)
{
    if (!may_act(s, w))
        return;
    if (arg % 2 && w->message_count)
        ask(s, w,
            ASK(s, w, arg, ASK_MESSAGE, "{'inboxId':%lld}",
                (long long)w->messages[arg / 2 % (unsigned)w->message_count]));
    else
        ask(s, w,
            ASK(s, w, arg, ASK_INBOX, "{'conversation':%lld,'limit':%u}",
                (long long)w->conversation, 1 + arg % 20));
}

static void again(struct sim *s, struct worker *w, uint32_t arg)
{
    if (may_act(s, w) && w->last_keyed)
        sim_ask_again(s, s->asks[w->last_keyed], arg);
}

static void hang(struct sim *s, struct worker *w, uint32_t arg)
{
    w->is_hung = true;
    w->back_at_ms = s->now_ms + (int64_t)(arg % 300000);
}

static void wake(struct sim *s, struct worker *w, uint32_t arg)
{
    (void)s, (void)arg;
    w->is_hung = false;
}

static void die(struct sim *s, struct worker *w, uint32_t arg)
{
    (void)arg;
    worker_die(s, w);
}

/* X(verb, function): of agents and processes alike. */
#define WORKER_VERBS(X)    \
    X(find, find_place)    \
    X(join, join)          \
    X(leave, leave)        \
    X(beat, beat)          \
    X(wait, wait_for_work) \
    X(claim, claim)        \
    X(start, start)        \
    X(progress, progress)  \
    X(suspend, suspend)    \
    X(resume, resume)      \
    X(apply, apply)        \
    X(complete, complete)  \
    X(fail, fail)          \
    X(say, say)            \
    X(lie, lie)            \
    X(again, again)        \
    X(hang, hang)          \
    X(wake, wake) X(die, die) X(receive, receive) X(consume, consume) X(grab, grab) X(peek, peek)

enum {
#define X(verb, fn) V_##verb,
    WORKER_VERBS(X)
#undef X
};

#define X(verb, fn)                                                     \
    static void by_agent_##verb(struct sim *s, int who, uint32_t arg)   \
    {                                                                   \
        fn(s, worker_agent(s, who), arg);                               \
    }                                                                   \
    static void by_process_##verb(struct sim *s, int who, uint32_t arg) \
    {                                                                   \
        fn(s, worker_process(s, who), arg);                             \
    }
WORKER_VERBS(X)
#undef X

static const struct verb agent_verbs[] = {
#define X(verb, fn) {#verb, by_agent_##verb},
    WORKER_VERBS(X)
#undef X
        {NULL, NULL}};

static const struct verb process_verbs[] = {
#define X(verb, fn) {#verb, by_process_##verb},
    WORKER_VERBS(X)
#undef X
        {NULL, NULL}};

/* ---- choosing ---- */

static bool is_polling(const struct sim *s, const struct worker *w)
{
    const struct ask *a = s->asks[w->poll];
    return w->poll && (a->state == ASK_ON_ITS_WAY || a->state == ASK_TAKEN);
}

static int choose_idle(const struct sim *s, const struct worker *w, uint64_t *random)
{
    if (!w->has_joined)
        return V_join;
    if (w->is_offered)
        return V_claim;
    if (!s->is_settling && sim_between(random, 0, 30) == 0)
        return (int)(sim_random(random) & 1 ? V_leave : V_claim);
    if (!s->is_settling && sim_between(random, 0, 12) == 0)
        return V_say;
    return is_polling(s, w) ? V_beat : V_wait;
}

static int choose_working(const struct sim *s, const struct worker *w, uint64_t *random)
{
    static const int acts[] = {V_beat,    V_beat,     V_progress, V_progress, V_complete,
                               V_suspend, V_complete, V_say,      V_fail};
    (void)w;
    int verb = acts[sim_between(random, 0, ARRAY_LEN(acts) - 1)];
    return s->is_settling && verb == V_suspend ? V_complete : verb;
}

/* A program that does not know `resume`: it listens, beats, and is told in vain. */
static bool is_deaf(const struct sim *s, const struct worker *w)
{
    uint64_t who = (uint64_t)(w - s->fleet.workers) ^ s->swarm.seed << 16;
    return !s->is_settling && sim_between(&who, 0, 999) < s->swarm.deaf_workers;
}

static int choose_suspended(const struct sim *s, const struct worker *w, uint64_t *random)
{
    if (w->has_joined && is_deaf(s, w))
        return is_polling(s, w) ? V_beat : V_wait;
    if (w->taken_calls)
        return V_apply;
    if (!w->has_joined)
        return V_join;
    return sim_between(random, 0, 2) ? V_resume : is_polling(s, w) ? V_beat : V_wait;
}

static int choose_inbox(const struct worker *w, uint64_t *random)
{
    static const int empty[] = {V_receive, V_receive, V_receive, V_peek},
                     full[] = {V_consume, V_consume, V_consume, V_receive, V_peek};
    return w->message_count ? full[sim_between(random, 0, ARRAY_LEN(full) - 1)]
                            : empty[sim_between(random, 0, ARRAY_LEN(empty) - 1)];
}

static int choose_fault(const struct sim *s, uint64_t *random)
{
    if (sim_happens(s, random, s->swarm.agent_dies))
        return V_die;
    if (sim_happens(s, random, s->swarm.agent_hangs))
        return V_hang;
    if (sim_happens(s, random, s->swarm.agent_lies))
        return s->swarm.inbox_acts && sim_random(random) & 1 ? V_grab : V_lie;
    return sim_happens(s, random, s->swarm.duplicate) ? V_again : -1;
}

static int choose(struct sim *s, struct worker *w, uint64_t *random, int64_t *ret_pause_ms)
{
    int64_t beat_ms = option_get(&s->swarm.options, liveness, heartbeat_seconds) * 1000;
    *ret_pause_ms = s->is_settling ? sim_between(random, beat_ms / 2, beat_ms)
                                   : sim_between(random, 1, 2 * s->swarm.pace_ms);
    if (!w->is_alive || !w->conversation) {
        if (is_process(s, w))
            *ret_pause_ms = INT64_MAX / 4; /* until it is started */
        return is_process(s, w) ? -1 : V_find;
    }
    if (w->is_hung)
        return w->back_at_ms <= s->now_ms ? V_wake : -1;
    int fault = choose_fault(s, random);
    if (fault >= 0)
        return fault;
    if (sim_happens(s, random, s->swarm.inbox_acts))
        return choose_inbox(w, random);
    if (w->state == WORKER_IDLE)
        return choose_idle(s, w, random);
    if (w->state == WORKER_SUSPENDED)
        return choose_suspended(s, w, random);
    return w->state == WORKER_CLAIMED ? V_start : choose_working(s, w, random);
}

static int choose_agent(struct sim *s, int who, uint64_t *random, int64_t *ret_pause_ms)
{
    return choose(s, worker_agent(s, who), random, ret_pause_ms);
}

static int choose_process(struct sim *s, int who, uint64_t *random, int64_t *ret_pause_ms)
{
    return choose(s, worker_process(s, who), random, ret_pause_ms);
}

/* ---- hearing ---- */

/* It is not wanted any more: a process ends, others look for another place. */
static void go(struct sim *s, struct worker *w)
{
    if (is_process(s, w))
        worker_die(s, w);
    else
        w->conversation = 0;
}

static void hear_wait(struct sim *s, struct worker *w, const struct json *result)
{
    struct str status = params_str(result, "status");
    const struct json *task = json_get(result, "task");
    if (str_is(status, "task"))
        w->is_offered = true;
    if (str_is(status, "resume") && w->state != WORKER_WORKING && !is_deaf(s, w)) {
        w->state = WORKER_SUSPENDED;
        w->task = params_int(task, "task", 0);
        w->epoch = params_int(task, "epoch", -1);
        w->taken_calls = 0;
    }
    if (str_is(status, "superseded") || str_is(status, "rejoin_required"))
        w->has_joined = false;
    if (str_is(status, "stop") || str_is(status, "ended"))
        go(s, w);
}

static void hear_beat(struct sim *s, struct worker *w, const struct ask *a,
                      const struct json *result)
{
    if (!str_is(params_str(result, "status"), "ok"))
        w->has_joined = false;
    if (params_bool(result, "staleEpoch", false) && a->task == w->task && a->epoch == w->epoch)
        forget_work(w);
    if (params_str(result, "directive").p)
        go(s, w);
}

static void hear_taken(struct worker *w, const struct json *result)
{
    JSON_FOREACH (item, json_get(result, "results")) {
        struct str id = params_str(item, "toolCallId");
        if (id.n == 2 && id.p[1] >= '0' && id.p[1] < '0' + CALLS_MAX)
            w->taken_calls |= 1u << (id.p[1] - '0');
    }
}

/* More than it has room for it forgets, and never says that it has dealt with it. */
static void hear_messages(struct sim *s, struct worker *w, const struct json *result)
{
    JSON_FOREACH (item, json_get(result, "messages")) {
        int64_t message = params_int(item, "inboxId", 0);
        s->fleet.last_message = MAX(s->fleet.last_message, message);
        if (w->message_count < SIM_MESSAGES_MAX)
            w->messages[w->message_count++] = message;
    }
}

/* Whatever state it is in, it is the one the server says. */
static void take_task(struct worker *w, const struct json *result)
{
    const struct json *task = json_get(result, "task");
    struct str status = params_str(task, "status");
    w->task = params_int(task, "task", 0);
    w->epoch = params_int(task, "epoch", -1);
    if (str_is(status, "acknowledged"))
        w->state = WORKER_CLAIMED;
    else if (str_is(status, "in_progress"))
        w->state = WORKER_WORKING;
    else if (str_is(status, "suspended"))
        w->state = WORKER_SUSPENDED;
    else
        forget_work(w);
}

static void hear_error(struct sim *s, struct worker *w, const struct ask *a, struct str error)
{
    if (str_is(error, "UNAVAILABLE") || str_is(error, "CONVERSATION_BLOCKED"))
        return;
    if (str_is(error, "CONVERSATION_FINALIZED") || str_is(error, "UNAUTHENTICATED")) {
        go(s, w);
    } else if (str_is(error, "SUPERSEDED")) {
        w->has_joined = false;
        if (is_process(s, w) && a->id % 2)
            worker_die(s, w);
    } else if (a->task == w->task && a->epoch == w->epoch && a->method != ASK_CLAIM) {
        forget_work(w);
    }
}

static void hear(struct sim *s, struct worker *w, const struct ask *a, const struct json *result,
                 struct str error)
{
    if (w->is_hung)
        return;
    if (!result) {
        hear_error(s, w, a, error);
        return;
    }
    switch (a->method) {
    case ASK_JOIN:
        w->has_joined = true;
        break;
    case ASK_HEARTBEAT:
        hear_beat(s, w, a, result);
        break;
    case ASK_WAIT:
        hear_wait(s, w, result);
        break;
    case ASK_RESUME:
        if (a->task == w->task && a->epoch == w->epoch)
            hear_taken(w, result);
        break;
    case ASK_RECEIVE:
        hear_messages(s, w, result);
        break;
    case ASK_CONSUME:
        w->message_count = 0;
        break;
    case ASK_APPLIED:
        w->taken_calls = 0;
        take_task(w, result);
        break;
    case ASK_CLAIM:
    case ASK_START:
    case ASK_SUSPEND:
    case ASK_COMPLETE:
    case ASK_FAIL:
        if (a->method == ASK_CLAIM || a->task == w->task)
            take_task(w, result);
        break;
    default:
        break;
    }
}

static void hear_agent(struct sim *s, const struct ask *a, const struct json *result,
                       struct str error)
{
    hear(s, worker_agent(s, a->who), a, result, error);
}

static void hear_process(struct sim *s, const struct ask *a, const struct json *result,
                         struct str error)
{
    hear(s, worker_process(s, a->who), a, result, error);
}

static int64_t agents(const struct sim *s)
{
    return s->swarm.agents;
}

static int64_t processes(const struct sim *s)
{
    return s->swarm.machines ? s->swarm.processes : 0;
}

const struct actor_kind actor_agent = {.name = "agent",
                                       .verbs = agent_verbs,
                                       .count = agents,
                                       .choose = choose_agent,
                                       .hear = hear_agent};
const struct actor_kind actor_process = {.name = "process",
                                         .verbs = process_verbs,
                                         .count = processes,
                                         .choose = choose_process,
                                         .hear = hear_process};
