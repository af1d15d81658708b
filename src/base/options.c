/*
 * options.c: reads, checks and shows the settings.
 *
 * One parser (parse_value) decides what a value is, for file, environment and --set alike; each
 * source only finds out where a text stands and which row it is for. A reader works on a copy and
 * hands it over when everything was right, so an error never leaves half of a file behind.
 *
 * The file. libConfuse brings the grammar and the line numbers; every key is declared a string, so
 * that it never converts anything (its integers take 0x10 and 010, its booleans take "on"). What it
 * is too friendly about is refused or removed before it sees the text, in plain_text():
 *   - it skips characters it has no rule for, so that `= +5` and `= 5*` would both be 5
 *   - it takes a section, a string or a comment that is never closed, up to the end of the file;
 *     the latter two also leave its scanner, which is global, in that state for the next file
 *   - `${NAME}` would be a source of values that no output of ours could tell
 *   - its scanner ends the process if the file cannot be read (a directory): we read it ourselves
 * With quotes gone, a value in the file is exactly what it would be in the environment.
 *
 * libConfuse's call-backs carry no context. `reading` is that context: set for the duration of one
 * parse, per thread. Everything else here is free of state.
 */
#include "base/options.h"

#include <confuse.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"

enum { FILE_BYTES_MAX = 256 * 1024, PATH_SHOWN_BYTES = 80, NAME_BYTES_MAX = 64 };

// clang-format off
const struct option_row option_rows[OPTION_COUNT] = {
#define X(section_, key_, type_, default_, min_, max_, zero_, env_, help_)                         \
    [OPT_##section_##_##key_] = {                                                                  \
        .section = #section_, .key = #key_, .type = OPTION_##type_, .value = (default_),           \
        .min = (min_), .max = (max_), .zero = OPTION_ZERO_##zero_, .env = (env_), .help = (help_)},
    OPTION_LIST(X)
#undef X
};
// clang-format on

static const char *const source_names[] = {
    [OPTION_FROM_DEFAULT] = "default",
    [OPTION_FROM_FILE] = "file",
    [OPTION_FROM_ENV] = "environment",
    [OPTION_FROM_FLAG] = "flag",
};

const char *option_source_name(enum option_source source)
{
    return source_names[source];
}

void options_init(struct options *o)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        o->value[i] = option_rows[i].value;
        o->source[i] = OPTION_FROM_DEFAULT;
    }
}

static void store(struct options *o, int id, int64_t value, enum option_source source)
{
    o->value[id] = value;
    o->source[id] = source;
}

/* ---- values ---- */

static int parse_bool(struct str text, int64_t *ret, struct err *err)
{
    bool yes = str_is(text, "true");
    if (!yes && !str_is(text, "false"))
        return err_set(err, ERR_CONFIG, "%s is neither true nor false", log_quote(text));
    *ret = yes;
    return 0;
}

static bool is_plain_number(struct str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
    /* 010 is ten to some and eight to others */
    return text.n == 1 || (text.n > 1 && text.p[0] != '0');
}

static int parse_int(const struct option_row *row, struct str text, int64_t *ret, struct err *err)
{
    int64_t value;
    if (!is_plain_number(text))
        return err_set(err, ERR_CONFIG, "%s is not a whole number", log_quote(text));
    if (!str_to_int(text, &value) || value > row->max)
        return err_set(err, ERR_CONFIG, "%s is too much: at most %lld", log_quote(text),
                       (long long)row->max);
    if (value == 0 && row->zero == OPTION_ZERO_NEVER)
        return err_set(err, ERR_CONFIG, "0 is refused: this cannot be turned off");
    if (value < row->min && !(value == 0 && row->zero == OPTION_ZERO_OFF))
        return err_set(err, ERR_CONFIG, "%lld is too little: at least %lld", (long long)value,
                       (long long)row->min);
    *ret = value;
    return 0;
}

static int parse_value(const struct option_row *row, struct str text, int64_t *ret, struct err *err)
{
    return row->type == OPTION_BOOL ? parse_bool(text, ret, err) : parse_int(row, text, ret, err);
}

/* ---- names, and what was probably meant ---- */

/* A name as people write it; all names of the table fit. */
struct name {
    char z[NAME_BYTES_MAX];
};

static struct name dotted_name(const struct option_row *row)
{
    struct name n;
    snprintf(n.z, sizeof n.z, "%s.%s", row->section, row->key);
    return n;
}

static struct name env_by_rule(const struct option_row *row, const char *key)
{
    struct name n;
    snprintf(n.z, sizeof n.z, "REEVE_%s_%s", row->section, key);
    for (char *p = n.z; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    return n;
}

static int find_row(struct str dotted)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (str_is(dotted, dotted_name(&option_rows[i]).z))
            return i;
    return -1;
}

/* Least number of letters to add, drop or change to make b of a; both under NAME_BYTES_MAX. */
static size_t edit_distance(struct str a, struct str b)
{
    size_t row[NAME_BYTES_MAX];
    for (size_t j = 0; j <= b.n; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t change = diagonal + (a.p[i - 1] != b.p[j - 1]);
            diagonal = row[j];
            size_t add_or_drop = MIN(row[j], row[j - 1]) + 1;
            row[j] = MIN(change, add_or_drop);
        }
    }
    return row[b.n];
}

static size_t name_distance(struct str typed, const char *name)
{
    struct str n = str_of(name);
    if (typed.n == 0 || typed.n >= NAME_BYTES_MAX)
        return SIZE_MAX;
    /* `ttl` for `ttl_seconds`: a name that only goes on where the typed one ends is nearly right.
     */
    return str_starts(n, typed) ? 1 : edit_distance(typed, n);
}

/* The nearest name so far; "" while none is near enough (two thirds of the letters right). */
struct guess {
    size_t distance;
    struct name name;
};

static struct guess guess_begin(struct str typed)
{
    return (struct guess){.distance = MAX(typed.n / 3, (size_t)1) + 1};
}

static void guess_offer(struct guess *g, size_t distance, const char *name)
{
    if (distance >= g->distance)
        return;
    g->distance = distance;
    snprintf(g->name.z, sizeof g->name.z, "%s", name);
}

static int fail_unknown(struct err *err, const char *what, const struct guess *g)
{
    if (g->name.z[0] == '\0')
        return err_set(err, ERR_CONFIG, "no such %s", what);
    return err_set(err, ERR_CONFIG, "no such %s; did you mean %s?", what, g->name.z);
}

static int fail_unknown_option(struct err *err, struct str dotted)
{
    const char *dot = memchr(dotted.p, '.', dotted.n);
    struct str key = dot ? str_skip(dotted, (size_t)(dot - dotted.p) + 1) : dotted;
    struct guess g = guess_begin(dotted);
    for (int i = 0; i < OPTION_COUNT; i++) {
        struct name name = dotted_name(&option_rows[i]);
        guess_offer(&g, name_distance(dotted, name.z), name.z);
        if (str_is(key, option_rows[i].key)) /* in the wrong section, or in none */
            guess_offer(&g, 2, name.z);
    }
    return fail_unknown(err, "option", &g);
}

static int fail_unknown_section(struct err *err, struct str section)
{
    struct guess g = guess_begin(section);
    for (int i = 0; i < OPTION_COUNT; i++)
        guess_offer(&g, name_distance(section, option_rows[i].section), option_rows[i].section);
    return fail_unknown(err, "section", &g);
}

/* ---- file ---- */

struct reader {
    struct options options; /* as far as read */
    const char *path;
    struct err err;
    int line[OPTION_COUNT]; /* where a key was set; 0 = not yet */
};

static _Thread_local struct reader *reading;

/* The end of a long path is what tells files apart, and leaves room for the reason. */
static const char *path_shown(const char *path)
{
    size_t n = strlen(path);
    if (n <= PATH_SHOWN_BYTES)
        return path;
    const char *tail = path + n - PATH_SHOWN_BYTES;
    const char *slash = strchr(tail, '/');
    return slash ? slash + 1 : tail;
}

static int read_all(const char *path, struct buf *out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_CONFIG, "%s: %s", path_shown(path), strerror(errno));
    ssize_t n;
    do {
        char chunk[4096];
        n = read(fd, chunk, sizeof chunk);
        if (n > 0)
            buf_add(out, chunk, (size_t)n);
    } while ((n > 0 && !out->overflow) || (n < 0 && errno == EINTR));
    int failed = n < 0 ? errno : 0;
    close(fd);
    if (failed)
        return err_set(err, ERR_CONFIG, "%s: %s", path_shown(path), strerror(failed));
    if (out->overflow)
        return err_set(err, ERR_CONFIG, "%s: larger than %d bytes", path_shown(path),
                       FILE_BYTES_MAX);
    return 0;
}

static bool belongs_in_file(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_-.={} \t\r", c));
}

/* Blanks out the comment of a line and looks at the rest; `depth` counts open braces. */
static int plain_line(char *line, size_t n, int *depth, struct err *err)
{
    bool comment = false;
    for (size_t i = 0; i < n; i++) {
        comment |= line[i] == '#' || (line[i] == '/' && i + 1 < n && line[i + 1] == '/');
        if (comment)
            line[i] = ' ';
        else if (!belongs_in_file(line[i]))
            return err_set(err, ERR_CONFIG, "%s does not belong here",
                           log_quote((struct str){line + i, 1}));
        *depth += (line[i] == '{') - (line[i] == '}');
    }
    return 0;
}

/* See the head of this file: leaves only what libConfuse reads the way we mean it. */
static int plain_text(struct buf *text, const char *path, struct err *err)
{
    if (text->len == 0 || text->data[text->len - 1] != '\n')
        buf_addc(text, '\n');
    int depth = 0, line = 0, opened = 0;
    for (size_t at = 0; at < text->len;) {
        char *start = text->data + at;
        size_t n = (size_t)((char *)memchr(start, '\n', text->len - at) - start);
        int depth_before = depth;
        int r = plain_line(start, n, &depth, err);
        line++;
        if (r < 0)
            return err_prefix(err, "%s:%d", path_shown(path), line), r;
        if (depth_before <= 0 && depth > 0)
            opened = line;
        at += n + 1;
    }
    if (depth > 0)
        return err_set(err, ERR_CONFIG, "%s:%d: { is not closed", path_shown(path), opened);
    return 0;
}

static void fail_at(const cfg_t *cfg, const char *name)
{
    err_prefix(&reading->err, "%s:%d: %s", path_shown(reading->path), cfg->line, name);
}

static int set_from_file(struct reader *r, int id, int line, struct str text)
{
    if (r->line[id])
        return err_set(&r->err, ERR_CONFIG, "was set on line %d already", r->line[id]);
    int64_t value;
    int bad = parse_value(&option_rows[id], text, &value, &r->err);
    if (bad < 0)
        return bad;
    r->line[id] = line;
    store(&r->options, id, value, OPTION_FROM_FILE);
    return 0;
}

static int on_value(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
    int id = (int)opt->def.number;
    if (set_from_file(reading, id, cfg->line, str_of(value)) < 0) {
        fail_at(cfg, dotted_name(&option_rows[id]).z);
        return -1;
    }
    *(const char **)result = value;
    return 0;
}

/*
 * libConfuse names an unknown key only inside its message. Should its wording ever change (or be
 * translated), its own message is shown instead: we lose a hint, not an error.
 */
static void on_unknown(cfg_t *cfg, const char *typed)
{
    struct reader *r = reading;
    struct name name;
    bool top = strcmp(cfg->name, "root") == 0;
    snprintf(name.z, sizeof name.z, "%s%s%s", top ? "" : cfg->name, top ? "" : ".", typed);
    if (top)
        fail_unknown_section(&r->err, str_of(typed));
    else
        fail_unknown_option(&r->err, str_of(name.z));
    fail_at(cfg, name.z);
}

_printf_(2, 0) static void on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
    struct reader *r = reading;
    if (r->err.code)
        return;
    if (strcmp(fmt, "no such option '%s'") == 0) {
        on_unknown(cfg, va_arg(ap, const char *));
        return;
    }
    char text[ERR_MESSAGE_BYTES / 2];
    vsnprintf(text, sizeof text, fmt, ap);
    err_set(&r->err, ERR_CONFIG, "%s:%d: %s", path_shown(r->path), cfg->line, text);
}

/* The table as libConfuse wants it: sections, each pointing to its run of keys. */
struct grammar {
    cfg_opt_t sections[OPTION_COUNT + 1];
    cfg_opt_t keys[2 * OPTION_COUNT]; /* each run ends with CFG_END */
};

static void grammar_fill(struct grammar *g)
{
    cfg_opt_t *section = g->sections, *key = g->keys;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        if (i == 0 || strcmp(row->section, option_rows[i - 1].section) != 0)
            *section++ = (cfg_opt_t)CFG_SEC(row->section, key, CFGF_NONE);
        *key = (cfg_opt_t)CFG_STR_CB(row->key, NULL, CFGF_NODEFAULT, on_value);
        key++->def.number = i; /* unused without a default: carries the row to on_value() */
        if (i + 1 == OPTION_COUNT || strcmp(row->section, option_rows[i + 1].section) != 0)
            *key++ = (cfg_opt_t)CFG_END();
    }
    *section = (cfg_opt_t)CFG_END();
}

static bool parse_text(struct reader *r, struct buf *text)
{
    _cleanup_free_ struct grammar *g = mem_zalloc(sizeof *g);
    grammar_fill(g);
    cfg_t *cfg = cfg_init(g->sections, CFGF_NONE);
    FILE *in = fmemopen(text->data, text->len, "r");
    REQUIRE(cfg && in);
    cfg_set_error_function(cfg, on_error);
    reading = r;
    bool ok = cfg_parse_fp(cfg, in) == CFG_SUCCESS;
    reading = NULL;
    if (!ok && !r->err.code)
        err_set(&r->err, ERR_CONFIG, "%s: syntax error", path_shown(r->path));
    fclose(in);
    cfg_free(cfg);
    return ok;
}

int options_read_file(struct options *o, const char *path, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_BYTES_MAX);
    int r = read_all(path, &text, err);
    if (r < 0)
        return r;
    text.max++; /* plain_text() ends the last line */
    r = plain_text(&text, path, err);
    if (r < 0)
        return r;
    struct reader reader = {.options = *o, .path = path};
    if (!parse_text(&reader, &text)) {
        if (err)
            *err = reader.err;
        return -ERR_CONFIG;
    }
    *o = reader.options;
    return 0;
}

/* ---- environment ---- */

static bool is_known_variable(struct str name)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (str_is(name, option_rows[i].env))
            return true;
    return false;
}

static bool is_our_variable(struct str name)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (str_starts(name, str_of(env_by_rule(&option_rows[i], "").z)))
            return true;
    return false;
}

static int fail_unknown_variable(struct err *err, struct str name)
{
    struct guess g = guess_begin(name);
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        guess_offer(&g, name_distance(name, row->env), row->env);
        /* REEVE_WATCHDOG_IDLE_MS would follow the rule, but is called otherwise. */
        guess_offer(&g, name_distance(name, env_by_rule(row, row->key).z), row->env);
    }
    return fail_unknown(err, "option", &g);
}

static int refuse_unknown_variables(struct err *err)
{
    for (char **entry = environ; entry && *entry; entry++) {
        struct str name = {*entry, strcspn(*entry, "=")};
        if (is_known_variable(name) || !is_our_variable(name))
            continue;
        int r = fail_unknown_variable(err, name);
        err_prefix(err, "environment %.*s", (int)MIN(name.n, (size_t)NAME_BYTES_MAX), name.p);
        return r;
    }
    return 0;
}

int options_read_env(struct options *o, struct err *err)
{
    struct options copy = *o;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const char *text = getenv(option_rows[i].env);
        if (!text)
            continue;
        int64_t value;
        int r = parse_value(&option_rows[i], str_of(text), &value, err);
        if (r < 0)
            return err_prefix(err, "environment %s", option_rows[i].env), r;
        store(&copy, i, value, OPTION_FROM_ENV);
    }
    int r = refuse_unknown_variables(err);
    if (r < 0)
        return r;
    *o = copy;
    return 0;
}

/* ---- --set ---- */

int options_set(struct options *o, struct str assignment, struct err *err)
{
    const char *equals = assignment.n ? memchr(assignment.p, '=', assignment.n) : NULL;
    if (!equals)
        return err_set(err, ERR_CONFIG, "--set %s: write section.key=value", log_quote(assignment));
    struct str name = {assignment.p, (size_t)(equals - assignment.p)};
    struct str text = str_skip(assignment, name.n + 1);
    int id = find_row(name);
    if (id < 0) {
        int r = fail_unknown_option(err, name);
        return err_prefix(err, "--set %s", log_quote(name)), r;
    }
    int64_t value;
    int r = parse_value(&option_rows[id], text, &value, err);
    if (r < 0)
        return err_prefix(err, "--set %s", dotted_name(&option_rows[id]).z), r;
    store(o, id, value, OPTION_FROM_FLAG);
    return 0;
}

/* ---- rules between options ---- */

/* `high` may not be below `low`, unless one of them is off. */
static const struct {
    enum option_id low, high;
    const char *why;
} order_rules[] = {
    {OPT_liveness_heartbeat_seconds, OPT_liveness_ttl_seconds,
     "a lease must outlast the wait for the beat that renews it"},
    {OPT_liveness_heartbeat_seconds, OPT_liveness_active_ttl_seconds,
     "a lease must outlast the wait for the beat that renews it"},
    {OPT_machine_heartbeat_seconds, OPT_machine_ttl_seconds,
     "a lease must outlast the wait for the beat that renews it"},
    {OPT_restart_backoff_first_ms, OPT_restart_backoff_max_ms, "the first wait is the shortest"},
    {OPT_pmo_pending_wakeup_seconds, OPT_pmo_pending_wakeup_skip_seconds,
     "a row is announced before it is skipped"},
    {OPT_pmo_dispatched_retry_seconds, OPT_pmo_dispatched_timeout_seconds,
     "a task is announced again before it is reaped"},
};

int options_check(const struct options *o, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(order_rules); i++) {
        int64_t low = o->value[order_rules[i].low], high = o->value[order_rules[i].high];
        if (low == 0 || high == 0 || high >= low)
            continue;
        return err_set(err, ERR_CONFIG, "%s (%lld) is below %s (%lld): %s",
                       dotted_name(&option_rows[order_rules[i].high]).z, (long long)high,
                       dotted_name(&option_rows[order_rules[i].low]).z, (long long)low,
                       order_rules[i].why);
    }
    return 0;
}

/* ---- output ---- */

void options_write_members(const struct options *o, struct json_out *w)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        json_object(w, dotted_name(&option_rows[i]).z);
        if (option_rows[i].type == OPTION_BOOL)
            json_bool(w, "value", o->value[i]);
        else
            json_int(w, "value", o->value[i]);
        json_stringz(w, "source", option_source_name(o->source[i]));
        json_end(w);
    }
}

void options_write(const struct options *o, struct json_out *w, const char *key)
{
    json_object(w, key);
    options_write_members(o, w);
    json_end(w);
}

static const char *zero_text(const struct option_row *row)
{
    static const char *const texts[] = {
        [OPTION_ZERO_OFF] = "off",
        [OPTION_ZERO_NEVER] = "refused",
        [OPTION_ZERO_VALUE] = "zero",
    };
    return row->type == OPTION_BOOL ? "refused" : texts[row->zero];
}

void options_write_markdown(struct buf *out)
{
    buf_addz(out, "| key | environment | default | 0 means | what |\n|---|---|---|---|---|\n");
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *row = &option_rows[i];
        buf_addf(out, "| `%s` | `%s` | ", dotted_name(row).z, row->env);
        if (row->type == OPTION_BOOL)
            buf_addz(out, row->value ? "true" : "false");
        else
            buf_add_int(out, row->value);
        buf_addf(out, " | %s | %s |\n", zero_text(row), row->help);
    }
}
