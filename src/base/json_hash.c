/*
 * json_hash.c: a hash of what a value means (json.h).
 *
 * SHA-256 of this encoding, which is stored with idempotency keys and therefore never changes:
 * each value is a letter and eight bytes, little endian, that hold the value, its length or its
 * count; bytes, items or (key, value) pairs follow. No two different values share an encoding.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/crypto.h"
#include "base/json.h"
#include "base/mem.h"

struct canon {
    struct buf text;
    const struct json **members; /* a stack: those of each open object, sorted */
    size_t len, cap;
};

static void canon_head(struct canon *c, char letter, uint64_t number)
{
    char head[9] = {letter};
    number = htole64(number);
    memcpy(head + 1, &number, 8);
    buf_add(&c->text, head, sizeof head);
}

static void canon_string(struct canon *c, struct str s)
{
    canon_head(c, 's', s.n);
    buf_add_str(&c->text, s);
}

static void canon_real(struct canon *c, double real)
{
    uint64_t bits;
    real = real == 0 ? 0 : real; /* -0.0 is 0.0 */
    memcpy(&bits, &real, sizeof bits);
    canon_head(c, 'r', bits);
}

static int compare_keys(const void *left, const void *right)
{
    struct str a = (*(const struct json *const *)left)->key;
    struct str b = (*(const struct json *const *)right)->key;
    return str_compare(a, b);
}

static bool is_listed(struct str key, const char *const *list)
{
    for (; list && *list; list++)
        if (str_is(key, *list))
            return true;
    return false;
}

static void canon_value(struct canon *c, const struct json *v, const char *const *skip);

static void canon_object(struct canon *c, const struct json *v, const char *const *skip)
{
    size_t first = c->len;
    c->members = mem_grow(c->members, &c->cap, c->len + v->count, sizeof *c->members);
    JSON_FOREACH (m, v)
        if (!is_listed(m->key, skip))
            c->members[c->len++] = m;
    size_t end = c->len;
    canon_head(c, 'o', end - first);
    if (end > first)
        qsort(c->members + first, end - first, sizeof *c->members, compare_keys);
    for (size_t i = first; i < end; i++) {
        canon_string(c, c->members[i]->key);
        canon_value(c, c->members[i], NULL);
    }
    c->len = first;
}

static void canon_value(struct canon *c, const struct json *v, const char *const *skip)
{
    switch (v->type) {
    case JSON_NULL:
        canon_head(c, 'n', 0);
        break;
    case JSON_BOOL:
        canon_head(c, 'b', v->boolean);
        break;
    case JSON_INT:
        canon_head(c, 'i', (uint64_t)v->integer);
        break;
    case JSON_REAL:
        canon_real(c, v->real);
        break;
    case JSON_STRING:
        canon_string(c, v->string);
        break;
    case JSON_ARRAY:
        canon_head(c, 'a', v->count);
        JSON_FOREACH (item, v)
            canon_value(c, item, NULL);
        break;
    case JSON_OBJECT:
        canon_object(c, v, skip);
        break;
    }
}

void json_canonical_hash(const struct json *value, const char *const *skip, uint8_t ret[32])
{
    struct canon c = {.text = BUF_INIT(SIZE_MAX / 4)};
    canon_value(&c, value, skip);
    REQUIRE(!c.text.overflow);
    crypto_sha256(buf_str(&c.text), ret);
    buf_release(&c.text);
    free(c.members);
}
