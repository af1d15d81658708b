/* spawn_folder.c: see spawn_folder.h. */
#include "machine/spawn_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/macro.h"
#include "base/mem.h"

bool spawn_id_is_valid(struct str id)
{
    for (size_t i = 0; i < id.n; i++)
        if (!(id.p[i] >= 'a' && id.p[i] <= 'z') && !(id.p[i] >= 'A' && id.p[i] <= 'Z') &&
            !(id.p[i] >= '0' && id.p[i] <= '9') && id.p[i] != '-' && id.p[i] != '_')
            return false;
    return id.n >= 1 && id.n < SPAWN_ID_ROOM;
}

int spawn_folder_make(const char *folder, const struct about *about, struct err *err)
{
    _cleanup_free_ char *path = mem_printf("%s/about", folder);
    _cleanup_buf_ struct buf text = BUF_INIT(RECORD_BYTES_MAX);
    struct json_out out = JSON_OUT(&text);
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return file_error(err, "make the folder", folder);
    json_object(&out, NULL);
    json_stringz(&out, "bootId", about->boot_id);
    json_int(&out, "conversation", about->conversation);
    json_stringz(&out, "role", about->role);
    json_stringz(&out, "kind", about->kind);
    json_int(&out, "stopGraceMs", about->stop_grace_ms);
    json_end(&out);
    return file_replace(path, buf_str(&text), false, err);
}

static void copy_text(const struct json *object, const char *key, char *ret, size_t room)
{
    snprintf(ret, room, "%.*s", STR_ARG(json_get_text(object, key)));
}

int spawn_folder_about(const char *folder, struct about *ret, struct err *err)
{
    _cleanup_free_ char *path = mem_printf("%s/about", folder);
    _cleanup_buf_ struct buf text = BUF_INIT(RECORD_BYTES_MAX);
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct json *json;
    int r = file_read(path, &text);
    if (r == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "there is no %s", path);
    if (r < 0)
        return err_set(err, ERR_IO, "cannot read %.160s: %s", path, strerror(-r));
    r = json_parse(&a, buf_str(&text), JSON_DEPTH_DEFAULT, &json, err);
    if (r < 0)
        return r;
    *ret = (struct about){.conversation = json_get_int(json, "conversation", 0),
                          .stop_grace_ms = json_get_int(json, "stopGraceMs", 0)};
    copy_text(json, "bootId", ret->boot_id, sizeof ret->boot_id);
    copy_text(json, "role", ret->role, sizeof ret->role);
    copy_text(json, "kind", ret->kind, sizeof ret->kind);
    return 0;
}

/* Through /proc/self/fd, because the name of a socket has room for 107 bytes only. */
int spawn_folder_connect(const char *folder)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return -1;
    snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/line", at);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&name, sizeof name) < 0)
        close(TAKE_FD(fd));
    close(at);
    return fd;
}

void spawn_folder_remove(const char *folder)
{
    DIR *files = opendir(folder);
    for (struct dirent *e; files && (e = readdir(files));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(files), e->d_name, 0);
    if (files)
        closedir(files);
    rmdir(folder);
}
