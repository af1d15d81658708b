/*
 * link.c: see link.h.
 *
 * The way that is measured is: a process ends → its fact is reported → the server commits, and
 * answers the poll that waits there → the next process is started. Nothing on it waits for a timer:
 * the report leaves in the turn in which the fact came in, on a connection that is open already,
 * and the commands are carried out in the turn in which the answer came in.
 *
 * A report that is refused as a whole is sent again fact by fact, until the one that the server
 * cannot take has been found; that one is set aside, and the link registers anew, so that the
 * server still learns what became of the process (L57).
 */
#include "machine/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/planted.h"
#include "base/random.h"
#include "machine/caller.h"

enum {
    POLL_MS = 25000,
    POLL_MS_MAX = POLL_MS + 20000, /* with what a slow answer may take */
    CALL_MS_MAX = 30000,
    FACTS_PER_REPORT = 200,
    /* The server takes 1 MiB unless told otherwise; the rest of the request is small. */
    REPORT_BYTES_MAX = 512 * 1024,
    PARAMS_BYTES_MAX = 16 * 1024 * 1024,
    LOGS_MAX = 16,
};

/* A caller, and when it may try again. */
struct lane {
    struct caller *caller;
    struct loop_timer timer;
    int64_t wait_ms; /* 0: nothing has failed */
    bool is_waiting;
};

struct link {
    struct loop *loop;
    struct link_config config;
    struct link_handler handler;
    struct facts *outbox;
    char *url;
    struct lane poll, report;
    int64_t lists;       /* of what the machine has, told so far */
    bool is_registering; /* what the call under way is; else it is a poll */
    bool is_registered, must_register, is_over;
    bool is_outage_told, is_trouble_told;
    size_t facts_per_report;
    bool is_report_a_log;
    struct buf logs[LOGS_MAX]; /* params of machine.log, oldest first */
    size_t log_count;
};

static void poll_next(struct link *l);
static void report_next(struct link *l);

/* ---- waiting ---- */

/* Half of it is chance, so that a thousand machines do not come back in the same instant. */
static void lane_wait(struct link *l, struct lane *lane, loop_timer_fn *again)
{
    lane->wait_ms =
        lane->wait_ms ? MIN(lane->wait_ms * 2, (int64_t)LINK_WAIT_MS_MAX) : LINK_WAIT_MS_FIRST;
    int64_t half_us = lane->wait_ms * 500;
    int64_t wait_us = half_us + (int64_t)(random_u64() % (uint64_t)(half_us + 1));
    lane->is_waiting = true;
    loop_timer_set(l->loop, &lane->timer, clock_mono_us() + wait_us, again);
}

static void poll_again(struct loop_timer *timer)
{
    struct link *l = CONTAINER_OF(timer, struct link, poll.timer);
    l->poll.is_waiting = false;
    poll_next(l);
}

static void report_again(struct loop_timer *timer)
{
    struct link *l = CONTAINER_OF(timer, struct link, report.timer);
    l->report.is_waiting = false;
    report_next(l);
}

static void lane_worked(struct link *l, struct lane *lane)
{
    lane->wait_ms = 0;
    lane->is_waiting = false;
    loop_timer_stop(l->loop, &lane->timer);
}

/* ---- what is told to people ---- */

static void tell_outage(struct link *l, const struct caller_answer *answer)
{
    if (l->is_outage_told)
        return;
    l->is_outage_told = true;
    bool is_for_people = answer->code != -ERR_NO_SERVER && !err_may_retry(answer->code);
    log_line(is_for_people ? LOG_ERROR : LOG_WARN, "link",
             is_for_people ? "cannot register" : "no server", "error=%s agents=%s",
             log_quote(str_of(answer->err.message)), "\"keep running\"");
}

static void tell_up(struct link *l)
{
    bool is_news = l->is_outage_told || !l->is_registered;
    l->is_outage_told = false;
    if (is_news)
        log_info("link", "registered", "machine=%s server=%s", l->config.name,
                 l->url ? l->url : "");
}

/* ---- register and poll ---- */

static void write_identity(const struct link *l, struct json_out *out)
{
    json_object(out, NULL);
    json_stringz(out, "machine", l->config.name);
    json_stringz(out, "instance", l->config.instance);
}

static void start_register(struct link *l)
{
    struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out out = JSON_OUT(&params);
    write_identity(l, &out);
    json_int(&out, "n", ++l->lists);
    json_stringz(&out, "hostname", l->config.hostname);
    json_stringz(&out, "bootId", l->config.boot_id);
    kinds_write(l->config.kinds, &out, "kinds");
    l->handler.write_processes(l->handler.ctx, &out, "processes");
    json_end(&out);
    l->is_registering = true;
    l->must_register = false;
    caller_start(l->poll.caller, "machine.register", &params, CALL_MS_MAX);
}

static void start_poll(struct link *l)
{
    struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out out = JSON_OUT(&params);
    write_identity(l, &out);
    json_int(&out, "n", ++l->lists);
    json_int(&out, "timeoutMs", POLL_MS);
    l->handler.write_alive(l->handler.ctx, &out, "alive");
    json_end(&out);
    l->is_registering = false;
    caller_start(l->poll.caller, "machine.poll", &params, POLL_MS_MAX);
}

static void poll_next(struct link *l)
{
    if (l->is_over || !l->poll.caller || l->poll.is_waiting || caller_is_busy(l->poll.caller))
        return;
    if (l->is_registered && !l->must_register)
        start_poll(l);
    else
        start_register(l);
}

static void end_link(struct link *l, const struct caller_answer *answer)
{
    if (l->is_over)
        return;
    l->is_over = true;
    l->is_registered = false;
    l->handler.superseded(l->handler.ctx, answer->err.message);
}

static void poll_failed(struct link *l, const struct caller_answer *answer)
{
    if (answer->code == -ERR_SUPERSEDED) {
        end_link(l, answer);
        return;
    }
    l->is_registered = false;
    if (answer->code != -ERR_NOT_FOUND || l->is_registering) /* else it has another store */
        tell_outage(l, answer);
    lane_wait(l, &l->poll, poll_again);
}

static void poll_done(void *ctx, const struct caller_answer *answer)
{
    struct link *l = ctx;
    if (answer->code < 0) {
        poll_failed(l, answer);
        return;
    }
    if (l->is_registering) {
        free(l->url);
        l->url = mem_strdup(answer->url);
        tell_up(l);
        l->is_registered = true;
        lane_worked(l, &l->report);
    }
    lane_worked(l, &l->poll);
    const struct json *commands = json_get(answer->result, "commands");
    if (commands && commands->type == JSON_ARRAY)
        JSON_FOREACH (command, commands)
            l->handler.command(l->handler.ctx, command);
    poll_next(l);
    report_next(l);
}

/* ---- report ---- */

static void start_log(struct link *l)
{
    struct buf params = l->logs[0];
    l->log_count--;
    memmove(l->logs, l->logs + 1, l->log_count * sizeof *l->logs);
    l->is_report_a_log = true;
    caller_start(l->report.caller, "machine.log", &params, CALL_MS_MAX);
}

static void start_report(struct link *l)
{
    struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out out = JSON_OUT(&params);
    write_identity(l, &out);
    size_t count = facts_write(l->outbox, l->facts_per_report, REPORT_BYTES_MAX, &out, "facts");
    json_end(&out);
    if (planted(OUTBOX_EMPTIED_EARLY))
        facts_accepted(l->outbox, facts_first(l->outbox) + (int64_t)count - 1);
    l->is_report_a_log = false;
    caller_start(l->report.caller, "machine.report", &params, CALL_MS_MAX);
}

static void report_next(struct link *l)
{
    if (!l->is_registered || l->report.is_waiting || caller_is_busy(l->report.caller))
        return;
    if (!facts_is_empty(l->outbox))
        start_report(l);
    else if (l->log_count)
        start_log(l);
}

static void take_rejected(struct link *l, const struct json *rejected)
{
    if (!rejected || rejected->type != JSON_ARRAY)
        return;
    JSON_FOREACH (item, rejected)
        facts_reject(l->outbox, json_get_int(item, "n", 0), json_get_text(item, "error"));
}

/* The server has looked at it, and will not take it as it is. */
static bool is_refusal(int code)
{
    static const enum err_code others[] = {ERR_NO_SERVER, ERR_UNAUTHENTICATED, ERR_FORBIDDEN,
                                           ERR_NOT_FOUND, ERR_SUPERSEDED};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (code == -(int)others[i])
            return false;
    return !err_may_retry(code);
}

static void report_refused(struct link *l, const struct caller_answer *answer)
{
    if (l->facts_per_report > 1) { /* which one is it? */
        l->facts_per_report = 1;
        return;
    }
    int64_t n = facts_first(l->outbox);
    facts_reject(l->outbox, n, str_of(answer->err.message));
    facts_accepted(l->outbox, n);
    l->facts_per_report = FACTS_PER_REPORT;
    l->must_register = true;
}

static void report_failed(struct link *l, const struct caller_answer *answer)
{
    if (answer->code == -ERR_SUPERSEDED) {
        end_link(l, answer);
        return;
    }
    if (answer->code != -ERR_NO_SERVER && !l->is_trouble_told && !l->is_outage_told) {
        l->is_trouble_told = true;
        log_warn("link", "the server does not take a report", "error=%s",
                 log_quote(str_of(answer->err.message)));
    }
    if (!is_refusal(answer->code))
        lane_wait(l, &l->report, report_again);
    else if (!l->is_report_a_log)
        report_refused(l, answer);
    report_next(l);
}

static void report_done(void *ctx, const struct caller_answer *answer)
{
    struct link *l = ctx;
    if (answer->code < 0) {
        report_failed(l, answer);
        return;
    }
    lane_worked(l, &l->report);
    l->is_trouble_told = false;
    if (!l->is_report_a_log) {
        take_rejected(l, json_get(answer->result, "rejected"));
        facts_accepted(l->outbox, json_get_int(answer->result, "acceptedTo", 0));
    }
    report_next(l);
    if (facts_is_empty(l->outbox))
        l->handler.all_told(l->handler.ctx);
}

void link_report(struct link *l)
{
    report_next(l);
}

void link_send_log(struct link *l, int64_t request, struct str text,
                   const struct agent_log_part *part)
{
    if (l->log_count == LOGS_MAX)
        return; /* whoever asked gives up by himself */
    struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out out = JSON_OUT(&params);
    write_identity(l, &out);
    json_int(&out, "request", request);
    json_raw(&out, "text", text);
    json_bool(&out, "truncated", part->is_truncated);
    json_stringz(&out, "next", part->next);
    if (part->lines_before >= 0)
        json_int(&out, "linesBefore", part->lines_before);
    json_end(&out);
    l->logs[l->log_count++] = params;
    report_next(l);
}

/* ---- life ---- */

const char *link_url(const struct link *l)
{
    return l->url;
}

bool link_is_up(const struct link *l)
{
    return l->is_registered;
}

void link_wake(struct link *l)
{
    if (l->poll.caller) /* first: what is to be started cannot wait, what can be forgotten can */
        caller_take(l->poll.caller);
    caller_take(l->report.caller);
}

void link_end_polling(struct link *l)
{
    loop_timer_stop(l->loop, &l->poll.timer);
    l->poll.caller = caller_free(l->poll.caller);
}

struct link *link_new(struct loop *loop, const struct link_config *config, struct facts *outbox,
                      const struct link_handler *handler)
{
    struct link *l = mem_zalloc(sizeof *l);
    *l = (struct link){
        .loop = loop,
        .config = *config,
        .handler = *handler,
        .outbox = outbox,
        .facts_per_report = FACTS_PER_REPORT,
    };
    l->poll.caller = caller_new("reeve-poll", loop, &config->source, poll_done, l);
    l->report.caller = caller_new("reeve-report", loop, &config->source, report_done, l);
    poll_next(l);
    return l;
}

struct link *link_free(struct link *l)
{
    if (!l)
        return NULL;
    link_end_polling(l);
    loop_timer_stop(l->loop, &l->report.timer);
    caller_free(l->report.caller);
    for (size_t i = 0; i < l->log_count; i++)
        buf_release(&l->logs[i]);
    free(l->url);
    free(l);
    return NULL;
}
