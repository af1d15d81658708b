/* model.c: see model.h. */
#include "sim/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/checker.h"
#include "sim/world.h"
#include "store/sqlite_store.h"

static const char *const sql[LOOK_COUNT] = {
#define X(name, text) [LOOK_##name] = text,
    LOOK_LIST(X)
#undef X
};

struct checker *checker_new(void)
{
    return mem_zalloc(sizeof(struct checker));
}

struct checker *checker_free(struct checker *c)
{
    free(c->events);
    free(c->conversations);
    free(c->agents);
    free(c->tasks);
    free(c->messages);
    gaps_release(&c->recorded);
    gaps_release(&c->truth);
    free(c);
    return NULL;
}

sqlite3_stmt *look_at(struct sim *s, enum look look)
{
    sqlite3_stmt **q = &s->checker->looks[look];
    if (!*q && sqlite3_prepare_v3(s->store->db, sql[look], -1, SQLITE_PREPARE_PERSISTENT, q, NULL))
        sim_fail(s, "CHECKER", "%s: %s", sql[look], sqlite3_errmsg(s->store->db));
    if (*q)
        sqlite3_reset(*q);
    fault_vfs_pause(s->disk, true);
    return *q;
}

bool look_next(struct sim *s, sqlite3_stmt *q)
{
    int rc = q ? sqlite3_step(q) : SQLITE_DONE;
    if (rc == SQLITE_ROW)
        return true;
    if (rc != SQLITE_DONE)
        sim_fail(s, "CHECKER", "%s: %s", sqlite3_sql(q), sqlite3_errmsg(s->store->db));
    look_end(s, q);
    return false;
}

void look_end(struct sim *s, sqlite3_stmt *q)
{
    if (q)
        sqlite3_reset(q);
    fault_vfs_pause(s->disk, false);
}

int64_t look_int(sqlite3_stmt *q, int column)
{
    return sqlite3_column_int64(q, column);
}

const char *look_text(sqlite3_stmt *q, int column)
{
    const char *text = (const char *)sqlite3_column_text(q, column);
    return text ? text : "";
}

bool look_is_null(sqlite3_stmt *q, int column)
{
    return sqlite3_column_type(q, column) == SQLITE_NULL;
}

/* Grows with zeroes: nothing is known. */
static void *grow(void *items, size_t *room, size_t want, size_t bytes)
{
    size_t had = *room;
    if (want <= had)
        return items;
    char *grown = mem_grow(items, room, want, bytes);
    memset(grown + had * bytes, 0, (*room - had) * bytes);
    return grown;
}

struct known_conversation *known_conversation(struct checker *c, int64_t conversation)
{
    c->conversations = grow(c->conversations, &c->conversation_room, (size_t)conversation + 1,
                            sizeof *c->conversations);
    return &c->conversations[conversation];
}

struct known_agent *known_agent(struct checker *c, int64_t conversation, int role)
{
    size_t at = (size_t)conversation * SIM_ROLES_MAX + (size_t)role;
    c->agents = grow(c->agents, &c->agent_room, at + 1, sizeof *c->agents);
    return &c->agents[at];
}

struct known_task *known_task(struct checker *c, int64_t task)
{
    c->tasks = grow(c->tasks, &c->task_room, (size_t)task + 1, sizeof *c->tasks);
    return &c->tasks[task];
}

struct known_message *known_message(struct checker *c, int64_t message)
{
    c->messages = grow(c->messages, &c->message_room, (size_t)message + 1, sizeof *c->messages);
    return &c->messages[message];
}

int role_number(const char *role)
{
    return role[0] == 'r' && role[1] >= '0' && role[1] < '0' + SIM_ROLES_MAX ? role[1] - '0' : -1;
}

int status_rank(const char *status)
{
    static const char *const order[] = {"queued",      "pending",   "acknowledged",
                                        "in_progress", "suspended", "completed",
                                        "failed",      "timeout",   "canceled"};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        if (strcmp(order[i], status) == 0)
            return i > 5 ? 5 : (int)i; /* ends are as far as one can be */
    return -1;
}
