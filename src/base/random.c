/*
 * random.c: see random.h.
 *
 * The source is the one piece of global state: a simulator sets it before it starts anything.
 * getrandom(2) without flags blocks only before the kernel has been seeded, early in boot, and then
 * cannot fail except for a signal. There is no fallback: a guessable token is worse than none.
 */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/mem.h"

static void fill_from_kernel(void *ctx, void *out, size_t n)
{
    (void)ctx;
    char *p = out;
    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        REQUIRE_F(got > 0 || errno == EINTR, "getrandom: errno %d", errno);
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        }
    }
}

static struct {
    random_fill_fn *fill;
    void *ctx;
} source = {fill_from_kernel, NULL};

void random_set_source(random_fill_fn *fill, void *ctx)
{
    source.fill = fill ? fill : fill_from_kernel;
    source.ctx = ctx;
}

void random_bytes(void *out, size_t n)
{
    source.fill(source.ctx, out, n);
}

uint64_t random_u64(void)
{
    uint64_t value;
    random_bytes(&value, sizeof value);
    return value;
}

void random_hex(size_t n, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    /* The bytes go into the back half, from where each is spread over two places before it. */
    unsigned char *bytes = (unsigned char *)ret + n;
    random_bytes(bytes, n);
    for (size_t i = 0; i < n; i++) {
        unsigned char byte = bytes[i];
        ret[2 * i] = digits[byte >> 4];
        ret[2 * i + 1] = digits[byte & 15];
    }
    ret[2 * n] = '\0';
}
