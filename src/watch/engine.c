/*
 * engine.c: see engine.h.
 *
 * Why nothing can stall the engine itself:
 *   - a pass visits each row once: it pages by key, so a row that cannot be moved is passed by, and
 *     tried again later with growing waits (backoff.h);
 *   - what is due is decided on the head inside the row's own request, whatever the query said: a
 *     conversation that was written to a moment ago is not due, and is given its new time to look.
 */
#include "watch/engine.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/fail_point.h"
#include "base/log.h"
#include "base/mem.h"
#include "domain/agent.h"
#include "domain/command.h"
#include "domain/conversation.h"
#include "domain/head.h"
#include "domain/inbox.h"
#include "domain/lease.h"
#include "domain/machine.h"
#include "domain/queue.h"
#include "domain/task.h"
#include "domain/tool.h"
#include "domain/work.h"
/* Where what may be due is found: indexes in the store, and the leases in memory. */
enum kind {
    OF_CONVERSATION,
    OF_TASK,
    OF_LISTENER,
    OF_RESTART,
    OF_MACHINE,
    OF_COMMAND,
    OF_TOOL,
    OF_QUEUE,
    OF_INBOX,
    KIND_COUNT
};

// clang-format off
static const struct source {
    enum kind kind;
    enum rule_id first, last; /* of the rules that it is for */
    enum statement find, next; /* next == 0: what it has is due at once */
} sources[] = {
    {OF_CONVERSATION, RULE_WALL_CLOCK_NOTICE, RULE_WALL_CLOCK_NOTICE, SQL_LOOK_DUE_NOTICE, SQL_LOOK_NEXT_NOTICE},
    {OF_CONVERSATION, RULE_WALL_CLOCK, RULE_WALL_CLOCK, SQL_LOOK_DUE_WALL_CLOCK, SQL_LOOK_NEXT_WALL_CLOCK},
    {OF_CONVERSATION, RULE_IDLE, RULE_IDLE, SQL_LOOK_DUE_IDLE, SQL_LOOK_NEXT_IDLE},
    {OF_CONVERSATION, RULE_GLOBAL_IDLE, RULE_GLOBAL_IDLE, SQL_LOOK_DUE_GLOBAL_IDLE, SQL_LOOK_NEXT_GLOBAL_IDLE},
    {OF_TASK, FIRST_TASK_RULE, LAST_TASK_RULE, SQL_LOOK_DUE_TASK, SQL_LOOK_NEXT_TASK},
    {OF_COMMAND, RULE_COMMAND_EXPIRED, RULE_COMMAND_EXPIRED, SQL_LOOK_DUE_COMMAND, SQL_LOOK_NEXT_COMMAND},
    {OF_TOOL, FIRST_TOOL_RULE, LAST_TOOL_RULE, SQL_LOOK_DUE_TOOL, SQL_LOOK_NEXT_TOOL},
    {OF_QUEUE, RULE_QUEUE_SWEEP, RULE_QUEUE_SWEEP, SQL_LOOK_DUE_QUEUE, 0},
    {OF_INBOX, RULE_INBOX_PENDING, RULE_INBOX_PENDING, SQL_LOOK_DUE_INBOX_PENDING, SQL_LOOK_NEXT_INBOX_PENDING},
    {OF_INBOX, RULE_INBOX_PROCESSING, RULE_INBOX_PROCESSING, SQL_LOOK_DUE_INBOX_PROCESSING, SQL_LOOK_NEXT_INBOX_PROCESSING},
};
// clang-format on
enum { SOURCES = ARRAY_LEN(sources), PAGES = SOURCES + 1 };

/* Something that may be due. */
struct nominee {
    enum kind kind;
    int64_t key; /* number of the conversation or task */
    struct agent *agent;
    struct machine *machine;
    int64_t due_ms;
    enum rule_id rule;
    bool is_by_lease; /* its entry among the leases was taken */
};

struct ladder {
    struct work *work;
    struct {
        bool is_active, is_asked_for;
        enum rule_id only; /* RULE_COUNT: all */
        int64_t horizon_ms;
        struct {
            bool is_done;
            int64_t look_ms, key; /* the last row seen */
        } at[SOURCES];
        struct pass so_far;
        int64_t rings; /* of its moves */
    } pass;
    struct pass last_pass;
    int64_t pass_began_ms;
    bool has_begun; /* the pass at start */
    struct backoff backoff;
    struct ladder_stats stats;
    int64_t last_run_ms[RULE_COUNT];
    /* of this tick, told when it is committed */
    struct nominee moved[PAGES * LADDER_PAGE_ROWS];
    size_t moved_count;
    bool pass_ended;
};

struct ladder *ladder_new(struct work *w)
{
    struct ladder *l = mem_zalloc(sizeof *l);
    l->work = w;
    log_info("watch", "started", "interval_ms=%lld idle_ms=%lld global_idle_ms=%lld",
             (long long)option_get(w->options, watchdog, interval_ms),
             (long long)option_get(w->options, watchdog, idle_ms),
             (long long)option_get(w->options, watchdog, global_idle_ms));
    return l;
}

struct ladder *ladder_free(struct ladder *l)
{
    if (!l)
        return NULL;
    log_info("watch", "stopped", "passes=%llu moved=%llu errors=%llu",
             (unsigned long long)l->stats.passes, (unsigned long long)l->stats.moved,
             (unsigned long long)l->stats.errors);
    backoff_release(&l->backoff);
    free(l);
    return NULL;
}

bool ladder_is_in_pass(const struct ladder *l)
{
    return l->pass.is_active;
}

const struct pass *ladder_last_pass(const struct ladder *l)
{
    return &l->last_pass;
}

const struct ladder_stats *ladder_stats(const struct ladder *l)
{
    return &l->stats;
}

int64_t ladder_next_due_ms(const struct ladder *l)
{
    if (l->pass.is_active || !l->has_begun)
        return INT64_MIN;
    return MIN(l->work->next_look_ms, leases_next_ms(&l->work->leases));
}

/* The seeds' fixed intervals. A pass looks at every rule, so the shortest holds for all. */
static int64_t cadence_ms(const struct options *o)
{
    int64_t seconds = MIN(option_get(o, pmo, watchdog_interval_seconds),
                          option_get(o, worker, watchdog_interval_seconds));
    return MIN(option_get(o, watchdog, interval_ms), seconds * 1000);
}

int64_t ladder_next_ms(const struct ladder *l)
{
    return MIN(ladder_next_due_ms(l), l->pass_began_ms + cadence_ms(l->work->options));
}

static bool is_source_of(const struct source *s, enum rule_id only)
{
    return only == RULE_COUNT || (only >= s->first && only <= s->last);
}

static void begin_pass(struct ladder *l, enum rule_id only, bool is_asked_for)
{
    memset(&l->pass, 0, sizeof l->pass);
    l->pass.is_active = true;
    l->pass.is_asked_for = is_asked_for;
    l->pass.only = only;
    l->pass.horizon_ms = l->work->now_ms;
    for (int i = 0; i < SOURCES; i++) {
        l->pass.at[i].look_ms = INT64_MIN;
        l->pass.at[i].is_done = !is_source_of(&sources[i], only);
    }
    if (only != RULE_COUNT)
        return;
    l->has_begun = true;
    l->pass_began_ms = l->work->now_ms;
    l->work->next_look_ms = NEVER_MS; /* computed anew at its end */
}

bool ladder_begin_pass(struct ladder *l, enum rule_id only)
{
    if (l->pass.is_active)
        return false;
    begin_pass(l, only, true);
    return true;
}

static void note_run(struct ladder *l, const struct source *s)
{
    for (enum rule_id rule = s->first; rule <= s->last; rule++)
        l->last_run_ms[rule] = l->work->now_ms;
}

/* One page of what a source has. Returns the number of rows, or an error. */
static int nominate(struct ladder *l, int source, struct nominee *ret, struct err *err)
{
    struct query *q = store_query(l->work->store, sources[source].find);
    query_int(q, 1, l->pass.horizon_ms);
    query_int(q, 2, l->pass.at[source].look_ms);
    query_int(q, 3, l->pass.at[source].key);
    query_int(q, 4, LADDER_PAGE_ROWS);
    int n = 0, r;
    while ((r = query_step(q, err)) == STORE_ROW) {
        l->pass.at[source].key = query_get_int(q, 0);
        l->pass.at[source].look_ms = query_get_int(q, 1);
        ret[n++] = (struct nominee){.kind = sources[source].kind,
                                    .key = l->pass.at[source].key,
                                    .due_ms = l->pass.at[source].look_ms,
                                    .rule = sources[source].first}; /* until it is known */
    }
    l->pass.at[source].is_done = n < LADDER_PAGE_ROWS;
    note_run(l, &sources[source]);
    return r < 0 ? r : n;
}

/* A listener's entry that is its newest one: others are left over from leases that ended. */
static bool take_listener(struct ladder *l, const struct lease *lease, struct nominee *ret)
{
    struct agent *a = NULL;
    while ((a = agent_next_of_key(l->work, lease->key, a))) {
        if (a->look_ms != lease->look_ms)
            continue;
        a->look_ms = INT64_MAX;
        *ret = (struct nominee){.kind = OF_LISTENER,
                                .key = a->conversation,
                                .agent = a,
                                .due_ms = lease->look_ms,
                                .rule = RULE_PARTICIPANT_EXPIRE,
                                .is_by_lease = true};
        return true;
    }
    return false;
}

static bool take_worker(struct ladder *l, const struct lease *lease, struct nominee *ret)
{
    struct task *t = map_get(&l->work->tasks, lease->key);
    if (!t || t->lease_look_ms != lease->look_ms)
        return false;
    t->lease_look_ms = INT64_MAX;
    *ret = (struct nominee){.kind = OF_TASK,
                            .key = lease->key,
                            .due_ms = lease->look_ms,
                            .rule = RULE_TASK_ORPHANED,
                            .is_by_lease = true};
    return true;
}

static bool take_restart(struct ladder *l, const struct lease *lease, struct nominee *ret)
{
    struct agent *a = NULL;
    while ((a = agent_next_of_key(l->work, lease->key, a))) {
        if (a->restart_look_ms != lease->look_ms)
            continue;
        a->restart_look_ms = INT64_MAX;
        *ret = (struct nominee){.kind = OF_RESTART,
                                .key = a->conversation,
                                .agent = a,
                                .due_ms = lease->look_ms,
                                .rule = RULE_AGENT_EXITED,
                                .is_by_lease = true};
        return true;
    }
    return false;
}

static bool take_machine(struct ladder *l, const struct lease *lease, struct nominee *ret)
{
    for (struct machine *m = l->work->machines; m; m = m->next) {
        if (m->look_ms != lease->look_ms || machine_key_of(str_of(m->name)) != lease->key)
            continue;
        m->look_ms = INT64_MAX;
        *ret = (struct nominee){.kind = OF_MACHINE,
                                .machine = m,
                                .due_ms = lease->look_ms,
                                .rule = RULE_MACHINE_OFFLINE,
                                .is_by_lease = true};
        return true;
    }
    return false;
}

static bool take_lease(struct ladder *l, const struct lease *lease, struct nominee *ret)
{
    switch (lease->kind) {
    case LEASE_LISTENER:
        return take_listener(l, lease, ret);
    case LEASE_WORKER:
        return take_worker(l, lease, ret);
    case LEASE_RESTART:
        return take_restart(l, lease, ret);
    case LEASE_MACHINE:
        return take_machine(l, lease, ret);
    }
    REQUIRE(!"a kind of lease");
    return false;
}

/* One page of leases whose time has come. */
static int nominate_leases(struct ladder *l, struct nominee *ret)
{
    struct lease lease;
    int n = 0;
    while (n < LADDER_PAGE_ROWS && leases_take(&l->work->leases, l->work->now_ms, &lease))
        n += take_lease(l, &lease, &ret[n]);
    return n;
}

static void look_at_worker_again(struct ladder *l, int64_t task, int64_t not_before_ms)
{
    struct task *t = map_get(&l->work->tasks, task);
    if (!t || !t->beat_ms || t->lease_look_ms != INT64_MAX)
        return;
    int64_t look_ms = MAX(task_active_until_ms(l->work, t) + 1, not_before_ms);
    if (look_ms <= l->work->now_ms) /* over, and not acted upon: left to the stored times */
        return;
    t->lease_look_ms = look_ms;
    leases_add(&l->work->leases, LEASE_WORKER, t->task, look_ms);
}

/* Its entry was taken. A lease that goes on gets another; so does what failed, to be tried again.
 */
static void look_at_lease_again(struct ladder *l, const struct nominee *n, int64_t not_before_ms)
{
    struct work *w = l->work;
    struct agent *a = n->agent;
    struct machine *m = n->machine;
    if (n->kind == OF_TASK)
        look_at_worker_again(l, n->key, not_before_ms);
    if (n->kind == OF_LISTENER && a->is_listening && a->look_ms == INT64_MAX) {
        a->look_ms = MAX(agent_ready_until_ms(w, a) + 1, not_before_ms);
        leases_add(&w->leases, LEASE_LISTENER, agent_key(a), a->look_ms);
    }
    if (n->kind == OF_RESTART && a->restart_ms && a->restart_look_ms == INT64_MAX) {
        a->restart_look_ms = MAX(a->restart_ms, not_before_ms);
        leases_add(&w->leases, LEASE_RESTART, agent_key(a), a->restart_look_ms);
    }
    if (n->kind == OF_MACHINE && machine_due_ms(w, m) != NEVER_MS && m->look_ms == INT64_MAX) {
        m->look_ms = MAX(machine_due_ms(w, m), not_before_ms);
        leases_add(&w->leases, LEASE_MACHINE, machine_key_of(str_of(m->name)), m->look_ms);
    }
}

/* The rule of tasks that is due first; of those due together the lowest rung. */
static int first_due_of_task(struct work *w, const struct task *t, enum rule_id *ret_rule,
                             int64_t *ret_due_ms, struct err *err)
{
    for (enum rule_id rule = FIRST_TASK_RULE; rule <= LAST_TASK_RULE; rule++) {
        int64_t due_ms;
        int r = rule_task_due_ms(w, rule, t, &due_ms, err);
        if (r < 0)
            return r;
        if (due_ms < *ret_due_ms) {
            *ret_due_ms = due_ms;
            *ret_rule = rule;
        }
    }
    return 0;
}

/* What it is, when and by which rule it is due: NEVER_MS if by none. */
static int find_due(struct ladder *l, const struct nominee *n, struct subject *ret,
                    enum rule_id *ret_rule, int64_t *ret_due_ms, struct err *err)
{
    struct work *w = l->work;
    int r = 0;
    *ret = (struct subject){.agent = n->agent, .machine = n->machine};
    *ret_due_ms = NEVER_MS;
    switch (n->kind) {
    case OF_CONVERSATION:
        r = head_get(w, n->key, &ret->head, err);
        if (r == 0)
            *ret_rule = ladder_first_due(w->options, &w->gaps, ret->head, ret_due_ms);
        break;
    case OF_TASK:
        r = task_get(w, n->key, &ret->task, err);
        if (r == 0)
            r = first_due_of_task(w, ret->task, ret_rule, ret_due_ms, err);
        break;
    case OF_LISTENER:
        *ret_rule = RULE_PARTICIPANT_EXPIRE;
        if (n->agent->is_listening)
            *ret_due_ms = agent_ready_until_ms(w, n->agent) + 1;
        break;
    case OF_RESTART:
        *ret_rule = RULE_AGENT_EXITED;
        if (n->agent->restart_ms)
            *ret_due_ms = n->agent->restart_ms;
        break;
    case OF_COMMAND:
        ret->command = arena_alloc(&w->arena, sizeof *ret->command);
        *ret_rule = RULE_COMMAND_EXPIRED;
        r = command_get(w, n->key, ret->command, err);
        if (r == 0)
            *ret_due_ms = command_due_ms(w, ret->command);
        break;
    case OF_QUEUE:
        r = task_get(w, n->key, &ret->task, err);
        if (r == 0)
            r = queue_due_ms(w, ret->task, ret_due_ms, err);
        break;
    case OF_INBOX:
        ret->inbox = arena_alloc(&w->arena, sizeof *ret->inbox);
        r = inbox_get(w, n->key, ret->inbox, err);
        if (r == 0)
            r = inbox_due_ms(w, ret->inbox, ret_due_ms, err);
        if (r == 0)
            *ret_rule =
                ret->inbox->status == INBOX_IS_PENDING ? RULE_INBOX_PENDING : RULE_INBOX_PROCESSING;
        break;
    case OF_MACHINE:
        *ret_rule = RULE_MACHINE_OFFLINE;
        *ret_due_ms = machine_due_ms(w, n->machine);
        break;
    case OF_TOOL:
        r = tool_get(w, n->key, &ret->tool, err);
        if (r == 0)
            r = tool_due_ms(w, ret->tool, ret_rule, ret_due_ms, err);
        break;
    case KIND_COUNT:
        REQUIRE(!"a kind");
    }
    return r;
}

/* When and by which rule it is really due, so that a late step still moves in the right order. */
static void resolve(struct ladder *l, struct nominee *n)
{
    struct subject s;
    enum rule_id rule = n->rule;
    int64_t due_ms;
    if (find_due(l, n, &s, &rule, &due_ms, NULL) < 0)
        return; /* visit() will find out, and say so */
    if (due_ms != NEVER_MS) {
        n->rule = rule;
        n->due_ms = due_ms;
    }
}

static int by_due(const void *a, const void *b)
{
    const struct nominee *x = a, *y = b;
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms ? -1 : 1;
    if (ladder_rules[x->rule].rung != ladder_rules[y->rule].rung)
        return ladder_rules[x->rule].rung < ladder_rules[y->rule].rung ? -1 : 1;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* A conversation that two rules have named is due anew once the first has moved it: the next one in
 * line may have to let others pass. True if it did. */
static bool falls_behind(struct ladder *l, struct nominee *page, size_t i, size_t count)
{
    struct nominee n = page[i];
    resolve(l, &n);
    size_t to = i;
    for (; to + 1 < count && by_due(&page[to + 1], &n) < 0; to++)
        page[to] = page[to + 1];
    page[to] = n;
    return to > i;
}

static int look_again(struct ladder *l, const struct nominee *n, const struct subject *s,
                      struct err *err)
{
    if (n->kind == OF_CONVERSATION)
        return head_watch_again(l->work, s->head, err);
    if (n->kind == OF_TOOL)
        return tool_watch_again(l->work, s->tool, err);
    if (n->kind == OF_INBOX)
        return inbox_store(l->work, s->inbox, err);
    if (n->kind == OF_COMMAND)
        return command_watch_again(l->work, s->command, err);
    if (n->kind != OF_TASK)
        return 0;
    struct agent *a;
    int r = task_watch_again(l->work, s->task, err);
    if (r == 0)
        r = agent_get(l->work, s->task->conversation, str_of(s->task->role), &a, err);
    return r < 0 ? r : agent_refresh(l->work, a, "worker_lease_over", err);
}

enum verdict { NOT_DUE, MOVED, LEFT_ALONE /* due by a rule that is not of this pass */ };

/* Moves it if it is due, now and by a rule of this pass; else says when to look again. */
static int judge(struct ladder *l, struct nominee *n, enum verdict *ret, struct err *err)
{
    struct subject s;
    int64_t due_ms;
    enum rule_id rule = n->rule;
    int r = find_due(l, n, &s, &rule, &due_ms, err);
    if (r < 0)
        return r;
    if (due_ms > l->work->now_ms)
        return look_again(l, n, &s, err);
    n->rule = rule;
    l->pass.so_far.candidates++;
    *ret = l->pass.only == RULE_COUNT || l->pass.only == rule ? MOVED : LEFT_ALONE;
    if (*ret == LEFT_ALONE)
        return 0;
    if (s.head)
        head_edit(l->work, s.head);
    l->last_run_ms[rule] = l->work->now_ms;
    work_count_rule(l->work, rule);
    return ladder_rules[rule].act(l->work, &s, rule, err);
}

/* What fails is told apart by its number; a listener has its conversation's. */
static int64_t backoff_key(const struct nominee *n)
{
    return n->key * KIND_COUNT + (int64_t)n->kind;
}

static void note_failure(struct ladder *l, const struct nominee *n, int code, const struct err *err)
{
    static const char *const kinds[] = {
        [OF_CONVERSATION] = "conversation",
        [OF_TASK] = "task",
        [OF_LISTENER] = "listener_of",
        [OF_RESTART] = "agent_of",
        [OF_MACHINE] = "machine",
        [OF_COMMAND] = "command",
        [OF_TOOL] = "wait",
        [OF_QUEUE] = "task",
        [OF_INBOX] = "inbox",
    };
    _Static_assert(ARRAY_LEN(kinds) == KIND_COUNT, "a word for each kind");
    int64_t wait_ms = backoff_failed(&l->backoff, backoff_key(n), l->work->now_ms);
    l->pass.so_far.errors++;
    l->stats.errors++;
    l->stats.errors_by_rule[n->rule]++;
    log_error("watch", "not_moved", "rule=%s %s=%lld error=%s reason=%s try_again_in_ms=%lld",
              rule_name(n->rule), kinds[n->kind], (long long)n->key, err_name(code),
              log_quote(str_of(err->message)), (long long)wait_ms);
    if (n->is_by_lease)
        look_at_lease_again(l, n, all_time_until_ms(ALL_TIME_ROW_RETRY, l->work->now_ms, wait_ms));
}

/* A row, in its own savepoint. False if the store has given up the tick. */
static bool visit(struct ladder *l, struct nominee *n)
{
    struct err err = ERR_INIT;
    enum verdict verdict = NOT_DUE;
    if (!l->pass.is_asked_for && !n->is_by_lease &&
        backoff_holds(&l->backoff, backoff_key(n), l->work->now_ms)) {
        l->pass.so_far.skipped++;
        return true;
    }
    int r = work_request_begin(l->work, &err);
    if (r < 0)
        return false;
    r = judge(l, n, &verdict, &err);
    int end = work_request_end(l->work, r == 0, &err);
    if (r == -ERR_UNAVAILABLE || end < 0)
        return false;
    if (r < 0) {
        note_failure(l, n, r, &err);
        return true;
    }
    if (verdict != LEFT_ALONE)
        backoff_worked(&l->backoff, backoff_key(n));
    if (n->is_by_lease) /* what is due by another rule than this pass is for: the next one's */
        look_at_lease_again(l, n, l->work->now_ms + (verdict == LEFT_ALONE));
    if (verdict == MOVED) {
        l->moved[l->moved_count++] = *n;
        fail_point(FAIL_BETWEEN_MOVES);
    } else {
        l->pass.so_far.skipped++;
    }
    return true;
}

/* The first look after the horizon, of all rules. A row that failed and was not among those of this
 * pass has been ended by somebody else. */
static int find_next(struct ladder *l, struct err *err)
{
    backoff_forget_until(&l->backoff, l->pass.horizon_ms);
    int64_t next_ms = backoff_next_ms(&l->backoff, NULL);
    for (int i = 0; i < SOURCES; i++) {
        if (!sources[i].next)
            continue;
        struct query *q = store_query(l->work->store, sources[i].next);
        query_int(q, 1, l->pass.horizon_ms);
        int r = query_one(q, err);
        if (r < 0)
            return r;
        int64_t look_ms = query_is_null(q, 0) ? NEVER_MS : query_get_int(q, 0);
        query_end(q);
        if (look_ms > l->pass.horizon_ms) /* else what is stored there is no time (P17) */
            next_ms = MIN(next_ms, look_ms);
    }
    l->work->next_look_ms = MIN(l->work->next_look_ms, next_ms);
    return 0;
}

static int end_pass_if_done(struct ladder *l, struct err *err)
{
    for (int i = 0; i < SOURCES; i++)
        if (!l->pass.at[i].is_done)
            return 0;
    l->pass_ended = true;
    return l->pass.only == RULE_COUNT ? find_next(l, err) : 0;
}

/* The step fails: what was taken out of the leases and not looked at goes back. */
static int give_leases_back(struct ladder *l, const struct nominee *page, size_t from, size_t count,
                            int code)
{
    for (size_t i = from; i < count; i++)
        if (page[i].is_by_lease)
            look_at_lease_again(l, &page[i], l->work->now_ms + 1);
    return code;
}

static int step(struct ladder *l, struct err *err)
{
    struct nominee page[PAGES * LADDER_PAGE_ROWS];
    size_t count = (size_t)nominate_leases(l, page);
    for (int i = 0; i < SOURCES; i++) {
        if (l->pass.at[i].is_done)
            continue;
        int n = nominate(l, i, &page[count], err);
        if (n < 0)
            return give_leases_back(l, page, 0, count, n);
        count += (size_t)n;
    }
    l->pass.so_far.checked += (int64_t)count;
    l->stats.checked += count;
    for (size_t i = 0; i < count; i++)
        resolve(l, &page[i]);
    qsort(page, count, sizeof page[0], by_due);
    for (size_t i = 0; i < count; i++) {
        while (falls_behind(l, page, i, count))
            ;
        if (!visit(l, &page[i]))
            return give_leases_back(l, page, i, count,
                                    err_set(err, ERR_UNAVAILABLE, "%s", err_text(ERR_UNAVAILABLE)));
    }
    return end_pass_if_done(l, err);
}

int ladder_step(struct ladder *l, struct err *err)
{
    l->moved_count = 0;
    l->pass_ended = false;
    if (!l->pass.is_active) {
        if (ladder_next_ms(l) > l->work->now_ms)
            return 0;
        begin_pass(l, RULE_COUNT, false);
    }
    int r = step(l, err);
    if (r < 0)
        ladder_lost(l);
    return r;
}

void ladder_committed(struct ladder *l)
{
    struct pass *p = &l->pass.so_far;
    for (size_t i = 0; i < l->moved_count; i++) {
        bool is_ring = ladder_rules[l->moved[i].rule].is_ring;
        l->pass.rings += is_ring;
        log_line(is_ring ? LOG_DEBUG : LOG_INFO, "watch", "moved", "rule=%s of=%lld late_ms=%lld",
                 rule_name(l->moved[i].rule), (long long)l->moved[i].key,
                 (long long)(l->work->now_ms - l->moved[i].due_ms));
    }
    p->moved += (int64_t)l->moved_count;
    l->stats.moved += l->moved_count;
    l->moved_count = 0;
    if (!l->pass_ended)
        return;
    l->pass_ended = false;
    l->pass.is_active = false;
    l->last_pass = *p;
    l->stats.passes++;
    if (p->candidates > l->pass.rings || p->errors)
        log_info("watch", "pass",
                 "checked=%lld candidates=%lld moved=%lld skipped=%lld errors=%lld",
                 (long long)p->checked, (long long)p->candidates, (long long)p->moved,
                 (long long)p->skipped, (long long)p->errors);
}

void ladder_lost(struct ladder *l)
{
    l->moved_count = 0;
    l->pass_ended = false;
    if (!l->pass.is_active)
        return;
    l->pass.is_active = false;
    l->work->next_look_ms = INT64_MIN;
}

/* ---- what it looks like ---- */

/* Rows that are looked at to find out when a rule is due next. */
enum { NEXT_ROWS = 64 };

/*
 * When the rule is due next. Rows come in the order of their times to look, none of which is later
 * than due: once a time to look is not earlier than the earliest due found, none that follows can
 * be.
 */
static int find_next_due_of_conversations(struct ladder *l, enum rule_id rule, int64_t *ret_ms,
                                          struct err *err)
{
    int64_t conversations[NEXT_ROWS], looks[NEXT_ROWS];
    struct query *q = store_query(l->work->store, sources[rule].find);
    query_int(q, 1, INT64_MAX);
    query_int(q, 2, INT64_MIN);
    query_int(q, 3, 0);
    query_int(q, 4, NEXT_ROWS);
    size_t n = 0;
    int r;
    for (; (r = query_step(q, err)) == STORE_ROW; n++) {
        conversations[n] = query_get_int(q, 0);
        looks[n] = query_get_int(q, 1);
    }
    *ret_ms = NEVER_MS;
    for (size_t i = 0; r == 0 && i < n && looks[i] < *ret_ms; i++) {
        struct head *h;
        r = head_get(l->work, conversations[i], &h, err);
        if (r == 0)
            *ret_ms = MIN(*ret_ms, rule_due_ms(rule, l->work->options, &l->work->gaps, h));
        if (i + 1 == NEXT_ROWS) /* many were written to since: not before this one's look */
            *ret_ms = MIN(*ret_ms, looks[i]);
    }
    return r;
}

/* Does it look for what is due at once, in every pass? */
static bool is_always_looking(enum rule_id rule)
{
    for (int i = 0; i < SOURCES; i++)
        if (sources[i].first == rule && !sources[i].next)
            return true;
    return false;
}

/* Of other rules: when it looks next, which is not later. */
static int find_next_due(struct ladder *l, enum rule_id rule, int64_t *ret_ms, struct err *err)
{
    *ret_ms = NEVER_MS;
    if (rule < TIMED_RULE_COUNT)
        return find_next_due_of_conversations(l, rule, ret_ms, err);
    if (!ladder_rules[rule].next) {
        if (ladder_rules[rule].act && !is_always_looking(rule))
            *ret_ms = leases_next_ms(&l->work->leases);
        return 0;
    }
    struct query *q = store_query(l->work->store, ladder_rules[rule].next);
    query_int(q, 1, INT64_MIN);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (!query_is_null(q, 0))
        *ret_ms = query_get_int(q, 0);
    query_end(q);
    return 0;
}

static int write_next(struct ladder *l, enum rule_id rule, struct json_out *out, struct err *err)
{
    int64_t next_ms;
    int r = find_next_due(l, rule, &next_ms, err);
    if (r < 0)
        return r;
    if (next_ms == NEVER_MS)
        json_null(out, "nextDueAt");
    else
        json_time(out, "nextDueAt", next_ms);
    return 0;
}

int ladder_write_rules(struct ladder *l, struct json_out *out, const char *key, struct err *err)
{
    int r = 0;
    json_array(out, key);
    for (enum rule_id rule = 0; r == 0 && rule < RULE_COUNT; rule++) {
        const struct rule *row = &ladder_rules[rule];
        json_object(out, NULL);
        json_stringz(out, "rule", rule_name(rule));
        json_stringz(out, "rung", rung_name(row->rung));
        json_stringz(out, "seed", row->seed);
        json_stringz(out, "key", row->key);
        json_stringz(out, "own", row->own);
        if (row->key)
            json_int(out, "limit", ladder_limit(l->work->options, rule) / row->unit_ms);
        else
            json_null(out, "limit");
        if (l->last_run_ms[rule])
            json_time(out, "lastRunAt", l->last_run_ms[rule]);
        else
            json_null(out, "lastRunAt");
        r = write_next(l, rule, out, err);
        json_int(out, "fired", l->work->fired[rule]);
        json_int(out, "errors", l->stats.errors_by_rule[rule]);
        json_end(out);
    }
    json_end(out);
    return r;
}
