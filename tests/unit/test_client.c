/*
 * test_client.c: the parts of the client that need no server: the event stream reader, and finding
 * out where the server is.
 */
#include <stdio.h>

#include "base/buf.h"
#include "base/macro.h"
#include "base/mem.h"
#include "client/endpoint.h"
#include "client/sse.h"
#include "tap.h"

/* ---- the event stream reader ---- */

struct heard {
    struct buf text; /* id/type/data; per event */
    int stop_at;     /* the event that answers 7 */
    int count;
};

static int hear(void *ctx, const struct sse_event *event)
{
    struct heard *h = ctx;
    buf_addf(&h->text, "%.*s/%.*s/%.*s;", STR_ARG(event->id), STR_ARG(event->type),
             STR_ARG(event->data));
    return ++h->count == h->stop_at ? 7 : 0;
}

/* Fed in pieces of `step` bytes; returns what the last feed did. */
static int listen_to(struct str stream, size_t step, size_t max, struct heard *h)
{
    struct sse s;
    struct err err = ERR_INIT;
    int r = 0;
    sse_init(&s, max);
    while (r == 0 && stream.n) {
        struct str piece = {stream.p, MIN(step, stream.n)};
        r = sse_feed(&s, piece, hear, h, &err);
        stream = str_skip(stream, piece.n);
    }
    sse_release(&s);
    return r;
}

static void check_stream(struct str stream, const char *want)
{
    static const size_t steps[] = {1, 2, 3, 1000};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct heard h = {.text = BUF_INIT(4096)};
        CHECK_INT(listen_to(stream, steps[i], 1024, &h), 0);
        CHECK_STR(buf_str(&h.text), want);
        buf_release(&h.text);
    }
}

TEST(stream_events_in_pieces_of_any_size)
{
    check_stream(STR("id: 1\ndata: {\"a\":1}\n\nid: 2\ndata: x\n\n"),
                 "1/message/{\"a\":1};2/message/x;");
    check_stream(STR("id: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n"), "1/message/a;1/message/b;");
    check_stream(STR("id:1\rdata:a\r\rdata:b\r\r"), "1/message/a;1/message/b;");
    check_stream(STR("\xEF\xBB\xBFid: 1\ndata: a\n\n"), "1/message/a;");
}

TEST(stream_comments_unknown_fields_and_types)
{
    check_stream(STR(": ping\n\n:\ndata: a\n: in between\nretry: 5\nfoo: bar\nfoo\n\n"),
                 "/message/a;");
    check_stream(STR("event: note\ndata: a\n\ndata: b\n\n"), "/note/a;/message/b;");
}

TEST(stream_data_lines_are_joined)
{
    check_stream(STR("data: a\ndata:  b\ndata\n\n"), "/message/a\n b\n;");
    check_stream(STR("data: a\r\ndata: b\r\n\r\n"), "/message/a\nb;");
    check_stream(STR("data\n\n"), "/message/;");
}

TEST(stream_ids_are_kept_without_data)
{
    check_stream(STR("id: 4\n\ndata: a\n\nid\ndata: b\n\n"), "4/message/a;/message/b;");
    check_stream((struct str){"id: 1\nid: 2\0\ndata: a\n\n", 23}, "1/message/a;");
}

TEST(stream_unfinished_event_does_not_count)
{
    check_stream(STR("data: a\n\nid: 2\ndata: b\n"), "/message/a;");
}

TEST(stream_is_bounded)
{
    struct heard h = {.text = BUF_INIT(4096)};
    CHECK_INT(listen_to(STR("data: 0123456789"), 4, 10, &h), -ERR_TOO_LARGE);
    CHECK_INT(listen_to(STR("data:12\ndata:12\ndata:12\ndata:12\n\n"), 100, 10, &h),
              -ERR_TOO_LARGE);
    CHECK_INT(h.count, 0);
    buf_release(&h.text);
}

TEST(stream_stops_where_the_caller_says)
{
    struct heard h = {.text = BUF_INIT(4096), .stop_at = 2};
    CHECK_INT(listen_to(STR("data: 1\n\ndata: 2\n\ndata: 3\n\n"), 1000, 100, &h), 7);
    CHECK_INT(h.count, 2);
    buf_release(&h.text);
}

/* Where success is asked for, nobody reads the error. */
static struct err ignored;

/* ---- finding the server ---- */

static char *path_of(const char *name)
{
    return mem_printf("%s/%s", tap_folder(), name);
}

static void write_file(const char *name, const char *text)
{
    _cleanup_free_ char *path = path_of(name);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

#define GOOD_JSON "{\"url\":\"http://127.0.0.1:7433\",\"pid\":42}"

static void check_resolves(const struct endpoint_source *source, const char *url, const char *token)
{
    struct endpoint e = ENDPOINT_INIT;
    struct err err = ERR_INIT;
    if (endpoint_resolve(source, &e, &err) < 0)
        tap_fail(__FILE__, __LINE__, "%s", err.message);
    CHECK_Z(e.url, url);
    CHECK_Z(e.token, token);
    endpoint_release(&e);
}

static void check_unresolved(const struct endpoint_source *source, int code)
{
    struct endpoint e = ENDPOINT_INIT;
    struct err err = ERR_INIT;
    CHECK_INT(endpoint_resolve(source, &e, &err), -code);
    CHECK(e.url == NULL && e.token == NULL && err.message[0]);
}

TEST(endpoint_from_data_folder)
{
    struct endpoint_source s = {.data = tap_folder(), .env_url = "http://other", .env_token = "t"};
    write_file("server.json", GOOD_JSON);
    check_unresolved(&s, ERR_UNAUTHENTICATED); /* no token yet */
    write_file("operator.token", "secret\n");
    check_resolves(&s, "http://127.0.0.1:7433", "secret");
    int64_t pid = 0;
    CHECK_INT(endpoint_read_server_json(tap_folder(), NULL, &pid, &ignored), 0);
    CHECK_INT(pid, 42);
}

TEST(endpoint_without_a_server_is_unavailable)
{
    struct endpoint_source s = {.data = tap_folder()};
    check_unresolved(&s, ERR_NO_SERVER);
    CHECK_INT(err_exit_status(ERR_NO_SERVER), 69);
    static const char *const broken[] = {"", "{", "[]", "{\"url\":1,\"pid\":1}",
                                         "{\"url\":\"http://x\"}"};
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        write_file("server.json", broken[i]);
        check_unresolved(&s, ERR_NO_SERVER);
    }
}

TEST(endpoint_from_flags_and_environment)
{
    _cleanup_free_ char *file = path_of("token");
    write_file("token", "from-file");
    struct endpoint_source flags = {.server = "https://h:1//", .token_file = file};
    check_resolves(&flags, "https://h:1", "from-file");
    struct endpoint_source mixed = {.server = "http://h", .env_url = "http://e", .env_token = "t"};
    check_resolves(&mixed, "http://h", "t");
    struct endpoint_source env = {.env_url = "http://e", .env_token = "t", .home = "/nowhere"};
    check_resolves(&env, "http://e", "t");
}

TEST(endpoint_contradictions_are_refused)
{
    check_unresolved(&(struct endpoint_source){.server = "http://h", .data = "/d"}, ERR_USAGE);
    check_unresolved(&(struct endpoint_source){.data = "/d", .token_file = "/t"}, ERR_USAGE);
    check_unresolved(&(struct endpoint_source){.token_file = "/t", .home = "/h"}, ERR_USAGE);
    check_unresolved(&(struct endpoint_source){.server = "http://h"}, ERR_USAGE);
    check_unresolved(&(struct endpoint_source){.env_url = "http://h"}, ERR_USAGE);
    check_unresolved(&(struct endpoint_source){0}, ERR_USAGE); /* no HOME */
}

TEST(endpoint_bad_urls_are_refused)
{
    static const char *const bad[] = {"",           "h:1",        "ftp://h",
                                      "http://",    "http:///",   "http://h\r\nX: y",
                                      "http://u@h", "http://h?x", "http://h#x"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        check_unresolved(&(struct endpoint_source){.server = bad[i], .env_token = "t"}, ERR_USAGE);
}

TEST(endpoint_token_cannot_bring_headers_along)
{
    static const char *const bad[] = {"", "\n", "a b", "a\r\nX-Evil: 1", "a\x7f", "ü"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        _cleanup_free_ char *file = path_of("token");
        write_file("token", bad[i]);
        struct endpoint_source s = {.server = "http://h", .token_file = file};
        check_unresolved(&s, ERR_UNAUTHENTICATED);
    }
}

TEST(endpoint_default_folder)
{
    struct {
        struct endpoint_source source;
        const char *want;
    } cases[] = {
        {{.data = "/d", .xdg_state_home = "/x", .home = "/h"}, "/d"},
        {{.xdg_state_home = "/x", .home = "/h"}, "/x/reeve"},
        {{.xdg_state_home = "", .home = "/h"}, "/h/.local/state/reeve"},
        {{.xdg_state_home = "relative", .home = "/h"}, "/h/.local/state/reeve"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *folder = NULL;
        CHECK_INT(endpoint_data_folder(&cases[i].source, &folder, &ignored), 0);
        CHECK_Z(folder, cases[i].want);
    }
}
