/*
 * err.h: one list of everything that can go wrong.
 *
 * A function that can fail returns 0 or a negative code (-ERR_NOT_FOUND) from ERR_LIST. Each row
 * carries the JSON-RPC code and the exit status it turns into, and whether the same request may be
 * tried again unchanged. No code is ever chosen by looking at a text.
 *
 * Detail for a person goes into a `struct err *`, always the last parameter, untouched on success:
 *
 *     if (turn != expected)
 *         return err_set(err, ERR_INVALID_TURN, "the next turn is %lld", expected),
 *                err_int(err, "expectedTurn", expected);
 *
 * err_set() and the err_<type>() helpers return the negative code, so they can end a function. The
 * helpers add members to the `data` object of the error. Message and data are of fixed size: an
 * error never allocates, and what does not fit is left out (a data member is whole or absent).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/str.h"

/* X(name, JSON-RPC code, exit status, may be retried, default message) */
#define ERR_LIST(X)                                                                         \
    X(PARSE, -32700, 1, false, "the text is not valid JSON")                                \
    X(INVALID_REQUEST, -32600, 1, false, "not a JSON-RPC 2.0 request")                      \
    X(NO_METHOD, -32601, 1, false, "no such method")                                        \
    X(INVALID_PARAMS, -32602, 1, false, "invalid params")                                   \
    X(INTERNAL, -32603, 70, false, "internal error")                                        \
    X(TURN_ALREADY_OPEN, -32010, 1, false, "another turn is open")                          \
    X(CONVERSATION_FINALIZED, -32011, 1, false, "the conversation has ended")               \
    X(INVALID_TURN, -32012, 1, false, "not the next turn")                                  \
    X(FINALITY_RULE, -32013, 1, false, "only a message may close a turn or a conversation") \
    X(NOT_FOUND, -32014, 1, false, "not found")                                             \
    X(CONVERSATION_BLOCKED, -32015, 1, false, "the conversation is blocked")                \
    X(IDEMPOTENCY_CONFLICT, -32016, 1, false, "this key was used with another body")        \
    X(SUPERSEDED, -32017, 1, false, "a newer connection holds this place")                  \
    X(STALE_EPOCH, -32018, 1, false, "the work was handed out anew since")                  \
    X(INVALID_TRANSITION, -32019, 1, false, "it is in no state for that")                   \
    X(PRECONDITION_FAILED, -32020, 1, false, "the precondition does not hold")              \
    X(UNAUTHENTICATED, -32021, 1, false, "no valid token")                                  \
    X(FORBIDDEN, -32022, 1, false, "not allowed")                                           \
    X(RATE_LIMITED, -32023, 75, true, "too many at once")                                   \
    X(TOO_LARGE, -32024, 1, false, "over a size limit")                                     \
    X(UNAVAILABLE, -32026, 75, true, "the store cannot take writes now")                    \
    /* Not on the wire as such: they reach a client as INTERNAL, or end a command. */       \
    X(USAGE, -32603, 2, false, "wrong usage")                                               \
    X(CONFIG, -32603, 2, false, "wrong configuration")                                      \
    X(IO, -32603, 70, false, "input or output failed")                                      \
    X(LOCKED, -32603, 1, false, "in use by another server")                                 \
    X(NO_SERVER, -32603, 69, true, "the server cannot be reached")

enum err_code {
    ERR_NONE = 0,
#define X(name, rpc, exit_status, retry, text) ERR_##name,
    ERR_LIST(X)
#undef X
        ERR_COUNT
};

enum { ERR_MESSAGE_BYTES = 256, ERR_DATA_BYTES = 512 };

struct err {
    int code; /* enum err_code, positive; 0 while untouched */
    char message[ERR_MESSAGE_BYTES];
    char data[ERR_DATA_BYTES]; /* JSON members without braces: "k":v,"k":v */
};

#define ERR_INIT ((struct err){0})

/* All return -code. A NULL err is allowed everywhere: the caller wants the code only. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) _printf_(3, 4);
int err_str(struct err *e, const char *key, struct str value);
int err_int(struct err *e, const char *key, int64_t value);
int err_json(struct err *e, const char *key, struct str json); /* as it is */
/* "context: message": for a caller that knows more about where. */
int err_prefix(struct err *e, const char *fmt, ...) _printf_(2, 3);

/* All take a positive or a negative code. */
const char *err_name(int code); /* "TURN_ALREADY_OPEN" */
const char *err_text(int code);
int err_rpc_code(int code);
int err_exit_status(int code);
bool err_may_retry(int code);
/* The other way round, for clients: ERR_INTERNAL if no row has this JSON-RPC code. */
int err_from_rpc_code(int64_t rpc_code);
