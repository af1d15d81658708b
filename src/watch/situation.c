/* situation.c: see situation.h. */
#include "watch/situation.h"

#include "base/mem.h"
#include "domain/machine.h"
#include "domain/process.h"
#include "domain/start.h"
#include "domain/work.h"

/* ---- leases ---- */

/* Has whoever holds a lease beaten in time, as far as can be said by now? */
static bool beats(const struct work *w, int64_t beat_ms, int64_t lease_ms, int64_t heartbeat_ms)
{
    return beat_ms && gaps_due_ms(&w->gaps, beat_ms, (lease_ms + heartbeat_ms) / 2) > w->now_ms;
}

bool situation_machine_beats(const struct situation *s)
{
    const struct options *o = s->w->options;
    return s->machine && s->machine->is_online &&
           beats(s->w, s->machine->beat_ms, option_get(o, machine, ttl_seconds) * 1000,
                 option_get(o, machine, heartbeat_seconds) * 1000);
}

bool situation_listener_beats(const struct situation *s)
{
    const struct options *o = s->w->options;
    return s->agent->is_listening &&
           beats(s->w, s->agent->beat_ms, option_get(o, liveness, ttl_seconds) * 1000,
                 option_get(o, liveness, heartbeat_seconds) * 1000);
}

/* The worker itself, or its machine for it. */
bool situation_worker_beats(const struct situation *s)
{
    const struct options *o = s->w->options;
    const struct task *t = s->task;
    return beats(s->w, t->beat_ms, t->lease_ms,
                 option_get(o, liveness, heartbeat_seconds) * 1000) ||
           beats(s->w, t->machine_beat_ms, option_get(o, machine, ttl_seconds) * 1000,
                 option_get(o, machine, heartbeat_seconds) * 1000);
}

bool situation_is_in_hand(const struct situation *s)
{
    return s->task && (s->task->status == TASK_ACKNOWLEDGED || s->task->status == TASK_IN_PROGRESS);
}

/* ---- reading ---- */

static int read_order(const struct situation *s, int64_t command, struct order *ret,
                      struct err *err)
{
    struct work *w = s->w;
    *ret = (struct order){.command = command, .due_ms = NEVER_MS};
    if (!command)
        return 0;
    struct command c;
    int r = command_get(w, command, &c, err);
    if (r < 0)
        return r;
    ret->machine = c.machine;
    ret->is_current = str_is(c.spawn_id, s->agent->spawn_id);
    ret->due_ms = command_due_ms(w, &c);
    ret->sends = c.sends;
    return 0;
}

static int read_orders(struct situation *s, struct err *err)
{
    const struct agent *a = s->agent;
    struct starts starts;
    int64_t stop = 0;
    int r = command_starts(s->w, a->conversation, str_of(a->role), &starts, err);
    if (r == 0 && a->process == PROCESS_STOPPING)
        r = command_open_stop(s->w, a->spawn_id, &stop, err);
    if (r == 0)
        r = read_order(s, starts.open, &s->start, err);
    s->may_live = starts.spawn_id[0];
    return r < 0 ? r : read_order(s, stop, &s->stop, err);
}

static int read_work(struct situation *s, struct err *err)
{
    const struct agent *a = s->agent;
    struct task *t = NULL;
    int r = a->active_task ? task_get(s->w, a->active_task, &t, err) : 0;
    if (r < 0)
        return r;
    s->task = t;
    s->inbox_count = SITUATION_INBOX_ROWS_MAX;
    r = inbox_list_open(s->w, a, s->inbox, &s->inbox_count, err);
    if (r < 0 || !t || t->status != TASK_SUSPENDED)
        return r;
    r = tools_list(s->w, t->task, t->epoch, &s->tools, err);
    return r < 0 ? r : tools_summarize(s->w, t, &s->calls, err);
}

int situation_of_agent(struct work *w, const struct agent *a, struct situation *ret,
                       struct err *err)
{
    struct head *h;
    *ret = (struct situation){.w = w, .agent = a};
    int r = head_get(w, a->conversation, &h, err);
    if (r < 0)
        return r;
    ret->head = h;
    ret->is_beyond_reach = agent_is_beyond_reach(w, a, false);
    bool is_placed = a->process != PROCESS_NONE && !ret->is_beyond_reach;
    ret->place = a->pinned[0] && !is_placed ? a->pinned : a->machine;
    ret->machine = ret->place[0] ? machine_find(w, str_of(ret->place)) : NULL;
    ret->is_attended = agent_is_attended(w, a);
    r = agent_is_wanted(w, a, &ret->is_wanted, err);
    if (r == 0)
        r = read_work(ret, err);
    if (r == 0)
        r = read_orders(ret, err);
    if (r == 0 && a->spawn_id[0])
        r = process_pid(w, a->spawn_id, &ret->pid, err);
    return r < 0 ? r : agent_find_obstacle(w, a, true, w->now_ms, &ret->obstacle, err);
}

int situation_of_task(struct work *w, const struct task *t, struct situation *ret, struct err *err)
{
    struct agent *a;
    int r = agent_find(w, t->conversation, str_of(t->role), &a, err);
    if (r == 0)
        r = situation_of_agent(w, a, ret, err);
    if (r == 0)
        ret->asked = t;
    return r;
}

void situation_of_conversation(struct work *w, const struct head *h, struct situation *ret)
{
    *ret = (struct situation){.w = w, .head = h};
}

void situation_of_machine(struct work *w, const struct machine *m, struct situation *ret)
{
    *ret = (struct situation){.w = w, .machine = m};
}
