/*
 * shim_tail.c: see shim_tail.h.
 *
 * A buffer of twice the size: when it is full, the older half goes. Cleaned only when asked for,
 * because that happens once.
 */
#include "machine/shim_tail.h"

#include <string.h>

#include "base/macro.h"

static void add(struct shim_tail *t, const char *bytes, size_t n)
{
    if (n > RECORD_TAIL_BYTES_MAX) {
        bytes += n - RECORD_TAIL_BYTES_MAX;
        n = RECORD_TAIL_BYTES_MAX;
        t->is_cut = true;
    }
    if (t->len + n > sizeof t->bytes) {
        memmove(t->bytes, t->bytes + t->len - RECORD_TAIL_BYTES_MAX, RECORD_TAIL_BYTES_MAX);
        t->len = RECORD_TAIL_BYTES_MAX;
        t->is_cut = true;
    }
    memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
}

void shim_tail_add(struct shim_tail *t, struct str line)
{
    add(t, line.p, line.n);
    add(t, "\n", 1);
}

static struct str last_lines(const struct shim_tail *t)
{
    struct str s = {t->bytes, t->len};
    bool is_cut = t->is_cut || s.n > RECORD_TAIL_BYTES_MAX;
    if (s.n > RECORD_TAIL_BYTES_MAX)
        s = str_skip(s, s.n - RECORD_TAIL_BYTES_MAX);
    const char *feed = is_cut && s.n ? memchr(s.p, '\n', s.n - 1) : NULL;
    return feed ? str_skip(s, (size_t)(feed + 1 - s.p)) : s;
}

/* Length of the character that s begins with; 0 if that is none we would show. */
static size_t character(struct str s)
{
    unsigned char c = (unsigned char)s.p[0];
    if (c < 0x80)
        return (c >= 0x20 && c != 0x7f) || c == '\n' || c == '\t';
    for (size_t n = 2; n <= 4 && n <= s.n; n++)
        if (str_is_utf8((struct str){s.p, n}))
            return n;
    return 0;
}

void shim_tail_write(const struct shim_tail *t, struct buf *out)
{
    for (struct str s = last_lines(t); s.n > 0;) {
        size_t n = character(s);
        buf_add(out, n ? s.p : "?", MAX(n, (size_t)1));
        s = str_skip(s, MAX(n, (size_t)1));
    }
}
