/*
 * conn.h: one connection. Private to src/net: net.c accepts and owns, conn.c moves bytes, and
 * conn_http.c and conn_ws.c give them meaning.
 *
 *     ACCEPTED ─▶ HTTP_READING ◀──────────┐ answered, keep-alive
 *                    │ whole request      │
 *                    ▼                    │
 *                 HTTP_WAITING ───────────┤
 *                    │        │           │
 *          upgrade   │        │ stream    │
 *                    ▼        ▼           │
 *                 SOCKET    STREAM        ▼
 *                    └────────┴──────▶ CLOSING ─▶ freed
 *
 * CLOSING: nothing is read any more but to throw it away; output drains, then the sending side is
 * shut, then the other side has CLOSE_LINGER to close too.
 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "net/net.h"
#include "net/tls.h"
#include "net/ws.h"

enum { NET_READ_BYTES = 16 * 1024 };

enum conn_state {
    CONN_HANDSHAKE, /* TLS */
    CONN_HTTP_READING,
    CONN_HTTP_WAITING,
    CONN_STREAM,
    CONN_SOCKET,
    CONN_CLOSING,
};

struct conn {
    struct loop_io io;
    struct loop_timer timer;
    struct net *net;
    struct peer *peer;
    struct conn *prev, *next; /* all of net's */
    struct conn *next_flush;  /* of those with output to write at the end of the turn */
    struct tls_session *tls;  /* NULL: plain */
    enum conn_state state;
    bool in_flush, is_announced, is_loopback, read_ended, sending_shut;
    bool keep_alive, is_head_request, is_http_1_0, sent_continue;
    bool reading_stopped;    /* EPOLLIN off: it does not read, so it is not read from */
    bool sent_close;         /* WebSocket close frame */
    int close_code;          /* it asked to close; answered after what it asked before */
    unsigned unanswered;     /* WebSocket messages handed to the owner, … */
    size_t unanswered_bytes; /* … and their bytes since there were none */
    struct buf in;
    size_t scanned;               /* of http_head_length() */
    size_t head_bytes;            /* of a head whose body is still arriving; 0: none */
    size_t need_bytes;            /* head and body, once the length is known; else 0 */
    struct http_chunked *chunked; /* its body, if chunked */
    struct buf body;
    struct buf out;
    size_t out_at;       /* written so far */
    int64_t started_us;  /* first byte of the request that is arriving; 0: none */
    int64_t active_us;   /* last byte in, or progress out */
    int64_t out_us;      /* since when output waits, or its last progress */
    int64_t deadline_us; /* of CLOSING */
    struct ws_reader *ws;
    void *data;
    void (*release_data)(void *data);
};

struct net {
    struct loop *loop;
    const struct options *options;
    struct tls *tls;
    struct net_handlers handlers;
    struct net_stats stats;
    struct conn *conns;
    struct conn *flush, **flush_end; /* in the order in which they were answered */
    struct listener *listeners;
    bool shutting_down;
    char read_to[NET_READ_BYTES]; /* every read lands here: a buffer per read costs more than a copy
                                   */
    char date[40];                /* value of the Date header */
    int64_t date_second;
};

/* conn.c */
void conn_open(struct net *n, int fd, bool is_loopback);
void conn_free(struct conn *c);
/* Appends to the output; it is written at the end of the turn. */
void conn_out(struct conn *c, struct str bytes);
/* Output is queued: send it, then close. */
void conn_begin_close(struct conn *c);
void conn_flush_all(struct net *n);
void conn_touch_timer(struct conn *c);
/* It has given us as much to do as we take at once. */
bool conn_has_asked_enough(const struct conn *c);

/* conn_http.c: each returns when it needs more input or the connection changed state. */
void conn_http_input(struct conn *c);
void conn_http_fail(struct conn *c, int status, const char *reason);
void conn_http_timed_out(struct conn *c);
void conn_stream_begin(struct conn *c);
const char *net_date(struct net *n);

/* conn_ws.c */
void conn_ws_input(struct conn *c);
void conn_ws_close(struct conn *c, int code, const char *reason);
void conn_ws_send(struct conn *c, struct str text);
/* The answer to a message that was handed to the owner; empty if it gets none. */
void conn_ws_answer(struct conn *c, struct str text);
/* Asks whether it is still there: a ping, or a pong if it cannot answer any more. */
void conn_ws_probe(struct conn *c);
/* It has ended its sending side: what it asked is answered, then the connection ends. */
void conn_ws_input_ended(struct conn *c);
