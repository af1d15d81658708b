/*
 * test_core.c: the tick. What fails is undone in store and memory alike; what an append costs; what
 * one request may take; backups; long polls. Subscriptions have test_follow.c.
 */
#include "tap.h"

#include <stdlib.h>

#include "base/mem.h"
#include "lib/core_world.h"

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
    const int64_t numbers[] = {id, 999, 1, 1, 1, WORLD_START_MS};
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
    world_restart(w); /* which sees the row that was in the way */
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

/* SQLite answers a failed read by giving up the transaction: then it is nobody's error but the
 * disk's, and all may try again. */
TEST(a_read_error_makes_the_tick_unavailable_and_no_later_one)
{
    struct world *w = world_new();
    for (int i = 0; i < 500; i++)
        ask(w, CREATE);
    tick(w);
    outbox_release(&w->out);
    world_restart(w); /* a row in the middle is on a page that nobody has read yet */
    fault_vfs_plan(w->disk, FAULT_EIO, 1, false);
    ask(w, SAY, 1);
    ask_stream(w, w->peer, 250, 0);
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
    ask_stream(w, w->peer, 77, -1); /* its refusal is thrown away with the tick */
    tick(w);
    take_error(w, "UNAVAILABLE");
    take_error(w, "UNAVAILABLE");
    check_nothing_left(w);
    CHECK_INT(atomic_load(&w->peer->queued_bytes), 0);
    free_disk(w);
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
        ask(w,
            CALL("conversation.create", "{'agents':[],'idempotencyKey':'%d',"
                                        "'runtime_controls':{'session_wall_clock_seconds':0}}"),
            i);
    tick(w);
    tick(w); /* what begins at start is done */
    outbox_release(&w->out);
    clock_advance(&w->clock, 25 * 3600 * 1000);
    const struct store_stats *s = core_store_stats(w->core);
    uint64_t before = s->rows;
    for (int i = 0; i < 5; i++)
        tick(w);
    CHECK_INT(s->rows - before, KEYS + 1); /* and the time reached */
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
    check_nothing_left(w); /* one of the batch waits, so do those behind it */
    ask(w, CALL("server.backup", "{'path':'/copy3'}"));
    say(w, 1);
    take_error(w, "RATE_LIMITED");
    CHECK_INT(take_int(w, "result.seq"), 2);
    for (int i = 0; i < 2; i++) {
        while (!core_wants_tick(w->core) && !w->out.first)
            core_idle(w->core, &w->out);
        tick(w);
    }
    while (!w->out.first)
        core_idle(w->core, &w->out);
    struct reply r = take(w);
    CHECK_INT(r.json->count, 3);
    CHECK_STR(string_at(r.json->first, "result.path"), "/copy");
    CHECK_INT(int_at(r.json->first->next, "result.seq"), 3);
    CHECK_STR(string_at(r.json->first->next->next, "result.path"), "/copy2");
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

TEST(a_peer_that_does_not_read_gets_no_more_answers)
{
    struct world *w = world_new();
    create(w, 1);
    atomic_store(&w->peer->queued_bytes, WORLD_ROOM_BYTES);
    ask(w, SAY, 1);
    ask(w, CALL("event.list", "{'conversation':1}"));
    ask_other(w, SAY, 1);
    tick(w);
    CHECK_INT(take_int(w, "result.seq"), 2); /* the other's: nobody waits for one who stalls */
    check_nothing_left(w);
    CHECK(!core_wants_tick(w->core)); /* it is woken by the peer, it does not spin */
    CHECK(atomic_exchange(&w->peer->wants_drain, false));
    atomic_store(&w->peer->queued_bytes, 0);
    input(w, CORE_DRAINED, w->peer);
    tick(w);
    CHECK_INT(take_int(w, "result.seq"), 3);
    CHECK_INT(take_int(w, "result.nextAfterSeq"), 3); /* in the order they were asked */
    check_nothing_left(w);
    world_free(w);
}

TEST(requests_that_wait_for_room_go_with_their_peer)
{
    struct world *w = world_new();
    create(w, 1);
    atomic_store(&w->peer->queued_bytes, WORLD_ROOM_BYTES);
    ask(w, SAY, 1);
    tick(w);
    check_nothing_left(w);
    core_stop(w->core, &w->out); /* at the latest now they are answered */
    take_error(w, "UNAVAILABLE");
    atomic_store(&w->peer->queued_bytes, 0);
    world_free(w);
}

TEST(a_tick_that_made_many_bytes_leaves_the_rest_to_the_next)
{
    enum { EVENTS = 5, EVENT_BYTES = 1 << 20, ASKED = 12 };
    struct world *w = world_new();
    create(w, 1);
    _cleanup_free_ char *text = mem_alloc(EVENT_BYTES + 1);
    memset(text, 'x', EVENT_BYTES);
    text[EVENT_BYTES] = '\0';
    for (int i = 0; i < EVENTS; i++) {
        ask_other(w, CALL("message.send", "{'conversation':1,'agentId':'a','text':'%s'}"), text);
        tick(w);
        take_ok(w);
    }
    for (int i = 0; i < ASKED; i++) /* about 4 MiB each */
        ask_other(w, CALL("event.list", "{'conversation':1}"));
    int ticks = 0, answers = 0;
    do {
        tick(w);
        ticks++;
        for (; w->out.first; answers++)
            take_ok(w);
    } while (core_wants_tick(w->core));
    CHECK_INT(answers, ASKED);
    CHECK_INT(ticks, 2);
    world_free(w);
}

/* ---- long polls ---- */

#define WAIT CALL("task.wait", "{'conversation':1,'role':'a','connectionId':'c','timeoutMs':60000}")
#define GIVE CALL("task.create", "{'conversation':1,'role':'a','content':'x'}")

static struct world *world_with_listener(void)
{
    struct world *w = world_new();
    create(w, 1);
    ask(w, CALL("participant.join", "{'conversation':1,'role':'a','connectionId':'c'}"));
    tick(w);
    take_ok(w);
    return w;
}

static void wait_for_task(struct world *w)
{
    ask_other(w, WAIT);
    tick(w);
    check_nothing_left(w);
}

static void take_task(struct world *w)
{
    struct reply r = take(w);
    CHECK_STR(string_at(r.json, "result.status"), "task");
    done(&r);
}

TEST(who_waits_is_answered_with_the_commit_of_what_it_waits_for)
{
    struct world *w = world_with_listener();
    wait_for_task(w);
    ask(w, GIVE);
    tick(w);
    take_task(w); /* first, it has waited longest */
    CHECK_INT(take_int(w, "result.task.task"), 1);
    check_nothing_left(w);
    CHECK(!core_wants_tick(w->core));
    world_free(w);
}

/* What stands before a call in its batch is true only after the commit. */
TEST(who_began_to_wait_in_the_same_tick_is_answered_by_the_next)
{
    struct world *w = world_with_listener();
    ask_other(w, WAIT);
    ask(w, GIVE);
    tick(w);
    CHECK_INT(take_int(w, "result.task.task"), 1);
    check_nothing_left(w);
    CHECK(core_wants_tick(w->core));
    tick(w);
    take_task(w);
    check_nothing_left(w);
    world_free(w);
}

TEST(who_waits_for_what_was_lost_is_told_so_once_and_then_left_alone)
{
    struct world *w = world_with_listener();
    wait_for_task(w);
    fill_disk(w);
    ask(w, GIVE);
    tick(w);
    take_error(w, "UNAVAILABLE");
    take_error(w, "UNAVAILABLE");
    check_nothing_left(w);

    wait_for_task(w);
    ask(w, GIVE); /* it is known by now that nothing is stored */
    tick(w);
    take_error(w, "UNAVAILABLE");
    check_nothing_left(w);

    free_disk(w);
    pass_pause();
    ask(w, GIVE);
    tick(w);
    CHECK_INT(take_int(w, "result.task.task"), 1);
    settle(w);
    take_task(w);
    check_nothing_left(w);
    world_free(w);
}
