/* The parts of the machine that need no process: kinds, facts, environment, the end of a log. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "machine/agent_log.h"
#include "machine/facts.h"
#include "machine/kinds.h"
#include "machine/launch.h"
#include "machine/spawn_folder.h"
#include "tap.h"

static char *in_folder(const char *name)
{
    return mem_printf("%s/%s", tap_folder(), name);
}

static void write_text(const char *path, const char *text)
{
    struct err err = ERR_INIT;
    CHECK_INT(file_replace(path, str_of(text), false, &err), 0);
}

static struct str read_text(const char *path, struct buf *ret)
{
    *ret = BUF_INIT(1 << 20);
    CHECK_INT(file_read(path, ret), 0);
    return buf_str(ret);
}

/* ---- kinds ---- */

static int read_kinds(const char *text, struct kinds *ret, struct err *err)
{
    _cleanup_free_ char *path = in_folder("machine.conf");
    write_text(path, text);
    return kinds_read(ret, path, err);
}

TEST(a_kind_is_read_whole)
{
    struct kinds k;
    struct err err = ERR_INIT;
    CHECK_INT(
        read_kinds("# comment with \" and {\n"
                   "kind builder {\n"
                   "    argv = {\"/usr/bin/env\", 'node', \"a;b # c\", \"{role} \\\"x\\\"\",\n"
                   "            \"--for\"} // the program\n"
                   "    cwd = \"/srv/agents\"\n"
                   "    env = {\"MODEL=small\", \"EMPTY=\"}\n"
                   "    stop_grace = \"250ms\"\n"
                   "    ready = heartbeat\n"
                   "    restart = always\n"
                   "    log_bytes_max = 4096\n"
                   "    interactive = true\n"
                   "}\n"
                   "kind plain { argv = {\"true\"} }\n",
                   &k, &err),
        0);
    CHECK_INT(k.count, 2);
    const struct kind *b = kind_find(&k, STR("Builder"));
    CHECK(b && kind_find(&k, STR("nobody")) == NULL);
    CHECK_Z(b->argv[0], "/usr/bin/env");
    CHECK_Z(b->argv[1], "node");
    CHECK_Z(b->argv[2], "a;b # c");
    CHECK_Z(b->argv[3], "{role} \"x\"");
    CHECK_Z(b->argv[4], "--for");
    CHECK(!b->argv[5]);
    CHECK_Z(b->cwd, "/srv/agents");
    CHECK_Z(b->env[1], "EMPTY=");
    CHECK(!b->env[2]);
    CHECK_INT(b->stop_grace_ms, 250);
    CHECK_Z(b->ready, "heartbeat");
    CHECK_Z(b->restart, "always");
    CHECK_INT(b->log_bytes_max, 4096);
    CHECK(b->is_interactive);
    const struct kind *p = kind_find(&k, STR("plain"));
    _cleanup_free_ char *folder = realpath(tap_folder(), NULL);
    CHECK_Z(p->cwd, folder);
    CHECK_INT(p->stop_grace_ms, 5000);
    CHECK_Z(p->ready, "none");
    CHECK_Z(p->restart, "on-failure");
    CHECK_INT(p->log_bytes_max, 10485760);
    CHECK(!p->is_interactive && !p->env[0]);
    kinds_release(&k);
}

TEST(L75_what_is_wrong_in_a_kind_is_refused_with_its_line)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"kind a {\n argv = {\"x\"}\n colour = red\n}\n", ":3: "},
        {"kind a {\n}\n", "it has no argv"},
        {"kind a {\n argv = {}\n}\n", "it has no argv"},
        {"kind a {\n argv = {\"\"}\n}\n", ":2: kind a: argv: the program has no name"},
        {"kind a {\n argv = {\"x\"}\n argv = {\"y\"}\n}\n", ":3: kind a: argv: is given twice"},
        {"kind a {\n argv = {\"x\"}\n ready = none\n ready = notify\n}\n",
         ":4: kind a: ready: is given twice"},
        {"kind a { argv = {\"x\"} }\nkind a { argv = {\"y\"} }\n", ":2: "},
        {"kind A { argv = {\"x\"} }\n", "a name is 1 to 64 of"},
        {"kind \"../x\" { argv = {\"x\"} }\n", "a name is 1 to 64 of"},
        {"kind a {\n argv = {\"x\"}\n stop_grace = 5\n}\n", ":3: kind a: stop_grace: \"5\""},
        {"kind a {\n argv = {\"x\"}\n stop_grace = \"2h\"\n}\n", "of an hour at most"},
        {"kind a {\n argv = {\"x\"}\n restart = sometimes\n}\n",
         ":3: kind a: restart: \"sometimes\" is none of always, on-failure, never"},
        {"kind a {\n argv = {\"x\"}\n ready = yes\n}\n", "is none of none, notify, heartbeat"},
        {"kind a {\n argv = {\"x\"}\n interactive = 1\n}\n", "is none of false, true"},
        {"kind a {\n argv = {\"x\"}\n log_bytes_max = 10M\n}\n", "is not a number of bytes"},
        {"kind a {\n argv = {\"x\"}\n log_bytes_max = 1\n}\n", "is not a number of bytes"},
        {"kind a {\n argv = {\"x\"}\n cwd = srv\n}\n", "is not an absolute path"},
        {"kind a {\n argv = {\"x\"}\n env = {\"X\"}\n}\n", "is not NAME=value"},
        {"kind a {\n argv = {\"x\"}\n env = {\"REEVE_TOKEN=x\"}\n}\n", "set by the machine"},
        {"kind a {\n argv = {\"x}\n}\n", ":2: a string is not closed"},
        {"kind a {\n argv = {\"${HOME}\"}\n}\n", ":2: ${...} is not expanded"},
        {"kind a {\n argv = {\"x\"}\n", "{ is not closed"},
        {"kind a {\n argv = {\"x\"};\n}\n", ":2: \";\" does not belong here"},
        {"kind a {\n argv += {\"x\"}\n}\n", ":2: \"+\" does not belong here"},
        {"/* kind */", ":1: \"*\" does not belong here"},
        {"watchdog { idle_ms = 5 }\n", ":1: "},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct kinds k;
        struct err err = ERR_INIT;
        int r = read_kinds(cases[i].text, &k, &err);
        if (r != -ERR_CONFIG || !strstr(err.message, "machine.conf") ||
            !strstr(err.message, cases[i].said))
            tap_fail(__FILE__, __LINE__, "case %zu: %d \"%s\"", i, r, err.message);
    }
}

TEST(names_in_braces_are_replaced_inside_their_word_and_nothing_else_is)
{
    struct kinds k;
    struct err err = ERR_INIT;
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const struct kind_words words = {STR("12"), STR("a b $(x)"), STR("")};
    CHECK_INT(read_kinds("kind a { argv = {\"x\", \"--for={conversation}{conversation}\","
                         " \"{role}\", '[{task}]', '${HOME} {Role} {} {conversation', '*'} }\n",
                         &k, &err),
              0);
    const char **argv = kind_argv(&k.list[0], &words, &a);
    static const char *const want[] = {
        "x", "--for=1212", "a b $(x)", "[]", "${HOME} {Role} {} {conversation", "*"};
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        CHECK_Z(argv[i], want[i]);
    CHECK(!argv[ARRAY_LEN(want)]);
    kinds_release(&k);
}

/* ---- environment ---- */

static const char *value_of(const char **env, const char *name)
{
    const char *found = NULL;
    for (; *env; env++) {
        if (strncmp(*env, name, strlen(name)) != 0 || (*env)[strlen(name)] != '=')
            continue;
        CHECK(!found); /* once */
        found = *env + strlen(name) + 1;
    }
    return found;
}

TEST(L58_an_agent_gets_nothing_to_wait_on_and_nothing_of_the_machines_own)
{
    const char *inherited[] = {
        "EDITOR=vi",        "REEVE_TOKEN=machine", "PATH=/bin",   "HOME=/root", "LANG=C",
        "NOTIFY_SOCKET=/x", "REEVE_SPAWN=outer",   "MODEL=large", NULL};
    const char *own[] = {"MODEL=small", "PAGER=more", NULL};
    char folder[] = "/opt/reeve";
    const struct launch l = {.program_folder = folder};
    struct kind kind = {.env = own};
    const struct agent_identity who = {"http://h", "secret", "12", "a", "s1"};
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const char **env = launch_environment(&l, &kind, &who, inherited, &a);
    static const struct {
        const char *name, *value;
    } want[] = {{"EDITOR", "true"},
                {"GIT_EDITOR", "true"},
                {"TERM", "dumb"},
                {"GIT_TERMINAL_PROMPT", "0"},
                {"PAGER", "more"},
                {"DEBIAN_FRONTEND", "noninteractive"},
                {"MODEL", "small"},
                {"PATH", "/bin:/opt/reeve"},
                {"LANG", "C"},
                {"REEVE_TOKEN", "secret"},
                {"REEVE_URL", "http://h"},
                {"REEVE_CONVERSATION", "12"},
                {"REEVE_ROLE", "a"},
                {"REEVE_SPAWN", "s1"},
                {"VISUAL", "true"},
                {"HOME", "/root"}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        CHECK_Z(value_of(env, want[i].name), want[i].value);
    CHECK(!value_of(env, "NOTIFY_SOCKET"));
    kind.is_interactive = true;
    env = launch_environment(&l, &kind, &who, inherited, &a);
    CHECK_Z(value_of(env, "EDITOR"), "vi");
    CHECK(!value_of(env, "GIT_EDITOR"));
}

/* ---- facts ---- */

static struct facts *open_facts(void)
{
    struct err err = ERR_INIT;
    struct facts *f;
    CHECK_INT(facts_open(tap_folder(), &f, &err), 0);
    return f;
}

/* The numbers of what is to be told, as "1,2,3". */
static struct str numbers(const struct facts *f, struct arena *a)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20), list = BUF_INIT(1 << 20);
    const struct json *json;
    struct json_out out = JSON_OUT(&b);
    facts_write(f, 1000, 1 << 20, &out, NULL);
    CHECK_INT(json_parse(a, arena_str(a, buf_str(&b)), 64, &json, NULL), 0);
    JSON_FOREACH (fact, json)
        buf_addf(&list, "%s%lld", list.len ? "," : "", (long long)json_get_int(fact, "n", 0));
    return arena_str(a, buf_str(&list));
}

static void add(struct facts *f, const char *fact, const char *spawn)
{
    facts_add(f, fact, spawn, STR("\"pid\":7"), 0);
}

TEST(facts_stay_until_accepted_and_numbers_go_on)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct facts *f = open_facts();
    add(f, "spawned", "s1");
    add(f, "exited", "s1");
    add(f, "stopped", "s2");
    CHECK_STR(numbers(f, &a), "1,2,3");
    f = facts_close(f);
    f = open_facts();
    CHECK_STR(numbers(f, &a), "1,2,3");
    CHECK(facts_has_last_word(f, "s1") && !facts_has_last_word(f, "s3"));
    facts_accepted(f, 2);
    CHECK_STR(numbers(f, &a), "3");
    CHECK(!facts_has_last_word(f, "s1"));
    f = facts_close(f);
    f = open_facts();
    CHECK_STR(numbers(f, &a), "3");
    facts_accepted(f, 3);
    f = facts_close(f);
    f = open_facts();
    CHECK(facts_is_empty(f));
    add(f, "spawned", "s4");
    CHECK_STR(numbers(f, &a), "4");
    facts_close(f);
}

TEST(L57_killed_at_any_byte_it_leaves_every_whole_line)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_free_ char *path = in_folder("outbox");
    struct facts *f = open_facts();
    add(f, "spawned", "s1");
    add(f, "exited", "s1");
    facts_accepted(f, 1);
    add(f, "spawned", "s2");
    facts_close(f);
    struct buf whole;
    struct str text = read_text(path, &whole);
    for (size_t n = 0; n <= text.n; n++) {
        _cleanup_free_ char *part = mem_strndup(text.p, n);
        size_t lines = 0;
        for (size_t i = 0; i < n; i++)
            lines += text.p[i] == '\n';
        static const char *const left[] = {"", "1", "1,2", "2", "2,3"};
        write_text(path, part);
        f = open_facts();
        CHECK_STR(numbers(f, &a), left[lines]);
        add(f, "spawned", "next");
        facts_close(f);
        f = open_facts(); /* what came after is read as well */
        struct str all = numbers(f, &a);
        CHECK_INT(all.n, strlen(left[lines]) + (lines ? 2 : 1));
        facts_close(f);
    }
    buf_release(&whole);
}

TEST(a_damaged_line_is_passed_over)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_free_ char *path = in_folder("outbox");
    log_set_level(LOG_ERROR);
    write_text(path, "{\"n\":1,\"fact\":\"exited\",\"spawnId\":\"s1\"}\nrubbish\n\n{\"n\":0}\n[]\n"
                     "{\"n\":1,\"fact\":\"exited\",\"spawnId\":\"again\"}\n"
                     "{\"n\":5,\"fact\":\"exited\",\"spawnId\":\"s5\"}\n");
    struct facts *f = open_facts();
    CHECK_STR(numbers(f, &a), "1,5");
    facts_close(f);
}

static int gone_count;
static char gone_last[40];

static void note_gone(void *ctx, struct str spawn_id, bool is_last_word)
{
    (void)ctx;
    gone_count++;
    snprintf(gone_last, sizeof gone_last, "%.*s %d", STR_ARG(spawn_id), is_last_word);
}

TEST(L57_a_rejected_fact_is_set_aside_and_leaves_with_the_others)
{
    _cleanup_free_ char *path = in_folder("outbox.rejected");
    struct facts *f = open_facts();
    facts_on_gone(f, note_gone, NULL);
    log_set_level(LOG_ERROR);
    add(f, "spawned", "s1");
    add(f, "exited", "bad");
    add(f, "start_failed", "s3");
    facts_reject(f, 2, STR("no such spawn"));
    facts_reject(f, 77, STR("never was"));
    facts_accepted(f, 3);
    CHECK(facts_is_empty(f));
    CHECK_INT(gone_count, 3);
    CHECK_Z(gone_last, "s3 1");
    struct buf text;
    CHECK(strstr(read_text(path, &text).p, "\"n\":2,"));
    CHECK(!strstr(text.data, "\"n\":1,") && !strstr(text.data, "\"n\":3,"));
    buf_release(&text);
    facts_close(f);
}

TEST(a_report_takes_what_fits_and_one_at_least)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
    struct facts *f = open_facts();
    for (int i = 0; i < 10; i++)
        add(f, "spawned", "s1");
    static const struct {
        size_t limit, bytes, want;
    } cases[] = {{3, 1 << 20, 3}, {100, 1 << 20, 10}, {100, 1, 1}, {100, 200, 2}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json_out out = JSON_OUT(&b);
        CHECK_INT(facts_write(f, cases[i].limit, cases[i].bytes, &out, NULL), cases[i].want);
        buf_clear(&b);
    }
    CHECK_INT(facts_first(f), 1);
    facts_close(f);
}

TEST(the_file_does_not_grow_for_ever)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_free_ char *path = in_folder("outbox");
    struct facts *f = open_facts();
    struct stat st;
    for (int i = 1; i <= 20000; i++) {
        add(f, "spawned", "0123456789abcdef0123456789abcdef");
        facts_accepted(f, i);
    }
    CHECK_INT(stat(path, &st), 0);
    CHECK(st.st_size < 512 * 1024);
    facts_close(f);
    f = open_facts();
    add(f, "spawned", "s");
    CHECK_STR(numbers(f, &a), "20001");
    facts_close(f);
}

/* ---- the end of a log ---- */

/* What is read, and whether something is missing in front of it; `next` is kept in `position`. */
static char position[AGENT_LOG_POSITION_BYTES];

static bool reads(const char *path, int64_t bytes, const char *after, const char *want)
{
    _cleanup_buf_ struct buf out = BUF_INIT(AGENT_LOG_BYTES_MAX + 1);
    struct agent_log_part part = agent_log_read(path, bytes, str_of(after), &out);
    snprintf(position, sizeof position, "%s", part.next);
    CHECK_STR(buf_str(&out), want);
    return part.is_truncated;
}

TEST(the_end_of_a_log_begins_with_a_line)
{
    _cleanup_free_ char *path = in_folder("a.log"), *before = in_folder("a.log.1");
    CHECK(!reads(path, 100, "", ""));
    write_text(path, "one\ntwo\nthree\n");
    CHECK(!reads(path, 100, "", "one\ntwo\nthree\n"));
    CHECK(reads(path, 12, "", "two\nthree\n"));
    write_text(before, "minus\nzero\n"); /* the file was begun anew */
    CHECK(reads(path, 20, "", "zero\none\ntwo\nthree\n"));
    CHECK(!reads(path, 1 << 30, "", "minus\nzero\none\ntwo\nthree\n"));
    CHECK(reads(path, -5, "", ""));
}

TEST(the_end_of_a_log_says_how_many_lines_are_before_it)
{
    _cleanup_free_ char *path = in_folder("a.log"), *before = in_folder("a.log.1");
    _cleanup_buf_ struct buf out = BUF_INIT(AGENT_LOG_BYTES_MAX + 1);
    CHECK_INT(agent_log_read(path, 100, STR(""), &out).lines_before, 0);
    write_text(before, "minus\nzero\n");
    write_text(path, "one\ntwo\nthree\n");
    CHECK_INT(agent_log_read(path, 100, STR(""), &out).lines_before, 0);
    CHECK_INT(agent_log_read(path, 12, STR(""), &out).lines_before, 3);
    CHECK_INT(agent_log_read(path, 20, STR(""), &out).lines_before, 1);
    CHECK_INT(agent_log_read(path, 0, STR(""), &out).lines_before, 5);
    CHECK_INT(agent_log_read(path, 100, STR("start"), &out).lines_before, -1);
    CHECK(!reads(path, 13, "start", "minus\nzero\n")); /* nothing is missing in front of it */
    CHECK(!reads(path, 100, position, "one\ntwo\nthree\n"));
}

TEST(a_log_is_followed_through_the_change_of_its_file)
{
    _cleanup_free_ char *path = in_folder("a.log"), *before = in_folder("a.log.1");
    char first[AGENT_LOG_POSITION_BYTES];
    write_text(path, "one\ntwo\n");
    CHECK(!reads(path, 100, "", "one\ntwo\n"));
    snprintf(first, sizeof first, "%s", position);
    CHECK(!reads(path, 100, first, ""));
    CHECK_Z(position, first);
    FILE *f = fopen(path, "a");
    fprintf(f, "three\nfour\nfi");
    fclose(f);
    CHECK(!reads(path, 8, first, "three\n")); /* whole lines, and no more than asked for */
    CHECK(!reads(path, 100, position, "four\n"));
    CHECK_INT(rename(path, before), 0);
    write_text(path, "six\n");
    CHECK(!reads(path, 100, first, "three\nfour\nfisix\n"));
    CHECK(!reads(path, 100, position, ""));
    CHECK_INT(rename(path, before), 0);
    write_text(path, "seven\n");
    CHECK(!reads(path, 100, position, "seven\n"));
    CHECK(reads(path, 100, first, "six\nseven\n")); /* its file is gone */
    CHECK(reads(path, 100, "nonsense", "six\nseven\n"));
    CHECK(reads(path, 100, "1:-5", "six\nseven\n"));
}

TEST(a_spawn_id_that_is_a_path_is_none)
{
    CHECK(spawn_id_is_valid(STR("0af-_Z")));
    CHECK(!spawn_id_is_valid(STR("")));
    CHECK(!spawn_id_is_valid(STR("..")));
    CHECK(!spawn_id_is_valid(STR("a/b")));
    CHECK(!spawn_id_is_valid(STR("0123456789abcdef0123456789abcdef0")));
}
