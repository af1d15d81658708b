/*
 * shim_log.c: see shim_log.h.
 *
 * Whole lines are gathered in `out` and written with one write(2) for each read from a pipe, or for
 * each OUT_BYTES_FULL if they are many and short. The time of a line is the time at which it ended.
 *
 * Our own standard error is this file, so that a broken invariant is found where somebody looks.
 *
 * A disk that hangs, instead of failing, makes us wait, and then the agent as soon as its pipe is
 * full. A thread for it was rejected: a shim is one of a thousand, and what is written to a file
 * waits for the disk only when memory is short.
 */
#include "machine/shim_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { OUT_BYTES_FULL = 64 * 1024, OUT_BYTES_MAX = 2 * OUT_BYTES_FULL };

static const char *const stream_names[LOG_STREAMS] = {
    [LOG_OUT] = "out",
    [LOG_ERR] = "err",
    [LOG_RUN] = "run",
};

/* ---- the file ---- */

static void be_our_stderr(int fd)
{
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
}

static bool open_file(struct shim_log *l)
{
    struct stat st;
    int fd = open(l->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return false;
    l->fd = fd;
    l->bytes = fstat(fd, &st) == 0 ? st.st_size : 0;
    be_our_stderr(fd);
    return true;
}

static void rotate(struct shim_log *l)
{
    if (rename(l->path, l->old_path) < 0)
        return;
    close(TAKE_FD(l->fd));
    open_file(l);
}

/* How much of it is in the file now; errno says why if it is not all. */
static size_t write_some(struct shim_log *l, struct str text)
{
    size_t done = 0;
    while (l->fd >= 0 && done < text.n) {
        ssize_t n = write(l->fd, text.p + done, text.n - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    l->bytes += (int64_t)done;
    if (done)
        l->is_mid_line = text.p[done - 1] != '\n';
    return done;
}

static void drop(struct shim_log *l, size_t n)
{
    l->dropped_bytes += (int64_t)n;
    l->dropped_errno = errno;
}

/* ---- lines ---- */

static void stamp(struct buf *out, enum log_stream stream)
{
    char now[CLOCK_ISO_BYTES];
    clock_iso(clock_kernel.wall_ms(NULL), now);
    buf_addz(out, now);
    buf_addc(out, ' ');
    buf_addz(out, stream_names[stream]);
    buf_addc(out, ' ');
}

/* True if nothing is owed any more. */
static bool tell_dropped(struct shim_log *l)
{
    _cleanup_buf_ struct buf line = BUF_INIT(512);
    if (!l->dropped_bytes)
        return true;
    if (l->is_mid_line)
        buf_addc(&line, '\n');
    stamp(&line, LOG_RUN);
    buf_addf(&line, "%lld bytes of this log were lost: %s\n", (long long)l->dropped_bytes,
             strerror(l->dropped_errno));
    if (write_some(l, buf_str(&line)) < line.len)
        return false;
    l->dropped_bytes = 0;
    return true;
}

static void flush(struct shim_log *l)
{
    struct str text = buf_str(&l->out);
    if (!text.n)
        return;
    if (l->fd >= 0 && l->bytes_max > 0 && l->bytes > 0 && l->bytes + (int64_t)text.n > l->bytes_max)
        rotate(l);
    if (l->fd < 0)
        open_file(l);
    size_t done = tell_dropped(l) ? write_some(l, text) : 0;
    if (done < text.n)
        drop(l, text.n - done);
    buf_clear(&l->out);
}

static void put_line(struct shim_log *l, enum log_stream stream, struct str line)
{
    stamp(&l->out, stream);
    buf_add_str(&l->out, line);
    buf_addc(&l->out, '\n');
    if (stream != LOG_RUN)
        shim_tail_add(&l->tail, line);
    if (l->out.len >= OUT_BYTES_FULL)
        flush(l);
}

/* Where to cut a line that is too long: before a character that may not be whole. */
static size_t cut_at(const char *bytes, size_t n)
{
    for (size_t back = 1; back <= 3; back++)
        if (((unsigned char)bytes[n - back] & 0xC0) == 0xC0)
            return n - back;
    return n;
}

static void put_piece(struct shim_log *l, enum log_stream stream)
{
    struct log_line *b = &l->begun[stream];
    size_t n = cut_at(b->bytes, b->len);
    put_line(l, stream, (struct str){b->bytes, n});
    memmove(b->bytes, b->bytes + n, b->len - n);
    b->len -= n;
}

/* Part of a line, without its end. */
static void add_part(struct shim_log *l, enum log_stream stream, struct str part)
{
    struct log_line *b = &l->begun[stream];
    while (part.n) {
        size_t n = MIN(part.n, sizeof b->bytes - b->len);
        memcpy(b->bytes + b->len, part.p, n);
        b->len += n;
        part = str_skip(part, n);
        if (b->len == sizeof b->bytes)
            put_piece(l, stream);
    }
}

static void end_line(struct shim_log *l, enum log_stream stream)
{
    struct log_line *b = &l->begun[stream];
    put_line(l, stream, (struct str){b->bytes, b->len});
    b->len = 0;
}

void shim_log_add(struct shim_log *l, enum log_stream stream, struct str bytes)
{
    const char *feed;
    while (bytes.n && (feed = memchr(bytes.p, '\n', bytes.n))) {
        size_t n = (size_t)(feed - bytes.p);
        add_part(l, stream, (struct str){bytes.p, n});
        end_line(l, stream);
        bytes = str_skip(bytes, n + 1);
    }
    add_part(l, stream, bytes);
    flush(l);
}

void shim_log_end(struct shim_log *l, enum log_stream stream)
{
    if (l->begun[stream].len)
        end_line(l, stream);
    flush(l);
}

void shim_log_say(struct shim_log *l, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put_line(l, LOG_RUN, str_of(text));
    flush(l);
}

void shim_log_init(struct shim_log *l, const char *path, int64_t bytes_max)
{
    l->path = path;
    l->old_path = mem_printf("%s.1", path);
    l->fd = -1;
    l->bytes_max = bytes_max;
    l->out = BUF_INIT(OUT_BYTES_MAX);
    if (!open_file(l)) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        be_our_stderr(null);
        if (null > STDERR_FILENO)
            close(null);
    }
}

void shim_log_release(struct shim_log *l)
{
    if (l->fd >= 0)
        close(TAKE_FD(l->fd));
    buf_release(&l->out);
    mem_freep(&l->old_path);
}
