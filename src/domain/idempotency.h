/*
 * idempotency.h: the same request with the same key has one effect and one answer (P19).
 *
 * For every method that writes, except log appends, whose keys are kept with the event for ever
 * (append.h). Scope: (token subject, method, key), kept for 24 hours. Only successes are stored, in
 * the transaction of their effect.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "domain/append.h"

struct work;

/* *ret_result (in the tick's arena) and *ret_found; ERR_IDEMPOTENCY_CONFLICT if the body differs.
 */
int idempotency_find(struct work *w, struct str subject, const char *method,
                     const struct request_key *key, struct str *ret_result, bool *ret_found,
                     struct err *err);
int idempotency_store(struct work *w, struct str subject, const char *method,
                      const struct request_key *key, struct str result, struct err *err);
/* Deletes a page of keys older than 24 hours; *ret_more: there may be others. */
int idempotency_prune(struct work *w, bool *ret_more, struct err *err);
