/* mem.c: see mem.h. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_noreturn_ static void die_of_memory(size_t bytes)
{
    fprintf(stderr, "reeve: out of memory (%zu bytes asked for)\n", bytes);
    abort();
}

void *mem_alloc(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p)
        die_of_memory(bytes);
    return p;
}

void *mem_zalloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        die_of_memory(bytes);
    return p;
}

void *mem_realloc(void *p, size_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        die_of_memory(bytes);
    return q;
}

void *mem_grow(void *p, size_t *cap, size_t want, size_t item_bytes)
{
    if (want <= *cap)
        return p;
    size_t n = *cap ? *cap * 2 : 8;
    if (n < want)
        n = want;
    size_t bytes;
    REQUIRE(!__builtin_mul_overflow(n, item_bytes, &bytes));
    *cap = n;
    return mem_realloc(p, bytes);
}

char *mem_strndup(const char *s, size_t n)
{
    char *d = mem_alloc(n + 1);
    if (n)
        memcpy(d, s, n);
    d[n] = '\0';
    return d;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

char *mem_printf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        die_of_memory(0);
    return s;
}

void mem_freep(void *pointer_to_pointer)
{
    void **p = pointer_to_pointer;
    free(*p);
    *p = NULL;
}

_noreturn_ void require_failed(const char *expr, const char *file, int line, const char *func)
{
    require_failed_fmt(expr, file, line, func, "no context");
}

_noreturn_ void require_failed_fmt(const char *expr, const char *file, int line, const char *func,
                                   const char *fmt, ...)
{
    fprintf(stderr, "reeve: broken invariant: %s (%s:%d, %s): ", expr, file, line, func);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    abort();
}
