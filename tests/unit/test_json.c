/*
 * test_json.c: what json.h promises of reading and of the canonical hash.
 */
#include "tap.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/random.h"
#include "unit/json_cases.h"

/* ---- helpers ---- */

static int parse(struct arena *a, struct str text, unsigned depth_max, const struct json **ret,
                 struct err *err)
{
    /* An exact copy on the heap: the sanitizer sees a byte read past the end. */
    char *copy = mem_alloc(text.n);
    if (text.n)
        memcpy(copy, text.p, text.n);
    int code = json_parse(a, (struct str){copy, text.n}, depth_max, ret, err);
    if (code == 0) { /* the tree points into the text: give it one that lives */
        struct str kept = arena_str(a, text);
        code = json_parse(a, kept, depth_max, ret, err);
    }
    free(copy);
    return code;
}

static const struct json *must_parse(struct arena *a, const char *text)
{
    const struct json *v = NULL;
    struct err err = ERR_INIT;
    if (parse(a, str_of(text), JSON_DEPTH_MAX, &v, &err) != 0)
        tap_fail(__FILE__, __LINE__, "%s: %s", text, err.message);
    CHECK(err.code == 0);
    return v;
}

static bool accepts(struct str text)
{
    struct arena a = ARENA_INIT;
    const struct json *v = NULL;
    struct err err = ERR_INIT;
    int code = parse(&a, text, JSON_DEPTH_DEFAULT, &v, &err);
    if (code == 0) {
        CHECK(v != NULL && err.code == 0);
    } else {
        CHECK_INT(code, -ERR_PARSE);
        CHECK(v == NULL && err.code == ERR_PARSE);
        CHECK(strncmp(err.data, "\"offset\":", 9) == 0);
        CHECK(strtoul(err.data + 9, NULL, 10) <= text.n);
    }
    arena_release(&a);
    return code == 0;
}

static void check_offset(struct str text, int64_t offset, const char *reason)
{
    struct arena a = ARENA_INIT;
    const struct json *v;
    struct err err = ERR_INIT;
    CHECK_INT(parse(&a, text, JSON_DEPTH_DEFAULT, &v, &err), -ERR_PARSE);
    CHECK(strstr(err.message, reason));
    char want[64];
    snprintf(want, sizeof want, "\"offset\":%lld", (long long)offset);
    CHECK_Z(err.data, want);
    arena_release(&a);
}

static struct buf repeated(const char *unit, size_t times)
{
    struct buf b = BUF_INIT(64u << 20);
    while (times-- > 0)
        buf_addz(&b, unit);
    return b;
}

/* ---- grammar ---- */

TEST(json_accepts_what_is_valid)
{
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++)
        if (!accepts(accepted[i]))
            tap_fail(__FILE__, __LINE__, "refused: %.*s", STR_ARG(accepted[i]));
}

TEST(json_refuses_what_is_not)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (accepts(refused[i]))
            tap_fail(__FILE__, __LINE__, "accepted: %.*s", STR_ARG(refused[i]));
}

static enum json_defect defect_of(struct str text, unsigned depth_max)
{
    struct arena a = ARENA_INIT;
    const struct json *v = NULL;
    struct err err = ERR_INIT;
    if (json_read(&a, text, depth_max, &v, &err) != 0)
        tap_fail(__FILE__, __LINE__, "%.*s: %s", STR_ARG(text), err.message);
    while (v->defect == JSON_DEFECT_INSIDE)
        for (v = v->first; !v->defect;)
            v = v->next;
    enum json_defect defect = v->defect;
    arena_release(&a);
    return defect;
}

TEST(json_read_takes_all_json_and_notes_what_is_wrong_where)
{
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++)
        CHECK_INT(defect_of(accepted[i], JSON_DEPTH_DEFAULT), JSON_SOUND);
    for (size_t i = 0; i < ARRAY_LEN(mended); i++)
        CHECK_INT(defect_of(mended[i], JSON_DEPTH_DEFAULT), JSON_SOUND);
    for (size_t i = 0; i < ARRAY_LEN(defective); i++) {
        CHECK(defect_of(defective[i], JSON_DEPTH_DEFAULT) != JSON_SOUND);
        if (accepts(defective[i]))
            tap_fail(__FILE__, __LINE__, "accepted: %.*s", STR_ARG(defective[i]));
    }
    CHECK_INT(defect_of(STR("[[[1]]]"), 2), JSON_TOO_DEEP);
    CHECK_INT(defect_of(STR("[1e400]"), 2), JSON_OUT_OF_RANGE);
    CHECK_INT(defect_of(STR("[0,{\"a\":1,\"b\":{},\"a\":1e400}]"), 3), JSON_DUPLICATE_KEY);
}

TEST(json_read_refuses_what_is_no_json)
{
    struct arena a = ARENA_INIT;
    const struct json *v = NULL;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        if (json_read(&a, refused[i], 1, &v, NULL) != -ERR_PARSE)
            tap_fail(__FILE__, __LINE__, "read: %.*s", STR_ARG(refused[i]));
    CHECK(v == NULL);
    arena_release(&a);
}

/* Below the limit of depth the grammar is the same. */
TEST(json_read_judges_what_is_too_deep_by_the_same_grammar)
{
    struct arena a = ARENA_INIT;
    const struct json *v;
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        _cleanup_buf_ struct buf b = BUF_INIT(4096);
        buf_addz(&b, "[[");
        buf_add_str(&b, accepted[i]);
        buf_addz(&b, " ] , 7 ]");
        CHECK_INT(json_read(&a, buf_str(&b), 1, &v, NULL), 0);
        CHECK_INT(v->count, 2);
        CHECK_INT(v->first->defect, JSON_TOO_DEEP);
        CHECK_INT(v->first->count, 0);
        CHECK(v->first->span.n >= accepted[i].n + 2);
        CHECK_INT(v->first->next->integer, 7);
        arena_clear(&a);
    }
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        _cleanup_buf_ struct buf b = BUF_INIT(4096);
        buf_addz(&b, "[[0,");
        buf_add_str(&b, refused[i]);
        buf_addz(&b, "]]");
        int flat = json_read(&a, buf_str(&b), JSON_DEPTH_MAX, &v, NULL);
        CHECK_INT(json_read(&a, buf_str(&b), 1, &v, NULL), flat);
        arena_clear(&a);
    }
    arena_release(&a);
}

TEST(json_read_keeps_what_stands_beside_a_defect)
{
    struct arena a = ARENA_INIT;
    const struct json *v;
    const struct str text = STR("{\"id\":18446744073709551616,\"a\":[[1]],\"b\":7,\"b\":8}");
    CHECK_INT(json_read(&a, text, 2, &v, NULL), 0);
    CHECK_INT(v->count, 4);
    CHECK_STR(json_get(v, "id")->span, "18446744073709551616");
    CHECK_INT(json_get(v, "id")->defect, JSON_OUT_OF_RANGE);
    CHECK_INT(json_get(v, "a")->defect, JSON_DEFECT_INSIDE);
    CHECK_INT(json_get(v, "b")->integer, 7);
    CHECK_INT(json_get(v, "b")->defect, JSON_SOUND);
    CHECK_INT(json_get(v, "b")->next->defect, JSON_DUPLICATE_KEY);
    arena_release(&a);
}

TEST(json_refuses_every_proper_prefix_of_a_container)
{
    const struct str text =
        STR("{\"a\":[1,-2.5e3,\"x\\u00e9\\n\",true,null,{\"b\":{}}],\"c\":\"\xC3\xA9\"}");
    CHECK(accepts(text));
    for (size_t n = 0; n < text.n; n++)
        CHECK(!accepts((struct str){text.p, n}));
}

TEST(json_control_characters_at_every_place_in_a_word)
{
    char text[] = "[\"0123456789abcdefghijklmno\"]";
    for (size_t i = 2; i < sizeof text - 3; i++) {
        for (int c = 0; c < 256; c++) {
            char old = text[i];
            text[i] = (char)c;
            bool valid = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
            if (c == '\\')
                valid = strchr("\"\\/bfnrt", text[i + 1]) && text[i + 2] != ']';
            CHECK_INT(accepts((struct str){text, sizeof text - 1}), valid);
            text[i] = old;
        }
    }
}

/* ---- values ---- */

TEST(json_values)
{
    struct arena a = ARENA_INIT;
    const struct json *v = must_parse(&a, "{\"n\":null,\"t\":true,\"f\":false,\"i\":-7,\"r\":2.5,"
                                          "\"s\":\"x\",\"a\":[1,2],\"o\":{\"k\":0}}");
    CHECK_INT(v->type, JSON_OBJECT);
    CHECK_INT(v->count, 8);
    CHECK_INT(json_get(v, "n")->type, JSON_NULL);
    CHECK(json_get(v, "t")->type == JSON_BOOL && json_get(v, "t")->boolean);
    CHECK(json_get(v, "f")->type == JSON_BOOL && !json_get(v, "f")->boolean);
    CHECK(json_get(v, "i")->type == JSON_INT && json_get(v, "i")->integer == -7);
    CHECK(json_get(v, "r")->type == JSON_REAL && json_get(v, "r")->real == 2.5);
    CHECK_STR(json_get(v, "s")->string, "x");
    CHECK_INT(json_get(v, "a")->count, 2);
    CHECK_INT(json_get(v, "a")->first->next->integer, 2);
    CHECK(json_get(v, "a")->first->next->next == NULL);
    CHECK_INT(json_get(json_get(v, "o"), "k")->integer, 0);
    CHECK_STR(v->first->key, "n");
    arena_release(&a);
}

TEST(json_get_of_what_is_not_there)
{
    struct arena a = ARENA_INIT;
    CHECK(json_get(NULL, "a") == NULL);
    CHECK(json_get(must_parse(&a, "[1]"), "a") == NULL);
    CHECK(json_get(must_parse(&a, "\"a\""), "a") == NULL);
    CHECK(json_get(must_parse(&a, "{}"), "a") == NULL);
    CHECK(json_get(must_parse(&a, "{\"ab\":1,\"b\":2}"), "a") == NULL);
    CHECK(json_get(must_parse(&a, "{\"\":5}"), "")->integer == 5);
    arena_release(&a);
}

TEST(json_type_names)
{
    CHECK_Z(json_type_name(JSON_NULL), "null");
    CHECK_Z(json_type_name(JSON_BOOL), "boolean");
    CHECK_Z(json_type_name(JSON_INT), "integer");
    CHECK_Z(json_type_name(JSON_REAL), "number");
    CHECK_Z(json_type_name(JSON_STRING), "string");
    CHECK_Z(json_type_name(JSON_ARRAY), "array");
    CHECK_Z(json_type_name(JSON_OBJECT), "object");
}

TEST(json_integers_to_the_last)
{
    struct arena a = ARENA_INIT;
    CHECK(must_parse(&a, "9223372036854775807")->integer == INT64_MAX);
    CHECK(must_parse(&a, "9223372036854775806")->integer == INT64_MAX - 1);
    CHECK(must_parse(&a, "-9223372036854775808")->integer == INT64_MIN);
    CHECK(must_parse(&a, "-9223372036854775807")->integer == INT64_MIN + 1);
    CHECK(must_parse(&a, "-0")->integer == 0);
    check_offset(STR("[9223372036854775808]"), 1, "number out of range");
    check_offset(STR("-9223372036854775809"), 0, "number out of range");
    arena_release(&a);
}

TEST(L75_json_true_is_no_integer_and_nan_is_refused)
{
    struct arena a = ARENA_INIT;
    CHECK_INT(must_parse(&a, "true")->type, JSON_BOOL);
    CHECK(!accepts(STR("NaN")) && !accepts(STR("[nan]")) && !accepts(STR("-Infinity")));
    CHECK(!accepts(STR("1e400")));
    arena_release(&a);
}

TEST(json_reals)
{
    struct arena a = ARENA_INIT;
    CHECK(must_parse(&a, "1e2")->type == JSON_REAL);
    CHECK(must_parse(&a, "1e2")->real == 100);
    CHECK(must_parse(&a, "-0.0")->real == 0 && signbit(must_parse(&a, "-0.0")->real));
    CHECK(must_parse(&a, "1e-400")->real == 0);
    CHECK(must_parse(&a, "5e-324")->real == 5e-324);
    CHECK(must_parse(&a, "1.7976931348623157e308")->real == 1.7976931348623157e308);
    CHECK(must_parse(&a, "0.1")->real == 0.1);
    /* around the size of the copy on the stack */
    for (int n = 55; n < 75; n++) {
        char text[100];
        snprintf(text, sizeof text, "1.%0*d", n, 0);
        CHECK(must_parse(&a, text)->real == 1.0);
    }
    check_offset(STR("[0,1e309]"), 3, "number out of range");
    _cleanup_buf_ struct buf big = repeated("9", 1 << 20);
    buf_addz(&big, "e-1048576");
    CHECK(fabs(must_parse(&a, big.data)->real - 1.0) < 1e-9);
    arena_release(&a);
}

TEST(json_strings_decoded)
{
    struct arena a = ARENA_INIT;
    CHECK_STR(must_parse(&a, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")->string, "\"\\/\b\f\n\r\t");
    CHECK_STR(must_parse(&a, "\"\\u0041\\u00e9\\u20AC\\uD83D\\uDE39!\"")->string,
              "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\xB9!");
    CHECK_STR(must_parse(&a, "\"\\uDBFF\\uDFFF\"")->string, "\xF4\x8F\xBF\xBF");
    CHECK_STR(must_parse(&a, "\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"")->string,
              "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF");
    CHECK_STR(must_parse(&a, "\"abc\\\\\"")->string, "abc\\");
    CHECK_STR(must_parse(&a, "{\"\\u0061b\":1}")->first->key, "ab");
    CHECK(str_eq(must_parse(&a, "\"a\\u0000b\"")->string, STR("a\0b")));
    arena_release(&a);
}

TEST(json_half_a_surrogate_pair_is_the_replacement_character)
{
#define FFFD "\xEF\xBF\xBD"
    struct arena a = ARENA_INIT;
    CHECK_STR(must_parse(&a, "\"\\ud83d\"")->string, FFFD);
    CHECK_STR(must_parse(&a, "\"\\ud83d!\\ude39\"")->string, FFFD "!" FFFD);
    CHECK_STR(must_parse(&a, "\"\\ud83d\\ud83d\\ude39\"")->string, FFFD "\xF0\x9F\x98\xB9");
    CHECK_STR(must_parse(&a, "\"\\ud83d\\u0041\"")->string, FFFD "A");
    CHECK_STR(must_parse(&a, "{\"\\udc00\":1}")->first->key, FFFD);
    arena_release(&a);
}

TEST(json_plain_strings_point_into_the_text)
{
    struct arena a = ARENA_INIT;
    const struct str text = STR("{\"key\":\"value\"}");
    const struct json *v = NULL;
    CHECK_INT(json_parse(&a, text, 1, &v, NULL), 0);
    CHECK(v->first->key.p == text.p + 2);
    CHECK(v->first->string.p == text.p + 8);
    arena_release(&a);
}

TEST(json_spans)
{
    struct arena a = ARENA_INIT;
    const struct json *v = must_parse(&a, " { \"a\" : [ 1 , -2.50 ] , \"b\":{\"c\":\" x \"} } ");
    CHECK_STR(v->span, "{ \"a\" : [ 1 , -2.50 ] , \"b\":{\"c\":\" x \"} }");
    CHECK(!v->compact);
    const struct json *list = json_get(v, "a"), *object = json_get(v, "b");
    CHECK_STR(list->span, "[ 1 , -2.50 ]");
    CHECK(!list->compact);
    CHECK_STR(list->first->span, "1");
    CHECK_STR(list->first->next->span, "-2.50");
    CHECK(list->first->compact);
    CHECK_STR(object->span, "{\"c\":\" x \"}");
    CHECK(object->compact);
    CHECK(!must_parse(&a, "[ ]")->compact && !must_parse(&a, "{\"a\" :1}")->compact);
    CHECK(!must_parse(&a, "[[1, 2]]")->compact && must_parse(&a, " [1] ")->compact);
    arena_release(&a);
}

/* ---- limits ---- */

static int depth_code(size_t levels, unsigned depth_max, const char *open, const char *close)
{
    struct arena a = ARENA_INIT;
    const struct json *v;
    _cleanup_buf_ struct buf b = repeated(open, levels);
    buf_addz(&b, "0");
    for (size_t i = 0; i < levels; i++)
        buf_addz(&b, close);
    int code = parse(&a, buf_str(&b), depth_max, &v, NULL);
    if (code == 0) { /* what walks a tree must survive it too */
        uint8_t hash[32];
        json_canonical_hash(v, NULL, hash);
        _cleanup_buf_ struct buf out = BUF_INIT(1 << 20);
        json_write_value(&out, v);
        CHECK(!out.overflow);
    }
    arena_release(&a);
    return code;
}

TEST(json_depth_at_and_above_the_limit)
{
    static const unsigned limits[] = {0, 1, 2, JSON_DEPTH_DEFAULT, JSON_DEPTH_MAX};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        unsigned n = limits[i];
        CHECK_INT(depth_code(n, n, "[", "]"), 0);
        CHECK_INT(depth_code(n, n, "{\"a\": ", "}"), 0);
        CHECK_INT(depth_code(n + 1, n, "[", "]"), -ERR_PARSE);
        CHECK_INT(depth_code(n + 1, n, "{\"a\":", "}"), -ERR_PARSE);
    }
    struct arena a = ARENA_INIT;
    const struct json *v;
    CHECK_INT(parse(&a, STR("[[],[],[[]]]"), 3, &v, NULL), 0); /* depth, not number */
    arena_release(&a);
}

static size_t arena_bytes(const struct str text, int want)
{
    struct arena a = ARENA_INIT;
    const struct json *v;
    CHECK_INT(json_parse(&a, text, JSON_DEPTH_MAX, &v, NULL), want);
    struct arena_block { /* as arena.c has it, which keeps it to itself and does not count */
        struct arena_block *next;
        size_t size;
    };
    size_t bytes = 0;
    for (struct arena_block *b = (void *)a.head; b; b = b->next)
        bytes += b->size;
    arena_release(&a);
    return bytes;
}

/* Half a million levels: neither the stack nor the arena notices. */
TEST(json_read_skips_any_depth_without_recursion)
{
    static const char *const brackets[][2] = {
        {"[", "]"}, {"{\"a\":", "}"}, {"[{\"\\n\" : ", "}, 1]"}};
    for (size_t i = 0; i < ARRAY_LEN(brackets); i++) {
        struct arena a = ARENA_INIT;
        const struct json *v;
        _cleanup_buf_ struct buf b = repeated(brackets[i][0], 500000),
                                 end = repeated(brackets[i][1], 500000);
        buf_addz(&b, "0");
        buf_add_str(&b, buf_str(&end));
        CHECK_INT(json_read(&a, buf_str(&b), 4, &v, NULL), 0);
        CHECK_INT(v->defect, JSON_DEFECT_INSIDE);
        CHECK(arena_bytes(buf_str(&b), -ERR_PARSE) <= 4 * b.len + 256 * 1024);
        buf_truncate(&b, b.len - 1);
        CHECK_INT(json_read(&a, buf_str(&b), 4, &v, NULL), -ERR_PARSE);
        arena_release(&a);
    }
}

TEST(json_memory_is_bounded_and_hostile_texts_are_cheap)
{
    static const char *const units[] = {
        "[", "{\"a\":", "[,", "[{\"\\n\":", "\"\\", "[[],", "-", "1e"};
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        _cleanup_buf_ struct buf b = repeated(units[i], (1 << 20) / strlen(units[i]));
        CHECK(arena_bytes(buf_str(&b), -ERR_PARSE) <= 32 * b.len + 256 * 1024);
    }
    static const char *const lists[] = {"0,",  "[],",   "[0],", "\"\\n\",",
                                        "{},", "\"\",", "1e1,", "{\"\\n\":0},"};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        _cleanup_buf_ struct buf b = BUF_INIT(2 << 20), body = repeated(lists[i], 100000);
        buf_addf(&b, "[%s0]", body.data);
        CHECK(arena_bytes(buf_str(&b), 0) <= 33 * b.len + 512 * 1024);
    }
}

static void add_keys(struct buf *b, int count)
{
    buf_addz(b, "{\"first\":0");
    for (int i = 0; i < count; i++)
        buf_addf(b, ",\"%x\":%d", i, i);
}

TEST(json_many_keys)
{
    struct arena a = ARENA_INIT;
    const struct json *v = NULL;
    _cleanup_buf_ struct buf b = BUF_INIT(32 << 20);
    add_keys(&b, 300000);
    size_t len = b.len;
    buf_addc(&b, '}');
    CHECK(arena_bytes(buf_str(&b), 0) <= 32 * b.len);
    CHECK_INT(json_parse(&a, buf_str(&b), 1, &v, NULL), 0);
    CHECK_INT(v->count, 300001);
    arena_clear(&a);
    buf_truncate(&b, len);
    buf_addz(&b, ",\"\\u0033e7\":0}"); /* 999 once more */
    check_offset(buf_str(&b), (int64_t)len + 1, "duplicate key");
    arena_release(&a);
}

/* Around the sizes where pairs give way to a table and the table doubles. */
TEST(json_duplicates_found_at_every_size_and_place)
{
    for (int count = 1; count <= 40; count++) {
        _cleanup_buf_ struct buf b = BUF_INIT(1 << 16);
        add_keys(&b, count);
        size_t len = b.len;
        for (int i = 0; i < count; i++) {
            buf_truncate(&b, len);
            buf_addf(&b, ", \"%x\" : 0}", i);
            check_offset(buf_str(&b), (int64_t)len + 2, "duplicate key");
        }
        buf_truncate(&b, len);
        buf_addz(&b, ",\"last\":0}");
        CHECK(accepts(buf_str(&b)));
    }
}

static void fill_zero(void *ctx, void *out, size_t n)
{
    (void)ctx;
    memset(out, 0, n);
}

TEST(json_hashing_keys_needs_no_particular_seed)
{
    random_set_source(fill_zero, NULL);
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
    add_keys(&b, 1000);
    buf_addz(&b, "}");
    CHECK(accepts(buf_str(&b)));
    random_set_source(NULL, NULL);
}

TEST(json_error_offsets)
{
    check_offset(STR(""), 0, "the text is empty");
    check_offset(STR(" "), 1, "a value is missing");
    check_offset(STR("[1,]"), 3, "a value is missing");
    check_offset(STR("[1 2]"), 3, "',' or ']' is missing");
    check_offset(STR("{\"a\":1 2}"), 7, "',' or '}' is missing");
    check_offset(STR("{\"a\" 1}"), 5, "':' is missing");
    check_offset(STR("{a:1}"), 1, "a key is missing");
    check_offset(STR("[1]]"), 3, "more text");
    check_offset(STR("[nil]"), 1, "no such word");
    check_offset(STR("[1.]"), 3, "a digit is missing");
    check_offset(STR("\"abc"), 4, "does not end");
    check_offset(STR("[\"ab\n\"]"), 4, "control character");
    check_offset(STR("[\"ab\\q\"]"), 4, "no such escape");
    check_offset(STR("[\"ab\\u12\"]"), 4, "four hexadecimal digits");
    check_offset(STR("[7,[1e400,{\"a\":0,\"a\":1}]]"), 4, "number out of range");
    check_offset(STR("[7,{\"a\":0,\"a\":1},1e400]"), 10, "duplicate key");
    check_offset(STR("[\"\xC3\xA9\xE2\x82\"]"), 4, "UTF-8");
    check_offset(STR("{\"a\":{\"b\" : 1, \"c\":2 ,\n \"b\":3}}"), 24, "duplicate key");
}

TEST(json_parse_works_without_err)
{
    struct arena a = ARENA_INIT;
    const struct json *v = NULL;
    CHECK_INT(json_parse(&a, STR("["), 1, &v, NULL), -ERR_PARSE);
    CHECK_INT(json_parse(&a, STR_NONE, 1, &v, NULL), -ERR_PARSE);
    CHECK(v == NULL);
    arena_release(&a);
}

/* ---- the canonical hash ---- */

static bool same_hash(const char *left, const char *right, const char *const *skip)
{
    struct arena a = ARENA_INIT;
    uint8_t l[32], r[32];
    json_canonical_hash(must_parse(&a, left), skip, l);
    json_canonical_hash(must_parse(&a, right), skip, r);
    arena_release(&a);
    return memcmp(l, r, sizeof l) == 0;
}

TEST(json_canonical_hash_is_of_the_meaning)
{
    // clang-format off
    static const char *const same[][2] = {
        {"{\"a\":1,\"b\":2}", " { \"b\" : 2 , \"a\" : 1 } "},
        {"{\"x\":{\"a\":[1],\"b\":{}}}", "{\"x\":{\"b\":{},\"a\":[ 1 ]}}"},
        {"\"\\u0041\\/\"", "\"A/\""}, {"{\"\\u0061\":0}", "{\"a\":0}"},
        {"\"\\ud83d\\ude39\"", "\"\xF0\x9F\x98\xB9\""},
        {"\"\\ud83d\"", "\"\\uFFFD\""}, {"\"\\udc00\"", "\"\xEF\xBF\xBD\""},
        {"\"a\\u0000\"", "\"\\u0061\\u0000\""},
        {"1e2", "100.0"}, {"1.0", "1.00"}, {"0", "-0"}, {"0.0", "-0.0"}, {"0.0", "1e-999"},
        {"{\"a\":1,\"aa\":2,\"\":3}", "{\"aa\":2,\"\":3,\"a\":1}"},
    };
    static const char *const differ[][2] = {
        {"1", "1.0"}, {"1", "\"1\""}, {"0", "false"}, {"null", "false"}, {"true", "false"},
        {"null", "\"\""},
        {"[]", "{}"}, {"[]", "null"}, {"[1,2]", "[2,1]"}, {"[[1],2]", "[[1,2]]"},
        {"[[],[]]", "[[[]]]"},
        {"\"a\\u0000\"", "\"a\""}, {"\"\\u0000\"", "\"\\u0000\\u0000\""},
        {"\"a\"", "\"A\""}, {"\"a\"", "\"a \""}, {"[\"ab\",\"c\"]", "[\"a\",\"bc\"]"},
        {"[\"a\"]", "\"a\""},
        {"{\"a\":\"b\"}", "{\"b\":\"a\"}"}, {"{\"a\":1}", "{\"a\":1,\"b\":null}"},
        {"{\"a\":null}", "{}"},
        {"{\"a\":{\"b\":1}}", "{\"a\":{},\"b\":1}"}, {"{\"a\":1}", "[\"a\",1]"}, {"1", "-1"},
        {"0.1", "0.2"},
        {"\"\\u00e9\"", "\"e\\u0301\""}, /* no Unicode normalization: bytes decide */
    };
    // clang-format on
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        if (!same_hash(same[i][0], same[i][1], NULL))
            tap_fail(__FILE__, __LINE__, "%s and %s differ", same[i][0], same[i][1]);
    for (size_t i = 0; i < ARRAY_LEN(differ); i++)
        if (same_hash(differ[i][0], differ[i][1], NULL))
            tap_fail(__FILE__, __LINE__, "%s and %s are the same", differ[i][0], differ[i][1]);
}

TEST(json_canonical_hash_skips_members_of_the_top_only)
{
    static const char *const skip[] = {"key", "id", NULL};
    CHECK(same_hash("{\"a\":1,\"key\":\"x\"}", "{\"key\":\"y\",\"a\":1,\"id\":7}", skip));
    CHECK(same_hash("{\"key\":1}", "{}", skip));
    CHECK(!same_hash("{\"a\":1,\"key\":\"x\"}", "{\"a\":2,\"key\":\"x\"}", skip));
    CHECK(!same_hash("{\"a\":{\"key\":1}}", "{\"a\":{\"key\":2}}", skip));
    CHECK(!same_hash("[{\"key\":1}]", "[{\"key\":2}]", skip));
}

/* It is stored: a change of the encoding would turn every retry into a conflict. */
TEST(json_canonical_hash_never_changes)
{
    struct arena a = ARENA_INIT;
    uint8_t hash[32];
    char hex[65];
    json_canonical_hash(must_parse(&a, "{\"b\":[null,true,-1,0.5],\"a\":\"\xC3\xA9\"}"), NULL,
                        hash);
    for (size_t i = 0; i < 32; i++)
        sprintf(hex + 2 * i, "%02x", hash[i]);
    CHECK_Z(hex, "1dc2f27505d0f203a4d9551cf1cb6488efc34d74d52181b6a12308088baaf1fc");
    arena_release(&a);
}
