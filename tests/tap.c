/* tap.c: see tap.h. */
#include "tap.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TESTS_MAX = 1000, EXIT_SKIPPED = 77 };

static struct {
    const char *name;
    tap_fn *fn;
} tests[TESTS_MAX];
static int test_count;
static char folder[] = "/tmp/reeve-test-XXXXXX";

void tap_register(const char *name, tap_fn *fn)
{
    if (test_count == TESTS_MAX)
        abort();
    tests[test_count].name = name;
    tests[test_count++].fn = fn;
}

void tap_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "# %s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    fflush(stderr);
    _exit(1);
}

void tap_skip(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "# skipped: ");
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    _exit(EXIT_SKIPPED);
}

const char *tap_folder(void)
{
    return folder;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/reeve-test-XXXXXX");
    if (!mkdtemp(folder)) {
        perror("mkdtemp");
        exit(2);
    }
}

static int run_forked(tap_fn *fn, unsigned seconds)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0) {
        setpgid(0, 0);
        alarm(seconds);
        fn();
        exit(0); /* not _exit: leak checkers run at exit */
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    kill(-pid, SIGKILL); /* what the test left behind in its own group */
    return status;
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return true;
    return argc < 2;
}

static void report(int number, const char *name, int status, bool *failed)
{
    bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED;
    bool ok = skipped || status == 0;
    if (!ok && WIFSIGNALED(status))
        printf("# ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    printf("%s %d - %s%s\n", ok ? "ok" : "not ok", number, name, skipped ? " # SKIP" : "");
    fflush(stdout);
    *failed |= !ok;
}

int main(int argc, char **argv)
{
    const char *slow = getenv("TAP_SLOW"), *limit = getenv("TAP_SECONDS");
    unsigned seconds = (unsigned)(limit ? atoi(limit) : 60) * (unsigned)(slow ? atoi(slow) : 1);
    bool failed = false;
    int number = 0;
    for (int i = 0; i < test_count && !(failed && getenv("TAP_FIRST")); i++) {
        if (!wanted(tests[i].name, argc, argv))
            continue;
        make_folder();
        int status = 0;
        if (getenv("TAP_NOFORK"))
            tests[i].fn();
        else
            status = run_forked(tests[i].fn, seconds);
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        report(++number, tests[i].name, status, &failed);
    }
    printf("1..%d\n", number);
    return failed ? 1 : 0;
}
