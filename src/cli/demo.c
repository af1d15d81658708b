/* demo.c: see demo.h. */
#include "cli/demo.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "cli/print.h"

enum { PARAMS_MAX = 8 * 1024 };

#define TITLE "Demo: plan, build, check"
#define AGENT(role) "{\"role\":\"" role "\",\"kind\":\"" role "\"}"
#define CREATE                                                                               \
    "{\"title\":\"" TITLE "\",\"agents\":[" AGENT("planner") "," AGENT("builder") "," AGENT( \
        "checker") "],\"runtime_controls\":{\"session_wall_clock_seconds\":0}}"

const char *const demo_settings[] = {
    "pmo.active_reap_seconds=20",
    "restart.stable_seconds=5",
    "restart.burst=0",
    NULL,
};

char *demo_folder(void)
{
    static const char *const places[] = {"../examples/demo", "../share/reeve/examples/demo"};
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0)
        return NULL;
    program[n] = '\0';
    *strrchr(program, '/') = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        _cleanup_free_ char *config = mem_printf("%s/%s/demo.conf", program, places[i]);
        if (access(config, R_OK) == 0)
            return mem_printf("%s/%s", program, places[i]);
    }
    return NULL;
}

static int call(struct demo *d, const char *method, struct str params, struct arena *a,
                const struct json **ret, struct err *err)
{
    arena_clear(a);
    return client_call(d->client, method, params, a, ret, err);
}

static int give_work(struct demo *d, struct arena *a, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_MAX);
    const struct json *result;
    buf_addf(&params, "{\"conversation\":%lld,\"role\":\"planner\",\"content\":\"make a plan\"}",
             (long long)d->conversation);
    return call(d, "task.create", buf_str(&params), a, &result, err);
}

/* An open one of an earlier `reeve up`; 0: there is none. */
static int find_open(struct demo *d, struct arena *a, struct err *err)
{
    const struct json *result;
    int r =
        call(d, "conversation.list", STR("{\"status\":\"active\",\"limit\":500}"), a, &result, err);
    const struct json *list = r == 0 ? json_get(result, "conversations") : NULL;
    if (list && list->type == JSON_ARRAY)
        JSON_FOREACH (c, list)
            if (str_is(json_get_text(c, "title"), TITLE))
                d->conversation = json_get_int(c, "conversation", 0);
    return r;
}

static int has_work(struct demo *d, struct arena *a, bool *ret, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_MAX);
    const struct json *result;
    buf_addf(&params, "{\"conversation\":%lld}", (long long)d->conversation);
    int r = call(d, "agent.list", buf_str(&params), a, &result, err);
    const struct json *agents = r == 0 ? json_get(result, "agents") : NULL;
    *ret = false;
    if (agents && agents->type == JSON_ARRAY)
        JSON_FOREACH (agent, agents)
            *ret |= json_get(agent, "task") != NULL;
    return r;
}

static int first_id(struct demo *d, struct arena *a, int64_t *ret, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_MAX);
    const struct json *result;
    buf_addf(&params, "{\"conversation\":%lld,\"limit\":1}", (long long)d->conversation);
    int r = call(d, "event.list", buf_str(&params), a, &result, err);
    const struct json *events = r == 0 ? json_get(result, "events") : NULL;
    if (events && events->type == JSON_ARRAY && events->count)
        *ret = json_get_int(events->first, "id", 0);
    return r;
}

static int open_new(struct demo *d, struct arena *a, int64_t *ret_after, struct err *err)
{
    const struct json *result;
    int64_t first = 0;
    int r = call(d, "conversation.create", STR(CREATE), a, &result, err);
    if (r < 0)
        return r;
    d->conversation = json_get_int(result, "conversation", 0);
    r = first_id(d, a, &first, err);
    *ret_after = first - 1;
    return r;
}

int demo_begin(struct demo *d, struct client *client, int64_t *ret_after, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    bool is_at_work = false;
    *d = (struct demo){.client = client};
    *ret_after = CLIENT_FROM_NOW;
    int r = find_open(d, &a, err);
    if (r == 0 && !d->conversation)
        r = open_new(d, &a, ret_after, err);
    if (r == 0)
        r = has_work(d, &a, &is_at_work, err);
    return r < 0 || is_at_work ? r : give_work(d, &a, err);
}

int demo_see(struct demo *d, const struct json *event, struct err *err)
{
    const struct json *payload = json_get(event, "payload"), *data = json_get(payload, "data");
    bool is_end = json_get_int(event, "conversation", -1) == d->conversation &&
                  str_is(json_get_text(payload, "kind"), "agent.task");
    if (is_end && !str_is(json_get_text(data, "status"), "success"))
        d->owes_work = true;
    if (!d->owes_work)
        return 0;
    struct arena a = ARENA_INIT;
    struct err now = ERR_INIT;
    int r = give_work(d, &a, &now);
    arena_release(&a);
    d->owes_work = r < 0;
    if (r == 0 || err_may_retry(r))
        return 0; /* the server may be away for a moment: the next event tries again */
    *err = now;
    return r;
}
