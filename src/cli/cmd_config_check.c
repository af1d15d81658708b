/*
 * cmd_config_check.c: `reeve config check`: what a server started here would run with, and within
 * which time tasks end with it (watch/bound.h).
 *
 * Reads the same sources in the same order as `reeve serve` and needs no server.
 */
#include "base/buf.h"
#include "base/macro.h"
#include "base/options.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "cli/when.h"
#include "watch/bound.h"

static int read_options(const struct cli_args *args, struct options *o, struct err *err)
{
    const char *file = cli_value(args, "config"), *assignment;
    size_t cursor = 0;
    options_init(o);
    int r = file ? options_read_file(o, file, err) : 0;
    if (r == 0)
        r = options_read_env(o, err);
    while (r == 0 && (assignment = cli_next(args, "set", &cursor)) != NULL)
        r = options_set(o, str_of(assignment), err);
    return r < 0 ? r : options_check(o, err);
}

/* ---- for programs ---- */

static void write_bound(struct json_out *w, const char *key, int64_t ms)
{
    if (ms == NEVER_MS)
        json_null(w, key);
    else
        json_int(w, key, ms);
}

static void write_json(struct buf *out, const struct options *o)
{
    struct json_out w = JSON_OUT(out);
    struct bounds b;
    bounds_of(o, &b);
    json_object(&w, NULL);
    options_write_members(o, &w);
    json_object(&w, "bounds");
    write_bound(&w, "taskMs", b.any_ms);
    write_bound(&w, "queuedTaskMs", b.queued_ms);
    json_object(&w, "nobodyAliveMs");
    for (enum task_status status = TASK_QUEUED; status <= TASK_SUSPENDED; status++)
        write_bound(&w, task_status_name(status), b.dead_ms[status]);
    json_end(&w);
    json_end(&w);
    json_end(&w);
    buf_addc(out, '\n');
}

/* ---- for people ---- */

static void add_row(struct table *t, const struct option_row *row, int64_t value,
                    enum option_source source)
{
    _cleanup_buf_ struct buf key = BUF_INIT(PRINT_BYTES_MAX);
    buf_addf(&key, "%s.%s", row->section, row->key);
    table_cell(t, buf_str(&key));
    if (row->type == OPTION_BOOL)
        table_cellz(t, value ? "true" : "false");
    else if (value == 0 && row->zero == OPTION_ZERO_OFF)
        table_cellz(t, "0 (off)");
    else
        table_cell_int(t, value);
    table_cellz(t, option_source_name(source));
    table_cellz(t, row->help);
}

static void write_table(struct buf *out, const struct options *o)
{
    _cleanup_(table_release) struct table t = TABLE(4);
    table_cellz(&t, "KEY");
    table_cellz(&t, "VALUE");
    table_cellz(&t, "SOURCE");
    table_cellz(&t, "MEANING");
    for (size_t i = 0; i < OPTION_COUNT; i++)
        add_row(&t, &option_rows[i], o->value[i], o->source[i]);
    table_write(&t, out);
}

static void add_bound(struct buf *out, const char *what, const char *status, int64_t ms)
{
    buf_addf(out, "%s%s: ", what, status);
    if (ms == NEVER_MS)
        buf_addz(out, "no bound");
    else
        when_add_limit(out, ms - ms % 1000); /* the millisecond that exceeds a limit is not shown */
    buf_addc(out, '\n');
}

static void write_bounds(struct buf *out, const struct options *o)
{
    struct bounds b;
    bounds_of(o, &b);
    buf_addz(out, "\nA task ends within (P9), in an active conversation:\n");
    add_bound(out, "  from its dispatch, whatever anybody does", "", b.any_ms);
    add_bound(out, "  queued behind one other (once more for each further one)", "", b.queued_ms);
    for (enum task_status status = TASK_QUEUED; status <= TASK_SUSPENDED; status++)
        add_bound(out, "  if nobody is alive any more while it is ", task_status_name(status),
                  b.dead_ms[status]);
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    struct options o;
    int r = read_options(args, &o, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json")) {
        write_json(&out, &o);
    } else {
        write_table(&out, &o);
        write_bounds(&out, &o);
    }
    return print_flush(&out, err);
}

// clang-format off
static const struct verb_option options[] = {
    {"config", 0, "FILE", 0, "a configuration file"},
    {"set", 0, "SECTION.KEY=VALUE", ARG_REPEAT, "a setting, as for 'reeve serve'"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_config_check = {
    .name = "config check",
    .synopsis = "",
    .summary = "check the configuration and print every setting with its source",
    .details = "Also within which time a task ends with it, by its own rules, whatever dies.",
    .flags = VERB_JSON,
    .options = options,
    .run = run,
};
