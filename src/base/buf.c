/* buf.c: see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static bool ensure(struct buf *b, size_t extra)
{
    if (b->overflow)
        return false;
    if (extra > b->max || b->len > b->max - extra) {
        buf_release(b);
        b->overflow = true;
        return false;
    }
    size_t want = b->len + extra + 1;
    if (want > b->cap) {
        size_t cap = MAX(b->cap * 2, (size_t)256);
        cap = MAX(cap, want);
        b->cap = MIN(cap - 1, b->max) + 1;
        b->data = mem_realloc(b->data, b->cap);
    }
    return true;
}

char *buf_reserve(struct buf *b, size_t n)
{
    return ensure(b, n) ? b->data + b->len : NULL;
}

void buf_grown(struct buf *b, size_t n)
{
    REQUIRE(b->len + n < b->cap);
    b->len += n;
    b->data[b->len] = '\0';
}

void buf_add(struct buf *b, const void *data, size_t n)
{
    if (n == 0 || !ensure(b, n))
        return;
    memcpy(b->data + b->len, data, n);
    buf_grown(b, n);
}

void buf_add_str(struct buf *b, struct str s)
{
    buf_add(b, s.p, s.n);
}

void buf_addz(struct buf *b, const char *z)
{
    buf_add(b, z, strlen(z));
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_add_int(struct buf *b, int64_t value)
{
    char digits[24];
    char *p = digits + sizeof digits;
    uint64_t u = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do
        *--p = (char)('0' + u % 10);
    while (u /= 10);
    if (value < 0)
        *--p = '-';
    buf_add(b, p, (size_t)(digits + sizeof digits - p));
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    REQUIRE(n >= 0);
    if (ensure(b, (size_t)n)) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        buf_grown(b, (size_t)n);
    }
    va_end(again);
}

void buf_drop_front(struct buf *b, size_t n)
{
    REQUIRE(n <= b->len);
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = '\0';
}

void buf_truncate(struct buf *b, size_t len)
{
    REQUIRE(len <= b->len);
    b->len = len;
    if (b->data)
        b->data[len] = '\0';
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->overflow = false;
    if (b->data)
        b->data[0] = '\0';
}

void buf_release(struct buf *b)
{
    free(b->data);
    *b = BUF_INIT(b->max);
}

char *buf_take(struct buf *b)
{
    char *data = b->data ? b->data : mem_strndup("", 0);
    *b = BUF_INIT(b->max);
    return data;
}
