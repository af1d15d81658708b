/*
 * launch.c: see launch.h.
 *
 * posix_spawn() shares our memory until the exec, so what a start costs does not grow with us, and
 * a shim that cannot be executed is an error here and not a child that died. The order travels in a
 * memory file: it is whole before the shim exists, so our death cannot cut it short, and neither
 * token nor environment ever lie in a file or show in a command line.
 *
 * The shim carries the mark of its spawn too. A machine that was killed while it started one finds
 * it by that, even if the shim has not yet said who it is (spawns.c).
 */
#include "machine/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/planted.h"
#include "machine/cgroup.h"
#include "machine/shim.h"

enum { VARIABLES_MAX = 4096 };

/* ---- environment ---- */

struct variables {
    const char **list; /* NAME=value */
    size_t count;
};

static struct str name_of(const char *variable)
{
    const char *equals = strchr(variable, '=');
    return (struct str){variable, equals ? (size_t)(equals - variable) : strlen(variable)};
}

static const char *variable_get(const struct variables *v, const char *name)
{
    for (size_t i = 0; i < v->count; i++)
        if (str_is(name_of(v->list[i]), name))
            return v->list[i] + strlen(name) + 1;
    return NULL;
}

static void variable_set(struct variables *v, const char *variable)
{
    for (size_t i = 0; i < v->count; i++)
        if (str_eq(name_of(v->list[i]), name_of(variable))) {
            v->list[i] = variable;
            return;
        }
    if (v->count < VARIABLES_MAX)
        v->list[v->count++] = variable;
}

static void variable_setf(struct variables *v, struct arena *a, const char *name, const char *value)
{
    if (value)
        variable_set(v, arena_printf(a, "%s=%s", name, value).p);
}

/* What a service manager told the machine about the machine. */
static bool is_the_machines_own(const char *variable)
{
    static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_PID",   "WATCHDOG_USEC",
                                        "LISTEN_PID",    "LISTEN_FDS",     "LISTEN_FDNAMES",
                                        "INVOCATION_ID", "JOURNAL_STREAM", "MAINPID"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_is(name_of(variable), names[i]))
            return true;
    return str_starts(str_of(variable), STR("REEVE_")) || !strchr(variable, '=');
}

static void keep_people_out(struct variables *v)
{
    static const char *const defaults[] = {
        "GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true",       "EDITOR=true",
        "VISUAL=true",     "GIT_TERMINAL_PROMPT=0",          "PAGER=cat",
        "GIT_PAGER=cat",   "DEBIAN_FRONTEND=noninteractive", "TERM=dumb",
    };
    for (size_t i = 0; i < ARRAY_LEN(defaults); i++)
        variable_set(v, defaults[i]);
}

static void add_to_path(const struct launch *l, struct variables *v, struct arena *a)
{
    const char *path = variable_get(v, "PATH");
    struct str with_ours =
        arena_printf(a, "PATH=%s:%s", path && *path ? path : "/usr/bin:/bin", l->program_folder);
    variable_set(v, with_ours.p);
}

const char **launch_environment(const struct launch *l, const struct kind *kind,
                                const struct agent_identity *who, const char *const *inherited,
                                struct arena *a)
{
    struct variables v = {.list = arena_alloc(a, (VARIABLES_MAX + 1) * sizeof *v.list)};
    for (; *inherited; inherited++)
        if (!is_the_machines_own(*inherited))
            variable_set(&v, *inherited);
    if (!kind->is_interactive)
        keep_people_out(&v);
    for (const char **own = kind->env; *own; own++)
        variable_set(&v, *own);
    add_to_path(l, &v, a);
    variable_setf(&v, a, "REEVE_URL", who->url);
    variable_setf(&v, a, "REEVE_TOKEN", who->token);
    variable_setf(&v, a, "REEVE_CONVERSATION", who->conversation);
    variable_setf(&v, a, "REEVE_ROLE", who->role);
    variable_setf(&v, a, SHIM_MARK, who->spawn_id);
    v.list[v.count] = NULL;
    return v.list;
}

/* ---- the shim ---- */

static int find_program(struct launch *l, struct err *err)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return file_error(err, "find", "/proc/self/exe");
    path[n] = '\0';
    const char *slash = strrchr(path, '/');
    l->program_folder = mem_strndup(path, slash ? (size_t)(slash - path) : 0);
    l->shim = mem_printf("%s/reeve-shim", l->program_folder);
    l->is_reeve = access(l->shim, X_OK) < 0;
    if (l->is_reeve) {
        free(l->shim);
        l->shim = mem_strdup(path);
    }
    return 0;
}

int launch_init(struct launch *l, const char *data_folder, struct err *err)
{
    _cleanup_free_ char *complaints = mem_printf("%s/shims.log", data_folder);
    *l = (struct launch){.complaints = -1};
    int r = find_program(l, err);
    if (r < 0)
        return r;
    if (cgroup_find(&l->cgroup) < 0)
        l->cgroup = NULL;
    l->complaints = open(complaints, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    return l->complaints < 0 ? file_error(err, "open", complaints) : 0;
}

void launch_release(struct launch *l)
{
    if (!l)
        return;
    if (l->complaints >= 0)
        close(l->complaints);
    free(l->program_folder);
    free(l->shim);
    free(l->cgroup);
    *l = (struct launch){.complaints = -1};
}

/* The order as a file that has no name; -1 if there is no memory for one. */
static int order_file(const struct order *order)
{
    _cleanup_buf_ struct buf text = BUF_INIT(ORDER_BYTES_MAX);
    order_write(order, &text);
    int fd = text.overflow ? -1 : memfd_create("order", MFD_CLOEXEC);
    if (text.overflow)
        errno = E2BIG;
    if (fd >= 0 &&
        (write(fd, text.data, text.len) != (ssize_t)text.len || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* What it gets of us: three streams, the line, the mark; no blocked and no ignored signals. */
static int spawn(const struct launch *l, const char *spawn_id, int order_fd, int line_fd,
                 pid_t *ret)
{
    char name[] = "reeve-shim", word[] = "shim", *argv[] = {name, l->is_reeve ? word : NULL, NULL};
    char mark[sizeof SHIM_MARK + 64], *env[] = {mark, planted_variable(), NULL};
    sigset_t none, all;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    snprintf(mark, sizeof mark, SHIM_MARK "=%s", spawn_id);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, order_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, l->complaints, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, l->complaints, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&files, line_fd, SHIM_LINE_FD);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    int r = posix_spawn(ret, l->shim, &files, &how, argv, env);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return r;
}

static int launch_with(const struct launch *l, const struct order *order, int order_fd, int line[2],
                       struct launched *ret, struct err *err)
{
    pid_t pid;
    int r = spawn(l, order->spawn_id, order_fd, line[1], &pid);
    if (r != 0)
        return err_set(err, ERR_IO, "cannot run %.160s: %s", l->shim, strerror(r));
    int pidfd = pidfd_open(pid, 0); /* ours, and not yet reaped */
    REQUIRE_F(pidfd >= 0, "pidfd_open: %s", strerror(errno));
    fcntl(line[0], F_SETFL, O_NONBLOCK);
    *ret = (struct launched){.pid = pid, .pidfd = pidfd, .line = TAKE_FD(line[0])};
    return 0;
}

int launch_shim(const struct launch *l, const struct order *order, struct launched *ret,
                struct err *err)
{
    int line[2] = {-1, -1}, order_fd = order_file(order);
    int r =
        order_fd < 0 ? err_set(err, ERR_IO, "cannot hand over an order: %s", strerror(errno)) : 0;
    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) < 0)
        r = err_set(err, ERR_IO, "cannot make a line: %s", strerror(errno));
    if (r == 0)
        r = launch_with(l, order, order_fd, line, ret, err);
    const int fds[] = {order_fd, line[0], line[1]};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return r;
}
