/*
 * record.h: the two files that a shim leaves in the folder of its spawn (shim.h).
 *
 * A machine that comes back reads them to know its processes again. They survive every process of
 * ours, not a power cut: after a boot nothing of what they tell is alive anyway, and the boot id
 * says so.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum { BOOT_ID_BYTES = 37, RECORD_TAIL_BYTES_MAX = 2048, RECORD_BYTES_MAX = 16384 };

/* A process that cannot be mistaken for another one: a pid alone can, it is used again (L53). */
struct process_id {
    pid_t pid;
    int64_t start_time; /* clock ticks since boot: field 22 of /proc/PID/stat */
};

struct seen {
    char boot_id[BOOT_ID_BYTES];
    struct process_id shim, agent;
};

enum ending {
    ENDING_START_FAILED, /* it never ran: `text` says why */
    ENDING_EXITED,       /* by itself */
    ENDING_STOPPED,      /* it was told to */
};

struct ended {
    enum ending ending;
    int code;   /* exit status; -1: a signal ended it, or nobody knows */
    int signal; /* 0: none */
    bool has_core, is_oom;
    struct str text; /* for people: "killed by signal 9 (out of memory)" */
    struct str tail; /* the last lines of its output */
    int64_t at_ms;   /* wall clock, for people */
};

const char *ending_name(enum ending ending); /* as a fact: "exited" */

int seen_write(const char *folder, const struct seen *s, struct err *err);
/* ERR_NOT_FOUND if there is none. */
int seen_read(const char *folder, struct seen *ret, struct err *err);

int ended_write(const char *folder, const struct ended *e, struct err *err);
int ended_read(struct arena *a, const char *folder, struct ended *ret, struct err *err);
/* The members of a fact, as on the line and in the file: "fact", "code", "signal", … */
void ended_to_json(const struct ended *e, struct json_out *out);
int ended_from_json(struct arena *a, const struct json *json, struct ended *ret, struct err *err);
