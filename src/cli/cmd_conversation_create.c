/*
 * cmd_conversation_create.c: `reeve conversation create`.
 *
 * Prints the number alone, so that a script can say N=$(reeve conversation create …).
 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cli/connect.h"
#include "cli/input.h"
#include "cli/print.h"
#include "cli/verbs.h"

/* ROLE[:KIND[@MACHINE]] */
static int write_agent(struct json_out *w, const char *spec, struct err *err)
{
    const char *colon = strchr(spec, ':');
    const char *at = colon ? strchr(colon, '@') : NULL;
    struct str role = {spec, colon ? (size_t)(colon - spec) : strlen(spec)};
    struct str kind = STR_NONE;
    if (colon)
        kind = (struct str){colon + 1, at ? (size_t)(at - colon - 1) : strlen(colon + 1)};
    if (role.n == 0 || (colon && kind.n == 0) || (at && at[1] == '\0') || memchr(spec, '@', role.n))
        return err_set(err, ERR_USAGE, "--agent takes ROLE[:KIND[@MACHINE]], not '%s'", spec);
    json_object(w, NULL);
    json_string(w, "role", role);
    if (colon)
        json_string(w, "kind", kind);
    if (at)
        json_stringz(w, "machine", at + 1);
    json_end(w);
    return 0;
}

static int write_agents(struct json_out *w, const struct cli_args *args, struct err *err)
{
    size_t cursor = 0;
    const char *spec;
    json_array(w, "agents");
    while ((spec = cli_next(args, "agent", &cursor)) != NULL) {
        int r = write_agent(w, spec, err);
        if (r < 0)
            return r;
    }
    json_end(w);
    return 0;
}

static int write_params(struct json_out *w, const struct cli_args *args, struct arena *a,
                        struct err *err)
{
    const char *title = cli_value(args, "title"), *first = cli_value(args, "starting-role");
    const char *metadata = cli_value(args, "metadata"), *key = cli_value(args, "key");
    const struct json *metadata_json = NULL;
    int64_t max_turns = 0;
    int limited = cli_int(args, "max-turns", 0, &max_turns, err);
    if (limited < 0)
        return limited;
    int r = metadata ? input_json(a, str_of(metadata), "--metadata", &metadata_json, err) : 0;
    if (r < 0)
        return r;
    json_object(w, NULL);
    if (title)
        json_stringz(w, "title", title);
    r = write_agents(w, args, err);
    if (r < 0)
        return r;
    if (first)
        json_stringz(w, "startingRole", first);
    if (limited)
        json_int(w, "maxTurns", max_turns);
    if (metadata_json)
        json_value(w, "metadata", metadata_json);
    if (key)
        json_stringz(w, "idempotencyKey", key);
    json_end(w);
    return 0;
}

/* On standard error: the number alone is for scripts. */
static void warn(const struct cli_args *args, const struct json *result)
{
    const struct json *list = json_get(result, "warnings");
    if (!list || list->type != JSON_ARRAY)
        return;
    JSON_FOREACH (text, list) {
        _cleanup_buf_ struct buf line = BUF_INIT(PRINT_BYTES_MAX);
        if (text->type == JSON_STRING)
            print_clean(&line, text->string, PRINT_TEXT_CHARS_MAX);
        fprintf(stderr, "reeve %s: warning: %.*s\n", args->verb->name, (int)line.len, line.data);
    }
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *result;
    int r = write_params(&w, args, &a, err);
    if (r == 0)
        r = cli_call(args, "conversation.create", &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    warn(args, result);
    buf_addf(&out, "%lld\n", (long long)json_get_int(result, "conversation", -1));
    return print_flush(&out, err);
}

// clang-format off
static const struct verb_option options[] = {
    {"title", 0, "TEXT", 0, "what it is about"},
    {"agent", 0, "ROLE[:KIND[@MACHINE]]", ARG_REPEAT, "who takes part, in the order of their turns"},
    {"starting-role", 0, "ROLE", 0, "who begins (default: the first)"},
    {"max-turns", 0, "N", 0, "close it after so many turns (default 40; 0: no limit)"},
    {"metadata", 0, "JSON", 0, "an object to keep with it"},
    {"key", 0, "KEY", 0, "idempotency key: the same key twice makes one conversation"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_conversation_create = {
    .name = "conversation create",
    .synopsis = "",
    .summary = "begin a conversation and print its number",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
