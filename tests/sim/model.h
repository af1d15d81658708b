/*
 * model.h: what the checker remembers, and how it looks into the store. For checker.c, checks.c and
 * inbox_checks.c.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "domain/gaps.h"
#include "sim/fleet.h"

/* X(name, SQL) */
// clang-format off
#define LOOK_LIST(X)                                                                               \
    X(EVENTS, "SELECT id, conversation, seq, turn, event, ts, type, finality, agent_id, payload,"  \
      " client_request_id FROM conversation_events WHERE id > ?1 ORDER BY id")                     \
    X(COMMANDS, "SELECT command, type, conversation, role, created_at FROM machine_commands"       \
      " WHERE command > ?1 ORDER BY command")                                                      \
    X(COMMAND, "SELECT created_at FROM machine_commands WHERE command = ?1")                       \
    X(OPEN_ORDERS, "SELECT c.command, c.type, c.since_at, c.sends, c.machine"                      \
      " FROM machine_commands c WHERE c.closed_at IS NULL AND c.machine IS NOT NULL")              \
    X(TASKS, "SELECT task, conversation, role, status, epoch, attempts, completed_at,"             \
      " stop_reason_code, held FROM tasks ORDER BY task")                                          \
    X(TASK, "SELECT epoch, status, claimed_spawn FROM tasks WHERE task = ?1")                      \
    X(OPEN_TASKS, "SELECT t.task, t.conversation, t.role, t.status, t.epoch, t.pending_at,"        \
      " t.restarted_at, t.acknowledged_at, t.progress_at, t.dispatched_at, t.lease_ms,"            \
      " t.claimed_spawn, a.kind, a.desired, a.is_listening, c.window_started_at, t.held"                 \
      " FROM tasks t JOIN agents a ON a.conversation = t.conversation AND a.role = t.role"         \
      " JOIN conversations c ON c.conversation = t.conversation"                                   \
      " WHERE t.completed_at IS NULL AND c.status = 'active'")                                     \
    X(SETTLED_TASKS, "SELECT t.task, t.conversation, t.role, t.suspended_at, t.restarted_at,"      \
      " a.process_at, (SELECT MAX(settled_at) FROM turn_waiting_tools w WHERE w.task = t.task"     \
      "   AND w.epoch = t.epoch AND w.call_card IS NOT NULL)"                                      \
      " FROM tasks t JOIN agents a ON a.conversation = t.conversation AND a.role = t.role"         \
      " JOIN conversations c ON c.conversation = t.conversation AND c.status = 'active'"           \
      " WHERE t.status = 'suspended' AND a.process = 'running' AND a.desired <> 'stopped'"         \
      " AND NOT EXISTS (SELECT 1 FROM turn_waiting_tools w WHERE w.task = t.task AND"              \
      "   w.epoch = t.epoch AND w.call_card IS NOT NULL AND"                                       \
      "   (w.wait_status = 'waiting' OR w.ledger_status = 'processing'))")                         \
    X(LISTENERS, "SELECT conversation, role, connection_id FROM agents WHERE is_listening = 1"     \
      " ORDER BY conversation, role")                                                              \
    X(AGENTS, "SELECT a.conversation, a.role, a.desired, a.view, a.active_task, a.is_listening,"   \
      " a.process, a.spawn_id, a.kind, a.breaker_open, a.is_crashed, c.status,"                    \
      " (SELECT t.task FROM tasks t WHERE t.conversation = a.conversation AND t.role = a.role"     \
      "   AND t.status IN ('pending','acknowledged','in_progress','suspended')),"                  \
      " (SELECT COUNT(*) FROM tasks t WHERE t.conversation = a.conversation AND t.role = a.role"   \
      "   AND t.status = 'queued'),"                                                               \
      " EXISTS (SELECT 1 FROM processes p WHERE p.conversation = a.conversation"                   \
      "   AND p.role = a.role AND p.ended_at IS NULL AND NOT EXISTS (SELECT 1"                     \
      "   FROM machine_commands g WHERE g.spawn_id = p.spawn_id AND g.given_up_at IS NOT NULL)),"  \
      " a.machine, a.pinned_machine, a.restart_at, a.is_removed, a.ensured"                        \
      " FROM agents a JOIN conversations c ON c.conversation = a.conversation")                    \
    X(CONVERSATIONS, "SELECT conversation, status, window_number, window_started_at,"              \
      " session_wall_clock_seconds, idle_ms, global_idle_ms, watchdog_disabled, open_tasks,"       \
      " last_task_at, stop_reason_code, outcome,"                                                  \
      " (SELECT COUNT(*) FROM tasks t WHERE t.conversation = c.conversation AND t.status IN"       \
      "   ('pending','acknowledged','in_progress','suspended'))"                                   \
      " FROM conversations c WHERE conversation > 0")                                              \
    X(INBOX, "SELECT t.task, t.status, (SELECT status FROM agent_inbox i WHERE"                    \
      " i.conversation = t.conversation AND i.role = t.role AND i.type = 'turn' AND"               \
      " i.epoch = t.epoch) FROM tasks t WHERE t.status IN ('pending','acknowledged')")             \
    X(TWO_STARTS, "SELECT conversation, role FROM machine_commands WHERE type <> 'stop-agent'"     \
      " AND closed_at IS NULL GROUP BY conversation, role HAVING COUNT(*) > 1")                    \
    X(OPEN_COMMANDS, "SELECT c.command, c.type FROM machine_commands c JOIN machines m"            \
      " ON m.machine = c.machine WHERE c.closed_at IS NULL AND m.is_online = 1")                   \
    X(STALE_LOOKS, "SELECT 'task', task FROM tasks WHERE look_at <= ?1"                            \
      " UNION ALL SELECT 'tool', wait FROM turn_waiting_tools WHERE look_at <= ?1"                 \
      " UNION ALL SELECT 'idle', conversation FROM conversations WHERE idle_look_at <= ?1"         \
      " UNION ALL SELECT 'global idle', conversation FROM conversations"                           \
      "   WHERE global_idle_look_at <= ?1"                                                         \
      " UNION ALL SELECT 'wall clock', conversation FROM conversations"                            \
      "   WHERE wall_clock_look_at <= ?1"                                                          \
      " UNION ALL SELECT 'message', inbox FROM agent_inbox WHERE look_at <= ?1"                    \
      " UNION ALL SELECT 'command', c.command FROM machine_commands c JOIN machines m"             \
      "   ON m.machine = c.machine WHERE c.closed_at IS NULL AND m.is_online = 1"                  \
      "   AND c.look_at <= ?1")                                                                    \
    X(MESSAGE, "SELECT conversation, role, status, processed_by FROM agent_inbox WHERE inbox = ?1")\
    X(OPEN_MESSAGES, "SELECT i.inbox, i.type, i.status, i.channel, i.pending_at, i.processed_at,"  \
      " i.woken_at, i.wakeups, t.status, t.task, t.lease_ms, t.claimed_spawn, t.pending_at,"       \
      " t.retried_at, t.retries FROM agent_inbox i"                                                \
      " JOIN conversations c ON c.conversation = i.conversation AND c.status = 'active'"           \
      " LEFT JOIN tasks t ON i.type = 'turn' AND t.task = CAST(i.correlation_id AS INTEGER)"       \
      "   AND t.epoch = i.epoch WHERE i.archived_at IS NULL")                                      \
    X(MESSAGES, "SELECT inbox, type, status, channel, attempts, ring_count, watchdog_error,"       \
      " archived_at FROM agent_inbox ORDER BY inbox")                                              \
    X(STRAY_MESSAGES, "SELECT i.inbox, i.type, 'its conversation is over' FROM agent_inbox i"      \
      "   JOIN conversations c ON c.conversation = i.conversation"                                 \
      "   WHERE i.archived_at IS NULL AND c.status = 'completed'"                                  \
      " UNION ALL SELECT i.inbox, i.type, 'no task waits for it' FROM agent_inbox i"               \
      "   WHERE i.archived_at IS NULL AND i.type = 'turn' AND NOT EXISTS (SELECT 1 FROM tasks t"   \
      "   WHERE t.task = CAST(i.correlation_id AS INTEGER) AND t.epoch = i.epoch"                  \
      "   AND t.status IN ('pending','acknowledged'))"                                             \
      " UNION ALL SELECT i.inbox, i.type, 'no task is suspended for it' FROM agent_inbox i"        \
      "   WHERE i.archived_at IS NULL AND i.payload LIKE '%after_execution%' AND NOT EXISTS"       \
      "   (SELECT 1 FROM tasks t WHERE t.conversation = i.conversation AND t.role = i.role"        \
      "   AND t.epoch = i.epoch AND t.status = 'suspended')"                                       \
      " UNION ALL SELECT i.inbox, i.type, 'nobody is to be stopped' FROM agent_inbox i"            \
      "   JOIN agents a ON a.conversation = i.conversation AND a.role = i.role"                    \
      "   WHERE i.archived_at IS NULL AND i.type = 'stop' AND i.correlation_id LIKE 'stop-%'"      \
      "   AND (a.is_listening = 0 OR a.desired <> 'stopped')")                                     \
    X(RECEIVABLE, "SELECT MIN(pending_at) FROM agent_inbox WHERE conversation = ?1 AND role = ?2"  \
      " AND status = 'pending' AND type <> 'turn' AND ?3 = ?3")                                    \
    X(CLAIMABLE, "SELECT MIN(t.pending_at) FROM tasks t JOIN agents a"                             \
      " ON a.conversation = t.conversation AND a.role = t.role WHERE t.conversation = ?1"          \
      " AND t.role = ?2 AND t.status = 'pending' AND t.held IS NULL AND a.is_listening = 1"        \
      " AND a.connection_id = ?3")                                                                 \
    X(GAPS, "SELECT from_at, to_at FROM watch_gaps WHERE to_at > ?1 ORDER BY from_at")             \
    X(CARD, "SELECT 1 FROM cards WHERE card = ?1 AND task = ?2 AND type = 'task.deliverable'")     \
    X(KEPT, "SELECT COALESCE(c.content, t.error, ''), h.role FROM tasks t LEFT JOIN"    \
      " cards c ON c.card = t.deliverable LEFT JOIN tasks h ON h.task = t.handoff"                  \
      " WHERE t.task = ?1")                                                                         \
    X(RESULT, "SELECT 1 FROM turn_waiting_tools WHERE task = ?1 AND tool_call_id = ?2"             \
      " AND result_status IS NOT NULL")                                                            \
    X(PROCESS_ENDED, "SELECT 1 FROM processes WHERE spawn_id = ?1 AND ended_at IS NOT NULL")       \
    X(TWO_OF_A_REQUEST, "SELECT conversation, client_request_id FROM conversation_events"          \
      " WHERE client_request_id IS NOT NULL GROUP BY conversation, agent_id, client_request_id"    \
      " HAVING COUNT(*) > 1")                                                                      \
    X(MACHINE_ONLINE, "SELECT is_online FROM machines WHERE machine = ?1")                         \
    X(WHY_AGENT, "SELECT a.desired, a.ensured, a.process, a.spawn_id, a.kind, a.machine,"          \
      " a.is_listening, a.active_task, a.breaker_open, a.is_crashed, a.restart_at, c.command,"     \
      " c.machine, c.spawn_id, EXISTS (SELECT 1 FROM processes p WHERE p.spawn_id = a.spawn_id"    \
      "   AND p.ended_at IS NULL AND p.pid > 0), t.status, t.held, t.lease_ms, t.claimed_spawn,"   \
      " t.progress_at, (SELECT COUNT(*) FROM turn_waiting_tools w WHERE w.task = t.task"           \
      "   AND w.epoch = t.epoch AND w.wait_status = 'waiting'),"                                   \
      " (SELECT COUNT(*) FROM turn_waiting_tools w WHERE w.task = t.task AND w.epoch = t.epoch"    \
      "   AND w.ledger_status = 'pending' AND w.call_card IS NOT NULL),"                           \
      " (SELECT COUNT(*) FROM turn_waiting_tools w WHERE w.task = t.task AND w.epoch = t.epoch"    \
      "   AND w.ledger_status = 'processing' AND w.call_card IS NOT NULL),"                        \
      " a.pinned_machine, (SELECT s.given_up_at IS NULL AND NOT EXISTS (SELECT 1"                  \
      "   FROM processes p WHERE p.spawn_id = s.spawn_id AND p.ended_at IS NOT NULL) AND NOT"      \
      "   EXISTS (SELECT 1 FROM machine_commands e WHERE e.spawn_id = s.spawn_id"                  \
      "   AND e.type = 'stop-agent' AND e.status = 'done') FROM machine_commands s"                \
      "   WHERE s.conversation = a.conversation AND s.role = a.role AND s.type <> 'stop-agent'"    \
      "   AND s.delivered_at IS NOT NULL ORDER BY s.command DESC LIMIT 1)"                         \
      " FROM agents a LEFT JOIN tasks t ON t.task = a.active_task LEFT JOIN machine_commands c"    \
      "   ON c.conversation = a.conversation AND c.role = a.role AND c.type <> 'stop-agent'"       \
      "   AND c.closed_at IS NULL WHERE a.conversation = ?1 AND a.role = ?2")                      \
    X(WHY_LAST_START, "SELECT MAX(command) FROM machine_commands WHERE conversation = ?1"          \
      " AND role = ?2 AND type <> 'stop-agent'")                                                   \
    X(WHY_TASK, "SELECT conversation, role, status, completed_at FROM tasks WHERE task = ?1")      \
    X(WHY_OPEN, "SELECT COUNT(*) FROM tasks WHERE conversation = ?1 AND completed_at IS NULL"      \
      " AND status <> 'queued'")
// clang-format on

enum look {
#define X(name, sql) LOOK_##name,
    LOOK_LIST(X)
#undef X
        LOOK_COUNT
};

/* How much of the one lies in the other. */
static inline int64_t overlap_ms(struct gap a, int64_t from_ms, int64_t to_ms)
{
    int64_t from = a.from_ms > from_ms ? a.from_ms : from_ms,
            to = a.to_ms < to_ms ? a.to_ms : to_ms;
    return to > from ? to - from : 0;
}

static inline int64_t later_ms(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

struct known_event {
    int64_t id;
    uint64_t hash;
};

struct known_conversation {
    int64_t last_seq, events_in_lane;
    bool has_ended;
    int64_t activity_ms; /* last event not written by the system */
    int64_t cancelled_window;
    bool turn_is_open;
    int64_t ended_tasks_in; /* tick in which a task ended with it */
    int64_t idle_in;        /* tick in which it was ended for being idle */
};

struct known_agent {
    bool is_stopped, was_stopped; /* by a person: now, and before this tick */
    bool may_be_stopped; /* or started: who asked for it had no answer when the server died */
    bool is_listening;
    char connection[24];
    uint64_t joined_in;    /* tick */
    int64_t beat_ms;       /* the listener's last sign of life */
    int64_t granted_ms;    /* it may have a lease since, whatever it did */
    int64_t unlistened_ms; /* since when nobody listens */
};

struct known_task {
    bool is_known;
    int64_t conversation;
    int role;
    int64_t epoch;
    int rank; /* how far it is within its epoch */
    int terminal_events;
    int64_t beat_ms;   /* of the worker, at most */
    int64_t forced_in; /* tick in which a rule's reason for its end was told */
    int64_t ended_in;
    bool ended_by_rule, ended_by_force; /* by a rule; or by a person */
};

/* An event, as it is looked at. */
struct told {
    int64_t id, conversation, seq, ts_ms;
    const char *type, *finality, *author, *payload, *kind;
    const struct json *data;
};

/* A row of an inbox. */
struct known_message {
    bool is_known, is_acknowledged; /* seen; and somebody was told that it is consumed */
    char end[12];                   /* how it ended; "": it is open */
    int64_t deliveries;             /* by inbox.receive */
    int64_t lost, rings;            /* the log tells of: handed back, rung for */
    char did[24];                   /* the last thing the log says was done to it */
    int64_t looked;                 /* by which look at all of them it was there */
};

struct checker {
    sqlite3_stmt *looks[LOOK_COUNT];
    struct known_event *events;
    size_t event_count, event_room;
    int64_t last_command;
    struct known_conversation *conversations; /* by number */
    size_t conversation_room;
    struct known_agent *agents; /* by conversation and role */
    size_t agent_room;
    struct known_task *tasks; /* by number */
    size_t task_room;
    struct known_message *messages; /* by number */
    size_t message_room;
    int64_t message_looks;
    struct gaps recorded; /* as the store has them */
    struct gaps truth;    /* when the server could not watch, by its own clock */
    size_t gap_events;    /* in the log when the last of them began */
    struct gap slept;     /* the last time the server stood still, however short */
    int64_t nap_from_ms;  /* it does not watch since; 0: it does */
    uint64_t commits_failed;
    bool has_doubts;                                 /* about what persons want: may_be_stopped */
    bool commit_failed;                              /* in this tick */
    int64_t refused_until_ms, refused_until_mono_ms; /* the store took no writes until then */
    int64_t rested_ms;
    int64_t rests;
    int64_t settle_by_ms;
    int64_t errors_seen;
};

struct ask;
struct sim;

sqlite3_stmt *look_at(struct sim *s, enum look look);
/* True if there is a row. Ends by itself when there is none. */
bool look_next(struct sim *s, sqlite3_stmt *q);
void look_end(struct sim *s, sqlite3_stmt *q); /* before the last row */
int64_t look_int(sqlite3_stmt *q, int column);
const char *look_text(sqlite3_stmt *q, int column); /* "" if NULL */
bool look_is_null(sqlite3_stmt *q, int column);

struct known_conversation *known_conversation(struct checker *c, int64_t conversation);
struct known_agent *known_agent(struct checker *c, int64_t conversation, int role);
struct known_task *known_task(struct checker *c, int64_t task);
struct known_message *known_message(struct checker *c, int64_t message);
/* When the lease of whoever has the task is over, as far as we know: `spawn` has claimed it. */
int64_t lease_over_ms(struct sim *s, int64_t task, int64_t lease_ms, const char *spawn);
int role_number(const char *role); /* -1: none of ours */
/* How far a task is within its epoch. */
int status_rank(const char *status);

/* The first of its kind: itself, unless it is a repeat. */
struct ask *root_of(const struct sim *s, const struct ask *a);
/* Whether its answer came with an effect, and is no repeat of one that was answered. */
bool has_effect(const struct sim *s, const struct ask *a);
/* And of none that was done for nobody: by a server that died before it could answer. */
bool has_new_effect(const struct sim *s, const struct ask *a);

/* ---- wishes.c ---- */

/* It was answered. */
void note_wish(struct sim *s, const struct ask *a);
/* Done or not: who asked does not know, and neither do we, until end_doubts(). */
void doubt_wish(struct sim *s, const struct ask *a);
void end_doubts(struct sim *s);
/* The commands of this tick were looked at. */
void wishes_are_known(struct checker *c);
/* A person's stop is undone by nobody else. */
void p14_a_stop_stands(struct sim *s, const char *type, int64_t conversation, const char *role,
                       int64_t command);
/* A row of LOOK_AGENTS. */
void p14_desired_is_a_persons(struct sim *s, sqlite3_stmt *q);

/* ---- watched.c ---- */

enum { LATE_MS = 1000 }; /* what a rule may take */

/* When `limit` of watched time has passed since `since`, by the gaps on record. */
int64_t due_ms(const struct checker *c, int64_t since_ms, int64_t limit_ms);
/* By more than that. */
bool is_late(const struct sim *s, int64_t due);
void read_gaps(struct sim *s);
/* Of that time, how much nobody could watch. */
int64_t unwatched_ms(const struct checker *c, int64_t from_ms, int64_t to_ms);
/* What was due in a sleep, be it too short for a gap, or just before it, can be done at its end. */
int64_t could_be_ms(const struct checker *c, int64_t due_ms);
/* The server has come, by its clock at this time. */
void watched_again(struct checker *c, int64_t now_ms);
/* Every time in which it did not watch is on record: with the first thing that is written, and a
 * second after it at the latest. */
void p16_gaps_are_on_record(struct sim *s);

/* ---- hosts.c ---- */

struct told;
/* What the log tells of machines, and of what was ordered from them. */
void note_offline(struct sim *s, const struct told *e);
void note_online(struct sim *s, const struct told *e);
void note_forgotten(struct sim *s, const struct told *e);
void p16_a_fence_is_watched(struct sim *s, const struct told *e);
void p16_an_order_had_its_time(struct sim *s, const struct told *e);
void p21_a_process_is_given_up_late(struct sim *s, const struct told *e);
/* A row of LOOK_AGENTS: nobody who is needed stays on a machine that is lost. */
void p3_nobody_is_bound_for_ever(struct sim *s, sqlite3_stmt *q);
/* Orders that a machine could confirm, and did not, are acted upon. */
void p9_orders_end(struct sim *s);
/* Its process may live on, and nobody minds: a person or the fence gave it up. */
bool is_given_up(const struct sim *s, const struct worker *w);

/* ---- inbox_checks.c ---- */

/* An event of the rules that look after inboxes. */
void inbox_told(struct sim *s, const char *kind, const struct json *data);
/* A call had this effect. */
void inbox_answered(struct sim *s, const struct ask *a, const struct json *result);
/* At rest; and all that is expensive. */
void inbox_at_rest(struct sim *s);
/* tool_checks.c: of tasks that wait for tools. */
void tools_at_rest(struct sim *s);
void inbox_look_at_all(struct sim *s);
