/*
 * shim_notify.h: what an agent says of itself through NOTIFY_SOCKET (sd_notify(3)).
 *
 * READY=1, WATCHDOG=1 and STATUS=… are heard; other assignments mean nothing here. A sender waiting
 * for a barrier is let go: a descriptor that comes along is closed.
 *
 * The address is an abstract name, which anybody on the host can send to. Believed is a sender that
 * is of our tree, by the pid that the kernel vouches for. One that has ended and been reaped before
 * we looked cannot be asked for its parents any more: it is believed if it was of our user, who
 * could act as the agent in any case.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"

enum { NOTIFY_TEXT_BYTES_MAX = 512 };

struct notify_handlers {
    void (*on_ready)(void *ctx); /* the first time only */
    void (*on_beat)(void *ctx);
    void (*on_text)(void *ctx, struct str text); /* as it came, at most NOTIFY_TEXT_BYTES_MAX */
};

struct shim_notify {
    struct loop *loop;
    const struct notify_handlers *handlers;
    void *ctx;
    char *variable; /* "NOTIFY_SOCKET=@…", for the agent; NULL: there is no socket */
    struct loop_io io;
    struct loop_timer pause; /* beats and texts are passed on once a second at most */
    bool is_ready, has_beat, has_text;
    char text[NOTIFY_TEXT_BYTES_MAX];
    size_t text_len;
};

int shim_notify_open(struct shim_notify *n, struct loop *loop, const char *spawn_id,
                     const struct notify_handlers *handlers, void *ctx, struct err *err);
/* What was sent and not yet looked at, and what waits for its second. */
void shim_notify_flush(struct shim_notify *n);
void shim_notify_close(struct shim_notify *n);
