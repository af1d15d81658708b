/*
 * fuzz_options.c: any bytes as a configuration file, and as the text of --set (base/options.h).
 *
 * What is refused says why and changes nothing. What is taken lies in its range, and written out as
 * a file again it reads as the same.
 */
#include <stdlib.h>

#include "base/log.h"
#include "base/options.h"
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_same(const struct options *a, const struct options *b)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (a->value[i] != b->value[i])
            return false;
    return true;
}

static int read_text(struct options *o, struct str text, struct err *err)
{
    char path[32];
    int fd = fuzz_file_open((const uint8_t *)text.p, text.n, path);
    int r = options_read_file(o, path, err);
    close(fd);
    return r;
}

static void check_values(const struct options *o)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        REQUIRE(o->value[i] >= row->min && o->value[i] <= row->max);
        REQUIRE(o->value[i] != 0 || row->zero != OPTION_ZERO_NEVER);
    }
}

static void write_file(const struct options *o, struct buf *out)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        bool begins = i == 0 || strcmp(row->section, option_rows[i - 1].section) != 0;
        buf_addf(out, "%s%s%s", begins && i > 0 ? "}\n" : "", begins ? row->section : "",
                 begins ? " {\n" : "");
        if (row->type == OPTION_BOOL)
            buf_addf(out, "%s = %s\n", row->key, o->value[i] ? "true" : "false");
        else
            buf_addf(out, "%s = %lld\n", row->key, (long long)o->value[i]);
    }
    buf_addz(out, "}\n");
}

static void check_round_trip(const struct options *o)
{
    struct options again;
    struct err err = ERR_INIT;
    _cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
    options_init(&again);
    write_file(o, &text);
    REQUIRE_F(read_text(&again, buf_str(&text), &err) == 0, "%s", err.message);
    REQUIRE(is_same(o, &again));
}

static void check_outcome(const struct options *before, const struct options *after, int r,
                          const struct err *err)
{
    if (r < 0) {
        REQUIRE(r == -ERR_CONFIG && err->code == ERR_CONFIG && err->message[0]);
        REQUIRE(is_same(before, after));
        return;
    }
    REQUIRE(err->code == 0);
    check_values(after);
    check_round_trip(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct options defaults, o;
    struct err err = ERR_INIT, set_err = ERR_INIT;
    struct str text = {(const char *)data, size};
    log_set_level(LOG_ERROR + 1);
    options_init(&defaults);
    o = defaults;
    int r = read_text(&o, text, &err);
    check_outcome(&defaults, &o, r, &err);
    o = defaults;
    r = options_set(&o, text, &set_err);
    check_outcome(&defaults, &o, r, &set_err);
    return 0;
}
