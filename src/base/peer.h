/*
 * peer.h: the other end of a connection, as seen by two threads.
 *
 * The net thread owns the socket; the core thread produces what is to be sent. Between them stands
 * a `struct peer`: a reference-counted handle that outlives the connection, and a count of the
 * bytes that wait to be written. That count is the back-pressure: the core sends live events only
 * to peers below their high-water mark, and is told (`wants_drain`) when one has room again.
 *
 * A `struct message` is bytes for one peer. The core collects the messages of a tick in an outbox
 * and hands them over in one go, after the commit; the net thread frames them as the connection
 * needs it (HTTP response, WebSocket text frame, event stream).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct peer {
    atomic_int refs;
    atomic_size_t queued_bytes;
    atomic_bool is_closed;   /* set once by the net thread; nothing sent later arrives */
    atomic_bool wants_drain; /* set by the core: tell me when queued_bytes has fallen */
    size_t high_water_bytes;
    void *conn;              /* net thread only; NULL once closed */
    uint64_t passed_over_in; /* core thread only: the tick that left a request of it for later */
};

struct peer *peer_new(void *conn, size_t high_water_bytes);
struct peer *peer_ref(struct peer *p);
struct peer *peer_unref(struct peer *p); /* NULL */
/* Below the mark? If not, a drain notice will follow (unless it closes). Core thread. */
bool peer_has_room(struct peer *p);

struct message {
    struct message *next;
    struct peer *peer;
    struct buf data;
    int status; /* HTTP status of a response, or one of the following */
};

enum {
    MESSAGE_DATA = 0,    /* a WebSocket text frame, or a piece of an event stream */
    MESSAGE_CLOSE = -1,  /* end the connection, we cannot go on; data is the reason */
    MESSAGE_EXPEL = -3,  /* end the connection, it may not stay; data is the reason */
    MESSAGE_STREAM = -2, /* answer with an event stream; data is its first piece */
};

struct outbox {
    struct message *first, *last;
};

/* Takes the content of *data and counts it against the peer. */
void outbox_add(struct outbox *o, struct peer *p, int status, struct buf *data);
struct message *outbox_take_first(struct outbox *o); /* NULL if empty */
void outbox_append(struct outbox *to, struct outbox *from);
void message_free(struct message *m);
void outbox_release(struct outbox *o); /* they are not sent, and no longer counted */
