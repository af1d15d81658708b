/* method_tool.c: task.suspend, tool.report, task.resume, task.applied. */
#include "base/options.h"
#include "domain/tool.h"
#include "rpc/method.h"

#define CALL_ID_ROW                                                              \
    {                                                                            \
        .name = "toolCallId", .type = PARAM_STRING, .required = true, .min = 1,  \
        .max = TOOL_CALL_ID_BYTES_MAX, .doc = "the agent's own name of the call" \
    }
#define SECONDS_ROW(row_name, text)                                                        \
    {                                                                                      \
        .name = (row_name), .type = PARAM_INT, .max = OPTION_SECONDS_MAX, .fallback = "0", \
        .doc = (text)                                                                      \
    }

/* ---- suspend ---- */

static const struct param options_fields[] = {
    SECONDS_ROW("suspend_timeout_seconds",
                "a longer deadline than `worker.suspend_timeout_seconds`"),
    SECONDS_ROW("timeout_seconds", "the same"),
    PARAMS_END,
};

static const struct param call_fields[] = {
    CALL_ID_ROW,
    {.name = "name",
     .type = PARAM_STRING,
     .required = true,
     .min = 1,
     .max = TOOL_NAME_BYTES_MAX,
     .doc = "of the tool"},
    {.name = "arguments", .type = PARAM_ANY, .may_be_null = true, .doc = "kept with the call"},
    {.name = "options",
     .type = PARAM_OBJECT,
     .may_be_null = true,
     .fields = options_fields,
     .is_open = true,
     .doc = "the rest is kept with the call"},
    PARAMS_END,
};

const struct param params_task_suspend[] = {
    TASK_ROW,
    EPOCH_ROW,
    {.name = "tools",
     .type = PARAM_LIST,
     .required = true,
     .min = 1,
     .max = TOOLS_PER_SUSPENSION_MAX,
     .fields = call_fields,
     .doc = "the calls it waits for"},
    KEY_ROW,
    PARAMS_END,
};

static struct str text_if_given(struct method_context *c, const struct json *v)
{
    return v ? method_json_text(c, v) : STR_NONE;
}

static struct tool_call read_call(struct method_context *c, const struct json *v)
{
    const struct json *options = params_get(v, "options");
    return (struct tool_call){
        .id = params_str(v, "toolCallId"),
        .name = params_str(v, "name"),
        .arguments = text_if_given(c, params_get(v, "arguments")),
        .options = text_if_given(c, options),
        .timeout_ms = 1000 * MAX(params_int(options, "suspend_timeout_seconds", 0),
                                 params_int(options, "timeout_seconds", 0)),
    };
}

/* Each call once: two of one name could not be told apart. */
static int check_ids(const struct tool_call *calls, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (str_eq(calls[i].id, calls[k].id))
                return params_refuse(err, "tools", "names a toolCallId twice");
    return 0;
}

static int read_calls(struct method_context *c, struct tool_call **ret, size_t *ret_count,
                      struct err *err)
{
    const struct json *tools = json_get(c->params, "tools");
    *ret = arena_alloc(c->arena, (size_t)tools->count * sizeof **ret);
    *ret_count = 0;
    JSON_FOREACH (item, tools)
        (*ret)[(*ret_count)++] = read_call(c, item);
    return check_ids(*ret, *ret_count, err);
}

static int write_deadline(struct method_context *c, const struct task *t, struct json_out *out,
                          struct err *err)
{
    struct tools_summary s;
    int r = tools_summarize(c->work, t, &s, err);
    if (r < 0)
        return r;
    if (s.first_deadline_ms)
        json_time(out, "resumeDeadline", s.first_deadline_ms);
    else
        json_null(out, "resumeDeadline");
    return 0;
}

int method_task_suspend(struct method_context *c, struct json_out *out, struct err *err)
{
    struct task *t;
    struct tool_call *calls;
    size_t count;
    int r = read_calls(c, &calls, &count, err);
    if (r == 0)
        r = method_find_task(c, &t, err);
    if (r == 0)
        r = tools_suspend(c->work, t, params_int(c->params, "epoch", 0), calls, count, err);
    if (r == 0)
        r = task_write(c->work, t, out, "task", err);
    return r < 0 ? r : write_deadline(c, t, out, err);
}

/* ---- report ---- */

static const char *const status_choices[] = {"success", "failed", "canceled", NULL};

static const struct param error_fields[] = {
    {.name = "code", .type = PARAM_STRING, .required = true, .max = 256, .doc = "for programs"},
    {.name = "message", .type = PARAM_STRING, .required = true, .max = 4000, .doc = "for people"},
    PARAMS_END,
};

const struct param params_tool_report[] = {
    TASK_ROW,
    CALL_ID_ROW,
    {.name = "status",
     .type = PARAM_CHOICE,
     .required = true,
     .choices = status_choices,
     .doc = "how it went"},
    {.name = "result", .type = PARAM_ANY, .may_be_null = true, .doc = "what it gave: any JSON"},
    {.name = "error",
     .type = PARAM_OBJECT,
     .may_be_null = true,
     .fields = error_fields,
     .doc = "what went wrong"},
    {.name = "epoch",
     .type = PARAM_INT,
     .max = ID_MAX,
     .doc = "in which the call was made, for ids that repeat; absent: the newest of this id"},
    KEY_ROW,
    PARAMS_END,
};

static enum result_status read_status(struct method_context *c)
{
    int i = 0;
    while (!str_is(params_str(c->params, "status"), status_choices[i]))
        i++;
    return (enum result_status)i;
}
_Static_assert(RESULT_SUCCESS == 0 && RESULT_FAILED == 1 && RESULT_CANCELED == 2,
               "the choices are in the order of the enum");

int method_tool_report(struct method_context *c, struct json_out *out, struct err *err)
{
    static const char *const marks[] = {[REPORT_ACCEPTED] = NULL,
                                        [REPORT_EARLY] = "early",
                                        [REPORT_DUPLICATE] = "duplicate",
                                        [REPORT_LATE] = "late"};
    struct task *t;
    enum report report;
    const struct tool_result result = {
        .status = read_status(c),
        .result = text_if_given(c, params_get(c->params, "result")),
        .error = text_if_given(c, params_get(c->params, "error")),
    };
    int r = method_find_task(c, &t, err);
    if (r == 0)
        r = tool_report(c->work, t, params_int(c->params, "epoch", -1),
                        params_str(c->params, "toolCallId"), &result, &report, err);
    if (r < 0)
        return r;
    json_bool(out, "accepted", report != REPORT_LATE);
    if (marks[report])
        json_bool(out, marks[report], true);
    return 0;
}

/* ---- resume, applied ---- */

const struct param params_task_resume[] = {TASK_ROW, EPOCH_ROW, KEY_ROW, PARAMS_END};

static const struct param id_item = {
    .name = "toolCallIds", .type = PARAM_STRING, .min = 1, .max = TOOL_CALL_ID_BYTES_MAX};

const struct param params_task_applied[] = {
    TASK_ROW,
    EPOCH_ROW,
    {.name = "toolCallIds",
     .type = PARAM_LIST,
     .required = true,
     .max = TOOLS_PER_SUSPENSION_MAX,
     .item = &id_item,
     .doc = "whose results are part of the work now"},
    {.name = "unattended",
     .type = PARAM_BOOL,
     .doc = "as for `task.claim`: true if nobody will beat from now on, false if somebody will; "
            "absent: as it was before the suspend"},
    KEY_ROW,
    PARAMS_END,
};

int method_task_resume(struct method_context *c, struct json_out *out, struct err *err)
{
    struct task *t;
    int r = method_find_task(c, &t, err);
    return r < 0 ? r
                 : tools_resume(c->work, t, params_int(c->params, "epoch", 0), RPC_PAGE_BYTES, out,
                                err);
}

int method_task_applied(struct method_context *c, struct json_out *out, struct err *err)
{
    struct task *t;
    const struct json *list = json_get(c->params, "toolCallIds");
    struct str *ids = arena_alloc(c->arena, (size_t)(list->count + 1) * sizeof *ids);
    size_t count = 0;
    int64_t lease_ms = params_get(c->params, "unattended")
                           ? task_lease_ms(c->work, params_bool(c->params, "unattended", false))
                           : 0;
    JSON_FOREACH (item, list)
        ids[count++] = item->string;
    int r = method_find_task(c, &t, err);
    if (r == 0)
        r = tools_apply(c->work, t, params_int(c->params, "epoch", 0), ids, count,
                        str_of(c->grant->spawn_id), lease_ms, err);
    if (r == 0)
        r = task_write(c->work, t, out, "task", err);
    if (r == 0)
        json_int(out, "epoch", t->epoch);
    return r;
}
