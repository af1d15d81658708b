/*
 * test_cli.c: the command line: option parser, verb table, sanitiser, calls and streams against a
 * fake server, exit statuses.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/macro.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/dispatch.h"
#include "cli/help.h"
#include "cli/print.h"
#include "cli/suggest.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "client/client.h"
#include "client/endpoint.h"
#include "tap.h"

/* The row of `serve` needs a function; the real one would bring the whole server along. */
__attribute__((weak)) int cmd_serve(const struct cli_args *args, struct err *err)
{
    (void)args;
    return err_set(err, ERR_INTERNAL, "no server in this test");
}

/* Where success is asked for, nobody reads the error. */
static struct err ignored;

/* ---- option parser ---- */

// clang-format off
static const struct verb_option toy_options[] = {
    {"as", 0, "AGENT", ARG_REQUIRED, "who"},
    {"attach", 0, "FILE", ARG_REPEAT, "what"},
    {"final", 0, "turn|conversation", 0, "how"},
    {"follow", 'f', NULL, 0, "go on"},
    {"turn", 0, "N", 0, "which"},
    OPTIONS_END,
};
// clang-format on

static const struct verb toy = {
    .name = "toy",
    .synopsis = "CONVERSATION [TEXT]",
    .summary = "a verb for tests",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = toy_options,
};

#define PARSE(args, err, ...)                                         \
    ({                                                                \
        const char *argv_[] = {__VA_ARGS__};                          \
        cli_parse(&toy, ARRAY_LEN(argv_), (char **)argv_, args, err); \
    })

/* Parsing fails as wrong usage, and the message says `hint`. */
#define REFUSES(hint, ...)                                                                \
    do {                                                                                  \
        struct cli_args a_ = CLI_ARGS_INIT;                                               \
        struct err e_ = ERR_INIT;                                                         \
        CHECK_INT(PARSE(&a_, &e_, __VA_ARGS__), -ERR_USAGE);                              \
        CHECK_INT(err_exit_status(e_.code), 2);                                           \
        if (!strstr(e_.message, hint))                                                    \
            tap_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", e_.message, hint); \
    } while (0)

TEST(options_in_every_form)
{
    _cleanup_(cli_args_release) struct cli_args a = CLI_ARGS_INIT;
    struct err err = ERR_INIT;
    CHECK_INT(PARSE(&a, &err, "12", "--as", "me", "--final=turn", "-f", "--json", "hello"), 0);
    CHECK_INT(a.word_count, 2);
    CHECK_Z(a.words[0], "12");
    CHECK_Z(a.words[1], "hello");
    CHECK_Z(cli_value(&a, "as"), "me");
    CHECK_Z(cli_value(&a, "final"), "turn");
    CHECK(cli_flag(&a, "follow") && cli_flag(&a, "json") && !cli_flag(&a, "help"));
    CHECK(cli_value(&a, "turn") == NULL);
}

TEST(options_the_last_of_a_single_one_wins)
{
    _cleanup_(cli_args_release) struct cli_args a = CLI_ARGS_INIT;
    CHECK_INT(PARSE(&a, &ignored, "1", "--as=me", "--turn=1", "--as=you"), 0);
    CHECK_Z(cli_value(&a, "as"), "you");
    CHECK_Z(cli_value(&a, "turn"), "1");
}

TEST(options_repeat_in_order)
{
    _cleanup_(cli_args_release) struct cli_args a = CLI_ARGS_INIT;
    size_t cursor = 0;
    CHECK_INT(PARSE(&a, &ignored, "--attach", "x", "1", "--as=me", "--attach=y"), 0);
    CHECK_Z(cli_next(&a, "attach", &cursor), "x");
    CHECK_Z(cli_next(&a, "attach", &cursor), "y");
    CHECK(cli_next(&a, "attach", &cursor) == NULL);
}

TEST(options_end_at_two_dashes_and_a_dash_is_a_word)
{
    _cleanup_(cli_args_release) struct cli_args a = CLI_ARGS_INIT, b = CLI_ARGS_INIT;
    CHECK_INT(PARSE(&a, &ignored, "--as=me", "1", "--", "--final"), 0);
    CHECK_Z(a.words[1], "--final");
    CHECK(cli_value(&a, "final") == NULL);
    CHECK_INT(PARSE(&b, &ignored, "--as=me", "1", "-"), 0);
    CHECK_Z(b.words[1], "-");
}

TEST(options_values_may_be_empty_or_begin_with_dashes)
{
    _cleanup_(cli_args_release) struct cli_args a = CLI_ARGS_INIT;
    CHECK_INT(PARSE(&a, &ignored, "1", "--as=", "--attach", "--x", "--attach=a=b"), 0);
    size_t cursor = 0;
    CHECK_Z(cli_value(&a, "as"), "");
    CHECK_Z(cli_next(&a, "attach", &cursor), "--x");
    CHECK_Z(cli_next(&a, "attach", &cursor), "a=b");
}

TEST(options_wrong_usage_is_named)
{
    REFUSES("did you mean --final?", "1", "--as=me", "--finl=turn");
    REFUSES("no option --frobnicate; see 'reeve help toy'", "1", "--as=me", "--frobnicate=x");
    REFUSES("no option -x", "1", "--as=me", "-x");
    REFUSES("no option -fx", "1", "--as=me", "-fx");
    REFUSES("no option --fin", "1", "--as=me", "--fin"); /* no abbreviations */
    REFUSES("no option --", "1", "--as=me", "--=x");
    REFUSES("--as needs a value: AGENT", "1", "--as");
    REFUSES("--follow takes no value", "1", "--as=me", "--follow=yes");
    REFUSES("one of turn|conversation, not 'tur'", "1", "--as=me", "--final=tur");
    REFUSES("one of turn|conversation", "1", "--as=me", "--final=");
    REFUSES("--as AGENT is missing", "1");
    REFUSES("CONVERSATION is missing", "--as=me");
    REFUSES("'3' is one word too many", "1", "2", "3", "--as=me");
}

TEST(options_help_needs_nothing_else)
{
    _cleanup_(cli_args_release) struct cli_args a = CLI_ARGS_INIT, b = CLI_ARGS_INIT;
    CHECK_INT(PARSE(&a, &ignored, "--help"), 0);
    CHECK(cli_flag(&a, "help"));
    CHECK_INT(PARSE(&b, &ignored, "-h"), 0);
    CHECK(cli_flag(&b, "help"));
}

TEST(options_numbers)
{
    _cleanup_(cli_args_release) struct cli_args a = CLI_ARGS_INIT, b = CLI_ARGS_INIT;
    struct err err = ERR_INIT;
    int64_t n = 7;
    CHECK_INT(PARSE(&a, &ignored, "1", "--as=me"), 0);
    CHECK_INT(cli_int(&a, "turn", 1, &n, &err), 0);
    CHECK_INT(n, 7);
    CHECK_INT(PARSE(&b, &ignored, "1", "--as=me", "--turn=3"), 0);
    CHECK_INT(cli_int(&b, "turn", 1, &n, &err), 1);
    CHECK_INT(n, 3);
    CHECK_INT(cli_int(&b, "turn", 4, &n, &err), -ERR_USAGE);
    CHECK_INT(cli_conversation("0", &n, &err), 0);
    CHECK_INT(cli_conversation("-1", &n, &err), -ERR_USAGE);
    CHECK_INT(cli_conversation("12x", &n, &err), -ERR_USAGE);
    CHECK_INT(cli_conversation("99999999999999999999", &n, &err), -ERR_USAGE);
}

/* ---- the verb table ---- */

static void check_options(const struct verb *verb)
{
    const struct verb_option *tables[VERB_TABLES];
    size_t n = verb_tables(verb, tables);
    for (size_t i = 0; i < n; i++)
        for (const struct verb_option *o = tables[i]; o->name; o++) {
            CHECK(o->help && *o->help);
            CHECK(o->value || !(o->flags & (ARG_REPEAT | ARG_REQUIRED)));
            /* Found by its own name: no other row, no shared table hides it. */
            CHECK(verb_option_find(verb, str_of(o->name)) == o);
        }
}

TEST(verbs_every_row_is_complete_and_documented)
{
    _cleanup_buf_ struct buf help = BUF_INIT(HELP_BYTES_MAX), manual = BUF_INIT(HELP_BYTES_MAX);
    help_write_overview(&help);
    cli_write_markdown(&manual);
    CHECK(!help.overflow && !manual.overflow);
    for (const struct verb *const *v = cli_verbs; *v; v++) {
        CHECK((*v)->name && (*v)->synopsis && (*v)->summary && (*v)->run);
        CHECK((strstr(help.data, (*v)->summary) == NULL) == !!((*v)->flags & VERB_HIDDEN));
        _cleanup_free_ char *title = mem_printf("\n## reeve %s\n", (*v)->name);
        CHECK(strstr(manual.data, title) != NULL);
        check_options(*v);
    }
}

TEST(verbs_are_found_by_one_word_or_two)
{
    char *send[] = {(char *)"send", (char *)"1"};
    char *show[] = {(char *)"conversation", (char *)"show", (char *)"1"};
    int words = 0;
    CHECK(verb_find(2, send, &words) == &verb_send);
    CHECK_INT(words, 1);
    CHECK(verb_find(3, show, &words) == &verb_conversation_show);
    CHECK_INT(words, 2);
    CHECK(verb_find(1, show, &words) == NULL);
}

TEST(verbs_are_suggested_among_their_own)
{
    CHECK(verb_nearest(STR(""), STR("sned")) == &verb_send);
    CHECK(verb_nearest(STR(""), STR("xyzzy")) == NULL);
    CHECK(verb_nearest(STR("agent"), STR("ls")) == &verb_agent_list);
    CHECK(verb_nearest(STR("agent"), STR("kill")) == &verb_agent_stop);
    CHECK(verb_nearest(STR("task"), STR("crate")) == &verb_task_create);
    CHECK(verb_nearest(STR("task"), STR("get")) == &verb_task_show);
    CHECK(verb_nearest(STR("agent"), STR("create")) == NULL);
    CHECK_STR(verb_nearest_group(STR("agnet")), "agent");
    CHECK_INT(verb_nearest_group(STR("xyzzy")).n, 0);
}

TEST(suggest_counts_slips)
{
    CHECK_INT(suggest_distance(STR("final"), STR("final")), 0);
    CHECK_INT(suggest_distance(STR("finl"), STR("final")), 1);
    CHECK_INT(suggest_distance(STR("fianl"), STR("final")), 2);
    CHECK_INT(suggest_distance(STR(""), STR("final")), SUGGEST_DISTANCE_MAX + 1);
}

/* ---- the sanitiser ---- */

static void check_clean(struct str text, size_t chars_max, const char *want)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    print_clean(&b, text, chars_max);
    CHECK_STR(buf_str(&b), want);
}

TEST(clean_text_cannot_command_a_terminal)
{
    check_clean(STR("plain ü 漢 🙂"), 0, "plain ü 漢 🙂");
    check_clean(STR("\x1b]0;title\a"), 0, "\\x1b]0;title\\x07");
    check_clean(STR("\x1b[2J"), 0, "\\x1b[2J");
    check_clean(STR("a\nb\tc\rd"), 0, "a b c d");
    check_clean(STR("\b\x7f"), 0, "\\x08\\x7f");
    check_clean(STR("\xC2\x9B"
                    "31m"),
                0, "\\x9b31m"); /* C1: one character that means ESC [ */
    check_clean(STR("\xE2\x80\xAE"
                    "gnp"),
                0, "\\u202egnp"); /* right-to-left override */
    check_clean(STR("\xE2\x81\xA6\xE2\x80\xA8"), 0, "\\u2066\\u2028");
    check_clean((struct str){"a\0b", 3}, 0, "a\\x00b");
}

TEST(clean_text_of_broken_utf8)
{
    check_clean(STR("\x9b"), 0, "\xEF\xBF\xBD");
    check_clean(STR("a\xC3"), 0, "a\xEF\xBF\xBD");
    check_clean(STR("\xC0\x9B"), 0, "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(clean_text_is_cut_by_characters)
{
    check_clean(STR("äöü"), 3, "äöü");
    check_clean(STR("äöüß"), 3, "äöü…");
}

TEST(clean_json_means_the_same)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    const struct json *in, *out;
    struct str text = STR("{ \"k\": \"\xC2\x9B\x7F\xE2\x80\xAE\\u001b ü\" }");
    CHECK_INT(json_parse(&a, text, 8, &in, &ignored), 0);
    print_json(&b, in);
    CHECK_STR(buf_str(&b), "{\"k\":\"\\u009b\\u007f\\u202e\\u001b ü\"}");
    CHECK_INT(json_parse(&a, buf_str(&b), 8, &out, &ignored), 0);
    CHECK(str_eq(json_get(in, "k")->string, json_get(out, "k")->string));
}

static void check_event(const char *text, const char *want)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    const struct json *event;
    CHECK_INT(json_parse(&a, str_of(text), 16, &event, &ignored), 0);
    print_event(&b, event);
    CHECK_STR(buf_str(&b), want);
}

#define EVENT(type, finality, agent, payload)                                            \
    "{\"id\":9,\"conversation\":12,\"turn\":3,\"event\":1,\"seq\":4,"                    \
    "\"ts\":\"2026-11-15T09:30:00.123Z\",\"type\":\"" type "\",\"finality\":\"" finality \
    "\",\"agentId\":\"" agent "\",\"payload\":" payload "}"

TEST(event_lines)
{
    unsetenv("COLUMNS");
    check_event(EVENT("message", "turn", "builder", "{\"text\":\"two\\nlines\\u001b[31m\"}"),
                "2026-11-15T09:30:00.123Z 12:3.1 builder   message/turn two lines\\x1b[31m\n");
    check_event(EVENT("message", "conversation", "a",
                      "{\"text\":\"bye\",\"attachments\":[{},{}],"
                      "\"outcome\":{\"status\":\"failed\",\"reason\":\"no\"}}"),
                "2026-11-15T09:30:00.123Z 12:3.1 a         message/conversation "
                "bye (+2 attached) [failed: no]\n");
    check_event(EVENT("trace", "none", "a\\u001b", "{\"type\":\"thought\",\"text\":\"hm\"}"),
                "2026-11-15T09:30:00.123Z 12:3.1 a\\x1b     trace        thought: hm\n");
    check_event(EVENT("trace", "none", "a", "{\"type\":\"tool_call\",\"name\":\"ls\",\"n\":1}"),
                "2026-11-15T09:30:00.123Z 12:3.1 a         trace        "
                "tool_call: name=\"ls\" n=1\n");
    check_event(EVENT("system", "none", "system", "{\"kind\":\"k\",\"data\":{\"a\":1}}"),
                "2026-11-15T09:30:00.123Z 12:3.1 system    system       k {\"a\":1}\n");
    check_event(EVENT("system", "none", "system",
                      "{\"kind\":\"agent.state\",\"data\":{\"agent\":\"12:a\",\"status\":"
                      "\"waiting\",\"reason\":\"joined\"}}"),
                "2026-11-15T09:30:00.123Z 12:3.1 system    system       agent.state 12:a is waiting"
                " (joined)\n");
    check_event(EVENT("system", "none", "system",
                      "{\"kind\":\"agent.state\",\"data\":{\"agent\":\"12:a\"}}"),
                "2026-11-15T09:30:00.123Z 12:3.1 system    system       agent.state"
                " {\"agent\":\"12:a\"}\n"); /* as it is, if something is missing */
}

TEST(event_lines_of_nonsense_are_harmless)
{
    check_event("{}", "                         -1:-1.-1                        -\n");
    check_event("[]", "                         -1:-1.-1                        -\n");
}

TEST(tables_align_by_characters)
{
    unsetenv("COLUMNS");
    _cleanup_(table_release) struct table t = TABLE(2);
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    table_cellz(&t, "A");
    table_cellz(&t, "B");
    table_cellz(&t, "äöü");
    table_cellz(&t, "x\x1b");
    table_write(&t, &b);
    CHECK_STR(buf_str(&b), "A    B\näöü  x\\x1b\n");
}

TEST(tables_fit_the_screen)
{
    setenv("COLUMNS", "24", 1);
    _cleanup_(table_release) struct table t = TABLE(3);
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    table_cellz(&t, "AGENT");
    table_cellz(&t, "WHAT");
    table_cellz(&t, "PID");
    table_cellz(&t, "1:ännä");
    table_cellz(&t, "a text that is much too long for it");
    table_cellz(&t, "12");
    table_write(&t, &b);
    CHECK_STR(buf_str(&b), "AGENT   WHAT         PID\n1:ännä  a text tha…  12\n");
    setenv("COLUMNS", "what", 1); /* no number: as if it were not there */
    buf_clear(&b);
    table_write(&t, &b);
    CHECK(strstr(b.data, "much too long for it") != NULL);
}

TEST(tables_of_many_columns_are_cut_at_the_edge)
{
    setenv("COLUMNS", "20", 1);
    _cleanup_(table_release) struct table t = TABLE(9);
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    for (int i = 0; i < 9; i++)
        table_cellz(&t, "wide cell");
    table_write(&t, &b);
    CHECK_STR(buf_str(&b), "wid…  wid…  wid…  w…\n");
}

TEST(event_lines_are_broken_at_the_edge_of_the_screen)
{
    setenv("COLUMNS", "60", 1);
    check_event(EVENT("message", "turn", "a", "{\"text\":\"one two three four\"}"),
                "2026-11-15T09:30:00.123Z 12:3.1 a         message/turn one\n"
                "    two three four\n");
    setenv("COLUMNS", "30", 1); /* a word that no line can hold */
    check_event(EVENT("message", "turn", "a", "{\"text\":\"0123456789012345678901234567890\"}"),
                "2026-11-15T09:30:00.123Z\n    12:3.1 a        \n    message/turn\n"
                "    01234567890123456789012345\n    67890\n");
}

/* ---- a server that answers from a list ---- */

enum { REQUEST_BYTES = 4096, REQUESTS_MAX = 8 };

struct fake {
    int listener;
    char url[64];
    const char *const *answers; /* one per connection; NULL ends it */
    char requests[REQUESTS_MAX][REQUEST_BYTES];
    pthread_t thread;
};

/* The head, and a body if its length is given. */
static void read_request(int fd, char *ret)
{
    size_t have = 0;
    for (;;) {
        ssize_t n = read(fd, ret + have, REQUEST_BYTES - 1 - have);
        if (n <= 0)
            return;
        have += (size_t)n;
        ret[have] = '\0';
        const char *end = strstr(ret, "\r\n\r\n"), *length = strstr(ret, "Content-Length: ");
        if (end && have >= (size_t)(end + 4 - ret) + (length ? strtoul(length + 16, NULL, 10) : 0))
            return;
    }
}

static void *fake_run(void *arg)
{
    struct fake *f = arg;
    for (size_t i = 0; f->answers[i]; i++) {
        int fd = accept(f->listener, NULL, NULL);
        read_request(fd, f->requests[i]);
        const char *p = f->answers[i];
        size_t left = strlen(p);
        for (ssize_t n; left && (n = send(fd, p, left, MSG_NOSIGNAL)) > 0; left -= (size_t)n)
            p += n;
        close(fd);
    }
    close(f->listener);
    return NULL;
}

static void fake_start(struct fake *f, const char *const *answers)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    *f = (struct fake){.answers = answers, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    CHECK(bind(f->listener, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(listen(f->listener, 8) == 0);
    CHECK(getsockname(f->listener, (struct sockaddr *)&at, &size) == 0);
    snprintf(f->url, sizeof f->url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    CHECK(pthread_create(&f->thread, NULL, fake_run, f) == 0);
}

static struct client *client_of(const char *url)
{
    struct endpoint_source source = {.server = url, .env_token = "secret"};
    struct client *client = NULL;
    CHECK_INT(client_open(&source, &client, &ignored), 0);
    return client;
}

#define HTTP(status, type, body) \
    "HTTP/1.1 " status "\r\nContent-Type: " type "\r\nConnection: close\r\n\r\n" body
#define ANSWER(body) HTTP("200 OK", "application/json", body)
#define STREAM(body) HTTP("200 OK", "text/event-stream", body)

/* One call against one answer. */
static int call_once(const char *answer, struct arena *a, const struct json **ret, struct err *err)
{
    const char *answers[] = {answer, NULL};
    struct fake *f = mem_zalloc(sizeof *f);
    fake_start(f, answers);
    struct client *client = client_of(f->url);
    int r = client_call(client, "x.y", STR("{\"a\":1}"), a, ret, err);
    pthread_join(f->thread, NULL);
    CHECK(strstr(f->requests[0], "POST /rpc HTTP/1.1\r\n") == f->requests[0]);
    CHECK(strstr(f->requests[0], "Authorization: Bearer secret\r\n") != NULL);
    CHECK(strstr(f->requests[0], "\"method\":\"x.y\",\"params\":{\"a\":1}}") != NULL);
    client_close(client);
    free(f);
    return r;
}

TEST(client_call_gives_the_result)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *result = NULL;
    CHECK_INT(call_once(ANSWER("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":5}}"), &a, &result,
                        &ignored),
              0);
    CHECK_INT(json_get_int(result, "n", 0), 5);
}

TEST(client_call_carries_the_servers_error)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *result = NULL;
    struct err err = ERR_INIT;
    CHECK_INT(call_once(ANSWER("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32012,"
                               "\"message\":\"not now\",\"data\":{\"name\":\"INVALID_TURN\","
                               "\"expectedTurn\":4,\"s\":\"x\"}}}"),
                        &a, &result, &err),
              -ERR_INVALID_TURN);
    CHECK_Z(err.message, "not now");
    CHECK_Z(err.data, "\"expectedTurn\":4,\"s\":\"x\"");
    CHECK(result == NULL);
}

TEST(client_call_understands_http_statuses)
{
    static const struct {
        const char *answer;
        int code, exit_status;
    } cases[] = {
        {HTTP("401 Unauthorized", "text/plain", "no"), ERR_UNAUTHENTICATED, 1},
        {HTTP("401 Unauthorized", "application/json",
              "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32021,\"message\":\"no\"}}"),
         ERR_UNAUTHENTICATED, 1},
        {HTTP("503 Later", "text/plain", ""), ERR_UNAVAILABLE, 75},
        {HTTP("404 Not Found", "text/html", "<html>"), ERR_NO_SERVER, 69},
        {HTTP("302 Found", "text/html", ""), ERR_INTERNAL, 70},
        {ANSWER("<html>"), ERR_INTERNAL, 70},
        {ANSWER("{}"), ERR_INTERNAL, 70},
        {"", ERR_NO_SERVER, 69}, /* closed without a word */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_(arena_release) struct arena a = ARENA_INIT;
        const struct json *result = NULL;
        struct err err = ERR_INIT;
        CHECK_INT(call_once(cases[i].answer, &a, &result, &err), -cases[i].code);
        CHECK_INT(err_exit_status(err.code), cases[i].exit_status);
    }
}

/* A port that was free a moment ago. */
static void nobody_there(char ret[64])
{
    struct fake f;
    static const char *const none[] = {NULL};
    fake_start(&f, none);
    pthread_join(f.thread, NULL);
    memcpy(ret, f.url, 64);
}

TEST(client_call_without_a_server_names_the_url)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *result = NULL;
    struct err err = ERR_INIT;
    char url[64];
    nobody_there(url);
    struct client *client = client_of(url);
    CHECK_INT(client_call(client, "x", STR("{}"), &a, &result, &err), -ERR_NO_SERVER);
    CHECK(strstr(err.message, url) != NULL);
    client_close(client);
}

struct follower {
    struct buf text;
    int lost;
    int64_t stop_at;
};

static int follow_event(void *ctx, int64_t id, struct str data)
{
    struct follower *f = ctx;
    buf_addf(&f->text, "%lld=%.*s;", (long long)id, STR_ARG(data));
    return id == f->stop_at ? 7 : 0;
}

static void follow_lost(void *ctx, const char *why)
{
    struct follower *f = ctx;
    CHECK(*why);
    f->lost++;
}

static int follow_until_end(struct client *client, struct follower *f, struct err *err)
{
    const struct client_stream_handler handler = {follow_event, follow_lost, f};
    struct client_stream *s = client_stream_new(client, 12, 0, &handler);
    int r = 0;
    while (r == 0)
        r = client_stream_wait(s, NULL, 0, -1, err);
    client_stream_free(s);
    return r;
}

TEST(client_stream_resumes_after_the_last_event_without_gap_or_repeat)
{
    static const char *const answers[] = {
        STREAM(": hello\n\nevent: guidance\ndata: {}\n\nid: 1\ndata: a\n\n"
               "id: 2\ndata: b\n\nevent: end\ndata: {}\n\nid: 3\ndata: ha"),
        HTTP("503 Later", "text/plain", ""),
        STREAM("id: 3\ndata: c\n\nid: 4\ndata: d\n\n"),
        NULL,
    };
    struct fake *f = mem_zalloc(sizeof *f);
    struct follower who = {.text = BUF_INIT(4096), .stop_at = 4};
    fake_start(f, answers);
    struct client *client = client_of(f->url);
    CHECK_INT(follow_until_end(client, &who, &ignored), 7);
    pthread_join(f->thread, NULL);
    CHECK_STR(buf_str(&who.text), "1=a;2=b;3=c;4=d;");
    CHECK_INT(who.lost, 1); /* one outage, two attempts */
    CHECK(strstr(f->requests[0], "GET /events?conversation=12&after=0 HTTP/1.1\r\n") != NULL);
    CHECK(strstr(f->requests[0], "Last-Event-ID") == NULL);
    CHECK(strstr(f->requests[1], "Last-Event-ID: 2\r\n") != NULL);
    CHECK(strstr(f->requests[2], "Last-Event-ID: 2\r\n") != NULL);
    client_close(client);
    buf_release(&who.text);
    free(f);
}

TEST(client_stream_refused_is_an_error_at_once)
{
    static const char *const answers[] = {
        HTTP("401 Unauthorized", "application/json",
             "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32021,\"message\":\"who?\"}}"),
        NULL};
    struct fake *f = mem_zalloc(sizeof *f);
    struct follower who = {.text = BUF_INIT(4096)};
    struct err err = ERR_INIT;
    fake_start(f, answers);
    struct client *client = client_of(f->url);
    CHECK_INT(follow_until_end(client, &who, &err), -ERR_UNAUTHENTICATED);
    CHECK_Z(err.message, "who?");
    pthread_join(f->thread, NULL);
    client_close(client);
    free(f);
}

TEST(client_stream_without_a_server_does_not_wait_for_one)
{
    struct follower who = {.text = BUF_INIT(4096)};
    struct err err = ERR_INIT;
    char url[64];
    nobody_there(url);
    struct client *client = client_of(url);
    CHECK_INT(follow_until_end(client, &who, &err), -ERR_NO_SERVER);
    CHECK(strstr(err.message, url) != NULL);
    CHECK_INT(who.lost, 0);
    client_close(client);
}

TEST(client_stream_wakes_for_the_callers_descriptor)
{
    static const char *const answers[] = {STREAM("id: 1\ndata: a\n\n"), NULL};
    struct fake *f = mem_zalloc(sizeof *f);
    struct follower who = {.text = BUF_INIT(4096)};
    const struct client_stream_handler handler = {follow_event, follow_lost, &who};
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    fake_start(f, answers);
    struct client *client = client_of(f->url);
    struct client_stream *s = client_stream_new(client, CLIENT_ALL, CLIENT_FROM_NOW, &handler);
    struct pollfd fd = {.fd = ends[0], .events = POLLIN};
    CHECK_INT(client_stream_wait(s, &fd, 1, -1, &ignored), 0);
    CHECK_INT(fd.revents, POLLIN);
    while (who.text.len == 0)
        CHECK_INT(client_stream_wait(s, NULL, 0, -1, &ignored), 0);
    pthread_join(f->thread, NULL);
    CHECK(strstr(f->requests[0], "GET /events HTTP/1.1\r\n") != NULL);
    client_stream_free(s);
    client_close(client);
    buf_release(&who.text);
    free(f);
}

/* ---- the whole command line ---- */

/* Runs it with standard output and error in files; returns the exit status. */
static int run_cli(struct buf *out, struct buf *complaints, const char *const *argv)
{
    const int fds[] = {STDOUT_FILENO, STDERR_FILENO};
    struct buf *const bufs[] = {out, complaints};
    int saved[2], files[2], argc = 0;
    char *copy[16] = {0};
    for (; argv[argc]; argc++)
        copy[argc] = (char *)argv[argc];
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        saved[i] = dup(fds[i]);
        files[i] = open(tap_folder(), O_TMPFILE | O_RDWR, 0600);
        CHECK(saved[i] >= 0 && files[i] >= 0 && dup2(files[i], fds[i]) >= 0);
    }
    int status = cli_main(argc, copy);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(saved[i], fds[i]);
        off_t size = lseek(files[i], 0, SEEK_END);
        char *room = buf_reserve(bufs[i], (size_t)size);
        CHECK(room && pread(files[i], room, (size_t)size, 0) == size);
        buf_grown(bufs[i], (size_t)size);
        close(saved[i]);
        close(files[i]);
    }
    return status;
}

/* The exit status, and a word that standard output and standard error must have. */
#define CLI(status, out_has, err_has, ...)                                       \
    do {                                                                         \
        _cleanup_buf_ struct buf o_ = BUF_INIT(1 << 20), e_ = BUF_INIT(1 << 20); \
        const char *const argv_[] = {"reeve", ##__VA_ARGS__, NULL};              \
        CHECK_INT(run_cli(&o_, &e_, argv_), status);                             \
        if (!strstr(buf_str(&o_).p, out_has) || (!*(out_has) && o_.len))         \
            tap_fail(__FILE__, __LINE__, "output: %s", buf_str(&o_).p);          \
        if (!strstr(buf_str(&e_).p, err_has) || (!*(err_has) && e_.len))         \
            tap_fail(__FILE__, __LINE__, "complaints: %s", buf_str(&e_).p);      \
    } while (0)

TEST(cli_help_in_every_form)
{
    CLI(0, "usage: reeve VERB", "", "help");
    CLI(0, "usage: reeve VERB", "", "--help");
    CLI(0, "usage: reeve send CONVERSATION TEXT --as ROLE", "", "help", "send");
    CLI(0, "usage: reeve send CONVERSATION TEXT --as ROLE", "", "send", "--help");
    CLI(0, "conversation create", "", "help", "conversation");
    CLI(0, "usage: reeve conversation show", "", "help", "conversation", "show");
    CLI(0, "usage: reeve task WORD", "", "task", "--help");
    CLI(0, "\n  task create AGENT", "", "task", "-h");
    CLI(0, "# The command line", "", "help", "--markdown");
    CLI(2, "", "usage: reeve VERB");
    CLI(2, "", "no verb 'frobnicate'", "help", "frobnicate");
    CLI(2, "", "did you mean 'task show'?", "help", "task", "get");
}

TEST(cli_wrong_usage_is_status_2)
{
    CLI(2, "", "did you mean 'send'?", "snd");
    CLI(2, "", "no verb 'xyzzy\\x1b'; see 'reeve help'", "xyzzy\x1b");
    CLI(2, "", "reeve conversation: one of these is wanted:\n  conversation create",
        "conversation");
    CLI(2, "", "no verb 'agent ls'; did you mean 'agent list'?\n", "agent", "ls");
    CLI(2, "", "no verb 'agent xyzzy'; see 'reeve help agent'\n", "agent", "xyzzy");
    CLI(2, "", "no verb 'agnet'; did you mean 'agent'?\n", "agnet", "list");
    CLI(2, "", "reeve send: CONVERSATION is missing", "send");
    CLI(2, "", "no option --frob", "version", "--frob");
    CLI(2, "", "is not JSON", "rpc", "x", "{", "--server=http://h");
    CLI(2, "", "a conversation is a number", "conversation", "show", "x");
    CLI(2, "", "give --conversation too", "events", "--since", "5");
    CLI(2, "", "--since takes", "events", "--since", "5 minutes");
    CLI(2, "", "--reason goes with --outcome", "send", "1", "x", "--as=a", "--reason=r");
    CLI(2, "", "ROLE[:KIND[@MACHINE]]", "conversation", "create", "--agent=a:@m");
}

TEST(cli_version)
{
    CLI(0, "reeve ", "", "version");
    CLI(0, "\nsqlite 3.", "", "version", "-v");
    CLI(0, "reeve ", "", "-v");
    CLI(0, "reeve ", "", "-V");
    CLI(0, "{\"reeve\":\"", "", "--version", "--json");
}

TEST(cli_config_check)
{
    CLI(0, "watchdog.idle_ms", "", "config", "check");
    CLI(0, "{\"value\":5,\"source\":\"", "", "config", "check", "--json", "--set",
        "watchdog.idle_ms=5");
    CLI(2, "", "nonsense", "config", "check", "--set", "nonsense.key=1");
}

TEST(cli_without_a_server_is_status_69)
{
    char url[64];
    nobody_there(url);
    setenv("REEVE_TOKEN", "t", 1);
    CLI(69, "", url, "conversation", "list", "--server", url);
    CLI(69, "", url, "events", "-f", "--server", url);
    CLI(69, "", "{\"error\":{\"code\":", "send", "1", "x", "--as=a", "--json", "--server", url);
    CLI(69, "", "server.json", "rpc", "x", "--data", tap_folder());
}

static void check_verb_against(const char *answer, int status, const char *out, const char *err)
{
    const char *answers[] = {answer, NULL};
    struct fake *f = mem_zalloc(sizeof *f);
    fake_start(f, answers);
    setenv("REEVE_TOKEN", "t", 1);
    CLI(status, out, err, "send", "12", "two\nlines", "--as=me", "--final=turn", "--server",
        f->url);
    pthread_join(f->thread, NULL);
    CHECK(strstr(f->requests[0], "\"params\":{\"conversation\":12,\"agentId\":\"me\","
                                 "\"text\":\"two\\nlines\",\"finality\":\"turn\","
                                 "\"precondition\":{\"knownRole\":true}}") != NULL);
    free(f);
}

TEST(cli_send_and_its_exit_statuses)
{
    check_verb_against(ANSWER("{\"result\":{\"conversation\":12,\"turn\":3,\"event\":1,"
                              "\"seq\":14,\"ts\":\"T\",\"id\":981}}"),
                       0, "12:3.1 seq=14 id=981 ts=T\n", "");
    check_verb_against(ANSWER("{\"error\":{\"code\":-32011,\"message\":\"over\\u001b\"}}"), 1, "",
                       "reeve send: over\\x1b (CONVERSATION_FINALIZED)\n");
    check_verb_against(ANSWER("{\"error\":{\"code\":-32012,\"message\":\"no\","
                              "\"data\":{\"expectedTurn\":3}}}"),
                       1, "", "reeve send: no (INVALID_TURN: \"expectedTurn\":3)\n");
    check_verb_against(ANSWER("{\"error\":{\"code\":-32026,\"message\":\"full\"}}"), 75, "",
                       "full");
    check_verb_against(ANSWER("{\"error\":{\"code\":-32603,\"message\":\"bug\"}}"), 70, "", "bug");
}
