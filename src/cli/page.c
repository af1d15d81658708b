/* page.c: see page.h. */
#include "cli/page.h"

#include "base/macro.h"
#include "cli/connect.h"
#include "cli/print.h"

static int add_options(struct json_out *w, const struct cli_args *args, struct err *err)
{
    static const struct {
        const char *name;
        int64_t least;
    } numbers[] = {{"after", 0}, {"limit", 1}};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        int64_t value;
        int r = cli_int(args, numbers[i].name, numbers[i].least, &value, err);
        if (r < 0)
            return r;
        if (r)
            json_int(w, numbers[i].name, value);
    }
    if (cli_value(args, "status"))
        json_stringz(w, "status", cli_value(args, "status"));
    json_end(w);
    return 0;
}

static void write_table(struct buf *out, const struct page *page, const struct json *list)
{
    _cleanup_(table_release) struct table t = TABLE(page->head_count);
    for (size_t i = 0; i < page->head_count; i++)
        table_cellz(&t, page->heads[i]);
    JSON_FOREACH (item, list)
        page->add_row(&t, item);
    table_write(&t, out);
}

int page_show(const struct cli_args *args, const struct page *page, struct json_out *w,
              struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    const struct json *result;
    int r = add_options(w, args, err);
    if (r == 0)
        r = cli_call(args, page->method, w->buf, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    const struct json *list = json_get(result, page->list);
    if (!list || list->type != JSON_ARRAY)
        return err_set(err, ERR_INTERNAL, "the answer has no list of %s", page->list);
    int64_t next = json_get_int(result, "next", -1);
    write_table(&out, page, list);
    if (next >= 0)
        buf_addf(&out, "more: --after %lld\n", (long long)next);
    return print_flush(&out, err);
}
