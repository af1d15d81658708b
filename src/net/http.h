/*
 * http.h: HTTP/1.1 requests, read strictly, and response heads.
 *
 * Pure: bytes in, structures out; no sockets, no allocation. RFC 9110 and 9112 to the letter where
 * two readers could understand a message differently (that is what request smuggling lives on):
 * lines end in CRLF and nothing else; one Host in HTTP/1.1; one Content-Length of digits only;
 * never Content-Length together with Transfer-Encoding; Transfer-Encoding is exactly `chunked`
 * (an unknown coding: 501; anything after `chunked`: 400); no blank before a header's colon, no
 * folded lines, no control characters in values; no NUL anywhere; the target in origin-form,
 * absolute-form (http or https) or `*` for OPTIONS; HTTP/1.0 is served (no keep-alive unless
 * asked), other 1.x as 1.1, other majors: 505.
 *
 * A head is parsed in one go once it is complete: http_head_length() looks for its end and resumes
 * where it stopped, so a slow sender costs O(n) in all. What comes out never depends on how the
 * bytes were cut on their way. Calling sequence, `in` being all bytes not yet used:
 *
 *     struct str rest = str_skip(in, http_skip_empty_lines(in));
 *     int n = http_head_length(rest, max, &scanned);          // 0: wait for more
 *     int status = n < 0 ? n : http_parse_head((struct str){rest.p, n}, &head, &why);
 *     …then the body: content_length bytes, or http_chunked_feed() until done.
 *
 * After any negative status the place of the next request is unknown: answer and close.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_PATCH,
    HTTP_OTHER, /* a well-formed token we have no name for: 501 */
};

enum {
    HTTP_HEADERS_MAX = 100,
    HTTP_TARGET_BYTES_MAX = 8192, /* RFC 9112 §3 asks for 8000 at least; more: 414 */
    HTTP_EMPTY_LINES_MAX = 4,     /* before a request line */
    HTTP_CHUNK_EXTRA_MAX = 4096,  /* bytes of chunk extensions in a body; of its trailers */
};

struct http_header {
    struct str name, value; /* value without surrounding blanks */
};

/*
 * All strings point into the head that was parsed. A header that is absent leaves its field with
 * n == 0. Those that RFC 9110 allows once are refused when repeated (400); of `accept` and
 * `upgrade` the first is here, all are in `headers`.
 */
struct http_head {
    enum http_method method;
    struct str path;  /* of the target, not decoded, no encoded controls; "*" for OPTIONS * */
    struct str query; /* after '?', or n == 0 */
    bool is_https;    /* of an absolute target: to be served over TLS only (RFC 9110 §7.4) */
    int minor;        /* 0 or 1: HTTP/1.2 and up are served as 1.1 */
    bool keep_alive;
    bool expect_continue; /* and there is a body to wait for; never in HTTP/1.0 */
    bool chunked;
    int64_t content_length; /* 0 if absent; -1 if chunked */
    struct str host;        /* authority of an absolute target, else Host; n == 0 in 1.0 only */
    struct str authorization, origin, content_type, cookie, last_event_id, accept;
    struct str upgrade, ws_key, ws_version;
    bool connection_upgrade; /* never in HTTP/1.0 */
    size_t header_count;
    struct http_header headers[HTTP_HEADERS_MAX]; /* the first header_count of them are set */
};

/*
 * Length of the head including the empty line, 0 if it is not yet complete, or the HTTP status to
 * answer, negative: -400 (a bare LF or CR, NUL, a method without end), -414 (the request line
 * alone is longer than max), -431 (longer than max). `*scanned` is 0 for a new head and belongs to
 * this function; it counts from the start of `in`, which must not move between calls.
 */
int http_head_length(struct str in, size_t max, size_t *scanned);
/*
 * Bytes of empty lines in front of a request line, HTTP_EMPTY_LINES_MAX lines at most (what is left
 * over then makes an empty request line: 400). Some old clients end a body with a CRLF that is not
 * part of it. Count them in, do not drop them, until the head is complete: so the limit holds even
 * if they come one by one.
 */
size_t http_skip_empty_lines(struct str in);

/*
 * 0, or the status to answer, negative: -400, -414, -417, -431, -501, -505; ret_reason then says
 * why (static text) and *ret is not to be used. `head` is what http_head_length() measured.
 */
int http_parse_head(struct str head, struct http_head *ret, const char **ret_reason);

/*
 * Chunked bodies. Start with a zeroed struct and feed input as it comes; decoded bytes are appended
 * to `out`. Returns bytes of input used; `done` is set at the end of the body, and what follows is
 * left unused. Trailers are read, checked and dropped, whatever their name. Chunk extensions are
 * checked and ignored. Negative status on error: -400 (also: too many bytes of extensions), -413
 * (a chunk would take the body past `body_bytes_max`; said before its data is read), -431
 * (trailers).
 */
struct http_chunked {
    int state;
    bool done;
    int64_t left;    /* of the current chunk */
    size_t overhead; /* bytes of extensions so far, then of trailers */
    size_t total;    /* decoded so far */
    uint8_t digits;
};
int64_t http_chunked_feed(struct http_chunked *c, struct str in, size_t body_bytes_max,
                          struct buf *out);

const char *http_status_text(int status); /* never NULL */
/*
 * Status line and Date-less standard headers, ready for more headers and the empty line. A final
 * response still needs its Date (RFC 9110 §6.6.1): the clock is the caller's.
 */
void http_write_status(struct buf *out, int status);
/*
 * Value of the first `name` in a query string, percent-decoded ('+' stays '+'), appended to `ret`;
 * `name` alone has the value "". False if absent or badly encoded; `ret` is then as before.
 */
bool http_query_get(struct str query, const char *name, struct buf *ret);
