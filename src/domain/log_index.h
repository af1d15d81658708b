/*
 * log_index.h: finding events by conversation and seq, and by request id.
 *
 * The log is one table in the order of global ids, so appending writes only at its right edge. Its
 * two indexes, (conversation, seq) and (conversation, agent, request id), are scattered: written
 * with every append, they made two more dirty pages per append and conversation, and those pages
 * were most of what a commit had to write. So they are written behind. The newest part of the log,
 * the *tail*, is indexed in memory; when it has grown to LOG_TAIL_MAX events, two statements move
 * it into the index tables, sorted, in one transaction with the cursor `log_index` (work_maintain).
 * A start reads back the few events after the cursor.
 *
 * Nothing is less durable for that: the log itself is the truth, and the index can be computed from
 * it. Uniqueness is decided before an event is written, from tail and tables together; the tables'
 * primary keys check it a second time.
 *
 * As with heads, nobody else may write to the store; for a shared one, flush in every tick.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "domain/event.h"

struct work;
struct log_index;

/*
 * The longer the tail, the more entries of a conversation reach its index pages at once, and the
 * longer the pause in which they are written. With 64 conversations in one run, 256 / 1024 / 4096
 * gave 27 / 33 / 37 thousand appends/s, at a p99 of 13 / 12 / 17 ms.
 */
enum { LOG_TAIL_MAX = 4096 };

/* Reads the tail. */
int log_index_new(struct work *w, struct log_index **ret, struct err *err);
struct log_index *log_index_free(struct log_index *x); /* NULL */

/* For append.c: after an event was inserted. request.p == NULL: it has no request id. */
void log_index_add(struct log_index *x, const struct event *e, struct str request);
/* For work.c: as many entries as there were before a request or a tick that is undone. */
size_t log_index_count(const struct log_index *x);
void log_index_truncate(struct log_index *x, size_t count);
/* Each conversation that has events in the tail: start with *i = 0; false at the end. */
bool log_index_next_conversation(const struct log_index *x, size_t *i, int64_t *ret);
/* Writes the tail into the tables, in the caller's transaction. */
int log_index_write(struct work *w, struct err *err);
/* That transaction was committed. */
void log_index_written(struct log_index *x);

/* The event at seq, its strings copied into the tick's arena. STORE_ROW, STORE_DONE or an error. */
int log_get(struct work *w, int64_t conversation, int64_t seq, struct event *ret, struct err *err);
/* ERR_INTERNAL unless this is the seq of the last event there is; 0: there must be none. */
int log_check_last(struct work *w, int64_t conversation, int64_t last_seq, struct err *err);
/* The event an agent's request made, and the hash of that request. Likewise. */
int log_find_request(struct work *w, int64_t conversation, struct str agent_id, struct str request,
                     struct event *ret, struct str *ret_hash, struct err *err);
/* The greatest seq of the conversation whose global id is at most `id`; 0 if there is none. */
int log_seq_at_id(struct work *w, int64_t conversation, int64_t last_seq, int64_t id, int64_t *ret,
                  struct err *err);

/* Gets each event in turn; its strings are borrowed for the call. False stops the reading. */
typedef bool log_fn(void *ctx, const struct event *e);
/* Events of a conversation after `after_seq`, in order, at most `limit`. */
int log_read(struct work *w, int64_t conversation, int64_t after_seq, int64_t limit, log_fn *fn,
             void *ctx, struct err *err);
/* Those of them that are in the tail, all of them. */
int log_read_tail(struct work *w, int64_t conversation, int64_t after_seq, log_fn *fn, void *ctx,
                  struct err *err);
/* Events of all conversations after `after_id`, in commit order, at most `limit`. */
int log_read_all(struct work *w, int64_t after_id, int64_t limit, log_fn *fn, void *ctx,
                 struct err *err);
