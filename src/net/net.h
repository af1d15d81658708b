/*
 * net.h: sockets. Accepts connections, reads HTTP requests and WebSocket messages, writes answers.
 *
 * One thread, one loop. It knows bytes, limits and time-outs; what a request means is its owner's
 * business (struct net_handlers). Promises to the owner:
 *   - request() gets only whole, well-formed requests, one at a time per connection: the next
 *     pipelined one comes after the answer to this one was queued, so answers keep their order;
 *   - message() gets only whole, valid UTF-8 text messages;
 *   - each connection that was announced to the owner by either is closed() exactly once.
 *
 * Limits (options.h, section net): sizes, connections at once, time for a request to arrive, time
 * for a peer to take what waits for it. A peer that sends but does not read is not read from either
 * once its output is above the mark. Over a limit: a clear answer where the protocol has one, the
 * connection closed, nobody else affected.
 *
 * A connection that is to be closed with an answer on the way first sends all of it, then closes
 * its sending side and reads on for a moment: closing at once could destroy the answer (RST).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/options.h"
#include "base/peer.h"
#include "net/http.h"

struct net;
struct conn;
struct tls;

struct net_handlers {
    void *ctx;
    /* Must answer once: conn_respond(), conn_accept_socket(), or a message to conn_peer() later.
     * head and body are valid during the call only. */
    void (*request)(void *ctx, struct conn *c, const struct http_head *head, struct str body);
    void (*message)(void *ctx, struct conn *c, struct str text);
    void (*closed)(void *ctx, struct peer *p);
    void (*drained)(void *ctx, struct peer *p);
    void (*turn_end)(void *ctx); /* after everything of a turn: hand over what it brought */
    /* Body of an answer that net itself gives (bad request, time-out, …): JSON. */
    void (*write_error)(void *ctx, struct buf *out, int status, const char *reason);
};

struct net_stats {
    uint64_t accepted, refused, requests, messages, bytes_in, bytes_out, dropped_stalled;
    size_t connections;
};

/* loop, options and tls (may be NULL) are borrowed. */
struct net *net_new(struct loop *loop, const struct options *options, struct tls *tls,
                    const struct net_handlers *handlers);
struct net *net_free(struct net *n); /* NULL; closes everything at once */

/* "127.0.0.1:7433", "[::1]:0", "0.0.0.0:80". *ret_port is the port taken. ERR_LOCKED if the port is
 * in use, ERR_CONFIG or ERR_USAGE if the address is no good; each says what to do. */
int net_listen(struct net *n, const char *address, int *ret_port, struct err *err);
/* 0, or ERR_USAGE that says how an address is written. */
int net_check_address(const char *address, struct err *err);
/* Is the host part of an address loopback only? */
bool net_address_is_loopback(const char *address);
void net_stop_accepting(struct net *n);
/* Also ends every connection, with a reason, once its answers are out. */
void net_shut_down(struct net *n);
size_t net_connection_count(const struct net *n);
const struct net_stats *net_stats(const struct net *n);

/* fn may end the connection it is given. */
void net_each(struct net *n, void (*fn)(void *ctx, struct conn *c), void *ctx);
/* Delivers messages from the core; empties the outbox. */
void net_deliver(struct net *n, struct outbox *o);

/* ---- for handlers ---- */

struct peer *conn_peer(struct conn *c);
bool conn_is_loopback(const struct conn *c); /* the other end is on this machine */
/* Whatever the owner wants to keep with a connection; freed with `release` when it closes. */
void conn_set_data(struct conn *c, void *data, void (*release)(void *data));
void *conn_data(const struct conn *c);
/* extra_headers: "Name: value\r\n"…, or "". For HEAD the body's length is told, not sent. */
void conn_respond(struct conn *c, int status, const char *content_type, const char *extra_headers,
                  struct str body);
/* Answers 101 and goes on as a WebSocket; false if the head is not a valid upgrade (answered).
 * `protocol` is the subprotocol spoken here: it is named in the answer if the client offers it. */
bool conn_accept_socket(struct conn *c, const struct http_head *head, const char *protocol,
                        struct str greeting);
/* Ends a WebSocket (with this code) or a stream, with the reason. No-op for others. */
void conn_end(struct conn *c, int code, const char *reason);
