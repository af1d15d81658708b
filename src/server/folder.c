/* folder.c: see folder.h. */
#include "server/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"

enum { TOKEN_BYTES = 32 };

static int io_error(struct err *err, const char *what, const char *path)
{
    return err_set(err, ERR_IO, "cannot %s %.160s: %s", what, path, strerror(errno));
}

int folder_prepare(const char *path, struct err *err)
{
    _cleanup_free_ char *part = mem_strdup(path);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return io_error(err, "make the folder", part);
        *slash = '/';
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return io_error(err, "make the folder", path);
    return 0;
}

static int write_all(int fd, struct str text)
{
    while (text.n) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno != EINTR)
            return -1;
        text = str_skip(text, n > 0 ? (size_t)n : 0);
    }
    return fsync(fd);
}

static int replace_file(const char *path, struct str text, struct err *err)
{
    _cleanup_free_ char *beside = mem_printf("%s.new.%d", path, (int)getpid());
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return io_error(err, "create", beside);
    int r = write_all(fd, text);
    if (close(fd) < 0 || r < 0 || rename(beside, path) < 0) {
        io_error(err, "write", path);
        unlink(beside);
        return -ERR_IO;
    }
    return 0;
}

static int read_token(const char *path, struct buf *ret, struct err *err)
{
    char text[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : io_error(err, "open", path);
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    if (n < 0)
        return io_error(err, "read", path);
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    if (n < 16)
        return err_set(err, ERR_CONFIG, "%.160s: holds no token of at least 16 characters", path);
    buf_add(ret, text, (size_t)n);
    return 0;
}

int folder_operator_token(const char *path, struct buf *ret, struct err *err)
{
    _cleanup_free_ char *file = mem_printf("%s/operator.token", path);
    int r = read_token(file, ret, err);
    if (r < 0 || ret->len > 0)
        return r;
    char token[2 * TOKEN_BYTES + 2];
    random_hex(TOKEN_BYTES, token);
    buf_addz(ret, token);
    token[2 * TOKEN_BYTES] = '\n';
    return replace_file(file, (struct str){token, 2 * TOKEN_BYTES + 1}, err);
}

int folder_write_server(const char *path, const char *url, struct err *err)
{
    _cleanup_free_ char *file = mem_printf("%s/server.json", path);
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    struct json_out j = JSON_OUT(&b);
    json_object(&j, NULL);
    json_stringz(&j, "url", url);
    json_int(&j, "pid", getpid());
    json_end(&j);
    buf_addc(&b, '\n');
    return replace_file(file, buf_str(&b), err);
}

void folder_remove_server(const char *path)
{
    _cleanup_free_ char *file = mem_printf("%s/server.json", path);
    unlink(file);
}
