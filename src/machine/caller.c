/*
 * caller.c: see caller.h.
 *
 * One mutex guards `job`, `is_answered` and `is_ending`; all else belongs to the thread while a job
 * is there, and to the loop's thread while none is. Ending rings an eventfd that the client waits
 * on together with its socket, so a long poll does not hold up the end of the machine.
 *
 * Rejected: libcurl's sockets in our own loop (client.c says why), and a pool of threads (two calls
 * at a time are all a machine ever has: one that waits for commands, one that reports).
 */
#include "machine/caller.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"
#include "client/client.h"

enum job { JOB_NONE, JOB_GIVEN, JOB_ANSWERED };

struct caller {
    struct loop *loop;
    struct endpoint_source source;
    caller_done_fn *done;
    void *ctx;
    pthread_t thread;
    int stop_fd;
    pthread_mutex_t mutex;
    pthread_cond_t given;
    enum job job;
    bool is_ending;
    /* the job */
    const char *method;
    struct buf params;
    int64_t ms_max;
    struct arena arena;
    struct caller_answer answer;
    struct client *client; /* the thread's own */
};

/* ---- the thread ---- */

static int call(struct caller *c, struct caller_answer *ret)
{
    const struct client_limits limits = {.ms_max = c->ms_max, .stop_fd = c->stop_fd};
    int r = c->client ? 0 : client_open(&c->source, &c->client, &ret->err);
    if (r == 0)
        r = client_call_within(c->client, c->method, buf_str(&c->params), &limits, &c->arena,
                               &ret->result, &ret->err);
    if (r == CLIENT_STOPPED)
        r = err_set(&ret->err, ERR_NO_SERVER, "given up");
    if (r < 0 && c->client) /* another address, or another token, next time */
        client_find_again(c->client);
    ret->url = c->client ? client_url(c->client) : NULL;
    return r;
}

static bool await_job(struct caller *c)
{
    pthread_mutex_lock(&c->mutex);
    while (c->job != JOB_GIVEN && !c->is_ending)
        pthread_cond_wait(&c->given, &c->mutex);
    bool has_job = !c->is_ending;
    pthread_mutex_unlock(&c->mutex);
    return has_job;
}

static void *run(void *ctx)
{
    struct caller *c = ctx;
    while (await_job(c)) {
        c->answer = (struct caller_answer){.err = ERR_INIT};
        c->answer.code = call(c, &c->answer);
        pthread_mutex_lock(&c->mutex);
        c->job = JOB_ANSWERED;
        pthread_mutex_unlock(&c->mutex);
        loop_wake(c->loop);
    }
    c->client = client_close(c->client);
    return NULL;
}

/* ---- the loop's side ---- */

struct caller *caller_new(const char *name, struct loop *loop, const struct endpoint_source *source,
                          caller_done_fn *done, void *ctx)
{
    struct caller *c = mem_zalloc(sizeof *c);
    *c = (struct caller){
        .loop = loop,
        .source = *source,
        .done = done,
        .ctx = ctx,
        .stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .given = PTHREAD_COND_INITIALIZER,
    };
    REQUIRE_F(c->stop_fd >= 0, "eventfd: %s", strerror(errno));
    int r = pthread_create(&c->thread, NULL, run, c);
    REQUIRE_F(r == 0, "pthread_create: %s", strerror(r));
    pthread_setname_np(c->thread, name);
    return c;
}

bool caller_is_busy(const struct caller *c)
{
    struct caller *mine = (struct caller *)c;
    pthread_mutex_lock(&mine->mutex);
    bool is_busy = c->job != JOB_NONE;
    pthread_mutex_unlock(&mine->mutex);
    return is_busy;
}

void caller_start(struct caller *c, const char *method, struct buf *params_take, int64_t ms_max)
{
    REQUIRE(!caller_is_busy(c));
    c->method = method;
    buf_release(&c->params);
    c->params = *params_take;
    *params_take = BUF_INIT(params_take->max);
    c->ms_max = ms_max;
    arena_clear(&c->arena);
    pthread_mutex_lock(&c->mutex);
    c->job = JOB_GIVEN;
    pthread_cond_signal(&c->given);
    pthread_mutex_unlock(&c->mutex);
}

void caller_take(struct caller *c)
{
    pthread_mutex_lock(&c->mutex);
    bool is_answered = c->job == JOB_ANSWERED;
    if (is_answered)
        c->job = JOB_NONE;
    pthread_mutex_unlock(&c->mutex);
    if (!is_answered)
        return;
    /* `done` may start the next call, which clears the arena: the answer's is put aside. */
    struct arena arena = c->arena;
    c->arena = ARENA_INIT;
    struct caller_answer answer = c->answer;
    _cleanup_free_ char *url = answer.url ? mem_strdup(answer.url) : NULL;
    answer.url = url;
    c->done(c->ctx, &answer);
    arena_release(&arena);
}

struct caller *caller_free(struct caller *c)
{
    if (!c)
        return NULL;
    pthread_mutex_lock(&c->mutex);
    c->is_ending = true;
    pthread_cond_signal(&c->given);
    pthread_mutex_unlock(&c->mutex);
    eventfd_write(c->stop_fd, 1);
    pthread_join(c->thread, NULL);
    close(c->stop_fd);
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->given);
    buf_release(&c->params);
    arena_release(&c->arena);
    free(c);
    return NULL;
}
