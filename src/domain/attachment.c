/* attachment.c: see attachment.h. */
#include "domain/attachment.h"

#include "base/mem.h"
#include "domain/work.h"

int64_t attachment_number(const struct work *w, size_t n)
{
    return w->last.attachment + 1 + (int64_t)n;
}

int attachment_store(struct work *w, const struct attachment *a, int64_t event_id, struct err *err)
{
    REQUIRE(a->attachment == attachment_number(w, 0));
    struct query *q = store_query(w->store, SQL_ATTACHMENT_INSERT);
    query_int(q, 1, a->attachment);
    query_int(q, 2, a->conversation);
    query_int(q, 3, event_id);
    query_text(q, 4, a->name);
    query_text(q, 5, a->content_type);
    query_blob(q, 6, a->content.p, a->content.n);
    int r = query_run(q, NULL, err);
    if (r == 0)
        w->last.attachment = a->attachment;
    return r;
}

int attachment_not_found(int64_t attachment, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "there is no attachment %lld", (long long)attachment);
    err_str(err, "what", STR("attachment"));
    return err_int(err, "id", attachment);
}

int attachment_get(struct work *w, int64_t attachment, struct attachment *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_ATTACHMENT_GET);
    query_int(q, 1, attachment);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    if (r == STORE_DONE)
        return attachment_not_found(attachment, err);
    *ret = (struct attachment){
        .attachment = attachment,
        .conversation = query_get_int(q, 0),
        .name = arena_str(&w->arena, query_get_text(q, 1)),
        .content_type = arena_str(&w->arena, query_get_text(q, 2)),
        .content = arena_str(&w->arena, query_get_blob(q, 3)),
    };
    query_end(q);
    return 0;
}
