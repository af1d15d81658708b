/*
 * cmd_status.c: `reeve status`: server, machines, agents and work, in ten lines.
 *
 * Counts come from the ordinary lists. What needs a person (an agent that is down, a machine that
 * is away, a conversation that is blocked) is named, with the command that says more.
 */
#include "base/macro.h"
#include "base/mem.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/verbs.h"
#include "cli/when.h"

enum { PAGE = 500, NAMED_MAX = 4, WORDS_MAX = 11, LINE_BYTES_MAX = 4096 };

/* A word that is counted, and what to tell of each item that has it, @ being its name; NULL: items
 * that have it need nobody. */
struct word {
    const char *text, *telling;
};

/* A line of the status: a list, the member that names an item, and the one whose words are counted.
 * With `by_word`, only items with these words are asked for. */
struct section {
    const char *label, *method, *list, *name, *member;
    bool by_word;
    struct word words[WORDS_MAX]; /* in the order told; ended by NULL */
};

// clang-format off
static const struct section sections[] = {
    {"machines", "machine.list", "machines", "machine", "status", false,
     {{"online", NULL}, {"offline", "machine @ is offline; its agents wait for it"}}},
    {"conversations", "conversation.list", "conversations", "conversation", "status", true,
     {{"active", NULL}, {"blocked", "conversation @ is blocked: reeve why @"}}},
    {"agents", "agent.list", "agents", "agent", "view", false,
     {{"working", NULL}, {"waiting", NULL}, {"running", NULL}, {"suspended", NULL},
      {"starting", NULL}, {"stopping", NULL}, {"stopped", NULL},
      {"crashed", "@ has crashed: reeve why @"},
      {"breaker_open", "@ is down, its breaker is open: reeve why @"},
      {"unknown", "@ cannot be seen: reeve why @"}}},
    {"tasks", "task.list", "tasks", "task", "status", true,
     {{"in_progress", NULL}, {"acknowledged", NULL}, {"suspended", NULL}, {"pending", NULL},
      {"queued", NULL}}},
};
// clang-format on

struct status {
    struct client *client;
    struct err *err;
    struct arena arena; /* of one answer */
    int64_t counts[ARRAY_LEN(sections)][WORDS_MAX];
    struct buf server;  /* its line */
    struct buf named;   /* lines, each ended by a NUL */
    size_t named_count; /* those that found no room included */
};

/* ---- counting ---- */

static void add_telling(struct buf *out, const char *telling, const struct json *name)
{
    for (; *telling; telling++)
        if (*telling != '@')
            buf_addc(out, *telling);
        else if (name && name->type == JSON_INT)
            buf_add_int(out, name->integer);
        else if (name && name->type == JSON_STRING)
            print_clean(out, name->string, PRINT_TEXT_CHARS_MAX);
}

static void count(struct status *s, size_t i, const struct json *item)
{
    const struct section *section = &sections[i];
    struct str has = json_get_text(item, section->member);
    for (size_t w = 0; section->words[w].text; w++) {
        const struct word *word = &section->words[w];
        if (!str_is(has, word->text))
            continue;
        s->counts[i][w]++;
        if (word->telling && s->named_count++ < NAMED_MAX) {
            add_telling(&s->named, word->telling, json_get(item, section->name));
            buf_addc(&s->named, '\0');
        }
    }
}

/* A page; *next is where to go on, or -1. */
static int read_page(struct status *s, size_t i, const char *word, int64_t *next)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    const struct json *result;
    struct json_out w = JSON_OUT(&params);
    json_object(&w, NULL);
    if (word) {
        json_stringz(&w, sections[i].member, word);
        json_int(&w, "after", *next);
        json_int(&w, "limit", PAGE);
    }
    json_end(&w);
    arena_clear(&s->arena);
    int r =
        client_call(s->client, sections[i].method, buf_str(&params), &s->arena, &result, s->err);
    const struct json *list = r == 0 ? json_get(result, sections[i].list) : NULL;
    if (r == 0 && (!list || list->type != JSON_ARRAY))
        r = err_set(s->err, ERR_INTERNAL, "%s answers without %s", sections[i].method,
                    sections[i].list);
    if (r < 0)
        return r;
    JSON_FOREACH (item, list)
        count(s, i, item);
    *next = json_get_int(result, "next", -1);
    return 0;
}

static int read_section(struct status *s, size_t i)
{
    int64_t next = 0;
    int r = 0;
    if (!sections[i].by_word)
        return read_page(s, i, NULL, &next);
    for (const struct word *word = sections[i].words; r == 0 && word->text; word++)
        for (next = 0; r == 0 && next >= 0;)
            r = read_page(s, i, word->text, &next);
    return r;
}

static int read_server(struct status *s)
{
    const struct json *info;
    int r = client_call(s->client, "server.info", STR("{}"), &s->arena, &info, s->err);
    if (r < 0)
        return r;
    buf_addf(&s->server, "%s (", client_url(s->client));
    print_clean(&s->server, json_get_text(info, "version"), PRINT_TEXT_CHARS_MAX);
    buf_addz(&s->server, "), up ");
    when_add_age(&s->server, json_get_int(info, "uptimeMs", 0));
    buf_addf(&s->server, ", pid %lld, %lld events", (long long)json_get_int(info, "pid", 0),
             (long long)json_get_int(info, "lastEventId", 0));
    return 0;
}

/* ---- telling ---- */

static void add_counts(struct table *t, size_t i, const int64_t counts[WORDS_MAX])
{
    _cleanup_buf_ struct buf line = BUF_INIT(LINE_BYTES_MAX);
    for (size_t w = 0; sections[i].words[w].text; w++)
        if (counts[w])
            buf_addf(&line, "%s%lld %s", line.len ? ", " : "", (long long)counts[w],
                     sections[i].words[w].text);
    table_cellz(t, sections[i].label);
    table_cell(t, line.len ? buf_str(&line) : STR("none"));
}

static void add_named(struct table *t, const struct status *s)
{
    const char *line = buf_str(&s->named).p;
    size_t shown = MIN(s->named_count, (size_t)NAMED_MAX);
    for (size_t i = 0; i < shown; i++, line += strlen(line) + 1) {
        table_cellz(t, i ? "" : "look at");
        table_cellz(t, line);
    }
    if (s->named_count > shown) {
        _cleanup_free_ char *more = mem_printf("and %zu more", s->named_count - shown);
        table_cellz(t, "");
        table_cellz(t, more);
    }
}

static void write_text(const struct status *s, struct buf *out)
{
    _cleanup_(table_release) struct table t = TABLE(2);
    table_cellz(&t, "server");
    table_cell(&t, buf_str(&s->server));
    for (size_t i = 0; i < ARRAY_LEN(sections); i++)
        add_counts(&t, i, s->counts[i]);
    add_named(&t, s);
    table_write(&t, out);
}

static void write_json(const struct status *s, struct buf *out)
{
    struct json_out w = JSON_OUT(out);
    json_object(&w, NULL);
    json_stringz(&w, "server", client_url(s->client));
    for (size_t i = 0; i < ARRAY_LEN(sections); i++) {
        json_object(&w, sections[i].label);
        for (size_t n = 0; sections[i].words[n].text; n++)
            json_int(&w, sections[i].words[n].text, s->counts[i][n]);
        json_end(&w);
    }
    json_end(&w);
    buf_addc(out, '\n');
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    struct status s = {
        .err = err, .server = BUF_INIT(LINE_BYTES_MAX), .named = BUF_INIT(LINE_BYTES_MAX)};
    int r = cli_connect(args, &s.client, err);
    if (r == 0)
        r = read_server(&s);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(sections); i++)
        r = read_section(&s, i);
    if (r == 0) {
        (cli_flag(args, "json") ? write_json : write_text)(&s, &out);
        r = print_flush(&out, err);
    }
    client_close(s.client);
    arena_release(&s.arena);
    buf_release(&s.server);
    buf_release(&s.named);
    return r;
}

const struct verb verb_status = {
    .name = "status",
    .synopsis = "",
    .summary = "server, machines, agents and work at a glance",
    .details = "Ten lines at most. What needs a person is named, with the command that says more.",
    .flags = VERB_CLIENT | VERB_JSON,
    .run = run,
};
