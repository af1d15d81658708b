/*
 * test_watch.c: the parts of the ladder without a core: gaps, rules, the stored times to look,
 * what a pass costs.
 *
 * The heart is a property: whatever happens, no conversation is due before the time at which the
 * ladder will look at it (domain/rule.h). Random requests, refusals, gaps, failing disks and
 * restarts with other limits try to break it.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "domain/append.h"
#include "domain/conversation.h"
#include "domain/head.h"
#include "domain/work.h"
#include "lib/fault_vfs.h"
#include "store/sqlite_store.h"
#include "tap.h"
#include "watch/engine.h"

enum { START_MS = 1000000 };

struct bench {
    struct fault_vfs *disk;
    struct options options;
    struct work work;
    struct ladder *ladder;
    uint64_t random;
    uint64_t moved; /* by the ladders before this one */
};

static uint64_t below(struct bench *b, uint64_t n)
{
    return fault_random(&b->random) % n;
}

static void start(struct bench *b, int64_t now_ms)
{
    struct err err = ERR_INIT;
    struct store *store;
    CHECK_INT(store_open("sqlite:a.db", "disk", now_ms, &store, &err), 0);
    if (work_init(&b->work, store, &b->options, now_ms, &err) < 0)
        tap_fail(__FILE__, __LINE__, "%s", err.message);
    b->work.tail_max = 100; /* so that heads are written behind often */
    b->ladder = ladder_new(&b->work);
}

static void stop(struct bench *b)
{
    struct store *store = b->work.store;
    b->moved += ladder_stats(b->ladder)->moved;
    b->ladder = ladder_free(b->ladder);
    work_release(&b->work);
    store_close(store);
}

static struct bench *bench_new(uint64_t seed)
{
    struct bench *b = mem_zalloc(sizeof *b);
    log_set_level(LOG_ERROR + 1);
    b->random = seed;
    b->disk = fault_vfs_new("disk", seed);
    options_init(&b->options);
    start(b, START_MS);
    return b;
}

static void bench_free(struct bench *b)
{
    stop(b);
    fault_vfs_free(b->disk);
    free(b);
}

static void begin(struct bench *b, int64_t now_ms)
{
    CHECK_INT(work_begin(&b->work, now_ms, NULL), 0);
    CHECK_INT(work_request_begin(&b->work, NULL), 0);
}

static void end(struct bench *b)
{
    CHECK_INT(work_request_end(&b->work, true, NULL), 0);
    CHECK_INT(work_commit(&b->work, NULL), 0);
}

static struct head *head_of(struct bench *b, int64_t conversation)
{
    struct head *h = NULL;
    CHECK_INT(head_get(&b->work, conversation, &h, NULL), 0);
    return h;
}

/* ---- gaps ---- */

enum { LINE_MS = 400 };

/* Some gaps within LINE_MS, some of which touch, and the same as a line of milliseconds. */
static void draw_gaps(struct bench *b, struct gaps *ret, bool is_gap[LINE_MS])
{
    gaps_release(ret);
    memset(is_gap, 0, LINE_MS * sizeof *is_gap);
    int64_t at = (int64_t)below(b, 60);
    while (at < LINE_MS - 1) {
        int64_t to = MIN(at + 1 + (int64_t)below(b, 50), (int64_t)LINE_MS);
        gaps_add(ret, at, to);
        for (int64_t ms = at; ms < to; ms++)
            is_gap[ms] = true;
        at = to + (int64_t)below(b, 60);
    }
}

/* Millisecond by millisecond. After the line everything is watched. */
static int64_t slow_due_ms(const bool is_gap[LINE_MS], int64_t since_ms, int64_t limit_ms)
{
    int64_t watched_ms = 0, at_ms = since_ms;
    for (; watched_ms <= limit_ms; at_ms++)
        watched_ms += at_ms >= LINE_MS || !is_gap[at_ms];
    return at_ms;
}

static int64_t slow_within_ms(const bool is_gap[LINE_MS], int64_t from_ms, int64_t to_ms)
{
    int64_t sum = 0;
    for (int64_t at_ms = from_ms; at_ms < to_ms && at_ms < LINE_MS; at_ms++)
        sum += is_gap[at_ms];
    return sum;
}

TEST(L30_gaps_agree_with_counting_milliseconds)
{
    struct bench b = {.random = 1};
    struct gaps gaps = {0};
    bool is_gap[LINE_MS];
    for (int round = 0; round < 300; round++) {
        draw_gaps(&b, &gaps, is_gap);
        for (int i = 0; i < 200; i++) {
            int64_t since = (int64_t)below(&b, LINE_MS + 20), limit = (int64_t)below(&b, 200);
            CHECK_INT(gaps_due_ms(&gaps, since, limit), slow_due_ms(is_gap, since, limit));
            int64_t to = since + (int64_t)below(&b, 250);
            CHECK_INT(gaps_within_ms(&gaps, since, to), slow_within_ms(is_gap, since, to));
        }
    }
    gaps_release(&gaps);
}

static int64_t gap_events(struct bench *b)
{
    return head_of(b, 0)->last_seq - 1; /* after meta_created */
}

TEST(what_is_a_gap_already_is_not_one_twice)
{
    struct bench *b = bench_new(1);
    begin(b, START_MS + 2000);
    CHECK_INT(gaps_record(&b->work, GAP_LATE, START_MS + 1000, NULL), 0);
    CHECK_INT(gaps_record(&b->work, GAP_LATE, START_MS + 500, NULL), 0); /* same end: nothing */
    end(b);
    CHECK_INT(gap_events(b), 1);
    begin(b, START_MS + 3000);
    CHECK_INT(gaps_record(&b->work, GAP_SUSPEND, START_MS + 1500, NULL), 0);
    CHECK_INT(gaps_record(&b->work, GAP_SUSPEND, START_MS + 3000, NULL), 0); /* of no length */
    end(b);
    CHECK_INT(gap_events(b), 2);
    CHECK_INT(b->work.gaps.count, 2);
    CHECK_INT(gaps_within_ms(&b->work.gaps, START_MS, START_MS + 9000), 2000);
    CHECK_INT(gaps_due_ms(&b->work.gaps, START_MS + 500, 5000), START_MS + 7501);
    stop(b);
    start(b, START_MS + 3000);
    CHECK_INT(b->work.gaps.count, 2);
    CHECK_INT(gaps_within_ms(&b->work.gaps, START_MS, START_MS + 9000), 2000);
    bench_free(b);
}

TEST(L30_down_time_is_a_gap)
{
    struct bench *b = bench_new(1);
    stop(b);
    start(b, START_MS + 60000);
    CHECK_INT(gaps_within_ms(&b->work.gaps, 0, START_MS + 60000), 60000);
    CHECK_INT(gap_events(b), 1);
    bench_free(b);
}

static void check_no_gap(struct bench *b)
{
    CHECK_INT(b->work.gaps.count, 0);
    CHECK_INT(gap_events(b), 0);
    struct query *q = store_query(b->work.store, SQL_GAP_LIST);
    CHECK_INT(query_step(q, NULL), STORE_DONE);
}

TEST(a_gap_that_was_undone_never_was)
{
    struct bench *b = bench_new(1);
    begin(b, START_MS + 2000);
    CHECK_INT(gaps_record(&b->work, GAP_LATE, START_MS, NULL), 0);
    CHECK_INT(b->work.gaps.count, 1);
    CHECK_INT(work_request_end(&b->work, false, NULL), 0);
    CHECK_INT(work_commit(&b->work, NULL), 0);
    check_no_gap(b);

    begin(b, START_MS + 2000);
    CHECK_INT(gaps_record(&b->work, GAP_LATE, START_MS, NULL), 0);
    CHECK_INT(work_request_end(&b->work, true, NULL), 0);
    fault_vfs_plan(b->disk, FAULT_FULL, 1, false);
    CHECK(work_commit(&b->work, NULL) < 0);
    check_no_gap(b);

    begin(b, START_MS + 2000);
    CHECK_INT(gaps_record(&b->work, GAP_LATE, START_MS, NULL), 0);
    end(b);
    CHECK_INT(b->work.gaps.count, 1);
    CHECK_INT(gap_events(b), 1);
    bench_free(b);
}

/* ---- rules ---- */

/* An active conversation in an open turn, without limits. */
static struct head quiet_head(void)
{
    return (struct head){.conversation = 1,
                         .status = CONVERSATION_ACTIVE,
                         .turn_is_open = true,
                         .window_started_ms = 1000,
                         .last_activity_ms = 5000};
}

static int64_t due(enum rule_id rule, const struct head *h)
{
    struct options o;
    const struct gaps none = {0};
    options_init(&o);
    return rule_due_ms(rule, &o, &none, h);
}

TEST(a_limit_is_exceeded_one_millisecond_after_it)
{
    struct head h = quiet_head();
    h.idle_ms = h.global_idle_ms = 700;
    h.session_wall_clock_seconds = 10;
    CHECK_INT(due(RULE_IDLE, &h), 5701);
    CHECK_INT(due(RULE_WALL_CLOCK, &h), 11001);
    CHECK_INT(due(RULE_WALL_CLOCK_NOTICE, &h), 9001);
    CHECK_INT(due(RULE_MAX_TURNS, &h), NEVER_MS);
    h.window_started_ms = 6000; /* resumed: silence counts from there too */
    CHECK_INT(due(RULE_IDLE, &h), 6701);
    CHECK_INT(due(RULE_WALL_CLOCK, &h), 16001);
    h.turn_is_open = false;
    CHECK_INT(due(RULE_GLOBAL_IDLE, &h), 6701);
}

TEST(rules_apply_to_their_own_states_only)
{
    struct head h = quiet_head();
    h.idle_ms = h.global_idle_ms = 700;
    h.session_wall_clock_seconds = 10;
    CHECK_INT(due(RULE_GLOBAL_IDLE, &h), NEVER_MS);
    h.turn_is_open = false;
    CHECK_INT(due(RULE_IDLE, &h), NEVER_MS);
    CHECK_INT(due(RULE_GLOBAL_IDLE, &h), 5701);
    h.notice_given = true;
    CHECK_INT(due(RULE_WALL_CLOCK_NOTICE, &h), NEVER_MS);
    CHECK_INT(due(RULE_WALL_CLOCK, &h), 11001);
    for (enum rule_id rule = 0; rule < RULE_COUNT; rule++) {
        struct head other = h;
        other.notice_given = false;
        other.status = CONVERSATION_BLOCKED;
        CHECK_INT(due(rule, &other), NEVER_MS);
        other.status = CONVERSATION_COMPLETED;
        CHECK_INT(due(rule, &other), NEVER_MS);
        other.status = CONVERSATION_ACTIVE;
        other.conversation = 0;
        CHECK_INT(due(rule, &other), NEVER_MS);
    }
}

TEST(L69_a_limit_of_zero_is_off)
{
    struct head h = quiet_head(); /* all are 0 */
    struct options o;
    const struct gaps none = {0};
    options_init(&o);
    option_get(&o, watchdog, global_idle_ms) = 5;
    for (int open = 0; open < 2; open++) {
        h.turn_is_open = open;
        for (enum rule_id rule = 0; rule < RULE_COUNT; rule++)
            CHECK_INT(rule_due_ms(rule, &o, &none, &h), NEVER_MS);
    }
    h.turn_is_open = true;
    h.idle_ms = h.global_idle_ms = h.session_wall_clock_seconds = LIMIT_DEFAULT;
    CHECK_INT(rule_due_ms(RULE_IDLE, &o, &none, &h), 5000 + 900000 + 1);
    CHECK_INT(rule_due_ms(RULE_WALL_CLOCK, &o, &none, &h), 1000 + 14400000 + 1);
    CHECK_INT(rule_due_ms(RULE_WALL_CLOCK_NOTICE, &o, &none, &h), 1000 + 11520000 + 1);
    option_get(&o, watchdog, idle_ms) = option_get(&o, watchdog, global_idle_ms) = 0;
    option_get(&o, runtime_controls, session_wall_clock_seconds) = 0;
    for (enum rule_id rule = 0; rule < RULE_COUNT; rule++)
        CHECK_INT(rule_due_ms(rule, &o, &none, &h), NEVER_MS);
}

TEST(a_watchdog_that_is_off_measures_no_silence)
{
    struct head h = quiet_head();
    struct options o;
    const struct gaps none = {0};
    options_init(&o);
    h.idle_ms = 700;
    h.session_wall_clock_seconds = 10;
    h.watchdog_disabled = true;
    CHECK_INT(rule_due_ms(RULE_IDLE, &o, &none, &h), NEVER_MS);
    CHECK_INT(rule_due_ms(RULE_WALL_CLOCK, &o, &none, &h), 11001);
    h.watchdog_disabled = false;
    option_get(&o, watchdog, enabled) = 0;
    CHECK_INT(rule_due_ms(RULE_IDLE, &o, &none, &h), NEVER_MS);
    CHECK_INT(rule_due_ms(RULE_WALL_CLOCK, &o, &none, &h), 11001);
}

TEST(L30_unwatched_time_counts_for_budgets_only)
{
    struct head h = quiet_head();
    struct options o;
    struct gaps gaps = {0};
    options_init(&o);
    gaps_add(&gaps, 4000, 5500); /* of which 500 ms after the last sign of life */
    h.idle_ms = h.global_idle_ms = 700;
    h.session_wall_clock_seconds = 10;
    CHECK_INT(rule_due_ms(RULE_IDLE, &o, &gaps, &h), 6201);
    CHECK_INT(rule_due_ms(RULE_WALL_CLOCK, &o, &gaps, &h), 11001);
    CHECK_INT(rule_due_ms(RULE_WALL_CLOCK_NOTICE, &o, &gaps, &h), 9001);
    h.turn_is_open = false;
    CHECK_INT(rule_due_ms(RULE_GLOBAL_IDLE, &o, &gaps, &h), 6201);
    gaps_release(&gaps);
}

TEST(of_rules_due_together_the_first_in_the_table_acts)
{
    struct head h = quiet_head();
    struct options o;
    const struct gaps none = {0};
    int64_t due_ms;
    options_init(&o);
    CHECK_INT(ladder_first_due(&o, &none, &h, &due_ms), RULE_COUNT);
    CHECK_INT(due_ms, NEVER_MS);
    h.notice_given = true;
    h.idle_ms = 6000;
    h.session_wall_clock_seconds = 10; /* 1000 + 10000 = 5000 + 6000 */
    CHECK_INT(ladder_first_due(&o, &none, &h, &due_ms), RULE_WALL_CLOCK);
    CHECK_INT(due_ms, 11001);
    h.idle_ms--;
    CHECK_INT(ladder_first_due(&o, &none, &h, &due_ms), RULE_IDLE);
    CHECK_INT(due_ms, 11000);
}

/* ---- the times to look ---- */

TEST(a_time_to_look_that_was_undone_is_as_it_was)
{
    struct bench *b = bench_new(1);
    const struct conversation_spec spec = {.settings = {.global_idle_ms = 700}};
    int64_t c;
    begin(b, START_MS);
    CHECK_INT(conversation_create(&b->work, &spec, &c, NULL), 0);
    end(b);
    CHECK_INT(head_of(b, c)->look_ms[RULE_GLOBAL_IDLE], START_MS + 701);
    begin(b, START_MS + 500);
    CHECK_INT(gaps_record(&b->work, GAP_LATE, START_MS, NULL), 0);
    end(b);
    begin(b, START_MS + 600);
    CHECK_INT(head_watch_again(&b->work, head_of(b, c), NULL), 0);
    CHECK_INT(head_of(b, c)->look_ms[RULE_GLOBAL_IDLE], START_MS + 1201);
    CHECK_INT(work_request_end(&b->work, false, NULL), 0);
    CHECK_INT(work_commit(&b->work, NULL), 0);
    CHECK_INT(head_of(b, c)->look_ms[RULE_GLOBAL_IDLE], START_MS + 701);
    bench_free(b);
}

enum { CONVERSATIONS_MAX = 400 };

static void stored_looks(struct bench *b, int64_t conversation, int64_t ret[TIMED_RULE_COUNT])
{
    enum { FIRST_LOOK_COLUMN = 24 };
    struct query *q = store_query(b->work.store, SQL_CONVERSATION_GET);
    query_int(q, 1, conversation);
    CHECK_INT(query_one(q, NULL), STORE_ROW);
    for (int rule = 0; rule < TIMED_RULE_COUNT; rule++)
        ret[rule] = query_is_null(q, FIRST_LOOK_COLUMN + rule)
                        ? NEVER_MS
                        : query_get_int(q, FIRST_LOOK_COLUMN + rule);
    query_end(q);
}

static void check_looks(struct bench *b, int64_t conversation)
{
    int64_t looks[TIMED_RULE_COUNT];
    stored_looks(b, conversation, looks);
    const struct head *h = head_of(b, conversation);
    for (enum rule_id rule = 0; rule < TIMED_RULE_COUNT; rule++) {
        int64_t due_ms = rule_due_ms(rule, &b->options, &b->work.gaps, h);
        if (looks[rule] > due_ms)
            tap_fail(__FILE__, __LINE__, "conversation %lld is due at %lld by %s, looked at %lld",
                     (long long)conversation, (long long)due_ms, rule_name(rule),
                     (long long)looks[rule]);
        CHECK_INT(h->look_ms[rule], looks[rule]);
        CHECK(ladder_next_due_ms(b->ladder) <= looks[rule]);
    }
}

static void check_same(const struct head *a, const struct head *b)
{
    CHECK_INT(a->status, b->status);
    CHECK_INT(a->outcome, b->outcome);
    CHECK_INT(a->stop_reason, b->stop_reason);
    CHECK_INT(a->session_wall_clock_seconds, b->session_wall_clock_seconds);
    CHECK_INT(a->watchdog_disabled, b->watchdog_disabled);
    CHECK_INT(a->idle_ms, b->idle_ms);
    CHECK_INT(a->global_idle_ms, b->global_idle_ms);
    CHECK_INT(a->window, b->window);
    CHECK_INT(a->window_started_ms, b->window_started_ms);
    CHECK_INT(a->notice_given, b->notice_given);
    CHECK_INT(a->blocked_ms, b->blocked_ms);
    CHECK_INT(a->last_seq, b->last_seq);
    CHECK_INT(a->turn_is_open, b->turn_is_open);
    CHECK_INT(a->last_activity_ms, b->last_activity_ms);
    for (int rule = 0; rule < TIMED_RULE_COUNT; rule++)
        CHECK_INT(a->look_ms[rule], b->look_ms[rule]);
}

static void check_reread(struct bench *b)
{
    int64_t count = b->work.last.conversation;
    _cleanup_free_ struct head *before = mem_alloc((size_t)(count + 1) * sizeof *before);
    for (int64_t c = 0; c <= count; c++)
        before[c] = *head_of(b, c);
    heads_drop(&b->work);
    for (int64_t c = 0; c <= count; c++)
        check_same(&before[c], head_of(b, c));
}

/* A limit that is often met within the run; sometimes off, sometimes as configured. */
static int64_t any_limit(struct bench *b)
{
    switch (below(b, 5)) {
    case 0:
        return 0;
    case 1:
        return LIMIT_DEFAULT;
    default:
        return 1 + (int64_t)below(b, 3000);
    }
}

static int64_t any_budget(struct bench *b)
{
    return below(b, 3) ? (int64_t)below(b, 6) : LIMIT_DEFAULT;
}

static int create_any(struct bench *b)
{
    const struct conversation_spec spec = {
        .settings = {.max_turns = below(b, 4) ? 0 : 3,
                     .idle_ms = any_limit(b),
                     .global_idle_ms = any_limit(b),
                     .session_wall_clock_seconds = any_budget(b),
                     .watchdog_disabled = below(b, 10) == 0},
    };
    int64_t conversation;
    if (b->work.last.conversation >= CONVERSATIONS_MAX)
        return 0;
    return conversation_create(&b->work, &spec, &conversation, NULL);
}

static int append_any(struct bench *b, int64_t c, bool is_kept)
{
    const struct append a = {.conversation = c,
                             .agent_id = below(b, 2) ? STR("a") : STR("b"),
                             .finality = below(b, 3) ? FINALITY_NONE : FINALITY_TURN,
                             .payload = STR("{\"text\":\"x\"}"),
                             .precondition_closed_seq = -1,
                             .is_whole_request = is_kept};
    struct event e;
    if (a.finality == FINALITY_NONE && below(b, 3) == 0)
        return append_trace(&b->work, &a, &e, NULL);
    return append_message(&b->work, &a, &e, NULL);
}

static int do_any(struct bench *b, bool is_kept)
{
    int64_t last = b->work.last.conversation, turn,
            c = MAX(last - (int64_t)below(b, 12), INT64_C(1)); /* the newest still live */
    struct event e;
    const struct conversation_end end = {
        .outcome = OUTCOME_COMPLETED, .author = STR("operator"), .text = STR("x")};
    switch (below(b, 12)) {
    case 0:
        return create_any(b);
    case 1:
        return append_turn_cleared(&b->work, c, STR("a"), true, STR_NONE, &turn, NULL);
    case 2:
        return below(b, 4) ? 0 : conversation_end(&b->work, c, &end, &e, NULL);
    case 3:
        return conversation_resume(&b->work, c, any_budget(b), NULL);
    case 4:
        return append_system(&b->work, c, "system-watchdog", "note", STR("{}"), NULL, &e, NULL);
    default:
        return append_any(b, c, is_kept);
    }
}

static void request(struct bench *b)
{
    bool is_kept = below(b, 8) != 0; /* some fail after they have written */
    if (work_request_begin(&b->work, NULL) < 0)
        return;
    int r = do_any(b, is_kept);
    work_request_end(&b->work, r == 0 && is_kept, NULL);
}

static void record_any_gap(struct bench *b, int64_t from_ms)
{
    if (work_request_begin(&b->work, NULL) < 0)
        return;
    int r = gaps_record(&b->work, GAP_LATE, from_ms, NULL);
    work_request_end(&b->work, r == 0 && below(b, 5) != 0, NULL);
}

struct verdict {
    enum conversation_status status;
    enum rule_id rule;
    int64_t due_ms;
};

static void foresee(struct bench *b, struct verdict ret[CONVERSATIONS_MAX + 1])
{
    for (int64_t c = 1; c <= b->work.last.conversation; c++) {
        struct head *h;
        ret[c] = (struct verdict){.rule = RULE_COUNT};
        if (head_get(&b->work, c, &h, NULL) < 0) /* the disk has failed under this tick */
            continue;
        ret[c].status = h->status;
        ret[c].rule = ladder_first_due(&b->options, &b->work.gaps, h, &ret[c].due_ms);
    }
}

static bool acted_on(const struct head *h, const struct verdict *before)
{
    return h->status != before->status ||
           (before->rule == RULE_WALL_CLOCK_NOTICE && h->notice_given);
}

/* Whatever the ladder moved was due. If it says that nothing is left to do, nothing is. */
static void check_moves(struct bench *b, const struct verdict before[CONVERSATIONS_MAX + 1])
{
    int64_t due_ms, now_ms = b->work.now_ms;
    for (int64_t c = 1; c <= b->work.last.conversation; c++) {
        const struct head *h = head_of(b, c);
        if (acted_on(h, &before[c]))
            CHECK(before[c].due_ms <= now_ms);
        ladder_first_due(&b->options, &b->work.gaps, h, &due_ms);
        CHECK(due_ms > now_ms || ladder_next_ms(b->ladder) <= now_ms);
    }
}

/* A tick as the core makes it. */
static void tick(struct bench *b)
{
    struct verdict before[CONVERSATIONS_MAX + 1];
    int64_t last_ms = b->work.now_ms, by_ms = (int64_t)below(b, below(b, 4) ? 30 : 1500);
    bool fails = below(b, 15) == 0, steps = below(b, 3) != 0, stepped = false;
    if (fails)
        fault_vfs_plan(b->disk, FAULT_FULL, 1 + below(b, 4), below(b, 2));
    CHECK_INT(work_begin(&b->work, last_ms + by_ms, NULL), 0);
    if (by_ms > 1000)
        record_any_gap(b, last_ms);
    for (uint64_t n = below(b, 4); n > 0; n--)
        request(b);
    foresee(b, before);
    if (steps)
        stepped = ladder_step(b->ladder, NULL) == 0;
    bool committed = work_commit(&b->work, NULL) == 0;
    if (committed)
        ladder_committed(b->ladder);
    else
        ladder_lost(b->ladder);
    if (committed && stepped)
        check_moves(b, before);
    work_maintain(&b->work);
    fault_vfs_plan(b->disk, FAULT_FULL, 0, false);
}

static void restart_with_other_limits(struct bench *b)
{
    int64_t now_ms = b->work.now_ms + (int64_t)below(b, 500);
    stop(b);
    option_get(&b->options, watchdog, enabled) = below(b, 4) != 0;
    option_get(&b->options, watchdog, idle_ms) = (int64_t)below(b, 3) * 400;
    option_get(&b->options, watchdog, global_idle_ms) = (int64_t)below(b, 3) * 600;
    option_get(&b->options, runtime_controls, session_wall_clock_seconds) = (int64_t)below(b, 3);
    start(b, now_ms);
}

static void try_to_break_the_looks(uint64_t seed, int ticks)
{
    struct bench *b = bench_new(seed);
    begin(b, b->work.now_ms);
    CHECK_INT(create_any(b), 0);
    end(b);
    for (int i = 0; i < ticks; i++) {
        tick(b);
        for (int64_t c = 1; c <= b->work.last.conversation; c++)
            check_looks(b, c);
        if (i % 9 == 0)
            check_reread(b);
        if (below(b, 60) == 0)
            restart_with_other_limits(b);
    }
    CHECK(b->moved + ladder_stats(b->ladder)->moved > 50); /* else nothing was tried */
    bench_free(b);
}

TEST(the_ladder_never_looks_too_late)
{
    for (uint64_t seed = 1; seed <= 12; seed++)
        try_to_break_the_looks(seed, 700);
}

/* ---- what a pass costs ---- */

struct cost {
    uint64_t checked, moved, statements;
    int64_t steps, scanned, sorts; /* of SQLite's machine */
};

static int64_t count_status(struct store *s, int what)
{
    int64_t sum = 0;
    for (int i = 0; i < STATEMENT_COUNT; i++)
        if (s->queries[i].stmt)
            sum += sqlite3_stmt_status(s->queries[i].stmt, what, 1);
    return sum;
}

/* A row such as conversation_create() leaves, with all its times to look. */
static void insert_conversation(struct store *s, int64_t c, int64_t look_ms)
{
    struct query *q = store_query(s, SQL_CONVERSATION_INSERT);
    query_int(q, 1, c);
    query_int(q, 3, 0);
    query_int(q, 5, 0);
    query_int(q, 7, look_ms - START_MS - 1);
    query_int(q, 8, START_MS);
    CHECK_INT(query_run(q, NULL, NULL), 0);
    q = store_query(s, SQL_STATE_UPDATE);
    query_int(q, 1, c);
    query_text(q, 2, STR("active"));
    query_int(q, 6, 1);
    query_int(q, 7, START_MS);
    query_int(q, 8, 0);
    for (int rule = 0; rule < TIMED_RULE_COUNT; rule++)
        query_int(q, 10 + rule, rule == RULE_GLOBAL_IDLE ? look_ms : START_MS + 800 * 14400);
    for (int param = 14; param <= 21; param++)
        if (param != 19) /* nobody's turn */
            query_int(q, param, 0);
    query_int(q, 22, START_MS);
    query_int(q, 23, START_MS);
    CHECK_INT(query_run(q, NULL, NULL), 0);
}

enum { DUE = 10, DUE_MS = START_MS + 50000 };

/* `count` active conversations, DUE of them due. */
static void fill(struct bench *b, int64_t count)
{
    struct store *s = b->work.store;
    CHECK_INT(store_begin(s, NULL), 0);
    for (int64_t c = 1; c <= count; c++)
        insert_conversation(s, c, c % (count / DUE) == 0 ? DUE_MS : DUE_MS + 1 + c % 100000);
    CHECK_INT(store_commit(s, NULL), 0);
    stop(b);
    start(b, START_MS);
}

static void step_until_quiet(struct bench *b, int64_t now_ms)
{
    do {
        CHECK_INT(work_begin(&b->work, now_ms, NULL), 0);
        CHECK_INT(ladder_step(b->ladder, NULL), 0);
        CHECK_INT(work_commit(&b->work, NULL), 0);
        ladder_committed(b->ladder);
    } while (ladder_next_ms(b->ladder) <= now_ms);
}

static struct cost cost_of_a_pass(int64_t count)
{
    struct bench *b = bench_new(1);
    fill(b, count);
    struct store *s = b->work.store;
    step_until_quiet(b, START_MS); /* the pass at start */
    for (int i = 0; i < STATEMENT_COUNT; i++)
        store_query(s, (enum statement)i); /* prepared now, so that all are counted */
    count_status(s, SQLITE_STMTSTATUS_VM_STEP);
    count_status(s, SQLITE_STMTSTATUS_FULLSCAN_STEP);
    count_status(s, SQLITE_STMTSTATUS_SORT);
    const struct ladder_stats *stats = ladder_stats(b->ladder);
    struct cost cost = {stats->checked, stats->moved, store_stats(s)->statements, 0, 0, 0};
    step_until_quiet(b, DUE_MS);
    cost = (struct cost){.checked = stats->checked - cost.checked,
                         .moved = stats->moved - cost.moved,
                         .statements = store_stats(s)->statements - cost.statements,
                         .steps = count_status(s, SQLITE_STMTSTATUS_VM_STEP),
                         .scanned = count_status(s, SQLITE_STMTSTATUS_FULLSCAN_STEP),
                         .sorts = count_status(s, SQLITE_STMTSTATUS_SORT)};
    bench_free(b);
    return cost;
}

TEST(L05_a_pass_costs_what_is_due_not_what_there_is)
{
    struct cost few = cost_of_a_pass(1000), many = cost_of_a_pass(100000);
    CHECK_INT(few.moved, DUE);
    CHECK_INT(few.checked, DUE);
    CHECK_INT(few.scanned, 0);
    CHECK_INT(few.sorts, 0);
    CHECK_INT(many.moved, few.moved);
    CHECK_INT(many.checked, few.checked);
    CHECK_INT(many.statements, few.statements);
    CHECK_INT(many.steps, few.steps);
    CHECK_INT(many.scanned, 0);
    CHECK_INT(many.sorts, 0);
}
