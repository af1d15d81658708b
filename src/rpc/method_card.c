/* method_card.c: card.get, card.list. */
#include "domain/work.h"
#include "rpc/method.h"

enum { CARDS_PER_PAGE_MAX = 500 };

static const char *const type_choices[] = {"task.deliverable", "tool.call", "tool.result", NULL};

const struct param params_card_get[] = {
    {.name = "card", .type = PARAM_INT, .required = true, .max = ID_MAX, .doc = "number"},
    PARAMS_END,
};

const struct param params_card_list[] = {
    CONVERSATION_ROW,
    {.name = "task", .type = PARAM_INT, .max = ID_MAX, .doc = "only of this one"},
    {.name = "type", .type = PARAM_CHOICE, .choices = type_choices, .doc = "only these"},
    {.name = "after",
     .type = PARAM_INT,
     .max = ID_MAX,
     .fallback = "0",
     .doc = "continue after this number"},
    {.name = "limit",
     .type = PARAM_INT,
     .min = 1,
     .max = CARDS_PER_PAGE_MAX,
     .fallback = "50",
     .doc = "page"},
    PARAMS_END,
};

static void write_card(struct query *q, struct json_out *out, const char *key)
{
    json_object(out, key);
    json_int(out, "card", query_get_int(q, 0));
    json_string(out, "type", query_get_text(q, 1));
    json_int(out, "conversation", query_get_int(q, 2));
    json_int(out, "task", query_get_int(q, 3));
    json_raw(out, "content", query_get_text(q, 4));
    json_time(out, "createdAt", query_get_int(q, 5));
    json_end(out);
}

static int not_found(int64_t card, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "there is no card %lld", (long long)card);
    err_str(err, "what", STR("card"));
    return err_int(err, "id", card);
}

int method_card_get(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t card = params_int(c->params, "card", 0);
    struct query *q = store_query(c->work->store, SQL_CARD_GET);
    query_int(q, 1, card);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    bool is_seen = r == STORE_ROW && grant_sees(c->grant, query_get_int(q, 2));
    if (is_seen)
        write_card(q, out, "card");
    query_end(q);
    return is_seen ? 0 : not_found(card, err);
}

int method_card_list(struct method_context *c, struct json_out *out, struct err *err)
{
    struct head *h;
    int64_t task = params_int(c->params, "task", -1), limit = params_int(c->params, "limit", 50),
            last = 0, shown = 0, conversation = params_int(c->params, "conversation", 0);
    bool has_more = false;
    int r = head_get(c->work, conversation, &h, err);
    if (r < 0)
        return r;
    struct query *q = store_query(c->work->store, SQL_CARD_LIST_OF_CONVERSATION);
    query_int(q, 1, conversation);
    if (task >= 0)
        query_int(q, 2, task);
    query_text(q, 3, params_str(c->params, "type"));
    query_int(q, 4, params_int(c->params, "after", 0));
    query_int(q, 5, limit + 1);
    json_array(out, "cards");
    while ((r = query_step(q, err)) == STORE_ROW) {
        if (shown == limit || out->buf->len >= RPC_PAGE_BYTES) {
            has_more = true;
            continue;
        }
        shown++;
        last = query_get_int(q, 0);
        write_card(q, out, NULL);
    }
    json_end(out);
    if (has_more)
        json_int(out, "next", last);
    else
        json_null(out, "next");
    return r;
}
