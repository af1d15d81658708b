/*
 * cause.c: see cause.h. First the conditions, then the table.
 *
 * To add a cause: its name in CAUSE_LIST at the place where it is to be asked for, a condition, a
 * row, a test in tests/scenario/test_why.py that names it, and what is true of it in the simulator
 * (tests/sim/why.c).
 *
 * A condition may rely on those above it having been false.
 */
#include "watch/cause.h"

#include "base/mem.h"
#include "base/planted.h"
#include "domain/machine.h"
#include "domain/offer.h"
#include "domain/work.h"
#include "watch/sentence.h"

/* Work without progress is told of once this part of its limit has passed. */
enum { NO_PROGRESS_PART = 10 };

/* ---- of a task ---- */

static bool is_over(const struct situation *s)
{
    return s->asked && task_is_over(s->asked);
}

static bool is_queued(const struct situation *s)
{
    return s->asked && s->asked->status == TASK_QUEUED && s->head->status == CONVERSATION_ACTIVE;
}

/* ---- of an agent ---- */

static bool is_stopping(const struct situation *s)
{
    return s->agent && s->agent->process == PROCESS_STOPPING;
}

static bool is_stopping_machine_away(const struct situation *s)
{
    return is_stopping(s) && !(s->machine && s->machine->is_online);
}

/* The stop was sent as often as it may be: a person must look at the process. */
static bool is_unstoppable(const struct situation *s)
{
    return is_stopping(s) && s->stop.command && s->stop.due_ms == NEVER_MS;
}

/* Nobody can stop a listener that reeve has not started: it is asked to go. */
static bool is_leaving(const struct situation *s)
{
    const struct agent *a = s->agent;
    return a && a->is_listening && !a->kind[0] && a->desired == DESIRED_STOPPED;
}

static bool is_conversation_over(const struct situation *s)
{
    return s->head && s->head->status == CONVERSATION_COMPLETED;
}

static bool is_blocked(const struct situation *s)
{
    return s->head && s->head->status == CONVERSATION_BLOCKED;
}

static bool is_stopped_by_person(const struct situation *s)
{
    return s->agent && s->agent->desired == DESIRED_STOPPED;
}

static bool is_in_hand(const struct situation *s)
{
    return situation_is_in_hand(s);
}

static bool is_worker_silent(const struct situation *s)
{
    return is_in_hand(s) && !situation_worker_beats(s);
}

static bool is_claimed(const struct situation *s)
{
    return is_in_hand(s) && s->task->status == TASK_ACKNOWLEDGED;
}

static bool has_no_progress(const struct situation *s)
{
    int64_t limit_ms = rule_task_limit(RULE_RUNNING_REAP, s->w->options);
    return is_in_hand(s) && limit_ms &&
           gaps_due_ms(&s->w->gaps, s->task->progress_ms, limit_ms / NO_PROGRESS_PART) <=
               s->w->now_ms;
}

static bool is_suspended(const struct situation *s)
{
    return s->task && s->task->status == TASK_SUSPENDED;
}

static bool waits_for_tools(const struct situation *s)
{
    return is_suspended(s) && s->calls.waiting > 0;
}

static bool results_are_taken(const struct situation *s)
{
    return is_suspended(s) && s->calls.to_take == 0 && s->calls.received > 0;
}

static bool is_held_for_machine(const struct situation *s)
{
    return s->task && s->task->status == TASK_PENDING && s->task->held == HELD_MACHINE;
}

static bool is_held_for_process(const struct situation *s)
{
    return s->task && s->task->status == TASK_PENDING && s->task->held == HELD_PROCESS;
}

static bool is_machine_away(const struct situation *s)
{
    return s->agent && s->agent->process == PROCESS_UNKNOWN &&
           !(s->is_beyond_reach && s->is_wanted); /* then another is to be started */
}

static bool is_listener_silent(const struct situation *s)
{
    return s->agent && s->agent->is_listening && !situation_listener_beats(s);
}

static bool are_results_ready(const struct situation *s)
{
    return is_suspended(s) && s->is_attended;
}

static bool is_offered(const struct situation *s)
{
    return s->task && s->is_attended;
}

static bool is_waiting(const struct situation *s)
{
    return s->agent && s->is_attended;
}

static bool is_unmanaged(const struct situation *s)
{
    return s->is_wanted && s->obstacle == OBSTACLE_UNMANAGED;
}

static bool is_breaker_open(const struct situation *s)
{
    return s->agent && s->obstacle == OBSTACLE_BREAKER;
}

static bool is_crashed(const struct situation *s)
{
    return s->is_wanted && s->obstacle == OBSTACLE_WAIT;
}

/* A start that was ordered of nobody, or would be. */
static bool has_no_taker(const struct situation *s)
{
    bool is_ordered = s->start.command && !s->start.machine.n;
    return s->is_wanted && (is_ordered || s->obstacle == OBSTACLE_KIND);
}

static bool has_no_machine(const struct situation *s)
{
    return has_no_taker(s) && !offer_has_machines(s->w);
}

static bool needs_machine(const struct situation *s)
{
    return s->is_wanted && s->obstacle == OBSTACLE_MACHINE;
}

/* It is pinned, or a process of it may live there. */
static bool needs_its_machine(const struct situation *s)
{
    bool is_waited_for = s->may_live && !machine_is_lost(s->w, str_of(s->agent->machine));
    return needs_machine(s) && s->place[0] && (s->agent->pinned[0] || is_waited_for);
}

static bool is_machine_unknown(const struct situation *s)
{
    return needs_its_machine(s) && !s->machine;
}

static bool is_running(const struct situation *s)
{
    return s->agent && s->agent->process == PROCESS_RUNNING;
}

/* The process that it has lives until its machine has ended it. */
static bool is_replacing(const struct situation *s)
{
    return s->agent && s->start.command && !s->start.is_current && s->pid;
}

static bool is_not_ready(const struct situation *s)
{
    return is_running(s) && s->start.command;
}

static bool is_starting(const struct situation *s)
{
    return s->agent && s->start.command;
}

static bool is_not_listening(const struct situation *s)
{
    return is_running(s) && s->task;
}

/* It is to run, and its kind does not start it again after such an end. */
static bool has_ended(const struct situation *s)
{
    return s->is_wanted && !s->task && !s->agent->is_ensured;
}

static bool is_unattended(const struct situation *s)
{
    return s->is_wanted;
}

static bool is_crashed_and_idle(const struct situation *s)
{
    return s->agent && s->agent->is_crashed;
}

static bool is_absent(const struct situation *s)
{
    return s->agent && !s->agent->kind[0];
}

static bool is_agent(const struct situation *s)
{
    return s->agent;
}

/* ---- of a conversation ---- */

static bool is_busy(const struct situation *s)
{
    return s->head && s->head->open_tasks > 0;
}

static bool is_turn_free(const struct situation *s)
{
    return s->head && s->head->turn_is_open && s->head->turn_is_cleared;
}

static bool is_turn_open(const struct situation *s)
{
    return s->head && s->head->turn_is_open;
}

static bool is_conversation(const struct situation *s)
{
    return s->head;
}

/* ---- of a machine ---- */

static bool is_machine_held(const struct situation *s)
{
    return !s->machine->is_online && !s->machine->is_fenced;
}

static bool is_machine_gone(const struct situation *s)
{
    return !s->machine->is_online;
}

static bool is_machine_silent(const struct situation *s)
{
    return !situation_machine_beats(s);
}

static bool is_machine(const struct situation *s)
{
    return s->machine;
}

/* ---- the table ---- */

struct row {
    bool (*holds)(const struct situation *s);
    const char *says;
    const char *remedy, *does; /* a command, and what it does; NULL: nobody need do anything */
};

// clang-format off
static const struct row rows[CAUSE_COUNT] = {
    [CAUSE_TASK_OVER] = {is_over,
        "{asked} ended at {task_ended_at}: {outcome}"},
    [CAUSE_TASK_QUEUED] = {is_queued,
        "{asked} is number {place} in the queue of {agent}, {front}"},
    [CAUSE_STOPPING_MACHINE_AWAY] = {is_stopping_machine_away,
        "cannot be stopped yet: machine {machine} is {offline}, and {process} is stopped when the machine returns",
        "reeve agent stop {agent} --force", "does not wait for it"},
    [CAUSE_UNSTOPPABLE] = {is_unstoppable,
        "cannot be stopped: machine {machine} has not confirmed that {process} ended, after {sends} orders to stop it",
        "kill -9 {pid}", "ends it if typed on {machine}"},
    [CAUSE_STOPPING] = {is_stopping,
        "is being stopped: {process} has not ended yet"},
    [CAUSE_LEAVING] = {is_leaving,
        "stopped by a person: {listener} was asked to leave and still listens",
        "reeve agent start {agent}", "lets it work again"},
    [CAUSE_CONVERSATION_OVER] = {is_conversation_over,
        "{talk} ended at {ended_at}: {ended} {by}"},
    [CAUSE_CONVERSATION_BLOCKED] = {is_blocked,
        "{talk} is blocked since {blocked_at}, {by}; nothing in it runs until somebody resumes or ends it",
        "reeve conversation resume {conversation}", "lets it go on"},
    [CAUSE_STOPPED_BY_PERSON] = {is_stopped_by_person,
        "stopped by a person, and started again by nobody else",
        "reeve agent start {agent}", "starts it again"},
    [CAUSE_WORKER_SILENT] = {is_worker_silent,
        "{worker}, who has {task}, gave its last sign of life {silent} ago"},
    [CAUSE_CLAIMED] = {is_claimed,
        "{worker} has claimed {task} and has not begun"},
    [CAUSE_NO_PROGRESS] = {has_no_progress,
        "working on {task} without progress for {progress}"},
    [CAUSE_WORKING] = {is_in_hand,
        "working on {task}; its last progress was {progress} ago"},
    [CAUSE_TOOL_WAIT] = {waits_for_tools,
        "{task} waits for {calls}",
        "reeve task report {number} {call} TEXT", "reports its result"},
    [CAUSE_RESULTS_TAKEN] = {results_are_taken,
        "the results that {task} waited for were taken and are not applied yet"},
    [CAUSE_HELD_FOR_MACHINE] = {is_held_for_machine,
        "{task} is held: machine {machine} is {offline}, and {process} may still work on it"},
    [CAUSE_HELD_FOR_PROCESS] = {is_held_for_process,
        "{task} is held until the process that had it is proven dead"},
    [CAUSE_MACHINE_AWAY] = {is_machine_away,
        "machine {machine} is {offline}; what {process} does is not known until the machine returns",
        "reeve agent set {agent} --any-machine --force", "does not wait for it"},
    [CAUSE_LISTENER_SILENT] = {is_listener_silent,
        "{listener}, who listens for {agent}, gave its last sign of life {unheard} ago"},
    [CAUSE_RESULTS_READY] = {are_results_ready,
        "the results that {task} waited for are there, and {listener} has not taken them"},
    [CAUSE_OFFERED] = {is_offered,
        "{task} is offered to {listener}, who has not claimed it"},
    [CAUSE_WAITING] = {is_waiting,
        "{listener} listens, and there is no work for it"},
    [CAUSE_UNMANAGED] = {is_unmanaged,
        "nobody listens for {agent} and reeve cannot start it (no kind)",
        "reeve wait-for-task --conversation {conversation} --role {role}", "takes its work"},
    [CAUSE_BREAKER_OPEN] = {is_breaker_open,
        "stopped after {burst} crashes in {window} (last: {exit})",
        "reeve agent start {agent}", "starts it again"},
    [CAUSE_CRASHED] = {is_crashed,
        "crashed ({exit}), {times}"},
    [CAUSE_NO_MACHINE] = {has_no_machine,
        "cannot start: no machine has registered",
        "reeve machine", "runs agents on this host"},
    [CAUSE_KIND_NOT_OFFERED] = {has_no_taker,
        "cannot start: no machine offers kind '{kind}' ({offers})",
        "reeve agent set {agent} --kind KIND", "gives it another kind"},
    [CAUSE_MACHINE_UNKNOWN] = {is_machine_unknown,
        "cannot start: machine {machine} is not known; {agent} starts when it registers",
        "reeve agent set {agent} --machine MACHINE", "moves it"},
    [CAUSE_MACHINE_OFFLINE] = {needs_its_machine,
        "cannot start: machine {machine} is {offline}; {agent} starts when it returns",
        "reeve agent set {agent} --machine MACHINE", "moves it"},
    [CAUSE_KIND_OFFLINE] = {needs_machine,
        "cannot start: every machine that offers kind '{kind}' is offline ({offering}); {agent} starts when one returns"},
    [CAUSE_REPLACING] = {is_replacing,
        "machine {machine} was told to replace {process} and has not confirmed it yet"},
    [CAUSE_NOT_READY] = {is_not_ready,
        "{process} has begun and has not said that it is ready"},
    [CAUSE_STARTING] = {is_starting,
        "machine {machine} was told to start it and has not confirmed it yet"},
    [CAUSE_NOT_LISTENING] = {is_not_listening,
        "{process} runs and does not listen for {task}"},
    [CAUSE_RUNNING] = {is_running,
        "{process} runs, and there is no work for it"},
    [CAUSE_ENDED] = {has_ended,
        "ended by itself ({exit}), and its kind does not start it again",
        "reeve agent start {agent}", "starts it again"},
    [CAUSE_UNATTENDED] = {is_unattended,
        "nobody listens for {agent}"},
    [CAUSE_CRASHED_AND_IDLE] = {is_crashed_and_idle,
        "crashed ({exit}); there is no work for it, and it is started when there is"},
    [CAUSE_ABSENT] = {is_absent,
        "nobody listens for {agent}, and there is no work for it"},
    [CAUSE_IDLE] = {is_agent,
        "there is no work for {agent}; it is started when there is"},
    [CAUSE_BUSY] = {is_busy,
        "{open} open, and nobody has written for {quiet}"},
    [CAUSE_TURN_FREE] = {is_turn_free,
        "turn {turn} is open and free to take, and nobody has written for {quiet}"},
    [CAUSE_TURN_OPEN] = {is_turn_open,
        "{owner} has turn {turn}, and nobody has written for {quiet}"},
    [CAUSE_QUIET] = {is_conversation,
        "no turn is open, and nobody has written for {quiet}"},
    [CAUSE_MACHINE_HELD] = {is_machine_held,
        "{offline}; what its processes do is not known, and their work is held"},
    [CAUSE_MACHINE_GONE] = {is_machine_gone,
        "{offline}; what its processes do is not known, and no work is held for it any more",
        "reeve machine forget {machine}", "lets go of it"},
    [CAUSE_MACHINE_SILENT] = {is_machine_silent,
        "it polled {unpolled} ago, and a poll is missing"},
    [CAUSE_MACHINE_ONLINE] = {is_machine,
        "it polls, the last time {unpolled} ago"},
};
// clang-format on

static const char *const names[] = {
#define X(name, text) [CAUSE_##name] = text,
    CAUSE_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(names) == CAUSE_COUNT, "a name for each cause");

const char *cause_name(enum cause cause)
{
    return names[cause];
}

enum cause cause_find(const struct situation *s)
{
    enum cause cause = 0;
    while (!rows[cause].holds(s))
        REQUIRE(++cause < CAUSE_COUNT);
    bool may_still_run = cause == CAUSE_HELD_FOR_MACHINE || cause == CAUSE_MACHINE_AWAY;
    return may_still_run && planted(WHY_WRONG_CAUSE) ? CAUSE_MACHINE_OFFLINE : cause;
}

bool cause_add_remedy(struct buf *out, enum cause cause, const struct situation *s)
{
    if (rows[cause].remedy)
        sentence_add(out, s, NULL, rows[cause].remedy);
    return rows[cause].remedy;
}

void cause_add_sentence(struct buf *out, enum cause cause, const struct situation *s,
                        const struct clocks *c)
{
    const struct row *row = &rows[cause];
    sentence_add(out, s, NULL, row->says);
    if (c->next) {
        buf_addz(out, "; ");
        sentence_add(out, s, c->next, c->next->deed);
    } else if (!s->agent && s->head && s->head->status == CONVERSATION_ACTIVE) {
        buf_addz(out, "; nothing is counting, so no rule will move it");
    }
    if (row->remedy) {
        buf_addz(out, "; `");
        sentence_add(out, s, NULL, row->remedy);
        buf_addz(out, "` ");
        sentence_add(out, s, NULL, row->does);
    }
}

void cause_write_docs(struct buf *out)
{
    buf_addz(
        out,
        "# Why\n\nGenerated from the table of causes (`src/watch/cause.c`) by `make docs`.\n\n"
        "`reeve why` and the methods `agent.why`, `task.why`, `conversation.why` and "
        "`machine.why` tell where something stands: `cause` is one of the codes below, `says` "
        "the sentence with the next move and its time, `remedy` what a person may type, `next` "
        "the next move. The first row that holds is the cause.\n\n"
        "`next` is the earliest move that will really happen: no ring, no start that something "
        "stands in the way of, no end of a lease whose holder beats (`assumes` is `beats` if "
        "such a lease is over before it). It is null if nothing will move it by itself.\n\n"
        "| cause | says | remedy |\n|---|---|---|\n");
    for (enum cause cause = 0; cause < CAUSE_COUNT; cause++) {
        const struct row *row = &rows[cause];
        buf_addf(out, "| `%s` | %s | %s%s%s |\n", names[cause], row->says, row->remedy ? "`" : "",
                 row->remedy ? row->remedy : "", row->remedy ? "`" : "");
    }
}
