/*
 * test_power_cuts.c: the power goes at any moment of what a core does (W2).
 *
 * A core runs on a disk in memory. Before a change of that disk (a write, a sync, a truncation, a
 * file made or removed) the disk that would be found if the power went now is made beside it
 * (fault_vfs_after_cut), opened by the production code and audited against what had been
 * acknowledged by then. The core knows nothing of it and goes on: a thousand cuts cost one history.
 * Several lives of one store, and cuts within recovery, are test_power_loss.c's.
 *
 *     REEVE_CUTS   cuts to make (default 20000), shared among the workloads
 *     REEVE_SEED   the first seed (default 1); a failure names its own
 */
#include "tap.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "lib/fault_vfs.h"
#include "store/schema.h"
#include "store/sqlite_store.h"
#include "workload.h"

enum { CUT_ONE_IN = 2, RULES_ONE_IN = 8, LATE_MAX = 64 };

/* What is wrong on purpose, so that the audit can be seen to see it. */
enum flaw { FLAW_NONE, FLAW_NORMAL, FLAW_ACK_EARLY };

struct cutter {
    struct run run;
    const struct workload *workload;
    enum flaw flaw;
    uint64_t cuts;
    int64_t complaints;               /* in a control run; else the first one fails the test */
    struct fault_vfs *late[LATE_MAX]; /* FLAW_ACK_EARLY: audited when the tick is over */
    size_t late_count;
};

/* ---- the audit ---- */

static void complain(struct cutter *c, const char *what)
{
    if (c->flaw == FLAW_NONE)
        tap_fail(__FILE__, __LINE__, "%s, seed %llu, cut %llu: %s", c->workload->name,
                 (unsigned long long)c->run.seed, (unsigned long long)c->cuts, what);
    c->complaints++;
}

static const char *check_integrity(sqlite3 *db)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, "PRAGMA quick_check", -1, &stmt, NULL);
    bool is_ok = rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW &&
                 strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") == 0;
    sqlite3_finalize(stmt);
    return is_ok ? NULL : "the file is damaged";
}

static const char *audit_file(const char *url, const char *vfs, const struct deeds *owed,
                              bool with_rules)
{
    static struct err err;
    struct store *s = NULL;
    err = ERR_INIT;
    if (store_open(url, vfs, WORLD_START_MS, &s, &err) < 0)
        return err.message;
    const char *what = check_integrity(s->db);
    if (!what)
        what = deeds_missing(owed, s->db);
    if (!what && with_rules)
        what = store_rules_broken(s->db);
    store_close(s);
    return what;
}

static void audit_cut(struct cutter *c, const char *vfs)
{
    const char *what =
        audit_file("sqlite:a.db", vfs, &c->run.deeds, c->cuts % RULES_ONE_IN == 0 && !c->flaw);
    if (what)
        complain(c, what);
    if (c->run.backups == 0 || c->cuts % RULES_ONE_IN != 1)
        return;
    _cleanup_free_ char *url = mem_printf("sqlite:/copy%d.db", c->run.backups - 1);
    what = audit_file(url, vfs, &c->run.backup, false);
    if (what)
        complain(c, what);
}

/* ---- cuts ---- */

static struct fault_vfs *cut(struct cutter *c, const char *name)
{
    c->cuts++;
    return fault_vfs_after_cut(c->run.w->disk, name, c->run.seed * 1000003 + c->cuts);
}

static const char *late_name(size_t i)
{
    static char name[32];
    snprintf(name, sizeof name, "late%zu", i);
    return name;
}

static void on_change(void *ctx)
{
    struct cutter *c = ctx;
    if (run_below(&c->run, CUT_ONE_IN) != 0)
        return;
    if (c->flaw == FLAW_ACK_EARLY) {
        if (c->late_count < LATE_MAX) {
            c->late[c->late_count] = cut(c, late_name(c->late_count));
            c->late_count++;
        }
        return;
    }
    struct fault_vfs *disk = cut(c, "cut");
    audit_cut(c, "cut");
    fault_vfs_free(disk);
}

/* The disks that were left while the tick was under way, by what was told at its end: what a server
 * that answers before it commits would have told by then. */
static void audit_late(struct cutter *c)
{
    for (size_t i = 0; i < c->late_count; i++) {
        audit_cut(c, late_name(i));
        fault_vfs_free(c->late[i]);
    }
    c->late_count = 0;
}

/* ---- histories ---- */

static void play(struct cutter *c, uint64_t seed)
{
    run_init(&c->run, seed);
    struct world *w = c->run.w;
    sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)seed, NULL);
    if (c->flaw == FLAW_NORMAL)
        sqlite_exec(w->store->db, "PRAGMA synchronous = NORMAL");
    if (seed % 2) /* hardly any cache: pages are written before the commit */
        sqlite_exec(w->store->db, "PRAGMA cache_size = 8");
    fault_vfs_watch(w->disk, on_change, c);
    bool goes_on = true;
    while (goes_on) {
        goes_on = c->workload->step(&c->run);
        audit_late(c);
    }
    fault_vfs_watch(w->disk, NULL, NULL);
    CHECK(c->run.backups > 0 || !c->workload->has_backups);
    run_end(&c->run);
}

/* This many cuts of one workload; how many were seen to lose something. */
static int64_t cut_up(const struct workload *workload, uint64_t cuts, enum flaw flaw)
{
    struct cutter *c = mem_zalloc(sizeof *c);
    c->workload = workload;
    c->flaw = flaw;
    for (uint64_t seed = run_setting("REEVE_SEED", 1); c->cuts < cuts; seed++)
        play(c, seed);
    if (flaw == FLAW_NONE)
        printf("# proof weapon=power-cuts workload=%s cuts=%llu failures=0\n", workload->name,
               (unsigned long long)c->cuts);
    int64_t complaints = c->complaints;
    free(c);
    return complaints;
}

static uint64_t share(void)
{
    return run_setting("REEVE_CUTS", 20000) / (workload_count + 1) + 1;
}

static void cut_workload(const char *name)
{
    for (size_t i = 0; i < workload_count; i++)
        if (strcmp(workloads[i].name, name) == 0)
            cut_up(&workloads[i], share(), FLAW_NONE);
}

TEST(W2_P12_cuts_while_events_are_appended)
{
    cut_workload("appends");
}

TEST(W2_P12_cuts_while_tasks_are_claimed_and_completed)
{
    cut_workload("tasks");
}

TEST(W2_P12_cuts_while_the_ladder_moves)
{
    cut_workload("ladder");
}

TEST(W2_P12_cuts_while_conversations_end)
{
    cut_workload("ends");
}

TEST(W2_P12_cuts_while_it_is_written_back)
{
    cut_workload("checkpoints");
}

TEST(W2_P12_cuts_while_it_is_backed_up)
{
    cut_workload("backups");
}

TEST(W2_P12_cuts_while_it_is_started)
{
    cut_workload("restarts");
}

TEST(W2_P12_P19_cuts_while_everything_else_is_written)
{
    cut_workload("mixed");
    cut_workload("machines");
}

/* ---- the first start, and a start on what an older version left ---- */

struct migration {
    struct fault_vfs *disk;
    uint64_t seed, random, cuts;
    size_t version; /* that it starts from */
};

static void on_migration_change(void *ctx)
{
    struct migration *m = ctx;
    struct err err = ERR_INIT;
    struct store *s = NULL;
    struct fault_vfs *disk = fault_vfs_after_cut(m->disk, "cut", m->seed * 1000003 + ++m->cuts);
    if (store_open("sqlite:a.db", "cut", WORLD_START_MS, &s, &err) < 0)
        tap_fail(__FILE__, __LINE__, "from version %zu, cut %llu: %s", m->version,
                 (unsigned long long)m->cuts, err.message);
    CHECK(!check_integrity(s->db));
    sqlite3_stmt *stmt = NULL;
    CHECK(sqlite3_prepare_v2(s->db, "SELECT count(*) FROM tokens WHERE scope = 'read'", -1, &stmt,
                             NULL) == SQLITE_OK);
    CHECK(sqlite3_step(stmt) == SQLITE_ROW);
    CHECK_INT(sqlite3_column_int64(stmt, 0), m->version ? 1 : 0);
    sqlite3_finalize(stmt);
    store_close(s);
    fault_vfs_free(disk);
}

/* What that version would have left, with a row in it. */
static void make_old(const struct migration *m)
{
    sqlite3 *db = NULL;
    if (m->version == 0)
        return;
    CHECK(sqlite3_open_v2("a.db", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "disk") ==
          SQLITE_OK);
    CHECK(sqlite_exec(db, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA application_id = 0x72656576;"
                          "CREATE TABLE schema_version (version INTEGER PRIMARY KEY,"
                          " applied_at INTEGER NOT NULL)") == SQLITE_OK);
    for (size_t i = 1; i <= m->version; i++) {
        _cleanup_free_ char *mark =
            mem_printf("INSERT INTO schema_version VALUES (%zu, %d)", i, WORLD_START_MS);
        CHECK(sqlite_exec(db, schema_migrations[i - 1]) == SQLITE_OK);
        CHECK(sqlite_exec(db, mark) == SQLITE_OK);
    }
    CHECK(sqlite_exec(db, "INSERT INTO tokens (hash, scope, created_at)"
                          " VALUES (x'00', 'read', 1)") == SQLITE_OK);
    CHECK(sqlite3_close(db) == SQLITE_OK);
}

TEST(W2_W14_cuts_while_it_migrates)
{
    uint64_t cuts = 0;
    for (uint64_t seed = 1; cuts < share(); seed++) {
        struct migration m = {.seed = seed, .version = seed % (schema_version_latest + 1)};
        struct err err = ERR_INIT;
        struct store *s = NULL;
        log_set_level(LOG_ERROR + 1);
        m.disk = fault_vfs_new("disk", seed);
        make_old(&m);
        fault_vfs_watch(m.disk, on_migration_change, &m);
        CHECK_INT(store_open("sqlite:a.db", "disk", WORLD_START_MS, &s, &err), 0);
        store_close(s);
        fault_vfs_free(m.disk);
        cuts += m.cuts;
    }
    printf("# proof weapon=power-cuts workload=migrations cuts=%llu failures=0\n",
           (unsigned long long)cuts);
}

/* ---- controls: the same audit must see what it is for ---- */

static void check_control(enum flaw flaw)
{
    for (size_t i = 0; i < 2; i++) {
        int64_t seen = cut_up(&workloads[i], 300, flaw);
        if (seen < 10)
            tap_fail(__FILE__, __LINE__, "%s: seen %lld times", workloads[i].name, (long long)seen);
    }
}

TEST(W2_control_synchronous_NORMAL_is_seen)
{
    check_control(FLAW_NORMAL);
}

TEST(W2_control_an_answer_before_the_commit_is_seen)
{
    check_control(FLAW_ACK_EARLY);
}
