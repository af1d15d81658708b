/*
 * token.h: who may call, and what.
 *
 * A token is 32 random bytes in hexadecimal, shown once, stored as its SHA-256. It grants a scope:
 * operator (everything), machine, agent (one conversation, one role), read. The operator's token of
 * the data folder is not in the store; it is a file (server/folder.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/crypto.h"
#include "base/err.h"
#include "base/json.h"
#include "domain/event.h"

struct work;

#define SCOPE_LIST(X) \
    X(OPERATOR, "operator") X(MACHINE, "machine") X(AGENT, "agent") X(READ, "read")

enum scope {
#define X(name, text) SCOPE_##name,
    SCOPE_LIST(X)
#undef X
        SCOPE_COUNT
};

/* What a caller has proven to be. */
struct grant {
    enum scope scope;
    int64_t conversation; /* bound to this one; 0: to none */
    char role[AGENT_ID_BYTES_MAX + 1];
    char machine[AGENT_ID_BYTES_MAX + 1];
    char spawn_id[33];  /* bound to this process of the agent; empty: to none */
    int64_t expires_ms; /* 0: never */
    char subject[32];   /* "operator", "token:17": whose idempotency keys */
};

enum { TOKEN_HEX_BYTES = 64 };

const char *scope_name(enum scope scope);
bool scope_parse(struct str s, enum scope *ret);

/* May this caller know of the conversation? What it may not see looks like NOT_FOUND. */
bool grant_sees(const struct grant *g, int64_t conversation);

/* g: scope, conversation, role, machine, expires_ms. ret_secret: hex digits and a NUL. */
int token_create(struct work *w, const struct grant *g, int64_t *ret_token,
                 char ret_secret[TOKEN_HEX_BYTES + 1], struct err *err);
int token_revoke(struct work *w, int64_t token, struct err *err);
int token_list(struct work *w, struct json_out *out, const char *key, struct err *err);

typedef void token_fn(void *ctx, const uint8_t hash[SHA256_BYTES], const struct grant *g);
/* Every token that is not revoked. */
int token_each(struct store *store, token_fn *fn, void *ctx, struct err *err);
