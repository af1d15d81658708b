/*
 * rpc.h: reeve's JSON-RPC, as far as appending needs it; HTTP and WebSocket put it into frames.
 */
#pragma once

#include "conn.h"
#include "peer.h"

/* `conversation.create` with one agent, "a". */
void rpc_write_create(struct buf *out);
/* The number out of its answer. */
int64_t rpc_read_create(struct str body);

/*
 * `message.send` to c->stream. The id and the clientRequestId hold the request's number, both
 * CONN_NUMBER_DIGITS wide: so a request has the same length each time, and ret_at[] says where the
 * digits go.
 */
void rpc_write_send(struct buf *out, const struct conn *c, size_t ret_at[2]);
/* Whether `body` is the success of request number c->done. */
enum reply rpc_check_send(const struct conn *c, struct str body);

/* `participant.join` to c->stream as role "a", and the heartbeat of the same, numbered as above. */
void rpc_write_join(struct buf *out, const struct conn *c);
void rpc_write_beat(struct buf *out, const struct conn *c, size_t ret_at[2]);
enum reply rpc_check_beat(const struct conn *c, struct str body);

/*
 * A task's life in c->stream: create, claim, start, complete. Writes request c->step, and reads its
 * answer: the task and its epoch go to the connection.
 */
enum { RPC_CYCLE_STEPS = 4 };
void rpc_write_cycle(struct buf *out, const struct conn *c);
enum reply rpc_read_cycle(struct conn *c, struct str body);
