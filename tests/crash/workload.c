/* workload.c: see workload.h. */
#include "workload.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/sqlite_store.h"
#include "tap.h"

enum { CONVERSATIONS = 3, TICKS = 6 };

uint64_t run_below(struct run *r, uint64_t n)
{
    return fault_random(&r->random) % n;
}

/* What somebody was told is in the store; this is the only place that looks at answers. */
static void check_told(const struct run *r)
{
    if (r->deeds.last_event < r->told.event)
        tap_fail(__FILE__, __LINE__, "event %lld was told and is not there",
                 (long long)r->told.event);
    if (r->deeds.task_count < r->told.tasks)
        tap_fail(__FILE__, __LINE__, "task %lld was told and is not there",
                 (long long)r->told.tasks);
    for (int64_t i = 1; i <= r->told.tasks; i++)
        if (r->deeds.tasks[i].epoch < r->told.epochs[i])
            tap_fail(__FILE__, __LINE__, "task %lld has not the epoch that was told", (long long)i);
}

void run_acknowledge(struct run *r)
{
    fault_vfs_hold_off(r->w->disk, true);
    deeds_read(&r->deeds, r->w->store->db);
    fault_vfs_hold_off(r->w->disk, false);
    check_told(r);
}

static void populate(struct world *w)
{
    for (int i = 0; i < CONVERSATIONS; i++)
        ask(w, CALL("conversation.create", "{'agents':[{'role':'a'},{'role':'b'}],'maxTurns':0}"));
    tick(w);
    settle(w);
    outbox_release(&w->out);
}

/* Made once, copied for each run. */
static const struct fault_vfs *populated_files(void)
{
    static struct fault_vfs *files;
    if (!files) {
        struct world *w = world_new();
        populate(w);
        files = world_leave(w);
    }
    return files;
}

void run_init(struct run *r, uint64_t seed)
{
    *r = (struct run){.w = world_on(populated_files(), NULL), .seed = seed, .random = seed};
    run_acknowledge(r);
}

void run_end(struct run *r)
{
    outbox_release(&r->w->out);
    if (r->w->core)
        core_stop(r->w->core, &r->w->out);
    core_free(TAKE_PTR(r->w->core));
    world_free(r->w);
}

uint64_t run_setting(const char *variable, uint64_t fallback)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : fallback;
}

/* ---- answers ---- */

static void note_told(struct run *r, const struct json *result)
{
    const struct json *id = json_get(result, "id"), *task = json_get(result, "task");
    r->backups += json_get(result, "path") != NULL;
    if (id && id->type == JSON_INT)
        r->told.event = MAX(r->told.event, id->integer);
    if (!task || task->type != JSON_OBJECT)
        return;
    int64_t number = int_at(task, "task");
    CHECK(number <= DEEDS_TASKS_MAX);
    r->told.tasks = MAX(r->told.tasks, number);
    r->told.epochs[number] = MAX(r->told.epochs[number], int_at(task, "epoch"));
}

static void hear(struct run *r)
{
    while (r->w->out.first) {
        struct reply reply = take(r->w);
        const struct json *result = reply.json ? json_get(reply.json, "result") : NULL;
        r->wrote |= result != NULL;
        note_told(r, result);
        r->unavailable += str_is(string_at(reply.json, "error.data.name"), "UNAVAILABLE");
        done(&reply);
    }
}

/* A tick with what was asked; what it answered counts from now on. */
static void run_tick(struct run *r)
{
    r->wrote = false;
    tick(r->w);
    hear(r);
    for (int i = 0; i < 20 && core_wants_tick(r->w->core); i++) {
        tick(r->w);
        hear(r);
    }
    if (r->wrote)
        run_acknowledge(r);
}

/* ---- appends ---- */

static void ask_append(struct run *r)
{
    static const int sizes[] = {1, 40, 400, 5000};
    int conversation = 1 + (int)run_below(r, CONVERSATIONS);
    ask(r->w,
        CALL("message.send", "{'conversation':%d,'agentId':'a','text':'%0*d','finality':'%s'}"),
        conversation, sizes[run_below(r, ARRAY_LEN(sizes))], r->step,
        run_below(r, 4) ? "none" : "turn");
}

static bool step_append(struct run *r)
{
    for (uint64_t n = 1 + run_below(r, 4); n > 0; n--)
        ask_append(r);
    run_tick(r);
    return ++r->step < TICKS;
}

/* ---- tasks: created, claimed, worked on, ended one way or the other ---- */

static int64_t ask_epoch(struct run *r, int task)
{
    ask(r->w, CALL("task.get", "{'task':%d}"), task);
    tick(r->w);
    struct reply reply = take(r->w);
    const struct json *result = json_get(reply.json, "result");
    int64_t epoch = result ? int_at(result, "task.epoch") : 0;
    done(&reply);
    return epoch;
}

static void do_call(struct run *r, const char *fmt, ...) _printf_(2, 3);
static void do_call(struct run *r, const char *fmt, ...)
{
    char text[1000];
    va_list ap;
    va_start(ap, fmt);
    CHECK((size_t)vsnprintf(text, sizeof text, fmt, ap) < sizeof text);
    va_end(ap);
    ask(r->w, "%s", text);
    run_tick(r);
}

/* The task of conversation c and its epoch are what the store says: a refused step changes nothing.
 */
static void work_on(struct run *r, int c, int stage)
{
    int task = c; /* one each */
    int64_t e = stage > 1 ? ask_epoch(r, task) : 0;
    switch (stage) {
    case 0:
        do_call(r, CALL("task.create", "{'conversation':%d,'role':'a','content':{'n':%d}}"), c, c);
        break;
    case 1:
        do_call(r, CALL("task.claim", "{'conversation':%d,'role':'a','connectionId':'x'}"), c);
        break;
    case 2:
        do_call(r, CALL("task.start", "{'task':%d,'epoch':%d}"), task, (int)e);
        break;
    case 3:
        if (c == 2)
            do_call(r,
                    CALL("task.suspend",
                         "{'task':%d,'epoch':%d,'tools':[{'toolCallId':'t','name':'n'}]}"),
                    task, (int)e);
        break;
    case 4:
        if (c == 2)
            do_call(r, CALL("tool.report", "{'task':%d,'toolCallId':'t','status':'success'}"),
                    task);
        break;
    case 5:
        if (c == 2)
            do_call(r, CALL("task.applied", "{'task':%d,'epoch':%d,'toolCallIds':['t']}"), task,
                    (int)e);
        break;
    default:
        if (c == 1)
            do_call(r, CALL("task.complete", "{'task':%d,'epoch':%d,'deliverable':{'d':1}}"), task,
                    (int)e);
        else if (c == 2)
            do_call(r, CALL("task.fail", "{'task':%d,'epoch':%d,'reason':'x'}"), task, (int)e);
    }
}

static bool step_tasks(struct run *r)
{
    for (int c = 1; c <= CONVERSATIONS; c++)
        work_on(r, c, r->step);
    return ++r->step < 7;
}

/* ---- the ladder: tasks that nobody works on any more ---- */

static bool step_ladder(struct run *r)
{
    if (r->step == 0) {
        for (int c = 1; c <= CONVERSATIONS; c++)
            ask(r->w, CALL("task.create", "{'conversation':%d,'role':'a','content':1}"), c);
        run_tick(r);
        for (int c = 1; c <= CONVERSATIONS; c++)
            ask(r->w, CALL("task.claim", "{'conversation':%d,'role':'a','connectionId':'x'}"), c);
        run_tick(r);
    }
    static const int passes_ms[] = {0, 121000, 779000, 200000, 800000, 1000};
    do_call(r, CALL("clock.advance", "{'ms':%d}"), passes_ms[r->step]);
    pass_pause();
    run_tick(r);
    return ++r->step < (int)ARRAY_LEN(passes_ms);
}

/* ---- the end of conversations that have open tasks ---- */

static bool step_end(struct run *r)
{
    int c = 1 + r->step;
    for (int i = 0; i < 3; i++)
        ask(r->w, CALL("task.create", "{'conversation':%d,'role':'%c','content':1}"), c, "aab"[i]);
    run_tick(r);
    do_call(r, CALL("conversation.end", "{'conversation':%d,'reason':'enough'}"), c);
    run_tick(r); /* lifecycle */
    return ++r->step < CONVERSATIONS;
}

/* ---- writing back: checkpoints and indexes, far more often than in production ---- */

static bool step_checkpoint(struct run *r)
{
    bool goes_on = step_append(r);
    r->w->store->checkpoint_due_pages = 1 + (int64_t)run_below(r, 20);
    for (int i = 0; i < 50 && core_idle(r->w->core, &r->w->out); i++)
        ;
    hear(r);
    return goes_on;
}

/* ---- backups, with appends in between ---- */

static bool step_backup(struct run *r)
{
    r->w->store->checkpoint_due_pages = 1 + (int64_t)run_below(r, 20);
    struct deeds before = r->deeds;
    int backups = r->backups;
    ask(r->w, CALL("server.backup", "{'path':'/copy%d.db'}"), backups);
    run_tick(r);
    for (int i = 0; i < 200 && core_idle(r->w->core, &r->w->out); i++)
        if (i == 1) {
            ask_append(r);
            tick(r->w);
        }
    hear(r);
    if (r->backups > backups)
        r->backup = before;
    run_acknowledge(r);
    return step_append(r) && r->step < 3;
}

/* ---- starting again and again ---- */

static bool step_restart(struct run *r)
{
    struct err err = ERR_INIT;
    bool goes_on = step_append(r);
    outbox_release(&r->w->out);
    if (world_try_restart(r->w, &err) < 0)
        return false;
    fault_random(&r->random);
    run_tick(r);
    return goes_on && r->step < 5;
}

/* ---- keys, traces, attachments, tokens: what else a request writes ---- */

static bool step_mixed(struct run *r)
{
    int n = r->step;
    ask(r->w,
        CALL("message.send", "{'conversation':1,'agentId':'a','text':'x','clientRequestId':'r%d',"
                             "'attachments':[{'name':'n','contentType':'c','text':'body'}]}"),
        n / 2);
    ask(r->w,
        CALL("trace.append", "{'conversation':2,'agentId':'b','payload':{'type':'thought'}}"));
    ask(r->w, CALL("conversation.create", "{'agents':[{'role':'a'}],'idempotencyKey':'k%d'}"),
        n / 2);
    ask(r->w, CALL("participant.join", "{'conversation':1,'role':'a','connectionId':'c%d'}"), n);
    ask(r->w, CALL("token.create", "{'scope':'read'}"));
    run_tick(r);
    return ++r->step < 6;
}

/* ---- machines and commands ---- */

static bool step_machines(struct run *r)
{
    static const char *const calls[] = {
        CALL("machine.register",
             "{'machine':'m','instance':'i','hostname':'h','bootId':'b','kinds':"
             "[{'name':'k','restart':'always','ready':'none','stopGraceMs':1}],"
             "'processes':[]}"),
        CALL("agent.set", "{'conversation':1,'role':'c','kind':'k','machine':'m'}"),
        CALL("task.create", "{'conversation':1,'role':'c','content':1}"),
        CALL("machine.poll", "{'machine':'m','instance':'i','timeoutMs':0,'alive':[]}"),
        CALL("agent.stop", "{'conversation':1,'role':'c'}"),
        CALL("clock.advance", "{'ms':100000}"),
        CALL("agent.start", "{'conversation':1,'role':'c'}"),
    };
    do_call(r, "%s", calls[r->step]);
    return ++r->step < (int)ARRAY_LEN(calls);
}

const struct workload workloads[] = {
    {"appends", step_append, .has_small_cache = true},
    {"tasks", step_tasks},
    {"ladder", step_ladder},
    {"ends", step_end},
    {"checkpoints", step_checkpoint, .has_small_cache = true},
    {"backups", step_backup, .has_backups = true},
    {"restarts", step_restart},
    {"mixed", step_mixed},
    {"machines", step_machines},
};
const size_t workload_count = ARRAY_LEN(workloads);
