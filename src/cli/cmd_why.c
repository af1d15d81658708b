/*
 * cmd_why.c: `reeve why`: where a conversation or an agent stands, on what evidence, and what comes
 * next.
 *
 * The answer is the server's (conversation.why, agent.why); here it is put into words that can be
 * pasted into a report: one sentence first, then what it rests on. Texts in it come from agents, so
 * all of them are cleaned on their way out.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/macro.h"
#include "cli/agent_name.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "cli/when.h"

enum { COLUMNS = 80, TITLE_CHARS_MAX = 60, CLOCKS_MAX = 64, SENTENCE_BYTES_MAX = 4096 };

/* ---- the sentence ---- */

/* What a rule does, said of a conversation; a rule that a newer server has is said by its name. */
static const char *deed_of(struct str rule)
{
    static const struct {
        const char *rule, *deed;
    } deeds[] = {
        {"conversation.idle", "unless somebody writes, conversation.idle cancels it"},
        {"conversation.global_idle", "unless somebody writes, conversation.global_idle cancels it"},
        {"session.wall_clock", "whoever writes, session.wall_clock blocks it"},
        {"session.wall_clock_notice", "session.wall_clock_notice warns about its budget"},
    };
    for (size_t i = 0; i < ARRAY_LEN(deeds); i++)
        if (str_is(rule, deeds[i].rule))
            return deeds[i].deed;
    return NULL;
}

static int64_t age_of(const struct json *why, const char *kind)
{
    const struct json *evidence = json_get(why, "evidence");
    if (evidence && evidence->type == JSON_ARRAY)
        JSON_FOREACH (item, evidence)
            if (str_is(json_get_text(item, "kind"), kind))
                return MIN(json_get_int(item, "ageMs", 0), CLOCK_MS_MAX);
    return 0;
}

/* "in 2m 57s, at 2026-…" */
static void add_due(struct buf *out, const struct json *why, struct str due)
{
    int64_t now_ms, due_ms;
    if (when_parse(json_get_text(why, "now"), &now_ms) && when_parse(due, &due_ms)) {
        buf_addz(out, due_ms > now_ms ? " in " : " now, overdue by ");
        when_add_age(out, due_ms > now_ms ? due_ms - now_ms : now_ms - due_ms);
    }
    buf_addz(out, ", at ");
    print_clean(out, due, PRINT_TEXT_CHARS_MAX);
}

static void add_next(struct buf *out, const struct json *why, const struct json *next)
{
    if (!next || next->type != JSON_OBJECT) {
        buf_addz(out, "; nothing is counting, so no rule will move it");
        return;
    }
    struct str rule = json_get_text(next, "rule");
    const char *deed = deed_of(rule);
    buf_addz(out, "; ");
    if (deed) {
        buf_addz(out, deed);
    } else {
        print_clean(out, rule, PRINT_TEXT_CHARS_MAX);
        buf_addz(out, " is due");
    }
    add_due(out, why, json_get_text(next, "dueAt"));
}

static void add_active(struct buf *out, const struct json *why, const struct json *standing)
{
    buf_addz(out, " is active; nobody has written for ");
    when_add_age(out, age_of(why, "activity"));
    add_next(out, why, json_get(standing, "next"));
}

/* "since 2026-…, 12m 03s ago" */
static void add_since(struct buf *out, const struct json *why, const struct json *standing)
{
    print_clean(out, json_get_text(standing, "since"), PRINT_TEXT_CHARS_MAX);
    buf_addz(out, ", ");
    when_add_age(out, age_of(why, "status"));
    buf_addz(out, " ago");
}

static void add_rule_and_reason(struct buf *out, const struct json *why,
                                const struct json *standing)
{
    struct str rule = json_get_text(standing, "rule");
    buf_addz(out, " by ");
    print_clean(out, rule.n ? rule : json_get_text(why, "endedBy"), PRINT_TEXT_CHARS_MAX);
    buf_addz(out, " (");
    print_clean(out, json_get_text(why, "stop_reason_code"), PRINT_TEXT_CHARS_MAX);
    buf_addc(out, ')');
}

static void add_blocked(struct buf *out, const struct json *why, const struct json *standing)
{
    buf_addz(out, " was blocked at ");
    add_since(out, why, standing);
    buf_addc(out, ',');
    add_rule_and_reason(out, why, standing);
    buf_addz(out, "; nothing happens until somebody resumes or ends it");
}

static void add_ended(struct buf *out, const struct json *why, const struct json *standing)
{
    int64_t silent_ms = age_of(why, "activity") - age_of(why, "status");
    buf_addz(out, " ended at ");
    add_since(out, why, standing);
    buf_addz(out, ": ");
    print_clean(out, json_get_text(why, "outcome"), PRINT_TEXT_CHARS_MAX);
    add_rule_and_reason(out, why, standing);
    if (silent_ms > 0) {
        buf_addz(out, ", after ");
        when_add_age(out, silent_ms);
        buf_addz(out, " of silence");
    }
}

/* Characters, which is columns for most scripts. */
static size_t width_of(const char *p, size_t n)
{
    size_t width = 0;
    for (size_t i = 0; i < n; i++)
        width += ((unsigned char)p[i] & 0xc0) != 0x80;
    return width;
}

/* Breaks lines at blanks; a word that is longer than a line stays whole. */
static void add_wrapped(struct buf *out, struct str text)
{
    size_t column = 0;
    while (text.n > 0) {
        const char *blank = memchr(text.p, ' ', text.n);
        size_t n = blank ? (size_t)(blank - text.p) : text.n;
        if (column > 0) {
            bool fits = column + 1 + width_of(text.p, n) <= COLUMNS;
            buf_addc(out, fits ? ' ' : '\n');
            column = fits ? column + 1 : 0;
        }
        buf_add(out, text.p, n);
        column += width_of(text.p, n);
        text = str_skip(text, n + 1);
    }
    buf_addc(out, '\n');
}

static void write_headline(struct buf *out, const struct json *why, struct str title)
{
    _cleanup_buf_ struct buf sentence = BUF_INIT(SENTENCE_BYTES_MAX);
    const struct json *standings = json_get(why, "standing");
    const struct json *standing =
        standings && standings->type == JSON_ARRAY ? standings->first : NULL;
    struct str status = json_get_text(why, "status");
    buf_addf(&sentence, "Conversation %lld", (long long)json_get_int(why, "conversation", -1));
    if (title.n) {
        buf_addz(&sentence, " (");
        print_clean(&sentence, title, TITLE_CHARS_MAX);
        buf_addc(&sentence, ')');
    }
    if (str_is(status, "blocked"))
        add_blocked(&sentence, why, standing);
    else if (str_is(status, "completed"))
        add_ended(&sentence, why, standing);
    else
        add_active(&sentence, why, standing);
    buf_addc(&sentence, '.');
    add_wrapped(out, buf_str(&sentence));
    if (str_is(status, "blocked"))
        buf_addf(out, "To resume it: reeve conversation resume %lld\n",
                 (long long)json_get_int(why, "conversation", -1));
}

/* ---- what it rests on ---- */

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

static void add_time_cell(struct table *t, const struct json *row, const char *key,
                          void (*add)(struct buf *, int64_t))
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    int64_t ms = json_get_int(row, key, -1);
    if (ms >= 0)
        add(&b, ms);
    table_cell(t, b.len ? buf_str(&b) : STR("-"));
}

static void write_evidence(struct buf *out, const struct json *why)
{
    static const char *const heads[] = {"AGE", "EVIDENCE", "VALUE"};
    const struct json *list = list_of(why, "evidence");
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    if (!list)
        return;
    add_heads(&t, heads);
    JSON_FOREACH (item, list) {
        add_time_cell(&t, item, "ageMs", when_add_age);
        add_text_cell(&t, item, "kind");
        add_text_cell(&t, item, "value");
    }
    buf_addc(out, '\n');
    table_write(&t, out);
}

static int by_left(const void *a, const void *b)
{
    int64_t x = json_get_int(*(const struct json *const *)a, "leftMs", 0),
            y = json_get_int(*(const struct json *const *)b, "leftMs", 0);
    return (x > y) - (x < y);
}

static void write_clocks(struct buf *out, const struct json *why)
{
    static const char *const heads[] = {"LEFT", "COUNTING", "RUNG", "LIMIT", "SINCE"};
    const struct json *list = list_of(why, "clocks"), *clocks[CLOCKS_MAX];
    size_t n = 0;
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    if (!list) {
        buf_addz(out, "\nCOUNTING\nnothing\n");
        return;
    }
    JSON_FOREACH (clock, list)
        if (n < CLOCKS_MAX)
            clocks[n++] = clock;
    qsort(clocks, n, sizeof clocks[0], by_left);
    add_heads(&t, heads);
    for (size_t i = 0; i < n; i++) {
        add_time_cell(&t, clocks[i], "leftMs", when_add_age);
        add_text_cell(&t, clocks[i], "rule");
        add_text_cell(&t, clocks[i], "rung");
        add_time_cell(&t, clocks[i], "limitMs", when_add_limit);
        add_text_cell(&t, clocks[i], "since");
    }
    buf_addc(out, '\n');
    table_write(&t, out);
}

/* Two lines each: when, which rule and its reason in columns; below, what. */
static void write_history(struct buf *out, const struct json *why)
{
    static const char *const heads[] = {"HISTORY", "RULE", "REASON"};
    const struct json *list = list_of(why, "history");
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    _cleanup_buf_ struct buf lines = BUF_INIT(PRINT_BYTES_MAX);
    if (!list) {
        buf_addz(out, "\nHISTORY\nno rule and no person has moved it\n");
        return;
    }
    add_heads(&t, heads);
    JSON_FOREACH (move, list) {
        add_text_cell(&t, move, "at");
        add_text_cell(&t, move, "rule");
        add_text_cell(&t, move, "reason");
    }
    table_write(&t, &lines);
    const struct json *move = NULL;
    buf_addc(out, '\n');
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

/* ---- an agent ---- */

/* When a standing's next rule moves something; a ring moves nothing. */
static bool moves_at(const struct json *standing, int64_t *ret_ms)
{
    const struct json *next = json_get(standing, "next");
    return !str_is(json_get_text(next, "rung"), "ring") &&
           when_parse(json_get_text(next, "dueAt"), ret_ms);
}

/* What is standing over it, with the rule that moves it first. */
static const struct json *first_due(const struct json *why)
{
    const struct json *list = list_of(why, "standing"), *first = NULL;
    int64_t first_ms = INT64_MAX, due_ms;
    if (list)
        JSON_FOREACH (item, list)
            if (moves_at(item, &due_ms) && due_ms < first_ms) {
                first = item;
                first_ms = due_ms;
            }
    return first;
}

/* What would keep a rule from it. */
static const char *remedy_of(struct str rule)
{
    if (str_is(rule, "tool.timeout"))
        return "its result is reported";
    return str_is(rule, "ledger.requeue") ? "its result is applied" : "it shows a sign of life";
}

static void write_agent_headline(struct buf *out, const struct json *why)
{
    _cleanup_buf_ struct buf sentence = BUF_INIT(SENTENCE_BYTES_MAX);
    const struct json *due = first_due(why), *next = json_get(due, "next");
    buf_addz(&sentence, "Agent ");
    print_clean(&sentence, json_get_text(why, "agent"), PRINT_TEXT_CHARS_MAX);
    buf_addz(&sentence, " is ");
    print_clean(&sentence, json_get_text(why, "view"), PRINT_TEXT_CHARS_MAX);
    if (next) {
        buf_addf(&sentence, "; unless %s, ", remedy_of(json_get_text(next, "rule")));
        print_clean(&sentence, json_get_text(next, "rule"), PRINT_TEXT_CHARS_MAX);
        buf_addz(&sentence, " moves ");
        print_clean(&sentence, json_get_text(due, "what"), PRINT_TEXT_CHARS_MAX);
        add_due(&sentence, why, json_get_text(next, "dueAt"));
    } else {
        add_next(&sentence, why, NULL);
    }
    buf_addc(&sentence, '.');
    add_wrapped(out, buf_str(&sentence));
}

/* The time left is what a clock shows; a rule that is overdue has none. */
static void add_left_cell(struct table *t, const struct json *why, const struct json *next)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    int64_t now_ms, due_ms;
    if (when_parse(json_get_text(why, "now"), &now_ms) &&
        when_parse(json_get_text(next, "dueAt"), &due_ms))
        when_add_age(&b, MAX(due_ms - now_ms, (int64_t)0));
    table_cell(t, b.len ? buf_str(&b) : STR("-"));
}

static void write_standing(struct buf *out, const struct json *why)
{
    static const char *const heads[] = {"LEFT", "COUNTING", "RUNG", "OF", "SINCE"};
    const struct json *list = list_of(why, "standing");
    _cleanup_(table_release) struct table t = TABLE(ARRAY_LEN(heads));
    if (!list) {
        buf_addz(out, "\nCOUNTING\nnothing\n");
        return;
    }
    add_heads(&t, heads);
    JSON_FOREACH (item, list) {
        const struct json *next = json_get(item, "next");
        add_left_cell(&t, why, next);
        add_text_cell(&t, next, "rule");
        add_text_cell(&t, next, "rung");
        add_text_cell(&t, item, "what");
        add_text_cell(&t, item, "since");
    }
    buf_addc(out, '\n');
    table_write(&t, out);
}

static int why_agent(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *why;
    struct agent_name name;
    int r = agent_name_parse(args->words[0], &name, err);
    if (r < 0)
        return r;
    agent_name_write(&name, &w);
    json_end(&w);
    r = cli_call(args, "agent.why", &params, &a, &why, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(why, err);
    write_agent_headline(&out, why);
    write_evidence(&out, why);
    write_standing(&out, why);
    write_history(&out, why);
    return print_flush(&out, err);
}

/* ---- the verb ---- */

static int why_conversation(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_(cli_disconnect) struct client *client = NULL;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    const struct json *why, *conversation;
    int64_t number;
    int r = cli_conversation(args->words[0], &number, err);
    if (r == 0)
        r = cli_connect(args, &client, err);
    if (r < 0)
        return r;
    buf_addf(&params, "{\"conversation\":%lld}", (long long)number);
    r = client_call(client, "conversation.why", buf_str(&params), &a, &why, err);
    if (r == 0 && cli_flag(args, "json"))
        return print_result(why, err);
    if (r == 0)
        r = client_call(client, "conversation.get", buf_str(&params), &a, &conversation, err);
    if (r < 0)
        return r;
    write_headline(&out, why, json_get_text(conversation, "title"));
    write_evidence(&out, why);
    write_clocks(&out, why);
    write_history(&out, why);
    return print_flush(&out, err);
}

static int run(const struct cli_args *args, struct err *err)
{
    return strchr(args->words[0], ':') ? why_agent(args, err) : why_conversation(args, err);
}

const struct verb verb_why = {
    .name = "why",
    .synopsis = "CONVERSATION[:ROLE]",
    .summary = "tell where a conversation or an agent stands, why, and what happens next",
    .details =
        "12 is a conversation, 12:builder an agent of it.\n"
        "One sentence, then the evidence with its age, the clocks that are counting and what was\n"
        "done so far. Everything is computed from what the rules themselves act on.",
    .flags = VERB_CLIENT | VERB_JSON,
    .run = run,
};
