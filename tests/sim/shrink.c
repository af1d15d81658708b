/* shrink.c: see shrink.h. */
#include "sim/shrink.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/actor.h"
#include "sim/fleet.h"

struct search {
    struct script *script;
    int tries;
    shrink_fails_fn *fails;
    void *ctx;
};

/* Takes the candidate if it still fails. */
static bool try(struct search *s, const struct step *steps, size_t count)
{
    struct script candidate = *s->script;
    candidate.steps = (struct step *)(uintptr_t)steps;
    candidate.count = count;
    if (s->tries <= 0 || count == s->script->count)
        return false;
    s->tries--;
    if (!s->fails(s->ctx, &candidate))
        return false;
    memcpy(s->script->steps, steps, count * sizeof *steps);
    s->script->count = count;
    return true;
}

static struct step *copy(const struct script *s)
{
    struct step *steps = mem_alloc((s->count + 1) * sizeof *steps);
    memcpy(steps, s->steps, s->count * sizeof *steps);
    return steps;
}

static void without_actor(struct search *s, int kind, int who)
{
    _cleanup_free_ struct step *steps = copy(s->script);
    size_t n = 0;
    for (size_t i = 0; i < s->script->count; i++)
        if (steps[i].kind != kind || steps[i].who != who)
            steps[n++] = steps[i];
    if (n < s->script->count)
        try(s, steps, n);
}

/* Everything after the end that matters, by halving. */
static void cut_tail(struct search *s)
{
    for (size_t cut = s->script->count / 2; cut > 0; cut /= 2)
        while (s->script->count > cut && try(s, s->script->steps, s->script->count - cut))
            ;
}

static bool without_stretch(struct search *s, size_t from, size_t length)
{
    _cleanup_free_ struct step *steps = copy(s->script);
    size_t end = from + length < s->script->count ? from + length : s->script->count;
    memmove(steps + from, steps + end, (s->script->count - end) * sizeof *steps);
    return try(s, steps, s->script->count - (end - from));
}

void shrink(struct script *script, int tries, shrink_fails_fn *fails, void *ctx)
{
    struct search s = {script, tries, fails, ctx};
    cut_tail(&s);
    for (int kind = 0; kind < ACTOR_KINDS; kind++)
        for (int who = 0; who < SIM_ACTORS_MAX; who++)
            without_actor(&s, kind, who);
    for (size_t length = script->count / 2; length > 0; length /= 2)
        for (size_t from = 0; from < script->count;)
            if (!without_stretch(&s, from, length))
                from += length;
}
