/*
 * command.h: what machines are told to do.
 *
 * A command asks for one process: start it, stop it, or replace it. It is a row that a machine
 * takes and confirms; `pending` → `delivered` → `booting` → `done`, or `failed`, or `expired`. The
 * process is named in advance, by its spawn id, so that a start that was taken but not yet
 * confirmed can be stopped. At most one start per agent is open, and one stop per process: indexes
 * in the store say so (P4).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

struct work;

enum { SPAWN_ID_BYTES = 33 };

/* What was asked for an agent, and what may have come of it. */
struct starts {
    int64_t open; /* the start that is not confirmed; 0: none */
    /* Of the newest start that a machine has taken, unless a stop of it was confirmed: there may be
     * such a process. Empty: there is none. */
    char spawn_id[SPAWN_ID_BYTES];
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

/* As it is handed to a machine. */
struct command {
    int64_t command, conversation, deadline_ms;
    struct str type, role, kind, spawn_id, reason, status; /* in the tick's arena */
    char token[65];                                        /* for its process; empty: a stop */
};
/* What is pending for a machine, at most `limit`, and with `again` what it was given and has not
 * confirmed: marked as delivered, and the process that it asks for is its agent's current one from
 * now on. */
int commands_deliver(struct work *w, struct str machine, bool again, size_t limit,
                     struct command **ret, size_t *ret_count, struct err *err);
/* All that are open for a machine that went offline: expired, and counted against nobody. */
int commands_expire_on(struct work *w, struct str machine, struct err *err);
/* When it has expired; INT64_MAX once it is closed. */
int command_deadline_ms(struct work *w, int64_t command, int64_t *ret, struct err *err);
/* A stop that was not confirmed in time is sent again. */
int command_send_again(struct work *w, int64_t command, struct err *err);
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
