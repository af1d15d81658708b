/*
 * rule.h: when a conversation's rules fall due.
 *
 * The rules themselves, what they do and in which order, are the ladder's (watch/ladder.c). Here is
 * only their arithmetic, because the domain needs it too: every change to a conversation must make
 * sure that the ladder looks at it in time.
 *
 * *Due* is a pure function of a head, the limits and the gaps: the first millisecond at which the
 * limit is exceeded (now − base > limit; evidence in the same millisecond wins), or NEVER_MS.
 *
 * *Look* is stored, per rule, with an index: when the ladder must next look at the conversation.
 * It is never later than due, and may be earlier. That is what makes appends cheap: an event moves
 * due, away from us, and writes nothing here; the ladder looks at the old time, sees that it is not
 * due and stores the new one. Each such look in vain is paid for by at least one append since the
 * last, so a pass costs O(what is due), whatever the number of conversations. Only what brings due
 * closer than the stored look (a turn is opened, a window begins) writes it at once:
 * head_watch().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"
#include "domain/gaps.h"

struct head;
struct task;
struct work;

/* X(name, text). Rules that fall due together run in this order: a budget blocks before silence
 * cancels. */
#define RULE_LIST(X)                                  \
    X(WALL_CLOCK_NOTICE, "session.wall_clock_notice") \
    X(WALL_CLOCK, "session.wall_clock")               \
    X(IDLE, "conversation.idle")                      \
    X(GLOBAL_IDLE, "conversation.global_idle")        \
    X(MAX_TURNS, "conversation.max_turns")            \
    X(MACHINE_OFFLINE, "machine.offline")             \
    X(AGENT_EXITED, "agent.exited")                   \
    X(COMMAND_EXPIRED, "command.expired")             \
    X(QUEUE_SWEEP, "queue.sweep")                     \
    X(INBOX_PENDING, "inbox.pending")                 \
    X(INBOX_PROCESSING, "inbox.processing")           \
    X(PARTICIPANT_EXPIRE, "participant.expire")       \
    X(TOOL_TIMEOUT, "tool.timeout")                   \
    X(LEDGER_REQUEUE, "ledger.requeue")               \
    X(LEDGER_RECONCILE, "ledger.reconcile")           \
    X(DISPATCH_RETRY, "dispatch.retry")               \
    X(TASK_ACKNOWLEDGED, "task.acknowledged")         \
    X(TASK_ORPHANED, "task.orphaned")                 \
    X(TASK_UNATTENDED, "task.unattended")             \
    X(TASK_UNRESUMED, "task.unresumed")               \
    X(DISPATCH_REAP, "dispatch.reap")                 \
    X(RUNNING_REAP, "running.reap")                   \
    X(SUSPENDED_REAP, "suspended.reap")               \
    X(TASK_EXHAUSTED, "task.exhausted")               \
    X(TASK_MAX_SECONDS, "task.max_seconds")

enum rule_id {
#define X(name, text) RULE_##name,
    RULE_LIST(X)
#undef X
        RULE_COUNT
};

/* Those before this one have a time at which to look; the turn limit acts in the closing message.
 */
#define TIMED_RULE_COUNT RULE_MAX_TURNS

#define NEVER_MS INT64_MAX

const char *rule_name(enum rule_id rule);
bool rule_parse(struct str s, enum rule_id *ret);

/* The limit that holds for this conversation, in milliseconds (turns, for the turn limit); 0: off.
 */
int64_t rule_limit(enum rule_id rule, const struct options *o, const struct head *h);
/* What its clock counts from. */
int64_t rule_base_ms(enum rule_id rule, const struct head *h);
int64_t rule_due_ms(enum rule_id rule, const struct options *o, const struct gaps *g,
                    const struct head *h);

/* When a rule of tasks is due for this one: the tasks of an active conversation. By what is stored,
 * and by the leases in memory. */
#define FIRST_TOOL_RULE RULE_TOOL_TIMEOUT /* of calls that a task waits for: tool.h */
#define LAST_TOOL_RULE RULE_LEDGER_REQUEUE
#define FIRST_TASK_RULE RULE_DISPATCH_RETRY
#define LAST_TASK_RULE RULE_TASK_MAX_SECONDS
int rule_task_due_ms(struct work *w, enum rule_id rule, const struct task *t, int64_t *ret,
                     struct err *err);
/* When task.max_seconds is due for a task that was first dispatched, or whose window began, then.
 */
int64_t rule_task_deadline_ms(int64_t since_ms, int64_t limit_ms);
/* The limit it has, in milliseconds (attempts, for task.exhausted); 0: off. */
int64_t rule_task_limit(enum rule_id rule, const struct options *o);
/* How long to wait before the next ring, after `count` of them: the limit, doubling up to a minute.
 * A limit above that does not double. */
int64_t rule_repeat_ms(int64_t limit_ms, int64_t count);

/*
 * A head was edited: brings the stored looks forward where due is earlier. Returns at once if
 * none is, which is so for nearly every append.
 */
int head_watch(struct work *w, struct head *h, struct err *err);
/* Would head_watch() write, once an event that closes nothing is appended? */
bool head_watch_would_write(const struct work *w, const struct head *h);
/* The ladder has looked: each look becomes due, earlier or later. */
int head_watch_again(struct work *w, struct head *h, struct err *err);

/* For work.c, at start: are the configured limits not those of the last start? Then the looks of
 * all active conversations are set anew, from their rows, and every task is looked at once. The one
 * place that costs O(active). */
int rules_limits_changed(struct work *w, bool *ret, struct err *err);
int rules_apply_limits(struct work *w, struct err *err);
