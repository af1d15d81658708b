/*
 * spawns.c: commands, and all spawns together. See spawns.h, and spawn.h for what is where.
 */
#include "machine/spawns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/planted.h"
#include "machine/agent_log.h"
#include "machine/order.h"
#include "machine/spawn.h"

size_t spawns_count_live(const struct spawns *s)
{
    size_t n = 0;
    for (const struct spawn *sp = s->first; sp; sp = sp->next)
        n += spawn_is_live(sp);
    return n;
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
    _cleanup_free_ char *cgroup = spawn_cgroup(sp),
                        *log =
                            agent_log_path(c->data_folder, sp->about.conversation, sp->about.role);
    const struct order order = {
        .spawn_id = sp->id,
        .folder = sp->folder,
        .argv = kind_argv(kind, &words, &a),
        .env = launch_environment(c->launch, kind, &who, (const char *const *)environ, &a),
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
    spawn_set_state(sp, SPAWN_STARTING, "shim started");
    spawn_follow(sp, l.pidfd, l.line);
    return 0;
}

static void begin(struct spawn *sp)
{
    struct err err = ERR_INIT;
    const struct kind *kind = kind_find(sp->table->config.kinds, str_of(sp->about.kind));
    REQUIRE(kind);
    if (clock_mono_us() > sp->give_up_us)
        spawn_end_unstarted(sp, ENDING_START_FAILED, "expired before it could be started");
    else if (launch(sp, kind, &err) < 0)
        spawn_end_unstarted(sp, ENDING_START_FAILED, err.message);
}

static bool has_live_predecessor(const struct spawn *sp)
{
    for (const struct spawn *other = sp->table->first; other; other = other->next)
        if (other != sp && spawn_is_live(other) && spawn_is_same_agent(other, sp))
            return !planted(PREDECESSOR_IGNORED);
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
        if (other == sp || !spawn_is_same_agent(other, sp))
            continue;
        if (other->state == SPAWN_WAITING)
            spawn_end_unstarted(other, ENDING_START_FAILED, "another start took its place");
        else if (spawn_is_live(other))
            spawn_ask_stop(other);
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
    sp->about.conversation = json_get_int(command, "conversation", 0);
    snprintf(sp->about.role, sizeof sp->about.role, "%.*s",
             STR_ARG(json_get_text(command, "role")));
    snprintf(sp->about.kind, sizeof sp->about.kind, "%s", kind->name);
    sp->about.stop_grace_ms = kind->stop_grace_ms;
    replace(&sp->token, json_get_text(command, "token"));
    replace(&sp->task, task && task->type == JSON_INT ? task->span : STR(""));
    int64_t ttl_ms = MIN(json_get_int(command, "ttlMs", 0), CLOCK_MS_MAX / 1000);
    sp->give_up_us = loop_now_us(s->loop) + ttl_ms * 1000;
}

/* Why it cannot be done at all; NULL: it can be tried. */
static const char *reason_against(const struct json *command, const struct kind *kind,
                                  struct arena *a)
{
    if (!kind)
        return arena_printf(a,
                            "this machine has no kind '%.*s'; its configuration says what it runs",
                            STR_ARG(json_get_text(command, "kind")))
            .p;
    if (!kind_name_is_valid(json_get_text(command, "role")))
        return "the command names no valid role";
    if (!json_get_text(command, "token").n)
        return "the command has no token for it";
    if (json_get_int(command, "ttlMs", 0) <= 0)
        return "expired before it was delivered";
    return NULL;
}

/* Shims included: each ends a moment after its last word. */
static bool is_quiet(const struct spawns *s)
{
    for (const struct spawn *sp = s->first; sp; sp = sp->next)
        if (spawn_is_live(sp) || sp->shim_io.fd >= 0)
            return false;
    return true;
}

void spawns_settle(struct spawns *s)
{
    begin_waiting(s);
    if (s->is_stopping && is_quiet(s))
        s->config.quiet(s->config.ctx);
}

static void start_failed(struct spawns *s, struct str id, const char *text)
{
    struct spawn *sp = spawn_add(s, id, SPAWN_WAITING);
    spawn_end_unstarted(sp, ENDING_START_FAILED, text);
}

void spawns_start(struct spawns *s, const struct json *command)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct str id = json_get_text(command, "spawnId");
    struct spawn *sp = spawn_find(s, id);
    bool is_valid = spawn_id_is_valid(id);
    if (!is_valid)
        log_warn("spawn", "a start without a valid spawn id", "id=%s", log_quote(id));
    if (!is_valid || s->is_stopping)
        return;
    if (sp && sp->state == SPAWN_WAITING && json_get_text(command, "token").n)
        replace(&sp->token, json_get_text(command, "token")); /* the one before is void by now */
    bool is_known = sp || facts_has_last_word(s->config.outbox, arena_strndup(&a, id.p, id.n));
    if (is_known && !planted(ORDER_REPEATED))
        return;
    const struct kind *kind = kind_find(s->config.kinds, json_get_text(command, "kind"));
    const char *against = reason_against(command, kind, &a);
    if (against) {
        start_failed(s, id, against);
        return;
    }
    sp = spawn_add(s, id, SPAWN_WAITING);
    take_command(sp, command, kind);
    clear_the_way(sp);
    spawns_settle(s);
}

void spawns_stop(struct spawns *s, const struct json *command)
{
    struct str id = json_get_text(command, "spawnId");
    struct spawn *sp = spawn_find(s, id);
    if (sp && sp->state == SPAWN_WAITING)
        spawn_end_unstarted(sp, ENDING_STOPPED, "stopped before it was started");
    else if (sp && spawn_is_live(sp))
        spawn_ask_stop(sp);
    if (sp || !spawn_id_is_valid(id))
        return;
    sp = spawn_add(s, id, SPAWN_WAITING);
    if (facts_has_last_word(s->config.outbox, sp->id))
        spawn_end(sp, &(struct ended){.ending = ENDING_STOPPED, .code = -1}, true);
    else
        spawn_end_unstarted(sp, ENDING_STOPPED, "there is no such process on this machine");
}

void spawns_stop_all(struct spawns *s)
{
    s->is_stopping = true;
    for (struct spawn *sp = s->first; sp; sp = sp->next)
        if (spawn_is_live(sp))
            spawn_ask_stop(sp);
    spawns_settle(s);
}

void spawns_fact_gone(struct spawns *s, struct str spawn_id, bool is_last_word)
{
    struct spawn *sp = is_last_word ? spawn_find(s, spawn_id) : NULL;
    if (!sp || sp->state != SPAWN_ENDED)
        return;
    sp->is_fact_gone = true;
    spawn_folder_remove(sp->folder);
    spawn_forget_if_over(sp);
}

void spawns_reap(void)
{
    spawn_reap_all();
}

/* ---- what the server is told of all ---- */

void spawns_write_processes(const struct spawns *s, struct json_out *out, const char *key)
{
    json_array(out, key);
    for (const struct spawn *sp = s->first; sp; sp = sp->next) {
        bool has_ended = sp->state == SPAWN_ENDED && sp->exit && !sp->is_fact_gone;
        if (sp->state == SPAWN_ENDED && !has_ended)
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
        if (sp->state != SPAWN_ENDED)
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
        spawn_release(sp);
    }
    free(s);
    return NULL;
}
