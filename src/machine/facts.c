/*
 * facts.c: an append-only file of lines, and the same in memory.
 *
 *     {"n":7,"fact":"exited","spawnId":"…","exit":{…},"at":"…"}      a fact
 *     {"acceptedTo":7}                                                what has left
 *
 * Invariants: `n` only grows; a fact is written before it is sent; it leaves memory only after the
 * line that says so was written. A crash between the two sends it again, which the server takes for
 * the repeat that it is.
 *
 * Killed at any byte, a machine leaves at most half a line at the end; that line was never sent,
 * and is cut off when the file is opened. What it told about is not lost with it: the shim's last
 * word lies in the folder of its spawn until the server has accepted it, and a command that nobody
 * confirmed is given again. For the same reason there is no fsync here: after a power cut no
 * process lives that a fact could be about, and `register` tells the server so.
 *
 * When everything has left, and the file has grown, it is replaced by its last line. A disk that is
 * full is told once; facts then live in memory, and are sent all the same.
 */
#include "machine/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"

#define NUMBER_MAX INT64_C(9007199254740991) /* what a server takes */

enum {
    FILE_BYTES_MAX = 256 * 1024 * 1024,
    LINE_BYTES_ROOM = 64 * 1024,
    COMPACT_BYTES = 256 * 1024,
    SPAWN_ID_ROOM = 33,
};

struct fact {
    int64_t n;
    char spawn_id[SPAWN_ID_ROOM];
    bool is_last_word;
    struct str text; /* the line, without its end; owned */
};

struct facts {
    char *path, *rejected_path;
    int fd;
    int64_t next_n, file_bytes;
    struct fact *list; /* oldest first */
    size_t count, room;
    bool is_full_told;
    facts_gone_fn *gone;
    void *gone_ctx;
};

/* ---- the file ---- */

static void append_line(struct facts *o, struct str line)
{
    _cleanup_buf_ struct buf b = BUF_INIT(line.n + 2);
    buf_add_str(&b, line);
    buf_addc(&b, '\n');
    ssize_t n = write(o->fd, b.data, b.len);
    if (n == (ssize_t)b.len) {
        o->file_bytes += n;
        o->is_full_told = false;
        return;
    }
    int why = n < 0 ? errno : ENOSPC;
    if (n > 0 && ftruncate(o->fd, o->file_bytes) < 0) /* no half line in front of the next */
        why = errno;
    if (!o->is_full_told)
        log_error("outbox", "cannot write", "path=%s error=\"%s\"", o->path, strerror(why));
    o->is_full_told = true;
}

/* ---- facts in memory ---- */

static bool is_last_word(struct str fact)
{
    return str_is(fact, "exited") || str_is(fact, "stopped") || str_is(fact, "start_failed");
}

static void keep(struct facts *o, int64_t n, struct str fact, struct str spawn_id, struct str line)
{
    o->list = mem_grow(o->list, &o->room, o->count + 1, sizeof *o->list);
    struct fact *f = &o->list[o->count++];
    *f = (struct fact){
        .n = n,
        .is_last_word = is_last_word(fact),
        .text = {mem_strndup(line.p, line.n), line.n},
    };
    snprintf(f->spawn_id, sizeof f->spawn_id, "%.*s", STR_ARG(spawn_id));
    o->next_n = MAX(o->next_n, n + 1);
}

/* The oldest `count` have left. They are told about afterwards: whoever hears it may add to the
 * box. */
static void leave(struct facts *o, size_t count)
{
    if (!count)
        return;
    struct fact *gone = mem_alloc(count * sizeof *gone);
    memcpy(gone, o->list, count * sizeof *gone);
    o->count -= count;
    memmove(o->list, o->list + count, o->count * sizeof *o->list);
    for (size_t i = 0; i < count; i++) {
        if (o->gone)
            o->gone(o->gone_ctx, str_of(gone[i].spawn_id), gone[i].is_last_word);
        free((char *)gone[i].text.p);
    }
    free(gone);
}

static size_t count_up_to(const struct facts *o, int64_t n)
{
    size_t i = 0;
    while (i < o->count && o->list[i].n <= n)
        i++;
    return i;
}

/* ---- opening ---- */

/* One that others can follow; 0: none. */
static int64_t read_number(const struct json *line, const char *key)
{
    int64_t n = json_get_int(line, key, 0);
    return n < NUMBER_MAX ? n : 0;
}

static void read_line(struct facts *o, struct arena *a, struct str line)
{
    const struct json *json;
    arena_clear(a);
    int r = json_parse(a, line, JSON_DEPTH_DEFAULT, &json, NULL);
    int64_t n = r == 0 ? read_number(json, "n") : 0,
            accepted_to = r == 0 ? read_number(json, "acceptedTo") : 0;
    if (accepted_to > 0) {
        leave(o, count_up_to(o, accepted_to));
        o->next_n = MAX(o->next_n, accepted_to + 1);
    } else if (n >= o->next_n) {
        keep(o, n, json_get_text(json, "fact"), json_get_text(json, "spawnId"), line);
    } else {
        log_warn("outbox", "a damaged line is passed over", "path=%s line=%s", o->path,
                 log_quote(line));
    }
}

/* Up to the last whole line. */
static int read_file(struct facts *o, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_BYTES_MAX);
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    int r = file_read(o->path, &text);
    if (r < 0)
        return err_set(err, ERR_IO, "cannot read %.160s: %s", o->path, strerror(-r));
    for (struct str rest = buf_str(&text); rest.n;) {
        const char *end = memchr(rest.p, '\n', rest.n);
        if (!end)
            break;
        size_t n = (size_t)(end - rest.p);
        read_line(o, &a, (struct str){rest.p, n});
        o->file_bytes += (int64_t)n + 1;
        rest = str_skip(rest, n + 1);
    }
    if (ftruncate(o->fd, o->file_bytes) < 0)
        return file_error(err, "shorten", o->path);
    return 0;
}

int facts_open(const char *folder, struct facts **ret, struct err *err)
{
    struct facts *o = mem_zalloc(sizeof *o);
    o->path = mem_printf("%s/outbox", folder);
    o->rejected_path = mem_printf("%s/outbox.rejected", folder);
    o->next_n = 1;
    o->fd = open(o->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    int r = o->fd < 0 ? file_error(err, "open", o->path) : read_file(o, err);
    if (r < 0) {
        facts_close(o);
        return r;
    }
    *ret = o;
    return 0;
}

struct facts *facts_close(struct facts *o)
{
    if (!o)
        return NULL;
    o->gone = NULL;
    leave(o, o->count);
    if (o->fd >= 0)
        close(o->fd);
    free(o->list);
    free(o->path);
    free(o->rejected_path);
    free(o);
    return NULL;
}

void facts_on_gone(struct facts *o, facts_gone_fn *fn, void *ctx)
{
    o->gone = fn;
    o->gone_ctx = ctx;
}

/* ---- use ---- */

void facts_add(struct facts *o, const char *fact, const char *spawn_id, struct str members,
               int64_t at_ms)
{
    _cleanup_buf_ struct buf line = BUF_INIT(LINE_BYTES_ROOM);
    struct json_out out = JSON_OUT(&line);
    json_object(&out, NULL);
    json_int(&out, "n", o->next_n);
    json_stringz(&out, "fact", fact);
    json_stringz(&out, "spawnId", spawn_id);
    if (members.n)
        buf_addf(&line, ",%.*s", STR_ARG(members));
    json_time(&out, "at", at_ms);
    json_end(&out);
    REQUIRE_F(!line.overflow, "a fact of %zu bytes", members.n);
    append_line(o, buf_str(&line));
    keep(o, o->next_n, str_of(fact), str_of(spawn_id), buf_str(&line));
}

bool facts_is_empty(const struct facts *o)
{
    return o->count == 0;
}

int64_t facts_first(const struct facts *o)
{
    return o->count ? o->list[0].n : 0;
}

bool facts_has_last_word(const struct facts *o, const char *spawn_id)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->list[i].is_last_word && strcmp(o->list[i].spawn_id, spawn_id) == 0)
            return true;
    return false;
}

size_t facts_write(const struct facts *o, size_t limit, size_t bytes_max, struct json_out *out,
                   const char *key)
{
    size_t i = 0, bytes = 0;
    json_array(out, key);
    while (i < MIN(limit, o->count) && (i == 0 || bytes + o->list[i].text.n <= bytes_max)) {
        json_raw(out, NULL, o->list[i].text);
        bytes += o->list[i++].text.n;
    }
    json_end(out);
    return i;
}

static void compact(struct facts *o)
{
    _cleanup_free_ char *line = mem_printf("{\"acceptedTo\":%lld}\n", (long long)o->next_n - 1);
    struct err err = ERR_INIT;
    if (file_replace(o->path, str_of(line), false, &err) < 0)
        return; /* later, then */
    int fd = open(o->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return;
    close(o->fd);
    o->fd = fd;
    o->file_bytes = (int64_t)strlen(line);
}

void facts_accepted(struct facts *o, int64_t up_to)
{
    char line[64];
    size_t count = count_up_to(o, up_to);
    if (!count)
        return;
    snprintf(line, sizeof line, "{\"acceptedTo\":%lld}", (long long)up_to);
    append_line(o, str_of(line));
    leave(o, count);
    if (!o->count && o->file_bytes > COMPACT_BYTES)
        compact(o);
}

/* Only noted here: it leaves with those around it, when their numbers are accepted. */
void facts_reject(struct facts *o, int64_t n, struct str why)
{
    size_t i = count_up_to(o, n);
    if (!i || o->list[i - 1].n != n)
        return;
    struct str fact = o->list[i - 1].text;
    _cleanup_buf_ struct buf line = BUF_INIT(LINE_BYTES_ROOM * 2);
    buf_add_str(&line, fact);
    buf_addc(&line, '\n');
    int fd = open(o->rejected_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    bool is_kept = fd >= 0 && write(fd, line.data, line.len) == (ssize_t)line.len;
    if (fd >= 0)
        close(fd);
    log_warn("outbox", "a fact was rejected and is set aside", "n=%lld why=%s kept=%s%s",
             (long long)n, log_quote(why),
             is_kept ? o->rejected_path : "no: ", is_kept ? "" : strerror(errno));
}
