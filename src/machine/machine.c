/*
 * machine.c: the wiring of the daemon, its folder, and its signals. See machine.h.
 *
 * Order matters at both ends. At the start: the lock, before anything is read that another daemon
 * may write; the signals, before there are threads and before machine.json says whom to signal; the
 * old spawns, before the server is told what there is. At the end of `down`: the agents first, then
 * their facts, then the outbox (L57).
 *
 * `reeve down` is a signal and not a socket with a protocol: there is one thing to say, and that it
 * was heard shows in the end of the daemon. It goes to a pidfd that was checked against
 * machine.json by start time, so never to a stranger with the same number (L53).
 */
#include "machine/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/random.h"
#include "machine/agent_log.h"
#include "machine/kinds.h"
#include "machine/launch.h"
#include "machine/link.h"
#include "machine/facts.h"
#include "machine/spawns.h"
#include "machine/tree.h"

enum {
    LOCK_WAIT_MS_MAX = 10000,
    LOCK_LOOK_MS = 20,
    INSTANCE_BYTES = 16,
    TELL_MS_MAX = 5000,                 /* that a server may take to hear how agents were stopped */
    LOG_REQUEST_BYTES_MAX = 900 * 1024, /* as JSON: what a server takes in one request */
};

struct machine {
    char *folder; /* absolute */
    char name[KIND_NAME_BYTES_MAX + 1];
    char hostname[128], boot_id[BOOT_ID_BYTES], instance[2 * INSTANCE_BYTES + 1];
    int lock_fd;
    struct kinds kinds;
    struct launch launch;
    struct loop *loop;
    struct facts *outbox;
    struct spawns *spawns;
    struct link *link; /* NULL: it is only here to stop what there is */
    struct loop_timer give_up;
    bool is_quiet; /* told to stop all, and nothing is left */
    int status;
};

/* ---- the folder ---- */

struct daemon {
    struct process_id process;
    char boot_id[BOOT_ID_BYTES];
};

static char *path_in(const char *folder, const char *name)
{
    return mem_printf("%s/%s", folder, name);
}

/* Who machine.json names; all zero if there is none. */
static struct daemon read_daemon(const char *folder)
{
    _cleanup_free_ char *path = path_in(folder, "machine.json");
    _cleanup_buf_ struct buf text = BUF_INIT(4096 * 2);
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *json;
    struct daemon d = {0};
    if (file_read(path, &text) < 0 ||
        json_parse(&a, buf_str(&text), JSON_DEPTH_DEFAULT, &json, NULL) < 0)
        return d;
    d.process.pid = (pid_t)json_get_int(json, "pid", 0);
    d.process.start_time = json_get_int(json, "startTime", 0);
    snprintf(d.boot_id, sizeof d.boot_id, "%.*s", STR_ARG(json_get_text(json, "bootId")));
    return d;
}

static int write_daemon(const struct machine *m, struct err *err)
{
    _cleanup_free_ char *path = path_in(m->folder, "machine.json");
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    struct json_out out = JSON_OUT(&text);
    struct process_id self;
    int r = tree_process_id(getpid(), &self, err);
    if (r < 0)
        return r;
    json_object(&out, NULL);
    json_int(&out, "pid", self.pid);
    json_int(&out, "startTime", self.start_time);
    json_stringz(&out, "bootId", m->boot_id);
    json_stringz(&out, "name", m->name);
    json_end(&out);
    buf_addc(&text, '\n');
    return file_replace(path, buf_str(&text), false, err);
}

/* Looked at every few milliseconds: the kernel tells nobody that a lock was let go of, unless he
 * waits for it without a limit. */
static int take_lock(struct machine *m, struct err *err)
{
    _cleanup_free_ char *path = path_in(m->folder, "machine.lock");
    int64_t give_up_us = clock_mono_us() + (int64_t)LOCK_WAIT_MS_MAX * 1000;
    m->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (m->lock_fd < 0)
        return file_error(err, "open", path);
    while (flock(m->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return file_error(err, "lock", path);
        if (clock_mono_us() > give_up_us)
            return err_set(err, ERR_UNAVAILABLE,
                           "the folder %.120s is in use by another machine, process %d", m->folder,
                           (int)read_daemon(m->folder).process.pid);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_LOOK_MS * 1000000}, NULL);
    }
    return 0;
}

static int open_folder(struct machine *m, const char *folder, struct err *err)
{
    int r = file_make_data_folder(folder, err);
    if (r < 0)
        return r;
    m->folder = realpath(folder, NULL);
    return m->folder ? take_lock(m, err) : file_error(err, "find", folder);
}

/* ---- who we are ---- */

/* What a name may hold, of what hosts are called. */
static void name_of_host(const char *host, char *ret, size_t room)
{
    size_t n = 0;
    for (; *host && n + 1 < room; host++) {
        char c = (char)tolower((unsigned char)*host);
        ret[n++] = kind_name_is_valid((struct str){&c, 1}) ? c : '-';
    }
    snprintf(ret + n, room - n, "%s", n ? "" : "machine");
}

static int find_identity(struct machine *m, const char *name, struct err *err)
{
    if (gethostname(m->hostname, sizeof m->hostname - 1) < 0)
        snprintf(m->hostname, sizeof m->hostname, "localhost");
    if (name && !kind_name_is_valid(str_of(name)))
        return err_set(err, ERR_USAGE, "--name %.80s: a name is 1 to %d of a-z, 0-9, _ and -", name,
                       KIND_NAME_BYTES_MAX);
    if (name)
        snprintf(m->name, sizeof m->name, "%s", name);
    else
        name_of_host(m->hostname, m->name, sizeof m->name);
    random_hex(INSTANCE_BYTES, m->instance);
    return tree_boot_id(m->boot_id, err);
}

static int read_kinds(struct machine *m, const char *given, struct err *err)
{
    _cleanup_free_ char *usual = path_in(m->folder, "machine.conf");
    const char *path = given ? given : usual;
    if (!given && access(path, F_OK) < 0) {
        log_warn("machine", "no kinds", "path=%s text=\"nothing can be started here\"", path);
        return 0;
    }
    return kinds_read(&m->kinds, path, err);
}

/* ---- what the server asks for ---- */

/* As much as fits one request. */
static void read_log(struct machine *m, const struct json *command)
{
    int64_t request = json_get_int(command, "request", -1),
            conversation = json_get_int(command, "conversation", -1),
            bytes = json_get_int(command, "tailBytes", AGENT_LOG_BYTES_MAX);
    struct str role = json_get_text(command, "role"), after = json_get_text(command, "after");
    if (request < 0 || conversation < 0 || !kind_name_is_valid(role))
        return;
    _cleanup_free_ char *name = mem_strndup(role.p, role.n),
                        *path = agent_log_path(m->folder, conversation, name);
    _cleanup_buf_ struct buf text = BUF_INIT(AGENT_LOG_BYTES_MAX + 1),
                             json = BUF_INIT(6 * AGENT_LOG_BYTES_MAX + 3);
    struct agent_log_part part = agent_log_read(path, bytes, after, &text);
    for (;;) {
        json_write_string(&json, buf_str(&text));
        if (json.len <= LOG_REQUEST_BYTES_MAX)
            break;
        bytes = (int64_t)text.len / 2;
        buf_clear(&json);
        buf_clear(&text);
        part = agent_log_read(path, bytes, after, &text);
    }
    link_send_log(m->link, request, buf_str(&json), &part);
}

static void start_agent(struct machine *m, const struct json *command)
{
    spawns_start(m->spawns, command);
}

static void stop_agent(struct machine *m, const struct json *command)
{
    spawns_stop(m->spawns, command);
}

static void on_command(void *ctx, const struct json *command)
{
    static const struct {
        const char *type;
        void (*run)(struct machine *m, const struct json *command);
    } table[] = {
        {"start-agent", start_agent},
        {"restart-agent", start_agent},
        {"stop-agent", stop_agent},
        {"read-log", read_log},
    };
    struct str name = json_get_text(command, "type");
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (str_is(name, table[i].type)) {
            table[i].run(ctx, command);
            return;
        }
    log_warn("machine", "a command that this version does not know", "type=%s", log_quote(name));
}

static void write_processes(void *ctx, struct json_out *out, const char *key)
{
    spawns_write_processes(((struct machine *)ctx)->spawns, out, key);
}

static void write_alive(void *ctx, struct json_out *out, const char *key)
{
    spawns_write_alive(((struct machine *)ctx)->spawns, out, key);
}

static void on_superseded(void *ctx, const char *why)
{
    struct machine *m = ctx;
    log_error("machine", "superseded",
              "name=%s error=%s text=\"another machine has registered under this name; this one "
              "ends, its %zu agents keep running: give it a name of its own, or stop them with "
              "reeve down\"",
              m->name, log_quote(str_of(why)), spawns_count_live(m->spawns));
    m->status = MACHINE_SUPERSEDED_STATUS;
    loop_stop(m->loop);
}

/* ---- ending ---- */

static void end_if_told(struct machine *m)
{
    if (m->is_quiet && (!m->link || !link_is_up(m->link) || facts_is_empty(m->outbox)))
        loop_stop(m->loop);
}

static void on_all_told(void *ctx)
{
    end_if_told(ctx);
}

static void on_give_up(struct loop_timer *timer)
{
    struct machine *m = CONTAINER_OF(timer, struct machine, give_up);
    log_warn("machine", "the server has not taken all facts", "text=\"they are told later\"");
    loop_stop(m->loop);
}

static void on_quiet(void *ctx)
{
    struct machine *m = ctx;
    if (m->is_quiet)
        return;
    m->is_quiet = true;
    loop_timer_set(m->loop, &m->give_up, clock_mono_us() + (int64_t)TELL_MS_MAX * 1000, on_give_up);
    end_if_told(m);
}

static void on_signal(void *ctx, int signo)
{
    struct machine *m = ctx;
    if (signo == SIGCHLD) {
        spawns_reap();
    } else if (signo == SIGUSR1) {
        log_info("machine", "stopping all agents", "count=%zu", spawns_count_live(m->spawns));
        if (m->link) /* else the server would have started anew what is stopped here */
            link_end_polling(m->link);
        spawns_stop_all(m->spawns);
    } else {
        log_info("machine", "ending", "signal=%d agents=%zu text=\"they keep running\"", signo,
                 spawns_count_live(m->spawns));
        loop_stop(m->loop);
    }
}

/* ---- life ---- */

static void on_told(void *ctx)
{
    struct machine *m = ctx;
    if (m->link)
        link_report(m->link);
}

static void on_gone(void *ctx, struct str spawn_id, bool is_last_word)
{
    spawns_fact_gone(((struct machine *)ctx)->spawns, spawn_id, is_last_word);
}

static const char *current_url(void *ctx)
{
    const struct machine *m = ctx;
    return m->link ? link_url(m->link) : NULL;
}

static void on_wake(void *ctx)
{
    struct machine *m = ctx;
    if (m->link)
        link_wake(m->link);
}

static int watch_signals(struct machine *m, struct err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD};
    sigset_t mask;
    sigemptyset(&mask);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        sigaddset(&mask, signals[i]);
    return loop_signals(m->loop, &mask, on_signal, m, err);
}

/* Two descriptors a process: the usual soft limit would do for five hundred of them. */
static void raise_limits(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* All that there is without a server. */
static int set_up(struct machine *m, struct err *err)
{
    raise_limits();
    int r = loop_new(&m->loop, err);
    if (r == 0)
        r = watch_signals(m, err);
    if (r == 0)
        r = launch_init(&m->launch, m->folder, err);
    if (r == 0)
        r = facts_open(m->folder, &m->outbox, err);
    if (r < 0)
        return r;
    const struct spawns_config config = {
        .data_folder = m->folder,
        .boot_id = m->boot_id,
        .kinds = &m->kinds,
        .launch = &m->launch,
        .outbox = m->outbox,
        .url = current_url,
        .told = on_told,
        .quiet = on_quiet,
        .ctx = m,
    };
    m->spawns = spawns_new(m->loop, &config);
    facts_on_gone(m->outbox, on_gone, m);
    loop_on_wake(m->loop, on_wake, m);
    r = spawns_recover(m->spawns, err);
    return r < 0 ? r : write_daemon(m, err);
}

static void open_link(struct machine *m, const struct endpoint_source *source)
{
    const struct link_config config = {
        .name = m->name,
        .instance = m->instance,
        .hostname = m->hostname,
        .boot_id = m->boot_id,
        .kinds = &m->kinds,
        .source = *source,
    };
    const struct link_handler handler = {
        .command = on_command,
        .write_processes = write_processes,
        .write_alive = write_alive,
        .superseded = on_superseded,
        .all_told = on_all_told,
        .ctx = m,
    };
    m->link = link_new(m->loop, &config, m->outbox, &handler);
}

static void release(struct machine *m)
{
    m->link = link_free(m->link);
    m->spawns = spawns_free(m->spawns);
    m->outbox = facts_close(m->outbox);
    launch_release(&m->launch);
    m->loop = loop_free(m->loop);
    kinds_release(&m->kinds);
    if (m->lock_fd >= 0)
        close(m->lock_fd);
    free(m->folder);
}

/* A server that is not there yet is waited for; one that cannot be meant is an error now. */
static int check_source(const struct endpoint_source *source, struct err *err)
{
    struct endpoint endpoint;
    struct err why = ERR_INIT;
    int r = endpoint_resolve(source, &endpoint, &why);
    if (r == 0)
        endpoint_release(&endpoint);
    if (r != -ERR_USAGE)
        return 0;
    *err = why;
    return r;
}

int machine_run(const struct machine_config *config, struct err *err)
{
    struct machine m = {.lock_fd = -1, .launch = {.complaints = -1}};
    int r = check_source(&config->source, err);
    if (r == 0)
        r = open_folder(&m, config->data_folder, err);
    if (r == 0)
        r = find_identity(&m, config->name, err);
    if (r == 0)
        r = read_kinds(&m, config->kinds, err);
    if (r == 0)
        r = set_up(&m, err);
    if (r == 0) {
        log_info("machine", "started", "name=%s data=%s kinds=%zu agents=%zu", m.name, m.folder,
                 m.kinds.count, spawns_count_live(m.spawns));
        open_link(&m, &config->source);
        loop_run(m.loop);
        r = m.status;
    }
    release(&m);
    return r;
}

/* ---- down ---- */

/* Asks the daemon of the folder, if there is one, and waits for its end. */
static void ask_daemon(const char *folder)
{
    char boot_id[BOOT_ID_BYTES];
    struct daemon d = read_daemon(folder);
    bool is_this_boot = tree_boot_id(boot_id, NULL) == 0 && strcmp(boot_id, d.boot_id) == 0;
    int pidfd = is_this_boot ? tree_open(&d.process) : -1;
    if (pidfd < 0)
        return;
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    pidfd_send_signal(pidfd, SIGUSR1, NULL, 0);
    while (poll(&ended, 1, -1) < 0 && errno == EINTR)
        continue;
    close(pidfd);
}

static size_t count_spawns(const char *folder)
{
    _cleanup_free_ char *path = path_in(folder, "spawns");
    DIR *spawns = opendir(path);
    size_t n = 0;
    for (struct dirent *e; spawns && (e = readdir(spawns));)
        n += e->d_name[0] != '.';
    if (spawns)
        closedir(spawns);
    return n;
}

/* With or without a daemon, in the end it is this process that has looked. */
int machine_down(const char *data_folder, size_t *ret, struct err *err)
{
    struct machine m = {.lock_fd = -1, .launch = {.complaints = -1}};
    if (access(data_folder, F_OK) < 0)
        return err_set(err, ERR_NOT_FOUND, "there is no folder %.160s", data_folder);
    *ret = count_spawns(data_folder);
    ask_daemon(data_folder);
    int r = open_folder(&m, data_folder, err);
    if (r == 0)
        r = find_identity(&m, NULL, err);
    if (r == 0)
        r = set_up(&m, err);
    if (r == 0) {
        spawns_stop_all(m.spawns);
        loop_run(m.loop);
    }
    release(&m);
    return r;
}
