/*
 * test_power_loss.c: what was acknowledged is there after power cuts, life after life (W2).
 *
 * One workload over store.h on a disk of fault_vfs.h. Ticks append rows to three conversations,
 * some requests are rolled back, and a row counts as acknowledged only after store_commit(). The
 * payload of a row follows from its conversation and seq, so an audit knows every byte it should
 * find. Checkpoints come far more often than in production. A store is cut, opened, and cut again:
 * in recovery, too. What a whole core does is cut up in test_power_cuts.c, and errors of the disk
 * are test_io_faults.c's.
 *
 *     REEVE_LIVES  lives, each ended by a cut (default 1500)
 *     REEVE_SEED   the first seed (default 1); a failure names its own
 */
#include "tap.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "lib/fault_vfs.h"
#include "store/sqlite_store.h"

enum { CONVERSATIONS = 3, PAYLOAD_MAX = 9000, TICKS = 16, LIVES = 3 };

struct world {
    struct fault_vfs *disk;
    struct store *store;
    uint64_t seed, random;
    int64_t last_id;
    int64_t staged[CONVERSATIONS + 1]; /* last seq written in this tick */
    int64_t acked[CONVERSATIONS + 1];  /* last seq whose commit returned 0 */
    bool expect_loss;                  /* the control run */
    bool lost_acked;
};

static uint64_t below(struct world *w, uint64_t n)
{
    return fault_random(&w->random) % n;
}

static struct str payload_of(int64_t conversation, int64_t seq, char out[PAYLOAD_MAX])
{
    uint64_t state = (uint64_t)(conversation * 1000003 + seq);
    size_t n = fault_random(&state) % 8 ? 20 + fault_random(&state) % 400
                                        : fault_random(&state) % PAYLOAD_MAX;
    uint64_t letters = 0;
    for (size_t i = 0; i < n; i++, letters >>= 8) {
        letters = i % 8 ? letters : fault_random(&state);
        out[i] = (char)('A' + letters % 32);
    }
    return (struct str){out, n};
}

static struct str request_of(int64_t conversation, int64_t seq, char out[32])
{
    int n = snprintf(out, 32, "r-%lld-%lld", (long long)conversation, (long long)seq);
    return (struct str){out, (size_t)n};
}

/* The workload. */

static int append(struct world *w, int64_t conversation, int64_t seq, struct err *err)
{
    char payload[PAYLOAD_MAX], request[32];
    struct query *q = store_query(w->store, SQL_EVENT_INSERT);
    query_int(q, 1, ++w->last_id);
    query_int(q, 2, conversation);
    query_int(q, 3, seq);
    query_int(q, 4, 1);
    query_int(q, 5, seq);
    query_int(q, 6, 1000 + seq);
    query_text(q, 7, STR("message"));
    query_text(q, 8, STR("none"));
    query_text(q, 9, STR("builder"));
    query_text(q, 10, payload_of(conversation, seq, payload));
    query_text(q, 11, request_of(conversation, seq, request));
    query_blob(q, 12, "hash", 4);
    return query_run(q, NULL, err);
}

/* One to three rows of one conversation; one in four changes its mind. */
static void run_request(struct world *w, struct err *err)
{
    int64_t conversation = 1 + (int64_t)below(w, CONVERSATIONS);
    int64_t rows = 1 + (int64_t)below(w, 3), seq = w->staged[conversation];
    bool refuse = below(w, 4) == 0;
    if (store_savepoint(w->store, err) < 0)
        return;
    for (int64_t i = 1; i <= rows; i++)
        if (append(w, conversation, seq + i, err) < 0)
            refuse = true;
    if (refuse)
        store_rollback_savepoint(w->store);
    else if (store_release(w->store, err) == 0)
        w->staged[conversation] = seq + rows;
}

static int last_id(struct store *s, int64_t *ret, struct err *err)
{
    struct query *q = store_query(s, SQL_EVENT_LAST);
    int r = query_one(q, err);
    if (r == STORE_ROW)
        *ret = query_get_int(q, 0);
    query_end(q);
    return r < 0 ? r : 0;
}

/* Moves the tail of the log into its indexes, as domain/log_index.c does. */
static int move_tail(struct world *w, struct err *err)
{
    static const enum statement steps[] = {SQL_LOG_INDEX_EVENTS, SQL_LOG_INDEX_REQUESTS,
                                           SQL_LOG_INDEX_CURSOR};
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(steps); i++) {
        struct query *q = store_query(w->store, steps[i]);
        query_int(q, 1, w->last_id);
        r = query_run(q, NULL, err);
    }
    return r;
}

/* 0 if its rows are acknowledged. */
static int run_tick(struct world *w, struct err *err)
{
    memcpy(w->staged, w->acked, sizeof w->staged);
    int r = store_begin(w->store, err);
    if (r < 0)
        return r;
    r = last_id(w->store, &w->last_id, err); /* so a failed tick leaves no trace in memory */
    for (uint64_t n = 1 + below(w, 6); r == 0 && n > 0; n--)
        run_request(w, err);
    if (r == 0 && below(w, 5) == 0) {
        r = last_id(w->store, &w->last_id, err); /* of what was not refused */
        if (r == 0)
            r = move_tail(w, err);
    }
    if (r < 0) {
        store_rollback(w->store);
        return r;
    }
    r = store_commit(w->store, err);
    CHECK(!store_in_transaction(w->store));
    if (r == 0)
        memcpy(w->acked, w->staged, sizeof w->acked);
    w->store->checkpoint_due_pages = 1 + (int64_t)below(w, 40);
    store_maintain(w->store);
    return r;
}

/* Half of the worlds have hardly any cache, so that pages are read, and written before the commit,
 * in the middle of transactions. */
static int open_store(struct world *w, struct err *err)
{
    int r = store_open("sqlite:log.db", "disk", 1, &w->store, err);
    if (r == 0 && w->seed % 2)
        sqlite_exec(w->store->db, "PRAGMA cache_size = 8");
    return r;
}

/* The audit. */

static void check_integrity(struct world *w)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(w->store->db, "PRAGMA integrity_check", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    const char *answer = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : "none";
    if (strcmp(answer, "ok") != 0)
        tap_fail(__FILE__, __LINE__, "seed %llu: integrity: %s", (unsigned long long)w->seed,
                 answer);
    sqlite3_finalize(stmt);
}

enum { COLUMN_CONVERSATION = 1, COLUMN_SEQ = 2, COLUMN_PAYLOAD = 9 };

static void audit_row(struct query *q, int64_t conversation, int64_t seq)
{
    char payload[PAYLOAD_MAX];
    CHECK_INT(query_get_int(q, COLUMN_CONVERSATION), conversation);
    CHECK_INT(query_get_int(q, COLUMN_SEQ), seq);
    CHECK(str_eq(query_get_text(q, COLUMN_PAYLOAD), payload_of(conversation, seq, payload)));
}

/* Gapless from 1 and right in every byte, first by the index, then by the tail of the log that is
 * not yet in it; returns the last seq. */
static int64_t audit_conversation(struct world *w, int64_t conversation)
{
    int64_t seq = 0;
    struct query *q = store_query(w->store, SQL_EVENT_LIST);
    query_int(q, 1, conversation);
    query_int(q, 2, 0);
    query_int(q, 3, INT64_MAX);
    while (query_step(q, NULL) == STORE_ROW)
        audit_row(q, conversation, ++seq);
    struct query *tail = store_query(w->store, SQL_LOG_TAIL);
    while (query_step(tail, NULL) == STORE_ROW) {
        if (query_get_int(tail, COLUMN_CONVERSATION) != conversation)
            continue;
        q = store_query(w->store, SQL_EVENT_BY_ID);
        query_int(q, 1, query_get_int(tail, 0));
        CHECK_INT(query_one(q, NULL), STORE_ROW);
        audit_row(q, conversation, ++seq);
        query_end(q);
    }
    return seq;
}

static void audit(struct world *w)
{
    check_integrity(w);
    for (int64_t c = 1; c <= CONVERSATIONS; c++) {
        int64_t seq = audit_conversation(w, c);
        if (seq < w->acked[c] && !w->expect_loss)
            tap_fail(__FILE__, __LINE__, "seed %llu: conversation %lld: %lld of %lld acknowledged",
                     (unsigned long long)w->seed, (long long)c, (long long)seq,
                     (long long)w->acked[c]);
        w->lost_acked |= seq < w->acked[c];
        w->acked[c] = seq; /* a commit without an answer may have happened */
    }
}

static void world_init(struct world *w, uint64_t seed)
{
    log_set_level(LOG_ERROR + 1);
    *w = (struct world){.seed = seed, .random = seed};
    w->disk = fault_vfs_new("disk", seed ^ 0x5EED);
    /* Salts of the WAL come from here: a seed is one history. */
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)seed, NULL);
}

static void world_release(struct world *w)
{
    w->store = store_close(w->store);
    w->disk = fault_vfs_free(w->disk);
}

static void lose_power(struct world *w)
{
    fault_vfs_power_off(w->disk);
    w->store = store_close(w->store);
    fault_vfs_power_on(w->disk);
}

static uint64_t number_from(const char *variable, uint64_t fallback)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : fallback;
}

/* W2: power cuts. */

/* Works until the power goes or TICKS are done, and is then cut off in any case. */
static void live_and_die(struct world *w)
{
    struct err err = ERR_INIT;
    fault_vfs_plan(w->disk, FAULT_CUT, 1 + below(w, 500), false);
    if (open_store(w, &err) == 0)
        for (int i = 0; i < TICKS && !fault_vfs_has_struck(w->disk); i++)
            run_tick(w, &err);
    if (below(w, 4) == 0)
        w->store = store_close(w->store); /* the power may also go while closing, or after */
    lose_power(w);
    fault_vfs_plan(w->disk, FAULT_CUT, 0, false);
}

/* Several lives of one store, audited after each; true if acknowledged rows were lost. */
static bool cut_history(uint64_t seed, bool skip_commit_syncs)
{
    struct world w;
    world_init(&w, seed);
    fault_vfs_skip_commit_syncs(w.disk, skip_commit_syncs);
    w.expect_loss = skip_commit_syncs;
    for (int life = 0; life < LIVES && !w.lost_acked; life++) {
        struct err err = ERR_INIT;
        live_and_die(&w);
        if (open_store(&w, &err) < 0)
            tap_fail(__FILE__, __LINE__, "seed %llu: %s", (unsigned long long)seed, err.message);
        audit(&w);
        w.store = store_close(w.store);
    }
    bool lost = w.lost_acked;
    world_release(&w);
    return lost;
}

TEST(W2_acknowledged_rows_survive_power_loss)
{
    uint64_t first = number_from("REEVE_SEED", 1), cuts = number_from("REEVE_LIVES", 1500);
    for (uint64_t seed = first; seed < first + (cuts + LIVES - 1) / LIVES; seed++)
        cut_history(seed, false);
    printf("# proof weapon=power-lives cuts=%llu failures=0\n", (unsigned long long)cuts);
}

/* The same test must see what synchronous=NORMAL loses, or it sees nothing. */
TEST(W2_control_commits_without_sync_are_caught)
{
    int caught = 0;
    for (uint64_t seed = 1; seed <= 50; seed++)
        caught += cut_history(seed, true);
    CHECK(caught > 10);
}
