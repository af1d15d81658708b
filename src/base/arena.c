/* arena.c: see arena.h. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { ARENA_BLOCK_FIRST = 2048, ARENA_BLOCK_MAX = 256 * 1024 };

struct arena_block {
    struct arena_block *next; /* older */
    size_t size;
    alignas(max_align_t) char data[];
};

static size_t round_up(size_t bytes)
{
    size_t align = alignof(max_align_t);
    return (bytes + align - 1) & ~(align - 1);
}

static void add_block(struct arena *a, size_t at_least)
{
    size_t size = a->head ? MIN(a->head->size * 2, (size_t)ARENA_BLOCK_MAX) : ARENA_BLOCK_FIRST;
    size = MAX(size, at_least);
    struct arena_block *b = mem_alloc(sizeof *b + size);
    *b = (struct arena_block){.next = a->head, .size = size};
    a->head = b;
    a->used = 0;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    REQUIRE(bytes < SIZE_MAX / 2);
    size_t want = round_up(bytes ? bytes : 1);
    if (!a->head || a->head->size - a->used < want)
        add_block(a, want);
    void *p = a->head->data + a->used;
    a->used += want;
    return p;
}

void *arena_zalloc(struct arena *a, size_t bytes)
{
    return memset(arena_alloc(a, bytes), 0, bytes);
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *d = arena_alloc(a, n + 1);
    if (n)
        memcpy(d, s, n);
    d[n] = '\0';
    return d;
}

struct str arena_str(struct arena *a, struct str s)
{
    return (struct str){arena_strndup(a, s.p, s.n), s.n};
}

struct str arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    REQUIRE(n >= 0);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return (struct str){p, (size_t)n};
}

static void free_until(struct arena *a, struct arena_block *keep)
{
    while (a->head != keep) {
        struct arena_block *older = a->head->next;
        free(a->head);
        a->head = older;
    }
    a->used = 0;
}

void arena_clear(struct arena *a)
{
    struct arena_block *first = a->head;
    while (first && first->next)
        first = first->next;
    if (first && first->size > ARENA_BLOCK_MAX)
        first = NULL; /* never keep a giant */
    free_until(a, first);
}

void arena_release(struct arena *a)
{
    free_until(a, NULL);
}
