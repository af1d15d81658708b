/*
 * reeve_beat.c: the thread that says that somebody is working.
 *
 * It lives from the claim to the end of the task, has a connection of its own, and is ended at any
 * moment through its eventfd, also in the middle of a call. It reads the place and the task, which
 * nobody writes while it runs, and tells the program only through `news`. A beat that came too late
 * costs nothing: it joins again at once, and the task stays ours by its epoch (L22). If somebody
 * else listens by now, so be it: a worker need not be the listener.
 *
 * Between two beats it waits at the server, not here: a worker's task.wait is answered the moment
 * the task is taken away (P8). If that cannot be had it waits here, and the next beat tells.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "client/reeve_handle.h"

enum { BEAT_MS_MAX = 10000 };

/* ---- what passes between the threads ---- */

static void tell(struct reeve *r, int news)
{
    const uint64_t one = 1;
    int none = REEVE_OK;
    if (news == REEVE_STALE && __atomic_load_n(&r->is_ending, __ATOMIC_ACQUIRE))
        return; /* by our own hand */
    if (__atomic_compare_exchange_n(&r->news, &none, news, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        REQUIRE(write(r->news_fd, &one, sizeof one) == sizeof one);
}

static bool says(const struct json *answer, const char *key, const char *what)
{
    const struct json *m = json_get(answer, key);
    return m && m->type == JSON_STRING && str_is(m->string, what);
}

static bool is_stale(const struct json *answer)
{
    const struct json *m = json_get(answer, "staleEpoch");
    return m && m->type == JSON_BOOL && m->boolean;
}

void reeve_set_progress(struct reeve *r, int64_t count, const char *note)
{
    pthread_mutex_lock(&r->said.mutex);
    r->said.count = count;
    if (note && (!r->said.note || strcmp(note, r->said.note) != 0)) {
        free(r->said.note);
        r->said.note = mem_strdup(note);
        r->said.notes++;
    }
    pthread_mutex_unlock(&r->said.mutex);
}

/* Returns which note it was. */
static int64_t write_said(struct reeve *r, struct json_out *w)
{
    struct said *s = &r->said;
    pthread_mutex_lock(&s->mutex);
    if (s->count >= 0)
        json_int(w, "progress", s->count);
    if (s->note && s->told_to < s->notes)
        json_stringz(w, "note", s->note);
    int64_t notes = s->notes;
    pthread_mutex_unlock(&s->mutex);
    return notes;
}

void beat_forget(struct reeve *r)
{
    uint64_t count;
    REQUIRE(!r->beat.is_running);
    pthread_mutex_lock(&r->said.mutex);
    free(r->said.note);
    r->said.note = NULL;
    r->said.count = -1;
    pthread_mutex_unlock(&r->said.mutex);
    __atomic_store_n(&r->news, REEVE_OK, __ATOMIC_RELEASE);
    while (read(r->news_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
}

/* ---- beats ---- */

static int send_beat(struct reeve *r, struct line *l, struct arena *a, const struct json **ret,
                     struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    place_write(r, &w);
    json_int(&w, "task", r->task);
    json_int(&w, "epoch", r->epoch);
    int64_t notes = write_said(r, &w);
    json_end(&w);
    int code = line_call(l, "participant.heartbeat", &params, BEAT_MS_MAX, a, ret, err);
    if (code == 0)
        r->said.told_to = notes; /* this thread's own */
    return code;
}

/* One beat and what follows from its answer. *ret_wait_ms: until the next one. */
static int beat_once(struct reeve *r, int64_t *heartbeat_ms, int64_t *ret_wait_ms)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct line *l = &r->beat.line;
    struct err err = ERR_INIT;
    const struct json *answer;
    int code = send_beat(r, l, &a, &answer, &err);
    bool should_stop = code == 0 && says(answer, "directive", "stop");
    if (code == 0 && is_stale(answer))
        tell(r, REEVE_STALE);
    else if (should_stop)
        tell(r, REEVE_STOP);
    if (code == 0 && !should_stop && says(answer, "status", "rejoin_required"))
        code = place_join(r, l, heartbeat_ms, &err);
    *ret_wait_ms = *heartbeat_ms;
    if (code < 0 && err_may_retry(code))
        *ret_wait_ms = MIN(line_lost(l, &err), *heartbeat_ms);
    else if (code < 0)
        tell(r, code == -ERR_CONVERSATION_BLOCKED ? REEVE_STOP : REEVE_STALE);
    return code == LINE_STOPPED ? LINE_STOPPED : 0;
}

/* ---- between beats ---- */

static int wait_at_server(struct reeve *r, int64_t ms, struct arena *a, const struct json **ret)
{
    _cleanup_buf_ struct buf params = BUF_INIT(REEVE_REQUEST_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    struct err unheard = ERR_INIT;
    place_write(r, &w);
    json_int(&w, "timeoutMs", ms);
    json_int(&w, "task", r->task);
    json_int(&w, "epoch", r->epoch);
    json_end(&w);
    return line_call(&r->beat.line, "task.wait", &params, ms + BEAT_MS_MAX, a, ret, &unheard);
}

/* False if there is no use in asking again. */
static bool hear(struct reeve *r, const struct json *answer)
{
    if (says(answer, "status", "none"))
        return true;
    if (says(answer, "status", "stale"))
        tell(r, REEVE_STALE);
    else if (says(answer, "status", "stop") || says(answer, "status", "ended"))
        tell(r, REEVE_STOP);
    return false;
}

/* Until the next beat is due; LINE_STOPPED if the thread should end. */
static int pause_between(struct reeve *r, int64_t ms)
{
    bool is_told = reeve_news(r) != REEVE_OK;
    int64_t until_us = clock_mono_us() + ms * 1000, left_ms = ms;
    while (!is_told && left_ms > 0) {
        _cleanup_(arena_release) struct arena a = ARENA_INIT;
        const struct json *answer;
        int code = wait_at_server(r, MIN(left_ms, (int64_t)REEVE_POLL_MS_MAX), &a, &answer);
        if (code == LINE_STOPPED)
            return code;
        is_told = code < 0 || !hear(r, answer);
        left_ms = (until_us - clock_mono_us()) / 1000;
    }
    return line_pause(&r->beat.line, MAX(left_ms, (int64_t)0));
}

static void *run(void *ctx)
{
    struct reeve *r = ctx;
    int64_t heartbeat_ms = r->heartbeat_ms, wait_ms = r->heartbeat_ms;
    while (pause_between(r, wait_ms) == 0)
        if (beat_once(r, &heartbeat_ms, &wait_ms) == LINE_STOPPED)
            break;
    return NULL;
}

/* Signals are for the program's threads. */
void beat_start(struct reeve *r)
{
    sigset_t all, before;
    REQUIRE(!r->beat.is_running);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&r->beat.thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    REQUIRE_F(error == 0, "pthread_create: %s", strerror(error));
    r->beat.is_running = true;
}

void beat_stop(struct reeve *r)
{
    uint64_t count = 1;
    if (!r->beat.is_running)
        return;
    REQUIRE(write(r->beat.wake_fd, &count, sizeof count) == sizeof count);
    REQUIRE(pthread_join(r->beat.thread, NULL) == 0);
    while (read(r->beat.wake_fd, &count, sizeof count) < 0 && errno == EINTR)
        ;
    r->beat.is_running = false;
    r->beat.line.wait_ms = 0;
    line_release(&r->beat.line);
}

int reeve_news(const struct reeve *r)
{
    return __atomic_load_n(&r->news, __ATOMIC_ACQUIRE);
}

int reeve_news_fd(const struct reeve *r)
{
    return r->news_fd;
}
