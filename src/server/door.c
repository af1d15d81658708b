/*
 * door.c: see door.h.
 *
 * Host and Origin are checked before anything else, for every path: a page in somebody's browser
 * must not reach a server on loopback by a name that resolves there (DNS rebinding).
 */
#include "server/door.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rpc/rpc.h"

/* ---- answers ---- */

static enum err_code code_for(int status)
{
    switch (status) {
    case 401:
        return ERR_UNAUTHENTICATED;
    case 403:
        return ERR_FORBIDDEN;
    case 404:
        return ERR_NOT_FOUND;
    case 413:
    case 414:
    case 431:
        return ERR_TOO_LARGE;
    case 503:
        return ERR_RATE_LIMITED;
    default:
        return ERR_INVALID_REQUEST;
    }
}

static int64_t limit_for(const struct door *d, int status)
{
    if (status == 413)
        return option_get(d->options, net, body_bytes_max);
    if (status == 431)
        return option_get(d->options, net, header_bytes_max);
    if (status == 414)
        return HTTP_TARGET_BYTES_MAX;
    return status == 503 ? option_get(d->options, net, connections_max) : 0;
}

void door_write_error(void *ctx, struct buf *out, int status, const char *reason)
{
    const struct door *d = ctx;
    struct err err = ERR_INIT;
    err_set(&err, code_for(status), "%s", reason);
    int64_t limit = limit_for(d, status);
    if (limit)
        err_int(&err, "limit", limit);
    rpc_write_error(out, STR("null"), &err);
}

static void refuse(struct door *d, struct conn *c, int status, const char *extra_headers,
                   const char *reason)
{
    _cleanup_buf_ struct buf body = BUF_INIT(4096);
    door_write_error(d, &body, status, reason);
    conn_respond(c, status, "application/json", extra_headers, buf_str(&body));
}

/* For errors that are not told by the status alone. */
static void refuse_with(struct conn *c, int status, const char *extra_headers,
                        const struct err *err)
{
    _cleanup_buf_ struct buf body = BUF_INIT(4096);
    rpc_write_error(&body, STR("null"), err);
    conn_respond(c, status, "application/json", extra_headers, buf_str(&body));
}

static void refuse_stopping(struct conn *c)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_UNAVAILABLE, "the server is shutting down");
    refuse_with(c, 503, "Retry-After: 1\r\n", &err);
}

/* As the core refuses one that does not exist. */
static void refuse_conversation(struct conn *c, int64_t conversation)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_NOT_FOUND, "there is no conversation %lld", (long long)conversation);
    err_str(&err, "what", STR("conversation"));
    err_int(&err, "id", conversation);
    refuse_with(c, 404, "", &err);
}

/* ---- who may pass ---- */

/* The name of "name:port", "[v6]:port" or either without a port. */
static struct str host_name(struct str host)
{
    if (host.n && host.p[0] == '[') {
        const char *end = memchr(host.p, ']', host.n);
        return end ? (struct str){host.p, (size_t)(end - host.p) + 1} : host;
    }
    const char *colon = memchr(host.p, ':', host.n);
    return colon ? (struct str){host.p, (size_t)(colon - host.p)} : host;
}

static bool host_is_ours(const struct door *d, struct str host)
{
    static const char *const usual[] = {"localhost", "127.0.0.1", "[::1]"};
    struct str name = host_name(host);
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (str_eq_nocase(name, str_of(usual[i])))
            return true;
    for (size_t i = 0; i < d->allowed_host_count; i++)
        if (str_eq_nocase(name, str_of(d->allowed_hosts[i])))
            return true;
    return str_eq_nocase(name, str_of(d->listen_host));
}

/* Same origin: scheme aside, the very host and port the request was sent to. */
static bool origin_is_ours(struct str origin, struct str host)
{
    struct str rest = origin;
    if (str_starts(origin, STR("http://")))
        rest = str_skip(origin, 7);
    else if (str_starts(origin, STR("https://")))
        rest = str_skip(origin, 8);
    else
        return false;
    return str_eq_nocase(rest, host);
}

static bool check_host(struct door *d, struct conn *c, const struct http_head *head)
{
    /* HTTP/1.0 may come without a Host; a browser never does. */
    if (head->host.n && !host_is_ours(d, head->host)) {
        refuse(d, c, 403, "", "this Host is not served here");
        return false;
    }
    if (head->origin.n && !origin_is_ours(head->origin, head->host)) {
        refuse(d, c, 403, "", "requests from this Origin are refused");
        return false;
    }
    return true;
}

/* "Bearer", one or more spaces, the token (RFC 9110 §11.4); STR_NONE if it is anything else. */
static struct str bearer_token(struct str authorization)
{
    const struct str scheme = STR("Bearer ");
    if (!str_starts_nocase(authorization, scheme))
        return STR_NONE;
    struct str token = str_skip(authorization, scheme.n);
    while (token.n && token.p[0] == ' ')
        token = str_skip(token, 1);
    return token;
}

/* The digest of the bearer token; of nothing if there is none. */
static void token_digest(const struct http_head *head, uint8_t ret[SHA256_BYTES])
{
    crypto_sha256(bearer_token(head->authorization), ret);
}

static bool authenticate(struct door *d, struct conn *c, const struct http_head *head,
                         struct grant *ret)
{
    uint8_t digest[SHA256_BYTES];
    token_digest(head, digest);
    if (auth_check(d->auth, digest, ret))
        return true;
    refuse(d, c, 401, "WWW-Authenticate: Bearer\r\n", "no valid token");
    return false;
}

/* What stays open is asked again who it is: with each message, and when tokens change. */
static void keep_digest(struct conn *c, const struct http_head *head)
{
    uint8_t *digest = mem_alloc(SHA256_BYTES);
    token_digest(head, digest);
    conn_set_data(c, digest, free);
}

void door_recheck(void *ctx, struct conn *c)
{
    struct door *d = ctx;
    struct grant g;
    if (conn_data(c) && !auth_check(d->auth, conn_data(c), &g))
        conn_end(c, 1008, "the token is no longer valid");
}

/* ---- routes ---- */

static void submit_request(struct door *d, struct conn *c, const struct grant *g, bool is_socket,
                           struct str text)
{
    struct core_input *in = core_input_new(CORE_REQUEST, conn_peer(c));
    in->bytes = text.n;
    in->request = rpc_request_new(in->peer, g, is_socket, text,
                                  (unsigned)option_get(d->options, net, json_depth_max));
    d->submit(d->ctx, in);
}

static void serve_rpc(struct door *d, struct conn *c, const struct http_head *head, struct str body)
{
    struct grant g;
    if (authenticate(d, c, head, &g))
        submit_request(d, c, &g, false, body);
}

static void serve_socket(struct door *d, struct conn *c, const struct http_head *head,
                         struct str body)
{
    (void)body;
    struct grant g;
    if (!authenticate(d, c, head, &g))
        return;
    keep_digest(c, head);
    _cleanup_buf_ struct buf welcome = BUF_INIT(512);
    buf_addf(&welcome,
             "{\"jsonrpc\":\"2.0\",\"method\":\"welcome\","
             "\"params\":{\"server\":\"reeve\",\"version\":\"%s\"}}",
             d->version);
    conn_accept_socket(c, head, "jsonrpc", buf_str(&welcome));
}

/* A number in the query string or header; -1 if absent; false if it is not one. */
static bool read_number(struct str text, bool is_given, int64_t *ret)
{
    *ret = -1;
    return !is_given || (str_to_int(text, ret) && *ret >= 0);
}

static bool read_stream_params(const struct http_head *head, struct subscribe *ret)
{
    struct buf conversation = BUF_INIT(32), after = BUF_INIT(32);
    bool has_conversation = http_query_get(head->query, "conversation", &conversation),
         has_after = http_query_get(head->query, "after", &after);
    int64_t in_query, in_header;
    bool ok = !conversation.overflow && !after.overflow && /* too long to be a number */
              read_number(buf_str(&conversation), has_conversation, &ret->conversation) &&
              read_number(buf_str(&after), has_after, &in_query) &&
              read_number(head->last_event_id, head->last_event_id.n > 0, &in_header);
    if (ok && !has_conversation)
        ret->conversation = SUBSCRIBE_ALL;
    if (ok)
        ret->after_id = in_header >= 0 ? in_header : in_query;
    ret->after_seq = -1;
    buf_release(&conversation);
    buf_release(&after);
    return ok;
}

static void serve_events(struct door *d, struct conn *c, const struct http_head *head,
                         struct str body)
{
    (void)body;
    struct grant g;
    struct subscribe ask = {.is_stream = true};
    if (!authenticate(d, c, head, &g))
        return;
    if (!read_stream_params(head, &ask)) {
        refuse(d, c, 400, "", "conversation, after and Last-Event-ID must be numbers");
        return;
    }
    if (ask.conversation == SUBSCRIBE_ALL && g.conversation)
        ask.conversation = g.conversation;
    if (ask.conversation != SUBSCRIBE_ALL && !grant_sees(&g, ask.conversation)) {
        refuse_conversation(c, ask.conversation);
        return;
    }
    ask.hides_server_log = g.scope != SCOPE_OPERATOR;
    ask.expires_ms = g.expires_ms;
    keep_digest(c, head);
    struct core_input *in = core_input_new(CORE_STREAM, conn_peer(c));
    in->subscribe = ask;
    in->grant = g;
    d->submit(d->ctx, in);
}

static void serve_healthz(struct door *d, struct conn *c, const struct http_head *head,
                          struct str body)
{
    (void)d, (void)head, (void)body;
    conn_respond(c, 200, "text/plain", "", STR("ok\n"));
}

static void serve_readyz(struct door *d, struct conn *c, const struct http_head *head,
                         struct str body)
{
    (void)head, (void)body;
    if (d->is_writable(d->ctx))
        conn_respond(c, 200, "text/plain", "", STR("ready\n"));
    else
        conn_respond(c, 503, "text/plain", "", STR("the store cannot take writes now\n"));
}

static void serve_metrics(struct door *d, struct conn *c, const struct http_head *head,
                          struct str body)
{
    (void)body;
    struct grant g;
    if (!conn_is_loopback(c) && !authenticate(d, c, head, &g))
        return;
    _cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
    d->write_metrics(d->ctx, &text);
    conn_respond(c, 200, "text/plain; version=0.0.4", "", buf_str(&text));
}

static const struct route {
    const char *path;
    enum http_method method;
    void (*serve)(struct door *d, struct conn *c, const struct http_head *head, struct str body);
} routes[] = {
    // clang-format off
    {"/rpc", HTTP_POST, serve_rpc},
    {"/ws", HTTP_GET, serve_socket},
    {"/events", HTTP_GET, serve_events},
    {"/healthz", HTTP_GET, serve_healthz},
    {"/readyz", HTTP_GET, serve_readyz},
    {"/metrics", HTTP_GET, serve_metrics},
    // clang-format on
};

static const struct route *find_route(struct str path)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (str_is(path, routes[i].path))
            return &routes[i];
    return NULL;
}

/* HEAD asks for the head of what GET would give; of a stream or a socket there is none. */
static bool method_fits(const struct route *route, enum http_method method)
{
    if (method == HTTP_HEAD)
        return route->method == HTTP_GET && route->serve != serve_events &&
               route->serve != serve_socket;
    return method == route->method;
}

static const char *allow_header(const struct route *route)
{
    if (route->method == HTTP_POST)
        return "Allow: POST\r\n";
    return method_fits(route, HTTP_HEAD) ? "Allow: GET, HEAD\r\n" : "Allow: GET\r\n";
}

void door_request(void *ctx, struct conn *c, const struct http_head *head, struct str body)
{
    struct door *d = ctx;
    const struct route *route = find_route(head->path);
    if (!check_host(d, c, head))
        return;
    if (str_is(head->path, "*")) /* OPTIONS: about the server as a whole */
        conn_respond(c, 204, "", "Allow: GET, HEAD, POST, OPTIONS\r\n", STR_NONE);
    else if (head->method == HTTP_OTHER)
        refuse(d, c, 501, "", "this method is not known");
    else if (!route)
        refuse(d, c, 404, "", "there is nothing at this path");
    else if (!method_fits(route, head->method))
        refuse(d, c, 405, allow_header(route), "this path has another method");
    else if (d->is_stopping)
        refuse_stopping(c);
    else
        route->serve(d, c, head, body);
}

void door_message(void *ctx, struct conn *c, struct str text)
{
    struct door *d = ctx;
    struct grant g;
    if (d->is_stopping)
        return; /* it is about to be closed with a reason */
    if (auth_check(d->auth, conn_data(c), &g))
        submit_request(d, c, &g, true, text);
    else
        conn_end(c, 1008, "the token is no longer valid");
}

void door_closed(void *ctx, struct peer *p)
{
    struct door *d = ctx;
    d->submit(d->ctx, core_input_new(CORE_CLOSED, p));
}

void door_drained(void *ctx, struct peer *p)
{
    struct door *d = ctx;
    d->submit(d->ctx, core_input_new(CORE_DRAINED, p));
}

void door_turn_end(void *ctx)
{
    struct door *d = ctx;
    d->turn_end(d->ctx);
}
