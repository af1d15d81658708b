/*
 * subscription.c: see subscription.h.
 *
 * States of a subscription, and who moves it:
 *
 *     STAGED ──publish()──▶ BEHIND ──pump() read a short page──▶ LIVE
 *                             ▲  │                                 │
 *                  drained()  │  │ no room                         │ no room
 *                             │  ▼                                 ▼
 *                            WAITING ◀─────────────────────────────┘
 *
 * STAGED is for one tick: a subscription asked for in a tick whose commit fails never was. One that
 * is given up goes on until the commit, too: `removed` holds it until then.
 */
#include "follow/subscription.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/planted.h"
#include "domain/guidance.h"
#include "domain/head.h"
#include "domain/log_index.h"

enum { PAGE_EVENTS = 200, PUMPS_PER_CALL = 4, MESSAGE_BYTES_MAX = 256 << 20 };

enum state { STAGED, BEHIND, WAITING, LIVE };

struct subscription {
    int64_t number;
    struct peer *peer;
    struct subscribe ask;
    enum state state;
    int64_t cursor; /* last delivered: seq of its conversation, or global id */
    bool guided;    /* knows the guidance that holds now */
    bool is_removed;
    LIST_ENTRY(subscription) of_peer;
    LIST_ENTRY(subscription) of_topic;
    LIST_ENTRY(subscription) of_removed;
    TAILQ_ENTRY(subscription) of_queue; /* STAGED and BEHIND */
};

LIST_HEAD(subscription_list, subscription);
TAILQ_HEAD(subscription_queue, subscription);

struct subscriptions {
    struct work *work;
    int64_t last_number;
    size_t count;
    struct map by_peer;  /* (intptr_t)peer → struct subscription_list */
    struct map by_topic; /* conversation or SUBSCRIBE_ALL → struct subscription_list */
    struct subscription_queue staged, behind;
    struct subscription_list removed; /* in this tick */
};

struct subscriptions *subscriptions_new(struct work *w)
{
    struct subscriptions *s = mem_zalloc(sizeof *s);
    s->work = w;
    TAILQ_INIT(&s->staged);
    TAILQ_INIT(&s->behind);
    return s;
}

size_t subscriptions_count(const struct subscriptions *s)
{
    return s->count;
}

/* ---- lists ---- */

static int64_t peer_key(const struct peer *p)
{
    return (int64_t)(intptr_t)p;
}

static struct subscription_list *list_for(struct map *m, int64_t key)
{
    struct subscription_list *l = map_get(m, key);
    if (!l) {
        l = mem_alloc(sizeof *l);
        LIST_INIT(l);
        map_put(m, key, l);
    }
    return l;
}

static void drop_list_if_empty(struct map *m, int64_t key)
{
    struct subscription_list *l = map_get(m, key);
    if (l && LIST_EMPTY(l))
        free(map_remove(m, key));
}

static void set_state(struct subscriptions *s, struct subscription *sub, enum state state)
{
    if (sub->state == STAGED)
        TAILQ_REMOVE(&s->staged, sub, of_queue);
    else if (sub->state == BEHIND)
        TAILQ_REMOVE(&s->behind, sub, of_queue);
    sub->state = state;
    if (state == BEHIND)
        TAILQ_INSERT_TAIL(&s->behind, sub, of_queue);
}

static void drop(struct subscriptions *s, struct subscription *sub)
{
    set_state(s, sub, LIVE); /* in no queue */
    if (sub->is_removed)
        LIST_REMOVE(sub, of_removed);
    LIST_REMOVE(sub, of_peer);
    LIST_REMOVE(sub, of_topic);
    drop_list_if_empty(&s->by_peer, peer_key(sub->peer));
    drop_list_if_empty(&s->by_topic, sub->ask.conversation);
    peer_unref(sub->peer);
    free(sub);
    s->count--;
}

struct subscriptions *subscriptions_free(struct subscriptions *s)
{
    if (!s)
        return NULL;
    struct subscription_list *l;
    for (size_t i = 0; (l = map_next(&s->by_peer, &i)); i = 0)
        drop(s, LIST_FIRST(l));
    map_release(&s->by_peer);
    map_release(&s->by_topic);
    free(s);
    return NULL;
}

/* ---- asking ---- */

static int find_start(struct work *w, const struct subscribe *ask, int64_t *ret, struct err *err)
{
    if (ask->conversation == SUBSCRIBE_ALL) {
        *ret = ask->after_id >= 0 ? ask->after_id + planted(FOLLOWER_SKIPS) : w->last.event;
        return 0;
    }
    struct head *h;
    int r = head_get(w, ask->conversation, &h, err);
    if (r < 0)
        return r;
    *ret = ask->after_seq >= 0 ? ask->after_seq : h->last_seq;
    if (ask->after_id >= 0)
        r = log_seq_at_id(w, ask->conversation, h->last_seq, ask->after_id, ret, err);
    return r;
}

static int check_count(struct subscriptions *s, struct peer *p, struct err *err)
{
    int count = 0;
    struct subscription *sub;
    struct subscription_list *l = map_get(&s->by_peer, peer_key(p));
    if (l)
        LIST_FOREACH (sub, l, of_peer)
            count += !sub->is_removed;
    if (count < SUBSCRIPTIONS_PER_PEER_MAX)
        return 0;
    err_set(err, ERR_RATE_LIMITED, "a connection may have %d subscriptions",
            SUBSCRIPTIONS_PER_PEER_MAX);
    return err_int(err, "limit", SUBSCRIPTIONS_PER_PEER_MAX);
}

int subscription_add(struct subscriptions *s, struct peer *p, const struct subscribe *ask,
                     int64_t *ret, struct err *err)
{
    int64_t start = 0;
    int r = check_count(s, p, err);
    if (r == 0)
        r = find_start(s->work, ask, &start, err);
    if (r < 0)
        return r;
    struct subscription *sub = mem_zalloc(sizeof *sub);
    *sub = (struct subscription){
        .number = ++s->last_number,
        .peer = peer_ref(p),
        .ask = *ask,
        .state = STAGED,
        .cursor = start,
    };
    LIST_INSERT_HEAD(list_for(&s->by_peer, peer_key(p)), sub, of_peer);
    LIST_INSERT_HEAD(list_for(&s->by_topic, ask->conversation), sub, of_topic);
    TAILQ_INSERT_TAIL(&s->staged, sub, of_queue);
    s->count++;
    *ret = sub->number;
    return 0;
}

int subscription_remove(struct subscriptions *s, struct peer *p, int64_t number, struct err *err)
{
    struct subscription *sub;
    struct subscription_list *l = map_get(&s->by_peer, peer_key(p));
    if (l)
        LIST_FOREACH (sub, l, of_peer)
            if (sub->number == number && !sub->is_removed) {
                sub->is_removed = true;
                LIST_INSERT_HEAD(&s->removed, sub, of_removed);
                return 0;
            }
    err_set(err, ERR_NOT_FOUND, "this connection has no subscription %lld", (long long)number);
    err_str(err, "what", STR("subscription"));
    return err_int(err, "id", number);
}

void subscriptions_drop_peer(struct subscriptions *s, struct peer *p)
{
    struct subscription_list *l;
    while ((l = map_get(&s->by_peer, peer_key(p))))
        drop(s, LIST_FIRST(l));
}

void subscriptions_drained(struct subscriptions *s, struct peer *p)
{
    struct subscription *sub;
    struct subscription_list *l = map_get(&s->by_peer, peer_key(p));
    if (l)
        LIST_FOREACH (sub, l, of_peer)
            if (sub->state == WAITING)
                set_state(s, sub, BEHIND);
}

void subscriptions_abort_staged(struct subscriptions *s)
{
    struct subscription *sub;
    while ((sub = LIST_FIRST(&s->removed))) {
        LIST_REMOVE(sub, of_removed);
        sub->is_removed = false;
    }
    while ((sub = TAILQ_FIRST(&s->staged)))
        drop(s, sub);
}

/* ---- delivering ---- */

static void notification(struct buf *b, const char *method, int64_t number, struct str object)
{
    buf_addz(b, "{\"jsonrpc\":\"2.0\",\"method\":\"");
    buf_addz(b, method);
    buf_addz(b, "\",\"params\":{\"subscription\":");
    buf_add_int(b, number);
    buf_addc(b, ',');
    buf_add_str(b, str_skip(object, 1)); /* its own brace */
    buf_addc(b, '}');
}

static bool wants(const struct subscription *sub, const struct event *e)
{
    if (e->conversation == 0 && sub->ask.hides_server_log)
        return false;
    return sub->ask.types == 0 || (sub->ask.types & (1u << e->type)) != 0;
}

static int64_t position(const struct subscription *sub, const struct event *e)
{
    return sub->ask.conversation == SUBSCRIBE_ALL ? e->id : e->seq;
}

static void deliver(struct subscription *sub, const struct event *e, struct str text,
                    struct outbox *out)
{
    if (position(sub, e) <= sub->cursor)
        return; /* it asked for what comes later still */
    sub->cursor = position(sub, e);
    if (!wants(sub, e))
        return;
    struct buf b = BUF_INIT(MESSAGE_BYTES_MAX);
    if (sub->ask.is_stream) {
        buf_addz(&b, "id: ");
        buf_add_int(&b, e->id);
        buf_addz(&b, "\ndata: ");
        buf_add_str(&b, text);
        buf_addz(&b, "\n\n");
    } else {
        notification(&b, "event", sub->number, text);
    }
    outbox_add(out, sub->peer, MESSAGE_DATA, &b);
}

static void write_event(struct buf *b, const struct event *e)
{
    buf_clear(b);
    struct json_out j = JSON_OUT(b);
    event_write(&j, NULL, e);
}

static void send_guidance(struct subscription *sub, const struct guidance *g, struct outbox *out)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    struct json_out j = JSON_OUT(&text);
    guidance_write(&j, NULL, g);
    struct buf b = BUF_INIT(MESSAGE_BYTES_MAX);
    if (sub->ask.is_stream)
        buf_addf(&b, "event: guidance\ndata: %s\n\n", text.data);
    else
        notification(&b, "guidance", sub->number, buf_str(&text));
    outbox_add(out, sub->peer, MESSAGE_DATA, &b);
}

/* Ends the connection; the client comes back with its cursor, if it may. */
static void give_up(struct subscriptions *s, struct subscription *sub, int status, const char *why,
                    struct outbox *out)
{
    struct buf reason = BUF_INIT(256);
    buf_addz(&reason, why);
    outbox_add(out, sub->peer, status, &reason);
    drop(s, sub);
}

/* A token that has run out opens nothing, also not what it had opened. */
static bool has_expired(const struct subscriptions *s, const struct subscription *sub)
{
    return sub->ask.expires_ms && sub->ask.expires_ms <= s->work->now_ms;
}

static void publish_to(struct subscriptions *s, int64_t topic, const struct event *e,
                       struct buf *text, struct outbox *out)
{
    struct subscription_list *l = map_get(&s->by_topic, topic);
    if (!l)
        return;
    if (text->len == 0)
        write_event(text, e);
    for (struct subscription *sub = LIST_FIRST(l), *next; sub; sub = next) {
        next = LIST_NEXT(sub, of_topic); /* give_up() may free it, and the list with the last */
        if (sub->state != LIVE)
            continue;
        if (has_expired(s, sub))
            give_up(s, sub, MESSAGE_EXPEL, "the token has expired", out);
        else if (peer_has_room(sub->peer))
            deliver(sub, e, buf_str(text), out);
        else
            set_state(s, sub, WAITING);
    }
}

static void publish_guidance_to(struct subscriptions *s, int64_t topic, const struct guidance *g,
                                struct outbox *out)
{
    struct subscription_list *l = map_get(&s->by_topic, topic);
    struct subscription *sub;
    if (!l)
        return;
    LIST_FOREACH (sub, l, of_topic) {
        sub->guided = sub->state == LIVE && sub->ask.include_guidance && !has_expired(s, sub);
        if (sub->guided) /* the others are told when they have caught up */
            send_guidance(sub, g, out);
    }
}

void subscriptions_publish(struct subscriptions *s, struct outbox *out)
{
    struct subscription *sub;
    while ((sub = LIST_FIRST(&s->removed)))
        drop(s, sub);
    if (s->count == 0)
        return;
    _cleanup_buf_ struct buf text = BUF_INIT(MESSAGE_BYTES_MAX);
    for (const struct event *e = s->work->events; e; e = e->next) {
        buf_clear(&text);
        publish_to(s, e->conversation, e, &text, out);
        publish_to(s, SUBSCRIBE_ALL, e, &text, out);
    }
    for (const struct guidance *g = s->work->guidance; g; g = g->next) {
        publish_guidance_to(s, g->conversation, g, out);
        publish_guidance_to(s, SUBSCRIBE_ALL, g, out);
    }
    while ((sub = TAILQ_FIRST(&s->staged)))
        set_state(s, sub, BEHIND);
}

/* ---- catching up ---- */

static int tell_current_guidance(struct subscriptions *s, struct subscription *sub,
                                 struct outbox *out, struct err *err)
{
    if (sub->guided || !sub->ask.include_guidance || sub->ask.conversation == SUBSCRIBE_ALL)
        return 0;
    sub->guided = true;
    struct head *h;
    struct guidance g;
    bool any = false;
    int r = head_get(s->work, sub->ask.conversation, &h, err);
    if (r == 0)
        r = guidance_current(s->work, h, &g, &any, err);
    if (r == 0 && any)
        send_guidance(sub, &g, out);
    return r;
}

struct page {
    struct subscription *sub;
    struct outbox *out;
    struct buf text;
    int count;
    bool has_room; /* when last looked at: the net thread makes room at any time */
};

static bool deliver_from_page(void *ctx, const struct event *e)
{
    struct page *p = ctx;
    write_event(&p->text, e);
    deliver(p->sub, e, buf_str(&p->text), p->out);
    p->count++;
    p->has_room = peer_has_room(p->sub->peer);
    return p->has_room;
}

/* Reads one page. The subscription ends LIVE, WAITING or, if there may be more, BEHIND. */
static int read_page(struct subscriptions *s, struct subscription *sub, struct outbox *out,
                     struct err *err)
{
    struct page p = {.sub = sub, .out = out, .text = BUF_INIT(MESSAGE_BYTES_MAX)};
    int r = 0;
    p.has_room = peer_has_room(sub->peer);
    if (p.has_room)
        r = sub->ask.conversation == SUBSCRIBE_ALL
                ? log_read_all(s->work, sub->cursor, PAGE_EVENTS, deliver_from_page, &p, err)
                : log_read(s->work, sub->ask.conversation, sub->cursor, PAGE_EVENTS,
                           deliver_from_page, &p, err);
    buf_release(&p.text);
    if (r < 0)
        return r;
    if (!p.has_room) { /* not read to its end, whatever room there is by now; drained() follows */
        set_state(s, sub, WAITING);
        return 0;
    }
    if (p.count == PAGE_EVENTS) {
        set_state(s, sub, BEHIND); /* to the end of the queue */
        return 0;
    }
    set_state(s, sub, LIVE);
    return tell_current_guidance(s, sub, out, err);
}

bool subscriptions_pump(struct subscriptions *s, struct outbox *out)
{
    for (int i = 0; i < PUMPS_PER_CALL; i++) {
        struct subscription *sub = TAILQ_FIRST(&s->behind);
        if (!sub)
            return false;
        struct err err = ERR_INIT;
        if (atomic_load(&sub->peer->is_closed))
            set_state(s, sub, WAITING); /* its end is on the way */
        else if (has_expired(s, sub))
            give_up(s, sub, MESSAGE_EXPEL, "the token has expired", out);
        else if (read_page(s, sub, out, &err) < 0) {
            log_error("follow", "subscription_failed", "subscription=%lld reason=%s",
                      (long long)sub->number, log_quote(str_of(err.message)));
            /* Rather that than a hole. */
            give_up(s, sub, MESSAGE_CLOSE, "the log cannot be read", out);
        }
    }
    return !TAILQ_EMPTY(&s->behind);
}
