/* process.c: see process.h. */
#include "domain/process.h"
#include "domain/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "domain/append.h"
#include "domain/command.h"
#include "domain/head.h"
#include "domain/inbox.h"
#include "domain/machine.h"
#include "domain/participant.h"
#include "domain/process_end.h"
#include "domain/task.h"
#include "domain/work.h"

enum { TOKEN_AFTERLIFE_MS = 3600000 };

/* ---- facts ---- */

/* The start that a spawn belongs to, and its agent. */
struct spawn {
    int64_t command;
    bool is_open;
    struct agent *agent;
    bool is_current; /* the agent's process, or the one on its way */
};

static int unknown_spawn(struct str spawn_id, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "there is no spawn %.*s here", STR_ARG(spawn_id));
    err_str(err, "what", STR("spawn"));
    return err_str(err, "id", spawn_id);
}

static int find_spawn(struct work *w, const struct machine *m, struct str spawn_id,
                      struct spawn *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_OF_SPAWN);
    query_text(q, 1, spawn_id);
    int r = query_one(q, err);
    if (r <= 0)
        return r < 0 ? r : unknown_spawn(spawn_id, err);
    *ret = (struct spawn){.command = query_get_int(q, 0), .is_open = query_is_null(q, 3)};
    int64_t conversation = query_get_int(q, 1);
    struct str role = arena_str(&w->arena, query_get_text(q, 2));
    bool is_its_own = str_is(query_get_text(q, 4), m->name);
    query_end(q);
    if (!is_its_own) /* another machine's: not this one's to speak of */
        return unknown_spawn(spawn_id, err);
    r = agent_find(w, conversation, role, &ret->agent, err);
    if (r == -ERR_INTERNAL) { /* its row is damaged: others must not wait for it (P17) */
        log_error("domain", "agent_damaged", "agent=%lld:%.*s", (long long)conversation,
                  STR_ARG(role));
        return unknown_spawn(spawn_id, err);
    }
    if (r == 0)
        ret->is_current = str_is(spawn_id, ret->agent->spawn_id);
    return r;
}

static int set_command(struct work *w, int64_t command, const char *status, bool is_closed,
                       struct str outcome, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_SET);
    query_int(q, 1, command);
    query_text(q, 2, str_of(status));
    if (is_closed)
        query_int(q, 3, w->now_ms);
    query_text(q, 4, outcome);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

static int insert_process(struct work *w, const struct machine *m, const struct agent *a,
                          struct str spawn_id, int64_t pid, int64_t start_time, struct err *err)
{
    struct query *q = store_query(w->store, SQL_PROCESS_INSERT);
    query_text(q, 1, spawn_id);
    query_int(q, 2, a->conversation);
    query_text(q, 3, str_of(a->role));
    query_text(q, 4, str_of(m->name));
    query_int(q, 5, pid);
    query_int(q, 6, start_time);
    query_int(q, 7, w->now_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

static int has_ended(struct work *w, struct str spawn_id, bool *ret_known, bool *ret,
                     struct err *err)
{
    struct query *q = store_query(w->store, SQL_PROCESS_GET);
    query_text(q, 1, spawn_id);
    int r = query_one(q, err);
    *ret_known = r == STORE_ROW;
    *ret = r == STORE_ROW && !query_is_null(q, 3);
    query_end(q);
    return MIN(r, 0);
}

/* A process was seen. */
static int note_running(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    agent_edit(w, a);
    if (a->process != PROCESS_STOPPING)
        a->process = PROCESS_RUNNING;
    a->is_crashed = false;
    if (!a->process_ms)
        a->process_ms = w->now_ms;
    return agent_store(w, a, reason, err);
}

int process_spawned(struct work *w, const struct machine *m, struct str spawn_id, int64_t pid,
                    int64_t start_time, struct err *err)
{
    struct spawn s;
    int r = find_spawn(w, m, spawn_id, &s, err);
    if (r == 0)
        r = insert_process(w, m, s.agent, spawn_id, pid, start_time, err);
    if (r < 0)
        return r;
    bool is_ready = machine_kind_of(w, s.agent).ready == READY_NONE;
    if (s.is_open)
        r = set_command(w, s.command, is_ready ? "done" : "booting", is_ready, STR_NONE, err);
    return r < 0 || !s.is_current ? r : note_running(w, s.agent, "spawned", err);
}

/* Asked for, executed, and its machine did not come to say so: what it has it need not be told
 * again, and the process keeps the token it was given. */
int process_found(struct work *w, const struct machine *m, struct str spawn_id, int64_t pid,
                  int64_t start_time, struct err *err)
{
    struct spawn s;
    bool is_known, has_gone;
    int r = find_spawn(w, m, spawn_id, &s, err);
    if (r < 0)
        return r == -ERR_NOT_FOUND ? 0 : r;
    if (!pid ||
        !(s.is_open || s.is_current)) /* in hand, it has not begun; or nobody waits for it */
        return 0;
    r = has_ended(w, spawn_id, &is_known, &has_gone, err);
    return r < 0 || is_known ? r : process_spawned(w, m, spawn_id, pid, start_time, err);
}

int process_ready(struct work *w, const struct machine *m, struct str spawn_id, struct err *err)
{
    struct spawn s;
    int r = find_spawn(w, m, spawn_id, &s, err);
    if (r == 0 && s.is_open)
        r = set_command(w, s.command, "done", true, STR_NONE, err);
    return r < 0 || !s.is_current ? r : note_running(w, s.agent, "ready", err);
}

/* ---- the end of a process ---- */

int process_change_hold(struct work *w, const struct agent *a, enum task_held held,
                        struct str spawn, struct err *err)
{
    struct task *t;
    if (!a->active_task)
        return 0;
    int r = task_get(w, a->active_task, &t, err);
    if (r < 0 || t->held == HELD_NOT || t->held == held ||
        (spawn.p && !str_is(spawn, t->held_spawn)))
        return r;
    task_edit(w, t);
    t->held = held;
    work_touch(w, agent_key(a));
    return task_store(w, t, err);
}

/* The work it had in hand goes back, in the same transaction; its agent keeps it. */
static int release_task(struct work *w, const struct agent *a, struct str spawn_id,
                        const char *evidence, struct err *err)
{
    struct task *t;
    if (!a->active_task)
        return 0;
    int r = task_get(w, a->active_task, &t, err);
    if (r < 0)
        return r;
    bool is_acknowledged = t->status == TASK_ACKNOWLEDGED;
    if (!str_is(spawn_id, t->claimed_spawn) || (!is_acknowledged && t->status != TASK_IN_PROGRESS))
        return 0;
    enum rule_id rule = is_acknowledged ? RULE_TASK_ACKNOWLEDGED : RULE_TASK_ORPHANED;
    struct task_move m =
        TASK_MOVE(is_acknowledged ? TRIGGER_RECOVER_ACKNOWLEDGED : TRIGGER_RECOVER);
    m.rule = rule_name(rule);
    m.evidence = arena_printf(&w->arena, "\"evidence\":\"%s\"", evidence);
    work_count_rule(w, rule);
    return task_move(w, t, &m, err);
}

static int append_exited(struct work *w, const struct agent *a, struct str spawn_id,
                         const struct exit_status *exit, bool is_expected, struct err *err)
{
    _cleanup_buf_ struct buf data = BUF_INIT(1 << 16);
    struct json_out j = JSON_OUT(&data);
    json_object(&j, NULL);
    json_string(&j, "spawnId", spawn_id);
    json_bool(&j, "expected", is_expected);
    if (exit->is_unknown) {
        json_null(&j, "code");
    } else {
        json_int(&j, "code", exit->code);
        json_int(&j, "signal", exit->signal);
    }
    json_string(&j, "text", exit->text);
    if (exit->tail.n)
        json_string(&j, "tail", exit->tail);
    json_end(&j);
    struct str members = {data.data + 1, data.len - 2}; /* without their braces */
    return agent_append(w, a, "system-lifecycle", "agent.exited", members, "agent.exited", err);
}

static int is_stop_asked_for(struct work *w, struct str spawn_id, bool *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_HAS_STOP);
    query_text(q, 1, spawn_id);
    int r = query_one(q, err);
    query_end(q);
    *ret = r == STORE_ROW;
    return MIN(r, 0);
}

int process_end_tokens(struct work *w, struct str spawn_id, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOKEN_EXPIRE_OF_SPAWN);
    query_text(q, 1, spawn_id);
    query_int(q, 2, all_time_until_ms(ALL_TIME_TOKEN, w->now_ms, TOKEN_AFTERLIFE_MS));
    w->tokens_changed = true;
    work_mark_written(w);
    return query_run(q, NULL, err);
}

/* It is gone: nobody need be told to stop it. */
static int close_stops(struct work *w, struct str spawn_id, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_CLOSE_STOPS);
    query_text(q, 1, spawn_id);
    query_int(q, 2, w->now_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

static int close_row(struct work *w, struct str spawn_id, const struct exit_status *exit,
                     struct err *err)
{
    struct query *q = store_query(w->store, SQL_PROCESS_END);
    query_text(q, 1, spawn_id);
    query_int(q, 2, w->now_ms);
    if (!exit->is_unknown) {
        query_int(q, 3, exit->code);
        query_int(q, 4, exit->signal);
    }
    work_mark_written(w);
    int r = query_run(q, NULL, err);
    if (r == 0)
        r = close_stops(w, spawn_id, err);
    if (r < 0)
        return r;
    return process_end_tokens(w, spawn_id, err);
}

static bool is_clean(const struct exit_status *exit)
{
    return !exit->is_unknown && exit->code == 0;
}

/* Does its kind want it up again after such an end? Work does in any case. */
static bool wants_again(const struct work *w, const struct agent *a, const struct exit_status *exit)
{
    enum restart_policy policy = machine_kind_of(w, a).restart;
    return a->active_task || policy == RESTART_ALWAYS ||
           (policy == RESTART_ON_FAILURE && !is_clean(exit));
}

int process_take_back(struct work *w, struct agent *a, struct str spawn_id, const char *evidence,
                      struct err *err)
{
    int r = 0;
    if (a->is_listening && str_is(spawn_id, a->listener_spawn))
        r = participant_end(w, a, "process_ended", err);
    if (r == 0)
        r = release_task(w, a, spawn_id, evidence, err);
    return r < 0 ? r : process_change_hold(w, a, HELD_NOT, spawn_id, err);
}

/* One of an agent's processes, whether it is the current one or not. An open order is enough. */
static int stop_spawn(struct work *w, const struct agent *a, struct str machine,
                      const char *spawn_id, const char *reason, struct err *err)
{
    int64_t command;
    return command_stop(w, a->conversation, str_of(a->role), str_of(a->kind), machine, spawn_id,
                        reason, &command, err);
}

/* It is the agent's process after all, until it has ended (P22). */
static int note_still_there(struct work *w, struct agent *a, struct str spawn_id, struct err *err)
{
    agent_edit(w, a);
    a->process = PROCESS_STOPPING;
    snprintf(a->spawn_id, sizeof a->spawn_id, "%.*s", STR_ARG(spawn_id));
    return agent_store(w, a, "superseded", err);
}

int process_find_open(struct work *w, const struct agent *a, struct str *ret_spawn,
                      struct str *ret_machine, struct err *err)
{
    struct query *q = store_query(w->store, SQL_PROCESS_OPEN_OF);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    int r = query_one(q, err);
    *ret_spawn = r == STORE_ROW ? arena_str(&w->arena, query_get_text(q, 0)) : STR("");
    *ret_machine = r == STORE_ROW ? arena_str(&w->arena, query_get_text(q, 1)) : STR("");
    query_end(q);
    return MIN(r, 0);
}

/* Its newest process is gone, or never was, and none will follow. If one is left that it was to
 * replace, its machine did not get so far as to end it: the order was lost on the way, or taken
 * back before it was heard (P15). */
static int stop_what_is_left(struct work *w, struct agent *a, struct err *err)
{
    bool is_wanted;
    int r = agent_is_wanted(w, a, &is_wanted, err);
    if (r < 0 || a->process != PROCESS_NONE || (is_wanted && !a->breaker_is_open))
        return r;
    struct str spawn_id, machine;
    r = process_find_open(w, a, &spawn_id, &machine, err);
    if (r < 0 || !spawn_id.n)
        return r;
    if (!a->spawn_id[0]) /* else that one may still begin */
        r = note_still_there(w, a, spawn_id, err);
    return r < 0 ? r : stop_spawn(w, a, machine, spawn_id.p, "superseded", err);
}

/* The agent's current process has ended: whether it comes back, and when. If the next one is on its
 * way already, that one is wanted, whatever this one's end says: it must be stopped one day (P15).
 */
static int decide_on_end(struct work *w, struct agent *a, bool is_expected,
                         const struct exit_status *exit, struct err *err)
{
    struct starts starts;
    bool may_run;
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r == 0)
        r = agent_may_run(w, a, &may_run, err);
    if (r < 0)
        return r;
    bool comes_back = is_expected || (may_run && wants_again(w, a, exit));
    a->process = starts.open ? PROCESS_STARTING : PROCESS_NONE;
    a->is_fenced = false;
    a->spawn_id[0] = '\0';
    bool has_done_its_work = is_clean(exit) && a->has_delivered; /* one process for one task */
    if (!is_expected && comes_back && !has_done_its_work)
        r = agent_note_failure(w, a, err);
    a->process_ms = 0;
    if (!comes_back && !starts.open) {
        a->is_ensured = false;
        a->is_crashed = !is_clean(exit);
    }
    return r < 0 || !comes_back ? r : agent_bring_up(w, a, "agent.exited", err);
}

/* One event tells what became of the agent, after all of it is decided. */
static int end_current(struct work *w, struct agent *a, struct str spawn_id, bool is_expected,
                       const struct exit_status *exit, struct err *err)
{
    agent_hush(w, a);
    int r = process_take_back(w, a, spawn_id, "its process has ended", err);
    if (r == 0)
        r = decide_on_end(w, a, is_expected, exit, err);
    if (r == 0)
        r = stop_what_is_left(w, a, err);
    return r < 0 ? r : agent_tell(w, a, is_expected ? "stopped" : "exited", err);
}

int process_ended(struct work *w, const struct machine *m, struct str spawn_id,
                  const struct exit_status *exit, struct err *err)
{
    struct spawn s;
    bool is_expected, is_known, is_old_news;
    int r = find_spawn(w, m, spawn_id, &s, err);
    if (r == 0)
        r = has_ended(w, spawn_id, &is_known, &is_old_news, err);
    if (r < 0)
        return r;
    if (is_old_news) /* it was thought gone, found again, and stopped */
        return close_stops(w, spawn_id, err);
    r = is_stop_asked_for(w, spawn_id, &is_expected, err);
    is_expected |= !s.is_current || exit->is_stopped; /* another was to take its place; `down` */
    if (r == 0 && !is_known)                          /* nobody told us that it began */
        r = insert_process(w, m, s.agent, spawn_id, 0, 0, err);
    if (r == 0 && s.is_open)
        r = set_command(w, s.command, "failed", true, STR("exited"), err);
    if (r == 0)
        r = close_row(w, spawn_id, exit, err);
    if (r == 0)
        r = append_exited(w, s.agent, spawn_id, exit, is_expected, err);
    if (r < 0)
        return r;
    return s.is_current ? end_current(w, s.agent, spawn_id, is_expected, exit, err)
                        : process_take_back(w, s.agent, spawn_id, "its process has ended", err);
}

int process_start_failed(struct work *w, const struct machine *m, struct str spawn_id,
                         struct str error, struct err *err)
{
    struct spawn s;
    const struct exit_status exit = {.is_unknown = true, .text = error};
    int r = find_spawn(w, m, spawn_id, &s, err);
    if (r == 0 && s.is_open)
        r = set_command(w, s.command, "failed", true, error, err);
    return r < 0 ? r : process_ended(w, m, spawn_id, &exit, err);
}

/* ---- commands that nobody confirmed ---- */

static int append_not_confirmed(struct work *w, const struct agent *a, const struct command *c,
                                struct err *err)
{
    char deadline[CLOCK_ISO_BYTES];
    clock_iso(command_due_ms(w, c) - 1, deadline);
    struct str saw = arena_printf(&w->arena,
                                  "\"command\":%lld,\"type\":\"%.*s\",\"machine\":\"%.*s\","
                                  "\"deadline\":\"%s\",\"limit\":%lld,\"sends\":%lld",
                                  (long long)c->command, STR_ARG(c->type), STR_ARG(c->machine),
                                  deadline, (long long)command_limit_ms(w, c), (long long)c->sends);
    return agent_note_rule(w, a, RULE_COMMAND_EXPIRED, saw, err);
}

/* Told once: reeve can do no more about this process, a person must. */
static int append_unstoppable(struct work *w, const struct agent *a, const struct command *c,
                              struct err *err)
{
    int64_t pid;
    int r = process_pid(w, c->spawn_id.p, &pid, err);
    if (r < 0)
        return r;
    struct str saw = arena_printf(
        &w->arena,
        "\"command\":%lld,\"spawnId\":\"%.*s\",\"machine\":\"%.*s\",\"pid\":%lld,\"sends\":%lld,"
        "\"error\":\"machine %.*s has not confirmed that process %lld ended, after %lld orders to "
        "stop it: look at the process on that machine\"",
        (long long)c->command, STR_ARG(c->spawn_id), STR_ARG(c->machine), (long long)pid,
        (long long)c->sends, STR_ARG(c->machine), (long long)pid, (long long)c->sends);
    return agent_append(w, a, "system-watchdog", "agent.unstoppable", saw,
                        rule_name(RULE_COMMAND_EXPIRED), err);
}

static int expire_stop(struct work *w, const struct agent *a, struct command *c, struct err *err)
{
    if (c->sends + 1 < STOP_SENDS_MAX)
        return command_send_again(w, c, err);
    int r = command_rest(w, c, err);
    return r < 0 ? r : append_unstoppable(w, a, c, err);
}

/* A failure, and perhaps a process; the next start is a restart. */
static int expire_start(struct work *w, struct agent *a, const struct command *c, struct err *err)
{
    int r = set_command(w, c->command, "expired", true, STR("not_confirmed"), err);
    if (r == 0)
        r = process_end_tokens(w, c->spawn_id, err);
    if (r < 0)
        return r;
    agent_hush(w, a);
    a->process = PROCESS_NONE;
    r = agent_note_failure(w, a, err);
    if (r == 0 && a->breaker_is_open && c->spawn_id.n) /* no next start will replace it */
        r = stop_spawn(w, a, c->machine, c->spawn_id.p, "breaker_open", err);
    if (r == 0)
        r = agent_bring_up(w, a, "command.expired", err);
    if (r == 0)
        r = stop_what_is_left(w, a, err);
    return r < 0 ? r : agent_tell(w, a, "command.expired", err);
}

int command_expire(struct work *w, struct command *c, struct err *err)
{
    struct agent *a;
    work_touch(w, machine_key_of(c->machine));
    int r = agent_find(w, c->conversation, c->role, &a, err);
    if (r == 0)
        r = append_not_confirmed(w, a, c, err);
    if (r < 0)
        return r;
    return command_is_stop(c) ? expire_stop(w, a, c, err) : expire_start(w, a, c, err);
}

/* ---- a machine comes, beats, goes ---- */

/* Spawn ids that a machine has named, sorted. */
struct spawns {
    const struct str *list;
    size_t count;
};

static int by_text(const void *left, const void *right)
{
    return str_compare(*(const struct str *)left, *(const struct str *)right);
}

static struct spawns sorted(struct work *w, const struct str *list, size_t count)
{
    struct str *copy = arena_alloc(&w->arena, (count + 1) * sizeof *copy);
    if (count) {
        memcpy(copy, list, count * sizeof *copy);
        qsort(copy, count, sizeof *copy, by_text);
    }
    return (struct spawns){copy, count};
}

int processes_each_on(struct work *w, const struct machine *m, agent_each_fn *fn, void *ctx,
                      struct err *err)
{
    return agents_each(w, SQL_AGENT_LIST_ON_MACHINE, str_of(m->name), fn, ctx, err);
}

static bool is_among(struct str spawn_id, const struct spawns *spawns)
{
    return bsearch(&spawn_id, spawns->list, spawns->count, sizeof spawn_id, by_text) != NULL;
}

int agent_work_is_held(struct work *w, const struct agent *a, bool *ret, struct err *err)
{
    struct task *t;
    int r = a->active_task ? task_get(w, a->active_task, &t, err) : 0;
    *ret = r == 0 && a->active_task && t->held != HELD_NOT;
    return r;
}

/* Named by its machine, and nobody has said that it began: the start is in hand. */
static int note_in_hand(struct work *w, struct agent *a, struct err *err)
{
    agent_edit(w, a);
    a->process = PROCESS_STARTING;
    return agent_store(w, a, "machine_registered", err);
}

/* It can be asked again, and lives. If its work was taken back meanwhile, another takes its place.
 */
static int note_back(struct work *w, struct agent *a, struct err *err)
{
    bool was_taken_back = false, has_begun, has_gone;
    int r = has_ended(w, str_of(a->spawn_id), &has_begun, &has_gone, err);
    if (r == 0)
        r = has_begun ? note_running(w, a, "machine_registered", err) : note_in_hand(w, a, err);
    if (r == 0)
        r = agent_work_is_held(w, a, &was_taken_back, err);
    was_taken_back |= a->is_fenced;
    a->is_fenced = false;
    if (r < 0 || !was_taken_back)
        return r;
    r = process_change_hold(w, a, HELD_PROCESS, STR_NONE, err);
    return r < 0 ? r : agent_replace(w, a, "task.orphaned", err);
}

/* It was told to start and has not: or that was lost on the way. Counted against nobody. */
static int note_never_began(struct work *w, struct agent *a, struct err *err)
{
    struct starts starts;
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r < 0 || starts.open) /* it is told again */
        return r;
    if (a->spawn_id[0]) /* it may have spoken; who has no process of ours keeps what is his */
        r = process_take_back(w, a, arena_str(&w->arena, str_of(a->spawn_id)),
                              "its process never began", err);
    if (r < 0)
        return r;
    agent_edit(w, a);
    a->process = PROCESS_NONE;
    a->spawn_id[0] = '\0';
    return agent_store(w, a, "machine_registered", err);
}

/* It was told to end, and the order was given up when its machine went away; or it still stands. */
static int stop_again(struct work *w, const struct agent *a, struct err *err)
{
    return stop_spawn(w, a, str_of(a->machine), a->spawn_id, "not_wanted", err);
}

/* Known here; does the machine have it? */
static int reconcile(struct work *w, struct agent *a, void *ctx, struct err *err)
{
    bool is_known = false, has_gone = false;
    if (a->spawn_id[0] && is_among(str_of(a->spawn_id), ctx)) {
        if (a->process == PROCESS_STOPPING)
            return stop_again(w, a, err);
        return a->process == PROCESS_UNKNOWN || a->process == PROCESS_STARTING
                   ? note_back(w, a, err)
                   : 0;
    }
    struct str spawn_id = arena_str(&w->arena, str_of(a->spawn_id));
    int r = has_ended(w, spawn_id, &is_known, &has_gone, err);
    if (r < 0 || !is_known)
        return r < 0 ? r : note_never_began(w, a, err);
    const struct exit_status exit = {.is_unknown = true,
                                     .text = STR("the machine has no such process")};
    return process_ended(w, machine_find(w, str_of(a->machine)), spawn_id, &exit, err);
}

/* The machine has it; may it stay? Each process that is not its agent's current one, or whose agent
 * may not run, is stopped. */
static int stop_unwanted(struct work *w, const struct machine *m, struct str spawn_id,
                         struct err *err)
{
    struct spawn s;
    bool may_run;
    int r = find_spawn(w, m, spawn_id, &s, err);
    if (r == -ERR_NOT_FOUND)
        return 0; /* none of ours: the machine looks after what it started for others */
    if (r == 0)
        r = agent_may_run(w, s.agent, &may_run, err);
    if (r < 0 || (s.is_current && may_run))
        return r;
    if (s.is_current)
        return agent_stop(w, s.agent, "not_wanted", err);
    r = stop_what_is_left(w, s.agent, err);
    if (r < 0)
        return r;
    return stop_spawn(w, s.agent, str_of(m->name), arena_strndup(&w->arena, spawn_id.p, spawn_id.n),
                      "superseded", err);
}

/* Every process that was seen on the machine and is not there: those that were replaced, too. */
static int end_the_gone(struct work *w, const struct machine *m, const struct spawns *has,
                        struct err *err)
{
    enum { PAGE_ROWS = 64 };
    struct str page[PAGE_ROWS], after = STR("");
    const struct exit_status exit = {.is_unknown = true,
                                     .text = STR("the machine has no such process")};
    size_t n = PAGE_ROWS;
    int r = 0;
    while (r == 0 && n == PAGE_ROWS) {
        struct query *q = store_query(w->store, SQL_PROCESS_OPEN_ON);
        query_text(q, 1, str_of(m->name));
        query_text(q, 2, after);
        query_int(q, 3, PAGE_ROWS);
        for (n = 0; (r = query_step(q, err)) == STORE_ROW; n++)
            page[n] = arena_str(&w->arena, query_get_text(q, 0));
        for (size_t i = 0; r == 0 && i < n; i++) {
            after = page[i];
            if (!is_among(after, has))
                r = process_ended(w, m, after, &exit, err);
            if (r == -ERR_NOT_FOUND)
                r = 0;
        }
    }
    return r;
}

int processes_reconcile(struct work *w, const struct machine *m, const struct str *has,
                        size_t count, struct err *err)
{
    struct spawns spawns = sorted(w, has, count);
    int r = end_the_gone(w, m, &spawns, err);
    if (r == 0)
        r = processes_each_on(w, m, reconcile, &spawns, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = stop_unwanted(w, m, has[i], err);
    return r;
}

static int note_alive(struct work *w, struct agent *a, void *ctx, struct err *err)
{
    struct task *t;
    if (!is_among(str_of(a->spawn_id), ctx))
        return 0;
    int r = a->process == PROCESS_UNKNOWN    ? note_back(w, a, err)
            : a->process == PROCESS_STOPPING ? stop_again(w, a, err)
                                             : 0;
    if (r < 0 || !a->active_task)
        return r;
    r = task_get(w, a->active_task, &t, err);
    if (r == 0 && strcmp(t->claimed_spawn, a->spawn_id) == 0)
        task_beat_by_machine(w, t);
    return r;
}

int processes_alive(struct work *w, const struct machine *m, const struct str *alive, size_t count,
                    struct err *err)
{
    struct spawns spawns = sorted(w, alive, count);
    return count ? processes_each_on(w, m, note_alive, &spawns, err) : 0;
}

static int note_unknown(struct work *w, struct agent *a, void *ctx, struct err *err)
{
    (void)ctx;
    if (a->process != PROCESS_RUNNING && a->process != PROCESS_STARTING)
        return 0;
    agent_edit(w, a);
    a->process = a->spawn_id[0] ? PROCESS_UNKNOWN : PROCESS_NONE; /* never taken: the wish stands */
    int r = process_change_hold(w, a, HELD_MACHINE, STR_NONE, err);
    return r < 0 ? r : agent_store(w, a, "machine.offline", err);
}

int processes_unknown(struct work *w, const struct machine *m, struct err *err)
{
    return processes_each_on(w, m, note_unknown, NULL, err);
}

/* ---- what is known of one ---- */

static int is_waited_for(struct work *w, struct str spawn_id, bool *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_COMMAND_OF_SPAWN);
    query_text(q, 1, spawn_id);
    int r = query_one(q, err);
    *ret = r == STORE_ROW && query_is_null(q, 5) && !machine_is_lost(w, query_get_text(q, 4));
    query_end(q);
    return MIN(r, 0);
}

int process_may_live(struct work *w, const char *spawn_id, bool *ret, struct err *err)
{
    bool is_known, has_gone = true;
    int r = spawn_id[0] ? has_ended(w, str_of(spawn_id), &is_known, &has_gone, err) : 0;
    *ret = !has_gone;
    return r < 0 || has_gone ? r : is_waited_for(w, str_of(spawn_id), ret, err);
}

int process_pid(struct work *w, const char *spawn_id, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_PROCESS_GET);
    query_text(q, 1, str_of(spawn_id));
    int r = query_one(q, err);
    *ret = r == STORE_ROW && query_is_null(q, 3) ? query_get_int(q, 1) : 0;
    query_end(q);
    return MIN(r, 0);
}

int process_joined(struct work *w, const struct agent *a, struct str spawn_id, struct err *err)
{
    const struct machine *m = machine_find(w, str_of(a->machine));
    if (!spawn_id.n || !m || !m->is_online || machine_kind_of(w, a).ready != READY_HEARTBEAT)
        return 0;
    return process_ready(w, m, spawn_id, err);
}
