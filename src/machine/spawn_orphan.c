/*
 * spawn_orphan.c: ending the tree of a shim that was killed.
 *
 * All of it again and again, until a pass finds nothing: its cgroup; what carries its mark; and our
 * own children that are no shims. The latter are what dead shims left, since we are a subreaper and
 * start nothing but shims; each that we kill leaves its own children to us in turn. After a restart
 * of ours a shim is not our child, and what it leaves goes to init: cgroup and mark are then all
 * there is.
 */
#include "machine/spawn.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "machine/cgroup.h"
#include "machine/tree.h"

enum { PASS_MS_FIRST = 5, PASS_MS_MAX = 1000 };

static bool is_shim(const struct spawns *s, pid_t pid)
{
    for (const struct spawn *sp = s->first; sp; sp = sp->next)
        if (sp->shim.pid == pid && sp->shim_io.fd >= 0)
            return true;
    return false;
}

static bool kill_if_orphan(const struct spawns *s, pid_t pid)
{
    struct process_stat stat;
    if (is_shim(s, pid) || tree_stat(pid, &stat) < 0 || !stat.is_alive)
        return false;
    int fd = pidfd_open(pid, 0); /* a child of ours keeps its pid until we reap it */
    if (fd >= 0) {
        pidfd_send_signal(fd, SIGKILL, NULL, 0);
        close(fd);
    }
    return true;
}

/* Our children that are no shims. */
static bool kill_orphans(const struct spawns *s)
{
    DIR *threads = opendir("/proc/self/task");
    bool is_any = false;
    for (struct dirent *e; threads && (e = readdir(threads));) {
        _cleanup_free_ char *path = mem_printf("/proc/self/task/%s/children", e->d_name);
        _cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
        if (e->d_name[0] == '.' || file_read(path, &text) < 0 || !text.len)
            continue;
        for (char *at = text.data, *after;; at = after) {
            pid_t pid = (pid_t)strtol(at, &after, 10);
            if (after == at)
                break;
            is_any |= kill_if_orphan(s, pid);
        }
    }
    if (threads)
        closedir(threads);
    return is_any;
}

void spawn_reap_all(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

/* True once the cgroup is gone, or there is none: the kernel removes none that holds a process. */
static bool end_cgroup(const struct spawn *sp)
{
    _cleanup_free_ char *path = spawn_cgroup(sp);
    if (!path || access(path, F_OK) < 0)
        return true;
    cgroup_kill(path);
    cgroup_remove(path);
    return access(path, F_OK) < 0;
}

/* One pass over everything that may be left of it. True if there was nothing. */
static bool is_tree_gone(const struct spawn *sp)
{
    bool is_gone = end_cgroup(sp);
    is_gone &= !tree_kill_marked(sp->id);
    is_gone &= !kill_orphans(sp->table);
    spawn_reap_all();
    return is_gone;
}

static void end_orphaned(struct loop_timer *timer)
{
    struct spawn *sp = CONTAINER_OF(timer, struct spawn, timer);
    struct spawns *s = sp->table;
    if (!is_tree_gone(sp)) {
        sp->pass_ms = MIN(sp->pass_ms * 2, (int64_t)PASS_MS_MAX);
        loop_timer_set(s->loop, timer, loop_now_us(s->loop) + sp->pass_ms * 1000, end_orphaned);
        return;
    }
    const struct ended e = {
        .ending = sp->is_stop_asked ? ENDING_STOPPED : ENDING_EXITED,
        .code = -1,
        .text = STR("its shim was killed: nobody saw how it ended; nothing of it is left"),
    };
    spawn_end(sp, &e, false);
    spawns_settle(s);
}

void spawn_orphan(struct spawn *sp)
{
    spawn_set_state(sp, SPAWN_ORPHANED, "the shim died without a last word");
    log_warn("spawn", "the shim died without a last word", "agent=%lld:%s spawn=%s shim=%d",
             (long long)sp->about.conversation, sp->about.role, sp->id, (int)sp->shim.pid);
    spawn_close(sp, &sp->line_io);
    sp->pass_ms = PASS_MS_FIRST;
    loop_timer_set(sp->table->loop, &sp->timer, clock_mono_us(), end_orphaned);
}
