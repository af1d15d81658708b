/* spawn.c: see spawn.h. */
#include "machine/spawn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"

/* What a server takes: see exit_fields in rpc/method_machine.c. */
enum { FACT_BYTES_MAX = 32 * 1024, TEXT_BYTES_MAX = 990, TAIL_BYTES_MAX = 4000 };

/* ---- the list ---- */

struct spawn *spawn_find(const struct spawns *s, struct str id)
{
    struct spawn *sp = s->first;
    while (sp && !str_is(id, sp->id))
        sp = sp->next;
    return sp;
}

bool spawn_is_live(const struct spawn *sp)
{
    return sp->state == SPAWN_STARTING || sp->state == SPAWN_RUNNING || sp->state == SPAWN_ORPHANED;
}

bool spawn_is_same_agent(const struct spawn *a, const struct spawn *b)
{
    return a->about.conversation == b->about.conversation &&
           strcmp(a->about.role, b->about.role) == 0;
}

struct spawn *spawn_add(struct spawns *s, struct str id, enum spawn_state state)
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

void spawn_close(struct spawn *sp, struct loop_io *io)
{
    int fd = io->fd;
    loop_unwatch(sp->table->loop, io);
    if (fd >= 0)
        close(fd);
}

void spawn_release(struct spawn *sp)
{
    spawn_close(sp, &sp->shim_io);
    spawn_close(sp, &sp->line_io);
    loop_timer_stop(sp->table->loop, &sp->timer);
    free(sp->folder);
    free(sp->token);
    free(sp->task);
    free(sp->exit);
    free(sp);
}

/* Ended, accepted, and its shim reaped: nothing is left to be known about. */
void spawn_forget_if_over(struct spawn *sp)
{
    if (sp->state != SPAWN_ENDED || !sp->is_fact_gone || sp->shim_io.fd >= 0)
        return;
    struct spawn **at = &sp->table->first;
    while (*at != sp)
        at = &(*at)->next;
    *at = sp->next;
    spawn_release(sp);
}

void spawn_set_state(struct spawn *sp, enum spawn_state state, const char *why)
{
    static const char *const names[] = {"waiting", "starting", "running", "orphaned", "ended"};
    log_debug("spawn", "state", "agent=%lld:%s spawn=%s from=%s to=%s why=\"%s\"",
              (long long)sp->about.conversation, sp->about.role, sp->id, names[sp->state],
              names[state], why);
    sp->state = state;
}

char *spawn_cgroup(const struct spawn *sp)
{
    const char *parent = sp->table->config.launch->cgroup;
    return parent ? mem_printf("%s/reeve-%s", parent, sp->id) : NULL;
}

/* ---- facts ---- */

void spawn_tell(struct spawn *sp, const char *fact, struct str members)
{
    const struct spawns_config *c = &sp->table->config;
    facts_add(c->outbox, fact, sp->id, members, clock_kernel.wall_ms(clock_kernel.ctx));
    c->told(c->ctx);
}

static struct str head_of(struct str s, size_t bytes_max)
{
    return (struct str){s.p, MIN(s.n, bytes_max)};
}

static struct str end_of(struct str s, size_t bytes_max)
{
    return str_skip(s, s.n > bytes_max ? s.n - bytes_max : 0);
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
    json_string(out, "text", head_of(e->text, TEXT_BYTES_MAX));
    if (e->tail.n)
        json_string(out, "tail", end_of(e->tail, TAIL_BYTES_MAX));
    json_end(out);
}

/* Without the braces: what a fact says beside its kind. */
static void write_members(const struct ended *e, struct buf *out)
{
    _cleanup_buf_ struct buf text = BUF_INIT(FACT_BYTES_MAX);
    struct json_out w = JSON_OUT(&text);
    json_object(&w, NULL);
    if (e->ending == ENDING_START_FAILED)
        json_string(&w, "error", head_of(e->text, TEXT_BYTES_MAX));
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

void spawn_end(struct spawn *sp, const struct ended *e, bool is_told)
{
    _cleanup_buf_ struct buf members = BUF_INIT(FACT_BYTES_MAX);
    loop_timer_stop(sp->table->loop, &sp->timer);
    spawn_close(sp, &sp->line_io);
    sp->exit = e->ending == ENDING_START_FAILED ? NULL : exit_text(e);
    spawn_set_state(sp, SPAWN_ENDED, ending_name(e->ending));
    log_info("spawn", ending_name(e->ending), "agent=%lld:%s spawn=%s pid=%d text=%s",
             (long long)sp->about.conversation, sp->about.role, sp->id, (int)sp->agent.pid,
             log_quote(e->text));
    if (is_told)
        return;
    write_members(e, &members);
    spawn_tell(sp, ending_name(e->ending), buf_str(&members));
}

void spawn_end_unstarted(struct spawn *sp, enum ending ending, const char *text)
{
    const struct ended e = {.ending = ending, .code = -1, .text = str_of(text)};
    spawn_end(sp, &e, false);
}
