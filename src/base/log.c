/*
 * log.c: see log.h.
 *
 * A line is built on the stack and leaves in one write(2): the kernel keeps such writes apart on a
 * pipe (up to PIPE_BUF) and on a file opened for appending, so threads and processes that share a
 * standard error need no lock. stdio was rejected for that reason, syslog(3) because a service
 * manager already collects standard error.
 *
 * A log that can be forged is worth nothing. Whatever arrives through the format is cleaned on its
 * way out: control characters (C0, DEL and the C1 set, which terminals obey too) and bytes that are
 * not UTF-8 are written as \xNN. So one call is one line, whatever a peer sent.
 *
 * Logging never fails towards its caller and leaves errno alone. A line nobody can take (EAGAIN, a
 * closed pipe) is lost; the log is not the record, the store is.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum { LINE_BYTES_MAX = 1024, QUOTE_BYTES_MAX = 120, QUOTE_SLOTS = 8 };

static const char *const level_names[] = {
    [LOG_DEBUG] = "debug",
    [LOG_INFO] = "info",
    [LOG_WARN] = "warn",
    [LOG_ERROR] = "error",
};

enum stamping { STAMP_UNKNOWN, STAMP_YES, STAMP_NO };

/* A process has one standard error: this is the one piece of state that is truly global. */
static atomic_int least_level = LOG_INFO;
static atomic_int out_fd = STDERR_FILENO;
static atomic_int stamping = STAMP_UNKNOWN;

void log_set_level(enum log_level least)
{
    atomic_store(&least_level, (int)least);
}

void log_set_fd(int fd)
{
    atomic_store(&out_fd, fd);
    atomic_store(&stamping, STAMP_UNKNOWN);
}

/*
 * JOURNAL_STREAM is inherited by children whose standard error may have been sent elsewhere; its
 * value, device:inode, says which stream is meant.
 */
static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    if (!stream || fstat(fd, &st) < 0)
        return false;
    char own[64];
    snprintf(own, sizeof own, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
    return strcmp(stream, own) == 0;
}

static bool wants_stamp(int fd)
{
    int known = atomic_load(&stamping);
    if (known == STAMP_UNKNOWN) {
        known = is_journal(fd) ? STAMP_NO : STAMP_YES;
        atomic_store(&stamping, known);
    }
    return known == STAMP_YES;
}

/* Text that is only ever added to as a whole: a piece that does not fit ends it. */
struct line {
    char *data;
    size_t len, max;
    bool full;
};

static void line_add(struct line *l, const char *piece, size_t n)
{
    l->full |= n > l->max - l->len;
    if (l->full)
        return;
    memcpy(l->data + l->len, piece, n);
    l->len += n;
}

static void line_addz(struct line *l, const char *z)
{
    line_add(l, z, strlen(z));
}

static void line_add_escaped(struct line *l, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char escape[5];
        snprintf(escape, sizeof escape, "\\x%02x", (unsigned char)bytes[i]);
        line_add(l, escape, 4);
    }
}

/* Bytes of the character at the start of s; 0 if they are not UTF-8. */
static size_t character_length(struct str s)
{
    for (size_t n = 1; n <= 4 && n <= s.n; n++)
        if (str_is_utf8((struct str){s.p, n}))
            return n;
    return 0;
}

static bool is_control(struct str c)
{
    unsigned char first = (unsigned char)c.p[0];
    bool c1 = c.n == 2 && first == 0xC2 && (unsigned char)c.p[1] < 0xA0;
    return first < 0x20 || first == 0x7F || c1;
}

/* `quoted`: quotes and backslashes get a backslash too, so that the end of the value is plain. */
static void line_add_clean(struct line *l, struct str s, bool quoted)
{
    while (s.n > 0 && !l->full) {
        size_t n = character_length(s);
        struct str c = {s.p, n ? n : 1};
        if (n == 0 || is_control(c)) {
            line_add_escaped(l, c.p, c.n);
        } else if (quoted && (c.p[0] == '"' || c.p[0] == '\\')) {
            char pair[2] = {'\\', c.p[0]};
            line_add(l, pair, 2);
        } else {
            line_add(l, c.p, c.n);
        }
        s = str_skip(s, c.n);
    }
}

/* The line was made with room for `cut` to spare. */
static void line_finish(struct line *l, const char *whole, const char *cut)
{
    l->max += strlen(cut);
    bool was_full = l->full;
    l->full = false;
    line_addz(l, was_full ? cut : whole);
}

static void line_add_head(struct line *l, enum log_level level, const char *area, const char *event,
                          bool stamped)
{
    if (stamped) {
        char stamp[CLOCK_ISO_BYTES];
        clock_iso(clock_kernel.wall_ms(NULL), stamp);
        line_addz(l, stamp);
        line_addz(l, " ");
    }
    line_addz(l, level_names[level]);
    line_addz(l, " ");
    line_addz(l, area);
    line_addz(l, " ");
    line_addz(l, event);
}

static void write_once(int fd, const char *data, size_t n)
{
    ssize_t r;
    do
        r = write(fd, data, n);
    while (r < 0 && errno == EINTR);
}

void log_line(enum log_level level, const char *area, const char *event, const char *fmt, ...)
{
    if ((int)level < atomic_load(&least_level))
        return;
    int saved = errno;
    char pairs[LINE_BYTES_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(pairs, sizeof pairs, fmt, ap);
    va_end(ap);

    static const char cut[] = "...\n";
    char data[LINE_BYTES_MAX];
    struct line l = {.data = data, .max = sizeof data - strlen(cut)};
    int fd = atomic_load(&out_fd);
    line_add_head(&l, level, area, event, wants_stamp(fd));
    if (n > 0) {
        line_addz(&l, " ");
        line_add_clean(&l, str_of(pairs), false);
    }
    l.full |= n >= (int)sizeof pairs;
    line_finish(&l, "\n", cut);
    write_once(fd, l.data, l.len);
    errno = saved;
}

const char *log_quote(struct str s)
{
    static _Thread_local char slots[QUOTE_SLOTS][QUOTE_BYTES_MAX + 1];
    static _Thread_local unsigned next;
    static const char cut[] = "...\"";
    char *slot = slots[next++ % QUOTE_SLOTS];
    struct line l = {.data = slot, .max = QUOTE_BYTES_MAX - strlen(cut)};
    line_addz(&l, "\"");
    line_add_clean(&l, s, true);
    line_finish(&l, "\"", cut);
    slot[l.len] = '\0';
    return slot;
}
