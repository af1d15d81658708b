/*
 * json_cases.h: texts that are JSON and taken, that are JSON with a defect (json.h), and that are no
 * JSON, by rule of the grammar.
 */
#pragma once

#include "base/macro.h"
#include "base/str.h"

// clang-format off
static const struct str accepted[] = {
    /* structure */
    STR("[]"), STR("{}"), STR("[ ]"), STR("{ }"), STR(" [] "), STR("\t\n\r {}\t\n\r "),
    STR("[[]]"), STR("[{}]"), STR("{\"a\":{}}"), STR("{\"a\":[]}"), STR("[[],[[]]]"),
    STR("[1,2,3]"), STR("[ 1 , 2 ]"), STR("[1,null]"), STR("[null,1,\"1\",{}]"),
    STR("{\"a\":1,\"b\":2}"), STR("{ \"a\" : 1 }"), STR("{\"a\"\n:\n1}"), STR("[1,2\n]"),
    STR("{\"\":0}"), STR("{\"a\":\"a\"}"), STR("{\"a\":{\"a\":{\"a\":1}}}"),
    STR("[{\"a\":1},{\"a\":2}]"), STR("{\"a\":1,\"A\":1,\"aa\":1,\"\":1}"),
    STR("{\"k1\":1,\"k2\":1,\"k3\":1,\"k4\":1,\"k5\":1,\"k6\":1,\"k7\":1,\"k8\":1}"),
    STR("{\"k1\":1,\"k2\":1,\"k3\":1,\"k4\":1,\"k5\":1,\"k6\":1,\"k7\":1,\"k8\":1,\"k9\":1}"),
    STR("{\"ab\":1,\"ac\":1,\"bb\":1,\"abc\":1}"),
    /* scalars at the top */
    STR("null"), STR("true"), STR("false"), STR("\"\""), STR("\"a\""), STR("0"), STR("-1"),
    STR(" 42 "), STR("1.5"),
    /* numbers */
    STR("[0]"), STR("[-0]"), STR("[-0.0]"), STR("[0.1]"), STR("[10]"), STR("[123]"), STR("[-123]"),
    STR("[1e5]"), STR("[1E5]"), STR("[1e+5]"), STR("[1E+5]"), STR("[1e-5]"), STR("[1E-5]"),
    STR("[0e1]"), STR("[0e+1]"), STR("[0E0]"), STR("[1.5e3]"), STR("[1.50]"), STR("[-1.5E-10]"),
    STR("[123.456789]"), STR("[1e00]"), STR("[1e0005]"), STR("[20e1]"), STR("[1e308]"),
    STR("[1.7976931348623157e308]"), STR("[5e-324]"), STR("[1e-400]"), STR("[-1e-99999]"),
    STR("[0e99999]"), STR("[9223372036854775807]"), STR("[-9223372036854775808]"),
    STR("[9223372036854775808.0]"), STR("[1234567890123456789012345678901234567890.5]"),
    STR("[0.00000000000000000000000000000000000000000000000000000000000000000000000000001]"),
    /* strings */
    STR("[\"\"]"), STR("[\"abc\"]"), STR("[\" \"]"), STR("[\"asd \"]"), STR("[\"\x7F\"]"),
    STR("[\"\\\"\"]"), STR("[\"\\\\\"]"), STR("[\"\\/\"]"), STR("[\"/\"]"),
    STR("[\"\\b\\f\\n\\r\\t\"]"),
    STR("[\"\\\\n\"]"), STR("[\"\\\\u0000\"]"), STR("[\"\\u0001\"]"), STR("[\"\\u001f\"]"),
    STR("[\"\\u0041\"]"), STR("[\"\\u00e9\"]"), STR("[\"\\u00E9\"]"), STR("[\"\\uABCD\"]"),
    STR("[\"\\uabcd\"]"), STR("[\"\\u20ac\"]"), STR("[\"\\uD801\\uDC37\"]"),
    STR("[\"\\ud83d\\ude39\"]"),
    STR("[\"\\uD800\\uDC00\"]"), STR("[\"\\uDBFF\\uDFFF\"]"), STR("[\"\\uD7FF\"]"),
    STR("[\"\\uE000\"]"),
    STR("[\"\\uFFFF\"]"), STR("[\"\\uFFFE\"]"), STR("[\"\\uFEFF\"]"), STR("[\"\\u0022\"]"),
    STR("[\"\\u005C\"]"), STR("[\"\\u2028\\u2029\"]"), STR("[\"\xE2\x80\xA8\xE2\x80\xA9\"]"),
    STR("[\"\xC2\x80\"]"), STR("[\"\xDF\xBF\"]"), STR("[\"\xE0\xA0\x80\"]"),
    STR("[\"\xED\x9F\xBF\"]"),
    STR("[\"\xEE\x80\x80\"]"), STR("[\"\xEF\xBF\xBF\"]"), STR("[\"\xF0\x90\x80\x80\"]"),
    STR("[\"\xF4\x8F\xBF\xBF\"]"), STR("[\"\xEF\xBB\xBF\"]"), STR("[\"a/*b*/c\"]"),
    STR("[\"[,]{:}\"]"),
    STR("[\"1234567\"]"), STR("[\"12345678\"]"), STR("[\"123456789abcdef01\"]"),
    STR("[\"1234567\\\"\"]"), STR("[\"12345678\\\\\"]"), STR("{\"\\u0061\":1,\"b\":2}"),
    STR("{\"\\n\":1,\"\\t\":2}"), STR("{\"\xC3\xA9\":1,\"e\":2}"),
    /* NUL */
    STR("[\"\\u0000\"]"), STR("[\"a\\u0000b\"]"), STR("{\"\\u0000\":1}"), STR("{\"\\u0000\":1,\"\":2}"),
    STR("{\"a\\u0000\":1,\"a\":2}"),
};

/* Half a surrogate pair stands for U+FFFD. */
static const struct str mended[] = {
    STR("[\"\\uD800\"]"), STR("[\"\\uDBFF\"]"), STR("[\"\\uDC00\"]"), STR("[\"\\uDFFF\"]"),
    STR("[\"\\uD800a\"]"), STR("[\"\\uD800\\n\"]"), STR("[\"\\uD800\\uD800\"]"),
    STR("[\"\\uD800\\u0041\"]"), STR("[\"\\uDC00\\uD800\"]"), STR("[\"\\uD800\\uE000\"]"),
    STR("[\"\\uD800\\uDBFF\"]"), STR("{\"\\uD800\":1}"), STR("[\"\\ud800\\\\udc00\"]"),
    STR("[\"\\uD800\\uD800\\uDC00\"]"), STR("[ {\"\\udc00\\u0000\" : \"\\ud83d\\u0000\"} ]"),
};

static const struct str defective[] = {
    /* duplicate keys */
    STR("{\"a\":1,\"a\":1}"), STR("{\"a\":1,\"b\":2,\"a\":3}"), STR("{\"\":1,\"\":2}"),
    STR("{\"a\":1,\"\\u0061\":2}"), STR("{\"\\n\":1,\"\\u000a\":2}"),
    STR("[{\"x\":{\"a\":1,\"a\":2}}]"),
    STR("{\"\xC3\xA9\":1,\"\\u00e9\":2}"),
    STR("{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"7\":1}"),
    STR("{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"1\":1}"),
    STR("{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"\\u0039\":1}"),
    STR("{\"\\uD800\":1,\"\\uFFFD\":2}"), STR("{\"a\":1,\"a\":2,\"a\":3}"),
    STR("{\"\\u0000\":1,\"\\u0000\":2}"),
    /* numbers */
    STR("[9223372036854775808]"), STR("[-9223372036854775809]"), STR("[18446744073709551616]"),
    STR("[123456789012345678901234567890]"), STR("[1e309]"), STR("[-1e309]"),
    STR("[1e99999999999]"),
    STR("[1.7976931348623159e308]"), STR("[0.1e310]"),
    STR("[1,{\"a\":[2,1e400]}]"), STR("{\"a\":1e400,\"a\":1}"),
};

static const struct str refused[] = {
    /* nothing, or too much */
    STR(""), STR(" "), STR("\n\t"), STR("[][]"), STR("1 2"), STR("[1]x"), STR("{}}"), STR("[]]"),
    STR("{},"), STR("null null"), STR("\"a\" \"b\""), STR("[1]\0"), STR("\0"), STR("[1]#"),
    STR("{}/**/"), STR("[1] // c"), STR("\xEF\xBB\xBF[]"), STR("\xEF\xBB\xBF"), STR("[1]\f"),
    /* arrays */
    STR("["), STR("]"), STR("[1"), STR("[1,"), STR("[,"), STR("[,]"), STR("[1,]"), STR("[1,,2]"),
    STR("[,1]"), STR("[1 2]"), STR("[1:2]"), STR("[\"a\":1]"), STR("[1}"), STR("[[1]"), STR("[1]]"),
    STR("[\"\",]"), STR("[1;2]"), STR("[*]"), STR("[(1)]"), STR("[\v1]"), STR("[\f]"),
    STR("[\xC2\xA0]"),
    STR("[1,\n1\n,1"), STR("[{}"), STR("[\"a\""), STR("[a]"), STR("['a']"), STR("[\"a]"),
    STR("[\"a"),
    /* objects */
    STR("{"), STR("}"), STR("{\"a\""), STR("{\"a\":"), STR("{\"a\":1"), STR("{\"a\":1,"),
    STR("{\"a\":1,}"), STR("{,\"a\":1}"), STR("{\"a\":1,,\"b\":2}"), STR("{\"a\" 1}"),
    STR("{\"a\",1}"),
    STR("{\"a\"::1}"), STR("{:1}"), STR("{1:1}"), STR("{a:1}"), STR("{'a':1}"), STR("{null:1}"),
    STR("{\"a\":1 \"b\":2}"), STR("{\"a\":1]"), STR("{\"a\"}"), STR("{\"a\":}"), STR("{[]:1}"),
    STR("{\"a\":1}{"), STR("{\"a\":/**/1}"), STR("{\"a\":\"b\"}#"), STR("{\"a"), STR("{\"a\":\"b"),
    /* words */
    STR("nul"), STR("nulL"), STR("Null"), STR("NULL"), STR("tru"), STR("True"), STR("fals"),
    STR("False"),
    STR("truee"), STR("nullnull"), STR("[truefalse]"), STR("[nul"), STR("undefined"), STR("n"),
    STR("t"),
    STR("NaN"), STR("nan"), STR("[NaN]"), STR("[-NaN]"), STR("Infinity"), STR("[-Infinity]"),
    STR("[inf]"),
    STR("[-inf]"),
    /* numbers */
    STR("-"), STR("[-]"), STR("+1"), STR("[+1]"), STR("[++1]"), STR("[--1]"), STR("[- 1]"),
    STR("[-a]"),
    STR("[01]"), STR("[-01]"), STR("[00]"), STR("[012]"), STR("[-00.5]"), STR("[0x1]"), STR("[0x]"),
    STR("[1.]"), STR("[1."), STR("[.5]"), STR("[-.5]"), STR("[0.]"), STR("[0.e1]"), STR("[1.e1]"),
    STR("[1e]"), STR("[1e+]"), STR("[1E-]"), STR("[1e"), STR("[1ee2]"), STR("[1e1.5]"),
    STR("[1.2.3]"),
    STR("[1e++1]"), STR("[1+2]"), STR("[1-2]"), STR("[1_000]"), STR("[1 000]"), STR("[1a]"),
    STR("[1.5f]"),
    STR("[0b1]"), STR("[0o7]"), STR("[1L]"), STR("[\xEF\xBC\x91]"), STR("[0e]"), STR("[2.e+3]"),
    /* strings */
    STR("\""), STR("[\"]"), STR("[\"\\\"]"), STR("[\"\\"), STR("[\"\\\\\\\"]"), STR("[\"a\nb\"]"),
    STR("[\"a\tb\"]"), STR("[\"\r\"]"), STR("[\"a\0b\"]"), STR("[\"\x1F\"]"), STR("[\"\x01\"]"),
    STR("[\"1234567\x1F\"]"), STR("[\"12345678\n\"]"), STR("[\"\\a\"]"), STR("[\"\\x41\"]"),
    STR("[\"\\'\"]"),
    STR("[\"\\0\"]"), STR("[\"\\U0041\"]"), STR("[\"\\ \"]"), STR("[\"\\\n\"]"), STR("[\"\\\0\"]"),
    STR("[\"\\v\"]"), STR("[\"\\e\"]"), STR("[\"\\N\"]"), STR("[\"\\\xC3\xA9\"]"), STR("[\\n]"),
    STR("[\\u0041]"),
    STR("[\"\\u\"]"), STR("[\"\\u1\"]"), STR("[\"\\u12\"]"), STR("[\"\\u123\"]"),
    STR("[\"\\u123g\"]"),
    STR("[\"\\uG123\"]"), STR("[\"\\u 123\"]"), STR("[\"\\u+123\"]"), STR("[\"\\u-123\"]"),
    STR("[\"\\u00"),
    STR("[\"\\u0x12\"]"), STR("[\"\\u12\\\"\"]"),
    /* half a pair, and then an escape that is none */
    STR("[\"\\uD800\\u\"]"), STR("[\"\\uD800\\uD8\"]"), STR("[\"\\uD800\\x\"]"), STR("[\"\\uD8\"]"),
    /* UTF-8 */
    STR("[\"\x80\"]"), STR("[\"\xBF\"]"), STR("[\"\xC0\x80\"]"), STR("[\"\xC0\xAF\"]"),
    STR("[\"\xC1\xBF\"]"),
    STR("[\"\xC3\"]"), STR("[\"\xC3\x28\"]"), STR("[\"\xE0\x80\x80\"]"), STR("[\"\xE0\x9F\xBF\"]"),
    STR("[\"\xE2\x82\"]"), STR("[\"\xE2\x28\xA1\"]"), STR("[\"\xED\xA0\x80\"]"),
    STR("[\"\xED\xBF\xBF\"]"),
    STR("[\"\xED\xA0\xBD\xED\xB8\xB9\"]"), STR("[\"\xF0\x80\x80\x80\"]"),
    STR("[\"\xF0\x8F\xBF\xBF\"]"),
    STR("[\"\xF0\x9F\x98\"]"), STR("[\"\xF4\x90\x80\x80\"]"), STR("[\"\xF5\x80\x80\x80\"]"),
    STR("[\"\xF8\x88\x80\x80\x80\"]"), STR("[\"\xFE\"]"), STR("[\"\xFF\"]"), STR("[\xFF]"),
    STR("\xFF"),
    STR("[1]\x80"), STR("{\"\xC0\x80\":1}"), STR("\xFF\xFE[\0]\0"), STR("[\"\xC3"),
    STR("[\"a\xC3\xA9\xC3\"]"),
};
// clang-format on

_Static_assert(ARRAY_LEN(accepted) + ARRAY_LEN(refused) >= 150, "a table worth its name");
