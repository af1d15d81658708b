/*
 * machine.c: hosts that start, watch and stop processes, as `reeve machine` does it.
 *
 * Processes outlive the daemon, not the host. Facts are kept, in order, until they are accepted. A
 * restart begins when every older process of the agent is dead. Told twice of a spawn, it does
 * nothing twice. Faults: the daemon crashes, the host reboots, the network is cut, a start fails,
 * or takes longer than it may, a process dies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/mem.h"
#include "rpc/params.h"
#include "sim/actor.h"
#include "sim/worker.h"
#include "sim/world.h"

enum { GRACE_MS = 5000, CALL_MS_MAX = 45000, EXIT_UNKNOWN = -2, EXIT_BY_SIGNAL = -1 };

static struct host *host(struct sim *s, int who)
{
    return &s->fleet.hosts[who];
}

static struct grant grant_of(int who)
{
    struct grant g = {.scope = SCOPE_MACHINE};
    snprintf(g.machine, sizeof g.machine, "m%d", who);
    snprintf(g.subject, sizeof g.subject, "token:m%d", who);
    return g;
}

/* ---- what it has ---- */

static struct known_spawn *find_spawn(struct host *h, const char *spawn)
{
    for (size_t i = 0; i < h->known_count; i++)
        if (strcmp(h->known[i].spawn, spawn) == 0)
            return &h->known[i];
    return NULL;
}

static struct known_spawn *know(struct host *h, const char *spawn)
{
    h->known = mem_grow(h->known, &h->known_room, h->known_count + 1, sizeof *h->known);
    struct known_spawn *k = &h->known[h->known_count++];
    *k = (struct known_spawn){.process = -1};
    snprintf(k->spawn, sizeof k->spawn, "%s", spawn);
    return k;
}

static struct worker *process_of(struct sim *s, const struct known_spawn *k)
{
    if (k->process < 0)
        return NULL;
    struct worker *w = worker_process(s, k->process);
    return w->is_alive && w->life == k->life ? w : NULL;
}

static void add_fact(struct host *h, enum fact_type type, const char *spawn, int code)
{
    if (h->fact_count == SIM_FACTS_MAX)
        return;
    struct fact *f = &h->facts[h->fact_count++];
    *f = (struct fact){.n = ++h->last_fact, .type = type, .code = code};
    snprintf(f->spawn, sizeof f->spawn, "%s", spawn);
}

/* Those that have ended since it last looked; those whose grace is over are ended. */
static void look(struct sim *s, struct host *h)
{
    for (size_t i = 0; i < h->known_count; i++) {
        struct known_spawn *k = &h->known[i];
        struct worker *w = process_of(s, k);
        if (w && w->is_stopping && s->now_ms >= w->ends_at_ms)
            worker_die(s, w);
        if (k->is_over || process_of(s, k))
            continue;
        k->is_over = true;
        if (k->process >= 0)
            add_fact(h, k->was_asked ? FACT_STOPPED : FACT_EXITED, k->spawn,
                     k->was_asked ? EXIT_BY_SIGNAL : (int)(k->life % 2));
    }
}

/* ---- orders ---- */

/* Asked to go, it goes, unless it hangs: then it is killed after the grace. */
static void stop_process(struct sim *s, struct known_spawn *k)
{
    struct worker *w = process_of(s, k);
    k->was_asked = true;
    if (!w || w->is_stopping)
        return;
    w->is_stopping = true;
    w->ends_at_ms = s->now_ms + GRACE_MS;
    if (!w->is_hung)
        worker_die(s, w);
}

static bool others_are_dead(struct sim *s, struct host *h, const struct order *o)
{
    bool all = true;
    for (size_t i = 0; i < h->known_count; i++) {
        struct worker *w = process_of(s, &h->known[i]);
        if (!w || w->conversation != o->conversation || w->role != o->role)
            continue;
        stop_process(s, &h->known[i]);
        all = all && !w->is_alive;
    }
    return all;
}

static void spawn(struct sim *s, int who, const struct order *o, uint32_t arg)
{
    struct host *h = host(s, who);
    struct known_spawn *k = know(h, o->spawn);
    uint64_t r = arg;
    bool fails = s->now_ms > o->until_ms || sim_happens(s, &r, s->swarm.start_fails);
    int number = fails ? -1 : worker_spawn(s);
    if (number < 0) {
        k->is_over = true;
        add_fact(h, FACT_START_FAILED, o->spawn, 0);
        return;
    }
    struct worker *w = worker_process(s, number);
    w->machine = who;
    w->conversation = o->conversation;
    w->role = o->role;
    snprintf(w->spawn, sizeof w->spawn, "%s", o->spawn);
    memcpy(w->token, o->token, sizeof w->token);
    k->process = number;
    k->life = w->life;
    add_fact(h, FACT_SPAWNED, o->spawn, 0);
    if (o->role % SIM_KINDS == 1 && (arg % 4 || s->is_settling))
        add_fact(h, FACT_READY, o->spawn, 0);
}

/* True if it is done with. */
static bool carry_out(struct sim *s, int who, const struct order *o, uint32_t arg)
{
    struct host *h = host(s, who);
    struct known_spawn *k = find_spawn(h, o->spawn);
    if (o->type == ORDER_STOP) {
        if (!k) { /* it never began here, and never will */
            k = know(h, o->spawn);
            k->is_over = true;
        }
        stop_process(s, k);
        if (k->is_over)
            add_fact(h, FACT_STOPPED, o->spawn, EXIT_UNKNOWN);
        return true;
    }
    if (k) /* told again */
        return true;
    if (o->type == ORDER_RESTART && !others_are_dead(s, h, o))
        return false;
    look(s, h); /* their ends are told before its beginning */
    spawn(s, who, o, arg);
    return true;
}

/* ---- what it tells of what it has ---- */

static bool is_start_in_hand(const struct host *h, int order)
{
    return h->orders[order].type != ORDER_STOP &&
           !find_spawn((struct host *)h, h->orders[order].spawn);
}

/* Starts in hand too: they may have begun when the server reads it. */
static void list_processes(struct sim *s, struct host *h, struct buf *list)
{
    for (size_t i = 0; i < h->known_count; i++)
        if (process_of(s, &h->known[i]))
            buf_addf(list, "%s{'spawnId':'%s','pid':%d,'startTime':1,'state':'running'}",
                     list->len ? "," : "", h->known[i].spawn, 100 + h->known[i].process);
    for (int i = 0; i < h->order_count; i++)
        if (is_start_in_hand(h, i))
            buf_addf(list, "%s{'spawnId':'%s','state':'running'}", list->len ? "," : "",
                     h->orders[i].spawn);
    buf_addc(list, '\0');
}

/* One register or poll at a time, as the real one: until it is answered, its connection breaks, or
 * it has taken too long; then nobody listens for the answer any more. */
static bool is_calling(const struct sim *s, const struct host *h)
{
    return h->call && s->asks[h->call]->state != ASK_LOST && s->now_ms < h->gives_up_ms;
}

static void begin_call(struct sim *s, struct host *h, const struct ask *a)
{
    h->call = a->id;
    h->gives_up_ms = s->now_ms + CALL_MS_MAX;
}

static void list_alive(struct sim *s, struct host *h, struct buf *list)
{
    for (size_t i = 0; i < h->known_count; i++)
        if (process_of(s, &h->known[i]))
            buf_addf(list, "%s'%s'", list->len ? "," : "", h->known[i].spawn);
    for (int i = 0; i < h->order_count; i++)
        if (is_start_in_hand(h, i))
            buf_addf(list, "%s'%s'", list->len ? "," : "", h->orders[i].spawn);
    buf_addc(list, '\0');
}

/* ---- verbs ---- */

static void boot(struct sim *s, int who, uint32_t arg)
{
    struct host *h = host(s, who);
    (void)arg;
    if (h->is_up || h->is_gone)
        return;
    h->is_up = true;
    h->is_registered = false;
    h->instance++;
}

static void enroll(struct sim *s, int who, uint32_t arg)
{
    struct host *h = host(s, who);
    struct grant g = grant_of(who);
    _cleanup_buf_ struct buf list = BUF_INIT(1 << 16);
    if (!h->is_up || is_calling(s, h))
        return;
    look(s, h);
    list_processes(s, h, &list);
    begin_call(
        s, h,
        sim_ask(s, ACTOR_MACHINE, who, &g, arg, ASK_REGISTER,
                "{'machine':'m%d','instance':'i%u','n':%lld,'hostname':'h','bootId':'b%u','kinds':["
                "{'name':'k0','restart':'on-failure','ready':'none'},"
                "{'name':'k1','restart':'always','ready':'notify'},"
                "{'name':'k2','restart':'never','ready':'heartbeat'}],'processes':[%s]}",
                who, h->instance, (long long)++h->lists, h->boot, list.data));
}

static void poll(struct sim *s, int who, uint32_t arg)
{
    struct host *h = host(s, who);
    struct grant g = grant_of(who);
    _cleanup_buf_ struct buf list = BUF_INIT(1 << 16);
    if (!h->is_up || !h->is_registered || h->call)
        return;
    look(s, h);
    list_alive(s, h, &list);
    begin_call(s, h,
               sim_ask(s, ACTOR_MACHINE, who, &g, arg, ASK_POLL,
                       "{'machine':'m%d','instance':'i%u','n':%lld,'timeoutMs':%u,'alive':[%s]}",
                       who, h->instance, (long long)++h->lists, arg % 30000, list.data));
}

static void write_fact(struct buf *out, const struct fact *f)
{
    static const char *const names[] = {[FACT_SPAWNED] = "spawned",
                                        [FACT_START_FAILED] = "start_failed",
                                        [FACT_EXITED] = "exited",
                                        [FACT_STOPPED] = "stopped",
                                        [FACT_READY] = "notify"};
    buf_addf(out, "%s{'n':%lld,'fact':'%s','spawnId':'%s'", out->len ? "," : "", (long long)f->n,
             names[f->type], f->spawn);
    if (f->type == FACT_SPAWNED)
        buf_addf(out, ",'pid':%lld,'startTime':1", 100 + (long long)f->n);
    if (f->type == FACT_READY)
        buf_addz(out, ",'ready':true");
    if (f->type == FACT_EXITED)
        buf_addf(out, ",'exit':{'code':%d}", f->code);
    if (f->type == FACT_STOPPED && f->code == EXIT_BY_SIGNAL)
        buf_addz(out, ",'exit':{'code':-1,'signal':15}");
    buf_addz(out, "}");
}

static void report(struct sim *s, int who, uint32_t arg)
{
    struct host *h = host(s, who);
    struct grant g = grant_of(who);
    _cleanup_buf_ struct buf list = BUF_INIT(1 << 16);
    if (!h->is_up || !h->is_registered)
        return;
    look(s, h);
    for (int i = 0; i < h->fact_count && i < 50; i++)
        write_fact(&list, &h->facts[i]);
    if (!list.len)
        return;
    buf_addc(&list, '\0');
    sim_ask(s, ACTOR_MACHINE, who, &g, arg, ASK_REPORT,
            "{'machine':'m%d','instance':'i%u','facts':[%s]}", who, h->instance, list.data);
}

static void obey(struct sim *s, int who, uint32_t arg)
{
    struct host *h = host(s, who);
    if (!h->is_up || h->order_count == 0)
        return;
    struct order o = h->orders[0];
    memmove(h->orders, h->orders + 1, (size_t)--h->order_count * sizeof o);
    if (!carry_out(s, who, &o, arg))
        h->orders[h->order_count++] = o;
    look(s, h);
}

static void crash(struct sim *s, int who, uint32_t arg)
{
    struct host *h = host(s, who);
    (void)arg;
    h->is_up = h->is_registered = false;
    h->instance++; /* answers to it reach nobody */
    h->order_count = 0;
    h->call = 0;
    for (size_t i = 0; i < s->open_count; i++) /* no old one outlives it */
        if (sim_open(s, i)->method == ASK_REGISTER && sim_open(s, i)->who == who &&
            sim_open(s, i)->state == ASK_ON_ITS_WAY)
            sim_open(s, i)->state = ASK_LOST;
    sim_close_peer(s, ACTOR_MACHINE, who);
}

static void reboot(struct sim *s, int who, uint32_t arg)
{
    struct host *h = host(s, who);
    for (size_t i = 0; i < h->known_count; i++)
        worker_die(s,
                   process_of(s, &h->known[i]) ? process_of(s, &h->known[i]) : &(struct worker){0});
    h->boot++;
    crash(s, who, arg);
}

static void cut(struct sim *s, int who, uint32_t arg)
{
    struct host *h = host(s, who);
    h->cut_until_ms = s->now_ms + (int64_t)(arg % 600000);
}

static void kill_process(struct sim *s, int who, uint32_t arg)
{
    struct host *h = host(s, who);
    struct worker *w = h->known_count ? process_of(s, &h->known[arg % h->known_count]) : NULL;
    if (w)
        worker_die(s, w);
}

enum { V_BOOT, V_REGISTER, V_POLL, V_REPORT, V_OBEY, V_CRASH, V_REBOOT, V_CUT, V_KILL };

static const struct verb verbs[] = {
    [V_BOOT] = {"boot", boot},         [V_REGISTER] = {"register", enroll},
    [V_POLL] = {"poll", poll},         [V_REPORT] = {"report", report},
    [V_OBEY] = {"obey", obey},         [V_CRASH] = {"crash", crash},
    [V_REBOOT] = {"reboot", reboot},   [V_CUT] = {"cut", cut},
    [V_KILL] = {"kill", kill_process}, {NULL, NULL}};

/* ---- choosing and hearing ---- */

static int choose_fault(struct sim *s, uint64_t *random)
{
    if (sim_happens(s, random, s->swarm.machine_crashes))
        return V_CRASH;
    if (sim_happens(s, random, s->swarm.machine_reboots))
        return V_REBOOT;
    if (sim_happens(s, random, s->swarm.partitions))
        return V_CUT;
    return sim_happens(s, random, s->swarm.agent_dies) ? V_KILL : -1;
}

static int choose(struct sim *s, int who, uint64_t *random, int64_t *ret_pause_ms)
{
    struct host *h = host(s, who);
    int64_t beat_ms = option_get(&s->swarm.options, machine, heartbeat_seconds) * 1000;
    *ret_pause_ms = s->is_settling ? sim_between(random, 1000, MAX(beat_ms, 3000))
                                   : sim_between(random, 1, s->swarm.pace_ms);
    if (!h->is_up)
        return V_BOOT;
    int fault = choose_fault(s, random);
    if (fault >= 0)
        return fault;
    if (h->order_count && s->is_settling)
        *ret_pause_ms = sim_between(random, 1, 500); /* however many they are */
    if (h->order_count)
        return V_OBEY;
    if (is_calling(s, h) || (h->is_registered && h->fact_count))
        return V_REPORT;
    return h->is_registered && !h->call ? V_POLL : V_REGISTER;
}

static void take_command(struct sim *s, struct host *h, const struct json *c)
{
    struct str type = params_str(c, "type"), role = params_str(c, "role"),
               spawn_id = params_str(c, "spawnId"), token = params_str(c, "token");
    if (!spawn_id.p || h->order_count == SIM_ORDERS_MAX || role.n != 2)
        return;
    struct order o = {.type = str_is(type, "stop-agent")      ? ORDER_STOP
                              : str_is(type, "restart-agent") ? ORDER_RESTART
                                                              : ORDER_START,
                      .conversation = params_int(c, "conversation", 0),
                      .role = role.p[1] - '0',
                      .until_ms = s->now_ms + params_int(c, "ttlMs", 0)};
    snprintf(o.spawn, sizeof o.spawn, "%.*s", STR_ARG(spawn_id));
    if (token.p)
        crypto_sha256(token, o.token);
    h->orders[h->order_count++] = o;
}

static void take_commands(struct sim *s, struct host *h, const struct json *result)
{
    JSON_FOREACH (item, json_get(result, "commands"))
        take_command(s, h, item);
}

static void accepted(struct host *h, int64_t up_to)
{
    int kept = 0;
    for (int i = 0; i < h->fact_count; i++)
        if (h->facts[i].n > up_to)
            h->facts[kept++] = h->facts[i];
    h->fact_count = kept;
}

static void hear(struct sim *s, const struct ask *a, const struct json *result, struct str error)
{
    struct host *h = host(s, a->who);
    bool is_call = a->method == ASK_REGISTER || a->method == ASK_POLL;
    if (is_call && a->id != h->call)
        return; /* it has given up waiting for that */
    if (is_call)
        h->call = 0;
    if (!result) {
        if (!str_is(error, "UNAVAILABLE"))
            h->is_registered = false;
        return;
    }
    if (a->method == ASK_REGISTER)
        h->is_registered = true;
    if (a->method == ASK_REPORT)
        accepted(h, params_int(result, "acceptedTo", 0));
    else
        take_commands(s, h, result);
}

static int64_t machines(const struct sim *s)
{
    return s->swarm.machines;
}

const struct actor_kind actor_machine = {
    .name = "machine", .verbs = verbs, .count = machines, .choose = choose, .hear = hear};
