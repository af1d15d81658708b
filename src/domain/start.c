/* start.c: see start.h. */
#include "domain/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/planted.h"
#include "domain/append.h"
#include "domain/command.h"
#include "domain/head.h"
#include "domain/inbox.h"
#include "domain/machine.h"
#include "domain/obstacle.h"
#include "domain/participant.h"
#include "domain/task.h"
#include "domain/work.h"

bool agent_is_beyond_reach(const struct work *w, const struct agent *a, bool force)
{
    bool may_live = a->process == PROCESS_UNKNOWN || a->process == PROCESS_STOPPING;
    struct str machine = str_of(a->machine);
    return may_live && a->machine[0] &&
           (machine_is_lost(w, machine) || (force && !machine_is_online(w, machine)));
}

bool agent_is_up(const struct work *w, const struct agent *a)
{
    return a->process == PROCESS_RUNNING ||
           (a->process == PROCESS_UNKNOWN && !agent_is_beyond_reach(w, a, false));
}

static bool may_start(const struct work *w, const struct agent *a)
{
    return agent_obstacle(w, a, w->now_ms) == OBSTACLE_NONE;
}

int agent_has_somebody(struct work *w, const struct agent *a, bool *ret, struct err *err)
{
    struct task *t;
    *ret = agent_is_attended(w, a);
    if (*ret || !a->active_task)
        return 0;
    int r = task_get(w, a->active_task, &t, err);
    *ret = r == 0 && task_is_worked_on(w, t);
    return r;
}

/* What is told is the start that follows. */
static int give_up_quietly(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    bool was_hushed = a->is_hushed;
    agent_hush(w, a);
    int r = agent_give_up_process(w, a, reason, err);
    a->is_hushed = was_hushed;
    return r;
}

/* Its next process begins on another machine: the last one, if it may live, is given up. */
static int leave_machine(struct work *w, struct agent *a, const char *reason, struct starts *starts,
                         struct err *err)
{
    if (!starts->spawn_id[0])
        return 0;
    starts->spawn_id[0] = '\0';
    return give_up_quietly(w, a, reason, err);
}

/* m NULL: on whoever comes first and offers its kind. */
static int start_on(struct work *w, struct agent *a, const struct machine *m, bool is_restart,
                    const char *reason, struct err *err)
{
    int64_t command;
    struct str machine = m ? str_of(m->name) : STR_NONE;
    snprintf(a->machine, sizeof a->machine, "%.*s", STR_ARG(machine));
    int r = command_start(w, a->conversation, str_of(a->role), str_of(a->kind), machine, is_restart,
                          reason, &command, err);
    if (r < 0)
        return r;
    a->process = PROCESS_STARTING;
    a->restart_ms = 0;
    if (m)
        work_touch(w, machine_key_of(machine));
    return agent_store(w, a, reason, err);
}

/* The one place that makes a start, whatever asks for it: an open one is enough (P4). */
static int start(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    struct starts starts;
    struct machine *m = NULL;
    enum placement placement;
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r < 0)
        return r;
    if (starts.open && !planted(SECOND_START)) {
        a->process = PROCESS_STARTING;
        return agent_store(w, a, reason, err);
    }
    r = machine_choose(w, a, starts.spawn_id[0] != '\0', &placement, &m, err);
    if (r < 0 || placement == PLACE_LATER) /* the wish stands, and fires when a machine registers */
        return r < 0 ? r : agent_store(w, a, reason, err);
    if (a->machine[0] && (!m || strcmp(a->machine, m->name) != 0))
        r = leave_machine(w, a, reason, &starts, err);
    return r < 0 ? r : start_on(w, a, m, starts.spawn_id[0] != '\0', reason, err);
}

/* Its process no longer does its work: another in its place, once it is proven dead. */
int agent_replace(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    struct head *h;
    int r = head_get(w, a->conversation, &h, err);
    if (r < 0)
        return r;
    if (a->process != PROCESS_RUNNING)
        return agent_bring_up(w, a, reason, err);
    if (h->status != CONVERSATION_ACTIVE || a->desired == DESIRED_STOPPED)
        return 0;
    agent_edit(w, a);
    a->is_ensured = true;
    return start(w, a, reason, err);
}

int agent_bring_up(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    bool is_wanted, is_attended;
    int r = agent_is_wanted(w, a, &is_wanted, err);
    if (r == 0 && is_wanted)
        r = agent_has_somebody(w, a, &is_attended, err);
    if (r < 0 || !is_wanted)
        return r;
    agent_edit(w, a);
    a->is_ensured = true;
    return may_start(w, a) && !is_attended ? start(w, a, reason, err)
                                           : agent_store(w, a, reason, err);
}

static int forget_failures(struct work *w, struct agent *a, struct err *err)
{
    agent_edit(w, a);
    a->breaker_is_open = a->is_crashed = false;
    a->restart_count = a->restart_ms = 0;
    struct query *q = store_query(w->store, SQL_FAILURE_CLEAR);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    work_mark_written(w);
    return query_run(q, NULL, err);
}

/* A wish passes what stood in its way: failures, the breaker, a process that is beyond reach. */
static int clear_the_way(struct work *w, struct agent *a, bool force, const char *reason,
                         struct err *err)
{
    int r = forget_failures(w, a, err);
    if (r < 0 || !agent_is_beyond_reach(w, a, force))
        return r;
    return give_up_quietly(w, a, reason, err);
}

int agent_start_by_person(struct work *w, struct agent *a, bool force, const char *reason,
                          struct err *err)
{
    int r = clear_the_way(w, a, force, reason, err);
    if (r < 0)
        return r;
    a->desired = DESIRED_RUNNING;
    a->is_ensured = true;
    r = inbox_end_stop(w, a, INBOX_IS_SKIPPED, err);
    if (r < 0)
        return r;
    r = a->kind[0] && !agent_is_up(w, a) ? start(w, a, reason, err)
                                         : agent_store(w, a, reason, err);
    return r < 0 ? r : agent_look_at_work(w, a, err);
}

int agent_restart_by_person(struct work *w, struct agent *a, bool force, struct err *err)
{
    int r = clear_the_way(w, a, force, "restarted_by_user", err);
    if (r < 0)
        return r;
    if (a->desired == DESIRED_STOPPED)
        a->desired = DESIRED_RUNNING;
    a->is_ensured = true;
    r = inbox_end_stop(w, a, INBOX_IS_SKIPPED, err);
    if (r < 0)
        return r;
    r = a->kind[0] ? start(w, a, "restarted_by_user", err)
                   : agent_store(w, a, "restarted_by_user", err);
    return r < 0 ? r : agent_look_at_work(w, a, err);
}

int agent_stop_by_person(struct work *w, struct agent *a, bool force, struct err *err)
{
    int r = forget_failures(w, a, err);
    if (r < 0)
        return r;
    a->desired = DESIRED_STOPPED;
    r = agent_stop(w, a, "stopped_by_user", err);
    if (r == 0 && agent_is_beyond_reach(w, a, force))
        r = agent_give_up_process(w, a, "stopped_by_user", err);
    bool is_told = !a->kind[0] && a->is_listening; /* there is no process of ours to stop */
    return r < 0 || !is_told ? r : inbox_tell_stop(w, a, "stopped_by_user", err);
}

int agent_stop(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    struct starts starts;
    int64_t command;
    agent_edit(w, a);
    a->is_ensured = false;
    a->restart_ms = 0;
    work_touch(w, agent_key(a));
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r == 0 && starts.open)
        r = command_fail(w, starts.open, reason, err);
    if (r < 0)
        return r;
    a->process = starts.spawn_id[0] ? PROCESS_STOPPING : PROCESS_NONE;
    if (starts.spawn_id[0])
        r = command_stop(w, a->conversation, str_of(a->role), str_of(a->kind), starts.machine,
                         starts.spawn_id, reason, &command, err);
    if (r == 0 && starts.spawn_id[0])
        work_touch(w, machine_key_of(starts.machine));
    if (r == 0 && agent_is_beyond_reach(w, a, false)) /* its machine was lost before */
        return agent_give_up_process(w, a, reason, err);
    return r < 0 ? r : agent_store(w, a, reason, err);
}

/* The wait before the restart of this number: none, then the first, doubling up to the longest. */
static int64_t wait_before_ms(const struct work *w, int64_t restart)
{
    int64_t wait_ms = option_get(w->options, restart, backoff_first_ms),
            max_ms = option_get(w->options, restart, backoff_max_ms);
    if (restart == 0)
        return 0;
    for (int64_t i = 1; i < restart && wait_ms < max_ms; i++)
        wait_ms *= 2;
    return max_ms ? MIN(wait_ms, max_ms) : wait_ms;
}

/* What came of the wait is told after it is decided: who is not wanted any more, or has somebody
 * who does its work, is not restarted, and nothing is told of it. */
int agent_start_again(struct work *w, struct agent *a, struct err *err)
{
    bool is_wanted, is_attended;
    const char *reason = rule_name(RULE_AGENT_EXITED);
    int r = agent_is_wanted(w, a, &is_wanted, err);
    if (r == 0)
        r = agent_has_somebody(w, a, &is_attended, err);
    if (r < 0)
        return r;
    agent_edit(w, a);
    a->restart_ms = 0;
    if (!is_wanted || is_attended)
        return agent_store(w, a, reason, err);
    r = agent_bring_up(w, a, reason, err);
    if (r < 0)
        return r;
    struct str saw = arena_printf(&w->arena, "\"restart\":%lld,\"limit\":%lld,\"did\":\"%s\"",
                                  (long long)a->restart_count,
                                  (long long)wait_before_ms(w, a->restart_count - 1),
                                  a->process == PROCESS_STARTING ? "started" : "waits_for_machine");
    return agent_note_rule(w, a, RULE_AGENT_EXITED, saw, err);
}

int agents_ensure_desired(struct work *w, int64_t conversation, const char *reason, struct err *err)
{
    struct agent_role *roles;
    int r = agent_roles(w, conversation, &roles, err);
    for (struct agent_role *role = r == 0 ? roles : NULL; r == 0 && role; role = role->next) {
        struct agent *a;
        bool is_wanted;
        r = agent_get(w, conversation, role->name, &a, err);
        if (r == 0)
            r = agent_is_wanted(w, a, &is_wanted, err);
        if (r < 0 || !is_wanted || (!a->kind[0] && a->desired != DESIRED_RUNNING))
            continue;
        agent_edit(w, a);
        a->is_ensured = true; /* those who listened were stopped, or never were */
        r = may_start(w, a) ? start(w, a, reason, err) : agent_store(w, a, reason, err);
    }
    return r;
}

/* ---- when it has failed ---- */

static int count_failures(struct work *w, const struct agent *a, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_FAILURE_INSERT);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    query_int(q, 3, w->now_ms);
    int r = query_run(q, NULL, err);
    if (r < 0)
        return r;
    q = store_query(w->store, SQL_FAILURE_PRUNE); /* what no window can hold any more */
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    query_int(
        q, 3,
        gaps_back_ms(&w->gaps, w->now_ms, option_get(w->options, restart, window_seconds) * 1000));
    r = query_run(q, NULL, err);
    if (r < 0)
        return r;
    q = store_query(w->store, SQL_FAILURE_COUNT);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = query_get_int(q, 0);
    query_end(q);
    return 0;
}

/* A failure: counted, and what may be done about it and when. */
int agent_note_failure(struct work *w, struct agent *a, struct err *err)
{
    int64_t failures, burst = option_get(w->options, restart, burst),
                      stable_ms = option_get(w->options, restart, stable_seconds) * 1000;
    int r = count_failures(w, a, &failures, err);
    if (r < 0)
        return r;
    if (stable_ms && a->process_ms &&
        gaps_watched_ms(&w->gaps, a->process_ms, w->now_ms) >= stable_ms)
        a->restart_count = 0;
    a->is_crashed = true;
    a->breaker_is_open = burst && failures >= burst;
    if (!a->breaker_is_open) {
        agent_wait_for_restart(w, a,
                               all_time_until_ms(ALL_TIME_RESTART_WAIT, w->now_ms,
                                                 wait_before_ms(w, a->restart_count)));
        a->restart_count++;
        a->restarts++;
    }
    return 0;
}

/* ---- when a machine comes or goes ---- */

static bool is_down(const struct work *w, const struct agent *a)
{
    return (a->process == PROCESS_NONE || agent_is_beyond_reach(w, a, false)) && !a->is_removed;
}

static int grant_wish(struct work *w, struct agent *a, void *ctx, struct err *err)
{
    const struct machine *m = ctx;
    bool may = is_down(w, a) && machine_kind_find(m, a->kind);
    return may ? agent_bring_up(w, a, "machine_registered", err) : 0;
}

static int grant_elsewhere(struct work *w, struct agent *a, void *ctx, struct err *err)
{
    const struct machine *m = ctx;
    bool may = is_down(w, a) && strcmp(a->machine, m->name) == 0;
    return may ? agent_bring_up(w, a, "machine.offline", err) : 0;
}

int wishes_go_elsewhere(struct work *w, struct machine *m, struct err *err)
{
    return agents_each(w, SQL_AGENT_LIST_ENSURED, STR_NONE, grant_elsewhere, m, err);
}

int wishes_come_true(struct work *w, struct machine *m, struct err *err)
{
    return agents_each(w, SQL_AGENT_LIST_ENSURED, STR_NONE, grant_wish, m, err);
}

/* ---- when a person changes what it is ---- */

int agent_withdraw_start(struct work *w, struct agent *a, struct err *err)
{
    struct starts starts;
    struct command c;
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r == 0 && starts.open)
        r = command_get(w, starts.open, &c, err);
    if (r < 0 || !starts.open || c.machine.n)
        return r;
    agent_edit(w, a);
    a->process = PROCESS_NONE;
    return command_fail(w, starts.open, "set", err);
}
