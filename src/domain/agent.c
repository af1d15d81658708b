/*
 * agent.c: see agent.h.
 *
 * Found by conversation and role through one number that is made of both; two agents of the same
 * number are in one chain. The number also names an agent among the leases.
 */
#include "domain/agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/planted.h"
#include "domain/append.h"
#include "domain/machine.h"
#include "domain/task.h"
#include "domain/work.h"

enum { AGENTS_MAX = 200000, EVICTIONS_PER_TICK = 64, PAGE_ROWS = 256 };

static const char *const desired_names[] = {
#define X(name, text) [DESIRED_##name] = text,
    AGENT_DESIRED_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(desired_names) == DESIRED_COUNT, "a name for each wish");

static const char *const process_names[] = {
#define X(name, text) [PROCESS_##name] = text,
    AGENT_PROCESS_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(process_names) == PROCESS_COUNT, "a name for each state");

static const char *const view_names[] = {
#define X(name, text) [VIEW_##name] = text,
    AGENT_VIEW_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(view_names) == VIEW_COUNT, "a name for each view");

const char *agent_view_name(enum agent_view view)
{
    return view_names[view];
}

const char *agent_desired_name(enum agent_desired desired)
{
    return desired_names[desired];
}

/* ---- finding ---- */

int64_t agent_key_of(int64_t conversation, struct str role)
{
    uint64_t hash = (uint64_t)conversation * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < role.n; i++)
        hash = (hash ^ (unsigned char)role.p[i]) * UINT64_C(0x100000001b3);
    return (int64_t)(hash >> 1);
}

int64_t agent_key(const struct agent *a)
{
    return agent_key_of(a->conversation, str_of(a->role));
}

struct agent *agent_next_of_key(struct work *w, int64_t key, struct agent *a)
{
    return a ? a->same_key : map_get(&w->agents, key);
}

static void copy_text(char *ret, size_t room, struct str s)
{
    snprintf(ret, room, "%.*s", STR_ARG(s));
}

static int from_row(struct query *q, struct agent *ret, struct err *err)
{
    copy_text(ret->kind, sizeof ret->kind, query_get_text(q, 0));
    copy_text(ret->machine, sizeof ret->machine, query_get_text(q, 1));
    copy_text(ret->pinned, sizeof ret->pinned, query_get_text(q, 23));
    int desired = names_find(desired_names, DESIRED_COUNT, query_get_text(q, 2)),
        process = names_find(process_names, PROCESS_COUNT, query_get_text(q, 4)),
        view = names_find(view_names, VIEW_COUNT, query_get_text(q, 5));
    if (desired < 0 || process < 0 || view < 0)
        return err_set(err, ERR_INTERNAL, "agent %lld:%s is damaged", (long long)ret->conversation,
                       ret->role);
    ret->desired = (enum agent_desired)desired;
    ret->is_ensured = query_get_int(q, 3) != 0;
    ret->process = (enum agent_process)process;
    ret->view = (enum agent_view)view;
    ret->turn_epoch = query_get_int(q, 6);
    ret->active_task = query_get_int(q, 7);
    copy_text(ret->connection, sizeof ret->connection, query_get_text(q, 8));
    ret->is_listening = query_get_int(q, 9) != 0;
    ret->last_seen_ms = query_get_int(q, 10);
    copy_text(ret->spawn_id, sizeof ret->spawn_id, query_get_text(q, 11));
    ret->process_ms = query_get_int(q, 12);
    copy_text(ret->listener_spawn, sizeof ret->listener_spawn, query_get_text(q, 13));
    ret->is_crashed = query_get_int(q, 14) != 0;
    ret->breaker_is_open = query_get_int(q, 15) != 0;
    ret->restart_count = query_get_int(q, 16);
    ret->restarts = query_get_int(q, 17);
    ret->restart_ms = query_get_int(q, 18);
    ret->is_removed = query_get_int(q, 19) != 0;
    ret->view_ms = query_get_int(q, 20);
    ret->is_fenced = query_get_int(q, 21) != 0;
    ret->first_queued = query_get_int(q, 22);
    return 0;
}

static int not_found(int64_t conversation, struct str role, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "conversation %lld has no agent %.*s", (long long)conversation,
            STR_ARG(role));
    err_str(err, "what", STR("agent"));
    return err_str(err, "id", role);
}

static int read_agent(struct work *w, struct agent *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_AGENT_GET);
    query_int(q, 1, ret->conversation);
    query_text(q, 2, str_of(ret->role));
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (r == STORE_DONE)
        return not_found(ret->conversation, str_of(ret->role), err);
    r = from_row(q, ret, err);
    query_end(q);
    return r;
}

static void unlink_agent(struct work *w, struct agent *a)
{
    int64_t key = agent_key(a);
    struct agent *first = map_get(&w->agents, key);
    if (first == a) {
        if (a->same_key)
            map_put(&w->agents, key, a->same_key);
        else
            map_remove(&w->agents, key);
        return;
    }
    while (first->same_key != a)
        first = first->same_key;
    first->same_key = a->same_key;
}

static void forget_agent(struct work *w, void *object)
{
    unlink_agent(w, object);
    free(object);
}

int agent_get(struct work *w, int64_t conversation, struct str role, struct agent **ret,
              struct err *err)
{
    int r = agent_find(w, conversation, role, ret, err);
    return r < 0 || !(*ret)->is_removed ? r : not_found(conversation, role, err);
}

int agent_find(struct work *w, int64_t conversation, struct str role, struct agent **ret,
               struct err *err)
{
    int64_t key = agent_key_of(conversation, role);
    struct agent *first = map_get(&w->agents, key);
    for (struct agent *a = first; a; a = a->same_key)
        if (a->conversation == conversation && str_is(role, a->role)) {
            *ret = a;
            return 0;
        }
    if (role.n > AGENT_ID_BYTES_MAX)
        return not_found(conversation, role, err);
    struct agent read = {.conversation = conversation,
                         .same_key = first,
                         .look_ms = INT64_MAX,
                         .restart_look_ms = INT64_MAX};
    copy_text(read.role, sizeof read.role, role);
    int r = read_agent(w, &read, err);
    if (r < 0)
        return r;
    struct agent *a = mem_alloc(sizeof *a);
    *a = read;
    map_put(&w->agents, key, a);
    work_remember_new(w, a, forget_agent); /* its row may be this request's */
    *ret = a;
    return 0;
}

static int list_roles(struct work *w, enum statement statement, int64_t conversation,
                      struct agent_role **ret, struct err *err)
{
    struct query *q = store_query(w->store, statement);
    query_int(q, 1, conversation);
    int r;
    while ((r = query_step(q, err)) == STORE_ROW) {
        struct agent_role *role = arena_alloc(&w->arena, sizeof *role);
        *role = (struct agent_role){.name = arena_str(&w->arena, query_get_text(q, 0))};
        *ret = role;
        ret = &role->next;
    }
    *ret = NULL;
    return r;
}

int agent_roles(struct work *w, int64_t conversation, struct agent_role **ret, struct err *err)
{
    return list_roles(w, SQL_AGENT_ROLES, conversation, ret, err);
}

int agent_roles_up(struct work *w, int64_t conversation, struct agent_role **ret, struct err *err)
{
    return list_roles(w, SQL_AGENT_ROLES_UP, conversation, ret, err);
}

void agent_write_machine(struct json_out *out, const struct agent *a)
{
    const char *machine = a->machine[0] ? a->machine : a->pinned;
    json_stringz(out, "machine", machine[0] ? machine : NULL);
    json_bool(out, "pinned", a->pinned[0] != '\0');
}

void agent_write(struct json_out *out, const struct agent *a)
{
    json_object(out, NULL);
    json_stringz(out, "role", a->role);
    json_stringz(out, "kind", a->kind[0] ? a->kind : NULL);
    agent_write_machine(out, a);
    json_stringz(out, "desired", desired_names[a->desired]);
    json_stringz(out, "view", view_names[a->view]);
    json_end(out);
}

/* ---- the one projection ---- */

int64_t agent_ready_until_ms(const struct work *w, const struct agent *a)
{
    int64_t ttl_ms = option_get(w->options, liveness, ttl_seconds) * 1000;
    if (planted(LEASE_IGNORES_GAPS))
        return a->beat_ms + ttl_ms;
    return gaps_due_ms(&w->gaps, a->beat_ms, ttl_ms) - 1;
}

bool agent_is_attended(const struct work *w, const struct agent *a)
{
    return a->is_listening && agent_ready_until_ms(w, a) >= w->now_ms;
}

void agent_beat(struct work *w, struct agent *a)
{
    agent_edit(w, a);
    a->beat_ms = a->last_seen_ms = w->now_ms;
    int64_t due_ms = agent_ready_until_ms(w, a) + 1 + (planted(EXPIRY_LATE) ? 3000 : 0);
    if (due_ms >= a->look_ms)
        return;
    a->look_ms = due_ms;
    leases_add(&w->leases, LEASE_LISTENER, agent_key(a), due_ms);
}

/* Nobody says whether it lives: its machine cannot be asked, and it says nothing itself. */
static bool is_unheard(const struct work *w, const struct agent *a, const struct task *active)
{
    return a->process == PROCESS_UNKNOWN && !a->is_listening &&
           !(active && task_worker_beats(w, active));
}

static int project(struct work *w, const struct agent *a, enum agent_view *ret, struct err *err)
{
    struct task *t = NULL;
    int r = a->active_task ? task_get(w, a->active_task, &t, err) : 0;
    if (r < 0)
        return r;
    if (a->process == PROCESS_STOPPING)
        *ret = VIEW_STOPPING;
    else if (is_unheard(w, a, t))
        *ret = VIEW_UNKNOWN;
    else if (a->is_listening && !a->kind[0] && a->desired == DESIRED_STOPPED)
        *ret = VIEW_STOPPING; /* it was asked to go */
    else if (t && t->status == TASK_SUSPENDED)
        *ret = VIEW_SUSPENDED;
    else if (t && task_is_worked_on(w, t))
        *ret = VIEW_WORKING;
    else if (a->is_listening)
        *ret = VIEW_WAITING;
    else if (a->process == PROCESS_RUNNING)
        *ret = VIEW_RUNNING;
    else if (a->breaker_is_open)
        *ret = VIEW_BREAKER_OPEN;
    else if (a->is_crashed)
        *ret = VIEW_CRASHED;
    else if (a->process == PROCESS_STARTING)
        *ret = VIEW_STARTING;
    else /* a start that was taken and never confirmed may have come to something */
        *ret = a->spawn_id[0] ? VIEW_UNKNOWN : VIEW_STOPPED;
    return 0;
}

/* ---- changing ---- */

void agent_edit(struct work *w, struct agent *a)
{
    if (a->edited_in == w->request)
        return;
    a->stored = work_remember(w, a, sizeof *a);
    a->edited_in = w->request;
}

/* To the conversation's log; to the server's if that has ended. */
int agent_append(struct work *w, const struct agent *a, const char *author, const char *kind,
                 struct str members, const char *rule, struct err *err)
{
    struct head *h;
    int r = head_get(w, a->conversation, &h, err);
    if (r < 0)
        return r;
    struct str data = arena_printf(&w->arena, "{\"agent\":\"%lld:%s\",\"conversation\":%lld,%.*s}",
                                   (long long)a->conversation, a->role, (long long)a->conversation,
                                   STR_ARG(members));
    struct event e;
    r = append_system(w, h->status == CONVERSATION_COMPLETED ? 0 : a->conversation, author, kind,
                      data, NULL, &e, err);
    return r < 0 ? r : work_note_move(w, a->conversation, &e, rule, err);
}

int agent_note_rule(struct work *w, const struct agent *a, enum rule_id rule, struct str saw,
                    struct err *err)
{
    struct str kind = arena_printf(&w->arena, "watch.%s", rule_name(rule));
    return agent_append(w, a, "system-watchdog", kind.p, saw, rule_name(rule), err);
}

static int append_state(struct work *w, const struct agent *a, const char *reason,
                        const char *error, struct err *err)
{
    struct str state =
        arena_printf(&w->arena, "\"status\":\"%s\",\"reason\":\"%s\"%s%s%s,\"epoch\":%lld",
                     view_names[a->view], reason, error ? ",\"error\":\"" : "", error ? error : "",
                     error ? "\"" : "", (long long)a->turn_epoch);
    return agent_append(w, a, "system-lifecycle", "agent.state", state, "lifecycle", err);
}

/* Nothing of what is stored has changed in this request, or since it was last written in it. */
static bool is_stored(const struct work *w, const struct agent *a)
{
    return a->edited_in == w->request && a->stored &&
           memcmp(a, a->stored, offsetof(struct agent, beat_ms)) == 0;
}

static int write_row(struct work *w, struct agent *a, struct err *err)
{
    if (is_stored(w, a))
        return 0;
    struct query *q = store_query(w->store, SQL_AGENT_UPDATE);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    query_text(q, 3, str_of(desired_names[a->desired]));
    query_int(q, 4, a->is_ensured);
    query_text(q, 5, str_of(view_names[a->view]));
    query_int(q, 6, a->turn_epoch);
    if (a->active_task)
        query_int(q, 7, a->active_task);
    if (a->connection[0])
        query_text(q, 8, str_of(a->connection));
    query_int(q, 9, a->is_listening);
    query_int(q, 10, a->last_seen_ms);
    query_text(q, 11, str_of(process_names[a->process]));
    if (a->spawn_id[0])
        query_text(q, 12, str_of(a->spawn_id));
    query_int(q, 13, a->process_ms);
    if (a->listener_spawn[0])
        query_text(q, 14, str_of(a->listener_spawn));
    query_int(q, 15, a->is_crashed);
    query_int(q, 16, a->breaker_is_open);
    query_int(q, 17, a->restart_count);
    query_int(q, 18, a->restarts);
    if (a->restart_ms)
        query_int(q, 19, a->restart_ms);
    query_text(q, 20, a->kind[0] ? str_of(a->kind) : STR_NONE);
    query_text(q, 21, a->machine[0] ? str_of(a->machine) : STR_NONE);
    query_int(q, 22, a->is_removed);
    query_int(q, 23, a->view_ms);
    query_int(q, 24, a->is_fenced);
    if (a->first_queued)
        query_int(q, 25, a->first_queued);
    query_text(q, 26, a->pinned[0] ? str_of(a->pinned) : STR_NONE);
    work_mark_written(w);
    struct agent *copy = arena_alloc(&w->arena, sizeof *copy);
    *copy = *a;
    a->stored = copy;
    return query_run(q, NULL, err);
}

int agent_refresh(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    enum agent_view view;
    int r = project(w, a, &view, err);
    if (r < 0 || view == a->view)
        return r;
    agent_edit(w, a);
    return agent_store(w, a, reason, err);
}

int agent_look_at_work(struct work *w, const struct agent *a, struct err *err)
{
    struct task *t;
    if (!a->active_task)
        return 0;
    int r = task_get(w, a->active_task, &t, err);
    return r < 0 ? r : task_watch(w, t, err);
}

int agents_touch(struct work *w, int64_t conversation, struct err *err)
{
    struct agent_role *roles;
    int r = agent_roles(w, conversation, &roles, err);
    for (struct agent_role *role = r == 0 ? roles : NULL; role; role = role->next)
        work_touch(w, agent_key_of(conversation, role->name));
    return r;
}

/* error: of a task that a rule has ended; NULL: none. */
static int store_agent(struct work *w, struct agent *a, const char *reason, const char *error,
                       struct err *err)
{
    enum agent_view view;
    int r = project(w, a, &view, err);
    if (r < 0)
        return r;
    bool changes = view != a->view;
    bool has_come = a->process == PROCESS_RUNNING && a->edited_in == w->request && a->stored &&
                    a->stored->process != PROCESS_RUNNING;
    a->view = view;
    if (changes)
        a->view_ms = w->now_ms;
    r = write_row(w, a, err);
    if (r == 0 && has_come)
        r = agent_look_at_work(w, a, err); /* a process that can be replaced */
    return r < 0 || !(changes || error) ? r : append_state(w, a, reason, error, err);
}

int agent_store(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    return a->is_hushed ? 0 : store_agent(w, a, reason, NULL, err);
}

void agent_hush(struct work *w, struct agent *a)
{
    agent_edit(w, a);
    a->is_hushed = true;
}

int agent_tell(struct work *w, struct agent *a, const char *reason, struct err *err)
{
    a->is_hushed = false;
    return agent_store(w, a, reason, err);
}

int agent_store_ended(struct work *w, struct agent *a, const char *reason, const char *error,
                      struct err *err)
{
    return store_agent(w, a, reason, error, err);
}

int agent_may_run(struct work *w, const struct agent *a, bool *ret, struct err *err)
{
    struct head *h;
    int r = head_get(w, a->conversation, &h, err);
    *ret = r == 0 && h->status == CONVERSATION_ACTIVE &&
           (a->desired != DESIRED_STOPPED || (planted(STOP_IGNORED) && a->active_task));
    return r;
}

/* Its kind wants it up: what has failed is to come back, or whatever should be up. */
static bool comes_back(const struct work *w, const struct agent *a)
{
    enum restart_policy policy = machine_kind_of(w, a).restart;
    return a->kind[0] &&
           (a->is_crashed ? policy != RESTART_NEVER : policy == RESTART_ALWAYS && a->is_ensured);
}

int agent_is_wanted(struct work *w, const struct agent *a, bool *ret, struct err *err)
{
    int r = agent_may_run(w, a, ret, err);
    *ret = *ret && (a->desired == DESIRED_RUNNING || a->active_task || comes_back(w, a));
    return r;
}

void agent_wait_for_restart(struct work *w, struct agent *a, int64_t at_ms)
{
    a->restart_ms = at_ms;
    if (at_ms >= a->restart_look_ms)
        return;
    a->restart_look_ms = at_ms;
    leases_add(&w->leases, LEASE_RESTART, agent_key(a), at_ms);
}

/* ---- the cache ---- */

void agents_evict_some(struct work *w)
{
    struct agent *out[EVICTIONS_PER_TICK], *a;
    int n = 0;
    if (w->agents.count <= AGENTS_MAX)
        return;
    for (int seen = 0; seen < EVICTIONS_PER_TICK; seen++) {
        a = map_next(&w->agents, &w->evict_agent_at);
        if (!a) {
            w->evict_agent_at = 0;
            break;
        }
        if (!a->is_listening && !a->restart_ms) /* its times are nowhere but here */
            out[n++] = a;
    }
    for (int i = 0; i < n; i++) {
        unlink_agent(w, out[i]);
        free(out[i]);
    }
}

void agents_drop(struct work *w)
{
    struct agent *a, *next;
    for (size_t i = 0; (a = map_next(&w->agents, &i));)
        for (; a; a = next) {
            next = a->same_key;
            free(a);
        }
    map_release(&w->agents);
    w->evict_agent_at = 0;
}

/* A page of agents after `after`, by a statement that lists them so. */
static int list_page(struct work *w, enum statement statement, struct str machine,
                     const struct agent *after, struct agent *ret, int *ret_n, struct err *err)
{
    struct query *q = store_query(w->store, statement);
    query_int(q, 1, after->conversation);
    query_text(q, 2, str_of(after->role));
    query_int(q, 3, PAGE_ROWS);
    if (machine.p)
        query_text(q, 4, machine);
    int r;
    *ret_n = 0;
    while ((r = query_step(q, err)) == STORE_ROW) {
        struct agent *a = &ret[(*ret_n)++];
        a->conversation = query_get_int(q, 0);
        copy_text(a->role, sizeof a->role, query_get_text(q, 1));
    }
    return r;
}

static int pass_over(const struct agent *a)
{
    log_error("domain", "agent_damaged", "agent=%lld:%s", (long long)a->conversation, a->role);
    return 0;
}

int agents_each(struct work *w, enum statement statement, struct str machine, agent_each_fn *fn,
                void *ctx, struct err *err)
{
    struct agent *page = mem_zalloc(PAGE_ROWS * sizeof *page), after = {.conversation = -1};
    int n = PAGE_ROWS, r = 0;
    while (r == 0 && n == PAGE_ROWS) {
        r = list_page(w, statement, machine, &after, page, &n, err);
        for (int i = 0; r == 0 && i < n; i++) {
            struct agent *a;
            after = page[i];
            r = agent_find(w, page[i].conversation, str_of(page[i].role), &a, err);
            if (r == 0)
                r = fn(w, a, ctx, err);
            else if (r == -ERR_INTERNAL) /* a damaged row keeps nobody else from it (P17) */
                r = pass_over(&page[i]);
        }
    }
    free(page);
    return r;
}

static int grant_listener(struct work *w, struct agent *a, void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    agent_beat(w, a);
    return 0;
}

static int wait_again(struct work *w, struct agent *a, void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    agent_wait_for_restart(w, a, a->restart_ms);
    return 0;
}

int agents_grant_leases(struct work *w, struct err *err)
{
    int r = agents_each(w, SQL_AGENT_LIST_LISTENING, STR_NONE, grant_listener, NULL, err);
    return r < 0 ? r : agents_each(w, SQL_AGENT_LIST_RESTARTING, STR_NONE, wait_again, NULL, err);
}
