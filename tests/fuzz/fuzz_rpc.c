/*
 * fuzz_rpc.c: any text as requests, executed on a core (server/core.h) with a store in memory.
 *
 * Each line of an input is one request. Its first byte says who asks: 'a' an agent, 'm' a machine,
 * 'r' somebody who may only read, '!' nobody (the server is started again), anything else the
 * operator. Whatever was asked, the store holds what it promises.
 */
#include "fuzz_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MAX = 32 };

static const struct grant operator_grant = {.scope = SCOPE_OPERATOR, .subject = "operator"};

static struct grant grant_of(char who)
{
    switch (who) {
    case 'a':
        return (struct grant){
            .scope = SCOPE_AGENT, .conversation = 1, .role = "a", .subject = "token:1"};
    case 'm':
        return (struct grant){.scope = SCOPE_MACHINE, .machine = "m", .subject = "token:2"};
    case 'r':
        return (struct grant){.scope = SCOPE_READ, .subject = "token:3"};
    default:
        return operator_grant;
    }
}

static void run_line(struct world *w, struct str line)
{
    if (line.n == 0)
        return;
    if (line.p[0] == '!') {
        core_stop(w->core, &w->out);
        outbox_release(&w->out);
        world_restart(w);
        return;
    }
    w->grant = grant_of(line.p[0]);
    fuzz_say(w, str_skip(line, 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *w = fuzz_world_new(fuzz_populate, NULL);
    struct str rest = {(const char *)data, size};
    for (int i = 0; i < LINES_MAX && rest.n > 0; i++) {
        const char *end = memchr(rest.p, '\n', rest.n);
        size_t n = end ? (size_t)(end - rest.p) : rest.n;
        run_line(w, (struct str){rest.p, n});
        rest = str_skip(rest, MIN(n + 1, rest.n));
    }
    fuzz_world_check(w);
    fuzz_world_free(w);
    return 0;
}
