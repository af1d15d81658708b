/*
 * test_core.c: the tick (core.h), driven by hand: no sockets, no threads but where one is the
 * point, a clock that stands still, a disk in memory that fails when told.
 *
 * A request goes in as text and its reply comes out as text. Peers are made here too, so a test
 * decides when one has room: queued_bytes falls when the test takes messages, or never.
 */
#include "tap.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "lib/fault_vfs.h"
#include "server/core.h"

enum { START_MS = 1700000000, ROOM = 1 << 20 };

struct world {
    struct fault_vfs *disk;
    struct store *store; /* the core's: for what no method can do */
    struct clock clock;
    struct options options;
    struct core *core;
    struct grant grant;
    struct peer *peer;
    struct outbox out;
    int token_changes;
    struct core_input *first, *last; /* of the next tick */
};

static void count_token_change(void *ctx, struct store *store)
{
    (void)store;
    struct world *w = ctx;
    w->token_changes++;
}

static void start(struct world *w)
{
    struct err err = ERR_INIT;
    const struct core_config config = {.clock = &w->clock,
                                       .options = &w->options,
                                       .version = "test",
                                       .store_url = "sqlite",
                                       .tokens_changed = count_token_change,
                                       .ctx = w};
    struct core_config with_store = config;
    CHECK_INT(store_open("sqlite:a.db", "disk", START_MS, &w->store, &err), 0);
    with_store.store = w->store;
    if (core_new(&with_store, &w->core, &err) < 0)
        tap_fail(__FILE__, __LINE__, "%s", err.message);
    w->token_changes = 0;
}

static struct world *world_new(void)
{
    struct world *w = mem_zalloc(sizeof *w);
    log_set_level(LOG_ERROR + 1);
    w->disk = fault_vfs_new("disk", 1);
    clock_init_manual(&w->clock, &clock_kernel, START_MS);
    options_init(&w->options);
    w->grant = (struct grant){.scope = SCOPE_OPERATOR, .subject = "operator"};
    w->peer = peer_new(NULL, ROOM);
    start(w);
    return w;
}

static void restart(struct world *w)
{
    core_free(w->core);
    start(w);
}

static void world_free(struct world *w)
{
    outbox_release(&w->out);
    CHECK_INT(atomic_load(&w->peer->refs), 1 + (int)core_stats(w->core)->subscriptions);
    core_free(w->core);
    CHECK_INT(atomic_load(&w->peer->refs), 1);
    peer_unref(w->peer);
    fault_vfs_free(w->disk);
    free(w);
}

/* ---- in ---- */

static struct core_input *input(struct world *w, enum core_input_kind kind, struct peer *p)
{
    struct core_input *in = core_input_new(kind, p);
    if (w->last)
        w->last->next = in;
    else
        w->first = in;
    w->last = in;
    return in;
}

/* A request of the next tick. Quotes are written ' to keep the tests readable. */
__attribute__((format(printf, 2, 3))) static void ask(struct world *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = NULL;
    CHECK(vasprintf(&text, fmt, ap) >= 0);
    va_end(ap);
    for (char *p = text; (p = strchr(p, '\''));)
        *p = '"';
    struct core_input *in = input(w, CORE_REQUEST, w->peer);
    in->request = rpc_request_new(w->peer, &w->grant, true, str_of(text), 64);
    free(text);
}

static void tick(struct world *w)
{
    struct core_input *inputs = w->first;
    w->first = w->last = NULL;
    core_tick(w->core, inputs, &w->out);
}

static void idle(struct world *w)
{
    while (core_idle(w->core, &w->out))
        ;
}

/* ---- out ---- */

struct reply {
    struct message *message;
    struct arena arena;
    const struct json *json;
};

static struct reply take(struct world *w)
{
    struct reply r = {.message = outbox_take_first(&w->out), .arena = ARENA_INIT};
    struct err err = ERR_INIT;
    CHECK(r.message);
    atomic_fetch_sub(&r.message->peer->queued_bytes, r.message->data.len);
    if (r.message->data.len && r.message->data.data[0] != 'i' && r.message->status >= 0)
        CHECK_INT(json_parse(&r.arena, buf_str(&r.message->data), 64, &r.json, &err), 0);
    return r;
}

static void done(struct reply *r)
{
    message_free(r->message);
    arena_release(&r->arena);
}

/* A path of member names into the next message, which must end at an integer. */
static int64_t int_at(const struct json *v, const char *path)
{
    char copy[128], *state, *name;
    snprintf(copy, sizeof copy, "%s", path);
    for (name = strtok_r(copy, ".", &state); name; name = strtok_r(NULL, ".", &state))
        v = json_get(v, name);
    if (!v || v->type != JSON_INT)
        tap_fail(__FILE__, __LINE__, "no integer at %s", path);
    return v->integer;
}

static struct str string_at(const struct json *v, const char *path)
{
    char copy[128], *state, *name;
    snprintf(copy, sizeof copy, "%s", path);
    for (name = strtok_r(copy, ".", &state); name; name = strtok_r(NULL, ".", &state))
        v = json_get(v, name);
    return v && v->type == JSON_STRING ? v->string : STR("(none)");
}

static int64_t take_int(struct world *w, const char *path)
{
    struct reply r = take(w);
    int64_t value = int_at(r.json, path);
    done(&r);
    return value;
}

/* The next reply must be this error. */
static void take_error(struct world *w, const char *name)
{
    struct reply r = take(w);
    CHECK_STR(string_at(r.json, "error.data.name"), name);
    done(&r);
}

static void take_ok(struct world *w)
{
    struct reply r = take(w);
    CHECK(json_get(r.json, "result"));
    done(&r);
}

static void check_nothing_left(struct world *w)
{
    CHECK(!w->out.first);
}

/* ---- what most tests do ---- */

#define CALL(method, params) "{'jsonrpc':'2.0','id':1,'method':'" method "','params':" params "}"
#define CREATE CALL("conversation.create", "{'agents':[{'role':'a'},{'role':'b'}],'maxTurns':0}")
#define SAY CALL("message.send", "{'conversation':%d,'agentId':'a','text':'hello'}")
#define SUBSCRIBE CALL("event.subscribe", "{'conversation':%d,'afterSeq':%d}")

static void create(struct world *w, int64_t want)
{
    ask(w, CREATE);
    tick(w);
    CHECK_INT(take_int(w, "result.conversation"), want);
}

static void say(struct world *w, int conversation)
{
    ask(w, SAY, conversation);
    tick(w);
}

struct head_shown {
    int64_t last_turn, last_closed_seq, last_seq;
    bool is_open;
};

static struct head_shown head_of(struct world *w, int conversation)
{
    ask(w, CALL("conversation.get", "{'conversation':%d}"), conversation);
    tick(w);
    struct reply r = take(w);
    const struct json *head = json_get(json_get(r.json, "result"), "head");
    struct head_shown shown = {.last_turn = int_at(head, "lastTurn"),
                               .last_closed_seq = int_at(head, "lastClosedSeq"),
                               .last_seq = int_at(head, "lastSeq"),
                               .is_open = json_get(head, "hasOpenTurn")->boolean};
    done(&r);
    return shown;
}

/* Puts a row into the log behind the core's back, where its next event would go. */
static void take_next_event_id(struct world *w)
{
    struct query *q = store_query(w->store, SQL_EVENT_LAST);
    CHECK_INT(query_one(q, NULL), STORE_ROW);
    int64_t id = query_get_int(q, 0) + 1;
    query_end(q);
    CHECK_INT(store_begin(w->store, NULL), 0);
    q = store_query(w->store, SQL_EVENT_INSERT);
    const int64_t numbers[] = {id, 999, 1, 1, 1, START_MS};
    for (int i = 0; i < 6; i++)
        query_int(q, i + 1, numbers[i]);
    query_text(q, 7, STR("message"));
    query_text(q, 8, STR("none"));
    query_text(q, 9, STR("x"));
    query_text(q, 10, STR("{}"));
    CHECK_INT(query_run(q, NULL, NULL), 0);
    CHECK_INT(store_commit(w->store, NULL), 0);
}

/* ---- a request that fails ---- */

TEST(a_refused_request_leaves_no_trace_in_its_tick)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, SAY, 1);
    ask(w, CALL("message.send", "{'conversation':1,'agentId':'b','text':'','finality':'turn'}"));
    ask(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':'','turn':7}"));
    ask(w, CALL("message.send", "{'conversation':2,'agentId':'a','text':''}"));
    ask(w, SAY, 1);
    tick(w);
    CHECK_INT(take_int(w, "result.seq"), 2);
    take_error(w, "FORBIDDEN");
    take_error(w, "TURN_ALREADY_OPEN");
    take_error(w, "NOT_FOUND");
    CHECK_INT(take_int(w, "result.seq"), 3);
    check_nothing_left(w);
    CHECK_INT(head_of(w, 1).last_seq, 3);
    world_free(w);
}

TEST(a_request_that_fails_after_its_first_change_is_undone_in_memory_too)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, SUBSCRIBE, 1, 1);
    tick(w);
    take_ok(w);
    idle(w);
    take_next_event_id(w);
    ask(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':'','finality':'turn'}"));
    ask(w, CREATE);
    tick(w);
    take_error(w, "INTERNAL");
    take_error(w, "INTERNAL"); /* its row is written before its first event fails */
    check_nothing_left(w);     /* and nothing is published */
    struct head_shown head = head_of(w, 1);
    CHECK_INT(head.last_turn, 0);
    CHECK_INT(head.last_seq, 1);
    CHECK(!head.is_open);
    ask(w, CALL("conversation.get", "{'conversation':2}"));
    tick(w);
    take_error(w, "NOT_FOUND");
    restart(w); /* which sees the row that was in the way */
    ask(w, SAY, 1);
    ask(w, CREATE);
    tick(w);
    CHECK_INT(take_int(w, "result.seq"), 2);
    CHECK_INT(take_int(w, "result.conversation"), 2);
    world_free(w);
}

TEST(the_numbers_of_a_request_that_failed_late_are_given_out_again)
{
    struct world *w = world_new();
    create(w, 1);
    say(w, 1);
    int64_t id = take_int(w, "result.id");
    CHECK_INT(store_begin(w->store, NULL), 0);
    struct query *q = store_query(w->store, SQL_ATTACHMENT_INSERT);
    for (int i = 1; i <= 3; i++)
        query_int(q, i, 1);
    query_text(q, 4, STR("in the way"));
    query_text(q, 5, STR("text/plain"));
    query_blob(q, 6, "", 0);
    CHECK_INT(query_run(q, NULL, NULL), 0);
    CHECK_INT(store_commit(w->store, NULL), 0);
    ask(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':'','finality':'turn',"
                                "'attachments':[{'name':'x','text':'y'}]}"));
    ask(w, SAY, 1);
    tick(w);
    take_error(w, "INTERNAL"); /* its event was in the log already */
    struct reply r = take(w);
    CHECK_INT(int_at(r.json, "result.id"), id + 1);
    CHECK_INT(int_at(r.json, "result.seq"), 3);
    CHECK_INT(int_at(r.json, "result.turn"), 1);
    done(&r);
    world_free(w);
}

TEST(internal_errors_carry_a_reference_and_nothing_else)
{
    struct world *w = world_new();
    create(w, 1);
    take_next_event_id(w);
    say(w, 1);
    struct reply r = take(w);
    CHECK_INT(int_at(r.json, "error.code"), -32603);
    CHECK_STR(string_at(r.json, "error.data.name"), "INTERNAL");
    CHECK_INT(string_at(r.json, "error.data.ref").n, 16);
    CHECK(!strstr(r.message->data.data, "UNIQUE"));
    done(&r);
    world_free(w);
}

static void ask_stream(struct world *w, int64_t conversation, int64_t after_id)
{
    struct core_input *in = input(w, CORE_STREAM, w->peer);
    in->subscribe = (struct subscribe){
        .conversation = conversation, .after_seq = -1, .after_id = after_id, .is_stream = true};
    in->grant = w->grant;
}

/* SQLite answers a failed read by giving up the transaction: then it is nobody's error but the
 * disk's, and all may try again. */
TEST(a_read_error_makes_the_tick_unavailable_and_no_later_one)
{
    struct world *w = world_new();
    for (int i = 0; i < 500; i++)
        ask(w, CREATE);
    tick(w);
    outbox_release(&w->out);
    restart(w); /* a row in the middle is on a page that nobody has read yet */
    fault_vfs_plan(w->disk, FAULT_EIO, 1, false);
    ask(w, SAY, 1);
    ask_stream(w, 250, 0);
    tick(w);
    CHECK(fault_vfs_has_struck(w->disk));
    take_error(w, "UNAVAILABLE");
    struct reply r = take(w);
    CHECK_INT(r.message->status, 503);
    CHECK_STR(string_at(r.json, "error.data.name"), "UNAVAILABLE");
    done(&r);
    say(w, 1);
    CHECK_INT(take_int(w, "result.seq"), 2);
    say(w, 250);
    CHECK_INT(take_int(w, "result.seq"), 2);
    world_free(w);
}

/* ---- a tick that fails ---- */

static void fill_disk(struct world *w)
{
    fault_vfs_plan(w->disk, FAULT_FULL, 1, true);
}

static void free_disk(struct world *w)
{
    fault_vfs_plan(w->disk, FAULT_FULL, 0, false);
}

TEST(L03_a_tick_whose_commit_fails_never_was)
{
    struct world *w = world_new();
    create(w, 1);
    say(w, 1);
    take_ok(w);
    fill_disk(w);
    ask(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':'','finality':'turn'}"));
    ask(w, CREATE);
    ask(w, CALL("conversation.end", "{'conversation':1}"));
    ask(w, CALL("token.create", "{'scope':'read'}"));
    ask(w, CALL("event.subscribe", "{'conversation':1}"));
    ask(w, CALL("server.info", "{}"));
    ask(w, "nonsense");
    tick(w);
    for (int i = 0; i < 6; i++)
        take_error(w, "UNAVAILABLE");
    take_error(w, "PARSE");
    check_nothing_left(w);
    CHECK(!core_is_writable(w->core));
    CHECK_INT(w->token_changes, 0);
    CHECK_INT(core_stats(w->core)->subscriptions, 0);
    free_disk(w);

    struct head_shown head = head_of(w, 1);
    CHECK_INT(head.last_seq, 2);
    CHECK_INT(head.last_turn, 1);
    CHECK(head.is_open);
    ask(w, CREATE);
    ask(w, CALL("token.create", "{'scope':'read'}"));
    ask(w, SAY, 1);
    tick(w);
    CHECK_INT(take_int(w, "result.conversation"), 2); /* numbers are given out again */
    CHECK_INT(take_int(w, "result.token"), 1);
    CHECK_INT(take_int(w, "result.seq"), 3);
    CHECK_INT(w->token_changes, 1);
    CHECK(core_is_writable(w->core));
    world_free(w);
}

/* For every write of a tick: that one fails. Large messages make SQLite write in the middle of
 * requests, so that some of the failures come there and not at the commit. */
TEST(L03_whichever_write_fails_the_same_requests_can_be_sent_again)
{
    char *big = mem_zalloc(600001);
    memset(big, 'x', 600000);
    for (uint64_t nth = 1;; nth += nth < 12 ? 1 : 397) {
        struct world *w = world_new();
        create(w, 1);
        fault_vfs_plan(w->disk, FAULT_FULL, nth, false);
        bool struck = false;
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 10; i++)
                ask(w,
                    CALL("message.send", "{'conversation':1,'agentId':'a','text':'%s',"
                                         "'clientRequestId':'%d'}"),
                    big, i);
            ask(w, CALL("conversation.create", "{'agents':[],'idempotencyKey':'k'}"));
            tick(w);
            struck = fault_vfs_has_struck(w->disk);
            for (int i = 0; i < 10 && round == 0; i++)
                struck ? take_error(w, "UNAVAILABLE") : take_ok(w);
            for (int i = 0; i < 10 && round == 1; i++)
                CHECK_INT(take_int(w, "result.seq"), 2 + i);
            if (round == 0)
                struck ? take_error(w, "UNAVAILABLE") : take_ok(w);
            else
                CHECK_INT(take_int(w, "result.conversation"), 2);
            idle(w);
        }
        CHECK_INT(head_of(w, 1).last_seq, 11);
        world_free(w);
        if (!struck)
            break;
        CHECK(nth < 20000);
    }
    free(big);
}

TEST(what_a_failed_tick_did_not_send_is_not_counted)
{
    struct world *w = world_new();
    create(w, 1);
    fill_disk(w);
    ask(w, SAY, 1);
    ask_stream(w, 77, -1); /* its refusal is thrown away with the tick */
    tick(w);
    take_error(w, "UNAVAILABLE");
    take_error(w, "UNAVAILABLE");
    check_nothing_left(w);
    CHECK_INT(atomic_load(&w->peer->queued_bytes), 0);
    free_disk(w);
    world_free(w);
}

TEST(an_unsubscribe_that_was_not_committed_did_not_happen)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, SUBSCRIBE, 1, 1);
    tick(w);
    CHECK_INT(take_int(w, "result.subscription"), 1);
    idle(w);
    fill_disk(w);
    ask(w, CALL("event.unsubscribe", "{'subscription':1}"));
    ask(w, SAY, 1);
    tick(w);
    take_error(w, "UNAVAILABLE");
    take_error(w, "UNAVAILABLE");
    free_disk(w);
    say(w, 1);
    take_ok(w);
    CHECK_INT(take_int(w, "params.seq"), 2); /* it goes on */
    ask(w, SAY, 1);
    ask(w, CALL("event.unsubscribe", "{'subscription':1}"));
    ask(w, CALL("event.unsubscribe", "{'subscription':1}"));
    tick(w);
    take_ok(w);
    take_ok(w);
    take_error(w, "NOT_FOUND");
    check_nothing_left(w); /* ended with its tick, the event of that tick included */
    CHECK_INT(core_stats(w->core)->subscriptions, 0);
    world_free(w);
}

/* ---- L13: what an append costs ---- */

struct cost {
    uint64_t statements, rows;
};

static struct cost cost_of(struct world *w, const char *request)
{
    const struct store_stats *s = core_store_stats(w->core);
    struct cost before = {s->statements, s->rows};
    ask(w, "%s", request);
    tick(w);
    struct cost cost = {s->statements - before.statements, s->rows - before.rows};
    take_ok(w);
    idle(w);
    return cost;
}

TEST(L13_the_10th_and_the_10000th_append_cost_the_same)
{
    struct world *w = world_new();
    create(w, 1);
    struct cost message[2], keyed[2], close[2], trace[2];
    int n = 1;
    for (int i = 0; i < 2; i++) {
        for (; n < (i ? 10000 : 10); n++) {
            say(w, 1);
            take_ok(w);
            idle(w);
        }
        message[i] = cost_of(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':''}"));
        keyed[i] = cost_of(w, i ? CALL("message.send", "{'conversation':1,'agentId':'a','text':'',"
                                                       "'clientRequestId':'new'}")
                                : CALL("message.send", "{'conversation':1,'agentId':'a','text':'',"
                                                       "'clientRequestId':'old'}"));
        trace[i] = cost_of(w, CALL("trace.append", "{'conversation':1,'agentId':'a',"
                                                   "'payload':{'type':'thought'}}"));
        close[i] = cost_of(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':'',"
                                                   "'finality':'turn'}"));
    }
    CHECK(message[0].statements > 0 && message[0].rows > 0);
    CHECK_INT(message[1].statements, message[0].statements);
    CHECK_INT(message[1].rows, message[0].rows);
    CHECK_INT(keyed[1].statements, keyed[0].statements);
    CHECK_INT(keyed[1].rows, keyed[0].rows);
    CHECK_INT(trace[1].statements, trace[0].statements);
    CHECK_INT(trace[1].rows, trace[0].rows);
    CHECK_INT(close[1].statements, close[0].statements);
    CHECK_INT(close[1].rows, close[0].rows);
    world_free(w);
}

TEST(L13_a_hundred_appends_of_a_tick_share_its_overhead)
{
    struct world *w = world_new();
    create(w, 1);
    const struct store_stats *s = core_store_stats(w->core);
    uint64_t before = s->statements, commits = s->commits;
    for (int i = 0; i < 100; i++)
        ask(w, SAY, 1);
    tick(w);
    CHECK_INT(s->commits - commits, 1);
    CHECK(s->statements - before <= 100 + 4);
    outbox_release(&w->out);
    world_free(w);
}

/* ---- subscriptions ---- */

/* The seqs of all events for the peer that wait in the outbox must go on from *seq. */
static void take_events(struct world *w, int64_t *seq)
{
    struct message *m;
    while ((m = outbox_take_first(&w->out))) {
        struct arena arena = ARENA_INIT;
        const struct json *v;
        CHECK_INT(json_parse(&arena, buf_str(&m->data), 64, &v, NULL), 0);
        if (str_is(string_at(v, "method"), "event")) {
            CHECK_INT(int_at(v, "params.seq"), *seq + 1);
            ++*seq;
        }
        arena_release(&arena);
        atomic_fetch_sub(&m->peer->queued_bytes, m->data.len);
        message_free(m);
    }
}

/* As the net thread does after writing. */
static void tell_drained(struct world *w)
{
    if (atomic_load(&w->peer->queued_bytes) <= w->peer->high_water_bytes / 2 &&
        atomic_exchange(&w->peer->wants_drain, false))
        input(w, CORE_DRAINED, w->peer);
}

/* Appends, ticks, steps of catching up, and a peer that takes what it has been sent, in any order:
 * nothing is missing, nothing comes twice. */
TEST(L09_no_gap_and_no_repeat_in_any_order_of_steps)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct world *w = world_new();
        uint64_t random = seed;
        int64_t seen = 0, written = 1;
        w->peer->high_water_bytes = 300 + fault_random(&random) % 2000;
        create(w, 1);
        ask(w, SUBSCRIBE, 1, 0);
        for (int step = 0; step < 300; step++) {
            switch (fault_random(&random) % 6) {
            case 0:
            case 1:
                ask(w, SAY, 1);
                written++;
                break;
            case 2:
                tick(w);
                break;
            case 3:
                core_idle(w->core, &w->out);
                break;
            case 4:
                take_events(w, &seen);
                tell_drained(w);
                break;
            case 5: /* a failed tick in between changes nothing */
                tick(w);
                fill_disk(w);
                ask(w, SAY, 1);
                tick(w);
                free_disk(w);
                break;
            }
        }
        for (int i = 0; i < 1000 && seen < written; i++) {
            tick(w);
            idle(w);
            take_events(w, &seen);
            tell_drained(w);
        }
        CHECK_INT(seen, written);
        tick(w);
        world_free(w);
    }
}

static void *drain_for_ever(void *arg)
{
    struct peer *p = arg;
    while (!atomic_load(&p->is_closed))
        atomic_store(&p->queued_bytes, 0);
    return NULL;
}

/* The peer is drained at any moment by another thread: a page that ended for want of room is not
 * the end of the log, though there is room when one looks again. */
TEST(L09_no_gap_when_room_comes_back_while_a_page_is_read)
{
    enum { EVENTS = 3000, ROUNDS = 20 };
    struct world *w = world_new();
    create(w, 1);
    for (int i = 0; i < EVENTS; i++)
        ask(w, SAY, 1);
    tick(w);
    outbox_release(&w->out);
    for (int round = 0; round < ROUNDS; round++) {
        struct peer *p = peer_new(NULL, 500); /* two events fill it */
        pthread_t thread;
        CHECK_INT(pthread_create(&thread, NULL, drain_for_ever, p), 0);
        ask_stream(w, 1, 0);
        peer_unref(w->last->peer);
        w->last->peer = peer_ref(p);
        tick(w);
        int64_t seen = 0, id = 0;
        for (int i = 0; i < 100 * EVENTS && seen < EVENTS + 1; i++) {
            core_idle(w->core, &w->out);
            if (atomic_exchange(&p->wants_drain, false))
                input(w, CORE_DRAINED, p);
            tick(w);
            for (struct message *m; (m = outbox_take_first(&w->out)); message_free(m))
                if (m->status == MESSAGE_DATA) {
                    int64_t got = strtoll(m->data.data + 4, NULL, 10); /* "id: 17\n…" */
                    CHECK(seen == 0 || got == id + 1);
                    id = got;
                    seen++;
                }
        }
        ask(w, SAY, 1); /* live by now, or it would not come */
        tick(w);
        idle(w);
        outbox_release(&w->out);
        atomic_store(&p->is_closed, true);
        CHECK_INT(pthread_join(thread, NULL), 0);
        CHECK(seen >= EVENTS + 1);
        input(w, CORE_CLOSED, p);
        tick(w);
        CHECK_INT(core_stats(w->core)->subscriptions, 0);
        CHECK_INT(atomic_load(&p->refs), 1);
        peer_unref(p);
    }
    world_free(w);
}

TEST(a_cursor_beyond_the_end_waits_for_what_comes_after_it)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, SUBSCRIBE, 1, 3);
    ask(w, CALL("event.subscribe", "{'afterId':1000000}"));
    tick(w);
    take_ok(w);
    take_ok(w);
    idle(w);
    for (int seq = 2; seq <= 5; seq++) {
        say(w, 1);
        CHECK_INT(take_int(w, "result.seq"), seq);
        if (seq > 3)
            CHECK_INT(take_int(w, "params.seq"), seq);
        check_nothing_left(w);
    }
    world_free(w);
}

TEST(a_subscription_ends_with_its_token)
{
    struct world *w = world_new();
    create(w, 1);
    w->grant.expires_ms = clock_now_ms(&w->clock) + 1000;
    ask(w, SUBSCRIBE, 1, 1);
    tick(w);
    take_ok(w);
    idle(w);
    w->grant.expires_ms = 0;
    say(w, 1);
    take_ok(w);
    CHECK_INT(take_int(w, "params.seq"), 2);
    clock_advance(&w->clock, 1000);
    say(w, 1);
    idle(w);
    take_ok(w);
    struct reply r = take(w);
    CHECK_INT(r.message->status, MESSAGE_EXPEL);
    done(&r);
    check_nothing_left(w);
    CHECK_INT(core_stats(w->core)->subscriptions, 0);
    world_free(w);
}

TEST(guidance_missed_while_behind_is_told_when_caught_up)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, CALL("event.subscribe", "{'conversation':1,'includeGuidance':true}"));
    tick(w);
    take_ok(w);
    idle(w);
    check_nothing_left(w); /* no starting role, so nobody is asked to act */
    atomic_store(&w->peer->queued_bytes, ROOM);
    ask(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':'','finality':'turn'}"));
    tick(w);
    take_ok(w);
    check_nothing_left(w);
    atomic_store(&w->peer->queued_bytes, 0);
    tell_drained(w);
    tick(w);
    idle(w);
    CHECK_INT(take_int(w, "params.seq"), 2);
    struct reply r = take(w);
    CHECK_STR(string_at(r.json, "method"), "guidance");
    CHECK_STR(string_at(r.json, "params.nextAgentId"), "b");
    done(&r);
    check_nothing_left(w);
    world_free(w);
}

TEST(a_peer_that_closed_takes_its_subscriptions_along)
{
    struct world *w = world_new();
    create(w, 1);
    for (int i = 0; i < SUBSCRIPTIONS_PER_PEER_MAX + 1; i++)
        ask(w, SUBSCRIBE, 1, i % 2);
    tick(w);
    for (int i = 0; i < SUBSCRIPTIONS_PER_PEER_MAX; i++)
        take_ok(w);
    take_error(w, "RATE_LIMITED");
    ask(w, SUBSCRIBE, 1, 0);
    ask(w, CALL("event.unsubscribe", "{'subscription':5}"));
    ask(w, SUBSCRIBE, 1, 0); /* one went, one may come */
    input(w, CORE_CLOSED, w->peer);
    tick(w);
    outbox_release(&w->out);
    CHECK_INT(core_stats(w->core)->subscriptions, 0);
    world_free(w);
}

/* ---- limits ---- */

TEST(pages_end_early_when_they_are_large)
{
    struct world *w = world_new();
    create(w, 1);
    char *big = mem_zalloc(900001);
    memset(big, 'x', 900000);
    for (int i = 0; i < 12; i++) {
        ask(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':'%s'}"), big);
        tick(w);
        take_ok(w);
    }
    int64_t after = 0, pages = 0;
    for (int64_t next = -1; next != after; pages++) {
        after = next < 0 ? 0 : next;
        ask(w, CALL("event.list", "{'conversation':1,'afterSeq':%d}"), (int)after);
        tick(w);
        CHECK(w->out.first->data.len < RPC_PAGE_BYTES + 1000000);
        next = take_int(w, "result.nextAfterSeq");
    }
    CHECK_INT(after, 13);
    CHECK_INT(pages, 4); /* 5 + 5 + 3 events, and an empty one */
    free(big);
    world_free(w);
}

TEST(a_batch_ends_early_when_its_answers_are_large)
{
    struct world *w = world_new();
    create(w, 1);
    char *big = mem_zalloc(900001);
    memset(big, 'x', 900000);
    for (int i = 0; i < 6; i++) {
        ask(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':'%s'}"), big);
        tick(w);
        take_ok(w);
    }
    struct buf batch = BUF_INIT(1 << 20);
    for (int i = 0; i < 100; i++)
        buf_addz(&batch, i ? "," CALL("event.list", "{'conversation':1}")
                           : "[" CALL("event.list", "{'conversation':1}"));
    ask(w, "%s," SAY "]", batch.data, 1);
    tick(w);
    struct reply r = take(w);
    CHECK_INT(r.json->count, 101);
    int answered = 0;
    JSON_FOREACH (item, r.json) {
        answered += json_get(item, "result") != NULL;
        if (!json_get(item, "result"))
            CHECK_STR(string_at(item, "error.data.name"), "TOO_LARGE");
    }
    CHECK_INT(answered, 4); /* of 4.5 MB each: the fourth goes past 16 MiB */
    CHECK(r.message->data.len < RPC_BATCH_BYTES_MAX + RPC_PAGE_BYTES + 1000000);
    done(&r);
    CHECK_INT(head_of(w, 1).last_seq, 7); /* the message at its end was not executed */
    buf_release(&batch);
    free(big);
    world_free(w);
}

TEST(old_keys_are_pruned_until_none_is_left)
{
    enum { KEYS = 500 };
    struct world *w = world_new();
    for (int i = 0; i < KEYS; i++)
        ask(w, CALL("conversation.create", "{'agents':[],'idempotencyKey':'%d'}"), i);
    tick(w);
    outbox_release(&w->out);
    clock_advance(&w->clock, 25 * 3600 * 1000);
    const struct store_stats *s = core_store_stats(w->core);
    uint64_t before = s->rows;
    for (int i = 0; i < 5; i++)
        tick(w);
    CHECK_INT(s->rows - before, KEYS);
    world_free(w);
}

TEST(a_batch_reads_its_own_writes)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, "[" CALL("conversation.end", "{'conversation':1}") "," CREATE "," CALL(
               "conversation.list", "{'status':'completed'}") "," CALL("conversation.list",
                                                                       "{'status':'active'}") "]");
    tick(w);
    struct reply r = take(w);
    const struct json *ended = r.json->first->next->next, *active = ended->next;
    const struct json *list = json_get(json_get(ended, "result"), "conversations");
    CHECK_INT(list->count, 1);
    CHECK_INT(int_at(list->first, "conversation"), 1);
    list = json_get(json_get(active, "result"), "conversations");
    CHECK_INT(list->count, 1);
    CHECK_INT(int_at(list->first, "conversation"), 2);
    done(&r);
    world_free(w);
}

TEST(metadata_as_deep_as_a_request_may_be_can_be_read)
{
    enum { DEPTH = 900 };
    struct world *w = world_new();
    struct buf text = BUF_INIT(1 << 20);
    buf_addz(&text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"conversation.create\","
                    "\"params\":{\"agents\":[],\"metadata\":");
    for (int i = 0; i < DEPTH; i++)
        buf_addz(&text, "{\"a\":");
    buf_addc(&text, '1');
    for (int i = 0; i < DEPTH; i++)
        buf_addc(&text, '}');
    buf_addz(&text, "}}");
    struct core_input *in = input(w, CORE_REQUEST, w->peer);
    in->request = rpc_request_new(w->peer, &w->grant, true, buf_str(&text), JSON_DEPTH_MAX);
    tick(w);
    CHECK_INT(take_int(w, "result.conversation"), 1);
    ask(w, CALL("conversation.get", "{'conversation':1}"));
    tick(w);
    CHECK(strstr(w->out.first->data.data, "\"conversation\":1"));
    buf_release(&text);
    world_free(w);
}

/* ---- backups ---- */

TEST(a_backup_is_answered_when_it_is_done_and_others_meanwhile)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w,
        "[" CALL("server.backup", "{'path':'/copy'}") "," SAY "," CALL("server.backup",
                                                                       "{'path':'/copy2'}") "]",
        1);
    tick(w);
    check_nothing_left(w); /* one of the batch waits, so all do */
    say(w, 1);
    CHECK_INT(take_int(w, "result.seq"), 3);
    idle(w);
    struct reply r = take(w);
    CHECK_INT(r.json->count, 3);
    CHECK_STR(string_at(r.json->first, "result.path"), "/copy");
    CHECK_INT(int_at(r.json->first->next, "result.seq"), 2);
    CHECK_STR(string_at(r.json->first->next->next, "error.data.name"), "RATE_LIMITED");
    done(&r);
    check_nothing_left(w);
    world_free(w);
}

TEST(a_backup_survives_the_failure_of_its_tick_and_its_peer)
{
    struct world *w = world_new();
    create(w, 1);
    fill_disk(w);
    ask(w, CALL("server.backup", "{'path':'/copy'}"));
    ask(w, SAY, 1);
    input(w, CORE_CLOSED, w->peer);
    tick(w);
    take_error(w, "UNAVAILABLE");
    check_nothing_left(w);
    free_disk(w);
    idle(w);
    struct reply r = take(w);
    CHECK_STR(string_at(r.json, "result.path"), "/copy");
    done(&r);
    world_free(w);
}

TEST(a_backup_under_way_when_the_core_stops_is_answered)
{
    struct world *w = world_new();
    ask(w, CALL("server.backup", "{'path':'/copy'}"));
    tick(w);
    check_nothing_left(w);
    core_stop(w->core, &w->out);
    take_error(w, "UNAVAILABLE");
    core_stop(w->core, &w->out);
    check_nothing_left(w);
    world_free(w);
}
