/* log_request.c: see log_request.h. */
#include "domain/log_request.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "domain/machine.h"
#include "domain/work.h"

enum { OPEN_MAX = 64, FORGOTTEN_MS = 60000 };

int64_t log_request_key(int64_t request)
{
    return request | INT64_MIN; /* agents and machines have none that is negative */
}

static void free_request(struct log_request *l)
{
    free(l->text);
    free(l);
}

void log_request_end(struct work *w, struct log_request *l)
{
    struct log_request **at = &w->log_requests;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    free_request(l);
}

/* Whoever asked has gone, if it was so long ago. How many are left. */
static size_t drop_forgotten(struct work *w)
{
    size_t left = 0;
    struct log_request *next;
    for (struct log_request *l = w->log_requests; l; l = next) {
        next = l->next;
        if (gaps_watched_ms(&w->gaps, l->asked_ms, w->now_ms) > FORGOTTEN_MS)
            log_request_end(w, l);
        else
            left++;
    }
    return left;
}

static int find_machine(const struct work *w, const struct agent *a, struct err *err)
{
    const struct machine *m = a->machine[0] ? machine_find(w, str_of(a->machine)) : NULL;
    if (!m) {
        err_set(err, ERR_NOT_FOUND, "no machine has run %lld:%s", (long long)a->conversation,
                a->role);
        return err_str(err, "what", STR("log"));
    }
    if (!m->is_online)
        return err_set(err, ERR_UNAVAILABLE, "machine %s is offline", m->name);
    return 0;
}

int log_request_ask(struct work *w, const struct agent *a, int64_t tail_bytes, struct str after,
                    struct log_request **ret, struct err *err)
{
    int r = find_machine(w, a, err);
    if (r < 0)
        return r;
    if (drop_forgotten(w) >= OPEN_MAX) {
        err_set(err, ERR_RATE_LIMITED, "%d others wait for logs", OPEN_MAX);
        return err_int(err, "limit", OPEN_MAX);
    }
    struct log_request *l = mem_zalloc(sizeof *l);
    l->request = ++w->last_log_request;
    l->asked_ms = w->now_ms;
    l->conversation = a->conversation;
    snprintf(l->role, sizeof l->role, "%s", a->role);
    snprintf(l->machine, sizeof l->machine, "%s", a->machine);
    l->tail_bytes = tail_bytes;
    snprintf(l->after, sizeof l->after, "%.*s", STR_ARG(after));
    l->next = w->log_requests;
    w->log_requests = l;
    work_touch(w, machine_key_of(str_of(l->machine)));
    *ret = l;
    return 0;
}

struct log_request *log_request_find(const struct work *w, int64_t request)
{
    struct log_request *l = w->log_requests;
    while (l && l->request != request)
        l = l->next;
    return l;
}

size_t log_requests_send(struct work *w, const char *machine, struct json_out *out)
{
    size_t n = 0;
    for (struct log_request *l = w->log_requests; l; l = l->next) {
        if (l->is_sent || strcmp(l->machine, machine) != 0)
            continue;
        json_object(out, NULL);
        json_stringz(out, "type", "read-log");
        json_int(out, "request", l->request);
        json_int(out, "conversation", l->conversation);
        json_stringz(out, "role", l->role);
        json_int(out, "tailBytes", l->tail_bytes);
        if (l->after[0])
            json_stringz(out, "after", l->after);
        json_end(out);
        l->is_sent = true;
        n++;
    }
    return n;
}

int log_request_answer(struct work *w, int64_t request, const char *machine,
                       const struct log_answer *answer, struct err *err)
{
    struct log_request *l = log_request_find(w, request);
    if (!l || strcmp(l->machine, machine) != 0) {
        err_set(err, ERR_NOT_FOUND, "nobody waits for log %lld", (long long)request);
        err_str(err, "what", STR("log"));
        return err_int(err, "id", request);
    }
    if (l->text)
        return 0; /* a repeat */
    l->text = mem_strndup(answer->text.p ? answer->text.p : "", answer->text.n);
    l->text_bytes = answer->text.n;
    l->is_truncated = answer->is_truncated;
    l->lines_before = answer->lines_before;
    snprintf(l->next_position, sizeof l->next_position, "%.*s", STR_ARG(answer->next_position));
    work_touch(w, log_request_key(request));
    return 0;
}

void log_requests_drop(struct work *w)
{
    while (w->log_requests)
        log_request_end(w, w->log_requests);
}
