/*
 * deeds.h: what a store owes to those it has answered, and what must hold in any store.
 *
 *     struct deeds told = {0};
 *     deeds_read(&told, db);               after a commit: this is what answers were based on
 *     …the power goes…
 *     deeds_missing(&told, db)             NULL, or what of it is gone or different (P12)
 *     store_rules_broken(db)               NULL, or the promise that does not hold (P6, P7, P10)
 *
 * Events and cards never change, so all that were there must be there, byte for byte. A task's
 * epoch never goes back, and one that has ended stays as it ended.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

enum { DEEDS_TASKS_MAX = 64 };

struct deeds {
    int64_t last_event, last_card;
    uint64_t events_hash, cards_hash;
    struct deed_task {
        int64_t epoch;
        uint64_t end_hash;        /* of status, reason and deliverable; 0: it had not ended */
    } tasks[DEEDS_TASKS_MAX + 1]; /* by number; the first 64 are watched */
    int64_t task_count;
};

void deeds_read(struct deeds *d, sqlite3 *db);
const char *deeds_missing(const struct deeds *d, sqlite3 *db);
const char *store_rules_broken(sqlite3 *db);
