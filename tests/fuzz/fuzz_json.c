/*
 * fuzz_json.c: any bytes into the JSON reader, and what it accepts through the writer.
 *
 *     clang -fsanitize=fuzzer,address,undefined …   ./fuzz_json tests/fuzz/corpus/json
 *
 * or linked with replay.c, which runs the corpus as a test. Holds: what we accept we write in a
 * form that reads back as the same value, and writing that again changes nothing; any bytes at all,
 * written as a string, are a document we accept. Whether a text is JSON does not depend on the limit
 * of depth, and what is JSON without a defect is what we accept.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct json *read_back(struct arena *a, const struct buf *text)
{
    const struct json *v = NULL;
    REQUIRE(!text->overflow);
    REQUIRE_F(json_parse(a, buf_str(text), JSON_DEPTH_DEFAULT, &v, NULL) == 0, "%s", text->data);
    return v;
}

static void check_value(struct arena *a, const struct json *value)
{
    _cleanup_buf_ struct buf once = BUF_INIT(SIZE_MAX / 4), twice = BUF_INIT(SIZE_MAX / 4);
    uint8_t before[32], after[32];
    json_write_value(&once, value);
    const struct json *again = read_back(a, &once);
    REQUIRE(again->compact);
    json_canonical_hash(value, NULL, before);
    json_canonical_hash(again, NULL, after);
    REQUIRE(memcmp(before, after, sizeof before) == 0);
    json_write_value(&twice, again);
    REQUIRE(str_eq(buf_str(&once), buf_str(&twice)));
}

static void check_as_string(struct arena *a, struct str bytes)
{
    _cleanup_buf_ struct buf text = BUF_INIT(SIZE_MAX / 4);
    json_write_string(&text, bytes);
    const struct json *v = read_back(a, &text);
    if (str_is_utf8(bytes) && (bytes.n == 0 || !memchr(bytes.p, '\0', bytes.n)))
        REQUIRE(str_eq(v->string, bytes));
}

/* True if it is, and without a defect. */
static bool is_json(struct arena *a, struct str text)
{
    const struct json *v = NULL, *flat = NULL;
    int code = json_read(a, text, JSON_DEPTH_DEFAULT, &v, NULL);
    REQUIRE(json_read(a, text, 1, &flat, NULL) == code);
    if (code < 0)
        return false;
    REQUIRE(v->type == flat->type && str_eq(v->span, flat->span) && v->count == flat->count);
    for (const struct json *d = v; d->defect == JSON_DEFECT_INSIDE;)
        for (d = d->first; !d->defect; d = d->next)
            REQUIRE(d->next);
    return v->defect == JSON_SOUND;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = ARENA_INIT;
    struct str text = {(const char *)data, size};
    struct err err = ERR_INIT;
    const struct json *v = NULL;
    bool is_sound = is_json(&a, text);
    if (json_parse(&a, text, JSON_DEPTH_DEFAULT, &v, &err) == 0) {
        REQUIRE(err.code == 0 && is_sound);
        check_value(&a, v);
    } else {
        REQUIRE(err.code == ERR_PARSE && !v && !is_sound);
    }
    check_as_string(&a, text);
    arena_release(&a);
    return 0;
}
