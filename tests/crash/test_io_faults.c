/*
 * test_io_faults.c: the Nth operation of the disk fails, for every N (W3).
 *
 * In each workload (workload.h) EIO, a full disk, a short write or a failing sync strikes at its
 * first operation, its second, and so on until none is left; once, and from there on for ever. The
 * core may refuse; it never acknowledges what is not there. When the disk is well again, so is the
 * core; and after a power cut the store owes nothing to anybody. A failing sync ends the process
 * (L80); what it had acknowledged is there.
 *
 * A workload is run once, in a process that nothing ever fails in. Before each of its steps this
 * forks, for each operation of that step, a child in which it fails and which does the rest.
 *
 *     REEVE_FAULTS=n   every nth N only (default 1: all of them)
 *     REEVE_SEED       the seed of the workloads (default 1)
 */
#include "tap.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "lib/fault_vfs.h"
#include "store/sqlite_store.h"
#include "workload.h"

enum { EXIT_STORE_LOST = 70, RULES_ONE_IN = 4 };

struct sweep {
    const struct workload *workload;
    enum fault fault;
    bool forever;
    uint64_t nth;
};

/* ---- the audit ---- */

_noreturn_ static void complain(const struct sweep *s, const char *what)
{
    tap_fail(__FILE__, __LINE__, "%s, fault %d%s at operation %llu: %s", s->workload->name,
             (int)s->fault, s->forever ? " for ever" : "", (unsigned long long)s->nth, what);
}

/* On the same connection, as it is: what failed is not to be seen, what was told is. */
static void audit_live(const struct sweep *s, const struct run *r)
{
    const char *what = deeds_missing(&r->deeds, r->w->store->db);
    if (what)
        complain(s, what);
}

/* Beside it, after a power cut. */
static void audit_cut(const struct sweep *s, const struct run *r)
{
    struct err err = ERR_INIT;
    struct store *store = NULL;
    struct fault_vfs *disk = fault_vfs_after_cut(r->w->disk, "cut", s->nth);
    if (store_open("sqlite:a.db", "cut", WORLD_START_MS, &store, &err) < 0)
        complain(s, err.message);
    const char *what = deeds_missing(&r->deeds, store->db);
    if (!what && s->nth % RULES_ONE_IN == 0)
        what = store_rules_broken(store->db);
    if (what)
        complain(s, what);
    store_close(store);
    fault_vfs_free(disk);
}

/* The disk is well again. */
static void check_recovery(const struct sweep *s, struct run *r)
{
    struct err err = ERR_INIT;
    pass_pause();
    if (!r->w->core && world_try_restart(r->w, &err) < 0)
        complain(s, err.message);
    audit_live(s, r);
    settle(r->w);
    outbox_release(&r->w->out);
    ask(r->w, CALL("conversation.create", "{'agents':[{'role':'z'}]}"));
    tick(r->w);
    struct reply reply = take(r->w);
    if (!json_get(reply.json, "result"))
        complain(s, "it still refuses");
    done(&reply);
    run_acknowledge(r);
}

/* ---- one run, in a child, which a failing sync ends ---- */

enum { SURVIVED = 0, NOT_STRUCK = 2 };

static struct run *dying; /* for the hook, which has no context */
static const struct sweep *dying_of;

static void audit_at_the_end(int backend_error)
{
    (void)backend_error;
    store_set_fatal_hook(NULL);
    fault_vfs_plan(dying->w->disk, dying_of->fault, 0, false);
    audit_cut(dying_of, dying);
}

/* From here on, where so many operations of the workload are over. It ends at once if the step that
 * comes now has no such operation. */
_noreturn_ static void fail_nth(const struct sweep *s, struct run *r, uint64_t over)
{
    struct fault_vfs *disk = r->w->disk;
    dying = r;
    dying_of = s;
    store_set_fatal_hook(audit_at_the_end);
    fault_vfs_plan(disk, s->fault, s->nth - over, s->forever);
    bool goes_on = s->workload->step(r);
    if (!fault_vfs_has_struck(disk))
        _exit(NOT_STRUCK);
    while (goes_on)
        goes_on = s->workload->step(r);
    fault_vfs_plan(disk, s->fault, 0, false);
    check_recovery(s, r);
    audit_cut(s, r);
    run_end(r);
    exit(SURVIVED); /* not _exit: leak checkers run at exit */
}

/* False: the step that comes now has no such operation. Only a failing sync must end the process;
 * that of a backup costs the backup only. */
static bool fail_nth_in_a_child(const struct sweep *s, struct run *r, uint64_t over)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        fail_nth(s, r, over);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    int code = WEXITSTATUS(status);
    bool may_end = s->fault == FAULT_SYNC || s->fault == FAULT_EIO;
    if (code == SURVIVED && s->fault == FAULT_SYNC && !s->workload->has_backups)
        complain(s, "the process went on");
    if (code != SURVIVED && code != NOT_STRUCK && !(may_end && code == EXIT_STORE_LOST))
        complain(s, "the child failed");
    return code != NOT_STRUCK;
}

static uint64_t sweep_fault(const struct workload *workload, enum fault fault, bool forever)
{
    static struct run r;
    struct sweep s = {.workload = workload, .fault = fault, .forever = forever, .nth = 1};
    uint64_t every = run_setting("REEVE_FAULTS", 1), over = 0, runs = 0;
    run_init(&r, run_setting("REEVE_SEED", 1));
    if (workload->has_small_cache)
        sqlite_exec(r.w->store->db, "PRAGMA cache_size = 8");
    fault_vfs_plan(r.w->disk, fault, 0, false); /* it counts */
    for (bool goes_on = true; goes_on; over = fault_vfs_operations(r.w->disk)) {
        for (; fail_nth_in_a_child(&s, &r, over); s.nth += every)
            runs++;
        goes_on = workload->step(&r);
        CHECK(s.nth > fault_vfs_operations(r.w->disk)); /* none was left out */
    }
    run_end(&r);
    CHECK(runs > 0);
    return runs;
}

static void sweep(const char *name)
{
    for (size_t i = 0; i < workload_count; i++) {
        if (strcmp(workloads[i].name, name) != 0)
            continue;
        uint64_t runs = 0;
        for (enum fault fault = FAULT_EIO; fault <= FAULT_SYNC; fault++)
            for (int forever = 0; forever < 2; forever++)
                runs += sweep_fault(&workloads[i], fault, forever);
        printf("# proof weapon=io-faults workload=%s runs=%llu failures=0\n", name,
               (unsigned long long)runs);
    }
}

#define SWEEP(name)                           \
    TEST(W3_L80_every_operation_fails_##name) \
    {                                         \
        sweep(#name);                         \
    }
SWEEP(appends)
SWEEP(tasks)
SWEEP(ladder)
SWEEP(ends)
SWEEP(checkpoints)
SWEEP(backups)
SWEEP(restarts)
SWEEP(mixed)
SWEEP(machines)

/* ---- the tenth: the first start ---- */

TEST(W3_every_operation_of_the_first_start_fails)
{
    static const enum fault faults[] = {FAULT_EIO, FAULT_FULL, FAULT_SHORT_WRITE};
    uint64_t every = run_setting("REEVE_FAULTS", 1), runs = 0;
    log_set_level(LOG_ERROR + 1);
    for (size_t i = 0; i < 2 * ARRAY_LEN(faults); i++) {
        bool has_struck = true;
        for (uint64_t n = 1; has_struck; n += every, runs++) {
            struct err err = ERR_INIT, again = ERR_INIT;
            struct store *s = NULL;
            struct fault_vfs *disk = fault_vfs_new("disk", n);
            fault_vfs_plan(disk, faults[i / 2], n, i % 2);
            if (store_open("sqlite:a.db", "disk", WORLD_START_MS, &s, &err) < 0)
                CHECK(err.code && err.message[0]);
            has_struck = fault_vfs_has_struck(disk);
            fault_vfs_plan(disk, faults[i / 2], 0, false);
            s = store_close(s);
            if (store_open("sqlite:a.db", "disk", WORLD_START_MS, &s, &again) < 0)
                tap_fail(__FILE__, __LINE__, "fault %d at %llu: %s", (int)faults[i / 2],
                         (unsigned long long)n, again.message);
            CHECK(!store_rules_broken(s->db));
            store_close(s);
            fault_vfs_free(disk);
        }
    }
    printf("# proof weapon=io-faults workload=first-start runs=%llu failures=0\n",
           (unsigned long long)runs);
}

/* ---- the control: an answer that was given before the commit is seen ---- */

TEST(W3_control_an_answer_that_is_not_there_is_seen)
{
    struct run r;
    run_init(&r, 1);
    CHECK(workloads[0].step(&r));
    struct deeds before = r.deeds;
    CHECK(workloads[0].step(&r));
    struct deeds after = r.deeds;
    run_end(&r);
    run_init(&r, 1);
    struct world *w = r.w;
    CHECK(workloads[0].step(&r));
    fill_disk(w); /* the second step is refused; a server that had answered it would owe `after` */
    workloads[0].step(&r);
    CHECK(!deeds_missing(&before, w->store->db));
    CHECK(deeds_missing(&after, w->store->db) != NULL);
    CHECK(r.unavailable > 0);
    run_end(&r);
}
