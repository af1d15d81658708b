/*
 * clocks.h: what is counting over an agent, a task, a conversation or a machine, and which of it
 * will really move something.
 *
 * A clock that runs is no promise. A ring moves nothing. A rule that would start an agent changes
 * nothing while something stands in the way of the start (domain/obstacle.h), and writes its event
 * all the same. A lease whose holder beats is renewed before it is over. The next move is the
 * earliest of the others, under the assumption that whoever beats goes on to.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "domain/rule.h"
#include "watch/situation.h"

struct clock_ahead {
    enum rule_id rule;
    const char *what; /* "its task" */
    const char *deed; /* what happens then: a template of sentence.h */
    int64_t since_ms; /* 0: not known */
    int64_t due_ms;
    bool moves;      /* something will have changed */
    bool is_renewed; /* a lease, and its holder beats */
};

struct clocks {
    struct clock_ahead *list; /* in the tick's arena */
    size_t count, room;
    const struct clock_ahead *next; /* the next move; NULL: none is ahead */
    bool assumes_beats;             /* a lease would be over before it, if its holder fell silent */
};

int clocks_read(const struct situation *s, struct clocks *ret, struct err *err);
