/*
 * endpoint.c: finds the server's address and token (see endpoint.h for the order).
 *
 * Takes the environment as a value, so that tests need not change their own. Files are small and
 * read whole with a cap; what is in them is checked here, because a token with a line break in it
 * would otherwise become a second HTTP header.
 */
#include "client/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/str.h"

enum { FILE_BYTES_MAX = 16 * 1024 };

struct endpoint_source endpoint_source_of_environment(void)
{
    return (struct endpoint_source){
        .env_url = getenv("REEVE_URL"),
        .env_token = getenv("REEVE_TOKEN"),
        .xdg_state_home = getenv("XDG_STATE_HOME"),
        .home = getenv("HOME"),
    };
}

static bool is_set(const char *variable)
{
    return variable && *variable;
}

int endpoint_data_folder(const struct endpoint_source *source, char **ret, struct err *err)
{
    if (source->data && !*source->data)
        return err_set(err, ERR_USAGE, "--data is empty");
    if (source->data)
        *ret = mem_strdup(source->data);
    else if (is_set(source->xdg_state_home) && source->xdg_state_home[0] == '/')
        *ret = mem_printf("%s/reeve", source->xdg_state_home);
    else if (is_set(source->home))
        *ret = mem_printf("%s/.local/state/reeve", source->home);
    else
        return err_set(err, ERR_USAGE, "neither --data nor XDG_STATE_HOME nor HOME is set");
    return 0;
}

/* RFC 6750 allows fewer characters still; what matters here is: no blanks, no control characters.
 */
static bool is_visible(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] >= 0x7F)
            return false;
    return s.n > 0;
}

static struct str trim_end(struct str s)
{
    while (s.n > 0 && strchr(" \t\r\n", s.p[s.n - 1]) && s.p[s.n - 1])
        s.n--;
    return s;
}

static int take_token(struct str token, const char *from, char **ret, struct err *err)
{
    if (!is_visible(token))
        return err_set(err, ERR_UNAUTHENTICATED, "%s holds no token", from);
    *ret = mem_strndup(token.p, token.n);
    return 0;
}

static int read_token(const char *path, char **ret, struct err *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(FILE_BYTES_MAX);
    int r = file_read(path, &b);
    if (r < 0)
        return err_set(err, ERR_UNAUTHENTICATED, "cannot read the token: %s: %s", path,
                       strerror(-r));
    return take_token(trim_end(buf_str(&b)), path, ret, err);
}

static bool has_any(struct str s, const char *set)
{
    for (; *set; set++)
        if (memchr(s.p, *set, s.n))
            return true;
    return false;
}

/* Copies without the slashes at the end. Only what libcurl cannot take in two ways is let through.
 */
static int take_url(struct str url, char **ret, struct err *err)
{
    bool http = str_starts(url, STR("http://")), https = str_starts(url, STR("https://"));
    while (url.n > 0 && url.p[url.n - 1] == '/')
        url.n--;
    struct str authority = str_skip(url, https ? 8 : 7);
    if (!(http || https) || !is_visible(authority) || has_any(authority, "?#@"))
        return err_set(err, ERR_USAGE, "'%.*s' is not a server's URL (http://HOST:PORT)",
                       STR_ARG(url));
    *ret = mem_strndup(url.p, url.n);
    return 0;
}

static int read_server_json(struct arena *a, const char *path, char **ret_url, int64_t *ret_pid,
                            struct err *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(FILE_BYTES_MAX);
    int r = file_read(path, &b);
    if (r < 0)
        return err_set(err, ERR_NO_SERVER, "no server has left its address in %s: %s", path,
                       strerror(-r));
    const struct json *json;
    r = json_parse(a, buf_str(&b), JSON_DEPTH_DEFAULT, &json, err);
    if (r < 0)
        return err_set(err, ERR_NO_SERVER, "%s is not JSON", path);
    const struct json *url = json_get(json, "url"), *pid = json_get(json, "pid");
    if (!url || url->type != JSON_STRING || !pid || pid->type != JSON_INT)
        return err_set(err, ERR_NO_SERVER, "%s has no url and pid", path);
    if (ret_url) {
        r = take_url(arena_str(a, url->string), ret_url, err);
        if (r < 0)
            return r;
    }
    if (ret_pid)
        *ret_pid = pid->integer;
    return 0;
}

int endpoint_read_server_json(const char *folder, char **ret_url, int64_t *ret_pid, struct err *err)
{
    _cleanup_free_ char *path = mem_printf("%s/server.json", folder);
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    return read_server_json(&a, path, ret_url, ret_pid, err);
}

static int from_folder(const struct endpoint_source *source, struct endpoint *e, struct err *err)
{
    _cleanup_free_ char *folder = NULL;
    int r = endpoint_data_folder(source, &folder, err);
    if (r == 0)
        r = endpoint_read_server_json(folder, &e->url, NULL, err);
    if (r < 0)
        return r;
    _cleanup_free_ char *token_path = mem_printf("%s/operator.token", folder);
    return read_token(token_path, &e->token, err);
}

static int from_flags(const struct endpoint_source *source, struct endpoint *e, struct err *err)
{
    int r = take_url(str_of(source->server), &e->url, err);
    if (r < 0)
        return r;
    if (source->token_file)
        return read_token(source->token_file, &e->token, err);
    if (is_set(source->env_token))
        return take_token(str_of(source->env_token), "REEVE_TOKEN", &e->token, err);
    return err_set(err, ERR_USAGE, "--server needs --token-file (or REEVE_TOKEN)");
}

static int from_environment(const struct endpoint_source *source, struct endpoint *e,
                            struct err *err)
{
    int r = take_url(str_of(source->env_url), &e->url, err);
    if (r < 0)
        return err_prefix(err, "REEVE_URL");
    if (source->token_file)
        return read_token(source->token_file, &e->token, err);
    if (!is_set(source->env_token))
        return err_set(err, ERR_USAGE, "REEVE_URL is set but REEVE_TOKEN is not");
    return take_token(str_of(source->env_token), "REEVE_TOKEN", &e->token, err);
}

int endpoint_resolve(const struct endpoint_source *source, struct endpoint *ret, struct err *err)
{
    if (source->server && source->data)
        return err_set(err, ERR_USAGE, "--server and --data say two things; give one of them");
    if (source->token_file && source->data)
        return err_set(err, ERR_USAGE, "--token-file goes with --server, not with --data");
    struct endpoint e = ENDPOINT_INIT;
    int r;
    if (source->server)
        r = from_flags(source, &e, err);
    else if (!source->data && is_set(source->env_url))
        r = from_environment(source, &e, err);
    else if (source->token_file)
        r = err_set(err, ERR_USAGE, "--token-file needs --server");
    else
        r = from_folder(source, &e, err);
    if (r < 0) {
        endpoint_release(&e);
        return r;
    }
    *ret = e;
    return 0;
}

void endpoint_release(struct endpoint *e)
{
    if (!e)
        return;
    free(e->url);
    free(e->token);
    *e = ENDPOINT_INIT;
}
