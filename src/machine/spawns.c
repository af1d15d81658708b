/*
 * spawns.c: see spawns.h.
 *
 * Who is believed. A process runs once its shim has said `spawned`; it has ended once the shim has
 * left its last word, which it does when its tree is empty. The shim's own death is seen by pidfd.
 * Whatever it said before it died is read first: from the line, then from the folder. If there is
 * no last word the shim was killed, and its tree is ORPHANED: we end it, and say that we do not
 * know how it would have ended.
 *
 * Ending an orphaned tree, all of it again and again until a pass finds nothing: its cgroup; what
 * carries its mark; and our own children that are no shims. The latter are what dead shims left,
 * since we are a subreaper and start nothing but shims. After a restart of ours a shim is not our
 * child and what it leaves goes to init: cgroup and mark are then all there is.
 *
 * A crash of ours at any point leaves a folder per spawn, which says enough:
 *     no `about`           nothing was started; removed
 *     `ended`              told, unless the outbox says that it was
 *     another boot         nothing of it lives; told as an end nobody saw
 *     `seen`, shim alive   followed again: pidfd, line
 *     `seen`, shim gone    orphaned
 *     no `seen`            the shim has just begun, or never did. If it listens it is followed;
 *                          else whatever carries the mark is killed, and the server, which has seen
 *                          nothing confirmed, gives the command again
 */
#include "machine/spawns.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "machine/agent_log.h"
#include "machine/cgroup.h"
#include "machine/record.h"
#include "machine/shim.h"
#include "machine/spawn_folder.h"
#include "machine/tree.h"

enum {
    FACT_BYTES_MAX = 32 * 1024,
    ERROR_BYTES_MAX = 1000,
    STOP_PATIENCE_MS = 5000, /* that a shim may take over the grace before it is killed itself */
    ORPHANS_FIRST_MS = 5,
    ORPHANS_MAX_MS = 1000,
};

enum spawn_state {
    SPAWN_WAITING,
    SPAWN_STARTING,
    SPAWN_RUNNING,
    SPAWN_ORPHANED,
    SPAWN_ENDED,
};

struct spawn {
    struct spawns *table;
    struct spawn *next;
    char id[SPAWN_ID_ROOM];
    struct about about;
    enum spawn_state state;
    char *folder;
    struct process_id shim, agent;
    struct loop_io shim_io, line_io; /* pidfd; line */
    bool is_stop_asked;
    struct loop_timer timer; /* while stopping: patience; orphaned: the next pass */
    int64_t pass_ms;
    /* WAITING: what it needs to start */
    char *token, *task;
    int64_t give_up_us;
    /* ENDED */
    char *exit; /* as in register; NULL: it never ran */
    bool is_fact_gone;
};

struct spawns {
    struct loop *loop;
    struct spawns_config config;
    struct spawn *first;
    bool is_stopping;
};

static void begin_waiting(struct spawns *s);

/* ---- the list ---- */

static struct spawn *find(const struct spawns *s, struct str id)
{
    struct spawn *sp = s->first;
    while (sp && !str_is(id, sp->id))
        sp = sp->next;
    return sp;
}

static bool is_live(const struct spawn *sp)
{
    return sp->state == SPAWN_STARTING || sp->state == SPAWN_RUNNING || sp->state == SPAWN_ORPHANED;
}

static bool is_same_agent(const struct spawn *a, const struct spawn *b)
{
    return a->about.conversation == b->about.conversation &&
           strcmp(a->about.role, b->about.role) == 0;
}

size_t spawns_count_live(const struct spawns *s)
{
    size_t n = 0;
    for (const struct spawn *sp = s->first; sp; sp = sp->next)
        n += is_live(sp);
    return n;
}

static struct spawn *add(struct spawns *s, struct str id, enum spawn_state state)
{
    struct spawn *sp = mem_zalloc(sizeof *sp), **end = &s->first;
    *sp = (struct spawn){
        .table = s, .state = state, .shim_io = LOOP_IO_INIT, .line_io = LOOP_IO_INIT};
    snprintf(sp->id, sizeof sp->id, "%.*s", STR_ARG(id));
    sp->folder = mem_printf("%s/spawns/%s", s->config.data_folder, sp->id);
    while (*end)
        end = &(*end)->next;
    *end = sp;
    return sp;
}

static void close_io(struct spawn *sp, struct loop_io *io)
{
    int fd = io->fd;
    loop_unwatch(sp->table->loop, io);
    if (fd >= 0)
        close(fd);
}

static void release(struct spawn *sp)
{
    close_io(sp, &sp->shim_io);
    close_io(sp, &sp->line_io);
    loop_timer_stop(sp->table->loop, &sp->timer);
    free(sp->folder);
    free(sp->token);
    free(sp->task);
    free(sp->exit);
    free(sp);
}

/* Ended, accepted, and its shim reaped: nothing is left to be known about. */
static void forget_if_over(struct spawn *sp)
{
    if (sp->state != SPAWN_ENDED || !sp->is_fact_gone || sp->shim_io.fd >= 0)
        return;
    struct spawn **at = &sp->table->first;
    while (*at != sp)
        at = &(*at)->next;
    *at = sp->next;
    release(sp);
}

static void set_state(struct spawn *sp, enum spawn_state state, const char *why)
{
    static const char *const names[] = {"waiting", "starting", "running", "orphaned", "ended"};
    log_debug("spawn", "state", "agent=%lld:%s spawn=%s from=%s to=%s why=\"%s\"",
              (long long)sp->about.conversation, sp->about.role, sp->id, names[sp->state],
              names[state], why);
    sp->state = state;
}

/* ---- facts ---- */

static void tell(struct spawns *s, const char *fact, const char *spawn_id, struct str members)
{
    facts_add(s->config.outbox, fact, spawn_id, members, clock_kernel.wall_ms(clock_kernel.ctx));
    s->config.told(s->config.ctx);
}

static void write_exit(const struct ended *e, struct json_out *out, const char *key)
{
    json_object(out, key);
    if (e->code >= 0)
        json_int(out, "code", e->code);
    else
        json_null(out, "code");
    if (e->signal)
        json_int(out, "signal", e->signal);
    json_bool(out, "core", e->has_core);
    json_bool(out, "oom", e->is_oom);
    json_string(out, "text", e->text);
    json_string(out, "tail", e->tail);
    json_end(out);
}

/* Without the braces: what a fact says beside its kind. */
static void write_members(const struct ended *e, struct buf *out)
{
    _cleanup_buf_ struct buf text = BUF_INIT(FACT_BYTES_MAX);
    struct json_out w = JSON_OUT(&text);
    struct str error = {e->text.p, MIN(e->text.n, (size_t)ERROR_BYTES_MAX)};
    json_object(&w, NULL);
    if (e->ending == ENDING_START_FAILED)
        json_string(&w, "error", error);
    else
        write_exit(e, &w, "exit");
    json_end(&w);
    buf_add(out, text.data + 1, text.len - 2);
}

static char *exit_text(const struct ended *e)
{
    struct buf text = BUF_INIT(FACT_BYTES_MAX);
    struct json_out w = JSON_OUT(&text);
    write_exit(e, &w, NULL);
    return buf_take(&text);
}

static void settle(struct spawns *s)
{
    begin_waiting(s);
    if (s->is_stopping && !spawns_count_live(s))
        s->config.quiet(s->config.ctx);
}

/* The last word. Told unless it was before this machine began. */
static void end(struct spawn *sp, const struct ended *e, bool is_told)
{
    _cleanup_buf_ struct buf members = BUF_INIT(FACT_BYTES_MAX);
    struct spawns *s = sp->table;
    loop_timer_stop(s->loop, &sp->timer);
    close_io(sp, &sp->line_io);
    sp->exit = e->ending == ENDING_START_FAILED ? NULL : exit_text(e);
    set_state(sp, SPAWN_ENDED, ending_name(e->ending));
    log_info("spawn", ending_name(e->ending), "agent=%lld:%s spawn=%s pid=%d text=%s",
             (long long)sp->about.conversation, sp->about.role, sp->id, (int)sp->agent.pid,
             log_quote(e->text));
    if (is_told)
        return;
    write_members(e, &members);
    tell(s, ending_name(e->ending), sp->id, buf_str(&members));
}

static void end_unstarted(struct spawn *sp, enum ending ending, const char *text)
{
    const struct ended e = {.ending = ending, .code = -1, .text = str_of(text)};
    end(sp, &e, false);
}

static void start_failed(struct spawns *s, struct str id, const char *text)
{
    struct spawn *sp = add(s, id, SPAWN_WAITING);
    end_unstarted(sp, ENDING_START_FAILED, text);
}

void spawns_fact_gone(struct spawns *s, struct str spawn_id, bool is_last_word)
{
    struct spawn *sp = is_last_word ? find(s, spawn_id) : NULL;
    if (!sp || sp->state != SPAWN_ENDED)
        return;
    sp->is_fact_gone = true;
    spawn_folder_remove(sp->folder);
    forget_if_over(sp);
}

/* ---- orphaned trees ---- */

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

static void reap_all(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

static char *cgroup_of(const struct spawn *sp)
{
    const char *parent = sp->table->config.launch->cgroup;
    return parent ? mem_printf("%s/reeve-%s", parent, sp->id) : NULL;
}

/* True once the cgroup is gone, or there is none: the kernel removes none that holds a process. */
static bool end_cgroup(const struct spawn *sp)
{
    _cleanup_free_ char *path = cgroup_of(sp);
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
    reap_all();
    return is_gone;
}

static void end_orphaned(struct loop_timer *timer)
{
    struct spawn *sp = CONTAINER_OF(timer, struct spawn, timer);
    struct spawns *s = sp->table;
    if (!is_tree_gone(sp)) {
        sp->pass_ms = MIN(sp->pass_ms * 2, (int64_t)ORPHANS_MAX_MS);
        loop_timer_set(s->loop, timer, loop_now_us(s->loop) + sp->pass_ms * 1000, end_orphaned);
        return;
    }
    const struct ended e = {
        .ending = sp->is_stop_asked ? ENDING_STOPPED : ENDING_EXITED,
        .code = -1,
        .text = STR("its shim was killed: nobody saw how it ended; nothing of it is left"),
    };
    end(sp, &e, false);
    settle(s);
}

static void orphan(struct spawn *sp)
{
    set_state(sp, SPAWN_ORPHANED, "the shim died without a last word");
    log_warn("spawn", "the shim died without a last word", "agent=%lld:%s spawn=%s shim=%d",
             (long long)sp->about.conversation, sp->about.role, sp->id, (int)sp->shim.pid);
    close_io(sp, &sp->line_io);
    sp->pass_ms = ORPHANS_FIRST_MS;
    loop_timer_set(sp->table->loop, &sp->timer, clock_mono_us(), end_orphaned);
}

/* ---- stopping ---- */

static void lose_patience(struct loop_timer *timer)
{
    struct spawn *sp = CONTAINER_OF(timer, struct spawn, timer);
    log_warn("spawn", "the shim does not stop it in time and is killed",
             "agent=%lld:%s spawn=%s shim=%d", (long long)sp->about.conversation, sp->about.role,
             sp->id, (int)sp->shim.pid);
    pidfd_send_signal(sp->shim_io.fd, SIGKILL, NULL, 0);
}

static void line_open(struct spawn *sp, int fd);

static void send_stop(struct spawn *sp)
{
    char text[64];
    snprintf(text, sizeof text, "{\"do\":\"stop\",\"graceMs\":%lld}",
             (long long)sp->about.stop_grace_ms);
    if (sp->line_io.fd < 0)
        line_open(sp, spawn_folder_connect(sp->folder));
    if (sp->line_io.fd >= 0 && send(sp->line_io.fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        log_debug("spawn", "a stop cannot be sent", "spawn=%s error=\"%s\"", sp->id,
                  strerror(errno)); /* it has ended, or is killed when patience ends */
}

static void ask_stop(struct spawn *sp)
{
    if (sp->is_stop_asked)
        return;
    sp->is_stop_asked = true;
    if (sp->state == SPAWN_ORPHANED)
        return;
    int64_t patience_us = (sp->about.stop_grace_ms + STOP_PATIENCE_MS) * 1000;
    loop_timer_set(sp->table->loop, &sp->timer, clock_mono_us() + patience_us, lose_patience);
    send_stop(sp);
}

/* ---- what shims say ---- */

static struct str text_of(const struct json *object, const char *key)
{
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_STRING ? v->string : STR("");
}

static int64_t number_of(const struct json *object, const char *key, int64_t fallback)
{
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_INT ? v->integer : fallback;
}

static void hear_spawned(struct spawn *sp, const struct json *said)
{
    char members[96];
    if (sp->state != SPAWN_STARTING)
        return; /* known: it was told to those who were there before */
    sp->agent = (struct process_id){.pid = (pid_t)number_of(said, "pid", 0),
                                    .start_time = number_of(said, "startTime", 0)};
    set_state(sp, SPAWN_RUNNING, "spawned");
    log_info("spawn", "spawned", "agent=%lld:%s kind=%s spawn=%s pid=%d",
             (long long)sp->about.conversation, sp->about.role, sp->about.kind, sp->id,
             (int)sp->agent.pid);
    int n = snprintf(members, sizeof members, "\"pid\":%d,\"startTime\":%lld", (int)sp->agent.pid,
                     (long long)sp->agent.start_time);
    tell(sp->table, "spawned", sp->id, (struct str){members, (size_t)n});
}

static void hear_notify(struct spawn *sp, const struct json *said)
{
    const struct json *ready = json_get(said, "ready");
    if (ready && ready->type == JSON_BOOL && ready->boolean)
        tell(sp->table, "notify", sp->id, STR("\"ready\":true"));
}

static void hear(struct spawn *sp, struct str packet)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *said;
    struct ended ended;
    if (json_parse(&a, packet, JSON_DEPTH_DEFAULT, &said, NULL) < 0)
        return;
    struct str fact = text_of(said, "fact");
    if (str_is(fact, "spawned"))
        hear_spawned(sp, said);
    else if (str_is(fact, "notify"))
        hear_notify(sp, said);
    else if (ended_from_json(&a, said, &ended, NULL) == 0)
        end(sp, &ended, false);
}

/* Reads what is there. False once the line is closed. */
static bool line_read(struct spawn *sp)
{
    char packet[LINE_BYTES_MAX];
    while (sp->line_io.fd >= 0) {
        ssize_t n = recv(sp->line_io.fd, packet, sizeof packet, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return false;
        hear(sp, (struct str){packet, (size_t)n});
    }
    return true;
}

static void line_ready(struct loop_io *io, uint32_t events)
{
    struct spawn *sp = CONTAINER_OF(io, struct spawn, line_io);
    struct spawns *s = sp->table;
    (void)events;
    if (!line_read(sp)) /* its end, which the pidfd tells; or it thought us too slow */
        close_io(sp, &sp->line_io);
    if (sp->state == SPAWN_ENDED)
        settle(s);
}

static void line_open(struct spawn *sp, int fd)
{
    if (fd >= 0 && loop_watch(sp->table->loop, &sp->line_io, fd, EPOLLIN, line_ready) < 0)
        close(fd);
}

/* The shim has ended. */
static void shim_ready(struct loop_io *io, uint32_t events)
{
    struct spawn *sp = CONTAINER_OF(io, struct spawn, shim_io);
    struct spawns *s = sp->table;
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct ended ended;
    (void)events;
    line_read(sp);
    if (is_live(sp) && ended_read(&a, sp->folder, &ended, NULL) == 0)
        end(sp, &ended, false);
    close_io(sp, &sp->shim_io);
    reap_all();
    if (is_live(sp))
        orphan(sp);
    forget_if_over(sp);
    settle(s);
}

static void shim_watch(struct spawn *sp, int pidfd)
{
    int r = loop_watch(sp->table->loop, &sp->shim_io, pidfd, EPOLLIN, shim_ready);
    REQUIRE_F(r == 0, "cannot watch a pidfd: %s", strerror(errno));
}

void spawns_reap(struct spawns *s)
{
    (void)s;
    reap_all();
}

/* ---- starting ---- */

static int launch(struct spawn *sp, const struct kind *kind, struct err *err)
{
    const struct spawns_config *c = &sp->table->config;
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct str conversation = arena_printf(&a, "%lld", (long long)sp->about.conversation);
    const struct kind_words words = {conversation, str_of(sp->about.role), str_of(sp->task)};
    const struct agent_identity who = {.url = c->url(c->ctx),
                                       .token = sp->token,
                                       .conversation = conversation.p,
                                       .role = sp->about.role,
                                       .spawn_id = sp->id};
    _cleanup_free_ char *cgroup = cgroup_of(sp),
                        *log =
                            agent_log_path(c->data_folder, sp->about.conversation, sp->about.role);
    const struct order order = {
        .spawn_id = sp->id,
        .folder = sp->folder,
        .argv = kind_argv(kind, &words, &a),
        .env = launch_environment(c->launch, kind, &who, environ, &a),
        .cwd = kind->cwd,
        .log = log,
        .log_bytes_max = kind->log_bytes_max,
        .stop_grace_ms = kind->stop_grace_ms,
        .cgroup = cgroup,
    };
    _cleanup_free_ char *log_folder = mem_strndup(log, (size_t)(strrchr(log, '/') - log));
    struct launched l;
    int r = spawn_folder_make(sp->folder, &sp->about, err);
    if (r == 0)
        r = file_make_folder(log_folder, err);
    if (r == 0)
        r = launch_shim(c->launch, &order, &l, err);
    if (r < 0)
        return r;
    sp->shim.pid = l.pid;
    set_state(sp, SPAWN_STARTING, "shim started");
    shim_watch(sp, l.pidfd);
    line_open(sp, l.line);
    return 0;
}

static void begin(struct spawn *sp)
{
    struct err err = ERR_INIT;
    const struct kind *kind = kind_find(sp->table->config.kinds, str_of(sp->about.kind));
    REQUIRE(kind);
    if (clock_mono_us() > sp->give_up_us)
        end_unstarted(sp, ENDING_START_FAILED, "expired before it could be started");
    else if (launch(sp, kind, &err) < 0)
        end_unstarted(sp, ENDING_START_FAILED, err.message);
}

static bool has_live_predecessor(const struct spawn *sp)
{
    for (const struct spawn *other = sp->table->first; other; other = other->next)
        if (other != sp && is_live(other) && is_same_agent(other, sp))
            return true;
    return false;
}

/* Those whose predecessors are dead by now. */
static void begin_waiting(struct spawns *s)
{
    if (s->is_stopping)
        return;
    for (struct spawn *sp = s->first, *next; sp; sp = next) {
        next = sp->next;
        if (sp->state == SPAWN_WAITING && !has_live_predecessor(sp))
            begin(sp);
    }
}

/* Only the newest start of an agent counts, and no two of its processes run at a time. */
static void clear_the_way(const struct spawn *sp)
{
    for (struct spawn *other = sp->table->first; other; other = other->next) {
        if (other == sp || !is_same_agent(other, sp))
            continue;
        if (other->state == SPAWN_WAITING)
            end_unstarted(other, ENDING_START_FAILED, "another start took its place");
        else if (is_live(other))
            ask_stop(other);
    }
}

static void replace(char **text, struct str with)
{
    free(*text);
    *text = mem_strndup(with.p, with.n);
}

static void take_command(struct spawn *sp, const struct json *command, const struct kind *kind)
{
    struct spawns *s = sp->table;
    const struct json *task = json_get(command, "task");
    snprintf(sp->about.boot_id, sizeof sp->about.boot_id, "%s", s->config.boot_id);
    sp->about.conversation = number_of(command, "conversation", 0);
    snprintf(sp->about.role, sizeof sp->about.role, "%.*s", STR_ARG(text_of(command, "role")));
    snprintf(sp->about.kind, sizeof sp->about.kind, "%s", kind->name);
    sp->about.stop_grace_ms = kind->stop_grace_ms;
    replace(&sp->token, text_of(command, "token"));
    replace(&sp->task, task && task->type == JSON_INT ? task->span : STR(""));
    int64_t ttl_ms = MIN(number_of(command, "ttlMs", 0), CLOCK_MS_MAX / 1000);
    sp->give_up_us = loop_now_us(s->loop) + ttl_ms * 1000;
}

/* Why it cannot be done at all; NULL: it can be tried. */
static const char *reason_against(const struct json *command, const struct kind *kind,
                                  struct arena *a)
{
    if (!kind)
        return arena_printf(a,
                            "this machine has no kind '%.*s'; its configuration says what it runs",
                            STR_ARG(text_of(command, "kind")))
            .p;
    if (!kind_name_is_valid(text_of(command, "role")))
        return "the command names no valid role";
    if (number_of(command, "ttlMs", 0) <= 0)
        return "expired before it was delivered";
    return NULL;
}

void spawns_start(struct spawns *s, const struct json *command)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct str id = text_of(command, "spawnId");
    struct spawn *sp = find(s, id);
    bool is_valid = spawn_id_is_valid(id);
    if (!is_valid)
        log_warn("spawn", "a start without a valid spawn id", "id=%s", log_quote(id));
    if (!is_valid || s->is_stopping)
        return;
    if (sp && sp->state == SPAWN_WAITING && text_of(command, "token").n)
        replace(&sp->token, text_of(command, "token")); /* the one before is void by now */
    if (sp || facts_has_last_word(s->config.outbox, arena_strndup(&a, id.p, id.n)))
        return;
    const struct kind *kind = kind_find(s->config.kinds, text_of(command, "kind"));
    const char *against = reason_against(command, kind, &a);
    if (against) {
        start_failed(s, id, against);
        return;
    }
    sp = add(s, id, SPAWN_WAITING);
    take_command(sp, command, kind);
    clear_the_way(sp);
    settle(s);
}

void spawns_stop(struct spawns *s, const struct json *command)
{
    struct str id = text_of(command, "spawnId");
    struct spawn *sp = find(s, id);
    if (sp && sp->state == SPAWN_WAITING)
        end_unstarted(sp, ENDING_STOPPED, "stopped before it was started");
    else if (sp && is_live(sp))
        ask_stop(sp);
    if (sp || !spawn_id_is_valid(id))
        return;
    sp = add(s, id, SPAWN_WAITING);
    if (facts_has_last_word(s->config.outbox, sp->id))
        end(sp, &(struct ended){.ending = ENDING_STOPPED, .code = -1}, true);
    else
        end_unstarted(sp, ENDING_STOPPED, "there is no such process on this machine");
}

void spawns_stop_all(struct spawns *s)
{
    s->is_stopping = true;
    for (struct spawn *sp = s->first; sp; sp = sp->next)
        if (is_live(sp))
            ask_stop(sp);
    settle(s);
}

/* ---- after a restart of the machine ---- */

static void recover_ended(struct spawn *sp, const struct ended *e)
{
    end(sp, e, facts_has_last_word(sp->table->config.outbox, sp->id));
}

static void recover_other_boot(struct spawn *sp)
{
    const struct ended e = {.ending = ENDING_EXITED,
                            .code = -1,
                            .text = STR("the host was started again: nobody saw how it ended")};
    recover_ended(sp, &e);
}

static void follow(struct spawn *sp, int pidfd, int line, enum spawn_state state)
{
    set_state(sp, state, "found again");
    shim_watch(sp, pidfd);
    line_open(sp, line);
    log_info("spawn", "found again", "agent=%lld:%s kind=%s spawn=%s pid=%d",
             (long long)sp->about.conversation, sp->about.role, sp->about.kind, sp->id,
             (int)sp->agent.pid);
}

static void recover_seen(struct spawn *sp, const struct seen *seen)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct ended ended;
    sp->shim = seen->shim;
    sp->agent = seen->agent;
    int pidfd = tree_open(&seen->shim);
    if (pidfd >= 0)
        follow(sp, pidfd, spawn_folder_connect(sp->folder), SPAWN_RUNNING);
    else if (ended_read(&a, sp->folder, &ended, NULL) == 0) /* just now */
        recover_ended(sp, &ended);
    else
        orphan(sp);
}

/* Who listens at the other end. -1: it has gone in between. */
static int open_peer(int line, struct process_id *ret)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (getsockopt(line, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        tree_process_id(peer.pid, ret, NULL) < 0)
        return -1;
    return tree_open(ret);
}

/* Its shim has said nothing yet. True if it is there, and is followed. */
static bool recover_begun(struct spawn *sp)
{
    int line = spawn_folder_connect(sp->folder);
    int pidfd = line >= 0 ? open_peer(line, &sp->shim) : -1;
    if (pidfd >= 0) {
        follow(sp, pidfd, line, SPAWN_STARTING);
        return true;
    }
    if (line >= 0)
        close(line);
    while (tree_kill_marked(sp->id))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return false;
}

/* False if there is nothing to be known about it. */
static bool recover(struct spawn *sp)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct spawns *s = sp->table;
    struct ended ended;
    struct seen seen;
    if (spawn_folder_about(sp->folder, &sp->about, NULL) < 0)
        return false;
    bool is_this_boot = strcmp(sp->about.boot_id, s->config.boot_id) == 0;
    bool is_seen = seen_read(sp->folder, &seen, NULL) == 0;
    if (ended_read(&a, sp->folder, &ended, NULL) == 0)
        recover_ended(sp, &ended);
    else if (is_seen && !is_this_boot)
        recover_other_boot(sp);
    else if (is_seen)
        recover_seen(sp, &seen);
    else
        return is_this_boot && recover_begun(sp);
    return true;
}

int spawns_recover(struct spawns *s, struct err *err)
{
    _cleanup_free_ char *path = mem_printf("%s/spawns", s->config.data_folder);
    int r = file_make_folder(path, err);
    DIR *folders = r == 0 ? opendir(path) : NULL;
    if (!folders)
        return r < 0 ? r : file_error(err, "read", path);
    for (struct dirent *e; (e = readdir(folders));) {
        if (!spawn_id_is_valid(str_of(e->d_name)))
            continue;
        struct spawn *sp = add(s, str_of(e->d_name), SPAWN_WAITING);
        if (recover(sp))
            continue;
        spawn_folder_remove(sp->folder);
        sp->state = SPAWN_ENDED;
        sp->is_fact_gone = true;
        forget_if_over(sp);
    }
    closedir(folders);
    return 0;
}

/* ---- what the server is told of all ---- */

void spawns_write_processes(const struct spawns *s, struct json_out *out, const char *key)
{
    json_array(out, key);
    for (const struct spawn *sp = s->first; sp; sp = sp->next) {
        bool has_ended = sp->state == SPAWN_ENDED && sp->exit && !sp->is_fact_gone;
        if (!is_live(sp) && !has_ended)
            continue;
        json_object(out, NULL);
        json_stringz(out, "spawnId", sp->id);
        if (sp->agent.pid > 0) {
            json_int(out, "pid", sp->agent.pid);
            json_int(out, "startTime", sp->agent.start_time);
        }
        json_stringz(out, "state", has_ended ? "exited" : "running");
        if (has_ended)
            json_raw(out, "exit", str_of(sp->exit));
        json_end(out);
    }
    json_end(out);
}

void spawns_write_alive(const struct spawns *s, struct json_out *out, const char *key)
{
    json_array(out, key);
    for (const struct spawn *sp = s->first; sp; sp = sp->next)
        if (is_live(sp))
            json_stringz(out, NULL, sp->id);
    json_end(out);
}

/* ---- life ---- */

struct spawns *spawns_new(struct loop *loop, const struct spawns_config *config)
{
    struct spawns *s = mem_zalloc(sizeof *s);
    *s = (struct spawns){.loop = loop, .config = *config};
    return s;
}

struct spawns *spawns_free(struct spawns *s)
{
    if (!s)
        return NULL;
    for (struct spawn *sp = s->first, *next; sp; sp = next) {
        next = sp->next;
        release(sp);
    }
    free(s);
    return NULL;
}
