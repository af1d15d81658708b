/* backtest.c: see backtest.h. What a server answers is checked before anything relies on it. */
#include "cli/backtest.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/macro.h"
#include "base/mem.h"
#include "cli/backtest_task.h"
#include "cli/print.h"
#include "cli/when.h"

enum { PAGE_EVENTS = 1000, PAGE_CONVERSATIONS = 200 };

void backtest_init(struct backtest *b)
{
    *b = (struct backtest){.page = ARENA_INIT};
    options_init(&b->in_force);
    options_init(&b->limits);
}

void backtest_release(struct backtest *b)
{
    free(b->moves);
    gaps_release(&b->gaps);
    arena_release(&b->page);
    *b = (struct backtest){.page = ARENA_INIT};
}

/* ---- limits ---- */

static int read_option(struct options *o, size_t i, const struct json *value, struct err *err)
{
    const struct option_row *row = &option_rows[i];
    char assignment[160];
    if (!value)
        return 0; /* a server that does not have it yet: the default */
    if (value->type == JSON_BOOL)
        snprintf(assignment, sizeof assignment, "%s.%s=%s", row->section, row->key,
                 value->boolean ? "true" : "false");
    else
        snprintf(assignment, sizeof assignment, "%s.%s=%lld", row->section, row->key,
                 value->type == JSON_INT ? (long long)value->integer : -1);
    return options_set(o, str_of(assignment), err);
}

int backtest_read_limits(struct backtest *b, struct client *client, struct err *err)
{
    const struct json *result;
    arena_clear(&b->page);
    int r = client_call(client, "server.config", STR("{}"), &b->page, &result, err);
    for (size_t i = 0; r == 0 && i < OPTION_COUNT; i++) {
        char key[160];
        snprintf(key, sizeof key, "%s.%s", option_rows[i].section, option_rows[i].key);
        const struct json *option = json_get(json_get(result, "options"), key);
        r = read_option(&b->in_force, i, json_get(option, "value"), err);
        if (r < 0)
            err_prefix(err, "server.config");
    }
    b->limits = b->in_force;
    return r;
}

/* ---- events ---- */

static int event_of(const struct json *j, struct event *ret, const struct json **ret_payload,
                    struct err *err)
{
    const struct json *payload = json_get(j, "payload");
    *ret = (struct event){.id = json_get_int(j, "id", 0),
                          .conversation = json_get_int(j, "conversation", -1),
                          .seq = json_get_int(j, "seq", 0),
                          .turn = json_get_int(j, "turn", 0),
                          .event = json_get_int(j, "event", 0),
                          .agent_id = json_get_text(j, "agentId"),
                          .payload = payload ? payload->span : STR("{}")};
    *ret_payload = payload;
    if (!when_parse(json_get_text(j, "ts"), &ret->ts_ms) ||
        !event_type_parse(json_get_text(j, "type"), &ret->type) ||
        !finality_parse(json_get_text(j, "finality"), &ret->finality))
        return err_set(err, ERR_INTERNAL, "event %lld of the server has no time, type or finality",
                       (long long)ret->id);
    return 0;
}

/* Calls `each` for the events of a conversation up to last_seq, in order. */
static int read_log(struct backtest *b, int64_t conversation, int64_t last_seq,
                    int (*each)(struct backtest *b, void *ctx, const struct event *e,
                                const struct json *payload, struct err *err),
                    void *ctx, struct err *err)
{
    for (int64_t after = 0; after < last_seq;) {
        char params[128];
        const struct json *result, *events, *payload;
        struct event e;
        arena_clear(&b->page);
        snprintf(params, sizeof params, "{\"conversation\":%lld,\"afterSeq\":%lld,\"limit\":%d}",
                 (long long)conversation, (long long)after, PAGE_EVENTS);
        int r = client_call(b->client, "event.list", str_of(params), &b->page, &result, err);
        if (r < 0)
            return r;
        events = json_get(result, "events");
        if (!events || events->type != JSON_ARRAY)
            return err_set(err, ERR_INTERNAL, "event.list answers without events");
        if (!events->first)
            return 0;
        JSON_FOREACH (item, events) {
            r = event_of(item, &e, &payload, err);
            if (r == 0 && e.seq <= after)
                r = err_set(err, ERR_INTERNAL, "event.list does not go on");
            if (r == 0)
                r = each(b, ctx, &e, payload, err);
            if (r < 0)
                return r;
            after = e.seq;
        }
    }
    return 0;
}

static int note_gap(struct backtest *b, void *ctx, const struct event *e,
                    const struct json *payload, struct err *err)
{
    (void)ctx;
    const struct json *data = json_get(payload, "data");
    int64_t from_ms, to_ms, last_ms = b->gaps.count ? b->gaps.list[b->gaps.count - 1].to_ms : 0;
    if (!str_is(json_get_text(payload, "kind"), "watch.gap") ||
        str_is(json_get_text(data, "kind"), "wall_step"))
        return 0;
    if (!when_parse(json_get_text(data, "from"), &from_ms) ||
        !when_parse(json_get_text(data, "to"), &to_ms) || from_ms < last_ms || from_ms >= to_ms)
        return err_set(err, ERR_INTERNAL, "the gap of event %lld is none", (long long)e->id);
    gaps_add(&b->gaps, from_ms, to_ms);
    return 0;
}

/* ---- replaying ---- */

/* By the limits asked for, and by those in force. */
struct pair {
    struct replay asked, in_force;
    struct replay_tasks tasks;
};

static int replay_both(struct backtest *b, void *ctx, const struct event *e,
                       const struct json *payload, struct err *err)
{
    struct pair *p = ctx;
    int r = replay_event(&p->asked, e, payload, err);
    if (r == 0)
        r = replay_event(&p->in_force, e, payload, err);
    if (r == 0)
        replay_tasks_event(&p->tasks, e, payload);
    b->counts.events++;
    progress_show(&b->progress, b->counts.conversations, b->counts.events);
    return r;
}

static void count(struct backtest *b, int64_t conversation, const struct pair *p)
{
    const struct replay *r = &p->asked;
    b->counts.conversations++;
    b->counts.notices += r->notices;
    b->counts.moved += r->move_count > 0;
    b->counts.spared += r->move_count == 0 && p->in_force.move_count > 0;
    /* Only the last move can differ from the record. */
    b->counts.healthy += r->move_count && r->moves[r->move_count - 1].truth == REPLAY_HEALTHY;
    b->moves = mem_grow(b->moves, &b->move_cap, b->move_count + r->move_count, sizeof *b->moves);
    for (size_t i = 0; i < r->move_count; i++)
        b->moves[b->move_count++] = (struct backtest_move){
            .conversation = conversation, .move = r->moves[i], .record = r->record};
}

/* When the conversation itself would have been stopped, other than it was. */
static int64_t cut_ms(const struct replay *r)
{
    const struct replay_move *last = r->move_count ? &r->moves[r->move_count - 1] : NULL;
    return last && last->truth != REPLAY_SAME ? last->at_ms : NEVER_MS;
}

static void add_task_move(struct backtest *b, int64_t conversation,
                          const struct task_replay_move *m)
{
    b->moves = mem_grow(b->moves, &b->move_cap, b->move_count + 1, sizeof *b->moves);
    b->moves[b->move_count++] = (struct backtest_move){
        .conversation = conversation,
        .task = m->of->task,
        .move = m->move,
        .task_record = {m->of->status, m->of->end_rule, m->of->completed_ms}};
}

static void count_tasks(struct backtest *b, int64_t conversation, struct pair *p)
{
    struct replay_tasks *t = &p->tasks;
    _cleanup_free_ bool *is_moved = mem_zalloc(t->count + 1);
    b->counts.tasks += (int64_t)t->count;
    replay_tasks_judge(t, &b->limits, &b->gaps, b->now_ms, cut_ms(&p->asked));
    for (size_t i = 0; i < t->move_count; i++) {
        size_t task = (size_t)(t->moves[i].of - t->tasks);
        b->counts.tasks_moved += !is_moved[task];
        b->counts.tasks_healthy += t->moves[i].move.truth == REPLAY_HEALTHY;
        is_moved[task] = true;
        add_task_move(b, conversation, &t->moves[i]);
    }
    replay_tasks_judge(t, &b->in_force, &b->gaps, b->now_ms, cut_ms(&p->in_force));
    for (size_t i = 0; i < t->move_count; i++) {
        size_t task = (size_t)(t->moves[i].of - t->tasks);
        b->counts.tasks_spared += !is_moved[task];
        is_moved[task] = true;
    }
}

/* c: as conversation.get has it. */
static int replay_conversation(struct backtest *b, const struct json *c, struct err *err)
{
    int64_t conversation = json_get_int(c, "conversation", 0);
    struct pair p = {.tasks = {0}};
    _cleanup_free_ struct replay_point *points = NULL;
    int r =
        backtest_read_tasks(b->client, conversation, &p.tasks, &b->counts.tasks_unrecorded, err);
    size_t point_count = backtest_points(&p.tasks, &points);
    replay_init(&p.asked, &b->limits, &b->gaps);
    replay_init(&p.in_force, &b->in_force, &b->gaps);
    replay_set_work(&p.asked, points, point_count);
    replay_set_work(&p.in_force, points, point_count);
    if (r == 0)
        r = read_log(b, conversation, json_get_int(json_get(c, "head"), "lastSeq", 0), replay_both,
                     &p, err);
    if (r == 0) {
        replay_finish(&p.asked, b->now_ms);
        replay_finish(&p.in_force, b->now_ms);
        count(b, conversation, &p);
        count_tasks(b, conversation, &p);
    }
    replay_release(&p.asked);
    replay_release(&p.in_force);
    replay_tasks_release(&p.tasks);
    return r;
}

static int replay_page(struct backtest *b, const struct json *page, struct err *err)
{
    const struct json *list = json_get(page, "conversations");
    if (!list || list->type != JSON_ARRAY)
        return err_set(err, ERR_INTERNAL, "conversation.list answers without conversations");
    JSON_FOREACH (c, list) {
        int r = replay_conversation(b, c, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int replay_all(struct backtest *b, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    for (int64_t after = 0, next = 0; next >= 0; after = next) {
        char params[96];
        const struct json *page;
        arena_clear(&a);
        snprintf(params, sizeof params, "{\"after\":%lld,\"limit\":%d}", (long long)after,
                 PAGE_CONVERSATIONS);
        int r = client_call(b->client, "conversation.list", str_of(params), &a, &page, err);
        if (r == 0)
            r = replay_page(b, page, err);
        if (r < 0)
            return r;
        next = json_get_int(page, "next", -1);
        if (next >= 0 && next <= after)
            return err_set(err, ERR_INTERNAL, "conversation.list does not go on");
    }
    return 0;
}

static int replay_one(struct backtest *b, int64_t conversation, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *c;
    char params[64];
    snprintf(params, sizeof params, "{\"conversation\":%lld}", (long long)conversation);
    int r = client_call(b->client, "conversation.get", str_of(params), &a, &c, err);
    return r < 0 ? r : replay_conversation(b, c, err);
}

static int by_time(const void *a, const void *b)
{
    const struct backtest_move *x = a, *y = b;
    if (x->move.at_ms != y->move.at_ms)
        return x->move.at_ms < y->move.at_ms ? -1 : 1;
    if (x->conversation != y->conversation)
        return x->conversation < y->conversation ? -1 : 1;
    return (x->task > y->task) - (x->task < y->task);
}

static int read_now(struct backtest *b, int64_t *ret_total, struct err *err)
{
    const struct json *info;
    arena_clear(&b->page);
    int r = client_call(b->client, "server.info", STR("{}"), &b->page, &info, err);
    if (r < 0)
        return r;
    if (!when_parse(json_get_text(info, "now"), &b->now_ms))
        return err_set(err, ERR_INTERNAL, "server.info answers without now");
    *ret_total = json_get_int(info, "lastConversation", 0);
    return 0;
}

int backtest_run(struct backtest *b, struct client *client, int64_t only, struct err *err)
{
    int64_t total = 1;
    b->client = client;
    int r = read_now(b, &total, err);
    if (r == 0)
        r = read_log(b, 0, INT64_MAX, note_gap, NULL, err);
    if (r < 0)
        return r;
    progress_begin(&b->progress, "backtest", only == CLIENT_ALL ? total : 1);
    r = only == CLIENT_ALL ? replay_all(b, err) : replay_one(b, only, err);
    progress_end(&b->progress);
    if (b->move_count)
        qsort(b->moves, b->move_count, sizeof b->moves[0], by_time);
    return r;
}
