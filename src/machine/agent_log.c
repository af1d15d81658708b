/* agent_log.c: see agent_log.h. */
#include "machine/agent_log.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"

char *agent_log_path(const char *data_folder, int64_t conversation, const char *role)
{
    return mem_printf("%s/logs/%lld/%s.log", data_folder, (long long)conversation, role);
}

/* Adds the last `bytes` of a file; how many there are in front of them, -1 if there is no file. */
static int64_t add_end(const char *path, int64_t bytes, struct buf *out)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int64_t size = fstat(fd, &st) == 0 ? st.st_size : 0, from = MAX(size - bytes, INT64_C(0));
    size_t want = (size_t)(size - from);
    char *room = want ? buf_reserve(out, want) : NULL;
    ssize_t n = room ? pread(fd, room, want, from) : 0;
    if (n > 0)
        buf_grown(out, (size_t)n);
    close(fd);
    return from;
}

bool agent_log_tail(const char *path, int64_t tail_bytes, struct buf *out)
{
    _cleanup_free_ char *before = mem_printf("%s.1", path);
    _cleanup_buf_ struct buf newest = BUF_INIT(AGENT_LOG_TAIL_BYTES_MAX + 1);
    tail_bytes = MAX(INT64_C(0), MIN(tail_bytes, (int64_t)AGENT_LOG_TAIL_BYTES_MAX));
    int64_t skipped = add_end(path, tail_bytes, &newest);
    if (skipped <= 0)
        skipped = add_end(before, tail_bytes - (int64_t)newest.len, out);
    buf_add_str(out, buf_str(&newest));
    if (skipped <= 0 || !out->len)
        return skipped > 0;
    const char *end = memchr(out->data, '\n', out->len);
    if (end)
        buf_drop_front(out, (size_t)(end - out->data) + 1);
    return true;
}
