/* queue.c: see queue.h. */
#include "domain/queue.h"

#include "domain/agent.h"
#include "domain/head.h"
#include "domain/task.h"
#include "domain/work.h"

static int find_first(struct work *w, struct agent *a, struct err *err)
{
    struct query *q = store_query(w->store, SQL_TASK_NEXT_QUEUED);
    query_int(q, 1, a->conversation);
    query_text(q, 2, str_of(a->role));
    int r = query_one(q, err);
    if (r < 0)
        return r;
    a->first_queued = r == STORE_ROW ? query_get_int(q, 0) : 0;
    query_end(q);
    return 0;
}

void queue_join(struct agent *a, const struct task *t)
{
    if (!a->first_queued)
        a->first_queued = t->task;
}

int queue_left(struct work *w, struct agent *a, const struct task *t, bool is_new, struct err *err)
{
    if (a->first_queued != t->task)
        return 0;
    a->first_queued = 0;
    return is_new ? 0 : find_first(w, a, err);
}

int queue_first(struct work *w, struct agent *a, struct task **ret, struct err *err)
{
    struct task *t = NULL;
    int r = a->first_queued ? task_get(w, a->first_queued, &t, err) : 0;
    bool is_wrong = r == -ERR_NOT_FOUND || (r == 0 && t && t->status != TASK_QUEUED);
    if (is_wrong) {
        agent_edit(w, a);
        t = NULL;
        r = find_first(w, a, err);
        if (r == 0 && a->first_queued)
            r = task_get(w, a->first_queued, &t, err);
    }
    if (r == 0)
        *ret = t;
    return r;
}

int queue_due_ms(struct work *w, const struct task *t, int64_t *ret, struct err *err)
{
    struct head *h;
    struct agent *a;
    *ret = NEVER_MS;
    int r = head_get(w, t->conversation, &h, err);
    if (r == 0)
        r = agent_get(w, t->conversation, str_of(t->role), &a, err);
    if (r == 0 && t->status == TASK_QUEUED && !a->active_task && h->status == CONVERSATION_ACTIVE)
        *ret = t->created_ms;
    return r;
}
