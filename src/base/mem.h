/*
 * mem.h: memory that is there, and invariants that hold.
 *
 * Every size a peer can choose is capped before it reaches an allocator, so running out of memory
 * is not an input error: it ends the process, and recovery is the ordinary start. Callers never
 * check for NULL.
 *
 * REQUIRE() is our assertion. It stays on in every build: going on after a broken invariant is how
 * acknowledged data gets lost. It is for our own bugs only; input from peers, files and databases
 * is answered with an error (err.h), never asserted about.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

void *mem_alloc(size_t bytes);
void *mem_zalloc(size_t bytes);
void *mem_realloc(void *p, size_t bytes);
/* Grows `p` so that it holds at least `want` items; doubles, `*cap` counts items. */
void *mem_grow(void *p, size_t *cap, size_t want, size_t item_bytes);
char *mem_strndup(const char *s, size_t n);
char *mem_strdup(const char *s);
char *mem_printf(const char *fmt, ...) _printf_(1, 2);
void mem_freep(void *pointer_to_pointer); /* for _cleanup_ */

#define _cleanup_free_ _cleanup_(mem_freep)

_noreturn_ void require_failed(const char *expr, const char *file, int line, const char *func);
_noreturn_ void require_failed_fmt(const char *expr, const char *file, int line, const char *func,
                                   const char *fmt, ...) _printf_(5, 6);

#define REQUIRE(expr)                                            \
    do {                                                         \
        if (__builtin_expect(!(expr), 0))                        \
            require_failed(#expr, __FILE__, __LINE__, __func__); \
    } while (0)
/* REQUIRE with context: REQUIRE_F(a == b, "seq %lld", x). */
#define REQUIRE_F(expr, ...)                                                      \
    do {                                                                          \
        if (__builtin_expect(!(expr), 0))                                         \
            require_failed_fmt(#expr, __FILE__, __LINE__, __func__, __VA_ARGS__); \
    } while (0)
