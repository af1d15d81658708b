/*
 * store_sqlite.c: the embedded store.
 *
 * One connection, in one thread, with the database file locked for as long as it is open. Because
 * the lock is exclusive, SQLite keeps the index of the WAL in the heap: no shared-memory file, no
 * lock calls per transaction, and the faults that need two connections cannot happen.
 *
 * A transaction is in one of three states:
 *
 *     NONE ──store_begin──▶ OPEN ──store_commit, store_rollback──▶ NONE
 *                            │                                      ▲
 *                  SQLite rolled back by itself                     │
 *                            ▼                                      │
 *                           LOST ──store_commit (fails), store_rollback
 *
 * SQLite may answer a full disk or an I/O error in the middle of a statement by rolling back
 * everything. From there on it would commit each further statement by itself, and a tick that went
 * on would acknowledge requests whose writes are gone. So LOST lasts until the caller ends the
 * transaction: until then every statement and store_release() answer UNAVAILABLE.
 *
 * A savepoint exists in SQLite only once its request writes: reading requests pay nothing. It costs
 * a copy of each page the request changes first.
 *
 * Rows do not outlive the transaction: ending it ends every query, so that a forgotten query_end()
 * can never hold the WAL back.
 *
 * Durability. COMMIT appends the changed pages to the WAL and syncs it: one fsync. The database
 * file itself changes in checkpoints only, which sync the WAL, copy its pages, and sync the file;
 * the next commit then overwrites the WAL from its start. A crash at any point of that leaves a WAL
 * that still holds all that is not safely in the file, and opening replays it. Checkpoints run in
 * store_maintain(), not inside COMMIT as SQLite would by default, so that they delay no reply.
 * SQLite cannot stop a checkpoint half way; what bounds one is the size of the WAL it starts at.
 */
#include "store/sqlite_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/planted.h"

static int control_run(struct store *s, enum control control)
{
    sqlite3_step(s->control[control]);
    return sqlite3_reset(s->control[control]);
}

static void set_writable(struct store *s, bool writable)
{
    if (s->writable != writable)
        log_warn("store", writable ? "writable" : "not_writable", "path=%s",
                 log_quote(str_of(s->path)));
    s->writable = writable;
}

static void end_queries(struct store *s)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        query_end(&s->queries[i]);
}

static int lost(struct err *err)
{
    return err_set(err, ERR_UNAVAILABLE, "the store gave up the transaction after an I/O error");
}

/* A failure while reading or writing: notices if it has cost the whole transaction. */
static int fail(struct store *s, int rc, enum sqlite_doing doing, struct err *err)
{
    int code = sqlite_fail(s, rc, doing, err);
    if (doing == DOING_WRITE && code == -ERR_UNAVAILABLE)
        set_writable(s, false);
    if (s->transaction == TRANSACTION_OPEN && sqlite3_get_autocommit(s->db) &&
        !planted(LOST_TRANSACTION_GOES_ON)) {
        s->transaction = TRANSACTION_LOST;
        end_queries(s); /* SQLite leaves its error state when nothing holds a page any more */
    }
    return code;
}

struct store *store_close(struct store *s)
{
    if (!s)
        return NULL;
    if (s->transaction != TRANSACTION_NONE)
        store_rollback(s);
    end_queries(s);
    if (s->stats.wal_pages > 0)
        sqlite_checkpoint(s); /* sqlite3_close() would do it too, and not tell of a failed fsync */
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(s->queries[i].stmt);
    for (size_t i = 0; i < CONTROL_COUNT; i++)
        sqlite3_finalize(s->control[i]);
    int rc = sqlite3_close(s->db);
    REQUIRE_F(rc == SQLITE_OK, "closing %s: %s", s->path, sqlite3_errstr(rc));
    free(s->path);
    free(s->vfs);
    free(s);
    return NULL;
}

int store_begin(struct store *s, struct err *err)
{
    REQUIRE(s->transaction != TRANSACTION_OPEN);
    if (s->transaction == TRANSACTION_LOST)
        return lost(err);
    int rc = control_run(s, CONTROL_BEGIN);
    if (rc != SQLITE_OK)
        return fail(s, rc, DOING_WRITE, err);
    s->transaction = TRANSACTION_OPEN;
    s->wrote = false;
    return 0;
}

static void transaction_ended(struct store *s)
{
    s->transaction = TRANSACTION_NONE;
    s->savepoint = SAVEPOINT_NONE;
}

static int commit(struct store *s, struct err *err)
{
    int64_t start_us = clock_mono_us();
    int rc = control_run(s, CONTROL_COMMIT);
    s->stats.commit_us_last = clock_mono_us() - start_us;
    s->stats.commit_us_total += s->stats.commit_us_last;
    if (rc != SQLITE_OK)
        return fail(s, rc, DOING_WRITE, err);
    s->stats.commits++;
    if (s->wrote)
        set_writable(s, true);
    return 0;
}

int store_commit(struct store *s, struct err *err)
{
    REQUIRE(s->transaction != TRANSACTION_NONE);
    REQUIRE(s->savepoint == SAVEPOINT_NONE);
    end_queries(s);
    int r = s->transaction == TRANSACTION_LOST ? lost(err) : commit(s, err);
    if (r < 0)
        store_rollback(s);
    transaction_ended(s);
    return r;
}

void store_rollback(struct store *s)
{
    end_queries(s);
    if (!sqlite3_get_autocommit(s->db))
        control_run(s, CONTROL_ROLLBACK);
    REQUIRE(sqlite3_get_autocommit(s->db));
    transaction_ended(s);
}

bool store_in_transaction(const struct store *s)
{
    return s->transaction != TRANSACTION_NONE;
}

int store_savepoint(struct store *s, struct err *err)
{
    REQUIRE(s->transaction != TRANSACTION_NONE);
    REQUIRE(s->savepoint == SAVEPOINT_NONE);
    if (s->transaction == TRANSACTION_LOST)
        return lost(err);
    s->savepoint = SAVEPOINT_ASKED;
    return 0;
}

void store_waive_savepoint(struct store *s)
{
    if (s->savepoint == SAVEPOINT_ASKED)
        s->savepoint = SAVEPOINT_WAIVED;
}

/* A request's writes can neither be kept nor taken out alone: nothing of the transaction may stay.
 */
static int give_up_transaction(struct store *s, int rc, struct err *err)
{
    end_queries(s);
    control_run(s, CONTROL_ROLLBACK);
    return fail(s, rc, DOING_WRITE, err);
}

int store_release(struct store *s, struct err *err)
{
    REQUIRE(s->savepoint != SAVEPOINT_NONE);
    bool real = s->savepoint == SAVEPOINT_REAL;
    s->savepoint = SAVEPOINT_NONE;
    if (s->transaction == TRANSACTION_LOST)
        return lost(err);
    int rc = real ? control_run(s, CONTROL_RELEASE) : SQLITE_OK;
    return rc == SQLITE_OK ? 0 : give_up_transaction(s, rc, err);
}

void store_rollback_savepoint(struct store *s)
{
    REQUIRE(s->savepoint != SAVEPOINT_NONE && s->savepoint != SAVEPOINT_SPENT);
    bool real = s->savepoint == SAVEPOINT_REAL;
    s->savepoint = SAVEPOINT_NONE;
    if (!real || s->transaction == TRANSACTION_LOST)
        return;
    int rc = control_run(s, CONTROL_ROLLBACK_TO);
    if (rc == SQLITE_OK)
        rc = control_run(s, CONTROL_RELEASE);
    if (rc != SQLITE_OK)
        give_up_transaction(s, rc, NULL);
}

struct query *store_query(struct store *s, enum statement statement)
{
    struct query *q = &s->queries[statement];
    query_end(q);
    q->bind_rc = SQLITE_OK;
    if (q->stmt)
        sqlite3_clear_bindings(q->stmt);
    else
        q->bind_rc =
            sqlite3_prepare_v3(s->db, q->row->text, -1, SQLITE_PREPARE_PERSISTENT, &q->stmt, NULL);
    q->state = QUERY_READY;
    return q;
}

static void bound(struct query *q, int param, int rc)
{
    REQUIRE_F(rc != SQLITE_RANGE && rc != SQLITE_MISUSE, "%s ?%d", q->row->name, param);
    if (q->bind_rc == SQLITE_OK)
        q->bind_rc = rc;
}

void query_int(struct query *q, int param, int64_t value)
{
    if (q->stmt)
        bound(q, param, sqlite3_bind_int64(q->stmt, param, value));
}

void query_text(struct query *q, int param, struct str value)
{
    if (q->stmt)
        bound(q, param,
              sqlite3_bind_text64(q->stmt, param, value.p, value.n, SQLITE_STATIC, SQLITE_UTF8));
}

void query_blob(struct query *q, int param, const void *data, size_t n)
{
    if (q->stmt)
        bound(q, param, sqlite3_bind_blob64(q->stmt, param, data, n, SQLITE_STATIC));
}

/* A write needs an open transaction, and the savepoint of its request to be real. */
static int before_write(struct store *s)
{
    REQUIRE(s->transaction == TRANSACTION_OPEN);
    if (s->savepoint == SAVEPOINT_ASKED) {
        int rc = control_run(s, CONTROL_SAVEPOINT);
        if (rc != SQLITE_OK)
            return rc;
        s->savepoint = SAVEPOINT_REAL;
    }
    REQUIRE(s->savepoint != SAVEPOINT_SPENT);
    s->wrote = true;
    return SQLITE_OK;
}

static int begin_steps(struct query *q, bool write)
{
    q->store->stats.statements++;
    int rc = q->bind_rc;
    if (rc == SQLITE_OK && write)
        rc = before_write(q->store);
    q->state = QUERY_STEPPED;
    return rc;
}

int query_step(struct query *q, struct err *err)
{
    struct store *s = q->store;
    bool write = q->row->kind == STATEMENT_WRITE;
    if (s->transaction == TRANSACTION_LOST)
        return lost(err);
    REQUIRE_F(q->state != QUERY_IDLE, "%s has ended", q->row->name);
    int rc = q->state == QUERY_READY ? begin_steps(q, write) : SQLITE_OK;
    if (rc == SQLITE_OK)
        rc = sqlite3_step(q->stmt);
    if (rc == SQLITE_ROW)
        return STORE_ROW;
    if (rc == SQLITE_DONE && write) {
        s->stats.rows += (uint64_t)sqlite3_changes64(s->db);
        if (s->savepoint == SAVEPOINT_WAIVED)
            s->savepoint = SAVEPOINT_SPENT;
    }
    int r = rc == SQLITE_DONE ? STORE_DONE : fail(s, rc, write ? DOING_WRITE : DOING_READ, err);
    query_end(q);
    return r;
}

int query_run(struct query *q, int64_t *ret_changes, struct err *err)
{
    int r = query_step(q, err);
    query_end(q);
    if (r < 0)
        return r;
    if (ret_changes)
        *ret_changes = sqlite3_changes64(q->store->db);
    return 0;
}

int query_one(struct query *q, struct err *err)
{
    return query_step(q, err);
}

void query_end(struct query *q)
{
    if (q->state == QUERY_STEPPED)
        sqlite3_reset(q->stmt);
    q->state = QUERY_IDLE;
}

int64_t query_get_int(struct query *q, int column)
{
    return sqlite3_column_int64(q->stmt, column);
}

struct str query_get_text(struct query *q, int column)
{
    const char *p = (const char *)sqlite3_column_text(q->stmt, column);
    return (struct str){p, (size_t)sqlite3_column_bytes(q->stmt, column)};
}

struct str query_get_blob(struct query *q, int column)
{
    if (query_is_null(q, column))
        return STR_NONE;
    const char *p = sqlite3_column_blob(q->stmt, column); /* NULL if empty */
    return (struct str){p ? p : "", (size_t)sqlite3_column_bytes(q->stmt, column)};
}

bool query_is_null(struct query *q, int column)
{
    return sqlite3_column_type(q->stmt, column) == SQLITE_NULL;
}

bool store_is_writable(const struct store *s)
{
    return s->writable;
}

const struct store_stats *store_stats(const struct store *s)
{
    return &s->stats;
}

int sqlite_checkpoint(struct store *s)
{
    int in_wal = 0, written = 0;
    int64_t start_us = clock_mono_us();
    int rc = sqlite3_wal_checkpoint_v2(s->db, "main", SQLITE_CHECKPOINT_PASSIVE, &in_wal, &written);
    int64_t took_us = clock_mono_us() - start_us;
    s->stats.checkpoint_us_last = took_us;
    s->stats.checkpoint_us_max = MAX(s->stats.checkpoint_us_max, took_us);
    if (rc != SQLITE_OK) {
        sqlite_fail(s, rc, DOING_WRITE, NULL); /* returns unless it was an fsync */
        return rc;
    }
    s->stats.checkpoints++;
    s->stats.checkpoint_pages += (uint64_t)written;
    s->stats.wal_pages = in_wal - written;
    return SQLITE_OK;
}

/* A checkpoint that failed is tried again when the WAL has grown as much again; or at once while
 * there is no room, because the WAL it would give back may be the room that is wanted. */
void store_maintain(struct store *s)
{
    REQUIRE(s->transaction == TRANSACTION_NONE);
    int64_t pages = s->stats.wal_pages;
    if (pages < s->checkpoint_due_pages && (s->writable || pages == 0))
        return;
    if (planted(NO_CHECKPOINT))
        return;
    end_queries(s);
    int rc = sqlite_checkpoint(s);
    s->checkpoint_due_pages = CHECKPOINT_PAGES + (rc == SQLITE_OK ? 0 : pages);
    if (rc != SQLITE_OK)
        log_warn("store", "checkpoint_failed", "path=%s wal_pages=%lld error=%s",
                 log_quote(str_of(s->path)), (long long)pages,
                 log_quote(str_of(sqlite3_errstr(rc))));
}

int store_explain(struct store *s, enum statement statement, struct buf *ret, struct err *err)
{
    enum { DETAIL_COLUMN = 3 };
    _cleanup_free_ char *sql = mem_printf("EXPLAIN QUERY PLAN %s", statement_rows[statement].text);
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        buf_addz(ret, (const char *)sqlite3_column_text(stmt, DETAIL_COLUMN));
        buf_addc(ret, '\n');
        rc = SQLITE_OK;
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? 0 : fail(s, rc, DOING_READ, err);
}
