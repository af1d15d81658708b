/* person.c: people begin and end conversations, and meddle: start, stop, restart, cancel, resume.
 */
#include <stdio.h>

#include "sim/actor.h"
#include "sim/world.h"

static int64_t conversation_by(const struct sim *s, uint32_t arg)
{
    int count = s->fleet.conversation_count;
    return count ? s->fleet.conversations[arg / 5 % (unsigned)count] : 0;
}

static struct ask *note(struct sim *s, struct ask *a, int64_t conversation, int role)
{
    a->conversation = conversation;
    a->role = role;
    if (a->is_keyed)
        s->fleet.last_keyed_of_person = a->id;
    return a;
}

/* A kind that no machine offers. */
static bool is_misspelt(const struct sim *s, uint32_t arg, int role)
{
    uint64_t r = arg + (uint64_t)role;
    return sim_happens(s, &r, s->swarm.odd_kinds);
}

static void create(struct sim *s, int who, uint32_t arg)
{
    static const char *const wishes[] = {"auto", "auto", "running"};
    _cleanup_buf_ struct buf agents = BUF_INIT(4096);
    if (s->fleet.conversation_count >= s->swarm.conversations)
        return;
    for (int i = 0; i < s->swarm.roles; i++) {
        buf_addf(&agents, "%s{'role':'r%d','desired':'%s'", i ? "," : "", i,
                 wishes[(arg >> i) % 3]);
        if (i < s->swarm.managed_roles)
            buf_addf(&agents, ",'kind':'%s%d'", is_misspelt(s, arg, i) ? "misspelt-k" : "k",
                     i % SIM_KINDS);
        buf_addz(&agents, "}");
    }
    buf_addc(&agents, '\0');
    note(s,
         sim_ask(s, ACTOR_PERSON, who, &sim_operator, arg, ASK_CREATE,
                 "{'agents':[%s],'maxTurns':%u}", agents.data, arg % 5 == 0 ? arg / 5 % 20 : 0),
         0, -1);
}

static void end(struct sim *s, int who, uint32_t arg)
{
    int64_t c = conversation_by(s, arg);
    if (c)
        note(s,
             sim_ask(s, ACTOR_PERSON, who, &sim_operator, arg, ASK_END,
                     "{'conversation':%lld,'outcome':'%s'}", (long long)c,
                     arg % 2 ? "completed" : "canceled"),
             c, -1);
}

static void resume(struct sim *s, int who, uint32_t arg)
{
    int64_t c = conversation_by(s, arg);
    if (c)
        note(s,
             sim_ask(s, ACTOR_PERSON, who, &sim_operator, arg, ASK_CONTINUE,
                     "{'conversation':%lld}", (long long)c),
             c, -1);
}

/* `more` are further members. */
static void of_agent(struct sim *s, int who, uint32_t arg, enum ask_method method, const char *more)
{
    int64_t c = conversation_by(s, arg);
    int role = (int)(arg / 31 % (unsigned)s->swarm.roles);
    if (c)
        note(s,
             sim_ask(s, ACTOR_PERSON, who, &sim_operator, arg, method,
                     "{'conversation':%lld,'role':'r%d'%s}", (long long)c, role, more),
             c, role);
}

static void start(struct sim *s, int who, uint32_t arg)
{
    of_agent(s, who, arg, ASK_AGENT_START, "");
}

static void stop(struct sim *s, int who, uint32_t arg)
{
    of_agent(s, who, arg, ASK_AGENT_STOP, "");
}

static void restart(struct sim *s, int who, uint32_t arg)
{
    of_agent(s, who, arg, ASK_AGENT_RESTART, "");
}

static void stop_by_force(struct sim *s, int who, uint32_t arg)
{
    of_agent(s, who, arg, ASK_AGENT_STOP, ",'force':true");
}

/* To a machine, or to any; now and then by force. */
static void move(struct sim *s, int who, uint32_t arg)
{
    char more[64], machine[16] = "null";
    if (arg / 7 % 2)
        snprintf(machine, sizeof machine, "'m%u'", arg / 14 % (unsigned)s->swarm.machines);
    snprintf(more, sizeof more, ",'machine':%s,'force':%s", machine, arg % 3 ? "false" : "true");
    of_agent(s, who, arg, ASK_AGENT_SET, more);
}

static void forget(struct sim *s, int who, uint32_t arg)
{
    unsigned machine = arg / 5 % (unsigned)s->swarm.machines;
    s->fleet.hosts[machine].is_forced |= arg % 2;
    note(s,
         sim_ask(s, ACTOR_PERSON, who, &sim_operator, arg, ASK_FORGET,
                 "{'machine':'m%u','force':%s}", machine, arg % 2 ? "true" : "false"),
         0, -1);
}

static void ensure(struct sim *s, int who, uint32_t arg)
{
    int64_t c = conversation_by(s, arg);
    if (c)
        note(s,
             sim_ask(s, ACTOR_PERSON, who, &sim_operator, arg, ASK_ENSURE, "{'conversation':%lld}",
                     (long long)c),
             c, -1);
}

static void cancel(struct sim *s, int who, uint32_t arg)
{
    if (!s->fleet.task_count)
        return;
    int64_t task = s->fleet.tasks[arg % (unsigned)s->fleet.task_count];
    struct ask *a = sim_ask(s, ACTOR_PERSON, who, &sim_operator, arg, ASK_TASK_CANCEL,
                            "{'task':%lld,'reason':'no'}", (long long)task);
    note(s, a, 0, -1);
    a->task = task;
}

static void run_once(struct sim *s, int who, uint32_t arg)
{
    sim_ask(s, ACTOR_PERSON, who, &sim_operator, arg, ASK_RUN_ONCE, "{}");
}

static void again(struct sim *s, int who, uint32_t arg)
{
    (void)who;
    if (s->fleet.last_keyed_of_person)
        sim_ask_again(s, s->asks[s->fleet.last_keyed_of_person], arg);
}

enum {
    V_CREATE,
    V_END,
    V_RESUME,
    V_START,
    V_STOP,
    V_RESTART,
    V_ENSURE,
    V_CANCEL,
    V_RUN_ONCE,
    V_AGAIN,
    V_STOP_BY_FORCE,
    V_MOVE,
    V_FORGET
};
static const struct verb verbs[] = {[V_CREATE] = {"create", create},
                                    [V_END] = {"end", end},
                                    [V_RESUME] = {"resume", resume},
                                    [V_START] = {"start", start},
                                    [V_STOP] = {"stop", stop},
                                    [V_RESTART] = {"restart", restart},
                                    [V_ENSURE] = {"ensure", ensure},
                                    [V_CANCEL] = {"cancel", cancel},
                                    [V_RUN_ONCE] = {"look", run_once},
                                    [V_AGAIN] = {"again", again},
                                    [V_STOP_BY_FORCE] = {"force", stop_by_force},
                                    [V_MOVE] = {"move", move},
                                    [V_FORGET] = {"forget", forget},
                                    {NULL, NULL}};

static int choose(struct sim *s, int who, uint64_t *random, int64_t *ret_pause_ms)
{
    static const int acts[] = {V_START,  V_STOP,   V_STOP,     V_RESTART, V_RESUME, V_RESUME,
                               V_RESUME, V_CANCEL, V_RUN_ONCE, V_AGAIN,   V_ENSURE, V_END};
    (void)who;
    bool is_short = s->fleet.conversation_count < s->swarm.conversations;
    *ret_pause_ms = sim_between(random, 1, is_short ? 2000 : 10 * s->swarm.pace_ms);
    if (s->is_settling)
        return -1;
    if (is_short && sim_between(random, 0, 2))
        return V_CREATE;
    if (sim_happens(s, random, s->swarm.moves))
        return (int)sim_between(random, V_STOP_BY_FORCE, V_FORGET);
    return sim_happens(s, random, s->swarm.person_meddles)
               ? acts[sim_between(random, 0, ARRAY_LEN(acts) - 1)]
               : V_RESUME;
}

static void hear(struct sim *s, const struct ask *a, const struct json *result, struct str error)
{
    (void)s, (void)a, (void)result, (void)error;
}

static int64_t persons(const struct sim *s)
{
    return s->swarm.persons;
}

const struct actor_kind actor_person = {
    .name = "person", .verbs = verbs, .count = persons, .choose = choose, .hear = hear};
