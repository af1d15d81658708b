/* method_watch.c: watchdog.rules, watchdog.runOnce, conversation.why, task.why, machine.why. */
#include "domain/machine.h"
#include "domain/task.h"
#include "rpc/method.h"
#include "watch/why.h"

static const char *const rule_choices[] = {
#define X(name, text) text,
    RULE_LIST(X)
#undef X
        NULL,
};

const struct param params_watchdog_run_once[] = {
    {.name = "rule", .type = PARAM_CHOICE, .choices = rule_choices, .doc = "only this one"},
    PARAMS_END,
};

const struct param params_machine_why[] = {
    {.name = "machine", .type = PARAM_NAME, .required = true, .doc = "its name"},
    PARAMS_END,
};

void method_write_pass(struct json_out *out, const struct pass *pass, bool is_running)
{
    if (is_running)
        json_bool(out, "running", true);
    json_int(out, "checked", pass->checked);
    json_int(out, "candidates", pass->candidates);
    json_int(out, "canceled", pass->moved);
    json_int(out, "skipped", pass->skipped);
    json_int(out, "errors", pass->errors);
}

int method_watchdog_rules(struct method_context *c, struct json_out *out, struct err *err)
{
    return ladder_write_rules(c->host->ladder, out, "rules", err);
}

int method_watchdog_run_once(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)err;
    static const struct pass nothing;
    enum rule_id only = RULE_COUNT;
    struct str name = params_str(c->params, "rule");
    if (name.p)
        rule_parse(name, &only);
    if (c->host->run_once(c->host->ctx, c->request, c->call, only))
        return METHOD_PARKED;
    method_write_pass(out, &nothing, true);
    return 0;
}

int method_conversation_why(struct method_context *c, struct json_out *out, struct err *err)
{
    return why_write_conversation(c->work, params_int(c->params, "conversation", 0), out, err);
}

int method_task_why(struct method_context *c, struct json_out *out, struct err *err)
{
    struct task *t;
    int r = method_see_task(c, &t, err);
    return r < 0 ? r : why_write_task(c->work, t, out, err);
}

int method_machine_why(struct method_context *c, struct json_out *out, struct err *err)
{
    struct machine *m;
    int r = machine_get(c->work, params_name(c->arena, c->params, "machine"), &m, err);
    return r < 0 ? r : why_write_machine(c->work, m, out, err);
}
