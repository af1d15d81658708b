/*
 * test_clocks.c: nobody is convicted for time in which nobody watched, and everybody else in time
 * (W7: P1 P2 P3 P16 P20).
 *
 * A history is made from a seed: a core (the production code, lib/core_world.h) with three clocks
 * of its own and a few suspects, each watched by one rule. They go on giving signs of life, or fall
 * silent at some moment. Meanwhile the wall clock is stepped by a second or by ten years, the
 * machine sleeps for a minute or a month, the process stands still, a commit takes long, the server
 * is killed, told to end, or comes up again after a reboot, in any order.
 *
 * The oracle turns the core's thread itself (turn(), as server.c does), so it knows when the core
 * was awake. It counts *watched* time by one sentence of the design: what lies between two beats
 * of the thread was watched if and only if it is no longer than watch.gap_seconds. Of a killed
 * server nobody knows what it saw after it last stored a time: that is *forgotten*. From this, and
 * from nothing that the core says, follows for each suspect:
 *
 *     false   convicted before more than its limit of watched time had passed since its last sign
 *     late    not convicted when that has passed, what was forgotten, and a second more
 *
 * Further: `now` is what clock.h promises; each millisecond of it was watched or is on record as a
 * gap; each step of the wall clock is told; no event is older than the one before it.
 *
 *     REEVE_HISTORIES   how many (default 2000)
 *     REEVE_SEED        the first seed (default 1); a failure names its own
 */
#include "tap.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/mem.h"
#include "lib/core_world.h"
#include "workload.h"

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define DAY_MS (24 * 60 * MINUTE_MS)
#define YEAR_MS (365 * DAY_MS)
#define FIRST_WALL_MS (57 * YEAR_MS)

enum {
    SUSPECTS_MAX = 5,
    GAP_MS = 2000,   /* watch.gap_seconds */
    LATE_MS = 1000,  /* P2, P3 */
    SHORT_MS = 1900, /* a pause that is no gap */
    MOVES_MAX = 8,
    POLL_ID = 77,
    KEEP_EVERY_MS = 1000, /* of a machine that is to stay online: machine.ttl_seconds is 3 at least */
    /* A server that has somebody to judge stores the time every 5 s, or at its next beat. */
    FORGOTTEN_MAX_MS = 5000 + GAP_MS + 500,
};

struct suspect {
    const struct suspect_kind *kind;
    int64_t number; /* of its conversation, task or machine */
    int64_t limit_ms, sign_every_ms;
    int silent_from;                      /* this move of the history */
    int64_t next_sign_ms, next_keep_ms;   /* true time */
    int64_t seen_ms, forgotten_ms, at_ms; /* watched, forgotten, `now`: at its last sign */
    bool is_convicted;
};

struct history {
    struct world *w;
    uint64_t seed, random;
    int move;
    struct clock_source source;
    int64_t true_ms;                          /* goes on whatever happens */
    int64_t boot_at_ms, slept_ms;             /* true time of the boot; of it asleep */
    int64_t wall_ahead_ms, wall_ahead_before; /* of true time; at the last beat */
    int64_t slow_ms;                          /* the next change of the disk takes so long */
    /* The oracle. */
    int64_t start_now_ms, start_true_ms; /* of this life of the server */
    int64_t beat_true_ms;                /* its last beat */
    int64_t watched_ms, forgotten_ms;
    int64_t first_now_ms, steps_ms;
    uint64_t events; /* as many as were looked at */
    /* A long poll: it is answered when its time is over, not before, and a second later at most. Its
     * time is that of a clock which stands still while the machine sleeps. */
    int64_t poll_conversation, poll_ms, polled_us; /* poll_ms 0: none is under way */
    bool is_ending;                                /* the server was told to: polls are refused */
    struct suspect suspects[SUSPECTS_MAX];
    int suspect_count;
};

struct tally {
    int64_t histories, convictions, gaps;
};

_printf_(2, 3) _noreturn_ static void fail(const struct history *h, const char *fmt, ...)
{
    char text[500];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tap_fail(__FILE__, __LINE__, "%s (REEVE_SEED=%llu REEVE_HISTORIES=1, move %d)", text,
             (unsigned long long)h->seed, h->move);
}

/* ---- chance ---- */

static int64_t between(struct history *h, int64_t low, int64_t high)
{
    return low + (int64_t)(fault_random(&h->random) % (uint64_t)(high - low + 1));
}

static bool one_in(struct history *h, int64_t n)
{
    return between(h, 1, n) == 1;
}

/* Of every order of magnitude as often. */
static int64_t of_any_size(struct history *h, int64_t low, int64_t high)
{
    int64_t top = low;
    while (top < high && !one_in(h, 4))
        top *= 4;
    return between(h, low, MIN(top, high));
}

/* ---- clocks ---- */

static int64_t wall_ms(void *ctx)
{
    const struct history *h = ctx;
    return h->true_ms + h->wall_ahead_ms;
}

static int64_t boot_us(void *ctx)
{
    const struct history *h = ctx;
    return (h->true_ms - h->boot_at_ms) * 1000;
}

static int64_t mono_us(void *ctx)
{
    const struct history *h = ctx;
    return (h->true_ms - h->boot_at_ms - h->slept_ms) * 1000;
}

static int64_t now_ms(const struct history *h)
{
    return h->start_now_ms + h->true_ms - h->start_true_ms;
}

static void on_disk_change(void *ctx)
{
    struct history *h = ctx;
    h->true_ms += h->slow_ms;
    h->slow_ms = 0;
}

/* ---- suspects ---- */

/* In what is asked of the server # stands for the number of the conversation or machine, @ for that
 * of the task, ~ for the limit in seconds. */
#define QUIET "'watchdog':{'disabled':true},'runtime_controls':{'session_wall_clock_seconds':0}}"
#define CREATE_QUIET CALL("conversation.create", "{'agents':[{'role':'a'}]," QUIET)
#define ME "{'conversation':#,'role':'a','connectionId':'c'"
#define JOIN CALL("participant.join", ME "}")
#define BEAT CALL("participant.heartbeat", ME "}")
#define WORK CALL("participant.heartbeat", ME ",'epoch':1}")
#define GIVE CALL("task.create", "{'conversation':#,'role':'a','content':1}")
#define TAKE CALL("task.claim", ME "}")
#define START CALL("task.start", "{'task':@,'epoch':1}")
#define SUSPEND_FOR "'tools':[{'toolCallId':'x','name':'n'}]}"
#define SUSPEND CALL("task.suspend", "{'task':@,'epoch':1," SUSPEND_FOR)
#define IDLE "'watchdog':{'idleMs':~000},'runtime_controls':{'session_wall_clock_seconds':0}}"
#define CREATE_IDLE CALL("conversation.create", "{'agents':[{'role':'a'}]," IDLE)
#define TALK CALL("message.send", "{'conversation':#,'agentId':'a','text':'x'}")
#define BUDGET "'watchdog':{'disabled':true},'runtime_controls':{'session_wall_clock_seconds':~}}"
#define CREATE_BUDGET CALL("conversation.create", "{'agents':[]," BUDGET)
#define POLL CALL("machine.poll", "{'machine':'m#','instance':'i','timeoutMs':0,'alive':[]}")
/* An agent on a machine of its own, which is called after the conversation. */
#define OFFER "'kinds':[{'name':'k','ready':'notify'}]"
#define REGISTER CALL("machine.register", "{'machine':'of#','instance':'i'," OFFER "}")
#define KEEP CALL("machine.poll", "{'machine':'of#','instance':'i','timeoutMs':0,'alive':[]}")
#define PIN CALL("agent.set", "{'conversation':#,'role':'a','kind':'k','machine':'of#'}")
#define RAISE CALL("agent.start", "{'conversation':#,'role':'a'}")
#define REPORT CALL("tool.report", "{'task':@,'toolCallId':'x','status':'success'}")
#define RESUME CALL("task.resume", "{'task':@,'epoch':1}")
#define MOVED_BY(rule) "SELECT COUNT(*) FROM moves WHERE conversation = # AND rule = '" rule "'"
#define OFFLINE "SELECT COUNT(*) FROM machines WHERE machine = 'm#' AND is_online = 0"
#define LOST "SELECT COUNT(*) FROM machines WHERE machine = 'm#' AND is_fenced = 1"

static const char register_machine[] =
    CALL("machine.register", "{'machine':'m#','instance':'i','kinds':[]}");

struct suspect_kind {
    const char *name, *begin[8];
    const char *sign;    /* of life; NULL: it gives none */
    const char *verdict; /* not 0: convicted */
    int option;          /* its limit, in seconds; -1: one of its own */
    int64_t longest_seconds;
    bool is_leased;       /* a start gives it a new lease */
    bool counts_all_time; /* not only what was watched */
    bool is_a_task;       /* task.max_seconds would end it */
    const char *keep;     /* asked for all along: a sign of somebody else, without whom it is not judged */
    const char *until;    /* not 0: its clock begins, after `begin` */
    int limit_times;      /* its limit is so often the option, and at least so long; 0: it is that */
    int64_t least_seconds;
};

#define SIXTY_DAYS (60 * 86400)

static const struct suspect_kind kinds[] = {
    {"listener",
     {CREATE_QUIET, JOIN},
     BEAT,
     MOVED_BY("participant.expire"),
     OPT_liveness_ttl_seconds,
     10,
     .is_leased = true},
    {"worker",
     {CREATE_QUIET, JOIN, GIVE, TAKE, START},
     WORK,
     MOVED_BY("task.orphaned"),
     OPT_liveness_active_ttl_seconds,
     10,
     .is_leased = true,
     .is_a_task = true},
    {"machine", {register_machine}, POLL, OFFLINE, OPT_machine_ttl_seconds, 10, .is_leased = true},
    {"talker", {CREATE_IDLE, TALK}, TALK, MOVED_BY("conversation.idle"), -1, 10},
    {"unclaimed",
     {CREATE_QUIET, GIVE},
     NULL,
     MOVED_BY("dispatch.reap"),
     OPT_pmo_dispatched_timeout_seconds,
     20,
     .is_a_task = true},
    {"tool",
     {CREATE_QUIET, JOIN, GIVE, TAKE, START, SUSPEND},
     NULL,
     MOVED_BY("tool.timeout"),
     OPT_worker_suspend_timeout_seconds,
     20,
     .is_a_task = true},
    {"command",
     {CREATE_QUIET, REGISTER, PIN, RAISE, KEEP},
     NULL,
     MOVED_BY("command.expired"),
     OPT_restart_command_deadline_seconds,
     10,
     .keep = KEEP},
    {"fence", {register_machine}, NULL, LOST, OPT_machine_fence_seconds, 20, .until = OFFLINE},
    {"ledger",
     {CREATE_QUIET, JOIN, GIVE, TAKE, START, SUSPEND, REPORT, RESUME},
     NULL,
     MOVED_BY("ledger.requeue"),
     OPT_worker_watchdog_interval_seconds,
     10,
     .is_a_task = true,
     .limit_times = 2,
     .least_seconds = 10},
    {"budget",
     {CREATE_BUDGET},
     NULL,
     MOVED_BY("session.wall_clock"),
     -1,
     SIXTY_DAYS,
     .counts_all_time = true},
    {"deadline",
     {CREATE_QUIET, GIVE},
     NULL,
     MOVED_BY("task.max_seconds"),
     OPT_task_max_seconds,
     SIXTY_DAYS,
     .counts_all_time = true},
};
static int64_t convicted_by_kind[ARRAY_LEN(kinds)], polls_answered;

static char *fill_in(struct history *h, const struct suspect *s, const char *text)
{
    struct buf out = BUF_INIT(4096);
    for (; *text; text++)
        if (*text == '#')
            buf_add_int(&out, s->number);
        else if (*text == '~')
            buf_add_int(&out, s->limit_ms / SECOND_MS);
        else if (*text == '@')
            buf_add_int(&out, store_int(h->w, "SELECT task FROM tasks WHERE conversation = %lld",
                                        (long long)s->number));
        else
            buf_addc(&out, *text);
    return buf_take(&out);
}

static void ask_for(struct history *h, const struct suspect *s, const char *text)
{
    _cleanup_free_ char *request = fill_in(h, s, text);
    ask(h->w, "%s", request);
}

static bool is_so(struct history *h, const struct suspect *s, const char *text)
{
    _cleanup_free_ char *query = fill_in(h, s, text);
    return store_int(h->w, "%s", query) > 0;
}

static bool has_verdict(struct history *h, const struct suspect *s)
{
    return is_so(h, s, s->kind->verdict);
}

static void note_sign(const struct history *h, struct suspect *s)
{
    s->seen_ms = h->watched_ms;
    s->forgotten_ms = h->forgotten_ms;
    s->at_ms = now_ms(h);
}

/* ---- the oracle ---- */

/* The thread has woken and beats: was the time since the last beat watched? */
static void note_beat(struct history *h)
{
    int64_t elapsed_ms = h->true_ms - h->beat_true_ms;
    int64_t step_ms = h->wall_ahead_ms - h->wall_ahead_before;
    if (elapsed_ms <= GAP_MS)
        h->watched_ms += elapsed_ms;
    if (llabs(step_ms) > 1000)
        h->steps_ms += step_ms;
    h->beat_true_ms = h->true_ms;
    h->wall_ahead_before = h->wall_ahead_ms;
}

static int64_t silence_ms(const struct history *h, const struct suspect *s)
{
    return s->kind->counts_all_time ? now_ms(h) - s->at_ms : h->watched_ms - s->seen_ms;
}

static void check_not_late(const struct history *h, const struct suspect *s)
{
    int64_t forgotten_ms = s->kind->counts_all_time ? 0 : h->forgotten_ms - s->forgotten_ms;
    if (silence_ms(h, s) - forgotten_ms > s->limit_ms + LATE_MS)
        fail(h, "late: %s %lld goes free after %lld ms of %lld", s->kind->name,
             (long long)s->number, (long long)silence_ms(h, s), (long long)s->limit_ms);
}

/* After a tick before which the suspects had been silent for so long. It may have been two, with
 * a commit between them that took its time. */
static void look_for_verdicts(struct history *h, const int64_t *silent_ms)
{
    int64_t held_up_ms = h->true_ms - h->beat_true_ms;
    if (core_stats(h->w->core)->events == h->events)
        return;
    h->events = core_stats(h->w->core)->events;
    for (int i = 0; i < h->suspect_count; i++) {
        struct suspect *s = &h->suspects[i];
        if (s->is_convicted || !has_verdict(h, s))
            continue;
        int64_t ms = silent_ms[i];
        if (s->kind->counts_all_time || held_up_ms <= GAP_MS)
            ms += held_up_ms;
        if (ms <= s->limit_ms)
            fail(h, "false: %s %lld was convicted after %lld ms of %lld", s->kind->name,
                 (long long)s->number, (long long)ms, (long long)s->limit_ms);
        s->is_convicted = true;
        convicted_by_kind[s->kind - kinds]++;
    }
}

static int64_t poll_waited_ms(const struct history *h)
{
    return (mono_us((void *)h) - h->polled_us) / 1000;
}

static void note_poll_answered(struct history *h)
{
    if (poll_waited_ms(h) < h->poll_ms)
        fail(h, "early: a poll of %lld ms is answered after %lld", (long long)h->poll_ms,
             (long long)poll_waited_ms(h));
    h->poll_ms = 0;
    polls_answered++;
}

/* The core is at rest: it has done everything that was due. */
static void check_rest(const struct history *h)
{
    if (h->poll_ms && poll_waited_ms(h) > h->poll_ms + LATE_MS)
        fail(h, "late: a poll of %lld ms is not answered after %lld", (long long)h->poll_ms,
             (long long)poll_waited_ms(h));
    for (int i = 0; i < h->suspect_count; i++)
        if (!h->suspects[i].is_convicted)
            check_not_late(h, &h->suspects[i]);
    if (clock_now_ms(&h->w->clock) != now_ms(h))
        fail(h, "now is %lld, not %lld", (long long)clock_now_ms(&h->w->clock),
             (long long)now_ms(h));
}

#define GAP_EVENTS                                                       \
    " FROM (SELECT json_extract(payload, '$.data.kind') AS kind,"        \
    " json_extract(payload, '$.data.ms') AS ms FROM conversation_events" \
    " WHERE conversation = 0 AND json_extract(payload, '$.kind') = 'watch.gap')"

static int64_t on_record_ms(const struct history *h, int64_t since_ms)
{
    return store_int(h->w,
                     "SELECT IFNULL(SUM(to_at - from_at), 0) FROM watch_gaps"
                     " WHERE to_at > %lld",
                     (long long)since_ms);
}

/* Each millisecond was watched, or is on record once. */
static void check_records(const struct history *h)
{
    int64_t missed_ms = now_ms(h) - h->first_now_ms - (h->watched_ms - h->forgotten_ms);
    if (on_record_ms(h, h->first_now_ms) != missed_ms)
        fail(h, "%lld ms were not watched, %lld are on record", (long long)missed_ms,
             (long long)on_record_ms(h, h->first_now_ms));
}

static void check_log(const struct history *h)
{
    int64_t told_ms =
        store_int(h->w, "SELECT IFNULL(SUM(ms), 0)" GAP_EVENTS " WHERE kind <> 'wall_step'");
    int64_t steps_ms =
        store_int(h->w, "SELECT IFNULL(SUM(ms), 0)" GAP_EVENTS " WHERE kind = 'wall_step'");
    int64_t backwards = store_int(h->w, "SELECT COUNT(*) FROM (SELECT ts, LAG(ts) OVER"
                                        " (ORDER BY id) AS before FROM conversation_events)"
                                        " WHERE ts < before");
    if (told_ms != on_record_ms(h, 0))
        fail(h, "the log tells of gaps of %lld ms, not %lld", (long long)told_ms,
             (long long)on_record_ms(h, 0));
    if (steps_ms != h->steps_ms)
        fail(h, "steps of the wall clock: %lld ms were told, not %lld", (long long)steps_ms,
             (long long)h->steps_ms);
    if (backwards)
        fail(h, "%lld events are older than the one before them", (long long)backwards);
}

/* ---- the server ---- */

static void hear(struct history *h)
{
    while (h->w->out.first) {
        struct reply r = take(h->w);
        struct str error = string_at(r.json, "error.message");
        bool is_poll = int_at(r.json, "id") == POLL_ID;
        if (json_get(r.json, "error") && !(is_poll && h->is_ending))
            fail(h, "refused: %.*s", STR_ARG(error));
        if (is_poll && !h->is_ending)
            note_poll_answered(h);
        done(&r);
    }
}

static void begin_poll(struct history *h)
{
    if (h->poll_ms || h->move == 2 * MOVES_MAX || !one_in(h, 4))
        return;
    h->poll_ms = of_any_size(h, 100, 20 * SECOND_MS);
    h->polled_us = mono_us(h);
    ask(h->w,
        "{'jsonrpc':'2.0','id':%d,'method':'inbox.receive','params':{'conversation':%lld,"
        "'role':'a','connectionId':'p','timeoutMs':%lld}}",
        POLL_ID, (long long)h->poll_conversation, (long long)h->poll_ms);
}

static void give_signs(struct history *h)
{
    for (int i = 0; i < h->suspect_count; i++) {
        struct suspect *s = &h->suspects[i];
        if (!s->kind->sign || s->is_convicted || h->move >= s->silent_from ||
            s->next_sign_ms > h->true_ms)
            continue;
        ask_for(h, s, s->kind->sign);
        note_sign(h, s);
        s->next_sign_ms = h->true_ms + between(h, 1, s->sign_every_ms);
    }
}

static void keep_others(struct history *h)
{
    for (int i = 0; i < h->suspect_count; i++) {
        struct suspect *s = &h->suspects[i];
        if (!s->kind->keep || s->next_keep_ms > h->true_ms)
            continue;
        ask_for(h, s, s->kind->keep);
        s->next_keep_ms = h->true_ms + KEEP_EVERY_MS;
    }
}

/* A sign that comes when its limit has passed may be too late, or may not. */
static void tick_and_look(struct history *h)
{
    int64_t silent_ms[SUSPECTS_MAX];
    for (int i = 0; i < h->suspect_count; i++)
        silent_ms[i] = silence_ms(h, &h->suspects[i]);
    give_signs(h);
    keep_others(h);
    begin_poll(h);
    if (!h->w->first && !core_wants_tick(h->w->core))
        return;
    tick(h->w);
    look_for_verdicts(h, silent_ms);
}

/* What the core's thread does when it wakes, until it would wait: server.c. */
static void turn(struct history *h)
{
    bool more;
    do {
        core_beat(h->w->core);
        note_beat(h);
        tick_and_look(h);
        more = core_idle(h->w->core, &h->w->out);
        hear(h);
    } while (more || core_wants_tick(h->w->core) || h->beat_true_ms != h->true_ms);
    check_rest(h);
}

/* Signs that were due while nobody could take them come soon after, or at once. */
static void resume_signs(struct history *h)
{
    for (int i = 0; i < h->suspect_count; i++) {
        struct suspect *s = &h->suspects[i];
        if (s->next_sign_ms < h->true_ms)
            s->next_sign_ms = h->true_ms + between(h, 0, s->sign_every_ms);
    }
}

static int64_t last_stored_ms(struct history *h)
{
    return store_int(h->w, "SELECT MAX(last_tick_at) FROM servers");
}

/* At the end of a life: what it saw and did not store is forgotten. */
static void note_end(struct history *h)
{
    int64_t seen_to_ms = h->start_now_ms + h->beat_true_ms - h->start_true_ms;
    int64_t forgotten_ms = seen_to_ms - last_stored_ms(h);
    bool is_judging = false;
    for (int i = 0; i < h->suspect_count; i++)
        is_judging |= !h->suspects[i].is_convicted && !h->suspects[i].kind->is_leased;
    if (forgotten_ms < 0 || (is_judging && forgotten_ms > FORGOTTEN_MAX_MS))
        fail(h, "%lld ms were forgotten", (long long)forgotten_ms);
    h->forgotten_ms += forgotten_ms;
}

static void note_start(struct history *h, int64_t stored_ms)
{
    h->start_true_ms = h->beat_true_ms = h->true_ms;
    h->start_now_ms = MAX(wall_ms(h), stored_ms);
    h->poll_ms = 0; /* of those who asked the last one, nobody waits any more */
    h->wall_ahead_before = h->wall_ahead_ms;
    h->slow_ms = 0;
    h->events = UINT64_MAX;
}

/* The clocks may have changed since the last life. */
static void start_server(struct history *h)
{
    int64_t stored_ms = last_stored_ms(h);
    note_start(h, stored_ms);
    clock_init(&h->w->clock, &h->source, stored_ms);
    world_restart(h->w);
    for (int i = 0; i < h->suspect_count; i++)
        if (h->suspects[i].kind->is_leased)
            note_sign(h, &h->suspects[i]);
}

/* ---- what happens ---- */

static int64_t next_act_ms(const struct suspect *s)
{
    return s->kind->keep ? MIN(s->next_keep_ms, s->next_sign_ms) : s->next_sign_ms;
}

/* Time passes, and the server sleeps and wakes as it likes; now and then it is held up a little. */
static void pass(struct history *h, int64_t ms)
{
    int64_t until_ms = h->true_ms + ms;
    while (h->true_ms < until_ms) {
        int64_t wait_ms = (core_wait_us(h->w->core) + 999) / 1000;
        for (int i = 0; i < h->suspect_count; i++)
            wait_ms = MIN(wait_ms, MAX(next_act_ms(&h->suspects[i]) - h->true_ms, INT64_C(1)));
        h->true_ms += wait_ms + (one_in(h, 8) ? of_any_size(h, 1, SHORT_MS - 500) : 0);
        turn(h);
    }
}

static void step_wall(struct history *h)
{
    int64_t ms = of_any_size(h, SECOND_MS, 10 * YEAR_MS);
    h->wall_ahead_ms += one_in(h, 2) ? ms : -ms;
}

static void nap(struct history *h)
{
    int64_t ms = of_any_size(h, MINUTE_MS, 30 * DAY_MS);
    h->true_ms += ms;
    h->slept_ms += ms;
}

static void stall(struct history *h)
{
    h->true_ms += of_any_size(h, 1, DAY_MS);
}

static void slow_commit(struct history *h)
{
    h->slow_ms = of_any_size(h, 100, 30 * SECOND_MS);
}

static void stay_down(struct history *h)
{
    h->true_ms += of_any_size(h, 1, 30 * DAY_MS);
    if (one_in(h, 3))
        step_wall(h);
    if (one_in(h, 3)) { /* another boot */
        h->boot_at_ms = h->true_ms - between(h, 0, MINUTE_MS);
        h->slept_ms = 0;
    }
    start_server(h);
    if (one_in(h, 3)) /* and its start took long */
        stall(h);
}

static void be_killed(struct history *h)
{
    note_end(h);
    stay_down(h);
}

/* Told to end: it may have been held up before it hears of it. Of a step it does not tell any more.
 */
static void be_told(struct history *h)
{
    h->wall_ahead_before = h->wall_ahead_ms;
    if (h->true_ms - h->beat_true_ms <= GAP_MS)
        note_beat(h);
    core_stop(h->w->core, &h->w->out);
    h->is_ending = true;
    hear(h);
    h->is_ending = false;
    note_end(h);
    stay_down(h);
}

static void (*const events[])(struct history *h) = {
    step_wall, step_wall, nap, nap, stall, stall, slow_commit, slow_commit, be_killed, be_told,
};

/* One thing, or several before the server wakes again. */
static void something_happens(struct history *h)
{
    do
        events[between(h, 0, ARRAY_LEN(events) - 1)](h);
    while (one_in(h, 3));
    resume_signs(h);
    turn(h);
    check_records(h);
}

/* ---- a history ---- */

/* task.max_seconds ends tasks of every kind: it is off unless it is what is looked at. */
static void choose_limits(struct history *h, struct options *o)
{
    options_init(o);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].option >= 0)
            o->value[kinds[i].option] = of_any_size(h, 3, kinds[i].longest_seconds);
    o->value[one_in(h, 4) ? OPT_pmo_dispatched_timeout_seconds : OPT_task_max_seconds] = 0;
}

static void add_suspect(struct history *h, const struct options *o)
{
    struct suspect *s = &h->suspects[h->suspect_count];
    const struct suspect_kind *kind = &kinds[between(h, 0, ARRAY_LEN(kinds) - 1)];
    *s = (struct suspect){.kind = kind, .number = h->suspect_count + 1};
    s->limit_ms = SECOND_MS * (kind->option < 0 ? of_any_size(h, 3, kind->longest_seconds)
                                                : o->value[kind->option]);
    s->limit_ms *= kind->limit_times ? kind->limit_times : 1;
    s->limit_ms = MAX(s->limit_ms, kind->least_seconds * SECOND_MS);
    s->sign_every_ms = s->limit_ms / 3;
    s->silent_from = (int)between(h, 0, 2 * MOVES_MAX);
    if (s->limit_ms == 0 || (kind->is_a_task && o->value[OPT_task_max_seconds]))
        return;
    for (size_t i = 0; i < ARRAY_LEN(kind->begin) && kind->begin[i]; i++) {
        ask_for(h, s, kind->begin[i]);
        tick(h->w);
        hear(h);
        if (i == 0 && kind->begin[0] != register_machine)
            s->number = store_int(h->w, "SELECT MAX(conversation) FROM conversations");
    }
    while (kind->until && !is_so(h, s, kind->until))
        pass(h, 1);
    note_sign(h, s);
    h->suspect_count++;
}

/* A store that has been started once, made once. */
static const struct fault_vfs *first_files(void)
{
    static struct fault_vfs *files;
    if (!files)
        files = world_leave(world_new());
    return files;
}

static void begin(struct history *h, uint64_t seed)
{
    struct options options;
    *h = (struct history){.seed = seed, .random = seed, .wall_ahead_ms = FIRST_WALL_MS};
    h->source =
        (struct clock_source){.wall_ms = wall_ms, .boot_us = boot_us, .mono_us = mono_us, .ctx = h};
    choose_limits(h, &options);
    note_start(h, 0);
    h->first_now_ms = h->start_now_ms;
    h->w = world_on_clock(first_files(), &options, &h->source);
    fault_vfs_watch(h->w->disk, on_disk_change, h);
    ask(h->w, CREATE_QUIET);
    tick(h->w);
    h->poll_conversation = take_int(h->w, "result.conversation");
    for (int64_t n = between(h, 1, SUSPECTS_MAX); n > 0; n--)
        add_suspect(h, &options);
    turn(h);
}

/* Nobody gives a sign any more: all are convicted, those who count all time after one more sleep.
 */
static void end(struct history *h, struct tally *t)
{
    int64_t rest_ms = 0;
    h->move = 2 * MOVES_MAX;
    h->slow_ms = 0;
    pass(h, 20 * SECOND_MS + LATE_MS + h->forgotten_ms);
    for (int i = 0; i < h->suspect_count; i++)
        rest_ms = MAX(rest_ms, h->suspects[i].limit_ms);
    h->true_ms += rest_ms;
    h->slept_ms += rest_ms;
    turn(h);
    pass(h, 2 * SECOND_MS);
    check_records(h);
    check_log(h);
    for (int i = 0; i < h->suspect_count; i++)
        if (!h->suspects[i].is_convicted)
            fail(h, "late: %s %lld is never convicted", h->suspects[i].kind->name,
                 (long long)h->suspects[i].number);
    t->histories++;
    t->convictions += h->suspect_count;
    t->gaps += store_int(h->w, "SELECT COUNT(*) FROM watch_gaps");
    fault_vfs_watch(h->w->disk, NULL, NULL);
    world_free(h->w);
}

static void play(uint64_t seed, struct tally *t)
{
    struct history h;
    begin(&h, seed);
    for (int moves = (int)between(&h, 3, MOVES_MAX); h.move < moves; h.move++) {
        pass(&h, of_any_size(&h, 1, 10 * SECOND_MS));
        something_happens(&h);
    }
    end(&h, t);
}

TEST(W7_P2_P16_nobody_is_convicted_for_unwatched_time_and_everybody_else_in_time)
{
    struct tally t = {0};
    uint64_t first = run_setting("REEVE_SEED", 1), count = run_setting("REEVE_HISTORIES", 2000);
    for (uint64_t seed = first; seed < first + count; seed++)
        play(seed, &t);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (count >= 1000 && convicted_by_kind[i] < 10)
            tap_fail(__FILE__, __LINE__, "only %lld of kind %s were ever convicted",
                     (long long)convicted_by_kind[i], kinds[i].name);
    if (count >= 1000 && polls_answered < 1000)
        tap_fail(__FILE__, __LINE__, "only %lld polls were ever answered",
                 (long long)polls_answered);
    printf("# proof weapon=clocks histories=%lld convictions=%lld gaps=%lld failures=0\n",
           (long long)t.histories, (long long)t.convictions, (long long)t.gaps);
}
