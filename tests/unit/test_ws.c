/*
 * test_ws.c: the WebSocket reader, case by case.
 *
 * A row is a list of frames and the transcript of events they must lead to:
 *
 *     T(…) B(…) text, binary; I(…) O(…) ping, pong; C1000(…) close and reason; F1002 failed
 *
 * Each row is fed whole, cut in two at every place, and byte by byte; the transcript must be the
 * same. Pieces are copied to memory of their exact size for the sanitizers.
 */
#include "net/ws.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tap.h"

enum { MESSAGE_MAX = 200 };

struct frame {
    int first; /* byte: FIN, reserved bits, opcode; or AS_IS; 0 ends the list */
    struct str payload;
};

enum { FIN = 0x80, TEXT = 1, BINARY = 2, CLOSE = 8 | FIN, PING = 9 | FIN, PONG = 10 | FIN };
enum { LAST = FIN, MIDDLE = 0x100 }; /* fragments; MIDDLE stands for a first byte of 0 */
enum { AS_IS = 0x200 };              /* no frame: these very bytes */

static void add_frame(struct buf *b, int first, struct str payload, uint32_t mask)
{
    uint8_t key[4] = {(uint8_t)(mask >> 24), (uint8_t)(mask >> 16), (uint8_t)(mask >> 8),
                      (uint8_t)mask};
    buf_addc(b, (char)first);
    if (payload.n < 126) {
        buf_addc(b, (char)(0x80 | payload.n));
    } else if (payload.n <= 0xFFFF) {
        buf_addc(b, (char)(0x80 | 126));
        buf_addc(b, (char)(payload.n >> 8));
        buf_addc(b, (char)payload.n);
    } else {
        buf_addc(b, (char)(0x80 | 127));
        for (int shift = 56; shift >= 0; shift -= 8)
            buf_addc(b, (char)((uint64_t)payload.n >> shift));
    }
    buf_add(b, key, sizeof key);
    for (size_t i = 0; i < payload.n; i++)
        buf_addc(b, (char)(payload.p[i] ^ key[i % 4]));
}

static void write_event(struct buf *out, const struct ws_reader *r, enum ws_event event)
{
    struct str payload = r->payload;
    if (event == WS_FAILED) {
        buf_addf(out, "F%d", r->close_code);
        CHECK(r->reason != NULL);
        return;
    }
    if (r->opcode == WS_CLOSE) {
        buf_addf(out, "C%d", r->close_code);
        payload = str_skip(payload, 2);
    } else {
        buf_addc(out, "-TB------IO"[r->opcode]);
    }
    CHECK_INT(event, r->opcode >= WS_CLOSE ? WS_CONTROL : WS_MESSAGE);
    buf_addc(out, '(');
    buf_add_str(out, payload);
    buf_addc(out, ')');
}

/* Reads one piece; false when the reader has failed. */
static bool read_piece(struct ws_reader *r, struct str piece, struct buf *out)
{
    _cleanup_free_ char *copy = mem_alloc(piece.n);
    if (piece.n > 0)
        memcpy(copy, piece.p, piece.n);
    struct str in = {copy, piece.n};
    for (enum ws_event e; (e = ws_read(r, &in)) != WS_MORE;) {
        write_event(out, r, e);
        if (e == WS_FAILED) {
            struct str late = STR("\x8a\x80\0\0\0\0"); /* a sound frame comes too late */
            CHECK_INT(ws_read(r, &late), WS_FAILED);
            CHECK_INT(late.n, 6);
            return false;
        }
    }
    CHECK_INT(in.n, 0);
    return true;
}

static void transcript(struct str in, size_t first, size_t step, struct buf *out)
{
    struct ws_reader r;
    ws_reader_init(&r, MESSAGE_MAX);
    size_t n = first;
    while (in.n > 0 && read_piece(&r, (struct str){in.p, MIN(n, in.n)}, out)) {
        in = str_skip(in, n);
        n = step;
    }
    ws_reader_release(&r);
}

static void check_bytes(const char *name, struct str in, const char *want)
{
    _cleanup_buf_ struct buf got = BUF_INIT(1 << 16);
    transcript(in, in.n, 1, &got);
    if (!str_is(buf_str(&got), want))
        tap_fail(__FILE__, __LINE__, "%s: %.*s, not %s", name, STR_ARG(buf_str(&got)), want);
    for (size_t cut = 0; cut < in.n; cut++) {
        buf_clear(&got);
        transcript(in, cut, cut ? in.n : 1, &got); /* cut 0: byte by byte */
        if (!str_is(buf_str(&got), want))
            tap_fail(__FILE__, __LINE__, "%s, cut at %zu: %.*s", name, cut, STR_ARG(buf_str(&got)));
    }
}

struct ws_row {
    const char *want;
    struct frame frames[8];
};

static void check_row(const struct ws_row *row)
{
    _cleanup_buf_ struct buf in = BUF_INIT(1 << 20);
    for (const struct frame *f = row->frames; f->first != 0; f++) {
        if (f->first == AS_IS)
            buf_add_str(&in, f->payload);
        else
            add_frame(&in, f->first & 0xFF, f->payload, 0x37fa213d);
    }
    check_bytes(row->want, buf_str(&in), row->want);
}

#define CHECK_ROWS(...)                                       \
    do {                                                      \
        const struct ws_row rows[] = {__VA_ARGS__};           \
        for (size_t row_ = 0; row_ < ARRAY_LEN(rows); row_++) \
            check_row(&rows[row_]);                           \
    } while (0)
#define S(text) STR(text)
#define S25 "abcdefghijklmnopqrstuvwxy"
#define S125 S25 S25 S25 S25 S25
/* "κόσμε", the Greek word the Autobahn cases use too, and its start */
#define KOSME "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5"

// clang-format off
TEST(ws_messages)
{
    CHECK_ROWS(
        {"T()",            {{TEXT | FIN, S("")}}},
        {"B()",            {{BINARY | FIN, S("")}}},
        {"T(hello)",       {{TEXT | FIN, S("hello")}}},
        {"T(" S125 ")",    {{TEXT | FIN, S(S125)}}},
        {"T(" S125 "z)",   {{TEXT | FIN, S(S125 "z")}}},
        {"B(" S125 "yz)",  {{BINARY | FIN, S(S125 "yz")}}},
        {"B(\xff\xfe)",    {{BINARY | FIN, S("\xff\xfe")}}},
        {"T(a)T(b)B(c)",   {{TEXT | FIN, S("a")}, {TEXT | FIN, S("b")}, {BINARY | FIN, S("c")}}});
}

TEST(ws_control_frames)
{
    CHECK_ROWS(
        {"I()",            {{PING, S("")}}},
        {"I(hello)",       {{PING, S("hello")}}},
        {"I(\xff\xfe)",    {{PING, S("\xff\xfe")}}},
        {"I(" S125 ")",    {{PING, S(S125)}}},
        {"O()O(x)",        {{PONG, S("")}, {PONG, S("x")}}},
        {"I(1)I(2)I(3)",   {{PING, S("1")}, {PING, S("2")}, {PING, S("3")}}},
        {"O(x)I(y)T(z)",   {{PONG, S("x")}, {PING, S("y")}, {TEXT | FIN, S("z")}}},
        {"F1002",          {{PING, S(S125 "z")}}},
        {"F1002",          {{PONG, S(S125 "z")}}},
        {"F1002",          {{CLOSE, S("\x03\xe8" S125)}}},
        {"F1002",          {{9, S("a")}}},
        {"F1002",          {{10, S("a")}}},
        {"F1002",          {{8, S("")}}},
        {"F1002",          {{9, S("a")}, {LAST, S("b")}}});
}

TEST(ws_reserved_bits)
{
    CHECK_ROWS(
        {"F1002",          {{TEXT | FIN | 0x10, S("a")}}},
        {"F1002",          {{TEXT | FIN | 0x20, S("a")}}},
        {"F1002",          {{TEXT | FIN | 0x40, S("a")}}},
        {"F1002",          {{BINARY | FIN | 0x70, S("a")}}},
        {"F1002",          {{PING | 0x50, S("a")}}},
        {"F1002",          {{CLOSE | 0x60, S("")}}},
        {"T(a)F1002",      {{TEXT | FIN, S("a")}, {TEXT | FIN | 0x20, S("a")}, {PING, S("")}}},
        {"F1002",          {{TEXT, S("a")}, {LAST | 0x40, S("b")}}});
}

TEST(ws_unknown_opcodes)
{
    for (int opcode = 0; opcode < 16; opcode++) {
        if (opcode <= 2 || (opcode >= 8 && opcode <= 10))
            continue;
        CHECK_ROWS(
            {"F1002",          {{opcode | FIN, S("")}}},
            {"F1002",          {{opcode | FIN, S("hello")}}},
            {"T(a)F1002",      {{TEXT | FIN, S("a")}, {opcode | FIN, S("")}, {PING, S("")}}});
    }
}

TEST(ws_fragments)
{
    CHECK_ROWS(
        {"T(ab)",          {{TEXT, S("a")}, {LAST, S("b")}}},
        {"B(abc)",         {{BINARY, S("a")}, {MIDDLE, S("b")}, {LAST, S("c")}}},
        {"T()",            {{TEXT, S("")}, {MIDDLE, S("")}, {LAST, S("")}}},
        {"T(b)",           {{TEXT, S("")}, {MIDDLE, S("b")}, {LAST, S("")}}},
        {"I(x)T(ab)",      {{TEXT, S("a")}, {PING, S("x")}, {LAST, S("b")}}},
        {"I(x)O(y)T(ab)",  {{TEXT, S("a")}, {PING, S("x")}, {PONG, S("y")}, {LAST, S("b")}}},
        {"I()T(ab)",       {{TEXT, S("a")}, {PING, S("")}, {LAST, S("b")}}},
        {"I(x)T(b)",       {{TEXT, S("")}, {PING, S("x")}, {LAST, S("b")}}},
        {"I(x)I(y)B(abc)", {{BINARY, S("a")}, {PING, S("x")}, {MIDDLE, S("b")}, {PING, S("y")},
                            {LAST, S("c")}}},
        {"I(" S125 ")T(ab)", {{TEXT, S("a")}, {PING, S(S125)}, {LAST, S("b")}}},
        {"T(ab)T(cd)",     {{TEXT, S("a")}, {LAST, S("b")}, {TEXT, S("c")}, {LAST, S("d")}}},
        {"C1000()",        {{TEXT, S("a")}, {CLOSE, S("\x03\xe8")}, {LAST, S("b")}}},
        {"F1002",          {{LAST, S("a")}}},
        {"F1002",          {{MIDDLE, S("a")}}},
        {"F1002",          {{MIDDLE, S("a")}, {LAST, S("b")}}},
        {"T(ab)F1002",     {{TEXT, S("a")}, {LAST, S("b")}, {LAST, S("c")}}},
        {"T(a)F1002",      {{TEXT | FIN, S("a")}, {LAST, S("b")}}},
        {"F1002",          {{TEXT, S("a")}, {TEXT, S("b")}}},
        {"F1002",          {{TEXT, S("a")}, {TEXT | FIN, S("b")}}},
        {"F1002",          {{TEXT, S("a")}, {BINARY | FIN, S("b")}}},
        {"I(x)F1002",      {{BINARY, S("a")}, {PING, S("x")}, {TEXT | FIN, S("b")}}});
}

TEST(ws_frame_heads)
{
    CHECK_ROWS( /* not masked; lengths longer than they need to be; beyond 63 bits */
        {"F1002",          {{AS_IS, S("\x81\x05hello")}}},
        {"F1002",          {{AS_IS, S("\x89\x00")}}},
        {"F1002",          {{AS_IS, S("\x81\xfe\x00\x05\0\0\0\0hello")}}},
        {"F1002",          {{AS_IS, S("\x81\xfe\x00\x7d\0\0\0\0")}}},
        {"F1002",          {{AS_IS, S("\x81\xff\0\0\0\0\0\0\0\x05\0\0\0\0hello")}}},
        {"F1002",          {{AS_IS, S("\x81\xff\0\0\0\0\0\0\xff\xff\0\0\0\0")}}},
        {"F1002",          {{AS_IS, S("\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0")}}},
        {"F1002",          {{AS_IS, S("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0")}}},
        {"F1009",          {{AS_IS, S("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0")}}},
        {"F1002",          {{AS_IS, S("GET / HTTP/1.1\r\n")}}},
        {"",               {{AS_IS, S("\x81\xfe\x00")}}},
        {"",               {{AS_IS, S("\x81")}}});
}

TEST(ws_text_is_utf8)
{
#define FAILS(bytes) {"F1007", {{TEXT | FIN, S(bytes)}}}
#define HOLDS(bytes) {"T(" bytes ")", {{TEXT | FIN, S(bytes)}}}
    CHECK_ROWS(
        HOLDS(KOSME),
        HOLDS("hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!"),
        HOLDS("\xc2\x80"), HOLDS("\xdf\xbf"), HOLDS("\xe0\xa0\x80"), HOLDS("\xef\xbf\xbf"),
        HOLDS("\xed\x9f\xbf"), HOLDS("\xee\x80\x80"), HOLDS("\xef\xbf\xbe"),
        HOLDS("\xf0\x90\x80\x80"), HOLDS("\xf4\x8f\xbf\xbf"), HOLDS("\xf0\x9f\xbf\xbe"),
        HOLDS("12345678\xc3\xa9" "12345678"), HOLDS("1234567\xe2\x82\xac" "123456789"),
        FAILS("\x80"), FAILS("\xbf"), FAILS("a\x80" "b"), FAILS("\xc0\xaf"), FAILS("\xc1\xbf"),
        FAILS("\xe0\x80\xaf"), FAILS("\xe0\x9f\xbf"), FAILS("\xf0\x80\x80\xaf"),
        FAILS("\xf0\x8f\xbf\xbf"), FAILS("\xf8\x88\x80\x80\x80"), FAILS("\xfc\x84\x80\x80\x80\x80"),
        FAILS("\xed\xa0\x80"), FAILS("\xed\xaf\xbf"), FAILS("\xed\xbf\xbf"),
        FAILS("\xed\xa0\x80\xed\xb0\x80"), FAILS("\xf4\x90\x80\x80"), FAILS("\xf5\x80\x80\x80"),
        FAILS("\xfe"), FAILS("\xff"), FAILS("\xc3"), FAILS("\xe2\x82"), FAILS("\xf0\x9f\x98"),
        FAILS("\xc3(" "x"), FAILS("\xe2(\xa1"), FAILS("\xe2\x82("),
        FAILS(KOSME "\xed\xa0\x80" "ed"),
        FAILS("12345678" "12345678\xff"), FAILS("1234567\xff"));
#undef FAILS
#undef HOLDS
}

TEST(ws_utf8_across_fragments)
{
    CHECK_ROWS(
        {"T(" KOSME ")",   {{TEXT, S("\xce\xba\xe1")}, {MIDDLE, S("\xbd")},
                            {LAST, S("\xb9\xcf\x83\xce\xbc\xce\xb5")}}},
        {"I(\xff)T(\xc3\xa9)", {{TEXT, S("\xc3")}, {PING, S("\xff")}, {LAST, S("\xa9")}}},
        {"T(\xc3\xa9)",    {{TEXT, S("\xc3")}, {MIDDLE, S("")}, {LAST, S("\xa9")}}},
        {"F1007",          {{TEXT, S("\xc3")}, {LAST, S("")}}},
        {"F1007",          {{TEXT, S("\xc3")}, {LAST, S("a")}}},
        {"F1007",          {{TEXT, S(KOSME)}, {MIDDLE, S("\xf4\x90\x80\x80")}}},
        {"T(a)T(\xc3\xa9)", {{TEXT | FIN, S("a")}, {TEXT | FIN, S("\xc3\xa9")}}});
}

TEST(ws_close_frames)
{
    CHECK_ROWS(
        {"C1005()",        {{CLOSE, S("")}}},
        {"C1000()",        {{CLOSE, S("\x03\xe8")}}},
        {"C1000(bye)",     {{CLOSE, S("\x03\xe8" "bye")}}},
        {"C1001(" KOSME ")", {{CLOSE, S("\x03\xe9" KOSME)}}},
        {"C1000(" S25 S25 S25 S25 "12345678901234567890123)",
                           {{CLOSE, S("\x03\xe8" S25 S25 S25 S25 "12345678901234567890123")}}},
        {"C1000()",        {{CLOSE, S("\x03\xe8")}, {PING, S("x")}, {TEXT | FIN, S("y")}}},
        {"C1000()",        {{CLOSE, S("\x03\xe8")}, {AS_IS, S("anything at all")}}},
        {"T(a)C1000()",    {{TEXT | FIN, S("a")}, {CLOSE, S("\x03\xe8")}, {CLOSE, S("\x03\xe8")}}},
        {"F1002",          {{CLOSE, S("\x03")}}},
        {"F1007",          {{CLOSE, S("\x03\xe8" KOSME "\xed\xa0\x80" "ed")}}},
        {"F1007",          {{CLOSE, S("\x03\xe8\xc3")}}});
}
// clang-format on

TEST(ws_close_codes)
{
    static const int valid[] = {1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010,
                                1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999};
    static const int invalid[] = {0,    1,    999,  1004, 1005, 1006, 1015,
                                  1016, 1100, 1999, 2000, 2999, 5000, 65535};
    for (size_t i = 0; i < ARRAY_LEN(valid) + ARRAY_LEN(invalid); i++) {
        bool good = i < ARRAY_LEN(valid);
        int code = good ? valid[i] : invalid[i - ARRAY_LEN(valid)];
        char payload[2] = {(char)(code >> 8), (char)code}, want[16];
        snprintf(want, sizeof want, good ? "C%d()" : "F%d", good ? code : 1002);
        _cleanup_buf_ struct buf in = BUF_INIT(64);
        add_frame(&in, CLOSE, (struct str){payload, 2}, 0);
        check_bytes(want, buf_str(&in), want);
        CHECK_INT(ws_close_code_is_valid(code), good);
    }
}

TEST(ws_message_limit)
{
    _cleanup_free_ char *bytes = mem_zalloc(MESSAGE_MAX + 1);
    static const struct {
        size_t first, second;
        bool fits;
    } rows[] = {
        {MESSAGE_MAX, 0, true},  {MESSAGE_MAX + 1, 0, false}, {MESSAGE_MAX - 1, 1, true},
        {MESSAGE_MAX, 1, false}, {0, MESSAGE_MAX, true},      {1, MESSAGE_MAX, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_buf_ struct buf in = BUF_INIT(1024), out = BUF_INIT(1024);
        add_frame(&in, BINARY, (struct str){bytes, rows[i].first}, 1);
        add_frame(&in, PING, STR("ping"), 2); /* does not count */
        add_frame(&in, LAST, (struct str){bytes, rows[i].second}, 3);
        transcript(buf_str(&in), in.len, 1, &out);
        bool failed = out.len >= 5 && memcmp(out.data + out.len - 5, "F1009", 5) == 0;
        CHECK_INT(failed, !rows[i].fits);
        CHECK(failed || memchr(out.data, 'B', out.len));
    }
}

TEST(ws_too_big_is_known_from_the_head)
{
    struct ws_reader r;
    ws_reader_init(&r, 1 << 20);
    struct str in = STR("\x82\xff\0\0\0\0\0\x10\0\x01\0\0\0\0");
    CHECK_INT(ws_read(&r, &in), WS_FAILED);
    CHECK_INT(r.close_code, 1009);
    in = STR("more");
    CHECK_INT(ws_read(&r, &in), WS_FAILED); /* and it stays failed */
    CHECK_INT(in.n, 4);
    ws_reader_release(&r);
}

TEST(ws_no_memory_ahead_of_the_bytes)
{
    struct ws_reader r;
    ws_reader_init(&r, 1 << 20);
    struct str in = STR("\x82\xff\0\0\0\0\0\x10\0\0\0\0\0\0abc");
    CHECK_INT(ws_read(&r, &in), WS_MORE);
    CHECK(r.data.cap < 4096);
    ws_reader_release(&r);
}

TEST(ws_idle_reader_is_small)
{
    CHECK(sizeof(struct ws_reader) <= 200);
    _cleanup_buf_ struct buf in = BUF_INIT(1024);
    add_frame(&in, TEXT | FIN, STR("hello"), 7);
    add_frame(&in, PING, STR("x"), 8);
    struct ws_reader r;
    ws_reader_init(&r, 1 << 20);
    struct str rest = buf_str(&in);
    CHECK_INT(ws_read(&r, &rest), WS_MESSAGE);
    CHECK(r.data.data != NULL);
    CHECK_INT(ws_read(&r, &rest), WS_CONTROL);
    CHECK_STR(r.payload, "x");
    CHECK_INT(ws_read(&r, &rest), WS_MORE);
    CHECK(r.data.data == NULL);
    ws_reader_release(&r);
    ws_reader_release(NULL);
}

/* A close payload is kept as it came, so that it can be sent back. */
TEST(ws_close_payload_can_be_echoed)
{
    _cleanup_buf_ struct buf in = BUF_INIT(1024), out = BUF_INIT(1024);
    add_frame(&in, CLOSE, STR("\003\350bye"), 7);
    struct ws_reader r;
    ws_reader_init(&r, 1024);
    struct str rest = buf_str(&in);
    CHECK_INT(ws_read(&r, &rest), WS_CONTROL);
    ws_write_frame(&out, WS_CLOSE, r.payload);
    CHECK(str_eq(buf_str(&out), STR("\x88\x05\003\350bye")));
    ws_reader_release(&r);
}

/* Every byte value, every mask phase: what goes in comes out. */
TEST(L12_binary_message_is_not_touched)
{
    enum { N = 70000 };
    _cleanup_free_ char *bytes = mem_alloc(N);
    for (size_t i = 0; i < N; i++)
        bytes[i] = (char)(i * 7 + i / 256);
    _cleanup_buf_ struct buf in = BUF_INIT(1 << 20);
    add_frame(&in, BINARY | FIN, (struct str){bytes, N}, 0xdeadbeef);
    static const size_t steps[] = {N + 100, 1, 3, 5, 7, 8, 13, 1024, 4099};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct ws_reader r;
        ws_reader_init(&r, N);
        enum ws_event event = WS_MORE;
        for (size_t at = 0; at < in.len; at += steps[i]) {
            CHECK_INT(event, WS_MORE);
            struct str piece = {in.data + at, MIN(steps[i], in.len - at)};
            event = ws_read(&r, &piece);
        }
        CHECK_INT(event, WS_MESSAGE);
        CHECK(str_eq(r.payload, (struct str){bytes, N}));
        ws_reader_release(&r);
    }
}

/* ---- UTF-8 in pieces ------------------------------------------------------------------------ */

/* The incremental check agrees with the plain one on every text of four critical bytes. */
TEST(ws_utf8_agrees_with_str_is_utf8)
{
    static const unsigned char bytes[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                          0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED,
                                          0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    enum { N = sizeof bytes };
    for (size_t i = 0; i < (size_t)N * N * N * N; i++) {
        char text[12] = "....abcdefg";
        for (size_t k = 0, rest = i; k < 4; k++, rest /= N)
            text[k] = (char)bytes[rest % N];
        uint32_t whole = 0, pieces = 0;
        bool good = ws_utf8_feed(&whole, (struct str){text, 12}) && whole == 0;
        bool split = ws_utf8_feed(&pieces, (struct str){text, 1 + i % 5}) &&
                     ws_utf8_feed(&pieces, (struct str){text + 1 + i % 5, 11 - i % 5}) &&
                     pieces == 0;
        bool want = str_is_utf8((struct str){text, 12});
        if (good != want || split != want)
            tap_fail(__FILE__, __LINE__, "text %zu: %d %d, not %d", i, good, split, want);
    }
}

/* Said at the byte that makes it wrong, not at the end of the character. */
TEST(ws_utf8_fails_at_once)
{
    static const struct {
        const char *text;
        size_t bad; /* bytes that are fine */
    } rows[] = {
        {"\xed\xa0", 1}, {"\xf4\x90", 1}, {"\xe0\x80", 1},     {"\xf0\x8f", 1},
        {"\xc0", 0},     {"\xff", 0},     {"\xe2\x82\x28", 2}, {"12345678\x80", 8},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint32_t state = 0;
        for (size_t at = 0; at <= rows[i].bad; at++)
            CHECK_INT(ws_utf8_feed(&state, (struct str){rows[i].text + at, 1}), at < rows[i].bad);
    }
}

/* ---- writing -------------------------------------------------------------------------------- */

TEST(ws_written_frames)
{
    static const struct {
        size_t length;
        struct str head;
    } rows[] = {
        {0, {"\x81\x00", 2}},
        {1, {"\x81\x01", 2}},
        {125, {"\x81\x7d", 2}},
        {126, {"\x81\x7e\x00\x7e", 4}},
        {65535, {"\x81\x7e\xff\xff", 4}},
        {65536, {"\x81\x7f\0\0\0\0\0\x01\0\0", 10}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_buf_ struct buf out = BUF_INIT(1 << 20);
        _cleanup_free_ char *bytes = mem_zalloc(rows[i].length);
        ws_write_frame(&out, WS_TEXT, (struct str){bytes, rows[i].length});
        CHECK_INT(out.len, rows[i].head.n + rows[i].length);
        CHECK(str_starts(buf_str(&out), rows[i].head));
    }
}

TEST(ws_written_closes)
{
    _cleanup_buf_ struct buf out = BUF_INIT(1024);
    ws_write_close(&out, 1000, NULL);
    ws_write_close(&out, 1001, "go");
    ws_write_close(&out, WS_NO_STATUS, "ignored");
    CHECK(str_eq(buf_str(&out), STR("\x88\x02\x03\xe8\x88\x04\x03\xe9go\x88\x00")));
    buf_clear(&out);
    ws_write_close(&out, 1011, S25 S25 S25 S25 "1234567890123456789012\xc3\xa9");
    CHECK_INT(out.len, 2 + 2 + 122); /* é would need two bytes, one is left */
    CHECK_INT((unsigned char)out.data[1], 124);
    CHECK(str_is_utf8(str_skip(buf_str(&out), 4)));
}

TEST(ws_accept)
{
    _cleanup_buf_ struct buf out = BUF_INIT(64);
    CHECK(ws_accept_key(STR("dGhlIHNhbXBsZSBub25jZQ=="), &out));
    CHECK_STR(buf_str(&out), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="); /* RFC 6455 §1.3 */
    static const char *const bad[] = {
        "",
        "dGhlIHNhbXBsZSBub25jZQ=",
        "dGhlIHNhbXBsZSBub25jZQ",
        "dGhlIHNhbXBsZSBub25jZ===",
        "dGhlIHNhbXBsZSBub25jZQ== ",
        "dGhlIHNhbXBsZSBub25jZQ==dGhlIHNhbXBsZSBub25jZQ==",
        "dGhlIHNhbXBsZSBub25jZXk=",
        "dGhlIHNhbXBsZSBub25j",
        "dGhlIHNhbXBsZSBub2!jZQ==",
    };
    buf_clear(&out);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!ws_accept_key(str_of(bad[i]), &out));
    CHECK_INT(out.len, 0);
}
