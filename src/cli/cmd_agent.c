/*
 * cmd_agent.c: `reeve agent start`, `stop`, `restart` and `set`: what a person wants of an agent.
 *
 * A wish is kept by the server; whether a command went out to a machine, and which, is in the
 * answer. `reeve agent list` and `reeve ps` are in cmd_ps.c.
 */
#include "base/macro.h"
#include "base/mem.h"
#include "cli/agent_name.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/verbs.h"

static void add_option(struct json_out *w, const struct cli_args *args, const char *option,
                       const char *param)
{
    const char *value = cli_value(args, option);
    if (value)
        json_stringz(w, param, value);
}

static void add_force(struct json_out *w, const struct cli_args *args)
{
    if (cli_flag(args, "force"))
        json_bool(w, "force", true);
}

/* "12:builder should run: command 7", or why there is none. */
static void write_wish(struct buf *out, const char *agent, const struct json *result)
{
    struct str reason = json_get_text(result, "reason");
    int64_t command = json_get_int(result, "command", 0);
    print_clean(out, str_of(agent), PRINT_TEXT_CHARS_MAX);
    buf_addz(out, " desired ");
    print_clean(out, json_get_text(result, "desired"), PRINT_TEXT_CHARS_MAX);
    if (command)
        buf_addf(out, ", command %lld", (long long)command);
    else
        buf_addz(out, ", no command");
    if (json_get_bool(result, "deduplicated"))
        buf_addz(out, ", already under way");
    if (reason.n) {
        buf_addz(out, " (");
        print_clean(out, reason, PRINT_TEXT_CHARS_MAX);
        buf_addc(out, ')');
    }
    buf_addc(out, '\n');
}

/* "agent start" is the method agent.start. */
static int run_wish(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    _cleanup_free_ char *method = mem_strdup(args->verb->name);
    struct json_out w = JSON_OUT(&params);
    const struct json *result;
    struct agent_name name;
    int r = agent_name_parse(args->words[0], &name, err);
    if (r < 0)
        return r;
    *strchr(method, ' ') = '.';
    agent_name_write(&name, &w);
    add_option(&w, args, "reason", "reason");
    add_force(&w, args);
    add_option(&w, args, "key", "idempotencyKey");
    json_end(&w);
    r = cli_call(args, method, &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    write_wish(&out, args->words[0], result);
    return print_flush(&out, err);
}

static int check_set(const struct cli_args *args, struct err *err)
{
    if (cli_flag(args, "unmanaged") && cli_value(args, "kind"))
        return err_set(err, ERR_USAGE, "--kind and --unmanaged say two things; give one of them");
    if (cli_flag(args, "any-machine") && cli_value(args, "machine"))
        return err_set(err, ERR_USAGE,
                       "--machine and --any-machine say two things; give one of them");
    return 0;
}

static int run_set(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *result;
    struct agent_name name;
    bool is_removed = cli_flag(args, "remove");
    int r = agent_name_parse(args->words[0], &name, err);
    if (r == 0)
        r = check_set(args, err);
    if (r < 0)
        return r;
    agent_name_write(&name, &w);
    add_option(&w, args, "kind", "kind");
    add_option(&w, args, "machine", "machine");
    if (cli_flag(args, "unmanaged"))
        json_null(&w, "kind");
    if (cli_flag(args, "any-machine"))
        json_null(&w, "machine");
    if (is_removed)
        json_bool(&w, "removed", true);
    add_force(&w, args);
    add_option(&w, args, "key", "idempotencyKey");
    json_end(&w);
    r = cli_call(args, "agent.set", &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    print_clean(&out, str_of(args->words[0]), PRINT_TEXT_CHARS_MAX);
    buf_addz(&out, is_removed ? " removed\n" : " set\n");
    return print_flush(&out, err);
}

// clang-format off
#define KEY_OPTION {"key", 0, "KEY", 0, "idempotency key, for a safe repeat"}

#define FORCE_OPTION {"force", 0, NULL, 0, "do not wait for its machine, which is offline and may come back"}

static const struct verb_option wish_options[] = {
    {"reason", 0, "TEXT", 0, "why, for the log"},
    FORCE_OPTION,
    KEY_OPTION,
    OPTIONS_END,
};

static const struct verb_option set_options[] = {
    {"kind", 0, "NAME", 0, "what a machine is to run for it"},
    {"unmanaged", 0, NULL, 0, "nobody runs anything for it"},
    {"machine", 0, "NAME", 0, "on this machine only"},
    {"any-machine", 0, NULL, 0, "on the least loaded machine that offers its kind"},
    {"remove", 0, NULL, 0, "the role is no longer of the conversation; its open tasks are canceled"},
    FORCE_OPTION,
    KEY_OPTION,
    OPTIONS_END,
};

enum { AGENT_FLAGS = VERB_CLIENT | VERB_JSON };

const struct verb verb_agent_start = {
    "agent start", "AGENT", "let an agent run; closes its breaker",
    "AGENT is CONVERSATION:ROLE, like 12:builder.",
    AGENT_FLAGS, wish_options, run_wish};
const struct verb verb_agent_stop = {
    "agent stop", "AGENT", "stop an agent, and keep it stopped", NULL,
    AGENT_FLAGS, wish_options, run_wish};
const struct verb verb_agent_restart = {
    "agent restart", "AGENT", "stop an agent and start it again", NULL,
    AGENT_FLAGS, wish_options, run_wish};
const struct verb verb_agent_set = {
    "agent set", "AGENT", "add, change or remove a role of a conversation", NULL,
    AGENT_FLAGS, set_options, run_set};
// clang-format on
