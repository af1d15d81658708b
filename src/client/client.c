/*
 * client.c: JSON-RPC over HTTP and the event stream, on libcurl.
 *
 * The one file that knows libcurl. Owns an easy handle for calls, in a multi handle that keeps the
 * connection and lets a call be given up, and, per stream, another pair of them.
 *
 * Invariants:
 *   - the token goes to the server it was meant for: redirects are not followed, and plain http
 *     never goes through a proxy of the environment
 *   - TLS certificates are checked (libcurl's default, not touched here)
 *   - a response is capped while it arrives, not after
 *   - a stream's `last_id` moves when an event has been handed over, never before, and is what the
 *     next connection resumes from
 *
 * Rejected: a thread for the stream (curl_multi_poll takes the caller's descriptors along, and one
 * thread has no races), and hanging libcurl's sockets into base/loop.h (three times the code for
 * programs that have one connection).
 */
#include "client/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"
#include "client/sse.h"

#ifndef REEVE_VERSION
#define REEVE_VERSION "0.1.0-dev"
#endif

enum {
    CONNECT_MS_MAX = 5000,
    CALL_MS_MAX = 60000,
    QUIET_SECONDS_MAX = 60, /* a stream has a ping every 15 s */
    BACKOFF_FIRST_MS = 100,
    BACKOFF_MAX_MS = 5000,
    EVENT_BYTES_MAX = 16 * 1024 * 1024,
    REFUSAL_BYTES_MAX = 64 * 1024,
    RESPONSE_DEPTH_MAX = JSON_DEPTH_MAX,
    URL_BYTES_MAX = 32 * 1024, /* server.json is smaller */
    FDS_MAX = 8,
};

struct client {
    struct endpoint_source source;
    struct endpoint endpoint;
    CURLM *multi;
    CURL *easy;
    char failure[CURL_ERROR_SIZE];
    int64_t next_id;
};

struct client_stream {
    struct client *client;
    struct client_stream_handler handler;
    int64_t conversation, after_id;
    int64_t last_id; /* -1 until an event has been delivered */
    CURLM *multi;
    CURL *easy;
    struct curl_slist *headers;
    char failure[CURL_ERROR_SIZE];
    struct sse sse;
    struct buf refusal;
    bool attached;  /* the easy handle is in the multi handle: an attempt is under way */
    bool ever_open; /* an answer 200 has been seen, so losing it is an outage */
    bool outage_told;
    int64_t attempt_us; /* the next attempt, while not attached */
    int64_t backoff_ms;
    int stop; /* what ended the delivery, or 0 */
    struct err stop_err;
};

static void set_long(CURL *easy, CURLoption option, long value)
{
    REQUIRE(curl_easy_setopt(easy, option, value) == CURLE_OK);
}

static void set_text(CURL *easy, CURLoption option, const char *value)
{
    REQUIRE(curl_easy_setopt(easy, option, value) == CURLE_OK);
}

/* What calls and streams have in common; the handle keeps its connections. */
static void prepare(struct client *c, CURL *easy, const char *url, char *failure)
{
    curl_easy_reset(easy);
    set_text(easy, CURLOPT_URL, url);
    set_text(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    set_text(easy, CURLOPT_USERAGENT, "reeve/" REEVE_VERSION);
    set_long(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    set_long(easy, CURLOPT_NOSIGNAL, 1);
    set_long(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS_MAX);
    REQUIRE(curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, failure) == CURLE_OK);
    failure[0] = '\0';
    if (strncmp(c->endpoint.url, "http://", 7) == 0)
        set_text(easy, CURLOPT_PROXY, "");
}

static struct curl_slist *add_header(struct curl_slist *list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(list, line);
    REQUIRE(longer);
    return longer;
}

static struct curl_slist *common_headers(const struct client *c)
{
    _cleanup_free_ char *token = mem_printf("Authorization: Bearer %s", c->endpoint.token);
    return add_header(NULL, token);
}

/* Why a transfer failed; "Connection refused" says more than libcurl's sentence about it. */
static const char *why(CURL *easy, CURLcode code, const char *failure)
{
    long error = 0;
    if (code == CURLE_COULDNT_CONNECT)
        curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &error);
    if (error)
        return strerror((int)error);
    return failure[0] ? failure : curl_easy_strerror(code);
}

int client_open(const struct endpoint_source *source, struct client **ret, struct err *err)
{
    struct endpoint endpoint;
    int r = endpoint_resolve(source, &endpoint, err);
    if (r < 0)
        return r;
    REQUIRE(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    struct client *c = mem_zalloc(sizeof *c);
    *c = (struct client){.source = *source,
                         .endpoint = endpoint,
                         .multi = curl_multi_init(),
                         .easy = curl_easy_init()};
    REQUIRE(c->multi && c->easy);
    *ret = c;
    return 0;
}

struct client *client_close(struct client *c)
{
    if (!c)
        return NULL;
    curl_easy_cleanup(c->easy);
    curl_multi_cleanup(c->multi);
    endpoint_release(&c->endpoint);
    free(c);
    curl_global_cleanup();
    return NULL;
}

const char *client_url(const struct client *c)
{
    return c->endpoint.url;
}

const char *client_library_version(void)
{
    return curl_version_info(CURLVERSION_NOW)->version;
}

/* ---- answers ---- */

static const struct {
    long status;
    enum err_code code;
} status_codes[] = {
    {401, ERR_UNAUTHENTICATED}, {403, ERR_FORBIDDEN}, {404, ERR_NO_SERVER},   {413, ERR_TOO_LARGE},
    {429, ERR_RATE_LIMITED},    {502, ERR_NO_SERVER}, {503, ERR_UNAVAILABLE}, {504, ERR_NO_SERVER},
};

/* An answer that is not JSON-RPC: all there is to go by is the HTTP status. */
static int error_of_status(const struct client *c, long status, struct err *err)
{
    enum err_code code = ERR_INTERNAL;
    for (size_t i = 0; i < ARRAY_LEN(status_codes); i++)
        if (status_codes[i].status == status)
            code = status_codes[i].code;
    return err_set(err, code, "%s answers with HTTP status %ld", c->endpoint.url, status);
}

/* Adds a member to err->data if it fits whole; `name` is what err_name() gives already. */
static void add_data(struct err *err, const struct json *member)
{
    if (str_is(member->key, "name"))
        return;
    _cleanup_buf_ struct buf b = BUF_INIT(ERR_DATA_BYTES);
    size_t have = strlen(err->data);
    if (have)
        buf_addc(&b, ',');
    json_write_string(&b, member->key);
    buf_addc(&b, ':');
    json_write_value(&b, member);
    if (!b.overflow && have + b.len < sizeof err->data)
        memcpy(err->data + have, b.data, b.len + 1);
}

/* The "error" member of an answer as one of our errors; false if it is not one. */
static bool read_error(const struct json *error, struct err *err)
{
    const struct json *code = json_get(error, "code");
    const struct json *message = json_get(error, "message");
    if (!code || code->type != JSON_INT)
        return false;
    int ours = err_from_rpc_code(code->integer);
    struct str text =
        message && message->type == JSON_STRING ? message->string : str_of(err_text(ours));
    err_set(err, (enum err_code)ours, "%.*s", STR_ARG(text));
    const struct json *data = json_get(error, "data");
    if (data && data->type == JSON_OBJECT)
        JSON_FOREACH (member, data)
            add_data(err, member);
    return true;
}

/* Reads an answer; the result points into the arena. */
static int read_answer(const struct client *c, long status, struct str body, struct arena *a,
                       const struct json **ret, struct err *err)
{
    struct err not_json = ERR_INIT;
    const struct json *answer = NULL;
    if (json_parse(a, arena_str(a, body), RESPONSE_DEPTH_MAX, &answer, &not_json) < 0)
        answer = NULL;
    if (read_error(json_get(answer, "error"), err))
        return -err->code;
    if (status != 200)
        return error_of_status(c, status, err);
    const struct json *result = json_get(answer, "result");
    if (!result)
        return err_set(err, ERR_INTERNAL, "%s does not speak JSON-RPC", c->endpoint.url);
    *ret = result;
    return 0;
}

/* ---- calls ---- */

static size_t collect(char *bytes, size_t size, size_t n, void *ctx)
{
    struct buf *b = ctx;
    buf_add(b, bytes, size * n);
    return b->overflow ? CURL_WRITEFUNC_ERROR : size * n;
}

static void write_request(struct client *c, const char *method, struct str params, struct buf *b)
{
    struct json_out w = JSON_OUT(b);
    json_object(&w, NULL);
    json_stringz(&w, "jsonrpc", "2.0");
    json_int(&w, "id", ++c->next_id);
    json_stringz(&w, "method", method);
    json_raw(&w, "params", params);
    json_end(&w);
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&p, 1, 0) > 0;
}

/* Runs the prepared transfer to its end; CLIENT_STOPPED if stop_fd came first. */
static int transfer(struct client *c, int stop_fd, CURLcode *ret)
{
    struct curl_waitfd stop = {.fd = stop_fd, .events = CURL_WAIT_POLLIN};
    if (is_readable(stop_fd))
        return CLIENT_STOPPED;
    REQUIRE(curl_multi_add_handle(c->multi, c->easy) == CURLM_OK);
    int running = 1, left, r = 0;
    while (running && r == 0) {
        REQUIRE(curl_multi_perform(c->multi, &running) == CURLM_OK);
        if (running)
            curl_multi_poll(c->multi, &stop, stop_fd >= 0, CALL_MS_MAX, NULL);
        if (running && is_readable(stop_fd))
            r = CLIENT_STOPPED;
    }
    const struct CURLMsg *m = r ? NULL : curl_multi_info_read(c->multi, &left);
    *ret = m ? m->data.result : CURLE_ABORTED_BY_CALLBACK;
    curl_multi_remove_handle(c->multi, c->easy);
    return r;
}

/* Posts `body`; 0 once an answer of any kind has arrived whole. */
static int post(struct client *c, struct str body, const struct client_limits *limits,
                struct buf *answer, struct err *err)
{
    _cleanup_free_ char *url = mem_printf("%s/rpc", c->endpoint.url);
    struct curl_slist *headers = common_headers(c);
    headers = add_header(headers, "Content-Type: application/json");
    headers = add_header(headers, "Expect:"); /* else large bodies wait a second for a go-ahead */
    prepare(c, c->easy, url, c->failure);
    set_long(c->easy, CURLOPT_TIMEOUT_MS, (long)limits->ms_max);
    REQUIRE(curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK);
    REQUIRE(curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n) == CURLE_OK);
    set_text(c->easy, CURLOPT_POSTFIELDS, body.p);
    REQUIRE(curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, collect) == CURLE_OK);
    REQUIRE(curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, answer) == CURLE_OK);
    CURLcode code;
    int r = transfer(c, limits->stop_fd, &code);
    curl_slist_free_all(headers);
    if (r)
        return r;
    if (answer->overflow)
        return err_set(err, ERR_TOO_LARGE, "the answer of %s is over %d bytes", c->endpoint.url,
                       CLIENT_RESPONSE_BYTES_MAX);
    if (code != CURLE_OK)
        return err_set(err, ERR_NO_SERVER, "cannot reach the server at %s: %s", c->endpoint.url,
                       why(c->easy, code, c->failure));
    return 0;
}

int client_call_within(struct client *c, const char *method, struct str params,
                       const struct client_limits *limits, struct arena *a, const struct json **ret,
                       struct err *err)
{
    _cleanup_buf_ struct buf request = BUF_INIT(CLIENT_RESPONSE_BYTES_MAX);
    _cleanup_buf_ struct buf answer = BUF_INIT(CLIENT_RESPONSE_BYTES_MAX);
    write_request(c, method, params, &request);
    if (request.overflow)
        return err_set(err, ERR_TOO_LARGE, "the request is too large");
    int r = post(c, buf_str(&request), limits, &answer, err);
    if (r != 0)
        return r;
    long status = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    return read_answer(c, status, buf_str(&answer), a, ret, err);
}

int client_call(struct client *c, const char *method, struct str params, struct arena *a,
                const struct json **ret, struct err *err)
{
    const struct client_limits limits = {.ms_max = CALL_MS_MAX, .stop_fd = -1};
    return client_call_within(c, method, params, &limits, a, ret, err);
}

void client_find_again(struct client *c)
{
    struct endpoint fresh;
    struct err still_away = ERR_INIT;
    if (endpoint_resolve(&c->source, &fresh, &still_away) < 0)
        return;
    endpoint_release(&c->endpoint);
    c->endpoint = fresh;
}

/* ---- streams ---- */

struct client_stream *client_stream_new(struct client *c, int64_t conversation, int64_t after_id,
                                        const struct client_stream_handler *handler)
{
    struct client_stream *s = mem_zalloc(sizeof *s);
    *s = (struct client_stream){
        .client = c,
        .handler = *handler,
        .conversation = conversation,
        .after_id = after_id,
        .last_id = -1,
        .multi = curl_multi_init(),
        .easy = curl_easy_init(),
        .refusal = BUF_INIT(REFUSAL_BYTES_MAX),
        .backoff_ms = BACKOFF_FIRST_MS,
    };
    REQUIRE(s->multi && s->easy);
    sse_init(&s->sse, EVENT_BYTES_MAX);
    return s;
}

/* Ends the attempt, if one is under way, and drops what it has left half read. */
static void detach(struct client_stream *s)
{
    if (s->attached)
        curl_multi_remove_handle(s->multi, s->easy);
    s->attached = false;
    curl_slist_free_all(s->headers);
    s->headers = NULL;
    sse_release(&s->sse);
    sse_init(&s->sse, EVENT_BYTES_MAX);
    buf_clear(&s->refusal);
}

struct client_stream *client_stream_free(struct client_stream *s)
{
    if (!s)
        return NULL;
    detach(s);
    curl_easy_cleanup(s->easy);
    curl_multi_cleanup(s->multi);
    sse_release(&s->sse);
    buf_release(&s->refusal);
    free(s);
    return NULL;
}

static int deliver(void *ctx, const struct sse_event *event)
{
    struct client_stream *s = ctx;
    int64_t id;
    if (!str_is(event->type, "message"))
        return 0; /* guidance, a farewell: not of the log */
    if (!str_to_int(event->id, &id))
        return err_set(&s->stop_err, ERR_INTERNAL, "an event of the stream has no number");
    int r = s->handler.event(s->handler.ctx, id, event->data);
    if (r == 0)
        s->last_id = id;
    return r;
}

static size_t stream_bytes(char *bytes, size_t size, size_t n, void *ctx)
{
    struct client_stream *s = ctx;
    struct str piece = {bytes, size * n};
    long status = 0;
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) {
        buf_add_str(&s->refusal, piece);
        return piece.n;
    }
    s->ever_open = true;
    s->outage_told = false;
    s->backoff_ms = BACKOFF_FIRST_MS;
    s->stop = sse_feed(&s->sse, piece, deliver, s, &s->stop_err);
    return s->stop ? CURL_WRITEFUNC_ERROR : piece.n;
}

static char *stream_url(const struct client_stream *s)
{
    struct buf b = BUF_INIT(URL_BYTES_MAX);
    buf_addf(&b, "%s/events?", s->client->endpoint.url);
    if (s->conversation != CLIENT_ALL)
        buf_addf(&b, "conversation=%lld&", (long long)s->conversation);
    if (s->after_id != CLIENT_FROM_NOW)
        buf_addf(&b, "after=%lld&", (long long)s->after_id);
    buf_truncate(&b, b.len - 1); /* the last '&', or the '?' of an empty query */
    return buf_take(&b);
}

static void attempt(struct client_stream *s)
{
    _cleanup_free_ char *url = stream_url(s);
    s->headers = add_header(common_headers(s->client), "Accept: text/event-stream");
    if (s->last_id >= 0) {
        _cleanup_free_ char *resume = mem_printf("Last-Event-ID: %lld", (long long)s->last_id);
        s->headers = add_header(s->headers, resume);
    }
    prepare(s->client, s->easy, url, s->failure);
    set_long(s->easy, CURLOPT_LOW_SPEED_LIMIT, 1);
    set_long(s->easy, CURLOPT_LOW_SPEED_TIME, QUIET_SECONDS_MAX);
    REQUIRE(curl_easy_setopt(s->easy, CURLOPT_HTTPHEADER, s->headers) == CURLE_OK);
    REQUIRE(curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, stream_bytes) == CURLE_OK);
    REQUIRE(curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s) == CURLE_OK);
    REQUIRE(curl_multi_add_handle(s->multi, s->easy) == CURLM_OK);
    s->attached = true;
}

/* An outage, unless the server has never been there. */
static int lose(struct client_stream *s, CURLcode code, long status, struct err *err)
{
    const char *url = s->client->endpoint.url;
    char reason[CURL_ERROR_SIZE];
    snprintf(reason, sizeof reason, "%s",
             code == CURLE_OK ? "the server has closed the stream"
                              : why(s->easy, code, s->failure));
    detach(s);
    if (!s->ever_open && status != 0)
        return error_of_status(s->client, status, err);
    if (!s->ever_open)
        return err_set(err, ERR_NO_SERVER, "cannot reach the server at %s: %s", url, reason);
    /* Mere silence is not worth a word before connecting again has failed as well. */
    if (!s->outage_told && code != CURLE_OPERATION_TIMEDOUT) {
        s->handler.lost(s->handler.ctx, reason);
        s->outage_told = true;
    }
    s->attempt_us = clock_mono_us() + s->backoff_ms * 1000;
    s->backoff_ms = MIN(s->backoff_ms * 2, (int64_t)BACKOFF_MAX_MS);
    client_find_again(s->client);
    return 0;
}

/* An attempt is over: stopped by the caller's function, refused for good, or lost. */
static int conclude(struct client_stream *s, CURLcode code, struct err *err)
{
    if (s->stop) {
        int stop = s->stop;
        if (stop < 0 && s->stop_err.code)
            *err = s->stop_err;
        s->stop = 0;
        detach(s);
        return stop;
    }
    long status = 0;
    curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400 && status < 500) {
        _cleanup_(arena_release) struct arena a = ARENA_INIT;
        const struct json *none;
        int r = read_answer(s->client, status, buf_str(&s->refusal), &a, &none, err);
        detach(s);
        return r;
    }
    return lose(s, code, status, err);
}

static int drive(struct client_stream *s, struct err *err)
{
    if (!s->attached && clock_mono_us() >= s->attempt_us)
        attempt(s);
    int running;
    REQUIRE(curl_multi_perform(s->multi, &running) == CURLM_OK);
    int left;
    const struct CURLMsg *m = curl_multi_info_read(s->multi, &left);
    return m && m->msg == CURLMSG_DONE ? conclude(s, m->data.result, err) : 0;
}

/* The caller's limit, or the time of the next attempt if that is sooner. */
static int wait_ms(const struct client_stream *s, int timeout_ms)
{
    if (timeout_ms < 0)
        timeout_ms = INT32_MAX;
    if (s->attached)
        return timeout_ms;
    int64_t until_ms = (s->attempt_us - clock_mono_us() + 999) / 1000;
    return (int)MAX((int64_t)0, MIN((int64_t)timeout_ms, until_ms));
}

int client_stream_wait(struct client_stream *s, struct pollfd *fds, size_t count, int timeout_ms,
                       struct err *err)
{
    REQUIRE(count <= FDS_MAX);
    int r = drive(s, err);
    if (r != 0)
        return r;
    struct curl_waitfd extra[FDS_MAX];
    for (size_t i = 0; i < count; i++)
        extra[i] = (struct curl_waitfd){.fd = fds[i].fd, .events = CURL_WAIT_POLLIN};
    curl_multi_poll(s->multi, extra, (unsigned)count, wait_ms(s, timeout_ms), NULL);
    for (size_t i = 0; i < count; i++)
        fds[i].revents = extra[i].revents & CURL_WAIT_POLLIN ? POLLIN : 0;
    return drive(s, err);
}
