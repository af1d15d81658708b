/*
 * demo.h: the conversation that `reeve up` shows: three agents that hand each other work, for ever.
 *
 * The agents are ordinary processes, examples/demo, which the machine of `reeve up` runs; here is
 * only what a person would do: open the conversation, give the first task, and give another one
 * when a task has come to a bad end. A demo that is still open in the data folder is gone on with.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "client/client.h"

struct demo {
    struct client *client;
    int64_t conversation;
    bool owes_work; /* a task has come to a bad end, and there is no other yet */
};

/* The folder with the demo's agents and their demo.conf: beside the program, in its source tree or
 * where it is installed. NULL: there is none. The caller frees it. */
char *demo_folder(void);
/* Settings under which what goes wrong on purpose is mended within seconds, for --set; NULL at the
 * end. */
extern const char *const demo_settings[];

/* *ret_after: the global id after which its events are news. */
int demo_begin(struct demo *d, struct client *client, int64_t *ret_after, struct err *err);
/* For each event that comes. A server that is away is no error: the next event makes up for it. */
int demo_see(struct demo *d, const struct json *event, struct err *err);
