/*
 * door.h: what a path means, and who may pass.
 *
 * In the net thread: checks Host and Origin, authenticates, routes, and turns a request into input
 * for the core. Answers by itself what needs no core: health, metrics, errors.
 */
#pragma once

#include "base/buf.h"
#include "base/options.h"
#include "net/net.h"
#include "server/auth.h"
#include "server/core.h"

struct door {
    const struct options *options;
    struct auth *auth;
    const char *version;
    const char *listen_host; /* without the port */
    const char *const *allowed_hosts;
    size_t allowed_host_count;
    bool is_stopping; /* refuse new work */
    void *ctx;
    void (*submit)(void *ctx, struct core_input *in); /* takes it */
    void (*turn_end)(void *ctx);                      /* what was submitted is complete */
    void (*write_metrics)(void *ctx, struct buf *out);
    bool (*is_writable)(void *ctx);
};

/* The handlers of net.h, with a struct door as ctx. */
void door_request(void *ctx, struct conn *c, const struct http_head *head, struct str body);
void door_message(void *ctx, struct conn *c, struct str text);
void door_closed(void *ctx, struct peer *p);
void door_drained(void *ctx, struct peer *p);
void door_turn_end(void *ctx);
/* Ends the connection if its token is no longer good. */
void door_recheck(void *ctx, struct conn *c);
void door_write_error(void *ctx, struct buf *out, int status, const char *reason);
