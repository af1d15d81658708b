/*
 * test_http.c: the HTTP reader, case by case.
 *
 * Each row is fed whole, cut in two at every place, and byte by byte; every way must lead to the
 * same outcome. Pieces are copied to memory of their exact size, so that a sanitizer sees a reader
 * that looks past what has arrived.
 */
#include "net/http.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tap.h"

enum { HEAD_MAX = 16384, BODY_MAX = 64 };

/* ---- heads ---------------------------------------------------------------------------------- */

struct head_outcome {
    int status;  /* 0 and used == 0: incomplete */
    size_t used; /* up to the end of the head */
    const char *reason;
    char *copy; /* what the strings of `head` point into */
    struct http_head head;
};

/* One arrival: returns true when there is nothing more to wait for. */
static bool head_arrives(struct head_outcome *o, struct str in, size_t *scanned)
{
    free(o->copy);
    o->copy = mem_alloc(in.n);
    memcpy(o->copy, in.p, in.n);
    struct str all = {o->copy, in.n};
    size_t skip = http_skip_empty_lines(all);
    struct str rest = str_skip(all, skip);
    int n = http_head_length(rest, HEAD_MAX, scanned);
    o->status = n < 0 ? n : 0;
    if (n <= 0)
        return n < 0;
    o->used = skip + (size_t)n;
    o->status = http_parse_head((struct str){rest.p, (size_t)n}, &o->head, &o->reason);
    return true;
}

/* `first` bytes, then `step` more each time. */
static struct head_outcome head_feed(struct str in, size_t first, size_t step)
{
    struct head_outcome o = {0};
    size_t scanned = 0;
    for (size_t n = first; !head_arrives(&o, (struct str){in.p, n}, &scanned) && n < in.n;)
        n = MIN(n + step, in.n);
    return o;
}

static bool head_same(const struct head_outcome *a, const struct head_outcome *b)
{
    const struct http_head *x = &a->head, *y = &b->head;
    if (a->status != b->status || a->used != b->used || a->reason != b->reason)
        return false;
    if (a->status < 0 || a->used == 0)
        return true;
    return x->method == y->method && x->minor == y->minor && x->keep_alive == y->keep_alive &&
           x->expect_continue == y->expect_continue && x->chunked == y->chunked &&
           x->content_length == y->content_length && str_eq(x->path, y->path) &&
           str_eq(x->query, y->query) && str_eq(x->host, y->host) &&
           x->connection_upgrade == y->connection_upgrade && x->header_count == y->header_count;
}

/* Feeds in every way; the result of feeding it whole is the caller's to free. */
static struct head_outcome head_feed_all_ways(struct str in)
{
    struct head_outcome whole = head_feed(in, in.n, 1);
    struct head_outcome bytes = head_feed(in, 1, 1);
    if (!head_same(&whole, &bytes))
        tap_fail(__FILE__, __LINE__, "whole %d, by bytes %d: %.*s", whole.status, bytes.status,
                 STR_ARG(in));
    free(bytes.copy);
    for (size_t cut = 1; cut < in.n; cut++) {
        struct head_outcome two = head_feed(in, cut, in.n);
        if (!head_same(&whole, &two))
            tap_fail(__FILE__, __LINE__, "whole %d, cut at %zu %d: %.*s", whole.status, cut,
                     two.status, STR_ARG(in));
        free(two.copy);
    }
    return whole;
}

static void check_heads(int status, const struct str *heads, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct head_outcome o = head_feed_all_ways(heads[i]);
        if (o.status != status || (o.status == 0 && o.used == 0))
            tap_fail(__FILE__, __LINE__, "%d (%s), not %d: %.*s", o.status,
                     o.reason ? o.reason : "", status, STR_ARG(heads[i]));
        free(o.copy);
    }
}

/* A whole head; a sound one with more header lines; one with this request line. */
#define HEAD(text) STR(text "\r\n\r\n")
#define WITH(text) STR("POST / HTTP/1.1\r\nHost: a\r\n" text "\r\n\r\n")
#define LINE(text) STR(text "\r\nHost: a\r\n\r\n")
/* Each of the heads leads to the status. */
#define CHECK_HEADS(status, ...)                        \
    do {                                                \
        const struct str heads_[] = {__VA_ARGS__};      \
        check_heads(status, heads_, ARRAY_LEN(heads_)); \
    } while (0)

// clang-format off
TEST(http_line_ends)
{
    CHECK_HEADS(0,
                HEAD("GET / HTTP/1.1\r\nHost: a"));
    CHECK_HEADS(-400,
                STR("GET / HTTP/1.1\nHost: a\r\n\r\n"),
                STR("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"),
                STR("GET / HTTP/1.1\r\nHost: a\r\n\n"), STR("GET / HTTP/1.1\n\n"),
                STR("GET / HTTP/1.1\rHost: a\r\n\r\n"), STR("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
                STR("GET / HTTP/1.1\r\nHost: a\r\n\rX"), WITH("X: a\rb"), WITH("X: a\r\r\n"),
                STR("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                STR("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                STR("GET /\0x HTTP/1.1\r\nHost: a\r\n\r\n"),
                STR("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), STR("\x80\xff\xfe\n\n"),
                WITH("X: a\0b"));
}

TEST(http_empty_lines_before_a_request)
{
    CHECK_HEADS(0,
                STR("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                STR("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                STR("\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    CHECK_HEADS(-400,
                STR("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
                STR("\r\n \r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), STR("   \r\n\r\n"));
}

TEST(http_request_lines)
{
    CHECK_HEADS(0,
                LINE("GET / HTTP/1.1"), LINE("get / HTTP/1.1"), LINE("FOOBAR / HTTP/1.1"),
                LINE("M!#$%&'*+-.^_`|~9 / HTTP/1.1"));
    CHECK_HEADS(-400,
                LINE("GET"), LINE("GET /"), LINE("GET HTTP/1.1"), LINE("GET  HTTP/1.1"),
                LINE("GET  / HTTP/1.1"), LINE("GET /  HTTP/1.1"), LINE("GET / HTTP/1.1 "),
                LINE(" GET / HTTP/1.1"), LINE("GET\t/ HTTP/1.1"), LINE("GET /\tHTTP/1.1"),
                LINE("GET / x HTTP/1.1"), LINE("GET /pa th HTTP/1.1"), LINE("G(T / HTTP/1.1"),
                LINE("G\xc3\xabT / HTTP/1.1"), LINE("GE\x01T / HTTP/1.1"), LINE("GET: / HTTP/1.1"));
    CHECK_HEADS(-501,
                LINE("CONNECT a:443 HTTP/1.1"), LINE("CONNECT / HTTP/1.1"));
}

TEST(http_versions)
{
    CHECK_HEADS(0,
                LINE("GET / HTTP/1.0"), LINE("GET / HTTP/1.2"), LINE("GET / HTTP/1.9"),
                HEAD("GET / HTTP/1.0"));
    CHECK_HEADS(-505,
                LINE("GET / HTTP/2.0"), LINE("GET / HTTP/9.9"), LINE("GET / HTTP/0.9"),
                HEAD("PRI * HTTP/2.0"));
    CHECK_HEADS(-400,
                LINE("GET / HTTP/1.1x"), LINE("GET / HTTP/1.10"), LINE("GET / HTTP/01.1"),
                LINE("GET / HTTP/1"), LINE("GET / HTTP/1."), LINE("GET / HTTP/.1.1"),
                LINE("GET / HTTP/ 1.1"), LINE("GET / HTTP/1,1"), LINE("GET / http/1.1"),
                LINE("GET / Http/1.1"), LINE("GET / HTTPS/1.1"), LINE("GET / FTP/1.1"),
                LINE("GET / HTTP/a.b"), LINE("GET / "));
}

TEST(http_targets)
{
    CHECK_HEADS(0,
                LINE("GET /a/b.c-d_e~f;g=h@i:j!k$l&m'n(o)p*q+r,s HTTP/1.1"),
                LINE("GET /?a=b?c/d HTTP/1.1"), LINE("GET //a HTTP/1.1"),
                LINE("GET /%41%5a HTTP/1.1"), LINE("GET /?x=%0a HTTP/1.1"),
                LINE("OPTIONS * HTTP/1.1"), LINE("GET http://a/ HTTP/1.1"),
                LINE("GET HTTP://a:80/x?y HTTP/1.1"), LINE("GET http://[::1]:7433/ HTTP/1.1"),
                LINE("GET http://a HTTP/1.1"), LINE("GET https://a:443/x?y HTTP/1.1"));
    CHECK_HEADS(-400,
                LINE("GET * HTTP/1.1"), LINE("FOO * HTTP/1.1"), LINE("OPTIONS ** HTTP/1.1"),
                LINE("GET *?a HTTP/1.1"), LINE("GET a HTTP/1.1"), LINE("GET a:80 HTTP/1.1"),
                LINE("GET ?a HTTP/1.1"), LINE("GET /a#b HTTP/1.1"), LINE("GET /a?b#c HTTP/1.1"),
                LINE("GET /\xc3\xab HTTP/1.1"), LINE("GET /\xc0\xaf HTTP/1.1"),
                LINE("GET /\x01 HTTP/1.1"), LINE("GET /\x7f HTTP/1.1"), LINE("GET /a\\b HTTP/1.1"),
                LINE("GET /\"a\" HTTP/1.1"), LINE("GET /<a> HTTP/1.1"), LINE("GET /{a} HTTP/1.1"),
                LINE("GET /a|b HTTP/1.1"), LINE("GET /a^b HTTP/1.1"), LINE("GET /[a] HTTP/1.1"),
                LINE("GET /%4 HTTP/1.1"), LINE("GET /% HTTP/1.1"), LINE("GET /%zz HTTP/1.1"),
                LINE("GET /%4?4 HTTP/1.1"), LINE("GET /a%00.html HTTP/1.1"),
                LINE("GET /a%0d%0aX:%20b HTTP/1.1"), LINE("GET /a%7F HTTP/1.1"),
                LINE("GET http:///a HTTP/1.1"), LINE("GET http://a#b HTTP/1.1"),
                LINE("GET http://a/#b HTTP/1.1"), LINE("GET http://a/[b] HTTP/1.1"),
                LINE("GET http://u@a/ HTTP/1.1"), LINE("GET http://a,b/ HTTP/1.1"),
                LINE("GET http://a:b/ HTTP/1.1"), LINE("GET http:/a HTTP/1.1"),
                LINE("GET https:// HTTP/1.1"), LINE("GET https://u@a/ HTTP/1.1"),
                LINE("GET ftp://a/ HTTP/1.1"), HEAD("GET http://a/ HTTP/1.1"));
}

TEST(http_header_lines)
{
    CHECK_HEADS(0,
                WITH("X:"), WITH("X:   "), WITH("X:\ta\t"), WITH("X: a\tb  c"),
                WITH("X: \x80\xff \xc3\xab"), WITH("X!#$%&'*+-.^_`|~9: a"), WITH("X: :"),
                WITH("Content_Length: 9\r\nTransfer_Encoding: chunked"));
    CHECK_HEADS(-400,
                WITH("X : a"), WITH("X\t: a"), WITH(": a"), WITH(":"), WITH("X"), WITH("X Y: a"),
                WITH("X\tY: a"), WITH("X[: a"), WITH("X\x01: a"), WITH("\xc3\xab: a"),
                WITH("X: a\r\n b"), WITH("X: a\r\n\tb"), WITH("X:\r\n b"), WITH(" "),
                STR("GET / HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n"),
                STR("GET / HTTP/1.1\r\n \r\nHost: a\r\n\r\n"), WITH("X: a\x01" "b"),
                WITH("X: a\x07\x08\x0b" "def"), WITH("X: a\x7f"), WITH("X: \x1b[0m"));
}

TEST(http_host)
{
#define HOST(value) STR("GET / HTTP/1.1\r\nHost: " value "\r\n\r\n")
    CHECK_HEADS(0,
                HOST("a"), HOST("127.0.0.1:7433"), HOST("localhost:"), HOST("[::1]"),
                HOST("[2001:db8::1]:443"), HOST("a-b.C_d~e:65535"),
                STR("GET / HTTP/1.1\r\nhOST:a\r\n\r\n"), HEAD("GET / HTTP/1.0"));
    CHECK_HEADS(-400,
                HEAD("GET / HTTP/1.1"), HEAD("GET / HTTP/1.2"), HOST(""), HOST("a\r\nHost: a"),
                HOST("a\r\nHost: b"), STR("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"),
                STR("GET / HTTP/1.0\r\nHost: a b\r\n\r\n"), HOST("u@a"), HOST("a/b"), HOST("a?b"),
                HOST("a b"), HOST("a, b"), HOST("a,b"), HOST("http://a"), HOST("a:x"),
                HOST("a:-1"), HOST("a:65536"), HOST("a:000080"), HOST("a:80:80"), HOST(":80"),
                HOST("[::1"), HOST("[]"), HOST("[::1]a"), HOST("[1.2.3.4]"),
                HOST("[fe80::1%25eth0]"), HOST("a%41"), HOST("\xc3\xab"));
#undef HOST
}

TEST(http_content_length)
{
    CHECK_HEADS(0,
                WITH("Content-Length: 0"), WITH("Content-Length:5"), WITH("Content-Length:  5"),
                WITH("Content-Length:\t5"), WITH("Content-Length: 5 "),
                WITH("Content-Length: \t 5\t \t"), WITH("content-length: 9223372036854775807"));
    CHECK_HEADS(-400,
                WITH("Content-Length:"), WITH("Content-Length: "), WITH("Content-Length: +5"),
                WITH("Content-Length: -5"), WITH("Content-Length: -0"), WITH("Content-Length: \t "),
                WITH("Content-Length: \x0b" "5"), WITH("Content-Length: 5\x0c"),
                WITH("Content-Length: 5\xa0"), WITH("Content-Length: 5, 5"),
                WITH("Content-Length: 5,6"), WITH("Content-Length: 5 5"), WITH("Content-Length: 5;"),
                WITH("Content-Length: 5.0"), WITH("Content-Length: 1_0"), WITH("Content-Length: 05"),
                WITH("Content-Length: 1e3"), WITH("Content-Length: 0x5"), WITH("Content-Length: 00"),
                WITH("Content-Length: 0o5"), WITH("Content-Length: abc"),
                WITH("Content-Length: \xd9\xa5"), WITH("Content-Length: 9223372036854775808"),
                WITH("Content-Length: 18446744073709551621"), WITH("Content-Length : 5"),
                WITH("Content-Length: 5\r\nContent-Length: 5"),
                WITH("Content-Length: 5\r\nContent-Length: 6"),
                WITH("Content-Length: 5\r\nContent-Length : 6"));
}

TEST(http_transfer_encoding)
{
    CHECK_HEADS(0,
                WITH("Transfer-Encoding: chunked"), WITH("TRANSFER-ENCODING:ChUnKeD"),
                WITH("Transfer-Encoding: chunked "), WITH("Transfer-Encoding:  chunked"),
                WITH("Transfer-Encoding:\tchunked\t"));
    CHECK_HEADS(-400,
                WITH("Transfer-Encoding: chunked\r\nContent-Length: 5"),
                WITH("Content-Length: 5\r\nTransfer-Encoding: chunked"),
                WITH("Content-Length: 5\r\nTransfer-Encoding: identity"),
                WITH("Content-Length: 5\r\nTransfer-Encoding: xchunked"),
                WITH("Transfer-Encoding: chunked, chunked"),
                WITH("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
                WITH("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
                WITH("Transfer-Encoding: chunked, gzip"), WITH("Transfer-Encoding:"),
                WITH("Transfer-Encoding: ,chunked"), WITH("Transfer-Encoding: , chunked"),
                WITH("Content-Length:  5\r\nTransfer-Encoding:  chunked"),
                WITH("Transfer-Encoding: \x0b" "chunked"), WITH("Transfer-Encoding: chunked,"),
                WITH("Transfer-Encoding: \x0c" "chunked"), WITH("Transfer-Encoding: chunked\0"),
                WITH("Transfer-Encoding:\r\n chunked"), WITH("Transfer-Encoding : chunked"),
                STR("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    CHECK_HEADS(-501,
                WITH("Transfer-Encoding: gzip"), WITH("Transfer-Encoding: gzip, chunked"),
                WITH("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"),
                WITH("Transfer-Encoding: identity"), WITH("Transfer-Encoding: xchunked"),
                WITH("Transfer-Encoding: chunked;a=b"), WITH("Transfer-Encoding: \"chunked\""));
}

TEST(http_headers_given_once)
{
    CHECK_HEADS(0,
                WITH("Accept: a\r\nAccept: b"), WITH("Upgrade: a\r\nUpgrade: b"),
                WITH("X: a\r\nX: b"));
    CHECK_HEADS(-400,
                WITH("Authorization: a\r\nAuthorization: a"), WITH("Origin: a\r\nOrigin: b"),
                WITH("Content-Type: a\r\nContent-Type: b"), WITH("Cookie: a=1\r\nCookie: a=2"),
                WITH("Last-Event-ID: 1\r\nLast-Event-ID: 2"),
                WITH("Sec-WebSocket-Key: a\r\nSec-WebSocket-Key: b"),
                WITH("Sec-WebSocket-Version: 13\r\nSec-WebSocket-Version: 13"));
}

TEST(http_expect)
{
    CHECK_HEADS(0,
                WITH("Expect: 100-continue"), WITH("Expect: 100-Continue\r\nContent-Length: 1"));
    CHECK_HEADS(-417,
                WITH("Expect: 200-ok"), WITH("Expect:"), WITH("Expect: 100-continue, x"),
                WITH("Expect: 100-continue\r\nExpect: x"));
}
// clang-format on

/* ---- what a head says ----------------------------------------------------------------------- */

static struct http_head parsed; /* one test per process */

static const struct http_head *parse(const char *text)
{
    struct head_outcome o = head_feed_all_ways(str_of(text));
    CHECK_INT(o.status, 0);
    CHECK(o.used > 0);
    const char *reason = NULL;
    struct str head = {text, o.used};
    head = str_skip(head, http_skip_empty_lines(head));
    CHECK_INT(http_parse_head(head, &parsed, &reason), 0);
    CHECK(reason == NULL);
    free(o.copy);
    return &parsed;
}

TEST(http_fields_of_a_head)
{
    const struct http_head *h = parse("POST /rpc?a=1&b=2 HTTP/1.1\r\n"
                                      "Host: example:80\r\n"
                                      "Authorization:  Bearer x \r\n"
                                      "origin: http://example\r\n"
                                      "CONTENT-TYPE: application/json\r\n"
                                      "Cookie: a=b\r\n"
                                      "Last-Event-ID: 12\r\n"
                                      "Accept: text/event-stream\r\n"
                                      "Accept: text/html\r\n"
                                      "Upgrade: websocket\r\n"
                                      "Sec-WebSocket-Key: k\r\n"
                                      "Sec-WebSocket-Version: 13\r\n"
                                      "Content-Length: 7\r\n\r\n");
    CHECK_INT(h->method, HTTP_POST);
    CHECK_STR(h->path, "/rpc");
    CHECK_STR(h->query, "a=1&b=2");
    CHECK_STR(h->host, "example:80");
    CHECK_STR(h->authorization, "Bearer x");
    CHECK_STR(h->origin, "http://example");
    CHECK_STR(h->content_type, "application/json");
    CHECK_STR(h->cookie, "a=b");
    CHECK_STR(h->last_event_id, "12");
    CHECK_STR(h->accept, "text/event-stream");
    CHECK_STR(h->upgrade, "websocket");
    CHECK_STR(h->ws_key, "k");
    CHECK_STR(h->ws_version, "13");
    CHECK_INT(h->content_length, 7);
    CHECK(!h->chunked && h->keep_alive && !h->connection_upgrade && !h->expect_continue);
    CHECK_INT(h->header_count, 12);
    CHECK_STR(h->headers[1].name, "Authorization");
    CHECK_STR(h->headers[1].value, "Bearer x");
}

TEST(http_methods_are_case_sensitive)
{
    static const struct {
        const char *line;
        enum http_method method;
    } rows[] = {
        {"GET", HTTP_GET},         {"HEAD", HTTP_HEAD},      {"POST", HTTP_POST},
        {"PUT", HTTP_PUT},         {"DELETE", HTTP_DELETE},  {"PATCH", HTTP_PATCH},
        {"OPTIONS", HTTP_OPTIONS}, {"get", HTTP_OTHER},      {"GETX", HTTP_OTHER},
        {"TRACE", HTTP_OTHER},     {"PROPFIND", HTTP_OTHER},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s / HTTP/1.1\r\nHost: a\r\n\r\n", rows[i].line);
        CHECK_INT(parse(text)->method, rows[i].method);
    }
}

TEST(http_absolute_target_overrides_host)
{
    const struct http_head *h = parse("GET http://b:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_STR(h->host, "b:81");
    CHECK_STR(h->path, "/x");
    CHECK_STR(h->query, "y");
    CHECK(!h->is_https);
    h = parse("GET http://b?y HTTP/1.0\r\n\r\n");
    CHECK_STR(h->host, "b");
    CHECK_STR(h->path, "/");
    h = parse("GET hTTPs://b HTTP/1.0\r\n\r\n");
    CHECK(h->is_https && str_is(h->path, "/") && str_is(h->host, "b") && h->query.n == 0);
    CHECK(!parse("GET /https://b HTTP/1.0\r\n\r\n")->is_https);
    CHECK_STR(parse("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")->path, "*");
}

TEST(http_connection_options)
{
    static const struct {
        const char *version, *lines;
        bool keep_alive, upgrade;
    } rows[] = {
        {"1.1", "", true, false},
        {"1.2", "", true, false},
        {"1.0", "", false, false},
        {"1.1", "Connection: close\r\n", false, false},
        {"1.1", "connection: CLOSE\r\n", false, false},
        {"1.1", "Connection: closed\r\n", true, false},
        {"1.1", "Connection: keep-alive, close\r\n", false, false},
        {"1.1", "Connection: close, keep-alive\r\n", false, false},
        {"1.1", "Connection: close\r\nConnection: keep-alive\r\n", false, false},
        {"1.1", "Connection: x,, ,close,\r\n", false, false},
        {"1.1", "Connection:\r\n", true, false},
        {"1.0", "Connection: keep-alive\r\n", true, false},
        {"1.0", "Connection: Keep-Alive, close\r\n", false, false},
        {"1.0", "Connection: Upgrade\r\nUpgrade: websocket\r\n", false, false},
        {"1.1", "Connection: Upgrade\r\n", true, true},
        {"1.1", "Connection: keep-alive, Upgrade\r\n", true, true},
        {"1.1", "Connection: keep-alive\r\nConnection: upgrade\r\n", true, true},
        {"1.1", "Connection: upgrade, close\r\n", false, true},
        {"1.1", "Upgrade: websocket\r\n", true, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[128];
        snprintf(text, sizeof text, "GET / HTTP/%s\r\nHost: a\r\n%s\r\n", rows[i].version,
                 rows[i].lines);
        const struct http_head *h = parse(text);
        CHECK_INT(h->keep_alive, rows[i].keep_alive);
        CHECK_INT(h->connection_upgrade, rows[i].upgrade);
        CHECK_INT(h->minor, rows[i].version[2] != '0');
    }
}

TEST(http_expect_needs_a_body_and_http_1_1)
{
    static const struct {
        const char *version, *line;
        bool expect;
    } rows[] = {
        {"1.1", "Content-Length: 1", true},  {"1.1", "Transfer-Encoding: chunked", true},
        {"1.1", "Content-Length: 0", false}, {"1.1", "X: a", false},
        {"1.0", "Content-Length: 1", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[128];
        snprintf(text, sizeof text,
                 "PUT / HTTP/%s\r\nHost: a\r\nExpect: 100-continue\r\n%s\r\n\r\n", rows[i].version,
                 rows[i].line);
        CHECK_INT(parse(text)->expect_continue, rows[i].expect);
    }
}

TEST(http_chunked_has_no_length)
{
    const struct http_head *h = parse("PUT / HTTP/1.1\r\nHost: a\r\n"
                                      "Transfer-Encoding: chunked\r\n\r\n");
    CHECK(h->chunked);
    CHECK_INT(h->content_length, -1);
    CHECK_INT(parse("PUT / HTTP/1.1\r\nHost: a\r\n\r\n")->content_length, 0);
}

TEST(http_reasons_name_the_fault)
{
    static const struct {
        const char *lines, *word;
    } rows[] = {
        {"Host: a\r\n b\r\n", "folded"},
        {"Host: a\r\nX\r\n", "colon"},
        {"Host: a\r\nHost: a\r\n", "twice"},
        {"Host: a\r\nContent-Length: x\r\n", "Content-Length"},
        {"X: y\r\n", "Host"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[128];
        const char *reason = NULL;
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s\r\n", rows[i].lines);
        CHECK_INT(http_parse_head(str_of(text), &parsed, &reason), -400);
        CHECK(reason && strstr(reason, rows[i].word));
    }
}

/* ---- limits --------------------------------------------------------------------------------- */

/* Only whole and by bytes: these are long. */
static int status_of_long(struct buf *text)
{
    struct head_outcome whole = head_feed(buf_str(text), text->len, 1);
    struct head_outcome steps = head_feed(buf_str(text), 1, 4099);
    CHECK(head_same(&whole, &steps));
    free(whole.copy);
    free(steps.copy);
    return whole.status;
}

static void add_many(struct buf *b, char c, size_t n)
{
    while (n-- > 0)
        buf_addc(b, c);
}

TEST(http_target_length)
{
    for (size_t extra = 0; extra < 2; extra++) {
        _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
        buf_addz(&b, "GET /");
        add_many(&b, 'a', HTTP_TARGET_BYTES_MAX - 1 + extra);
        buf_addz(&b, " HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK_INT(status_of_long(&b), extra ? -414 : 0);
    }
}

TEST(http_heads_too_long)
{
    static const struct {
        const char *before;
        int status;
    } rows[] = {
        {"GET /", -414},
        {"", -400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: ", -431},
        {"GET / HTTP/1.1\r\nHost: a\r\n", -431},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
        buf_addz(&b, rows[i].before);
        add_many(&b, 'A', 100000);
        CHECK_INT(status_of_long(&b), rows[i].status);
    }
}

TEST(http_head_of_exactly_the_limit)
{
    struct str head = STR("GET / HTTP/1.1\r\nHost: a\r\n\r\nrest");
    size_t scanned = 0;
    CHECK_INT(http_head_length(head, head.n - 4, &scanned), head.n - 4);
    scanned = 0;
    CHECK_INT(http_head_length(head, head.n - 5, &scanned), -431);
}

TEST(http_scan_resumes_where_it_stopped)
{
    struct str head = STR("GET / HTTP/1.1\r\nHost: abcdefghijklmnopqrstuvwxyz\r");
    size_t scanned = 0;
    CHECK_INT(http_head_length(head, HEAD_MAX, &scanned), 0);
    CHECK_INT(scanned, head.n - 1); /* the CR is looked at again */
}

TEST(http_header_count)
{
    for (size_t extra = 0; extra < 2; extra++) {
        _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
        buf_addz(&b, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (size_t i = 0; i < HTTP_HEADERS_MAX - 1 + extra; i++)
            buf_addf(&b, "X-%zu: v\r\n", i);
        buf_addz(&b, "\r\n");
        CHECK_INT(status_of_long(&b), extra ? -431 : 0);
    }
}

/* ---- chunked bodies ------------------------------------------------------------------------- */

struct body_outcome {
    int status; /* 0 done, 1 more to come, negative */
    size_t used;
    struct buf body;
};

static struct body_outcome body_feed(struct str in, size_t first, size_t step)
{
    struct body_outcome o = {.status = 1, .body = BUF_INIT(BODY_MAX)};
    struct http_chunked c = {0};
    size_t n = first;
    while (o.status == 1) {
        struct str piece = {in.p + o.used, n};
        char *copy = mem_strndup(piece.p, piece.n);
        int64_t used = http_chunked_feed(&c, (struct str){copy, piece.n}, BODY_MAX, &o.body);
        free(copy);
        if (used < 0) {
            o.status = (int)used;
            break;
        }
        CHECK(c.done || (size_t)used == n);
        o.used += (size_t)used;
        o.status = c.done ? 0 : 1;
        n = MIN(step, in.n - o.used);
        if (n == 0)
            break;
    }
    return o;
}

static bool body_same(struct body_outcome *a, struct body_outcome *b)
{
    return a->status == b->status && (a->status < 0 || (a->used == b->used)) &&
           (a->status < 0 || str_eq(buf_str(&a->body), buf_str(&b->body)));
}

struct body_row {
    int status;
    struct str in;
    const char *body; /* NULL: not looked at */
};

static void check_body(const struct body_row *row)
{
    struct body_outcome whole = body_feed(row->in, row->in.n, 1);
    if (whole.status != row->status || (row->body && !str_is(buf_str(&whole.body), row->body)))
        tap_fail(__FILE__, __LINE__, "%d \"%.*s\", not %d: %.*s", whole.status,
                 STR_ARG(buf_str(&whole.body)), row->status, STR_ARG(row->in));
    for (size_t cut = 1; cut < row->in.n; cut++) {
        struct body_outcome two = body_feed(row->in, cut, row->in.n);
        if (!body_same(&whole, &two))
            tap_fail(__FILE__, __LINE__, "cut at %zu: %.*s", cut, STR_ARG(row->in));
        buf_release(&two.body);
    }
    struct body_outcome bytes = body_feed(row->in, 1, 1);
    if (!body_same(&whole, &bytes))
        tap_fail(__FILE__, __LINE__, "by bytes: %.*s", STR_ARG(row->in));
    buf_release(&bytes.body);
    buf_release(&whole.body);
}

#define CHECK_BODIES(...)                                     \
    do {                                                      \
        const struct body_row rows[] = {__VA_ARGS__};         \
        for (size_t row_ = 0; row_ < ARRAY_LEN(rows); row_++) \
            check_body(&rows[row_]);                          \
    } while (0)
#define CHECK_BAD_BODIES(status, ...)                                    \
    do {                                                                 \
        const struct str bodies_[] = {__VA_ARGS__};                      \
        for (size_t row_ = 0; row_ < ARRAY_LEN(bodies_); row_++)         \
            check_body(&(struct body_row){status, bodies_[row_], NULL}); \
    } while (0)
/* A chunk with this size line, and the end of the body. */
#define SIZED(line) STR(line "\r\nhello\r\n0\r\n\r\n")

// clang-format off
TEST(http_chunks)
{
    CHECK_BODIES(
        {0, STR("0\r\n\r\n"), ""},
        {0, STR("5\r\nhello\r\n0\r\n\r\n"), "hello"},
        {0, STR("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"), "hello world"},
        {0, STR("A\r\nhelloworld\r\n0\r\n\r\n"), "helloworld"},
        {0, STR("9\r\n\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n"), "\r\n0\r\n\r\n\r\n"},
        {0, SIZED("000000000000005"), "hello"},
        {0, STR("5\r\nhello\r\n000\r\n\r\n"), "hello"},
        {0, STR("1\r\n\0\r\n0\r\n\r\n"), NULL},
        {0, STR("0\r\n\r\nGET / HTTP/1.1\r\n"), ""},
        {1, STR("5\r\nhello\r\n"), "hello"},
        {1, STR("5\r\nhe"), "he"},
        {1, STR("0\r\n"), ""},
        {1, STR("0\r\n\r"), ""});
    CHECK_BAD_BODIES(-400,
                     STR("\r\nhello"), SIZED(""), SIZED("0000000000000005"),
                     SIZED("FFFFFFFFFFFFFFFF"), SIZED("FFFFFFFFFFFFFFFF0"),
                     SIZED("10000000000000005"), SIZED("0x5"), SIZED("+5"), SIZED("-5"),
                     SIZED("5_0"), SIZED("5h"), SIZED("g"), SIZED("5.0"), SIZED(" 5"),
                     SIZED("\t5"), SIZED("5 "), SIZED("5\t"), SIZED("5 5"), SIZED("\"5\""),
                     STR("5\nhello\r\n0\r\n\r\n"), STR("5\rhello\r\n0\r\n\r\n"),
                     STR("5\r\nhello\n0\r\n\r\n"), STR("5\r\nhello\r0\r\n\r\n"),
                     STR("5\r\nhello0\r\n\r\n"), STR("5\r\nhello!!\r\n0\r\n\r\n"),
                     STR("4\r\nhello\r\n0\r\n\r\n"), STR("6\r\nhello\r\n0\r\n\r\n"),
                     STR("0\r\n\n"), STR("0\n\r\n"), STR("0\r\n\rX"), STR("+0\r\n\r\nX"),
                     STR("5\r\nhello\r\n\r\n0\r\n\r\n"));
}

TEST(http_chunk_extensions)
{
    CHECK_BODIES(
        {0, SIZED("5;a"), "hello"},
        {0, SIZED("5;a=b"), "hello"},
        {0, SIZED("5;a=b;c;d=e"), "hello"},
        {0, SIZED("5 ; a = b"), "hello"},
        {0, SIZED("5\t;\ta\t=\tb ;c"), "hello"},
        {0, SIZED("5;a=\"\""), "hello"},
        {0, SIZED("5;a=\"b c;d=e:,\""), "hello"},
        {0, SIZED("5;a=\"\\\"\\\\\" ;b"), "hello"},
        {0, SIZED("5;a=\"\x80\xff\""), "hello"},
        {0, STR("0;a=b\r\n\r\n"), ""});
    CHECK_BAD_BODIES(-400,
                     SIZED("5;"), SIZED("5; "), SIZED("5;;a"), SIZED("5;a;"), SIZED("5;=b"),
                     SIZED("5;a="), SIZED("5;a= "), SIZED("5;a "), SIZED("5;a=b "),
                     SIZED("5;a=b c"), SIZED("5;a b"), SIZED("5;a==b"), SIZED("5;bad[=x"),
                     SIZED("5;a=b,c"), SIZED("5;a=\"b"), SIZED("5;a=\"b\"c"), SIZED("5;a=b\"c\""),
                     SIZED("5;a=\"b\n\""), SIZED("5;a=\"b\r\n\""), SIZED("5;a=\"\\\n\""),
                     SIZED("5;a=\"\x7f\""), SIZED("5;\xff"), SIZED("5;a\x01"), SIZED("5;a\0"),
                     STR("5;\nhello\r\n0\r\n\r\n"), STR("5;a\nhello\r\n0\r\n\r\n"),
                     STR("5;a\rb\r\nhello\r\n0\r\n\r\n"));
}

TEST(http_trailers)
{
    CHECK_BODIES(
        {0, STR("1\r\na\r\n0\r\nX: b\r\n\r\n"), "a"},
        {0, STR("0\r\nX:\r\nY: \t\"\\\x80\r\n\r\n"), ""},
        {0, STR("0\r\nContent-Length: 50\r\n\r\n"), ""},
        {0, STR("0\r\nTransfer-Encoding: chunked\r\nHost: b\r\nAuthorization: c\r\n\r\n"), ""},
        {1, STR("0\r\nX: b\r\n"), ""});
    CHECK_BAD_BODIES(-400,
                     STR("0\r\nX\r\n\r\n"), STR("0\r\n: b\r\n\r\n"), STR("0\r\nX : b\r\n\r\n"),
                     STR("0\r\n X: b\r\n\r\n"), STR("0\r\nX: b\r\n c\r\n\r\n"),
                     STR("0\r\nX: b\n\r\n"), STR("0\r\nX: b\rc\r\n\r\n"),
                     STR("0\r\nX: \0\r\n\r\n"), STR("0\r\nX: \x7f\r\n\r\n"),
                     STR("0\r\nX[: b\r\n\r\n"), STR("0\r\nX: b\r\n\n"));
}

TEST(http_chunked_body_limit)
{
    CHECK_BODIES( /* BODY_MAX is 64 */
        {1, STR("40\r\n"), ""},
        {1, STR("4\r\nabcd\r\n3c\r\n"), "abcd"});
    CHECK_BAD_BODIES(-413,
                     STR("41\r\n"), STR("FFFFFFFFFFFFFFF\r\n"), STR("7fffffff\r\n"),
                     STR("4\r\nabcd\r\n3d\r\n"));
}
// clang-format on

/* Feeds `text` piece by piece for ever; returns the first status that is not "more". */
static int64_t feed_for_ever(struct str first, struct str text)
{
    struct http_chunked c = {0};
    struct buf out = BUF_INIT(1 << 20);
    int64_t used = http_chunked_feed(&c, first, 1 << 20, &out);
    for (int i = 0; used >= 0 && i < 100000; i++)
        used = http_chunked_feed(&c, text, 1 << 20, &out);
    buf_release(&out);
    return used;
}

TEST(http_chunk_overhead_is_limited)
{
    CHECK_INT(feed_for_ever(STR("5;a="), STR("aaaa")), -400);
    CHECK_INT(feed_for_ever(STR("1;a\r\nx\r\n"), STR("1;a\r\nx\r\n")), -400);
    CHECK_INT(feed_for_ever(STR("0\r\n"), STR("X: a\r\n")), -431);
    CHECK(feed_for_ever(STR("1\r\nx\r\n"), STR("1\r\nx\r\n")) >= 0);
}

TEST(http_chunked_respects_the_buffer)
{
    struct http_chunked c = {0};
    _cleanup_buf_ struct buf out = BUF_INIT(2);
    CHECK_INT(http_chunked_feed(&c, STR("3\r\nabc\r\n"), BODY_MAX, &out), -413);
}

/* ---- answers and queries -------------------------------------------------------------------- */

TEST(http_status_lines)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1024);
    http_write_status(&b, 200);
    CHECK(str_starts(buf_str(&b), STR("HTTP/1.1 200 OK\r\nServer: ")));
    CHECK(b.len > 2 && memcmp(b.data + b.len - 2, "\r\n", 2) == 0);
    CHECK(!strstr(b.data, "\r\n\r\n"));
    buf_clear(&b);
    http_write_status(&b, 101);
    CHECK_STR(buf_str(&b), "HTTP/1.1 101 Switching Protocols\r\n");
    CHECK_Z(http_status_text(431), "Request Header Fields Too Large");
    CHECK_Z(http_status_text(299), "Unknown");
}

TEST(http_query_values)
{
    static const struct {
        const char *query, *name, *value; /* NULL: not found */
    } rows[] = {
        {"", "a", NULL},
        {"a=1", "a", "1"},
        {"a=1", "b", NULL},
        {"a=1", "aa", NULL},
        {"aa=1", "a", NULL},
        {"a=1&b=2", "b", "2"},
        {"a=1&a=2", "a", "1"},
        {"a", "a", ""},
        {"a&b=1", "a", ""},
        {"a=", "a", ""},
        {"&&a=1&", "a", "1"},
        {"a=b=c", "a", "b=c"},
        {"a=1+2", "a", "1+2"},
        {"a=%41%20%2B%26", "a", "A +&"},
        {"a=%e2%82%ac", "a", "\xe2\x82\xac"},
        {"%61=1", "a", "1"},
        {"%6=1&a=2", "a", "2"},
        {"a=%", "a", NULL},
        {"a=%4", "a", NULL},
        {"a=x%zz", "a", NULL},
        {"b=%zz&a=1", "a", "1"},
        {"A=1", "a", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_buf_ struct buf b = BUF_INIT(64);
        buf_addz(&b, "=");
        bool found = http_query_get(str_of(rows[i].query), rows[i].name, &b);
        CHECK_INT(found, rows[i].value != NULL);
        CHECK_INT(b.data[0], '=');
        CHECK_STR(str_skip(buf_str(&b), 1), found ? rows[i].value : "");
    }
}

TEST(http_query_value_over_the_buffer)
{
    _cleanup_buf_ struct buf b = BUF_INIT(2);
    CHECK(!http_query_get(STR("a=123"), "a", &b));
}
