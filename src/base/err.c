/* err.c: see err.h. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"

static const struct {
    const char *name;
    const char *text;
    int rpc;
    int exit_status;
    bool retry;
} rows[] = {[ERR_NONE] = {"OK", "no error", 0, 0, false},
#define X(sym, rpc_code, status, may_retry, message) \
    [ERR_##sym] = {#sym, message, rpc_code, status, may_retry},
            ERR_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(rows) == ERR_COUNT, "a row for each error");

static int row_of(int code)
{
    REQUIRE_F(code > -ERR_COUNT && code < ERR_COUNT, "code %d", code);
    return abs(code);
}

/*
 * A message may hold bytes of a path or of a variable, and may have been cut inside a character:
 * what is not UTF-8 becomes '?', since it would make a reply invalid JSON.
 */
static void make_utf8(char *z)
{
    size_t left = strlen(z), n;
    for (; left > 0; z += n, left -= n) {
        for (n = 1; n < 4 && n < left && !str_is_utf8((struct str){z, n}); n++)
            ;
        if (str_is_utf8((struct str){z, n}))
            continue;
        *z = '?';
        n = 1;
    }
}

/* What a caller that brought no err gets: so that the helpers still know the code. */
static struct err *or_ignored(struct err *e)
{
    static _Thread_local struct err ignored;
    return e ? e : &ignored;
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    row_of((int)code);
    e = or_ignored(e);
    e->code = (int)code;
    e->data[0] = '\0';
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    make_utf8(e->message);
    return -(int)code;
}

static int add_member(struct err *e, struct buf *member)
{
    e = or_ignored(e);
    size_t have = strlen(e->data);
    size_t need = member->len + (have ? 1 : 0);
    if (!member->overflow && have + need < sizeof e->data)
        snprintf(e->data + have, sizeof e->data - have, "%s%s", have ? "," : "", member->data);
    return -e->code;
}

int err_str(struct err *e, const char *key, struct str value)
{
    _cleanup_buf_ struct buf b = BUF_INIT(ERR_DATA_BYTES);
    json_write_string(&b, str_of(key));
    buf_addc(&b, ':');
    json_write_string(&b, value);
    return add_member(e, &b);
}

int err_int(struct err *e, const char *key, int64_t value)
{
    _cleanup_buf_ struct buf b = BUF_INIT(ERR_DATA_BYTES);
    json_write_string(&b, str_of(key));
    buf_addf(&b, ":%lld", (long long)value);
    return add_member(e, &b);
}

int err_json(struct err *e, const char *key, struct str json)
{
    _cleanup_buf_ struct buf b = BUF_INIT(ERR_DATA_BYTES);
    json_write_string(&b, str_of(key));
    buf_addc(&b, ':');
    buf_add_str(&b, json);
    return add_member(e, &b);
}

int err_prefix(struct err *e, const char *fmt, ...)
{
    e = or_ignored(e);
    char old[ERR_MESSAGE_BYTES];
    memcpy(old, e->message, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->message)
        snprintf(e->message + n, sizeof e->message - (size_t)n, ": %.200s", old);
    make_utf8(e->message);
    return -e->code;
}

const char *err_name(int code)
{
    return rows[row_of(code)].name;
}

const char *err_text(int code)
{
    return rows[row_of(code)].text;
}

int err_rpc_code(int code)
{
    return rows[row_of(code)].rpc;
}

int err_exit_status(int code)
{
    return rows[row_of(code)].exit_status;
}

bool err_may_retry(int code)
{
    return rows[row_of(code)].retry;
}

int err_from_rpc_code(int64_t rpc_code)
{
    for (int i = 1; i < ERR_COUNT; i++)
        if (rows[i].rpc == rpc_code)
            return i;
    return ERR_INTERNAL;
}
