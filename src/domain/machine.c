/* machine.c: see machine.h. */
#include "domain/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/planted.h"
#include "domain/agent.h"
#include "domain/append.h"
#include "domain/command.h"
#include "domain/process.h"
#include "domain/start.h"
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

static struct machine *find_any(const struct work *w, struct str name)
{
    for (struct machine *m = w->machines; m; m = m->next)
        if (str_is(name, m->name))
            return m;
    return NULL;
}

struct machine *machine_find(const struct work *w, struct str name)
{
    struct machine *m = find_any(w, name);
    return m && !m->is_forgotten ? m : NULL;
}

int machine_get(const struct work *w, struct str name, struct machine **ret, struct err *err)
{
    *ret = machine_find(w, name);
    if (*ret)
        return 0;
    err_set(err, ERR_NOT_FOUND, "machine %.*s has not registered", STR_ARG(name));
    err_str(err, "what", STR("machine"));
    return err_str(err, "id", name);
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

bool machine_is_online(const struct work *w, struct str name)
{
    const struct machine *m = machine_find(w, name);
    return m && m->is_online;
}

bool machine_is_lost(const struct work *w, struct str name)
{
    const struct machine *m = machine_find(w, name);
    return !m || (!m->is_online && m->is_fenced);
}

/* ---- choosing ---- */

static int count_processes(struct work *w, const struct machine *m, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_AGENT_COUNT_ON_MACHINE);
    query_text(q, 1, str_of(m->name));
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = query_get_int(q, 0);
    query_end(q);
    return 0;
}

/* Of those that are online and offer it, the one with the fewest processes; of equals the one that
 * registered first. *ret NULL: there is none. */
static int find_least_loaded(struct work *w, const char *kind, struct machine **ret,
                             bool *ret_is_offered, struct err *err)
{
    int64_t least = INT64_MAX, load = 0;
    *ret = NULL;
    *ret_is_offered = false;
    for (struct machine *m = w->machines; m; m = m->next) {
        if (!machine_kind_find(m, kind))
            continue;
        *ret_is_offered = true;
        int r = m->is_online ? count_processes(w, m, &load, err) : 0;
        if (r < 0)
            return r;
        if (m->is_online && load < least) {
            least = load;
            *ret = m;
        }
    }
    return 0;
}

int machine_choose(struct work *w, const struct agent *a, bool may_live, enum placement *ret,
                   struct machine **ret_machine, struct err *err)
{
    struct machine *pinned = a->pinned[0] ? machine_find(w, str_of(a->pinned)) : NULL,
                   *last = a->machine[0] ? machine_find(w, str_of(a->machine)) : NULL;
    bool is_offered;
    if (planted(AGENT_BOUND_FOR_EVER) && last)
        pinned = last;
    if (a->pinned[0] || pinned) {
        *ret = pinned && pinned->is_online ? PLACE_ON_MACHINE : PLACE_LATER;
        *ret_machine = pinned;
        return 0;
    }
    if (last && last->is_online && (may_live || machine_kind_find(last, a->kind))) {
        *ret = PLACE_ON_MACHINE;
        *ret_machine = last;
        return 0;
    }
    if (may_live && !machine_is_lost(w, str_of(a->machine))) {
        *ret = PLACE_LATER;
        return 0;
    }
    int r = find_least_loaded(w, a->kind, ret_machine, &is_offered, err);
    *ret = *ret_machine ? PLACE_ON_MACHINE : is_offered ? PLACE_LATER : PLACE_ON_WHOEVER_COMES;
    return r;
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
    query_int(q, 8, m->offline_ms);
    query_int(q, 9, m->is_fenced);
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

/* The ladder looks at it when it is due. */
static void watch(struct work *w, struct machine *m)
{
    int64_t due_ms = machine_due_ms(w, m);
    if (due_ms >= m->look_ms)
        return;
    m->look_ms = due_ms;
    leases_add(&w->leases, LEASE_MACHINE, machine_key_of(str_of(m->name)), due_ms);
}

static void beat(struct work *w, struct machine *m)
{
    edit(w, m);
    m->beat_ms = w->now_ms;
    watch(w, m);
}

static int append_status(struct work *w, const struct machine *m, const char *kind, struct err *err)
{
    struct str data =
        arena_printf(&w->arena, "{\"machine\":\"%s\",\"ttlMs\":%lld,\"fenceMs\":%lld}", m->name,
                     (long long)option_get(w->options, machine, ttl_seconds) * 1000,
                     (long long)option_get(w->options, machine, fence_seconds) * 1000);
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

static int come_online(struct work *w, struct machine *m, const char *event, struct err *err)
{
    bool was_away = !m->is_online;
    m->is_online = true;
    m->is_fenced = false;
    m->offline_ms = 0;
    beat(w, m);
    int r = store_machine(w, m, err);
    if (r == 0 && was_away)
        r = commands_begin_on(w, str_of(m->name), err);
    return r < 0 ? r : append_status(w, m, event, err);
}

int machine_register(struct work *w, const struct machine *as_told, struct machine **ret,
                     struct err *err)
{
    struct machine *m = find_any(w, str_of(as_told->name));
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
    m->registered_ms = w->now_ms;
    m->is_unreconciled = m->is_forgotten = false;
    work_touch(w, machine_key_of(str_of(m->name))); /* an older instance is told */
    *ret = m;
    return come_online(w, m, "machine.registered", err);
}

int machine_beat(struct work *w, struct str name, struct str instance, bool is_alive,
                 struct machine **ret, struct err *err)
{
    struct machine *m;
    int r = machine_get(w, name, &m, err);
    if (r < 0)
        return r;
    if (!str_is(instance, m->instance) && !planted(OLD_INSTANCE_ACCEPTED))
        return refuse_older(m, err);
    *ret = m;
    if (!is_alive)
        return 0;
    beat(w, m);
    if (m->is_online)
        return 0;
    m->is_unreconciled = true; /* L28 */
    return come_online(w, m, "machine.online", err);
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
    return m->is_fenced ? NEVER_MS : machine_fence_due_ms(w, m);
}

int64_t machine_fence_due_ms(const struct work *w, const struct machine *m)
{
    int64_t limit_ms = option_get(w->options, machine, fence_seconds) * 1000;
    if (planted(DEADLINE_IGNORES_GAPS))
        return all_time_until_ms(ALL_TIME_ROW_RETRY, m->offline_ms, limit_ms) + 1;
    return gaps_due_ms(&w->gaps, m->offline_ms, limit_ms);
}

bool machines_wait_for_fence(const struct work *w)
{
    for (const struct machine *m = w->machines; m; m = m->next)
        if (!m->is_online && !m->is_fenced)
            return true;
    return false;
}

static int go_offline(struct work *w, struct machine *m, struct err *err)
{
    m->is_online = false;
    m->offline_ms = w->now_ms;
    watch(w, m);
    int r = store_machine(w, m, err);
    if (r == 0)
        r = append_status(w, m, "machine.offline", err);
    if (r == 0)
        r = processes_unknown(w, m, err);
    if (r == 0)
        r = commands_expire_on(w, str_of(m->name), "machine_offline", err);
    return r < 0 ? r : wishes_go_elsewhere(w, m, err);
}

static int be_lost(struct work *w, struct machine *m, struct err *err)
{
    m->is_fenced = true;
    int r = store_machine(w, m, err);
    if (r == 0)
        r = append_status(w, m, "machine.fenced", err);
    if (r == 0)
        r = processes_fence(w, m, err);
    return r < 0 ? r : wishes_go_elsewhere(w, m, err);
}

int machine_move(struct work *w, struct machine *m, struct err *err)
{
    edit(w, m);
    return m->is_online ? go_offline(w, m, err) : be_lost(w, m, err);
}

static int refuse_to_forget(struct work *w, const struct machine *m, struct err *err)
{
    char lost[CLOCK_ISO_BYTES];
    clock_iso(machine_fence_due_ms(w, m), lost);
    if (m->is_online)
        err_set(err, ERR_INVALID_TRANSITION,
                "machine %s is online: end it first (`reeve down` on its host)", m->name);
    else
        err_set(err, ERR_INVALID_TRANSITION,
                "machine %s may come back with its processes until %s: wait until then, or use "
                "force if its host is gone",
                m->name, lost);
    err_str(err, "from", str_of(m->is_online ? "online" : "offline"));
    err_str(err, "trigger", STR("machine.forget"));
    return err_json(err, "allowed", m->is_online ? STR("[]") : STR("[\"force\"]"));
}

int machine_forget(struct work *w, struct machine *m, bool force, struct err *err)
{
    if (m->is_online || (!m->is_fenced && !force))
        return refuse_to_forget(w, m, err);
    edit(w, m);
    int r = m->is_fenced ? 0 : be_lost(w, m, err);
    if (r == 0)
        r = commands_expire_on(w, str_of(m->name), "machine_forgotten", err);
    if (r == 0)
        r = processes_give_up(w, m, err);
    if (r == 0)
        r = append_status(w, m, "machine.forgotten", err);
    if (r < 0)
        return r;
    m->is_forgotten = true;
    m->kind_count = 0;
    struct query *q = store_query(w->store, SQL_MACHINE_DELETE);
    query_text(q, 1, str_of(m->name));
    work_mark_written(w);
    return query_run(q, NULL, err);
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
    if (!m->is_online) {
        json_time(out, "offlineSince", m->offline_ms);
        json_bool(out, "lost", m->is_fenced);
    }
    json_time(out, "registeredAt", m->registered_ms);
    write_kinds(m, out, "kinds");
    json_end(out);
}

/* ---- the list ---- */

static int from_row(struct work *w, struct query *q, struct err *err)
{
    struct machine told = {.is_online = query_get_int(q, 5) != 0,
                           .registered_ms = query_get_int(q, 6),
                           .offline_ms = query_get_int(q, 7),
                           .is_fenced = query_get_int(q, 8) != 0};
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
    if (!told.is_online && !told.offline_ms) /* an older version did not store it */
        told.offline_ms = w->now_ms;
    struct machine *m = add(w, &told);
    if (m->is_online)
        beat(w, m); /* nobody could beat while we were away (P16) */
    else
        watch(w, m);
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
