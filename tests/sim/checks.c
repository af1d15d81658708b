/*
 * checks.c: see checker.h. Promises about what the store holds when the server is at rest: it has
 * done everything that was due, and waits.
 *
 * Cheap ones are looked at whenever time has passed, the others every so often, after each start
 * and at the end. Limits are computed here once more, from the options and the recorded gaps; that
 * those are right is P16.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/checker.h"
#include "sim/model.h"
#include "sim/world.h"

enum { REST_EVERY_MS = 2500, LOOK_AT_ALL_EVERY = 16 };

/* ---- leases and tasks ---- */

static void p2_leases_run_out(struct sim *s)
{
    int64_t ttl_ms = option_get(&s->swarm.options, liveness, ttl_seconds) * 1000;
    sqlite3_stmt *q = look_at(s, LOOK_LISTENERS);
    while (look_next(s, q)) {
        int role = role_number(look_text(q, 1));
        struct known_agent *k = known_agent(s->checker, look_int(q, 0), role);
        if (is_late(s, due_ms(s->checker, later_ms(k->beat_ms, k->granted_ms), ttl_ms)))
            sim_fail(s, "P2",
                     "%lld:r%d was last heard at %lld and still counts as connected at %lld",
                     (long long)look_int(q, 0), role, (long long)k->beat_ms,
                     (long long)sim_server_ms(s));
    }
}

struct open_task {
    int64_t task, conversation, pending_ms, restarted_ms, acknowledged_ms, progress_ms,
        dispatched_ms, lease_ms, window_ms;
    int role;
    const char *status, *desired, *spawn;
    bool is_managed, is_attended;
};

static struct open_task read_open_task(sqlite3_stmt *q)
{
    return (struct open_task){.task = look_int(q, 0),
                              .conversation = look_int(q, 1),
                              .role = role_number(look_text(q, 2)),
                              .status = look_text(q, 3),
                              .pending_ms = look_int(q, 5),
                              .restarted_ms = look_int(q, 6),
                              .acknowledged_ms = look_int(q, 7),
                              .progress_ms = look_int(q, 8),
                              .dispatched_ms = look_int(q, 9),
                              .lease_ms = look_int(q, 10),
                              .spawn = look_text(q, 11),
                              .is_managed = !look_is_null(q, 12),
                              .desired = look_text(q, 13),
                              .is_attended = look_int(q, 14),
                              .window_ms = look_int(q, 15)};
}

/* When its machine last said that the process lives which claimed it. */
static int64_t polled_ms(const struct sim *s, const char *spawn)
{
    for (int i = 0; i < s->swarm.machines; i++)
        for (size_t k = 0; k < s->fleet.hosts[i].known_count; k++)
            if (spawn[0] && strcmp(s->fleet.hosts[i].known[k].spawn, spawn) == 0)
                return s->fleet.hosts[i].known[k].polled_ms;
    return 0;
}

static int64_t limit_ms(int64_t seconds)
{
    return seconds * 1000;
}

static void must_not_be_late(struct sim *s, const char *promise, const struct open_task *t,
                             const char *rule, int64_t due)
{
    if (is_late(s, due))
        sim_fail(s, promise, "task %lld is %s at %lld; %s was due at %lld", (long long)t->task,
                 t->status, (long long)sim_server_ms(s), rule, (long long)due);
}

int64_t lease_over_ms(struct sim *s, int64_t task, int64_t lease_ms, const char *spawn)
{
    const struct checker *c = s->checker;
    int64_t ttl_ms = limit_ms(option_get(&s->swarm.options, machine, ttl_seconds));
    return later_ms(due_ms(c, known_task(s->checker, task)->beat_ms, lease_ms),
                    due_ms(c, polled_ms(s, spawn), ttl_ms));
}

/* Work whose worker is gone is taken back; work that nobody attends to has its agent restarted. */
static void p3_stuck_work_is_recovered(struct sim *s, const struct open_task *t)
{
    const struct checker *c = s->checker;
    const struct options *o = &s->swarm.options;
    int64_t lease_over = lease_over_ms(s, t->task, t->lease_ms, t->spawn);
    if (strcmp(t->status, "acknowledged") == 0)
        must_not_be_late(
            s, "P3", t, "task.acknowledged",
            later_ms(lease_over,
                     due_ms(c, t->acknowledged_ms,
                            limit_ms(option_get(o, liveness, acknowledged_timeout_seconds)))));
    if (strcmp(t->status, "in_progress") == 0)
        must_not_be_late(s, "P3", t, "task.orphaned", lease_over);
    const struct known_agent *a = known_agent(s->checker, t->conversation, t->role);
    if (strcmp(t->status, "pending") == 0 && t->is_managed && !t->is_attended &&
        strcmp(t->desired, "stopped") != 0)
        must_not_be_late(
            s, "P3", t, "task.unattended",
            later_ms(a->unlistened_ms,
                     due_ms(c, later_ms(t->pending_ms, t->restarted_ms),
                            limit_ms(option_get(o, liveness, pending_timeout_seconds)))));
}

/* Every rung of the ladder that ends it. */
static void p9_work_ends(struct sim *s, const struct open_task *t)
{
    const struct checker *c = s->checker;
    const struct options *o = &s->swarm.options;
    bool is_waiting = strcmp(t->status, "pending") == 0 || strcmp(t->status, "acknowledged") == 0;
    if (strcmp(t->status, "queued") == 0)
        return;
    must_not_be_late(s, "P9", t, "task.max_seconds",
                     later_ms(t->dispatched_ms, t->window_ms) +
                         limit_ms(option_get(o, task, max_seconds)) + 1);
    if (is_waiting)
        must_not_be_late(s, "P9", t, "dispatch.reap",
                         due_ms(c, later_ms(t->pending_ms, t->acknowledged_ms),
                                limit_ms(option_get(o, pmo, dispatched_timeout_seconds))));
    if (strcmp(t->status, "in_progress") == 0) /* a start gives back a minute that was not stored */
        must_not_be_late(
            s, "P9", t, "running.reap",
            due_ms(c, later_ms(t->progress_ms + 60000, known_task(s->checker, t->task)->beat_ms),
                   limit_ms(option_get(o, pmo, active_reap_seconds))));
}

static void look_at_open_tasks(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_OPEN_TASKS);
    while (look_next(s, q)) {
        struct open_task t = read_open_task(q);
        if (t.role < 0)
            continue;
        p3_stuck_work_is_recovered(s, &t);
        p9_work_ends(s, &t);
    }
}

/* ---- conversations ---- */

static void p20_budgets_fire_in_time(struct sim *s, sqlite3_stmt *q)
{
    int64_t budget_ms = 1000 * (look_is_null(q, 4) ? option_get(&s->swarm.options, runtime_controls,
                                                                session_wall_clock_seconds)
                                                   : look_int(q, 4));
    int64_t due = look_int(q, 3) + budget_ms + 1;
    if (budget_ms && is_late(s, due))
        sim_fail(s, "P20", "conversation %lld is active at %lld; its window ended at %lld",
                 (long long)look_int(q, 0), (long long)sim_server_ms(s), (long long)due);
}

static void p9_idle_ends(struct sim *s, sqlite3_stmt *q)
{
    const struct known_conversation *k = known_conversation(s->checker, look_int(q, 0));
    int64_t idle_ms = k->turn_is_open ? option_get(&s->swarm.options, watchdog, idle_ms)
                                      : option_get(&s->swarm.options, watchdog, global_idle_ms);
    if (look_int(q, 12) > 0 || idle_ms == 0)
        return;
    int64_t since = later_ms(k->activity_ms, later_ms(look_int(q, 3), look_int(q, 9)));
    if (is_late(s, due_ms(s->checker, since, idle_ms)))
        sim_fail(s, "P9", "conversation %lld is active at %lld and was idle since %lld",
                 (long long)look_int(q, 0), (long long)sim_server_ms(s), (long long)since);
}

static void p7_states_have_reasons(struct sim *s, sqlite3_stmt *q)
{
    const char *status = look_text(q, 1);
    const struct known_conversation *k = known_conversation(s->checker, look_int(q, 0));
    bool is_over = strcmp(status, "completed") == 0;
    if (is_over != k->has_ended)
        sim_fail(s, "P7", "conversation %lld is %s, its log says otherwise",
                 (long long)look_int(q, 0), status);
    if (strcmp(status, "active") != 0 && look_is_null(q, 10))
        sim_fail(s, "P7", "conversation %lld is %s without a reason", (long long)look_int(q, 0),
                 status);
    if (look_int(q, 8) != look_int(q, 12))
        sim_fail(s, "HEAD", "conversation %lld counts %lld open tasks; there are %lld",
                 (long long)look_int(q, 0), (long long)look_int(q, 8), (long long)look_int(q, 12));
}

static void look_at_conversations(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_CONVERSATIONS);
    while (look_next(s, q)) {
        p7_states_have_reasons(s, q);
        if (strcmp(look_text(q, 1), "active") != 0)
            continue;
        p20_budgets_fire_in_time(s, q);
        p9_idle_ends(s, q);
    }
}

/* ---- agents, tasks, commands: all of them ---- */

/* Head and task always agree. */
static void heads_and_tasks_agree(struct sim *s, sqlite3_stmt *q)
{
    bool is_active = strcmp(look_text(q, 11), "active") == 0;
    if (look_int(q, 4) != look_int(q, 12))
        sim_fail(s, "HEAD", "%lld:%s works on task %lld; its open task is %lld",
                 (long long)look_int(q, 0), look_text(q, 1), (long long)look_int(q, 4),
                 (long long)look_int(q, 12));
    if (is_active && !look_int(q, 12) && look_int(q, 13))
        sim_fail(s, "P18", "%lld:%s is idle, and %lld tasks are queued for it",
                 (long long)look_int(q, 0), look_text(q, 1), (long long)look_int(q, 13));
}

/* What is shown follows from evidence. */
static void p22_views_are_observed(struct sim *s, sqlite3_stmt *q)
{
    const char *view = look_text(q, 3), *process = look_text(q, 6);
    bool is_managed = !look_is_null(q, 8),
         is_seen = look_int(q, 14) || polled_ms(s, look_text(q, 7)) > 0,
         is_listening = look_int(q, 5);
    bool is_wrong =
        (strcmp(view, "running") == 0 && (!is_managed || !is_seen)) ||
        (strcmp(view, "waiting") == 0 && !is_listening) ||
        (strcmp(view, "stopped") == 0 &&
         (is_listening || (is_seen && strcmp(process, "none") == 0))) ||
        ((strcmp(view, "working") == 0 || strcmp(view, "suspended") == 0) && !look_int(q, 12)) ||
        (strcmp(view, "breaker_open") == 0 && !look_int(q, 9));
    if (is_wrong)
        sim_fail(s, "P22", "%lld:%s is shown as %s; process %s, seen %d, listening %d, task %lld",
                 (long long)look_int(q, 0), look_text(q, 1), view, process, is_seen, is_listening,
                 (long long)look_int(q, 12));
}

static void look_at_agents(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_AGENTS);
    while (look_next(s, q)) {
        heads_and_tasks_agree(s, q);
        p22_views_are_observed(s, q);
        p14_desired_is_a_persons(s, q);
    }
}

static void look_at_hosts(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_AGENTS);
    while (look_next(s, q))
        p3_nobody_is_bound_for_ever(s, q);
    p9_orders_end(s);
}

/* Epochs and ends do not go back. */
static void p12_tasks_go_forward(struct sim *s, sqlite3_stmt *q)
{
    struct known_task *t = known_task(s->checker, look_int(q, 0));
    int rank = status_rank(look_text(q, 3));
    int64_t epoch = look_int(q, 4);
    if (t->is_known && (epoch < t->epoch || (epoch == t->epoch && rank < t->rank)))
        sim_fail(s, "P12", "task %lld was in epoch %lld, and is %s in epoch %lld",
                 (long long)look_int(q, 0), (long long)t->epoch, look_text(q, 3), (long long)epoch);
    t->is_known = true;
    t->epoch = epoch;
    t->rank = rank;
}

static void p7_ends_are_told(struct sim *s, sqlite3_stmt *q)
{
    const struct known_task *t = known_task(s->checker, look_int(q, 0));
    bool is_over = !look_is_null(q, 6);
    if ((t->terminal_events == 1) != is_over)
        sim_fail(s, "P7", "task %lld is %s; terminal events: %d", (long long)look_int(q, 0),
                 look_text(q, 3), t->terminal_events);
    if (is_over && look_is_null(q, 7))
        sim_fail(s, "P7", "task %lld is %s without a reason", (long long)look_int(q, 0),
                 look_text(q, 3));
}

static void look_at_tasks(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_TASKS);
    while (look_next(s, q)) {
        p12_tasks_go_forward(s, q);
        p7_ends_are_told(s, q);
    }
    q = look_at(s, LOOK_INBOX);
    while (look_next(s, q)) {
        const char *want = strcmp(look_text(q, 1), "pending") == 0 ? "pending" : "processing";
        if (strcmp(look_text(q, 2), want) != 0)
            sim_fail(s, "HEAD", "task %lld is %s; its inbox row is %s", (long long)look_int(q, 0),
                     look_text(q, 1), look_is_null(q, 2) ? "missing" : look_text(q, 2));
    }
}

static void p4_one_start(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_TWO_STARTS);
    while (look_next(s, q))
        sim_fail(s, "P4", "%lld:%s has two open starts", (long long)look_int(q, 0),
                 look_text(q, 1));
}

static void p19_one_effect(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_TWO_OF_A_REQUEST);
    while (look_next(s, q))
        sim_fail(s, "P19", "conversation %lld has two events of request %s",
                 (long long)look_int(q, 0), look_text(q, 1));
}

/* Nothing that was due to be looked at is left. */
static void p18_nothing_is_stranded(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_STALE_LOOKS);
    sqlite3_bind_int64(q, 1, sim_server_ms(s));
    while (look_next(s, q))
        sim_fail(s, "P18", "%s %lld was due, and is left at %lld", look_text(q, 0),
                 (long long)look_int(q, 1), (long long)sim_server_ms(s));
}

void checker_look_at_all(struct sim *s)
{
    read_gaps(s);
    look_at_tasks(s);
    look_at_agents(s);
    inbox_look_at_all(s);
    p4_one_start(s);
    p19_one_effect(s);
}

/* While the disk refuses, or did a moment ago, nothing can be moved in time. The pause after it is
 * counted by a clock that stands still while the machine sleeps. */
static bool is_excused(const struct sim *s)
{
    return s->disk_is_bad || !core_is_writable(s->core) ||
           clock_mono_us() / 1000 <= s->checker->refused_until_mono_ms + 2 * LATE_MS;
}

void checker_at_rest(struct sim *s)
{
    struct checker *c = s->checker;
    if (llabs(sim_server_ms(s) - c->rested_ms) < REST_EVERY_MS)
        return;
    read_gaps(s);
    if (is_excused(s))
        return;
    c->rested_ms = sim_server_ms(s);
    p16_gaps_are_on_record(s);
    p2_leases_run_out(s);
    look_at_open_tasks(s);
    look_at_conversations(s);
    look_at_hosts(s);
    inbox_at_rest(s);
    tools_at_rest(s);
    if (c->rests++ % LOOK_AT_ALL_EVERY == 0) {
        p18_nothing_is_stranded(s);
        checker_look_at_all(s);
    }
}

/* ---- the end of it ---- */

/* As many tasks as one agent has, one after the other, each for as long as it may take; and what
 * machines need to notice and to be noticed. */
void checker_settles(struct sim *s)
{
    const struct options *o = &s->swarm.options;
    int64_t most = 1, counts[SIM_ACTORS_MAX * SIM_ROLES_MAX] = {0};
    sqlite3_stmt *q = look_at(s, LOOK_OPEN_TASKS);
    while (look_next(s, q)) {
        size_t at = (size_t)(look_int(q, 1) * SIM_ROLES_MAX + role_number(look_text(q, 2)));
        if (at < ARRAY_LEN(counts) && ++counts[at] > most)
            most = counts[at];
    }
    int64_t seconds = most * (option_get(o, task, max_seconds) + 2) +
                      2 * option_get(o, machine, ttl_seconds) +
                      option_get(o, machine, fence_seconds) +
                      4 * option_get(o, restart, command_deadline_seconds) + 300;
    s->checker->settle_by_ms = s->now_ms + seconds * 1000;
}

int64_t checker_settled_by_ms(const struct sim *s)
{
    return s->checker->settle_by_ms;
}

/* No process of what has ended, or is not wanted, lives where it can be reached (P15). */
static const char *find_orphan(struct sim *s)
{
    static char text[120];
    const char *found = NULL;
    sqlite3_stmt *q = look_at(s, LOOK_AGENTS);
    while (look_next(s, q)) {
        bool is_wanted =
            strcmp(look_text(q, 11), "active") == 0 && strcmp(look_text(q, 2), "stopped") != 0;
        for (int i = 0; !is_wanted && i < s->swarm.processes; i++) {
            const struct worker *w = &s->fleet.workers[SIM_ACTORS_MAX + i];
            if (!w->is_alive || w->conversation != look_int(q, 0) ||
                w->role != role_number(look_text(q, 1)) ||
                s->fleet.hosts[w->machine].cut_until_ms > s->now_ms ||
                s->fleet.hosts[w->machine].is_gone)
                continue;
            snprintf(text, sizeof text, "P15 process %d of %lld:r%d lives, nobody wants it", i,
                     (long long)w->conversation, w->role);
            found = text;
        }
    }
    return found;
}

const char *checker_what_is_open(struct sim *s)
{
    static char text[120];
    bool is_open = false;
    if (!s->core)
        return "P9 the server is down";
    sqlite3_stmt *q = look_at(s, LOOK_OPEN_TASKS);
    while (look_next(s, q)) {
        snprintf(text, sizeof text, "P9 task %lld is %s", (long long)look_int(q, 0),
                 look_text(q, 3));
        is_open = true;
    }
    q = look_at(s, LOOK_OPEN_COMMANDS);
    while (look_next(s, q)) {
        snprintf(text, sizeof text, "P9 command %lld, %s, is open", (long long)look_int(q, 0),
                 look_text(q, 1));
        is_open = true;
    }
    return is_open ? text : find_orphan(s);
}
