/*
 * cmd_conversation_show.c: `reeve conversation show`: where a conversation stands, and its last
 * events.
 */
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/verbs.h"

enum { LAST_EVENTS = 5 };

static void add_line(struct buf *out, const char *name, struct str value)
{
    if (!value.n)
        return;
    buf_addf(out, "%-9s ", name);
    print_clean(out, value, PRINT_TEXT_CHARS_MAX);
    buf_addc(out, '\n');
}

static void add_status(struct buf *out, const struct json *c)
{
    struct str outcome = json_get_text(c, "outcome"), reason = json_get_text(c, "stop_reason_code");
    add_line(out, "status", json_get_text(c, "status"));
    add_line(out, "outcome", outcome);
    add_line(out, "reason", reason);
}

static void add_head(struct buf *out, const struct json *head, int64_t max_turns)
{
    struct str owner = json_get_text(head, "turnOwner");
    buf_addf(out, "%-9s %lld", "turn", (long long)json_get_int(head, "lastTurn", 0));
    if (max_turns > 0)
        buf_addf(out, " of at most %lld", (long long)max_turns);
    buf_addz(out, json_get_bool(head, "hasOpenTurn") ? ", open" : ", closed");
    if (owner.n) {
        buf_addz(out, ", held by ");
        print_clean(out, owner, PRINT_TEXT_CHARS_MAX);
    }
    buf_addf(out, " (last closed seq %lld)\n", (long long)json_get_int(head, "lastClosedSeq", 0));
}

static void add_agent(struct buf *out, const struct json *agent)
{
    struct str kind = json_get_text(agent, "kind"), machine = json_get_text(agent, "machine");
    print_clean(out, json_get_text(agent, "role"), PRINT_TEXT_CHARS_MAX);
    if (kind.n)
        buf_addc(out, ':');
    print_clean(out, kind, PRINT_TEXT_CHARS_MAX);
    if (machine.n)
        buf_addc(out, '@');
    print_clean(out, machine, PRINT_TEXT_CHARS_MAX);
}

static void add_agents(struct buf *out, const struct json *agents)
{
    if (!agents || agents->type != JSON_ARRAY || agents->count == 0)
        return;
    buf_addf(out, "%-9s", "agents");
    JSON_FOREACH (agent, agents) {
        buf_addc(out, ' ');
        add_agent(out, agent);
    }
    buf_addc(out, '\n');
}

static void write_summary(struct buf *out, const struct json *c)
{
    buf_addf(out, "%-9s %lld\n", "number", (long long)json_get_int(c, "conversation", -1));
    add_line(out, "title", json_get_text(c, "title"));
    add_status(out, c);
    add_head(out, json_get(c, "head"), json_get_int(c, "maxTurns", 0));
    add_agents(out, json_get(c, "agents"));
    add_line(out, "created", json_get_text(c, "createdAt"));
    add_line(out, "updated", json_get_text(c, "updatedAt"));
}

static int add_last_events(struct client *client, struct buf *out, int64_t conversation,
                           const struct json *head, struct arena *a, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *result, *events;
    int64_t last_seq = json_get_int(head, "lastSeq", 0);
    buf_addf(&params, "{\"conversation\":%lld,\"afterSeq\":%lld,\"limit\":%d}",
             (long long)conversation, (long long)MAX(last_seq - LAST_EVENTS, (int64_t)0),
             LAST_EVENTS);
    int r = client_call(client, "event.list", buf_str(&params), a, &result, err);
    if (r < 0)
        return r;
    events = json_get(result, "events");
    buf_addc(out, '\n');
    if (events && events->type == JSON_ARRAY)
        JSON_FOREACH (event, events)
            print_event(out, event);
    return 0;
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_(cli_disconnect) struct client *client = NULL;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    const struct json *result;
    int64_t conversation;
    int r = cli_conversation(args->words[0], &conversation, err);
    if (r == 0)
        r = cli_connect(args, &client, err);
    if (r < 0)
        return r;
    buf_addf(&params, "{\"conversation\":%lld}", (long long)conversation);
    r = client_call(client, "conversation.get", buf_str(&params), &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    write_summary(&out, result);
    r = add_last_events(client, &out, conversation, json_get(result, "head"), &a, err);
    return r < 0 ? r : print_flush(&out, err);
}

const struct verb verb_conversation_show = {
    .name = "conversation show",
    .synopsis = "CONVERSATION",
    .summary = "show where a conversation stands, and its last events",
    .flags = VERB_CLIENT | VERB_JSON,
    .run = run,
};
