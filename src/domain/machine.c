/* machine.c: see machine.h. */
#include "domain/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/planted.h"
#include "domain/agent.h"
#include "domain/append.h"
#include "domain/command.h"
#include "domain/process.h"
#include "domain/work.h"

enum { KINDS_BYTES_MAX = 64 << 10 };

static const char *const policy_names[] = {
    [RESTART_ON_FAILURE] = "on-failure", [RESTART_ALWAYS] = "always", [RESTART_NEVER] = "never"};
static const char *const ready_names[] = {
    [READY_NONE] = "none", [READY_NOTIFY] = "notify", [READY_HEARTBEAT] = "heartbeat"};

int64_t machine_key_of(struct str name)
{
    return agent_key_of(-1, name); /* no conversation has this number */
}

struct machine *machine_find(const struct work *w, struct str name)
{
    for (struct machine *m = w->machines; m; m = m->next)
        if (str_is(name, m->name))
            return m;
    return NULL;
}

const struct machine_kind *machine_kind_find(const struct machine *m, const char *kind)
{
    for (size_t i = 0; i < m->kind_count; i++)
        if (strcmp(m->kinds[i].name, kind) == 0)
            return &m->kinds[i];
    return NULL;
}

struct machine_kind machine_kind_of(const struct work *w, const struct agent *a)
{
    const struct machine *m = machine_find(w, str_of(a->machine));
    const struct machine_kind *kind = m ? machine_kind_find(m, a->kind) : NULL;
    return kind ? *kind : (struct machine_kind){.stop_grace_ms = 5000};
}

bool machine_choose(const struct work *w, const struct agent *a, struct machine **ret)
{
    bool is_offered = false;
    *ret = NULL;
    if (a->machine[0]) {
        *ret = machine_find(w, str_of(a->machine));
        return *ret && (*ret)->is_online; /* one that never came may still come */
    }
    for (struct machine *m = w->machines; m; m = m->next) {
        if (!machine_kind_find(m, a->kind))
            continue;
        is_offered = true;
        if (m->is_online) {
            *ret = m;
            return true;
        }
    }
    return !is_offered;
}

/* ---- reading and writing ---- */

static void write_kinds(const struct machine *m, struct json_out *out, const char *key)
{
    json_array(out, key);
    for (size_t i = 0; i < m->kind_count; i++) {
        json_object(out, NULL);
        json_stringz(out, "name", m->kinds[i].name);
        json_stringz(out, "restart", policy_names[m->kinds[i].restart]);
        json_stringz(out, "ready", ready_names[m->kinds[i].ready]);
        json_int(out, "stopGraceMs", m->kinds[i].stop_grace_ms);
        json_end(out);
    }
    json_end(out);
}

static void read_kinds(struct machine *m, const struct json *list)
{
    if (list->type != JSON_ARRAY) /* damaged: it may run nothing until it registers */
        return;
    JSON_FOREACH (item, list) {
        if (m->kind_count == MACHINE_KINDS_MAX)
            return;
        struct machine_kind *kind = &m->kinds[m->kind_count++];
        const struct json *grace = json_get(item, "stopGraceMs");
        snprintf(kind->name, sizeof kind->name, "%.*s", STR_ARG(json_get_text(item, "name")));
        int policy = names_find(policy_names, 3, json_get_text(item, "restart")),
            ready = names_find(ready_names, 3, json_get_text(item, "ready"));
        kind->restart = policy < 0 ? RESTART_ON_FAILURE : (enum restart_policy)policy;
        kind->ready = ready < 0 ? READY_NONE : (enum ready_mode)ready;
        kind->stop_grace_ms = grace && grace->type == JSON_INT ? grace->integer : 5000;
    }
}

void machine_kinds_from_json(struct machine *m, const struct json *list)
{
    m->kind_count = 0;
    read_kinds(m, list);
}

static int store_machine(struct work *w, const struct machine *m, struct err *err)
{
    _cleanup_buf_ struct buf kinds = BUF_INIT(KINDS_BYTES_MAX);
    struct json_out j = JSON_OUT(&kinds);
    write_kinds(m, &j, NULL);
    struct query *q = store_query(w->store, SQL_MACHINE_PUT);
    query_text(q, 1, str_of(m->name));
    query_text(q, 2, str_of(m->instance));
    query_text(q, 3, str_of(m->hostname));
    query_text(q, 4, str_of(m->boot_id));
    query_text(q, 5, buf_str(&kinds));
    query_int(q, 6, m->is_online);
    query_int(q, 7, m->registered_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

static void edit(struct work *w, struct machine *m)
{
    if (m->edited_in == w->request)
        return;
    work_remember(w, m, sizeof *m);
    m->edited_in = w->request;
}

int64_t machine_lease_until_ms(const struct work *w, const struct machine *m)
{
    return gaps_due_ms(&w->gaps, m->beat_ms, option_get(w->options, machine, ttl_seconds) * 1000) -
           1;
}

static void beat(struct work *w, struct machine *m)
{
    edit(w, m);
    m->beat_ms = w->now_ms;
    int64_t due_ms = machine_lease_until_ms(w, m) + 1;
    if (due_ms >= m->look_ms)
        return;
    m->look_ms = due_ms;
    leases_add(&w->leases, LEASE_MACHINE, machine_key_of(str_of(m->name)), due_ms);
}

static int append_status(struct work *w, const struct machine *m, const char *kind, struct err *err)
{
    struct str data = arena_printf(&w->arena, "{\"machine\":\"%s\",\"ttlMs\":%lld}", m->name,
                                   (long long)option_get(w->options, machine, ttl_seconds) * 1000);
    struct event e;
    return append_system(w, 0, "system-watchdog", kind, data, NULL, &e, err);
}

/* ---- coming and going ---- */

static void forget_machine(struct work *w, void *object)
{
    struct machine **at = &w->machines;
    while (*at != object)
        at = &(*at)->next;
    *at = (*at)->next;
    free(object);
}

static struct machine *add(struct work *w, const struct machine *as_told)
{
    struct machine *m = mem_alloc(sizeof *m), **at = &w->machines;
    *m = *as_told;
    m->look_ms = INT64_MAX;
    m->next = NULL;
    m->edited_in = w->request;
    while (*at)
        at = &(*at)->next;
    *at = m;
    work_remember_new(w, m, forget_machine);
    return m;
}

static int refuse_older(const struct machine *m, struct err *err)
{
    return err_set(err, ERR_SUPERSEDED, "a newer instance of %s has registered", m->name);
}

static bool is_former(const struct machine *m, const char *instance)
{
    for (size_t i = 0; i < MACHINE_FORMER_MAX; i++)
        if (m->former[i][0] && strcmp(m->former[i], instance) == 0)
            return !planted(OLD_INSTANCE_ACCEPTED);
    return false;
}

static void note_former(struct machine *m, const char *next)
{
    if (strcmp(m->instance, next) == 0)
        return;
    memmove(m->former[1], m->former[0], (MACHINE_FORMER_MAX - 1) * sizeof m->former[0]);
    memcpy(m->former[0], m->instance, sizeof m->former[0]);
}

int machine_register(struct work *w, const struct machine *as_told, struct machine **ret,
                     struct err *err)
{
    struct machine *m = machine_find(w, str_of(as_told->name));
    if (m && is_former(m, as_told->instance))
        return refuse_older(m, err);
    if (!m) {
        m = add(w, as_told);
    } else {
        edit(w, m);
        note_former(m, as_told->instance);
        memcpy(m->instance, as_told->instance, sizeof m->instance);
        memcpy(m->hostname, as_told->hostname, sizeof m->hostname);
        memcpy(m->boot_id, as_told->boot_id, sizeof m->boot_id);
        memcpy(m->kinds, as_told->kinds, sizeof m->kinds);
        m->kind_count = as_told->kind_count;
        m->list = as_told->list;
    }
    m->is_online = true;
    m->is_unreconciled = false;
    m->registered_ms = w->now_ms;
    beat(w, m);
    work_touch(w, machine_key_of(str_of(m->name))); /* an older instance is told */
    *ret = m;
    int r = store_machine(w, m, err);
    return r < 0 ? r : append_status(w, m, "machine.registered", err);
}

int machine_beat(struct work *w, struct str name, struct str instance, bool is_alive,
                 struct machine **ret, struct err *err)
{
    struct machine *m = machine_find(w, name);
    if (!m) {
        err_set(err, ERR_NOT_FOUND, "machine %.*s has not registered", STR_ARG(name));
        err_str(err, "what", STR("machine"));
        return err_str(err, "id", name);
    }
    if (!str_is(instance, m->instance) && !planted(OLD_INSTANCE_ACCEPTED))
        return refuse_older(m, err);
    *ret = m;
    if (!is_alive)
        return 0;
    beat(w, m);
    if (m->is_online)
        return 0;
    m->is_online = m->is_unreconciled = true; /* L28 */
    int r = store_machine(w, m, err);
    return r < 0 ? r : append_status(w, m, "machine.online", err);
}

bool machine_is_overtaken(const struct machine *m, struct str instance, int64_t list)
{
    if (planted(OLD_LIST_BELIEVED))
        return false;
    return m && list && list <= m->list && str_is(instance, m->instance);
}

void machine_told_list(struct work *w, struct machine *m, int64_t list)
{
    edit(w, m);
    m->list = list;
}

void machine_is_reconciled(struct work *w, struct machine *m)
{
    edit(w, m);
    m->is_unreconciled = false;
}

int64_t machine_due_ms(const struct work *w, const struct machine *m)
{
    if (m->is_online)
        return machine_lease_until_ms(w, m) + 1;
    return m->fence_ms ? m->fence_ms : NEVER_MS;
}

static void wait_for_fence(struct work *w, struct machine *m)
{
    m->fence_ms = w->now_ms + option_get(w->options, machine, fence_seconds) * 1000;
    m->look_ms = m->fence_ms;
    leases_add(&w->leases, LEASE_MACHINE, machine_key_of(str_of(m->name)), m->look_ms);
}

static int go_offline(struct work *w, struct machine *m, struct err *err)
{
    m->is_online = false;
    wait_for_fence(w, m);
    int r = store_machine(w, m, err);
    if (r == 0)
        r = append_status(w, m, "machine.offline", err);
    if (r == 0)
        r = processes_unknown(w, m, err);
    return r < 0 ? r : commands_expire_on(w, str_of(m->name), err);
}

int machine_move(struct work *w, struct machine *m, struct err *err)
{
    edit(w, m);
    if (m->is_online)
        return go_offline(w, m, err);
    m->fence_ms = 0;
    return processes_fence(w, m, err);
}

void machine_write(struct work *w, const struct machine *m, struct json_out *out)
{
    json_object(out, NULL);
    json_stringz(out, "machine", m->name);
    json_stringz(out, "instance", m->instance);
    json_stringz(out, "hostname", m->hostname);
    json_stringz(out, "bootId", m->boot_id);
    json_stringz(out, "status", m->is_online ? "online" : "offline");
    if (m->is_online)
        json_time(out, "leaseUntil", machine_lease_until_ms(w, m));
    else
        json_null(out, "leaseUntil");
    json_time(out, "registeredAt", m->registered_ms);
    write_kinds(m, out, "kinds");
    json_end(out);
}

/* ---- the list ---- */

static int from_row(struct work *w, struct query *q, struct err *err)
{
    struct machine told = {.is_online = query_get_int(q, 5) != 0,
                           .registered_ms = query_get_int(q, 6)};
    const struct json *kinds;
    snprintf(told.name, sizeof told.name, "%.*s", STR_ARG(query_get_text(q, 0)));
    snprintf(told.instance, sizeof told.instance, "%.*s", STR_ARG(query_get_text(q, 1)));
    snprintf(told.hostname, sizeof told.hostname, "%.*s", STR_ARG(query_get_text(q, 2)));
    snprintf(told.boot_id, sizeof told.boot_id, "%.*s", STR_ARG(query_get_text(q, 3)));
    int r = json_parse(&w->arena, arena_str(&w->arena, query_get_text(q, 4)), JSON_DEPTH_DEFAULT,
                       &kinds, err);
    if (r < 0)
        return err_set(err, ERR_INTERNAL, "machine %s is damaged", told.name);
    read_kinds(&told, kinds);
    struct machine *m = add(w, &told);
    if (m->is_online)
        beat(w, m); /* nobody could beat while we were away (P16) */
    else
        wait_for_fence(w, m);
    return 0;
}

int machines_read(struct work *w, struct err *err)
{
    struct query *q = store_query(w->store, SQL_MACHINE_LIST);
    int r;
    machines_drop(w);
    while ((r = query_step(q, err)) == STORE_ROW) {
        struct err why = ERR_INIT;
        if (from_row(w, q, &why) < 0) /* it will register anew */
            log_error("domain", "machine_damaged", "reason=%s", log_quote(str_of(why.message)));
    }
    return r;
}

void machines_drop(struct work *w)
{
    struct machine *next;
    for (struct machine *m = w->machines; m; m = next) {
        next = m->next;
        free(m);
    }
    w->machines = NULL;
}
