/*
 * json_text.h: what json.c and json_write.c share; nobody else includes it.
 */
#pragma once

#include <endian.h>
#include <locale.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* The first quote, backslash or control character in [p, end), or end. */
static inline const char *json_plain_end(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101u, tops = ones << 7;
    for (; end - p >= 8; p += 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        w = le64toh(w);
        uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';
        /* A byte looked for borrows from the ones above it, so only the first hit is sure. */
        uint64_t hit = ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
        hit = (hit | ((w - ones * 0x20) & ~w)) & tops;
        if (hit)
            return p + __builtin_ctzll(hit) / 8;
    }
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
        p++;
    return p;
}

/* Length of the well-formed UTF-8 sequence s begins with, or 0. Slow: for text known to be bad. */
static inline size_t json_utf8_sequence(struct str s)
{
    for (size_t n = 1; n <= 4 && n <= s.n; n++)
        if (str_is_utf8((struct str){s.p, n}))
            return n;
    return 0;
}

/* How much of s is valid. */
static inline size_t json_utf8_prefix(struct str s)
{
    size_t i = 0, n;
    while ((n = json_utf8_sequence(str_skip(s, i))) > 0)
        i += n;
    return i;
}

/* The key of a member as written, with its quotes; `from` is where the member before it ends. */
static inline struct str json_key_text(const char *from, const struct json *member)
{
    const char *open = from, *close = member->span.p - 1;
    while (*open != '"')
        open++;
    while (*close != '"')
        close--;
    return (struct str){open, (size_t)(close + 1 - open)};
}

/* glibc has this one built in and allocates nothing for it. */
static inline locale_t json_locale_c(void)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    REQUIRE(c);
    return c;
}
