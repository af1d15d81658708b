/*
 * agent_log.c: see agent_log.h.
 *
 * The newest file is opened first. Should the shim begin a new one in between, the second open
 * finds the same file once more, which shows in its number, and nothing is read twice.
 */
#include "machine/agent_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"

char *agent_log_path(const char *data_folder, int64_t conversation, const char *role)
{
    return mem_printf("%s/logs/%lld/%s.log", data_folder, (long long)conversation, role);
}

struct file {
    int fd; /* -1: there is none */
    int64_t number, bytes;
};

static struct file file_open(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return (struct file){.fd = fd};
    return (struct file){.fd = fd, .number = (int64_t)st.st_ino, .bytes = st.st_size};
}

static void file_close(struct file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    *f = (struct file){.fd = -1};
}

/* Adds its bytes from `from` to `to`. */
static void file_add(const struct file *f, int64_t from, int64_t to, struct buf *out)
{
    char *room = to > from ? buf_reserve(out, (size_t)(to - from)) : NULL;
    ssize_t n = room ? pread(f->fd, room, (size_t)(to - from), from) : 0;
    if (n > 0)
        buf_grown(out, (size_t)n);
}

/* Where in both of them, one after the other, a position is; -1: its file is gone. */
static int64_t place_of(struct str position, const struct file *before, const struct file *newest)
{
    const char *colon = memchr(position.p, ':', position.n);
    struct str file = {position.p, colon ? (size_t)(colon - position.p) : 0};
    int64_t number, at;
    if (!str_to_int(file, &number) || !str_to_int(str_skip(position, file.n + 1), &at) || at < 0)
        return -1;
    if (newest->fd >= 0 && number == newest->number && at <= newest->bytes)
        return before->bytes + at;
    return before->fd >= 0 && number == before->number && at <= before->bytes ? at : -1;
}

static void write_position(int64_t place, const struct file *before, const struct file *newest,
                           char ret[AGENT_LOG_POSITION_BYTES])
{
    bool is_newest = place >= before->bytes;
    snprintf(ret, AGENT_LOG_POSITION_BYTES, "%lld:%lld",
             (long long)(is_newest ? newest : before)->number,
             (long long)(is_newest ? place - before->bytes : place));
}

/* Whole lines: without what is before the first end of a line, and after the last. One that is too
 * long for an answer is answered in pieces. */
static void keep_lines(struct buf *out, size_t start, bool is_cut_in_front, int64_t *from)
{
    const char *text = out->data + start, *first = memchr(text, '\n', out->len - start);
    const char *last = memrchr(text, '\n', out->len - start);
    if (!first)
        return;
    buf_truncate(out, (size_t)(last + 1 - out->data));
    if (!is_cut_in_front)
        return;
    size_t n = (size_t)(first + 1 - text);
    memmove(out->data + start, out->data + start + n, out->len - start - n);
    buf_truncate(out, out->len - n);
    *from += (int64_t)n;
}

/* Line feeds among its first `bytes` bytes. */
static int64_t count_lines(const struct file *f, int64_t bytes)
{
    char piece[65536];
    int64_t lines = 0;
    for (int64_t at = 0; at < bytes;) {
        ssize_t n = pread(f->fd, piece, (size_t)MIN(bytes - at, (int64_t)sizeof piece), at);
        if (n <= 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            lines += piece[i] == '\n';
        at += n;
    }
    return lines;
}

struct agent_log_part agent_log_read(const char *path, int64_t bytes, struct str after,
                                     struct buf *out)
{
    _cleanup_free_ char *old_path = mem_printf("%s.1", path);
    struct agent_log_part part = {0};
    struct file newest = file_open(path), before = file_open(old_path);
    if (before.fd >= 0 && before.number == newest.number)
        file_close(&before);
    bytes = MAX(INT64_C(0), MIN(bytes, (int64_t)AGENT_LOG_BYTES_MAX));
    int64_t all = before.bytes + newest.bytes, place = place_of(after, &before, &newest);
    int64_t from = !after.n ? MAX(all - bytes, INT64_C(0)) : MAX(place, INT64_C(0));
    int64_t to = MIN(all, from + bytes);
    size_t start = out->len;
    part.is_truncated = after.n ? place < 0 && !str_is(after, "start") : from > 0;
    file_add(&before, from, MIN(to, before.bytes), out);
    file_add(&newest, MAX(from - before.bytes, INT64_C(0)), to - before.bytes, out);
    if (out->len > start)
        keep_lines(out, start, !after.n && from > 0, &from);
    part.lines_before = after.n ? -1
                                : count_lines(&before, MIN(from, before.bytes)) +
                                      count_lines(&newest, from - before.bytes);
    write_position(from + (int64_t)(out->len - start), &before, &newest, part.next);
    file_close(&before);
    file_close(&newest);
    return part;
}
