/*
 * str.h: a borrowed string as (pointer, length).
 *
 * Text from outside is never trusted to end in NUL; it travels as `struct str`. A str owns nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct str {
    const char *p;
    size_t n;
};

#define STR(lit) ((struct str){("" lit), sizeof(lit) - 1})
#define STR_NONE ((struct str){NULL, 0})
/* printf("%.*s", STR_ARG(s)) */
#define STR_ARG(s) (int)(s).n, (s).p

static inline struct str str_of(const char *z)
{
    return (struct str){z, z ? strlen(z) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_is(struct str a, const char *z)
{
    return str_eq(a, str_of(z));
}

static inline bool str_eq_nocase(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

/* < 0, 0, > 0: by bytes, then by length. */
static inline int str_compare(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static inline bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.p, prefix.p, prefix.n) == 0);
}

static inline bool str_starts_nocase(struct str s, struct str prefix)
{
    return s.n >= prefix.n && (prefix.n == 0 || strncasecmp(s.p, prefix.p, prefix.n) == 0);
}

static inline struct str str_skip(struct str s, size_t n)
{
    n = n < s.n ? n : s.n;
    return (struct str){s.p + n, s.n - n};
}

static inline bool str_has_nul(struct str s)
{
    return s.n > 0 && memchr(s.p, '\0', s.n) != NULL;
}

/* Whole string as a decimal int64: optional '-', no blanks, no '+', no overflow. */
bool str_to_int(struct str s, int64_t *ret);
/* Strict UTF-8 (no overlongs, no surrogates, at most U+10FFFF); NUL is an ordinary character. */
bool str_is_utf8(struct str s);
