/*
 * fuzz_shim.c: any bytes as what a shim and its machine leave for each other.
 *
 * The first byte chooses: an order (order.h), the last word of a shim (record.h), the file that
 * says which processes were seen, or a machine's outbox (facts.h). What is taken reads the same
 * after being written again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "machine/facts.h"
#include "machine/order.h"
#include "machine/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- a folder ---- */

static char folder[] = "/tmp/reeve-fuzz-XXXXXX";

static void remove_folder(void)
{
    static const char *const names[] = {"seen", "ended", "outbox", "outbox.rejected"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        _cleanup_free_ char *path = mem_printf("%s/%s", folder, names[i]);
        remove(path);
    }
    remove(folder);
}

static void put_file(const char *name, struct str text)
{
    static bool is_made;
    if (!is_made) {
        REQUIRE(mkdtemp(folder));
        is_made = true;
        atexit(remove_folder);
    }
    _cleanup_free_ char *path = mem_printf("%s/%s", folder, name);
    REQUIRE(file_replace(path, text, false, NULL) == 0);
}

/* ---- the readers ---- */

static void read_order(struct str text)
{
    struct arena a = ARENA_INIT;
    struct order o, again;
    struct err err = ERR_INIT;
    _cleanup_buf_ struct buf once = BUF_INIT(1 << 24), twice = BUF_INIT(1 << 24);
    if (order_parse(&a, text, &o, &err) == 0) {
        REQUIRE(o.spawn_id && o.folder && o.argv[0] && o.cwd && o.log && o.stop_grace_ms >= 0);
        order_write(&o, &once);
        REQUIRE_F(order_parse(&a, buf_str(&once), &again, &err) == 0, "%s", err.message);
        order_write(&again, &twice);
        REQUIRE(str_eq(buf_str(&once), buf_str(&twice)));
    } else {
        REQUIRE(err.code == ERR_PARSE || err.code == ERR_CONFIG);
    }
    arena_release(&a);
}

static void write_ended(const struct ended *e, struct buf *out)
{
    struct json_out w = JSON_OUT(out);
    json_object(&w, NULL);
    ended_to_json(e, &w);
    json_end(&w);
}

static void read_ended(struct str text)
{
    struct arena a = ARENA_INIT;
    struct ended e, again;
    struct err err = ERR_INIT;
    const struct json *json;
    _cleanup_buf_ struct buf once = BUF_INIT(1 << 24), twice = BUF_INIT(1 << 24);
    put_file("ended", text);
    int r = ended_read(&a, folder, &e, &err);
    if (r == 0) {
        write_ended(&e, &once);
        REQUIRE(json_parse(&a, buf_str(&once), JSON_DEPTH_DEFAULT, &json, &err) == 0);
        REQUIRE(ended_from_json(&a, json, &again, &err) == 0);
        write_ended(&again, &twice);
        REQUIRE(str_eq(buf_str(&once), buf_str(&twice)));
    } else {
        REQUIRE(err.code == ERR_PARSE || err.code == ERR_IO);
    }
    arena_release(&a);
}

static void read_seen(struct str text)
{
    struct seen s;
    struct err err = ERR_INIT;
    put_file("seen", text);
    if (seen_read(folder, &s, &err) == 0)
        REQUIRE(strlen(s.boot_id) < sizeof s.boot_id);
    else
        REQUIRE(err.code == ERR_PARSE || err.code == ERR_IO);
}

/* What is in it is told, and goes when it is accepted; a new fact has a number of its own. */
static void read_facts(struct str text)
{
    struct facts *f = NULL;
    struct err err = ERR_INIT;
    _cleanup_buf_ struct buf out = BUF_INIT(1 << 24);
    struct json_out w = JSON_OUT(&out);
    put_file("outbox", text);
    if (facts_open(folder, &f, &err) < 0) {
        REQUIRE(err.code != 0);
        return;
    }
    facts_add(f, "exited", "0123", STR("\"code\":1"), 1);
    REQUIRE(!facts_is_empty(f) && facts_has_last_word(f, "0123"));
    json_object(&w, NULL);
    size_t told = facts_write(f, 100, 1 << 20, &w, "facts");
    json_end(&w);
    REQUIRE(told > 0);
    struct arena a = ARENA_INIT;
    const struct json *json;
    REQUIRE_F(json_parse(&a, buf_str(&out), 66, &json, NULL) == 0, "%s", out.data);
    arena_release(&a);
    facts_reject(f, facts_first(f), STR("no"));
    facts_accepted(f, INT64_MAX);
    REQUIRE(facts_is_empty(f));
    facts_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(struct str) = {read_order, read_ended, read_seen, read_facts};
    if (size < 1)
        return 0;
    log_set_level(LOG_ERROR + 1);
    _cleanup_free_ char *copy = mem_alloc(size);
    memcpy(copy, data + 1, size - 1);
    readers[data[0] % ARRAY_LEN(readers)]((struct str){copy, size - 1});
    return 0;
}
