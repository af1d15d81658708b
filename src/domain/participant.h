/*
 * participant.h: who listens for an agent.
 *
 * A process that wants to work for an agent joins under a connection id of its own and from then on
 * shows that it is alive: by heartbeats, and by every long poll. That is its lease. Without a beat
 * for liveness.ttl_seconds of watched time it is disconnected; it may rejoin at once, and nothing
 * is lost by that (L22). The newest connection to join is the listener; an older one is told that
 * it was superseded, and whatever it still says has no effect on the newer one (L25). Rows are
 * never deleted (L23), and there is no way to join without a lease (L24).
 *
 * Listening is not working: a heartbeat that carries a task's epoch renews the worker's lease on
 * that task, whoever listens meanwhile (task.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

struct agent;
struct task;
struct work;

/* spawn: the process it belongs to, if it is one of ours. *ret_superseded: another connection was
 * listening. */
int participant_join(struct work *w, int64_t conversation, struct str role, struct str connection,
                     struct str spawn, struct agent **ret, bool *ret_superseded, struct err *err);

struct heartbeat {
    int64_t conversation;
    struct str role, connection;
    int64_t task;                /* 0: the agent's active one */
    int64_t epoch;               /* -1: none */
    const struct json *progress; /* NULL: none */
    struct str note;             /* p == NULL: none */
};
/* The members of its answer, with what it has renewed; what is wrong with it is no error. */
int participant_heartbeat(struct work *w, const struct heartbeat *b, struct json_out *out,
                          struct err *err);
int participant_leave(struct work *w, int64_t conversation, struct str role, struct str connection,
                      struct err *err);
/* Nobody listens any more. */
int participant_end(struct work *w, struct agent *a, const char *reason, struct err *err);
/* The lease is over: the ladder's participant.expire. */
int participant_expire(struct work *w, struct agent *a, struct err *err);
/* An object of participant.list; key NULL in an array. */
int participant_write(struct work *w, const struct agent *a, struct json_out *out, const char *key,
                      struct err *err);

/* What there is for a listener to do. */
#define WAIT_LIST(X)                      \
    X(NONE, "none")                       \
    X(TASK, "task")                       \
    X(RESUME, "resume")                   \
    X(STOP, "stop")                       \
    X(STALE, "stale")                     \
    X(BLOCKED, "blocked")                 \
    X(SUPERSEDED, "superseded")           \
    X(REJOIN_REQUIRED, "rejoin_required") \
    X(ENDED, "ended")

enum wait_status {
#define X(name, text) WAIT_##name,
    WAIT_LIST(X)
#undef X
        WAIT_STATUS_COUNT
};

const char *wait_status_name(enum wait_status status);
/* *ret_task with WAIT_TASK and WAIT_RESUME: results of its tools are there, or none can come. With
 * `is_whole` WAIT_RESUME waits until no call is open and no result is lent to somebody else. */
int participant_look(struct work *w, int64_t conversation, struct str role, struct str connection,
                     bool is_whole, enum wait_status *ret, struct task **ret_task, struct err *err);
/* What there is for somebody who works to hear, whoever listens: WAIT_STALE if the task is not in
 * hand under this epoch, WAIT_STOP, WAIT_ENDED, else WAIT_NONE. */
int participant_watch_work(struct work *w, const struct agent *a, int64_t task, int64_t epoch,
                           enum wait_status *ret, struct err *err);
