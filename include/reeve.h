/*
 * reeve.h: taking part in a conversation that a reeve server oversees.
 *
 * A program that works for an agent (a role of a conversation) joins, waits for a task, claims it,
 * starts it, works, and completes or fails it:
 *
 *     struct reeve *r;
 *     reeve_connect(url, token, &r);
 *     if (reeve_join(r, 12, "builder") == REEVE_OK)
 *         while (reeve_wait(r, -1) == REEVE_TASK) {
 *             if (reeve_claim(r, 0) != REEVE_OK || reeve_start(r) != REEVE_OK)
 *                 continue;
 *             …                                   // work on reeve_task_content(r)
 *             reeve_complete(r, "{\"done\":true}");
 *         }
 *     reeve_close(r);                             // leaves, too
 *
 * From the claim to the end of the task a thread of the library beats for it, so that the server
 * knows that somebody is working. If the task is taken away meanwhile, or the agent is told to
 * stop, reeve_news() says so and the descriptor reeve_news_fd() becomes readable. What the program
 * does with that is its own decision; results that come too late are refused (REEVE_STALE).
 *
 * A task may wait for tools, for hours and without a process: see "waiting for tools" below. A
 * program that suspends its tasks has two kinds of work to wait for:
 *
 *     while ((news = reeve_wait(r, -1)) == REEVE_TASK || news == REEVE_RESUME) {
 *         if (news == REEVE_TASK)
 *             taken = reeve_claim(r, 0) == REEVE_OK && reeve_start(r) == REEVE_OK;
 *         else
 *             taken = reeve_resume(r) == REEVE_OK && reeve_applied(r, 0) == REEVE_OK;
 *         if (taken)
 *             …                                   // and then complete, fail or suspend it
 *     }
 *
 * When the server goes away
 *
 *     Calls go on trying, at growing intervals of up to 5 seconds, until the server answers, the
 *     patience of the handle is over (reeve_set_patience) or the program wants to stop
 *     (reeve_set_stop_fd). After a restart of the server nothing has to be done: a connection that
 *     the server does not know any more joins again by itself. Every call may be repeated: none of
 *     them does its work twice.
 *
 * Results
 *
 *     Functions return one of enum reeve_result: 0, a positive value that is news rather than a
 *     failure, or a negative one. After a negative value reeve_error_text() says what happened.
 *
 * Threads
 *
 *     A handle belongs to one thread at a time; different handles are independent. reeve_news() and
 *     reeve_news_fd() may be called from any thread at any time between reeve_connect() and
 *     reeve_close(). The library's own thread blocks all signals. A handle must not be used in a
 *     child after fork(); its descriptors are closed by exec.
 *
 * Strings
 *
 *     Those given are copied. Those returned belong to the handle and live until the next call with
 *     it. "JSON" means the text of one JSON value. All text is UTF-8.
 *
 * Running out of memory ends the process. The interface is stable: enumerations and functions are
 * only added, and struct reeve is never seen from outside.
 */
#ifndef REEVE_H
#define REEVE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define REEVE_API __attribute__((visibility("default")))
#else
#define REEVE_API
#endif

struct reeve;

enum reeve_result {
    REEVE_OK = 0,
    /* News. */
    REEVE_TASK = 1,        /* there is a task to claim */
    REEVE_NONE = 2,        /* nothing to do, or nothing more to claim */
    REEVE_INTERRUPTED = 3, /* the stop descriptor is readable */
    REEVE_STOP = 4,        /* somebody wants the agent to stop */
    REEVE_SUPERSEDED = 5,  /* a newer connection listens in this one's place */
    REEVE_ENDED = 6,       /* the conversation has ended */
    REEVE_STALE = 7,       /* the task was taken away: it is somebody else's, or over */
    REEVE_RESUME = 8,      /* the results that a suspended task waits for are there to be taken */
    /* Failures. */
    REEVE_REFUSED = -1,     /* by the server; see reeve_error_name() */
    REEVE_UNREACHABLE = -2, /* no server, for as long as the patience lasted */
    REEVE_MISUSE = -3       /* a call out of order, or with an argument that makes no sense */
};

/* ---- the handle ---- */

/*
 * Makes a handle; does not connect yet, so the server may be down. `url` is scheme, host and port,
 * as in "http://127.0.0.1:7433"; `token` a token of scope agent for the role, or operator. With
 * NULL for either, both come from the environment (REEVE_URL and REEVE_TOKEN, which reeve gives to
 * the agents it starts), else from the default data folder. REEVE_MISUSE if the URL is none; then
 * there is no handle. Uses libcurl's curl_global_init(), which programs with threads and a libcurl
 * before 7.84 must call themselves first.
 */
REEVE_API int reeve_connect(const char *url, const char *token, struct reeve **ret);
/* The server whose data folder this is, with the operator's token. It may come back at another
 * port.
 */
REEVE_API int reeve_connect_folder(const char *data, struct reeve **ret);
/* Leaves if it has joined, as reeve_leave() does, and frees everything. NULL is allowed. */
REEVE_API void reeve_close(struct reeve *r);

/*
 * A descriptor of the caller's (an eventfd, a pipe, a signalfd): as soon as it is readable every
 * call that waits returns REEVE_INTERRUPTED, and so does every later one, until it is not. -1, the
 * default: none. Leaving is not stopped by it.
 */
REEVE_API void reeve_set_stop_fd(struct reeve *r, int fd);
/* How long a call goes on trying while the server cannot be reached. -1, the default: for ever;
 * 0: one attempt. */
REEVE_API void reeve_set_patience(struct reeve *r, int64_t ms);
/*
 * Where to say, once per outage, that the server is away and tried again. The line has no line feed
 * at its end. It may be called by the library's thread, never by two at once. NULL, the default:
 * nobody is told.
 */
REEVE_API void reeve_set_log(struct reeve *r, void (*log)(void *ctx, const char *line), void *ctx);

/* ---- listening ---- */

/*
 * From now on this handle listens for the agent; an older listener is told that it was superseded.
 * Waits while the conversation is blocked. REEVE_OK, REEVE_ENDED, REEVE_SUPERSEDED (the token is of
 * an older process of this agent), REEVE_INTERRUPTED, or a failure. A handle may join elsewhere
 * once it has left.
 */
REEVE_API int reeve_join(struct reeve *r, int64_t conversation, const char *role);
/*
 * Waits for a task, at most `timeout_ms` (-1: no limit); the waiting itself is the listener's sign
 * of life. Goes on waiting while the conversation is blocked, and joins again if the server has
 * forgotten us. REEVE_TASK, REEVE_RESUME, REEVE_NONE when the time is over, REEVE_STOP,
 * REEVE_SUPERSEDED, REEVE_ENDED, REEVE_INTERRUPTED, or a failure. REEVE_RESUME comes only to agents
 * whose tasks are suspended.
 */
REEVE_API int reeve_wait(struct reeve *r, int64_t timeout_ms);
/*
 * Stops listening: tells the server, for at most 2 seconds and once, and stops beating. A task that
 * is still claimed is not given back; its lease runs out. REEVE_OK also if the server did not hear
 * it: it will find out by the lease.
 */
REEVE_API int reeve_leave(struct reeve *r);

/* ---- working ---- */

enum {
    /* Nobody will beat: the claim lasts longer (liveness.unattended_work_seconds). For programs
     * that hand the task to somebody else and leave. */
    REEVE_UNATTENDED = 1
};

/*
 * Takes the task that reeve_wait() has announced, or the agent's active one. REEVE_OK; REEVE_NONE
 * if it is gone (wait again); REEVE_SUPERSEDED, REEVE_ENDED, REEVE_INTERRUPTED, or a failure.
 * Unless `flags` has REEVE_UNATTENDED, a thread beats for it from now on.
 */
REEVE_API int reeve_claim(struct reeve *r, unsigned flags);
/* Work begins. REEVE_OK, REEVE_STALE, REEVE_INTERRUPTED, or a failure. */
REEVE_API int reeve_start(struct reeve *r);
/*
 * What the library's thread has learned: REEVE_OK, REEVE_STALE if the task was taken away,
 * REEVE_STOP if the agent should stop. Stays as it is until the next claim. Any thread.
 */
REEVE_API int reeve_news(const struct reeve *r);
/* Readable while reeve_news() is not REEVE_OK; for poll(), not for read(). Any thread. */
REEVE_API int reeve_news_fd(const struct reeve *r);
/*
 * The work has moved. `note` is for people, `progress` JSON for programs; either may be NULL.
 * Without a sign of progress for pmo.active_reap_seconds a task is taken for hung, however well
 * the thread beats. REEVE_OK, REEVE_STALE, REEVE_INTERRUPTED, or a failure.
 */
REEVE_API int reeve_progress(struct reeve *r, const char *note, const char *progress);
/*
 * The same without waiting for the server: the library's thread says it with its next beat.
 * `count` is any number that changes as the work moves (of bytes, of steps); -1: nothing has moved.
 * `note`, at most 4000 bytes, is for people, and no progress by itself; NULL: as it was. It is kept
 * with the task, and shown when nothing else is left of it. Any thread, between the claim and the
 * end of the task.
 */
REEVE_API void reeve_set_progress(struct reeve *r, int64_t count, const char *note);
/*
 * The end of the task, and of the beating for it. `deliverable` is JSON or NULL, `reason` a text of
 * at most 4000 bytes. REEVE_OK, REEVE_STALE, REEVE_INTERRUPTED, or a failure; after the latter two
 * the task is still ours, still being beaten for, and the call may be repeated.
 */
REEVE_API int reeve_complete(struct reeve *r, const char *deliverable);
REEVE_API int reeve_fail(struct reeve *r, const char *reason);

/* ---- waiting for tools ---- */

/*
 * The task waits for tools. `calls` is JSON, a list as the method task.suspend takes it:
 *
 *     [{"toolCallId":"c1","name":"search","arguments":{…},"options":{"timeout_seconds":600}}]
 *
 * Afterwards the handle has no task in hand, nobody beats, and nobody needs to: the program may
 * wait for the results, or end. Whoever carries out a call reports with the method tool.report, or
 * with `reeve task report`. Once each call has a result, or its time is over, reeve_wait() answers
 * REEVE_RESUME, to this program or to one that was started later. REEVE_OK, REEVE_STALE,
 * REEVE_INTERRUPTED, or a failure; after the latter two the task is still ours.
 */
REEVE_API int reeve_suspend(struct reeve *r, const char *calls);
/*
 * Takes the results that reeve_wait() has announced; reeve_results() and the task's number and
 * content are known then. They are lent, for at least 10 seconds: what is not applied by then is
 * announced again. REEVE_OK; else wait again: REEVE_NONE if they are gone, REEVE_INTERRUPTED, or a
 * failure.
 */
REEVE_API int reeve_resume(struct reeve *r);
/*
 * The results are part of the work now: the task is in progress again, with another epoch, and a
 * thread beats for it unless `flags` has REEVE_UNATTENDED. REEVE_OK; REEVE_NONE if somebody else
 * goes on with it (wait again); REEVE_INTERRUPTED, or a failure; after the latter two it may be
 * repeated.
 */
REEVE_API int reeve_applied(struct reeve *r, unsigned flags);

/* ---- what is known ---- */

/* Of the task claimed or resumed last; 0, 0 and "null" if there was none. */
REEVE_API int64_t reeve_task_number(const struct reeve *r);
REEVE_API int64_t reeve_task_epoch(const struct reeve *r);
REEVE_API const char *reeve_task_content(const struct reeve *r); /* JSON */
/* The whole Task as the server described it last: JSON, see docs/protocol.md. */
REEVE_API const char *reeve_task_json(const struct reeve *r);
/* What reeve_resume() took last: JSON, [{"toolCallId", "status", "result"?, "error"?}], where
 * status is success, failed, canceled or timeout; "[]" if there was nothing. */
REEVE_API const char *reeve_results(const struct reeve *r);
/* What this handle is called at the server: its connectionId. */
REEVE_API const char *reeve_connection_id(const struct reeve *r);

/* After a negative result: a sentence for people; the name of the server's error ("FORBIDDEN"; one
 * of this side has a name of its own), and its JSON-RPC code. */
REEVE_API const char *reeve_error_text(const struct reeve *r);
REEVE_API const char *reeve_error_name(const struct reeve *r);
REEVE_API int reeve_error_code(const struct reeve *r);
/* "the conversation has ended": what a result means. Never NULL. */
REEVE_API const char *reeve_result_text(int result);
/* "0.1.0" */
REEVE_API const char *reeve_version(void);

#ifdef __cplusplus
}
#endif

#endif
