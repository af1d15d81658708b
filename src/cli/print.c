/*
 * print.c: see print.h for what may and may not reach a terminal.
 *
 * The cleaner works on code points. It keeps what it does not know: only the characters with a
 * known power over terminals or over the order of text are replaced, so every script stays
 * readable. Escapes are not reversible (a text may hold a real "\x1b"); whoever needs the exact
 * text takes --json.
 */
#include "cli/print.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cli/screen.h"

enum { EVENT_INDENT = 4 };

/* One code point at the start of s; -1 if the bytes there are no UTF-8 (length 1 then). */
static int32_t next_char(struct str s, size_t *ret_length)
{
    size_t most = MIN(s.n, (size_t)4);
    for (size_t n = 1; n <= most; n++) {
        if (!str_is_utf8((struct str){s.p, n}))
            continue;
        *ret_length = n;
        const unsigned char *p = (const unsigned char *)s.p;
        if (n == 1)
            return p[0];
        int32_t c = p[0] & (0xFF >> (n + 1));
        for (size_t i = 1; i < n; i++)
            c = c << 6 | (p[i] & 0x3F);
        return c;
    }
    *ret_length = 1;
    return -1;
}

/* Would a terminal do something else than show it? */
static bool is_dangerous(int32_t c)
{
    static const struct {
        int32_t first, last;
    } ranges[] = {
        {0x00, 0x1F},     {0x7F, 0x9F},     /* C0, DEL and C1 */
        {0x061C, 0x061C}, {0x200E, 0x200F}, /* marks of direction */
        {0x2028, 0x202E},                   /* separators, embeddings and overrides */
        {0x2066, 0x2069},                   /* isolates */
        {0xFEFF, 0xFEFF},                   /* no width at all */
    };
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

static void add_clean_char(struct buf *out, struct str bytes, int32_t c)
{
    if (c < 0)
        buf_addz(out, "\xEF\xBF\xBD");
    else if (c == '\n' || c == '\r' || c == '\t')
        buf_addc(out, ' ');
    else if (is_dangerous(c))
        buf_addf(out, c < 0x100 ? "\\x%02x" : "\\u%04x", (unsigned)c);
    else
        buf_add_str(out, bytes);
}

void print_clean(struct buf *out, struct str text, size_t chars_max)
{
    for (size_t chars = 0; text.n > 0; chars++) {
        if (chars_max && chars == chars_max) {
            buf_addz(out, "…");
            return;
        }
        size_t n;
        int32_t c = next_char(text, &n);
        add_clean_char(out, (struct str){text.p, n}, c);
        text = str_skip(text, n);
    }
}

/* In valid, compact JSON dangerous characters stand inside strings only, where \u means the same.
 */
static void add_clean_json(struct buf *out, struct str json)
{
    while (json.n > 0) {
        size_t n;
        int32_t c = next_char(json, &n);
        if (c >= 0 && is_dangerous(c))
            buf_addf(out, "\\u%04x", (unsigned)c);
        else
            buf_add(out, json.p, n);
        json = str_skip(json, n);
    }
}

void print_json(struct buf *out, const struct json *value)
{
    _cleanup_buf_ struct buf b = BUF_INIT(PRINT_BYTES_MAX);
    json_write_value(&b, value);
    add_clean_json(out, buf_str(&b));
}

/* Pads what was added since `from` to `width` columns, and a blank in any case. */
static void pad(struct buf *out, size_t from, size_t width)
{
    while (!out->overflow && out->len - from < width)
        buf_addc(out, ' ');
    buf_addc(out, ' ');
}

static void add_message(struct buf *out, const struct json *payload)
{
    print_clean(out, json_get_text(payload, "text"), PRINT_TEXT_CHARS_MAX);
    const struct json *attachments = json_get(payload, "attachments");
    if (attachments && attachments->type == JSON_ARRAY && attachments->count)
        buf_addf(out, " (+%u attached)", attachments->count);
    const struct json *outcome = json_get(payload, "outcome");
    if (!outcome || outcome->type != JSON_OBJECT)
        return;
    struct str reason = json_get_text(outcome, "reason");
    buf_addz(out, " [");
    print_clean(out, json_get_text(outcome, "status"), PRINT_TEXT_CHARS_MAX);
    if (reason.n)
        buf_addz(out, ": ");
    print_clean(out, reason, PRINT_TEXT_CHARS_MAX);
    buf_addc(out, ']');
}

static void add_json_cut(struct buf *out, const struct json *value)
{
    _cleanup_buf_ struct buf b = BUF_INIT(PRINT_BYTES_MAX);
    json_write_value(&b, value);
    print_clean(out, buf_str(&b), PRINT_TEXT_CHARS_MAX);
}

/* "thought: text", or the other members of the trace as they are. */
static void add_trace(struct buf *out, const struct json *payload)
{
    print_clean(out, json_get_text(payload, "type"), PRINT_TEXT_CHARS_MAX);
    struct str text = json_get_text(payload, "text");
    buf_addc(out, ':');
    if (text.n) {
        buf_addc(out, ' ');
        print_clean(out, text, PRINT_TEXT_CHARS_MAX);
        return;
    }
    JSON_FOREACH (member, payload) {
        if (str_is(member->key, "type"))
            continue;
        buf_addc(out, ' ');
        print_clean(out, member->key, PRINT_TEXT_CHARS_MAX);
        buf_addc(out, '=');
        add_json_cut(out, member);
    }
}

/* How system events are told; {member} is one of their data. What is not listed, or lacks a member,
 * is shown as it is. */
static const struct {
    const char *kind, *text;
} tellings[] = {
    {"agent.state", "{agent} is {status} ({reason})"},
    {"agent.task", "task {task} of {agent}: {status} ({reason}), attempt {attempt}"},
    {"agent.exited", "the process of {agent} has ended: {text}"},
    {"agent.force_terminated", "task {task} of {agent} was ended: {reason}, by {rule}"},
    {"machine.registered", "machine {machine} is here"},
    {"machine.online", "machine {machine} is back"},
    {"machine.offline", "machine {machine} is silent for {ttlMs} ms"},
    {"watch.task.orphaned", "task {task} of {agent} is taken back, {attempts} attempts lost"},
    {"watch.task.acknowledged", "task {task} of {agent} is taken back, {attempts} attempts lost"},
    {"watch.task.unattended", "task {task} waits and nobody is there for {agent}"},
    {"watch.participant.expire", "nobody listens for {agent} since {lastSeenAt}"},
    {"watch.command.expired", "{type} of {agent} was not confirmed within {limit} ms"},
    {"watch.agent.exited", "{agent} is started again after {limit} ms"},
};

static bool add_member(struct buf *out, const struct json *data, struct str name)
{
    char key[64];
    snprintf(key, sizeof key, "%.*s", STR_ARG(name));
    const struct json *v = json_get(data, key);
    if (!v || (v->type != JSON_STRING && v->type != JSON_INT))
        return false;
    print_clean(out, v->type == JSON_STRING ? v->string : v->span, PRINT_TEXT_CHARS_MAX);
    return true;
}

static bool add_telling(struct buf *out, const char *text, const struct json *data)
{
    size_t before = out->len;
    while (*text) {
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        if (!end) {
            buf_addc(out, *text++);
        } else if (add_member(out, data, (struct str){text + 1, (size_t)(end - text - 1)})) {
            text = end + 1;
        } else {
            buf_truncate(out, before);
            return false;
        }
    }
    return true;
}

static void add_system(struct buf *out, const struct json *payload)
{
    struct str kind = json_get_text(payload, "kind");
    const struct json *data = json_get(payload, "data");
    print_clean(out, kind, PRINT_TEXT_CHARS_MAX);
    if (!data)
        return;
    buf_addc(out, ' ');
    for (size_t i = 0; i < ARRAY_LEN(tellings); i++)
        if (str_is(kind, tellings[i].kind) && add_telling(out, tellings[i].text, data))
            return;
    add_json_cut(out, data);
}

static void add_event(struct buf *out, const struct json *event)
{
    struct str type = json_get_text(event, "type"), finality = json_get_text(event, "finality");
    const struct json *payload = json_get(event, "payload");
    size_t from = out->len;
    print_clean(out, json_get_text(event, "ts"), PRINT_TEXT_CHARS_MAX);
    pad(out, from, 24);
    from = out->len;
    buf_addf(out, "%lld:%lld.%lld", (long long)json_get_int(event, "conversation", -1),
             (long long)json_get_int(event, "turn", -1),
             (long long)json_get_int(event, "event", -1));
    pad(out, from, 6);
    from = out->len;
    print_clean(out, json_get_text(event, "agentId"), PRINT_TEXT_CHARS_MAX);
    pad(out, from, 9);
    from = out->len;
    print_clean(out, type, PRINT_TEXT_CHARS_MAX);
    if (finality.n && !str_is(finality, "none")) {
        buf_addc(out, '/');
        print_clean(out, finality, PRINT_TEXT_CHARS_MAX);
    }
    pad(out, from, 12);
    if (!payload || payload->type != JSON_OBJECT)
        buf_addz(out, "-");
    else if (str_is(type, "message"))
        add_message(out, payload);
    else if (str_is(type, "trace"))
        add_trace(out, payload);
    else
        add_system(out, payload);
}

void print_event(struct buf *out, const struct json *event)
{
    _cleanup_buf_ struct buf line = BUF_INIT(PRINT_BYTES_MAX);
    size_t columns = screen_columns();
    add_event(&line, event);
    if (columns && screen_width(buf_str(&line)) > columns)
        screen_add_wrapped(out, buf_str(&line), columns, 0, EVENT_INDENT);
    else
        buf_addf(out, "%s\n", buf_str(&line).p);
}

int print_flush(struct buf *out, struct err *err)
{
    if (out->overflow)
        return err_set(err, ERR_TOO_LARGE, "the output is over %d bytes", PRINT_BYTES_MAX);
    struct str s = buf_str(out);
    bool failed = fwrite(s.p, 1, s.n, stdout) != s.n || fflush(stdout) != 0;
    int error = errno;
    buf_clear(out);
    if (failed && error == EPIPE) {
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    if (failed)
        return err_set(err, ERR_IO, "cannot write to standard output: %s", strerror(error));
    return 0;
}

int print_result(const struct json *result, struct err *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    print_json(&out, result);
    buf_addc(&out, '\n');
    return print_flush(&out, err);
}
