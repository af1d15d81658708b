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

/* The four digits of "\uXXXX" at p, or -1 if that is not what stands there. */
static inline int32_t json_unicode_unit(const char *p, const char *end)
{
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    int32_t unit = 0;
    for (int i = 2; i < 6; i++) {
        char c = p[i] | 0x20; /* lower case; digits have this bit anyway */
        if (p[i] >= '0' && p[i] <= '9')
            unit = unit << 4 | (c - '0');
        else if (c >= 'a' && c <= 'f')
            unit = unit << 4 | (c - 'a' + 10);
        else
            return -1;
    }
    return unit;
}

static inline bool json_is_surrogate(int32_t c)
{
    return c >= 0xD800 && c <= 0xDFFF;
}

/* The character of the "\uXXXX" at *p, or of the two that make up one beyond U+FFFF, and moves on
 * behind it. Half a pair is returned as it is; -1 if the digits are missing. */
static inline int32_t json_unescape_unicode(const char **p, const char *end)
{
    int32_t c = json_unicode_unit(*p, end);
    if (c < 0)
        return -1;
    *p += 6;
    int32_t low = json_is_surrogate(c) && c < 0xDC00 ? json_unicode_unit(*p, end) : -1;
    if (low < 0xDC00 || low > 0xDFFF)
        return c;
    *p += 6;
    return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
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
