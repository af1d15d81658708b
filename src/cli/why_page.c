/* why_page.c: see why_page.h. */
#include "cli/why_page.h"

#include <stdlib.h>

#include "base/macro.h"
#include "base/mem.h"
#include "cli/print.h"
#include "cli/screen.h"
#include "cli/table.h"
#include "cli/when.h"

enum { COLUMNS_DEFAULT = 80, ROWS_MAX = 600, SENTENCE_CHARS_MAX = 1200, SENTENCE_BYTES_MAX = 8192 };

/* ---- sections ---- */

/* Lines of text, the first of them a heading. */
struct section {
    struct buf text;
    size_t lines, left_out;
    bool loses_oldest; /* what is too much is left out behind the heading, not at the end */
};

enum { EVIDENCE, COUNTING, HISTORY, SECTIONS };

static size_t count_lines(struct str text)
{
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\n';
    return n;
}

static const struct json *list_of(const struct json *why, const char *key)
{
    const struct json *list = json_get(why, key);
    return list && list->type == JSON_ARRAY && list->first ? list : NULL;
}

static void add_heads(struct table *t, const char *const *heads)
{
    for (size_t i = 0; i < t->columns; i++)
        table_cellz(t, heads[i]);
}

static void add_text_cell(struct table *t, const struct json *row, const char *key)
{
    struct str text = json_get_text(row, key);
    table_cell(t, text.n ? text : STR("-"));
}

static void add_age_cell(struct table *t, int64_t ms, bool is_known)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    if (is_known)
        when_add_age(&b, MAX(ms, (int64_t)0));
    table_cell(t, b.len ? buf_str(&b) : STR("-"));
}

static void add_evidence(struct buf *out, const struct json *why)
{
    static const char *const heads[] = {"AGE", "EVIDENCE", "VALUE"};
    const struct json *list = list_of(why, "evidence");
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    if (!list)
        return;
    add_heads(&t, heads);
    JSON_FOREACH (item, list) {
        int64_t age_ms = json_get_int(item, "ageMs", -1);
        add_age_cell(&t, age_ms, age_ms >= 0);
        add_text_cell(&t, item, "kind");
        add_text_cell(&t, item, "value");
    }
    table_write(&t, out);
}

/* ---- what is counting ---- */

struct counting {
    const struct json *next, *of;
    int64_t due_ms;
};

static int by_due(const void *a, const void *b)
{
    const struct counting *x = a, *y = b;
    return (x->due_ms > y->due_ms) - (x->due_ms < y->due_ms);
}

/* Of a conversation they are in `clocks`, of the others in `standing`. */
static size_t read_counting(const struct json *why, struct counting *ret)
{
    const struct json *clocks = json_get(why, "clocks"),
                      *list = list_of(why, clocks ? "clocks" : "standing");
    size_t n = 0;
    if (!list)
        return 0;
    JSON_FOREACH (item, list) {
        const struct json *next = clocks ? item : json_get(item, "next");
        struct counting c = {.next = next, .of = item};
        if (n < ROWS_MAX && when_parse(json_get_text(next, "dueAt"), &c.due_ms))
            ret[n++] = c;
    }
    qsort(ret, n, sizeof *ret, by_due);
    return n;
}

/* What it counts, and of what: of a conversation its limit. */
static void add_of_cell(struct table *t, const struct json *of)
{
    _cleanup_buf_ struct buf limit = BUF_INIT(64);
    int64_t limit_ms = json_get_int(of, "limitMs", -1);
    if (limit_ms < 0) {
        add_text_cell(t, of, "what");
        return;
    }
    when_add_limit(&limit, limit_ms);
    table_cell(t, buf_str(&limit));
}

/* Rings are many and move nothing: a brief page leaves them out. */
static bool is_ring(const struct counting *c)
{
    return str_is(json_get_text(c->next, "rung"), "ring");
}

static void add_counting(struct buf *out, const struct json *why, bool is_brief)
{
    static const char *const heads[] = {"LEFT", "COUNTING", "RUNG", "OF", "SINCE"};
    struct counting rows[ROWS_MAX];
    int64_t now_ms = 0;
    bool has_now = when_parse(json_get_text(why, "now"), &now_ms);
    size_t n = read_counting(why, rows);
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads) - is_brief);
    add_heads(&t, heads);
    for (size_t i = 0; i < n; i++) {
        if (is_brief && is_ring(&rows[i]))
            continue;
        add_age_cell(&t, rows[i].due_ms - now_ms, has_now);
        add_text_cell(&t, rows[i].next, "rule");
        add_text_cell(&t, rows[i].next, "rung");
        add_of_cell(&t, rows[i].of);
        if (!is_brief)
            add_text_cell(&t, rows[i].of, "since");
    }
    if (t.count > t.columns)
        table_write(&t, out);
    else
        buf_addz(out, "COUNTING\nnothing\n");
}

/* ---- what was done ---- */

/* A line each: how long ago, by which rule, and what. */
static void add_brief_history(struct buf *out, const struct json *why, const struct json *list)
{
    static const char *const heads[] = {"AGO", "HISTORY", "WHAT"};
    int64_t now_ms = 0, at_ms;
    bool has_now = when_parse(json_get_text(why, "now"), &now_ms);
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    add_heads(&t, heads);
    JSON_FOREACH (move, list) {
        bool is_known = has_now && when_parse(json_get_text(move, "at"), &at_ms);
        add_age_cell(&t, is_known ? now_ms - at_ms : 0, is_known);
        add_text_cell(&t, move, "rule");
        add_text_cell(&t, move, "what");
    }
    table_write(&t, out);
}

/* Two lines each: when, which rule and its reason in columns; below, what. */
static void add_whole_history(struct buf *out, const struct json *list)
{
    static const char *const heads[] = {"HISTORY", "RULE", "REASON"};
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    _cleanup_buf_ struct buf lines = BUF_INIT(PRINT_BYTES_MAX);
    add_heads(&t, heads);
    JSON_FOREACH (move, list) {
        add_text_cell(&t, move, "at");
        add_text_cell(&t, move, "rule");
        add_text_cell(&t, move, "reason");
    }
    table_write(&t, &lines);
    const struct json *move = NULL;
    for (struct str rest = buf_str(&lines); rest.n > 0;) {
        size_t n = (size_t)((const char *)memchr(rest.p, '\n', rest.n) - rest.p) + 1;
        buf_add(out, rest.p, n);
        if (move) {
            buf_addz(out, "    ");
            print_clean(out, json_get_text(move, "what"), PRINT_TEXT_CHARS_MAX);
            buf_addc(out, '\n');
        }
        move = move ? move->next : list->first;
        rest = str_skip(rest, n);
    }
}

static void add_history(struct buf *out, const struct json *why, bool is_brief)
{
    const struct json *list = list_of(why, "history");
    if (!json_get(why, "history")) /* a machine has none */
        return;
    if (!list)
        buf_addz(out, "HISTORY\nno rule and no person has moved it\n");
    else if (is_brief)
        add_brief_history(out, why, list);
    else
        add_whole_history(out, list);
}

/* ---- the sentence ---- */

static void add_headline(struct buf *out, struct str subject, const struct json *why,
                         size_t columns)
{
    _cleanup_buf_ struct buf sentence = BUF_INIT(SENTENCE_BYTES_MAX);
    struct str remedy = json_get_text(why, "remedy");
    buf_add_str(&sentence, subject);
    buf_addz(&sentence, ": ");
    print_clean(&sentence, json_get_text(why, "says"), SENTENCE_CHARS_MAX);
    buf_addc(&sentence, '.');
    screen_add_wrapped(out, buf_str(&sentence), columns, 0, 0);
    if (!remedy.n)
        return;
    buf_addz(out, "To type: ");
    print_clean(out, remedy, PRINT_TEXT_CHARS_MAX);
    buf_addc(out, '\n');
}

/* ---- the page ---- */

/* Leaves lines out until all sections have `room` lines, an empty one before each included. */
static void shorten(struct section s[SECTIONS], size_t room)
{
    for (;;) {
        size_t sum = 0;
        struct section *longest = &s[0];
        for (int i = 0; i < SECTIONS; i++) {
            size_t shown = s[i].lines - s[i].left_out;
            sum += shown + (shown > 0);
            if (shown > longest->lines - longest->left_out)
                longest = &s[i];
        }
        if (sum <= room || longest->lines - longest->left_out <= 2)
            return;
        longest->left_out++;
    }
}

static void add_section(struct buf *out, const struct section *s)
{
    size_t line = 0, shown = s->lines - s->left_out;
    struct str rest = buf_str(&s->text);
    if (s->lines)
        buf_addc(out, '\n');
    for (; rest.n > 0; line++) {
        size_t n = (size_t)((const char *)memchr(rest.p, '\n', rest.n) - rest.p) + 1;
        bool is_shown = s->loses_oldest ? line == 0 || line > s->left_out : line < shown;
        if (is_shown)
            buf_add(out, rest.p, n);
        rest = str_skip(rest, n);
    }
}

void why_page_add(struct buf *out, struct str subject, const struct json *why, struct str command,
                  bool all)
{
    size_t columns = screen_columns();
    bool is_brief = columns && !all;
    struct section s[SECTIONS] = {
        [EVIDENCE] = {.text = BUF_INIT(PRINT_BYTES_MAX)},
        [COUNTING] = {.text = BUF_INIT(PRINT_BYTES_MAX)},
        [HISTORY] = {.text = BUF_INIT(PRINT_BYTES_MAX), .loses_oldest = true}};
    add_headline(out, subject, why, columns ? columns : (size_t)COLUMNS_DEFAULT);
    size_t headline = count_lines(buf_str(out));
    add_evidence(&s[EVIDENCE].text, why);
    add_counting(&s[COUNTING].text, why, is_brief);
    add_history(&s[HISTORY].text, why, is_brief);
    for (int i = 0; i < SECTIONS; i++)
        s[i].lines = count_lines(buf_str(&s[i].text));
    if (is_brief)
        shorten(s, WHY_LINES - 1 - MIN(headline, (size_t)WHY_LINES - 1));
    for (int i = 0; i < SECTIONS; i++) {
        add_section(out, &s[i]);
        buf_release(&s[i].text);
    }
    if (is_brief)
        buf_addf(out, "All of it: %.*s --all\n", STR_ARG(command));
}
