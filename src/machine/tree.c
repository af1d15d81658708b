/*
 * tree.c: see tree.h.
 *
 * Nothing here remembers a process from one call to the next: /proc is read anew each time.
 *
 * Descendants are found level by level, and a pidfd is held on each while its children are looked
 * at. That makes the proof whole: a process is signalled if, after its own pidfd was opened, its
 * parent was the one we hold, and the one we hold was not yet reaped after that. On the way down
 * each is stopped, so that it forks no more while its children are ended; on the way up each is
 * killed. Whatever escapes this (it forked between two reads) is orphaned by it, so it is a child
 * of the subreaper in the next call.
 *
 * The mark is not to be seen in a process that is just executing another program: for a moment its
 * environment is empty (one look in sixteen at a shell that does nothing else). Such a process is
 * looked at again; it may be the last of its tree, and would be left behind.
 *
 * A process whose first thread has ended while others run looks like a zombie. It is none, and is
 * not taken for one: it is told apart by its count of threads.
 *
 * Needs /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN, which distributions set). Killing by
 * group or by walking all of /proc was rejected: the first misses whoever called setsid(), the
 * second costs each of a thousand shims a look at every process of the host.
 */
#include "machine/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/planted.h"
#include "machine/shim.h"

enum {
    PATH_BYTES = 64,
    STAT_BYTES = 1024,
    EXEC_LOOKS_MAX = 100,
    EXEC_LOOK_NS = 200000,
    STEPS_MAX = 4096,
    DEPTH_MAX = 64,                    /* each level holds a descriptor */
    ENVIRONMENT_BYTES_MAX = 8 << 20,   /* the kernel's own limit is lower */
    CHILDREN_BYTES_MAX = 8 * (4 << 20) /* of a thread: as many as there can be pids */
};

/* As proc(5) counts what stands in /proc/PID/stat. */
enum stat_number {
    STAT_STATE = 3,
    STAT_USER = 14, /* then: system, and both again of the children it has reaped */
    STAT_REAPED_SYSTEM = 17,
    STAT_MEMORY = 23,
    STAT_ENV_START = 50,
    STAT_ENV_END = 51
};

/* ---- who is it ---- */

int tree_boot_id(char ret[BOOT_ID_BYTES], struct err *err)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    _cleanup_buf_ struct buf text = BUF_INIT(4096 * 2);
    int r = file_read(path, &text);
    if (r < 0 || text.len < BOOT_ID_BYTES - 1)
        return err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(-r));
    memcpy(ret, text.data, BOOT_ID_BYTES - 1);
    ret[BOOT_ID_BYTES - 1] = '\0';
    return 0;
}

/* What follows the name in /proc/PID/stat, from the state on; NULL if there is no such process. */
static const char *read_stat(pid_t pid, char text[static STAT_BYTES])
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    ssize_t n = read(fd, text, STAT_BYTES - 1);
    close(fd);
    if (n <= 0)
        return NULL; /* it was reaped in between */
    text[n] = '\0';
    /* A program can put blanks and brackets into its name; the last bracket ends it. */
    const char *rest = strrchr(text, ')');
    return rest ? rest + 1 : NULL;
}

static uint64_t stat_field(const char *rest, enum stat_number number)
{
    for (int i = STAT_STATE; rest && i < (int)number; i++)
        rest = strchr(rest + 1, ' ');
    return rest ? strtoull(rest, NULL, 10) : 0;
}

int tree_stat(pid_t pid, struct process_stat *ret)
{
    char text[STAT_BYTES], state;
    const char *rest = read_stat(pid, text);
    int parent, threads;
    long long start_time;
    if (!rest || sscanf(rest,
                        " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d"
                        " %lld",
                        &state, &parent, &threads, &start_time) != 4)
        return -ERR_NOT_FOUND;
    *ret = (struct process_stat){
        .parent = parent,
        .start_time = start_time,
        .is_alive = (state != 'Z' && state != 'X') || threads > 1 || planted(ZOMBIE_IS_ALIVE),
    };
    return 0;
}

int tree_process_id(pid_t pid, struct process_id *ret, struct err *err)
{
    struct process_stat stat;
    if (tree_stat(pid, &stat) < 0 || !stat.is_alive)
        return err_set(err, ERR_NOT_FOUND, "there is no process %d", (int)pid);
    *ret = (struct process_id){.pid = pid, .start_time = stat.start_time};
    return 0;
}

int tree_open(const struct process_id *p)
{
    struct process_stat now;
    int fd = p->pid > 0 ? pidfd_open(p->pid, 0) : -1;
    if (fd < 0)
        return -1;
    if (tree_stat(p->pid, &now) == 0 && now.is_alive &&
        (now.start_time == p->start_time || planted(PID_ALONE)))
        return fd;
    close(fd);
    return -1;
}

bool tree_is_ours(pid_t pid)
{
    struct process_stat stat;
    pid_t at = pid;
    /* The count ends a walk among processes that come and go faster than we can read. */
    for (unsigned steps = 0; at > 0 && at != getpid() && steps < STEPS_MAX; steps++)
        if (tree_stat(at, &stat) == 0)
            at = stat.parent;
        else if (at != pid)
            at = pid; /* one in between has ended: its children have another parent now */
        else
            return false;
    return at == getpid();
}

/* ---- descendants ---- */

typedef void child_fn(pid_t child, void *ctx);

/* A child belongs to the thread that made it. */
static void each_child_of_thread(pid_t pid, const char *thread, child_fn *fn, void *ctx)
{
    char path[PATH_BYTES];
    _cleanup_buf_ struct buf text = BUF_INIT(CHILDREN_BYTES_MAX);
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)pid, thread);
    if (file_read(path, &text) < 0 || !text.len)
        return;
    for (char *p = text.data, *end;; p = end) {
        pid_t child = (pid_t)strtol(p, &end, 10);
        if (end == p)
            return;
        fn(child, ctx);
    }
}

static void each_child(pid_t pid, child_fn *fn, void *ctx)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    for (struct dirent *e; threads && (e = readdir(threads));)
        if (isdigit((unsigned char)e->d_name[0]))
            each_child_of_thread(pid, e->d_name, fn, ctx);
    if (threads)
        closedir(threads);
}

struct cpu {
    uint64_t ticks;
    unsigned depth;
};

static void add_cpu(pid_t pid, void *ctx)
{
    struct cpu *cpu = ctx;
    char text[STAT_BYTES];
    const char *rest = read_stat(pid, text);
    for (int i = STAT_USER; i <= STAT_REAPED_SYSTEM; i++)
        cpu->ticks += stat_field(rest, (enum stat_number)i);
    if (cpu->depth < DEPTH_MAX) {
        cpu->depth++;
        each_child(pid, add_cpu, cpu);
        cpu->depth--;
    }
}

int64_t tree_cpu_ms(pid_t pid)
{
    struct cpu cpu = {0};
    add_cpu(pid, &cpu);
    return (int64_t)(cpu.ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

static bool kill_children_of(pid_t pid, int fd, unsigned depth);

/* After this, what the pidfd was opened for is known to have had its pid all the time. */
static bool is_still_there(int fd)
{
    return pidfd_send_signal(fd, 0, NULL, 0) == 0;
}

/* `parent_fd` is -1 if we are the parent: our own children keep their pids until we reap them. */
static bool kill_child(pid_t pid, pid_t parent, int parent_fd, unsigned depth)
{
    struct process_stat stat;
    int fd = pidfd_open(pid, 0);
    if (fd < 0)
        return false;
    bool is_child = tree_stat(pid, &stat) == 0 && stat.is_alive && stat.parent == parent &&
                    (parent_fd < 0 || is_still_there(parent_fd));
    if (is_child) {
        pidfd_send_signal(fd, SIGSTOP, NULL, 0);
        if (depth < DEPTH_MAX)
            kill_children_of(pid, fd, depth + 1);
        pidfd_send_signal(fd, SIGKILL, NULL, 0);
    }
    close(fd);
    return is_child;
}

struct killing {
    pid_t parent;
    int parent_fd;
    unsigned depth;
    bool is_any;
};

static void kill_one(pid_t child, void *ctx)
{
    struct killing *k = ctx;
    k->is_any |= kill_child(child, k->parent, k->parent_fd, k->depth);
}

static bool kill_children_of(pid_t pid, int fd, unsigned depth)
{
    struct killing k = {.parent = pid, .parent_fd = fd, .depth = depth};
    each_child(pid, kill_one, &k);
    return k.is_any;
}

bool tree_kill_descendants(void)
{
    return kill_children_of(getpid(), -1, 0);
}

/* ---- by the mark ---- */

static bool has_mark(const struct buf *environment, struct str mark)
{
    for (size_t i = 0; i < environment->len; i += strlen(environment->data + i) + 1)
        if (str_is(mark, environment->data + i))
            return true;
    return false;
}

/* It has memory, and an environment or none yet. One that is empty has a place as well, and a
 * process that has ended has no memory any more. */
static bool has_environment(pid_t pid)
{
    char text[STAT_BYTES];
    const char *rest = read_stat(pid, text);
    uint64_t start = stat_field(rest, STAT_ENV_START), end = stat_field(rest, STAT_ENV_END);
    return stat_field(rest, STAT_MEMORY) && (start != end || !end);
}

/* False if it cannot be read: the process is in the middle of execve() and does not come out of
 * it. Nothing is read of one that has gone, or is somebody else's. */
static bool read_environment(pid_t pid, struct buf *ret)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    for (int i = 0; i < EXEC_LOOKS_MAX; i++) {
        if (file_read(path, ret) < 0 || ret->len || !has_environment(pid))
            return true;
        nanosleep(&(struct timespec){.tv_nsec = EXEC_LOOK_NS}, NULL);
    }
    return false;
}

/* True also if it may have the mark, which the next call will show. */
static bool kill_if_marked(pid_t pid, struct str mark)
{
    _cleanup_buf_ struct buf environment = BUF_INIT(ENVIRONMENT_BYTES_MAX);
    int fd = pid == getpid() ? -1 : pidfd_open(pid, 0);
    if (fd < 0)
        return false;
    bool is_known = read_environment(pid, &environment);
    bool is_marked = has_mark(&environment, mark);
    if (is_marked)
        pidfd_send_signal(fd, SIGKILL, NULL, 0);
    close(fd);
    return is_marked || !is_known;
}

bool tree_kill_marked(const char *spawn_id)
{
    _cleanup_free_ char *mark = mem_printf(SHIM_MARK "=%s", spawn_id);
    DIR *processes = opendir("/proc");
    bool is_any = false;
    for (struct dirent *e; processes && (e = readdir(processes));)
        if (isdigit((unsigned char)e->d_name[0]))
            is_any |= kill_if_marked((pid_t)atoi(e->d_name), str_of(mark));
    if (processes)
        closedir(processes);
    return is_any;
}
