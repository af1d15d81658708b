/*
 * process_lost.c: see process.h. What becomes of processes whose machine is lost.
 *
 * Nobody has seen such a process end, so nobody says that it has. It is given up: its start is
 * marked, its agent has no process any more, its work goes back and its token says SUPERSEDED. The
 * row of the process stays open until its machine returns and tells what became of it.
 */
#include "domain/process.h"

#include "domain/agent.h"
#include "domain/command.h"
#include "domain/machine.h"
#include "domain/process_end.h"
#include "domain/start.h"
#include "domain/task.h"
#include "domain/work.h"

static int append_given_up(struct work *w, const struct agent *a, const char *spawn_id,
                           const char *reason, struct err *err)
{
    int64_t pid;
    int r = process_pid(w, spawn_id, &pid, err);
    if (r < 0)
        return r;
    struct str what = arena_printf(
        &w->arena, "\"spawnId\":\"%s\",\"machine\":\"%s\",\"pid\":%lld,\"reason\":\"%s\"", spawn_id,
        a->machine, (long long)pid, reason);
    return agent_append(w, a, "system-lifecycle", "agent.given_up", what, "agent.exited", err);
}

static int give_up_spawn(struct work *w, struct agent *a, struct str spawn_id, const char *reason,
                         struct err *err)
{
    int r = append_given_up(w, a, spawn_id.p, reason, err);
    if (r == 0)
        r = process_take_back(w, a, spawn_id, "its machine cannot be asked", err);
    if (r == 0)
        r = command_give_up(w, spawn_id.p, reason, err);
    return r < 0 ? r : process_end_tokens(w, spawn_id, err);
}

/* Those that it was to replace, if the order did not get so far. */
static int give_up_replaced(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    struct str spawn_id, machine;
    int r = process_find_open(w, a, &spawn_id, &machine, err);
    while (r == 0 && spawn_id.n && !machine_is_online(w, machine)) {
        r = give_up_spawn(w, a, spawn_id, reason, err);
        if (r == 0)
            r = process_find_open(w, a, &spawn_id, &machine, err);
    }
    return r;
}

int agent_give_up_process(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    struct starts starts;
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r < 0)
        return r;
    bool was_hushed = a->is_hushed;
    struct str current = arena_str(&w->arena, str_of(a->spawn_id)),
               taken = arena_str(&w->arena, str_of(starts.spawn_id));
    agent_hush(w, a);
    if (current.n)
        r = give_up_spawn(w, a, current, reason, err);
    if (r == 0 && taken.n && !str_eq(taken, current))
        r = give_up_spawn(w, a, taken, reason, err);
    if (r == 0)
        r = give_up_replaced(w, a, reason, err);
    a->process = PROCESS_NONE;
    a->spawn_id[0] = '\0';
    a->process_ms = 0;
    a->is_fenced = false;
    a->is_hushed = was_hushed;
    return r < 0 ? r : agent_store(w, a, reason, err);
}

/* If it comes back, and has not been moved, it is replaced: its work is another's. */
static int end_hold(struct work *w, struct agent *a, struct err *err)
{
    bool was_held;
    int r = agent_work_is_held(w, a, &was_held, err);
    if (r < 0 || !was_held)
        return r;
    agent_edit(w, a);
    a->is_fenced = true;
    r = process_change_hold(w, a, HELD_NOT, STR_NONE, err);
    return r < 0 ? r : agent_store(w, a, "machine.fenced", err);
}

static int fence(struct work *w, struct agent *a, void *ctx, struct err *err)
{
    (void)ctx;
    int r = end_hold(w, a, err);
    if (r == 0 && a->process == PROCESS_STOPPING)
        r = agent_give_up_process(w, a, "machine.fenced", err);
    return r < 0 ? r : agent_bring_up(w, a, "machine.fenced", err);
}

int processes_fence(struct work *w, const struct machine *m, struct err *err)
{
    return processes_each_on(w, m, fence, NULL, err);
}

static int give_up(struct work *w, struct agent *a, void *ctx, struct err *err)
{
    (void)ctx;
    return agent_give_up_process(w, a, "machine.forgotten", err);
}

int processes_give_up(struct work *w, const struct machine *m, struct err *err)
{
    return processes_each_on(w, m, give_up, NULL, err);
}
