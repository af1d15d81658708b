/*
 * shim_tail.h: the last lines an agent has written, for people who ask why it ended.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"
#include "machine/record.h"

struct shim_tail {
    char bytes[2 * RECORD_TAIL_BYTES_MAX];
    size_t len;
    bool is_cut; /* something came before what is kept */
};

void shim_tail_add(struct shim_tail *t, struct str line); /* without its line feed */
/* At most RECORD_TAIL_BYTES_MAX bytes, whole lines if any is whole. Valid UTF-8 without control
 * characters other than line feed and tab: what is none of that becomes '?'. */
void shim_tail_write(const struct shim_tail *t, struct buf *out);
