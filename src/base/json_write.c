/*
 * json_write.c: the writer; json.h is its manual, json.c the reader.
 *
 * Everything goes straight into a buf, which has a ceiling and remembers that it was hit, so
 * nothing here can fail. Text that comes from outside is repaired rather than refused: one bad byte
 * in what an agent printed must not cost the whole message. Wrong use (a key inside an array, two
 * values at the top) is our own bug and asserted.
 */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

static void write_escape(struct buf *out, char c)
{
    static const char letters[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    static const char digits[] = "0123456789abcdef";
    unsigned char u = (unsigned char)c;
    if (u == 0)
        buf_addz(out, replacement);
    else if (u >= 0x20)
        buf_add(out, (char[]){'\\', c}, 2);
    else if (letters[u])
        buf_add(out, (char[]){'\\', letters[u]}, 2);
    else
        buf_add(out, (char[]){'\\', 'u', '0', '0', digits[u >> 4], digits[u & 15]}, 6);
}

static void write_escaped(struct buf *out, struct str s)
{
    const char *p = s.p, *end = s.p + s.n;
    for (;;) {
        const char *stop = json_plain_end(p, end);
        buf_add(out, p, (size_t)(stop - p));
        if (stop == end)
            return;
        write_escape(out, *stop);
        p = stop + 1;
    }
}

static void write_repaired(struct buf *out, struct str s)
{
    while (s.n > 0) {
        size_t good = json_utf8_prefix(s);
        write_escaped(out, (struct str){s.p, good});
        if (good < s.n)
            buf_addz(out, replacement);
        s = str_skip(s, good + 1);
    }
}

void json_write_string(struct buf *out, struct str s)
{
    buf_addc(out, '"');
    if (s.n > 0 && str_is_utf8(s))
        write_escaped(out, s);
    else
        write_repaired(out, s);
    buf_addc(out, '"');
}

/* The text of a string as it was written, but for lone surrogates: they become U+FFFD. */
static void write_mended(struct buf *out, struct str text)
{
    const char *p = text.p, *end = text.p + text.n, *slash;
    while ((slash = memchr(p, '\\', (size_t)(end - p)))) {
        const char *next = slash;
        bool is_lone = json_is_surrogate(json_unescape_unicode(&next, end));
        if (next == slash)
            next += 2; /* another escape */
        buf_add(out, p, (size_t)((is_lone ? slash : next) - p));
        if (is_lone)
            buf_addz(out, "\\ufffd");
        p = next;
    }
    buf_add(out, p, (size_t)(end - p));
}

void json_write_value(struct buf *out, const struct json *value)
{
    if (!value || value->compact) {
        buf_add_str(out, value ? value->span : STR("null"));
        return;
    }
    if (value->type == JSON_STRING) {
        write_mended(out, value->span);
        return;
    }
    bool object = value->type == JSON_OBJECT;
    const char *from = value->span.p + 1;
    buf_addc(out, object ? '{' : '[');
    JSON_FOREACH (item, value) {
        if (item != value->first)
            buf_addc(out, ',');
        if (object) {
            write_mended(out, json_key_text(from, item));
            buf_addc(out, ':');
        }
        json_write_value(out, item);
        from = item->span.p + item->span.n;
    }
    buf_addc(out, object ? '}' : ']');
}

/* ---- objects and arrays ---- */

static void write_key(struct buf *out, const char *key, bool comma)
{
    size_t n = strlen(key);
    char *p = buf_reserve(out, n + 4);
    if (!p)
        return;
    char *from = p;
    if (comma)
        *p++ = ',';
    *p++ = '"';
    p = mempcpy(p, key, n);
    *p++ = '"';
    *p++ = ':';
    buf_grown(out, (size_t)(p - from));
}

/* What stands before a value. */
static void begin_value(struct json_out *w, const char *key)
{
    bool keyed = w->depth > 0 && !(w->is_array >> (w->depth - 1) & 1);
    REQUIRE_F(keyed == (key != NULL), "key %s", key ? key : "(none)");
    REQUIRE(w->depth > 0 || !w->comma); /* one value at the top */
    if (key)
        write_key(w->buf, key, w->comma);
    else if (w->comma)
        buf_addc(w->buf, ',');
    w->comma = true;
}

static void open_level(struct json_out *w, const char *key, bool array)
{
    begin_value(w, key);
    REQUIRE(w->depth < 64);
    uint64_t bit = (uint64_t)1 << w->depth++;
    w->is_array = array ? w->is_array | bit : w->is_array & ~bit;
    w->comma = false;
    buf_addc(w->buf, array ? '[' : '{');
}

void json_object(struct json_out *w, const char *key)
{
    open_level(w, key, false);
}

void json_array(struct json_out *w, const char *key)
{
    open_level(w, key, true);
}

void json_end(struct json_out *w)
{
    REQUIRE(w->depth > 0);
    w->depth--;
    buf_addc(w->buf, w->is_array >> w->depth & 1 ? ']' : '}');
    w->comma = true;
}

void json_int(struct json_out *w, const char *key, int64_t value)
{
    begin_value(w, key);
    buf_add_int(w->buf, value);
}

/* Fifteen digits do for most reals a person wrote, seventeen for every double. */
static void format_real(char *out, size_t size, double value)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    if (!strpbrk(out, ".e"))
        strcat(out, ".0"); /* or it would come back as an integer */
}

void json_real(struct json_out *w, const char *key, double value)
{
    if (!isfinite(value)) {
        json_null(w, key);
        return;
    }
    char text[40];
    locale_t c = json_locale_c(), old = uselocale(c);
    format_real(text, sizeof text - 2, value);
    uselocale(old);
    freelocale(c);
    begin_value(w, key);
    buf_addz(w->buf, text);
}

void json_bool(struct json_out *w, const char *key, bool value)
{
    begin_value(w, key);
    buf_add_str(w->buf, value ? STR("true") : STR("false"));
}

void json_null(struct json_out *w, const char *key)
{
    begin_value(w, key);
    buf_add_str(w->buf, STR("null"));
}

void json_string(struct json_out *w, const char *key, struct str value)
{
    begin_value(w, key);
    if (value.p)
        json_write_string(w->buf, value);
    else
        buf_addz(w->buf, "null");
}

void json_stringz(struct json_out *w, const char *key, const char *value)
{
    if (value)
        json_string(w, key, str_of(value));
    else
        json_null(w, key);
}

void json_raw(struct json_out *w, const char *key, struct str text)
{
    begin_value(w, key);
    buf_add_str(w->buf, text);
}

void json_value(struct json_out *w, const char *key, const struct json *value)
{
    begin_value(w, key);
    json_write_value(w->buf, value);
}

void json_time(struct json_out *w, const char *key, int64_t ms)
{
    char iso[CLOCK_ISO_BYTES];
    clock_iso(ms, iso);
    begin_value(w, key);
    buf_addc(w->buf, '"');
    buf_addz(w->buf, iso);
    buf_addc(w->buf, '"');
}
