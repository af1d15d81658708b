/*
 * test_libreeve.c: what libreeve does without a server: order of calls, interruption, patience,
 * texts. With a server it is tests/scenario/test_wait_for_task.py.
 */
#include <reeve.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/macro.h"
#include "tap.h"

/* Nobody listens there: port 1 is refused at once. */
static struct reeve *nowhere(void)
{
    struct reeve *r = NULL;
    CHECK_INT(reeve_connect("http://127.0.0.1:1", "token", &r), REEVE_OK);
    return r;
}

TEST(a_url_that_is_none_makes_no_handle)
{
    struct reeve *r = NULL;
    CHECK_INT(reeve_connect("ftp://x", "token", &r), REEVE_MISUSE);
    CHECK_INT(reeve_connect("not a url", "token", &r), REEVE_MISUSE);
    CHECK_INT(reeve_connect_folder(NULL, &r), REEVE_MISUSE);
    CHECK(r == NULL);
    reeve_close(NULL);
}

TEST(a_server_that_is_away_makes_one)
{
    struct reeve *r = NULL;
    CHECK_INT(reeve_connect_folder("/no/such/folder", &r), REEVE_OK);
    reeve_set_patience(r, 0);
    CHECK_INT(reeve_join(r, 1, "a"), REEVE_UNREACHABLE);
    CHECK(strlen(reeve_error_text(r)) > 0);
    reeve_close(r);
}

TEST(calls_out_of_order)
{
    struct reeve *r = nowhere();
    CHECK_INT(reeve_wait(r, 0), REEVE_MISUSE);
    CHECK_INT(reeve_claim(r, 0), REEVE_MISUSE);
    CHECK_INT(reeve_start(r), REEVE_MISUSE);
    CHECK_INT(reeve_progress(r, NULL, NULL), REEVE_MISUSE);
    CHECK_INT(reeve_complete(r, NULL), REEVE_MISUSE);
    CHECK_INT(reeve_fail(r, NULL), REEVE_MISUSE);
    CHECK_INT(reeve_suspend(r, "[]"), REEVE_MISUSE);
    CHECK_INT(reeve_resume(r), REEVE_MISUSE);
    CHECK_INT(reeve_applied(r, 0), REEVE_MISUSE);
    CHECK_STR(str_of(reeve_results(r)), "[]");
    reeve_set_progress(r, 1, "nobody hears it");
    CHECK_INT(reeve_join(r, 0, "a"), REEVE_MISUSE);
    CHECK_INT(reeve_join(r, 1, NULL), REEVE_MISUSE);
    CHECK_INT(reeve_leave(r), REEVE_OK);
    CHECK_INT(reeve_news(r), REEVE_OK);
    CHECK_INT(reeve_task_number(r), 0);
    CHECK_STR(str_of(reeve_task_content(r)), "null");
    CHECK_STR(str_of(reeve_task_json(r)), "null");
    reeve_close(r);
}

TEST(patience_ends)
{
    struct reeve *r = nowhere();
    reeve_set_patience(r, 0);
    CHECK_INT(reeve_join(r, 1, "a"), REEVE_UNREACHABLE);
    CHECK_STR(str_of(reeve_error_name(r)), "NO_SERVER");
    CHECK_INT(reeve_join(r, 1, "a"), REEVE_MISUSE); /* the first one may have been heard */
    CHECK_INT(reeve_wait(r, 0), REEVE_UNREACHABLE);
    CHECK_INT(reeve_leave(r), REEVE_OK);
    CHECK_INT(reeve_join(r, 2, "b"), REEVE_UNREACHABLE);
    reeve_close(r);
}

static void count_line(void *ctx, const char *line)
{
    int *count = ctx;
    CHECK(strchr(line, '\n') == NULL);
    ++*count;
}

TEST(patience_of_a_while_tries_again_and_says_so_once)
{
    struct reeve *r = nowhere();
    int lines = 0;
    reeve_set_log(r, count_line, &lines);
    reeve_set_patience(r, 400);
    CHECK_INT(reeve_join(r, 1, "a"), REEVE_UNREACHABLE);
    CHECK_INT(lines, 1);
    reeve_close(r);
}

TEST(a_stop_descriptor_interrupts)
{
    struct reeve *r = nowhere();
    int fd = eventfd(1, EFD_CLOEXEC);
    reeve_set_stop_fd(r, fd);
    CHECK_INT(reeve_join(r, 1, "a"), REEVE_INTERRUPTED);
    CHECK_INT(reeve_wait(r, -1), REEVE_INTERRUPTED);
    CHECK_INT(reeve_leave(r), REEVE_OK);
    reeve_close(r);
    close(fd);
}

TEST(every_handle_has_a_name_of_its_own)
{
    struct reeve *a = nowhere(), *b = nowhere();
    CHECK_INT(strlen(reeve_connection_id(a)), 32);
    CHECK(strcmp(reeve_connection_id(a), reeve_connection_id(b)) != 0);
    CHECK(reeve_news_fd(a) >= 0 && reeve_news_fd(a) != reeve_news_fd(b));
    reeve_close(a);
    reeve_close(b);
}

TEST(every_result_has_a_text)
{
    const char *unknown = reeve_result_text(12345);
    for (int result = REEVE_MISUSE; result <= REEVE_RESUME; result++)
        CHECK(strcmp(reeve_result_text(result), unknown) != 0);
    CHECK(strlen(reeve_version()) > 0);
}
