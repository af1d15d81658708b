/* core_world.c: see core_world.h. */
#include "lib/core_world.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/sqlite_store.h"
#include "tap.h"

/* ---- real time ---- */

static int64_t ahead_us;
static const struct clock_source *mono_source = &clock_kernel; /* world_on_clock() */

/* Stands in for clock_mono_us(): --wrap. */
int64_t mono_us_of_the_test(void) __asm__("__wrap_clock_mono_us");
int64_t mono_us_of_the_test(void)
{
    return mono_source->mono_us(mono_source->ctx) + ahead_us;
}

void pass_pause(void)
{
    ahead_us += 10000000;
}

static int64_t lived_ms(void *ctx)
{
    return WORLD_START_MS + ((struct world *)ctx)->lived_us / 1000;
}

static int64_t lived_us(void *ctx)
{
    return ((struct world *)ctx)->lived_us;
}

void live(struct world *w, int64_t ms)
{
    w->lived_us += ms * 1000;
    ahead_us += ms * 1000;
}

/* ---- the world ---- */

static void count_token_change(void *ctx, struct store *store)
{
    (void)store;
    struct world *w = ctx;
    w->token_changes++;
}

static int start(struct world *w, struct err *err)
{
    w->store = NULL;
    w->core = NULL;
    int r = store_open("sqlite:a.db", "disk", WORLD_START_MS, &w->store, err);
    if (r < 0)
        return r;
    const struct core_config config = {.store = w->store,
                                       .clock = &w->clock,
                                       .options = &w->options,
                                       .version = "test",
                                       .store_url = "sqlite",
                                       .tokens_changed = count_token_change,
                                       .ctx = w};
    r = core_new(&config, &w->core, err);
    w->token_changes = 0;
    return r;
}

static void must_start(struct world *w)
{
    struct err err = ERR_INIT;
    if (start(w, &err) < 0)
        tap_fail(__FILE__, __LINE__, "%s", err.message);
}

struct world *world_new(void)
{
    return world_on(NULL, NULL);
}

static struct world *make(const struct fault_vfs *files, const struct options *options)
{
    struct world *w = mem_zalloc(sizeof *w);
    log_set_level(LOG_ERROR + 1);
    w->disk = fault_vfs_new("disk", 1);
    if (files)
        fault_vfs_copy_files(w->disk, files);
    options_init(&w->options);
    /* Passes come when something is due: the fixed cadence would only be in the way. */
    w->options.value[OPT_pmo_watchdog_interval_seconds] = 300;
    w->options.value[OPT_worker_watchdog_interval_seconds] = 300;
    if (options)
        w->options = *options;
    w->grant = (struct grant){.scope = SCOPE_OPERATOR, .subject = "operator"};
    w->peer = peer_new(NULL, WORLD_ROOM_BYTES);
    w->other = peer_new(NULL, SIZE_MAX);
    return w;
}

struct world *world_on(const struct fault_vfs *files, const struct options *options)
{
    struct world *w = make(files, options);
    clock_init_manual(&w->clock, &clock_kernel, WORLD_START_MS);
    must_start(w);
    return w;
}

struct world *world_on_clock(const struct fault_vfs *files, const struct options *options,
                             const struct clock_source *source)
{
    struct world *w = make(files, options);
    clock_init(&w->clock, source, 0);
    mono_source = source;
    must_start(w);
    return w;
}

void world_restart(struct world *w)
{
    core_free(w->core);
    must_start(w);
}

int world_try_restart(struct world *w, struct err *err)
{
    core_free(w->core);
    return start(w, err);
}

void world_use_real_clock(struct world *w)
{
    w->source = (struct clock_source){
        .wall_ms = lived_ms, .boot_us = lived_us, .mono_us = lived_us, .ctx = w};
    clock_init(&w->clock, &w->source, 0);
    world_restart(w);
}

void world_free(struct world *w)
{
    mono_source = &clock_kernel;
    outbox_release(&w->out);
    if (w->core) {
        CHECK_INT(atomic_load(&w->peer->refs), 1 + (int)core_stats(w->core)->subscriptions);
        core_free(w->core);
    }
    CHECK_INT(atomic_load(&w->peer->refs), 1);
    CHECK_INT(atomic_load(&w->other->refs), 1);
    peer_unref(w->peer);
    peer_unref(w->other);
    fault_vfs_free(w->disk);
    free(w);
}

struct fault_vfs *world_leave(struct world *w)
{
    core_free(TAKE_PTR(w->core));
    struct fault_vfs *files = fault_vfs_new("left", 1);
    fault_vfs_copy_files(files, w->disk);
    world_free(w);
    return files;
}

void fill_disk(struct world *w)
{
    fault_vfs_plan(w->disk, FAULT_FULL, 1, true);
}

void free_disk(struct world *w)
{
    fault_vfs_plan(w->disk, FAULT_FULL, 0, false);
}

/* ---- in ---- */

struct core_input *input(struct world *w, enum core_input_kind kind, struct peer *p)
{
    struct core_input *in = core_input_new(kind, p);
    if (w->last)
        w->last->next = in;
    else
        w->first = in;
    w->last = in;
    return in;
}

_printf_(3, 0) static void ask_by(struct world *w, struct peer *by, const char *fmt, va_list ap)
{
    char *text = NULL;
    CHECK(vasprintf(&text, fmt, ap) >= 0);
    for (char *p = text; (p = strchr(p, '\''));)
        *p = '"';
    struct core_input *in = input(w, CORE_REQUEST, by);
    in->request = rpc_request_new(by, &w->grant, true, str_of(text), 64);
    free(text);
}

void ask(struct world *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ask_by(w, w->peer, fmt, ap);
    va_end(ap);
}

void ask_other(struct world *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ask_by(w, w->other, fmt, ap);
    va_end(ap);
}

void ask_stream(struct world *w, struct peer *p, int64_t conversation, int64_t after_id)
{
    struct core_input *in = input(w, CORE_STREAM, p);
    in->subscribe = (struct subscribe){
        .conversation = conversation, .after_seq = -1, .after_id = after_id, .is_stream = true};
    in->grant = w->grant;
}

void tick(struct world *w)
{
    struct core_input *inputs = w->first;
    w->first = w->last = NULL;
    core_tick(w->core, inputs, &w->out);
}

void idle(struct world *w)
{
    while (core_idle(w->core, &w->out))
        ;
}

int settle(struct world *w)
{
    enum { TICKS_MAX = 20000 };
    int n = 0;
    for (; core_wants_tick(w->core); n++) {
        CHECK(n < TICKS_MAX);
        tick(w);
    }
    return n;
}

static void run_sql(struct world *w, const char *sql)
{
    if (sqlite_exec(w->store->db, sql) != SQLITE_OK)
        tap_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(w->store->db));
}

void poison(struct world *w, const char *change, const char *when)
{
    _cleanup_free_ char *sql = mem_printf("CREATE TEMP TRIGGER poison BEFORE %s WHEN %s"
                                          " BEGIN SELECT RAISE(ABORT, 'poison'); END",
                                          change, when);
    sqlite3_db_config(w->store->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 1, NULL);
    run_sql(w, sql);
}

void cure(struct world *w)
{
    run_sql(w, "DROP TRIGGER poison");
}

int64_t store_int(struct world *w, const char *fmt, ...)
{
    char sql[1000];
    va_list ap;
    va_start(ap, fmt);
    CHECK((size_t)vsnprintf(sql, sizeof sql, fmt, ap) < sizeof sql);
    va_end(ap);
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(w->store->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        tap_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(w->store->db));
    int64_t value = sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : -1;
    sqlite3_finalize(stmt);
    return value;
}

/* ---- out ---- */

struct reply take(struct world *w)
{
    struct reply r = {.message = outbox_take_first(&w->out), .arena = ARENA_INIT};
    struct err err = ERR_INIT;
    CHECK(r.message);
    atomic_fetch_sub(&r.message->peer->queued_bytes, r.message->data.len);
    if (r.message->data.len && r.message->data.data[0] != 'i' &&
        r.message->status >= 0) /* no stream */
        CHECK_INT(json_parse(&r.arena, buf_str(&r.message->data), 64, &r.json, &err), 0);
    return r;
}

void done(struct reply *r)
{
    message_free(r->message);
    arena_release(&r->arena);
}

static const struct json *value_at(const struct json *v, const char *path)
{
    char copy[128], *state, *name;
    snprintf(copy, sizeof copy, "%s", path);
    for (name = strtok_r(copy, ".", &state); name; name = strtok_r(NULL, ".", &state))
        v = json_get(v, name);
    return v;
}

int64_t int_at(const struct json *v, const char *path)
{
    const struct json *at = value_at(v, path);
    if (!at || at->type != JSON_INT)
        tap_fail(__FILE__, __LINE__, "no integer at %s", path);
    return at->integer;
}

struct str string_at(const struct json *v, const char *path)
{
    const struct json *at = value_at(v, path);
    return at && at->type == JSON_STRING ? at->string : STR("(none)");
}

int64_t take_int(struct world *w, const char *path)
{
    struct reply r = take(w);
    int64_t value = int_at(r.json, path);
    done(&r);
    return value;
}

void take_error(struct world *w, const char *name)
{
    struct reply r = take(w);
    CHECK_STR(string_at(r.json, "error.data.name"), name);
    done(&r);
}

void take_ok(struct world *w)
{
    struct reply r = take(w);
    CHECK(json_get(r.json, "result"));
    done(&r);
}

void check_nothing_left(struct world *w)
{
    CHECK(!w->out.first);
}

/* ---- what most tests do ---- */

void create(struct world *w, int64_t want)
{
    ask(w, CREATE);
    tick(w);
    CHECK_INT(take_int(w, "result.conversation"), want);
}

void say(struct world *w, int conversation)
{
    ask(w, SAY, conversation);
    tick(w);
}
