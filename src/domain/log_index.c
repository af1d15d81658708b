/*
 * log_index.c: see log_index.h.
 *
 * The tail is an array of entries in the order of ids, so undoing is cutting off its end. Two maps
 * lead into it. `conversations` holds the first and last entry of each conversation, whose entries
 * are linked by `next` and have consecutive seqs. `requests` is keyed by a keyed hash of
 * (conversation, agent, request id) and holds the newest entry with that hash; the row itself is
 * compared after, so a collision costs a look-up and nothing else.
 */
#include "domain/log_index.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/planted.h"
#include "base/random.h"
#include "domain/work.h"

enum { NONE = -1 };

struct entry {
    int64_t id, conversation, seq;
    int64_t request;        /* its key in `requests`; 0: none */
    int32_t previous, next; /* of the same conversation, or NONE */
    int32_t older_request;  /* with the same key, or NONE */
};

/* The part of the tail that belongs to one conversation. */
struct span {
    int32_t first, last;
};

struct log_index {
    struct entry *entries;
    size_t count, cap;
    struct map conversations; /* → struct span */
    struct map requests;      /* → (void *)(index + 1) */
    uint64_t seed;
};

/* ---- the tail ---- */

static uint64_t mix(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001B3);
    return h ^ (h >> 29);
}

static int64_t request_key(const struct log_index *x, int64_t conversation, struct str agent_id,
                           struct str request)
{
    uint64_t h = mix(x->seed, &conversation, sizeof conversation);
    h = mix(h, agent_id.p, agent_id.n);
    h = mix(h, "", 1); /* a border: ("ab", "c") is not ("a", "bc") */
    h = mix(h, request.p, request.n);
    return h ? (int64_t)h : 1;
}

static void *index_as_value(int32_t i)
{
    return (void *)(intptr_t)(i + 1);
}

static int32_t newest_request(const struct log_index *x, int64_t key)
{
    return (int32_t)((intptr_t)map_get(&x->requests, key) - 1); /* absent: NONE */
}

void log_index_add(struct log_index *x, const struct event *e, struct str request)
{
    int32_t i = (int32_t)x->count;
    x->entries = mem_grow(x->entries, &x->cap, x->count + 1, sizeof *x->entries);
    struct entry *n = &x->entries[x->count++];
    *n = (struct entry){.id = e->id,
                        .conversation = e->conversation,
                        .seq = e->seq,
                        .previous = NONE,
                        .next = NONE,
                        .older_request = NONE};
    struct span *span = map_get(&x->conversations, e->conversation);
    if (!span) {
        span = mem_alloc(sizeof *span);
        *span = (struct span){i, i};
        map_put(&x->conversations, e->conversation, span);
    } else {
        REQUIRE(x->entries[span->last].seq + 1 == e->seq);
        x->entries[span->last].next = i;
        n->previous = span->last;
        span->last = i;
    }
    if (request.p) {
        n->request = request_key(x, e->conversation, e->agent_id, request);
        n->older_request = newest_request(x, n->request);
        map_put(&x->requests, n->request, index_as_value(i));
    }
}

size_t log_index_count(const struct log_index *x)
{
    return x->count;
}

bool log_index_next_conversation(const struct log_index *x, size_t *i, int64_t *ret)
{
    const struct span *span = map_next(&x->conversations, i);
    if (span)
        *ret = x->entries[span->first].conversation;
    return span != NULL;
}

static void remove_last(struct log_index *x)
{
    int32_t i = (int32_t)--x->count;
    const struct entry *e = &x->entries[i];
    struct span *span = map_get(&x->conversations, e->conversation);
    if (span->first == i) {
        free(map_remove(&x->conversations, e->conversation));
    } else {
        span->last = e->previous;
        x->entries[span->last].next = NONE;
    }
    if (e->request && e->older_request == NONE)
        map_remove(&x->requests, e->request);
    else if (e->request)
        map_put(&x->requests, e->request, index_as_value(e->older_request));
}

void log_index_truncate(struct log_index *x, size_t count)
{
    REQUIRE(count <= x->count);
    while (x->count > count)
        remove_last(x);
}

void log_index_written(struct log_index *x)
{
    struct span *span;
    for (size_t i = 0; (span = map_next(&x->conversations, &i));)
        free(span);
    map_release(&x->conversations);
    map_release(&x->requests);
    x->count = 0;
}

struct log_index *log_index_free(struct log_index *x)
{
    if (x) {
        log_index_written(x);
        free(x->entries);
        free(x);
    }
    return NULL;
}

/* The numbers of the log are what everything else is checked against: where they are wrong, going
 * on would number what is to come wrongly too. */
static int check_follows(const struct log_index *x, const struct event *e, struct err *err)
{
    const struct span *span = map_get(&x->conversations, e->conversation);
    if (!span || x->entries[span->last].seq + 1 == e->seq)
        return 0;
    return err_set(err, ERR_INTERNAL,
                   "the log is damaged: event %lld of conversation %lld has seq %lld, after %lld",
                   (long long)e->id, (long long)e->conversation, (long long)e->seq,
                   (long long)x->entries[span->last].seq);
}

int log_index_new(struct work *w, struct log_index **ret, struct err *err)
{
    struct log_index *x = mem_zalloc(sizeof *x);
    x->seed = random_u64();
    struct query *q = store_query(w->store, SQL_LOG_TAIL);
    int r;
    while ((r = query_step(q, err)) == STORE_ROW) {
        const struct event e = {.id = query_get_int(q, 0),
                                .conversation = query_get_int(q, 1),
                                .seq = query_get_int(q, 2),
                                .agent_id = query_get_text(q, 3)};
        r = check_follows(x, &e, err);
        if (r < 0)
            break;
        log_index_add(x, &e, planted(KEYS_IN_MEMORY) ? STR_NONE : query_get_text(q, 4));
    }
    if (r < 0)
        x = log_index_free(x);
    else
        *ret = x;
    return r;
}

/* ---- into the tables ---- */

static int run_up_to(struct work *w, enum statement statement, int64_t id, struct err *err)
{
    struct query *q = store_query(w->store, statement);
    query_int(q, 1, id);
    return query_run(q, NULL, err);
}

int log_index_write(struct work *w, struct err *err)
{
    const struct log_index *x = w->log_index;
    if (x->count == 0)
        return 0;
    int64_t last_id = x->entries[x->count - 1].id;
    int r = run_up_to(w, SQL_LOG_INDEX_EVENTS, last_id, err);
    if (r == 0)
        r = run_up_to(w, SQL_LOG_INDEX_REQUESTS, last_id, err);
    if (r == 0)
        r = run_up_to(w, SQL_LOG_INDEX_CURSOR, last_id, err);
    return r;
}

/* ---- looking up ---- */

/* The first entry of the conversation whose seq is at least `seq`, or NONE. */
static int32_t tail_from(const struct log_index *x, int64_t conversation, int64_t seq)
{
    const struct span *span = map_get(&x->conversations, conversation);
    if (!span || x->entries[span->last].seq < seq)
        return NONE;
    int32_t i = span->first;
    while (x->entries[i].seq < seq)
        i = x->entries[i].next;
    return i;
}

/* The id of an event, by tail or table. STORE_ROW, STORE_DONE or an error. */
static int find_id(struct work *w, int64_t conversation, int64_t seq, int64_t *ret, struct err *err)
{
    int32_t i = tail_from(w->log_index, conversation, seq);
    if (i != NONE && w->log_index->entries[i].seq == seq) {
        *ret = w->log_index->entries[i].id;
        return STORE_ROW;
    }
    struct query *q = store_query(w->store, SQL_LOG_ID_BY_SEQ);
    query_int(q, 1, conversation);
    query_int(q, 2, seq);
    int r = query_one(q, err);
    if (r == STORE_ROW)
        *ret = query_get_int(q, 0);
    query_end(q);
    return r;
}

/* Leaves the row readable: SQL_EVENT_BY_ID. */
static int read_by_id(struct work *w, int64_t id, struct query **ret_query, struct event *ret,
                      struct err *err)
{
    struct query *q = store_query(w->store, SQL_EVENT_BY_ID);
    query_int(q, 1, id);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (r == STORE_DONE)
        return err_set(err, ERR_INTERNAL, "event %lld is indexed but not in the log",
                       (long long)id);
    r = event_from_row(q, ret, err);
    *ret_query = q;
    return r < 0 ? r : STORE_ROW;
}

static void keep_strings(struct work *w, struct event *e)
{
    e->agent_id = arena_str(&w->arena, e->agent_id);
    e->payload = arena_str(&w->arena, e->payload);
}

int log_get(struct work *w, int64_t conversation, int64_t seq, struct event *ret, struct err *err)
{
    int64_t id;
    struct query *q;
    int r = find_id(w, conversation, seq, &id, err);
    if (r == STORE_ROW)
        r = read_by_id(w, id, &q, ret, err);
    if (r == STORE_ROW) {
        keep_strings(w, ret);
        query_end(q);
    }
    return r;
}

int log_check_last(struct work *w, int64_t conversation, int64_t last_seq, struct err *err)
{
    int64_t id;
    bool can_be = last_seq >= 0 && last_seq < INT64_MAX;
    int is_there = can_be && last_seq > 0 ? find_id(w, conversation, last_seq, &id, err) : can_be;
    int is_next = is_there > 0 ? find_id(w, conversation, last_seq + 1, &id, err) : 0;
    if (is_there < 0 || is_next < 0)
        return MIN(is_there, is_next);
    if (is_there && !is_next)
        return 0;
    return err_set(err, ERR_INTERNAL, "conversation %lld is damaged: its log does not end at %lld",
                   (long long)conversation, (long long)last_seq);
}

/* Is this row the one asked for? Then *ret and *ret_hash are filled. */
static int match_request(struct work *w, int64_t id, int64_t conversation, struct str agent_id,
                         struct str request, struct event *ret, struct str *ret_hash,
                         struct err *err)
{
    struct query *q;
    int r = read_by_id(w, id, &q, ret, err);
    if (r < 0)
        return r;
    bool same = ret->conversation == conversation && str_eq(ret->agent_id, agent_id) &&
                str_eq(query_get_text(q, 10), request);
    if (same) {
        keep_strings(w, ret);
        *ret_hash = arena_str(&w->arena, query_get_blob(q, 11));
    }
    query_end(q);
    return same ? STORE_ROW : STORE_DONE;
}

int log_find_request(struct work *w, int64_t conversation, struct str agent_id, struct str request,
                     struct event *ret, struct str *ret_hash, struct err *err)
{
    const struct log_index *x = w->log_index;
    int64_t key = request_key(x, conversation, agent_id, request);
    for (int32_t i = newest_request(x, key); i != NONE; i = x->entries[i].older_request) {
        int r =
            match_request(w, x->entries[i].id, conversation, agent_id, request, ret, ret_hash, err);
        if (r != STORE_DONE)
            return r;
    }
    struct query *q = store_query(w->store, SQL_LOG_ID_BY_REQUEST);
    query_int(q, 1, conversation);
    query_text(q, 2, agent_id);
    query_text(q, 3, request);
    int r = query_one(q, err);
    int64_t id = r == STORE_ROW ? query_get_int(q, 0) : 0;
    query_end(q);
    if (r != STORE_ROW)
        return r;
    return match_request(w, id, conversation, agent_id, request, ret, ret_hash, err);
}

int log_seq_at_id(struct work *w, int64_t conversation, int64_t last_seq, int64_t id, int64_t *ret,
                  struct err *err)
{
    int64_t low = 0, high = last_seq; /* ids grow with seqs: bisect for the answer in [low, high] */
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2, at;
        int r = find_id(w, conversation, middle, &at, err);
        if (r < 0)
            return r;
        if (r == STORE_DONE)
            return err_set(err, ERR_INTERNAL, "conversation %lld lacks seq %lld",
                           (long long)conversation, (long long)middle);
        if (at <= id)
            low = middle;
        else
            high = middle - 1;
    }
    *ret = low;
    return 0;
}

/* ---- reading ---- */

/* Rows of a query, until it ends, fn stops or an error. *left counts down. */
static int read_rows(struct query *q, int64_t *left, log_fn *fn, void *ctx, struct err *err)
{
    int r;
    struct event e;
    bool go_on = true;
    while (go_on && (r = query_step(q, err)) == STORE_ROW) {
        r = event_from_row(q, &e, err);
        if (r < 0)
            break;
        go_on = fn(ctx, &e);
        *left = go_on ? *left - 1 : 0;
    }
    query_end(q);
    return r < 0 ? r : 0;
}

static int read_entries(struct work *w, int32_t i, int64_t left, log_fn *fn, void *ctx,
                        struct err *err)
{
    for (; i != NONE && left > 0; i = w->log_index->entries[i].next, left--) {
        struct query *q;
        struct event e;
        int r = read_by_id(w, w->log_index->entries[i].id, &q, &e, err);
        if (r < 0)
            return r;
        bool go_on = fn(ctx, &e);
        query_end(q);
        if (!go_on)
            break;
    }
    return 0;
}

int log_read(struct work *w, int64_t conversation, int64_t after_seq, int64_t limit, log_fn *fn,
             void *ctx, struct err *err)
{
    int64_t left = limit;
    int32_t i = tail_from(w->log_index, conversation, after_seq + 1);
    if (i == NONE || w->log_index->entries[i].seq > after_seq + 1) {
        struct query *q = store_query(w->store, SQL_EVENT_LIST);
        query_int(q, 1, conversation);
        query_int(q, 2, after_seq);
        query_int(q, 3, limit);
        int r = read_rows(q, &left, fn, ctx, err);
        if (r < 0)
            return r;
    }
    return read_entries(w, i, left, fn, ctx, err);
}

int log_read_tail(struct work *w, int64_t conversation, int64_t after_seq, log_fn *fn, void *ctx,
                  struct err *err)
{
    int32_t i = tail_from(w->log_index, conversation, after_seq + 1);
    return read_entries(w, i, INT64_MAX, fn, ctx, err);
}

int log_read_all(struct work *w, int64_t after_id, int64_t limit, log_fn *fn, void *ctx,
                 struct err *err)
{
    struct query *q = store_query(w->store, SQL_EVENT_LIST_ALL);
    int64_t left = limit;
    query_int(q, 1, after_id);
    query_int(q, 2, limit);
    return read_rows(q, &left, fn, ctx, err);
}
