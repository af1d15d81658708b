/*
 * cgroup.c: see cgroup.h.
 *
 * The cgroup of a spawn is a child of the machine's own. That needs no rights beyond those a
 * delegated unit or a user's session has, and stays inside whatever limits the machine was given.
 * The memory controller is asked for, and is refused wherever the parent itself holds processes and
 * is not the root: then an out-of-memory kill looks like any other SIGKILL, which is said as such.
 *
 * An agent is born in its cgroup. Rejected: moving it there by a write to cgroup.procs, for which
 * the kernel first waits until every processor has been through a quiet moment: 5 to 20 ms, more
 * than all the rest of a restart.
 */
#include "machine/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

enum { SMALL_FILE_BYTES_MAX = 1 << 20 };

/* ---- where ---- */

/* The rest of the line "0::/path", cut off; NULL if there is no version 2. */
static char *own_path(struct buf *text)
{
    for (char *line = text->len ? text->data : NULL, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (strncmp(line, "0::", 3) == 0)
            return line + 3;
    }
    return NULL;
}

/* "36 35 0:31 ROOT MOUNTPOINT options … - cgroup2 …" */
static bool read_mount(char *line, char **ret_root, char **ret_point)
{
    if (!strstr(line, " - cgroup2 "))
        return false;
    char *save, *word[5];
    for (size_t i = 0; i < ARRAY_LEN(word); i++)
        if (!(word[i] = strtok_r(i ? NULL : line, " ", &save)))
            return false;
    *ret_root = word[3];
    *ret_point = word[4];
    return true;
}

/* Where `own` is to be seen: a container may have mounted only what is below `root`. */
static char *place_below(const char *own, const char *root, const char *point)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(own, root, n) != 0 || (own[n] != '/' && own[n] != '\0'))
        return NULL;
    return mem_printf("%s%s", point, strcmp(own + n, "/") == 0 ? "" : own + n);
}

static char *place_of(const char *own, struct buf *mounts)
{
    char *save, *root, *point;
    for (char *line = mounts->len ? strtok_r(mounts->data, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char *place = read_mount(line, &root, &point) ? place_below(own, root, point) : NULL;
        if (place)
            return place;
    }
    return NULL;
}

/* Putting a process there needs the right to write to the group that it comes from. */
static bool is_writable(const char *path)
{
    _cleanup_free_ char *procs = mem_printf("%s/cgroup.procs", path);
    return access(path, W_OK) == 0 && access(procs, W_OK) == 0;
}

/* Best effort: it is there already, or not to be had. */
static bool write_file(const char *path, const char *name, const char *text)
{
    _cleanup_free_ char *file = mem_printf("%s/%s", path, name);
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    bool is_done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return is_done;
}

int cgroup_find_in(const char *cgroup_file, const char *mounts_file, char **ret)
{
    _cleanup_buf_ struct buf groups = BUF_INIT(SMALL_FILE_BYTES_MAX);
    _cleanup_buf_ struct buf mounts = BUF_INIT(SMALL_FILE_BYTES_MAX);
    if (file_read(cgroup_file, &groups) < 0 || file_read(mounts_file, &mounts) < 0)
        return -ERR_NOT_FOUND;
    const char *own = own_path(&groups);
    _cleanup_free_ char *place = own ? place_of(own, &mounts) : NULL;
    if (!place || !is_writable(place))
        return -ERR_NOT_FOUND;
    write_file(place, "cgroup.subtree_control", "+memory");
    *ret = TAKE_PTR(place);
    return 0;
}

int cgroup_find(char **ret)
{
    return cgroup_find_in("/proc/self/cgroup", "/proc/self/mountinfo", ret);
}

/* ---- one of a spawn ---- */

int cgroup_make(const char *path, struct err *err)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return file_error(err, "make the cgroup", path);
    return 0;
}

int cgroup_open(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* glibc has no name for this, and what it keeps about the calling thread is the parent's in the
 * child: no more than system calls, until exec. */
pid_t cgroup_fork(int fd)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)fd};
    return (pid_t)syscall(SYS_clone3, &args, sizeof args);
}

bool cgroup_kill(const char *path)
{
    return write_file(path, "cgroup.kill", "1");
}

bool cgroup_has_oom_kill(const char *path)
{
    _cleanup_free_ char *file = mem_printf("%s/memory.events", path);
    _cleanup_buf_ struct buf text = BUF_INIT(SMALL_FILE_BYTES_MAX);
    if (file_read(file, &text) < 0 || !text.len)
        return false;
    const char *count = strstr(text.data, "oom_kill ");
    return count && atoi(count + strlen("oom_kill ")) > 0;
}

void cgroup_remove(const char *path)
{
    DIR *groups = opendir(path);
    for (struct dirent *e; groups && (e = readdir(groups));) {
        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        _cleanup_free_ char *inner = mem_printf("%s/%s", path, e->d_name);
        cgroup_remove(inner);
    }
    if (groups)
        closedir(groups);
    rmdir(path);
}
