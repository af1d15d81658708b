/*
 * http.c: see http.h.
 *
 * One rule decides every doubtful case: if another reader on the way could take the message for
 * something else, it is refused. Hence a few readings that are narrower than the grammar:
 *
 * - Content-Length and Transfer-Encoding tell where a message ends. Spaces and tabs around their
 *   values are stripped, as around all values (RFC 9110 §5.5); other characters that some reader
 *   strips are refused in every value. No leading zeros (some read octal), no empty list members.
 * - Host must name a host. RFC 9110 §7.2 has an empty Host for targets without authority, but an
 *   http URI with an empty host is invalid (§4.2.1) and we serve no other scheme: 400. The comma
 *   and the rest of RFC 3986's sub-delims are legal in a reg-name and in no host name there is; a
 *   comma is what two Hosts joined by a proxy look like: 400.
 * - A percent-encoded control character in a path names nothing here and is only ever an attempt
 *   at whoever decodes it later: 400.
 *
 * Text is judged by one table of character classes; headers with a meaning are rows of another;
 * the chunked decoder is a table of (state × symbol), where an empty cell is a 400. The decoder
 * reads byte by byte except for chunk data, so cuts between reads cannot matter; the head is parsed
 * only when whole, for the same reason.
 *
 * Rejected: a callback parser that runs as bytes come (state for every header and nothing gained:
 * heads arrive in one piece), and lenient modes (nobody needs them here).
 */
#include "net/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/macro.h"

enum char_class {
    CHAR_TOKEN = 1,  /* RFC 9110 tchar */
    CHAR_TARGET = 2, /* RFC 3986 pchar, '/', '?'; '%' needs a look at what follows */
    CHAR_VALUE = 4,  /* field-vchar, SP, HTAB, obs-text */
    CHAR_HOST = 8,   /* RFC 3986 unreserved */
    CHAR_HEX = 16,
};

// clang-format off
#define T CHAR_TOKEN
#define U CHAR_TARGET
#define V CHAR_VALUE
#define H CHAR_HOST
#define X CHAR_HEX
static const uint8_t char_classes[256] = {
    ['\t'] = V,            [' '] = V,               ['!'] = T | U | V,
    ['"'] = V,             ['#'] = T | V,           ['$' ... '\''] = T | U | V,
    ['(' ... ')'] = U | V, ['*' ... '+'] = T | U | V, [','] = U | V,
    ['-' ... '.'] = T | U | V | H,                  ['/'] = U | V,
    ['0' ... '9'] = T | U | V | H | X,              [':' ... ';'] = U | V,
    ['<'] = V,             ['='] = U | V,           ['>'] = V,
    ['?' ... '@'] = U | V, ['A' ... 'F'] = T | U | V | H | X,
    ['G' ... 'Z'] = T | U | V | H,                  ['[' ... ']'] = V,
    ['^'] = T | V,         ['_'] = T | U | V | H,   ['`'] = T | V,
    ['a' ... 'f'] = T | U | V | H | X,              ['g' ... 'z'] = T | U | V | H,
    ['{'] = V,             ['|'] = T | V,           ['}'] = V,
    ['~'] = T | U | V | H, [0x80 ... 0xFF] = V,
};
#undef T
#undef U
#undef V
#undef H
#undef X
// clang-format on

static bool char_is(char c, enum char_class class)
{
    return char_classes[(unsigned char)c] & class;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_value(char c)
{
    return is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* How many characters at the start of s are of the class. */
static size_t span(struct str s, enum char_class class)
{
    size_t i = 0;
    while (i < s.n && char_is(s.p[i], class))
        i++;
    return i;
}

static bool all_are(struct str s, enum char_class class)
{
    return span(s, class) == s.n;
}

static struct str trim(struct str s)
{
    while (s.n > 0 && is_blank(s.p[0]))
        s = str_skip(s, 1);
    while (s.n > 0 && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

/* Splits s at the first c: what is before it, and into *ret_rest what is behind it. */
static bool split(struct str s, char c, struct str *ret_before, struct str *ret_rest)
{
    const char *at = s.n ? memchr(s.p, c, s.n) : NULL;
    if (!at)
        return false;
    size_t n = (size_t)(at - s.p);
    *ret_rest = str_skip(s, n + 1);
    *ret_before = (struct str){s.p, n};
    return true;
}

/* Members of a comma-separated list, empty ones included, until *list has none left. */
static bool list_next(struct str *list, struct str *ret_member)
{
    struct str member = *list;
    if (!list->p)
        return false;
    if (!split(*list, ',', &member, list))
        *list = STR_NONE;
    *ret_member = trim(member);
    return true;
}

/* ---- where a head ends ---------------------------------------------------------------------- */

/* Moves on by words of eight bytes that have no control character among them. */
static size_t skip_plain(struct str s, size_t i)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t word;
    for (; i + sizeof word <= s.n; i += sizeof word) {
        memcpy(&word, s.p + i, sizeof word);
        if ((word - ones * 0x20) & ~word & (ones * 0x80))
            break;
    }
    return i;
}

/* RFC 9112 §3 and 9110 §15.5.15 name the status by the part that is too long. */
static int too_long(struct str in)
{
    if (memchr(in.p, '\n', in.n))
        return -431;
    return memchr(in.p, ' ', in.n) ? -414 : -400;
}

int http_head_length(struct str in, size_t max, size_t *scanned)
{
    struct str s = {in.p, MIN(in.n, max)};
    size_t i = *scanned;
    while ((i = skip_plain(s, i)) < s.n) {
        if (s.p[i] == '\0' || s.p[i] == '\n')
            return -400;
        if (s.p[i] != '\r') {
            i++;
            continue;
        }
        if (i + 1 == s.n)
            break; /* its LF may be on the way: look again */
        if (s.p[i + 1] != '\n')
            return -400;
        if (i == 0 || s.p[i - 1] == '\n')
            return (int)(i + 2);
        i += 2;
    }
    *scanned = i;
    return s.n < max ? 0 : too_long(s);
}

size_t http_skip_empty_lines(struct str in)
{
    size_t n = 0;
    while (n < 2 * HTTP_EMPTY_LINES_MAX && str_starts(str_skip(in, n), STR("\r\n")))
        n += 2;
    return n;
}

/* ---- parsing a head ------------------------------------------------------------------------- */

struct reader {
    struct http_head *head;
    const char *reason;
    struct str authority; /* of an absolute target; p == NULL if there was none */
    uint32_t seen;        /* one bit per row of known_fields */
    bool coding_chunked, coding_other;
    bool connection_close, connection_keep_alive;
};

static int refuse(struct reader *r, int status, const char *reason)
{
    r->reason = reason;
    return -status;
}

static bool port_is_valid(struct str port)
{
    int64_t value = 0; /* RFC 3986 allows an empty port */
    return port.n <= 5 && (port.n == 0 || (is_digit(port.p[0]) && str_to_int(port, &value))) &&
           value <= UINT16_MAX;
}

/* Length of the IPv6 address in brackets at the start of s, or 0. */
static size_t ipv6_literal(struct str s)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    const char *end = memchr(s.p, ']', s.n);
    size_t n = end ? (size_t)(end - s.p) - 1 : 0;
    if (n == 0 || n >= sizeof text)
        return 0;
    memcpy(text, s.p + 1, n);
    text[n] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1 ? n + 2 : 0;
}

/* host [":" port]; no user, no blanks, no lists. */
static bool authority_is_valid(struct str s)
{
    if (s.n == 0)
        return false;
    size_t n = s.p[0] == '[' ? ipv6_literal(s) : span(s, CHAR_HOST);
    if (n == 0)
        return false;
    struct str rest = str_skip(s, n);
    return rest.n == 0 || (rest.p[0] == ':' && port_is_valid(str_skip(rest, 1)));
}

static bool percent_is_valid(struct str s)
{
    return s.n >= 3 && char_is(s.p[1], CHAR_HEX) && char_is(s.p[2], CHAR_HEX);
}

static bool target_is_valid(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!char_is(s.p[i], CHAR_TARGET) || (s.p[i] == '%' && !percent_is_valid(str_skip(s, i))))
            return false;
    return true;
}

static bool path_has_control(struct str path)
{
    struct str before, rest = path;
    while (split(rest, '%', &before, &rest)) {
        int c = hex_value(rest.p[0]) * 16 + hex_value(rest.p[1]);
        if (c < 0x20 || c == 0x7F)
            return true;
    }
    return false;
}

/* Of an absolute target, scheme already gone; leaves the path and query in *target. */
static int read_authority(struct reader *r, struct str *target)
{
    size_t n = 0;
    while (n < target->n && target->p[n] != '/' && target->p[n] != '?')
        n++;
    r->authority = (struct str){target->p, n};
    *target = str_skip(*target, n);
    return authority_is_valid(r->authority) ? 0 : refuse(r, 400, "the target's host is not valid");
}

/* Length of the scheme that begins an absolute target, or 0. */
static size_t read_scheme(struct reader *r, struct str target)
{
    const struct str http = STR("http://"), https = STR("https://");
    r->head->is_https = str_starts_nocase(target, https);
    if (r->head->is_https)
        return https.n;
    return str_starts_nocase(target, http) ? http.n : 0;
}

static int read_path(struct reader *r, struct str target)
{
    struct http_head *h = r->head;
    if (!target_is_valid(target))
        return refuse(r, 400, "the target has a character that no URI has");
    if (!split(target, '?', &h->path, &h->query))
        h->path = target;
    if (path_has_control(h->path))
        return refuse(r, 400, "the path has an encoded control character");
    if (h->path.n == 0) /* of http://host: RFC 9110 §4.2.3 makes it this */
        h->path = STR("/");
    return 0;
}

static int read_target(struct reader *r, struct str target)
{
    if (target.n > HTTP_TARGET_BYTES_MAX)
        return refuse(r, 414, "the target is too long");
    if (str_is(target, "*")) {
        r->head->path = target;
        return r->head->method == HTTP_OPTIONS ? 0 : refuse(r, 400, "only OPTIONS may ask for *");
    }
    size_t scheme_bytes = read_scheme(r, target);
    if (scheme_bytes > 0) {
        target = str_skip(target, scheme_bytes);
        int status = read_authority(r, &target);
        if (status < 0)
            return status;
    } else if (target.n == 0 || target.p[0] != '/') {
        return refuse(r, 400, "the target is neither a path nor an http URI");
    }
    return read_path(r, target);
}

static int read_method(struct reader *r, struct str method)
{
    static const char *const names[HTTP_OTHER] = {
        [HTTP_GET] = "GET",    [HTTP_HEAD] = "HEAD",     [HTTP_POST] = "POST",
        [HTTP_PUT] = "PUT",    [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS",
        [HTTP_PATCH] = "PATCH"};
    if (method.n == 0 || !all_are(method, CHAR_TOKEN))
        return refuse(r, 400, "the method is not a token");
    if (str_is(method, "CONNECT")) /* its target has a form of its own */
        return refuse(r, 501, "this is not a proxy");
    unsigned m = 0;
    while (m < HTTP_OTHER && !str_is(method, names[m]))
        m++;
    r->head->method = (enum http_method)m;
    return 0;
}

static int read_version(struct reader *r, struct str version)
{
    const char *p = version.p;
    if (version.n != 8 || !str_starts(version, STR("HTTP/")) || !is_digit(p[5]) || p[6] != '.' ||
        !is_digit(p[7]))
        return refuse(r, 400, "the request line is not: method, target, HTTP/1.x");
    if (p[5] != '1')
        return refuse(r, 505, "only HTTP/1.x is spoken here");
    r->head->minor = p[7] == '0' ? 0 : 1;
    return 0;
}

/* Single spaces: a second one would be in the target or the version and fails there. */
static int read_request_line(struct reader *r, struct str line)
{
    struct str method, target, rest;
    if (!split(line, ' ', &method, &rest) || !split(rest, ' ', &target, &rest))
        return refuse(r, 400, "the request line is not: method, target, HTTP/1.x");
    int status = read_version(r, rest);
    if (status == 0)
        status = read_method(r, method);
    if (status == 0)
        status = read_target(r, target);
    return status;
}

static int read_content_length(struct reader *r, struct str value)
{
    bool canonical = value.n > 0 && is_digit(value.p[0]) && (value.n == 1 || value.p[0] != '0');
    if (!canonical || !str_to_int(value, &r->head->content_length))
        return refuse(r, 400, "Content-Length is not a number of bytes");
    return 0;
}

static int read_transfer_encoding(struct reader *r, struct str value)
{
    for (struct str coding; list_next(&value, &coding);) {
        if (coding.n == 0)
            return refuse(r, 400, "Transfer-Encoding has an empty member");
        if (r->coding_chunked)
            return refuse(r, 400, "chunked is not the last transfer coding");
        if (str_eq_nocase(coding, STR("chunked")))
            r->coding_chunked = true;
        else
            r->coding_other = true;
    }
    return 0;
}

static int read_connection(struct reader *r, struct str value)
{
    for (struct str option; list_next(&value, &option);) {
        r->connection_close |= str_eq_nocase(option, STR("close"));
        r->connection_keep_alive |= str_eq_nocase(option, STR("keep-alive"));
        r->head->connection_upgrade |= str_eq_nocase(option, STR("upgrade"));
    }
    return 0;
}

static int read_expect(struct reader *r, struct str value)
{
    if (!str_eq_nocase(value, STR("100-continue")))
        return refuse(r, 417, "only 100-continue may be expected");
    r->head->expect_continue = true;
    return 0;
}

typedef int field_fn(struct reader *r, struct str value);

enum field_rule { FIELD_ANY, FIELD_ONCE }; /* once: a second one is refused */

enum field_index { FIELD_HOST, FIELD_CONTENT_LENGTH, FIELD_TRANSFER_ENCODING };

struct known_field {
    struct str name;
    enum field_rule rule;
    field_fn *read; /* or NULL: the value is stored at `offset` */
    size_t offset;
};

// clang-format off
#define NAME(literal) {"" literal, sizeof(literal) - 1}
#define AT(member) NULL, offsetof(struct http_head, member)
static const struct known_field known_fields[] = {
    [FIELD_HOST]              = {NAME("Host"), FIELD_ONCE, AT(host)},
    [FIELD_CONTENT_LENGTH]    = {NAME("Content-Length"), FIELD_ONCE, read_content_length, 0},
    [FIELD_TRANSFER_ENCODING] = {NAME("Transfer-Encoding"), FIELD_ANY, read_transfer_encoding, 0},
    {NAME("Connection"),            FIELD_ANY,  read_connection, 0},
    {NAME("Expect"),                FIELD_ANY,  read_expect, 0},
    {NAME("Authorization"),         FIELD_ONCE, AT(authorization)},
    {NAME("Origin"),                FIELD_ONCE, AT(origin)},
    {NAME("Content-Type"),          FIELD_ONCE, AT(content_type)},
    {NAME("Cookie"),                FIELD_ONCE, AT(cookie)},
    {NAME("Last-Event-ID"),         FIELD_ONCE, AT(last_event_id)},
    {NAME("Accept"),                FIELD_ANY,  AT(accept)},
    {NAME("Upgrade"),               FIELD_ANY,  AT(upgrade)},
    {NAME("Sec-WebSocket-Key"),     FIELD_ONCE, AT(ws_key)},
    {NAME("Sec-WebSocket-Version"), FIELD_ONCE, AT(ws_version)},
};
#undef NAME
#undef AT
// clang-format on

_Static_assert(ARRAY_LEN(known_fields) <= 32, "reader.seen has one bit per row");

static bool field_seen(const struct reader *r, enum field_index i)
{
    return r->seen & (UINT32_C(1) << i);
}

static int read_known_field(struct reader *r, unsigned index, struct str value)
{
    const struct known_field *f = &known_fields[index];
    bool again = r->seen & (UINT32_C(1) << index);
    r->seen |= UINT32_C(1) << index;
    if (again && f->rule == FIELD_ONCE)
        return refuse(r, 400, "a header that may be given once was given twice");
    if (f->read)
        return f->read(r, value);
    if (!again)
        *(struct str *)(void *)((char *)r->head + f->offset) = value;
    return 0;
}

static int read_field_line(struct reader *r, struct str line)
{
    struct http_head *h = r->head;
    struct str name, raw;
    if (is_blank(line.p[0]))
        return refuse(r, 400, "a header line is folded");
    if (!split(line, ':', &name, &raw))
        return refuse(r, 400, "a header line has no colon");
    if (name.n == 0 || !all_are(name, CHAR_TOKEN))
        return refuse(r, 400, "a header's name is not a token");
    if (!all_are(raw, CHAR_VALUE))
        return refuse(r, 400, "a header's value has a control character");
    if (h->header_count == HTTP_HEADERS_MAX)
        return refuse(r, 431, "too many headers");
    struct str value = trim(raw);
    h->headers[h->header_count++] = (struct http_header){name, value};
    for (unsigned i = 0; i < ARRAY_LEN(known_fields); i++)
        if (str_eq_nocase(known_fields[i].name, name))
            return read_known_field(r, i, value);
    return 0;
}

static int check_host(struct reader *r)
{
    struct http_head *h = r->head;
    if (!field_seen(r, FIELD_HOST) && h->minor >= 1)
        return refuse(r, 400, "there is no Host");
    if (field_seen(r, FIELD_HOST) && !authority_is_valid(h->host))
        return refuse(r, 400, "Host is not a host");
    if (r->authority.p) /* RFC 9112 §3.2.2: it takes the place of Host */
        h->host = r->authority;
    return 0;
}

static int check_framing(struct reader *r)
{
    struct http_head *h = r->head;
    if (!field_seen(r, FIELD_TRANSFER_ENCODING))
        return 0;
    if (field_seen(r, FIELD_CONTENT_LENGTH))
        return refuse(r, 400, "both Content-Length and Transfer-Encoding");
    if (h->minor == 0)
        return refuse(r, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (r->coding_other)
        return refuse(r, 501, "only the transfer coding chunked is known");
    h->chunked = true;
    h->content_length = -1;
    return 0;
}

/* What only the whole head tells. */
static int finish_head(struct reader *r)
{
    struct http_head *h = r->head;
    int status = check_host(r);
    if (status == 0)
        status = check_framing(r);
    h->keep_alive = !r->connection_close && (h->minor >= 1 || r->connection_keep_alive);
    h->expect_continue &= h->minor >= 1 && h->content_length != 0;
    h->connection_upgrade &= h->minor >= 1;
    return status;
}

static bool next_line(struct str *in, struct str *ret_line)
{
    struct str line;
    if (!split(*in, '\n', &line, in) || line.n == 0 || line.p[line.n - 1] != '\r')
        return false;
    *ret_line = (struct str){line.p, line.n - 1};
    return true;
}

static int read_head(struct reader *r, struct str in)
{
    struct str line;
    if (!next_line(&in, &line))
        return refuse(r, 400, "there is no request line");
    int status = read_request_line(r, line);
    while (status == 0) {
        if (!next_line(&in, &line))
            return refuse(r, 400, "a line does not end in CRLF");
        if (line.n == 0)
            return finish_head(r);
        status = read_field_line(r, line);
    }
    return status;
}

int http_parse_head(struct str head, struct http_head *ret, const char **ret_reason)
{
    struct reader r = {.head = ret};
    memset(ret, 0, offsetof(struct http_head, headers));
    int status = read_head(&r, head);
    if (status < 0)
        *ret_reason = r.reason;
    return status;
}

/* ---- chunked bodies ------------------------------------------------------------------------- */

// clang-format off
enum symbol {
    SYM_BAD,
    SYM_HEX, SYM_TOKEN, SYM_BLANK, /* a token character is SYM_TOKEN if it is no hex digit */
    SYM_SEMICOLON, SYM_COLON, SYM_EQUALS, SYM_QUOTE, SYM_BACKSLASH, SYM_CR, SYM_LF,
    SYM_TEXT, /* anything else a field value may have */
    SYM_COUNT
};
static const char symbol_marks[] = ";:=\"\\\r\n"; /* SYM_SEMICOLON … SYM_LF */
// clang-format on

_Static_assert(SYM_LF - SYM_SEMICOLON + 2 == sizeof symbol_marks, "one mark per symbol");

/*
 *   5 ; name = "value" CR LF   five bytes   CR LF   0 CR LF   Name: value CR LF   CR LF
 *   └ CHUNK_SIZE  └ EXT_…           └ CHUNK_DATA      └ CHUNK_SIZE └ TRAILER_…
 */
// clang-format off
enum chunk_state {
    CHUNK_START, /* of a zeroed struct; no transition leads here, so 0 in the table is a refusal */
    CHUNK_NEXT, CHUNK_SIZE,
    EXT_GAP, /* blanks after a size or a value: only ';' may follow */
    EXT_START, EXT_NAME, EXT_NAMED, EXT_EQUALS, EXT_VALUE, EXT_QUOTED, EXT_ESCAPED, EXT_UNQUOTED,
    CHUNK_SIZE_LF, CHUNK_DATA, CHUNK_DATA_CR, CHUNK_DATA_LF,
    TRAILER_START, TRAILER_NAME, TRAILER_VALUE, TRAILER_LF, TRAILER_END_LF,
    CHUNK_DONE,
    CHUNK_STATES
};

enum { CHUNK_DIGITS_MAX = 15 }; /* of a size: more could overflow */

#define TOKEN_TO(s) [SYM_HEX] = s, [SYM_TOKEN] = s
#define PLAIN_TO(s) TOKEN_TO(s), [SYM_BLANK] = s, [SYM_SEMICOLON] = s, [SYM_COLON] = s, \
                    [SYM_EQUALS] = s, [SYM_TEXT] = s
#define VALUE_TO(s) PLAIN_TO(s), [SYM_QUOTE] = s, [SYM_BACKSLASH] = s
static const uint8_t chunk_next[CHUNK_STATES][SYM_COUNT] = {
    [CHUNK_START]   = {[SYM_HEX] = CHUNK_SIZE},
    [CHUNK_NEXT]    = {[SYM_HEX] = CHUNK_SIZE},
    [CHUNK_SIZE]    = {[SYM_HEX] = CHUNK_SIZE, [SYM_BLANK] = EXT_GAP, [SYM_SEMICOLON] = EXT_START,
                       [SYM_CR] = CHUNK_SIZE_LF},
    [EXT_GAP]       = {[SYM_BLANK] = EXT_GAP, [SYM_SEMICOLON] = EXT_START},
    [EXT_START]     = {[SYM_BLANK] = EXT_START, TOKEN_TO(EXT_NAME)},
    [EXT_NAME]      = {TOKEN_TO(EXT_NAME), [SYM_BLANK] = EXT_NAMED, [SYM_EQUALS] = EXT_EQUALS,
                       [SYM_SEMICOLON] = EXT_START, [SYM_CR] = CHUNK_SIZE_LF},
    [EXT_NAMED]     = {[SYM_BLANK] = EXT_NAMED, [SYM_EQUALS] = EXT_EQUALS,
                       [SYM_SEMICOLON] = EXT_START},
    [EXT_EQUALS]    = {[SYM_BLANK] = EXT_EQUALS, TOKEN_TO(EXT_VALUE), [SYM_QUOTE] = EXT_QUOTED},
    [EXT_VALUE]     = {TOKEN_TO(EXT_VALUE), [SYM_BLANK] = EXT_GAP, [SYM_SEMICOLON] = EXT_START,
                       [SYM_CR] = CHUNK_SIZE_LF},
    [EXT_QUOTED]    = {PLAIN_TO(EXT_QUOTED), [SYM_BACKSLASH] = EXT_ESCAPED,
                       [SYM_QUOTE] = EXT_UNQUOTED},
    [EXT_ESCAPED]   = {VALUE_TO(EXT_QUOTED)},
    [EXT_UNQUOTED]  = {[SYM_BLANK] = EXT_GAP, [SYM_SEMICOLON] = EXT_START,
                       [SYM_CR] = CHUNK_SIZE_LF},
    [CHUNK_SIZE_LF] = {[SYM_LF] = CHUNK_DATA},
    [CHUNK_DATA_CR] = {[SYM_CR] = CHUNK_DATA_LF},
    [CHUNK_DATA_LF] = {[SYM_LF] = CHUNK_NEXT},
    [TRAILER_START] = {TOKEN_TO(TRAILER_NAME), [SYM_CR] = TRAILER_END_LF},
    [TRAILER_NAME]  = {TOKEN_TO(TRAILER_NAME), [SYM_COLON] = TRAILER_VALUE},
    [TRAILER_VALUE] = {VALUE_TO(TRAILER_VALUE), [SYM_CR] = TRAILER_LF},
    [TRAILER_LF]    = {[SYM_LF] = TRAILER_START},
    [TRAILER_END_LF] = {[SYM_LF] = CHUNK_DONE},
};
#undef TOKEN_TO
#undef PLAIN_TO
#undef VALUE_TO
// clang-format on

static enum symbol symbol_of(char c)
{
    const char *mark = c ? strchr(symbol_marks, c) : NULL;
    if (mark)
        return SYM_SEMICOLON + (enum symbol)(mark - symbol_marks);
    if (is_blank(c))
        return SYM_BLANK;
    if (char_is(c, CHAR_HEX))
        return SYM_HEX;
    if (char_is(c, CHAR_TOKEN))
        return SYM_TOKEN;
    return char_is(c, CHAR_VALUE) ? SYM_TEXT : SYM_BAD;
}

static int chunk_add_digit(struct http_chunked *c, char digit)
{
    if (c->digits == CHUNK_DIGITS_MAX)
        return -400;
    c->digits++;
    c->left = c->left * 16 + hex_value(digit);
    return 0;
}

/* The size line is over: a chunk of no bytes is the last one, and trailers follow it. */
static int chunk_begin(struct http_chunked *c, size_t body_bytes_max)
{
    c->digits = 0;
    if (c->left == 0) {
        c->state = TRAILER_START;
        c->overhead = 0;
        return 0;
    }
    return (uint64_t)c->left > body_bytes_max - MIN(c->total, body_bytes_max) ? -413 : 0;
}

static int chunk_step(struct http_chunked *c, char byte, size_t body_bytes_max)
{
    uint8_t to = chunk_next[c->state][symbol_of(byte)];
    if (to == 0)
        return -400;
    c->state = to;
    if (to == CHUNK_SIZE)
        return chunk_add_digit(c, byte);
    if (to == CHUNK_DATA)
        return chunk_begin(c, body_bytes_max);
    if (to >= EXT_GAP && to <= EXT_UNQUOTED)
        return ++c->overhead > HTTP_CHUNK_EXTRA_MAX ? -400 : 0;
    if (to >= TRAILER_START && to <= TRAILER_END_LF)
        return ++c->overhead > HTTP_CHUNK_EXTRA_MAX ? -431 : 0;
    c->done = to == CHUNK_DONE;
    return 0;
}

static size_t chunk_take_data(struct http_chunked *c, struct str in, struct buf *out)
{
    size_t n = (size_t)MIN((uint64_t)c->left, (uint64_t)in.n);
    buf_add(out, in.p, n);
    c->total += n;
    c->left -= (int64_t)n;
    if (c->left == 0)
        c->state = CHUNK_DATA_CR;
    return n;
}

int64_t http_chunked_feed(struct http_chunked *c, struct str in, size_t body_bytes_max,
                          struct buf *out)
{
    size_t used = 0;
    while (used < in.n && !c->done) {
        if (c->state == CHUNK_DATA) {
            used += chunk_take_data(c, str_skip(in, used), out);
            if (out->overflow)
                return -413;
            continue;
        }
        int status = chunk_step(c, in.p[used++], body_bytes_max);
        if (status < 0)
            return status;
    }
    return (int64_t)used;
}

/* ---- answers and queries -------------------------------------------------------------------- */

// clang-format off
#define STATUS_LIST(X)                                                                            \
    X(100, "Continue")                          X(101, "Switching Protocols")                     \
    X(200, "OK")                                X(201, "Created")                                 \
    X(202, "Accepted")                          X(204, "No Content")                              \
    X(302, "Found")                             X(303, "See Other")                               \
    X(304, "Not Modified")                      X(400, "Bad Request")                             \
    X(401, "Unauthorized")                      X(403, "Forbidden")                               \
    X(404, "Not Found")                         X(405, "Method Not Allowed")                      \
    X(406, "Not Acceptable")                    X(408, "Request Timeout")                         \
    X(409, "Conflict")                          X(411, "Length Required")                         \
    X(413, "Content Too Large")                 X(414, "URI Too Long")                            \
    X(415, "Unsupported Media Type")            X(417, "Expectation Failed")                      \
    X(421, "Misdirected Request")               X(426, "Upgrade Required")                        \
    X(429, "Too Many Requests")                 X(431, "Request Header Fields Too Large")         \
    X(500, "Internal Server Error")             X(501, "Not Implemented")                         \
    X(503, "Service Unavailable")               X(505, "HTTP Version Not Supported")
// clang-format on

const char *http_status_text(int status)
{
    switch (status) {
#define X(code, text) \
    case code:        \
        return text;
        STATUS_LIST(X)
#undef X
    default:
        return "Unknown";
    }
}

void http_write_status(struct buf *out, int status)
{
    buf_addf(out, "HTTP/1.1 %d %s\r\n", status, http_status_text(status));
    if (status >= 200) /* an interim answer carries nothing but itself */
        buf_addz(out, "Server: reeve\r\nX-Content-Type-Options: nosniff\r\n");
}

/* The next character of percent-encoded text, or -1 if it is badly encoded. */
static int decode_next(struct str *s)
{
    if (s->p[0] != '%') {
        int c = (unsigned char)s->p[0];
        *s = str_skip(*s, 1);
        return c;
    }
    if (!percent_is_valid(*s))
        return -1;
    int c = hex_value(s->p[1]) * 16 + hex_value(s->p[2]);
    *s = str_skip(*s, 3);
    return c;
}

static bool decodes_to(struct str text, const char *name)
{
    while (text.n > 0 && *name)
        if (decode_next(&text) != (unsigned char)*name++)
            return false;
    return text.n == 0 && *name == '\0';
}

static bool decode_into(struct str text, struct buf *ret)
{
    size_t before = ret->len;
    while (text.n > 0) {
        int c = decode_next(&text);
        if (c < 0) {
            buf_truncate(ret, before);
            return false;
        }
        buf_addc(ret, (char)c);
    }
    return !ret->overflow;
}

bool http_query_get(struct str query, const char *name, struct buf *ret)
{
    while (query.n > 0) {
        struct str pair = query, rest = STR_NONE, key, value = STR_NONE;
        split(query, '&', &pair, &rest);
        key = pair;
        split(pair, '=', &key, &value);
        if (decodes_to(key, name))
            return decode_into(value, ret);
        query = rest;
    }
    return false;
}
