/* input.c: see input.h. */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 64 * 1024 };

static int read_all(int fd, const char *name, struct buf *ret, struct err *err)
{
    for (;;) {
        char *room = buf_reserve(ret, READ_BYTES);
        if (!room)
            return err_set(err, ERR_TOO_LARGE, "%s is over %d bytes", name, INPUT_BYTES_MAX);
        ssize_t n = read(fd, room, READ_BYTES);
        if (n == 0)
            return 0;
        if (n > 0)
            buf_grown(ret, (size_t)n);
        else if (errno != EINTR)
            return err_set(err, ERR_USAGE, "cannot read %s: %s", name, strerror(errno));
    }
}

int input_text(const char *word, struct buf *ret, struct err *err)
{
    if (strcmp(word, "-") != 0) {
        buf_addz(ret, word);
    } else {
        int r = read_all(STDIN_FILENO, "standard input", ret, err);
        if (r < 0)
            return r;
        if (ret->len && ret->data[ret->len - 1] == '\n')
            buf_truncate(ret, ret->len - 1);
    }
    if (!str_is_utf8(buf_str(ret)))
        return err_set(err, ERR_USAGE, "the text is not UTF-8; send it with --attach");
    return 0;
}

int input_file(const char *path, struct buf *ret, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return err_set(err, ERR_USAGE, "cannot read %s: %s", path, strerror(errno));
    int r = read_all(fd, path, ret, err);
    close(fd);
    return r;
}

int input_json(struct arena *a, struct str text, const char *what, const struct json **ret,
               struct err *err)
{
    struct err detail = ERR_INIT;
    if (json_parse(a, text, JSON_DEPTH_MAX, ret, &detail) < 0)
        return err_set(err, ERR_USAGE, "%s is not JSON: %s", what, detail.message);
    return 0;
}
