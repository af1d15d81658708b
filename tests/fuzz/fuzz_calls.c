/*
 * fuzz_calls.c: any bytes as a sequence of calls, played on a core and on a small model of it.
 *
 * Two bytes are a step: what is done, and by whom or to what. The model is written from the
 * contract (turns: PROTOCOL 3; tasks and leases: DESIGN 5 and 6) and shares nothing with the
 * server. It predicts the error, the status, the epoch and the turn that each call answers; how the
 * conversation and its tasks stand after each step; and by how much the log has grown. Any
 * difference aborts. At the end the server is started again and must still be what the model says.
 *
 * One conversation, two roles that nobody manages, two connections each. So that the model stays
 * small, rules that other fuzzers and the scenario tests cover are off: running.reap,
 * task.max_seconds, silence.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "fuzz_world.h"
#include "tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    LISTENER_MS = 60000,
    WORKER_MS = 60000,
    ACKNOWLEDGED_MS = 120000,
    DISPATCH_MS = 900000,
    BUDGET_MS = 400000,
    ATTEMPTS_MAX = 3,
    TURNS_MAX = 5,
    ROLES = 2,
    TASKS_MAX = 40,
    STEPS_MAX = 60,
};
#define NEVER INT64_MAX

/* ---- the model ---- */

enum status { QUEUED, PENDING, ACKNOWLEDGED, IN_PROGRESS, COMPLETED, FAILED, TIMED_OUT, CANCELED };
static const char *const status_names[] = {"queued",    "pending", "acknowledged", "in_progress",
                                           "completed", "failed",  "timeout",      "canceled"};

struct m_task {
    int role;
    enum status status;
    int64_t epoch, attempts, pending_ms, acknowledged_ms, beat_ms;
    char holder; /* connection; 0: none */
};

struct m_role {
    int64_t epoch, beat_ms;
    int active;    /* task; 0: none */
    char listener; /* connection; 0: none */
};

struct play {
    struct world *w;
    int64_t now_ms;
    enum { ACTIVE, BLOCKED, ENDED } state;
    const char *outcome; /* of its end */
    int64_t window_ms, blocked_ms, window, seq;
    int64_t turn;
    bool turn_is_open;
    int owner; /* role that opened the turn */
    struct m_role roles[ROLES];
    struct m_task tasks[TASKS_MAX + 1]; /* by number, from 1 */
    int task_count;
    /* what the step at hand must have done to the log */
    int64_t grows_by; /* exactly; -1: by one at least */
    bool moved;       /* a rule or a promotion wrote, too */
};

static bool is_open(const struct m_task *t)
{
    return t->status <= IN_PROGRESS;
}

static bool listens(const struct play *p, const struct m_role *r)
{
    return r->listener && p->now_ms <= r->beat_ms + LISTENER_MS;
}

static bool is_worked_on(const struct play *p, const struct m_task *t)
{
    return (t->status == ACKNOWLEDGED || t->status == IN_PROGRESS) &&
           p->now_ms <= t->beat_ms + WORKER_MS;
}

static void bump(struct play *p, struct m_task *t)
{
    t->epoch = ++p->roles[t->role].epoch;
    p->moved = true;
}

static void pend(struct play *p, struct m_task *t)
{
    t->status = PENDING;
    t->holder = 0;
    t->pending_ms = p->now_ms;
}

static void promote(struct play *p, int role)
{
    struct m_role *r = &p->roles[role];
    for (int i = 1; !r->active && p->state == ACTIVE && i <= p->task_count; i++) {
        struct m_task *t = &p->tasks[i];
        if (t->role != role || t->status != QUEUED)
            continue;
        r->active = i;
        bump(p, t);
        pend(p, t);
    }
}

static void finish(struct play *p, struct m_task *t, enum status status)
{
    struct m_role *r = &p->roles[t->role];
    t->status = status;
    p->moved = true;
    if (r->active && &p->tasks[r->active] == t)
        r->active = 0;
    promote(p, t->role);
}

static void end_conversation(struct play *p, const char *outcome)
{
    p->state = ENDED; /* first: nothing is promoted any more */
    p->outcome = outcome;
    for (int i = 1; i <= p->task_count; i++)
        if (is_open(&p->tasks[i])) {
            bump(p, &p->tasks[i]);
            finish(p, &p->tasks[i], CANCELED);
        }
}

static void take_back(struct play *p, struct m_task *t, bool loses_attempt)
{
    t->attempts += loses_attempt;
    bump(p, t);
    pend(p, t);
}

/* ---- what falls due ---- */

static int64_t task_due_ms(const struct m_task *t)
{
    int64_t lease_over_ms = t->beat_ms + WORKER_MS + 1;
    switch (t->status) {
    case PENDING:
        return t->attempts >= ATTEMPTS_MAX ? t->pending_ms : t->pending_ms + DISPATCH_MS + 1;
    case ACKNOWLEDGED:
        return MIN(MAX(lease_over_ms, t->acknowledged_ms + ACKNOWLEDGED_MS + 1),
                   t->acknowledged_ms + DISPATCH_MS + 1);
    case IN_PROGRESS:
        return lease_over_ms;
    default:
        return NEVER;
    }
}

static void move_due_task(struct play *p, struct m_task *t)
{
    if (t->status == PENDING || p->now_ms > t->acknowledged_ms + DISPATCH_MS) {
        bump(p, t);
        finish(p, t, t->attempts >= ATTEMPTS_MAX ? FAILED : TIMED_OUT);
    } else {
        take_back(p, t, true);
    }
}

static void block(struct play *p)
{
    p->state = BLOCKED;
    p->blocked_ms = p->now_ms;
    p->moved = true;
    for (int i = 1; i <= p->task_count; i++)
        if (p->tasks[i].status == ACKNOWLEDGED || p->tasks[i].status == IN_PROGRESS)
            take_back(p, &p->tasks[i], false);
}

/* The earliest that is due by then, lower rungs first; false: nothing is. */
static bool settle_one(struct play *p, int64_t until_ms)
{
    int64_t first_ms = NEVER;
    int what = -1; /* 0 and 1: a listener, 2 and 3: a task, 4: the budget */
    for (int i = 0; i < ROLES; i++)
        if (p->roles[i].listener && p->roles[i].beat_ms + LISTENER_MS + 1 < first_ms) {
            first_ms = p->roles[i].beat_ms + LISTENER_MS + 1;
            what = i;
        }
    for (int i = 0; i < ROLES && p->state == ACTIVE; i++) {
        int active = p->roles[i].active;
        if (active && task_due_ms(&p->tasks[active]) < first_ms) {
            first_ms = task_due_ms(&p->tasks[active]);
            what = ROLES + i;
        }
    }
    if (p->state == ACTIVE && p->window_ms + BUDGET_MS + 1 < first_ms) {
        first_ms = p->window_ms + BUDGET_MS + 1;
        what = 2 * ROLES;
    }
    if (what < 0 || first_ms > until_ms)
        return false;
    p->now_ms = MAX(p->now_ms, first_ms);
    p->moved = true;
    if (what < ROLES)
        p->roles[what].listener = 0;
    else if (what < 2 * ROLES)
        move_due_task(p, &p->tasks[p->roles[what - ROLES].active]);
    else
        block(p);
    return true;
}

static void settle_model(struct play *p, int64_t until_ms)
{
    while (settle_one(p, until_ms))
        ;
    p->now_ms = MAX(p->now_ms, until_ms);
}

/* ---- the server's side ---- */

/* The answer to what was asked; error NULL: it must be a result. */
static struct reply answer(struct play *p, const char *what, const char *error)
{
    tick(p->w);
    settle(p->w);
    struct reply r = take(p->w);
    struct str got = string_at(r.json, "error.data.name");
    if (!str_is(got, error ? error : "(none)"))
        tap_fail(__FILE__, __LINE__, "%s: %.*s, not %s", what, STR_ARG(got),
                 error ? error : "a result");
    outbox_release(&p->w->out);
    return r;
}

static void answer_is(struct play *p, const char *what, const char *error)
{
    struct reply r = answer(p, what, error);
    done(&r);
}

static void answer_has(struct play *p, const char *what, const char *error, const char *path,
                       const char *text)
{
    struct reply r = answer(p, what, error);
    if (!error)
        CHECK_STR(string_at(r.json, path), text);
    done(&r);
}

static void answer_counts(struct play *p, const char *what, const char *error, const char *path,
                          int64_t number)
{
    struct reply r = answer(p, what, error);
    if (!error && int_at(r.json, path) != number)
        tap_fail(__FILE__, __LINE__, "%s: %s is %lld, not %lld", what, path,
                 (long long)int_at(r.json, path), (long long)number);
    done(&r);
}

/* ---- steps ---- */

static const char *refusal_by_state(const struct play *p)
{
    return p->state == ENDED     ? "CONVERSATION_FINALIZED"
           : p->state == BLOCKED ? "CONVERSATION_BLOCKED"
                                 : NULL;
}

static char role_of(uint8_t arg)
{
    return (char)('a' + (arg & 1));
}

static char connection_of(uint8_t arg)
{
    return arg & 2 ? 'q' : 'p';
}

static void do_message(struct play *p, uint8_t arg)
{
    static const char *const finalities[] = {"none", "turn", "none", "conversation"};
    const char *finality = finalities[(arg >> 1) & 3];
    int role = arg & 1;
    bool closes = strcmp(finality, "none") != 0;
    const char *error = refusal_by_state(p);
    if (!error && closes && p->turn_is_open && p->owner != role)
        error = "FORBIDDEN";
    if (!error) {
        if (!p->turn_is_open) {
            p->turn++;
            p->owner = role;
        }
        p->turn_is_open = !closes;
        p->grows_by = 1;
        if (strcmp(finality, "conversation") == 0)
            end_conversation(p, "completed");
        else if (closes && p->turn >= TURNS_MAX) {
            p->grows_by = 2;
            end_conversation(p, "canceled");
            p->turn++; /* the terminal message stands on a turn of its own */
        }
    }
    int64_t turn = p->turn - (p->grows_by == 2);
    ask(p->w, CALL("message.send", "{'conversation':1,'agentId':'%c','text':'x','finality':'%s'}"),
        role_of(arg), finality);
    answer_counts(p, "message.send", error, "result.turn", turn);
}

static void do_end(struct play *p, uint8_t arg)
{
    (void)arg;
    const char *error = NULL;
    if (p->state != ENDED) {
        p->turn += !p->turn_is_open;
        p->turn_is_open = false;
        p->grows_by = 1;
        end_conversation(p, "completed");
    } else if (strcmp(p->outcome, "completed") != 0) {
        error = "CONVERSATION_FINALIZED";
    }
    ask(p->w, CALL("conversation.end", "{'conversation':1}"));
    answer_counts(p, "conversation.end", error, "result.turn", p->turn);
}

static void do_resume(struct play *p, uint8_t arg)
{
    (void)arg;
    const char *error = p->state == ENDED    ? "CONVERSATION_FINALIZED"
                        : p->state == ACTIVE ? "INVALID_TRANSITION"
                                             : NULL;
    if (!error) {
        p->state = ACTIVE;
        p->window++;
        p->window_ms = p->now_ms;
        p->grows_by = -1;
        for (int i = 1; i <= p->task_count; i++)
            if (p->tasks[i].status == PENDING) /* its clock stood still */
                p->tasks[i].pending_ms += p->now_ms - p->blocked_ms;
        for (int i = 0; i < ROLES; i++)
            promote(p, i);
    }
    ask(p->w, CALL("conversation.resume", "{'conversation':1}"));
    answer_counts(p, "conversation.resume", error, "result.window", p->window);
}

static void do_join(struct play *p, uint8_t arg)
{
    struct m_role *r = &p->roles[arg & 1];
    const char *error = refusal_by_state(p);
    if (!error) {
        r->listener = connection_of(arg);
        r->beat_ms = p->now_ms;
        p->moved = true;
    }
    ask(p->w, CALL("participant.join", "{'conversation':1,'role':'%c','connectionId':'%c'}"),
        role_of(arg), connection_of(arg));
    answer_has(p, "participant.join", error, "result.status", "waiting");
}

static void do_leave(struct play *p, uint8_t arg)
{
    struct m_role *r = &p->roles[arg & 1];
    if (r->listener == connection_of(arg)) {
        r->listener = 0;
        p->moved = true;
    }
    ask(p->w, CALL("participant.leave", "{'conversation':1,'role':'%c','connectionId':'%c'}"),
        role_of(arg), connection_of(arg));
    answer_is(p, "participant.leave", NULL);
}

static void do_beat(struct play *p, uint8_t arg)
{
    struct m_role *r = &p->roles[arg & 1];
    struct m_task *t = r->active ? &p->tasks[r->active] : NULL;
    int64_t epoch = r->epoch - (arg & 4 ? 1 : 0);
    bool is_over = p->state == ENDED;
    bool is_listener = listens(p, r) && r->listener == connection_of(arg) && !is_over;
    const char *status = is_listener ? "ok" : listens(p, r) && !is_over ? "superseded" : NULL;
    if (is_listener)
        r->beat_ms = p->now_ms;
    if (!is_over && t && (t->status == ACKNOWLEDGED || t->status == IN_PROGRESS) &&
        t->epoch == epoch)
        t->beat_ms = p->now_ms;
    ask(p->w,
        CALL("participant.heartbeat",
             "{'conversation':1,'role':'%c','connectionId':'%c','epoch':%d}"),
        role_of(arg), connection_of(arg), (int)MAX(epoch, 0));
    answer_has(p, "participant.heartbeat", NULL, "result.status",
               status ? status : "rejoin_required");
}

static void do_create(struct play *p, uint8_t arg)
{
    if (p->task_count == TASKS_MAX)
        return;
    const char *error = refusal_by_state(p);
    if (!error) {
        p->tasks[++p->task_count] = (struct m_task){.role = arg & 1};
        promote(p, arg & 1);
        p->grows_by = 0;
        p->moved = true;
    }
    ask(p->w, CALL("task.create", "{'conversation':1,'role':'%c','content':1}"), role_of(arg));
    answer_has(p, "task.create", error, "result.task.status",
               status_names[p->tasks[p->task_count].status]);
}

static const char *claim_refusal(const struct play *p, const struct m_role *r, char connection)
{
    const struct m_task *t = &p->tasks[r->active];
    if (refusal_by_state(p))
        return refusal_by_state(p);
    if (listens(p, r) && r->listener != connection)
        return "SUPERSEDED";
    if (!r->active)
        return "NOT_FOUND";
    if (t->status != PENDING && t->holder == connection)
        return NULL;
    bool is_used_up = t->status == ACKNOWLEDGED && t->attempts + 1 >= ATTEMPTS_MAX;
    return t->status == IN_PROGRESS || is_worked_on(p, t) || is_used_up ? "INVALID_TRANSITION"
                                                                        : NULL;
}

static void do_claim(struct play *p, uint8_t arg)
{
    struct m_role *r = &p->roles[arg & 1];
    struct m_task *t = &p->tasks[r->active];
    char connection = connection_of(arg);
    const char *error = claim_refusal(p, r, connection);
    if (!error && !(t->status != PENDING && t->holder == connection)) {
        if (t->status == ACKNOWLEDGED) {
            t->attempts++;
            bump(p, t);
        }
        t->status = ACKNOWLEDGED;
        t->holder = connection;
        t->acknowledged_ms = p->now_ms;
        p->moved = true;
    }
    if (!error)
        t->beat_ms = p->now_ms;
    ask(p->w, CALL("task.claim", "{'conversation':1,'role':'%c','connectionId':'%c'}"),
        role_of(arg), connection);
    answer_counts(p, "task.claim", error, "result.epoch", t->epoch);
}

/* Which task a step is about: of the last four, or the role's own; and with which epoch. */
static int task_of(const struct play *p, uint8_t arg)
{
    int active = p->roles[arg & 1].active;
    if (active && (arg & 0x0C))
        return active;
    return MAX(1, p->task_count - ((arg >> 4) & 3));
}

static int64_t epoch_of(const struct m_task *t, uint8_t arg)
{
    return MAX(t->epoch + (arg & 0x40 ? 1 : arg & 0x80 ? -1 : 0), 0);
}

static const char *fence(const struct play *p, int number, int64_t epoch)
{
    if (number > p->task_count)
        return "NOT_FOUND";
    return epoch != p->tasks[number].epoch ? "STALE_EPOCH" : NULL;
}

static void do_start(struct play *p, uint8_t arg)
{
    int number = task_of(p, arg);
    struct m_task *t = &p->tasks[number];
    int64_t epoch = epoch_of(t, arg);
    const char *error = fence(p, number, epoch);
    if (!error && t->status != IN_PROGRESS)
        error = refusal_by_state(p);
    if (!error && t->status != IN_PROGRESS && t->status != ACKNOWLEDGED)
        error = "INVALID_TRANSITION";
    if (!error) {
        p->moved |= t->status != IN_PROGRESS;
        t->status = IN_PROGRESS;
        t->beat_ms = p->now_ms;
    }
    ask(p->w, CALL("task.start", "{'task':%d,'epoch':%d}"), number, (int)epoch);
    answer_has(p, "task.start", error, "result.task.status", "in_progress");
}

static void end_task(struct play *p, uint8_t arg, const char *method, const char *more,
                     enum status to)
{
    int number = task_of(p, arg);
    struct m_task *t = &p->tasks[number];
    int64_t epoch = epoch_of(t, arg);
    const char *error = fence(p, number, epoch);
    /* What a rule has failed was given a new epoch, and attempts are used up only by rules. */
    bool is_repeat = t->status == to && t->attempts < ATTEMPTS_MAX;
    if (!error && !is_repeat)
        error = refusal_by_state(p);
    if (!error && !is_repeat && t->status != IN_PROGRESS &&
        !(to == FAILED && t->status == ACKNOWLEDGED))
        error = "INVALID_TRANSITION";
    if (!error && !is_repeat)
        finish(p, t, to);
    ask(p->w, CALL("%s", "{'task':%d,'epoch':%d%s}"), method, number, (int)epoch, more);
    answer_has(p, method, error, "result.task.status", status_names[to]);
}

static void do_complete(struct play *p, uint8_t arg)
{
    end_task(p, arg, "task.complete", "", COMPLETED);
}

static void do_fail(struct play *p, uint8_t arg)
{
    end_task(p, arg, "task.fail", ",'reason':'x'", FAILED);
}

static void do_cancel(struct play *p, uint8_t arg)
{
    int number = task_of(p, arg);
    struct m_task *t = &p->tasks[number];
    const char *error = number > p->task_count                 ? "NOT_FOUND"
                        : !is_open(t) && t->status != CANCELED ? "INVALID_TRANSITION"
                                                               : NULL;
    if (!error && is_open(t)) {
        bump(p, t);
        finish(p, t, CANCELED);
    }
    ask(p->w, CALL("task.cancel", "{'task':%d,'reason':'x'}"), number);
    answer_has(p, "task.cancel", error, "result.task.status", "canceled");
}

static void do_advance(struct play *p, uint8_t arg)
{
    static const int64_t by_ms[] = {1,     999,   20000,  30000,  59999,  60000,
                                    60001, 90000, 120001, 300000, 400001, 900001};
    int64_t ms = by_ms[arg % ARRAY_LEN(by_ms)];
    p->moved = true; /* the notice of a budget, too */
    ask(p->w, CALL("clock.advance", "{'ms':%d}"), (int)ms);
    settle_model(p, p->now_ms + ms);
    answer_is(p, "clock.advance", NULL);
}

/* What was stored is there; who was alive is given the benefit of the doubt. */
static void do_restart(struct play *p, uint8_t arg)
{
    if (arg & 1) {
        core_stop(p->w->core, &p->w->out);
        outbox_release(&p->w->out);
    }
    world_restart(p->w);
    settle(p->w);
    for (int i = 0; i < ROLES; i++)
        if (p->roles[i].listener)
            p->roles[i].beat_ms = p->now_ms;
    for (int i = 1; i <= p->task_count; i++)
        if (p->tasks[i].status == ACKNOWLEDGED || p->tasks[i].status == IN_PROGRESS)
            p->tasks[i].beat_ms = p->now_ms;
}

typedef void step_fn(struct play *p, uint8_t arg);

/* Twice: what leads further. */
static step_fn *const steps[] = {
    do_message, do_end,     do_resume,  do_join,  do_leave,  do_beat,     do_create,
    do_create,  do_claim,   do_claim,   do_start, do_start,  do_fail,     do_cancel,
    do_advance, do_advance, do_restart, do_beat,  do_resume, do_complete, do_message,
};

/* ---- the comparison ---- */

static void compare_conversation(struct play *p)
{
    static const char *const states[] = {"active", "blocked", "completed"};
    ask(p->w, CALL("conversation.get", "{'conversation':1}"));
    struct reply r = answer(p, "conversation.get", NULL);
    CHECK_STR(string_at(r.json, "result.status"), states[p->state]);
    CHECK_INT(int_at(r.json, "result.head.lastTurn"), p->turn);
    CHECK_INT(int_at(r.json, "result.window"), p->window);
    int64_t grew = int_at(r.json, "result.head.lastSeq") - p->seq;
    p->seq += grew;
    if (p->moved ? grew < p->grows_by : p->grows_by < 0 ? grew < 1 : grew != p->grows_by)
        tap_fail(__FILE__, __LINE__, "the log grew by %lld, not %lld%s", (long long)grew,
                 (long long)p->grows_by, p->moved ? " or more" : "");
    done(&r);
}

static void compare_tasks(struct play *p)
{
    ask(p->w, CALL("task.list", "{'conversation':1,'limit':500}"));
    struct reply r = answer(p, "task.list", NULL);
    int number = 0;
    JSON_FOREACH (task, json_get(json_get(r.json, "result"), "tasks")) {
        const struct m_task *t = &p->tasks[++number];
        CHECK_INT(int_at(task, "task"), number);
        CHECK_STR(string_at(task, "status"), status_names[t->status]);
        CHECK_INT(int_at(task, "epoch"), t->epoch);
        CHECK_INT(int_at(task, "attempts"), t->attempts);
    }
    CHECK_INT(number, p->task_count);
    done(&r);
}

static void play_step(struct play *p, uint8_t what, uint8_t arg)
{
    p->grows_by = 0;
    p->moved = false;
    steps[what % ARRAY_LEN(steps)](p, arg);
    settle_model(p, p->now_ms);
    compare_conversation(p);
    compare_tasks(p);
}

/* ---- the beginning ---- */

static void populate(struct world *w)
{
    ask(w,
        CALL("conversation.create",
             "{'agents':[{'role':'a'},{'role':'b'}],'maxTurns':%d,'watchdog':{'disabled':true},"
             "'runtime_controls':{'session_wall_clock_seconds':%d}}"),
        TURNS_MAX, BUDGET_MS / 1000);
    tick(w);
    settle(w);
    take_ok(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct play p = {.now_ms = WORLD_START_MS, .window_ms = WORLD_START_MS, .window = 1, .seq = 1};
    struct options options;
    options_init(&options);
    options.value[OPT_pmo_active_reap_seconds] = 0;
    options.value[OPT_task_max_seconds] = 0;
    p.w = fuzz_world_new(populate, &options);
    settle(p.w);
    for (size_t i = 0; i + 1 < MIN(size, (size_t)2 * STEPS_MAX); i += 2)
        play_step(&p, data[i], data[i + 1]);
    fuzz_world_check(p.w);
    play_step(&p, 16, 0); /* started again, it is the same */
    fuzz_world_check(p.w);
    fuzz_world_free(p.w);
    return 0;
}
