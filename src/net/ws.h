/*
 * ws.h: RFC 6455 framing, the server's side. Pure: no sockets.
 *
 * The reader takes bytes as they come and yields whole messages and control frames. It enforces:
 * masked frames only; no reserved bits or opcodes; control frames of at most 125 bytes, never
 * fragmented, allowed between fragments; continuation only after a start; text is valid UTF-8,
 * checked as it arrives, so that a bad byte fails at once and not at the end of the message;
 * minimal length encodings; close payloads empty or with a legal code and a UTF-8 reason.
 * On an error the connection is to be failed with `close_code` (1002, 1007, 1009).
 *
 *     for (enum ws_event e; (e = ws_read(&r, &in)) != WS_MORE;) {
 *         if (e == WS_FAILED) { ws_write_close(out, r.close_code, r.reason); …close; break; }
 *         …r.opcode, r.payload
 *     }
 *
 * What comes out never depends on how the bytes were cut on their way. After a close frame was
 * delivered further input is swallowed (RFC 6455 §1.4); after a failure none is taken.
 *
 * Between messages a reader owns no memory: what it allocates for a payload it gives back in the
 * call after the one that delivered it, the call that returns WS_MORE at the latest. A peer cannot
 * make it allocate ahead of the bytes it has sent.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum ws_opcode {
    WS_CONTINUATION = 0,
    WS_TEXT = 1,
    WS_BINARY = 2,
    WS_CLOSE = 8,
    WS_PING = 9,
    WS_PONG = 10,
};

enum ws_event {
    WS_MORE,    /* input used up, nothing complete */
    WS_MESSAGE, /* a whole text or binary message */
    WS_CONTROL, /* ping, pong or close */
    WS_FAILED,  /* see close_code, reason */
};

enum { WS_CONTROL_BYTES_MAX = 125, WS_HEAD_BYTES_MAX = 14, WS_NO_STATUS = 1005 };

struct ws_reader {
    size_t message_bytes_max; /* set at init */
    /* results, valid after ws_read() returned WS_MESSAGE or WS_CONTROL until the next call */
    enum ws_opcode opcode;
    int close_code;     /* of a received close (1005 if it carried none), or why it failed */
    struct str payload; /* of a close: code and reason as received, fit to be sent back */
    const char *reason; /* of a failure, static text */
    /* private */
    struct buf data;    /* the message so far, behind it the payload of a control frame */
    size_t message_len; /* how much of data is message, up to the current frame */
    uint64_t left;      /* payload bytes of this frame still to come */
    uint32_t utf8;      /* of the text message, across fragments */
    uint8_t head[WS_HEAD_BYTES_MAX]; /* of the current frame; its last four bytes are the mask */
    uint8_t head_len;
    uint8_t mask_at;        /* which of the four comes next */
    uint8_t message_opcode; /* 0: no message begun */
    bool in_payload;        /* the head is complete and checked */
    bool delivered;         /* payload points into data */
    bool closed, failed;
};

void ws_reader_init(struct ws_reader *r, size_t message_bytes_max);
void ws_reader_release(struct ws_reader *r);
/* Consumes from the front of *in. Call again while it returns anything but WS_MORE or WS_FAILED. */
enum ws_event ws_read(struct ws_reader *r, struct str *in);

/* Has a frame or a message begun that has not come to its end? */
bool ws_is_reading(const struct ws_reader *r);

/* Unmasked server frames, FIN set. A control frame has at most WS_CONTROL_BYTES_MAX bytes. */
void ws_write_frame(struct buf *out, enum ws_opcode opcode, struct str payload);
/*
 * `code` is one a close frame may carry, or WS_NO_STATUS for an empty one; `reason` may be NULL and
 * is cut to fit, between characters.
 */
void ws_write_close(struct buf *out, int code, const char *reason);
/* Codes that may stand in a close frame: registered ones, 3000–3999 and 4000–4999. */
bool ws_close_code_is_valid(int code);
/* Sec-WebSocket-Accept for a key; false if the key is not 16 base64 bytes. */
bool ws_accept_key(struct str key, struct buf *ret);

/*
 * UTF-8 in pieces: *state is 0 at the start; false at the first byte that no continuation could
 * make right. The text is whole where *state is 0 again.
 */
bool ws_utf8_feed(uint32_t *state, struct str bytes);
