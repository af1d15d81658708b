/*
 * options.h: every setting of the server, in one table.
 *
 * A row gives key, type, default, range, environment name and help text; file, environment,
 * --set, `reeve config check`, `server.config` and docs/configuration.md all come from it.
 * Sources in rising order: default, file, environment, --set. Call them in that order, then check:
 *
 *     options_init(&o);
 *     if ((r = options_read_file(&o, path, &err)) < 0 || (r = options_read_env(&o, &err)) < 0 ||
 *         (r = options_set(&o, STR("watchdog.idle_ms=60000"), &err)) < 0 ||
 *         (r = options_check(&o, &err)) < 0)
 *         return r;
 *
 * Values are written alike in all of them and parsed by the same code: `true` or `false`, or a
 * whole number in decimal digits. Nothing is guessed: `1` is not a BOOL, `true`, `1e3`, `0x10`,
 * `010`, `+5`, `nan` and `"5"` are not numbers. Unknown keys, wrong types, negative and
 * out-of-range values, and a key set twice in one file are errors (ERR_CONFIG) that name the place
 * and, where one is near, the name that was probably meant:
 *
 *     reeve.conf:12: watchdog.idle_ms: "15m" is not a whole number
 *     environment REEVE_LIVENESS_TTL: no such option; did you mean REEVE_LIVENESS_TTL_SECONDS?
 *     --set watchdog.enabled: "1" is neither true nor false
 *
 * The file holds `section { key = value … }` and comments from # or // to the end of the line. A
 * file that is named has to be there. On any error the options stay as they were before the call.
 *
 * Names that begin with REEVE_<SECTION>_ belong to this table, so a misspelt one is refused; other
 * variables (REEVE_URL, a service manager's WATCHDOG_USEC) are none of its business.
 *
 * Times that the seeds name keep their own units, which end the key: `_ms`, `_seconds`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

/*
 * X(section, key, type, default, min, max, zero, environment, help)
 *   type: BOOL or INT. zero: OFF (0 turns the limit off), NEVER (0 is refused), VALUE (a number
 *   like any other). environment: REEVE_<SECTION>_<KEY> unless the protocol names another, written
 *   out so that it can be searched for; a test holds it to the rule. A section's rows stand
 *   together.
 */
// clang-format off
#define OPTION_LIST(X)                                                                             \
    X(watchdog, enabled, BOOL, 1, 0, 1, VALUE, "WATCHDOG_ENABLED",                                 \
      "cancel idle conversations (conversation.idle, conversation.global_idle)")                   \
    X(watchdog, interval_ms, INT, 300000, 1, OPTION_MS_MAX, NEVER, "WATCHDOG_INTERVAL_MS",         \
      "the safety-net cadence of the cancel rules")                                                \
    X(watchdog, idle_ms, INT, 900000, 0, OPTION_MS_MAX, OFF, "WATCHDOG_IDLE_MS",                   \
      "an open turn may be idle this long before the conversation is cancelled")                   \
    X(watchdog, global_idle_ms, INT, 0, 0, OPTION_MS_MAX, OFF, "WATCHDOG_GLOBAL_IDLE_MS",          \
      "a conversation with no open turn may be idle this long")                                    \
    X(runtime_controls, session_wall_clock_seconds, INT, 14400, 0, OPTION_SECONDS_MAX, OFF,        \
      "REEVE_SESSION_WALL_CLOCK_SECONDS",                                                          \
      "a session may run this long before it is blocked; resume gives it as much again")           \
    X(liveness, heartbeat_seconds, INT, 30, 1, OPTION_SECONDS_MAX, NEVER,                          \
      "REEVE_LIVENESS_HEARTBEAT_SECONDS", "how often participants are told to beat")               \
    X(liveness, ttl_seconds, INT, 60, 1, OPTION_SECONDS_MAX, NEVER, "REEVE_LIVENESS_TTL_SECONDS",  \
      "a listener that has not beaten for this long is disconnected")                              \
    X(liveness, active_ttl_seconds, INT, 60, 1, OPTION_SECONDS_MAX, NEVER,                         \
      "REEVE_LIVENESS_ACTIVE_TTL_SECONDS",                                                         \
      "a worker that has not beaten for this long loses its task")                                 \
    X(liveness, acknowledged_timeout_seconds, INT, 120, 0, OPTION_SECONDS_MAX, OFF,                \
      "REEVE_LIVENESS_ACKNOWLEDGED_TIMEOUT_SECONDS",                                               \
      "a claimed task whose worker is gone may stay unstarted this long")                          \
    X(liveness, pending_timeout_seconds, INT, 300, 0, OPTION_SECONDS_MAX, OFF,                     \
      "REEVE_LIVENESS_PENDING_TIMEOUT_SECONDS",                                                    \
      "a task may wait this long with nobody there before its agent is restarted")                 \
    X(liveness, unattended_work_seconds, INT, 900, 1, OPTION_SECONDS_MAX, NEVER,                   \
      "REEVE_LIVENESS_UNATTENDED_WORK_SECONDS",                                                    \
      "worker lease of a claim made with unattended: true")                                        \
    X(liveness, max_attempts, INT, 3, 1, 1000, NEVER, "REEVE_LIVENESS_MAX_ATTEMPTS",               \
      "a task is given up after this many attempts")                                               \
    X(task, max_seconds, INT, 10800, 0, OPTION_SECONDS_MAX, OFF, "REEVE_TASK_MAX_SECONDS",         \
      "a task may take this long in all, waiting and retries included")                            \
    X(pmo, watchdog_interval_seconds, INT, 5, 1, OPTION_SECONDS_MAX, NEVER,                        \
      "REEVE_PMO_WATCHDOG_INTERVAL_SECONDS",                                                       \
      "the safety-net cadence of the dispatch and reap rules")                                     \
    X(pmo, dispatched_retry_seconds, INT, 10, 0, OPTION_SECONDS_MAX, OFF,                          \
      "REEVE_PMO_DISPATCHED_RETRY_SECONDS",                                                        \
      "a dispatched task nobody claims is announced again this often")                             \
    X(pmo, dispatched_timeout_seconds, INT, 900, 0, OPTION_SECONDS_MAX, OFF,                       \
      "REEVE_PMO_DISPATCHED_TIMEOUT_SECONDS",                                                      \
      "a dispatched task nobody starts is reaped after this time")                                 \
    X(pmo, pending_wakeup_seconds, INT, 5, 0, OPTION_SECONDS_MAX, OFF,                             \
      "REEVE_PMO_PENDING_WAKEUP_SECONDS", "a pending inbox row is announced again this often")     \
    X(pmo, pending_wakeup_skip_seconds, INT, 300, 0, OPTION_SECONDS_MAX, OFF,                      \
      "REEVE_PMO_PENDING_WAKEUP_SKIP_SECONDS",                                                     \
      "an inbox row without a channel is skipped after this time")                                 \
    X(pmo, active_reap_seconds, INT, 1800, 0, OPTION_SECONDS_MAX, OFF,                             \
      "REEVE_PMO_ACTIVE_REAP_SECONDS",                                                             \
      "a running task without progress is reaped after this time")                                 \
    X(pmo, suspended_reap_seconds, INT, 7200, 0, OPTION_SECONDS_MAX, OFF,                          \
      "REEVE_PMO_SUSPENDED_REAP_SECONDS",                                                          \
      "a suspended task that nothing can wake is reaped after this time")                          \
    X(worker, watchdog_interval_seconds, INT, 5, 1, OPTION_SECONDS_MAX, NEVER,                     \
      "REEVE_WORKER_WATCHDOG_INTERVAL_SECONDS",                                                    \
      "the safety-net cadence of the inbox, tool and ledger rules")                                \
    X(worker, inbox_processing_timeout_seconds, INT, 300, 0, OPTION_SECONDS_MAX, OFF,              \
      "REEVE_WORKER_INBOX_PROCESSING_TIMEOUT_SECONDS",                                             \
      "an inbox row may be in processing this long before it is handed out again")                 \
    X(worker, suspend_timeout_seconds, INT, 30, 0, OPTION_SECONDS_MAX, OFF,                        \
      "REEVE_WORKER_SUSPEND_TIMEOUT_SECONDS",                                                      \
      "deadline of a tool call that asks for no longer one")                                       \
    X(restart, backoff_first_ms, INT, 1000, 0, OPTION_MS_MAX, OFF,                                 \
      "REEVE_RESTART_BACKOFF_FIRST_MS", "wait before the second restart; doubles from there")      \
    X(restart, backoff_max_ms, INT, 60000, 0, OPTION_MS_MAX, OFF, "REEVE_RESTART_BACKOFF_MAX_MS",  \
      "longest wait between restarts")                                                             \
    X(restart, burst, INT, 5, 0, 1000, OFF, "REEVE_RESTART_BURST",                                 \
      "this many failures within the window open the breaker")                                     \
    X(restart, window_seconds, INT, 600, 1, OPTION_SECONDS_MAX, NEVER,                             \
      "REEVE_RESTART_WINDOW_SECONDS", "the window in which failures are counted")                  \
    X(restart, stable_seconds, INT, 600, 0, OPTION_SECONDS_MAX, OFF,                               \
      "REEVE_RESTART_STABLE_SECONDS",                                                              \
      "after running this long an agent starts again with the first wait")                         \
    X(restart, command_deadline_seconds, INT, 120, 1, OPTION_SECONDS_MAX, NEVER,                   \
      "REEVE_RESTART_COMMAND_DEADLINE_SECONDS",                                                    \
      "a start or stop must be confirmed within this time")                                        \
    X(machine, heartbeat_seconds, INT, 30, 1, OPTION_SECONDS_MAX, NEVER,                           \
      "REEVE_MACHINE_HEARTBEAT_SECONDS", "how often a machine polls and reports")                  \
    X(machine, ttl_seconds, INT, 90, 1, OPTION_SECONDS_MAX, NEVER, "REEVE_MACHINE_TTL_SECONDS",    \
      "a machine that has not reported for this long is offline")                                  \
    X(machine, fence_seconds, INT, 300, 1, OPTION_SECONDS_MAX, NEVER,                              \
      "REEVE_MACHINE_FENCE_SECONDS", "work of an offline machine is held back this much longer")   \
    X(watch, gap_seconds, INT, 2, 1, OPTION_SECONDS_MAX, NEVER, "REEVE_WATCH_GAP_SECONDS",         \
      "a tick later than this is a gap, in which nobody is convicted")                             \
    X(net, body_bytes_max, INT, 1048576, 1024, 1 << 25, NEVER, "REEVE_NET_BODY_BYTES_MAX",         \
      "largest request body, and largest WebSocket message")                                       \
    X(net, header_bytes_max, INT, 16384, 1024, 1 << 20, NEVER, "REEVE_NET_HEADER_BYTES_MAX",       \
      "largest HTTP head")                                                                         \
    X(net, json_depth_max, INT, 64, 4, 1000, NEVER, "REEVE_NET_JSON_DEPTH_MAX",                    \
      "deepest nesting of a request")                                                              \
    X(net, connections_max, INT, 10000, 1, 1000000, NEVER, "REEVE_NET_CONNECTIONS_MAX",            \
      "connections at once")                                                                       \
    X(net, request_seconds, INT, 10, 1, 3600, NEVER, "REEVE_NET_REQUEST_SECONDS",                  \
      "a request must have arrived whole within this time")                                        \
    X(net, stall_seconds, INT, 30, 1, 3600, NEVER, "REEVE_NET_STALL_SECONDS",                      \
      "a peer that takes nothing of what is waiting for it is dropped after this time")            \
    X(net, ping_seconds, INT, 15, 1, 3600, NEVER, "REEVE_NET_PING_SECONDS",                        \
      "comment on an event stream, ping on a WebSocket")                                           \
    X(net, out_bytes_max, INT, 4194304, 65536, 1 << 30, NEVER, "REEVE_NET_OUT_BYTES_MAX",          \
      "most bytes that may wait for one peer before it is made to wait itself")
// clang-format on

#define OPTION_MS_MAX INT64_C(31536000000000) /* a thousand years */
#define OPTION_SECONDS_MAX (OPTION_MS_MAX / 1000)

/* Not `enum option`: that tag would clash with the struct of getopt.h. */
enum option_id {
#define X(section, key, ...) OPT_##section##_##key,
    OPTION_LIST(X)
#undef X
        OPTION_COUNT
};

enum option_type { OPTION_BOOL, OPTION_INT };
enum option_zero { OPTION_ZERO_OFF, OPTION_ZERO_NEVER, OPTION_ZERO_VALUE };
enum option_source { OPTION_FROM_DEFAULT, OPTION_FROM_FILE, OPTION_FROM_ENV, OPTION_FROM_FLAG };

struct option_row {
    const char *section, *key;
    enum option_type type;
    int64_t value; /* the default */
    int64_t min, max;
    enum option_zero zero;
    const char *env;
    const char *help;
};

extern const struct option_row option_rows[OPTION_COUNT];

struct options {
    int64_t value[OPTION_COUNT];
    enum option_source source[OPTION_COUNT];
};

void options_init(struct options *o); /* defaults */
int options_read_file(struct options *o, const char *path, struct err *err);
int options_read_env(struct options *o, struct err *err);
/* "section.key=value" */
int options_set(struct options *o, struct str assignment, struct err *err);
/* Rules between options (a TTL above its heartbeat, …). */
int options_check(const struct options *o, struct err *err);
/* {"watchdog.idle_ms":{"value":900000,"source":"default"}, …} */
void options_write(const struct options *o, struct json_out *w, const char *key);
/* The same, into an object that is open. */
void options_write_members(const struct options *o, struct json_out *w);
/* The table of docs/configuration.md. */
void options_write_markdown(struct buf *out);
const char *option_source_name(enum option_source source);

#define option_get(o, section, name) ((o)->value[OPT_##section##_##name])
