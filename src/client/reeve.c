/*
 * reeve.c: the handle of libreeve: making it, asking it, ending it.
 *
 * Owns everything that reeve.h hides. The caller's thread uses `line`; the thread of the heartbeats
 * has a line of its own, so that no call waits for another. What both touch is `news` and
 * `is_ending`, which are atomic, and the outage and what is said, which have a mutex each; the
 * place (conversation, role, connection) is written only while that thread is not running.
 *
 * A crash of the program leaves a lease that runs out; nothing of this is stored.
 *
 * Rejected: callbacks for news (they would run in a thread that the program does not know), and one
 * connection for both threads (a long poll would hold back the heartbeats).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/random.h"
#include "client/reeve_handle.h"

#ifndef REEVE_VERSION
#define REEVE_VERSION "0.1.0-dev"
#endif

static int new_event_fd(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    REQUIRE_F(fd >= 0, "eventfd: %s", strerror(errno));
    return fd;
}

/* A copy of a source whose strings are the handle's. */
static void copy_source(struct reeve *r, const struct endpoint_source *source)
{
    const char *given[] = {source->data,    source->server,    source->token_file,
                           source->env_url, source->env_token, source->xdg_state_home,
                           source->home};
    _Static_assert(ARRAY_LEN(given) == ARRAY_LEN(r->strings), "every string of a source");
    for (size_t i = 0; i < ARRAY_LEN(given); i++)
        r->strings[i] = given[i] ? mem_strdup(given[i]) : NULL;
    r->source = (struct endpoint_source){.data = r->strings[0],
                                         .server = r->strings[1],
                                         .token_file = r->strings[2],
                                         .env_url = r->strings[3],
                                         .env_token = r->strings[4],
                                         .xdg_state_home = r->strings[5],
                                         .home = r->strings[6]};
}

/* A server that is away will come; a URL that is none will not become one. */
static int check_source(const struct endpoint_source *source, struct err *err)
{
    struct endpoint endpoint;
    struct err found = ERR_INIT;
    int r = endpoint_resolve(source, &endpoint, &found);
    if (r == 0)
        endpoint_release(&endpoint);
    if (r == 0 || err_may_retry(r))
        return 0;
    *err = found;
    return r;
}

int reeve_connect_source(const struct endpoint_source *source, struct reeve **ret, struct err *err)
{
    int code = check_source(source, err);
    if (code < 0)
        return code;
    struct reeve *r = mem_zalloc(sizeof *r);
    copy_source(r, source);
    pthread_mutex_init(&r->outage.mutex, NULL);
    pthread_mutex_init(&r->said.mutex, NULL);
    r->said.count = -1;
    r->offered_epoch = -1;
    r->line = (struct line){.source = &r->source, .outage = &r->outage, .stop_fd = -1};
    r->beat.wake_fd = new_event_fd();
    r->beat.line = r->line;
    r->beat.line.stop_fd = r->beat.wake_fd;
    r->news_fd = new_event_fd();
    r->patience_ms = -1;
    random_hex(sizeof r->connection / 2, r->connection);
    *ret = r;
    return 0;
}

int reeve_connect(const char *url, const char *token, struct reeve **ret)
{
    struct endpoint_source source = endpoint_source_of_environment();
    struct err err = ERR_INIT;
    if (url && token) {
        source.server = url;
        source.env_token = token;
    }
    return reeve_connect_source(&source, ret, &err) < 0 ? REEVE_MISUSE : REEVE_OK;
}

int reeve_connect_folder(const char *data, struct reeve **ret)
{
    struct endpoint_source source = endpoint_source_of_environment();
    struct err err = ERR_INIT;
    source.data = data;
    if (!data)
        return REEVE_MISUSE;
    return reeve_connect_source(&source, ret, &err) < 0 ? REEVE_MISUSE : REEVE_OK;
}

void reeve_close(struct reeve *r)
{
    if (!r)
        return;
    reeve_leave(r);
    line_release(&r->line);
    pthread_mutex_destroy(&r->outage.mutex);
    close(r->beat.wake_fd);
    close(r->news_fd);
    for (size_t i = 0; i < ARRAY_LEN(r->strings); i++)
        free(r->strings[i]);
    free(r->role);
    free(r->task_json);
    free(r->content);
    free(r->results);
    free(r->ids);
    pthread_mutex_destroy(&r->said.mutex);
    free(r->said.note);
    free(r);
}

void reeve_set_stop_fd(struct reeve *r, int fd)
{
    r->line.stop_fd = fd;
}

void reeve_set_patience(struct reeve *r, int64_t ms)
{
    r->patience_ms = ms;
}

void reeve_set_log(struct reeve *r, void (*log)(void *ctx, const char *line), void *ctx)
{
    pthread_mutex_lock(&r->outage.mutex);
    r->outage.log = log;
    r->outage.ctx = ctx;
    pthread_mutex_unlock(&r->outage.mutex);
}

int64_t reeve_deadline_us(int64_t ms)
{
    return ms < 0 || ms > CLOCK_MS_MAX ? INT64_MAX : clock_mono_us() + ms * 1000;
}

/* ---- results ---- */

int reeve_outcome(int code)
{
    static const struct {
        int code, result;
    } rows[] = {
        {0, REEVE_OK},
        {LINE_STOPPED, REEVE_INTERRUPTED},
        {-ERR_CONVERSATION_FINALIZED, REEVE_ENDED},
        {-ERR_SUPERSEDED, REEVE_SUPERSEDED},
        {-ERR_STALE_EPOCH, REEVE_STALE},
        {-ERR_USAGE, REEVE_MISUSE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].code == code)
            return rows[i].result;
    return err_may_retry(code) ? REEVE_UNREACHABLE : REEVE_REFUSED;
}

const char *reeve_result_text(int result)
{
    static const struct {
        int result;
        const char *text;
    } rows[] = {
        {REEVE_OK, "done"},
        {REEVE_TASK, "there is a task to claim"},
        {REEVE_NONE, "there is nothing to do"},
        {REEVE_INTERRUPTED, "it was interrupted"},
        {REEVE_STOP, "the agent was told to stop"},
        {REEVE_SUPERSEDED, "a newer connection listens in its place"},
        {REEVE_ENDED, "the conversation has ended"},
        {REEVE_STALE, "the task was taken away"},
        {REEVE_RESUME, "a suspended task has its results"},
        {REEVE_REFUSED, "the server refused it"},
        {REEVE_UNREACHABLE, "the server cannot be reached"},
        {REEVE_MISUSE, "it was called out of order, or with a wrong argument"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].result == result)
            return rows[i].text;
    return "an unknown result";
}

const struct err *reeve_last_err(const struct reeve *r)
{
    return &r->err;
}

const char *reeve_error_text(const struct reeve *r)
{
    return r->err.message[0] ? r->err.message : err_text(r->err.code);
}

const char *reeve_error_name(const struct reeve *r)
{
    return err_name(r->err.code);
}

int reeve_error_code(const struct reeve *r)
{
    return err_rpc_code(r->err.code);
}

/* ---- what is known ---- */

int64_t reeve_task_number(const struct reeve *r)
{
    return r->task;
}

int64_t reeve_task_epoch(const struct reeve *r)
{
    return r->epoch;
}

const char *reeve_task_content(const struct reeve *r)
{
    return r->content ? r->content : "null";
}

const char *reeve_task_json(const struct reeve *r)
{
    return r->task_json ? r->task_json : "null";
}

const char *reeve_results(const struct reeve *r)
{
    return r->results ? r->results : "[]";
}

const char *reeve_connection_id(const struct reeve *r)
{
    return r->connection;
}

const char *reeve_version(void)
{
    return REEVE_VERSION;
}
