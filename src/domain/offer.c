/* offer.c: see offer.h. */
#include "domain/offer.h"

#include "base/buf.h"
#include "domain/machine.h"
#include "domain/work.h"

enum { OFFER_BYTES_MAX = 16384, OFFERS_MAX = 8 };

static bool is_meant(const struct machine *m, struct str machine)
{
    return !m->is_forgotten && (machine.n == 0 || str_is(machine, m->name));
}

bool offer_has_machines(const struct work *w)
{
    for (const struct machine *m = w->machines; m; m = m->next)
        if (!m->is_forgotten)
            return true;
    return false;
}

bool offer_may_come(const struct work *w, struct str kind, struct str machine)
{
    bool is_known = false;
    for (const struct machine *m = w->machines; m; m = m->next) {
        if (!is_meant(m, machine))
            continue;
        is_known = true;
        for (size_t i = 0; i < m->kind_count; i++)
            if (str_is(kind, m->kinds[i].name))
                return true;
    }
    return !is_known;
}

struct str offer_machines(struct work *w, const char *kind)
{
    _cleanup_buf_ struct buf out = BUF_INIT(OFFER_BYTES_MAX);
    size_t told = 0;
    for (const struct machine *m = w->machines; m; m = m->next)
        if (!m->is_forgotten && machine_kind_find(m, kind) && ++told <= OFFERS_MAX)
            buf_addf(&out, "%s%s", out.len ? ", " : "", m->name);
    if (told > OFFERS_MAX)
        buf_addf(&out, " and %zu more", told - OFFERS_MAX);
    return arena_str(&w->arena, buf_str(&out));
}

static void add_kinds(struct buf *out, const struct machine *m)
{
    buf_addf(out, "%s offers ", m->name);
    for (size_t i = 0; i < m->kind_count && i < OFFERS_MAX; i++)
        buf_addf(out, "%s%s", i ? ", " : "", m->kinds[i].name);
    if (m->kind_count > OFFERS_MAX)
        buf_addf(out, " and %zu more", m->kind_count - OFFERS_MAX);
    if (m->kind_count == 0)
        buf_addz(out, "nothing");
}

struct str offer_text(struct work *w, struct str machine)
{
    _cleanup_buf_ struct buf out = BUF_INIT(OFFER_BYTES_MAX);
    size_t told = 0;
    for (const struct machine *m = w->machines; m; m = m->next) {
        if (!is_meant(m, machine) || ++told > OFFERS_MAX)
            continue;
        if (out.len)
            buf_addz(&out, "; ");
        add_kinds(&out, m);
    }
    if (told > OFFERS_MAX)
        buf_addf(&out, "; and %zu more machines", told - OFFERS_MAX);
    return out.len ? arena_str(&w->arena, buf_str(&out)) : STR("no machine has registered");
}
