/*
 * table.h: lines in columns.
 *
 *     struct table t = TABLE(3);
 *     table_cellz(&t, "KEY"); table_cellz(&t, "VALUE"); table_cellz(&t, "SOURCE");
 *     …
 *     table_write(&t, &out);
 *     table_release(&t);
 *
 * Cells come row by row. Each is made safe to show (print.h) and cut at TABLE_CELL_CHARS_MAX. A
 * column is as wide as its widest cell, counted in characters; the last one is not padded. A table
 * that is wider than the screen (screen.h) has its widest columns cut.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum { TABLE_COLUMNS_MAX = 9, TABLE_CELL_CHARS_MAX = 80 };

struct table {
    size_t columns;
    char **cells;
    size_t count, cap;
};

#define TABLE(n) ((struct table){.columns = (n)})

void table_cell(struct table *t, struct str text);
void table_cellz(struct table *t, const char *text);
void table_cell_int(struct table *t, int64_t value);
void table_write(const struct table *t, struct buf *out);
void table_release(struct table *t);
