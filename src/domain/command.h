/*
 * command.h: what machines are told to do.
 *
 * A command asks for one process: start it, stop it, or replace it. It is a row that a machine
 * takes and confirms; `pending` → `delivered` → `booting` → `done`, or `failed`, or `expired`. The
 * process is named in advance, by its spawn id, so that a start that was taken but not yet
 * confirmed can be stopped. At most one start per agent is open, and one stop per process: indexes
 * in the store say so (P4).
 *
 * A machine that is online has restart.command_deadline_seconds of watched time to confirm a
 * command. A start that it does not confirm is closed as expired. A stop is sent again, each time
 * with twice the time, STOP_SENDS_MAX times in all; then the server says once that the process
 * cannot be stopped and that a person must act, and the stop stays open. While the machine is
 * offline nobody can confirm anything, so no deadline runs; when the machine returns the deadline
 * begins anew.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

struct work;

enum { SPAWN_ID_BYTES = 33, STOP_SENDS_MAX = 5 };

/* What was asked for an agent, and what may have come of it. */
struct starts {
    int64_t open; /* the start that is not confirmed; 0: none */
    /* Of the newest start that a machine has taken, unless its process was seen to end, its stop
     * was confirmed, or it was given up: there may be such a process. Empty: there is none. */
    char spawn_id[SPAWN_ID_BYTES];
    struct str machine; /* that has the process; in the tick's arena */
};

int command_starts(struct work *w, int64_t conversation, struct str role, struct starts *ret,
                   struct err *err);
/* A new start of the agent; none may be open. If there may still be a process it is a restart: the
 * machine proves the old one dead first. *ret is its number. */
int command_start(struct work *w, int64_t conversation, struct str role, struct str kind,
                  struct str machine, bool is_restart, const char *reason, int64_t *ret,
                  struct err *err);
/* A stop of the process; if one is open, that one. */
int command_stop(struct work *w, int64_t conversation, struct str role, struct str kind,
                 struct str machine, const char *spawn_id, const char *reason, int64_t *ret,
                 struct err *err);
/* The stop of this process that is open; 0: none. */
int command_open_stop(struct work *w, const char *spawn_id, int64_t *ret, struct err *err);
int command_assign(struct work *w, int64_t command, struct str machine, struct err *err);

/* A row; its text is in the tick's arena. */
struct command {
    int64_t command, conversation;
    struct str type, role, kind, machine, spawn_id, status, reason, outcome;
    int64_t created_ms, since_ms, closed_ms, look_ms; /* closed_ms 0: it is open */
    int64_t sends;                                    /* a stop was sent again so often */
    char token[65]; /* for the process of a start that is handed over; else empty */
};
/* ERR_NOT_FOUND */
int command_get(struct work *w, int64_t command, struct command *ret, struct err *err);
bool command_is_stop(const struct command *c);
/* How long its machine has to confirm it, and when that is over. NEVER_MS: it is closed, nobody has
 * it, its machine is offline, or it was sent as often as it may be. */
int64_t command_limit_ms(const struct work *w, const struct command *c);
int64_t command_due_ms(const struct work *w, const struct command *c);
/* The ladder has looked: the time to look is when it is due. */
int command_watch_again(struct work *w, const struct command *c, struct err *err);
/* What is pending for a machine, at most `limit`, and with `again` what it was given and has not
 * confirmed: marked as delivered, and the process that it asks for is its agent's current one from
 * now on. */
int commands_deliver(struct work *w, struct str machine, bool again, size_t limit,
                     struct command **ret, size_t *ret_count, struct err *err);
/* All that are open for a machine that cannot be asked: expired, and counted against nobody. */
int commands_expire_on(struct work *w, struct str machine, const char *outcome, struct err *err);
/* The machine is back: it has the whole time for what was ordered while it was away. */
int commands_begin_on(struct work *w, struct str machine, struct err *err);
/* A stop that was not confirmed in time is sent again; c->sends counts it. */
int command_send_again(struct work *w, struct command *c, struct err *err);
/* A stop that was sent as often as it may be: it stays open, and nobody looks at it again. */
int command_rest(struct work *w, struct command *c, struct err *err);
/* Nobody waits any more for the end of this process: its stop is closed, and no start has to wait
 * for it. */
int command_give_up(struct work *w, const char *spawn_id, const char *reason, struct err *err);
void command_write_delivered(struct work *w, const struct command *c, struct json_out *out);

int command_fail(struct work *w, int64_t command, const char *outcome, struct err *err);
/* For the end of a conversation. */
int commands_fail_open_starts(struct work *w, int64_t conversation, const char *outcome,
                              struct err *err);

/* Which commands: all that match what is given. */
struct command_filter {
    int64_t conversation;       /* < 0: any */
    struct str machine, status; /* p == NULL: any */
};
/* Commands after number `after`, at most `limit`, as an array of objects under `key`. *ret_next is
 * where to go on, 0 if there are no more. */
int commands_write(struct work *w, const struct command_filter *filter, int64_t after,
                   int64_t limit, struct json_out *out, const char *key, int64_t *ret_next,
                   struct err *err);
