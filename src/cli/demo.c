/*
 * demo.c: the script and its player.
 *
 * The script is a table of calls with the pause before each, at the pace of a person reading. The
 * texts tell what reeve is for while they show it.
 */
#include "cli/demo.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/macro.h"

enum { PARAMS_MAX = 8 * 1024 };

#define CREATE                                                                     \
    "{\"title\":\"Demo: mend the flaky test\",\"agents\":[{\"role\":\"planner\"}," \
    "{\"role\":\"builder\"},{\"role\":\"reviewer\"}],\"startingRole\":\"planner\"}"

#define TRACE(type, members) "\"payload\":{\"type\":\"" type "\"," members "}"
#define SAY(text) "\"text\":\"" text "\""
#define CLOSE_TURN ",\"finality\":\"turn\""
#define CLOSE_ALL                     \
    ",\"finality\":\"conversation\"," \
    "\"outcome\":{\"status\":\"completed\",\"reason\":\"the test is mended\"}"

// clang-format off
static const struct {
    int pause_ms;
    const char *agent;
    const char *method;
    const char *members; /* of params, beside conversation and agentId */
} script[] = {
    { 600, "planner", "trace.append", TRACE("thought", SAY("Three runs, one failure: it depends on timing, not on code."))},
    { 900, "planner", "message.send", SAY("Builder: find where test_upload waits for a time instead of a condition.") CLOSE_TURN},
    { 800, "builder", "trace.append", TRACE("tool_call", "\"name\":\"grep\",\"arguments\":\"sleep tests/\"")},
    { 700, "builder", "trace.append", TRACE("tool_result", "\"name\":\"grep\",\"result\":\"tests/upload.py:41: sleep(2)\"")},
    { 700, "builder", "trace.append", TRACE("progress", SAY("1 of 1 found"))},
    { 900, "builder", "message.send", SAY("Line 41 slept two seconds. It now waits until the file is there.") CLOSE_TURN},
    { 800, "reviewer", "trace.append", TRACE("tool_call", "\"name\":\"run\",\"arguments\":\"test_upload x 100\"")},
    { 900, "reviewer", "trace.append", TRACE("tool_result", "\"name\":\"run\",\"result\":\"100 passed\"")},
    { 800, "reviewer", "message.send", SAY("100 of 100 runs pass. Done.") CLOSE_ALL},
};
// clang-format on

/* The global id of the conversation's first event: streams from there on miss nothing. */
static int first_id(struct demo *d, struct arena *a, int64_t *ret, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_MAX);
    const struct json *result;
    buf_addf(&params, "{\"conversation\":%lld,\"limit\":1}", (long long)d->conversation);
    int r = client_call(d->client, "event.list", buf_str(&params), a, &result, err);
    if (r < 0)
        return r;
    const struct json *events = json_get(result, "events");
    bool any = events && events->type == JSON_ARRAY && events->count;
    const struct json *id = any ? json_get(events->first, "id") : NULL;
    if (!id || id->type != JSON_INT)
        return err_set(err, ERR_INTERNAL, "event.list shows no event");
    *ret = id->integer;
    return 0;
}

int demo_begin(struct demo *d, struct client *client, int64_t *ret_id, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *result;
    int r = client_call(client, "conversation.create", STR(CREATE), &a, &result, err);
    if (r < 0)
        return r;
    const struct json *number = json_get(result, "conversation");
    if (!number || number->type != JSON_INT)
        return err_set(err, ERR_INTERNAL, "conversation.create answers no number");
    *d = (struct demo){.client = client, .conversation = number->integer};
    d->due_us = clock_mono_us() + (int64_t)script[0].pause_ms * 1000;
    return first_id(d, &a, ret_id, err);
}

bool demo_is_over(const struct demo *d)
{
    return d->step == ARRAY_LEN(script);
}

int64_t demo_due_us(const struct demo *d)
{
    return d->due_us;
}

int demo_step(struct demo *d, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_MAX);
    const struct json *result;
    buf_addf(&params, "{\"conversation\":%lld,\"agentId\":\"%s\",%s}", (long long)d->conversation,
             script[d->step].agent, script[d->step].members);
    int r = client_call(d->client, script[d->step].method, buf_str(&params), &a, &result, err);
    if (r < 0)
        return r;
    d->step++;
    if (!demo_is_over(d))
        d->due_us = clock_mono_us() + (int64_t)script[d->step].pause_ms * 1000;
    return 0;
}
