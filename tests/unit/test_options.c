/*
 * test_options.c: every row of the table through every source, and everything that must be refused.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/options.h"
#include "tap.h"

static const char *conf_path(void)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/x.conf", tap_folder());
    return path;
}

static void write_conf(struct str text)
{
    int fd = open(conf_path(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, text.p, text.n), text.n);
    close(fd);
}

static int read_text(struct options *o, const char *text, struct err *err)
{
    write_conf(str_of(text));
    return options_read_file(o, conf_path(), err);
}

/* The reason without the folder of this run. */
static const char *reason(const struct err *err)
{
    size_t n = strlen(tap_folder());
    return strncmp(err->message, tap_folder(), n) == 0 ? err->message + n + 1 : err->message;
}

static bool same(const struct options *a, const struct options *b)
{
    return memcmp(a->value, b->value, sizeof a->value) == 0 &&
           memcmp(a->source, b->source, sizeof a->source) == 0;
}

#define CHECK_REFUSED(call, want)        \
    do {                                 \
        struct err err = ERR_INIT;       \
        struct options o, before;        \
        options_init(&o);                \
        before = o;                      \
        CHECK_INT(call, -ERR_CONFIG);    \
        CHECK_INT(err.code, ERR_CONFIG); \
        CHECK_Z(reason(&err), want);     \
        CHECK(same(&o, &before));        \
    } while (0)

#define FILE_REFUSED(text, want) CHECK_REFUSED(read_text(&o, text, &err), want)
#define SET_REFUSED(text, want) CHECK_REFUSED(options_set(&o, STR(text), &err), want)
#define ENV_REFUSED(name, value, want)                   \
    do {                                                 \
        setenv(name, value, 1);                          \
        CHECK_REFUSED(options_read_env(&o, &err), want); \
        unsetenv(name);                                  \
    } while (0)

/* ---- the table ---- */

TEST(table_is_sound)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *r = &option_rows[i];
        CHECK(r->min >= 0 && r->min <= r->max);
        CHECK(r->value >= r->min && r->value <= r->max);
        CHECK(r->zero != OPTION_ZERO_NEVER || r->min > 0);
        CHECK(r->zero != OPTION_ZERO_OFF || r->min == 0);
        CHECK(r->type != OPTION_BOOL || (r->min == 0 && r->max == 1));
        CHECK(strlen(r->help) > 10 && !strchr(r->help, '|') && !strchr(r->help, '\n'));
        CHECK(strlen(r->section) + strlen(r->key) + strlen("REEVE__") < 64);
        for (int j = 0; j < i; j++) {
            const struct option_row *other = &option_rows[j];
            CHECK(strcmp(r->env, other->env) != 0);
            bool same_section = strcmp(r->section, other->section) == 0;
            CHECK(!same_section || strcmp(r->key, other->key) != 0);
            /* rows of a section stand together */
            CHECK(!same_section || strcmp(option_rows[i - 1].section, r->section) == 0);
        }
    }
}

TEST(environment_names_follow_the_rule)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_row *r = &option_rows[i];
        _cleanup_free_ char *rule = strcmp(r->section, "watchdog") == 0
                                        ? mem_printf("watchdog_%s", r->key)
                                        : mem_printf("reeve_%s_%s", r->section, r->key);
        for (char *p = rule; *p; p++)
            *p = (char)toupper((unsigned char)*p);
        if (i == OPT_runtime_controls_session_wall_clock_seconds)
            CHECK_Z(r->env, "REEVE_SESSION_WALL_CLOCK_SECONDS");
        else
            CHECK_Z(r->env, rule);
    }
}

/* The protocol's table, typed a second time on purpose. */
static const struct {
    const char *name;
    int64_t value;
    enum option_zero zero;
} documented[] = {
    {"watchdog.enabled", 1, OPTION_ZERO_VALUE},
    {"watchdog.interval_ms", 300000, OPTION_ZERO_NEVER},
    {"watchdog.idle_ms", 900000, OPTION_ZERO_OFF},
    {"watchdog.global_idle_ms", 0, OPTION_ZERO_OFF},
    {"runtime_controls.session_wall_clock_seconds", 14400, OPTION_ZERO_OFF},
    {"liveness.heartbeat_seconds", 30, OPTION_ZERO_NEVER},
    {"liveness.ttl_seconds", 60, OPTION_ZERO_NEVER},
    {"liveness.active_ttl_seconds", 60, OPTION_ZERO_NEVER},
    {"liveness.acknowledged_timeout_seconds", 120, OPTION_ZERO_OFF},
    {"liveness.pending_timeout_seconds", 300, OPTION_ZERO_OFF},
    {"liveness.unattended_work_seconds", 900, OPTION_ZERO_NEVER},
    {"liveness.max_attempts", 3, OPTION_ZERO_NEVER},
    {"task.max_seconds", 10800, OPTION_ZERO_OFF},
    {"pmo.watchdog_interval_seconds", 5, OPTION_ZERO_NEVER},
    {"pmo.dispatched_retry_seconds", 10, OPTION_ZERO_OFF},
    {"pmo.dispatched_timeout_seconds", 900, OPTION_ZERO_OFF},
    {"pmo.pending_wakeup_seconds", 5, OPTION_ZERO_OFF},
    {"pmo.pending_wakeup_skip_seconds", 300, OPTION_ZERO_OFF},
    {"pmo.active_reap_seconds", 1800, OPTION_ZERO_OFF},
    {"pmo.suspended_reap_seconds", 7200, OPTION_ZERO_OFF},
    {"worker.watchdog_interval_seconds", 5, OPTION_ZERO_NEVER},
    {"worker.inbox_processing_timeout_seconds", 300, OPTION_ZERO_OFF},
    {"worker.suspend_timeout_seconds", 30, OPTION_ZERO_OFF},
    {"restart.backoff_first_ms", 1000, OPTION_ZERO_OFF},
    {"restart.backoff_max_ms", 60000, OPTION_ZERO_OFF},
    {"restart.burst", 5, OPTION_ZERO_OFF},
    {"restart.window_seconds", 600, OPTION_ZERO_NEVER},
    {"restart.stable_seconds", 600, OPTION_ZERO_OFF},
    {"restart.command_deadline_seconds", 120, OPTION_ZERO_NEVER},
    {"machine.heartbeat_seconds", 30, OPTION_ZERO_NEVER},
    {"machine.ttl_seconds", 90, OPTION_ZERO_NEVER},
    {"machine.fence_seconds", 300, OPTION_ZERO_NEVER},
    {"watch.gap_seconds", 2, OPTION_ZERO_NEVER},
};

static int row_called(const char *name)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        char dotted[64];
        snprintf(dotted, sizeof dotted, "%s.%s", option_rows[i].section, option_rows[i].key);
        if (strcmp(dotted, name) == 0)
            return i;
    }
    tap_fail(__FILE__, __LINE__, "no row %s", name);
}

TEST(L75_every_documented_key_exists_with_its_default)
{
    struct options o;
    options_init(&o);
    for (size_t i = 0; i < ARRAY_LEN(documented); i++) {
        int id = row_called(documented[i].name);
        CHECK_INT(o.value[id], documented[i].value);
        CHECK_INT(o.source[id], OPTION_FROM_DEFAULT);
        CHECK_INT(option_rows[id].zero, documented[i].zero);
    }
    struct err err = ERR_INIT;
    CHECK_INT(options_check(&o, &err), 0);
}

/* ---- every row, every source ---- */

static int from_file(struct options *o, int id, const char *value, struct err *err)
{
    _cleanup_free_ char *text =
        mem_printf("%s {\n  %s = %s\n}\n", option_rows[id].section, option_rows[id].key, value);
    return read_text(o, text, err);
}

static int from_env(struct options *o, int id, const char *value, struct err *err)
{
    setenv(option_rows[id].env, value, 1);
    int r = options_read_env(o, err);
    unsetenv(option_rows[id].env);
    return r;
}

static int from_flag(struct options *o, int id, const char *value, struct err *err)
{
    _cleanup_free_ char *text =
        mem_printf("%s.%s=%s", option_rows[id].section, option_rows[id].key, value);
    return options_set(o, str_of(text), err);
}

static const struct {
    int (*set)(struct options *o, int id, const char *value, struct err *err);
    enum option_source source;
} sources[] = {
    {from_file, OPTION_FROM_FILE},
    {from_env, OPTION_FROM_ENV},
    {from_flag, OPTION_FROM_FLAG},
};

static void check_taken(int id, const char *text, int64_t value)
{
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        struct options o, want;
        struct err err = ERR_INIT;
        options_init(&o);
        options_init(&want);
        want.value[id] = value;
        want.source[id] = sources[i].source;
        if (sources[i].set(&o, id, text, &err) != 0)
            tap_fail(__FILE__, __LINE__, "%s", err.message);
        CHECK(same(&o, &want));
        CHECK_INT(err.code, 0);
    }
}

static void check_refused(int id, const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        struct options o, before;
        struct err err = ERR_INIT;
        options_init(&o);
        before = o;
        if (sources[i].set(&o, id, text, &err) != -ERR_CONFIG)
            tap_fail(__FILE__, __LINE__, "%s.%s takes %s from source %zu", option_rows[id].section,
                     option_rows[id].key, text, i);
        CHECK(err.message[0] != '\0');
        CHECK(same(&o, &before));
        CHECK_INT(sources[i].set(&o, id, text, NULL), -ERR_CONFIG);
    }
}

static void check_number_taken(int id, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    check_taken(id, text, value);
}

static void check_number_refused(int id, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    check_refused(id, text);
}

TEST(L75_every_number_is_read_and_its_range_kept)
{
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *r = &option_rows[id];
        if (r->type != OPTION_INT)
            continue;
        check_number_taken(id, r->min);
        check_number_taken(id, r->min + 1);
        check_number_taken(id, r->max);
        check_number_refused(id, r->max + 1);
        check_number_refused(id, r->min - 1);
        if (r->zero == OPTION_ZERO_NEVER)
            check_refused(id, "0");
        else
            check_taken(id, "0", 0);
    }
}

TEST(L75_no_number_is_guessed)
{
    static const char *const wrong[] = {
        "true",    "false", "nan", "NaN",    "inf",   "-inf", "infinity",
        "1e3",     "5.0",   ".5",  "0x10",   "010",   "00",   "-0",
        "-1",      "+5",    "5s",  "5000ms", "five",  "5_0",  "9223372036854775808",
        "5 6",     "5*",    "5;",  "5,",     "\"5\"", "'5'",  "18446744073709551617",
        "${HOME}", "{5}",   "5=",  "0b1",    "5u",    "٥",    "99999999999999999999999999",
    };
    for (int id = 0; id < OPTION_COUNT; id++)
        for (size_t i = 0; i < ARRAY_LEN(wrong) && option_rows[id].type == OPTION_INT; i++)
            check_refused(id, wrong[i]);
    check_refused(OPT_watchdog_idle_ms, "");
}

TEST(L75_a_bool_is_true_or_false_and_never_a_number)
{
    static const char *const wrong[] = {"1",    "0",      "yes", "no",  "on",       "off",
                                        "TRUE", "True",   "t",   "nan", "\"true\"", "true1",
                                        "2",    "false.", "-1",  "{}",  "tru"};
    for (int id = 0; id < OPTION_COUNT; id++) {
        if (option_rows[id].type != OPTION_BOOL)
            continue;
        check_taken(id, "true", 1);
        check_taken(id, "false", 0);
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
            check_refused(id, wrong[i]);
    }
}

TEST(L75_true_is_not_1)
{
    SET_REFUSED("watchdog.enabled=1", "--set watchdog.enabled: \"1\" is neither true nor false");
    SET_REFUSED("liveness.max_attempts=true",
                "--set liveness.max_attempts: \"true\" is not a whole number");
    ENV_REFUSED("WATCHDOG_ENABLED", "1",
                "environment WATCHDOG_ENABLED: \"1\" is neither true nor false");
    FILE_REFUSED("watchdog { enabled = 1 }",
                 "x.conf:1: watchdog.enabled: \"1\" is neither true nor false");
}

TEST(L75_nan_is_refused)
{
    SET_REFUSED("watchdog.idle_ms=NaN", "--set watchdog.idle_ms: \"NaN\" is not a whole number");
    ENV_REFUSED("WATCHDOG_IDLE_MS", "nan",
                "environment WATCHDOG_IDLE_MS: \"nan\" is not a whole number");
    FILE_REFUSED("watchdog {\n idle_ms = nan\n}\n",
                 "x.conf:2: watchdog.idle_ms: \"nan\" is not a whole number");
}

/* ---- order of sources ---- */

TEST(later_sources_win)
{
    struct options o;
    struct err err = ERR_INIT;
    options_init(&o);
    CHECK_INT(read_text(&o,
                        "liveness { ttl_seconds = 70 active_ttl_seconds = 71\n"
                        "           heartbeat_seconds = 7 }",
                        &err),
              0);
    setenv("REEVE_LIVENESS_TTL_SECONDS", "80", 1);
    setenv("REEVE_LIVENESS_ACTIVE_TTL_SECONDS", "81", 1);
    CHECK_INT(options_read_env(&o, &err), 0);
    CHECK_INT(options_set(&o, STR("liveness.ttl_seconds=90"), &err), 0);
    CHECK_INT(option_get(&o, liveness, ttl_seconds), 90);
    CHECK_INT(option_get(&o, liveness, active_ttl_seconds), 81);
    CHECK_INT(option_get(&o, liveness, heartbeat_seconds), 7);
    CHECK_INT(option_get(&o, liveness, max_attempts), 3);
    CHECK_INT(o.source[OPT_liveness_ttl_seconds], OPTION_FROM_FLAG);
    CHECK_INT(o.source[OPT_liveness_active_ttl_seconds], OPTION_FROM_ENV);
    CHECK_INT(o.source[OPT_liveness_heartbeat_seconds], OPTION_FROM_FILE);
    CHECK_INT(o.source[OPT_liveness_max_attempts], OPTION_FROM_DEFAULT);
}

/* ---- files ---- */

TEST(file_may_be_written_in_many_ways)
{
    struct options o;
    struct err err = ERR_INIT;
    options_init(&o);
    CHECK_INT(read_text(&o,
                        "#\n# a comment {\r\n// another } * + \"\n"
                        "\twatchdog{idle_ms=1}\r\n"
                        "net\n{\n  ping_seconds\n=\n 20 # not = 30\n} // end }\n"
                        "watchdog { enabled = false // off }\n }\n"
                        "task {}\n"
                        "machine { ttl_seconds = 100#x\n }",
                        &err),
              0);
    CHECK_INT(option_get(&o, watchdog, idle_ms), 1);
    CHECK_INT(option_get(&o, watchdog, enabled), 0);
    CHECK_INT(option_get(&o, net, ping_seconds), 20);
    CHECK_INT(option_get(&o, machine, ttl_seconds), 100);
}

TEST(empty_file_is_a_file)
{
    struct options o, want;
    options_init(&o);
    options_init(&want);
    CHECK_INT(read_text(&o, "", NULL), 0);
    CHECK_INT(read_text(&o, "\n\n", NULL), 0);
    CHECK_INT(read_text(&o, "# nothing", NULL), 0);
    CHECK(same(&o, &want));
}

TEST(file_errors_name_the_line)
{
    FILE_REFUSED("watchdog {\n\n  idle_ms = 15m\n}\n",
                 "x.conf:3: watchdog.idle_ms: \"15m\" is not a whole number");
    FILE_REFUSED("# x\nliveness { ttl_seconds = 0 }\n",
                 "x.conf:2: liveness.ttl_seconds: 0 is refused: this cannot be turned off");
    FILE_REFUSED("net { json_depth_max = 3 }",
                 "x.conf:1: net.json_depth_max: 3 is too little: at least 4");
    FILE_REFUSED("net { json_depth_max = 1001 }",
                 "x.conf:1: net.json_depth_max: \"1001\" is too much: at most 1000");
    FILE_REFUSED("net {\n ping_seconds = 3\n}\nnet {\n ping_seconds = 4\n}\n",
                 "x.conf:5: net.ping_seconds: was set on line 2 already");
    FILE_REFUSED("net { ping_seconds = 1\nping_seconds = 1 }",
                 "x.conf:2: net.ping_seconds: was set on line 1 already");
}

TEST(file_knows_no_other_keys)
{
    FILE_REFUSED("task { }\nwatchdog {\n  idel_ms = 1\n}\n",
                 "x.conf:3: watchdog.idel_ms: no such option; did you mean watchdog.idle_ms?");
    FILE_REFUSED("watchdgo { idle_ms = 1 }",
                 "x.conf:1: watchdgo: no such section; did you mean watchdog?");
    FILE_REFUSED("liveness { ttl = 1 }",
                 "x.conf:1: liveness.ttl: no such option; did you mean liveness.ttl_seconds?");
    FILE_REFUSED("net { max_attempts = 1 }",
                 "x.conf:1: net.max_attempts: no such option; did you mean liveness.max_attempts?");
    FILE_REFUSED("net { zzz = 1 }", "x.conf:1: net.zzz: no such option");
    FILE_REFUSED("kind { }", "x.conf:1: kind: no such section");
    FILE_REFUSED("idle_ms = 5", "x.conf:1: idle_ms: no such section");
    FILE_REFUSED("watchdog { net { } }", "x.conf:1: watchdog.net: no such option");
    FILE_REFUSED("Watchdog { }", "x.conf:1: Watchdog: no such section; did you mean watchdog?");
}

TEST(file_syntax_is_checked)
{
    FILE_REFUSED("net {\n ping_seconds = 5\n\n", "x.conf:1: { is not closed");
    FILE_REFUSED("net { } }", "x.conf:1: unexpected closing brace");
    FILE_REFUSED("net\n", "x.conf:2: premature end of file");
    FILE_REFUSED("net { ping_seconds 5 }",
                 "x.conf:1: missing equal sign after option 'ping_seconds'");
    FILE_REFUSED("net x { }", "x.conf:1: missing opening brace for section 'net'");
    FILE_REFUSED("net { ping_seconds = }", "x.conf:1: unexpected token '}'");
    FILE_REFUSED("net { = 5 }", "x.conf:1: unexpected token '='");
}

TEST(file_holds_nothing_libconfuse_would_overlook)
{
    FILE_REFUSED("net {\n ping_seconds = +5 }", "x.conf:2: \"+\" does not belong here");
    FILE_REFUSED("net { ping_seconds = 5* }", "x.conf:1: \"*\" does not belong here");
    FILE_REFUSED("/* net { } */", "x.conf:1: \"/\" does not belong here");
    FILE_REFUSED("net { ping_seconds = \"5\" }", "x.conf:1: \"\\\"\" does not belong here");
    FILE_REFUSED("net|ping_seconds = 5", "x.conf:1: \"|\" does not belong here");
    FILE_REFUSED("net { ping_seconds = ${X} }", "x.conf:1: \"$\" does not belong here");
    FILE_REFUSED("include(\"y\")", "x.conf:1: \"(\" does not belong here");
    FILE_REFUSED("net { \xc2\xa0ping_seconds = 5 }", "x.conf:1: \"\\xc2\" does not belong here");
    struct options o;
    struct err err = ERR_INIT;
    options_init(&o);
    write_conf(STR("net { ping_seconds = 5\0 }\n"));
    CHECK_INT(options_read_file(&o, conf_path(), &err), -ERR_CONFIG);
    CHECK_Z(reason(&err), "x.conf:1: \"\\x00\" does not belong here");
}

TEST(a_refused_file_does_not_spoil_the_next)
{
    struct options o;
    options_init(&o);
    CHECK_INT(read_text(&o, "net { ping_seconds = 5 } net", NULL), -ERR_CONFIG);
    CHECK_INT(read_text(&o, "net { ping_seconds = 5 pong", NULL), -ERR_CONFIG);
    CHECK_INT(option_get(&o, net, ping_seconds), 15);
    CHECK_INT(read_text(&o, "net { ping_seconds = 6 }", NULL), 0);
    CHECK_INT(option_get(&o, net, ping_seconds), 6);
}

TEST(a_file_that_cannot_be_read_is_an_error)
{
    CHECK_REFUSED(options_read_file(&o, conf_path(), &err), "x.conf: No such file or directory");
    mkdir(conf_path(), 0700);
    CHECK_REFUSED(options_read_file(&o, conf_path(), &err), "x.conf: Is a directory");
    rmdir(conf_path());
    struct buf big = BUF_INIT(1 << 20);
    while (big.len < 256 * 1024)
        buf_addz(&big, "# filler\n");
    CHECK_REFUSED(read_text(&o, big.data, &err), "x.conf: larger than 262144 bytes");
    buf_truncate(&big, 256 * 1024);
    struct options o;
    options_init(&o);
    CHECK_INT(read_text(&o, big.data, NULL), 0);
    buf_release(&big);
}

TEST(long_paths_leave_room_for_the_reason)
{
    char path[400], deep[300];
    memset(deep, 'd', 200);
    memcpy(deep + 200, "\xc3\xa4", 3);
    snprintf(path, sizeof path, "%s/%s", tap_folder(), deep);
    CHECK_INT(mkdir(path, 0700), 0);
    strcat(path, "/reeve.conf");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, "x {}", 4), 4);
    close(fd);
    CHECK_REFUSED(options_read_file(&o, path, &err), "reeve.conf:1: x: no such section");
}

/* ---- environment ---- */

TEST(environment_of_others_is_ignored)
{
    static const char *const theirs[] = {
        "REEVE_URL",    "REEVE_TOKEN",   "REEVE_TASK", "WATCHDOG_USEC",
        "WATCHDOG_PID", "REEVE_NETWORK", "REEVE_ROLE", "PMO_WATCHDOG_INTERVAL_SECONDS"};
    for (size_t i = 0; i < ARRAY_LEN(theirs); i++)
        setenv(theirs[i], "x", 1);
    struct options o, want;
    struct err err = ERR_INIT;
    options_init(&o);
    options_init(&want);
    CHECK_INT(options_read_env(&o, &err), 0);
    CHECK(same(&o, &want));
}

TEST(environment_typos_are_refused)
{
    ENV_REFUSED("REEVE_LIVENESS_TYPO", "5", "environment REEVE_LIVENESS_TYPO: no such option");
    ENV_REFUSED("REEVE_LIVENESS_TTL", "5",
                "environment REEVE_LIVENESS_TTL: no such option; "
                "did you mean REEVE_LIVENESS_TTL_SECONDS?");
    ENV_REFUSED("REEVE_WATCHDOG_IDLE_MS", "5",
                "environment REEVE_WATCHDOG_IDLE_MS: no such option; "
                "did you mean WATCHDOG_IDLE_MS?");
    ENV_REFUSED("REEVE_RUNTIME_CONTROLS_SESSION_WALL_CLOCK_SECONDS", "5",
                "environment REEVE_RUNTIME_CONTROLS_SESSION_WALL_CLOCK_SECONDS: no such option; "
                "did you mean REEVE_SESSION_WALL_CLOCK_SECONDS?");
    ENV_REFUSED("REEVE_TASK_", "5",
                "environment REEVE_TASK_: no such option; "
                "did you mean REEVE_TASK_MAX_SECONDS?");
}

TEST(environment_errors_name_the_variable)
{
    ENV_REFUSED("WATCHDOG_INTERVAL_MS", "0",
                "environment WATCHDOG_INTERVAL_MS: 0 is refused: this cannot be turned off");
    ENV_REFUSED("REEVE_RESTART_BURST", "",
                "environment REEVE_RESTART_BURST: \"\" is not a whole "
                "number");
    ENV_REFUSED("REEVE_RESTART_BURST", "5\nerror forged",
                "environment REEVE_RESTART_BURST: \"5\\x0aerror forged\" is not a whole number");
    ENV_REFUSED("REEVE_RESTART_BURST", "\xff",
                "environment REEVE_RESTART_BURST: \"\\xff\" is not a whole number");
}

TEST(a_refused_environment_changes_nothing)
{
    setenv("WATCHDOG_IDLE_MS", "5", 1); /* comes before the bad one */
    ENV_REFUSED("REEVE_NET_TYPO", "5", "environment REEVE_NET_TYPO: no such option");
}

/* ---- --set ---- */

TEST(set_errors_name_the_flag)
{
    SET_REFUSED("watchdog.idle_ms", "--set \"watchdog.idle_ms\": write section.key=value");
    SET_REFUSED("", "--set \"\": write section.key=value");
    SET_REFUSED("=5", "--set \"\": no such option");
    SET_REFUSED("idle_ms=5", "--set \"idle_ms\": no such option; did you mean watchdog.idle_ms?");
    SET_REFUSED("machin.ttl_seconds=5",
                "--set \"machin.ttl_seconds\": no such option; did you mean machine.ttl_seconds?");
    SET_REFUSED("watchdog.idle_ms=", "--set watchdog.idle_ms: \"\" is not a whole number");
    SET_REFUSED("watchdog.idle_ms =5",
                "--set \"watchdog.idle_ms \": no such option; did you mean watchdog.idle_ms?");
    SET_REFUSED("watchdog.idle_ms= 5", "--set watchdog.idle_ms: \" 5\" is not a whole number");
    SET_REFUSED("watchdog.idle_ms=5\0", "--set watchdog.idle_ms: \"5\\x00\" is not a whole number");
    struct err err = ERR_INIT;
    struct options o;
    options_init(&o);
    CHECK_INT(options_set(&o, STR_NONE, &err), -ERR_CONFIG);
}

/* ---- rules between options ---- */

TEST(rules_between_options)
{
    static const struct {
        const char *bad, *mended, *message;
    } rules[] = {
        {"liveness.ttl_seconds=29", "liveness.heartbeat_seconds=29",
         "liveness.ttl_seconds (29) is below liveness.heartbeat_seconds (30): a lease must outlast "
         "the wait for the beat that renews it"},
        {"liveness.active_ttl_seconds=29", "liveness.heartbeat_seconds=29", NULL},
        {"machine.ttl_seconds=29", "machine.heartbeat_seconds=29", NULL},
        {"restart.backoff_max_ms=999", "restart.backoff_first_ms=0", NULL},
        {"restart.backoff_first_ms=60001", "restart.backoff_max_ms=0", NULL},
        {"pmo.pending_wakeup_skip_seconds=4", "pmo.pending_wakeup_seconds=4", NULL},
        {"pmo.dispatched_retry_seconds=901", "pmo.dispatched_timeout_seconds=901", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        struct options o;
        struct err err = ERR_INIT;
        options_init(&o);
        CHECK_INT(options_set(&o, str_of(rules[i].bad), &err), 0);
        CHECK_INT(options_check(&o, &err), -ERR_CONFIG);
        if (rules[i].message)
            CHECK_Z(err.message, rules[i].message);
        CHECK_INT(options_set(&o, str_of(rules[i].mended), &err), 0);
        CHECK_INT(options_check(&o, NULL), 0);
    }
}

/* ---- output ---- */

TEST(written_as_json_with_sources)
{
    struct options o;
    options_init(&o);
    CHECK_INT(options_set(&o, STR("watchdog.idle_ms=1"), NULL), 0);
    struct buf b = BUF_INIT(1 << 16);
    struct json_out w = JSON_OUT(&b);
    options_write(&o, &w, NULL);
    struct arena a = ARENA_INIT;
    const struct json *tree = NULL;
    CHECK_INT(json_parse(&a, buf_str(&b), JSON_DEPTH_DEFAULT, &tree, NULL), 0);
    CHECK_INT(tree->count, OPTION_COUNT);
    const struct json *enabled = json_get(tree, "watchdog.enabled");
    CHECK_INT(json_get(enabled, "value")->type, JSON_BOOL);
    CHECK(json_get(enabled, "value")->boolean);
    CHECK_STR(json_get(enabled, "source")->string, "default");
    const struct json *idle = json_get(tree, "watchdog.idle_ms");
    CHECK_INT(json_get(idle, "value")->integer, 1);
    CHECK_STR(json_get(idle, "source")->string, "flag");
    arena_release(&a);
    buf_release(&b);
}

TEST(sources_have_names)
{
    CHECK_Z(option_source_name(OPTION_FROM_DEFAULT), "default");
    CHECK_Z(option_source_name(OPTION_FROM_FILE), "file");
    CHECK_Z(option_source_name(OPTION_FROM_ENV), "environment");
    CHECK_Z(option_source_name(OPTION_FROM_FLAG), "flag");
}

TEST(written_as_markdown_one_row_each)
{
    struct buf b = BUF_INIT(1 << 16);
    options_write_markdown(&b);
    CHECK(!b.overflow);
    int lines = 0;
    for (size_t i = 0; i < b.len; i++)
        lines += b.data[i] == '\n';
    CHECK_INT(lines, OPTION_COUNT + 2);
    CHECK(strstr(b.data, "| `watchdog.enabled` | `WATCHDOG_ENABLED` | true | refused | cancel"));
    CHECK(strstr(b.data, "| `watchdog.idle_ms` | `WATCHDOG_IDLE_MS` | 900000 | off | "));
    CHECK(strstr(b.data, "| `watch.gap_seconds` | `REEVE_WATCH_GAP_SECONDS` | 2 | refused | "));
    buf_release(&b);
}
