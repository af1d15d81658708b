/*
 * caller.h: blocking calls to the server, for a thread that may not block.
 *
 * A caller is a thread of its own that makes one call at a time, on a connection that it keeps.
 * The loop hands it a call and goes on; `done` runs in the loop's thread when it is answered, or
 * could not be. Everything else is the loop's thread's, so there is no state to share but the one
 * call that is under way.
 *
 *     caller_new(name, loop, &source, done, ctx)
 *     caller_start(c, "machine.poll", &params_take, ms_max)     not while one is under way
 *       … done(ctx, &answer): a result, or an error
 *     caller_take(c)          from loop_on_wake(): runs `done` if there is an answer
 *     caller_free(c)          gives up what is under way, and joins the thread
 *
 * The server is looked for when the first call is made, and again after each call that could not
 * reach it: it may have another port by then, and its token file another token.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "client/endpoint.h"

struct caller;

struct caller_answer {
    int code;                  /* 0, or a negative code with `err` */
    const struct json *result; /* lives until `done` returns */
    const char *url;           /* of the server that answered; NULL if none was found */
    struct err err;
};

typedef void caller_done_fn(void *ctx, const struct caller_answer *answer);

/* The strings of `source` must outlive it. */
struct caller *caller_new(const char *name, struct loop *loop, const struct endpoint_source *source,
                          caller_done_fn *done, void *ctx);
struct caller *caller_free(struct caller *c); /* NULL */

bool caller_is_busy(const struct caller *c);
/* Takes what is in `params`. `method` is a literal. */
void caller_start(struct caller *c, const char *method, struct buf *params_take, int64_t ms_max);
void caller_take(struct caller *c);
