/*
 * swarm.h: what one simulated history is made of, chosen by its seed.
 *
 * Swarm testing: a fault that is always on hides others, so each seed turns some faults off
 * altogether and the rest on at a rate of its own, and picks numbers and limits as well. All of it
 * is a row of integers, written at the head of a scenario, so that a history that was found stays
 * what it was when the choosing changes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/options.h"
#include "base/str.h"

/* Numbers first, then times in milliseconds, then rates per thousand acts. A scenario that is older
 * than one of them has it as 0: off. */
#define SWARM_LIST(X)  \
    X(machines)        \
    X(processes)       \
    X(agents)          \
    X(tools)           \
    X(clients)         \
    X(persons)         \
    X(conversations)   \
    X(roles)           \
    X(managed_roles)   \
    X(steps)           \
    X(pace_ms)         \
    X(delay_ms)        \
    X(down_ms)         \
    X(lose_request)    \
    X(lose_reply)      \
    X(duplicate)       \
    X(delay)           \
    X(agent_lies)      \
    X(agent_dies)      \
    X(agent_hangs)     \
    X(machine_crashes) \
    X(machine_reboots) \
    X(partitions)      \
    X(start_fails)     \
    X(person_meddles)  \
    X(server_crashes)  \
    X(power_cuts)      \
    X(disk_faults)     \
    X(sleeps)          \
    X(wall_steps)      \
    X(core_of_actors)  \
    X(inbox_acts)      \
    X(rings_lost)      \
    X(rings_doubled)   \
    X(rings_late)      \
    X(moves)           \
    X(deaf_workers)    \
    X(odd_kinds)

/* X(section, key): the limits that a seed chooses. */
#define SWARM_OPTION_LIST(X)                        \
    X(watchdog, idle_ms)                            \
    X(watchdog, global_idle_ms)                     \
    X(runtime_controls, session_wall_clock_seconds) \
    X(liveness, heartbeat_seconds)                  \
    X(liveness, ttl_seconds)                        \
    X(liveness, active_ttl_seconds)                 \
    X(liveness, acknowledged_timeout_seconds)       \
    X(liveness, pending_timeout_seconds)            \
    X(liveness, unattended_work_seconds)            \
    X(liveness, max_attempts)                       \
    X(task, max_seconds)                            \
    X(pmo, dispatched_timeout_seconds)              \
    X(pmo, active_reap_seconds)                     \
    X(pmo, suspended_reap_seconds)                  \
    X(worker, suspend_timeout_seconds)              \
    X(restart, burst)                               \
    X(restart, window_seconds)                      \
    X(restart, command_deadline_seconds)            \
    X(machine, heartbeat_seconds)                   \
    X(machine, ttl_seconds)                         \
    X(machine, fence_seconds)                       \
    X(pmo, dispatched_retry_seconds)                \
    X(pmo, pending_wakeup_seconds)                  \
    X(pmo, pending_wakeup_skip_seconds)             \
    X(worker, watchdog_interval_seconds)            \
    X(worker, inbox_processing_timeout_seconds)

struct swarm {
    uint64_t seed;
#define X(name) int64_t name;
    SWARM_LIST(X)
#undef X
    struct options options;
};

/* splitmix64; the only randomness of a simulation. */
uint64_t sim_random(uint64_t *state);
int64_t sim_between(uint64_t *state, int64_t low, int64_t high); /* both included */

struct swarm swarm_of_seed(uint64_t seed);
/* As lines "swarm agents 12" and "set liveness.ttl_seconds=20". */
void swarm_write(const struct swarm *s, struct buf *out);
/* The words of such a line; false: it is none. */
bool swarm_read(struct swarm *s, struct str what, struct str rest);
