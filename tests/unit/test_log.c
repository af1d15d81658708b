/*
 * test_log.c: what a line looks like, and that nobody can forge one.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "tap.h"

/* The log goes into a pipe; captured() is what has been written since the last call. */
static int pipe_fds[2];

static void capture_begin(bool as_journal)
{
    CHECK_INT(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
    struct stat st;
    CHECK_INT(fstat(pipe_fds[1], &st), 0);
    char stream[64];
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino + !as_journal);
    setenv("JOURNAL_STREAM", stream, 1);
    log_set_fd(pipe_fds[1]);
}

static const char *captured(void)
{
    static char text[8192];
    ssize_t n = read(pipe_fds[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

TEST(line_in_a_journal_has_no_time)
{
    capture_begin(true);
    log_info("store", "opened", "path=%s version=%d", "/x/reeve.db", 1);
    CHECK_Z(captured(), "info store opened path=/x/reeve.db version=1\n");
    log_warn("store", "slow", "ms=%d", 7);
    log_error("store", "lost", "%s", "");
    CHECK_Z(captured(), "warn store slow ms=7\nerror store lost\n");
}

static void check_stamped(const char *line, const char *rest)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd.dddZ ";
    for (size_t i = 0; shape[i]; i++)
        CHECK(shape[i] == 'd' ? line[i] >= '0' && line[i] <= '9' : line[i] == shape[i]);
    CHECK_Z(line + strlen(shape), rest);
}

TEST(line_elsewhere_has_a_time)
{
    capture_begin(false); /* JOURNAL_STREAM is set, but it is not this stream */
    log_info("a", "b", "c=%d", 1);
    check_stamped(captured(), "info a b c=1\n");
    unsetenv("JOURNAL_STREAM");
    log_set_fd(pipe_fds[1]);
    log_info("a", "b", "c=%d", 2);
    check_stamped(captured(), "info a b c=2\n");
}

TEST(levels_filter)
{
    capture_begin(true);
    log_debug("a", "b", "n=%d", 1);
    CHECK_Z(captured(), "");
    log_set_level(LOG_DEBUG);
    log_debug("a", "b", "n=%d", 2);
    CHECK_Z(captured(), "debug a b n=2\n");
    log_set_level(LOG_ERROR);
    log_warn("a", "b", "n=%d", 3);
    log_error("a", "b", "n=%d", 4);
    CHECK_Z(captured(), "error a b n=4\n");
}

TEST(no_value_can_forge_a_line)
{
    capture_begin(true);
    log_info("a", "b", "v=%s", "x\nerror store lost\r\t\x1b[2J\x7f");
    CHECK_Z(captured(), "info a b v=x\\x0aerror store lost\\x0d\\x09\\x1b[2J\\x7f\n");
    log_info("a", "b", "v=%s",
             "\xc2\x9b"
             "2J \xc2\xa0 \xc3\xa4 \xff \xe2\x82");
    CHECK_Z(captured(), "info a b v=\\xc2\\x9b2J \xc2\xa0 \xc3\xa4 \\xff \\xe2\\x82\n");
    for (int c = 1; c < 256; c++) {
        log_info("a", "b", "v=%c", c);
        const char *line = captured();
        for (size_t i = 0; line[i + 1]; i++)
            CHECK((unsigned char)line[i] >= 0x20 && (unsigned char)line[i] < 0x7F);
        CHECK(line[strlen(line) - 1] == '\n');
    }
}

static void check_cut(const char *line)
{
    size_t n = strlen(line);
    CHECK(n <= 1024 && n > 1000);
    CHECK_Z(line + n - 4, "...\n");
    CHECK(str_is_utf8((struct str){line, n}));
    CHECK(strchr(line, '\n') == line + n - 1);
}

TEST(long_lines_are_cut_and_say_so)
{
    static const char *const fillers[] = {"x", "\n", "\xc3\xa4", "\xf0\x9f\x90\x99", "\xff"};
    capture_begin(true);
    for (size_t i = 0; i < ARRAY_LEN(fillers); i++) {
        for (size_t shift = 0; shift < 5; shift++) {
            char text[3000] = "";
            memset(text, '.', shift);
            size_t each = strlen(fillers[i]);
            for (size_t n = shift; n + each < sizeof text; n += each)
                memcpy(text + n, fillers[i], each + 1);
            log_info("a", "b", "v=%s", text);
            check_cut(captured());
        }
    }
}

TEST(longest_line_is_1024_bytes)
{
    capture_begin(true);
    for (int n = 950; n < 1100; n++) {
        log_info("a", "b", "%*d", n, 1);
        const char *line = captured();
        CHECK(strlen(line) <= 1024);
        CHECK_Z(line + strlen(line) - 2, n < 1012 ? "1\n" : ".\n");
    }
}

TEST(errno_survives)
{
    capture_begin(true);
    errno = EXDEV;
    log_info("a", "b", "n=%d", 1);
    CHECK_INT(errno, EXDEV);
    log_set_fd(9999); /* nobody to take it: lost without a trace */
    log_info("a", "b", "n=%d", 2);
    CHECK_INT(errno, EXDEV);
}

TEST(quote)
{
    CHECK_Z(log_quote(STR("")), "\"\"");
    CHECK_Z(log_quote(STR_NONE), "\"\"");
    CHECK_Z(log_quote(STR("plain text")), "\"plain text\"");
    CHECK_Z(log_quote(STR("a\"b\\c")), "\"a\\\"b\\\\c\"");
    CHECK_Z(log_quote(STR("a\nb\0c")), "\"a\\x0ab\\x00c\"");
    CHECK_Z(log_quote(STR("\xc3\xa4\xc2\x85\xc3")), "\"\xc3\xa4\\xc2\\x85\\xc3\"");
}

TEST(quote_is_cut_at_120_bytes)
{
    char text[300];
    memset(text, 'x', sizeof text);
    for (size_t n = 0; n <= sizeof text; n++) {
        const char *q = log_quote((struct str){text, n});
        CHECK(strlen(q) == (n <= 115 ? n + 2 : 120));
        CHECK_Z(q + strlen(q) - 1, "\"");
        CHECK((strstr(q, "...") != NULL) == (n > 115));
    }
    memset(text, '"', sizeof text); /* an escape is whole or absent */
    const char *q = log_quote((struct str){text, sizeof text});
    CHECK(strlen(q) <= 120);
    CHECK_Z(q + strlen(q) - 6, "\\\"...\"");
}

TEST(quote_keeps_eight)
{
    const char *q[8];
    for (int i = 0; i < 8; i++) {
        char c = (char)('a' + i);
        q[i] = log_quote((struct str){&c, 1});
    }
    for (int i = 0; i < 8; i++)
        CHECK(q[i][1] == 'a' + i);
    CHECK(log_quote(STR("z")) == q[0]);
}

enum { THREADS = 4, LINES_EACH = 200 };

static void *write_lines(void *arg)
{
    char text[400];
    memset(text, *(const char *)arg, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < LINES_EACH; i++)
        log_info("t", "l", "v=%s", text);
    return NULL;
}

TEST(lines_of_threads_do_not_mix)
{
    char path[64];
    snprintf(path, sizeof path, "%s/log", tap_folder());
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    log_set_fd(fd);
    static char letters[THREADS] = "abcd";
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, write_lines, &letters[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    FILE *in = fopen(path, "re");
    char line[2048];
    int lines = 0;
    while (fgets(line, sizeof line, in)) {
        const char *v = strstr(line, " info t l v=");
        CHECK(v && v - line == 24);
        v += strlen(" info t l v=");
        CHECK_INT(strspn(v, (char[]){v[0], '\0'}), 399);
        CHECK_Z(v + 399, "\n");
        lines++;
    }
    CHECK_INT(lines, THREADS * LINES_EACH);
    fclose(in);
    close(fd);
}
