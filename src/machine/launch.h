/*
 * launch.h: starting a shim, and the environment of an agent.
 *
 * The shim is `reeve-shim` beside this program, or this program itself with the word `shim`. It is
 * started with its order on standard input and one end of the line as descriptor 3 (shim.h), and
 * inherits nothing else of ours: every descriptor we open is closed by exec.
 *
 * An agent's environment is, in rising order: the machine's own, without what is the machine's
 * alone (REEVE_*, NOTIFY_SOCKET and its like); unless its kind is interactive, values that keep
 * programs from waiting for a person who is not there (L58); what its kind says; and REEVE_URL,
 * REEVE_TOKEN, REEVE_CONVERSATION, REEVE_ROLE and the mark of its spawn. PATH ends in the folder of
 * this program, so that scripts find `reeve`.
 */
#pragma once

#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "machine/kinds.h"
#include "machine/order.h"

/* Who it is, as its environment tells it. */
struct agent_identity {
    const char *url, *token, *conversation, *role, *spawn_id;
};

struct launch {
    char *program_folder;
    char *shim;     /* what is executed */
    bool is_reeve;  /* …with the word `shim` */
    char *cgroup;   /* in which each spawn gets one of its own; NULL: there is none */
    int complaints; /* what shims say to nobody: DIR/shims.log */
};

struct launched {
    pid_t pid;
    int pidfd, line; /* the caller's */
};

int launch_init(struct launch *l, const char *data_folder, struct err *err);
void launch_release(struct launch *l);

/* NULL-terminated, the arena's. `inherited` is environ. */
const char **launch_environment(const struct launch *l, const struct kind *kind,
                                const struct agent_identity *who, const char *const *inherited,
                                struct arena *a);
/* ERR_IO; then nothing was started. */
int launch_shim(const struct launch *l, const struct order *order, struct launched *ret,
                struct err *err);
