/* agent_log.c: see agent_log.h. */
#include "machine/agent_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"

/* One of the two files; without one there is nothing to read. */
struct part {
    int fd;
    int64_t inode, from, size;
};

char *agent_log_path(const char *data_folder, int64_t conversation, const char *role)
{
    return mem_printf("%s/logs/%lld/%s.log", data_folder, (long long)conversation, role);
}

static struct part open_part(const char *path)
{
    struct stat st;
    struct part p = {.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (p.fd >= 0 && fstat(p.fd, &st) == 0) {
        p.inode = (int64_t)st.st_ino;
        p.size = st.st_size;
    }
    return p;
}

static bool is_at(const struct part *p, struct str position)
{
    char inode[24];
    int n = snprintf(inode, sizeof inode, "%lld-", (long long)p->inode);
    return p->fd >= 0 && str_starts(position, (struct str){inode, (size_t)n});
}

static int64_t place_in(const struct part *p, struct str position)
{
    const char *dash = memchr(position.p, '-', position.n);
    int64_t place = 0;
    str_to_int(str_skip(position, (size_t)(dash + 1 - position.p)), &place);
    return MAX(INT64_C(0), MIN(place, p->size));
}

static void skip(struct part *p, int64_t *excess)
{
    int64_t n = MIN(*excess, p->size - p->from);
    p->from += n;
    *excess -= n;
}

static void add_part(struct part *p, struct buf *out)
{
    size_t want = (size_t)(p->size - p->from);
    char *room = want ? buf_reserve(out, want) : NULL;
    ssize_t n = room ? pread(p->fd, room, want, p->from) : 0;
    if (n > 0)
        buf_grown(out, (size_t)n);
    if (p->fd >= 0)
        close(p->fd);
}

static void cut_first_line(struct buf *out)
{
    const char *end = out->len ? memchr(out->data, '\n', out->len) : NULL;
    if (end)
        buf_drop_front(out, (size_t)(end - out->data) + 1);
}

bool agent_log_read(const char *path, struct str after, int64_t bytes_max, struct buf *out,
                    char ret_next[static AGENT_LOG_POSITION_BYTES])
{
    _cleanup_free_ char *before = mem_printf("%s.1", path);
    struct part newest = open_part(path), older = open_part(before);
    if (is_at(&newest, after)) {
        older.from = older.size;
        newest.from = place_in(&newest, after);
    } else if (is_at(&older, after)) {
        older.from = place_in(&older, after);
    }
    bytes_max = MAX(INT64_C(0), MIN(bytes_max, (int64_t)AGENT_LOG_TAIL_BYTES_MAX));
    int64_t excess = older.size - older.from + newest.size - newest.from - bytes_max;
    bool is_truncated = excess > 0;
    if (is_truncated) {
        skip(&older, &excess);
        skip(&newest, &excess);
    }
    const struct part *last = newest.fd >= 0 ? &newest : &older;
    snprintf(ret_next, AGENT_LOG_POSITION_BYTES, "%lld-%lld", (long long)last->inode,
             (long long)last->size);
    add_part(&older, out);
    add_part(&newest, out);
    if (is_truncated)
        cut_first_line(out);
    return is_truncated;
}
