/* shim_notify.c: see shim_notify.h. */
#include "machine/shim_notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "machine/tree.h"

enum {
    DATAGRAM_BYTES_MAX = 4096,
    DATAGRAMS_PER_TURN = 64, /* then others have their turn */
    PAUSE_US = 1000000,
};

/* ---- passing on ---- */

static void pass_on(struct shim_notify *n);

static void pause_over(struct loop_timer *timer)
{
    pass_on(CONTAINER_OF(timer, struct shim_notify, pause));
}

static void pass_on(struct shim_notify *n)
{
    if (!n->has_beat && !n->has_text)
        return;
    if (n->has_beat)
        n->handlers->on_beat(n->ctx);
    if (n->has_text)
        n->handlers->on_text(n->ctx, (struct str){n->text, n->text_len});
    n->has_beat = n->has_text = false;
    loop_timer_set(n->loop, &n->pause, loop_now_us(n->loop) + PAUSE_US, pause_over);
}

/* ---- what is said ---- */

static void hear_ready(struct shim_notify *n, struct str value)
{
    if (n->is_ready || !str_is(value, "1"))
        return;
    n->is_ready = true;
    n->handlers->on_ready(n->ctx);
}

static void hear_beat(struct shim_notify *n, struct str value)
{
    n->has_beat |= str_is(value, "1");
}

static void hear_text(struct shim_notify *n, struct str value)
{
    n->text_len = MIN(value.n, sizeof n->text);
    memcpy(n->text, value.p, n->text_len);
    n->has_text = true;
}

static const struct {
    struct str name;
    void (*hear)(struct shim_notify *n, struct str value);
} assignments[] = {
    {STR("READY="), hear_ready},
    {STR("WATCHDOG="), hear_beat},
    {STR("STATUS="), hear_text},
};

static void hear(struct shim_notify *n, struct str line)
{
    for (size_t i = 0; i < ARRAY_LEN(assignments); i++)
        if (str_starts(line, assignments[i].name))
            assignments[i].hear(n, str_skip(line, assignments[i].name.n));
}

static void hear_all(struct shim_notify *n, struct str text)
{
    while (text.n) {
        const char *feed = memchr(text.p, '\n', text.n);
        size_t len = feed ? (size_t)(feed - text.p) : text.n;
        hear(n, (struct str){text.p, len});
        text = str_skip(text, len + 1);
    }
}

/* ---- who says it ---- */

/* A pid of 0 is one of a foreign pid namespace. */
static bool is_believed(const struct ucred *sender)
{
    struct process_stat stat;
    if (sender->pid <= 0)
        return false;
    return tree_is_ours(sender->pid) ||
           (tree_stat(sender->pid, &stat) < 0 && sender->uid == getuid());
}

/* There is room for the credentials and for nothing else: descriptors are closed by the kernel. */
static bool receive(struct shim_notify *n)
{
    char text[DATAGRAM_BYTES_MAX];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec part = {text, sizeof text};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof control};
    ssize_t len = recvmsg(n->io.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (len < 0)
        return errno == EINTR;
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    struct ucred sender;
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
        return true;
    memcpy(&sender, CMSG_DATA(c), sizeof sender);
    if (is_believed(&sender))
        hear_all(n, (struct str){text, (size_t)len});
    return true;
}

static void readable(struct loop_io *io, uint32_t events)
{
    struct shim_notify *n = CONTAINER_OF(io, struct shim_notify, io);
    (void)events;
    for (int i = 0; i < DATAGRAMS_PER_TURN && receive(n); i++)
        ;
    if (!n->pause.heap_index)
        pass_on(n);
}

void shim_notify_flush(struct shim_notify *n)
{
    if (n->io.fd < 0)
        return;
    for (int i = 0; i < DATAGRAMS_PER_TURN && receive(n); i++)
        ;
    pass_on(n);
}

/* ---- the socket ---- */

int shim_notify_open(struct shim_notify *n, struct loop *loop, const char *spawn_id,
                     const struct notify_handlers *handlers, void *ctx, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int one = 1;
    int len = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "reeve/%s", spawn_id);
    *n = (struct shim_notify){.loop = loop, .handlers = handlers, .ctx = ctx, .io = LOOP_IO_INIT};
    if (len < 0 || (size_t)len >= sizeof address.sun_path - 1)
        return err_set(err, ERR_CONFIG, "the spawn id is too long for the name of a socket");
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) < 0 ||
        bind(fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) < 0 ||
        loop_watch(loop, &n->io, fd, EPOLLIN, readable) < 0) {
        err_set(err, ERR_IO, "cannot listen for notifications: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -ERR_IO;
    }
    n->variable = mem_printf("NOTIFY_SOCKET=@reeve/%s", spawn_id);
    return 0;
}

void shim_notify_close(struct shim_notify *n)
{
    int fd = n->io.fd;
    if (fd >= 0) {
        loop_timer_stop(n->loop, &n->pause);
        loop_unwatch(n->loop, &n->io);
        close(fd);
    }
    mem_freep(&n->variable);
}
