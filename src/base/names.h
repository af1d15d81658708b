/*
 * names.h: enums and their names.
 *
 * An enum that has names on the wire or in the store is an X-macro list; its names are an array in
 * the order of its values, made from the same list, and this finds a value by its name.
 */
#pragma once

#include "base/str.h"

/* The index of `s` among the names, or -1. */
static inline int names_find(const char *const *names, int count, struct str s)
{
    for (int i = 0; i < count; i++)
        if (str_is(s, names[i]))
            return i;
    return -1;
}
