/*
 * tool.h: the tools that a suspended task waits for, and what came of them.
 *
 *     task.suspend    the task waits for calls; each is `waiting`, with a deadline of its own
 *     tool.report     waiting → received: its result is there          (or the rule tool.timeout)
 *     task.resume     lends whoever resumes what has been received; pending → processing
 *     task.applied    received → applied; with the last one the task is in progress, epoch + 1
 *
 * A call is named by its task, the epoch in which it was made and the id that the agent gave it:
 * ids may repeat from suspension to suspension, from task to task (L67). The epoch does not change
 * while a task is suspended, and a suspended task needs no worker: whoever knows the epoch may
 * resume it, a process that was started later as well (task.wait tells it). Two of them cannot both
 * win. What one was lent the other is not given until the lease is over (ledger.requeue puts it
 * back), and the first to apply the last result has the next epoch; the other's is stale.
 *
 * One row is a call, its wait, its result and its entry in the resume ledger. So there is one
 * winner by construction: a result comes from waiting only, be it reported, timed out or
 * interrupted; what comes later is told so and changes nothing (L61). A result cannot be without an
 * entry in the ledger; the store refuses it (ledger.reconcile).
 *
 * A result may arrive before its call: the tool was faster than the suspend. It is kept as a row
 * without a call, and joined to it by the suspend of that epoch.
 *
 * Results reach the agent as rows of its inbox too (`tool_result`, `timeout`); they are closed when
 * the result is applied, or the task ends. Cards, `tool.call` and `tool.result`, are written in the
 * same transaction and kept for ever: a process that takes over reads there what was applied before
 * it came. An end closes every open call itself (`interrupted`), so that what is read is never a
 * call without a result. Work that is handed out anew has no open calls: nothing leads from
 * suspended to pending.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "domain/rule.h"
#include "domain/task.h"

struct work;

#define TOOL_STATUS_LIST(X) \
    X(WAITING, "waiting")   \
    X(RECEIVED, "received") \
    X(APPLIED, "applied")   \
    X(EXPIRED, "expired")   \
    X(INTERRUPTED, "interrupted")
#define LEDGER_STATUS_LIST(X) \
    X(PENDING, "pending") X(PROCESSING, "processing") X(APPLIED, "applied")
/* What a tool may report comes first. */
#define RESULT_STATUS_LIST(X) \
    X(SUCCESS, "success")     \
    X(FAILED, "failed")       \
    X(CANCELED, "canceled")   \
    X(TIMEOUT, "timeout")     \
    X(INTERRUPTED, "interrupted")

enum tool_status {
#define X(name, text) TOOL_##name,
    TOOL_STATUS_LIST(X)
#undef X
        TOOL_STATUS_COUNT
};

enum ledger_status {
    LEDGER_NONE = -1,
#define X(name, text) LEDGER_##name,
    LEDGER_STATUS_LIST(X)
#undef X
        LEDGER_STATUS_COUNT
};

enum result_status {
    RESULT_NONE = -1,
#define X(name, text) RESULT_##name,
    RESULT_STATUS_LIST(X)
#undef X
        RESULT_STATUS_COUNT
};

enum { TOOL_CALL_ID_BYTES_MAX = 256, TOOL_NAME_BYTES_MAX = 256, TOOLS_PER_SUSPENSION_MAX = 256 };

/* A row, in the tick's arena. */
struct tool {
    int64_t wait, task, epoch;
    struct str id, name; /* name.p == NULL: its call is not known yet */
    int64_t call_card;   /* 0: the same */
    enum tool_status status;
    int64_t since_ms, timeout_ms; /* its deadline; 0: none */
    int64_t asked_ms;             /* of that, what its call asked for */
    int64_t settled_ms;           /* 0: it waits */
    enum result_status result;
    int64_t result_card;
    enum ledger_status ledger;
    int64_t leased_ms, lease_ms; /* while it is lent to whoever resumes */
    int64_t deliveries;          /* how often it was lent */
    int64_t look_ms;
};

const char *tool_status_name(enum tool_status status);
const char *result_status_name(enum result_status status); /* NULL for RESULT_NONE */

/* A row; ERR_NOT_FOUND. */
int tool_get(struct work *w, int64_t wait, struct tool **ret, struct err *err);
/* Those of the task's suspension, in the order of the calls, linked. */
struct tool_list {
    struct tool_list *next;
    struct tool tool;
};
int tools_list(struct work *w, int64_t task, int64_t epoch, struct tool_list **ret,
               struct err *err);

/* What rules and polls need to know of a suspension without reading it row by row. */
struct tools_summary {
    int64_t calls, waiting, received;
    int64_t to_take;           /* results that nobody has been lent */
    int64_t settled_ms;        /* the last one; 0: none */
    int64_t first_deadline_ms; /* of those that wait: the last millisecond of it; 0: none has one */
    int64_t last_deadline_ms;
};
int tools_summarize(struct work *w, const struct task *t, struct tools_summary *ret,
                    struct err *err);
/* Is there something for whoever resumes: results to take, or nothing left to wait for? */
bool tools_may_resume(const struct tools_summary *s);
/* Is there all that whoever resumes can get? No call is open, and no result is lent. */
bool tools_are_settled(const struct tools_summary *s);

/* ---- what agents and tools ask for ---- */

struct tool_call {
    struct str id, name;
    struct str arguments, options; /* JSON; p == NULL: none */
    int64_t timeout_ms;            /* what its options ask for; 0: nothing */
};
/*
 * task.suspend. A deadline is the longer of what the call asks for and worker.suspend_timeout_
 * seconds; if neither says anything there is none. A repeat with calls that are known is no move;
 * ERR_IDEMPOTENCY_CONFLICT if one of them is known with another name, arguments or options.
 */
int tools_suspend(struct work *w, struct task *t, int64_t epoch, const struct tool_call *calls,
                  size_t count, struct err *err);

struct tool_result {
    enum result_status status;
    struct str result, error; /* JSON; p == NULL: none */
};
enum report {
    REPORT_ACCEPTED,
    REPORT_EARLY,     /* kept for the suspend that is to come */
    REPORT_DUPLICATE, /* it has a result that was reported */
    REPORT_LATE       /* nobody waits for it any more */
};
/* tool.report, whatever state the conversation is in. `epoch` -1: the newest call of this id.
 * ERR_NOT_FOUND if the task waits for others. */
int tool_report(struct work *w, struct task *t, int64_t epoch, struct str id,
                const struct tool_result *result, enum report *ret, struct err *err);

/* task.resume: takes what was received and writes `results` and `leaseUntil`; ends behind the one
 * that brings the answer to bytes_max, the next call goes on. */
int tools_resume(struct work *w, struct task *t, int64_t epoch, size_t bytes_max,
                 struct json_out *out, struct err *err);
/* task.applied; `spawn` is the process that goes on, if it is one of ours; `lease_ms` its worker
 * lease from then on, 0: as it was. ERR_NOT_FOUND, ERR_PRECONDITION_FAILED if one has no result
 * yet. */
int tools_apply(struct work *w, struct task *t, int64_t epoch, const struct str *ids, size_t count,
                struct str spawn, int64_t lease_ms, struct err *err);

/* ---- for the ladder ---- */

/* By which rule it is due, and when: NEVER_MS unless its task is suspended in an active
 * conversation. */
int tool_due_ms(struct work *w, const struct tool *tool, enum rule_id *ret_rule, int64_t *ret_ms,
                struct err *err);
/* tool.timeout: its result is that there is none. */
int tool_time_out(struct work *w, struct tool *tool, struct err *err);
/* ledger.requeue: who took it did not apply it in time. */
int tool_requeue(struct work *w, struct tool *tool, struct err *err);
/* The ladder has looked: the time to look is when it is due. */
int tool_watch_again(struct work *w, struct tool *tool, struct err *err);

/* ---- for task.c ---- */

/* The task, which was suspended in this epoch, has ended: no call stays open. */
int tools_interrupt(struct work *w, const struct task *t, int64_t epoch, struct err *err);
/* Its conversation goes on: so do the clocks, where they stood when it was blocked. */
int tools_unblock(struct work *w, const struct task *t, int64_t blocked_at_ms, struct err *err);
