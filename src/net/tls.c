/* tls.c: see tls.h. TLS 1.2 and up, the library's own choice of ciphers. */
#include "net/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>

#include "base/mem.h"

struct tls {
    SSL_CTX *ctx;
};

struct tls_session {
    SSL *ssl;
    bool wants_write;
};

static int tls_error(struct err *err, const char *what, const char *path)
{
    char detail[160];
    ERR_error_string_n(ERR_peek_last_error(), detail, sizeof detail);
    ERR_clear_error();
    return err_set(err, ERR_CONFIG, "cannot %s %.80s: %s", what, path, detail);
}

int tls_new(const char *cert_path, const char *key_path, struct tls **ret, struct err *err)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    REQUIRE(ctx);
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    int r = 0;
    if (SSL_CTX_use_certificate_chain_file(ctx, cert_path) != 1)
        r = tls_error(err, "use the certificate", cert_path);
    else if (SSL_CTX_use_PrivateKey_file(ctx, key_path, SSL_FILETYPE_PEM) != 1)
        r = tls_error(err, "use the key", key_path);
    else if (SSL_CTX_check_private_key(ctx) != 1)
        r = tls_error(err, "match the key", key_path);
    if (r < 0) {
        SSL_CTX_free(ctx);
        return r;
    }
    *ret = mem_alloc(sizeof **ret);
    (*ret)->ctx = ctx;
    return 0;
}

struct tls *tls_free(struct tls *t)
{
    if (t) {
        SSL_CTX_free(t->ctx);
        free(t);
    }
    return NULL;
}

struct tls_session *tls_accept(struct tls *t, int fd)
{
    struct tls_session *s = mem_zalloc(sizeof *s);
    s->ssl = SSL_new(t->ctx);
    REQUIRE(s->ssl && SSL_set_fd(s->ssl, fd) == 1);
    SSL_set_accept_state(s->ssl);
    return s;
}

struct tls_session *tls_session_free(struct tls_session *s)
{
    if (s) {
        SSL_free(s->ssl);
        free(s);
    }
    return NULL;
}

/* errno for a call of libssl that returned r ≤ 0; 0 at a clean end. */
static int tls_errno(struct tls_session *s, int r)
{
    int why = SSL_get_error(s->ssl, r);
    ERR_clear_error();
    s->wants_write = why == SSL_ERROR_WANT_WRITE;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return EAGAIN;
    return why == SSL_ERROR_ZERO_RETURN ? 0 : EIO;
}

int tls_handshake(struct tls_session *s)
{
    int r = SSL_do_handshake(s->ssl);
    if (r == 1) {
        s->wants_write = false;
        return 1;
    }
    return tls_errno(s, r) == EAGAIN ? 0 : -1;
}

static ssize_t tls_result(struct tls_session *s, int r)
{
    if (r > 0) {
        s->wants_write = false;
        return r;
    }
    errno = tls_errno(s, r);
    return errno ? -1 : 0;
}

ssize_t tls_read(struct tls_session *s, void *to, size_t n)
{
    return tls_result(s, SSL_read(s->ssl, to, (int)MIN(n, (size_t)INT_MAX)));
}

ssize_t tls_write(struct tls_session *s, const void *from, size_t n)
{
    return tls_result(s, SSL_write(s->ssl, from, (int)MIN(n, (size_t)INT_MAX)));
}

bool tls_wants_write(const struct tls_session *s)
{
    return s->wants_write;
}

bool tls_has_pending(const struct tls_session *s)
{
    return SSL_pending(s->ssl) > 0;
}

void tls_shut(struct tls_session *s)
{
    SSL_shutdown(s->ssl);
    ERR_clear_error();
}
