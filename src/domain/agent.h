/*
 * agent.h: an agent is a role of a conversation, written 12:builder. Who wants it to run, what it
 * works on, who speaks for it, and what is known of its process.
 *
 * `desired` is what people want: auto, running or stopped. Only they and conversation.create set
 * it; the machine never does.
 *
 * `ensured` follows from it while the conversation is active: it should be up. It is cleared when
 * the agent is stopped, by whomever. After a crash this is what is resumed, or stopped.
 *
 * The listener is the connection that joined last, and its lease: somebody waits for work.
 *
 * The task is the one it works on, or is to work on; others queue. turn_epoch counts every time its
 * work is handed out anew, and fences those who had it before.
 *
 * `process` is what commands and machines say. `view` is the one projection of all of this that
 * people see (P22), computed in one place.
 *
 * Agents are read on first use and kept in memory, like heads (head.h), and changed only inside a
 * request after agent_edit(). Each change of a view is an `agent.state` event, in the
 * conversation's log, or in the server's once the conversation has ended. A heartbeat changes no
 * view, stores nothing and writes no event.
 *
 * An agent without a kind is unmanaged: nobody starts it for us.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "domain/event.h"
#include "domain/rule.h"
#include "store/statements.h"

struct work;

#define AGENT_DESIRED_LIST(X) X(AUTO, "auto") X(RUNNING, "running") X(STOPPED, "stopped")
/* X(name, text). `starting`: a start is open. `stopping`: a machine was given its start, and has
 * not yet said that its process is gone. `unknown`: its machine cannot be asked. The view of such
 * an agent is `unknown` too, unless it is heard itself: it listens, or beats for its task. */
#define AGENT_PROCESS_LIST(X) \
    X(NONE, "none")           \
    X(STARTING, "starting")   \
    X(RUNNING, "running")     \
    X(STOPPING, "stopping")   \
    X(UNKNOWN, "unknown")
#define AGENT_VIEW_LIST(X)          \
    X(STOPPED, "stopped")           \
    X(STARTING, "starting")         \
    X(RUNNING, "running")           \
    X(STOPPING, "stopping")         \
    X(CRASHED, "crashed")           \
    X(BREAKER_OPEN, "breaker_open") \
    X(UNKNOWN, "unknown")           \
    X(WAITING, "waiting")           \
    X(WORKING, "working")           \
    X(SUSPENDED, "suspended")

enum agent_desired {
#define X(name, text) DESIRED_##name,
    AGENT_DESIRED_LIST(X)
#undef X
        DESIRED_COUNT
};

enum agent_process {
#define X(name, text) PROCESS_##name,
    AGENT_PROCESS_LIST(X)
#undef X
        PROCESS_COUNT
};

enum agent_view {
#define X(name, text) VIEW_##name,
    AGENT_VIEW_LIST(X)
#undef X
        VIEW_COUNT
};

enum { CONNECTION_ID_BYTES_MAX = 128 };

struct agent {
    int64_t conversation;
    char role[AGENT_ID_BYTES_MAX + 1];
    char kind[AGENT_ID_BYTES_MAX + 1];    /* empty: unmanaged */
    char machine[AGENT_ID_BYTES_MAX + 1]; /* where its process is, or was last; empty: nowhere */
    char pinned[AGENT_ID_BYTES_MAX + 1];  /* a person wants it there and nowhere else; or empty */
    enum agent_desired desired;
    bool is_ensured;
    enum agent_process process;
    enum agent_view view;
    int64_t view_ms; /* since when; 0: it never changed */
    bool is_removed; /* no longer a role; kept as long as a machine may speak of its process */
    int64_t turn_epoch;
    int64_t active_task;  /* 0: idle */
    int64_t first_queued; /* of the tasks behind it; 0: none */
    char connection[CONNECTION_ID_BYTES_MAX + 1];
    bool is_listening;
    int64_t last_seen_ms;
    char spawn_id[33];       /* its process, or the one a machine was told to start; empty: none */
    bool is_fenced;          /* its work was given to another while it could not be asked */
    int64_t process_ms;      /* when it was seen first */
    char listener_spawn[33]; /* that joined; empty: a process of nobody's we know */
    bool is_crashed;         /* failed or ended unasked, and none was seen since */
    bool breaker_is_open;    /* too many failures: a person must start it */
    int64_t restart_count;   /* since it was stable; the next waits accordingly */
    int64_t restarts;        /* ever */
    int64_t restart_ms;      /* not before; 0: nothing is waiting */
    /* in memory only */
    int64_t beat_ms; /* the listener's last sign of life; set if is_listening */
    int64_t look_ms; /* of its entry among the leases */
    int64_t restart_look_ms;
    bool is_hushed;     /* agent_hush() */
    bool has_delivered; /* its process has said what became of its task, and took no other since */
    /* private to agent.c */
    int64_t edited_in;
    const struct agent *stored; /* as its row has it, in the request of edited_in */
    struct agent *same_key;
};

const char *agent_view_name(enum agent_view view);
const char *agent_desired_name(enum agent_desired desired);

/* The agent to read; ERR_NOT_FOUND. Valid until the end of the tick. agent_find() also finds one
 * that was removed. */
int agent_find(struct work *w, int64_t conversation, struct str role, struct agent **ret,
               struct err *err);
int agent_get(struct work *w, int64_t conversation, struct str role, struct agent **ret,
              struct err *err);
/* Those whose leases have this key (lease.h): start with a = NULL; NULL at the end. */
struct agent *agent_next_of_key(struct work *w, int64_t key, struct agent *a);
int64_t agent_key(const struct agent *a);
int64_t agent_key_of(int64_t conversation, struct str role);
/* Call before each request's first change. */
void agent_edit(struct work *w, struct agent *a);
/* Writes the row, and the view with its event if it has changed. */
int agent_store(struct work *w, struct agent *a, const char *reason, struct err *err);
/* Several changes that are one: until agent_tell() nothing of it is stored or told. */
void agent_hush(struct work *w, struct agent *a);
int agent_tell(struct work *w, struct agent *a, const char *reason, struct err *err);
/* The same after a rule has ended its task: the event is written in any case, with why. */
int agent_store_ended(struct work *w, struct agent *a, const char *reason, const char *error,
                      struct err *err);

/* Says something about it in its conversation's log, or in the server's once that has ended.
 * `members` are JSON members. */
int agent_append(struct work *w, const struct agent *a, const char *author, const char *kind,
                 struct str members, const char *rule, struct err *err);
/* The same for a move of the ladder: `watch.<rule>`, with what it saw and its limit (P13). */
int agent_note_rule(struct work *w, const struct agent *a, enum rule_id rule, struct str saw,
                    struct err *err);

/* The names of a conversation's agents, in the order of their turns, in the tick's arena. */
struct agent_role {
    struct agent_role *next;
    struct str name;
};
int agent_roles(struct work *w, int64_t conversation, struct agent_role **ret, struct err *err);
/* Of those that should be up, or are on their way. */
int agent_roles_up(struct work *w, int64_t conversation, struct agent_role **ret, struct err *err);
/* Every agent that a statement lists, page by page: SQL_AGENT_LIST_… by (conversation, role); with
 * `machine`, only of that one. */
typedef int agent_each_fn(struct work *w, struct agent *a, void *ctx, struct err *err);
int agents_each(struct work *w, enum statement statement, struct str machine, agent_each_fn *fn,
                void *ctx, struct err *err);
/* Where it runs, or will run, and whether a person wants it there. */
void agent_write_machine(struct json_out *out, const struct agent *a);
/* The members of conversation.get's `agents`. */
void agent_write(struct json_out *out, const struct agent *a);

/* The listener's lease: the last millisecond of it. Unwatched time does not use it up. */
int64_t agent_ready_until_ms(const struct work *w, const struct agent *a);
/* Those who wait for any of a conversation's agents look again. */
int agents_touch(struct work *w, int64_t conversation, struct err *err);
/* The view, if evidence has changed it without anybody's doing. */
int agent_refresh(struct work *w, struct agent *a, const char *reason, struct err *err);
/* Who may do its work has changed: its task's rules may be due earlier. */
int agent_look_at_work(struct work *w, const struct agent *a, struct err *err);
/* Is somebody waiting for work? */
bool agent_is_attended(const struct work *w, const struct agent *a);
/* A sign of life of the listener, which is joined. */
void agent_beat(struct work *w, struct agent *a);

/* The conversation is active, and nobody stopped it. */
int agent_may_run(struct work *w, const struct agent *a, bool *ret, struct err *err);
/* It may run, and somebody wants it to: a person, work, or its kind, which says whether a process
 * that failed comes back. What runs already needs no such reason: an agent that is started for work
 * stays between two tasks. */
int agent_is_wanted(struct work *w, const struct agent *a, bool *ret, struct err *err);
/* For process.c: when its restart is due. */
void agent_wait_for_restart(struct work *w, struct agent *a, int64_t at_ms);

/* For work.c. */
void agents_evict_some(struct work *w);
void agents_drop(struct work *w);
/* Every listener gets a fresh lease: nobody could beat while we were away (P16). */
int agents_grant_leases(struct work *w, struct err *err);
