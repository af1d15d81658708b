/*
 * cmd_task.c: `reeve task create`, `claim`, `start`, `progress`, `complete`, `fail`, `cancel` and
 * `show`: each is one call of the method with the same name, and prints the task it answers with.
 *
 * They are in one file because each is little more than its table of options. What a move needs is
 * the epoch of the claim; it is never looked up here, or a script whose task was taken away would
 * report on somebody else's work.
 */
#include <string.h>

#include "base/macro.h"
#include "cli/agent_name.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/task_call.h"
#include "cli/verbs.h"

/* ---- the verbs ---- */

static int run_create(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    struct agent_name name;
    int r = agent_name_parse(args->words[0], &name, err);
    if (r == 0 && args->word_count < 2 && !cli_value(args, "content"))
        r = err_set(err, ERR_USAGE, "what is to be done? A text, or --content JSON");
    if (r < 0)
        return r;
    agent_name_write(&name, &w);
    r = task_call_add_text_or_json(&w, args, 1, "content", "content", err);
    task_call_add(&w, args, "channel", "channel");
    task_call_add(&w, args, "key", "idempotencyKey");
    return task_call_end(args, "task.create", &w, r, NULL, err);
}

static int run_claim(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const char *connection = cli_value(args, "connection");
    struct agent_name name;
    int64_t task = 0;
    int r = agent_name_parse(args->words[0], &name, err);
    if (r == 0)
        r = cli_int(args, "task", 1, &task, err);
    if (r < 0)
        return r;
    agent_name_write(&name, &w);
    json_stringz(&w, "connectionId", connection ? connection : "cli");
    if (task)
        json_int(&w, "task", task);
    if (cli_flag(args, "unattended"))
        json_bool(&w, "unattended", true);
    return task_call_end(args, "task.claim", &w, 0, NULL, err);
}

static int run_start(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    return task_call_end(args, "task.start", &w, task_call_begin(&w, args, true, err), NULL, err);
}

static int run_progress(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int r = task_call_begin(&w, args, true, err);
    if (r == 0)
        r = task_call_add_json(&w, args, "progress", "progress", err);
    if (r == 0)
        task_call_add(&w, args, "note", "note");
    return task_call_end(args, "task.progress", &w, r, NULL, err);
}

static int add_handoff(struct json_out *w, const struct cli_args *args, struct err *err)
{
    const char *role = cli_value(args, "hand-off"), *content = cli_value(args, "hand-off-content");
    if (!role && !content)
        return 0;
    if (!role || !content)
        return err_set(err, ERR_USAGE, "--hand-off and --hand-off-content go together");
    json_object(w, "handoff");
    json_stringz(w, "role", role);
    int r = task_call_add_json(w, args, "hand-off-content", "content", err);
    json_end(w);
    return r;
}

static int run_complete(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int r = task_call_begin(&w, args, true, err);
    if (r == 0)
        r = task_call_add_text_or_json(&w, args, 1, "deliverable", "deliverable", err);
    if (r == 0)
        r = add_handoff(&w, args, err);
    return task_call_end(args, "task.complete", &w, r, NULL, err);
}

static int run_fail(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int r = task_call_begin(&w, args, true, err);
    if (r == 0)
        json_stringz(&w, "reason", args->words[1]);
    return task_call_end(args, "task.fail", &w, r, NULL, err);
}

static int run_cancel(const struct cli_args *args, struct err *err)
{
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    int r = task_call_begin(&w, args, false, err);
    if (r == 0)
        json_stringz(&w, "reason", args->words[1]);
    return task_call_end(args, "task.cancel", &w, r, NULL, err);
}

/* ---- showing ---- */

static void show_text(struct buf *out, const char *name, struct str text)
{
    if (!text.n)
        return;
    buf_addf(out, "%-14s", name);
    print_clean(out, text, PRINT_TEXT_CHARS_MAX);
    buf_addc(out, '\n');
}

/* All of a text, line by line: the last ones of what a command printed are the ones to see. */
static void show_lines(struct buf *out, const char *name, struct str text)
{
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        struct str line = {text.p, end ? (size_t)(end - text.p) : text.n};
        buf_addf(out, "%-14s", name);
        print_clean(out, line, PRINT_TEXT_CHARS_MAX);
        buf_addc(out, '\n');
        text = str_skip(text, line.n + (end ? 1 : 0));
        name = "";
    }
}

static void show_outcome(struct buf *out, const struct json *outcome)
{
    int64_t card = json_get_int(outcome, "deliverableCardId", 0);
    show_text(out, "outcome", json_get_text(outcome, "status"));
    show_text(out, "reason", json_get_text(outcome, "stop_reason_code"));
    show_lines(out, "error", json_get_text(outcome, "error"));
    if (card)
        buf_addf(out, "%-14s%lld\n", "deliverable", (long long)card);
}

static void show_task(struct buf *out, const struct json *task)
{
    static const struct {
        const char *label, *key;
    } texts[] = {{"claimed by", "claimedBy"},   {"created", "createdAt"}, {"pending", "pendingAt"},
                 {"claimed", "acknowledgedAt"}, {"started", "startedAt"}, {"ended", "completedAt"}};
    _cleanup_buf_ struct buf content = BUF_INIT(PRINT_BYTES_MAX);
    task_call_write(out, task);
    json_write_value(&content, json_get(task, "content"));
    show_text(out, "content", buf_str(&content));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        show_text(out, texts[i].label, json_get_text(task, texts[i].key));
    show_lines(out, "note", json_get_text(task, "note"));
    show_outcome(out, json_get(task, "outcome"));
}

static int run_show(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct json *result;
    int r = task_call_begin(&w, args, false, err);
    if (r < 0)
        return r;
    json_end(&w);
    r = cli_call(args, "task.get", &params, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    const struct json *task = json_get(result, "task");
    if (!task || task->type != JSON_OBJECT)
        return err_set(err, ERR_INTERNAL, "the answer has no task");
    show_task(&out, task);
    return print_flush(&out, err);
}

/* ---- the rows ---- */

// clang-format off
#define EPOCH_OPTION {"epoch", 0, "N", ARG_REQUIRED, "the epoch it was claimed with"}

static const struct verb_option create_options[] = {
    {"content", 0, "JSON", 0, "what is to be done, as JSON instead of a text"},
    {"channel", 0, "NAME", 0, "where it is talked about (default public)"},
    {"key", 0, "KEY", 0, "idempotency key, for a safe repeat"},
    OPTIONS_END,
};

static const struct verb_option claim_options[] = {
    {"connection", 0, "ID", 0, "who claims (default cli)"},
    {"task", 0, "N", 0, "only this one (default: the active one)"},
    {"unattended", 0, NULL, 0, "nobody will beat: the claim lasts longer"},
    OPTIONS_END,
};

static const struct verb_option start_options[] = {EPOCH_OPTION, OPTIONS_END};

static const struct verb_option progress_options[] = {
    EPOCH_OPTION,
    {"note", 0, "TEXT", 0, "what is going on, for people"},
    {"progress", 0, "JSON", 0, "the same for programs"},
    OPTIONS_END,
};

static const struct verb_option complete_options[] = {
    EPOCH_OPTION,
    {"deliverable", 0, "JSON", 0, "the result, as JSON instead of a text"},
    {"hand-off", 0, "ROLE", 0, "who goes on; their task is created in the same step"},
    {"hand-off-content", 0, "JSON", 0, "and what they are to do"},
    OPTIONS_END,
};

static const struct verb_option fail_options[] = {EPOCH_OPTION, OPTIONS_END};

enum { TASK_FLAGS = VERB_CLIENT | VERB_JSON };

const struct verb verb_task_create = {
    "task create", "AGENT [TEXT]", "give an agent work",
    "AGENT is CONVERSATION:ROLE, like 12:builder. TEXT may be - for standard input.",
    TASK_FLAGS, create_options, run_create};
const struct verb verb_task_claim = {
    "task claim", "AGENT", "take the task of an agent",
    "The answer has the epoch that all further steps need.",
    TASK_FLAGS, claim_options, run_claim};
const struct verb verb_task_start = {
    "task start", "TASK", "say that work on a task has begun", NULL,
    TASK_FLAGS, start_options, run_start};
const struct verb verb_task_progress = {
    "task progress", "TASK", "say that the work has moved, and that somebody is working", NULL,
    TASK_FLAGS, progress_options, run_progress};
const struct verb verb_task_complete = {
    "task complete", "TASK [TEXT]", "hand in the result of a task",
    "TEXT is the result; it may be - for standard input.",
    TASK_FLAGS, complete_options, run_complete};
const struct verb verb_task_fail = {
    "task fail", "TASK REASON", "say that a task cannot be done", NULL,
    TASK_FLAGS, fail_options, run_fail};
const struct verb verb_task_cancel = {
    "task cancel", "TASK REASON", "take a task back for good", NULL,
    TASK_FLAGS, NULL, run_cancel};
const struct verb verb_task_show = {
    "task show", "TASK", "show a task and what became of it", NULL,
    TASK_FLAGS, NULL, run_show};
// clang-format on
