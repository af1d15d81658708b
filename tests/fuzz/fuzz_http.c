/*
 * fuzz_http.c: any bytes at all, as requests one after the other, and as a chunked body.
 *
 * The first two bytes of an input (little-endian) say where the rest is cut in two; whole and cut
 * must give the same transcript. Pieces live in memory of their exact size, and everything a head
 * points to is read, so that a sanitizer sees a stray pointer.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "net/http.h"

enum { HEAD_MAX = 1024, BODY_MAX = 256, REQUESTS_MAX = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy_of(struct str s)
{
    char *copy = mem_alloc(s.n);
    if (s.n > 0)
        memcpy(copy, s.p, s.n);
    return copy;
}

static void add_field(struct buf *out, struct str s)
{
    buf_addf(out, "%zu:", s.n);
    buf_add_str(out, s);
}

static void write_head(struct buf *out, const struct http_head *h)
{
    const struct str strings[] = {h->path,          h->query,  h->host,       h->authorization,
                                  h->origin,        h->cookie, h->accept,     h->content_type,
                                  h->last_event_id, h->ws_key, h->ws_version, h->upgrade};
    buf_addf(out, "method %u minor %d flags %d%d%d%d length %lld ", (unsigned)h->method, h->minor,
             h->keep_alive, h->expect_continue, h->chunked, h->connection_upgrade,
             (long long)h->content_length);
    for (size_t i = 0; i < ARRAY_LEN(strings); i++)
        add_field(out, strings[i]);
    for (size_t i = 0; i < h->header_count; i++) {
        add_field(out, h->headers[i].name);
        add_field(out, h->headers[i].value);
    }
    if (!http_query_get(h->query, "a", out))
        buf_addz(out, "no a ");
    REQUIRE(h->chunked == (h->content_length == -1));
    REQUIRE(h->host.n > 0 || h->minor == 0);
    REQUIRE(h->path.n > 0);
}

/* One arrival of a head; returns its length when it is complete and good, -1 when it is bad. */
static int head_arrives(struct buf *out, struct str in, size_t *scanned, struct http_head *head)
{
    _cleanup_free_ char *copy = copy_of(in);
    const char *reason = NULL;
    struct str all = {copy, in.n};
    size_t skip = http_skip_empty_lines(all);
    struct str rest = str_skip(all, skip);
    int n = http_head_length(rest, HEAD_MAX, scanned);
    if (n == 0)
        return 0;
    int status = n < 0 ? n : http_parse_head((struct str){rest.p, (size_t)n}, head, &reason);
    buf_addf(out, "status %d ", status);
    if (status < 0) {
        REQUIRE(n < 0 || reason);
        return -1;
    }
    write_head(out, head);
    return (int)skip + n;
}

/* Bytes of the body, if it is whole; else 0. */
static size_t run_body(struct buf *out, struct str in, size_t cut)
{
    struct http_chunked c = {0};
    _cleanup_buf_ struct buf body = BUF_INIT(BODY_MAX);
    size_t used = 0;
    for (int piece = 0; piece < 2 && !c.done; piece++) {
        size_t end = piece == 0 ? cut : in.n;
        _cleanup_free_ char *copy = copy_of((struct str){in.p + used, end - used});
        int64_t n = http_chunked_feed(&c, (struct str){copy, end - used}, BODY_MAX, &body);
        if (n < 0) {
            buf_addf(out, "body status %d", (int)n);
            return 0;
        }
        used += (size_t)n;
        REQUIRE(c.done || used == end);
    }
    buf_addf(out, "body %d used %zu ", c.done, used);
    add_field(out, buf_str(&body));
    return c.done ? used : 0;
}

/* Where the next one begins; 0: there is none. */
static size_t run_request(struct buf *out, struct str in, size_t cut)
{
    struct http_head head;
    size_t scanned = 0;
    int n = head_arrives(out, (struct str){in.p, cut}, &scanned, &head);
    if (n == 0)
        n = head_arrives(out, in, &scanned, &head);
    if (n <= 0)
        return 0;
    struct str rest = str_skip(in, (size_t)n);
    size_t used = 0;
    if (head.chunked)
        used = run_body(out, rest, cut > (size_t)n ? cut - (size_t)n : rest.n);
    else if ((uint64_t)head.content_length <= rest.n)
        used = (size_t)head.content_length;
    bool is_whole = head.chunked ? used > 0 : used == (size_t)head.content_length;
    return is_whole && head.keep_alive ? (size_t)n + used : 0;
}

static void run_requests(struct buf *out, struct str in, size_t cut)
{
    size_t used = 1;
    for (int i = 0; i < REQUESTS_MAX && used > 0; i++) {
        used = run_request(out, in, MIN(cut, in.n));
        in = str_skip(in, used);
        cut = cut > used ? cut - used : in.n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct str in = {(const char *)data + 2, size - 2};
    size_t cut = MIN((size_t)(data[0] | data[1] << 8), in.n);
    _cleanup_buf_ struct buf whole = BUF_INIT(1 << 20), pieces = BUF_INIT(1 << 20);
    run_requests(&whole, in, in.n);
    run_body(&whole, in, in.n);
    run_requests(&pieces, in, cut);
    run_body(&pieces, in, cut);
    REQUIRE(str_eq(buf_str(&whole), buf_str(&pieces)));
    return 0;
}
