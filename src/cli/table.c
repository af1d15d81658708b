/*
 * table.c: see table.h. Owns a copy of every cell; tables are as long as a page of an answer.
 */
#include "cli/table.h"

#include <stdlib.h>

#include "base/macro.h"
#include "base/mem.h"
#include "cli/print.h"
#include "cli/screen.h"

enum { CELL_BYTES_MAX = 8 * TABLE_CELL_CHARS_MAX, GAP = 2, WIDTH_MIN = 4 };

void table_cell(struct table *t, struct str text)
{
    struct buf b = BUF_INIT(CELL_BYTES_MAX);
    print_clean(&b, text, TABLE_CELL_CHARS_MAX);
    t->cells = mem_grow(t->cells, &t->cap, t->count + 1, sizeof *t->cells);
    t->cells[t->count++] = buf_take(&b);
}

void table_cellz(struct table *t, const char *text)
{
    table_cell(t, str_of(text));
}

void table_cell_int(struct table *t, int64_t value)
{
    _cleanup_buf_ struct buf b = BUF_INIT(CELL_BYTES_MAX);
    buf_add_int(&b, value);
    table_cell(t, buf_str(&b));
}

/* The widths of its columns, if nothing is cut; their sum with the gaps is returned. */
static size_t natural_widths(const struct table *t, size_t width[TABLE_COLUMNS_MAX])
{
    size_t sum = (t->columns - 1) * GAP;
    for (size_t i = 0; i < t->count; i++) {
        size_t *w = &width[i % t->columns];
        *w = MAX(*w, screen_width(str_of(t->cells[i])));
    }
    for (size_t i = 0; i < t->columns; i++)
        sum += width[i];
    return sum;
}

/* Takes from the widest columns what is too much, as long as they can be read; from the first one,
 * which names the row, last of all. */
static void fit(const struct table *t, size_t sum, size_t columns, size_t width[TABLE_COLUMNS_MAX])
{
    for (; sum > columns; sum--) {
        size_t *widest = &width[t->columns - 1];
        for (size_t i = 1; i < t->columns; i++)
            if (width[i] > *widest)
                widest = &width[i];
        if (*widest <= WIDTH_MIN)
            widest = &width[0];
        if (*widest <= WIDTH_MIN)
            return;
        --*widest;
    }
}

static void write_row(const struct table *t, size_t first, const size_t width[TABLE_COLUMNS_MAX],
                      struct buf *line)
{
    for (size_t i = 0; i < t->columns; i++) {
        struct str cell = str_of(t->cells[first + i]);
        screen_add_cut(line, cell, width[i]);
        if (i + 1 < t->columns)
            buf_addf(line, "%*s", (int)(width[i] - MIN(width[i], screen_width(cell)) + GAP), "");
    }
}

void table_write(const struct table *t, struct buf *out)
{
    size_t width[TABLE_COLUMNS_MAX] = {0}, columns = screen_columns();
    REQUIRE(t->columns <= TABLE_COLUMNS_MAX && t->count % t->columns == 0);
    size_t sum = natural_widths(t, width);
    if (columns)
        fit(t, sum, columns, width);
    for (size_t first = 0; first < t->count; first += t->columns) {
        _cleanup_buf_ struct buf line = BUF_INIT(TABLE_COLUMNS_MAX * CELL_BYTES_MAX);
        write_row(t, first, width, &line);
        screen_add_cut(out, buf_str(&line), columns ? columns : line.len);
        buf_addc(out, '\n');
    }
}

void table_release(struct table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = TABLE(t->columns);
}
