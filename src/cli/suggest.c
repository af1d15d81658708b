/*
 * suggest.c: edit distance of two short words, for help with misspelt names.
 *
 * The textbook recurrence with two rows; words longer than WORD_MAX are never near to anything, so
 * the rows are of fixed size.
 */
#include "cli/suggest.h"

#include "base/macro.h"

enum { WORD_MAX = 40 };

unsigned suggest_distance(struct str a, struct str b)
{
    unsigned far = SUGGEST_DISTANCE_MAX + 1;
    if (a.n > WORD_MAX || b.n > WORD_MAX)
        return far;
    unsigned row[WORD_MAX + 1], above[WORD_MAX + 1];
    for (unsigned j = 0; j <= b.n; j++)
        above[j] = j;
    for (unsigned i = 1; i <= a.n; i++) {
        row[0] = i;
        for (unsigned j = 1; j <= b.n; j++) {
            unsigned change = above[j - 1] + (a.p[i - 1] != b.p[j - 1]);
            unsigned shift = MIN(above[j], row[j - 1]) + 1;
            row[j] = MIN(change, shift);
        }
        memcpy(above, row, sizeof above);
    }
    return MIN(above[b.n], far);
}
