/*
 * spawn_line.c: a spawn's shim, from the machine's side.
 *
 * Who is believed. A process runs once its shim has said `spawned`; it has ended once the shim has
 * left its last word, which it does when its tree is empty. The shim's own death is seen by pidfd.
 * Whatever it said before it died is read first: from the line, then from the folder. If there is
 * no last word the shim was killed (spawn_orphan.c).
 *
 * A stop is asked for once, and the shim is the one that keeps the grace. It gets a few seconds
 * over that; a shim that hangs is killed then, so that a stop ends in any case.
 */
#include "machine/spawn.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "machine/shim.h"

enum { STOP_PATIENCE_MS = 5000 };

/* ---- what shims say ---- */

static void hear_spawned(struct spawn *sp, const struct json *said)
{
    char members[96];
    if (sp->state != SPAWN_STARTING)
        return; /* known: it was told to those who were there before */
    sp->agent = (struct process_id){.pid = (pid_t)json_get_int(said, "pid", 0),
                                    .start_time = json_get_int(said, "startTime", 0)};
    spawn_set_state(sp, SPAWN_RUNNING, "spawned");
    log_info("spawn", "spawned", "agent=%lld:%s kind=%s spawn=%s pid=%d",
             (long long)sp->about.conversation, sp->about.role, sp->about.kind, sp->id,
             (int)sp->agent.pid);
    int n = snprintf(members, sizeof members, "\"pid\":%d,\"startTime\":%lld", (int)sp->agent.pid,
                     (long long)sp->agent.start_time);
    spawn_tell(sp, "spawned", (struct str){members, (size_t)n});
}

static void hear_notify(struct spawn *sp, const struct json *said)
{
    if (json_get_bool(said, "ready"))
        spawn_tell(sp, "notify", STR("\"ready\":true"));
}

static void hear(struct spawn *sp, struct str packet)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *said;
    struct ended ended;
    if (json_parse(&a, packet, JSON_DEPTH_DEFAULT, &said, NULL) < 0)
        return;
    struct str fact = json_get_text(said, "fact");
    if (str_is(fact, "spawned"))
        hear_spawned(sp, said);
    else if (str_is(fact, "notify"))
        hear_notify(sp, said);
    else if (ended_from_json(&a, said, &ended, NULL) == 0)
        spawn_end(sp, &ended, false);
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
        spawn_close(sp, &sp->line_io);
    if (sp->state == SPAWN_ENDED)
        spawns_settle(s);
}

static void line_open(struct spawn *sp, int fd)
{
    if (fd >= 0 && loop_watch(sp->table->loop, &sp->line_io, fd, EPOLLIN, line_ready) < 0)
        close(fd);
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

void spawn_ask_stop(struct spawn *sp)
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

/* ---- its end ---- */

/* The shim has ended. */
static void shim_ready(struct loop_io *io, uint32_t events)
{
    struct spawn *sp = CONTAINER_OF(io, struct spawn, shim_io);
    struct spawns *s = sp->table;
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct ended ended;
    (void)events;
    line_read(sp);
    if (spawn_is_live(sp) && ended_read(&a, sp->folder, &ended, NULL) == 0)
        spawn_end(sp, &ended, false);
    spawn_close(sp, &sp->shim_io);
    spawn_reap_all();
    if (spawn_is_live(sp))
        spawn_orphan(sp);
    spawn_forget_if_over(sp);
    spawns_settle(s);
}

void spawn_follow(struct spawn *sp, int pidfd, int line)
{
    int r = loop_watch(sp->table->loop, &sp->shim_io, pidfd, EPOLLIN, shim_ready);
    REQUIRE_F(r == 0, "cannot watch a pidfd: %s", strerror(errno));
    line_open(sp, line);
}
