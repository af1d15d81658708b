/*
 * attachment.h: bytes that travel with a message, stored apart from the log and byte-exact (L12).
 * An event carries only {id, name, contentType, size}.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct work;

struct attachment {
    int64_t attachment, conversation;
    struct str name, content_type;
    struct str content; /* any bytes */
};

/* The number the n-th (from 0) attachment stored in this request will get. */
int64_t attachment_number(const struct work *w, size_t n);
/* Stores the next one; a->attachment must be its number. */
int attachment_store(struct work *w, const struct attachment *a, int64_t event_id, struct err *err);
/* Copied into the tick's arena; ERR_NOT_FOUND. */
int attachment_get(struct work *w, int64_t attachment, struct attachment *ret, struct err *err);
int attachment_not_found(int64_t attachment, struct err *err);
