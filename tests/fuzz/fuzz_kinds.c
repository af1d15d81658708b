/*
 * fuzz_kinds.c: any bytes as a machine's configuration (machine/kinds.h).
 *
 * What is refused says why, with nothing left behind. What is taken holds what the header promises,
 * and no value put into a word of argv makes it two.
 */
#include <stdlib.h>

#include "base/log.h"
#include "fuzz_file.h"
#include "machine/kinds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t length_of(const char *const *list)
{
    size_t n = 0;
    while (list[n])
        n++;
    return n;
}

static void check_kind(const struct kinds *k, const struct kind *kind)
{
    struct arena a = ARENA_INIT;
    const struct kind_words words = {STR("12"), STR("a b\n;"), STR("{role}")};
    REQUIRE(kind_name_is_valid(str_of(kind->name)));
    REQUIRE(kind_find(k, str_of(kind->name)) == kind);
    REQUIRE(kind->argv[0] && kind->argv[0][0] && kind->cwd && kind->ready && kind->restart);
    REQUIRE(kind->stop_grace_ms >= 0 && kind->log_bytes_max > 0);
    for (size_t i = 0; kind->env[i]; i++)
        REQUIRE(strchr(kind->env[i], '='));
    REQUIRE(length_of(kind_argv(kind, &words, &a)) == length_of(kind->argv));
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kinds k;
    struct err err = ERR_INIT;
    char path[32];
    log_set_level(LOG_ERROR + 1);
    int fd = fuzz_file_open(data, size, path);
    int r = kinds_read(&k, path, &err);
    close(fd);
    if (r < 0) {
        REQUIRE(r == -ERR_CONFIG && err.code == ERR_CONFIG && err.message[0]);
        return 0;
    }
    REQUIRE(err.code == 0 && k.count <= KINDS_MAX);
    for (size_t i = 0; i < k.count; i++)
        check_kind(&k, &k.list[i]);
    kinds_release(&k);
    return 0;
}
