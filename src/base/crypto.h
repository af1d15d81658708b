/*
 * crypto.h: digests and encodings (OpenSSL's libcrypto stays behind this file).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum { SHA256_BYTES = 32, SHA1_BYTES = 20 };

void crypto_sha256(struct str data, uint8_t ret[SHA256_BYTES]);
void crypto_sha1(struct str data, uint8_t ret[SHA1_BYTES]); /* RFC 6455 handshake only */
void base64_write(struct buf *out, const void *data, size_t n);
/* Strict RFC 4648 with padding, no white space; appends to `out`. */
bool base64_read(struct buf *out, struct str text);
void hex_write(struct buf *out, const void *data, size_t n);
