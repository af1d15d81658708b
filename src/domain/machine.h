/*
 * machine.h: the hosts that run agents, as the server knows them.
 *
 * A machine registers under its name with an instance of its own, polls for commands, and reports
 * what happened to processes (process.h). Each poll is its heartbeat; without one for
 * machine.ttl_seconds of watched time it is offline. Offline is not dead: what is known of its
 * processes becomes *unknown*, and nobody acts on it until it is back (P21). After
 * machine.fence_seconds more it is *lost*: its work is given to others under a new epoch, and an
 * agent that nobody pinned to it is started on another machine. If a lost machine returns, what was
 * replaced meanwhile is stopped there. A newer instance of the same name supersedes an older one.
 *
 * What a machine may run it says itself, by kind; the server only ever names a kind.
 *
 * There are few of them, so all are in memory, in a list.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "domain/event.h"

struct agent;
struct work;

enum { MACHINE_KINDS_MAX = 64, MACHINE_TEXT_BYTES_MAX = 128, MACHINE_FORMER_MAX = 4 };

enum restart_policy { RESTART_ON_FAILURE, RESTART_ALWAYS, RESTART_NEVER };
enum ready_mode { READY_NONE, READY_NOTIFY, READY_HEARTBEAT };

struct machine_kind {
    char name[AGENT_ID_BYTES_MAX + 1];
    enum restart_policy restart;
    enum ready_mode ready;
    int64_t stop_grace_ms;
};

struct machine {
    char name[AGENT_ID_BYTES_MAX + 1];
    char instance[MACHINE_TEXT_BYTES_MAX + 1], hostname[MACHINE_TEXT_BYTES_MAX + 1],
        boot_id[MACHINE_TEXT_BYTES_MAX + 1];
    struct machine_kind kinds[MACHINE_KINDS_MAX];
    size_t kind_count;
    bool is_online;
    int64_t registered_ms;
    int64_t offline_ms; /* since when; 0: it is online */
    bool is_fenced;     /* offline for so long that it is lost */
    /* in memory only */
    bool is_forgotten;        /* machine.forget: as if it had never registered */
    int64_t beat_ms, look_ms; /* its lease, or its fence: lease.h */
    bool is_unreconciled;     /* back, and has not yet said what it has */
    int64_t list;             /* number of the newest list of what it has; 0: it does not count */
    char former[MACHINE_FORMER_MAX][MACHINE_TEXT_BYTES_MAX + 1]; /* instances, the latest first */
    /* private to machine.c */
    int64_t edited_in;
    struct machine *next;
};

int64_t machine_key_of(struct str name);
/* NULL if it never registered, or was forgotten since. */
struct machine *machine_find(const struct work *w, struct str name);
/* ERR_NOT_FOUND */
int machine_get(const struct work *w, struct str name, struct machine **ret, struct err *err);
const struct machine_kind *machine_kind_find(const struct machine *m, const char *kind);
/* What its kind says; defaults if nobody offers it. */
struct machine_kind machine_kind_of(const struct work *w, const struct agent *a);
/*
 * Where the next process of an agent is started.
 *
 *     it is pinned                        its machine; while that is offline, later
 *     it ran somewhere, which is online   there again: what it left on that host is there
 *     a process of it may live on a       later: the machine may come back (P21); once it is lost,
 *     machine that is offline             on another
 *     otherwise                           of the machines that are online and offer its kind the
 *                                         one with the fewest processes
 *
 * If no machine ever offered its kind, the start waits for the first that does.
 */
enum placement { PLACE_ON_MACHINE, PLACE_ON_WHOEVER_COMES, PLACE_LATER };
/* *ret_machine is set for PLACE_ON_MACHINE. may_live: a process of it may live on a->machine. */
int machine_choose(struct work *w, const struct agent *a, bool may_live, enum placement *ret,
                   struct machine **ret_machine, struct err *err);
/* Offline beyond the fence, or forgotten: nobody waits for what it may still run. */
bool machine_is_lost(const struct work *w, struct str name);
bool machine_is_online(const struct work *w, struct str name);

/* machine.register: makes or takes over the row; online from now on. ERR_SUPERSEDED if a newer
 * instance has done so: what an older one said was held up on the way. */
int machine_register(struct work *w, const struct machine *as_told, struct machine **ret,
                     struct err *err);
/* The caller is this instance: ERR_NOT_FOUND, ERR_SUPERSEDED. With is_alive it is a sign of life,
 * and the machine is online. */
int machine_beat(struct work *w, struct str name, struct str instance, bool is_alive,
                 struct machine **ret, struct err *err);
/* This instance has told a newer list, or this one. */
bool machine_is_overtaken(const struct machine *m, struct str instance, int64_t list);
void machine_told_list(struct work *w, struct machine *m, int64_t list);
/* What it has is known now. */
void machine_is_reconciled(struct work *w, struct machine *m);
int64_t machine_lease_until_ms(const struct work *w, const struct machine *m);
/* When the ladder's machine.offline has something to do; NEVER_MS: not at all. */
int64_t machine_due_ms(const struct work *w, const struct machine *m);
/* The lease is over: offline. Or it has been for machine.fence_seconds: lost. */
int machine_move(struct work *w, struct machine *m, struct err *err);
/* When it is lost, if it stays away; it is offline, and not yet lost. */
int64_t machine_fence_due_ms(const struct work *w, const struct machine *m);
/* Is any on its way to be lost? */
bool machines_wait_for_fence(const struct work *w);
/* machine.forget: it is lost at once, and no longer known. ERR_INVALID_TRANSITION while it is
 * online, and without `force` before it is lost. */
int machine_forget(struct work *w, struct machine *m, bool force, struct err *err);

/* `kinds` of machine.register, checked before. */
void machine_kinds_from_json(struct machine *m, const struct json *list);
void machine_write(struct work *w, const struct machine *m, struct json_out *out);

/* For work.c. */
int machines_read(struct work *w, struct err *err);
void machines_drop(struct work *w);
