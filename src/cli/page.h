/*
 * page.h: verbs that show one page of a list as a table: `conversation list`, `task list`, …
 *
 * The params are begun by the verb, which says whose list it is; page_show() adds what all of them
 * take (--status, --after, --limit), asks, and prints rows and where to go on.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/table.h"

struct page {
    const char *method;
    const char *list; /* member of the answer */
    const char *const *heads;
    size_t head_count;
    void (*add_row)(struct table *t, const struct json *item);
};

/* `w` has the object of params open; it is closed here. */
int page_show(const struct cli_args *args, const struct page *page, struct json_out *w,
              struct err *err);
