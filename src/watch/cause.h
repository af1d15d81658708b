/*
 * cause.h: why something stands where it stands, as one of a closed list of causes.
 *
 * A cause is a row of one table: a code for programs, the condition under which it holds, the
 * sentence that tells it, and what a person may type to change it. The table is asked from its top
 * for the first row whose condition holds; the last row of each subject always does, so every
 * agent, task, conversation and machine has a cause at any time. docs/why.md is made from the
 * table, and tests/scenario/test_why.py walks it.
 *
 * A task that is its agent's active one has the cause of the agent.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "watch/clocks.h"
#include "watch/situation.h"

/* X(NAME, "code"), in the order in which they are asked for. */
#define CAUSE_LIST(X)                                 \
    /* of a task that is not the active one */        \
    X(TASK_OVER, "task_over")                         \
    X(TASK_QUEUED, "task_queued")                     \
    /* of an agent: its process must go */            \
    X(STOPPING_MACHINE_AWAY, "stopping_machine_away") \
    X(UNSTOPPABLE, "unstoppable")                     \
    X(STOPPING, "stopping")                           \
    X(LEAVING, "leaving")                             \
    /* it may not run */                              \
    X(CONVERSATION_OVER, "conversation_over")         \
    X(CONVERSATION_BLOCKED, "conversation_blocked")   \
    X(STOPPED_BY_PERSON, "stopped_by_person")         \
    /* somebody has its task */                       \
    X(WORKER_SILENT, "worker_silent")                 \
    X(CLAIMED, "claimed")                             \
    X(NO_PROGRESS, "no_progress")                     \
    X(WORKING, "working")                             \
    X(TOOL_WAIT, "tool_wait")                         \
    X(RESULTS_TAKEN, "results_taken")                 \
    /* nobody has it */                               \
    X(HELD_FOR_MACHINE, "held_for_machine")           \
    X(HELD_FOR_PROCESS, "held_for_process")           \
    X(MACHINE_AWAY, "machine_away")                   \
    X(LISTENER_SILENT, "listener_silent")             \
    X(RESULTS_READY, "results_ready")                 \
    X(OFFERED, "offered")                             \
    X(WAITING, "waiting")                             \
    X(UNMANAGED, "unmanaged")                         \
    X(BREAKER_OPEN, "breaker_open")                   \
    X(CRASHED, "crashed")                             \
    X(NO_MACHINE, "no_machine")                       \
    X(KIND_NOT_OFFERED, "kind_not_offered")           \
    X(MACHINE_UNKNOWN, "machine_unknown")             \
    X(MACHINE_OFFLINE, "machine_offline")             \
    X(KIND_OFFLINE, "kind_offline")                   \
    X(REPLACING, "replacing")                         \
    X(NOT_READY, "not_ready")                         \
    X(STARTING, "starting")                           \
    X(NOT_LISTENING, "not_listening")                 \
    X(RUNNING, "running")                             \
    X(ENDED, "ended")                                 \
    X(UNATTENDED, "unattended")                       \
    X(CRASHED_AND_IDLE, "crashed_and_idle")           \
    X(ABSENT, "absent")                               \
    X(IDLE, "idle")                                   \
    /* of a conversation */                           \
    X(BUSY, "busy")                                   \
    X(TURN_FREE, "turn_free")                         \
    X(TURN_OPEN, "turn_open")                         \
    X(QUIET, "quiet")                                 \
    /* of a machine */                                \
    X(MACHINE_HELD, "machine_held")                   \
    X(MACHINE_GONE, "machine_gone")                   \
    X(MACHINE_SILENT, "machine_silent")               \
    X(MACHINE_ONLINE, "machine_online")

enum cause {
#define X(name, text) CAUSE_##name,
    CAUSE_LIST(X)
#undef X
        CAUSE_COUNT
};

const char *cause_name(enum cause cause);
enum cause cause_find(const struct situation *s);
/* One sentence: the cause, the next move with its time, and what a person may type. */
void cause_add_sentence(struct buf *out, enum cause cause, const struct situation *s,
                        const struct clocks *c);
/* What a person may type; false: nothing, or nobody is needed. */
bool cause_add_remedy(struct buf *out, enum cause cause, const struct situation *s);

/* docs/why.md */
void cause_write_docs(struct buf *out);
