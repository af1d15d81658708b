/* idempotency.c: see idempotency.h. */
#include "domain/idempotency.h"

#include "domain/work.h"

#define KEEP_MS INT64_C(86400000)
enum { PRUNE_PAGE = 200 };

int idempotency_find(struct work *w, struct str subject, const char *method,
                     const struct request_key *key, struct str *ret_result, bool *ret_found,
                     struct err *err)
{
    struct query *q = store_query(w->store, SQL_KEY_GET);
    query_text(q, 1, subject);
    query_text(q, 2, str_of(method));
    query_text(q, 3, key->id);
    int r = query_one(q, err);
    *ret_found = r == STORE_ROW;
    if (r <= 0)
        return r;
    struct str hash = query_get_blob(q, 0);
    bool same = hash.n == sizeof key->hash && memcmp(hash.p, key->hash, hash.n) == 0;
    *ret_result = arena_str(&w->arena, query_get_text(q, 1));
    query_end(q);
    if (!same)
        return err_set(err, ERR_IDEMPOTENCY_CONFLICT, "%s", err_text(ERR_IDEMPOTENCY_CONFLICT));
    return 0;
}

int idempotency_store(struct work *w, struct str subject, const char *method,
                      const struct request_key *key, struct str result, struct err *err)
{
    struct query *q = store_query(w->store, SQL_KEY_INSERT);
    query_text(q, 1, subject);
    query_text(q, 2, str_of(method));
    query_text(q, 3, key->id);
    query_blob(q, 4, key->hash, sizeof key->hash);
    query_text(q, 5, result);
    query_int(q, 6, w->now_ms);
    work_mark_written(w);
    return query_run(q, NULL, err);
}

int idempotency_prune(struct work *w, bool *ret_more, struct err *err)
{
    struct query *q = store_query(w->store, SQL_KEY_PRUNE);
    int64_t deleted = 0;
    query_int(q, 1, all_time_until_ms(ALL_TIME_KEY, w->now_ms, -KEEP_MS));
    query_int(q, 2, PRUNE_PAGE);
    int r = query_run(q, &deleted, err);
    if (r == 0)
        *ret_more = deleted == PRUNE_PAGE;
    return r;
}
