/*
 * auth.h: tokens, as the net thread checks them.
 *
 * The store's tokens are the core's; the net thread needs an answer for every request and must not
 * wait for the core. So it has a table of its own, which the core replaces whenever tokens change.
 * A revoked token stops working when the revocation is committed, before its answer goes out.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "domain/token.h"
#include "store/store.h"

struct auth;

struct auth *auth_new(struct str operator_token);
struct auth *auth_free(struct auth *a); /* NULL */
/* Core thread: reads all tokens and replaces the table. */
void auth_reload(struct auth *a, struct store *store);
/* Any thread. A connection that stays keeps the digest and asks again for each message. */
bool auth_check(struct auth *a, const uint8_t hash[SHA256_BYTES], struct grant *ret);
