/*
 * rpc.h: JSON-RPC 2.0, from bytes to effects to bytes.
 *
 * A request is one HTTP body or one WebSocket message: a call or a batch. It goes through three
 * hands: the net thread parses it (rpc_request_new: JSON, envelope, method, params, scope), the
 * core executes it inside a tick (rpc_execute: each call in its own savepoint), and after the
 * commit the reply is written (rpc_write_reply). If the commit failed, rpc_fail_all() turns what
 * had succeeded into UNAVAILABLE first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/peer.h"
#include "rpc/method.h"

/*
 * A result can be as large as the largest event, that is, the largest request, and a page more. The
 * results of a batch are all held until the reply: once they have RPC_BATCH_BYTES_MAX, the calls
 * left in it fail with TOO_LARGE.
 */
enum { RPC_BATCH_MAX = 1000, RPC_RESULT_BYTES_MAX = 64 << 20, RPC_BATCH_BYTES_MAX = 16 << 20 };
/* Room for any reply: results, and ids as long as the request. */
enum { RPC_REPLY_BYTES_MAX = 4 * RPC_RESULT_BYTES_MAX };

struct rpc_call {
    const struct method *method; /* NULL: failed before it was found */
    const struct json *params;   /* NULL: none */
    struct str id;               /* as written; p == NULL: a notification */
    struct request_key key;
    int code;              /* 0, or a negative error */
    const struct err *err; /* if code != 0 */
    bool is_parked;
    int64_t wait_until_us; /* of a long poll, once it has been executed; monotonic */
    int64_t waits_for;     /* a handler's own note for when it is executed again */
    struct buf result;     /* JSON, if code == 0 */
};

struct rpc_request {
    struct rpc_request *next; /* for queues */
    struct arena arena;
    struct peer *peer;
    struct grant grant;
    bool is_socket; /* came over a WebSocket: may subscribe */
    bool is_batch;
    size_t count, parked;
    size_t executed; /* calls done with, or parked */
    size_t kept;     /* of them, those whose tick is committed: rpc_fail_all() leaves them alone */
    struct rpc_call *calls;
    size_t result_bytes;   /* of the calls executed so far */
    size_t reserved_bytes; /* of them, counted against the peer until the reply is */
};

/* Never fails: what is wrong with the text is in the calls. Copies the text. Takes a ref of peer.
 */
struct rpc_request *rpc_request_new(struct peer *peer, const struct grant *grant, bool is_socket,
                                    struct str text, unsigned json_depth_max);
struct rpc_request *rpc_request_free(struct rpc_request *r); /* NULL */

/* Executes every call that is still good, up to one that parks: those behind it come when it is
 * done (rpc_has_more), so that a batch keeps its order. */
void rpc_execute(struct rpc_request *r, struct work *w, struct subscriptions *subs,
                 const struct rpc_host *host);
/* The tick was lost: every call fails with UNAVAILABLE; one that only read may have read what
 * never happened. */
void rpc_fail_all(struct rpc_request *r);
bool rpc_has_more(const struct rpc_request *r);
/* A parked call is to be executed once more. */
void rpc_call_again(struct rpc_request *r, struct rpc_call *call);
/* A parked call is done: code < 0 and err, or the members of its result are in call->result. */
void rpc_call_done(struct rpc_request *r, struct rpc_call *call, int code, const struct err *err);

/* HTTP status to go with it: 200; 204 if all were notifications (nothing is written); 401. */
int rpc_write_reply(const struct rpc_request *r, struct buf *out);
/* What went wrong inside is for the log: leaves ERR_INTERNAL with data.ref to find it there. Other
 * errors stay as they are. Returns the code to show. */
int rpc_hide_internal(struct err *err, int code, const char *method);
/* A reply to something that never became a request: {"jsonrpc":"2.0","id":null,"error":…}. */
void rpc_write_error(struct buf *out, struct str id, const struct err *err);
