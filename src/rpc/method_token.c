/* method_token.c: token.create, token.list, token.revoke. */
#include <stdio.h>

#include "base/clock.h"
#include "domain/head.h"
#include "rpc/method.h"

static const char *const scope_choices[] = {"operator", "machine", "agent", "read", NULL};

const struct param params_token_create[] = {
    {.name = "scope",
     .type = PARAM_CHOICE,
     .required = true,
     .choices = scope_choices,
     .doc = "what it may do"},
    {.name = "conversation",
     .type = PARAM_INT,
     .may_be_null = true,
     .min = 1,
     .max = ID_MAX,
     .doc = "for agent (required) and read: this one only"},
    {.name = "role", .type = PARAM_NAME, .may_be_null = true, .doc = "for agent (required)"},
    {.name = "machine", .type = PARAM_NAME, .may_be_null = true, .doc = "for machine (required)"},
    {.name = "ttl",
     .type = PARAM_STRING,
     .may_be_null = true,
     .max = 32,
     .fallback = "for ever",
     .doc = "\"90s\", \"10m\", \"4h\""},
    PARAMS_END, /* no idempotencyKey: its stored answer would hold the secret */
};

const struct param params_token_revoke[] = {
    {.name = "token", .type = PARAM_INT, .required = true, .max = ID_MAX, .doc = "its number"},
    KEY_ROW,
    PARAMS_END,
};

/* Which bindings each scope needs and may have. */
static int check_bindings(const struct grant *g, struct err *err)
{
    bool agent = g->scope == SCOPE_AGENT, machine = g->scope == SCOPE_MACHINE;
    if (agent && !g->conversation)
        return params_refuse(err, "conversation", "is required for scope agent");
    if (agent != (g->role[0] != '\0'))
        return params_refuse(err, "role",
                             agent ? "is required for scope agent" : "is for scope agent");
    if (machine != (g->machine[0] != '\0'))
        return params_refuse(err, "machine",
                             machine ? "is required for scope machine" : "is for scope machine");
    if (g->conversation && !agent && g->scope != SCOPE_READ)
        return params_refuse(err, "conversation", "is for scope agent or read");
    return 0;
}

static int read_grant(struct method_context *c, struct grant *ret, struct err *err)
{
    struct str ttl = params_str(c->params, "ttl");
    int64_t ttl_ms = 0;
    *ret = (struct grant){.conversation = params_int(c->params, "conversation", 0)};
    scope_parse(params_str(c->params, "scope"), &ret->scope);
    snprintf(ret->role, sizeof ret->role, "%.*s",
             STR_ARG(params_name(c->arena, c->params, "role")));
    snprintf(ret->machine, sizeof ret->machine, "%.*s",
             STR_ARG(params_name(c->arena, c->params, "machine")));
    if (ttl.p && (!clock_parse_duration(ttl, &ttl_ms) || ttl_ms <= 0))
        return params_refuse(err, "ttl", "must be a duration such as 90s, 10m or 4h");
    if (ttl.p)
        ret->expires_ms = all_time_until_ms(ALL_TIME_TOKEN, c->work->now_ms, ttl_ms);
    return check_bindings(ret, err);
}

int method_token_create(struct method_context *c, struct json_out *out, struct err *err)
{
    struct grant g;
    struct head *h;
    char secret[TOKEN_HEX_BYTES + 1];
    int64_t number;
    int r = read_grant(c, &g, err);
    if (r == 0 && g.conversation)
        r = head_get(c->work, g.conversation, &h, err);
    if (r == 0)
        r = token_create(c->work, &g, &number, secret, err);
    if (r < 0)
        return r;
    json_int(out, "token", number);
    json_stringz(out, "secret", secret);
    json_stringz(out, "scope", scope_name(g.scope));
    if (g.expires_ms)
        json_time(out, "expiresAt", g.expires_ms);
    return 0;
}

int method_token_list(struct method_context *c, struct json_out *out, struct err *err)
{
    return token_list(c->work, out, "tokens", err);
}

int method_token_revoke(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)out;
    return token_revoke(c->work, params_int(c->params, "token", 0), err);
}
