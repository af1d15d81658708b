/* map.c: see map.h. Linear probing; removal shifts back, so there are no tombstones. */
#include "base/map.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/random.h"

static size_t home(const struct map *m, int64_t key)
{
    uint64_t h = (uint64_t)key ^ m->seed;
    h = (h ^ (h >> 32)) * 0x9E3779B97F4A7C15ull;
    h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9ull;
    return (size_t)(h >> 32) & (m->size - 1);
}

static struct map_slot *find(const struct map *m, int64_t key)
{
    size_t i = home(m, key);
    while (m->slots[i].value && m->slots[i].key != key)
        i = (i + 1) & (m->size - 1);
    return &m->slots[i];
}

void *map_get(const struct map *m, int64_t key)
{
    return m->size ? find(m, key)->value : NULL;
}

static void resize(struct map *m, size_t size)
{
    struct map old = *m;
    *m = (struct map){.slots = mem_zalloc(size * sizeof *m->slots), .size = size};
    m->seed = old.size ? old.seed : random_u64();
    for (size_t i = 0; i < old.size; i++)
        if (old.slots[i].value)
            map_put(m, old.slots[i].key, old.slots[i].value);
    free(old.slots);
}

void map_put(struct map *m, int64_t key, void *value)
{
    REQUIRE(value);
    if (m->size == 0 || m->count + 1 > m->size - m->size / 4)
        resize(m, m->size ? m->size * 2 : 16);
    struct map_slot *s = find(m, key);
    if (!s->value)
        m->count++;
    *s = (struct map_slot){key, value};
}

void *map_remove(struct map *m, int64_t key)
{
    if (m->size == 0)
        return NULL;
    struct map_slot *s = find(m, key);
    void *value = s->value;
    if (!value)
        return NULL;
    m->count--;
    size_t mask = m->size - 1, hole = (size_t)(s - m->slots);
    for (size_t i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
        /* May the entry at i move to the hole? Only if its home is not between them. */
        size_t from_home = (i - home(m, m->slots[i].key)) & mask;
        if (from_home >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct map_slot){0};
    return value;
}

void *map_next(const struct map *m, size_t *i)
{
    while (*i < m->size) {
        struct map_slot *s = &m->slots[(*i)++];
        if (s->value)
            return s->value;
    }
    return NULL;
}

void map_release(struct map *m)
{
    free(m->slots);
    *m = MAP_INIT;
}
