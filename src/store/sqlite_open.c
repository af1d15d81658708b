/*
 * sqlite_open.c: from a path to a store that is locked, known to be ours, and up to date.
 *
 * The order matters. The lock comes first, and reading comes before anything that writes, so that a
 * file of another program, a newer store or one in use is refused untouched. A store is known by
 * its application id, which the first migration sets; a file without one is taken only if it is
 * empty, which is also what a crash before the end of that migration leaves.
 *
 * Two servers that open an idle store in the same instant may both be refused; never both let in.
 *
 * POSIX record locks belong to the process and go when it closes *any* descriptor of the file. So
 * the path is opened here by O_EXCL only, which never yields a descriptor of an existing file.
 */
#include "store/sqlite_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/planted.h"
#include "store/schema.h"

enum { APPLICATION_ID = 0x72656576 }; /* "reev" */

/* Before the first read: the lock must be exclusive from the start, or SQLite would put the index
 * of the WAL into a shared-memory file. */
static const char settings_first[] = "PRAGMA locking_mode = EXCLUSIVE;"
                                     "PRAGMA page_size = 4096;"
                                     "PRAGMA auto_vacuum = NONE;";

/* temp_store also keeps the undo of savepoints in memory. secure_delete, which Debian turns on,
 * would zero what is deleted. journal_size_limit gives back what one huge transaction took. */
static const char settings[] = "PRAGMA synchronous = FULL;"
                               "PRAGMA wal_autocheckpoint = 0;"
                               "PRAGMA journal_size_limit = 16777216;"
                               "PRAGMA cache_size = -4096;"
                               "PRAGMA temp_store = MEMORY;"
                               "PRAGMA foreign_keys = OFF;"
                               "PRAGMA secure_delete = OFF;";

int sqlite_exec(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

int sqlite_create_private(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

/* The first column of the only row. */
static int read_int(struct store *s, const char *sql, int64_t *ret)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int on_wal(void *ctx, sqlite3 *db, const char *name, int pages)
{
    (void)db, (void)name;
    struct store *s = ctx;
    s->stats.wal_pages = pages;
    return SQLITE_OK;
}

static int open_connection(struct store *s, struct err *err)
{
    if (!s->vfs) {
        int fd = sqlite_create_private(s->path);
        if (fd >= 0)
            close(fd);
        else if (fd != -EEXIST)
            return err_set(err, ERR_CONFIG, "cannot create %s: %s", s->path, strerror(-fd));
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (s->vfs ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(s->path, &s->db, flags, s->vfs);
    if (rc != SQLITE_OK)
        return sqlite_fail(s, rc, DOING_OPEN, err);
    if (sqlite3_db_readonly(s->db, "main"))
        return err_set(err, ERR_CONFIG, "%s is not writable", s->path);
    sqlite3_extended_result_codes(s->db, 1);
    return 0;
}

/* The SQL is all ours, the file may not be: nothing in its schema is trusted to run. */
static void harden(struct store *s)
{
    static const struct {
        int option, value;
    } rows[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
        {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_DQS_DDL, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int rc = sqlite3_db_config(s->db, rows[i].option, rows[i].value, NULL);
        REQUIRE_F(rc == SQLITE_OK, "option %d", rows[i].option);
    }
}

/* Locks the file and finds out whose it is; ret_version is 0 for an empty one. */
static int identify(struct store *s, int64_t *ret_version, struct err *err)
{
    int64_t id = 0, tables = 0, version = 0;
    int rc = sqlite_exec(s->db, settings_first);
    if (rc == SQLITE_OK)
        rc = read_int(s, "SELECT COUNT(*) FROM sqlite_schema", &tables);
    if (rc == SQLITE_OK)
        rc = read_int(s, "PRAGMA application_id", &id);
    if (rc == SQLITE_OK && id == APPLICATION_ID)
        rc = read_int(s, "SELECT MAX(version) FROM schema_version", &version);
    if (rc != SQLITE_OK)
        return sqlite_fail(s, rc, DOING_OPEN, err);
    if (id != APPLICATION_ID && (id != 0 || tables > 0))
        return err_set(err, ERR_CONFIG, "%s is a database of another program", s->path);
    if (version > (int64_t)schema_version_latest)
        return err_set(err, ERR_CONFIG,
                       "%s has schema version %lld, this program knows versions up to %zu", s->path,
                       (long long)version, schema_version_latest);
    *ret_version = version;
    return 0;
}

static int set_up(struct store *s, struct err *err)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode = WAL", -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    bool wal = rc == SQLITE_ROW && str_is(str_of((char *)sqlite3_column_text(stmt, 0)), "wal");
    int rc_end = sqlite3_finalize(stmt);
    if (rc_end != SQLITE_OK)
        return sqlite_fail(s, rc_end, DOING_OPEN, err);
    if (!wal)
        return err_set(err, ERR_IO, "%s cannot be given a write-ahead log", s->path);
    rc = sqlite_exec(s->db, settings);
    if (rc == SQLITE_OK && planted(SYNC_NORMAL))
        rc = sqlite_exec(s->db, "PRAGMA synchronous = NORMAL");
    if (rc != SQLITE_OK)
        return sqlite_fail(s, rc, DOING_OPEN, err);
    sqlite3_wal_hook(s->db, on_wal, s);
    return 0;
}

static int apply_migration(struct store *s, int64_t version, int64_t now_ms)
{
    _cleanup_free_ char *birth = mem_printf(
        "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL);"
        "PRAGMA application_id = %d;",
        APPLICATION_ID);
    _cleanup_free_ char *mark = mem_printf("INSERT INTO schema_version VALUES (%lld, %lld);",
                                           (long long)version, (long long)now_ms);
    const char *const scripts[] = {"BEGIN IMMEDIATE", version == 1 ? birth : "",
                                   schema_migrations[version - 1], mark, "COMMIT"};
    int rc = SQLITE_OK;
    for (size_t i = 0; i < ARRAY_LEN(scripts) && rc == SQLITE_OK; i++)
        rc = sqlite_exec(s->db, scripts[i]);
    return rc;
}

static int migrate(struct store *s, int64_t version, int64_t now_ms, struct err *err)
{
    while (version < (int64_t)schema_version_latest) {
        int rc = apply_migration(s, ++version, now_ms);
        if (rc != SQLITE_OK)
            return sqlite_fail(s, rc, DOING_OPEN, err), /* closing rolls back */
                   err_prefix(err, "migration %lld", (long long)version);
        log_info("store", "migrated", "path=%s version=%lld", log_quote(str_of(s->path)),
                 (long long)version);
    }
    return 0;
}

static int prepare_controls(struct store *s, struct err *err)
{
    static const char *const text[] = {
#define X(name, sql) [CONTROL_##name] = sql,
        CONTROL_LIST(X)
#undef X
    };
    for (size_t i = 0; i < CONTROL_COUNT; i++) {
        int rc =
            sqlite3_prepare_v3(s->db, text[i], -1, SQLITE_PREPARE_PERSISTENT, &s->control[i], NULL);
        if (rc != SQLITE_OK)
            return sqlite_fail(s, rc, DOING_OPEN, err);
    }
    return 0;
}

static int open_all(struct store *s, int64_t now_ms, struct err *err)
{
    int r = open_connection(s, err);
    if (r < 0)
        return r;
    harden(s);
    int64_t version = 0;
    if ((r = identify(s, &version, err)) < 0 || (r = set_up(s, err)) < 0 ||
        (r = migrate(s, version, now_ms, err)) < 0)
        return r;
    return prepare_controls(s, err);
}

/* One thread uses SQLite, and nobody asks it how much memory it has. Takes effect before the
 * library's first use only; later calls change nothing. */
static void configure_library(void)
{
    sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

int store_open(const char *url, const char *vfs, int64_t now_ms, struct store **ret,
               struct err *err)
{
    struct str path = str_of(url);
    if (!str_starts(path, STR("sqlite:")) || path.n == sizeof "sqlite:" - 1)
        return err_set(err, ERR_CONFIG, "a store is written sqlite:PATH, not %s", url);
    configure_library();
    struct store *s = mem_zalloc(sizeof *s);
    s->path = mem_strdup(url + sizeof "sqlite:" - 1);
    s->vfs = vfs ? mem_strdup(vfs) : NULL;
    s->writable = true;
    s->checkpoint_due_pages = CHECKPOINT_PAGES;
    for (size_t i = 0; i < STATEMENT_COUNT; i++)
        s->queries[i] = (struct query){.store = s, .row = &statement_rows[i]};
    int r = open_all(s, now_ms, err);
    if (r < 0) {
        store_close(s);
        return r;
    }
    log_info("store", "opened", "path=%s version=%zu", log_quote(str_of(s->path)),
             schema_version_latest);
    *ret = s;
    return 0;
}
