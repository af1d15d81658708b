/*
 * peer_pg.c: PostgreSQL, one prepared INSERT in its own transaction per append.
 *
 * libpq's pipeline mode with a Sync after each INSERT sends the very messages of an ordinary
 * autocommit call, and lets the depth of pipelining be an option here as it is for the others. The
 * row has what any log would need and nothing of what reeve does on top of it (a gapless number
 * per conversation, turns, deduplication): the comparison errs in PostgreSQL's favour.
 */
#include "peer.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <unistd.h>

static void expect(struct conn *c, PGresult *result, ExecStatusType status)
{
    if (PQresultStatus(result) != status)
        die("PostgreSQL: %s", PQerrorMessage(c->pg));
    PQclear(result);
}

static void pg_open(struct conn *c, const struct in_addr *source)
{
    (void)source;
    static const char *const keys[] = {"host",    "port",       "user",    "password", "dbname",
                                       "sslmode", "gssencmode", "options", NULL};
    const char *values[] = {c->target->host,
                            c->target->port,
                            "bench",
                            c->target->secret,
                            "postgres",
                            "disable",
                            "disable",
                            "-c synchronous_commit=on -c client_min_messages=warning",
                            NULL};
    c->pg = PQconnectdbParams(keys, values, 0);
    if (PQstatus(c->pg) != CONNECTION_OK)
        die("PostgreSQL: %s", PQerrorMessage(c->pg));
    expect(c,
           PQexec(c->pg, "CREATE TABLE IF NOT EXISTS events(id bigserial PRIMARY KEY,"
                         " conversation bigint NOT NULL, payload text NOT NULL)"),
           PGRES_COMMAND_OK);
    expect(c,
           PQprepare(c->pg, "append", "INSERT INTO events(conversation, payload) VALUES($1, $2)", 2,
                     NULL),
           PGRES_COMMAND_OK);
    /* The socket stays libpq's; ours is a copy to watch, so that both can be closed. */
    c->fd = dup(PQsocket(c->pg));
    if (c->fd < 0)
        die("dup failed");
}

static void pg_begin(struct conn *c, const struct conn *shared)
{
    if (shared)
        c->stream = shared->stream;
    buf_add_int(&c->request, c->stream);
    if (PQsetnonblocking(c->pg, 1) < 0 || !PQenterPipelineMode(c->pg))
        die("PostgreSQL: %s", PQerrorMessage(c->pg));
}

static void pg_submit(struct conn *c)
{
    const char *values[] = {c->request.data, c->target->payload.p};
    if (!PQsendQueryPrepared(c->pg, "append", 2, values, NULL, NULL, 0) || !PQpipelineSync(c->pg))
        die("PostgreSQL: %s", PQerrorMessage(c->pg));
}

static bool pg_flush(struct conn *c)
{
    int rest = PQflush(c->pg);
    if (rest < 0)
        die("PostgreSQL: %s", PQerrorMessage(c->pg));
    return rest > 0;
}

static void pg_receive(struct conn *c)
{
    if (!PQconsumeInput(c->pg))
        die("PostgreSQL: %s", PQerrorMessage(c->pg));
}

/* An append is answered by its result, a NULL, and the Sync's result, which means committed. */
static enum reply pg_next(struct conn *c)
{
    while (c->done < c->sent && !PQisBusy(c->pg)) {
        PGresult *result = PQgetResult(c->pg);
        ExecStatusType status = result ? PQresultStatus(result) : PGRES_COMMAND_OK;
        if (status != PGRES_COMMAND_OK && status != PGRES_PIPELINE_SYNC) {
            fprintf(stderr, "load: PostgreSQL: %s", PQresultErrorMessage(result));
            c->failed = true;
        }
        PQclear(result);
        if (status == PGRES_PIPELINE_SYNC) {
            enum reply reply = c->failed ? REPLY_BAD : REPLY_OK;
            c->failed = false;
            return reply;
        }
    }
    return REPLY_NONE;
}

static void pg_close(struct conn *c)
{
    PQfinish(c->pg);
    c->pg = NULL;
    conn_release(c);
}

const struct peer peer_pg = {
    .name = "pg",
    .open = pg_open,
    .begin = pg_begin,
    .submit = pg_submit,
    .flush = pg_flush,
    .receive = pg_receive,
    .next = pg_next,
    .close = pg_close,
};
