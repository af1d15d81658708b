/*
 * inbox.h: what an agent has to deal with, row by row.
 *
 * The inbox is the source of truth; a doorbell (bell/bell.h) only says that there is something in
 * it, and may be lost, late or rung ten times. A row is
 *
 *     pending → processing → consumed
 *        ↑__________|    inbox.processing: whoever took it said nothing for too long
 *
 * or ends as `skipped` (nobody wants it any more, or nobody knows where it belongs) or `error` (it
 * was taken and lost too often). An end has archived_ms. It is unique per (agent, type,
 * correlation, epoch): to put it in twice is to find the first one.
 *
 * A task's row is of type `turn`, correlated by the task's number, one per epoch, and follows the
 * task: task_move() moves both. Rows of other types are received and consumed by themselves.
 *
 * Each time is the clock of one rule and written by nobody else: pending_ms and woken_ms of
 * inbox.pending, processed_ms of inbox.processing. last_rung_ms and ring_count say what the bell
 * was asked for, by whichever rule, and no rule reads them.
 *
 * Rows are read when they are needed and not cached; their text lives in the tick's arena.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "domain/task.h"

struct work;

#define INBOX_TYPE_LIST(X)        \
    X(TURN, "turn")               \
    X(TOOL_RESULT, "tool_result") \
    X(TIMEOUT, "timeout")         \
    X(STOP, "stop")               \
    X(UI_ACTION, "ui_action")

#define INBOX_STATUS_LIST(X)    \
    X(PENDING, "pending")       \
    X(PROCESSING, "processing") \
    X(CONSUMED, "consumed")     \
    X(SKIPPED, "skipped")       \
    X(ERROR, "error")

enum inbox_type {
#define X(name, text) INBOX_OF_##name,
    INBOX_TYPE_LIST(X)
#undef X
        INBOX_TYPE_COUNT
};

enum inbox_status {
#define X(name, text) INBOX_IS_##name,
    INBOX_STATUS_LIST(X)
#undef X
        INBOX_STATUS_COUNT
};

struct inbox_row {
    int64_t inbox, conversation;
    char role[AGENT_ID_BYTES_MAX + 1];
    enum inbox_type type;
    struct str correlation;
    int64_t epoch;
    enum inbox_status status;
    struct str channel; /* p == NULL: none */
    struct str payload; /* JSON */
    int64_t created_ms, pending_ms, processed_ms, archived_ms;
    struct str processed_by;   /* the last connection that received it; p == NULL: none */
    int64_t attempts;          /* how often it was received and lost */
    int64_t woken_ms, wakeups; /* by inbox.pending, since it is pending */
    int64_t last_rung_ms, ring_count;
    const char *watchdog_error; /* NULL: none */
    int64_t watchdog_ms;
    int64_t look_ms; /* when the ladder must look at it next */
};

const char *inbox_type_name(enum inbox_type type);
const char *inbox_status_name(enum inbox_status status);

/* ERR_NOT_FOUND. */
int inbox_not_found(int64_t inbox, struct err *err);
int inbox_get(struct work *w, int64_t inbox, struct inbox_row *ret, struct err *err);
/* The row of a task's epoch. */
int inbox_of_task(struct work *w, const struct task *t, int64_t epoch, struct inbox_row *ret,
                  bool *ret_found, struct err *err);

/*
 * A new row, pending, of the agent's epoch, and a ring. If it is there already: that one, as it is,
 * and *ret_duplicate. channel.p == NULL: none is known.
 */
int inbox_put(struct work *w, const struct agent *a, enum inbox_type type, struct str correlation,
              struct str channel, struct str payload, int64_t *ret, bool *ret_duplicate,
              struct err *err);

/* For inbox.receive: at most *count of the agent's pending rows that are not turns, oldest first,
 * are this connection's now. Sets *count. */
int inbox_receive(struct work *w, const struct agent *a, struct str connection,
                  struct inbox_row *ret, size_t *count, struct err *err);
/* For inbox.consume: done with, if nobody else has received it since. *ret_done: it is, or was
 * already, by this connection. */
int inbox_consume(struct work *w, struct inbox_row *row, struct str connection, bool *ret_done,
                  struct err *err);

/* Writes a row that was changed, with its time to look. */
int inbox_store(struct work *w, struct inbox_row *row, struct err *err);
/* Pending again, as if it were new. */
void inbox_set_pending(const struct work *w, struct inbox_row *row);
/* It will not be dealt with: skipped, consumed or error. */
void inbox_archive(const struct work *w, struct inbox_row *row, enum inbox_status status);
/* Asks the bell to ring once this tick is committed, and says so on the row. */
void inbox_ring(struct work *w, struct inbox_row *row);

/* What a transition does to the task's row; old_epoch is the task's epoch before it. */
int inbox_follow(struct work *w, const struct task *t, int64_t old_epoch, enum inbox_change change,
                 struct err *err);

/* What a tool that a task waits for has to say, in the task's present epoch: `tool_result`,
 * `timeout`. payload is JSON. One that somebody has put there before stays as it is. */
int inbox_put_result(struct work *w, const struct task *t, enum inbox_type type,
                     struct str correlation, struct str payload, struct err *err);
/* It is done with: consumed or skipped. None is there, or it is over: no effect. */
int inbox_end_result(struct work *w, const struct task *t, int64_t epoch, enum inbox_type type,
                     struct str correlation, enum inbox_status status, struct err *err);

/* dispatch.retry: the row of this task's epoch is there and pending, and rung for.
 * *ret_was: what it was if that was something else, "missing" if it was not there, else NULL. */
int inbox_renew(struct work *w, const struct task *t, struct inbox_row *ret, const char **ret_was,
                struct err *err);

/* The stop of an unmanaged agent whose listener is to go: one open row says so, until it has gone
 * or is wanted again. */
int inbox_tell_stop(struct work *w, const struct agent *a, const char *reason, struct err *err);
int inbox_end_stop(struct work *w, const struct agent *a, enum inbox_status status,
                   struct err *err);

/* The end of a conversation (role.p == NULL), or of an agent: what is open is skipped. */
int inbox_skip_open(struct work *w, int64_t conversation, struct str role, struct err *err);
/* Its clocks go on where they stood when the conversation was blocked. */
int inbox_resume(struct work *w, int64_t conversation, int64_t blocked_at_ms, struct err *err);

/* When its rule is due (inbox.pending, inbox.processing): NEVER_MS if it is not open. */
int inbox_due_ms(struct work *w, const struct inbox_row *row, int64_t *ret, struct err *err);
/* Of these, when it is given up for want of a channel. */
int64_t inbox_skip_due_ms(const struct work *w, const struct inbox_row *row);

/* The open rows of an agent, oldest first, at most *count. Sets *count. */
int inbox_list_open(struct work *w, const struct agent *a, struct inbox_row *ret, size_t *count,
                    struct err *err);
/* For inbox.list and inbox.get: reads a row of SQL_INBOX_GET or SQL_INBOX_LIST. */
int inbox_from_row(struct work *w, struct query *q, struct inbox_row *ret, struct err *err);
/* The members of a message, as receive gives it, and with all that is known of it. */
void inbox_write_message(const struct inbox_row *row, struct json_out *out, const char *key);
void inbox_write(const struct inbox_row *row, struct json_out *out, const char *key);
