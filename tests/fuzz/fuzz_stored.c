/*
 * fuzz_stored.c: any bytes in the columns of a store that was good (P17).
 *
 * An input is up to four damages: a table's column, a row, a type and the bytes to put there, past
 * every CHECK, as a bad disk or a clumsy hand would. Then the server starts. It may refuse to, and
 * must say why. If it starts, everything is read, a pass of every rule is made and the time moves
 * on. Nothing crashes; and if only rows of conversation 1 were damaged, conversation 2 is served as
 * if nothing had happened: it can be read and written, and the ladder takes its task back in time.
 */
#include <sqlite3.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "fuzz_world.h"
#include "store/sqlite_store.h"
#include "tap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DAMAGES_MAX = 4, COLUMNS_MAX = 400, TEXT_MAX = 64, NAME_BYTES = 64 };

struct column {
    char table[NAME_BYTES], name[NAME_BYTES], key[2 * NAME_BYTES];
    bool has_conversation; /* the table says whose a row is */
    bool is_private;       /* no other conversation's business, in a row of this one */
};

static struct column columns[COLUMNS_MAX];
static size_t column_count;

/* ---- what there is to damage ---- */

static sqlite3_stmt *prepare(struct world *w, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(w->store->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        tap_fail(__FILE__, __LINE__, "%s: %s", sql, sqlite3_errmsg(w->store->db));
    return stmt;
}

/* In the order of names: an input means the same as long as the schema does. */
static void list_columns(struct world *w)
{
    sqlite3_stmt *stmt = prepare(
        w, "SELECT t.name, c.name, c.pk, COALESCE((SELECT group_concat(k.name, ', ') FROM"
           " pragma_table_info(t.name) k WHERE k.pk > 0), 'rowid'), EXISTS (SELECT 1 FROM"
           " pragma_table_info(t.name) k WHERE k.name = 'conversation') FROM sqlite_schema t,"
           " pragma_table_info(t.name) c WHERE t.type = 'table' ORDER BY t.name, c.cid");
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        CHECK(column_count < COLUMNS_MAX);
        struct column *c = &columns[column_count++];
        snprintf(c->table, sizeof c->table, "%s", sqlite3_column_text(stmt, 0));
        snprintf(c->name, sizeof c->name, "%s", sqlite3_column_text(stmt, 1));
        snprintf(c->key, sizeof c->key, "%s", sqlite3_column_text(stmt, 3));
        c->has_conversation = sqlite3_column_int(stmt, 4);
        c->is_private = c->has_conversation && sqlite3_column_int(stmt, 2) == 0 &&
                        strcmp(c->name, "conversation") != 0 && strcmp(c->name, "seq") != 0 &&
                        strcmp(c->table, "tokens") != 0;
    }
    sqlite3_finalize(stmt);
}

/* ---- damage ---- */

struct damage {
    const struct column *column;
    uint8_t row, type;
    struct str bytes;
};

/* Five bytes and as many more as the fifth says; false: the input is used up. */
static bool next_damage(struct str *in, struct damage *ret)
{
    if (in->n < 5)
        return false;
    const unsigned char *p = (const unsigned char *)in->p;
    size_t n = MIN((size_t)p[4] % (TEXT_MAX + 1), in->n - 5);
    *ret = (struct damage){.column = &columns[(p[0] | p[1] << 8) % column_count],
                           .row = p[2],
                           .type = p[3],
                           .bytes = {in->p + 5, n}};
    *in = str_skip(*in, 5 + n);
    return true;
}

static int64_t number_of(struct str bytes)
{
    int64_t number = 0;
    memcpy(&number, bytes.p, MIN(bytes.n, sizeof number));
    return number;
}

static void bind(sqlite3_stmt *stmt, const struct damage *d)
{
    switch (d->type % 4) {
    case 0:
        sqlite3_bind_text(stmt, 1, d->bytes.p, (int)d->bytes.n, SQLITE_STATIC);
        break;
    case 1:
        sqlite3_bind_int64(stmt, 1, number_of(d->bytes));
        break;
    case 2:
        sqlite3_bind_blob(stmt, 1, d->bytes.p, (int)d->bytes.n, SQLITE_STATIC);
        break;
    default:
        sqlite3_bind_null(stmt, 1);
    }
}

/* Of conversation 1 if the table knows of such; what SQLite itself refuses stays as it was. */
static void inflict(struct world *w, const struct damage *d)
{
    const struct column *c = d->column;
    const char *whose = c->has_conversation ? "WHERE conversation = 1" : "";
    _cleanup_free_ char *sql =
        mem_printf("UPDATE %s SET %s = ?1 WHERE (%s) = (SELECT %s FROM %s %s LIMIT 1 OFFSET ?2 %% "
                   "max(1, (SELECT count(*) FROM %s %s)))",
                   c->table, c->name, c->key, c->key, c->table, whose, c->table, whose);
    sqlite3_stmt *stmt = prepare(w, sql);
    bind(stmt, d);
    sqlite3_bind_int(stmt, 2, d->row);
    sqlite3_step(stmt);
    sqlite3_finalize(stmt);
}

/* True if all of it is conversation 1's own. */
static bool inflict_all(struct world *w, struct str in)
{
    struct damage d;
    bool is_private = true;
    CHECK(sqlite_exec(w->store->db, "PRAGMA ignore_check_constraints = ON") == SQLITE_OK);
    for (int i = 0; i < DAMAGES_MAX && next_damage(&in, &d); i++) {
        inflict(w, &d);
        is_private &= d.column->is_private;
    }
    CHECK(sqlite_exec(w->store->db, "PRAGMA ignore_check_constraints = OFF") == SQLITE_OK);
    return is_private;
}

/* ---- life after it ---- */

static const char *const questions[] = {
    CALL("conversation.get", "{'conversation':1}"),
    CALL("conversation.list", "{}"),
    CALL("conversation.why", "{'conversation':1}"),
    CALL("event.list", "{'conversation':1}"),
    CALL("event.list", "{'conversation':0}"),
    CALL("event.subscribe", "{'afterId':0,'includeGuidance':true}"),
    CALL("attachment.get", "{'id':1}"),
    CALL("participant.list", "{}"),
    CALL("participant.list", "{'conversation':1}"),
    CALL("task.list", "{'conversation':1}"),
    CALL("task.list", "{}"),
    CALL("task.get", "{'task':2}"),
    CALL("task.resume", "{'task':2,'epoch':2}"),
    CALL("tool.report", "{'task':2,'toolCallId':'t2','status':'success'}"),
    CALL("task.applied", "{'task':2,'epoch':2,'toolCallIds':['t1','t2']}"),
    CALL("task.complete", "{'task':2,'epoch':3}"),
    CALL("task.cancel", "{'task':3,'reason':'x'}"),
    CALL("card.list", "{'conversation':1}"),
    CALL("card.get", "{'card':1}"),
    CALL("agent.list", "{}"),
    CALL("agent.list", "{'conversation':1}"),
    CALL("agent.why", "{'conversation':1,'role':'a'}"),
    CALL("agent.why", "{'conversation':1,'role':'b'}"),
    CALL("machine.list", "{}"),
    CALL("command.list", "{}"),
    CALL("machine.poll", "{'machine':'m','instance':'i','timeoutMs':0,'alive':[]}"),
    CALL("lifecycle.getEnsured", "{'conversation':1}"),
    CALL("watchdog.rules", "{}"),
    CALL("watchdog.runOnce", "{}"),
    CALL("token.list", "{}"),
    CALL("message.send", "{'conversation':1,'agentId':'a','text':'x','clientRequestId':'r1'}"),
    CALL("message.send", "{'conversation':1,'agentId':'a','text':'x'}"),
    CALL("task.create", "{'conversation':1,'role':'a','content':{'do':1},'idempotencyKey':'k'}"),
    CALL("participant.join", "{'conversation':1,'role':'a','connectionId':'c'}"),
    CALL("agent.restart", "{'conversation':1,'role':'b'}"),
    CALL("conversation.resume", "{'conversation':4}"),
};

static void put_question(struct world *w, const char *text)
{
    ask(w, "%s", text);
    tick(w);
    fuzz_settle(w);
}

static void must(struct world *w, const char *text)
{
    ask(w, "%s", text);
    tick(w);
    struct reply r = take(w);
    if (!json_get(r.json, "result"))
        tap_fail(__FILE__, __LINE__, "%s: %.*s", text, STR_ARG(buf_str(&r.message->data)));
    done(&r);
    fuzz_settle(w);
}

/* Conversation 2 was not touched. */
static void check_bystander(struct world *w)
{
    must(w, CALL("conversation.get", "{'conversation':2}"));
    must(w, CALL("event.list", "{'conversation':2}"));
    must(w, CALL("message.send", "{'conversation':2,'agentId':'a','text':'x'}"));
    must(w, CALL("task.create", "{'conversation':2,'role':'a','content':1}"));
    must(w, CALL("agent.why", "{'conversation':2,'role':'a'}"));
}

static void check_ladder_served(struct world *w)
{
    int64_t epoch = store_int(w, "SELECT epoch FROM tasks WHERE task = 5");
    if (epoch != 2)
        tap_fail(__FILE__, __LINE__, "the bystander's task has epoch %lld, not 2",
                 (long long)epoch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct world *w = fuzz_world_new(fuzz_populate, NULL);
    if (column_count == 0)
        list_columns(w);
    bool is_private = inflict_all(w, (struct str){(const char *)data, size});
    if (world_try_restart(w, &err) < 0) {
        REQUIRE(err.code != 0 && err.message[0]);
        if (is_private)
            tap_fail(__FILE__, __LINE__, "one bad row, and no start: %s", err.message);
        fuzz_world_free(w);
        return 0;
    }
    fuzz_settle(w);
    if (is_private)
        check_bystander(w);
    for (size_t i = 0; i < ARRAY_LEN(questions); i++)
        put_question(w, questions[i]);
    put_question(w, CALL("clock.advance", "{'ms':70000}"));
    if (is_private) {
        check_bystander(w);
        check_ladder_served(w);
    }
    fuzz_world_free(w);
    return 0;
}
