/* statements.c: see statements.h. */
#include "store/statements.h"

#include "base/macro.h"

const struct statement_row statement_rows[STATEMENT_COUNT] = {
#define X(sym, of_kind, sql) [SQL_##sym] = {#sym, STATEMENT_##of_kind, sql},
    STATEMENT_LIST(X)
#undef X
};
