/*
 * facts.h: what has to be told to the server, until it has been.
 *
 * A fact gets the next number, is a line of DIR/outbox, and stays until the server has accepted or
 * rejected it. Numbers go on across restarts. Facts are sent in their order, many at a time:
 *
 *     facts_open(&o, folder, err)
 *     facts_add(o, "exited", spawn_id, members, at_ms)
 *     n = facts_write(o, limit, out, "facts")      the oldest; 0: nothing to tell
 *     facts_accepted(o, up_to)                     …they are gone
 *     facts_reject(o, n, why)                      one of them is set aside, in outbox.rejected
 *
 * `gone` is called for each fact that has left, accepted or set aside: what was kept to be able to
 * tell it again may go.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

struct facts;

typedef void facts_gone_fn(void *ctx, struct str spawn_id, bool is_last_word);

/* ERR_IO if the folder cannot be written to. A damaged line is passed over, with a line of log. */
int facts_open(const char *folder, struct facts **ret, struct err *err);
struct facts *facts_close(struct facts *o); /* NULL; what is in it stays on disk */
void facts_on_gone(struct facts *o, facts_gone_fn *fn, void *ctx);

/* `members` is JSON text of further members without braces: `"pid":7`; may be empty. */
void facts_add(struct facts *o, const char *fact, const char *spawn_id, struct str members,
               int64_t at_ms);
bool facts_is_empty(const struct facts *o);
/* Is the end, or the failed start, of this spawn still to be told? */
bool facts_has_last_word(const struct facts *o, const char *spawn_id);
/* At most `limit` facts and about `bytes_max`, the oldest first; how many. */
size_t facts_write(const struct facts *o, size_t limit, size_t bytes_max, struct json_out *out,
                   const char *key);
void facts_accepted(struct facts *o, int64_t up_to);
void facts_reject(struct facts *o, int64_t n, struct str why);
/* The number of the oldest; 0: none. */
int64_t facts_first(const struct facts *o);
