/*
 * random.h: randomness behind a seam.
 *
 * Tokens and hash seeds come from the kernel. A simulator replaces the source by a seeded one with
 * random_set_source(); nothing else in the code base asks for random bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef void random_fill_fn(void *ctx, void *out, size_t n);

void random_set_source(random_fill_fn *fill, void *ctx); /* NULL: the kernel */
void random_bytes(void *out, size_t n);
uint64_t random_u64(void);
/* n random bytes as 2n hexadecimal digits and a NUL. */
void random_hex(size_t n, char *ret);
