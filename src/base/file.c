/* file.c: see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { READ_BYTES = 4096 };

int file_error(struct err *err, const char *what, const char *path)
{
    return err_set(err, ERR_IO, "cannot %s %.160s: %s", what, path, strerror(errno));
}

int file_read_fd(int fd, struct buf *ret)
{
    for (;;) {
        char *room = buf_reserve(ret, READ_BYTES);
        if (!room)
            return -EFBIG;
        ssize_t n = read(fd, room, READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        buf_grown(ret, (size_t)n);
    }
}

int file_read(const char *path, struct buf *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return -errno;
    int r = file_read_fd(fd, ret);
    close(fd);
    return r;
}

static int write_all(int fd, struct str text)
{
    while (text.n) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno != EINTR)
            return -1;
        text = str_skip(text, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

int file_replace(const char *path, struct str text, bool sync, struct err *err)
{
    _cleanup_free_ char *beside = mem_printf("%s.new.%d", path, (int)getpid());
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return file_error(err, "create", beside);
    int r = write_all(fd, text);
    if (r == 0 && sync)
        r = fsync(fd);
    if (close(fd) < 0 || r < 0 || rename(beside, path) < 0) {
        file_error(err, "write", path);
        unlink(beside);
        return -ERR_IO;
    }
    return 0;
}

int file_make_folder(const char *path, struct err *err)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST) /* as it nearly always is */
        return 0;
    _cleanup_free_ char *part = mem_strdup(path);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return file_error(err, "make the folder", part);
        *slash = '/';
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return file_error(err, "make the folder", path);
    return 0;
}

int file_make_data_folder(const char *path, struct err *err)
{
    struct err cause = ERR_INIT;
    struct stat st;
    int r = file_make_folder(path, &cause);
    if (r == 0 && stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        r = err_set(&cause, ERR_CONFIG, "%.160s is no folder", path);
    else if (r == 0 && access(path, W_OK | X_OK) < 0)
        r = file_error(&cause, "write in the folder", path);
    if (r == 0)
        return 0;
    return err_set(err, ERR_CONFIG, "%.200s; name another folder with --data DIR", cause.message);
}
