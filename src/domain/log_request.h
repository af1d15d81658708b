/*
 * log_request.h: somebody wants to read what an agent has printed.
 *
 * Output stays where the agent runs; the server holds none of it. Who asks waits (agent.logs is a
 * long poll) while the request goes to the agent's machine with the answer to its next poll, once,
 * and comes back by machine.log. Nothing is stored: a tick that is lost, or a restart, forgets the
 * requests that were open, and those who wait are told that they were. Few wait at a time, so this
 * is a list.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "domain/agent.h"

struct work;

enum { LOG_TAIL_BYTES_MAX = 128 << 10, LOG_POSITION_BYTES_MAX = 64 };

struct log_request {
    int64_t request;
    int64_t asked_ms;
    int64_t conversation;
    char role[AGENT_ID_BYTES_MAX + 1], machine[AGENT_ID_BYTES_MAX + 1];
    int64_t tail_bytes;
    char after[LOG_POSITION_BYTES_MAX + 1]; /* `next` of an earlier answer; empty: the tail */
    bool is_sent;
    char *text; /* the answer; NULL: none yet */
    size_t text_bytes;
    bool is_truncated;
    int64_t lines_before;
    char next_position[LOG_POSITION_BYTES_MAX + 1];
    struct log_request *next;
};

/* For the agent's machine, which must be there: ERR_NOT_FOUND if it never had one, ERR_UNAVAILABLE
 * if it is offline, ERR_RATE_LIMITED if too many are open. */
int log_request_ask(struct work *w, const struct agent *a, int64_t tail_bytes, struct str after,
                    struct log_request **ret, struct err *err);
/* What stands for it among those that wait (work_touch). */
int64_t log_request_key(int64_t request);
/* NULL: it is not open any more. */
struct log_request *log_request_find(const struct work *w, int64_t request);
void log_request_end(struct work *w, struct log_request *l);
/* Those that are to be sent to a machine, as items of an array of commands. How many. */
size_t log_requests_send(struct work *w, const char *machine, struct json_out *out);
/* What it has printed. ERR_NOT_FOUND if nobody waits for it any more, or asked another machine. */
struct log_answer {
    struct str text, next_position;
    bool is_truncated;
    int64_t lines_before; /* -1: not told */
};
int log_request_answer(struct work *w, int64_t request, const char *machine,
                       const struct log_answer *answer, struct err *err);

/* For work.c. */
void log_requests_drop(struct work *w);
