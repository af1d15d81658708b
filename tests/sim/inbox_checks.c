/*
 * inbox_checks.c: see checker.h. Promises about inboxes, and about whoever waits for a ring.
 *
 * A message is a row of an inbox. What the checker knows of one it has from answers (who was given
 * it, who was told that it is consumed) and from the log (how often it was rung for, how often it
 * was handed back, how it was given up); the store must agree with that, for ever.
 */
#include <stdio.h>
#include <string.h>

#include "rpc/params.h"
#include "sim/model.h"
#include "sim/world.h"

#define REPEAT_MS_MAX INT64_C(60000)
enum { LOOK_GRAIN_MS = 100 };

/* ---- told by events ---- */

static bool is_exhausted(const struct known_message *m)
{
    return strcmp(m->did, "attempts_exhausted") == 0;
}

/* One event tells that a row is rung for; what is put right is told each time. */
void inbox_told(struct sim *s, const char *kind, const struct json *data)
{
    bool is_ring =
        strcmp(kind, "watch.inbox.pending") == 0 || strcmp(kind, "watch.dispatch.retry") == 0;
    bool is_loss = strcmp(kind, "watch.inbox.processing") == 0;
    int64_t number = params_int(data, "inboxId", 0); /* of a turn that is taken back: none */
    struct str did = params_str(data, "did");
    if ((!is_ring && !is_loss) || !number)
        return;
    struct known_message *m = known_message(s->checker, number);
    m->lost += is_loss;
    m->rings += is_ring && !did.p;
    if (did.p)
        snprintf(m->did, sizeof m->did, "%.*s", STR_ARG(did));
    if (m->rings > 1)
        sim_fail(s, "P13", "message %lld: its first ring is told twice", (long long)number);
}

/* ---- answers ---- */

struct stored {
    int64_t conversation;
    int role;
    char status[12], by[24];
};

static bool find_message(struct sim *s, int64_t message, struct stored *ret)
{
    sqlite3_stmt *q = look_at(s, LOOK_MESSAGE);
    sqlite3_bind_int64(q, 1, message);
    bool is_there = look_next(s, q);
    if (!is_there)
        return false;
    *ret = (struct stored){.conversation = look_int(q, 0), .role = role_number(look_text(q, 1))};
    snprintf(ret->status, sizeof ret->status, "%s", look_text(q, 2));
    snprintf(ret->by, sizeof ret->by, "%s", look_text(q, 3));
    look_end(s, q);
    return true;
}

static void p12_what_was_put_in_is_there(struct sim *s, const struct ask *a,
                                         const struct json *result)
{
    struct stored m;
    int64_t number = params_int(result, "inboxId", 0);
    s->fleet.last_message = later_ms(s->fleet.last_message, number);
    if (!find_message(s, number, &m) || m.conversation != a->conversation)
        sim_fail(s, "P12", "message %lld was taken in and is not in the inbox", (long long)number);
}

/* Whoever receives it is on record as the one who has it, or had it until it ended in this tick. */
static void p12_what_is_handed_out_is_noted(struct sim *s, const struct ask *a, int64_t number)
{
    struct stored m;
    if (!find_message(s, number, &m) || m.conversation != a->conversation || m.role != a->role ||
        strcmp(m.by, a->connection) != 0 || strcmp(m.status, "pending") == 0)
        sim_fail(s, "P12", "message %lld was handed to %s of %lld:r%d; in the store it was not",
                 (long long)number, a->connection, (long long)a->conversation, a->role);
}

/* Until it was taken from the one who has it nobody else is given it. */
static void p21_one_has_it(struct sim *s, const struct ask *a, int64_t number)
{
    struct known_message *m = known_message(s->checker, number);
    if (m->is_acknowledged)
        sim_fail(s, "P12", "message %lld was consumed, and is handed to %s", (long long)number,
                 a->connection);
    if (++m->deliveries > 1 + m->lost)
        sim_fail(s, "P21", "message %lld is handed out %lld times, and was handed back %lld times",
                 (long long)number, (long long)m->deliveries, (long long)m->lost);
}

static void check_received(struct sim *s, const struct ask *a, const struct json *result)
{
    JSON_FOREACH (item, json_get(result, "messages")) {
        int64_t number = params_int(item, "inboxId", 0);
        p12_what_is_handed_out_is_noted(s, a, number);
        p21_one_has_it(s, a, number);
    }
}

static bool is_in(const struct json *list, int64_t number)
{
    JSON_FOREACH (item, list)
        if (item->integer == number)
            return true;
    return false;
}

/* What it is told to have consumed is, and by nobody else. */
static void p12_consumed_is_consumed(struct sim *s, const struct ask *a, const struct json *result,
                                     int64_t number)
{
    struct stored m;
    if (is_in(json_get(result, "refused"), number))
        return;
    known_message(s->checker, number)->is_acknowledged = true;
    if (!find_message(s, number, &m) || strcmp(m.status, "consumed") != 0)
        sim_fail(s, "P12", "message %lld was consumed; in the store it is not", (long long)number);
    else if (strcmp(m.by, a->connection) != 0)
        sim_fail(s, "P8", "message %lld of %s was consumed by %s", (long long)number, m.by,
                 a->connection);
}

static void check_consumed(struct sim *s, const struct ask *a, const struct json *result)
{
    struct arena arena = ARENA_INIT;
    const struct json *params;
    struct err err = ERR_INIT;
    if (json_parse(&arena, str_of(a->params), 64, &params, &err) == 0)
        JSON_FOREACH (item, json_get(params, "inboxIds"))
            p12_consumed_is_consumed(s, a, result, item->integer);
    arena_release(&arena);
}

static const struct {
    enum ask_method method;
    void (*check)(struct sim *s, const struct ask *a, const struct json *result);
} of_method[] = {
    {ASK_ENQUEUE, p12_what_was_put_in_is_there},
    {ASK_RECEIVE, check_received},
    {ASK_CONSUME, check_consumed},
};

void inbox_answered(struct sim *s, const struct ask *a, const struct json *result)
{
    for (size_t i = 0; i < ARRAY_LEN(of_method); i++)
        if (of_method[i].method == a->method)
            of_method[i].check(s, a, result);
}

/* ---- what is due ---- */

/* Waits that double up to a minute, or stay what they are if that is longer. */
static int64_t ring_due_ms(const struct checker *c, int64_t since_ms, int64_t limit_ms,
                           int64_t count)
{
    int64_t most_ms = later_ms(limit_ms, REPEAT_MS_MAX), wait_ms = limit_ms;
    while (count-- > 0 && wait_ms < most_ms)
        wait_ms *= 2;
    return due_ms(c, since_ms, MIN(wait_ms, most_ms));
}

static void must_be_moved(struct sim *s, sqlite3_stmt *q, const char *rule, int64_t limit_seconds,
                          int64_t due)
{
    if (limit_seconds && is_late(s, due))
        sim_fail(s, "P3", "message %lld (%s) is %s at %lld; %s was due at %lld",
                 (long long)look_int(q, 0), look_text(q, 1), look_text(q, 2),
                 (long long)sim_server_ms(s), rule, (long long)due);
}

/* A message that nobody fetches is rung for, or given up if nobody knows where it belongs. */
static void p3_pending_is_rung_for(struct sim *s, sqlite3_stmt *q)
{
    const struct options *o = &s->swarm.options;
    const struct checker *c = s->checker;
    int64_t ring = option_get(o, pmo, pending_wakeup_seconds),
            skip = option_get(o, pmo, pending_wakeup_skip_seconds),
            retry = option_get(o, pmo, dispatched_retry_seconds);
    must_be_moved(
        s, q, "inbox.pending", ring,
        ring_due_ms(c, later_ms(look_int(q, 4), look_int(q, 6)), ring * 1000, look_int(q, 7)));
    if (strcmp(look_text(q, 1), "turn") != 0 && look_is_null(q, 3))
        must_be_moved(s, q, "missing_channel", skip, due_ms(c, look_int(q, 4), skip * 1000));
    if (strcmp(look_text(q, 8), "pending") == 0)
        must_be_moved(s, q, "dispatch.retry", retry,
                      ring_due_ms(c, later_ms(look_int(q, 12), look_int(q, 13)), retry * 1000,
                                  look_int(q, 14)));
}

/* One that was fetched and not dealt with is taken back; a turn, if nobody works on it. */
static void p3_lost_is_handed_back(struct sim *s, sqlite3_stmt *q)
{
    int64_t limit = option_get(&s->swarm.options, worker, inbox_processing_timeout_seconds);
    int64_t due = due_ms(s->checker, look_int(q, 5), limit * 1000);
    if (strcmp(look_text(q, 1), "turn") == 0)
        due = later_ms(due, lease_over_ms(s, look_int(q, 9), look_int(q, 10), look_text(q, 11)));
    must_be_moved(s, q, "inbox.processing", limit, due);
}

static void look_at_open_messages(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_OPEN_MESSAGES);
    while (look_next(s, q)) {
        if (strcmp(look_text(q, 2), "pending") == 0)
            p3_pending_is_rung_for(s, q);
        else
            p3_lost_is_handed_back(s, q);
    }
}

/* ---- whoever waits ---- */

/* Since when there is something for it; 0: there is nothing. */
static int64_t ripe_since_ms(struct sim *s, const struct ask *a)
{
    char role[16];
    snprintf(role, sizeof role, "r%d", a->role);
    sqlite3_stmt *q = look_at(s, a->method == ASK_RECEIVE ? LOOK_RECEIVABLE : LOOK_CLAIMABLE);
    sqlite3_bind_int64(q, 1, a->conversation);
    sqlite3_bind_text(q, 2, role, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(q, 3, a->connection, -1, SQLITE_TRANSIENT);
    int64_t since_ms = look_next(s, q) ? look_int(q, 0) : 0;
    look_end(s, q);
    return since_ms;
}

/*
 * Rung for or not, a poll finds what it waits for by looking: every so often, by a clock that
 * stands still while the machine sleeps. What may keep a task from being offered is not on record
 * with its time, so the time counts from when it was first seen.
 */
static void p11_who_waits_finds_it(struct sim *s, struct ask *a)
{
    int64_t since_ms = ripe_since_ms(s, a), mono_ms = clock_mono_us() / 1000,
            look_ms = option_get(&s->swarm.options, worker, watchdog_interval_seconds) * 1000 +
                      LOOK_GRAIN_MS;
    if (since_ms != a->ripe_since_ms) {
        a->ripe_since_ms = since_ms;
        a->ripe_mono_ms = mono_ms;
    }
    if (since_ms && mono_ms > a->ripe_mono_ms + look_ms + LATE_MS &&
        is_late(s, s->checker->slept.to_ms))
        sim_fail(s, "P11", "%s %lld of %s waits at %lld, and there is something since %lld",
                 ask_names[a->method], (long long)a->id, a->connection, (long long)sim_server_ms(s),
                 (long long)since_ms);
}

/* The server still has it, and a connection to answer on. */
static bool is_parked(const struct sim *s, const struct ask *a)
{
    bool is_poll = a->method == ASK_RECEIVE || a->method == ASK_WAIT;
    if (!is_poll || a->state != ASK_TAKEN || a->role < 0)
        return false;
    const struct worker *w =
        &s->fleet.workers[(a->kind == ACTOR_PROCESS ? SIM_ACTORS_MAX : 0) + a->who];
    return a->kind == ACTOR_CLIENT || w->life == a->life;
}

void inbox_at_rest(struct sim *s)
{
    look_at_open_messages(s);
    for (size_t i = 0; i < s->open_count; i++)
        if (is_parked(s, sim_open(s, i)))
            p11_who_waits_finds_it(s, sim_open(s, i));
}

/* ---- all of them ---- */

/* An end is an end; whoever was told that it is consumed was told the truth. */
static void p12_ends_stay(struct sim *s, sqlite3_stmt *q, struct known_message *m)
{
    const char *status = look_text(q, 2);
    bool is_over = !look_is_null(q, 7);
    if ((m->end[0] && strcmp(m->end, status) != 0) ||
        (m->is_acknowledged && strcmp(status, "consumed") != 0))
        sim_fail(s, "P12", "message %lld was %s, and is %s", (long long)look_int(q, 0),
                 m->end[0] ? m->end : "consumed", status);
    if (is_over)
        snprintf(m->end, sizeof m->end, "%s", status);
}

/* Nobody is given a message for ever that nobody survives. */
static void p9_attempts_have_an_end(struct sim *s, sqlite3_stmt *q)
{
    int64_t most = option_get(&s->swarm.options, liveness, max_attempts), attempts = look_int(q, 4);
    bool is_error = strcmp(look_text(q, 2), "error") == 0;
    if (attempts > most || (attempts == most) != is_error)
        sim_fail(s, "P9", "message %lld is %s after %lld of %lld attempts",
                 (long long)look_int(q, 0), look_text(q, 2), (long long)attempts, (long long)most);
}

static void p13_rings_and_losses_are_told(struct sim *s, sqlite3_stmt *q,
                                          const struct known_message *m)
{
    const char *error = look_text(q, 6);
    int64_t number = look_int(q, 0);
    if (look_int(q, 5) > 1 && !m->rings && !m->lost)
        sim_fail(s, "P13", "message %lld was rung for, and the log does not say so",
                 (long long)number);
    if (look_int(q, 4) != m->lost)
        sim_fail(s, "P13", "message %lld was lost %lld times; the log tells of %lld",
                 (long long)number, (long long)look_int(q, 4), (long long)m->lost);
    if (error[0] && strcmp(error, m->did) != 0)
        sim_fail(s, "P13", "message %lld was given up, %s; the log says \"%s\"", (long long)number,
                 error, m->did);
    if (!error[0] && (is_exhausted(m) || strcmp(m->did, "missing_channel") == 0))
        sim_fail(s, "P13", "the log says that message %lld was given up", (long long)number);
}

static void p12_none_is_gone(struct sim *s)
{
    struct checker *c = s->checker;
    for (size_t i = 1; i < c->message_room; i++)
        if (c->messages[i].is_known && c->messages[i].looked != c->message_looks)
            sim_fail(s, "P12", "message %zu is gone", i);
}

static void p18_none_is_stranded(struct sim *s)
{
    sqlite3_stmt *q = look_at(s, LOOK_STRAY_MESSAGES);
    while (look_next(s, q))
        sim_fail(s, "P18", "message %lld (%s) is open: %s", (long long)look_int(q, 0),
                 look_text(q, 1), look_text(q, 2));
}

void inbox_look_at_all(struct sim *s)
{
    struct checker *c = s->checker;
    c->message_looks++;
    sqlite3_stmt *q = look_at(s, LOOK_MESSAGES);
    while (look_next(s, q)) {
        struct known_message *m = known_message(c, look_int(q, 0));
        m->is_known = true;
        m->looked = c->message_looks;
        p12_ends_stay(s, q, m);
        p9_attempts_have_an_end(s, q);
        p13_rings_and_losses_are_told(s, q, m);
    }
    p12_none_is_gone(s);
    p18_none_is_stranded(s);
}
