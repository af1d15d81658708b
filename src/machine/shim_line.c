/*
 * shim_line.c: see shim_line.h.
 *
 * Nobody is waited for: a packet that does not fit into a peer's socket closes it, and the machine
 * comes again by `line` and is told what lasts.
 */
#include "machine/shim_line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "machine/shim.h"

/* ---- peers ---- */

static void hang_up(struct line_peer *p)
{
    int fd = p->io.fd;
    if (fd < 0)
        return;
    loop_unwatch(p->line->loop, &p->io);
    close(fd);
}

static void send_to(struct line_peer *p, struct str fact)
{
    if (p->io.fd >= 0 && send(p->io.fd, fact.p, fact.n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        hang_up(p);
}

/* False if it is no message of ours: then there is no use in listening any longer. */
static bool obey(struct shim_line *l, struct str text)
{
    struct arena arena = ARENA_INIT;
    const struct json *message;
    bool is_json = json_parse(&arena, text, JSON_DEPTH_DEFAULT, &message, NULL) == 0;
    const struct json *verb = is_json ? json_get(message, "do") : NULL;
    const struct json *grace = is_json ? json_get(message, "graceMs") : NULL;
    if (verb && verb->type == JSON_STRING && str_is(verb->string, "stop"))
        l->on_stop(l->ctx, grace && grace->type == JSON_INT ? grace->integer : -1);
    arena_release(&arena);
    return is_json;
}

/* One message; false if there is no other one to be had. */
static bool take_message(struct line_peer *p)
{
    char text[LINE_BYTES_MAX];
    ssize_t n = recv(p->io.fd, text, sizeof text, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n > 0 && obey(p->line, (struct str){text, (size_t)n}))
        return true;
    hang_up(p);
    return false;
}

static void peer_ready(struct loop_io *io, uint32_t events)
{
    (void)events;
    take_message(CONTAINER_OF(io, struct line_peer, io));
}

static struct line_peer *free_place(struct shim_line *l)
{
    for (size_t i = 0; i < LINE_PEERS_MAX; i++)
        if (l->peers[i].io.fd < 0)
            return &l->peers[i];
    struct line_peer *oldest = &l->peers[l->next];
    l->next = (l->next + 1) % LINE_PEERS_MAX;
    hang_up(oldest);
    return oldest;
}

static void add_peer(struct shim_line *l, int fd)
{
    struct line_peer *p = free_place(l);
    if (loop_watch(l->loop, &p->io, fd, EPOLLIN, peer_ready) < 0) {
        close(fd);
        return;
    }
    for (size_t i = 0; i < l->lasting_count; i++)
        send_to(p, buf_str(&l->lasting[i]));
}

void shim_line_adopt(struct shim_line *l, int fd)
{
    int type;
    socklen_t len = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET)
        return;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    add_peer(l, fd);
}

/* ---- listening ---- */

static void caller_ready(struct loop_io *io, uint32_t events)
{
    (void)events;
    int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        add_peer(CONTAINER_OF(io, struct shim_line, listener), fd);
}

/* A path of any length, by way of its folder's descriptor. */
static int bind_in(int fd, int folder_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/line", folder_fd);
    return bind(fd, (struct sockaddr *)&address, sizeof address);
}

int shim_line_listen(struct shim_line *l, const char *folder, struct err *err)
{
    int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0)
        return file_error(err, "open", folder);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind_in(fd, folder_fd) < 0 || listen(fd, LINE_PEERS_MAX) < 0 ||
        loop_watch(l->loop, &l->listener, fd, EPOLLIN, caller_ready) < 0) {
        file_error(err, "listen in", folder);
        if (fd >= 0)
            close(fd);
    }
    close(folder_fd);
    return l->listener.fd < 0 ? -ERR_IO : 0;
}

/* ---- for the shim ---- */

void shim_line_tell(struct shim_line *l, struct str fact, bool lasting)
{
    if (lasting) {
        REQUIRE(l->lasting_count < LINE_LASTING_MAX);
        struct buf *kept = &l->lasting[l->lasting_count++];
        *kept = BUF_INIT(LINE_BYTES_MAX);
        buf_add_str(kept, fact);
    }
    for (size_t i = 0; i < LINE_PEERS_MAX; i++)
        send_to(&l->peers[i], fact);
}

void shim_line_init(struct shim_line *l, struct loop *loop, line_stop_fn *on_stop, void *ctx)
{
    *l = (struct shim_line){.loop = loop, .on_stop = on_stop, .ctx = ctx, .listener = LOOP_IO_INIT};
    for (size_t i = 0; i < LINE_PEERS_MAX; i++)
        l->peers[i] = (struct line_peer){.line = l, .io = LOOP_IO_INIT};
}

/* What a peer said last is taken before it is hung up on: an unread message would turn what we said
 * last into a connection reset at its end. */
void shim_line_close(struct shim_line *l)
{
    int fd = l->listener.fd;
    for (size_t i = 0; i < LINE_PEERS_MAX; i++) {
        while (l->peers[i].io.fd >= 0 && take_message(&l->peers[i]))
            ;
        hang_up(&l->peers[i]);
    }
    loop_unwatch(l->loop, &l->listener);
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < l->lasting_count; i++)
        buf_release(&l->lasting[i]);
}
