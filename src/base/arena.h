/*
 * arena.h: memory of one request, freed in one go.
 *
 * A request allocates from its own arena while it is parsed, executed and answered; nothing is
 * freed piece by piece. Blocks double in size up to ARENA_BLOCK_MAX; what is larger gets a block of
 * its own. Memory is aligned for any type and not zeroed (arena_zalloc is). arena_clear() keeps
 * the first block, so a reused arena costs no malloc at all in the common case.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/str.h"

struct arena_block;

struct arena {
    struct arena_block *head; /* newest block, where we allocate */
    size_t used;              /* bytes handed out of head */
};

#define ARENA_INIT ((struct arena){0})

void *arena_alloc(struct arena *a, size_t bytes);
void *arena_zalloc(struct arena *a, size_t bytes);
char *arena_strndup(struct arena *a, const char *s, size_t n); /* NUL-terminated */
struct str arena_str(struct arena *a, struct str s);
struct str arena_printf(struct arena *a, const char *fmt, ...) _printf_(2, 3); /* NUL-terminated */
void arena_clear(struct arena *a);
void arena_release(struct arena *a);
