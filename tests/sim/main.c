/*
 * main.c: reeve-sim.
 *
 *     reeve-sim [--seeds N] [--from SEED] [--jobs N] [--found DIR]   makes N histories
 *               [--first] [--twice]                              until one fails; each two times
 *               [--why]                        a `why` that is wrong ends its history (W16: why.h)
 *     reeve-sim --seed SEED [--trace] [--print]                      one, and what happens in it
 *     reeve-sim --replay FILE|FOLDER... [--trace]                    scenarios
 *
 * Histories run in children, some after each other, so that one that ends by a broken invariant of
 * the server is a finding like any other; what is left is done by another child. REEVE_SIM_SEEDS is
 * the default of
 * --seeds. A seed that fails is made again, shrunk, and printed as a scenario. Exit status: 0, 1 if
 * anything failed, 2 usage. Output is TAP.
 */
#include <dirent.h>
#include <getopt.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim/run.h"
#include "sim/shrink.h"
#include "sim/world.h"

enum { JOBS_MAX = 64, CHILD_SEEDS = 50, TRIES = 600, SECONDS_MAX = 300, STEPS_MAX = 200000 };
/* W16: a wrong one of so many is too much; and how many are compared in a history, on average. */
enum { WRONG_PER = 1000, CAUSES_LEAST = 5, MOVES_LEAST = 1 };

#define YEAR_MS 31557600000.0

struct settings {
    uint64_t from, seeds;
    int jobs;
    struct how how;
    bool prints, twice, first;
    const char *found;
};

/* ---- one history, in a process of its own ---- */

struct sum {
    uint64_t ticks, failed;
    int64_t steps, events, simulated_ms, agent_ms;
    struct why_score why;
    uint64_t why_seed; /* of the first wrong one */
};

/* What a child has to tell; its steps as they are made, so that a crash leaves them. */
struct slot {
    uint64_t seed, end; /* under way; behind the last one it is to make */
    struct sum sum;
    struct history history;
    struct script record;
    struct step steps[STEPS_MAX];
};

static struct slot *new_slots(int count)
{
    struct slot *s = mmap(NULL, (size_t)count * sizeof *s, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        abort();
    return s;
}

static void note_crash(struct slot *slot, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    slot->history.has_failed = true;
    snprintf(slot->history.promise, sizeof slot->history.promise, "CRASH");
    snprintf(slot->history.why, sizeof slot->history.why, "ended with status %d, signal %d",
             WIFEXITED(status) ? WEXITSTATUS(status) : -1,
             WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static pid_t fork_quietly(void)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0)
        alarm(SECONDS_MAX);
    return pid;
}

static void in_child(const struct script *script, struct slot *slot, struct how how)
{
    memset(&slot->history, 0, sizeof slot->history);
    pid_t pid = fork_quietly();
    if (pid == 0) {
        if (!how.traces && !freopen("/dev/null", "w", stderr))
            _exit(2);
        slot->history = run_script(script, how);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    note_crash(slot, status);
}

/* ---- shrinking ---- */

struct wanted {
    struct slot *slot;
    const char *promise;
    struct how how;
};

static bool fails_alike(void *ctx, const struct script *candidate)
{
    struct wanted *w = ctx;
    in_child(candidate, w->slot, w->how);
    return w->slot->history.has_failed && strcmp(w->slot->history.promise, w->promise) == 0;
}

static void write_scenario(const struct script *script, const struct history *h, FILE *f)
{
    _cleanup_buf_ struct buf text = BUF_INIT(1 << 24);
    script_write(script, &text);
    fprintf(f, "# %s %s\n%.*s", h->promise, h->why, (int)text.len, text.data);
}

static void make_again(uint64_t seed, struct slot *slot, struct how how)
{
    slot->record = (struct script){.steps = slot->steps, .room = STEPS_MAX};
    pid_t pid = fork_quietly();
    if (pid == 0) {
        run_seed(seed, &slot->record, how);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void shrink_and_tell(uint64_t seed, const struct settings *set)
{
    struct slot *slot = new_slots(2);
    struct script script = {0};
    char promise[16];
    const struct how how = {.stops_at_wrong_why = set->how.stops_at_wrong_why};
    make_again(seed, slot, how);
    script = slot->record;
    in_child(&script, &slot[0], how);
    if (!slot[0].history.has_failed) {
        printf("# seed %llu does not fail again\n", (unsigned long long)seed);
        return;
    }
    snprintf(promise, sizeof promise, "%s", slot[0].history.promise);
    struct wanted w = {&slot[1], promise, how};
    shrink(&script, TRIES, fails_alike, &w);
    in_child(&script, &slot[1], how);
    printf("# %zu steps are enough:\n", script.count);
    write_scenario(&script, &slot[1].history, stdout);
    if (set->found) {
        _cleanup_free_ char *name =
            mem_printf("%s/%s-%llu.sim", set->found, promise, (unsigned long long)seed);
        FILE *f = fopen(name, "w");
        if (f) {
            write_scenario(&script, &slot[1].history, f);
            fclose(f);
        }
    }
    munmap(slot, 2 * sizeof *slot);
}

/* ---- many ---- */

static void add_why(struct sum *sum, const struct why_score *why, uint64_t seed)
{
    if (why->wrong && !sum->why.wrong) {
        memcpy(sum->why.first, why->first, sizeof why->first);
        sum->why_seed = seed;
    }
    sum->why.causes += why->causes;
    sum->why.moves += why->moves;
    sum->why.wrong += why->wrong;
}

static void add(struct sum *sum, const struct history *h, uint64_t seed)
{
    sum->ticks += h->ticks;
    sum->steps += h->steps;
    sum->events += h->events;
    sum->simulated_ms += h->simulated_ms;
    sum->agent_ms += h->simulated_ms * h->agents;
    sum->failed += h->has_failed;
    add_why(sum, &h->score, seed);
}

static struct history make(uint64_t seed, const struct settings *set)
{
    struct history h = run_seed(seed, NULL, set->how);
    if (set->twice && run_seed(seed, NULL, (struct how){0}).hash != h.hash) {
        h.has_failed = true;
        snprintf(h.promise, sizeof h.promise, "HASH");
        snprintf(h.why, sizeof h.why, "made twice, it is not the same");
    }
    return h;
}

/* Until one fails. */
_noreturn_ static void child(struct slot *slot, const struct settings *set)
{
    if (!set->how.traces && !freopen("/dev/null", "w", stderr))
        _exit(2);
    for (; slot->seed < slot->end && !slot->history.has_failed; slot->seed++) {
        alarm(SECONDS_MAX);
        slot->history = make(slot->seed, set);
        add(&slot->sum, &slot->history, slot->seed);
    }
    _exit(0);
}

static void tell(uint64_t seed, const struct history *h, const struct settings *set)
{
    printf("not ok - seed %llu: %s %s\n", (unsigned long long)seed, h->promise, h->why);
    if (strcmp(h->promise, "HASH") != 0 && !set->first)
        shrink_and_tell(seed, set);
    fflush(stdout);
}

/* A child for what is left of the slot's seeds, or for the next ones. */
static pid_t begin(struct slot *slot, uint64_t *next, uint64_t end, const struct settings *set)
{
    if (slot->seed == slot->end) {
        slot->seed = *next;
        slot->end = *next = MIN(*next + CHILD_SEEDS, end);
    }
    slot->sum = (struct sum){0};
    memset(&slot->history, 0, sizeof slot->history);
    if (slot->seed == slot->end)
        return 0;
    pid_t pid = fork_quietly();
    if (pid == 0)
        child(slot, set);
    return pid;
}

/* A child has ended: what it made counts, and what failed is told. */
static void end(struct slot *slot, int status, struct sum *sum, const struct settings *set)
{
    bool has_crashed = !slot->history.has_failed && status != 0;
    if (has_crashed) {
        note_crash(slot, status);
        slot->sum.failed++;
    }
    sum->ticks += slot->sum.ticks;
    sum->failed += slot->sum.failed;
    sum->steps += slot->sum.steps;
    sum->events += slot->sum.events;
    sum->simulated_ms += slot->sum.simulated_ms;
    sum->agent_ms += slot->sum.agent_ms;
    add_why(sum, &slot->sum.why, slot->sum.why_seed);
    if (slot->history.has_failed)
        tell(has_crashed ? slot->seed++ : slot->seed - 1, &slot->history, set);
}

/* W16: of all that was compared, at most one in a thousand is wrong; and enough was compared for
 * that to be seen. */
static bool is_why_right(const struct sum *sum)
{
    return sum->why.wrong * WRONG_PER <= sum->why.causes + sum->why.moves;
}

static bool is_why_seen(const struct sum *sum, uint64_t seeds)
{
    return sum->why.causes >= (int64_t)seeds * CAUSES_LEAST &&
           sum->why.moves >= (int64_t)seeds * MOVES_LEAST;
}

static bool tell_why(const struct sum *sum, uint64_t seeds)
{
    int64_t compared = sum->why.causes + sum->why.moves;
    printf("# why: %lld causes and %lld moves compared, %lld wrong (%.3f %% right)\n",
           (long long)sum->why.causes, (long long)sum->why.moves, (long long)sum->why.wrong,
           compared ? 100.0 * (double)(compared - sum->why.wrong) / (double)compared : 0.0);
    if (sum->why.wrong)
        printf("# why: the first that is wrong, of seed %llu: %s\n",
               (unsigned long long)sum->why_seed, sum->why.first);
    if (is_why_right(sum) && is_why_seen(sum, seeds))
        return true;
    printf("not ok - seed %llu: W16 %s\n", (unsigned long long)sum->why_seed,
           is_why_right(sum) ? "too little was compared" : sum->why.first);
    return false;
}

/* Nothing more need be made to know that it has failed. */
static bool has_seen(const struct sum *sum)
{
    return sum->failed || (!is_why_right(sum) && sum->why.causes >= 1000);
}

static int run_many(const struct settings *set)
{
    struct slot *slots = new_slots(set->jobs);
    pid_t pids[JOBS_MAX] = {0};
    uint64_t next = set->from, last = set->from + set->seeds;
    int running = 0;
    struct sum sum = {0};
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (;;) {
        for (int i = 0; i < set->jobs && !(set->first && has_seen(&sum)); i++)
            if (!pids[i] && (pids[i] = begin(&slots[i], &next, last, set)))
                running++;
        if (!running)
            break;
        int status;
        pid_t pid = wait(&status);
        for (int i = 0; i < set->jobs; i++)
            if (pid > 0 && pids[i] == pid) {
                end(&slots[i], status, &sum, set);
                pids[i] = 0;
                running--;
            }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    double seconds =
        (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9;
    printf("# %llu histories, %lld steps, %llu ticks, %lld events, %.3f fleet-years"
           " (%.3f agent-years), in %.1f s (%.0f steps/s)\n",
           (unsigned long long)set->seeds, (long long)sum.steps, (unsigned long long)sum.ticks,
           (long long)sum.events, (double)sum.simulated_ms / YEAR_MS,
           (double)sum.agent_ms / YEAR_MS, seconds, (double)sum.steps / seconds);
    sum.failed += !sum.failed && !tell_why(&sum, set->seeds);
    if (!sum.failed)
        printf("ok - %llu histories from seed %llu\n", (unsigned long long)set->seeds,
               (unsigned long long)set->from);
    printf("1..%llu\n", (unsigned long long)MAX(sum.failed, UINT64_C(1)));
    munmap(slots, (size_t)set->jobs * sizeof *slots);
    return sum.failed ? 1 : 0;
}

/* ---- one ---- */

static int run_one(const struct settings *set)
{
    struct script record = {0};
    struct history h = run_seed(set->from, &record, set->how);
    if (set->prints)
        write_scenario(&record, &h, stdout);
    printf("%s - seed %llu: %s %s\n# %lld steps, %llu ticks, %lld events, %lld s, hash %016llx\n",
           h.has_failed ? "not ok" : "ok", (unsigned long long)set->from, h.promise, h.why,
           (long long)h.steps, (unsigned long long)h.ticks, (long long)h.events,
           (long long)h.simulated_ms / 1000, (unsigned long long)h.hash);
    script_release(&record);
    return h.has_failed ? 1 : 0;
}

struct replays {
    const struct settings *set;
    struct slot *slot;
    int count, failed;
};

static void replay_file(struct replays *r, const char *path)
{
    struct script script;
    if (!script_read(&script, path))
        exit(2);
    in_child(&script, r->slot, r->set->how);
    const struct history *h = &r->slot->history;
    printf("%s - %s: %s %s\n", h->has_failed ? "not ok" : "ok", path, h->promise, h->why);
    r->failed |= h->has_failed;
    r->count++;
    script_release(&script);
}

static void replay_folder(struct replays *r, const char *folder)
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        _cleanup_free_ char *path = mem_printf("%s/%s", folder, entries[i]->d_name);
        if (strstr(entries[i]->d_name, ".sim"))
            replay_file(r, path);
        free(entries[i]);
    }
    free(entries);
}

/* Files, and folders of files. */
static int replay(char **paths, const struct settings *set)
{
    struct replays r = {.set = set, .slot = new_slots(1)};
    struct stat st;
    for (; *paths; paths++)
        if (stat(*paths, &st) == 0 && S_ISDIR(st.st_mode))
            replay_folder(&r, *paths);
        else
            replay_file(&r, *paths);
    printf("1..%d\n", r.count);
    munmap(r.slot, sizeof *r.slot);
    return r.failed || !r.count;
}

/* One thread, and a short life: no locks, nothing counted, no memory given back. */
static void be_quick(void)
{
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 1 << 22);
    sim_prepare();
}

int main(int argc, char **argv)
{
    enum { SEEDS = 1, FROM, SEED, JOBS, REPLAY, TRACE, PRINT, TWICE, FOUND, FIRST, WHY };
    static const struct option options[] = {
        {"seeds", 1, NULL, SEEDS}, {"from", 1, NULL, FROM},     {"seed", 1, NULL, SEED},
        {"jobs", 1, NULL, JOBS},   {"replay", 0, NULL, REPLAY}, {"trace", 0, NULL, TRACE},
        {"print", 0, NULL, PRINT}, {"twice", 0, NULL, TWICE},   {"found", 1, NULL, FOUND},
        {"first", 0, NULL, FIRST}, {"why", 0, NULL, WHY},       {NULL, 0, NULL, 0}};
    const char *seeds = getenv("REEVE_SIM_SEEDS");
    struct settings set = {.from = 1, .seeds = seeds ? strtoull(seeds, NULL, 10) : 2000, .jobs = 2};
    int mode = SEEDS, c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint64_t value = optarg ? strtoull(optarg, NULL, 10) : 0;
        if (c == SEEDS)
            set.seeds = value;
        else if (c == FROM || c == SEED)
            set.from = value;
        else if (c == JOBS && value > 0 && value <= JOBS_MAX)
            set.jobs = (int)value;
        else if (c == TRACE)
            set.how.traces = true;
        else if (c == PRINT)
            set.prints = true;
        else if (c == TWICE)
            set.twice = true;
        else if (c == FIRST)
            set.first = true;
        else if (c == WHY)
            set.how.stops_at_wrong_why = true;
        else if (c == FOUND)
            set.found = optarg;
        else if (c != REPLAY)
            return 2;
        if (c == SEED || c == REPLAY)
            mode = c;
    }
    log_set_level(LOG_ERROR + 1);
    be_quick();
    if (mode == REPLAY)
        return replay(argv + optind, &set);
    return mode == SEED ? run_one(&set) : run_many(&set);
}
