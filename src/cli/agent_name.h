/*
 * agent_name.h: "12:builder", the name of an agent on the command line.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct agent_name {
    int64_t conversation;
    const char *role; /* borrowed from the word */
};

int agent_name_parse(const char *word, struct agent_name *ret, struct err *err);
/* As the params of a call; the object is left open. */
void agent_name_write(const struct agent_name *name, struct json_out *w);
