/*
 * client.h: talking to a server, one request at a time, and following its events.
 *
 *     client_open(&source, &client, err)
 *     client_call(client, "conversation.get", params, &arena, &result, err)
 *     client_close(client)
 *
 * Calls are synchronous, on one connection that is kept. A call that fails gives the code of err.h
 * that belongs to the server's JSON-RPC code, with its message and data; a server that cannot be
 * reached, or does not answer in time, is ERR_NO_SERVER. Nothing is sent twice: whether to repeat a
 * request whose answer got lost is the caller's decision, with the same key.
 *
 * A stream delivers the events of one conversation, or of all, through a function of the caller
 * while client_stream_wait() runs; it waits for the caller's own descriptors too, so one thread is
 * enough. When the server goes away the stream connects again, at growing intervals, and goes on
 * after the last event delivered: no gap, no repeat.
 *
 * libcurl stays behind client.c. Not thread-safe: a client belongs to one thread.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "client/endpoint.h"

enum { CLIENT_RESPONSE_BYTES_MAX = 64 * 1024 * 1024 };

struct client;
struct client_stream;

/* The strings of `source` must outlive the client. Finds the server, but does not connect yet. */
int client_open(const struct endpoint_source *source, struct client **ret, struct err *err);
struct client *client_close(struct client *c); /* NULL */
const char *client_url(const struct client *c);

/* `params` is compact JSON text, an object or array. The result lives in the arena. */
int client_call(struct client *c, const char *method, struct str params, struct arena *a,
                const struct json **ret, struct err *err);

/*
 * The same within a limit of time, and given up (CLIENT_STOPPED) as soon as `stop_fd` is readable;
 * -1: nothing stops it. What was sent may have been done: only its answer is not waited for.
 */
enum { CLIENT_STOPPED = 1 };
struct client_limits {
    int64_t ms_max;
    int stop_fd;
};
int client_call_within(struct client *c, const char *method, struct str params,
                       const struct client_limits *limits, struct arena *a, const struct json **ret,
                       struct err *err);
/* After ERR_NO_SERVER: the server may be back at another address. Keeps the old one if it cannot
 * be told. */
void client_find_again(struct client *c);

struct client_stream_handler {
    /* Non-zero ends client_stream_wait() with that value. `data` lives until it returns. */
    int (*event)(void *ctx, int64_t id, struct str data);
    /* Once per outage: the stream is broken and will be resumed. */
    void (*lost)(void *ctx, const char *why);
    void *ctx;
};

enum { CLIENT_ALL = -1, CLIENT_FROM_NOW = -1 };

/*
 * conversation: its number or CLIENT_ALL. after_id: a global id, 0 for all, or CLIENT_FROM_NOW,
 * which means from the moment of connecting, and of connecting again as long as no event has come.
 */
struct client_stream *client_stream_new(struct client *c, int64_t conversation, int64_t after_id,
                                        const struct client_stream_handler *handler);
struct client_stream *client_stream_free(struct client_stream *s); /* NULL; before its client */

/*
 * Waits until events were delivered, one of `fds` is ready (see its revents) or the time is over
 * (-1: no limit); which one it was does not matter to a caller that looks at its own state. 0, what
 * the event function returned, or a negative code: the server refuses the stream, or has never
 * been there.
 */
int client_stream_wait(struct client_stream *s, struct pollfd *fds, size_t count, int timeout_ms,
                       struct err *err);

/* "7.88.1" */
const char *client_library_version(void);
