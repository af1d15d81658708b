/*
 * schema.h: the numbered migrations.
 *
 * Migration N takes a store from version N-1 to N, in one transaction, with its row in
 * schema_version. A released migration is never edited; a change is a new one. A store newer than
 * the program is refused. Times are int64 milliseconds UTC.
 */
#pragma once

#include <stddef.h>

extern const char *const schema_migrations[]; /* [0] makes version 1 */
extern const size_t schema_version_latest;
