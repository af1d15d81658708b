/* method_machine.c: machine.register, .poll, .report, .list, .forget. */
#include <stdio.h>

#include "domain/agent.h"
#include "domain/command.h"
#include "domain/log_request.h"
#include "domain/machine.h"
#include "domain/process.h"
#include "domain/start.h"
#include "rpc/method.h"
#include "rpc/rpc.h"

enum { PROCESSES_MAX = 10000, FACTS_MAX = 1000, COMMANDS_PER_POLL = 100, POLL_MS_MAX = 300000 };
enum { EXIT_TAIL_BYTES_MAX = 4096 };

static const char *const policy_choices[] = {"always", "on-failure", "never", NULL};
static const char *const ready_choices[] = {"none", "notify", "heartbeat", NULL};
static const char *const state_choices[] = {"running", "exited", NULL};
static const char *const fact_choices[] = {"spawned", "start_failed", "exited",
                                           "stopped", "notify",       NULL};

#define SPAWN_ROW                                                            \
    {                                                                        \
        .name = "spawnId", .type = PARAM_STRING, .required = true, .min = 1, \
        .max = SPAWN_ID_BYTES - 1, .doc = "of the command that started it"   \
    }

static const struct param kind_fields[] = {
    {.name = "name", .type = PARAM_NAME, .required = true, .doc = "that agents ask for"},
    {.name = "restart",
     .type = PARAM_CHOICE,
     .choices = policy_choices,
     .fallback = "on-failure",
     .doc = "after it ended by itself"},
    {.name = "ready",
     .type = PARAM_CHOICE,
     .choices = ready_choices,
     .fallback = "none",
     .doc = "when a start is done"},
    {.name = "stopGraceMs",
     .type = PARAM_INT,
     .max = OPTION_MS_MAX,
     .fallback = "5000",
     .doc = "between SIGTERM and SIGKILL"},
    PARAMS_END,
};

static const struct param exit_fields[] = {
    {.name = "code",
     .type = PARAM_INT,
     .min = -1,
     .max = 255,
     .may_be_null = true,
     .doc = "exit status"},
    {.name = "signal", .type = PARAM_INT, .max = 128, .may_be_null = true, .doc = "that ended it"},
    {.name = "text", .type = PARAM_STRING, .max = 1000, .doc = "for people"},
    {.name = "tail",
     .type = PARAM_STRING,
     .max = EXIT_TAIL_BYTES_MAX,
     .doc = "the last lines of its output"},
    PARAMS_END,
};

static const struct param process_fields[] = {
    SPAWN_ROW,
    {.name = "pid", .type = PARAM_INT, .max = INT32_MAX, .doc = "process"},
    {.name = "startTime",
     .type = PARAM_INT,
     .max = ID_MAX,
     .doc = "of the process, in ticks since boot"},
    {.name = "state",
     .type = PARAM_CHOICE,
     .choices = state_choices,
     .required = true,
     .doc = "now"},
    {.name = "exit",
     .type = PARAM_OBJECT,
     .may_be_null = true,
     .fields = exit_fields,
     .is_open = true,
     .doc = "if it has"},
    PARAMS_END,
};

/* Lists of what a machine has, in order: one that arrives after a newer one is not believed. */
#define LIST_ROW                                                                       \
    {                                                                                  \
        .name = "n", .type = PARAM_INT, .min = 1, .max = ID_MAX,                       \
        .doc = "counts up over register and poll; one that was overtaken says nothing" \
    }

const struct param params_machine_register[] = {
    MACHINE_ROW,
    INSTANCE_ROW,
    LIST_ROW,
    {.name = "hostname", .type = PARAM_STRING, .max = MACHINE_TEXT_BYTES_MAX, .doc = "for people"},
    {.name = "bootId", .type = PARAM_STRING, .max = MACHINE_TEXT_BYTES_MAX, .doc = "of its kernel"},
    {.name = "kinds",
     .type = PARAM_LIST,
     .required = true,
     .max = MACHINE_KINDS_MAX,
     .fields = kind_fields,
     .doc = "what it may run"},
    {.name = "processes",
     .type = PARAM_LIST,
     .max = PROCESSES_MAX,
     .fields = process_fields,
     .doc = "what it has, and starts it has in hand: those without a pid"},
    PARAMS_END,
};

static const struct param spawn_item = {.type = PARAM_STRING, .max = SPAWN_ID_BYTES - 1};

const struct param params_machine_poll[] = {
    MACHINE_ROW,
    INSTANCE_ROW,
    LIST_ROW,
    {.name = "timeoutMs",
     .type = PARAM_INT,
     .max = POLL_MS_MAX,
     .fallback = "25000",
     .doc = "answer empty after this time"},
    {.name = "alive",
     .type = PARAM_LIST,
     .required = true,
     .max = PROCESSES_MAX,
     .item = &spawn_item,
     .doc = "spawn ids of its live processes, and of starts it has in hand"},
    PARAMS_END,
};

static const struct param fact_fields[] = {
    {.name = "n", .type = PARAM_INT, .required = true, .min = 1, .max = ID_MAX, .doc = "counts up"},
    {.name = "fact",
     .type = PARAM_CHOICE,
     .choices = fact_choices,
     .required = true,
     .doc = "what happened"},
    SPAWN_ROW,
    {.name = "pid", .type = PARAM_INT, .max = INT32_MAX, .doc = "spawned"},
    {.name = "startTime", .type = PARAM_INT, .max = ID_MAX, .doc = "spawned"},
    {.name = "error", .type = PARAM_STRING, .max = 4000, .doc = "start_failed"},
    {.name = "exit",
     .type = PARAM_OBJECT,
     .may_be_null = true,
     .fields = exit_fields,
     .is_open = true,
     .doc = "exited, stopped"},
    {.name = "ready", .type = PARAM_BOOL, .doc = "notify"},
    {.name = "at", .type = PARAM_STRING, .max = 64, .doc = "by the machine's clock; for people"},
    PARAMS_END,
};

const struct param params_machine_report[] = {
    MACHINE_ROW,
    INSTANCE_ROW,
    {.name = "facts",
     .type = PARAM_LIST,
     .required = true,
     .max = FACTS_MAX,
     .fields = fact_fields,
     .doc = "in order of n"},
    PARAMS_END,
};

const struct param params_machine_forget[] = {
    MACHINE_ROW,
    {.name = "force", .type = PARAM_BOOL, .doc = "although it may still come back"},
    KEY_ROW,
    PARAMS_END,
};

/* A machine's token is for its own name. */
static int check_name(struct method_context *c, struct str name, struct err *err)
{
    if (c->grant->scope != SCOPE_MACHINE || !c->grant->machine[0] ||
        str_is(name, c->grant->machine))
        return 0;
    return err_set(err, ERR_FORBIDDEN, "this token is for machine %s", c->grant->machine);
}

int method_find_machine(struct method_context *c, struct machine **ret, struct err *err)
{
    struct str name = params_name(c->arena, c->params, "machine");
    bool is_alive =
        !c->call->wait_until_us; /* to ask is a sign of life; to be asked again is none */
    int r = check_name(c, name, err);
    return r < 0
               ? r
               : machine_beat(c->work, name, params_str(c->params, "instance"), is_alive, ret, err);
}

/* It says nothing of now, and is no sign of life. */
static bool is_overtaken(const struct method_context *c, struct str name)
{
    return machine_is_overtaken(machine_find(c->work, name), params_str(c->params, "instance"),
                                params_int(c->params, "n", 0));
}

static void write_no_commands(struct json_out *out)
{
    json_array(out, "commands");
    json_end(out);
}

/* ---- commands ---- */

/* What nobody was bound to is the first's that offers it. */
static int take_unassigned(struct method_context *c, const struct machine *m, struct err *err)
{
    struct {
        int64_t command;
        bool is_offered;
    } page[COMMANDS_PER_POLL];
    int64_t after = 0;
    size_t n = COMMANDS_PER_POLL;
    int r = 0;
    while (r == 0 && n == COMMANDS_PER_POLL) {
        struct query *q = store_query(c->work->store, SQL_COMMAND_OPEN_NOWHERE);
        query_int(q, 1, after);
        query_int(q, 2, COMMANDS_PER_POLL);
        for (n = 0; (r = query_step(q, err)) == STORE_ROW; n++) {
            struct str kind = query_get_text(q, 1);
            char name[AGENT_ID_BYTES_MAX + 1];
            snprintf(name, sizeof name, "%.*s", STR_ARG(kind));
            page[n].command = after = query_get_int(q, 0);
            page[n].is_offered = machine_kind_find(m, name) != NULL;
        }
        for (size_t i = 0; r == 0 && i < n; i++)
            if (page[i].is_offered)
                r = command_assign(c->work, page[i].command, str_of(m->name), err);
    }
    return r;
}

/* What it is to do, marked as delivered. */
static int write_commands(struct method_context *c, const struct machine *m, bool again,
                          struct json_out *out, size_t *ret_count, struct err *err)
{
    struct command *list = NULL;
    *ret_count = 0;
    int r = m->is_online ? take_unassigned(c, m, err) : 0;
    if (r == 0 && m->is_online) /* a poll may outlive its machine's lease */
        r = commands_deliver(c->work, str_of(m->name), again,
                             again ? PROCESSES_MAX : COMMANDS_PER_POLL, &list, ret_count, err);
    if (r < 0)
        return r;
    json_array(out, "commands");
    for (size_t i = 0; i < *ret_count; i++)
        command_write_delivered(c->work, &list[i], out);
    *ret_count += log_requests_send(c->work, m->name, out);
    json_end(out);
    return 0;
}

/* ---- register ---- */

static void copy(char *ret, size_t room, struct str s)
{
    snprintf(ret, room, "%.*s", STR_ARG(s));
}

static struct exit_status read_exit(const struct json *exit)
{
    return (struct exit_status){
        .code = params_int(exit, "code", -1),
        .signal = params_int(exit, "signal", 0),
        .is_unknown = !exit,
        .text = params_str(exit, "text"),
        .tail = params_str(exit, "tail"),
    };
}

/* What it has, alive; those that ended meanwhile are facts. */
static int read_processes(struct method_context *c, const struct machine *m, struct str **ret,
                          size_t *ret_count, struct err *err)
{
    const struct json *list = params_get(c->params, "processes");
    struct str *alive = arena_alloc(c->arena, ((list ? list->count : 0) + 1) * sizeof *alive);
    *ret = alive;
    *ret_count = 0;
    if (!list)
        return 0;
    JSON_FOREACH (item, list) {
        struct str spawn_id = params_str(item, "spawnId");
        struct exit_status exit = read_exit(params_get(item, "exit"));
        bool is_running = str_is(params_str(item, "state"), "running");
        int r = is_running ? process_found(c->work, m, spawn_id, params_int(item, "pid", 0),
                                           params_int(item, "startTime", 0), err)
                           : process_ended(c->work, m, spawn_id, &exit, err);
        if (r < 0 && r != -ERR_NOT_FOUND)
            return r;
        if (is_running)
            alive[(*ret_count)++] = spawn_id;
    }
    return 0;
}

static void write_ttl(const struct method_context *c, struct json_out *out)
{
    json_int(out, "ttlMs", option_get(c->work->options, machine, ttl_seconds) * 1000);
}

int method_machine_register(struct method_context *c, struct json_out *out, struct err *err)
{
    struct machine told = {0}, *m;
    struct str name = params_name(c->arena, c->params, "machine"), *alive;
    size_t alive_count, count;
    copy(told.name, sizeof told.name, name);
    copy(told.instance, sizeof told.instance, params_str(c->params, "instance"));
    copy(told.hostname, sizeof told.hostname, params_str(c->params, "hostname"));
    copy(told.boot_id, sizeof told.boot_id, params_str(c->params, "bootId"));
    told.list = params_int(c->params, "n", 0);
    machine_kinds_from_json(&told, json_get(c->params, "kinds"));
    int r = check_name(c, name, err);
    if (r == 0 && is_overtaken(c, name)) {
        write_no_commands(out);
        write_ttl(c, out);
        return 0;
    }
    if (r == 0)
        r = machine_register(c->work, &told, &m, err);
    if (r == 0)
        r = read_processes(c, m, &alive, &alive_count, err);
    if (r == 0)
        r = processes_reconcile(c->work, m, alive, alive_count, err);
    if (r == 0)
        r = wishes_come_true(c->work, m, err);
    if (r == 0)
        r = write_commands(c, m, true, out, &count, err);
    if (r == 0)
        write_ttl(c, out);
    return r;
}

/* ---- poll ---- */

int method_machine_poll(struct method_context *c, struct json_out *out, struct err *err)
{
    struct machine *m;
    size_t count = 0, n = 0;
    bool is_news = !c->call->wait_until_us; /* asked again, what it said may be old */
    const struct json *list = params_get(c->params, "alive");
    struct str *alive = arena_alloc(c->arena, ((list ? list->count : 0) + 1) * sizeof *alive),
               name = params_name(c->arena, c->params, "machine");
    if (list)
        JSON_FOREACH (item, list)
            alive[n++] = item->string;
    int r = check_name(c, name, err);
    if (r == 0 && is_news && is_overtaken(c, name)) {
        write_no_commands(out);
        return 0;
    }
    if (r == 0)
        r = method_find_machine(c, &m, err);
    if (r == 0 && is_news)
        machine_told_list(c->work, m, params_int(c->params, "n", 0));
    if (r == 0 && m->is_unreconciled) { /* back: what was unknown can be known */
        machine_is_reconciled(c->work, m);
        r = processes_reconcile(c->work, m, alive, n, err);
        if (r == 0)
            r = wishes_come_true(c->work, m, err);
    }
    if (r == 0 && is_news)
        r = processes_alive(c->work, m, alive, n, err);
    if (r == 0)
        r = write_commands(c, m, false, out, &count, err);
    if (r < 0 || count)
        return r;
    int64_t timeout_ms = MIN(params_int(c->params, "timeoutMs", 25000),
                             option_get(c->work->options, machine, ttl_seconds) * 500);
    return method_may_wait(c, timeout_ms, machine_key_of(str_of(m->name))) ? METHOD_PARKED : 0;
}

/* ---- report ---- */

static int take_fact(struct method_context *c, const struct machine *m, const struct json *fact,
                     struct err *err)
{
    struct str what = params_str(fact, "fact"), spawn_id = params_str(fact, "spawnId");
    struct exit_status exit = read_exit(params_get(fact, "exit"));
    if (str_is(what, "spawned"))
        return process_spawned(c->work, m, spawn_id, params_int(fact, "pid", 0),
                               params_int(fact, "startTime", 0), err);
    if (str_is(what, "start_failed"))
        return process_start_failed(c->work, m, spawn_id, params_str(fact, "error"), err);
    if (str_is(what, "notify"))
        return params_bool(fact, "ready", false) ? process_ready(c->work, m, spawn_id, err) : 0;
    exit.is_stopped = str_is(what, "stopped");
    return process_ended(c->work, m, spawn_id, &exit, err);
}

/* A fact about what is not known here is set aside, and blocks nobody (L57). What fails otherwise
 * fails the whole report: it is told again. */
int method_machine_report(struct method_context *c, struct json_out *out, struct err *err)
{
    struct machine *m;
    int64_t accepted_to = 0;
    int r = method_find_machine(c, &m, err);
    if (r < 0)
        return r;
    json_array(out, "rejected");
    JSON_FOREACH (fact, json_get(c->params, "facts")) {
        struct err why = ERR_INIT;
        r = take_fact(c, m, fact, &why);
        if (r < 0 && r != -ERR_NOT_FOUND) {
            *err = why;
            return r;
        }
        accepted_to = params_int(fact, "n", 0);
        if (r == 0)
            continue;
        json_object(out, NULL);
        json_int(out, "n", accepted_to);
        json_stringz(out, "error", why.message);
        json_end(out);
    }
    json_end(out);
    json_int(out, "acceptedTo", accepted_to);
    return 0;
}

int method_machine_list(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)err;
    json_array(out, "machines");
    for (const struct machine *m = c->work->machines; m; m = m->next)
        if (!m->is_forgotten)
            machine_write(c->work, m, out);
    json_end(out);
    return 0;
}

int method_machine_forget(struct method_context *c, struct json_out *out, struct err *err)
{
    struct machine *m;
    (void)out;
    int r = machine_get(c->work, params_name(c->arena, c->params, "machine"), &m, err);
    return r < 0 ? r : machine_forget(c->work, m, params_bool(c->params, "force", false), err);
}
