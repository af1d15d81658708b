/* obstacle.c: see obstacle.h. */
#include "domain/obstacle.h"

#include "domain/command.h"
#include "domain/machine.h"
#include "domain/start.h"
#include "domain/work.h"

enum obstacle agent_obstacle(const struct work *w, const struct agent *a, int64_t at_ms)
{
    if (!a->kind[0])
        return OBSTACLE_UNMANAGED;
    if (agent_is_up(w, a))
        return OBSTACLE_UP;
    if (a->breaker_is_open)
        return OBSTACLE_BREAKER;
    return a->restart_ms > at_ms ? OBSTACLE_WAIT : OBSTACLE_NONE;
}

/* Of those that start() meets. */
static int find_in_the_way(struct work *w, const struct agent *a, enum obstacle *ret,
                           struct err *err)
{
    static const enum obstacle of_placement[] = {[PLACE_ON_MACHINE] = OBSTACLE_NONE,
                                                 [PLACE_ON_WHOEVER_COMES] = OBSTACLE_KIND,
                                                 [PLACE_LATER] = OBSTACLE_MACHINE};
    struct starts starts;
    struct machine *m;
    enum placement placement;
    int r = command_starts(w, a->conversation, str_of(a->role), &starts, err);
    if (r == 0)
        r = machine_choose(w, a, starts.spawn_id[0] != '\0', &placement, &m, err);
    if (r == 0)
        *ret = starts.open ? OBSTACLE_ORDERED : of_placement[placement];
    return r;
}

int agent_find_obstacle(struct work *w, const struct agent *a, bool replaces, int64_t at_ms,
                        enum obstacle *ret, struct err *err)
{
    bool is_replaced = replaces && a->kind[0] && a->process == PROCESS_RUNNING, has_somebody;
    *ret = is_replaced ? OBSTACLE_NONE : agent_obstacle(w, a, at_ms);
    if (*ret != OBSTACLE_NONE || is_replaced)
        return *ret == OBSTACLE_NONE ? find_in_the_way(w, a, ret, err) : 0;
    int r = agent_has_somebody(w, a, &has_somebody, err);
    if (r < 0 || has_somebody) {
        *ret = OBSTACLE_ATTENDED;
        return r;
    }
    return find_in_the_way(w, a, ret, err);
}
