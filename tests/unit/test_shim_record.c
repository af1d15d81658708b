/* test_shim_record.c: what goes between machine and shim comes back as it was. */
#include <stdlib.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"
#include "machine/order.h"
#include "machine/record.h"
#include "machine/shim_tail.h"
#include "tap.h"

static struct order some_order(void)
{
    static const char *argv[] = {"prog", "two words", "", "\xC3\xBC\n\"", NULL};
    static const char *env[] = {"PATH=/bin", "REEVE_SPAWN=s", NULL};
    return (struct order){.spawn_id = "s",
                          .folder = "/f",
                          .argv = argv,
                          .env = env,
                          .cwd = "/w",
                          .log = "/l",
                          .log_bytes_max = INT64_C(1) << 40,
                          .stop_grace_ms = 5000,
                          .cgroup = "/c"};
}

static void check_list(const char **got, const char **want)
{
    for (; *want; got++, want++)
        CHECK_Z(*got, *want);
    CHECK(*got == NULL);
}

TEST(an_order_comes_back_as_it_was)
{
    struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf text = BUF_INIT(ORDER_BYTES_MAX);
    struct order o = some_order(), got;
    order_write(&o, &text);
    CHECK_INT(order_parse(&a, buf_str(&text), &got, NULL), 0);
    CHECK_Z(got.spawn_id, o.spawn_id);
    CHECK_Z(got.folder, o.folder);
    CHECK_Z(got.cwd, o.cwd);
    CHECK_Z(got.log, o.log);
    CHECK_Z(got.cgroup, o.cgroup);
    CHECK_INT(got.log_bytes_max, o.log_bytes_max);
    CHECK_INT(got.stop_grace_ms, o.stop_grace_ms);
    check_list(got.argv, o.argv);
    check_list(got.env, o.env);
    arena_release(&a);
}

TEST(an_order_without_a_cgroup)
{
    struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf text = BUF_INIT(ORDER_BYTES_MAX);
    struct order o = some_order(), got;
    o.cgroup = NULL;
    order_write(&o, &text);
    CHECK_INT(order_parse(&a, buf_str(&text), &got, NULL), 0);
    CHECK(got.cgroup == NULL);
    arena_release(&a);
}

TEST(an_order_that_is_none)
{
    static const char *const texts[] = {"", "{", "[]", "1", "{}", "{\"spawnId\":1}"};
    struct arena a = ARENA_INIT;
    struct order got = {.spawn_id = "untouched"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err err = ERR_INIT;
        CHECK(order_parse(&a, str_of(texts[i]), &got, &err) < 0);
        CHECK(err.message[0]);
    }
    CHECK_Z(got.spawn_id, "untouched");
    arena_release(&a);
}

/* "\u0000" is JSON; in what becomes a C string it would cut off the rest. */
TEST(an_order_with_nul_in_it_is_refused)
{
#define ORDER(folder, argument)                                                                \
    STR("{\"spawnId\":\"s\",\"folder\":\"" folder "\",\"argv\":[\"" argument "\"],\"env\":[]," \
        "\"cwd\":\"/\",\"log\":\"/l\",\"logBytesMax\":1,\"stopGraceMs\":1}")
    struct arena a = ARENA_INIT;
    struct order got;
    CHECK_INT(order_parse(&a, ORDER("/f", "a"), &got, NULL), 0);
    CHECK_INT(order_parse(&a, ORDER("/f\\u0000x", "a"), &got, NULL), -ERR_CONFIG);
    CHECK_INT(order_parse(&a, ORDER("/f", "a\\u0000"), &got, NULL), -ERR_CONFIG);
#undef ORDER
    arena_release(&a);
}

TEST(seen_comes_back_as_it_was)
{
    struct seen s = {.shim = {1, 2}, .agent = {3, INT64_C(1) << 40}}, got;
    memset(s.boot_id, 'b', sizeof s.boot_id - 1);
    CHECK_INT(seen_read(tap_folder(), &got, NULL), -ERR_NOT_FOUND);
    CHECK_INT(seen_write(tap_folder(), &s, NULL), 0);
    CHECK_INT(seen_read(tap_folder(), &got, NULL), 0);
    CHECK_Z(got.boot_id, s.boot_id);
    CHECK_INT(got.shim.pid, 1);
    CHECK_INT(got.shim.start_time, 2);
    CHECK_INT(got.agent.pid, 3);
    CHECK_INT(got.agent.start_time, INT64_C(1) << 40);
}

/* The longest there can be fits: a tail in which every byte needs a backslash. */
TEST(the_last_word_comes_back_as_it_was_however_long)
{
    struct arena a = ARENA_INIT;
    char quotes[RECORD_TAIL_BYTES_MAX];
    memset(quotes, '"', sizeof quotes);
    struct ended e = {.ending = ENDING_STOPPED,
                      .code = -1,
                      .signal = 9,
                      .has_core = true,
                      .is_oom = true,
                      .text = STR("killed"),
                      .tail = {quotes, sizeof quotes},
                      .at_ms = 1794735000123},
                 got;
    CHECK_INT(ended_read(&a, tap_folder(), &got, NULL), -ERR_NOT_FOUND);
    CHECK_INT(ended_write(tap_folder(), &e, NULL), 0);
    CHECK_INT(ended_read(&a, tap_folder(), &got, NULL), 0);
    CHECK_INT(got.ending, ENDING_STOPPED);
    CHECK_INT(got.code, -1);
    CHECK_INT(got.signal, 9);
    CHECK(got.has_core && got.is_oom);
    CHECK_STR(got.text, "killed");
    CHECK(str_eq(got.tail, e.tail));
    CHECK_INT(got.at_ms, e.at_ms);
    arena_release(&a);
}

/* ---- the tail ---- */

/* Until the next call. */
static const char *tail_of(const struct shim_tail *t)
{
    static char text[RECORD_TAIL_BYTES_MAX + 1];
    _cleanup_buf_ struct buf out = BUF_INIT(RECORD_TAIL_BYTES_MAX);
    shim_tail_write(t, &out);
    CHECK(!out.overflow && str_is_utf8(buf_str(&out)));
    snprintf(text, sizeof text, "%.*s", STR_ARG(buf_str(&out)));
    return text;
}

TEST(a_short_tail_is_whole)
{
    struct shim_tail t = {0};
    CHECK_Z(tail_of(&t), "");
    shim_tail_add(&t, STR("one"));
    shim_tail_add(&t, STR(""));
    shim_tail_add(&t, STR("two\tthree"));
    CHECK_Z(tail_of(&t), "one\n\ntwo\tthree\n");
}

TEST(a_tail_of_any_lengths_is_of_the_last_lines)
{
    struct shim_tail t = {0};
    char line[3 * RECORD_TAIL_BYTES_MAX];
    memset(line, 'a', sizeof line);
    for (size_t n = 0; n < sizeof line; n += 97) {
        shim_tail_add(&t, (struct str){line, n});
        shim_tail_add(&t, STR("last"));
        const char *tail = tail_of(&t);
        size_t len = strlen(tail);
        CHECK(len <= RECORD_TAIL_BYTES_MAX && len >= 5);
        CHECK_Z(tail + len - 5, "last\n");
    }
}

TEST(what_is_no_text_becomes_a_question_mark)
{
    struct shim_tail t = {0};
    shim_tail_add(&t,
                  STR("\x01\x7f\x1b \xff \xc3 \xc3\xa9 \xe2\x82 \xed\xa0\x80 \xf0\x9f\x98\x80"));
    CHECK_Z(tail_of(&t), "??? ? ? \xc3\xa9 ?? ??? \xf0\x9f\x98\x80\n");
}
