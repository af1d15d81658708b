/*
 * cmd_task_tools.c: `reeve task suspend`, `report`, `resume` and `applied`: a script that waits for
 * tools, and a tool that says what came of it. Each is one call of the method with the same name
 * (`report` is tool.report).
 */
#include "base/clock.h"
#include "base/macro.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/task_call.h"
#include "cli/verbs.h"

/* ---- suspend ---- */

/* --timeout in seconds; 0: not given. */
static int read_timeout(const struct cli_args *args, int64_t *ret_seconds, struct err *err)
{
    const char *text = cli_value(args, "timeout");
    int64_t ms = 0;
    if (text && (!clock_parse_duration(str_of(text), &ms) || ms % 1000))
        return err_set(err, ERR_USAGE, "--timeout takes whole seconds, like 90s or 10m, not '%s'",
                       text);
    *ret_seconds = ms / 1000;
    return 0;
}

/* "call-1=search": the name of the call, and of the tool. */
static int add_call(struct json_out *w, const char *word, int64_t timeout_seconds, struct err *err)
{
    struct str whole = str_of(word);
    const char *sign = memchr(whole.p, '=', whole.n);
    if (!sign || sign == word || !sign[1])
        return err_set(err, ERR_USAGE, "--tool takes CALL=NAME, not '%s'", word);
    json_object(w, NULL);
    json_string(w, "toolCallId", (struct str){whole.p, (size_t)(sign - word)});
    json_stringz(w, "name", sign + 1);
    if (timeout_seconds) {
        json_object(w, "options");
        json_int(w, "suspend_timeout_seconds", timeout_seconds);
        json_end(w);
    }
    json_end(w);
    return 0;
}

static int add_calls(struct json_out *w, const struct cli_args *args, struct err *err)
{
    size_t cursor = 0;
    const char *call = cli_next(args, "tool", &cursor);
    int64_t seconds = 0;
    int r = read_timeout(args, &seconds, err);
    if (r < 0)
        return r;
    if (!call == !cli_value(args, "tools"))
        return err_set(err, ERR_USAGE, "what does it wait for? --tool CALL=NAME, or --tools JSON");
    if (!call)
        return task_call_add_json(w, args, "tools", "tools", err);
    json_array(w, "tools");
    for (; r == 0 && call; call = cli_next(args, "tool", &cursor))
        r = add_call(w, call, seconds, err);
    json_end(w);
    return r;
}

static void show_suspended(struct buf *out, const struct json *result)
{
    struct str deadline = json_get_text(result, "resumeDeadline");
    task_call_write(out, json_get(result, "task"));
    if (!deadline.n)
        return;
    buf_addz(out, "the first deadline is ");
    print_clean(out, deadline, PRINT_TEXT_CHARS_MAX);
    buf_addc(out, '\n');
}

static int run_suspend(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int r = task_call_begin(&w, args, true, err);
    if (r == 0)
        r = add_calls(&w, args, err);
    return task_call_end(args, "task.suspend", &w, r, show_suspended, err);
}

/* ---- report ---- */

static int add_error(struct json_out *w, const struct cli_args *args, struct err *err)
{
    const char *code = cli_value(args, "code"), *message = cli_value(args, "message");
    if (!code && !message)
        return 0;
    if (!code || !message)
        return err_set(err, ERR_USAGE, "--code and --message go together");
    json_object(w, "error");
    json_stringz(w, "code", code);
    json_stringz(w, "message", message);
    json_end(w);
    return 0;
}

static void show_report(struct buf *out, const struct json *result)
{
    static const char *const marks[] = {"early", "duplicate", "late"};
    buf_addz(out, json_get_bool(result, "accepted") ? "accepted" : "not accepted");
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (json_get_bool(result, marks[i]))
            buf_addf(out, " (%s)", marks[i]);
    buf_addc(out, '\n');
}

static int run_report(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const char *status = cli_value(args, "status");
    int64_t epoch;
    int r = task_call_begin(&w, args, false, err), has_epoch = 0;
    if (r == 0)
        r = has_epoch = cli_int(args, "epoch", 0, &epoch, err);
    if (r < 0)
        return r;
    json_stringz(&w, "toolCallId", args->words[1]);
    json_stringz(&w, "status", status ? status : "success");
    if (has_epoch)
        json_int(&w, "epoch", epoch);
    r = task_call_add_text_or_json(&w, args, 2, "result", "result", err);
    if (r == 0)
        r = add_error(&w, args, err);
    return task_call_end(args, "tool.report", &w, r, show_report, err);
}

/* ---- resume, applied ---- */

static void show_result(struct buf *out, const struct json *result)
{
    const struct json *value = json_get(result, "result");
    print_clean(out, json_get_text(result, "toolCallId"), PRINT_TEXT_CHARS_MAX);
    buf_addc(out, ' ');
    print_clean(out, json_get_text(result, "status"), PRINT_TEXT_CHARS_MAX);
    if (!value)
        value = json_get(result, "error");
    if (value) {
        buf_addc(out, ' ');
        print_json(out, value);
    }
    buf_addc(out, '\n');
}

static void show_results(struct buf *out, const struct json *result)
{
    const struct json *results = json_get(result, "results");
    struct str until = json_get_text(result, "leaseUntil");
    if (results && results->type == JSON_ARRAY)
        JSON_FOREACH (item, results)
            show_result(out, item);
    if (!until.n) {
        buf_addz(out, "nothing to take\n");
        return;
    }
    buf_addz(out, "apply them until ");
    print_clean(out, until, PRINT_TEXT_CHARS_MAX);
    buf_addc(out, '\n');
}

static int run_resume(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    return task_call_end(args, "task.resume", &w, task_call_begin(&w, args, true, err),
                         show_results, err);
}

static int run_applied(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int r = task_call_begin(&w, args, true, err);
    if (r < 0)
        return r;
    json_array(&w, "toolCallIds");
    for (size_t i = 1; i < args->word_count; i++)
        json_stringz(&w, NULL, args->words[i]);
    json_end(&w);
    if (cli_flag(args, "unattended"))
        json_bool(&w, "unattended", true);
    return task_call_end(args, "task.applied", &w, r, NULL, err);
}

/* ---- the rows ---- */

// clang-format off
#define EPOCH_OPTION {"epoch", 0, "N", ARG_REQUIRED, "the epoch of the task"}

static const struct verb_option suspend_options[] = {
    EPOCH_OPTION,
    {"tool", 0, "CALL=NAME", ARG_REPEAT, "a call it waits for, and the tool that was called"},
    {"timeout", 0, "DURATION", 0, "how long for each of them, like 90s or 10m, if that is longer than the server's setting"},
    {"tools", 0, "JSON", 0, "the list as task.suspend takes it, instead"},
    OPTIONS_END,
};

static const struct verb_option report_options[] = {
    {"status", 0, "success|failed|canceled", 0, "how it went (default success)"},
    {"result", 0, "JSON", 0, "what it gave, as JSON instead of a text"},
    {"code", 0, "CODE", 0, "what went wrong, for programs; with --message"},
    {"message", 0, "TEXT", 0, "and for people"},
    {"epoch", 0, "N", 0, "in which the call was made, if its name was used before"},
    OPTIONS_END,
};

static const struct verb_option epoch_options[] = {EPOCH_OPTION, OPTIONS_END};

static const struct verb_option applied_options[] = {
    EPOCH_OPTION,
    {"unattended", 0, NULL, 0, "nobody will beat: the work lasts longer (default: as it was claimed)"},
    OPTIONS_END,
};

enum { TASK_FLAGS = VERB_CLIENT | VERB_JSON };

const struct verb verb_task_suspend = {
    "task suspend", "TASK", "say that a task waits for tools",
    "Nobody needs to beat for it meanwhile. When the results are there, 'reeve wait-for-task' goes on with\n"
    "them; 'reeve task resume' and 'applied' are its single steps.",
    TASK_FLAGS, suspend_options, run_suspend};
const struct verb verb_task_report = {
    "task report", "TASK CALL [TEXT]", "report the result of a tool call",
    "TEXT is the result; it may be - for standard input. The first report of a call counts.",
    TASK_FLAGS, report_options, run_report};
const struct verb verb_task_resume = {
    "task resume", "TASK", "take the results that a suspended task waits for", NULL,
    TASK_FLAGS, epoch_options, run_resume};
const struct verb verb_task_applied = {
    "task applied", "TASK [CALL...]", "say that results are part of the work now",
    "With the last one the task is in progress again; the answer has its new epoch.",
    TASK_FLAGS, applied_options, run_applied};
// clang-format on
