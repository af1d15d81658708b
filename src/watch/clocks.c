/* clocks.c: see clocks.h. */
#include "watch/clocks.h"

#include "base/mem.h"
#include "base/planted.h"
#include "domain/machine.h"
#include "domain/queue.h"
#include "domain/work.h"
#include "watch/ladder.h"

/* What a rule does, once it moves something. {in} is when. */
static const char *const deeds[RULE_COUNT] = {
    [RULE_WALL_CLOCK_NOTICE] = "a notice of the budget is given {in}",
    [RULE_WALL_CLOCK] = "{talk} is blocked {in}",
    [RULE_IDLE] = "{talk} is canceled {in} unless somebody writes",
    [RULE_GLOBAL_IDLE] = "{talk} is canceled {in} unless somebody writes",
    [RULE_MACHINE_OFFLINE] = "machine {machine} counts as offline {in} unless it polls",
    [RULE_AGENT_EXITED] = "{agent} is started again {in}",
    [RULE_COMMAND_EXPIRED] = "the start is given up and tried again {in}",
    [RULE_QUEUE_SWEEP] = "{asked} is dispatched {in}",
    [RULE_INBOX_PENDING] = "the bell is rung {in}",
    [RULE_INBOX_PROCESSING] = "{task} is taken back {in} unless its worker beats",
    [RULE_PARTICIPANT_EXPIRE] = "the listener is disconnected {in} unless it beats",
    [RULE_TOOL_TIMEOUT] = "a tool call times out {in} unless its result is reported",
    [RULE_LEDGER_REQUEUE] = "another may take the results {in} unless they are applied",
    [RULE_DISPATCH_RETRY] = "the bell is rung {in}",
    [RULE_TASK_ACKNOWLEDGED] = "{task} is taken back {in} unless its worker beats",
    [RULE_TASK_ORPHANED] = "{task} is taken back {in} unless its worker beats",
    [RULE_TASK_UNATTENDED] = "{agent} is started {in} unless somebody listens",
    [RULE_TASK_UNRESUMED] = "{agent} is started anew {in} unless somebody resumes",
    [RULE_DISPATCH_REAP] = "{task} fails {in}",
    [RULE_RUNNING_REAP] = "{task} is ended {in} unless it reports progress",
    [RULE_SUSPENDED_REAP] = "{task} is ended {in}",
    [RULE_TASK_EXHAUSTED] = "{task} fails {in}",
    [RULE_TASK_MAX_SECONDS] = "{task} fails {in}",
};

static struct clock_ahead *add(const struct situation *s, struct clocks *c, enum rule_id rule,
                               const char *what, int64_t since_ms, int64_t due_ms)
{
    if (c->count == c->room) {
        struct clock_ahead *more = arena_alloc(&s->w->arena, 2 * (c->room + 8) * sizeof *more);
        if (c->count)
            memcpy(more, c->list, c->count * sizeof *more);
        c->list = more;
        c->room = 2 * (c->room + 8);
    }
    bool is_ring = ladder_rules[rule].is_ring || rule == RULE_WALL_CLOCK_NOTICE;
    c->list[c->count] = (struct clock_ahead){.rule = rule,
                                             .what = what,
                                             .deed = deeds[rule],
                                             .since_ms = since_ms,
                                             .due_ms = due_ms,
                                             .moves = !is_ring};
    return &c->list[c->count++];
}

/* ---- of a conversation ---- */

static void add_of_conversation(const struct situation *s, struct clocks *c)
{
    const struct head *h = s->head;
    for (enum rule_id rule = 0; rule < TIMED_RULE_COUNT; rule++) {
        int64_t due_ms = rule_due_ms(rule, s->w->options, &s->w->gaps, h);
        if (due_ms != NEVER_MS)
            add(s, c, rule, "its conversation", rule_base_ms(rule, h), due_ms);
    }
}

/* ---- of a machine ---- */

static bool is_offered_elsewhere(const struct situation *s)
{
    for (const struct machine *m = s->w->machines; m; m = m->next)
        if (m->is_online && machine_kind_find(m, s->agent->kind))
            return true;
    return false;
}

/* What the end of the fence changes for an agent; NULL: nothing. */
static const char *deed_of_fence(const struct situation *s)
{
    const struct agent *a = s->agent;
    if (a->process == PROCESS_STOPPING)
        return "nobody waits for it any more {in}";
    bool may_move = s->is_wanted && !a->pinned[0] && !a->breaker_is_open && a->kind[0] &&
                    a->restart_ms <= s->w->now_ms && !s->is_attended;
    if (may_move && is_offered_elsewhere(s))
        return "{agent} is started on another machine {in}";
    bool is_held = s->task && s->task->held == HELD_MACHINE;
    return is_held ? "another may take {task} {in}" : NULL;
}

static void add_of_machine(const struct situation *s, struct clocks *c)
{
    const struct machine *m = s->machine;
    int64_t due_ms = m ? machine_due_ms(s->w, m) : NEVER_MS;
    bool concerns = !s->agent || s->agent->process != PROCESS_NONE;
    if (due_ms == NEVER_MS || !concerns)
        return;
    struct clock_ahead *clock = add(s, c, RULE_MACHINE_OFFLINE,
                                    s->agent ? "its machine" : "the machine", m->beat_ms, due_ms);
    clock->is_renewed = situation_machine_beats(s);
    if (m->is_online)
        return;
    clock->since_ms = m->offline_ms;
    const char *deed = s->agent ? deed_of_fence(s) : "it is lost, and its work goes to others {in}";
    clock->moves = deed;
    clock->deed = deed ? deed : "machine {machine} counts as lost {in}";
}

/* ---- of an agent ---- */

/* Its machine will be lost by then, and another one can have it. */
static bool may_go_elsewhere(const struct situation *s, int64_t at_ms)
{
    const struct machine *m = s->machine;
    return m && !m->is_online && !s->agent->pinned[0] && is_offered_elsewhere(s) &&
           (m->is_fenced || machine_fence_due_ms(s->w, m) <= at_ms);
}

/* Would the rule that brings the agent up order a start then? */
static int note_start(const struct situation *s, bool replaces, struct clock_ahead *clock,
                      struct err *err)
{
    enum obstacle obstacle = OBSTACLE_NONE;
    int r = agent_find_obstacle(s->w, s->agent, replaces, clock->due_ms, &obstacle, err);
    bool has_way = obstacle == OBSTACLE_NONE ||
                   (obstacle == OBSTACLE_MACHINE && may_go_elsewhere(s, clock->due_ms));
    clock->moves = r == 0 && s->is_wanted && has_way;
    if (s->agent->process == PROCESS_RUNNING && clock->rule == RULE_TASK_UNATTENDED)
        clock->deed = "{process} is replaced {in} unless it listens";
    return r;
}

static int add_of_process(const struct situation *s, struct clocks *c, struct err *err)
{
    const struct agent *a = s->agent;
    if (a->is_listening)
        add(s, c, RULE_PARTICIPANT_EXPIRE, "its listener", a->beat_ms,
            agent_ready_until_ms(s->w, a) + 1)
            ->is_renewed = situation_listener_beats(s);
    if (s->start.due_ms != NEVER_MS)
        add(s, c, RULE_COMMAND_EXPIRED, "its start", 0, s->start.due_ms);
    if (s->stop.due_ms != NEVER_MS)
        add(s, c, RULE_COMMAND_EXPIRED, "its stop", 0, s->stop.due_ms)->deed =
            "the stop is sent again {in}";
    if (!a->restart_ms)
        return 0;
    return note_start(s, false, add(s, c, RULE_AGENT_EXITED, "its process", 0, a->restart_ms), err);
}

/* When the task came to where it stands. */
static int64_t task_since_ms(const struct task *t)
{
    return t->status == TASK_SUSPENDED ? t->suspended_ms : t->pending_ms;
}

static bool ends_with_worker_lease(enum rule_id rule)
{
    return rule == RULE_TASK_ORPHANED || rule == RULE_TASK_ACKNOWLEDGED ||
           rule == RULE_INBOX_PROCESSING;
}

static int add_of_task(const struct situation *s, struct clocks *c, struct err *err)
{
    int r = 0;
    for (enum rule_id rule = FIRST_TASK_RULE; r == 0 && rule <= LAST_TASK_RULE; rule++) {
        int64_t due_ms;
        r = rule_task_due_ms(s->w, rule, s->task, &due_ms, err);
        if (r < 0 || due_ms == NEVER_MS)
            continue;
        struct clock_ahead *clock = add(s, c, rule, "its task", task_since_ms(s->task), due_ms);
        if (ends_with_worker_lease(rule))
            clock->is_renewed = situation_worker_beats(s);
        if (rule == RULE_TASK_UNATTENDED || rule == RULE_TASK_UNRESUMED)
            r = note_start(s, true, clock, err);
    }
    return r;
}

/* Each call that the task waits for, with its deadline, and each result that was lent. */
static int add_of_tools(const struct situation *s, struct clocks *c, struct err *err)
{
    for (const struct tool_list *at = s->tools; at; at = at->next) {
        const struct tool *tool = &at->tool;
        enum rule_id rule;
        int64_t due_ms;
        int r = tool_due_ms(s->w, tool, &rule, &due_ms, err);
        if (r < 0)
            return r;
        if (due_ms == NEVER_MS)
            continue;
        struct str what = arena_printf(&s->w->arena, "its tool call %.*s", STR_ARG(tool->id));
        add(s, c, rule, what.p, rule == RULE_TOOL_TIMEOUT ? tool->since_ms : tool->leased_ms,
            due_ms);
    }
    return 0;
}

/* A row that is no turn is rung for, or handed back: the agent itself is not moved. */
static int add_of_inbox(const struct situation *s, struct clocks *c, struct err *err)
{
    for (size_t i = 0; i < s->inbox_count; i++) {
        const struct inbox_row *row = &s->inbox[i];
        bool is_pending = row->status == INBOX_IS_PENDING;
        int64_t due_ms;
        int r = inbox_due_ms(s->w, row, &due_ms, err);
        if (r < 0)
            return r;
        if (due_ms == NEVER_MS)
            continue;
        struct str what = arena_printf(&s->w->arena, "its inbox row %lld", (long long)row->inbox);
        struct clock_ahead *clock =
            add(s, c, is_pending ? RULE_INBOX_PENDING : RULE_INBOX_PROCESSING, what.p,
                is_pending ? row->pending_ms : row->processed_ms, due_ms);
        clock->moves = !is_pending && row->type == INBOX_OF_TURN;
        clock->is_renewed = clock->moves && s->task && situation_worker_beats(s);
    }
    return 0;
}

static int add_of_queue(const struct situation *s, struct clocks *c, struct err *err)
{
    int64_t due_ms;
    if (!s->asked || s->asked->status != TASK_QUEUED)
        return 0;
    int r = queue_due_ms(s->w, s->asked, &due_ms, err);
    if (r == 0 && due_ms != NEVER_MS)
        add(s, c, RULE_QUEUE_SWEEP, "its place in the queue", s->asked->created_ms, due_ms);
    return r;
}

static int add_of_agent(const struct situation *s, struct clocks *c, struct err *err)
{
    int r = add_of_process(s, c, err);
    if (r == 0 && s->task)
        r = add_of_task(s, c, err);
    if (r == 0)
        r = add_of_tools(s, c, err);
    if (r == 0)
        r = add_of_inbox(s, c, err);
    return r < 0 ? r : add_of_queue(s, c, err);
}

/* ---- the next move ---- */

/* In the order in which the engine makes them. */
static bool comes_before(const struct clock_ahead *a, const struct clock_ahead *b)
{
    if (a->due_ms != b->due_ms)
        return a->due_ms < b->due_ms;
    if (ladder_rules[a->rule].rung != ladder_rules[b->rule].rung)
        return ladder_rules[a->rule].rung < ladder_rules[b->rule].rung;
    return a->rule < b->rule;
}

static bool will_happen(const struct clock_ahead *clock)
{
    return (clock->moves && !clock->is_renewed) || planted(WHY_EARLIEST_CLOCK);
}

static void find_next(struct clocks *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (will_happen(&c->list[i]) && (!c->next || comes_before(&c->list[i], c->next)))
            c->next = &c->list[i];
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].is_renewed && (!c->next || c->list[i].due_ms <= c->next->due_ms))
            c->assumes_beats = true;
}

int clocks_read(const struct situation *s, struct clocks *ret, struct err *err)
{
    *ret = (struct clocks){0};
    if (s->asked && task_is_over(s->asked))
        return 0;
    if (s->head)
        add_of_conversation(s, ret);
    add_of_machine(s, ret);
    int r = s->agent ? add_of_agent(s, ret, err) : 0;
    if (r == 0)
        find_next(ret);
    return r;
}
