/*
 * planted.h: bugs to order, for proving that the tests can see.
 *
 * A test that has never failed proves little. Each row is a mistake that somebody could make, at
 * the place where it would be made. A build with -Dplanted=true has them all, asleep; the
 * environment variable REEVE_PLANTED names the one that is awake. In every other build planted() is
 * the constant false and nothing of this is left.
 *
 * tests/proof/planted.py runs the weapons against each row and prints who caught what.
 */
#pragma once

#include <stdbool.h>

/* X(NAME, "name", what it breaks) */
#define PLANTED_LIST(X)                                                                            \
    X(LEASE_IGNORES_GAPS, "lease-ignores-gaps", "P16: a lease runs on while nobody watched")       \
    X(NO_EPOCH_ON_RECOVER, "no-epoch-on-recover", "P8: work is taken back under its old epoch")    \
    X(STALE_EPOCH_ACCEPTED, "stale-epoch-accepted", "P8: an old epoch is as good as a new one")    \
    X(SECOND_START, "second-start", "P4: an open start does not stop another")                     \
    X(TWO_TERMINAL_EVENTS, "two-terminal-events", "P7: the end of a task is told twice")           \
    X(STOP_IGNORED, "stop-ignored", "P14: work starts what a person stopped")                      \
    X(ACK_BEFORE_COMMIT, "ack-before-commit", "P12: answers do not wait for the commit")           \
    X(HOLD_IGNORED, "hold-ignored", "P21: held work can be claimed")                               \
    X(IDLE_WITH_WORK, "idle-with-work", "P9: a conversation is idle though work is open")          \
    X(KEY_IGNORED, "key-ignored", "P19: a repeat is done again")                                   \
    X(SECOND_BODY_DROPPED, "second-body-dropped", "P19: a second deliverable is dropped with OK")  \
    X(LIFECYCLE_STOPS_NOBODY, "lifecycle-stops-nobody", "P15: agents outlive their conversation")  \
    X(EXPIRY_LATE, "expiry-late", "P2: a lease is looked at too late")                             \
    X(NO_PROMOTION, "no-promotion", "P18: the next task stays queued")                             \
    X(BUDGET_TWICE, "budget-twice", "P20: a resumed window has the old beginning")                 \
    X(NO_DELIVERABLE, "no-deliverable", "P10: an end by a rule leaves nothing and says nothing")   \
    X(NO_REASON, "no-reason", "P13: an end by a rule does not say which")                          \
    X(MESSAGE_TWICE, "message-twice", "P21: a message is handed out while somebody has it")        \
    X(MESSAGE_STUCK, "message-stuck", "P3: a message that was received is never handed back")      \
    X(MESSAGE_FOR_EVER, "message-for-ever", "P9: a message is handed out without end")             \
    X(BELL_TRUSTED, "bell-trusted", "P11: who waits looks only when it is rung for")               \
    X(LISTENING_IS_RESUMING, "listening-is-resuming", "P3: who listens is taken for who resumes")  \
    X(SYNC_NORMAL, "sync-normal", "P12: commits do not wait for the disk")                         \
    X(FAILED_SYNC_FORGIVEN, "failed-sync-forgiven", "P12: a failed fsync is tried again (L80)")    \
    X(LOST_TRANSACTION_GOES_ON, "lost-transaction-goes-on", "P12: half a tick is committed")       \
    X(NO_CHECKPOINT, "no-checkpoint", "the write-ahead log grows for ever")                        \
    X(BACKUP_NOT_SYNCED, "backup-not-synced", "P12: a backup is told of before it is on disk")     \
    X(UNDO_FORGOTTEN, "undo-forgotten", "P17: what was refused stays in memory")                   \
    X(SEQ_TWICE, "seq-twice", "P6: a number is given again after a restart")                       \
    X(KEYS_IN_MEMORY, "keys-in-memory", "P19: a restart forgets which messages it has")            \
    X(FOLLOWER_SKIPS, "follower-skips", "P6: who reconnects misses an event")                      \
    X(WALL_CLOCK, "wall-clock", "P1: leases go by the wall clock")                                 \
    X(NO_LEASE_AFTER_RESTART, "no-lease-after-restart", "P16: a restart forgets who listens")      \
    X(OLD_CONNECTION_BEATS, "old-connection-beats", "P8: an old connection keeps the lease")       \
    X(OLD_TOKEN_ACCEPTED, "old-token-accepted", "P21: a replaced process speaks for its agent")    \
    X(OLD_INSTANCE_ACCEPTED, "old-instance-accepted", "P4: a replaced machine takes commands")     \
    X(OLD_LIST_BELIEVED, "old-list-believed", "P22: a list that was overtaken is believed")        \
    X(OUTBOX_EMPTIED_EARLY, "outbox-emptied-early", "P22: facts go before the server has them")    \
    X(ORDER_REPEATED, "order-repeated", "P4: a machine starts again what it has started")          \
    X(PREDECESSOR_IGNORED, "predecessor-ignored", "P21: a new process beside the old one")         \
    X(END_UNTOLD, "end-untold", "P22: what ended while the machine was away is untold")            \
    X(STATUS_LOST, "status-lost", "P22: every exit is a good one (L54)")                           \
    X(STOP_IS_A_CRASH, "stop-is-a-crash", "P22: a stop counts as a crash (L54)")                   \
    X(ESCAPEES_LEFT, "escapees-left", "P15: the agent's end is taken for that of its tree (L51)")  \
    X(PID_ALONE, "pid-alone", "P15: a process is known by its number alone (L53)")                 \
    X(ZOMBIE_IS_ALIVE, "zombie-is-alive", "P22: a zombie is taken for alive (L34)")                \
    X(AGENT_BOUND_FOR_EVER, "agent-bound-for-ever", "P3: an agent stays on a host that is lost")   \
    X(DEADLINE_IGNORES_GAPS, "deadline-ignores-gaps", "P16: commands expire while nobody watched") \
    X(WHY_EARLIEST_CLOCK, "why-earliest-clock", "W16: a clock that moves nothing is promised")     \
    X(WHY_WRONG_CAUSE, "why-wrong-cause", "W16: what may still run is told as to be started")

enum planted {
#define X(name, text, breaks) PLANTED_##name,
    PLANTED_LIST(X)
#undef X
        PLANTED_COUNT
};

#ifdef REEVE_PLANTED
bool planted_is_awake(enum planted bug);
#define planted(bug) __builtin_expect(planted_is_awake(PLANTED_##bug), 0)
/* For a process that is given an environment of its own: NAME=VALUE, or NULL. */
char *planted_variable(void);
#else
#define planted(bug) false
#define planted_variable() NULL
#endif
