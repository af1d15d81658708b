/*
 * shim_line.h: the shim's end of the line that shim.h describes.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"

enum { LINE_PEERS_MAX = 8, LINE_LASTING_MAX = 3 };

struct shim_line;

struct line_peer {
    struct shim_line *line;
    struct loop_io io;
};

/* A machine asks for a stop; `grace_ms` -1: it left that to the order. */
typedef void line_stop_fn(void *ctx, int64_t grace_ms);

struct shim_line {
    struct loop *loop;
    line_stop_fn *on_stop;
    void *ctx;
    struct loop_io listener;
    struct line_peer peers[LINE_PEERS_MAX];
    size_t next; /* whose place the next one takes if all are taken: the oldest's */
    struct buf lasting[LINE_LASTING_MAX];
    size_t lasting_count;
};

void shim_line_init(struct shim_line *l, struct loop *loop, line_stop_fn *on_stop, void *ctx);
/* The line that was inherited; nothing happens if `fd` is none. */
void shim_line_adopt(struct shim_line *l, int fd);
/* `line` in the folder of the spawn. */
int shim_line_listen(struct shim_line *l, const char *folder, struct err *err);
/* To everybody. A lasting one is told to everybody who comes later, too. */
void shim_line_tell(struct shim_line *l, struct str fact, bool lasting);
void shim_line_close(struct shim_line *l);
