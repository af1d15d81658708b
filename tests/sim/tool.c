/*
 * tool.c: what suspended tasks wait for. Tools answer late, twice, for calls that were never made,
 * and never.
 */
#include <stdio.h>

#include "sim/actor.h"
#include "sim/world.h"

static void tell(struct sim *s, int who, uint32_t arg, int64_t task, int number)
{
    static const char *const statuses[] = {"success", "failed", "canceled"};
    struct ask *a = sim_ask(s, ACTOR_TOOL, who, &sim_operator, arg, ASK_TOOL_REPORT,
                            "{'task':%lld,'toolCallId':'c%d','status':'%s','result':%u}",
                            (long long)task, number, statuses[arg % 3], arg % 10);
    a->task = task;
}

static void report(struct sim *s, int who, uint32_t arg)
{
    int kept = MIN(s->fleet.call_count, (int)SIM_CALLS_MAX);
    if (kept == 0)
        return;
    const struct tool_wait *c = &s->fleet.calls[arg % (unsigned)kept];
    tell(s, who, arg, c->task, c->number);
}

/* One of the newest calls. */
static void answer(struct sim *s, int who, uint32_t arg)
{
    int back = 1 + (int)(arg % 6);
    if (s->fleet.call_count < back)
        return;
    const struct tool_wait *c = &s->fleet.calls[(s->fleet.call_count - back) % SIM_CALLS_MAX];
    tell(s, who, arg, c->task, c->number);
}

static void invent(struct sim *s, int who, uint32_t arg)
{
    if (s->fleet.task_count)
        tell(s, who, arg, s->fleet.tasks[arg % (unsigned)s->fleet.task_count], (int)(arg / 7 % 5));
}

enum { V_ANSWER, V_REPORT, V_INVENT };
static const struct verb verbs[] = {[V_ANSWER] = {"answer", answer},
                                    [V_REPORT] = {"report", report},
                                    [V_INVENT] = {"invent", invent},
                                    {NULL, NULL}};

static int choose(struct sim *s, int who, uint64_t *random, int64_t *ret_pause_ms)
{
    (void)who;
    *ret_pause_ms = sim_between(random, 1, s->is_settling ? 20000 : 4 * s->swarm.pace_ms);
    if (sim_happens(s, random, s->swarm.agent_lies))
        return V_INVENT;
    return sim_between(random, 0, 3) ? V_ANSWER : V_REPORT;
}

static void hear(struct sim *s, const struct ask *a, const struct json *result, struct str error)
{
    (void)s, (void)a, (void)result, (void)error;
}

static int64_t tools(const struct sim *s)
{
    return s->swarm.tools;
}

const struct actor_kind actor_tool = {
    .name = "tool", .verbs = verbs, .count = tools, .choose = choose, .hear = hear};
