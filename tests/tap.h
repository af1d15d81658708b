/*
 * tap.h: the test harness. One process per test, a deadline per test, TAP out.
 *
 *     TEST(json_rejects_nul)
 *     {
 *         CHECK(json_parse(...) == -ERR_PARSE);
 *     }
 *
 * A test file is a set of TEST()s and nothing else; tap.c brings main(). A test fails by a failed
 * CHECK, a signal, a sanitizer report, a non-zero exit or its deadline (TAP_SECONDS, default 60;
 * TAP_SLOW multiplies it). `./test_json name…` runs only tests whose name contains a word;
 * with TAP_NOFORK=1 in this process, for a debugger; with TAP_FIRST=1 no further than to the first
 * that fails.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

typedef void tap_fn(void);
void tap_register(const char *name, tap_fn *fn);
__attribute__((noreturn)) void tap_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the test as skipped, with the reason. */
__attribute__((noreturn)) void tap_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* A fresh folder, removed when the test ends, however it ends. */
const char *tap_folder(void);

#define TEST(name)                                                 \
    static void test_##name(void);                                 \
    __attribute__((constructor)) static void register_##name(void) \
    {                                                              \
        tap_register(#name, test_##name);                          \
    }                                                              \
    static void test_##name(void)

#define CHECK(expr)                                    \
    do {                                               \
        if (!(expr))                                   \
            tap_fail(__FILE__, __LINE__, "%s", #expr); \
    } while (0)
#define CHECK_INT(got, want)                                                         \
    do {                                                                             \
        long long got_ = (long long)(got), want_ = (long long)(want);                \
        if (got_ != want_)                                                           \
            tap_fail(__FILE__, __LINE__, "%s is %lld, not %lld", #got, got_, want_); \
    } while (0)
#define CHECK_STR(got, want)                                                                \
    do {                                                                                    \
        struct str got_ = (got);                                                            \
        const char *want_ = (want);                                                         \
        if (!str_is(got_, want_))                                                           \
            tap_fail(__FILE__, __LINE__, "%s is \"%.*s\", not \"%s\"", #got, STR_ARG(got_), \
                     want_);                                                                \
    } while (0)
#define CHECK_Z(got, want) CHECK_STR(str_of(got), want)
