/*
 * map.h: int64 → pointer, open addressing.
 *
 * Keys are mixed with a random seed of the map, so that numbers a peer can choose do not make
 * collisions. Values are borrowed; NULL is not a value.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct map_slot {
    int64_t key;
    void *value; /* NULL: empty */
};

struct map {
    struct map_slot *slots;
    size_t size, count; /* size: 0 or a power of two */
    uint64_t seed;
};

#define MAP_INIT ((struct map){0})

void *map_get(const struct map *m, int64_t key);       /* or NULL */
void map_put(struct map *m, int64_t key, void *value); /* replaces */
void *map_remove(struct map *m, int64_t key);          /* what was there, or NULL */
void map_release(struct map *m);

/* for (size_t i = 0; (v = map_next(m, &i));): in no order; no puts or removes meanwhile. */
void *map_next(const struct map *m, size_t *i);
