/*
 * store.h: the database, behind an interface of ours.
 *
 * Two backends are planned for one schema and one set of statements: SQLite, embedded, and
 * PostgreSQL. Statements are written once (statements.h), with ?1 placeholders. This header knows
 * nothing of conversations; schema.h and statements.h do, in SQL.
 *
 * Calling sequence, all in one thread (the core):
 *
 *     store_begin(s)                     one transaction per tick, opened by the first need of one
 *       store_savepoint(s)               one per request; cheap, becomes real at the first write
 *         q = store_query(s, SQL_X); query_int(q, 1, …); while (query_step(q) == STORE_ROW) …
 *       store_release(s) | store_rollback_savepoint(s)
 *     store_commit(s)                    durable when it returns 0
 *     store_maintain(s)                  after replies are out: one small step of checkpoint
 *
 * Errors. A statement that fails for want of disk space makes its request fail with
 * ERR_UNAVAILABLE. If store_commit() fails, the transaction is gone (rolled back): answer all of it
 * UNAVAILABLE and drop caches. A backend may have to give up a whole transaction earlier, within a
 * statement (I/O error, full disk): from then on every statement, store_savepoint(),
 * store_release() and store_begin() answer UNAVAILABLE, until store_commit(), which fails too, or
 * store_rollback() ends it. So a tick cannot miss it, and nothing of it is ever half committed.
 *
 * A read that fails is ERR_IO. A broken constraint is a bug of the caller's: ERR_INTERNAL.
 *
 * A failed fsync is different: the kernel may have marked the lost pages clean, so trying again
 * would lie (L80); the backend ends the process with status 70 and recovery is the ordinary start.
 * So does a damaged file.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/macro.h"
#include "base/str.h"
#include "store/statements.h"

struct store;
struct query;

enum { STORE_DONE = 0, STORE_ROW = 1 };

struct store_stats {
    uint64_t commits, statements;
    uint64_t rows; /* inserted, updated, deleted; rolled back ones too */
    uint64_t checkpoints, checkpoint_pages;
    int64_t commit_us_last, commit_us_total, checkpoint_us_last, checkpoint_us_max;
    int64_t wal_pages; /* committed, but not yet in the database file */
};

/* Called with the backend's own error number when the process is about to end, after the log line.
 * For tests, which look at what is left; the process ends when it returns. NULL: nothing. */
typedef void store_fatal_fn(int backend_error);
void store_set_fatal_hook(store_fatal_fn *hook);
/* What the caller must know of the store cannot be read: the process ends as above. */
_noreturn_ void store_give_up(struct store *s, const char *why);

/*
 * url: "sqlite:PATH". Creates the file and migrates the schema. ERR_LOCKED if another server has
 * it, ERR_CONFIG if the schema is newer than this program or the file cannot be made.
 * `vfs` names a registered SQLite VFS for tests (power loss, I/O errors); NULL in production.
 */
int store_open(const char *url, const char *vfs, int64_t now_ms, struct store **ret,
               struct err *err);
struct store *store_close(struct store *s); /* NULL; a transaction still open is rolled back */

int store_begin(struct store *s, struct err *err);
int store_commit(struct store *s, struct err *err);
void store_rollback(struct store *s);
/* From store_begin() to store_commit() or store_rollback(), whatever happens in between. */
bool store_in_transaction(const struct store *s);

int store_savepoint(struct store *s, struct err *err);
/* The next write is the only one of this request, and nothing after it can fail: it needs no
 * savepoint, since a statement that fails undoes itself. No-op if the request has written. */
void store_waive_savepoint(struct store *s);
int store_release(struct store *s, struct err *err);
void store_rollback_savepoint(struct store *s);

/* Borrowed, reset and with all parameters NULL; valid until the next store_query() of the same
 * statement or the end of the transaction. Never fails: what is wrong comes out of query_step(). */
struct query *store_query(struct store *s, enum statement statement);
void query_int(struct query *q, int param, int64_t value);
void query_text(struct query *q, int param, struct str value); /* p == NULL binds NULL */
void query_blob(struct query *q, int param, const void *data, size_t n);
/* Bound text and blobs must stay until the query is stepped to its end or reset.
 * STORE_ROW, STORE_DONE, or a negative code. */
int query_step(struct query *q, struct err *err);
/* Steps once and ends: for INSERT, UPDATE, DELETE. ret_changes may be NULL. */
int query_run(struct query *q, int64_t *ret_changes, struct err *err);
/* Steps once; STORE_ROW leaves the row readable until query_end(). */
int query_one(struct query *q, struct err *err);
void query_end(struct query *q); /* ends reading early; done by itself at STORE_DONE */

int64_t query_get_int(struct query *q, int column);
struct str query_get_text(struct query *q, int column); /* p == NULL if NULL; until next step */
struct str query_get_blob(struct query *q, int column);
bool query_is_null(struct query *q, int column);

/* False from a commit or write that failed for want of space, or by an I/O error, until a commit
 * with writes succeeds; for /readyz. */
bool store_is_writable(const struct store *s);
void store_maintain(struct store *s);
const struct store_stats *store_stats(const struct store *s);

/* Online backup to a new file (mode 0600), a few pages per call so that ticks go on in between:
 * store_backup_begin() once, then store_backup_step() until it returns STORE_DONE (complete and on
 * disk) or an error; STORE_ROW means there is more. Steps are made outside transactions. The copy
 * holds every commit made before its last step and opens as a store. Free it before the store. */
struct store_backup;
int store_backup_begin(struct store *s, const char *path, struct store_backup **ret,
                       struct err *err);
int store_backup_step(struct store_backup *b, int pages, struct err *err);
struct store_backup *store_backup_free(struct store_backup *b); /* unfinished: removes the file */

/* EXPLAIN QUERY PLAN of a statement, a line per step: for tests that forbid table scans. */
int store_explain(struct store *s, enum statement statement, struct buf *ret, struct err *err);
