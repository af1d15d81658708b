/* method_logs.c: agent.logs, and machine.log, which answers it. */
#include "domain/log_request.h"
#include "domain/machine.h"
#include "rpc/method.h"
#include "rpc/rpc.h"

enum { ANSWER_MS_MAX = 10000 };

const struct param params_agent_logs[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    {.name = "tailBytes",
     .type = PARAM_INT,
     .min = 1,
     .max = LOG_TAIL_BYTES_MAX,
     .fallback = "65536",
     .doc = "at most this much"},
    {.name = "after",
     .type = PARAM_STRING,
     .max = LOG_POSITION_BYTES_MAX,
     .doc = "`next` of an earlier answer: what came since; or `start`: the oldest there is"},
    PARAMS_END,
};

const struct param params_machine_log[] = {
    MACHINE_ROW,
    INSTANCE_ROW,
    {.name = "request",
     .type = PARAM_INT,
     .required = true,
     .max = ID_MAX,
     .doc = "of the read-log that asked"},
    {.name = "text",
     .type = PARAM_STRING,
     .required = true,
     .max = 8 * LOG_TAIL_BYTES_MAX,
     .doc = "whole lines"},
    {.name = "truncated", .type = PARAM_BOOL, .doc = "there is more before it"},
    {.name = "next",
     .type = PARAM_STRING,
     .max = LOG_POSITION_BYTES_MAX,
     .doc = "where to go on; the machine's own"},
    {.name = "linesBefore", .type = PARAM_INT, .max = ID_MAX, .doc = "lines before the text"},
    PARAMS_END,
};

static void write_log(struct work *w, struct log_request *l, struct json_out *out)
{
    json_string(out, "text", (struct str){l->text, l->text_bytes});
    json_bool(out, "truncated", l->is_truncated);
    json_stringz(out, "next", l->next_position[0] ? l->next_position : NULL);
    if (l->lines_before >= 0)
        json_int(out, "linesBefore", l->lines_before);
    log_request_end(w, l);
}

static int ask(struct method_context *c, struct log_request **ret, struct err *err)
{
    struct head *h;
    struct agent *a;
    int64_t conversation = params_int(c->params, "conversation", 0);
    int r = head_get(c->work, conversation, &h, err);
    if (r == 0)
        r = agent_get(c->work, conversation, params_name(c->arena, c->params, "role"), &a, err);
    if (r == 0)
        r = log_request_ask(c->work, a, params_int(c->params, "tailBytes", 65536),
                            params_str(c->params, "after"), ret, err);
    if (r == 0)
        c->call->waits_for = (*ret)->request;
    return r;
}

int method_agent_logs(struct method_context *c, struct json_out *out, struct err *err)
{
    struct log_request *l = log_request_find(c->work, c->call->waits_for);
    int r = c->call->waits_for ? 0 : ask(c, &l, err);
    if (r < 0)
        return r;
    if (!l)
        return err_set(err, ERR_UNAVAILABLE, "the request was lost; ask again");
    if (l->text) {
        write_log(c->work, l, out);
        return 0;
    }
    if (method_may_wait(c, ANSWER_MS_MAX, log_request_key(l->request)))
        return METHOD_PARKED;
    err_set(err, ERR_UNAVAILABLE, "machine %s does not answer", l->machine);
    log_request_end(c->work, l);
    return -ERR_UNAVAILABLE;
}

int method_machine_log(struct method_context *c, struct json_out *out, struct err *err)
{
    const struct log_answer answer = {
        .text = params_str(c->params, "text"),
        .next_position = params_str(c->params, "next"),
        .is_truncated = params_bool(c->params, "truncated", false),
        .lines_before = params_int(c->params, "linesBefore", -1),
    };
    struct machine *m;
    (void)out;
    int r = method_find_machine(c, &m, err);
    return r < 0 ? r
                 : log_request_answer(c->work, params_int(c->params, "request", 0), m->name,
                                      &answer, err);
}
