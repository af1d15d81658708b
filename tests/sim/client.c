/*
 * client.c: programs that talk: they write messages, hand out work, repeat what they are not sure
 * of, and follow the log. They put messages into inboxes, some without a channel, some twice, and
 * take some out in an agent's name, of which nothing is heard again.
 */
#include <stdio.h>

#include "sim/actor.h"
#include "sim/world.h"

static int64_t conversation_by(const struct sim *s, uint32_t arg)
{
    int count = s->fleet.conversation_count;
    return count ? s->fleet.conversations[arg / 3 % (unsigned)count] : 0;
}

static struct ask *note(struct sim *s, int who, struct ask *a, int64_t conversation)
{
    a->conversation = conversation;
    if (a->is_keyed)
        s->fleet.clients[who].last_keyed = a->id;
    return a;
}

static void say(struct sim *s, int who, uint32_t arg)
{
    static const char *const finalities[] = {"none", "none", "turn", "turn", "turn"};
    int64_t c = conversation_by(s, arg);
    if (!c)
        return;
    const char *finality = arg % 97 == 0 ? "conversation" : finalities[arg % 5];
    char to[24] = "";
    if (arg % 4 == 0 && finality[0] != 'c')
        snprintf(to, sizeof to, ",'to':'r%u'", arg / 4 % (unsigned)s->swarm.roles);
    note(s, who,
         sim_ask(s, ACTOR_CLIENT, who, &sim_operator, arg, ASK_SAY,
                 "{'conversation':%lld,'agentId':'client%d','text':'hello','finality':'%s'%s}",
                 (long long)c, who, finality, to),
         c);
}

static void trace(struct sim *s, int who, uint32_t arg)
{
    int64_t c = conversation_by(s, arg);
    if (c)
        note(s, who,
             sim_ask(
                 s, ACTOR_CLIENT, who, &sim_operator, arg, ASK_TRACE,
                 "{'conversation':%lld,'agentId':'client%d','payload':{'type':'thought','n':%u}}",
                 (long long)c, who, arg % 10),
             c);
}

static void give_work(struct sim *s, int who, uint32_t arg)
{
    int64_t c = conversation_by(s, arg);
    if (c)
        note(s, who,
             sim_ask(s, ACTOR_CLIENT, who, &sim_operator, arg, ASK_TASK_CREATE,
                     "{'conversation':%lld,'role':'r%u','content':{'n':%u}}", (long long)c,
                     arg / 11 % (unsigned)s->swarm.roles, arg % 10),
             c);
}

/* A correlation that was used before is the same message; one of a tool call may get in its way. */
static void put(struct sim *s, int who, uint32_t arg)
{
    static const char *const types[] = {"ui_action", "ui_action", "tool_result", "timeout", "stop"};
    int64_t c = conversation_by(s, arg);
    bool is_in_the_way = arg / 7 % 10 == 0;
    if (c)
        note(s, who,
             sim_ask(s, ACTOR_CLIENT, who, &sim_operator, arg, ASK_ENQUEUE,
                     "{'conversation':%lld,'role':'r%u','messageType':'%s','correlationId':'%c%u',"
                     "'payload':{'n':%u}%s}",
                     (long long)c, arg / 11 % (unsigned)s->swarm.roles,
                     types[arg / 13 % ARRAY_LEN(types)], is_in_the_way ? 'c' : 'x',
                     arg / 17 % (is_in_the_way ? 4 : 200), arg % 10,
                     arg / 19 % 5 ? "" : ",'channel':null"),
             c);
}

static void take(struct sim *s, int who, uint32_t arg)
{
    int64_t c = conversation_by(s, arg);
    if (!c)
        return;
    struct ask *a = note(s, who,
                         sim_ask(s, ACTOR_CLIENT, who, &sim_operator, arg, ASK_RECEIVE,
                                 "{'conversation':%lld,'role':'r%u','connectionId':'client%d',"
                                 "'timeoutMs':%u}",
                                 (long long)c, arg / 11 % (unsigned)s->swarm.roles, who,
                                 arg % 2 ? arg % 60000 : 0),
                         c);
    a->role = (int)(arg / 11 % (unsigned)s->swarm.roles);
    snprintf(a->connection, sizeof a->connection, "client%d", who);
}

static void again(struct sim *s, int who, uint32_t arg)
{
    int64_t last = s->fleet.clients[who].last_keyed;
    if (last)
        sim_ask_again(s, s->asks[last], arg);
}

static void follow(struct sim *s, int who, uint32_t arg)
{
    struct client *c = &s->fleet.clients[who];
    if (c->is_subscribed)
        return;
    sim_ask(s, ACTOR_CLIENT, who, &sim_operator, arg, ASK_SUBSCRIBE, "{'afterId':%lld}",
            (long long)c->last_event)
        ->after = c->last_event;
}

enum { V_SAY, V_TRACE, V_WORK, V_AGAIN, V_FOLLOW, V_PUT, V_TAKE };
static const struct verb verbs[] = {[V_SAY] = {"say", say},          [V_TRACE] = {"trace", trace},
                                    [V_WORK] = {"work", give_work},  [V_AGAIN] = {"again", again},
                                    [V_FOLLOW] = {"follow", follow}, [V_PUT] = {"put", put},
                                    [V_TAKE] = {"take", take},       {NULL, NULL}};

static int choose(struct sim *s, int who, uint64_t *random, int64_t *ret_pause_ms)
{
    static const int acts[] = {V_WORK, V_WORK, V_WORK, V_SAY, V_SAY, V_TRACE, V_AGAIN};
    int64_t paces = s->swarm.inbox_acts ? 2 : 6; /* messages are many */
    *ret_pause_ms = sim_between(random, 1, paces * s->swarm.pace_ms);
    if (s->is_settling)
        return -1;
    if (sim_happens(s, random, s->swarm.inbox_acts))
        return sim_between(random, 0, 4) ? V_PUT : V_TAKE;
    if (!s->fleet.clients[who].is_subscribed && sim_between(random, 0, 3) == 0)
        return V_FOLLOW;
    return acts[sim_between(random, 0, ARRAY_LEN(acts) - 1)];
}

static void hear(struct sim *s, const struct ask *a, const struct json *result, struct str error)
{
    (void)s, (void)a, (void)result, (void)error;
}

static int64_t clients(const struct sim *s)
{
    return s->swarm.clients;
}

const struct actor_kind actor_client = {
    .name = "client", .verbs = verbs, .count = clients, .choose = choose, .hear = hear};
