/*
 * test_json_write.c: what json.h promises of writing; what is written is read back.
 */
#include "tap.h"

#include <math.h>

#include "base/json.h"

static const struct json *must_parse(struct arena *a, const char *text)
{
    const struct json *v = NULL;
    struct err err = ERR_INIT;
    if (json_parse(a, arena_str(a, str_of(text)), JSON_DEPTH_MAX, &v, &err) != 0)
        tap_fail(__FILE__, __LINE__, "%s: %s", text, err.message);
    return v;
}

static void check_compact(const char *text, const char *want)
{
    struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf out = BUF_INIT(1 << 20);
    json_write_value(&out, must_parse(&a, text));
    CHECK_STR(buf_str(&out), want);
    arena_release(&a);
}

static void check_string(struct str s, const char *want)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
    json_write_string(&b, s);
    CHECK_STR(buf_str(&b), want);
}

TEST(json_write_string_escapes)
{
    check_string(STR_NONE, "\"\"");
    check_string(STR("plain text"), "\"plain text\"");
    check_string(STR("\"\\/"), "\"\\\"\\\\/\"");
    check_string(STR("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"");
    check_string(STR("\x01\x1F\x7F"), "\"\\u0001\\u001f\x7F\"");
    check_string(STR("a\xC3\xA9\xF0\x9F\x98\xB9"), "\"a\xC3\xA9\xF0\x9F\x98\xB9\"");
}

#define FFFD "\xEF\xBF\xBD"

TEST(json_write_string_repairs)
{
    check_string(STR("a\0b"), "\"a" FFFD "b\"");
    check_string(STR("\xFF"), "\"" FFFD "\"");
    check_string(STR("a\x80z"), "\"a" FFFD "z\"");
    check_string(STR("\xC3\xA9\xC3"), "\"\xC3\xA9" FFFD "\"");
    check_string(STR("\xC3\"\n"), "\"" FFFD "\\\"\\n\"");
    check_string(STR("\xED\xA0\x80"), "\"" FFFD FFFD FFFD "\"");
    check_string(STR("\xC0\x80"), "\"" FFFD FFFD "\"");
}

TEST(json_write_string_is_read_back)
{
    struct arena a = ARENA_INIT;
    for (uint32_t c = 1; c <= 0x10FFFF; c += c < 0x1000 ? 1 : 97) {
        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        char text[32];
        snprintf(text, sizeof text, c > 0xFFFF ? "\"x\\u%04x\\u%04x\"" : "\"x\\u%04x\"",
                 c > 0xFFFF ? 0xD800 + ((c - 0x10000) >> 10) : c, 0xDC00 + (c & 0x3FF));
        struct str s = must_parse(&a, text)->string;
        _cleanup_buf_ struct buf b = BUF_INIT(64);
        json_write_string(&b, s);
        CHECK(str_eq(must_parse(&a, b.data)->string, s));
        arena_clear(&a);
    }
    arena_release(&a);
}

TEST(json_write_value_forwards_what_was_written)
{
    check_compact("null", "null");
    check_compact(" [ ] ", "[]");
    check_compact("{ }", "{}");
    check_compact("[1,2.50,1E+2,-0]", "[1,2.50,1E+2,-0]");
    check_compact("[ 1, 2.50 ,\t1E+2,\n-0 ]", "[1,2.50,1E+2,-0]");
    check_compact("{ \"\\u0061\\\"\" : \"\\u0062 \\/\" , \" b \":[ ],\"\":{ \"c\":1}}",
                  "{\"\\u0061\\\"\":\"\\u0062 \\/\",\" b \":[],\"\":{\"c\":1}}");
    check_compact("{\"a\":\":\\\"\" ,\"\\\\\" : \"\\\\\"}", "{\"a\":\":\\\"\",\"\\\\\":\"\\\\\"}");
    check_compact("[[1, 2],{\"a\":[ 3]},[4,5]]", "[[1,2],{\"a\":[3]},[4,5]]");
}

TEST(json_write_value_forwards_nul_as_written_and_no_lone_surrogate)
{
    check_compact("\"a\\u0000\"", "\"a\\u0000\"");
    check_compact("\"\\uD83D\"", "\"\\ufffd\"");
    check_compact("[\"\\\\ud83d\",\"\\uD83D\\uDE39\"]", "[\"\\\\ud83d\",\"\\uD83D\\uDE39\"]");
    check_compact("[\"\\u0041\\\\\\uDE39\\uD83D\\uDE39\\\"\\u0000\"]",
                  "[\"\\u0041\\\\\\ufffd\\uD83D\\uDE39\\\"\\u0000\"]");
    check_compact("{\"\\ud800\":1}", "{\"\\ufffd\":1}");
    check_compact("{\"a\":{\"k\\ud800\\ud800\":[ \"x\" ]},\"b\":\"\\u00e9\"}",
                  "{\"a\":{\"k\\ufffd\\ufffd\":[\"x\"]},\"b\":\"\\u00e9\"}");
}

TEST(json_out_knows_its_commas)
{
    struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 16);
    struct json_out w = JSON_OUT(&b);
    json_object(&w, NULL);
    json_int(&w, "seq", INT64_MIN);
    json_array(&w, "agents");
    json_string(&w, NULL, STR("a\nb"));
    json_array(&w, NULL);
    json_end(&w);
    json_object(&w, NULL);
    json_end(&w);
    json_bool(&w, NULL, false);
    json_end(&w);
    json_object(&w, "o");
    json_bool(&w, "t", true);
    json_null(&w, "n");
    json_end(&w);
    json_stringz(&w, "z", "zed");
    json_stringz(&w, "none", NULL);
    json_raw(&w, "raw", STR("[1,2]"));
    json_value(&w, "v", must_parse(&a, "[ 1.50 ]"));
    json_value(&w, "missing", NULL);
    json_time(&w, "at", 1794735000123);
    json_end(&w);
    CHECK_STR(buf_str(&b),
              "{\"seq\":-9223372036854775808,\"agents\":[\"a\\nb\",[],{},false],"
              "\"o\":{\"t\":true,\"n\":null},\"z\":\"zed\",\"none\":null,\"raw\":[1,2],"
              "\"v\":[1.50],\"missing\":null,\"at\":\"2026-11-15T09:30:00.123Z\"}");
    CHECK(w.depth == 0);
    must_parse(&a, b.data);
    arena_release(&a);
}

TEST(json_out_sixty_four_levels)
{
    struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 16);
    struct json_out w = JSON_OUT(&b);
    for (int i = 0; i < 32; i++) {
        json_array(&w, NULL);
        json_object(&w, NULL);
        json_int(&w, "i", i);
        if (i == 31)
            break;
        json_array(&w, "next");
        json_end(&w);
        json_end(&w);
    }
    while (w.depth > 0)
        json_end(&w);
    must_parse(&a, b.data);
    b = (buf_release(&b), BUF_INIT(1 << 16));
    w = JSON_OUT(&b);
    for (int i = 0; i < 64; i++)
        i % 2 ? json_array(&w, "a") : json_object(&w, NULL);
    for (int i = 0; i < 64; i++)
        json_end(&w);
    must_parse(&a, b.data);
    arena_release(&a);
}

static void check_real(double value, const char *want)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    struct json_out w = JSON_OUT(&b);
    json_real(&w, NULL, value);
    CHECK_STR(buf_str(&b), want);
}

TEST(json_real_is_short_and_exact)
{
    check_real(0, "0.0");
    check_real(-0.0, "-0.0");
    check_real(1, "1.0");
    check_real(0.1, "0.1");
    check_real(-2.5, "-2.5");
    check_real(1e100, "1e+100");
    check_real(0.1 + 0.2, "0.30000000000000004");
    check_real(5e-324, "4.94065645841247e-324");
    check_real(1.7976931348623157e308, "1.7976931348623157e+308");
    check_real(123456789012345678.0, "1.2345678901234568e+17");
    check_real(NAN, "null");
    check_real(-INFINITY, "null");
}

TEST(json_writer_stops_at_the_ceiling)
{
    _cleanup_buf_ struct buf b = BUF_INIT(20);
    struct json_out w = JSON_OUT(&b);
    json_object(&w, NULL);
    for (int i = 0; i < 100; i++)
        json_string(&w, "key", STR("value \n \xFF"));
    json_end(&w);
    CHECK(b.overflow && b.len == 0);
}
