/* test_store.c: store.h on SQLite. Power loss and I/O error sweeps are in tests/crash. */
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "lib/fault_vfs.h"
#include "store/schema.h"
#include "store/sqlite_store.h"

enum { NOW_MS = 1700000000, EXIT_STORE_LOST = 70 };

/* SQLite's fdatasync is this one: the dynamic linker prefers the program's own. */
static bool fdatasync_fails;

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    if (fdatasync_fails) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

static const char *file_path(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", tap_folder(), name);
    return path;
}

static int try_open(const char *name, struct store **ret, struct err *err)
{
    char url[320];
    log_set_level(LOG_ERROR);
    snprintf(url, sizeof url, "sqlite:%s", file_path(name));
    return store_open(url, NULL, NOW_MS, ret, err);
}

static struct store *open_named(const char *name)
{
    struct store *s = NULL;
    struct err err = ERR_INIT;
    if (try_open(name, &s, &err) < 0)
        tap_fail(__FILE__, __LINE__, "%s", err.message);
    return s;
}

static struct store *open_on_disk(struct fault_vfs **ret_disk)
{
    struct store *s = NULL;
    log_set_level(LOG_ERROR);
    *ret_disk = fault_vfs_new("disk", 1);
    CHECK_INT(store_open("sqlite:a.db", "disk", NOW_MS, &s, NULL), 0);
    return s;
}

static int put_event(struct store *s, int64_t id, int64_t seq, struct str payload, struct err *err)
{
    struct query *q = store_query(s, SQL_EVENT_INSERT);
    query_int(q, 1, id);
    query_int(q, 2, 1);
    query_int(q, 3, seq);
    query_int(q, 4, 1);
    query_int(q, 5, seq);
    query_int(q, 6, NOW_MS);
    query_text(q, 7, STR("message"));
    query_text(q, 8, STR("none"));
    query_text(q, 9, STR("builder"));
    query_text(q, 10, payload);
    return query_run(q, NULL, err);
}

/* Row n: id and seq n. */
static int put(struct store *s, int64_t n, struct err *err)
{
    return put_event(s, n, n, STR("{\"text\":\"hello\"}"), err);
}

static void put_committed(struct store *s, int64_t first, int64_t last)
{
    CHECK_INT(store_begin(s, NULL), 0);
    for (int64_t n = first; n <= last; n++)
        CHECK_INT(put(s, n, NULL), 0);
    CHECK_INT(store_commit(s, NULL), 0);
}

static int64_t last_event(struct store *s)
{
    struct query *q = store_query(s, SQL_EVENT_LAST);
    CHECK_INT(query_one(q, NULL), STORE_ROW);
    int64_t id = query_get_int(q, 0);
    query_end(q);
    return id;
}

static int64_t count_events(struct store *s)
{
    int64_t count = 0;
    struct query *q = store_query(s, SQL_EVENT_LIST_ALL);
    query_int(q, 1, 0);
    query_int(q, 2, INT64_MAX);
    int r;
    while ((r = query_step(q, NULL)) == STORE_ROW)
        count++;
    CHECK_INT(r, STORE_DONE);
    return count;
}

/* Opening. */

TEST(a_store_keeps_its_rows)
{
    struct store *s = open_named("a.db");
    CHECK_INT(last_event(s), 0);
    put_committed(s, 1, 5);
    CHECK(store_close(s) == NULL);
    s = open_named("a.db");
    CHECK_INT(count_events(s), 5);
    store_close(s);
}

static int mode_of(const char *name)
{
    struct stat st;
    CHECK(stat(file_path(name), &st) == 0);
    return st.st_mode & 0777;
}

TEST(files_are_private)
{
    umask(0);
    struct store *s = open_named("a.db");
    put_committed(s, 1, 1);
    CHECK_INT(mode_of("a.db"), 0600);
    CHECK_INT(mode_of("a.db-wal"), 0600);
    CHECK(access(file_path("a.db-shm"), F_OK) < 0);
    store_close(s);
}

TEST(a_clean_close_leaves_one_file)
{
    struct store *s = open_named("a.db");
    put_committed(s, 1, 100);
    store_close(s);
    CHECK(access(file_path("a.db"), F_OK) == 0);
    CHECK(access(file_path("a.db-wal"), F_OK) < 0);
}

/* Runs SQL on a file that no store has open. */
static int64_t sql_on(const char *name, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    int64_t answer = -1;
    CHECK_INT(sqlite3_open(file_path(name), &db), SQLITE_OK);
    CHECK_INT(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    int rc = sqlite3_step(stmt);
    CHECK(rc == SQLITE_ROW || rc == SQLITE_DONE);
    if (rc == SQLITE_ROW)
        answer = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return answer;
}

TEST(each_migration_leaves_its_row)
{
    store_close(open_named("a.db"));
    CHECK_INT(sql_on("a.db", "SELECT COUNT(*) FROM schema_version"),
              (int64_t)schema_version_latest);
    CHECK_INT(sql_on("a.db", "SELECT MIN(applied_at) FROM schema_version"), NOW_MS);
}

static void check_refused(const char *name, int code, const char *text)
{
    struct store *s = NULL;
    struct err err = ERR_INIT;
    CHECK_INT(try_open(name, &s, &err), -code);
    CHECK(s == NULL);
    if (!strstr(err.message, text))
        tap_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", err.message, text);
}

TEST(a_newer_store_is_refused_by_number)
{
    char text[40];
    store_close(open_named("a.db"));
    sql_on("a.db", "INSERT INTO schema_version VALUES (9999, 1)");
    check_refused("a.db", ERR_CONFIG, "version 9999");
    snprintf(text, sizeof text, "up to %zu", schema_version_latest);
    check_refused("a.db", ERR_CONFIG, text);
}

TEST(a_database_of_another_program_is_refused_untouched)
{
    sql_on("other.db", "CREATE TABLE theirs (x)");
    check_refused("other.db", ERR_CONFIG, "another program");
    CHECK_INT(sql_on("other.db", "SELECT COUNT(*) FROM sqlite_schema"), 1);
    CHECK_INT(sql_on("other.db", "PRAGMA application_id"), 0);
}

static void overwrite(const char *name, off_t offset, size_t n, char with)
{
    char *bytes = mem_alloc(n);
    memset(bytes, with, n);
    int fd = open(file_path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && pwrite(fd, bytes, n, offset) == (ssize_t)n);
    close(fd);
    free(bytes);
}

TEST(a_file_that_is_no_database_is_refused)
{
    overwrite("text", 0, 8000, 'x');
    check_refused("text", ERR_CONFIG, "not a database");
    check_refused("missing/a.db", ERR_CONFIG, "cannot create");
}

TEST(an_empty_file_becomes_a_store)
{
    overwrite("a.db", 0, 0, 'x');
    store_close(open_named("a.db"));
}

TEST(other_urls_are_refused)
{
    struct store *s = NULL;
    CHECK_INT(store_open("postgres://x", NULL, 1, &s, NULL), -ERR_CONFIG);
    CHECK_INT(store_open("sqlite:", NULL, 1, &s, NULL), -ERR_CONFIG);
    CHECK_INT(store_open("", NULL, 1, &s, NULL), -ERR_CONFIG);
}

static int run_child(void (*fn)(void))
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        fn();
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void child_is_locked_out(void)
{
    check_refused("a.db", ERR_LOCKED, "in use by another server");
}

TEST(a_second_server_is_locked_out)
{
    struct store *s = open_named("a.db"); /* nothing read or written since */
    CHECK_INT(run_child(child_is_locked_out), 0);
    child_is_locked_out(); /* nor twice in one process */
    put_committed(s, 1, 1);
    CHECK_INT(run_child(child_is_locked_out), 0);
    store_close(s);
    store_close(open_named("a.db"));
}

/* Transactions and savepoints. */

TEST(a_rollback_leaves_nothing)
{
    struct store *s = open_named("a.db");
    CHECK(!store_in_transaction(s));
    CHECK_INT(store_begin(s, NULL), 0);
    CHECK(store_in_transaction(s));
    CHECK_INT(put(s, 1, NULL), 0);
    CHECK_INT(last_event(s), 1);
    store_rollback(s);
    CHECK(!store_in_transaction(s));
    CHECK_INT(last_event(s), 0);
    store_close(s);
}

TEST(closing_rolls_back)
{
    struct store *s = open_named("a.db");
    CHECK_INT(store_begin(s, NULL), 0);
    CHECK_INT(put(s, 1, NULL), 0);
    store_close(s);
    s = open_named("a.db");
    CHECK_INT(last_event(s), 0);
    store_close(s);
}

static void put_request(struct store *s, int64_t n, bool keep)
{
    CHECK_INT(store_savepoint(s, NULL), 0);
    CHECK_INT(put(s, n, NULL), 0);
    CHECK_INT(put(s, n + 1, NULL), 0);
    if (keep)
        CHECK_INT(store_release(s, NULL), 0);
    else
        store_rollback_savepoint(s);
}

TEST(a_failed_request_leaves_the_writes_of_others)
{
    struct store *s = open_named("a.db");
    CHECK_INT(store_begin(s, NULL), 0);
    put_request(s, 1, true);
    put_request(s, 3, false);
    put_request(s, 5, true);
    put_request(s, 7, false);
    CHECK_INT(store_commit(s, NULL), 0);
    CHECK_INT(count_events(s), 4);
    CHECK_INT(last_event(s), 6);
    store_close(s);
}

TEST(a_broken_constraint_costs_its_request_only)
{
    struct store *s = open_named("a.db");
    struct err err = ERR_INIT;
    CHECK_INT(store_begin(s, NULL), 0);
    put_request(s, 1, true);
    CHECK_INT(store_savepoint(s, NULL), 0);
    CHECK_INT(put(s, 3, NULL), 0);
    CHECK_INT(put_event(s, 3, 4, STR("{}"), &err), -ERR_INTERNAL);
    CHECK(strstr(err.message, "UNIQUE"));
    store_rollback_savepoint(s);
    CHECK_INT(store_commit(s, NULL), 0);
    CHECK_INT(count_events(s), 2);
    CHECK(store_is_writable(s));
    store_close(s);
}

TEST(a_request_that_only_reads_has_no_savepoint)
{
    struct store *s = open_named("a.db");
    CHECK_INT(store_begin(s, NULL), 0);
    CHECK_INT(store_savepoint(s, NULL), 0);
    last_event(s);
    CHECK(s->savepoint == SAVEPOINT_ASKED);
    CHECK_INT(put(s, 1, NULL), 0);
    CHECK(s->savepoint == SAVEPOINT_REAL);
    CHECK_INT(store_release(s, NULL), 0);
    CHECK_INT(store_commit(s, NULL), 0);
    store_close(s);
}

TEST(a_forgotten_query_ends_with_its_transaction)
{
    struct store *s = open_named("a.db");
    put_committed(s, 1, 10);
    CHECK_INT(store_begin(s, NULL), 0);
    struct query *q = store_query(s, SQL_EVENT_LIST_ALL);
    query_int(q, 1, 0);
    query_int(q, 2, 10);
    CHECK_INT(query_one(q, NULL), STORE_ROW);
    CHECK_INT(put(s, 11, NULL), 0);
    CHECK_INT(store_commit(s, NULL), 0);
    CHECK(sqlite3_next_stmt(s->db, NULL) != NULL);
    for (sqlite3_stmt *p = NULL; (p = sqlite3_next_stmt(s->db, p));)
        CHECK(!sqlite3_stmt_busy(p));
    store_close(s);
}

/* Queries. */

TEST(values_come_back_as_they_were_bound)
{
    struct store *s = open_named("a.db");
    CHECK_INT(store_begin(s, NULL), 0);
    struct query *q = store_query(s, SQL_KEY_INSERT);
    query_text(q, 1, STR("a\0b"));
    query_text(q, 2, (struct str){"", 0});
    query_text(q, 3, STR("k"));
    query_blob(q, 4, "", 0);
    query_text(q, 5, STR("\xC3\xA9"));
    query_int(q, 6, INT64_MIN);
    int64_t changes = 0;
    CHECK_INT(query_run(q, &changes, NULL), 0);
    CHECK_INT(changes, 1);
    CHECK_INT(store_commit(s, NULL), 0);

    q = store_query(s, SQL_KEY_GET);
    query_text(q, 1, STR("a\0b"));
    query_text(q, 2, (struct str){"", 0});
    query_text(q, 3, STR("k"));
    CHECK_INT(query_one(q, NULL), STORE_ROW);
    CHECK(!query_is_null(q, 0) && query_get_blob(q, 0).p && query_get_blob(q, 0).n == 0);
    CHECK_STR(query_get_text(q, 1), "\xC3\xA9");
    query_end(q);
    store_close(s);
}

TEST(a_query_starts_with_all_parameters_null)
{
    struct store *s = open_named("a.db");
    put_committed(s, 1, 1);
    CHECK_INT(store_begin(s, NULL), 0);
    struct query *q = store_query(s, SQL_EVENT_INSERT);
    query_int(q, 1, 2);
    CHECK_INT(query_run(q, NULL, NULL), -ERR_INTERNAL); /* NOT NULL */
    store_rollback(s);
    for (int bind = 1; bind >= 0; bind--) {
        q = store_query(s, SQL_EVENT_BY_ID);
        if (bind)
            query_int(q, 1, 1);
        CHECK_INT(query_one(q, NULL), bind ? STORE_ROW : STORE_DONE);
    }
    query_text(store_query(s, SQL_EVENT_BY_ID), 1, STR_NONE);
    CHECK_INT(query_one(&s->queries[SQL_EVENT_BY_ID], NULL), STORE_DONE);
    store_close(s);
}

TEST(every_statement_prepares_and_has_numbered_parameters)
{
    struct store *s = open_named("a.db");
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        struct query *q = store_query(s, (enum statement)i);
        if (q->bind_rc != SQLITE_OK)
            tap_fail(__FILE__, __LINE__, "%s: %s", q->row->name, sqlite3_errmsg(s->db));
        CHECK_INT(sqlite3_stmt_readonly(q->stmt) == 0, q->row->kind == STATEMENT_WRITE);
        for (int p = 1; p <= sqlite3_bind_parameter_count(q->stmt); p++) {
            const char *name = sqlite3_bind_parameter_name(q->stmt, p);
            if (!name || name[0] != '?' || atoi(name + 1) != p)
                tap_fail(__FILE__, __LINE__, "%s has no ?%d", q->row->name, p);
        }
    }
    store_close(s);
}

TEST(no_statement_scans_a_table)
{
    struct store *s = open_named("a.db");
    for (int i = 0; i < STATEMENT_COUNT; i++) {
        _cleanup_buf_ struct buf plan = BUF_INIT(4096);
        CHECK_INT(store_explain(s, (enum statement)i, &plan, NULL), 0);
        bool scans = strstr(buf_str(&plan).p, "SCAN") != NULL;
        if (scans && statement_rows[i].kind != STATEMENT_SCAN)
            tap_fail(__FILE__, __LINE__, "%s: %s", statement_rows[i].name, plan.data);
    }
    store_close(s);
}

/* Trouble with the disk. */

/* One tick of 20 rows of 4 KB. */
static int big_tick(struct store *s, int64_t *last, struct err *err)
{
    static char payload[4096];
    memset(payload, 'x', sizeof payload);
    int r = store_begin(s, err);
    int64_t n = *last;
    for (int i = 0; i < 20 && r == 0; i++, n++)
        r = put_event(s, n + 1, n + 1, (struct str){payload, sizeof payload}, err);
    int r_commit = store_in_transaction(s) ? store_commit(s, err) : r;
    if (r_commit == 0 && r == 0)
        *last = n;
    store_maintain(s);
    return r < 0 ? r : r_commit;
}

TEST(a_full_disk_is_unavailable_until_there_is_room)
{
    struct fault_vfs *disk;
    struct store *s = open_on_disk(&disk);
    log_set_level(LOG_ERROR + 1);
    int64_t last = 0;
    struct err err = ERR_INIT;
    fault_vfs_set_capacity(disk, 8 << 20);
    int ticks = 0;
    while (big_tick(s, &last, &err) == 0)
        CHECK(++ticks < 200);
    CHECK(ticks > 20); /* the WAL was reused on the way */
    CHECK_INT(err.code, ERR_UNAVAILABLE);
    CHECK(!store_is_writable(s));
    CHECK_INT(last_event(s), last);
    for (int i = 0; i < 5; i++)
        CHECK_INT(big_tick(s, &last, &err), -ERR_UNAVAILABLE);
    CHECK_INT(count_events(s), last); /* reads go on */

    fault_vfs_set_capacity(disk, 0);
    CHECK_INT(big_tick(s, &last, &err), 0);
    CHECK(store_is_writable(s));
    CHECK_INT(count_events(s), last);
    store_close(s);
    fault_vfs_free(disk);
}

/* More dirty pages than the cache holds are written in the middle of a transaction. If that fails,
 * SQLite rolls all of it back; nothing after it may be committed on its own. */
TEST(a_lost_transaction_takes_nothing_more)
{
    static char payload[100000];
    memset(payload, 'x', sizeof payload);
    struct fault_vfs *disk;
    struct store *s = open_on_disk(&disk);
    log_set_level(LOG_ERROR + 1);
    put_committed(s, 1, 3);
    struct err err = ERR_INIT;
    CHECK_INT(store_begin(s, NULL), 0);
    fault_vfs_plan(disk, FAULT_EIO, 1, false);
    CHECK_INT(store_savepoint(s, NULL), 0);
    int64_t n = 4;
    while (put_event(s, n, n, (struct str){payload, sizeof payload}, &err) == 0)
        CHECK(n++ < 1000);
    CHECK(fault_vfs_has_struck(disk));
    CHECK_INT(err.code, ERR_UNAVAILABLE);
    CHECK(store_in_transaction(s)); /* until the caller ends it */
    CHECK_INT(put(s, 2000, NULL), -ERR_UNAVAILABLE);
    CHECK_INT(query_one(store_query(s, SQL_EVENT_LAST), NULL), -ERR_UNAVAILABLE);
    CHECK_INT(store_release(s, NULL), -ERR_UNAVAILABLE);
    CHECK_INT(store_savepoint(s, NULL), -ERR_UNAVAILABLE);
    CHECK_INT(store_begin(s, NULL), -ERR_UNAVAILABLE);
    CHECK_INT(store_commit(s, NULL), -ERR_UNAVAILABLE);
    CHECK(!store_in_transaction(s) && !store_is_writable(s));
    CHECK_INT(count_events(s), 3);
    put_committed(s, 4, 4);
    CHECK(store_is_writable(s));
    store_close(s);
    fault_vfs_free(disk);
}

TEST(a_failed_read_is_an_error_and_passes)
{
    struct fault_vfs *disk;
    struct store *s = open_on_disk(&disk);
    put_committed(s, 1, 2000);
    store_close(s);
    CHECK_INT(store_open("sqlite:a.db", "disk", NOW_MS, &s, NULL), 0);
    fault_vfs_plan(disk, FAULT_EIO, 3, true);
    struct err err = ERR_INIT;
    struct query *q = store_query(s, SQL_EVENT_LIST_ALL);
    query_int(q, 1, 0);
    query_int(q, 2, INT64_MAX);
    int r;
    while ((r = query_step(q, &err)) == STORE_ROW)
        continue;
    CHECK_INT(r, -ERR_IO);
    CHECK(store_is_writable(s));
    fault_vfs_plan(disk, FAULT_EIO, 0, false);
    CHECK_INT(count_events(s), 2000);
    store_close(s);
    fault_vfs_free(disk);
}

static _Atomic int64_t *acked; /* shared with the child */

static void child_commits_until_fdatasync_fails(void)
{
    struct store *s = open_named("a.db");
    log_set_level(LOG_ERROR + 1);
    for (int64_t n = 1; n <= 20; n++) {
        fdatasync_fails = n == 8; /* once: trying again would seem to work */
        CHECK_INT(store_begin(s, NULL), 0);
        CHECK_INT(put(s, n, NULL), 0);
        if (store_commit(s, NULL) == 0)
            *acked = n;
        fdatasync_fails = false;
    }
    store_close(s);
}

TEST(L80_failed_fsync_ends_the_process)
{
    acked = mmap(NULL, sizeof *acked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(acked != MAP_FAILED);
    CHECK_INT(run_child(child_commits_until_fdatasync_fails), EXIT_STORE_LOST);
    CHECK_INT(*acked, 7);
    struct store *s = open_named("a.db");
    CHECK(last_event(s) == 7 || last_event(s) == 8);
    CHECK_INT(count_events(s), last_event(s));
    put_committed(s, last_event(s) + 1, 20);
    store_close(s);
}

static void child_reads_a_damaged_file(void)
{
    struct store *s = open_named("a.db");
    log_set_level(LOG_ERROR + 1);
    count_events(s);
}

TEST(a_damaged_file_ends_the_process)
{
    struct store *s = open_named("a.db");
    put_committed(s, 1, 5000);
    store_close(s);
    overwrite("a.db", 90 * 4096, 20 * 4096, '\xEE'); /* behind the schema's pages */
    CHECK_INT(run_child(child_reads_a_damaged_file), EXIT_STORE_LOST);
}

TEST(checkpoints_keep_the_wal_small)
{
    struct store *s = open_named("a.db");
    int64_t last = 0;
    for (int i = 0; i < 400; i++)
        CHECK_INT(big_tick(s, &last, NULL), 0);
    const struct store_stats *stats = store_stats(s);
    struct stat st;
    CHECK(stat(file_path("a.db-wal"), &st) == 0);
    CHECK(st.st_size < 10 << 20); /* of over 30 MB written */
    CHECK(stats->checkpoints >= 3 && stats->checkpoint_pages * 4096 > 20 << 20);
    CHECK(stats->wal_pages < CHECKPOINT_PAGES);
    CHECK(stats->checkpoint_us_max >= stats->checkpoint_us_last);
    CHECK_INT(stats->commits, 400);
    CHECK_INT(stats->rows, 8000);
    store_close(s);
}

/* Backup. */

static int64_t count_in(const char *name)
{
    struct store *s = open_named(name);
    int64_t count = count_events(s);
    CHECK_INT(last_event(s), count);
    store_close(s);
    return count;
}

TEST(a_backup_holds_the_commits_made_meanwhile)
{
    umask(0);
    struct store *s = open_named("a.db");
    struct store_backup *b = NULL;
    int64_t last = 0;
    for (int i = 0; i < 20; i++)
        CHECK_INT(big_tick(s, &last, NULL), 0);
    put_committed(s, last + 1, last + 1000);
    last += 1000;
    CHECK_INT(store_backup_begin(s, file_path("copy.db"), &b, NULL), 0);
    int steps = 0, r;
    while ((r = store_backup_step(b, 10, NULL)) == STORE_ROW) {
        steps++;
        if (steps == 3) {
            CHECK_INT(store_begin(s, NULL), 0);
            CHECK_INT(put(s, last + 1, NULL), 0);
            store_rollback(s);
        } else if (steps < 60) {
            put_committed(s, last + 1, last + 3);
            last += 3;
        }
        s->checkpoint_due_pages = 20;
        store_maintain(s);
    }
    CHECK_INT(r, STORE_DONE);
    CHECK(steps > 20);
    CHECK(store_backup_free(b) == NULL);
    CHECK_INT(mode_of("copy.db"), 0600);
    CHECK_INT(sql_on("copy.db", "SELECT COUNT(*) FROM pragma_integrity_check"
                                " WHERE integrity_check <> 'ok'"),
              0);
    CHECK_INT(count_in("copy.db"), last);
    put_committed(s, last + 1, last + 1);
    store_close(s);
    CHECK_INT(count_in("a.db"), last + 1);
}

TEST(a_backup_never_overwrites)
{
    struct store *s = open_named("a.db");
    struct store_backup *b = NULL;
    put_committed(s, 1, 10);
    overwrite("copy.db", 0, 3, 'x');
    CHECK_INT(store_backup_begin(s, file_path("copy.db"), &b, NULL), -ERR_INVALID_PARAMS);
    CHECK_INT(store_backup_begin(s, file_path("a.db"), &b, NULL), -ERR_INVALID_PARAMS);
    CHECK_INT(store_backup_begin(s, file_path("no/copy.db"), &b, NULL), -ERR_IO);
    CHECK(b == NULL);
    struct stat st;
    CHECK(stat(file_path("copy.db"), &st) == 0 && st.st_size == 3);
    CHECK_INT(run_child(child_is_locked_out), 0); /* the lock has survived it */
    store_close(s);
}

TEST(an_unfinished_backup_is_removed)
{
    struct store *s = open_named("a.db");
    struct store_backup *b = NULL;
    put_committed(s, 1, 1000);
    CHECK_INT(store_backup_begin(s, file_path("copy.db"), &b, NULL), 0);
    CHECK_INT(store_backup_step(b, 1, NULL), STORE_ROW);
    CHECK(access(file_path("copy.db"), F_OK) == 0);
    store_backup_free(b);
    CHECK(access(file_path("copy.db"), F_OK) < 0);
    store_close(s);
}

TEST(a_backup_that_finds_no_room_leaves_the_store_alone)
{
    struct fault_vfs *disk;
    struct store *s = open_on_disk(&disk);
    struct store_backup *b = NULL;
    put_committed(s, 1, 5000);
    fault_vfs_set_capacity(disk, 1);
    CHECK_INT(store_backup_begin(s, "copy.db", &b, NULL), 0);
    int r;
    while ((r = store_backup_step(b, 50, NULL)) == STORE_ROW)
        continue;
    CHECK_INT(r, -ERR_UNAVAILABLE);
    store_backup_free(b);
    fault_vfs_set_capacity(disk, 0);
    CHECK(store_is_writable(s));
    put_committed(s, 5001, 5002);
    CHECK_INT(count_events(s), 5002);
    store_close(s);
    fault_vfs_free(disk);
}
