/* obstacle.c: see obstacle.h. */
#include "domain/obstacle.h"

#include "domain/command.h"
#include "domain/machine.h"
#include "domain/work.h"

enum obstacle agent_obstacle(const struct agent *a, int64_t at_ms)
{
    if (!a->kind[0])
        return OBSTACLE_UNMANAGED;
    if (a->process == PROCESS_RUNNING || a->process == PROCESS_UNKNOWN)
        return OBSTACLE_UP;
    if (a->breaker_is_open)
        return OBSTACLE_BREAKER;
    return a->restart_ms > at_ms ? OBSTACLE_WAIT : OBSTACLE_NONE;
}

/* Of those that start() meets. */
static int find_in_the_way(struct work *w, const struct agent *a, enum obstacle *ret,
                           struct err *err)
{
    struct starts starts;
    struct machine *m;
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r < 0)
        return r;
    if (starts.open)
        *ret = OBSTACLE_ORDERED;
    else if (!machine_choose(w, a, &m))
        *ret = OBSTACLE_MACHINE;
    else
        *ret = m ? OBSTACLE_NONE : OBSTACLE_KIND;
    return 0;
}

int agent_find_obstacle(struct work *w, const struct agent *a, bool replaces, int64_t at_ms,
                        enum obstacle *ret, struct err *err)
{
    bool is_replaced = replaces && a->kind[0] && a->process == PROCESS_RUNNING;
    *ret = is_replaced ? OBSTACLE_NONE : agent_obstacle(a, at_ms);
    if (*ret != OBSTACLE_NONE)
        return 0;
    if (!is_replaced && agent_is_attended(w, a)) {
        *ret = OBSTACLE_ATTENDED;
        return 0;
    }
    return find_in_the_way(w, a, ret, err);
}
