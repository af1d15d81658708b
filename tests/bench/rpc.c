/*
 * rpc.c: see rpc.h.
 *
 * Replies are not parsed as JSON: that would be the dearest thing the load generator does, and it
 * shares its cores with the server it measures. The id is a string that occurs nowhere else in a
 * reply, and neither key looked for can occur inside a value: nothing of the payload comes back.
 */
#include "rpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rpc_write_create(struct buf *out)
{
    buf_addz(out, "{\"jsonrpc\":\"2.0\",\"id\":\"create\",\"method\":\"conversation.create\","
                  "\"params\":{\"agents\":[{\"role\":\"a\"}],\"maxTurns\":1000000000}}");
}

static const char *find(struct str text, struct str what)
{
    return memmem(text.p, text.n, what.p, what.n);
}

int64_t rpc_read_create(struct str body)
{
    struct str key = STR("\"conversation\":");
    const char *at = find(body, key);
    if (!at || !find(body, STR("\"result\":")))
        die("conversation.create: %.*s", STR_ARG(body));
    return strtoll(at + key.n, NULL, 10);
}

void rpc_write_send(struct buf *out, const struct conn *c, size_t ret_at[2])
{
    buf_addz(out, "{\"jsonrpc\":\"2.0\",\"id\":\"");
    ret_at[0] = out->len;
    buf_addz(out, "000000000000\",\"method\":\"message.send\",\"params\":{\"conversation\":");
    buf_add_int(out, c->stream);
    buf_addz(out, ",\"agentId\":\"a\",\"text\":\"");
    buf_add_str(out, c->target->payload);
    buf_addf(out, "\",\"clientRequestId\":\"%u-", c->index);
    ret_at[1] = out->len;
    buf_addz(out, "000000000000\"}}");
}

enum reply rpc_check_send(const struct conn *c, struct str body)
{
    char id[] = "\"id\":\"000000000000\"";
    conn_format_number(c->done, id + strlen("\"id\":\""));
    if (find(body, str_of(id)) && find(body, STR("\"result\":{")) && !find(body, STR("\"error\":")))
        return REPLY_OK;
    fprintf(stderr, "load: not the success of %s: %.*s\n", id, STR_ARG(body));
    return REPLY_BAD;
}

static void write_member(struct buf *out, const struct conn *c)
{
    buf_addf(out, "{\"conversation\":%lld,\"role\":\"a\",\"connectionId\":\"bench-%u\"",
             (long long)c->stream, c->index);
}

void rpc_write_join(struct buf *out, const struct conn *c)
{
    buf_addz(out,
             "{\"jsonrpc\":\"2.0\",\"id\":\"join\",\"method\":\"participant.join\",\"params\":");
    write_member(out, c);
    buf_addz(out, "}}");
}

void rpc_write_beat(struct buf *out, const struct conn *c, size_t ret_at[2])
{
    buf_addz(out, "{\"jsonrpc\":\"2.0\",\"id\":\"");
    ret_at[0] = out->len;
    ret_at[1] = 0;
    buf_addz(out, "000000000000\",\"method\":\"participant.heartbeat\",\"params\":");
    write_member(out, c);
    buf_addz(out, "}}");
}

enum reply rpc_check_beat(const struct conn *c, struct str body)
{
    enum reply reply = rpc_check_send(c, body);
    if (reply == REPLY_OK && !find(body, STR("\"status\":\"ok\""))) {
        fprintf(stderr, "load: no longer joined: %.*s\n", STR_ARG(body));
        return REPLY_BAD;
    }
    return reply;
}

static const char *const cycle_methods[RPC_CYCLE_STEPS] = {"create", "claim", "start", "complete"};

void rpc_write_cycle(struct buf *out, const struct conn *c)
{
    const char *method = cycle_methods[c->step];
    buf_addf(out, "{\"jsonrpc\":\"2.0\",\"id\":\"%s\",\"method\":\"task.%s\",\"params\":", method,
             method);
    if (c->step == 0) {
        buf_addf(out, "{\"conversation\":%lld,\"role\":\"a\",\"content\":\"", (long long)c->stream);
        buf_add_str(out, c->target->payload);
        buf_addz(out, "\"}}");
    } else if (c->step == 1) {
        write_member(out, c);
        buf_addf(out, ",\"task\":%lld}}", (long long)c->task);
    } else {
        buf_addf(out, "{\"task\":%lld,\"epoch\":%lld}}", (long long)c->task, (long long)c->epoch);
    }
}

static int64_t number_after(struct str body, struct str key)
{
    const char *at = find(body, key);
    return at ? strtoll(at + key.n, NULL, 10) : 0;
}

enum reply rpc_read_cycle(struct conn *c, struct str body)
{
    c->task = number_after(body, STR("\"task\":{\"task\":"));
    c->epoch = number_after(body, STR("\"epoch\":"));
    if (c->task && find(body, STR("\"result\":{")))
        return REPLY_OK;
    fprintf(stderr, "load: task.%s: %.*s\n", cycle_methods[c->step], STR_ARG(body));
    return REPLY_BAD;
}
