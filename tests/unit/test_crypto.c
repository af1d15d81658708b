/*
 * test_crypto.c: published vectors for the digests and encodings, and the seam of random.h.
 */
#include "tap.h"

#include "base/crypto.h"
#include "base/random.h"

static void check_hex(const uint8_t *digest, size_t n, const char *want)
{
    _cleanup_buf_ struct buf b = BUF_INIT(200);
    hex_write(&b, digest, n);
    CHECK_STR(buf_str(&b), want);
}

static void check_sha256(struct str data, const char *want)
{
    uint8_t digest[SHA256_BYTES];
    crypto_sha256(data, digest);
    check_hex(digest, sizeof digest, want);
}

/* FIPS 180-2, appendix B. */
TEST(crypto_sha256)
{
    check_sha256(STR_NONE, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha256(STR("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha256(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    _cleanup_buf_ struct buf b = BUF_INIT(1000000);
    for (int i = 0; i < 1000000; i++)
        buf_addc(&b, 'a');
    check_sha256(buf_str(&b), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(crypto_sha1)
{
    uint8_t digest[SHA1_BYTES];
    crypto_sha1(STR("abc"), digest);
    check_hex(digest, sizeof digest, "a9993e364706816aba3e25717850c26c9cd0d89d");
}

/* RFC 6455, section 1.3. */
TEST(crypto_websocket_accept)
{
    uint8_t digest[SHA1_BYTES];
    _cleanup_buf_ struct buf b = BUF_INIT(100);
    crypto_sha1(STR("dGhlIHNhbXBsZSBub25jZQ=="
                    "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"),
                digest);
    base64_write(&b, digest, sizeof digest);
    CHECK_STR(buf_str(&b), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

/* RFC 4648, section 10. */
TEST(base64_vectors_both_ways)
{
    static const char *const vectors[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xFB\xEF\xBE\xFF\xFF\xFF", "++++////"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        _cleanup_buf_ struct buf text = BUF_INIT(100), data = BUF_INIT(100);
        base64_write(&text, vectors[i][0], strlen(vectors[i][0]));
        CHECK_STR(buf_str(&text), vectors[i][1]);
        CHECK(base64_read(&data, str_of(vectors[i][1])));
        CHECK_STR(buf_str(&data), vectors[i][0]);
    }
}

TEST(base64_read_is_strict)
{
    static const char *const bad[] = {
        "Z",      "Zg",         "Zg=",      "Zg===",    "=",    "====", "===",   "Z===",
        "Zm9v=",  "Zm9vYg",     "Zg==Zg==", "Zm8=Zm9v", "Z=g=", "Zg=v", " Zg==", "Zg== ",
        "Zg==\n", "Zm9v\nZm9v", "Zm 9",     "Zm-_",     "Zm9*", "Zh==", "Zm9=",  "Zm9\x80",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        _cleanup_buf_ struct buf b = BUF_INIT(100);
        buf_addz(&b, "kept");
        if (base64_read(&b, str_of(bad[i])))
            tap_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
        CHECK_STR(buf_str(&b), "kept");
    }
    _cleanup_buf_ struct buf b = BUF_INIT(100);
    CHECK(!base64_read(&b, STR("Zm\0v")));
}

/* L12: binary attachments. */
TEST(L12_base64_keeps_every_byte)
{
    uint8_t all[256 * 2];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t n = 0; n <= sizeof all; n += n < 8 ? 1 : 31) {
        _cleanup_buf_ struct buf text = BUF_INIT(1000), data = BUF_INIT(1000);
        base64_write(&text, all, n);
        CHECK(base64_read(&data, buf_str(&text)));
        CHECK(str_eq(buf_str(&data), (struct str){(char *)all, n}));
    }
}

TEST(base64_read_stops_at_the_ceiling)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4);
    CHECK(base64_read(&b, STR("Zm9vYmFy")) && b.overflow);
    CHECK(!base64_read(&b, STR("Zm9vYmF*")) && b.overflow);
}

static void fill_counting(void *ctx, void *out, size_t n)
{
    uint8_t *next = ctx, *p = out;
    while (n-- > 0)
        *p++ = (*next)++;
}

TEST(random_source_can_be_replaced)
{
    uint8_t next = 0x1F;
    char hex[9];
    random_set_source(fill_counting, &next);
    random_hex(4, hex);
    CHECK_Z(hex, "1f202122");
    CHECK_INT(next, 0x23);
    next = 0;
    uint64_t want;
    memcpy(&want, "\0\1\2\3\4\5\6\7", 8);
    CHECK(random_u64() == want);
    random_set_source(NULL, NULL);
    CHECK(random_u64() != random_u64());
    CHECK_INT(next, 8);
}

TEST(random_hex_of_every_size)
{
    char hex[130];
    for (size_t n = 0; n <= 64; n++) {
        memset(hex, '#', sizeof hex);
        random_hex(n, hex);
        CHECK_INT(strspn(hex, "0123456789abcdef"), 2 * n);
        CHECK(hex[2 * n] == '\0' && hex[2 * n + 1] == '#');
    }
}

/* Above 256 bytes the kernel may stop half way. */
TEST(random_bytes_fills_all)
{
    static uint8_t bytes[1 << 20];
    size_t seen[256] = {0};
    random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        seen[bytes[i]]++;
    for (size_t i = 0; i < 256; i++)
        CHECK(seen[i] > 3000 && seen[i] < 5200); /* 4096 ± 64; this far off never happens */
    CHECK(memcmp(bytes, bytes + sizeof bytes - 32, 32) != 0);
}
