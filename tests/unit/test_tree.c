/* test_tree.c: processes are told apart, found and ended, and nobody else is touched. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"
#include "machine/cgroup.h"
#include "machine/shim.h"
#include "machine/tree.h"
#include "tap.h"

enum { REUSES = 100, EXECUTIONS = 100 };

_noreturn_ static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static pid_t fork_one(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        wait_for_ever();
    }
    return pid;
}

static void end_one(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

TEST(the_boot_has_a_name)
{
    char one[BOOT_ID_BYTES], two[BOOT_ID_BYTES];
    CHECK_INT(tree_boot_id(one, NULL), 0);
    CHECK_INT(tree_boot_id(two, NULL), 0);
    CHECK_INT(strlen(one), BOOT_ID_BYTES - 1);
    CHECK_Z(one, two);
}

TEST(a_process_is_known_by_pid_and_start_time)
{
    struct process_id self, child;
    pid_t pid = fork_one();
    CHECK_INT(tree_process_id(getpid(), &self, NULL), 0);
    CHECK_INT(tree_process_id(pid, &child, NULL), 0);
    CHECK_INT(child.pid, pid);
    CHECK(child.start_time >= self.start_time && self.start_time > 0);
    int fd = tree_open(&child);
    CHECK(fd >= 0);
    close(fd);
    end_one(pid);
    CHECK_INT(tree_open(&child), -1);
    CHECK_INT(tree_process_id(pid, &child, NULL), -ERR_NOT_FOUND);
}

TEST(L53_the_same_pid_at_another_time_is_another_process)
{
    struct process_id child;
    pid_t pid = fork_one();
    CHECK_INT(tree_process_id(pid, &child, NULL), 0);
    child.start_time--;
    CHECK_INT(tree_open(&child), -1);
    CHECK_INT(tree_open(&(struct process_id){.pid = 0}), -1);
    CHECK_INT(tree_open(&(struct process_id){.pid = -1}), -1);
    end_one(pid);
}

TEST(a_name_with_brackets_and_blanks_hides_nothing)
{
    struct process_stat stat;
    prctl(PR_SET_NAME, ") Z 1 1 (");
    CHECK_INT(tree_stat(getpid(), &stat), 0);
    CHECK(stat.is_alive);
    CHECK_INT(stat.parent, getppid());
}

TEST(L34_a_zombie_is_not_alive)
{
    struct process_id id;
    struct process_stat stat;
    siginfo_t info;
    pid_t pid = fork_one();
    CHECK_INT(tree_process_id(pid, &id, NULL), 0);
    kill(pid, SIGKILL);
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    CHECK_INT(kill(pid, 0), 0); /* which is what fooled others */
    CHECK_INT(tree_process_id(pid, &id, NULL), -ERR_NOT_FOUND);
    CHECK_INT(tree_open(&id), -1);
    CHECK_INT(tree_stat(pid, &stat), 0);
    CHECK(!stat.is_alive && stat.start_time == id.start_time && stat.parent == getpid());
    end_one(pid);
}

static void *outlive(void *pipe_fd)
{
    /* Its first thread is a zombie, by the look of it, once the directory says so. */
    char c = 0, state = 0;
    while (state != 'Z') {
        FILE *f = fopen("/proc/self/stat", "r");
        if (!f || fscanf(f, "%*d %*s %c", &state) != 1)
            _exit(1);
        fclose(f);
    }
    if (write(*(int *)pipe_fd, &c, 1) != 1)
        _exit(2);
    wait_for_ever();
}

TEST(L34_a_process_whose_first_thread_ended_is_alive)
{
    static int fds[2];
    struct process_id id;
    char c;
    CHECK_INT(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_create(&thread, NULL, outlive, &fds[1]);
        pthread_exit(NULL);
    }
    CHECK_INT(read(fds[0], &c, 1), 1);
    CHECK_INT(tree_process_id(pid, &id, NULL), 0);
    CHECK(tree_kill_descendants());
    CHECK_INT(waitpid(pid, NULL, 0), pid);
}

/* ---- ending ---- */

/* Returns once `count` processes have said that they are there. */
static void hear(int fd, int count)
{
    char c;
    while (count-- > 0)
        CHECK_INT(read(fd, &c, 1), 1);
}

static void speak(int fd)
{
    char c = 0;
    if (write(fd, &c, 1) != 1)
        _exit(1);
}

/* True once nobody holds the other end: all that could write are dead. */
static bool is_silent(int fd)
{
    char c;
    return read(fd, &c, 1) == 0;
}

static void reap_all(void)
{
    for (;;) {
        tree_kill_descendants();
        if (waitpid(-1, NULL, 0) < 0)
            break;
    }
    CHECK_INT(errno, ECHILD);
    CHECK(!tree_kill_descendants());
}

TEST(L51_descendants_are_ended_however_deep_and_detached)
{
    int fds[2];
    CHECK_INT(pipe(fds), 0);
    CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    if (fork() == 0) {
        signal(SIGTERM, SIG_IGN);
        for (int depth = 0; depth < 100; depth++) { /* deeper than descriptors are held for */
            speak(fds[1]);
            if (depth % 3 == 0)
                setsid();
            if (fork() != 0) {
                if (depth % 5 == 1)
                    _exit(0); /* its child is an orphan */
                wait_for_ever();
            }
        }
        speak(fds[1]);
        wait_for_ever();
    }
    close(fds[1]);
    hear(fds[0], 101);
    reap_all();
    CHECK(is_silent(fds[0]));
}

_noreturn_ static void work_for_100_ms(void)
{
    while (tree_cpu_ms(getpid()) < 100)
        ;
    _exit(0);
}

/* A child whose child works, and ends: its time is counted when its parent has reaped it. */
TEST(processor_time_of_a_tree_counts_whoever_works_in_it)
{
    pid_t idle = fork_one(), busy = fork();
    CHECK(busy >= 0);
    if (busy == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fork() == 0)
            work_for_100_ms();
        wait(NULL);
        wait_for_ever();
    }
    while (tree_cpu_ms(busy) < 100)
        sched_yield();
    CHECK(tree_cpu_ms(getpid()) >= tree_cpu_ms(busy));
    CHECK(tree_cpu_ms(idle) < 100);
    CHECK_INT(kill(idle, SIGKILL) + kill(busy, SIGKILL), 0);
    while (wait(NULL) > 0)
        ;
    CHECK_INT(tree_cpu_ms(busy), 0);
}

TEST(descendants_of_others_are_not_ours)
{
    pid_t sibling = fork_one(), other = fork();
    if (other == 0) {
        fork_one();
        CHECK(tree_is_ours(getpid()) && !tree_is_ours(getppid()) && !tree_is_ours(sibling));
        CHECK(!tree_is_ours(1) && !tree_is_ours(0) && !tree_is_ours(-1));
        CHECK(tree_kill_descendants());
        CHECK(waitpid(-1, NULL, 0) > 0);
        _exit(0);
    }
    int status;
    CHECK_INT(waitpid(other, &status, 0), other);
    CHECK_INT(status, 0);
    CHECK_INT(waitpid(sibling, NULL, WNOHANG), 0); /* it lives */
    CHECK(tree_is_ours(sibling));
    end_one(sibling);
}

/* Executes a shell that waits, with this variable in its environment. */
static pid_t run_marked(const char *variable, int fd)
{
    pid_t pid = fork();
    if (pid == 0) {
        char *env[] = {(char *)"A=1", (char *)variable, (char *)"Z=1", NULL};
        char *argv[] = {(char *)"sh", (char *)"-c", (char *)"echo; exec sleep 1000", NULL};
        dup2(fd, STDOUT_FILENO);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execve("/bin/sh", argv, env);
        _exit(1);
    }
    return pid;
}

TEST(the_mark_finds_those_that_carry_it_and_no_others)
{
    int fds[2], status;
    _cleanup_free_ char *id = mem_printf("unit-%d", (int)getpid());
    _cleanup_free_ char *mark = mem_printf(SHIM_MARK "=%s", id);
    _cleanup_free_ char *longer = mem_printf(SHIM_MARK "=%s0", id);
    _cleanup_free_ char *quoted = mem_printf("X=%s", mark);
    CHECK_INT(pipe(fds), 0);
    pid_t ours = run_marked(mark, fds[1]), also = run_marked(mark, fds[1]);
    pid_t other = run_marked(longer, fds[1]), another = run_marked(quoted, fds[1]);
    hear(fds[0], 4);
    CHECK(tree_kill_marked(id));
    CHECK_INT(waitpid(ours, &status, 0), ours);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK_INT(waitpid(also, NULL, 0), also);
    CHECK(!tree_kill_marked(id));
    CHECK_INT(waitpid(other, NULL, WNOHANG), 0);
    CHECK_INT(waitpid(another, NULL, WNOHANG), 0);
    end_one(other);
    end_one(another);
}

/* A shell that says so when it is there, and from then on only executes itself again. */
static pid_t run_executing(const char *mark, int fd)
{
    pid_t pid = fork();
    if (pid == 0) {
        static const char again[] = "exec sh -c \"$0\" \"$0\"";
        char *env[] = {(char *)mark, NULL};
        char *argv[] = {(char *)"sh", (char *)"-c", (char *)"echo; exec sh -c \"$0\" \"$0\"",
                        (char *)again, NULL};
        dup2(fd, STDOUT_FILENO);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execve("/bin/sh", argv, env);
        _exit(1);
    }
    return pid;
}

TEST(P15_the_mark_is_found_in_the_middle_of_an_exec)
{
    int fds[2];
    _cleanup_free_ char *id = mem_printf("unit-exec-%d", (int)getpid());
    _cleanup_free_ char *mark = mem_printf(SHIM_MARK "=%s", id);
    CHECK_INT(pipe(fds), 0);
    for (int i = 0; i < EXECUTIONS; i++) {
        pid_t pid = run_executing(mark, fds[1]);
        hear(fds[0], 1);
        CHECK(tree_kill_marked(id)); /* at whatever point it is by now */
        CHECK_INT(waitpid(pid, NULL, 0), pid);
    }
}

/* ---- pids that are used again ---- */

/* In a pid namespace of our own: makes the next fork get this pid, if nobody has it. */
static bool ask_for_pid(pid_t pid)
{
    FILE *f = fopen("/proc/sys/kernel/ns_last_pid", "w");
    if (!f)
        return false;
    fprintf(f, "%d", (int)pid - 1);
    return fclose(f) == 0;
}

/* A stranger with the pid of one that has ended. Within one tick of the clock of start times the
 * two could not be told apart: then it is tried again. */
static pid_t reuse(const struct process_id *gone)
{
    struct process_id id;
    for (;;) {
        if (!ask_for_pid(gone->pid))
            _exit(3);
        pid_t stranger = fork_one();
        CHECK_INT(stranger, gone->pid);
        CHECK_INT(tree_process_id(stranger, &id, NULL), 0);
        if (id.start_time != gone->start_time)
            return stranger;
        end_one(stranger);
    }
}

_noreturn_ static void in_the_namespace(void)
{
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("proc", "/proc", "proc", 0, NULL) < 0)
        _exit(3);
    for (int i = 0; i < REUSES; i++) {
        struct process_id gone;
        pid_t pid = fork_one();
        CHECK_INT(tree_process_id(pid, &gone, NULL), 0);
        int held = tree_open(&gone);
        end_one(pid);
        pid_t stranger = reuse(&gone);
        CHECK_INT(kill(gone.pid, 0), 0); /* by pid it would be hit */
        CHECK_INT(tree_open(&gone), -1);
        CHECK_INT(pidfd_send_signal(held, SIGKILL, NULL, 0), -1);
        CHECK_INT(errno, ESRCH);
        CHECK(!tree_kill_marked("nobody"));
        CHECK_INT(waitpid(stranger, NULL, WNOHANG), 0);
        close(held);
        end_one(stranger);
    }
    _exit(0);
}

TEST(L53_W9_a_pid_that_is_used_again_signals_no_stranger)
{
    int status;
    pid_t outer = fork();
    if (outer == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
            _exit(3);
        pid_t first = fork();
        if (first == 0)
            in_the_namespace();
        _exit(waitpid(first, &status, 0) == first && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    CHECK_INT(waitpid(outer, &status, 0), outer);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
        tap_skip("a pid namespace with its own /proc and ns_last_pid cannot be had here");
    CHECK_INT(status, 0);
}

/* ---- cgroups ---- */

static char *file_named(const char *name)
{
    return mem_printf("%s/%s", tap_folder(), name);
}

static void write_file(const char *name, const char *text)
{
    _cleanup_free_ char *path = file_named(name);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(a_cgroup_is_looked_for_where_it_is_mounted)
{
    char *ret = NULL;
    const char *folder = tap_folder();
    _cleanup_free_ char *deep = mem_printf("%s/deep", folder);
    CHECK_INT(cgroup_make(folder, NULL), 0);
    CHECK_INT(cgroup_make(deep, NULL), 0);
    write_file("deep/cgroup.procs", "");
    _cleanup_free_ char *line =
        mem_printf("30 23 0:26 / /nowhere rw - cgroup none rw\n"
                   "31 23 0:27 /outer %s rw,relatime shared:9 - cgroup2 cgroup2 rw\n",
                   folder);
    _cleanup_free_ char *mounts = file_named("mounts"), *groups = file_named("groups");
    write_file("mounts", line);
    write_file("groups", "4:memory:/x\n0::/outer/deep\n");
    CHECK_INT(cgroup_find_in(groups, mounts, &ret), 0);
    CHECK_Z(ret, deep);
    mem_freep(&ret);
    /* Not writable, not below what is mounted, no version 2, no such file. */
    const char *no[] = {"0::/outer\n", "0::/outermost/deep\n", "4:memory:/outer/deep\n", ""};
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        write_file("groups", no[i]);
        CHECK_INT(cgroup_find_in(groups, mounts, &ret), -ERR_NOT_FOUND);
    }
    CHECK_INT(cgroup_find_in("/no/such", mounts, &ret), -ERR_NOT_FOUND);
    CHECK(ret == NULL);
}

TEST(an_out_of_memory_kill_is_read_from_the_cgroup)
{
    const char *folder = tap_folder();
    CHECK(!cgroup_has_oom_kill(folder));
    write_file("memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 0\noom_group_kill 1\n");
    CHECK(!cgroup_has_oom_kill(folder));
    write_file("memory.events", "low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\noom_group_kill 0\n");
    CHECK(cgroup_has_oom_kill(folder));
}

TEST(a_real_cgroup_is_made_killed_and_removed)
{
    _cleanup_free_ char *parent = NULL;
    if (cgroup_find(&parent) < 0)
        tap_skip("no cgroup of version 2 can be made here");
    _cleanup_free_ char *path = mem_printf("%s/reeve-unit-%d", parent, (int)getpid());
    _cleanup_free_ char *inner = mem_printf("%s/inner", path);
    CHECK_INT(cgroup_make(path, NULL), 0);
    CHECK_INT(cgroup_make(inner, NULL), 0);
    int fd = cgroup_open(path);
    CHECK(fd >= 0);
    pid_t pid = cgroup_fork(fd);
    CHECK(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        wait_for_ever();
    }
    close(fd);
    bool can_kill = cgroup_kill(path);
    if (!can_kill)
        kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    cgroup_remove(path);
    CHECK(access(path, F_OK) < 0);
    if (!can_kill)
        tap_skip("this kernel has no cgroup.kill");
}
