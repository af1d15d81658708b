/* peer.c: see peer.h. */
#include "base/peer.h"

#include <stdlib.h>

#include "base/mem.h"

struct peer *peer_new(void *conn, size_t high_water_bytes)
{
    struct peer *p = mem_zalloc(sizeof *p);
    atomic_init(&p->refs, 1);
    p->high_water_bytes = high_water_bytes;
    p->conn = conn;
    return p;
}

struct peer *peer_ref(struct peer *p)
{
    int before = atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    REQUIRE(before > 0);
    return p;
}

struct peer *peer_unref(struct peer *p)
{
    if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1)
        free(p);
    return NULL;
}

bool peer_has_room(struct peer *p)
{
    if (atomic_load(&p->queued_bytes) < p->high_water_bytes)
        return true;
    /* Ask first, look again after: a drain between the two is then never missed. */
    atomic_store(&p->wants_drain, true);
    return atomic_load(&p->queued_bytes) < p->high_water_bytes;
}

void outbox_add(struct outbox *o, struct peer *p, int status, struct buf *data)
{
    REQUIRE(!data->overflow);
    struct message *m = mem_alloc(sizeof *m);
    *m = (struct message){.peer = peer_ref(p), .data = *data, .status = status};
    *data = BUF_INIT(data->max);
    atomic_fetch_add(&p->queued_bytes, m->data.len);
    if (o->last)
        o->last->next = m;
    else
        o->first = m;
    o->last = m;
}

struct message *outbox_take_first(struct outbox *o)
{
    struct message *m = o->first;
    if (!m)
        return NULL;
    o->first = m->next;
    if (!o->first)
        o->last = NULL;
    m->next = NULL;
    return m;
}

void outbox_append(struct outbox *to, struct outbox *from)
{
    if (!from->first)
        return;
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    *from = (struct outbox){0};
}

void message_free(struct message *m)
{
    buf_release(&m->data);
    peer_unref(m->peer);
    free(m);
}

void outbox_release(struct outbox *o)
{
    struct message *m;
    while ((m = outbox_take_first(o))) {
        atomic_fetch_sub(&m->peer->queued_bytes, m->data.len);
        message_free(m);
    }
}
