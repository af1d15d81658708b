/*
 * bell_local.c: see bell.h.
 *
 * A ring is a call of `heard`, at once. What a fault does is all the state there is: a repeat is
 * kept until somebody else is rung for, so that it comes late and out of order.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/names.h"
#include "bell/bell.h"

enum fault { FAULT_NONE, FAULT_NEVER, FAULT_TEN, FAULT_COUNT };
enum { REPEATS = 9 };

static const char *const fault_names[] = {
    [FAULT_NONE] = "", [FAULT_NEVER] = "never", [FAULT_TEN] = "ten"};
_Static_assert(ARRAY_LEN(fault_names) == FAULT_COUNT, "a name for each fault");

struct repeat {
    int64_t key;
    int left;
};

struct bell {
    bell_heard_fn *heard;
    void *ctx;
    enum fault fault;
    struct repeat *repeats;
    size_t count, room;
};

int bell_new(const char *fault, bell_heard_fn *heard, void *ctx, struct bell **ret, struct err *err)
{
    int which = names_find(fault_names, FAULT_COUNT, str_of(fault ? fault : ""));
    if (which < 0)
        return err_set(err, ERR_CONFIG, "REEVE_TEST_BELL: \"%s\" is neither never nor ten", fault);
    struct bell *b = mem_zalloc(sizeof *b);
    b->heard = heard;
    b->ctx = ctx;
    b->fault = (enum fault)which;
    *ret = b;
    return 0;
}

struct bell *bell_free(struct bell *b)
{
    if (b)
        free(b->repeats);
    free(b);
    return NULL;
}

bool bell_is_here(const struct bell *b)
{
    return b->fault == FAULT_NONE;
}

/* All that are due for another one, the newest first; those that had their ten are forgotten. */
static void ring_again(struct bell *b)
{
    size_t kept = 0;
    for (size_t i = b->count; i-- > 0;) {
        b->heard(b->ctx, b->repeats[i].key);
        b->repeats[i].left--;
    }
    for (size_t i = 0; i < b->count; i++)
        if (b->repeats[i].left > 0)
            b->repeats[kept++] = b->repeats[i];
    b->count = kept;
}

void bell_ring(struct bell *b, int64_t key)
{
    if (b->fault == FAULT_NEVER)
        return;
    if (b->fault == FAULT_TEN) {
        ring_again(b);
        b->repeats = mem_grow(b->repeats, &b->room, b->count + 1, sizeof *b->repeats);
        b->repeats[b->count++] = (struct repeat){key, REPEATS};
    }
    b->heard(b->ctx, key);
}
