/*
 * params.h: what a method takes, as data.
 *
 * A table of `struct param` describes an object: its members, their types and ranges, which are
 * required. The same table validates, and documents the method (docs/protocol.md). Validation is
 * complete before a handler runs, so handlers read with param_…() and need no checks of their own.
 * Errors are ERR_INVALID_PARAMS with data.path ("agents[1].role") and data.reason. Unknown members
 * are refused: a typing error must not look like success. So is what json_read() calls a defect,
 * anywhere in the params, and NUL in a PARAM_STRING; PARAM_ANY and open objects may hold "\u0000".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum param_type {
    PARAM_INT,    /* min … max */
    PARAM_STRING, /* min … max bytes, no NUL */
    PARAM_NAME,   /* role-shaped: [A-Za-z0-9_-]{1,64}, compared in lower case */
    PARAM_BOOL,
    PARAM_CHOICE, /* one of `choices` */
    PARAM_OBJECT, /* of `fields`; NULL: any object */
    PARAM_ANY,    /* any value but null */
    PARAM_LIST,   /* of objects of `fields`, or of CHOICE/INT: `item`; min … max items */
};

struct param {
    const char *name;
    enum param_type type;
    bool required;
    bool may_be_null; /* null means the same as absent */
    int64_t min, max;
    const char *const *choices; /* NULL-terminated */
    const struct param *fields; /* ends with name == NULL */
    bool is_open;               /* an object may have other members too */
    const struct param *item;   /* of a list that does not hold objects */
    const char *fallback;       /* default, for the documentation */
    const char *doc;
};

#define PARAMS_END   \
    {                \
        .name = NULL \
    }

/* `params` may be NULL (absent): then nothing may be required. */
int params_check(const struct param *table, const struct json *params, struct err *err);

/* For what a table cannot say: ERR_INVALID_PARAMS at this path, for this reason. */
int params_refuse(struct err *err, const char *path, const char *reason);

/* Reading what was checked. Absent or null: the fallback. */
int64_t params_int(const struct json *params, const char *name, int64_t fallback);
bool params_bool(const struct json *params, const char *name, bool fallback);
struct str params_str(const struct json *params, const char *name); /* p == NULL if absent */
/* In lower case, in the arena; p == NULL if absent. */
struct str params_name(struct arena *a, const struct json *params, const char *name);
struct str params_lower(struct arena *a, struct str s); /* of an item of a list of names */
const struct json *params_get(const struct json *params, const char *name); /* NULL if null */
