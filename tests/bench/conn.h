/*
 * conn.h: one connection of the load generator, and its bytes.
 *
 * Byte protocols (HTTP, WebSocket, RESP) share conn_connect(), conn_receive() and conn_flush().
 * libpq brings its own buffers and socket calls and uses `pg` instead of `in` and `out`.
 *
 * A connection is opened and prepared with a blocking socket, one after another, and made
 * non-blocking for the measured part. Whatever goes wrong on the way makes a measurement void, so
 * it ends the program with a message: there is no error path to write.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>

#include "base/buf.h"
#include "base/macro.h"
#include "base/str.h"

struct pg_conn;

/* Where to, and as whom: the same for all connections of a run. */
struct target {
    struct sockaddr_in address;
    char host[INET_ADDRSTRLEN];
    const char *port;
    const char *secret; /* bearer token or password; "" for none */
    struct str payload; /* printable, needs no escaping anywhere */
};

struct conn {
    const struct target *target;
    unsigned index;
    int fd;
    int64_t stream;      /* the conversation, stream or column value it appends to */
    uint64_t sent, done; /* requests, replies: replies come in the order of requests */
    struct buf in, out;
    size_t in_at, out_at; /* consumed so far */
    struct buf request;   /* what is sent each time, but for the numbers in it */
    size_t number_at[2];  /* where the request's number stands, CONN_NUMBER_DIGITS wide; 0: no */
    struct pg_conn *pg;
    unsigned step;       /* of a task cycle: how many of its requests are answered */
    int64_t task, epoch; /* of the task under way; beanstalkd: task is the job */
    char entry[48];      /* of the task under way (Redis, PostgreSQL) */
    bool nonblocking;
    bool failed; /* an error has come for the reply under way (PostgreSQL) */
};

enum { CONN_NUMBER_DIGITS = 12, CONN_BYTES_MAX = 1 << 20 };

_noreturn_ void die(const char *fmt, ...) _printf_(1, 2);

void conn_init(struct conn *c, const struct target *target, unsigned index);
void conn_release(struct conn *c);
/* `source`, if not NULL, is the address to connect from. */
void conn_connect(struct conn *c, const struct in_addr *source);
void conn_set_nonblocking(struct conn *c);

/* One recv(). A blocking socket waits, for a time that no working server needs. */
void conn_receive(struct conn *c);
/* What has been received and not been consumed. NUL-terminated. */
struct str conn_pending(const struct conn *c);
void conn_consume(struct conn *c, size_t n);
/* Sends what is waiting; true if some is still waiting. */
bool conn_flush(struct conn *c);

/* Gives back the memory of buffers that hold nothing. */
void conn_trim(struct conn *c);

/* Writes number c->sent into its places in c->request. */
void conn_number_request(struct conn *c);
void conn_format_number(uint64_t number, char ret[CONN_NUMBER_DIGITS]);
