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

/* What the program wants to be said with the next beat. */
struct said {
    pthread_mutex_t mutex;
    int64_t count;          /* -1: none */
    char *note;             /* NULL: none */
    int64_t notes, told_to; /* how many there were, and which of them the server has heard */
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

    int64_t offered;       /* by the last wait; 0: nothing */
    int64_t offered_epoch; /* of a task that can be resumed; -1: it is one to claim */
    bool was_refused;      /* the last claim: what was offered was gone */
    bool has_task;         /* claimed, and not over as far as we know */
    int64_t task, epoch;
    char *task_json, *content;
    bool is_resuming;    /* results were taken, and are not applied */
    char *results, *ids; /* JSON: what was taken, and the calls it belongs to */
    int64_t keyed_calls; /* answered so far: the next has a key of its own */

    struct beat beat;
    struct said said;
    int news; /* atomic */
    int news_fd;
    bool is_ending; /* atomic: the task is being handed in, and so not taken away */
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

/* ---- the task in hand ---- */

/* {"task":…,"epoch":…, and the object is left open; -ERR_USAGE if there is none. */
int hand_begin(struct reeve *r, struct json_out *w);
/* A text that must be JSON becomes a member; NULL: none. */
int hand_add_json(struct reeve *r, struct json_out *w, struct arena *a, const char *key,
                  const char *text);
/* Calls, for as long as the patience lasts, and keeps the Task of the answer. */
int hand_call(struct reeve *r, const char *method, const struct buf *params, struct arena *a,
              const struct json **ret);
/* It is ours from now on: no news of it yet, and a thread that beats unless it is unattended. */
void hand_take(struct reeve *r, int64_t task, int64_t epoch, unsigned flags);
void hand_forget(struct reeve *r);
/* What the Task says it is to be done. */
void hand_keep_task(struct reeve *r, const struct json *task);
/* It was canceled, or handed to somebody else, or cannot be had for the moment. */
bool hand_is_gone(int code);
/* The result of a call about the task in hand; `is_over`: it was its end, if it has worked. */
int hand_outcome(struct reeve *r, int code, bool is_over);

/* ---- heartbeats ---- */

void beat_start(struct reeve *r);
void beat_stop(struct reeve *r);
/* There are no news, and what was said is not about the task to come. */
void beat_forget(struct reeve *r);
