/*
 * world.c: see world.h. First the clocks, then the server, the network, and the passing of time.
 *
 * What a crash is: everything the server has in memory is gone, with every answer that was not out;
 * of what it has written, the disk keeps what was synced and some of the rest (fault_vfs.h). Inside
 * a tick it comes by a cut at the nth operation of the disk: whatever the core says from then on is
 * said to nobody.
 */
#include "sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "sim/checker.h"
#include "sim/why.h"

#define SIM_BEGINNING_MS INT64_C(1700000000000)
enum { PEER_ROOM_BYTES = 1 << 24, TICKS_WITHOUT_TIME_MAX = 20000, JSON_DEPTH = 64 };

const struct grant sim_operator = {.scope = SCOPE_OPERATOR, .subject = "operator"};

const char *const ask_names[ASK_METHODS] = {
#define X(name, text, keyed) [ASK_##name] = text,
    ASK_LIST(X)
#undef X
};

static const bool takes_key[ASK_METHODS] = {
#define X(name, text, keyed) [ASK_##name] = keyed,
    ASK_LIST(X)
#undef X
};

const struct actor_kind *const actor_kinds[ACTOR_KINDS] = {
#define X(name, table) [ACTOR_##name] = &table,
    ACTOR_LIST(X)
#undef X
};

/* ---- clocks ---- */

static struct sim *the_sim; /* one at a time: clock_mono_us() has no context */

static int64_t wall_ms(void *ctx)
{
    const struct sim *s = ctx;
    return SIM_BEGINNING_MS + s->now_ms + s->wall_ahead_ms;
}

static int64_t boot_us(void *ctx)
{
    return ((const struct sim *)ctx)->now_ms * 1000;
}

static int64_t mono_us(void *ctx)
{
    const struct sim *s = ctx;
    int64_t nap_ms = s->nap_from_ms ? MIN(s->now_ms, s->awake_at_ms) - s->nap_from_ms : 0;
    return (s->now_ms - s->asleep_ms - nap_ms) * 1000;
}

/* Stands in for clock_mono_us(): --wrap. */
int64_t mono_us_of_the_sim(void) __asm__("__wrap_clock_mono_us");
int64_t mono_us_of_the_sim(void)
{
    return the_sim ? mono_us(the_sim) : 0;
}

int64_t sim_server_ms(const struct sim *s)
{
    return clock_now_ms(&s->clock);
}

static void fill_random(void *ctx, void *out, size_t n)
{
    uint64_t *state = ctx, bits = 0;
    for (size_t i = 0; i < n; i++) {
        if (i % 8 == 0)
            bits = sim_random(state);
        ((unsigned char *)out)[i] = (unsigned char)(bits >> (8 * (i % 8)));
    }
}

/* ---- findings ---- */

void sim_fail(struct sim *s, const char *promise, const char *fmt, ...)
{
    va_list ap;
    if (s->has_failed)
        return;
    s->has_failed = true;
    snprintf(s->promise, sizeof s->promise, "%s", promise);
    va_start(ap, fmt);
    vsnprintf(s->why, sizeof s->why, fmt, ap);
    va_end(ap);
}

void sim_trace(const struct sim *s, const char *fmt, ...)
{
    va_list ap;
    if (!s->traces)
        return;
    fprintf(stderr, "%9lld ", (long long)s->now_ms);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void sim_hash(struct sim *s, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        s->hash = (s->hash ^ p[i]) * UINT64_C(0x100000001b3);
}

bool sim_happens(const struct sim *s, uint64_t *random, int64_t rate)
{
    return (int64_t)(sim_random(random) % 1000) < rate && !s->is_settling;
}

/* ---- the server ---- */

static void tokens_changed(void *ctx, struct store *store)
{
    auth_reload(((struct sim *)ctx)->auth, store);
}

static int greatest_stored_ms(struct store *store, int64_t *ret, struct err *err)
{
    struct query *q = store_query(store, SQL_SERVER_GREATEST_TIME);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = query_get_int(q, 0);
    query_end(q);
    return 0;
}

static int open_core(struct sim *s, struct err *err)
{
    int64_t greatest_ms = 0;
    int r = store_open("sqlite:a.db", "simdisk", wall_ms(s), &s->store, err);
    if (r < 0)
        return r;
    r = greatest_stored_ms(s->store, &greatest_ms, err);
    if (r < 0) {
        store_close(s->store);
        return r;
    }
    clock_init(&s->clock, &s->source, greatest_ms);
    const struct core_config config = {.store = s->store,
                                       .clock = &s->clock,
                                       .options = &s->swarm.options,
                                       .version = "sim",
                                       .store_url = "sqlite",
                                       .tokens_changed = tokens_changed,
                                       .ctx = s};
    return core_new(&config, &s->core, err);
}

bool sim_start_server(struct sim *s)
{
    struct err err = ERR_INIT;
    if (s->core)
        return true;
    s->auth = auth_new(STR("operator"));
    int r = open_core(s, &err);
    s->awake_at_ms = s->now_ms;
    s->nap_from_ms = 0;
    if (r < 0) {
        s->core = NULL;
        s->store = NULL;
        s->auth = auth_free(s->auth);
        if (fault_vfs_is_dying(s->disk)) { /* killed while it starts */
            fault_vfs_power_off(s->disk);
            fault_vfs_power_on(s->disk);
            fault_vfs_plan(s->disk, FAULT_DEATH, 0, false);
        } else {
            sim_fail(s, "P12", "the server cannot start: %s", err.message);
        }
        return false;
    }
    sim_trace(s, "  the server begins at %lld", (long long)sim_server_ms(s));
    checker_server_started(s);
    why_disturbed(s);
    return true;
}

void sim_close_peer(struct sim *s, enum actor kind, int who)
{
    struct peer **p = &s->peers[kind][who];
    if (!*p)
        return;
    atomic_store(&(*p)->is_closed, true);
    if (s->core) { /* with the next tick: this may be in the middle of one */
        struct core_input *in = core_input_new(CORE_CLOSED, *p);
        in->next = s->closed;
        s->closed = in;
    }
    *p = peer_unref(*p);
}

void sim_drop_connections(struct sim *s)
{
    while (s->closed) {
        struct core_input *in = s->closed;
        s->closed = in->next;
        core_input_free(in);
    }
    for (int kind = 0; kind < ACTOR_KINDS; kind++)
        for (int who = 0; who < SIM_ACTORS_MAX; who++)
            s->peers[kind][who] = peer_unref(s->peers[kind][who]);
    for (size_t i = 0; i < s->open_count; i++)
        if (sim_open(s, i)->state == ASK_TAKEN)
            sim_open(s, i)->state = ASK_LOST;
    for (int i = 0; i < s->swarm.clients; i++)
        s->fleet.clients[i].is_subscribed = false;
}

void sim_kill_server(struct sim *s)
{
    if (!s->core)
        return;
    sim_trace(s, "  the server is killed at %lld", (long long)sim_server_ms(s));
    checker_server_ends(s);
    why_disturbed(s);
    outbox_release(&s->out);
    bell_forget(s);
    fault_vfs_power_off(s->disk);
    s->core = core_free(s->core);
    s->store = NULL;
    s->auth = auth_free(s->auth);
    fault_vfs_power_on(s->disk);
    fault_vfs_plan(s->disk, FAULT_DEATH, 0, false);
    sim_drop_connections(s);
}

/* ---- requests ---- */

static void quote(char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            *text = '"';
}

/* What becomes of it on the way, by its number. */
static void choose_fate(struct sim *s, struct ask *a, uint32_t arg)
{
    uint64_t r = (uint64_t)arg * UINT64_C(0x9E3779B97F4A7C15);
    a->state = sim_happens(s, &r, s->swarm.lose_request) ? ASK_LOST : ASK_ON_ITS_WAY;
    a->loses_reply = sim_happens(s, &r, s->swarm.lose_reply);
    if (sim_happens(s, &r, s->swarm.delay))
        a->at_ms += sim_between(&r, 1, s->swarm.delay_ms);
    if (sim_happens(s, &r, s->swarm.delay))
        a->reply_delay_ms = sim_between(&r, 1, s->swarm.delay_ms);
    a->is_doubled = sim_happens(s, &r, s->swarm.duplicate);
    a->is_keyed = takes_key[a->method] && (sim_random(&r) & 1);
}

static struct ask *add_ask(struct sim *s, struct ask value)
{
    struct ask *a = mem_alloc(sizeof *a);
    *a = value;
    s->asks = mem_grow(s->asks, &s->ask_room, s->ask_count + 1, sizeof *s->asks);
    s->open = mem_grow(s->open, &s->open_room, s->open_count + 1, sizeof *s->open);
    s->open[s->open_count++] = s->ask_count;
    a->id = (int64_t)s->ask_count;
    s->asks[s->ask_count++] = a;
    return a;
}

static bool is_append(enum ask_method method)
{
    return method == ASK_SAY || method == ASK_TRACE;
}

static char *with_key(char *params, enum ask_method method, int64_t id)
{
    size_t n = strlen(params);
    REQUIRE(n >= 2 && params[n - 1] == '}');
    params[n - 1] = '\0';
    char *keyed =
        mem_printf("%s,\"%s\":\"k%lld\"}", params,
                   is_append(method) ? "clientRequestId" : "idempotencyKey", (long long)id);
    free(params);
    return keyed;
}

static bool is_cut_off(const struct sim *s, enum actor kind, int who)
{
    int host = kind == ACTOR_MACHINE   ? who
               : kind == ACTOR_PROCESS ? s->fleet.workers[SIM_ACTORS_MAX + who].machine
                                       : -1;
    return host >= 0 && s->fleet.hosts[host].cut_until_ms > s->now_ms;
}

static unsigned life_of(const struct sim *s, enum actor kind, int who)
{
    if (kind == ACTOR_AGENT)
        return s->fleet.workers[who].life;
    if (kind == ACTOR_PROCESS)
        return s->fleet.workers[SIM_ACTORS_MAX + who].life;
    return kind == ACTOR_MACHINE ? s->fleet.hosts[who].instance : 0;
}

struct ask *sim_ask(struct sim *s, enum actor kind, int who, const struct grant *grant,
                    uint32_t arg, enum ask_method method, const char *fmt, ...)
{
    struct ask a = {.method = method,
                    .kind = kind,
                    .who = who,
                    .life = life_of(s, kind, who),
                    .grant = *grant,
                    .epoch = -1,
                    .role = -1,
                    .at_ms = s->now_ms};
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&a.params, fmt, ap) < 0)
        abort();
    va_end(ap);
    quote(a.params);
    choose_fate(s, &a, arg);
    if (is_cut_off(s, kind, who))
        a.state = ASK_LOST;
    struct ask *added = add_ask(s, a);
    if (added->is_keyed)
        added->params = with_key(added->params, method, added->id);
    return added;
}

struct ask *sim_ask_again(struct sim *s, const struct ask *first, uint32_t arg)
{
    struct ask a = *first;
    a.at_ms = s->now_ms;
    a.reply_delay_ms = 0;
    a.answer = NULL;
    a.is_ok = false;
    choose_fate(s, &a, arg);
    if (is_cut_off(s, a.kind, a.who))
        a.state = ASK_LOST;
    a.is_keyed = first->is_keyed;
    a.life = life_of(s, a.kind, a.who);
    a.repeats = first->repeats ? first->repeats : first->id;
    a.params = mem_strdup(first->params);
    return add_ask(s, a);
}

/* ---- answers ---- */

static struct peer *peer_of(struct sim *s, enum actor kind, int who)
{
    struct peer **p = &s->peers[kind][who];
    if (!*p)
        *p = peer_new(NULL, PEER_ROOM_BYTES);
    return *p;
}

static void hear(struct sim *s, struct ask *a, const struct json *reply)
{
    const struct json *result = json_get(reply, "result"),
                      *data = json_get(json_get(reply, "error"), "data"),
                      *name = json_get(data, "name");
    struct str error = result ? STR_NONE : name ? name->string : STR("ERROR");
    if (is_cut_off(s, a->kind, a->who) || a->life != life_of(s, a->kind, a->who))
        return;
    actor_kinds[a->kind]->hear(s, a, result, error);
}

static void post(struct sim *s, struct ask *a, struct str text)
{
    s->letters = mem_grow(s->letters, &s->letter_room, s->letter_count + 1, sizeof *s->letters);
    s->letters[s->letter_count++] = (struct letter){
        .at_ms = s->now_ms + a->reply_delay_ms, .ask = a->id, .text = mem_strndup(text.p, text.n)};
}

static void answered(struct sim *s, struct ask *a, const struct json *reply, struct str text)
{
    a->state = ASK_ANSWERED;
    checker_answer(s, a, reply);
    if (a->loses_reply)
        return;
    if (a->reply_delay_ms)
        post(s, a, text);
    else
        hear(s, a, reply);
}

/* What was done is known, though who asked may have hung up. */
static void take_message(struct sim *s, const struct message *m)
{
    struct arena arena = ARENA_INIT;
    const struct json *v;
    struct err err = ERR_INIT;
    struct str text = buf_str(&m->data);
    sim_hash(s, text.p, text.n);
    sim_trace(s, "  << %.*s", (int)MIN(text.n, (size_t)400), text.p);
    if (json_parse(&arena, text, JSON_DEPTH, &v, &err) < 0) {
        sim_fail(s, "WIRE", "an answer is not JSON: %.*s", STR_ARG(text));
    } else {
        const struct json *id = json_get(v, "id");
        bool is_gone = atomic_load(&m->peer->is_closed);
        if (id && id->type == JSON_INT && id->integer > 0 && id->integer < (int64_t)s->ask_count) {
            s->asks[id->integer]->loses_reply |= is_gone;
            answered(s, s->asks[id->integer], v, text);
        } else if (!is_gone) {
            checker_push(s, m->peer, v);
        }
    }
    arena_release(&arena);
}

/* An error below JSON-RPC: it never reached the core. */
static void refuse(struct sim *s, struct ask *a)
{
    struct arena arena = ARENA_INIT;
    const struct json *v;
    struct err err = ERR_INIT;
    struct str text = STR("{\"error\":{\"data\":{\"name\":\"UNAUTHENTICATED\"}}}");
    REQUIRE(json_parse(&arena, text, JSON_DEPTH, &v, &err) == 0);
    answered(s, a, v, text);
    arena_release(&arena);
}

/* ---- a tick ---- */

/* The network hands a request over twice. */
static void double_up(struct sim *s, struct ask *a)
{
    struct ask copy = *a;
    a->is_doubled = copy.is_doubled = false;
    copy.params = mem_strdup(a->params);
    copy.repeats = a->repeats ? a->repeats : a->id;
    copy.answer = NULL;
    copy.is_ok = false;
    copy.loses_reply = true;
    copy.at_ms = s->now_ms + a->id % s->swarm.delay_ms;
    copy.state = ASK_ON_ITS_WAY;
    add_ask(s, copy);
}

static struct core_input *input_of(struct sim *s, struct ask *a)
{
    char head[160];
    snprintf(head, sizeof head,
             "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"method\":\"%s\",\"params\":", (long long)a->id,
             ask_names[a->method]);
    _cleanup_free_ char *text = mem_printf("%s%s}", head, a->params);
    struct peer *peer = peer_of(s, a->kind, a->who);
    struct core_input *in = core_input_new(CORE_REQUEST, peer);
    in->request = rpc_request_new(peer, &a->grant, true, str_of(text), JSON_DEPTH);
    sim_trace(s, "  >> %lld %s %s", (long long)a->id, ask_names[a->method], a->params);
    a->state = ASK_TAKEN;
    a->taken_in = s->ticks + 1;
    why_input(s, a);
    if (a->is_doubled)
        double_up(s, a);
    return in;
}

static void forget_closed(struct sim *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->open_count; i++)
        if (sim_open(s, i)->state == ASK_ON_ITS_WAY || sim_open(s, i)->state == ASK_TAKEN)
            s->open[kept++] = s->open[i];
    s->open_count = kept;
}

/* What has arrived by now, in the order it was sent unless it was held up. */
static struct core_input *arrivals(struct sim *s)
{
    struct core_input *first = s->closed, **last = &first;
    s->closed = NULL;
    while (*last)
        last = &(*last)->next;
    for (size_t i = 0; i < s->open_count; i++) {
        struct ask *a = sim_open(s, i);
        if (a->state != ASK_ON_ITS_WAY || a->at_ms > s->now_ms)
            continue;
        if (a->has_token && !auth_check(s->auth, a->token, &a->grant)) {
            refuse(s, a);
        } else {
            *last = input_of(s, a);
            last = &(*last)->next;
        }
    }
    forget_closed(s);
    return first;
}

/* Nobody is there to take what arrives. */
static void lose_arrivals(struct sim *s)
{
    for (size_t i = 0; i < s->open_count; i++)
        if (sim_open(s, i)->state == ASK_ON_ITS_WAY && sim_open(s, i)->at_ms <= s->now_ms)
            sim_open(s, i)->state = ASK_LOST;
}

static void take_messages(struct sim *s)
{
    struct message *m;
    while ((m = outbox_take_first(&s->out))) {
        atomic_fetch_sub(&m->peer->queued_bytes, m->data.len);
        if (m->peer == s->oracle_peer)
            s->oracle_answer = arena_str(s->oracle_arena, buf_str(&m->data));
        else
            take_message(s, m);
        message_free(m);
    }
}

static void tick(struct sim *s, struct core_input *inputs)
{
    s->ticks++;
    checker_tick_begins(s);
    core_tick(s->core, inputs, &s->out);
    if (fault_vfs_is_dying(s->disk)) {
        sim_kill_server(s);
        return;
    }
    int64_t now_ms = sim_server_ms(s);
    sim_hash(s, &now_ms, sizeof now_ms);
    checker_tick_ends(s);
    take_messages(s);
    checker_tick_answered(s);
}

/* A tick like any other: it may write what was to be written anyway. */
const struct json *sim_ask_now(struct sim *s, struct arena *a, const char *method,
                               const char *params)
{
    struct err err = ERR_INIT;
    const struct json *reply = NULL;
    _cleanup_free_ char *text = mem_printf(
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"%s\",\"params\":%s}", method, params);
    struct peer *peer = peer_new(NULL, PEER_ROOM_BYTES);
    struct core_input *in = core_input_new(CORE_REQUEST, peer);
    in->request = rpc_request_new(peer, &sim_operator, true, str_of(text), JSON_DEPTH);
    s->oracle_peer = peer;
    s->oracle_answer = STR_NONE;
    s->oracle_arena = a;
    tick(s, in);
    s->oracle_peer = NULL;
    peer_unref(peer);
    sim_hash(s, s->oracle_answer.p, s->oracle_answer.n);
    sim_trace(s, "  ?? %s %s: %.*s", method, params, (int)MIN(s->oracle_answer.n, (size_t)900),
              s->oracle_answer.p ? s->oracle_answer.p : "");
    if (!s->oracle_answer.n || json_parse(a, s->oracle_answer, JSON_DEPTH, &reply, &err) < 0)
        return NULL;
    return json_get(reply, "result");
}

static void deliver_letters(struct sim *s)
{
    for (size_t i = 0; i < s->letter_count;) {
        struct letter l = s->letters[i];
        if (l.at_ms > s->now_ms) {
            i++;
            continue;
        }
        s->letters[i] = s->letters[--s->letter_count];
        struct arena arena = ARENA_INIT;
        const struct json *v;
        struct err err = ERR_INIT;
        if (json_parse(&arena, str_of(l.text), JSON_DEPTH, &v, &err) == 0)
            hear(s, s->asks[l.ask], v);
        arena_release(&arena);
        free(l.text);
    }
}

static bool is_awake(const struct sim *s)
{
    return s->core && s->awake_at_ms <= s->now_ms;
}

static int64_t next_arrival_ms(const struct sim *s)
{
    int64_t next_ms = INT64_MAX;
    for (size_t i = 0; i < s->open_count; i++)
        if (sim_open(s, i)->state == ASK_ON_ITS_WAY)
            next_ms = MIN(next_ms, sim_open(s, i)->at_ms);
    for (size_t i = 0; i < s->letter_count; i++)
        next_ms = MIN(next_ms, s->letters[i].at_ms);
    return MIN(next_ms, bell_next_ms(s));
}

static int64_t next_wake_ms(const struct sim *s)
{
    if (!s->core)
        return INT64_MAX;
    if (s->awake_at_ms > s->now_ms)
        return s->awake_at_ms;
    int64_t wait_us = core_wait_us(s->core);
    return wait_us < 0 ? INT64_MAX : s->now_ms + MAX((wait_us + 999) / 1000, INT64_C(1));
}

/* What it slept is over, and monotonic time goes on. */
static void end_nap(struct sim *s)
{
    if (s->nap_from_ms)
        s->asleep_ms += MIN(s->now_ms, s->awake_at_ms) - s->nap_from_ms;
    s->nap_from_ms = 0;
}

void sim_pump(struct sim *s)
{
    deliver_letters(s);
    if (!s->core)
        lose_arrivals(s);
    if (is_awake(s)) {
        end_nap(s);
        core_beat(s->core);
        bell_ring_late(s);
    }
    for (int n = 0; is_awake(s) && !s->has_failed; n++) {
        struct core_input *inputs = arrivals(s);
        if (!inputs && !core_wants_tick(s->core)) {
            bool more = core_idle(s->core, &s->out);
            if (fault_vfs_is_dying(s->disk)) { /* while it wrote behind, or made a checkpoint */
                sim_kill_server(s);
                break;
            }
            take_messages(s);
            if (!more)
                break;
            continue;
        }
        tick(s, inputs);
        deliver_letters(s);
        if (n > TICKS_WITHOUT_TIME_MAX)
            sim_fail(s, "P18", "the server does not come to rest at %lld",
                     (long long)sim_server_ms(s));
    }
    if (is_awake(s) && !s->has_failed)
        checker_at_rest(s);
    if (is_awake(s) && !s->has_failed)
        why_at_rest(s);
    s->wake_at_ms = next_wake_ms(s);
}

void sim_advance(struct sim *s, int64_t at_ms)
{
    while (s->now_ms < at_ms && !s->has_failed) {
        int64_t next_ms = MIN(next_arrival_ms(s), s->wake_at_ms);
        s->now_ms = MIN(MAX(next_ms, s->now_ms + 1), at_ms);
        if (next_ms <= s->now_ms) /* else nobody would notice, so nobody does */
            sim_pump(s);
    }
}

/* ---- beginning and end ---- */

/* The reader of JSON draws its secret once per process, at its first large object: before a history
 * begins, or the first would differ from the others. */
static void draw_secrets(void)
{
    struct arena arena = ARENA_INIT;
    struct buf text = BUF_INIT(4096);
    const struct json *v;
    struct err err = ERR_INIT;
    for (int i = 0; i < 100; i++)
        buf_addf(&text, "%c\"k%d\":0", i ? ',' : '{', i);
    buf_addc(&text, '}');
    REQUIRE(json_parse(&arena, buf_str(&text), JSON_DEPTH, &v, &err) == 0);
    buf_release(&text);
    arena_release(&arena);
}

/* A disk with an empty store: most histories begin with a copy of it, because to make the tables
 * takes as long as a hundred steps. Made once, before any child begins. */
static struct fault_vfs *disk_with_tables;

void sim_prepare(void)
{
    struct err err = ERR_INIT;
    struct store *store;
    uint8_t digest[SHA256_BYTES];
    if (disk_with_tables)
        return;
    crypto_sha256(STR(""), digest); /* the library looks for its code once */
    disk_with_tables = fault_vfs_new("tables", 0);
    fault_vfs_plan(disk_with_tables, FAULT_DEATH, 0, false);
    REQUIRE(store_open("sqlite:a.db", "tables", SIM_BEGINNING_MS, &store, &err) == 0);
    store_close(store);
}

static struct fault_vfs *new_disk(uint64_t seed)
{
    struct fault_vfs *disk = fault_vfs_new("simdisk", seed);
    fault_vfs_plan(disk, FAULT_DEATH, 0, false);
    if (seed % 8) /* else the first start is the first step */
        fault_vfs_copy_files(disk, disk_with_tables);
    return disk;
}

struct sim *sim_new(const struct swarm *swarm)
{
    sim_prepare();
    struct sim *s = mem_zalloc(sizeof *s);
    the_sim = s;
    bell_attach(s);
    s->swarm = *swarm;
    s->random = swarm->seed;
    s->core_random = swarm->seed ^ UINT64_C(0xC0DEC0DE);
    s->hash = UINT64_C(0xcbf29ce484222325);
    s->source =
        (struct clock_source){.wall_ms = wall_ms, .boot_us = boot_us, .mono_us = mono_us, .ctx = s};
    draw_secrets();
    random_set_source(fill_random, &s->core_random);
    s->disk = new_disk(swarm->seed);
    add_ask(s, (struct ask){.state = ASK_LOST}); /* id 0 is none */
    s->checker = checker_new();
    s->oracle = why_new();
    sim_start_server(s);
    return s;
}

static void free_ask(struct ask *a)
{
    if (a) {
        free(a->params);
        free(a->answer);
    }
    free(a);
}

struct sim *sim_free(struct sim *s)
{
    if (s->core)
        sim_kill_server(s);
    sim_drop_connections(s);
    checker_free(s->checker);
    why_free(s->oracle);
    for (size_t i = 0; i < s->ask_count; i++)
        free_ask(s->asks[i]);
    for (size_t i = 0; i < s->letter_count; i++)
        free(s->letters[i].text);
    for (int i = 0; i < SIM_MACHINES_MAX; i++)
        free(s->fleet.hosts[i].known);
    free(s->asks);
    free(s->open);
    free(s->letters);
    free(s->rings.list);
    fault_vfs_free(s->disk);
    random_set_source(NULL, NULL);
    free(s);
    return NULL;
}
