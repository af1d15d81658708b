/* card.c: see card.h. */
#include "domain/card.h"

#include "domain/work.h"

int card_create(struct work *w, const char *type, int64_t conversation, int64_t task,
                struct str content, int64_t *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_CARD_INSERT);
    query_int(q, 1, w->last.card + 1);
    query_text(q, 2, str_of(type));
    query_int(q, 3, conversation);
    query_int(q, 4, task);
    query_text(q, 5, content);
    query_int(q, 6, w->now_ms);
    int r = query_run(q, NULL, err);
    if (r == 0)
        *ret = ++w->last.card;
    return r;
}

int card_content(struct work *w, int64_t card, struct str *ret, struct err *err)
{
    struct query *q = store_query(w->store, SQL_CARD_GET);
    query_int(q, 1, card);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = r == STORE_ROW ? arena_str(&w->arena, query_get_text(q, 4)) : STR_NONE;
    query_end(q);
    return 0;
}
