/*
 * tls.h: TLS for a non-blocking socket (OpenSSL's libssl stays behind tls.c).
 *
 * tls_read() and tls_write() answer as read(2) and write(2) do: bytes, 0 at the end, or -1 with
 * errno EAGAIN (then tls_wants_write() says what to wait for) or EIO.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct tls;
struct tls_session;

int tls_new(const char *cert_path, const char *key_path, struct tls **ret, struct err *err);
struct tls *tls_free(struct tls *t); /* NULL */

struct tls_session *tls_accept(struct tls *t, int fd);
struct tls_session *tls_session_free(struct tls_session *s); /* NULL */
/* 1 when done, 0 to be called again when the socket is ready, -1 failed. */
int tls_handshake(struct tls_session *s);
ssize_t tls_read(struct tls_session *s, void *to, size_t n);
ssize_t tls_write(struct tls_session *s, const void *from, size_t n);
bool tls_wants_write(const struct tls_session *s); /* the last call waits for that */
bool tls_has_pending(const struct tls_session *s); /* bytes decrypted but not yet read */
void tls_shut(struct tls_session *s);              /* close_notify */
