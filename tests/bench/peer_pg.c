/*
 * peer_pg.c: PostgreSQL: one prepared INSERT in its own transaction per append; and a job in a
 * table as a queue: INSERT, an UPDATE of what a SELECT … FOR UPDATE SKIP LOCKED found, DELETE.
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

/* What is asked of a queue, in order; each is a transaction. */
static const struct {
    const char *name, *sql;
} job_steps[] = {
    {"put", "INSERT INTO jobs(queue, payload) VALUES($1::bigint, $2) RETURNING id"},
    {"take", "UPDATE jobs SET is_taken = true WHERE id = (SELECT id FROM jobs WHERE"
             " queue = $1::bigint AND NOT is_taken ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
             " RETURNING id, payload"},
    {"delete", "DELETE FROM jobs WHERE id = $1::bigint RETURNING id"},
};

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
           PQexec(c->pg, "CREATE TABLE IF NOT EXISTS jobs(id bigserial PRIMARY KEY,"
                         " queue bigint NOT NULL, is_taken bool NOT NULL DEFAULT false,"
                         " payload text NOT NULL)"),
           PGRES_COMMAND_OK);
    expect(c,
           PQexec(c->pg, "CREATE INDEX IF NOT EXISTS jobs_new ON jobs (queue, id)"
                         " WHERE NOT is_taken"),
           PGRES_COMMAND_OK);
    expect(c,
           PQprepare(c->pg, "append", "INSERT INTO events(conversation, payload) VALUES($1, $2)", 2,
                     NULL),
           PGRES_COMMAND_OK);
    for (size_t i = 0; i < ARRAY_LEN(job_steps); i++)
        expect(c, PQprepare(c->pg, job_steps[i].name, job_steps[i].sql, 0, NULL), PGRES_COMMAND_OK);
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

static void send_step(struct conn *c)
{
    const char *values[] = {c->step == 2 ? c->entry : c->request.data, c->target->payload.p};
    if (!PQsendQueryPrepared(c->pg, job_steps[c->step].name, c->step == 0 ? 2 : 1, values, NULL,
                             NULL, 0) ||
        !PQpipelineSync(c->pg))
        die("PostgreSQL: %s", PQerrorMessage(c->pg));
}

static void cycle_submit(struct conn *c)
{
    c->step = 0;
    send_step(c);
}

/* Each step answers one row, which is the job. */
static void read_row(struct conn *c, const PGresult *result)
{
    if (PQntuples(result) == 1) {
        snprintf(c->entry, sizeof c->entry, "%s", PQgetvalue(result, 0, 0));
        return;
    }
    fprintf(stderr, "load: PostgreSQL: %s: %s\n", job_steps[c->step].name,
            PQresultErrorMessage(result));
    c->failed = true;
}

static enum reply cycle_next(struct conn *c)
{
    while (c->done < c->sent && !PQisBusy(c->pg)) {
        PGresult *result = PQgetResult(c->pg);
        bool is_sync = result && PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (result && !is_sync)
            read_row(c, result);
        PQclear(result);
        if (is_sync && c->failed)
            return REPLY_BAD;
        if (is_sync && ++c->step == ARRAY_LEN(job_steps))
            return REPLY_OK;
        if (is_sync) {
            send_step(c);
            return REPLY_NONE;
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

const struct peer peer_pg_cycle = {
    .name = "pg-cycle",
    .open = pg_open,
    .begin = pg_begin,
    .submit = cycle_submit,
    .flush = pg_flush,
    .receive = pg_receive,
    .next = cycle_next,
    .close = pg_close,
    .one_in_flight = true,
};
