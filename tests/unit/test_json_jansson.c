/*
 * test_json_jansson.c: our reader and jansson 2.14 agree.
 *
 * Seeds are mutated by a PRNG with a fixed start; for each text verdict and value are compared,
 * with JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL on jansson's side. The
 * differences, all of them:
 *   - jansson overlooks a NUL byte right after a number or a word; we refuse a NUL byte anywhere
 *   - jansson has no NUL in keys; we take "\u0000" there
 *   - jansson refuses half a surrogate pair, we read U+FFFD: it is given the text with that instead
 *   - jansson nests up to 2048 deep, we up to JSON_DEPTH_MAX (no text here comes near either)
 */
#include "tap.h"

#include <dlfcn.h>
#include <stdlib.h>

/* jansson.h and json.h share names. */
#define JSON_ARRAY JANSSON_ARRAY
#define JSON_NULL JANSSON_NULL
#define JSON_OBJECT JANSSON_OBJECT
#define JSON_REAL JANSSON_REAL
#define JSON_STRING JANSSON_STRING
#define json_array jansson_array
#define json_null jansson_null
#define json_object jansson_object
#define json_real jansson_real
#define json_string jansson_string
#define json_type jansson_type
#include <jansson.h>
#undef JSON_ARRAY
#undef JSON_NULL
#undef JSON_OBJECT
#undef JSON_REAL
#undef JSON_STRING
#undef json_array
#undef json_null
#undef json_object
#undef json_real
#undef json_string
#undef json_type

#include "base/json.h"
#include "base/macro.h"
#include "base/mem.h"
#include "unit/json_cases.h"

/*
 * Opened at run time, not linked: it exports json_object() and others of our names, and a linked
 * library would call ours.
 */
static struct {
    __typeof__(json_loadb) *load;
    __typeof__(json_delete) *delete;
    __typeof__(json_object_size) *object_size;
    __typeof__(json_object_getn) *object_get;
    __typeof__(json_array_size) *array_size;
    __typeof__(json_array_get) *array_get;
    __typeof__(json_string_value) *string_value;
    __typeof__(json_string_length) *string_length;
    __typeof__(json_integer_value) *integer_value;
    __typeof__(json_real_value) *real_value;
} jansson;

static void *jansson_symbol(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen("libjansson.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        tap_skip("%s", dlerror());
    void *symbol = dlsym(library, name);
    if (!symbol)
        tap_skip("jansson without %s", name); /* older than 2.14 */
    return symbol;
}

static void jansson_open(void)
{
    jansson.load = jansson_symbol("json_loadb");
    jansson.delete = jansson_symbol("json_delete");
    jansson.object_size = jansson_symbol("json_object_size");
    jansson.object_get = jansson_symbol("json_object_getn");
    jansson.array_size = jansson_symbol("json_array_size");
    jansson.array_get = jansson_symbol("json_array_get");
    jansson.string_value = jansson_symbol("json_string_value");
    jansson.string_length = jansson_symbol("json_string_length");
    jansson.integer_value = jansson_symbol("json_integer_value");
    jansson.real_value = jansson_symbol("json_real_value");
}

/* The unit of the escape at p, or -1. */
static int unit_at(struct str text, size_t i)
{
    if (i + 6 > text.n || text.p[i] != '\\' || text.p[i + 1] != 'u')
        return -1;
    char digits[5] = {0};
    memcpy(digits, text.p + i + 2, 4);
    return strspn(digits, "0123456789abcdefABCDEF") == 4 ? (int)strtol(digits, NULL, 16) : -1;
}

/* In place: both escapes are of the same length. */
static void mend_surrogates(struct str text, char *copy)
{
    for (size_t i = 0; i + 1 < text.n; i++) {
        int unit = unit_at(text, i), low = unit_at(text, i + 6);
        if (unit >= 0xD800 && unit < 0xDC00 && low >= 0xDC00 && low < 0xE000)
            i += 11;
        else if (unit >= 0xD800 && unit < 0xE000)
            memcpy(copy + i, "\\ufffd", 6);
        else if (text.p[i] == '\\')
            i++;
    }
}

static json_t *jansson_parse(struct str text, bool *ret_nul_in_key)
{
    json_error_t error = {0};
    _cleanup_free_ char *copy = mem_alloc(text.n + 1);
    memcpy(copy, text.p, text.n);
    mend_surrogates(text, copy);
    json_t *j = jansson.load(copy, text.n,
                             JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    *ret_nul_in_key = !j && json_error_code(&error) == json_error_null_byte_in_key;
    return j;
}

static bool same_value(const struct json *v, const json_t *j);

static bool same_items(const struct json *v, const json_t *j)
{
    size_t i = 0;
    JSON_FOREACH (item, v)
        if (!same_value(item, v->type == JSON_ARRAY
                                  ? jansson.array_get(j, i++)
                                  : jansson.object_get(j, item->key.p, item->key.n)))
            return false;
    return true;
}

static bool same_value(const struct json *v, const json_t *j)
{
    if (!j)
        return false;
    switch (v->type) {
    case JSON_NULL:
        return json_typeof(j) == JANSSON_NULL;
    case JSON_BOOL:
        return json_typeof(j) == (v->boolean ? JSON_TRUE : JSON_FALSE);
    case JSON_INT:
        return json_typeof(j) == JSON_INTEGER && jansson.integer_value(j) == v->integer;
    case JSON_REAL:
        return json_typeof(j) == JANSSON_REAL && jansson.real_value(j) == v->real;
    case JSON_STRING:
        return json_typeof(j) == JANSSON_STRING &&
               str_eq(v->string, (struct str){jansson.string_value(j), jansson.string_length(j)});
    case JSON_ARRAY:
        return json_typeof(j) == JANSSON_ARRAY && jansson.array_size(j) == v->count &&
               same_items(v, j);
    case JSON_OBJECT:
        return json_typeof(j) == JANSSON_OBJECT && jansson.object_size(j) == v->count &&
               same_items(v, j);
    }
    return false;
}

/* For a report; leaks, as the test ends with it. */
static const char *quoted(struct str text)
{
    struct buf b = BUF_INIT(1 << 20);
    for (size_t i = 0; i < text.n; i++)
        buf_addf(&b, text.p[i] >= 0x20 && text.p[i] < 0x7F ? "%c" : "\\x%02x",
                 (unsigned char)text.p[i]);
    return buf_str(&b).p;
}

/* Same verdict, same value; returns whether it was accepted. */
static bool check_agreement(struct arena *a, struct str text)
{
    const struct json *v = NULL;
    int code = json_parse(a, text, JSON_DEPTH_MAX, &v, NULL);
    if (text.n > 0 && memchr(text.p, '\0', text.n)) {
        CHECK_INT(code, -ERR_PARSE);
        return false;
    }
    bool nul_in_key;
    json_t *j = jansson_parse(text, &nul_in_key);
    if (nul_in_key)
        return code == 0;
    if ((code == 0) != (j != NULL))
        tap_fail(__FILE__, __LINE__, "we %s, jansson does not: %s", code ? "refuse" : "accept",
                 quoted(text));
    if (j && !same_value(v, j))
        tap_fail(__FILE__, __LINE__, "read differently: %s", quoted(text));
    if (j)
        jansson.delete(j);
    arena_clear(a);
    return code == 0;
}

static uint64_t prng_state;

static uint32_t prng(uint32_t below)
{
    prng_state = prng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((prng_state >> 33) * below >> 31);
}

/* Bytes that matter to a JSON reader come up more often than others. */
static char interesting_byte(void)
{
    static const char bytes[] =
        "{}[]:,\"\"\\\\/ \t\n0123456789+-.eEuabfnrtlsD8c\x01\x1f\x7f\x80\xC3\xA9\xED\xF0";
    return prng(8) == 0 ? (char)prng(256) : bytes[prng(sizeof bytes)];
}

static const char *interesting_token(void)
{
    static const char *const tokens[] = {"\\u0000",
                                         "\\ud83d\\ude39",
                                         "\\uDC00",
                                         "\\u00e9",
                                         "9223372036854775807",
                                         "-9223372036854775808",
                                         "1e308",
                                         "1e-330",
                                         "0.5",
                                         "true",
                                         "null",
                                         "\"a\":",
                                         ",\"b\":1",
                                         "[]",
                                         "{}",
                                         "\xC3\xA9",
                                         "\xF0\x9F\x98\xB9",
                                         "\xEF\xBB\xBF",
                                         "00",
                                         "-0",
                                         "\\\"",
                                         "\\\\"};
    return tokens[prng(ARRAY_LEN(tokens))];
}

static void replace(struct buf *b, size_t at, size_t drop, struct str with)
{
    char tail[1024];
    drop = MIN(drop, b->len - at);
    size_t n = b->len - at - drop;
    REQUIRE(n <= sizeof tail);
    memcpy(tail, b->data + at + drop, n);
    buf_truncate(b, at);
    buf_add_str(b, with);
    buf_add(b, tail, n);
}

static void mutate(struct buf *b)
{
    size_t at = prng((uint32_t)b->len + 1);
    char c = interesting_byte();
    switch (prng(6)) {
    case 0:
        replace(b, at, 1, (struct str){&c, 1});
        break;
    case 1:
        replace(b, at, 0, (struct str){&c, 1});
        break;
    case 2:
        replace(b, at, 1 + prng(4), STR(""));
        break;
    case 3:
        replace(b, at, prng(3), str_of(interesting_token()));
        break;
    case 4: { /* a piece of itself */
        char piece[16];
        size_t n = MIN((size_t)prng(sizeof piece), b->len - at);
        memcpy(piece, b->data + at, n);
        replace(b, prng((uint32_t)b->len + 1), 0, (struct str){piece, n});
        break;
    }
    case 5: /* one bit */
        if (at < b->len)
            b->data[at] ^= (char)(1 << prng(8));
        break;
    }
}

static const char *const seeds[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":17,\"method\":\"a.b\",\"params\":{\"task\":4,\"epoch\":-1}}",
    " { \"a\" : [ 1 , 2.5e-3 , true , false , null ] , \"b\" : { } } ",
    "[\"\\u00e9\\ud83d\\ude39\\n\\\"\\\\\\/\",\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\xB9\"]",
    "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9,\"j\":10}",
    "[0,-0,0.0,-1.5E+10,9223372036854775807,-9223372036854775808,1e308,5e-324]",
    "[[[[[[]]]]],{\"a\":{\"a\":{\"a\":[{}]}}}]",
    "\"scalar\"",
    "-12.5e1",
};

TEST(json_agrees_with_jansson_on_the_tables)
{
    struct arena a = ARENA_INIT;
    jansson_open();
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++)
        check_agreement(&a, accepted[i]);
    for (size_t i = 0; i < ARRAY_LEN(mended); i++)
        check_agreement(&a, mended[i]);
    for (size_t i = 0; i < ARRAY_LEN(defective); i++)
        check_agreement(&a, defective[i]);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        check_agreement(&a, refused[i]);
    arena_release(&a);
}

TEST(json_agrees_with_jansson_on_mutated_texts)
{
    enum { ROUNDS = 300000 };
    struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf b = BUF_INIT(2048);
    int valid = 0;
    jansson_open();
    prng_state = 20260115;
    for (int i = 0; i < ROUNDS; i++) {
        buf_clear(&b);
        buf_addz(&b, seeds[prng(ARRAY_LEN(seeds))]);
        for (uint32_t n = 1 + prng(3); n > 0; n--)
            mutate(&b);
        valid += check_agreement(&a, buf_str(&b));
    }
    CHECK(valid > ROUNDS / 10 && valid < ROUNDS * 9 / 10); /* both verdicts were tried */
    arena_release(&a);
}
