/*
 * json.c: the reader; json_write.c writes, json_hash.c hashes, json.h says what each promises.
 *
 * The reader is a recursive descent over bytes. Recursion is bounded by depth_max, which must not
 * be above JSON_DEPTH_MAX; everything that walks a tree recurses no deeper than the reader did.
 * What is nested deeper is read by a loop with one bit of memory per level, for its grammar only,
 * and leaves a single node. A failure is noted once, in `struct reader`, and becomes an error at
 * the very end, so the way of success builds no messages. A defect (json.h) is no failure: it is
 * noted in its node and, as JSON_DEFECT_INSIDE, in those above it.
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
 * double becomes 0 (or the nearest denormal), one too large is a defect.
 *
 * Rejected: jansson, some ten times slower, as it makes a hash table per object and allocates each
 * node and each string; it also forgets how a number was written, and its depth limit is fixed. A
 * tape of tokens would be smaller than a tree, but every caller would have to keep a cursor. A
 * reader without recursion for every depth: each walker of a tree would need one too.
 */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "base/json_text.h"
#include "base/mem.h"
#include "base/random.h"

_Static_assert(sizeof(struct json) == 64, "a node is one cache line");

enum {
    PAIRWISE_MAX = 8, /* objects with more members have their keys hashed */
    REPLACEMENT = 0xFFFD,
};

struct reader {
    struct arena *arena;
    const char *start, *at, *end;
    size_t unfit; /* blanks and lone surrogates so far: a value without any is compact */
    unsigned depth_left;
    uint8_t *open;      /* below depth_max: a bit per open container, set for an object */
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

const char *json_defect_text(enum json_defect defect)
{
    static const char *const texts[] = {
#define X(name, text) [JSON_##name] = text,
        JSON_DEFECT_LIST(X)
#undef X
    };
    return texts[defect];
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
    r->unfit += (size_t)(p - r->at);
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

static double real_value(struct reader *r, struct str text)
{
    char small[64];
    char *z = small;
    if (text.n < sizeof small)
        *(char *)mempcpy(small, text.p, text.n) = '\0';
    else
        z = arena_strndup(r->arena, text.p, text.n);
    locale_t c = json_locale_c();
    char *end;
    double real = strtod_l(z, &end, c);
    freelocale(c);
    REQUIRE_F(end == z + text.n, "%s", z);
    return real;
}

static void set_number(struct reader *r, struct json *v, struct str text)
{
    bool fits;
    if (v->type == JSON_INT) {
        v->integer = 0;
        fits = str_to_int(text, &v->integer);
    } else {
        v->real = real_value(r, text);
        fits = isfinite(v->real);
        v->real = fits ? v->real : 0;
    }
    if (!fits)
        v->defect = JSON_OUT_OF_RANGE;
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
    set_number(r, v, (struct str){from, (size_t)(r->at - from)});
    return true;
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

/* The "\uXXXX" at *p, or the two that make up a character. */
static bool unescape_unicode(struct reader *r, const char **p, const char *end, char **out)
{
    const char *from = *p;
    int32_t c = json_unescape_unicode(p, end);
    if (c < 0)
        return fail(r, from, "\\u without four hexadecimal digits");
    if (json_is_surrogate(c)) {
        r->unfit++;
        c = REPLACEMENT;
    }
    *out = utf8_encode(*out, (uint32_t)c);
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

static void note_duplicate(struct json *object, struct json *second)
{
    second->defect = JSON_DUPLICATE_KEY;
    object->defect = JSON_DEFECT_INSIDE;
}

static void compare_keys_hashed(struct reader *r, struct json *object)
{
    struct key_seed seed = key_seed();
    size_t slots = (size_t)4 << (31 - __builtin_clz(object->count)); /* above 2 × count */
    const struct json **table = arena_zalloc(r->arena, slots * sizeof *table);
    for (struct json *m = object->first; m; m = m->next) {
        size_t i = key_hash(m->key, seed) & (slots - 1);
        while (table[i] && !same_key(table[i]->key, m->key))
            i = (i + 1) & (slots - 1);
        if (table[i])
            note_duplicate(object, m);
        else
            table[i] = m;
    }
}

static void compare_keys(struct reader *r, struct json *object)
{
    if (object->count > PAIRWISE_MAX) {
        compare_keys_hashed(r, object);
        return;
    }
    for (struct json *b = object->first; b; b = b->next)
        for (const struct json *a = object->first; a != b; a = a->next)
            if (same_key(a->key, b->key))
                note_duplicate(object, b);
}

/* ---- values ---- */

static bool read_typed(struct reader *r, struct json *v);
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
        if (item->defect)
            v->defect = JSON_DEFECT_INSIDE;
        *link = item;
        link = &item->next;
        v->count++;
        skip_blanks(r);
    } while (accept(r, ','));
    return true;
}

static bool close_container(struct reader *r, bool object)
{
    if (accept(r, object ? '}' : ']'))
        return true;
    return fail(r, r->at, object ? "',' or '}' is missing" : "',' or ']' is missing");
}

static void set_open(struct reader *r, size_t level, bool object)
{
    uint8_t bit = (uint8_t)(1 << level % 8);
    if (!r->open) /* each level takes a byte of the text */
        r->open = arena_zalloc(r->arena, (size_t)(r->end - r->start) / 8 + 1);
    r->open[level / 8] = object ? r->open[level / 8] | bit : r->open[level / 8] & (uint8_t)~bit;
}

static bool is_open_object(const struct reader *r, size_t level)
{
    return r->open[level / 8] >> level % 8 & 1;
}

/* Up to where the next value begins in the innermost of `*depth` open containers; each that ends
 * before it is left. */
static bool skip_to_value(struct reader *r, size_t *depth)
{
    struct str key;
    while (*depth > 0) {
        bool object = is_open_object(r, *depth - 1);
        skip_blanks(r);
        if (accept(r, ',')) {
            skip_blanks(r);
            return !object || read_key(r, &key);
        }
        if (!close_container(r, object))
            return false;
        (*depth)--;
    }
    return true;
}

/* An opening bracket, and what stands before the first value. */
static bool skip_opening(struct reader *r, size_t *depth)
{
    struct str key;
    bool object = *r->at++ == '{';
    skip_blanks(r);
    if (accept(r, object ? '}' : ']'))
        return skip_to_value(r, depth);
    set_open(r, (*depth)++, object);
    return !object || read_key(r, &key);
}

/* A container beyond the limit of depth, without recursion and without a tree. */
static bool skip_container(struct reader *r)
{
    size_t depth = 0;
    do {
        struct json scalar = {.defect = JSON_SOUND};
        bool ok = peek(r) == '{' || peek(r) == '['
                      ? skip_opening(r, &depth)
                      : read_typed(r, &scalar) && skip_to_value(r, &depth);
        if (!ok)
            return false;
    } while (depth > 0);
    return true;
}

static bool read_container(struct reader *r, struct json *v)
{
    bool object = v->type == JSON_OBJECT;
    v->first = NULL;
    if (r->depth_left == 0) {
        v->defect = JSON_TOO_DEEP;
        return skip_container(r);
    }
    r->depth_left--;
    r->at++;
    skip_blanks(r);
    if (peek(r) != (object ? '}' : ']') && !read_items(r, v, object))
        return false;
    if (!close_container(r, object))
        return false;
    r->depth_left++;
    if (object)
        compare_keys(r, v);
    return true;
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
    size_t unfit = r->unfit;
    struct json *v = arena_alloc(r->arena, sizeof *v);
    v->defect = JSON_SOUND;
    v->count = 0;
    v->span.p = from;
    v->key = key;
    v->next = NULL;
    if (!read_typed(r, v))
        return NULL;
    v->span.n = (size_t)(r->at - from);
    v->compact = r->unfit == unfit;
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

static int refuse(struct str text, const char *wrong, const char *reason, struct err *err)
{
    err_set(err, ERR_PARSE, "%s, at byte %zu", reason, (size_t)(wrong - text.p));
    err_int(err, "offset", wrong - text.p);
    return -ERR_PARSE;
}

int json_read(struct arena *a, struct str text, unsigned depth_max, const struct json **ret,
              struct err *err)
{
    REQUIRE(depth_max <= JSON_DEPTH_MAX);
    REQUIRE(text.n <= UINT32_MAX); /* so that `count` cannot wrap */
    text.p = text.n ? text.p : "";
    struct reader r = {
        .arena = a, .start = text.p, .at = text.p, .end = text.p + text.n, .depth_left = depth_max};
    const struct json *v = read_text(&r);
    if (!v)
        return refuse(text, r.wrong, r.reason, err);
    *ret = v;
    return 0;
}

/* Where the first defect of a value is: a duplicate key at the key, others at the value. */
static const char *find_defect(const struct json *v, enum json_defect *ret_defect)
{
    const char *from = v->span.p;
    while (v->defect == JSON_DEFECT_INSIDE) {
        from = v->span.p + 1;
        for (v = v->first; !v->defect; v = v->next)
            from = v->span.p + v->span.n;
    }
    *ret_defect = v->defect;
    return v->defect == JSON_DUPLICATE_KEY ? json_key_text(from, v).p : v->span.p;
}

int json_parse(struct arena *a, struct str text, unsigned depth_max, const struct json **ret,
               struct err *err)
{
    const struct json *v;
    enum json_defect defect;
    int r = json_read(a, text, depth_max, &v, err);
    if (r < 0)
        return r;
    if (v->defect) {
        const char *wrong = find_defect(v, &defect);
        return refuse(text, wrong, json_defect_text(defect), err);
    }
    *ret = v;
    return 0;
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
