/* params.c: see params.h. */
#include "rpc/params.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"

/*
 * Where we are: a chain of frames on the stack, written out ("agents[1].role") only when something
 * is wrong there.
 */
struct path {
    const struct path *above; /* NULL: the params themselves */
    struct str name;          /* of a member; p == NULL: an item of a list */
    size_t item;
};

enum { PATH_BYTES_MAX = 256, NAME_SHOWN_MAX = 64, ITEM_BYTES_MAX = 24 };

/* False once the path is cut, for want of room. */
static bool path_write(const struct path *p, struct buf *out)
{
    if (!p->above)
        return true;
    if (!path_write(p->above, out))
        return false;
    size_t n = MIN(p->name.n, (size_t)NAME_SHOWN_MAX);
    if (out->len + n + ITEM_BYTES_MAX > PATH_BYTES_MAX) {
        buf_addz(out, "…");
        return false;
    }
    if (!p->name.p) {
        buf_addf(out, "[%zu]", p->item);
        return true;
    }
    if (out->len)
        buf_addc(out, '.');
    buf_add(out, p->name.p, n);
    return true;
}

static int refuse_at(struct err *err, struct str path, const char *reason)
{
    struct str shown = path.n ? path : STR("params");
    err_set(err, ERR_INVALID_PARAMS, "%.*s: %s", STR_ARG(shown), reason);
    err_str(err, "path", path);
    return err_str(err, "reason", str_of(reason));
}

int params_refuse(struct err *err, const char *path, const char *reason)
{
    return refuse_at(err, str_of(path), reason);
}

_printf_(3, 4) static int refuse(struct err *err, const struct path *p, const char *fmt, ...)
{
    char reason[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    _cleanup_buf_ struct buf path = BUF_INIT(PATH_BYTES_MAX);
    path_write(p, &path);
    return refuse_at(err, buf_str(&path), reason);
}

static int check_value(const struct param *row, const struct json *v, const struct path *p,
                       struct err *err);

static int check_type(const struct json *v, enum json_type want, const struct path *p,
                      struct err *err)
{
    if (v->type == want)
        return 0;
    return refuse(err, p, "must be %s %s, not %s",
                  want == JSON_INT || want == JSON_ARRAY || want == JSON_OBJECT ? "an" : "a",
                  json_type_name(want), json_type_name(v->type));
}

static int check_int(const struct param *row, const struct json *v, const struct path *p,
                     struct err *err)
{
    int r = check_type(v, JSON_INT, p, err);
    if (r == 0 && (v->integer < row->min || v->integer > row->max))
        r = refuse(err, p, "must be from %lld to %lld", (long long)row->min, (long long)row->max);
    return r;
}

static int check_string(const struct param *row, const struct json *v, const struct path *p,
                        struct err *err)
{
    int r = check_type(v, JSON_STRING, p, err);
    if (r < 0)
        return r;
    if ((int64_t)v->string.n < row->min)
        return refuse(err, p, row->min == 1 ? "must not be empty" : "is too short");
    if (row->max && (int64_t)v->string.n > row->max)
        return refuse(err, p, "is longer than %lld bytes", (long long)row->max);
    if (str_has_nul(v->string)) /* kept as text: what reads it may take NUL for its end */
        return refuse(err, p, "must not hold the character U+0000");
    return 0;
}

static int check_name(const struct json *v, const struct path *p, struct err *err)
{
    int r = check_type(v, JSON_STRING, p, err);
    if (r < 0)
        return r;
    bool ok = v->string.n >= 1 && v->string.n <= 64;
    for (size_t i = 0; ok && i < v->string.n; i++) {
        unsigned char c = (unsigned char)v->string.p[i];
        ok = isalnum(c) || c == '_' || c == '-';
    }
    return ok ? 0 : refuse(err, p, "must be 1 to 64 letters, digits, '_' or '-'");
}

static int check_choice(const struct param *row, const struct json *v, const struct path *p,
                        struct err *err)
{
    int r = check_type(v, JSON_STRING, p, err);
    if (r < 0)
        return r;
    char list[120] = "";
    for (const char *const *c = row->choices; *c; c++) {
        if (str_is(v->string, *c))
            return 0;
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", *c);
    }
    return refuse(err, p, "must be one of %s", list);
}

static const struct param *find_row(const struct param *table, struct str name)
{
    for (; table->name; table++)
        if (str_is(name, table->name))
            return table;
    return NULL;
}

static int check_fields(const struct param *table, bool is_open, const struct json *object,
                        const struct path *p, struct err *err)
{
    JSON_FOREACH (v, object) {
        const struct param *row = find_row(table, v->key);
        if (!row && is_open)
            continue;
        struct path sub = {.above = p, .name = v->key};
        if (!row)
            return refuse(err, &sub, "is not known here");
        int r = check_value(row, v, &sub, err);
        if (r < 0)
            return r;
    }
    for (const struct param *row = table; row->name; row++)
        if (row->required && !json_get(object, row->name)) {
            struct path sub = {.above = p, .name = str_of(row->name)};
            return refuse(err, &sub, "is required");
        }
    return 0;
}

static int check_list(const struct param *row, const struct json *v, const struct path *p,
                      struct err *err)
{
    int r = check_type(v, JSON_ARRAY, p, err);
    if (r < 0)
        return r;
    if (v->count < row->min || v->count > row->max)
        return refuse(err, p, "must have from %lld to %lld items", (long long)row->min,
                      (long long)row->max);
    const struct param of_objects = {.type = PARAM_OBJECT, .fields = row->fields};
    size_t i = 0;
    JSON_FOREACH (item, v) {
        struct path sub = {.above = p, .item = i++};
        r = check_value(row->item ? row->item : &of_objects, item, &sub, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_value(const struct param *row, const struct json *v, const struct path *p,
                       struct err *err)
{
    if (v->type == JSON_NULL && row->may_be_null)
        return 0;
    switch (row->type) {
    case PARAM_INT:
        return check_int(row, v, p, err);
    case PARAM_STRING:
        return check_string(row, v, p, err);
    case PARAM_NAME:
        return check_name(v, p, err);
    case PARAM_BOOL:
        return check_type(v, JSON_BOOL, p, err);
    case PARAM_CHOICE:
        return check_choice(row, v, p, err);
    case PARAM_LIST:
        return check_list(row, v, p, err);
    case PARAM_ANY:
        return v->type == JSON_NULL ? refuse(err, p, "must not be null") : 0;
    case PARAM_OBJECT: {
        int r = check_type(v, JSON_OBJECT, p, err);
        return r < 0 || !row->fields ? r : check_fields(row->fields, row->is_open, v, p, err);
    }
    }
    REQUIRE(!"a param type");
    return -ERR_INTERNAL;
}

/* The first thing below v that is JSON, but not taken (json.h). */
static int refuse_defect(const struct json *v, const struct path *p, struct err *err)
{
    if (v->defect != JSON_DEFECT_INSIDE)
        return refuse(err, p, "%s", json_defect_text(v->defect));
    struct path sub = {.above = p};
    const struct json *item = v->first;
    for (; !item->defect; item = item->next)
        sub.item++;
    sub.name = item->key;
    return refuse_defect(item, &sub, err);
}

int params_check(const struct param *table, const struct json *params, struct err *err)
{
    static const struct json nothing = {.type = JSON_OBJECT};
    static const struct path top = {.above = NULL};
    if (!params)
        params = &nothing;
    if (params->type != JSON_OBJECT)
        return refuse(err, &top, "must be an object");
    if (params->defect)
        return refuse_defect(params, &top, err);
    return check_fields(table, false, params, &top, err);
}

/* ---- reading ---- */

const struct json *params_get(const struct json *params, const char *name)
{
    const struct json *v = json_get(params, name);
    return v && v->type != JSON_NULL ? v : NULL;
}

int64_t params_int(const struct json *params, const char *name, int64_t fallback)
{
    const struct json *v = params_get(params, name);
    return v ? v->integer : fallback;
}

bool params_bool(const struct json *params, const char *name, bool fallback)
{
    const struct json *v = params_get(params, name);
    return v ? v->boolean : fallback;
}

struct str params_str(const struct json *params, const char *name)
{
    const struct json *v = params_get(params, name);
    return v ? v->string : STR_NONE;
}

struct str params_lower(struct arena *a, struct str s)
{
    char *lower = arena_strndup(a, s.p, s.n);
    for (size_t i = 0; i < s.n; i++)
        lower[i] = (char)tolower((unsigned char)lower[i]);
    return (struct str){lower, s.n};
}

struct str params_name(struct arena *a, const struct json *params, const char *name)
{
    struct str s = params_str(params, name);
    return s.p ? params_lower(a, s) : s;
}
