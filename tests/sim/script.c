/* script.c: see script.h. */
#include "sim/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/actor.h"

void script_add(struct script *s, struct step step)
{
    s->steps = mem_grow(s->steps, &s->room, s->count + 1, sizeof *s->steps);
    s->steps[s->count++] = step;
}

void script_release(struct script *s)
{
    free(s->steps);
    *s = (struct script){0};
}

void script_write(const struct script *s, struct buf *out)
{
    swarm_write(&s->swarm, out);
    for (size_t i = 0; i < s->count; i++) {
        const struct step *step = &s->steps[i];
        const struct actor_kind *kind = actor_kinds[step->kind];
        buf_addf(out, "%lld %s %d %s %" PRIu32 "\n", (long long)step->at_ms, kind->name, step->who,
                 kind->verbs[step->verb].name, step->arg);
    }
}

static bool read_step(const char *line, struct step *ret)
{
    char kind[32], verb[32];
    long long at_ms;
    *ret = (struct step){.kind = -1, .verb = -1};
    if (sscanf(line, "%lld %31s %d %31s %" SCNu32, &at_ms, kind, &ret->who, verb, &ret->arg) != 5)
        return false;
    ret->at_ms = at_ms;
    for (int i = 0; i < ACTOR_KINDS; i++)
        if (strcmp(actor_kinds[i]->name, kind) == 0)
            ret->kind = i;
    if (ret->kind < 0)
        return false;
    const struct actor_kind *k = actor_kinds[ret->kind];
    for (int i = 0; k->verbs[i].name; i++)
        if (strcmp(k->verbs[i].name, verb) == 0)
            ret->verb = i;
    return ret->verb >= 0;
}

static bool read_line(struct script *s, char *line)
{
    struct step step;
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '#' || line[0] == '\0')
        return true;
    char *blank = strchr(line, ' ');
    if (line[0] < '0' || line[0] > '9')
        return blank &&
               swarm_read(&s->swarm, (struct str){line, (size_t)(blank - line)}, str_of(blank + 1));
    if (!read_step(line, &step))
        return false;
    script_add(s, step);
    return true;
}

bool script_read(struct script *s, const char *path)
{
    char line[256];
    int number = 0;
    bool ok = true;
    FILE *f = fopen(path, "r");
    *s = (struct script){0};
    options_init(&s->swarm.options);
    if (!f) {
        perror(path);
        return false;
    }
    while (ok && fgets(line, sizeof line, f)) {
        number++;
        ok = read_line(s, line);
    }
    fclose(f);
    if (!ok)
        fprintf(stderr, "%s:%d: %s: not understood\n", path, number, line);
    return ok;
}
