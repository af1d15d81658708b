/*
 * test_base.c: memory, buffers, strings and errors: what everything else stands on.
 */
#include <limits.h>
#include <signal.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/backoff.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/fail_point.h"
#include "base/json.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/str.h"
#include "tap.h"

/* What fn writes to standard error before it aborts. */
static const char *last_words(void (*fn)(void))
{
    static char text[1024];
    int fds[2], status;
    CHECK_INT(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(fds[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(fds[0], text + n, sizeof text - 1 - n)) > 0; n += (size_t)got)
        ;
    text[n] = '\0';
    close(fds[0]);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    return text;
}

/* ---- macros ---- */

TEST(take_leaves_nothing_behind)
{
    char letter = 'x', *p = &letter;
    CHECK(TAKE_PTR(p) == &letter);
    CHECK(p == NULL);
    int fd = 7;
    CHECK_INT(TAKE_FD(fd), 7);
    CHECK_INT(fd, -1);
}

TEST(min_and_max_evaluate_once)
{
    int a = 1, b = 5;
    CHECK_INT(MIN(a++, b++), 1);
    CHECK_INT(a, 2);
    CHECK_INT(b, 6);
    CHECK_INT(MAX(a++, b++), 6);
    CHECK_INT(a, 3);
    CHECK_INT(b, 7);
}

TEST(container_of_finds_its_owner)
{
    struct owner {
        int before;
        int64_t member;
    } o;
    CHECK(CONTAINER_OF(&o.member, struct owner, member) == &o);
}

/* ---- mem ---- */

TEST(mem_grow_doubles_and_keeps)
{
    size_t cap = 0;
    int64_t *items = mem_grow(NULL, &cap, 1, sizeof *items);
    CHECK_INT(cap, 8);
    items[0] = 42;
    CHECK(mem_grow(items, &cap, 8, sizeof *items) == items);
    items = mem_grow(items, &cap, 9, sizeof *items);
    CHECK_INT(cap, 16);
    items = mem_grow(items, &cap, 1000, sizeof *items);
    CHECK_INT(cap, 1000);
    items[999] = 7;
    CHECK_INT(items[0], 42);
    free(items);
}

TEST(mem_copies_end_in_nul)
{
    _cleanup_free_ char *a = mem_strndup("abc", 2), *b = mem_strdup("xyz");
    _cleanup_free_ char *c = mem_strndup(NULL, 0), *d = mem_printf("%s-%d", "n", 5);
    _cleanup_free_ char *zeros = mem_zalloc(100), *none = mem_alloc(0);
    CHECK_Z(a, "ab");
    CHECK_Z(b, "xyz");
    CHECK_Z(c, "");
    CHECK_Z(d, "n-5");
    for (int i = 0; i < 100; i++)
        CHECK_INT(zeros[i], 0);
    CHECK(none != NULL);
}

_noreturn_ static void break_invariant(void)
{
    REQUIRE(1 + 1 == 3);
}

_noreturn_ static void break_invariant_with_context(void)
{
    REQUIRE_F(1 + 1 == 3, "seq %d", 17);
}

static void grow_past_memory(void)
{
    size_t cap = 0;
    mem_grow(NULL, &cap, SIZE_MAX / 2, 16);
}

TEST(require_says_what_and_where)
{
    const char *words = last_words(break_invariant);
    CHECK(strstr(words, "1 + 1 == 3") && strstr(words, "test_base.c"));
    words = last_words(break_invariant_with_context);
    CHECK(strstr(words, "1 + 1 == 3") && strstr(words, "seq 17"));
    CHECK(strstr(last_words(grow_past_memory), "overflow"));
}

/* ---- arena ---- */

TEST(arena_memory_is_aligned_and_apart)
{
    struct arena a = ARENA_INIT;
    unsigned char *last = NULL;
    size_t last_size = 0;
    for (size_t size = 0; size < 3000; size += 7) {
        unsigned char *p = arena_alloc(&a, size);
        CHECK_INT((uintptr_t)p % alignof(max_align_t), 0);
        memset(p, (int)(size & 0xFF), size);
        for (size_t i = 0; i < last_size; i++)
            CHECK_INT(last[i], last_size & 0xFF);
        last = p;
        last_size = size;
    }
    arena_release(&a);
}

TEST(arena_takes_sizes_beyond_its_blocks)
{
    struct arena a = ARENA_INIT;
    char *small = arena_strndup(&a, "small", 5);
    char *huge = arena_zalloc(&a, 1 << 20);
    huge[0] = huge[(1 << 20) - 1] = 'x';
    char *after = arena_strndup(&a, "after", 5);
    CHECK_Z(small, "small");
    CHECK_Z(after, "after");
    arena_clear(&a);
    CHECK_Z(arena_strndup(&a, "again", 5), "again");
    arena_release(&a);
}

TEST(arena_zalloc_zeroes_reused_memory)
{
    struct arena a = ARENA_INIT;
    memset(arena_alloc(&a, 500), 0xFF, 500);
    arena_clear(&a);
    unsigned char *p = arena_zalloc(&a, 500);
    for (int i = 0; i < 500; i++)
        CHECK_INT(p[i], 0);
    arena_release(&a);
}

TEST(arena_clear_keeps_the_first_block)
{
    struct arena a = ARENA_INIT;
    void *first = arena_alloc(&a, 16);
    for (int i = 0; i < 100; i++)
        arena_alloc(&a, 1000);
    arena_clear(&a);
    CHECK(arena_alloc(&a, 16) == first);
    arena_release(&a);
    arena_release(&a); /* empty: nothing to do */
    CHECK(a.head == NULL);
    arena_clear(&a);
}

TEST(arena_never_keeps_a_giant)
{
    struct arena a = ARENA_INIT;
    arena_alloc(&a, 1 << 20);
    arena_clear(&a);
    CHECK(a.head == NULL);
}

TEST(arena_strings)
{
    struct arena a = ARENA_INIT;
    struct str s = arena_printf(&a, "%s=%d", "key", 12);
    CHECK_STR(s, "key=12");
    CHECK_INT(s.p[s.n], 0);
    struct str copy = arena_str(&a, STR("a\0b"));
    CHECK_INT(copy.n, 3);
    CHECK(memcmp(copy.p, "a\0b", 4) == 0);
    CHECK_STR(arena_str(&a, STR_NONE), "");
    char wide[5000];
    memset(wide, 'w', sizeof wide - 1);
    wide[sizeof wide - 1] = '\0';
    CHECK_STR(arena_printf(&a, "%s", wide), wide);
    arena_release(&a);
}

/* ---- buf ---- */

TEST(buf_adds)
{
    struct buf b = BUF_INIT(1000);
    CHECK_STR(buf_str(&b), "");
    buf_add(&b, "ab", 2);
    buf_add_str(&b, STR("cd"));
    buf_add_str(&b, STR_NONE);
    buf_addz(&b, "ef");
    buf_addc(&b, '-');
    buf_addf(&b, "%d%s", 42, "!");
    CHECK_STR(buf_str(&b), "abcdef-42!");
    CHECK_INT(b.data[b.len], 0);
    buf_release(&b);
}

TEST(buf_integers)
{
    static const int64_t values[] = {0, 1, -1, 9, 10, 99, 100, -100, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        struct buf b = BUF_INIT(100);
        char want[32];
        snprintf(want, sizeof want, "%lld", (long long)values[i]);
        buf_add_int(&b, values[i]);
        CHECK_STR(buf_str(&b), want);
        buf_release(&b);
    }
}

TEST(buf_holds_exactly_its_maximum)
{
    for (size_t max = 0; max < 200; max++) {
        struct buf b = BUF_INIT(max);
        for (size_t i = 0; i < max; i++)
            buf_addc(&b, 'x');
        CHECK(!b.overflow);
        CHECK_INT(b.len, max);
        CHECK(b.cap <= max + 1);
        buf_addc(&b, 'y');
        CHECK(b.overflow);
        CHECK_INT(b.len, 0);
        CHECK(b.data == NULL);
    }
}

TEST(buf_overflow_lasts_until_cleared)
{
    struct buf b = BUF_INIT(4);
    buf_addz(&b, "hello");
    buf_addz(&b, "x");
    buf_addf(&b, "%d", 1);
    buf_add_int(&b, 1);
    CHECK(b.overflow && b.len == 0);
    CHECK(buf_reserve(&b, 1) == NULL);
    CHECK_STR(buf_str(&b), "");
    buf_clear(&b);
    buf_addz(&b, "ok");
    CHECK_STR(buf_str(&b), "ok");
    buf_addf(&b, "%s", "123");
    CHECK(b.overflow);
    buf_release(&b);
    CHECK(!b.overflow);
    CHECK_INT(b.max, 4);
}

TEST(buf_without_a_ceiling)
{
    struct buf b = BUF_INIT(SIZE_MAX);
    for (int i = 0; i < 1000; i++)
        buf_addz(&b, "0123456789");
    CHECK_INT(b.len, 10000);
    CHECK(memcmp(b.data + 9990, "0123456789", 11) == 0);
    buf_release(&b);
}

TEST(buf_reserve_then_grown)
{
    struct buf b = BUF_INIT(100);
    char *room = buf_reserve(&b, 10);
    memcpy(room, "abc", 3);
    buf_grown(&b, 3);
    CHECK_STR(buf_str(&b), "abc");
    CHECK(buf_reserve(&b, 97) != NULL);
    buf_grown(&b, 0);
    CHECK(buf_reserve(&b, 98) == NULL);
    CHECK(b.overflow);
}

static void grow_more_than_reserved(void)
{
    struct buf b = BUF_INIT(100);
    buf_reserve(&b, 10);
    buf_grown(&b, 101);
}

static void drop_more_than_there_is(void)
{
    struct buf b = BUF_INIT(100);
    buf_addz(&b, "abc");
    buf_drop_front(&b, 4);
}

TEST(buf_misuse_is_caught)
{
    CHECK(strstr(last_words(grow_more_than_reserved), "broken invariant"));
    CHECK(strstr(last_words(drop_more_than_there_is), "broken invariant"));
}

TEST(buf_drops_and_truncates)
{
    struct buf b = BUF_INIT(100);
    buf_drop_front(&b, 0);
    buf_truncate(&b, 0);
    buf_addz(&b, "abcdef");
    buf_drop_front(&b, 2);
    CHECK_STR(buf_str(&b), "cdef");
    buf_truncate(&b, 3);
    CHECK_STR(buf_str(&b), "cde");
    CHECK_INT(b.data[3], 0);
    buf_drop_front(&b, 3);
    CHECK_STR(buf_str(&b), "");
    buf_release(&b);
}

TEST(buf_take_hands_over)
{
    struct buf b = BUF_INIT(100);
    _cleanup_free_ char *empty = buf_take(&b);
    CHECK_Z(empty, "");
    buf_addz(&b, "abc");
    _cleanup_free_ char *abc = buf_take(&b);
    CHECK_Z(abc, "abc");
    CHECK(b.data == NULL && b.len == 0 && b.max == 100);
}

/* ---- str ---- */

TEST(str_compares)
{
    CHECK(str_eq(STR("a"), STR("a")) && !str_eq(STR("a"), STR("b")) && !str_eq(STR("a"), STR("")));
    CHECK(str_eq(STR_NONE, STR("")) && str_is(STR_NONE, "") && str_eq(str_of(NULL), STR_NONE));
    CHECK(!str_is(STR("a\0b"), "a"));
    CHECK(str_eq_nocase(STR("Host"), STR("hOST")) && !str_eq_nocase(STR("Host"), STR("Hos")));
    CHECK(str_eq_nocase(STR_NONE, STR("")));
    CHECK(str_starts(STR("abc"), STR("ab")) && !str_starts(STR("ab"), STR("abc")));
    CHECK(str_starts(STR("x"), STR_NONE) && str_starts(STR_NONE, STR_NONE));
    CHECK(!str_starts(STR_NONE, STR("x")));
}

TEST(str_skips_no_further_than_its_end)
{
    CHECK_STR(str_skip(STR("abc"), 1), "bc");
    CHECK_STR(str_skip(STR("abc"), 3), "");
    CHECK_STR(str_skip(STR("abc"), SIZE_MAX), "");
}

TEST(str_to_int_takes_all_and_only_int64)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-7", -7},
        {"007", 7},
        {"42", 42},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        int64_t v = 5;
        CHECK(str_to_int(str_of(good[i].text), &v));
        CHECK_INT(v, good[i].value);
    }
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1a",
                                      "0x1",
                                      "--1",
                                      "1.0",
                                      "1e3",
                                      "nan",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "18446744073709551616",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t v = 5;
        CHECK(!str_to_int(str_of(bad[i]), &v));
        CHECK_INT(v, 5);
    }
    int64_t v = 5;
    CHECK(!str_to_int(STR_NONE, &v) && !str_to_int(STR("1\0"), &v));
}

/* The definition, slowly: decode, then ask whether this is the shortest way to write it. */
static bool is_utf8_slowly(const unsigned char *p, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    for (size_t i = 0, len; i < n; i += len) {
        len = p[i] < 0x80 ? 1 : p[i] >> 5 == 6 ? 2 : p[i] >> 4 == 14 ? 3 : p[i] >> 3 == 30 ? 4 : 0;
        if (len == 0 || i + len > n)
            return false;
        uint32_t c = len == 1 ? p[i] : p[i] & (0xFFu >> (len + 1));
        for (size_t j = 1; j < len; j++) {
            if (p[i + j] >> 6 != 2)
                return false;
            c = c << 6 | (p[i + j] & 0x3F);
        }
        if (c < least[len] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
            return false;
    }
    return true;
}

TEST(utf8_of_every_three_bytes)
{
    static const unsigned char tails[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0};
    for (unsigned first = 0; first < 256; first++)
        for (unsigned second = 0; second < 256; second++)
            for (size_t i = 0; i < ARRAY_LEN(tails); i++)
                for (size_t j = 0; j < ARRAY_LEN(tails); j++)
                    for (size_t n = 1; n <= 4; n++) {
                        unsigned char p[4] = {(unsigned char)first, (unsigned char)second, tails[i],
                                              tails[j]};
                        CHECK(str_is_utf8((struct str){(char *)p, n}) == is_utf8_slowly(p, n));
                    }
}

TEST(utf8_at_every_place_of_a_word)
{
    for (size_t at = 0; at < 24; at++) {
        char text[32];
        memset(text, 'x', sizeof text);
        CHECK(str_is_utf8((struct str){text, sizeof text}));
        memcpy(text + at, "\xf0\x9f\x90\x99", 4);
        CHECK(str_is_utf8((struct str){text, sizeof text}));
        CHECK(str_is_utf8((struct str){text, at}));
        CHECK(!str_is_utf8((struct str){text, at + 3}));
        text[at + 3] = 'x';
        CHECK(!str_is_utf8((struct str){text, sizeof text}));
    }
    CHECK(str_is_utf8(STR_NONE));
}

/* ---- err ---- */

TEST(err_rows_are_sound)
{
    for (int code = 1; code < ERR_COUNT; code++) {
        CHECK(strlen(err_name(code)) > 1 && strlen(err_text(code)) > 5);
        CHECK(err_name(code) == err_name(-code));
        CHECK(err_rpc_code(code) >= -32799 && err_rpc_code(code) <= -32000);
        int status = err_exit_status(code);
        CHECK(status == 1 || status == 2 || status == 69 || status == 70 || status == 75);
        CHECK_INT(err_may_retry(code), status == 69 || status == 75);
        for (int other = 1; other < code; other++) {
            CHECK(strcmp(err_name(other), err_name(code)) != 0);
            CHECK(err_rpc_code(other) != err_rpc_code(code) || err_rpc_code(code) == -32603);
        }
        bool on_wire = code == ERR_INTERNAL || err_rpc_code(code) != -32603;
        CHECK_INT(err_from_rpc_code(err_rpc_code(code)), on_wire ? code : ERR_INTERNAL);
    }
    CHECK_INT(err_from_rpc_code(12345), ERR_INTERNAL);
    CHECK_INT(err_from_rpc_code(0), ERR_INTERNAL);
    CHECK_INT(err_from_rpc_code(INT64_C(-32700) - (INT64_C(1) << 32)), ERR_INTERNAL);
}

static void name_an_unknown_error(void)
{
    err_name(ERR_COUNT);
}

static void name_the_least_error(void)
{
    err_name(INT_MIN);
}

TEST(err_codes_outside_the_list_are_our_bug)
{
    CHECK(strstr(last_words(name_an_unknown_error), "broken invariant"));
    CHECK(strstr(last_words(name_the_least_error), "broken invariant"));
}

TEST(err_collects_data)
{
    struct err e = ERR_INIT;
    CHECK_INT(err_set(&e, ERR_INVALID_TURN, "the next turn is %d", 4), -ERR_INVALID_TURN);
    CHECK_INT(err_int(&e, "expectedTurn", 4), -ERR_INVALID_TURN);
    CHECK_INT(err_str(&e, "path", STR("a\"b")), -ERR_INVALID_TURN);
    CHECK_INT(e.code, ERR_INVALID_TURN);
    CHECK_Z(e.message, "the next turn is 4");
    CHECK_Z(e.data, "\"expectedTurn\":4,\"path\":\"a\\\"b\"");
    CHECK_INT(err_set(&e, ERR_NOT_FOUND, "x"), -ERR_NOT_FOUND);
    CHECK_Z(e.data, "");
}

TEST(err_may_be_null)
{
    CHECK_INT(err_set(NULL, ERR_IO, "%s", "x"), -ERR_IO);
    CHECK(err_int(NULL, "k", 1) < 0);
    CHECK(err_str(NULL, "k", STR("v")) < 0);
    CHECK(err_prefix(NULL, "p") < 0);
}

TEST(err_data_member_is_whole_or_absent)
{
    char text[ERR_DATA_BYTES * 2];
    memset(text, 'v', sizeof text);
    for (size_t n = 0; n <= sizeof text; n++) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_NOT_FOUND, "x");
        err_int(&e, "first", 1);
        err_str(&e, "k", (struct str){text, n});
        size_t need = strlen("\"first\":1,\"k\":\"\"") + n;
        CHECK_INT(strlen(e.data), need < ERR_DATA_BYTES ? need : strlen("\"first\":1"));
    }
}

TEST(err_message_is_always_utf8)
{
    char text[600];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t n = shift; n + 4 < sizeof text; n += 4)
            memcpy(text + n, "\xf0\x9f\x90\x99", 5);
        struct err e = ERR_INIT;
        err_set(&e, ERR_IO, "%s", text);
        CHECK(str_is_utf8(str_of(e.message)));
        CHECK_INT(strlen(e.message), ERR_MESSAGE_BYTES - 1);
        err_prefix(&e, "where");
        CHECK(str_is_utf8(str_of(e.message)));
        CHECK(strncmp(e.message, "where: ", 7) == 0);
    }
    struct err e = ERR_INIT;
    err_set(&e, ERR_IO, "caf\xe9.conf: \xc3\xa9 \xff\xfe");
    CHECK_Z(e.message, "caf?.conf: \xc3\xa9 ??");
}

TEST(err_prefix_keeps_code_and_data)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_CONFIG, "bad");
    err_int(&e, "line", 3);
    CHECK_INT(err_prefix(&e, "file.conf:%d", 3), -ERR_CONFIG);
    CHECK_Z(e.message, "file.conf:3: bad");
    CHECK_Z(e.data, "\"line\":3");
}

/* ---- backoff ---- */

TEST(backoff_doubles_up_to_its_maximum)
{
    struct backoff b = {0};
    int64_t want_ms = BACKOFF_FIRST_MS;
    for (int i = 0; i < 20; i++) {
        CHECK_INT(backoff_failed(&b, 7, 5000), want_ms);
        CHECK_INT(backoff_next_ms(&b, NULL), 5000 + want_ms);
        want_ms = MIN(2 * want_ms, (int64_t)BACKOFF_MAX_MS);
    }
    CHECK_INT(want_ms, BACKOFF_MAX_MS);
    backoff_worked(&b, 7);
    CHECK_INT(backoff_failed(&b, 7, 5000), BACKOFF_FIRST_MS);
    backoff_release(&b);
}

TEST(backoff_holds_until_its_time)
{
    struct backoff b = {0};
    CHECK(!backoff_holds(&b, 7, 0));
    backoff_worked(&b, 7); /* it never failed */
    backoff_failed(&b, 7, 5000);
    CHECK(backoff_holds(&b, 7, 5000 + BACKOFF_FIRST_MS - 1));
    CHECK(!backoff_holds(&b, 7, 5000 + BACKOFF_FIRST_MS));
    CHECK(!backoff_holds(&b, 8, 5000));
    backoff_worked(&b, 8);
    CHECK(backoff_holds(&b, 7, 5000));
    backoff_worked(&b, 7);
    CHECK(!backoff_holds(&b, 7, 5000));
    backoff_release(&b);
}

TEST(backoff_names_the_next_one)
{
    struct backoff b = {0};
    int64_t key = -1;
    CHECK_INT(backoff_next_ms(&b, &key), INT64_MAX);
    CHECK_INT(key, -1);
    backoff_failed(&b, 1, 5000);
    backoff_failed(&b, 2, 4000);
    backoff_failed(&b, 3, 5500);
    CHECK_INT(backoff_next_ms(&b, &key), 4000 + BACKOFF_FIRST_MS);
    CHECK_INT(key, 2);
    backoff_failed(&b, 2, 5000); /* waits twice as long now */
    CHECK_INT(backoff_next_ms(&b, &key), 5000 + BACKOFF_FIRST_MS);
    CHECK_INT(key, 1);
    backoff_worked(&b, 1);
    CHECK_INT(backoff_next_ms(&b, &key), 5500 + BACKOFF_FIRST_MS);
    CHECK_INT(key, 3);
    backoff_release(&b);
}

/* ---- fail points ---- */

/* The signal that ended a process which armed `spec` and passed the place `times` times; 0: none.
 */
static int signal_after(const char *spec, enum fail_point place, int times)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (fail_point_set(spec, NULL) < 0)
            _exit(1);
        for (int i = 0; i < times; i++)
            fail_point(place);
        _exit(0);
    }
    CHECK_INT(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    CHECK_INT(WEXITSTATUS(status), 0);
    return 0;
}

TEST(a_fail_point_kills_where_and_when_it_was_told)
{
    CHECK_INT(signal_after("tick.before_commit", FAIL_BEFORE_COMMIT, 1), SIGKILL);
    CHECK_INT(signal_after("tick.before_commit", FAIL_AFTER_COMMIT, 5), 0);
    CHECK_INT(signal_after("ladder.within_move:3", FAIL_WITHIN_MOVE, 2), 0);
    CHECK_INT(signal_after("ladder.within_move:3", FAIL_WITHIN_MOVE, 3), SIGKILL);
    CHECK_INT(signal_after(NULL, FAIL_BEFORE_COMMIT, 3), 0);
    CHECK_INT(signal_after("", FAIL_BEFORE_COMMIT, 3), 0);
    for (enum fail_point place = FAIL_POINT_NONE + 1; place < FAIL_POINT_COUNT; place++)
        CHECK_INT(signal_after("tick.after_commit", place, 1),
                  place == FAIL_AFTER_COMMIT ? SIGKILL : 0);
}

TEST(a_fail_point_that_is_none_is_refused)
{
    static const char *const bad[] = {"nowhere",
                                      "tick.before_commit:",
                                      "tick.before_commit:0",
                                      "tick.before_commit:-1",
                                      "tick.before_commit:x",
                                      ":1",
                                      ":",
                                      "tick.before_commit:1:2",
                                      "tick.before_commit "};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = ERR_INIT;
        if (fail_point_set(bad[i], &err) != -ERR_CONFIG)
            tap_fail(__FILE__, __LINE__, "\"%s\" is taken", bad[i]);
        CHECK(strstr(err.message, "REEVE_FAIL_POINT"));
        CHECK_INT(fail_point_armed, FAIL_POINT_NONE);
    }
}
