/*
 * task.h: a piece of work for one agent.
 *
 *     queued → pending → acknowledged → in_progress ⇄ suspended → completed, failed, timeout,
 * canceled
 *
 * One table says which trigger leads from which status to which, and what comes with it: a new
 * epoch, a lost attempt, what becomes of its inbox row. One function, task_move(), makes every
 * transition: task, agent, inbox row and events together, so that they cannot disagree. Everything
 * that is not in the table is ERR_INVALID_TRANSITION with the triggers that are.
 *
 * An agent works on one task at a time: pending … suspended is the active one, the others are
 * queued and promoted in order. Its assignee is for ever; a task that is taken back goes to the
 * same role.
 *
 * The *worker lease* says that somebody is working on it: granted by the claim, renewed by every
 * call that carries the task's epoch, for the length the claim asked for. It is another thing than
 * the agent's listener lease (L20): a worker need not listen. Both are kept in memory (lease.h).
 *
 * *Progress* is a third thing: what the work itself says (L32). See task_note_progress().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "domain/agent.h"
#include "domain/event.h"
#include "domain/head.h"
#include "domain/task_span.h"

struct work;

#define TASK_STATUS_LIST(X)         \
    X(QUEUED, "queued")             \
    X(PENDING, "pending")           \
    X(ACKNOWLEDGED, "acknowledged") \
    X(IN_PROGRESS, "in_progress")   \
    X(SUSPENDED, "suspended")       \
    X(COMPLETED, "completed")       \
    X(FAILED, "failed")             \
    X(TIMEOUT, "timeout")           \
    X(CANCELED, "canceled")

#define TASK_TRIGGER_LIST(X)                            \
    X(PROMOTE, "promoteNextTask")                       \
    X(CLAIM, "claimTask")                               \
    X(START, "startTask")                               \
    X(SUSPEND, "suspendTask")                           \
    X(RESUME, "resumeTask")                             \
    X(RECOVER_ACKNOWLEDGED, "recoverStuckAcknowledged") \
    X(RECOVER, "recover")                               \
    X(BLOCK, "blockSession")                            \
    X(COMPLETE, "completeTask")                         \
    X(FAIL, "failTask")                                 \
    X(DISPATCH_TIMEOUT, "dispatchTimeout")              \
    X(REAP_TIMEOUT, "reapTimeout")                      \
    X(ATTEMPTS_EXHAUSTED, "attemptsExhausted")          \
    X(DEADLINE_EXCEEDED, "deadlineExceeded")            \
    X(CANCEL, "cancelTask")

enum task_status {
#define X(name, text) TASK_##name,
    TASK_STATUS_LIST(X)
#undef X
        TASK_STATUS_COUNT
};

enum task_trigger {
    TRIGGER_NONE = -1,
#define X(name, text) TRIGGER_##name,
    TASK_TRIGGER_LIST(X)
#undef X
        TRIGGER_COUNT
};

/* Why a pending task may not be claimed: its old process is not proven dead, or cannot be asked. */
#define TASK_HELD_LIST(X) X(PROCESS, "process") X(MACHINE, "machine")

enum task_held {
    HELD_NOT = -1,
#define X(name, text) HELD_##name,
    TASK_HELD_LIST(X)
#undef X
        HELD_COUNT
};

enum { TASK_CHANNEL_BYTES_MAX = 64 };

struct task {
    int64_t task, conversation;
    char role[AGENT_ID_BYTES_MAX + 1];
    enum task_status status;
    char channel[TASK_CHANNEL_BYTES_MAX + 1];
    int64_t epoch, attempts;
    char claimed_by[CONNECTION_ID_BYTES_MAX + 1];
    char claimed_spawn[33]; /* the process that did; empty: not one of ours */
    int64_t lease_ms;       /* of the claim */
    enum task_held held;
    char held_spawn[33]; /* the process that must be proven dead first */
    /* Each the clock of one rule, 0: not yet. */
    int64_t created_ms, dispatched_ms, pending_ms, restarted_ms, acknowledged_ms, started_ms,
        progress_ms, suspended_ms, completed_ms;
    int64_t retried_ms, retries; /* by dispatch.retry, since it is pending */
    enum task_trigger end_trigger;
    enum stop_reason stop_reason;
    int64_t deliverable; /* card; 0: none */
    int64_t look_ms;     /* when the ladder must look at it next, by what is stored */
    /* in memory only */
    int64_t beat_ms;            /* the worker's last sign of life; 0: nobody has it */
    int64_t machine_beat_ms;    /* its machine's, that its process lives; 0: none */
    int64_t progress_stored_ms; /* of progress_ms */
    int64_t lease_look_ms;      /* of its entry among the leases */
    uint64_t progress_hash;     /* of the last `progress` value of a heartbeat */
    struct str unsaved;         /* its content, as long as it has no row; in the tick's arena */
    char *content;              /* the same while it is here, if it is short; NULL: in the row */
    bool has_words;             /* a note or an error, in the row */
    struct str spans;           /* to be added to its row; in the tick's arena */
    int64_t longest_ms[SPAN_COUNT];
    /* private to task.c */
    int64_t edited_in;
};

struct task_transition {
    enum task_status from;
    enum task_trigger trigger;
    enum task_status to;
    bool bumps_epoch, loses_attempt;
    enum inbox_change {
        INBOX_STAYS,
        INBOX_NEW,        /* a new pending row of the new epoch */
        INBOX_PROCESSING, /* … of this epoch */
        INBOX_CONSUMED,
        INBOX_SKIPPED,
        INBOX_RENEWED, /* the old one consumed, a new one pending */
        INBOX_REFENCED /* stays processing, of the new epoch */
    } inbox;
};
extern const struct task_transition task_transitions[];
extern const size_t task_transition_count;

const char *task_status_name(enum task_status status);
const char *task_trigger_name(enum task_trigger trigger); /* NULL for TRIGGER_NONE */
bool task_is_active(const struct task *t);                /* pending … suspended */
bool task_is_over(const struct task *t);

/* The task to read; ERR_NOT_FOUND. Valid until the end of the tick. */
int task_get(struct work *w, int64_t task, struct task **ret, struct err *err);
void task_edit(struct work *w, struct task *t);

/* A new task, and its first step: pending if the agent is idle, else queued. content is JSON. */
int task_create(struct work *w, struct agent *a, struct str content, struct str channel,
                struct task **ret, struct err *err);

/* What comes with a move. */
struct task_move {
    enum task_trigger trigger;
    struct str connection, spawn;     /* CLAIM, RESUME: its holder from now on */
    int64_t lease_ms;                 /* CLAIM; RESUME, 0: as it was */
    enum stop_reason stop_reason;     /* an end */
    struct str error;                 /* an end; p == NULL: none */
    struct str deliverable;           /* COMPLETE: JSON; p == NULL: none */
    struct str handoff_role, handoff; /* COMPLETE: what comes next, JSON, for repeats; or none */
    const char *rule;                 /* the rule that moves it; NULL: somebody asked */
    struct str evidence;              /* JSON members: what the rule saw, and its limit */
    enum task_held held;              /* back to pending: whether it may be claimed */
    struct str held_spawn;            /* … and what for */
    bool is_end_of_conversation;      /* nothing is promoted in its place */
};
#define TASK_MOVE(of) \
    ((struct task_move){.trigger = (of), .stop_reason = STOP_REASON_NONE, .held = HELD_NOT})
int task_move(struct work *w, struct task *t, const struct task_move *m, struct err *err);
/* While the process that has it may live, work that is taken back is not handed to another (P21).
 */
int task_hold(struct work *w, const struct task *t, struct task_move *m, struct err *err);
/* Writes the row of a task that was edited otherwise, with its time to look. */
int task_store(struct work *w, struct task *t, struct err *err);

/* ERR_INVALID_TRANSITION, with what is allowed. */
int task_refuse(const struct task *t, enum task_trigger trigger, struct err *err);
/*
 * What an agent asks for, with the epoch it was given. A repeat of a move that was made is no move,
 * and ERR_IDEMPOTENCY_CONFLICT if it ended the task and brings something else (task_end.h);
 * an old epoch is ERR_STALE_EPOCH, whatever the state; and whoever has the right one is alive.
 */
int task_move_with_epoch(struct work *w, struct task *t, int64_t epoch, const struct task_move *m,
                         struct err *err);
/* May somebody claim it who does not have it: it is pending, or whoever claimed it is gone and has
 * not begun, no process of ours may still be at it, and it is not held. `spawn`: the process that
 * asks. */
int task_is_free(struct work *w, const struct task *t, struct str spawn, bool *ret,
                 struct err *err);
/*
 * task.claim: the agent's active task (or `task`, if not 0) is this connection's. Again by the same
 * connection: the same answer. By another, once the holder's worker lease is over and no process of
 * it may live: an attempt is lost. ERR_NOT_FOUND if there is nothing to claim, ERR_SUPERSEDED if
 * another connection listens.
 */
int task_claim(struct work *w, struct agent *a, struct str connection, struct str spawn,
               int64_t task, bool is_unattended, struct task **ret, struct err *err);

/* ERR_STALE_EPOCH unless it is the task's own; and the sign of life that such a call is. */
int task_check_epoch(struct work *w, struct task *t, int64_t epoch, struct err *err);
void task_beat(struct work *w, struct task *t);
/* Its machine says that the process which claimed it lives: good for machine.ttl_seconds. */
void task_beat_by_machine(struct work *w, struct task *t);
/* How long a worker lease is: of somebody who beats, or of nobody who does. */
int64_t task_lease_ms(const struct work *w, bool is_unattended);
/* The worker lease: its last millisecond, 0 if there is none; whether it lasts. */
int64_t task_active_until_ms(const struct work *w, const struct task *t);
bool task_is_worked_on(const struct work *w, const struct task *t);
/* The same by the worker's own word, whatever its machine says. */
bool task_worker_beats(const struct work *w, const struct task *t);
/* Brings the stored time to look forward, if a rule is due earlier (rule.h). */
int task_watch(struct work *w, struct task *t, struct err *err);
/* The ladder has looked: sets it to when a rule is due, earlier or later. */
int task_watch_again(struct work *w, struct task *t, struct err *err);
/*
 * The work itself moved: moves the clock that running.reap reads. It is stored only when it has
 * moved by PROGRESS_STORE_MS, so that an agent may say much; a start gives that much back.
 */
enum { PROGRESS_STORE_MS = 60000 };
int task_note_progress(struct work *w, struct task *t, struct err *err);
/* Its agent was started because nobody attended. */
int task_note_restart(struct work *w, struct task *t, struct err *err);
int task_store_note(struct work *w, struct task *t, struct str note, struct err *err);

/* The next queued task of an idle agent becomes pending. */
int task_promote(struct work *w, struct agent *a, struct err *err);
/* All open tasks of a conversation that ends. */
int tasks_cancel_open(struct work *w, int64_t conversation, struct err *err);
/* All open ones of an agent that is removed. */
int tasks_cancel_of(struct work *w, const struct agent *a, enum stop_reason reason,
                    struct err *err);
/* Those handed out go back to pending: the conversation is blocked. */
int tasks_block(struct work *w, int64_t conversation, struct err *err);
/* Its clocks go on where they stood when it was blocked. */
int tasks_resume(struct work *w, int64_t conversation, int64_t blocked_at_ms, struct err *err);

/* What is to be done, JSON; in the tick's arena. */
int task_content(struct work *w, const struct task *t, struct str *ret, struct err *err);
/* The members of a Task, under `key`. _with_spans: and those of task_span_write(). */
int task_write_with_spans(struct work *w, const struct task *t, struct json_out *out,
                          const char *key, struct err *err);
int task_write(struct work *w, const struct task *t, struct json_out *out, const char *key,
               struct err *err);

/* For work.c. */
void tasks_evict_some(struct work *w);
void tasks_drop(struct work *w);
int tasks_grant_leases(struct work *w, struct err *err);
