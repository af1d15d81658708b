/*
 * head.h: what the server knows of a conversation without reading its log.
 *
 * A head is counters, the open turn and its owner, status. An append needs nothing else, which is
 * why it costs the same for the 10th and the 100 000th event (L13). Heads are read on first use and
 * kept in memory.
 *
 * A head follows from the log: head_apply() is the one function that moves it, for an event that is
 * being appended and for one that is read back. So its row in `conversations` is a snapshot,
 * written behind together with the log's indexes (work_maintain); reading a head means reading the
 * row and applying the events after it, which are in the log's tail. Only what does not follow from
 * the log is written in the request that changes it: the row itself at creation, the state (status,
 * window) when it ends, blocks or resumes, and the times to look at it (rule.h).
 *
 * The rules that keep memory and store in step:
 *   - a head changes only inside a request, after head_edit(), which remembers it as it was, so a
 *     request that fails is undone here as its savepoint is undone in the store;
 *   - if a commit fails, every head is dropped and read again.
 *
 * This presumes that nobody else writes to the store; a backend shared by several servers must
 * read the head under its row lock instead.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "domain/event.h"
#include "domain/rule.h"

#define CONVERSATION_STATUS_LIST(X) \
    X(ACTIVE, "active") X(BLOCKED, "blocked") X(COMPLETED, "completed")
#define OUTCOME_LIST(X) X(COMPLETED, "completed") X(CANCELED, "canceled") X(FAILED, "failed")

enum conversation_status {
#define X(name, text) CONVERSATION_##name,
    CONVERSATION_STATUS_LIST(X)
#undef X
        CONVERSATION_STATUS_COUNT
};

enum outcome {
    OUTCOME_NONE = -1,
#define X(name, text) OUTCOME_##name,
    OUTCOME_LIST(X)
#undef X
        OUTCOME_COUNT
};

/* Why something ended or is blocked: closed list, never empty once it has. */
#define STOP_REASON_LIST(X)                       \
    X(COMPLETED, "completed")                     \
    X(FAILED, "failed")                           \
    X(CANCELED_BY_USER, "canceled_by_user")       \
    X(CANCELED_BY_CLIENT, "canceled_by_client")   \
    X(IDLE_TIMEOUT, "idle_timeout")               \
    X(GLOBAL_IDLE_TIMEOUT, "global_idle_timeout") \
    X(MAX_TURNS, "max_turns")                     \
    X(WALL_CLOCK, "watchdog_wall_clock_exceeded") \
    X(DISPATCH_TIMEOUT, "dispatch_timeout")       \
    X(REAPED, "timeout_reaped_by_watchdog")       \
    X(TASK_DEADLINE, "task_deadline_exceeded")    \
    X(ATTEMPTS_EXHAUSTED, "attempts_exhausted")   \
    X(CONVERSATION_ENDED, "conversation_ended")   \
    X(AGENT_REMOVED, "agent_removed")

enum stop_reason {
    STOP_REASON_NONE = -1,
#define X(name, text) STOP_##name,
    STOP_REASON_LIST(X)
#undef X
        STOP_REASON_COUNT
};

enum { LIMIT_DEFAULT = -1 }; /* as configured */

struct work;

struct head {
    int64_t conversation;
    enum conversation_status status;
    enum outcome outcome;
    enum stop_reason stop_reason;
    char starting_role[AGENT_ID_BYTES_MAX + 1]; /* empty: none */
    int64_t max_turns;                          /* 0: no limit */
    int64_t session_wall_clock_seconds;         /* or LIMIT_DEFAULT; 0: off */
    bool watchdog_disabled;
    int64_t idle_ms, global_idle_ms; /* or LIMIT_DEFAULT; 0: off */
    int64_t window, window_started_ms;
    bool notice_given;                 /* of this window's budget */
    int64_t blocked_ms;                /* since when; 0: not */
    int64_t look_ms[TIMED_RULE_COUNT]; /* when the ladder must look next: rule.h */
    int64_t last_seq;
    int64_t last_turn;
    int64_t last_closed_seq; /* seq of the last message that closed a turn */
    bool turn_is_open;
    bool turn_is_cleared;                    /* open, and the next writer's */
    char turn_owner[AGENT_ID_BYTES_MAX + 1]; /* of last_turn; empty before the first */
    int64_t turn_events;                     /* in last_turn */
    int64_t system_events;                   /* in turn 0 */
    int64_t last_activity_ms;                /* last event not written by the system */
    int64_t open_tasks;                      /* pending … suspended */
    int64_t last_task_ms;                    /* when the last of them ended; 0: none did */
    int64_t created_ms, updated_ms;
    /* private to head.c */
    int64_t written_seq; /* last_seq of the row in the store */
    int64_t edited_in;   /* number of the request that edited it last */
};

const char *conversation_status_name(enum conversation_status status);
bool conversation_status_parse(struct str s, enum conversation_status *ret);
const char *outcome_name(enum outcome outcome); /* NULL for OUTCOME_NONE */
bool outcome_parse(struct str s, enum outcome *ret);
const char *stop_reason_name(enum stop_reason reason); /* NULL for STOP_REASON_NONE */
bool stop_reason_parse(struct str s, enum stop_reason *ret);

/* The head to read; ERR_NOT_FOUND. Valid until the end of the tick. */
int head_get(struct work *w, int64_t conversation, struct head **ret, struct err *err);
/* Takes writes, or: ERR_FORBIDDEN (conversation 0), ERR_CONVERSATION_FINALIZED, _BLOCKED. */
int head_check_active(const struct head *h, struct err *err);
/* Call before each request's first change of a head. */
void head_edit(struct work *w, struct head *h);
/* A new conversation: inserts the row and returns its head, ready to edit. Only the settings of
 * `initial` are used: starting_role … global_idle_ms. */
int head_create(struct work *w, const struct head *initial, struct head **ret, struct err *err);

/* Moves the head past an event of its conversation. Does not touch the status. */
void head_apply(struct head *h, const struct event *e);
/* Status, outcome, reason, window or budget were edited: sets the times to look at it accordingly
 * and writes the whole row now. */
int head_write_state(struct work *w, struct head *h, struct err *err);

/* For work.c. */
/* Writes the rows of all conversations that have events in the log's tail. */
int heads_write_behind(struct work *w, struct err *err);
void heads_evict_some(struct work *w);
void heads_drop(struct work *w);
