/*
 * crypto.c: see crypto.h.
 *
 * Since OpenSSL 3 an algorithm is looked up by name among the providers, which takes longer than
 * hashing a request does. So each digest is fetched once per process and kept. A libcrypto without
 * SHA-256 or SHA-1 is a broken installation, not an input error.
 *
 * The encodings are ours: libcrypto's base64 decoder accepts white space and miscounts padding.
 */
#include "base/crypto.h"

#include <openssl/evp.h>
#include <pthread.h>

#include "base/mem.h"

static struct {
    pthread_once_t once;
    EVP_MD *sha256, *sha1;
} digests = {.once = PTHREAD_ONCE_INIT};

static void fetch_digests(void)
{
    digests.sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    digests.sha1 = EVP_MD_fetch(NULL, "SHA1", NULL);
    REQUIRE(digests.sha256 && digests.sha1);
}

static void digest(EVP_MD *const *md, struct str data, uint8_t *ret, unsigned bytes)
{
    unsigned n = 0;
    REQUIRE(pthread_once(&digests.once, fetch_digests) == 0);
    REQUIRE(EVP_Digest(data.p, data.n, ret, &n, *md, NULL) == 1);
    REQUIRE(n == bytes);
}

void crypto_sha256(struct str data, uint8_t ret[SHA256_BYTES])
{
    digest(&digests.sha256, data, ret, SHA256_BYTES);
}

void crypto_sha1(struct str data, uint8_t ret[SHA1_BYTES])
{
    digest(&digests.sha1, data, ret, SHA1_BYTES);
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(struct buf *out, const void *data, size_t n)
{
    const uint8_t *in = data;
    for (size_t i = 0; i < n; i += 3) {
        size_t have = MIN(n - i, (size_t)3);
        uint32_t bits = (uint32_t)in[i] << 16;
        bits |= have > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        bits |= have > 2 ? (uint32_t)in[i + 2] : 0;
        char quad[4] = {base64_digits[bits >> 18], base64_digits[bits >> 12 & 63],
                        have > 1 ? base64_digits[bits >> 6 & 63] : '=',
                        have > 2 ? base64_digits[bits & 63] : '='};
        buf_add(out, quad, sizeof quad);
    }
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four characters to `bytes` (1 to 3) bytes. The bits that padding leaves over must be zero. */
static bool base64_quad(const char *quad, size_t bytes, uint8_t ret[3])
{
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i <= bytes ? base64_value(quad[i]) : 0;
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
    }
    for (size_t i = 0; i < 3; i++)
        ret[i] = (uint8_t)(bits >> (16 - 8 * i));
    return (bytes > 2 || ret[2] == 0) && (bytes > 1 || ret[1] == 0);
}

bool base64_read(struct buf *out, struct str text)
{
    if (text.n % 4 != 0)
        return false;
    size_t before = out->len;
    for (size_t i = 0; i < text.n; i += 4) {
        uint8_t triple[3];
        size_t bytes = 3;
        if (i + 4 == text.n && text.p[i + 3] == '=')
            bytes = text.p[i + 2] == '=' ? 1 : 2;
        if (!base64_quad(text.p + i, bytes, triple)) {
            if (!out->overflow)
                buf_truncate(out, before);
            return false;
        }
        buf_add(out, triple, bytes);
    }
    return true;
}

void hex_write(struct buf *out, const void *data, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *in = data;
    for (size_t i = 0; i < n; i++)
        buf_add(out, (char[]){digits[in[i] >> 4], digits[in[i] & 15]}, 2);
}
