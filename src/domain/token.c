/* token.c: see token.h. */
#include "domain/token.h"

#include <stdio.h>

#include "base/names.h"
#include "base/random.h"
#include "domain/work.h"

static const char *const scope_names[] = {
#define X(name, text) [SCOPE_##name] = text,
    SCOPE_LIST(X)
#undef X
};
_Static_assert(ARRAY_LEN(scope_names) == SCOPE_COUNT, "a name for each scope");

const char *scope_name(enum scope scope)
{
    return scope_names[scope];
}

bool scope_parse(struct str s, enum scope *ret)
{
    int i = names_find(scope_names, SCOPE_COUNT, s);
    if (i >= 0)
        *ret = (enum scope)i;
    return i >= 0;
}

bool grant_sees(const struct grant *g, int64_t conversation)
{
    if (g->scope == SCOPE_OPERATOR)
        return true;
    if (conversation == 0)
        return false;
    return g->conversation == 0 || g->conversation == conversation;
}

int token_create(struct work *w, const struct grant *g, int64_t *ret_token,
                 char ret_secret[TOKEN_HEX_BYTES + 1], struct err *err)
{
    uint8_t hash[SHA256_BYTES];
    random_hex(TOKEN_HEX_BYTES / 2, ret_secret);
    crypto_sha256(str_of(ret_secret), hash);
    struct query *q = store_query(w->store, SQL_TOKEN_INSERT);
    query_int(q, 1, w->last.token + 1);
    query_blob(q, 2, hash, sizeof hash);
    query_text(q, 3, str_of(scope_name(g->scope)));
    if (g->conversation)
        query_int(q, 4, g->conversation);
    if (g->role[0])
        query_text(q, 5, str_of(g->role));
    if (g->machine[0])
        query_text(q, 6, str_of(g->machine));
    query_int(q, 7, w->now_ms);
    if (g->expires_ms)
        query_int(q, 8, g->expires_ms);
    if (g->spawn_id[0])
        query_text(q, 9, str_of(g->spawn_id));
    work_mark_written(w);
    int r = query_run(q, NULL, err);
    if (r < 0)
        return r;
    *ret_token = ++w->last.token;
    w->tokens_changed = true;
    return 0;
}

static int require_token(struct work *w, int64_t token, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOKEN_GET);
    query_int(q, 1, token);
    int r = query_one(q, err);
    query_end(q);
    if (r != STORE_DONE)
        return r < 0 ? r : 0;
    err_set(err, ERR_NOT_FOUND, "there is no token %lld", (long long)token);
    err_str(err, "what", STR("token"));
    return err_int(err, "id", token);
}

int token_revoke(struct work *w, int64_t token, struct err *err)
{
    int r = require_token(w, token, err);
    if (r < 0)
        return r;
    struct query *q = store_query(w->store, SQL_TOKEN_REVOKE);
    query_int(q, 1, token);
    query_int(q, 2, w->now_ms);
    work_mark_written(w);
    w->tokens_changed = true;
    return query_run(q, NULL, err);
}

static void write_optional(struct json_out *out, const char *key, struct str text)
{
    if (text.p)
        json_string(out, key, text);
}

static void write_optional_time(struct json_out *out, const char *key, struct query *q, int column)
{
    if (!query_is_null(q, column))
        json_time(out, key, query_get_int(q, column));
}

int token_list(struct work *w, struct json_out *out, const char *key, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TOKEN_LIST);
    int r;
    json_array(out, key);
    while ((r = query_step(q, err)) == STORE_ROW) {
        json_object(out, NULL);
        json_int(out, "token", query_get_int(q, 0));
        json_string(out, "scope", query_get_text(q, 2));
        if (!query_is_null(q, 3))
            json_int(out, "conversation", query_get_int(q, 3));
        write_optional(out, "role", query_get_text(q, 4));
        write_optional(out, "machine", query_get_text(q, 5));
        json_time(out, "createdAt", query_get_int(q, 6));
        write_optional_time(out, "expiresAt", q, 7);
        write_optional_time(out, "revokedAt", q, 8);
        json_end(out);
    }
    json_end(out);
    return r;
}

static bool grant_from_row(struct query *q, struct grant *ret)
{
    *ret = (struct grant){
        .conversation = query_get_int(q, 3),
        .expires_ms = query_get_int(q, 7),
    };
    snprintf(ret->role, sizeof ret->role, "%.*s", STR_ARG(query_get_text(q, 4)));
    snprintf(ret->machine, sizeof ret->machine, "%.*s", STR_ARG(query_get_text(q, 5)));
    snprintf(ret->spawn_id, sizeof ret->spawn_id, "%.*s", STR_ARG(query_get_text(q, 9)));
    snprintf(ret->subject, sizeof ret->subject, "token:%lld", (long long)query_get_int(q, 0));
    return scope_parse(query_get_text(q, 2), &ret->scope);
}

int token_each(struct store *store, token_fn *fn, void *ctx, struct err *err)
{
    struct query *q = store_query(store, SQL_TOKEN_LIST);
    int r;
    while ((r = query_step(q, err)) == STORE_ROW) {
        struct grant g;
        struct str hash = query_get_blob(q, 1);
        if (query_is_null(q, 8) && hash.n == SHA256_BYTES && grant_from_row(q, &g))
            fn(ctx, (const uint8_t *)hash.p, &g);
    }
    return r;
}
