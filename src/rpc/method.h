/*
 * method.h: the method table.
 *
 * A row is everything there is to know about a method: name, who may call it, whether it writes,
 * which member carries its idempotency key, its params, its result and its documentation. Dispatch,
 * validation, authorisation, docs/protocol.md and "every method has a test" all read this table.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "base/peer.h"
#include "domain/agent.h"
#include "domain/append.h"
#include "domain/conversation.h"
#include "domain/machine.h"
#include "domain/participant.h"
#include "domain/token.h"
#include "domain/work.h"
#include "follow/subscription.h"
#include "rpc/params.h"
#include "watch/engine.h"

struct rpc_call;
struct rpc_request;

/* What methods need of the server around them. */
struct rpc_host {
    void *ctx;
    void (*write_info)(void *ctx, struct json_out *out);
    void (*write_config)(void *ctx, struct json_out *out);
    struct ladder *ladder;
    /* Manual clock only: takes the call and finishes it when `now` has been stepped and nothing is
     * left to do, or fails at once. ERR_FORBIDDEN if the clock is real. */
    int (*advance_clock)(void *ctx, struct rpc_request *request, struct rpc_call *call, int64_t ms,
                         bool is_gap, struct err *err);
    /* Takes the call: executed again when what `key` stands for is touched, or its time is over. */
    void (*wait)(void *ctx, struct rpc_request *request, struct rpc_call *call, int64_t key);
    /* Takes the call and finishes it when the pass is over. False if one is under way. */
    bool (*run_once)(void *ctx, struct rpc_request *request, struct rpc_call *call,
                     enum rule_id only);
    /* Takes the call and finishes it later (rpc_call_done), or fails at once. */
    int (*begin_backup)(void *ctx, struct rpc_request *request, struct rpc_call *call,
                        struct str path, struct err *err);
};

/* What a handler sees. */
struct method_context {
    struct work *work;
    struct subscriptions *subscriptions;
    const struct rpc_host *host;
    struct arena *arena; /* the request's */
    const struct grant *grant;
    struct rpc_request *request;
    struct rpc_call *call;
    const struct json *params;     /* checked */
    const struct request_key *key; /* of log appends; NULL if none */
};

/* A handler may answer later: it has kept the call, and rpc_call_done() follows. */
enum { METHOD_PARKED = 1 };

/* Writes the members of the result object. 0, METHOD_PARKED, or a negative code. */
typedef int method_fn(struct method_context *c, struct json_out *out, struct err *err);

enum method_kind {
    METHOD_READ,
    METHOD_WRITE,  /* takes idempotencyKey, kept 24 h */
    METHOD_APPEND, /* takes clientRequestId (or idempotencyKey), kept with the event */
    METHOD_CONTROL /* changes no stored state; takes no key */
};

enum {
    MAY_OPERATOR = 1 << SCOPE_OPERATOR,
    MAY_MACHINE = 1 << SCOPE_MACHINE,
    MAY_AGENT = 1 << SCOPE_AGENT,
    MAY_READ = 1 << SCOPE_READ,
    MAY_ALL = MAY_OPERATOR | MAY_MACHINE | MAY_AGENT | MAY_READ,
};

struct method {
    const char *name;
    enum method_kind kind;
    unsigned scopes;
    const struct param *params;
    method_fn *fn;
    const char *result; /* for the documentation */
    const char *doc;
};

extern const struct method method_table[];
extern const size_t method_count;

const struct method *method_find(struct str name); /* NULL */
/* docs/protocol.md */
void method_write_docs(struct buf *out);

/* The rows, by file. */
method_fn method_conversation_create, method_conversation_get, method_conversation_list,
    method_conversation_end;
method_fn method_message_send, method_trace_append, method_turn_clear, method_attachment_get;
method_fn method_event_list, method_event_subscribe, method_event_unsubscribe;
method_fn method_server_info, method_server_config, method_server_backup;
method_fn method_clock_advance, method_clock_gap;
method_fn method_conversation_resume, method_conversation_why, method_task_why, method_machine_why;
method_fn method_watchdog_rules, method_watchdog_run_once;
method_fn method_lifecycle_ensure, method_lifecycle_stop, method_lifecycle_get_ensured,
    method_command_list;

/* The members of watchdog.runOnce's answer. */
void method_write_pass(struct json_out *out, const struct pass *pass, bool is_running);
method_fn method_token_create, method_token_list, method_token_revoke;

method_fn method_participant_join, method_participant_heartbeat, method_participant_leave,
    method_participant_list;
method_fn method_task_create, method_task_wait, method_task_claim, method_task_start,
    method_task_progress, method_task_complete, method_task_fail, method_task_cancel,
    method_task_get, method_task_list;

method_fn method_task_suspend, method_tool_report, method_task_resume, method_task_applied;
method_fn method_inbox_enqueue, method_inbox_receive, method_inbox_consume, method_inbox_list,
    method_inbox_get;
method_fn method_card_get, method_card_list;
method_fn method_agent_start, method_agent_stop, method_agent_restart, method_agent_set,
    method_agent_list, method_agent_why;
/* The machine that calls, as its name, instance and token say; a sign of life. */
int method_find_machine(struct method_context *c, struct machine **ret, struct err *err);
method_fn method_agent_logs, method_machine_log;
method_fn method_machine_register, method_machine_poll, method_machine_report, method_machine_list,
    method_machine_forget;

/* For message.send: a task for the role, with this content. */
struct task;
int method_create_task(struct method_context *c, int64_t conversation, struct str role,
                       const struct json *content, struct task **ret, struct err *err);
/* The task that is named; what a token may not see is not there, and an agent's is for its own. */
int method_find_task(struct method_context *c, struct task **ret, struct err *err);
/* The same to read: a task that the token may not see is not there. */
int method_see_task(struct method_context *c, struct task **ret, struct err *err);
/* A value as text, in the request's arena. */
struct str method_json_text(struct method_context *c, const struct json *v);
/* May a long poll that has found nothing wait (on)? Then it is parked; else it must answer. */
bool method_may_wait(struct method_context *c, int64_t timeout_ms, int64_t key);

/* Rows that many methods share. */
#define ID_MAX INT64_C(9007199254740991) /* what a JavaScript client can hold */
#define CONVERSATION_ROW                                                            \
    {                                                                               \
        .name = "conversation", .type = PARAM_INT, .required = true, .max = ID_MAX, \
        .doc = "number"                                                             \
    }
#define ROLE_ROW                                              \
    {                                                         \
        .name = "role", .type = PARAM_NAME, .required = true, \
        .doc = "of the agent; compared in lower case"         \
    }
#define CONNECTION_ROW                                                            \
    {                                                                             \
        .name = "connectionId", .type = PARAM_STRING, .required = true, .min = 1, \
        .max = CONNECTION_ID_BYTES_MAX, .doc = "made up by the process, its own"  \
    }
#define MACHINE_ROW                                              \
    {                                                            \
        .name = "machine", .type = PARAM_NAME, .required = true, \
        .doc = "its name; compared in lower case"                \
    }
#define INSTANCE_ROW                                                                    \
    {                                                                                   \
        .name = "instance", .type = PARAM_STRING, .required = true, .min = 1,           \
        .max = MACHINE_TEXT_BYTES_MAX, .doc = "made up at its start; the newest counts" \
    }
#define TASK_ROW                                                                      \
    {                                                                                 \
        .name = "task", .type = PARAM_INT, .required = true, .min = 1, .max = ID_MAX, \
        .doc = "number"                                                               \
    }
#define EPOCH_ROW                                                            \
    {                                                                        \
        .name = "epoch", .type = PARAM_INT, .required = true, .max = ID_MAX, \
        .doc = "that it was claimed with"                                    \
    }
#define KEY_ROW                                                                             \
    {                                                                                       \
        .name = "idempotencyKey", .type = PARAM_STRING, .min = 1, .max = RPC_KEY_BYTES_MAX, \
        .doc = "the same key again: the first answer, no second effect"                     \
    }
enum { RPC_KEY_BYTES_MAX = 256 };
enum { WAIT_MS_MAX = 300000 };     /* of a long poll */
enum { RPC_PAGE_BYTES = 4 << 20 }; /* a page ends behind the item that brings it to this */

/* Their params. */
extern const struct param params_conversation_create[], params_conversation[],
    params_conversation_list[], params_conversation_end[];
extern const struct param params_message_send[], params_trace_append[], params_turn_clear[],
    params_attachment_get[];
extern const struct param params_event_list[], params_event_subscribe[], params_event_unsubscribe[];
extern const struct param params_none[], params_server_backup[], params_clock_advance[];
extern const struct param params_conversation_resume[], params_watchdog_run_once[];
extern const struct param params_lifecycle[], params_lifecycle_get[], params_command_list[];
extern const struct param params_task_suspend[], params_tool_report[], params_task_resume[],
    params_task_applied[];
extern const struct param params_inbox_enqueue[], params_inbox_receive[], params_inbox_consume[],
    params_inbox_list[], params_inbox_get[];
extern const struct param params_card_get[], params_card_list[];
extern const struct param params_agent[], params_agent_why[], params_agent_set[],
    params_agent_list[];
extern const struct param params_agent_logs[], params_machine_log[], params_machine_why[];
extern const struct param params_machine_register[], params_machine_forget[], params_machine_poll[],
    params_machine_report[];
extern const struct param params_participant[], params_participant_heartbeat[],
    params_participant_list[];
extern const struct param params_task_create[], params_task_wait[], params_task_claim[],
    params_task_epoch[], params_task_progress[], params_task_complete[], params_task_fail[],
    params_task_cancel[], params_task[], params_task_list[];
extern const struct param params_token_create[], params_token_revoke[];
