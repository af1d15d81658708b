/*
 * sqlite_store.h: what the files of the SQLite backend share. Nobody else includes it.
 *
 *     store_sqlite.c   transactions, savepoints, queries, checkpoints
 *     sqlite_open.c    opening: lock, identity, settings, migrations
 *     sqlite_error.c   what a failed SQLite call means, and when it ends the process
 *     sqlite_backup.c  online backup
 */
#pragma once

#include <sqlite3.h>

#include "base/macro.h"
#include "store/store.h"

/* Checkpoints start when the WAL has this many pages. Measured with 64 appends per commit over 100
 * conversations, two busy cores: at 1000 pages almost twice as much time goes into checkpoints as
 * at 2000, at 250 about four times, because hot pages are written back more often; one takes 6 to
 * 12 ms on average at 1000 and 2000 alike, and in the worst case some tens. A larger WAL gains less
 * and was slower until it is reused. */
enum { CHECKPOINT_PAGES = 2000 };

/* Statements about transactions; prepared at open, so that ending one never needs memory. */
// clang-format off
#define CONTROL_LIST(X)                                                                            \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(ROLLBACK, "ROLLBACK")                                                                        \
    X(SAVEPOINT, "SAVEPOINT request")                                                              \
    X(RELEASE, "RELEASE request")                                                                  \
    X(ROLLBACK_TO, "ROLLBACK TO request")
// clang-format on

enum control {
#define X(name, text) CONTROL_##name,
    CONTROL_LIST(X)
#undef X
        CONTROL_COUNT
};

enum transaction {
    TRANSACTION_NONE,
    TRANSACTION_OPEN,
    TRANSACTION_LOST, /* SQLite rolled it back by itself; the caller has not ended it yet */
};

enum savepoint {
    SAVEPOINT_NONE,
    SAVEPOINT_ASKED, /* nothing written since store_savepoint() */
    SAVEPOINT_REAL,
    SAVEPOINT_WAIVED, /* one write may follow without it */
    SAVEPOINT_SPENT,  /* and has: nothing of this request can be undone any more */
};

enum query_state { QUERY_IDLE, QUERY_READY, QUERY_STEPPED };

struct query {
    struct store *store;
    sqlite3_stmt *stmt; /* NULL until first used */
    const struct statement_row *row;
    enum query_state state;
    int bind_rc; /* first failure of prepare or bind since store_query() */
};

struct store {
    sqlite3 *db;
    char *path;
    char *vfs; /* NULL in production */
    enum transaction transaction;
    enum savepoint savepoint;
    bool wrote; /* in this transaction */
    bool writable;
    int64_t checkpoint_due_pages; /* size of the WAL at which the next checkpoint is tried */
    sqlite3_stmt *control[CONTROL_COUNT];
    struct query queries[STATEMENT_COUNT];
    struct store_stats stats;
};

enum sqlite_doing { DOING_OPEN, DOING_READ, DOING_WRITE };

/* The negative code for a failed call, with SQLite's message in err. Does not return if it means
 * that going on could lose acknowledged data. */
int sqlite_fail(struct store *s, int rc, enum sqlite_doing doing, struct err *err);

/* Runs an SQL script whose rows nobody wants; an SQLite result code. */
int sqlite_exec(sqlite3 *db, const char *sql);

/* Writes back what the WAL holds, as far as it goes; an SQLite result code. */
int sqlite_checkpoint(struct store *s);

/* An empty file of mode 0600 that was not there before, as a descriptor; or -errno. */
int sqlite_create_private(const char *path);
