/*
 * auth.c: see auth.h. The table is keyed by the first eight bytes of a token's SHA-256, which
 * nobody can steer; the whole digest is compared after. Comparing digests, not tokens, leaves
 * nothing to learn from how long it takes.
 */
#include "server/auth.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/crypto.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"

struct entry {
    uint8_t hash[SHA256_BYTES];
    struct grant grant;
};

struct auth {
    struct entry operator_entry;
    pthread_mutex_t mutex;
    struct map table; /* under the mutex */
};

static int64_t key_of(const uint8_t hash[SHA256_BYTES])
{
    int64_t key;
    memcpy(&key, hash, sizeof key);
    return key;
}

struct auth *auth_new(struct str operator_token)
{
    struct auth *a = mem_zalloc(sizeof *a);
    pthread_mutex_init(&a->mutex, NULL);
    crypto_sha256(operator_token, a->operator_entry.hash);
    a->operator_entry.grant = (struct grant){.scope = SCOPE_OPERATOR, .subject = "operator"};
    return a;
}

static void table_free(struct map *m)
{
    struct entry *e;
    for (size_t i = 0; (e = map_next(m, &i));)
        free(e);
    map_release(m);
}

struct auth *auth_free(struct auth *a)
{
    if (!a)
        return NULL;
    table_free(&a->table);
    pthread_mutex_destroy(&a->mutex);
    free(a);
    return NULL;
}

static void add_entry(void *ctx, const uint8_t hash[SHA256_BYTES], const struct grant *g)
{
    struct map *m = ctx;
    struct entry *e = mem_alloc(sizeof *e);
    memcpy(e->hash, hash, sizeof e->hash);
    e->grant = *g;
    free(map_remove(m, key_of(hash)));
    map_put(m, key_of(hash), e);
}

void auth_reload(struct auth *a, struct store *store)
{
    struct map fresh = MAP_INIT;
    struct err err = ERR_INIT;
    if (token_each(store, add_entry, &fresh, &err) < 0) {
        /* Rather refuse everybody but the operator than honour what may be revoked. */
        log_error("auth", "tokens_unreadable", "reason=%s", log_quote(str_of(err.message)));
        table_free(&fresh);
    }
    pthread_mutex_lock(&a->mutex);
    struct map old = a->table;
    a->table = fresh;
    pthread_mutex_unlock(&a->mutex);
    table_free(&old);
}

static bool matches(const struct entry *e, const uint8_t hash[SHA256_BYTES], struct grant *ret)
{
    if (!e || memcmp(e->hash, hash, SHA256_BYTES) != 0)
        return false;
    *ret = e->grant;
    return true;
}

bool auth_check(struct auth *a, const uint8_t hash[SHA256_BYTES], struct grant *ret)
{
    if (matches(&a->operator_entry, hash, ret))
        return true;
    pthread_mutex_lock(&a->mutex);
    bool ok = matches(map_get(&a->table, key_of(hash)), hash, ret);
    pthread_mutex_unlock(&a->mutex);
    return ok;
}
