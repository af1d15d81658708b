/*
 * process.h: what machines say about processes, and what follows from it.
 *
 * A process is named by its spawn id, given with the command that asked for it. What is said of a
 * spawn that is no longer its agent's current one is noted and changes nothing else. Whether
 * another is started is decided in start.c.
 *
 * A process on a machine that is lost may be *given up*: nobody waits for its end any more. It
 * stays on record as not ended, because nobody has seen it end (P22). If its machine returns, it is
 * stopped, and its end is noted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "domain/agent.h"

struct machine;
struct work;

struct exit_status {
    int64_t code; /* -1: by a signal, or unknown */
    int64_t signal;
    bool is_unknown; /* nobody saw it end */
    bool is_stopped; /* its machine ended it, and says so */
    struct str text; /* why, if the machine knows more */
    struct str tail; /* the last lines of its output */
};

/* Facts. ERR_NOT_FOUND if the spawn is not known here, or was not given to this machine. */
int process_spawned(struct work *w, const struct machine *m, struct str spawn_id, int64_t pid,
                    int64_t start_time, struct err *err);
/* machine.register names it, with the number of its process; 0: the start is in hand. Of no
 * importance if it is not known here. */
int process_found(struct work *w, const struct machine *m, struct str spawn_id, int64_t pid,
                  int64_t start_time, struct err *err);
int process_ready(struct work *w, const struct machine *m, struct str spawn_id, struct err *err);
int process_start_failed(struct work *w, const struct machine *m, struct str spawn_id,
                         struct str error, struct err *err);
int process_ended(struct work *w, const struct machine *m, struct str spawn_id,
                  const struct exit_status *exit, struct err *err);

struct command;
/* A command was not confirmed by its deadline: the ladder's command.expired. */
int command_expire(struct work *w, struct command *c, struct err *err);

/* machine.register: what it has against what is known here, both ways. `has` are the spawn ids of
 * live processes it reported, and of starts it has in hand: what is not among them is not there and
 * will not be. */
int processes_reconcile(struct work *w, const struct machine *m, const struct str *has,
                        size_t count, struct err *err);
/* machine.poll: these are alive: evidence for the tasks they claimed. */
int processes_alive(struct work *w, const struct machine *m, const struct str *alive, size_t count,
                    struct err *err);
/* Nobody has seen it end, and its machine may still tell. False if there is no such process of
 * ours, if its machine is lost, and if it was given up. */
int process_may_live(struct work *w, const char *spawn_id, bool *ret, struct err *err);
/* Its number on its machine; 0: nobody has seen it, or it has ended. */
int process_pid(struct work *w, const char *spawn_id, int64_t *ret, struct err *err);
/* It has joined: with `ready = heartbeat` that is when its start is done. While its machine cannot
 * be asked, the start is not open any more, and what is known of the process stays unknown. */
int process_joined(struct work *w, const struct agent *a, struct str spawn_id, struct err *err);
/* Its machine is lost: what it has is given to others, and the epoch fences it out. Who is wanted
 * is started on another machine, unless it is pinned; who was to be stopped is given up. */
int processes_fence(struct work *w, const struct machine *m, struct err *err);
/* Its machine is forgotten: all that it may have is given up. */
int processes_give_up(struct work *w, const struct machine *m, struct err *err);
/* Its machine cannot be asked. */
int processes_unknown(struct work *w, const struct machine *m, struct err *err);
