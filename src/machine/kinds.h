/*
 * kinds.h: what this machine may run, by name.
 *
 *     kind builder {
 *         argv = {"/usr/bin/env", "node", "agents/builder.mjs", "--for", "{conversation}"}
 *         cwd = "/srv/agents"                 # absolute; default: the folder of this file
 *         env = {"MODEL=small"}
 *         stop_grace = "5s"
 *         ready = heartbeat                   # none | notify | heartbeat
 *         restart = always                    # always | on-failure | never
 *         log_bytes_max = 10485760
 *         interactive = false                 # true: do not keep editors and pagers away
 *     }
 *
 * The server names a kind and nothing more: whatever is executed stands in this file. Words of
 * argv may hold `{conversation}`, `{role}` and `{task}`, which are replaced inside their word;
 * nothing else is expanded, no shell is involved, and a value can never become two words.
 *
 * Reading is strict: unknown keys, a kind without argv, a kind or key given twice, a value of the
 * wrong form are ERR_CONFIG with file and line, and the machine does not start.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

enum { KINDS_MAX = 64, KIND_NAME_BYTES_MAX = 64 };

struct kind {
    const char *name;  /* lower case, as the server compares it */
    const char **argv; /* NULL-terminated, not empty */
    const char *cwd;
    const char **env; /* NULL-terminated, each NAME=value */
    int64_t stop_grace_ms;
    const char *ready, *restart; /* one of the words above */
    int64_t log_bytes_max;
    bool is_interactive;
};

struct kinds {
    struct kind list[KINDS_MAX];
    size_t count;
    struct arena arena;
};

/* What replaces the names in braces. */
struct kind_words {
    struct str conversation, role, task;
};

int kinds_read(struct kinds *k, const char *path, struct err *err);
void kinds_release(struct kinds *k);
const struct kind *kind_find(const struct kinds *k, struct str name); /* or NULL */
/* argv with the words put in; the arena's. */
const char **kind_argv(const struct kind *kind, const struct kind_words *words, struct arena *a);
/* `kinds` of machine.register. */
void kinds_write(const struct kinds *k, struct json_out *out, const char *key);
/* [a-z0-9_-]{1,64}: what machines, kinds and roles may be called. */
bool kind_name_is_valid(struct str name);
