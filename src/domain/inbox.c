/* inbox.c: see inbox.h. */
#include "domain/inbox.h"

#include <stdio.h>

#include "base/mem.h"
#include "domain/work.h"

static const struct str turn_type = {"turn", 4};

struct correlation {
    char text[24];
};

static struct correlation correlate(const struct task *t)
{
    struct correlation c;
    snprintf(c.text, sizeof c.text, "%lld", (long long)t->task);
    return c;
}

static int insert(struct work *w, enum statement statement, const struct task *t, struct str type,
                  struct str correlation, struct str payload, struct err *err)
{
    struct query *q = store_query(w->store, statement);
    query_int(q, 1, w->last.inbox + 1);
    query_int(q, 2, t->conversation);
    query_text(q, 3, str_of(t->role));
    query_text(q, 4, type);
    query_text(q, 5, correlation);
    query_int(q, 6, t->epoch);
    query_text(q, 7, str_of(t->channel));
    query_text(q, 8, payload);
    query_int(q, 9, w->now_ms);
    int r = query_run(q, NULL, err);
    if (r == 0)
        w->last.inbox++;
    return r;
}

static int insert_turn(struct work *w, const struct task *t, struct err *err)
{
    struct correlation c = correlate(t);
    return insert(w, SQL_INBOX_INSERT, t, turn_type, str_of(c.text),
                  arena_printf(&w->arena, "{\"task\":%lld}", (long long)t->task), err);
}

static int move(struct work *w, const struct task *t, int64_t epoch, const char *status,
                bool is_archived, struct err *err)
{
    struct correlation c = correlate(t);
    struct query *q = store_query(w->store, SQL_INBOX_MOVE);
    query_int(q, 1, t->conversation);
    query_text(q, 2, str_of(t->role));
    query_text(q, 3, turn_type);
    query_text(q, 4, str_of(c.text));
    query_int(q, 5, epoch);
    query_text(q, 6, str_of(status));
    query_int(q, 7, w->now_ms);
    if (is_archived)
        query_int(q, 8, w->now_ms);
    return query_run(q, NULL, err);
}

static int refence(struct work *w, const struct task *t, int64_t old_epoch, struct err *err)
{
    struct correlation c = correlate(t);
    struct query *q = store_query(w->store, SQL_INBOX_SET_EPOCH);
    query_int(q, 1, t->conversation);
    query_text(q, 2, str_of(t->role));
    query_text(q, 3, turn_type);
    query_text(q, 4, str_of(c.text));
    query_int(q, 5, old_epoch);
    query_int(q, 6, t->epoch);
    return query_run(q, NULL, err);
}

int inbox_follow(struct work *w, const struct task *t, int64_t old_epoch, enum inbox_change change,
                 struct err *err)
{
    int r;
    switch (change) {
    case INBOX_STAYS:
        return 0;
    case INBOX_NEW:
        return insert_turn(w, t, err);
    case INBOX_PROCESSING:
        return move(w, t, old_epoch, "processing", false, err);
    case INBOX_CONSUMED:
        return move(w, t, old_epoch, "consumed", true, err);
    case INBOX_SKIPPED:
        return move(w, t, old_epoch, "skipped", true, err);
    case INBOX_RENEWED:
        r = move(w, t, old_epoch, "consumed", true, err);
        return r < 0 ? r : insert_turn(w, t, err);
    case INBOX_REFENCED:
        return refence(w, t, old_epoch, err);
    }
    REQUIRE(!"an inbox change");
    return -ERR_INTERNAL;
}

/* ---- what comes while a task is worked on ---- */

int inbox_put(struct work *w, const struct task *t, const char *type, struct str correlation,
              struct str payload, struct err *err)
{
    work_touch(w, agent_key_of(t->conversation, str_of(t->role)));
    return insert(w, SQL_INBOX_PUT, t, str_of(type), correlation, payload, err);
}

int inbox_close(struct work *w, const struct task *t, int64_t epoch, const char *type,
                struct str correlation, const char *status, struct err *err)
{
    struct query *q = store_query(w->store, SQL_INBOX_CLOSE);
    query_int(q, 1, t->conversation);
    query_text(q, 2, str_of(t->role));
    query_text(q, 3, str_of(type));
    query_text(q, 4, correlation);
    query_int(q, 5, epoch);
    query_text(q, 6, str_of(status));
    query_int(q, 7, w->now_ms);
    return query_run(q, NULL, err);
}
