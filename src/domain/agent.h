/*
 * agent.h: an agent is a role of a conversation, written 12:builder. Who wants it to run, and what
 * has been done about it.
 *
 * `desired` is what people want: auto, running or stopped. Only they and conversation.create set
 * it; the machine never does.
 *
 * `ensured` follows from it while the conversation is active: it should be up. It is cleared when
 * the agent is stopped, by whomever. After a crash this is what is resumed, or stopped.
 *
 * `view` is how it is, by evidence (P22). starting: a start is open. stopping: a machine was given
 * its start, and has not yet said that its process is gone. stopped: neither.
 *
 * Everything here is idempotent and runs in the tick, one call after the other: two callers who
 * ensure two agents of one conversation both get what they asked for (L15). Each change of a view
 * is an `agent.state` event, in the conversation's log, or in the server's once the conversation
 * has ended.
 *
 * An agent without a kind is unmanaged: nobody starts it for us.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "domain/event.h"

struct work;

#define AGENT_DESIRED_LIST(X) X(AUTO, "auto") X(RUNNING, "running") X(STOPPED, "stopped")
#define AGENT_VIEW_LIST(X) X(STOPPED, "stopped") X(STARTING, "starting") X(STOPPING, "stopping")

enum agent_desired {
#define X(name, text) DESIRED_##name,
    AGENT_DESIRED_LIST(X)
#undef X
        DESIRED_COUNT
};

enum agent_view {
#define X(name, text) VIEW_##name,
    AGENT_VIEW_LIST(X)
#undef X
        VIEW_COUNT
};

struct agent {
    int64_t conversation;
    char role[AGENT_ID_BYTES_MAX + 1];
    char kind[AGENT_ID_BYTES_MAX + 1], machine[AGENT_ID_BYTES_MAX + 1]; /* empty: none */
    enum agent_desired desired;
    bool is_ensured;
    enum agent_view view;
    bool is_damaged; /* its row cannot be read: it is shown, and nothing else is done with it */
};

const char *agent_view_name(enum agent_view view);
const char *agent_desired_name(enum agent_desired desired);

/* ERR_NOT_FOUND. */
int agent_get(struct work *w, int64_t conversation, struct str role, struct agent *ret,
              struct err *err);
/* All of a conversation, in the order of their turns, in the tick's arena. */
int agents_get(struct work *w, int64_t conversation, struct agent **ret, size_t *ret_count,
               struct err *err);
/* The members of conversation.get's `agents`. */
void agent_write(struct json_out *out, const struct agent *a);

/* It should be up: starts it unless it is. The conversation must be active. */
int agent_ensure(struct work *w, struct agent *a, const char *reason, struct err *err);
/* It should not be up. Whatever state the conversation is in. */
int agent_stop(struct work *w, struct agent *a, const char *reason, struct err *err);

/* All of a conversation that are desired `running`: it began, or was resumed. */
int agents_ensure_desired(struct work *w, int64_t conversation, const char *reason,
                          struct err *err);
