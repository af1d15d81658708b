/*
 * backoff.h: things that failed, and when to try each again.
 *
 * A row that cannot be handled must neither be tried in every pass nor hold back the others (P17).
 * Waits begin at BACKOFF_FIRST_MS and double up to BACKOFF_MAX_MS. Kept in memory only: a restart
 * tries everything once more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

enum { BACKOFF_FIRST_MS = 1000, BACKOFF_MAX_MS = 300000 };

struct backoff {
    struct map entries;
    /* private: the next of them, once it was looked for */
    int64_t next_ms, next_key;
    bool is_next_known;
};

/* It failed: how long to wait from now. */
int64_t backoff_failed(struct backoff *b, int64_t key, int64_t now_ms);
void backoff_worked(struct backoff *b, int64_t key);
/* Must it still wait? */
bool backoff_holds(const struct backoff *b, int64_t key, int64_t now_ms);
/* When the next one may be tried; INT64_MAX if there is none. *ret_key, if not NULL, is its key. */
int64_t backoff_next_ms(struct backoff *b, int64_t *ret_key);
/* Everything that was to be tried again by then has been: what is left of it is gone for good. */
void backoff_forget_until(struct backoff *b, int64_t at_ms);
void backoff_release(struct backoff *b);
