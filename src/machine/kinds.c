/*
 * kinds.c: reads the machine's configuration.
 *
 * Owns the list of kinds; everything in it lives in one arena. libConfuse brings the grammar, lists
 * and line numbers. Each key is a row of `keys`, and every value of every key is a string to
 * libConfuse: what it means is decided by its row, as in options.c.
 *
 * What libConfuse is too friendly about is refused before it sees the text (check_line()): it skips
 * characters it has no rule for, takes strings and sections that are never closed, and puts the
 * machine's environment in for `${NAME}`. The latter would be an expansion that this file promises
 * not to make.
 *
 * libConfuse's call-backs carry no context. `reading` is that context for the duration of one read.
 * A kind is built up in it, value by value, and joins the list when its section is closed.
 */
#include "machine/kinds.h"

#include <confuse.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/names.h"

enum {
    FILE_BYTES_MAX = 1024 * 1024,
    WORD_BYTES_MAX = 128 * 1024, /* what Linux takes as one argument */
    WORDS_MAX = 1024,
    STOP_GRACE_MS_MAX = 3600 * 1000,
    LOG_BYTES_MIN = 4096,
};

static const int64_t log_bytes_default = 10485760, log_bytes_most = INT64_C(1) << 40;

/* A kind while it is read. */
struct draft {
    struct kind kind;
    const char *argv[WORDS_MAX + 1], *env[WORDS_MAX + 1];
    size_t argc, envc;
    unsigned seen; /* a bit per key */
};

struct reader {
    struct kinds *kinds;
    const char *path, *cwd;
    struct draft draft;
    struct err err;
};

static _Thread_local struct reader *reading;

/* ---- values ---- */

static int append(const char **list, size_t *count, const char *word, struct err *err)
{
    if (*count == WORDS_MAX)
        return err_set(err, ERR_CONFIG, "more than %d words", WORDS_MAX);
    if (strlen(word) > WORD_BYTES_MAX)
        return err_set(err, ERR_CONFIG, "a word of more than %d bytes", WORD_BYTES_MAX);
    list[(*count)++] = word;
    list[*count] = NULL;
    return 0;
}

static int take_argv(struct draft *d, const char *value, struct err *err)
{
    if (d->argc == 0 && !*value)
        return err_set(err, ERR_CONFIG, "the program has no name");
    return append(d->argv, &d->argc, value, err);
}

static int take_env(struct draft *d, const char *value, struct err *err)
{
    const char *equals = strchr(value, '=');
    if (!equals || equals == value)
        return err_set(err, ERR_CONFIG, "%s is not NAME=value", log_quote(str_of(value)));
    if (str_starts(str_of(value), STR("REEVE_")))
        return err_set(err, ERR_CONFIG, "names that begin with REEVE_ are set by the machine");
    return append(d->env, &d->envc, value, err);
}

static int take_cwd(struct draft *d, const char *value, struct err *err)
{
    if (*value != '/')
        return err_set(err, ERR_CONFIG, "%s is not an absolute path", log_quote(str_of(value)));
    d->kind.cwd = value;
    return 0;
}

static int take_stop_grace(struct draft *d, const char *value, struct err *err)
{
    int64_t ms;
    if (!clock_parse_duration(str_of(value), &ms) || ms > STOP_GRACE_MS_MAX)
        return err_set(err, ERR_CONFIG, "%s is not a time such as \"5s\", of an hour at most",
                       log_quote(str_of(value)));
    d->kind.stop_grace_ms = ms;
    return 0;
}

static int take_word(const char *value, const char *const *words, size_t count, const char **ret,
                     struct err *err)
{
    int i = names_find(words, (int)count, str_of(value));
    if (i >= 0) {
        *ret = words[i];
        return 0;
    }
    struct buf list = BUF_INIT(128);
    for (size_t w = 0; w < count; w++)
        buf_addf(&list, "%s%s", w ? ", " : "", words[w]);
    err_set(err, ERR_CONFIG, "%s is none of %s", log_quote(str_of(value)), list.data);
    buf_release(&list);
    return -ERR_CONFIG;
}

static int take_ready(struct draft *d, const char *value, struct err *err)
{
    static const char *const words[] = {"none", "notify", "heartbeat"};
    return take_word(value, words, ARRAY_LEN(words), &d->kind.ready, err);
}

static int take_restart(struct draft *d, const char *value, struct err *err)
{
    static const char *const words[] = {"always", "on-failure", "never"};
    return take_word(value, words, ARRAY_LEN(words), &d->kind.restart, err);
}

static int take_log_bytes_max(struct draft *d, const char *value, struct err *err)
{
    int64_t bytes;
    if (!str_to_int(str_of(value), &bytes) || bytes < LOG_BYTES_MIN || bytes > log_bytes_most)
        return err_set(err, ERR_CONFIG, "%s is not a number of bytes, at least %d",
                       log_quote(str_of(value)), LOG_BYTES_MIN);
    d->kind.log_bytes_max = bytes;
    return 0;
}

static int take_interactive(struct draft *d, const char *value, struct err *err)
{
    static const char *const words[] = {"false", "true"};
    const char *word;
    int r = take_word(value, words, ARRAY_LEN(words), &word, err);
    if (r == 0)
        d->kind.is_interactive = word == words[1];
    return r;
}

static const struct key {
    const char *name;
    bool is_list;
    int (*take)(struct draft *d, const char *value, struct err *err);
} keys[] = {
    {"argv", true, take_argv},
    {"cwd", false, take_cwd},
    {"env", true, take_env},
    {"stop_grace", false, take_stop_grace},
    {"ready", false, take_ready},
    {"restart", false, take_restart},
    {"log_bytes_max", false, take_log_bytes_max},
    {"interactive", false, take_interactive},
};

/* ---- what libConfuse calls ---- */

static void draft_clear(struct reader *r)
{
    r->draft = (struct draft){
        .kind = {.cwd = r->cwd,
                 .stop_grace_ms = 5000,
                 .ready = "none",
                 .restart = "on-failure",
                 .log_bytes_max = log_bytes_default},
    };
}

static int fail_at(const cfg_t *cfg, const char *kind, const char *key)
{
    return err_prefix(&reading->err, "%.120s:%d: kind %s%s%s", reading->path, cfg->line, kind,
                      *key ? ": " : "", key);
}

static const struct key *key_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

/* A value of a key has been read; it is the only one, or one of a list. */
static int on_value(cfg_t *cfg, cfg_opt_t *opt, const char *value, void *result)
{
    struct reader *r = reading;
    const struct key *key = key_find(cfg_opt_name(opt));
    REQUIRE(key);
    unsigned bit = 1U << (key - keys);
    bool is_repeat = cfg_opt_size(opt) == 1 && (r->draft.seen & bit);
    const char *kept = arena_strndup(&r->kinds->arena, value, strlen(value));
    r->draft.seen |= bit;
    int bad = is_repeat ? err_set(&r->err, ERR_CONFIG, "is given twice")
                        : key->take(&r->draft, kept, &r->err);
    if (bad < 0)
        fail_at(cfg, cfg_title(cfg), key->name);
    *(const char **)result = kept;
    return bad;
}

static const char **keep_list(struct arena *a, const char **list, size_t count)
{
    const char **copy = arena_alloc(a, (count + 1) * sizeof *copy);
    if (count)
        memcpy(copy, list, count * sizeof *copy);
    copy[count] = NULL;
    return copy;
}

static int check_draft(const struct reader *r, const char *name, struct err *err)
{
    if (!kind_name_is_valid(str_of(name)))
        return err_set(err, ERR_CONFIG, "a name is 1 to %d of a-z, 0-9, _ and -",
                       KIND_NAME_BYTES_MAX);
    if (!r->draft.argc)
        return err_set(err, ERR_CONFIG, "it has no argv");
    if (r->kinds->count == KINDS_MAX)
        return err_set(err, ERR_CONFIG, "there are more than %d kinds", KINDS_MAX);
    return 0;
}

/* A section has been closed. */
static int on_kind(cfg_t *cfg, cfg_opt_t *opt)
{
    struct reader *r = reading;
    struct arena *a = &r->kinds->arena;
    const char *name = cfg_title(cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1));
    int bad = check_draft(r, name, &r->err);
    if (bad < 0) {
        fail_at(cfg, name, "");
        return bad;
    }
    struct kind *k = &r->kinds->list[r->kinds->count++];
    *k = r->draft.kind;
    k->name = arena_strndup(a, name, strlen(name));
    k->argv = keep_list(a, r->draft.argv, r->draft.argc);
    k->env = keep_list(a, r->draft.env, r->draft.envc);
    draft_clear(r);
    return 0;
}

_printf_(2, 0) static void on_error(cfg_t *cfg, const char *fmt, va_list ap)
{
    char text[ERR_MESSAGE_BYTES / 2];
    if (reading->err.code)
        return;
    vsnprintf(text, sizeof text, fmt, ap);
    err_set(&reading->err, ERR_CONFIG, "%.120s:%d: %s", reading->path, cfg->line, text);
}

/* ---- the text ---- */

static bool belongs_outside_quotes(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_-./:={}, \t\r", c));
}

static bool begins_comment(const char *at, const char *end)
{
    return *at == '#' || (*at == '/' && at + 1 < end && at[1] == '/');
}

/* See the head of this file. `depth` counts the braces that are open outside of strings. */
static int check_line(const char *at, const char *end, int *depth, struct err *err)
{
    char quote = 0;
    for (; at < end && (quote || !begins_comment(at, end)); at++) {
        if (quote && *at == '\\' && at + 1 < end)
            at++;
        else if (quote == '"' && *at == '$' && at + 1 < end && at[1] == '{')
            return err_set(err, ERR_CONFIG, "${...} is not expanded; write '...' to mean it");
        else if (*at == quote)
            quote = 0;
        else if (!quote && (*at == '"' || *at == '\''))
            quote = *at;
        else if (!quote && !belongs_outside_quotes(*at))
            return err_set(err, ERR_CONFIG, "%s does not belong here",
                           log_quote((struct str){at, 1}));
        else if (!quote)
            *depth += (*at == '{') - (*at == '}');
    }
    return quote ? err_set(err, ERR_CONFIG, "a string is not closed") : 0;
}

static int check_text(struct str text, const char *path, struct err *err)
{
    int depth = 0, line = 0;
    const char *end = text.p + text.n;
    if (str_has_nul(text))
        return err_set(err, ERR_CONFIG, "%.160s: a NUL does not belong here", path);
    for (const char *at = text.p; at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        int r = check_line(at, stop, &depth, err);
        if (r < 0) {
            err_prefix(err, "%.160s:%d", path, line + 1);
            return r;
        }
        at = stop + 1;
    }
    return depth > 0 ? err_set(err, ERR_CONFIG, "%.160s:%d: { is not closed", path, line) : 0;
}

static int parse_text(struct reader *r, struct buf *text)
{
    cfg_opt_t values[ARRAY_LEN(keys) + 1];
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        values[i] = keys[i].is_list
                        ? (cfg_opt_t)CFG_STR_LIST_CB(keys[i].name, NULL, CFGF_NODEFAULT, on_value)
                        : (cfg_opt_t)CFG_STR_CB(keys[i].name, NULL, CFGF_NODEFAULT, on_value);
    values[ARRAY_LEN(keys)] = (cfg_opt_t)CFG_END();
    cfg_opt_t top[] = {
        CFG_SEC("kind", values, CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
        CFG_END(),
    };
    cfg_t *cfg = cfg_init(top, CFGF_NONE);
    FILE *in = fmemopen(text->data, text->len, "r");
    REQUIRE(cfg && in);
    cfg_set_error_function(cfg, on_error);
    cfg_set_validate_func(cfg, "kind", on_kind);
    reading = r;
    draft_clear(r);
    bool ok = cfg_parse_fp(cfg, in) == CFG_SUCCESS;
    reading = NULL;
    fclose(in);
    cfg_free(cfg);
    if (!ok && !r->err.code)
        err_set(&r->err, ERR_CONFIG, "%.160s: syntax error", r->path);
    return ok ? 0 : -ERR_CONFIG;
}

/* Of the file itself, wherever a link to it lies. */
static const char *folder_of(struct arena *a, const char *path)
{
    _cleanup_free_ char *real = realpath(path, NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;
    return slash > real ? arena_strndup(a, real, (size_t)(slash - real)) : "/";
}

int kinds_read(struct kinds *k, const char *path, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_BYTES_MAX);
    *k = (struct kinds){.arena = ARENA_INIT};
    int r = file_read(path, &text);
    if (r < 0)
        return err_set(err, ERR_CONFIG, "%.160s: %s", path, strerror(-r));
    buf_addc(&text, '\n');
    r = check_text(buf_str(&text), path, err);
    if (r < 0)
        return r;
    _cleanup_free_ struct reader *reader = mem_zalloc(sizeof *reader);
    reader->kinds = k;
    reader->path = path;
    reader->cwd = folder_of(&k->arena, path);
    r = parse_text(reader, &text);
    if (r < 0) {
        *err = reader->err;
        kinds_release(k);
    }
    return r;
}

void kinds_release(struct kinds *k)
{
    if (!k)
        return;
    arena_release(&k->arena);
    k->count = 0;
}

/* ---- use ---- */

bool kind_name_is_valid(struct str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (!(name.p[i] >= 'a' && name.p[i] <= 'z') && !(name.p[i] >= '0' && name.p[i] <= '9') &&
            name.p[i] != '_' && name.p[i] != '-')
            return false;
    return name.n >= 1 && name.n <= KIND_NAME_BYTES_MAX;
}

const struct kind *kind_find(const struct kinds *k, struct str name)
{
    for (size_t i = 0; i < k->count; i++)
        if (str_eq_nocase(name, str_of(k->list[i].name)))
            return &k->list[i];
    return NULL;
}

static const char *put_in(const char *word, const struct kind_words *words, struct arena *a)
{
    const struct {
        struct str name, value;
    } table[] = {{STR("{conversation}"), words->conversation},
                 {STR("{role}"), words->role},
                 {STR("{task}"), words->task}};
    _cleanup_buf_ struct buf out = BUF_INIT(2 * WORD_BYTES_MAX);
    for (struct str rest = str_of(word); rest.n;) {
        size_t i = 0;
        while (i < ARRAY_LEN(table) && !str_starts(rest, table[i].name))
            i++;
        bool is_name = i < ARRAY_LEN(table);
        buf_add_str(&out, is_name ? table[i].value : (struct str){rest.p, 1});
        rest = str_skip(rest, is_name ? table[i].name.n : 1);
    }
    return arena_strndup(a, buf_str(&out).p, out.len);
}

const char **kind_argv(const struct kind *kind, const struct kind_words *words, struct arena *a)
{
    size_t count = 0;
    while (kind->argv[count])
        count++;
    const char **argv = arena_alloc(a, (count + 1) * sizeof *argv);
    for (size_t i = 0; i < count; i++)
        argv[i] = put_in(kind->argv[i], words, a);
    argv[count] = NULL;
    return argv;
}

void kinds_write(const struct kinds *k, struct json_out *out, const char *key)
{
    json_array(out, key);
    for (size_t i = 0; i < k->count; i++) {
        json_object(out, NULL);
        json_stringz(out, "name", k->list[i].name);
        json_stringz(out, "restart", k->list[i].restart);
        json_stringz(out, "ready", k->list[i].ready);
        json_int(out, "stopGraceMs", k->list[i].stop_grace_ms);
        json_end(out);
    }
    json_end(out);
}
