/*
 * tool_checks.c: see checker.h. Promises about tasks that wait for tools.
 *
 * What a task can go on with is there, and nobody goes on: then whoever should is replaced, whether
 * it listens or not. Looked at is who has a process that can be replaced; the limit is counted here
 * once more, from the last result, the last replacement, or the beginning of the process.
 */
#include "sim/checker.h"
#include "sim/model.h"
#include "sim/world.h"

void tools_at_rest(struct sim *s)
{
    int64_t limit_ms = 1000 * option_get(&s->swarm.options, liveness, pending_timeout_seconds);
    sqlite3_stmt *q = look_at(s, LOOK_SETTLED_TASKS);
    while (look_next(s, q)) {
        int64_t settled_ms = later_ms(look_int(q, 3), look_int(q, 6)),
                replaced_ms = later_ms(look_int(q, 4), look_int(q, 5));
        int64_t due = due_ms(s->checker, later_ms(settled_ms, replaced_ms), limit_ms);
        if (is_late(s, due))
            sim_fail(s, "P3",
                     "task %lld of %lld:%s has its results at %lld and nobody resumes it;"
                     " task.unresumed was due at %lld",
                     (long long)look_int(q, 0), (long long)look_int(q, 1), look_text(q, 2),
                     (long long)sim_server_ms(s), (long long)due);
    }
}
