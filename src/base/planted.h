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
#define PLANTED_LIST(X)                                                                           \
    X(LEASE_IGNORES_GAPS, "lease-ignores-gaps", "P16: a lease runs on while nobody watched")      \
    X(NO_EPOCH_ON_RECOVER, "no-epoch-on-recover", "P8: work is taken back under its old epoch")   \
    X(STALE_EPOCH_ACCEPTED, "stale-epoch-accepted", "P8: an old epoch is as good as a new one")   \
    X(SECOND_START, "second-start", "P4: an open start does not stop another")                    \
    X(TWO_TERMINAL_EVENTS, "two-terminal-events", "P7: the end of a task is told twice")          \
    X(STOP_IGNORED, "stop-ignored", "P14: work starts what a person stopped")                     \
    X(ACK_BEFORE_COMMIT, "ack-before-commit", "P12: answers do not wait for the commit")          \
    X(HOLD_IGNORED, "hold-ignored", "P21: held work can be claimed")                              \
    X(IDLE_WITH_WORK, "idle-with-work", "P9: a conversation is idle though work is open")         \
    X(KEY_IGNORED, "key-ignored", "P19: a repeat is done again")                                  \
    X(LIFECYCLE_STOPS_NOBODY, "lifecycle-stops-nobody", "P15: agents outlive their conversation") \
    X(EXPIRY_LATE, "expiry-late", "P2: a lease is looked at too late")                            \
    X(NO_PROMOTION, "no-promotion", "P18: the next task stays queued")                            \
    X(BUDGET_TWICE, "budget-twice", "P20: a resumed window has the old beginning")                \
    X(NO_DELIVERABLE, "no-deliverable", "P10: an end by a rule leaves nothing and says nothing")  \
    X(NO_REASON, "no-reason", "P13: an end by a rule does not say which")                         \
    X(MESSAGE_TWICE, "message-twice", "P21: a message is handed out while somebody has it")       \
    X(MESSAGE_STUCK, "message-stuck", "P3: a message that was received is never handed back")     \
    X(MESSAGE_FOR_EVER, "message-for-ever", "P9: a message is handed out without end")            \
    X(BELL_TRUSTED, "bell-trusted", "P11: who waits looks only when it is rung for")

enum planted {
#define X(name, text, breaks) PLANTED_##name,
    PLANTED_LIST(X)
#undef X
        PLANTED_COUNT
};

#ifdef REEVE_PLANTED
bool planted_is_awake(enum planted bug);
#define planted(bug) __builtin_expect(planted_is_awake(PLANTED_##bug), 0)
#else
#define planted(bug) false
#endif
