/*
 * test_task.c: every status of a task with every trigger (domain/task.h), compared with the table
 * of the contract; who may claim; what a request that fails, a full disk and a bad row leave.
 *
 * The table below is a copy of DESIGN 5, made by hand. It is not the code's.
 */
#include "base/log.h"
#include "base/mem.h"
#include "domain/append.h"
#include "domain/conversation.h"
#include "domain/head.h"
#include "domain/participant.h"
#include "domain/task.h"
#include "domain/work.h"
#include "lib/watch_world.h"
#include "tap.h"

/* ---- a domain without a core ---- */

struct desk {
    struct world reader; /* for store_int(): only its store is set */
    struct options options;
    struct work work;
    int64_t conversation;
};

static void begin(struct desk *d, int64_t after_ms)
{
    CHECK_INT(work_begin(&d->work, d->work.now_ms + after_ms, NULL), 0);
    CHECK_INT(work_request_begin(&d->work, NULL), 0);
}

static void end(struct desk *d, bool ok)
{
    CHECK_INT(work_request_end(&d->work, ok, NULL), 0);
    CHECK_INT(work_commit(&d->work, NULL), 0);
}

static void open_desk(struct desk *d)
{
    static const struct agent_spec agents[] = {{.role = {"a", 1}, .desired = {"auto", 4}},
                                               {.role = {"b", 1}, .desired = {"auto", 4}}};
    const struct conversation_spec spec = {
        .agents = agents,
        .agent_count = 2,
        .settings = {.idle_ms = LIMIT_DEFAULT, .watchdog_disabled = true},
    };
    struct err err = ERR_INIT;
    static int count;
    _cleanup_free_ char *url = mem_printf("sqlite:%s/%d.db", tap_folder(), ++count);
    *d = (struct desk){0};
    log_set_level(LOG_ERROR + 1);
    options_init(&d->options);
    CHECK_INT(store_open(url, NULL, 1000, &d->reader.store, &err), 0);
    CHECK_INT(work_init(&d->work, d->reader.store, &d->options, 1000, &err), 0);
    begin(d, 1);
    CHECK_INT(conversation_create(&d->work, &spec, &d->conversation, NULL), 0);
    end(d, true);
}

static void close_desk(struct desk *d)
{
    work_release(&d->work);
    store_close(d->reader.store);
}

static struct agent *agent_a(struct desk *d)
{
    struct agent *a;
    CHECK_INT(agent_get(&d->work, d->conversation, STR("a"), &a, NULL), 0);
    return a;
}

static struct task *task_at(struct desk *d, int64_t number)
{
    struct task *t;
    CHECK_INT(task_get(&d->work, number, &t, NULL), 0);
    return t;
}

static int64_t make(struct desk *d)
{
    struct task *t;
    CHECK_INT(task_create(&d->work, agent_a(d), STR("{\"do\":\"it\"}"), STR("public"), &t, NULL),
              0);
    return t->task;
}

/* Everything a move needs, whatever it is. */
static struct task_move move_by(enum task_trigger trigger, bool is_end)
{
    struct task_move m = TASK_MOVE(trigger);
    m.connection = STR("c1");
    m.lease_ms = 60000;
    if (is_end)
        m.stop_reason = STOP_FAILED;
    if (trigger == TRIGGER_RECOVER)
        m.rule = "task.orphaned";
    if (trigger == TRIGGER_RECOVER_ACKNOWLEDGED)
        m.rule = "task.acknowledged";
    return m;
}

/* ---- the contract ---- */

enum row {
    ROW_SAME,
    ROW_NEW,        /* a new one, pending; what was open is consumed */
    ROW_PROCESSING, /* the open one */
    ROW_REFENCED,   /* stays processing, has the new epoch */
    ROW_CONSUMED,   /* the open one, if there is one */
    ROW_SKIPPED,    /* the open one, if there is one */
};

static const struct cell {
    enum task_status from;
    enum task_status to;
    enum task_trigger trigger;
    int epoch, attempt;
    enum row row;
} design[] = {
    {TASK_QUEUED, TASK_PENDING, TRIGGER_PROMOTE, 1, 0, ROW_NEW},
    {TASK_PENDING, TASK_ACKNOWLEDGED, TRIGGER_CLAIM, 0, 0, ROW_PROCESSING},
    {TASK_ACKNOWLEDGED, TASK_ACKNOWLEDGED, TRIGGER_CLAIM, 1, 1, ROW_REFENCED},
    {TASK_ACKNOWLEDGED, TASK_IN_PROGRESS, TRIGGER_START, 0, 0, ROW_CONSUMED},
    {TASK_IN_PROGRESS, TASK_SUSPENDED, TRIGGER_SUSPEND, 0, 0, ROW_SAME},
    {TASK_SUSPENDED, TASK_IN_PROGRESS, TRIGGER_RESUME, 1, 0, ROW_SAME},
    {TASK_ACKNOWLEDGED, TASK_PENDING, TRIGGER_RECOVER_ACKNOWLEDGED, 1, 1, ROW_NEW},
    {TASK_IN_PROGRESS, TASK_PENDING, TRIGGER_RECOVER, 1, 1, ROW_NEW},
    {TASK_ACKNOWLEDGED, TASK_PENDING, TRIGGER_BLOCK, 1, 0, ROW_NEW},
    {TASK_IN_PROGRESS, TASK_PENDING, TRIGGER_BLOCK, 1, 0, ROW_NEW},
    {TASK_IN_PROGRESS, TASK_COMPLETED, TRIGGER_COMPLETE, 0, 0, ROW_SAME},
    {TASK_ACKNOWLEDGED, TASK_FAILED, TRIGGER_FAIL, 0, 0, ROW_CONSUMED},
    {TASK_IN_PROGRESS, TASK_FAILED, TRIGGER_FAIL, 0, 0, ROW_CONSUMED},
    {TASK_SUSPENDED, TASK_FAILED, TRIGGER_FAIL, 0, 0, ROW_CONSUMED},
    {TASK_PENDING, TASK_TIMEOUT, TRIGGER_DISPATCH_TIMEOUT, 1, 0, ROW_CONSUMED},
    {TASK_ACKNOWLEDGED, TASK_TIMEOUT, TRIGGER_DISPATCH_TIMEOUT, 1, 0, ROW_CONSUMED},
    {TASK_IN_PROGRESS, TASK_FAILED, TRIGGER_REAP_TIMEOUT, 1, 0, ROW_SAME},
    {TASK_SUSPENDED, TASK_FAILED, TRIGGER_REAP_TIMEOUT, 1, 0, ROW_SAME},
    {TASK_PENDING, TASK_FAILED, TRIGGER_ATTEMPTS_EXHAUSTED, 1, 0, ROW_CONSUMED},
    {TASK_PENDING, TASK_FAILED, TRIGGER_DEADLINE_EXCEEDED, 1, 0, ROW_CONSUMED},
    {TASK_ACKNOWLEDGED, TASK_FAILED, TRIGGER_DEADLINE_EXCEEDED, 1, 0, ROW_CONSUMED},
    {TASK_IN_PROGRESS, TASK_FAILED, TRIGGER_DEADLINE_EXCEEDED, 1, 0, ROW_CONSUMED},
    {TASK_SUSPENDED, TASK_FAILED, TRIGGER_DEADLINE_EXCEEDED, 1, 0, ROW_CONSUMED},
    {TASK_QUEUED, TASK_CANCELED, TRIGGER_CANCEL, 1, 0, ROW_SAME},
    {TASK_PENDING, TASK_CANCELED, TRIGGER_CANCEL, 1, 0, ROW_SKIPPED},
    {TASK_ACKNOWLEDGED, TASK_CANCELED, TRIGGER_CANCEL, 1, 0, ROW_SKIPPED},
    {TASK_IN_PROGRESS, TASK_CANCELED, TRIGGER_CANCEL, 1, 0, ROW_SKIPPED},
    {TASK_SUSPENDED, TASK_CANCELED, TRIGGER_CANCEL, 1, 0, ROW_SKIPPED},
};

static const struct cell *find_cell(enum task_status from, enum task_trigger trigger)
{
    for (size_t i = 0; i < ARRAY_LEN(design); i++)
        if (design[i].from == from && design[i].trigger == trigger)
            return &design[i];
    return NULL;
}

static bool is_end(enum task_status status)
{
    return status == TASK_COMPLETED || status == TASK_FAILED || status == TASK_TIMEOUT ||
           status == TASK_CANCELED;
}

static bool is_busy(enum task_status status)
{
    return status != TASK_QUEUED && !is_end(status);
}

/* ---- to a status ---- */

/* How each status is reached from pending. */
static const struct {
    enum task_status status;
    enum task_trigger path[4];
    int steps;
} ways[] = {
    {TASK_PENDING, {TRIGGER_NONE}, 0},
    {TASK_ACKNOWLEDGED, {TRIGGER_CLAIM}, 1},
    {TASK_IN_PROGRESS, {TRIGGER_CLAIM, TRIGGER_START}, 2},
    {TASK_SUSPENDED, {TRIGGER_CLAIM, TRIGGER_START, TRIGGER_SUSPEND}, 3},
    {TASK_COMPLETED, {TRIGGER_CLAIM, TRIGGER_START, TRIGGER_COMPLETE}, 3},
    {TASK_FAILED, {TRIGGER_CLAIM, TRIGGER_FAIL}, 2},
    {TASK_TIMEOUT, {TRIGGER_DISPATCH_TIMEOUT}, 1},
    {TASK_CANCELED, {TRIGGER_CANCEL}, 1},
};

/* Queued, and its agent idle: nothing is promoted while a conversation is blocked. */
static int64_t make_queued(struct desk *d)
{
    struct head *h;
    CHECK_INT(head_get(&d->work, d->conversation, &h, NULL), 0);
    head_edit(&d->work, h);
    h->status = CONVERSATION_BLOCKED;
    int64_t number = make(d);
    h->status = CONVERSATION_ACTIVE;
    return number;
}

static int64_t reach(struct desk *d, enum task_status status)
{
    begin(d, 1);
    int64_t number = status == TASK_QUEUED ? make_queued(d) : make(d);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        for (int step = 0; ways[i].status == status && step < ways[i].steps; step++) {
            const struct cell *cell = find_cell(task_at(d, number)->status, ways[i].path[step]);
            struct task_move m = move_by(cell->trigger, is_end(cell->to));
            CHECK_INT(task_move(&d->work, task_at(d, number), &m, NULL), 0);
        }
    end(d, true);
    CHECK_INT(task_at(d, number)->status, status);
    return number;
}

/* ---- what there is ---- */

struct seen {
    int64_t epoch, attempts, status, active, turn_epoch, open_tasks, events, ends, rows, open_row;
};

static int64_t count_kind(struct desk *d, const char *kind)
{
    return store_int(&d->reader,
                     "SELECT COUNT(*) FROM conversation_events WHERE conversation = %lld"
                     " AND payload LIKE '{\"kind\":\"%s%%'",
                     (long long)d->conversation, kind);
}

static int64_t of_task(struct desk *d, const char *what, int64_t number)
{
    return store_int(&d->reader, "SELECT %s FROM tasks WHERE task = %lld", what, (long long)number);
}

static int64_t rows_of(struct desk *d, int64_t number, int64_t epoch, const char *status)
{
    return store_int(&d->reader,
                     "SELECT COUNT(*) FROM agent_inbox WHERE type = 'turn' AND"
                     " correlation_id = '%lld' AND epoch = %lld AND status = '%s'",
                     (long long)number, (long long)epoch, status);
}

static struct seen look(struct desk *d, int64_t number)
{
    return (struct seen){
        .epoch = of_task(d, "epoch", number),
        .attempts = of_task(d, "attempts", number),
        .status = task_at(d, number)->status,
        .active = store_int(&d->reader, "SELECT active_task FROM agents WHERE role = 'a'"),
        .turn_epoch = store_int(&d->reader, "SELECT turn_epoch FROM agents WHERE role = 'a'"),
        .open_tasks =
            store_int(&d->reader, "SELECT open_tasks FROM conversations WHERE conversation = %lld",
                      (long long)d->conversation),
        .events = store_int(&d->reader, "SELECT COUNT(*) FROM conversation_events"),
        .ends = count_kind(d, "agent.task"),
        .rows = store_int(&d->reader, "SELECT COUNT(*) FROM agent_inbox"),
        .open_row = store_int(&d->reader,
                              "SELECT COUNT(*) FROM agent_inbox WHERE correlation_id = '%lld'"
                              " AND status IN ('pending', 'processing')",
                              (long long)number),
    };
}

static void check_same(const struct seen *a, const struct seen *b)
{
    CHECK(memcmp(a, b, sizeof *a) == 0);
}

/* Agent, conversation and what is stored agree with the task. */
static void check_agree(struct desk *d, int64_t number)
{
    const struct task *t = task_at(d, number);
    struct seen s = look(d, number);
    char status[64];
    snprintf(status, sizeof status, "status = '%s'", task_status_name(t->status));
    CHECK_INT(of_task(d, status, number), 1);
    CHECK_INT(s.epoch, t->epoch);
    CHECK_INT(s.attempts, t->attempts);
    CHECK_INT(s.active, is_busy(t->status) ? number : 0);
    CHECK_INT(agent_a(d)->active_task, s.active);
    CHECK_INT(agent_a(d)->turn_epoch, s.turn_epoch);
    CHECK_INT(s.open_tasks, is_busy(t->status) ? 1 : 0);
    CHECK_INT(s.open_row, t->status == TASK_PENDING || t->status == TASK_ACKNOWLEDGED ? 1 : 0);
    CHECK_INT(of_task(d, "completed_at IS NOT NULL", number), is_end(t->status));
    CHECK_INT(of_task(d, "stop_reason_code IS NOT NULL", number), is_end(t->status));
    CHECK_INT(of_task(d, "look_at IS NOT NULL", number), is_busy(t->status));
}

static void check_row(struct desk *d, int64_t number, const struct cell *cell,
                      const struct seen *before)
{
    const bool had_row = before->open_row == 1;
    const int64_t old_epoch = before->epoch, epoch = task_at(d, number)->epoch;
    CHECK_INT(look(d, number).rows, before->rows + (cell->row == ROW_NEW));
    switch (cell->row) {
    case ROW_SAME:
        break;
    case ROW_NEW:
        CHECK_INT(rows_of(d, number, epoch, "pending"), 1);
        CHECK_INT(rows_of(d, number, old_epoch, "processing"), 0);
        CHECK_INT(rows_of(d, number, old_epoch, "consumed"), cell->from != TASK_QUEUED);
        break;
    case ROW_PROCESSING:
        CHECK_INT(rows_of(d, number, epoch, "processing"), 1);
        break;
    case ROW_REFENCED:
        CHECK_INT(rows_of(d, number, epoch, "processing"), 1);
        CHECK_INT(rows_of(d, number, old_epoch, "processing"), 0);
        break;
    case ROW_CONSUMED:
        CHECK_INT(rows_of(d, number, old_epoch, "consumed"), 1);
        break;
    case ROW_SKIPPED: /* what was consumed before stays so */
        CHECK_INT(rows_of(d, number, old_epoch, had_row ? "skipped" : "consumed"), 1);
        break;
    }
}

static void check_times(struct desk *d, int64_t number, const struct cell *cell)
{
    const struct task *t = task_at(d, number);
    const int64_t now_ms = d->work.now_ms;
    if (cell->to == TASK_PENDING) {
        CHECK_INT(t->pending_ms, now_ms);
        CHECK_INT(t->acknowledged_ms, 0);
        CHECK_INT(t->started_ms, 0);
        CHECK_Z(t->claimed_by, "");
        CHECK(!task_is_worked_on(&d->work, t));
    }
    if (cell->to == TASK_ACKNOWLEDGED) {
        CHECK_INT(t->acknowledged_ms, now_ms);
        CHECK_Z(t->claimed_by, "c1");
        CHECK_INT(task_active_until_ms(&d->work, t), now_ms + 60000);
    }
    if (cell->to == TASK_IN_PROGRESS)
        CHECK_INT(t->progress_ms, now_ms);
    if (is_end(cell->to))
        CHECK_INT(t->completed_ms, now_ms);
}

static void check_told(struct desk *d, const struct cell *cell, const struct seen *before,
                       int64_t lost_before)
{
    const bool is_lost =
        cell->trigger == TRIGGER_RECOVER || cell->trigger == TRIGGER_RECOVER_ACKNOWLEDGED;
    CHECK_INT(count_kind(d, "agent.task"), before->ends + is_end(cell->to));
    CHECK_INT(count_kind(d, "watch."), lost_before + is_lost);
    if (!is_end(cell->to))
        return;
    CHECK_INT(store_int(&d->reader,
                        "SELECT COUNT(*) FROM conversation_events WHERE payload LIKE"
                        " '{\"kind\":\"agent.task\"%%\"status\":\"%s\"%%\"reason\":\"failed\"%%"
                        "\"epoch\":%lld,%%' AND id = (SELECT MAX(id) FROM conversation_events"
                        " WHERE payload LIKE '{\"kind\":\"agent.task\"%%')",
                        cell->to == TASK_COMPLETED ? "success" : task_status_name(cell->to),
                        (long long)before->epoch),
              1);
}

static void check_legal(struct desk *d, int64_t number, const struct cell *cell)
{
    const struct seen before = look(d, number);
    const int64_t lost = count_kind(d, "watch.");
    struct task_move m = move_by(cell->trigger, is_end(cell->to));
    begin(d, 1000);
    CHECK_INT(task_move(&d->work, task_at(d, number), &m, NULL), 0);
    end(d, true);
    const struct task *t = task_at(d, number);
    CHECK_INT(t->status, cell->to);
    CHECK_INT(t->epoch, cell->epoch ? before.turn_epoch + 1 : before.epoch);
    CHECK_INT(agent_a(d)->turn_epoch, before.turn_epoch + cell->epoch);
    CHECK_INT(t->attempts, before.attempts + cell->attempt);
    CHECK_Z(t->role, "a");
    check_row(d, number, cell, &before);
    check_times(d, number, cell);
    check_told(d, cell, &before, lost);
    check_agree(d, number);
}

static void check_illegal(struct desk *d, int64_t number, enum task_status from,
                          enum task_trigger trigger)
{
    const struct seen before = look(d, number);
    struct err err = ERR_INIT;
    struct task_move m = move_by(trigger, false);
    begin(d, 1000);
    CHECK_INT(task_move(&d->work, task_at(d, number), &m, &err), -ERR_INVALID_TRANSITION);
    end(d, false);
    const struct seen after = look(d, number);
    check_same(&before, &after);
    char want[128];
    snprintf(want, sizeof want, "\"from\":\"%s\",\"trigger\":\"%s\",\"allowed\":[",
             task_status_name(from), task_trigger_name(trigger));
    CHECK(strncmp(err.data, want, strlen(want)) == 0);
    for (enum task_trigger other = 0; other < TRIGGER_COUNT; other++) {
        snprintf(want, sizeof want, "\"%s\"", task_trigger_name(other));
        bool is_told = strstr(strstr(err.data, "\"allowed\":"), want) != NULL;
        CHECK_INT(is_told, find_cell(from, other) != NULL);
    }
}

/* ---- the walk ---- */

TEST(every_status_with_every_trigger)
{
    int legal = 0;
    for (enum task_status from = 0; from < TASK_STATUS_COUNT; from++)
        for (enum task_trigger trigger = 0; trigger < TRIGGER_COUNT; trigger++) {
            struct desk d;
            open_desk(&d);
            const struct cell *cell = find_cell(from, trigger);
            int64_t number = reach(&d, from);
            check_agree(&d, number);
            if (cell)
                check_legal(&d, number, cell);
            else
                check_illegal(&d, number, from, trigger);
            legal += cell != NULL;
            close_desk(&d);
        }
    CHECK_INT(legal, ARRAY_LEN(design));
}

TEST(an_end_promotes_the_next_and_no_other_move_does)
{
    for (size_t i = 0; i < ARRAY_LEN(design); i++) {
        const struct cell *cell = &design[i];
        if (cell->from == TASK_QUEUED)
            continue;
        struct desk d;
        open_desk(&d);
        int64_t number = reach(&d, cell->from);
        begin(&d, 1);
        int64_t next = make(&d), last = make(&d);
        end(&d, true);
        CHECK_INT(task_at(&d, next)->status, TASK_QUEUED);
        struct task_move m = move_by(cell->trigger, is_end(cell->to));
        begin(&d, 1);
        CHECK_INT(task_move(&d.work, task_at(&d, number), &m, NULL), 0);
        end(&d, true);
        CHECK_INT(task_at(&d, next)->status, is_end(cell->to) ? TASK_PENDING : TASK_QUEUED);
        CHECK_INT(task_at(&d, last)->status, TASK_QUEUED);
        if (is_end(cell->to))
            CHECK_INT(task_at(&d, next)->epoch, task_at(&d, number)->epoch + 1);
        CHECK_INT(agent_a(&d)->active_task, is_end(cell->to) ? next : number);
        close_desk(&d);
    }
}

/* Whatever a request did before it failed: store and memory are as they were. */
TEST(a_request_that_fails_leaves_no_trace_of_a_move)
{
    for (size_t i = 0; i < ARRAY_LEN(design); i++) {
        const struct cell *cell = &design[i];
        struct desk d;
        open_desk(&d);
        int64_t number = reach(&d, cell->from);
        const struct seen before = look(&d, number);
        const struct task task = *task_at(&d, number);
        const struct agent agent = *agent_a(&d);
        struct task_move m = move_by(cell->trigger, is_end(cell->to));
        begin(&d, 1);
        CHECK_INT(task_move(&d.work, task_at(&d, number), &m, NULL), 0);
        make(&d);
        end(&d, false);
        const struct seen after = look(&d, number);
        check_same(&before, &after);
        CHECK(memcmp(&task, task_at(&d, number), sizeof task) == 0);
        CHECK_INT(agent_a(&d)->active_task, agent.active_task);
        CHECK_INT(agent_a(&d)->turn_epoch, agent.turn_epoch);
        CHECK_INT(d.work.last.task, number);
        check_agree(&d, number);
        close_desk(&d);
    }
}

/* What is stored is what was in memory, leases apart. */
TEST(a_task_that_is_read_back_is_the_same)
{
    for (enum task_status status = 0; status < TASK_STATUS_COUNT; status++) {
        struct desk d;
        open_desk(&d);
        int64_t number = reach(&d, status);
        struct task before = *task_at(&d, number);
        tasks_drop(&d.work);
        struct task after = *task_at(&d, number);
        before.beat_ms = before.lease_look_ms = before.progress_stored_ms = 0;
        before.progress_hash = 0;
        before.edited_in = after.edited_in = 0;
        after.beat_ms = after.lease_look_ms = after.progress_stored_ms = 0;
        CHECK_INT(after.status, before.status);
        CHECK_INT(after.epoch, before.epoch);
        CHECK_INT(after.attempts, before.attempts);
        CHECK_INT(after.lease_ms, before.lease_ms);
        CHECK_INT(after.held, before.held);
        CHECK_INT(after.dispatched_ms, before.dispatched_ms);
        CHECK_INT(after.pending_ms, before.pending_ms);
        CHECK_INT(after.acknowledged_ms, before.acknowledged_ms);
        CHECK_INT(after.started_ms, before.started_ms);
        CHECK_INT(after.progress_ms, before.progress_ms);
        CHECK_INT(after.suspended_ms, before.suspended_ms);
        CHECK_INT(after.completed_ms, before.completed_ms);
        CHECK_INT(after.end_trigger, before.end_trigger);
        CHECK_INT(after.stop_reason, before.stop_reason);
        CHECK_INT(after.look_ms, before.look_ms);
        CHECK_Z(after.claimed_by, before.claimed_by);
        CHECK_Z(after.role, before.role);
        CHECK_Z(after.channel, before.channel);
        close_desk(&d);
    }
}

/* ---- claims ---- */

static int claim(struct desk *d, const char *connection)
{
    struct task *t;
    begin(d, 0);
    int r = task_claim(&d->work, agent_a(d), str_of(connection), STR_NONE, 0, false, &t, NULL);
    end(d, r == 0);
    return r;
}

TEST(a_held_task_cannot_be_claimed)
{
    for (enum task_held held = 0; held < HELD_COUNT; held++) {
        struct desk d;
        open_desk(&d);
        int64_t number = reach(&d, TASK_IN_PROGRESS);
        struct task_move m = move_by(TRIGGER_RECOVER, false);
        m.held = held;
        begin(&d, 60001);
        CHECK_INT(task_move(&d.work, task_at(&d, number), &m, NULL), 0);
        end(&d, true);
        CHECK_INT(claim(&d, "c1"), -ERR_PRECONDITION_FAILED);
        CHECK_INT(claim(&d, "c2"), -ERR_PRECONDITION_FAILED);
        enum wait_status wait;
        struct task *t;
        bool superseded;
        struct agent *a;
        begin(&d, 0);
        CHECK_INT(participant_join(&d.work, d.conversation, STR("a"), STR("c2"), STR_NONE, &a,
                                   &superseded, NULL),
                  0);
        CHECK_INT(
            participant_look(&d.work, d.conversation, STR("a"), STR("c2"), false, &wait, &t, NULL),
            0);
        CHECK_INT(wait, WAIT_NONE);
        end(&d, true);
        CHECK_INT(task_at(&d, number)->status, TASK_PENDING);
        m = move_by(TRIGGER_DISPATCH_TIMEOUT, true); /* its reap clock runs */
        begin(&d, 1);
        CHECK_INT(task_move(&d.work, task_at(&d, number), &m, NULL), 0);
        end(&d, true);
        CHECK_INT(of_task(&d, "held IS NULL", number), 1);
        close_desk(&d);
    }
}

TEST(who_may_claim_what)
{
    struct desk d;
    open_desk(&d);
    CHECK_INT(claim(&d, "c1"), -ERR_NOT_FOUND);
    int64_t number = reach(&d, TASK_ACKNOWLEDGED);
    const int64_t epoch = task_at(&d, number)->epoch;
    CHECK_INT(claim(&d, "c1"), 0); /* again */
    CHECK_INT(task_at(&d, number)->epoch, epoch);
    CHECK_INT(claim(&d, "c2"), -ERR_INVALID_TRANSITION);
    begin(&d, task_active_until_ms(&d.work, task_at(&d, number)) - d.work.now_ms);
    end(&d, true);
    CHECK_INT(claim(&d, "c2"), -ERR_INVALID_TRANSITION); /* the last millisecond */
    begin(&d, 1);
    end(&d, true);
    CHECK_INT(claim(&d, "c2"), 0);
    CHECK_INT(task_at(&d, number)->epoch, epoch + 1);
    CHECK_INT(task_at(&d, number)->attempts, 1);
    CHECK_Z(task_at(&d, number)->claimed_by, "c2");
    CHECK_INT(task_active_until_ms(&d.work, task_at(&d, number)), d.work.now_ms + 60000);
    close_desk(&d);
}

/* ---- in a core ---- */

#define CREATE_QUIET                                                                     \
    CALL("conversation.create", "{'agents':[{'role':'a'}],'watchdog':{'disabled':true}," \
                                "'runtime_controls':{'session_wall_clock_seconds':0}}")
#define JOIN CALL("participant.join", "{'conversation':%d,'role':'a','connectionId':'c1'}")
#define BEAT                      \
    CALL("participant.heartbeat", \
         "{'conversation':%d,'role':'a','connectionId':'c1','epoch':1,'progress':'same'}")
#define GIVE CALL("task.create", "{'conversation':%d,'role':'a','content':1}")
#define TAKE CALL("task.claim", "{'conversation':%d,'role':'a','connectionId':'c1'}")
#define START CALL("task.start", "{'task':%d,'epoch':%d}")

#define OK(w, ...) (ask(w, __VA_ARGS__), tick(w), take_ok(w))

/* Conversations 1 to count, each with a task in progress. */
static struct world *world_working(int count)
{
    struct world *w = world_watching();
    for (int c = 1; c <= count; c++) {
        OK(w, CREATE_QUIET);
        OK(w, JOIN, c);
        OK(w, GIVE, c);
        OK(w, TAKE, c);
        OK(w, START, c, 1);
    }
    settle(w);
    return w;
}

static int64_t in_status(struct world *w, const char *status)
{
    return store_int(w, "SELECT COUNT(*) FROM tasks WHERE status = '%s'", status);
}

static void pass_ms(struct world *w, int64_t ms)
{
    clock_advance(&w->clock, ms);
    settle(w);
}

/* P17: one bad row keeps nobody else from being served in the same pass. */
TEST(a_task_that_cannot_be_moved_stands_alone)
{
    struct world *w = world_working(5);
    poison(w, "UPDATE ON tasks", "NEW.task = 3 AND NEW.status = 'pending'");
    pass_ms(w, 60001);
    CHECK_INT(in_status(w, "pending"), 4);
    CHECK_INT(in_status(w, "in_progress"), 1);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agents WHERE is_listening = 1"), 0);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM conversation_events WHERE conversation = 3"
                           " AND payload LIKE '%%task.orphaned%%'"),
              0);
    cure(w);
    pass_ms(w, 600000);
    CHECK_INT(in_status(w, "in_progress"), 0);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM conversation_events WHERE conversation = 3"
                           " AND payload LIKE '%%task.orphaned%%'"),
              1);
    world_free(w);
}

/* P18: more than a page of each, all due in one millisecond. */
TEST(leases_of_one_moment_are_all_looked_at)
{
    enum { COUNT = 700 };
    struct world *w = world_working(COUNT);
    pass_ms(w, 60000);
    CHECK_INT(in_status(w, "in_progress"), COUNT);
    pass_ms(w, 1);
    CHECK_INT(in_status(w, "pending"), COUNT);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agents WHERE is_listening = 1"), 0);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM conversation_events WHERE payload LIKE"
                           " '{\"kind\":\"watch.task.orphaned\"%%'"),
              COUNT);
    world_free(w);
}

/* A tick that is lost takes the caches with it, not the leases. */
TEST(a_full_disk_convicts_nobody)
{
    struct world *w = world_working(1);
    clock_advance(&w->clock, 59000);
    settle(w);
    fill_disk(w);
    ask(w, GIVE, 1);
    tick(w);
    take_error(w, "UNAVAILABLE");
    free_disk(w);
    pass_pause();
    settle(w);
    CHECK_INT(in_status(w, "in_progress"), 1);
    CHECK_INT(store_int(w, "SELECT is_listening FROM agents WHERE conversation = 1"), 1);
    OK(w, BEAT, 1);
    OK(w, GIVE, 1);
    CHECK_INT(in_status(w, "queued"), 1);
    pass_ms(w, 120000);
    CHECK_INT(in_status(w, "in_progress"), 0);
    CHECK_INT(store_int(w, "SELECT is_listening FROM agents WHERE conversation = 1"), 0);
    world_free(w);
}

/* While the disk is full nothing can be stored; what is due is due afterwards, once. */
TEST(what_falls_due_on_a_full_disk_is_done_later_and_once)
{
    struct world *w = world_working(3);
    fill_disk(w);
    clock_advance(&w->clock, 60001);
    for (int i = 0; i < 5; i++) {
        tick(w);
        pass_pause();
    }
    free_disk(w);
    CHECK_INT(in_status(w, "in_progress"), 3);
    pass_pause();
    settle(w);
    pass_ms(w, 120001);
    CHECK_INT(in_status(w, "pending"), 3);
    CHECK_INT(store_int(w, "SELECT MAX(attempts) FROM tasks"), 1);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM conversation_events WHERE payload LIKE"
                           " '{\"kind\":\"watch.task.orphaned\"%%'"),
              3);
    world_free(w);
}

TEST(L29_a_beat_commits_nothing)
{
    struct world *w = world_working(1);
    OK(w, BEAT, 1); /* the first value is progress */
    const int64_t events = store_int(w, "SELECT MAX(id) FROM conversation_events");
    const int64_t changes = store_int(w, "SELECT total_changes()");
    for (int i = 0; i < 100; i++)
        OK(w, BEAT, 1);
    CHECK_INT(store_int(w, "SELECT MAX(id) FROM conversation_events"), events);
    CHECK_INT(store_int(w, "SELECT total_changes()"), changes);
    world_free(w);
}

TEST(a_restart_grants_every_lease_once)
{
    enum { COUNT = 300 };
    struct world *w = world_working(COUNT);
    pass_ms(w, 60000);
    world_restart(w);
    settle(w);
    pass_ms(w, 60000);
    CHECK_INT(in_status(w, "in_progress"), COUNT);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agents WHERE is_listening = 1"), COUNT);
    pass_ms(w, 1);
    CHECK_INT(in_status(w, "pending"), COUNT);
    CHECK_INT(store_int(w, "SELECT COUNT(*) FROM agents WHERE is_listening = 1"), 0);
    world_free(w);
}
