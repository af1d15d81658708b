/*
 * json.c: the reader; json_write.c writes, json_hash.c hashes, json.h says what each promises.
 *
 * The reader is a recursive descent over bytes. Recursion is bounded by depth_max, which
 * json_parse() refuses to take above JSON_DEPTH_MAX; everything that walks a tree recurses no
 * deeper than the reader did. A failure is noted once, in `struct reader`, and becomes an error at
 * the very end, so the way of success builds no messages.
 *
 * What makes it fast, in order of effect:
 *   - UTF-8 is checked for the whole text at once, before anything else. The string scanner then
 *     looks for three things only (quote, backslash, control character), eight bytes at a time.
 *   - A string without escapes is not copied but points into the text.
 *   - A node is 64 bytes from the arena; nothing is freed, resized or counted.
 *   - Duplicate keys are looked for when an object closes: pair by pair if it is small, in a hash
 *     table made to measure if not. Nothing is kept up to date while members arrive.
 *
 * Numbers: an integer is read digit by digit, a real by strtod_l() in the C locale: the program
 * itself never calls setlocale(), but a program that links libreeve may. A real too small for a
 * double becomes 0 (or the nearest denormal), one too large is refused.
 *
 * Rejected: jansson, some ten times slower, as it makes a hash table per object and allocates each
 * node and each string; it also forgets how a number was written, and its depth limit is fixed. A
 * tape of tokens would be smaller than a tree, but every caller would have to keep a cursor.
 */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "base/json_text.h"
#include "base/mem.h"
#include "base/random.h"

_Static_assert(sizeof(struct json) == 64, "a node is one cache line");

/* Objects with more members than this have their keys hashed. */
enum { PAIRWISE_MAX = 8 };

struct reader {
    struct arena *arena;
    const char *start, *at, *end;
    size_t blanks; /* white space passed so far: a value during which it stands still is compact */
    unsigned depth_left;
    const char *reason; /* once failed: why and where */
    const char *wrong;
};

static const char *const type_names[] = {
    [JSON_NULL] = "null",     [JSON_BOOL] = "boolean",  [JSON_INT] = "integer",
    [JSON_REAL] = "number",   [JSON_STRING] = "string", [JSON_ARRAY] = "array",
    [JSON_OBJECT] = "object",
};

const char *json_type_name(enum json_type type)
{
    return type_names[type];
}

/* ---- tokens ---- */

static bool fail(struct reader *r, const char *wrong, const char *reason)
{
    r->wrong = wrong;
    r->reason = reason;
    return false;
}

/* The next byte; NUL, which fits nowhere, at the end. */
static inline char peek(const struct reader *r)
{
    return r->at < r->end ? *r->at : '\0';
}

static inline bool accept(struct reader *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static inline bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline void skip_blanks(struct reader *r)
{
    const char *p = r->at;
    while (p < r->end && is_blank(*p))
        p++;
    r->blanks += (size_t)(p - r->at);
    r->at = p;
}

static bool read_word(struct reader *r, struct str word)
{
    if (!str_starts((struct str){r->at, (size_t)(r->end - r->at)}, word))
        return fail(r, r->at, "no such word");
    r->at += word.n;
    return true;
}

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool read_digits(struct reader *r)
{
    if (!is_digit(peek(r)))
        return fail(r, r->at, "a digit is missing");
    while (is_digit(peek(r)))
        r->at++;
    return true;
}

static bool real_value(struct reader *r, struct str text, double *ret)
{
    char small[64];
    char *z = small;
    if (text.n < sizeof small)
        *(char *)mempcpy(small, text.p, text.n) = '\0';
    else
        z = arena_strndup(r->arena, text.p, text.n);
    locale_t c = json_locale_c();
    char *end;
    *ret = strtod_l(z, &end, c);
    freelocale(c);
    REQUIRE_F(end == z + text.n, "%s", z);
    return isfinite(*ret) || fail(r, text.p, "number out of range");
}

static bool integer_value(struct reader *r, struct str text, int64_t *ret)
{
    return str_to_int(text, ret) || fail(r, text.p, "integer out of range");
}

static bool read_number(struct reader *r, struct json *v)
{
    const char *from = r->at;
    accept(r, '-');
    if (!accept(r, '0') && !read_digits(r))
        return false;
    v->type = JSON_INT;
    if (accept(r, '.')) {
        v->type = JSON_REAL;
        if (!read_digits(r))
            return false;
    }
    if (accept(r, 'e') || accept(r, 'E')) {
        v->type = JSON_REAL;
        if (!accept(r, '-'))
            accept(r, '+');
        if (!read_digits(r))
            return false;
    }
    struct str text = {from, (size_t)(r->at - from)};
    return v->type == JSON_INT ? integer_value(r, text, &v->integer)
                               : real_value(r, text, &v->real);
}

/* ---- strings ---- */

static char *utf8_encode(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *out++ = (char)(0xE0 | c >> 12);
        } else {
            *out++ = (char)(0xF0 | c >> 18);
            *out++ = (char)(0x80 | (c >> 12 & 0x3F));
        }
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
    }
    *out++ = (char)(0x80 | (c & 0x3F));
    return out;
}

static char unescaped(char c)
{
    switch (c) {
    case '"':
    case '\\':
    case '/':
        return c;
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return '\0';
    }
}

/* The four digits of "\uXXXX" at p, or -1 if that is not what stands there. */
static int32_t unicode_unit(const char *p, const char *end)
{
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    int32_t unit = 0;
    for (int i = 2; i < 6; i++) {
        char c = p[i] | 0x20; /* lower case; digits have this bit anyway */
        if (is_digit(p[i]))
            unit = unit << 4 | (c - '0');
        else if (c >= 'a' && c <= 'f')
            unit = unit << 4 | (c - 'a' + 10);
        else
            return -1;
    }
    return unit;
}

/* Decodes the "\uXXXX" at *p, or the two that make up a character beyond U+FFFF. */
static bool unescape_unicode(struct reader *r, const char **p, const char *end, char **out)
{
    int32_t c = unicode_unit(*p, end), low;
    if (c < 0)
        return fail(r, *p, "\\u without four hexadecimal digits");
    if (c == 0)
        return fail(r, *p, "NUL in a string");
    const char *next = *p + 6;
    if (c >= 0xD800 && c <= 0xDFFF) {
        low = c < 0xDC00 ? unicode_unit(next, end) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return fail(r, *p, "half a surrogate pair");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        next += 6;
    }
    *out = utf8_encode(*out, (uint32_t)c);
    *p = next;
    return true;
}

/* Never longer than it was: "\uXXXX" makes three bytes at most, two of them four. */
static bool unescape(struct reader *r, struct str raw, struct str *ret)
{
    char *decoded = arena_alloc(r->arena, raw.n), *out = decoded;
    const char *p = raw.p, *end = raw.p + raw.n;
    for (;;) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        size_t run = (size_t)((slash ? slash : end) - p);
        out = mempcpy(out, p, run);
        p += run;
        if (!slash)
            break;
        if (p[1] == 'u') {
            if (!unescape_unicode(r, &p, end, &out))
                return false;
            continue;
        }
        *out = unescaped(p[1]);
        if (*out++ == '\0')
            return fail(r, p, "no such escape");
        p += 2;
    }
    *ret = (struct str){decoded, (size_t)(out - decoded)};
    return true;
}

static bool read_string(struct reader *r, struct str *ret)
{
    const char *from = r->at + 1, *p = from;
    bool escapes = false;
    while ((p = json_plain_end(p, r->end)) < r->end && *p == '\\') {
        escapes = true;
        p += MIN(r->end - p, (ptrdiff_t)2);
    }
    if (p == r->end)
        return fail(r, p, "the string does not end");
    if (*p != '"')
        return fail(r, p, "control character in a string");
    r->at = p + 1;
    *ret = (struct str){from, (size_t)(p - from)};
    return !escapes || unescape(r, *ret, ret);
}

/* ---- keys are unique ---- */

static inline bool same_key(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || (a.p[0] == b.p[0] && memcmp(a.p, b.p, a.n) == 0));
}

static bool duplicate(struct reader *r, const struct json *object, const struct json *second)
{
    const char *from = object->span.p + 1;
    for (const struct json *m = object->first; m != second; m = m->next)
        from = m->span.p + m->span.n;
    return fail(r, json_key_text(from, second).p, "duplicate key");
}

struct key_seed {
    uint64_t k[2];
};

static inline uint64_t rotl(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1], v[2] += v[3];
    v[1] = rotl(v[1], 13) ^ v[0], v[3] = rotl(v[3], 16) ^ v[2];
    v[0] = rotl(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotl(v[1], 17) ^ v[2], v[3] = rotl(v[3], 21) ^ v[0];
    v[2] = rotl(v[2], 32);
}

/* SipHash-1-3: the cheapest hash for which nobody knows how to choose colliding keys. */
static uint64_t key_hash(struct str key, struct key_seed seed)
{
    uint64_t v[4] = {seed.k[0] ^ 0x736f6d6570736575u, seed.k[1] ^ 0x646f72616e646f6du,
                     seed.k[0] ^ 0x6c7967656e657261u, seed.k[1] ^ 0x7465646279746573u};
    for (size_t i = 0; i <= key.n; i += 8) {
        uint64_t w = 0;
        if (key.n - i >= 8) {
            memcpy(&w, key.p + i, 8);
        } else {
            memcpy(&w, key.p + i, key.n - i);
            w |= (uint64_t)key.n << 56;
        }
        v[3] ^= w;
        sip_round(v);
        v[0] ^= w;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Drawn once, by the first object that needs it; one per thread saves a lock. */
static struct key_seed key_seed(void)
{
    static _Thread_local struct key_seed seed;
    if ((seed.k[0] | seed.k[1]) == 0)
        random_bytes(&seed, sizeof seed);
    return seed;
}

static bool keys_differ_hashed(struct reader *r, const struct json *object)
{
    struct key_seed seed = key_seed();
    size_t slots = (size_t)4 << (31 - __builtin_clz(object->count)); /* above 2 × count */
    const struct json **table = arena_zalloc(r->arena, slots * sizeof *table);
    JSON_FOREACH (m, object) {
        size_t i = key_hash(m->key, seed) & (slots - 1);
        for (; table[i]; i = (i + 1) & (slots - 1))
            if (same_key(table[i]->key, m->key))
                return duplicate(r, object, m);
        table[i] = m;
    }
    return true;
}

static bool keys_differ(struct reader *r, const struct json *object)
{
    if (object->count > PAIRWISE_MAX)
        return keys_differ_hashed(r, object);
    JSON_FOREACH (b, object)
        for (const struct json *a = object->first; a != b; a = a->next)
            if (same_key(a->key, b->key))
                return duplicate(r, object, b);
    return true;
}

/* ---- values ---- */

static struct json *read_value(struct reader *r, struct str key);

static bool read_key(struct reader *r, struct str *ret)
{
    if (peek(r) != '"')
        return fail(r, r->at, "a key is missing");
    if (!read_string(r, ret))
        return false;
    skip_blanks(r);
    if (!accept(r, ':'))
        return fail(r, r->at, "':' is missing");
    skip_blanks(r);
    return true;
}

static bool read_items(struct reader *r, struct json *v, bool keyed)
{
    struct json **link = &v->first;
    do {
        struct str key = STR_NONE;
        skip_blanks(r);
        if (keyed && !read_key(r, &key))
            return false;
        struct json *item = read_value(r, key);
        if (!item)
            return false;
        *link = item;
        link = &item->next;
        v->count++;
        skip_blanks(r);
    } while (accept(r, ','));
    return true;
}

static bool read_container(struct reader *r, struct json *v)
{
    bool object = v->type == JSON_OBJECT;
    char close = object ? '}' : ']';
    size_t blanks = r->blanks;
    if (r->depth_left == 0)
        return fail(r, r->at, "nested too deeply");
    r->depth_left--;
    r->at++;
    v->first = NULL;
    skip_blanks(r);
    if (peek(r) != close && !read_items(r, v, object))
        return false;
    if (!accept(r, close))
        return fail(r, r->at, object ? "',' or '}' is missing" : "',' or ']' is missing");
    r->depth_left++;
    v->compact = r->blanks == blanks;
    return !object || keys_differ(r, v);
}

static bool read_typed(struct reader *r, struct json *v)
{
    char c = peek(r);
    switch (c) {
    case '"':
        v->type = JSON_STRING;
        return read_string(r, &v->string);
    case '{':
        v->type = JSON_OBJECT;
        return read_container(r, v);
    case '[':
        v->type = JSON_ARRAY;
        return read_container(r, v);
    case 't':
    case 'f':
        v->type = JSON_BOOL;
        v->boolean = c == 't';
        return read_word(r, v->boolean ? STR("true") : STR("false"));
    case 'n':
        v->type = JSON_NULL;
        return read_word(r, STR("null"));
    default:
        if (c == '-' || is_digit(c))
            return read_number(r, v);
        return fail(r, r->at, "a value is missing");
    }
}

static struct json *read_value(struct reader *r, struct str key)
{
    const char *from = r->at;
    struct json *v = arena_alloc(r->arena, sizeof *v);
    v->compact = true;
    v->count = 0;
    v->span.p = from;
    v->key = key;
    v->next = NULL;
    if (!read_typed(r, v))
        return NULL;
    v->span.n = (size_t)(r->at - from);
    return v;
}

static const struct json *read_text(struct reader *r)
{
    struct str text = {r->start, (size_t)(r->end - r->start)};
    if (text.n == 0)
        return fail(r, r->at, "the text is empty"), NULL;
    if (!str_is_utf8(text))
        return fail(r, text.p + json_utf8_prefix(text), "not valid UTF-8"), NULL;
    skip_blanks(r);
    const struct json *v = read_value(r, STR_NONE);
    skip_blanks(r);
    if (v && r->at < r->end)
        return fail(r, r->at, "more text after the value"), NULL;
    return v;
}

int json_parse(struct arena *a, struct str text, unsigned depth_max, const struct json **ret,
               struct err *err)
{
    REQUIRE(depth_max <= JSON_DEPTH_MAX);
    REQUIRE(text.n <= UINT32_MAX); /* so that `count` cannot wrap */
    const char *p = text.n ? text.p : "";
    struct reader r = {.arena = a, .start = p, .at = p, .end = p + text.n, .depth_left = depth_max};
    const struct json *v = read_text(&r);
    if (v) {
        *ret = v;
        return 0;
    }
    err_set(err, ERR_PARSE, "%s, at byte %zu", r.reason, (size_t)(r.wrong - r.start));
    err_int(err, "offset", r.wrong - r.start);
    return -ERR_PARSE;
}

const struct json *json_get(const struct json *object, const char *key)
{
    if (!object || object->type != JSON_OBJECT)
        return NULL;
    struct str want = str_of(key);
    JSON_FOREACH (m, object)
        if (same_key(m->key, want))
            return m;
    return NULL;
}

struct str json_get_text(const struct json *object, const char *key)
{
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_STRING ? v->string : STR("");
}

int64_t json_get_int(const struct json *object, const char *key, int64_t fallback)
{
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_INT ? v->integer : fallback;
}

bool json_get_bool(const struct json *object, const char *key)
{
    const struct json *v = json_get(object, key);
    return v && v->type == JSON_BOOL && v->boolean;
}
