/*
 * test_domain.c: the log, its heads and its index, without server or sockets.
 *
 * The heart is a property: whatever happens, a head that is read back (row + tail of the log) is
 * the head that was in memory; and reading the log gives every event once, in order, wherever the
 * border between index and tail happens to be.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "base/options.h"
#include "domain/append.h"
#include "domain/conversation.h"
#include "domain/head.h"
#include "domain/log_index.h"
#include "domain/work.h"
#include "tap.h"

struct world {
    struct options options;
    struct work work;
    uint64_t random;
};

static void open_world(struct world *w)
{
    struct err err = ERR_INIT;
    _cleanup_free_ char *url = mem_printf("sqlite:%s/a.db", tap_folder());
    struct store *store;
    CHECK_INT(store_open(url, NULL, 1000, &store, &err), 0);
    options_init(&w->options);
    CHECK_INT(work_init(&w->work, store, &w->options, 1000, &err), 0);
    w->work.tail_max = 150; /* so that a short test crosses the border often */
}

static void close_world(struct world *w)
{
    work_release(&w->work);
    store_close(w->work.store);
}

static uint64_t below(struct world *w, uint64_t n)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (w->random >> 33) % n;
}

static void begin(struct world *w)
{
    CHECK_INT(work_begin(&w->work, w->work.now_ms + 1, NULL), 0);
    CHECK_INT(work_request_begin(&w->work, NULL), 0);
}

static void end(struct world *w)
{
    CHECK_INT(work_request_end(&w->work, true, NULL), 0);
    CHECK_INT(work_commit(&w->work, NULL), 0);
}

static int64_t create(struct world *w, int64_t max_turns)
{
    static const struct agent_spec agents[] = {
        {.role = {"a", 1}, .desired = {"auto", 4}},
        {.role = {"b", 1}, .desired = {"auto", 4}},
    };
    const struct conversation_spec spec = {
        .agents = agents,
        .agent_count = 2,
        .settings = {.max_turns = max_turns, .idle_ms = LIMIT_DEFAULT},
    };
    int64_t conversation = -1;
    CHECK_INT(conversation_create(&w->work, &spec, &conversation, NULL), 0);
    return conversation;
}

static int say(struct world *w, int64_t conversation, const char *agent, enum finality finality)
{
    const struct append a = {.conversation = conversation,
                             .agent_id = str_of(agent),
                             .finality = finality,
                             .payload = STR("{\"text\":\"x\"}"),
                             .precondition_closed_seq = -1,
                             .outcome = OUTCOME_COMPLETED,
                             .stop_reason = STOP_COMPLETED};
    struct event e;
    return append_message(&w->work, &a, &e, NULL);
}

static void check_same(const struct head *a, const struct head *b)
{
    CHECK_INT(a->status, b->status);
    CHECK_INT(a->outcome, b->outcome);
    CHECK_INT(a->stop_reason, b->stop_reason);
    CHECK_INT(a->max_turns, b->max_turns);
    CHECK_INT(a->last_seq, b->last_seq);
    CHECK_INT(a->last_turn, b->last_turn);
    CHECK_INT(a->last_closed_seq, b->last_closed_seq);
    CHECK_INT(a->turn_is_open, b->turn_is_open);
    CHECK_INT(a->turn_is_cleared, b->turn_is_cleared);
    CHECK_Z(a->turn_owner, b->turn_owner);
    CHECK_INT(a->turn_events, b->turn_events);
    CHECK_INT(a->system_events, b->system_events);
    CHECK_INT(a->last_activity_ms, b->last_activity_ms);
    CHECK_INT(a->created_ms, b->created_ms);
    CHECK_INT(a->updated_ms, b->updated_ms);
}

static void check_reread(struct world *w, int64_t conversation)
{
    struct head *h;
    CHECK_INT(head_get(&w->work, conversation, &h, NULL), 0);
    struct head before = *h;
    heads_drop(&w->work);
    CHECK_INT(head_get(&w->work, conversation, &h, NULL), 0);
    check_same(&before, h);
}

static bool count_in_order(void *ctx, const struct event *e)
{
    int64_t *seq = ctx;
    CHECK_INT(e->seq, ++*seq);
    return true;
}

static void check_log(struct world *w, int64_t conversation)
{
    struct head *h;
    CHECK_INT(head_get(&w->work, conversation, &h, NULL), 0);
    for (int64_t from = 0; from <= h->last_seq; from += 1 + h->last_seq / 5) {
        int64_t seq = from;
        CHECK_INT(log_read(&w->work, conversation, from, INT64_MAX, count_in_order, &seq, NULL), 0);
        CHECK_INT(seq, h->last_seq);
    }
}

/* One random thing; some are refused, which must leave no trace. */
static void act(struct world *w, int64_t conversation)
{
    static const char *const agents[] = {"a", "b", "visitor"};
    const char *agent = agents[below(w, 3)];
    int64_t turn;
    struct event e;
    begin(w);
    int r = 0;
    switch (below(w, 8)) {
    case 0:
        r = append_turn_cleared(&w->work, conversation, str_of(agent), below(w, 2), STR_NONE, &turn,
                                NULL);
        break;
    case 1:
        r = append_system(&w->work, conversation, "system-watchdog", "note", STR("{}"), NULL, &e,
                          NULL);
        break;
    case 2:
        r = say(w, conversation, agent, below(w, 40) == 0 ? FINALITY_CONVERSATION : FINALITY_TURN);
        break;
    default:
        r = say(w, conversation, agent, FINALITY_NONE);
    }
    bool keep = r == 0 && below(w, 10) != 0; /* some change their mind after writing */
    CHECK_INT(work_request_end(&w->work, keep, NULL), 0);
    CHECK_INT(work_commit(&w->work, NULL), 0);
}

TEST(a_head_read_back_is_the_head_that_was)
{
    struct world w = {.random = 1};
    open_world(&w);
    int64_t conversations[5];
    for (int i = 0; i < 5; i++) {
        begin(&w);
        conversations[i] = create(&w, i == 0 ? 7 : 0);
        end(&w);
    }
    for (int step = 0; step < 4000; step++) {
        int64_t c = conversations[below(&w, 5)];
        act(&w, c);
        work_maintain(&w.work); /* writes behind, many times in this run */
        if (step % 7 == 0)
            check_reread(&w, c);
        if (step % 400 == 0)
            check_log(&w, c);
    }
    close_world(&w);
}

TEST(a_start_finds_heads_and_log_as_they_were)
{
    struct world w = {.random = 2};
    open_world(&w);
    begin(&w);
    int64_t c = create(&w, 0), quiet = create(&w, 0);
    CHECK_INT(say(&w, quiet, "a", FINALITY_NONE), 0);
    end(&w);
    struct head last, *h;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 700; i++) {
            act(&w, c);
            work_maintain(&w.work); /* must write `quiet` too, though nobody has it in memory */
        }
        CHECK_INT(head_get(&w.work, c, &h, NULL), 0);
        last = *h;
        close_world(&w);
        open_world(&w);
        CHECK_INT(head_get(&w.work, c, &h, NULL), 0);
        check_same(&last, h);
        check_log(&w, c);
        CHECK_INT(head_get(&w.work, quiet, &h, NULL), 0);
        CHECK_INT(h->last_seq, 2);
        CHECK_Z(h->turn_owner, "a");
    }
    close_world(&w);
}

TEST(requests_are_found_in_tail_and_index)
{
    struct world w = {.random = 3};
    open_world(&w);
    begin(&w);
    int64_t c = create(&w, 0);
    end(&w);
    for (int i = 0; i < 1500; i++) {
        char id[32];
        struct request_key key = {.id = {id, (size_t)snprintf(id, sizeof id, "r-%d", i)}};
        struct append a = {.conversation = c,
                           .agent_id = STR("a"),
                           .payload = STR("{}"),
                           .precondition_closed_seq = -1,
                           .key = &key};
        struct event first, again;
        begin(&w);
        CHECK_INT(append_message(&w.work, &a, &first, NULL), 0);
        end(&w);
        work_maintain(&w.work);
        snprintf(id, sizeof id, "r-%d", (int)below(&w, (uint64_t)i + 1));
        key.id = str_of(id);
        begin(&w);
        CHECK_INT(append_message(&w.work, &a, &again, NULL), 0);
        CHECK_INT(again.seq, atoi(id + 2) + 2); /* after meta_created */
        key.hash[0] = 1;
        CHECK_INT(append_message(&w.work, &a, &again, NULL), -ERR_IDEMPOTENCY_CONFLICT);
        key.hash[0] = 0;
        a.agent_id = STR("b"); /* another agent's keys are its own */
        bool found;
        CHECK_INT(append_find_repeat(&w.work, c, a.agent_id, &key, &again, &found, NULL), 0);
        CHECK(!found);
        end(&w);
    }
    close_world(&w);
}

/* A turn that reaches the limit and the end it causes are one: undo one, undo both. */
TEST(L03_an_end_is_whole_or_did_not_happen)
{
    struct world w = {.random = 4};
    struct head *h;
    open_world(&w);
    begin(&w);
    int64_t c = create(&w, 1);
    end(&w);
    begin(&w);
    CHECK_INT(say(&w, c, "a", FINALITY_TURN), 0);
    CHECK_INT(head_get(&w.work, c, &h, NULL), 0);
    CHECK_INT(h->status, CONVERSATION_COMPLETED);
    CHECK_INT(work_request_end(&w.work, false, NULL), 0); /* say, it could not be released */
    CHECK_INT(work_commit(&w.work, NULL), 0);
    CHECK(w.work.events == NULL);
    check_reread(&w, c);
    CHECK_INT(head_get(&w.work, c, &h, NULL), 0);
    CHECK_INT(h->status, CONVERSATION_ACTIVE);
    CHECK_INT(h->last_seq, 1);
    begin(&w);
    CHECK_INT(say(&w, c, "a", FINALITY_TURN), 0);
    end(&w);
    CHECK_INT(h->last_seq, 3);
    CHECK_INT(h->stop_reason, STOP_MAX_TURNS);
    check_reread(&w, c);
    close_world(&w);
}

TEST(a_conversation_that_was_undone_never_was)
{
    struct world w = {.random = 6};
    struct head *h;
    open_world(&w);
    begin(&w);
    int64_t c = create(&w, 0);
    CHECK_INT(say(&w, c, "a", FINALITY_NONE), 0);
    CHECK_INT(work_request_end(&w.work, false, NULL), 0);
    CHECK_INT(head_get(&w.work, c, &h, NULL), -ERR_NOT_FOUND);
    CHECK_INT(work_request_begin(&w.work, NULL), 0);
    CHECK_INT(create(&w, 3), c); /* its number was not used */
    end(&w);
    CHECK_INT(head_get(&w.work, c, &h, NULL), 0);
    CHECK_INT(h->max_turns, 3);
    CHECK_INT(h->last_seq, 1);
    check_reread(&w, c);
    close_world(&w);
}

static uint64_t statements_of_one_append(struct world *w, int64_t conversation)
{
    const struct store_stats *stats = store_stats(w->work.store);
    uint64_t before = stats->statements;
    begin(w);
    CHECK_INT(say(w, conversation, "a", FINALITY_TURN), 0);
    end(w);
    return stats->statements - before;
}

TEST(L13_an_append_costs_the_same_at_any_length)
{
    struct world w = {.random = 5};
    uint64_t tenth = 0;
    open_world(&w);
    begin(&w);
    int64_t c = create(&w, 0);
    end(&w);
    for (int i = 1; i <= 6000; i++) { /* more than one batch of the index */
        uint64_t n = statements_of_one_append(&w, c);
        if (i == 10)
            tenth = n;
        if (i >= 10)
            CHECK_INT(n, tenth);
        work_maintain(&w.work);
    }
    close_world(&w);
}
