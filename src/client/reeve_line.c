/*
 * reeve_line.c: calls that outlive the server's absence.
 *
 * Waits grow from 100 ms to 5 s and are shortened at random by up to a half, so that a thousand
 * waiting programs do not return in the same instant. Whether a failure means that the server is
 * away is decided by the row of its error (may be retried), never by its text.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/random.h"
#include "client/reeve_handle.h"

enum { WAIT_FIRST_MS = 100, WAIT_MAX_MS = 5000, LOG_LINE_BYTES = 512 };

static void tell_outage(struct outage *o, const struct err *err)
{
    pthread_mutex_lock(&o->mutex);
    if (!o->is_told && o->log) {
        char text[LOG_LINE_BYTES];
        snprintf(text, sizeof text, "%s; trying again until it answers",
                 err->message[0] ? err->message : err_text(err->code));
        o->log(o->ctx, text);
    }
    o->is_told = true;
    pthread_mutex_unlock(&o->mutex);
}

static void tell_answer(struct line *l)
{
    l->wait_ms = 0;
    pthread_mutex_lock(&l->outage->mutex);
    l->outage->is_told = false;
    pthread_mutex_unlock(&l->outage->mutex);
}

int line_call(struct line *l, const char *method, const struct buf *params, int64_t ms_max,
              struct arena *a, const struct json **ret, struct err *err)
{
    const struct client_limits limits = {.ms_max = ms_max, .stop_fd = l->stop_fd};
    if (params->overflow)
        return err_set(err, ERR_TOO_LARGE, "the request is over %d bytes", REEVE_REQUEST_BYTES_MAX);
    int r = l->client ? 0 : client_open(l->source, &l->client, err);
    if (r == 0)
        r = client_call_within(l->client, method, buf_str(params), &limits, a, ret, err);
    if (r <= 0 && !(r < 0 && err_may_retry(r)))
        tell_answer(l);
    if (r == -ERR_NO_SERVER && l->client)
        client_find_again(l->client);
    return r;
}

int64_t line_lost(struct line *l, const struct err *err)
{
    tell_outage(l->outage, err);
    l->wait_ms = l->wait_ms ? MIN(l->wait_ms * 2, (int64_t)WAIT_MAX_MS) : WAIT_FIRST_MS;
    return l->wait_ms - (int64_t)(random_u64() % (uint64_t)(l->wait_ms / 2));
}

int line_pause(const struct line *l, int64_t ms)
{
    struct pollfd stop = {.fd = l->stop_fd, .events = POLLIN};
    int64_t until_us = clock_mono_us() + ms * 1000;
    for (;;) {
        int64_t left_ms = (until_us - clock_mono_us() + 999) / 1000;
        int n = poll(&stop, 1, (int)MAX(left_ms, (int64_t)0));
        if (n > 0)
            return LINE_STOPPED;
        if (n == 0 || (n < 0 && errno != EINTR))
            return 0;
    }
}

int line_call_until(struct line *l, const char *method, const struct buf *params, int64_t ms_max,
                    int64_t deadline_us, struct arena *a, const struct json **ret, struct err *err)
{
    for (;;) {
        struct err failure = ERR_INIT;
        int r = line_call(l, method, params, ms_max, a, ret, &failure);
        if (r >= 0)
            return r;
        int64_t left_ms = (deadline_us - clock_mono_us()) / 1000;
        if (!err_may_retry(r) || left_ms <= 0) {
            *err = failure;
            return r;
        }
        if (line_pause(l, MIN(line_lost(l, &failure), left_ms)) == LINE_STOPPED)
            return LINE_STOPPED;
    }
}

void line_release(struct line *l)
{
    l->client = client_close(l->client);
}
