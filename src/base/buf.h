/*
 * buf.h: a growing byte buffer with a ceiling.
 *
 * Each buffer is made with the most it may ever hold. Going past it does not fail each call: the
 * buffer turns `overflow`, drops what it has and ignores further additions, so that a long run of
 * additions is checked once, at the end. Data is always NUL-terminated when there is any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macro.h"
#include "base/str.h"

struct buf {
    char *data;
    size_t len, cap;
    size_t max; /* bytes; set at init */
    bool overflow;
};

#define BUF_INIT(bytes_max) ((struct buf){.max = (bytes_max)})

void buf_add(struct buf *b, const void *data, size_t n);
void buf_add_str(struct buf *b, struct str s);
void buf_addz(struct buf *b, const char *z);
void buf_addc(struct buf *b, char c);
void buf_add_int(struct buf *b, int64_t value);
void buf_addf(struct buf *b, const char *fmt, ...) _printf_(2, 3);
/* Room for n more bytes to be written by the caller, then buf_grown(); NULL on overflow. */
char *buf_reserve(struct buf *b, size_t n);
void buf_grown(struct buf *b, size_t n);
void buf_drop_front(struct buf *b, size_t n);
void buf_truncate(struct buf *b, size_t len);
void buf_clear(struct buf *b);   /* empty, keeps the memory */
void buf_release(struct buf *b); /* empty, gives the memory back, may be used again */
char *buf_take(struct buf *b);   /* caller frees; never NULL */

static inline struct str buf_str(const struct buf *b)
{
    return (struct str){b->data ? b->data : "", b->len};
}

#define _cleanup_buf_ _cleanup_(buf_release)
