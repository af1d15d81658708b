/*
 * reeve_handle.h: what the files of libreeve share; the interface is include/reeve.h.
 *
 * A *line* is a connection to the server that belongs to one thread: the caller's, or that of the
 * heartbeats. Internal functions return 0, LINE_STOPPED, or a negative code of err.h with `err`
 * filled; reeve_outcome() turns that into a result of reeve.h, at the door and nowhere else.
 */
#pragma once

#include <pthread.h>
#include <reeve.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "client/client.h"

enum {
    LINE_STOPPED = CLIENT_STOPPED,
    REEVE_CALL_MS_MAX = 30000,
    REEVE_LEAVE_MS_MAX = 2000,
    REEVE_POLL_MS_MAX = 25000,
    REEVE_REQUEST_BYTES_MAX = 48 * 1024 * 1024,
    REEVE_CONNECTION_BYTES = 33, /* with the NUL */
};

/* Said once per outage, whichever thread meets it first. */
struct outage {
    pthread_mutex_t mutex;
    bool is_told;
    void (*log)(void *ctx, const char *line);
    void *ctx;
};

struct line {
    const struct endpoint_source *source;
    struct client *client; /* NULL until the server was found */
    struct outage *outage;
    int stop_fd;
    int64_t wait_ms; /* before the next attempt */
};

struct beat {
    struct line line;
    pthread_t thread;
    bool is_running;
    int wake_fd; /* eventfd: the thread should end */
};

struct reeve {
    struct endpoint_source source; /* its strings are `strings` */
    char *strings[7];
    struct outage outage;
    struct line line;
    int64_t patience_ms;
    struct err err;
    char connection[REEVE_CONNECTION_BYTES];

    bool has_joined; /* as far as the server may know */
    int64_t conversation;
    char *role;
    int64_t heartbeat_ms;

    int64_t offered;  /* by the last wait; 0: nothing */
    bool was_refused; /* the last claim: what was offered was gone */
    bool has_task;    /* claimed, and not over as far as we know */
    int64_t task, epoch;
    char *task_json, *content;

    struct beat beat;
    int news; /* atomic */
    int news_fd;
};

/* A handle for whatever server `source` means; the strings are copied. */
int reeve_connect_source(const struct endpoint_source *source, struct reeve **ret, struct err *err);
/* What the last negative result was about. */
const struct err *reeve_last_err(const struct reeve *r);
int reeve_outcome(int code);

/* ---- lines ---- */

/* One attempt. */
int line_call(struct line *l, const char *method, const struct buf *params, int64_t ms_max,
              struct arena *a, const struct json **ret, struct err *err);
/* As long as it is only the server's absence, until deadline_us (monotonic; INT64_MAX: for ever).
 */
int line_call_until(struct line *l, const char *method, const struct buf *params, int64_t ms_max,
                    int64_t deadline_us, struct arena *a, const struct json **ret, struct err *err);
/* 0 after the time, LINE_STOPPED if stop_fd was readable first. */
int line_pause(const struct line *l, int64_t ms);
/* After an attempt that failed for want of a server: how long to wait before the next one; tells
 * the log, once per outage. */
int64_t line_lost(struct line *l, const struct err *err);
void line_release(struct line *l);

/* ---- the place ---- */

/* {"conversation":…,"role":…,"connectionId":…, and the object is left open. */
void place_write(const struct reeve *r, struct json_out *w);
/* One participant.join on this line; *ret_heartbeat_ms: how often to beat. */
int place_join(const struct reeve *r, struct line *l, int64_t *ret_heartbeat_ms, struct err *err);
int64_t reeve_deadline_us(int64_t ms); /* from now; -1: INT64_MAX */

/* ---- heartbeats ---- */

void beat_start(struct reeve *r);
void beat_stop(struct reeve *r);
