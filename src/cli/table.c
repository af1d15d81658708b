/*
 * table.c: see table.h. Owns a copy of every cell; tables are as long as a page of an answer.
 */
#include "cli/table.h"

#include <stdlib.h>

#include "base/macro.h"
#include "base/mem.h"
#include "cli/print.h"

enum { CELL_BYTES_MAX = 8 * TABLE_CELL_CHARS_MAX };

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

/* Characters of clean UTF-8: all bytes but continuation bytes. */
static size_t char_count(const char *cell)
{
    size_t n = 0;
    for (; *cell; cell++)
        n += ((unsigned char)*cell & 0xC0) != 0x80;
    return n;
}

void table_write(const struct table *t, struct buf *out)
{
    size_t width[TABLE_COLUMNS_MAX] = {0};
    REQUIRE(t->columns <= TABLE_COLUMNS_MAX && t->count % t->columns == 0);
    for (size_t i = 0; i < t->count; i++) {
        size_t *w = &width[i % t->columns];
        *w = MAX(*w, char_count(t->cells[i]));
    }
    for (size_t i = 0; i < t->count; i++) {
        size_t column = i % t->columns;
        buf_addz(out, t->cells[i]);
        if (column + 1 == t->columns)
            buf_addc(out, '\n');
        else
            for (size_t n = char_count(t->cells[i]); n < width[column] + 2; n++)
                buf_addc(out, ' ');
    }
}

void table_release(struct table *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = TABLE(t->columns);
}
