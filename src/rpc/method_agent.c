/* method_agent.c: agent.start, .stop, .restart, .set, .list, .why. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "domain/agent.h"
#include "domain/command.h"
#include "domain/conversation.h"
#include "domain/machine.h"
#include "domain/participant.h"
#include "domain/process.h"
#include "domain/start.h"
#include "domain/task.h"
#include "rpc/method.h"
#include "watch/why.h"

enum { AGENTS_PER_PAGE = 500 };

#define FORCE_ROW                                                                       \
    {                                                                                   \
        .name = "force", .type = PARAM_BOOL,                                            \
        .doc = "gives up its process if its machine is offline and may still come back" \
    }

const struct param params_agent[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    {.name = "reason", .type = PARAM_STRING, .max = 1000, .doc = "for people"},
    FORCE_ROW,
    KEY_ROW,
    PARAMS_END,
};

const struct param params_agent_why[] = {CONVERSATION_ROW, ROLE_ROW, PARAMS_END};

const struct param params_agent_set[] = {
    CONVERSATION_ROW,
    ROLE_ROW,
    {.name = "kind",
     .type = PARAM_NAME,
     .may_be_null = true,
     .doc = "what a machine runs for it; null: unmanaged"},
    {.name = "machine",
     .type = PARAM_NAME,
     .may_be_null = true,
     .doc = "there and nowhere else; null: the least loaded machine that offers its kind"},
    {.name = "removed",
     .type = PARAM_BOOL,
     .doc = "takes the role out; its open tasks are canceled"},
    FORCE_ROW,
    KEY_ROW,
    PARAMS_END,
};

const struct param params_agent_list[] = {
    {.name = "conversation", .type = PARAM_INT, .max = ID_MAX, .doc = "only of this one"},
    PARAMS_END,
};

static bool is_forced(const struct method_context *c)
{
    return params_bool(c->params, "force", false);
}

static int find_agent(struct method_context *c, struct head **ret_head, struct agent **ret,
                      struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", 0);
    int r = head_get(c->work, conversation, ret_head, err);
    return r < 0 ? r
                 : agent_get(c->work, conversation, params_name(c->arena, c->params, "role"), ret,
                             err);
}

/* The command that is open for it now; `before` was the newest there was. */
static int write_command(struct method_context *c, const struct agent *a, int64_t before,
                         bool is_start, struct json_out *out, struct err *err)
{
    struct starts starts;
    int r = command_starts(c->work, a->conversation, str_of(a->role), &starts, err);
    if (r < 0)
        return r;
    int64_t command = starts.open;
    if (!is_start)
        r = command_open_stop(c->work, starts.spawn_id, &command, err);
    if (r < 0)
        return r;
    if (command)
        json_int(out, "command", command);
    else
        json_null(out, "command");
    json_stringz(out, "desired", agent_desired_name(a->desired));
    if (command && command <= before)
        json_bool(out, "deduplicated", true);
    if (!a->kind[0])
        json_stringz(out, "reason", "unmanaged");
    else if (is_start && !command)
        json_stringz(out, "reason", a->process == PROCESS_RUNNING ? "running" : "machine_offline");
    return 0;
}

int method_agent_start(struct method_context *c, struct json_out *out, struct err *err)
{
    struct head *h;
    struct agent *a;
    int64_t before = c->work->last.command;
    int r = find_agent(c, &h, &a, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r == 0)
        r = agent_start_by_person(c->work, a, is_forced(c), "started_by_user", err);
    return r < 0 ? r : write_command(c, a, before, true, out, err);
}

int method_agent_stop(struct method_context *c, struct json_out *out, struct err *err)
{
    struct head *h;
    struct agent *a;
    int64_t before = c->work->last.command;
    int r = find_agent(c, &h, &a, err);
    if (r < 0)
        return r;
    r = agent_stop_by_person(c->work, a, is_forced(c), err);
    return r < 0 ? r : write_command(c, a, before, false, out, err);
}

int method_agent_restart(struct method_context *c, struct json_out *out, struct err *err)
{
    struct head *h;
    struct agent *a;
    int64_t before = c->work->last.command;
    int r = find_agent(c, &h, &a, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r == 0)
        r = agent_restart_by_person(c->work, a, is_forced(c), err);
    return r < 0 ? r : write_command(c, a, before, true, out, err);
}

/* ---- set ---- */

static void set_text(struct method_context *c, char *ret, size_t room, const char *name)
{
    const struct json *v = c->params ? json_get(c->params, name) : NULL;
    if (v)
        snprintf(ret, room, "%.*s", STR_ARG(params_name(c->arena, c->params, name)));
}

/* Its process, or the start of it, belongs where it is. */
static int refuse_to_move(const struct work *w, const struct agent *a, struct err *err)
{
    const struct machine *m = machine_find(w, str_of(a->machine));
    char lost[CLOCK_ISO_BYTES];
    bool is_away = m && !m->is_online;
    if (is_away) {
        clock_iso(machine_fence_due_ms(w, m), lost);
        err_set(
            err, ERR_INVALID_TRANSITION,
            "%lld:%s may still run on machine %s, which is offline: wait until %s, or use force "
            "if that host is gone",
            (long long)a->conversation, a->role, m->name, lost);
    } else {
        err_set(err, ERR_INVALID_TRANSITION,
                "%lld:%s is %s: stop it before it gets another kind or machine",
                (long long)a->conversation, a->role, agent_view_name(a->view));
    }
    err_str(err, "from", str_of(agent_view_name(a->view)));
    err_str(err, "trigger", STR("agent.set"));
    return err_json(err, "allowed", is_away ? STR("[\"force\"]") : STR("[\"agent.stop\"]"));
}

/* Does what was set belong to another process than the one there is? */
static bool moves(const struct agent *a, const struct agent *before)
{
    bool is_elsewhere = a->pinned[0] && strcmp(a->pinned, before->pinned) != 0 &&
                        strcmp(a->pinned, a->machine) != 0;
    return is_elsewhere || strcmp(a->kind, before->kind) != 0;
}

/* It has a process, or a start of it that was never confirmed may have come to one, where that can
 * be found out and ended (P21). */
static int may_have_process(struct method_context *c, const struct agent *a, bool *ret,
                            struct err *err)
{
    struct starts starts;
    struct str machine = str_of(a->machine);
    int r = command_starts(c->work, a->conversation, str_of(a->role), &starts, err);
    bool is_beyond_reach = machine.n && (machine_is_lost(c->work, machine) ||
                                         (is_forced(c) && !machine_is_online(c->work, machine)));
    *ret = !is_beyond_reach && (a->process != PROCESS_NONE || starts.spawn_id[0]);
    return r;
}

static int change(struct method_context *c, struct agent *a, struct err *err)
{
    bool has_process = false;
    int r = agent_withdraw_start(c->work, a, err);
    if (r == 0)
        r = may_have_process(c, a, &has_process, err);
    if (r < 0)
        return r;
    struct agent before = *a;
    agent_edit(c->work, a);
    a->desired = a->is_removed ? DESIRED_AUTO : a->desired; /* it is back */
    a->is_removed = false;
    set_text(c, a->kind, sizeof a->kind, "kind");
    set_text(c, a->pinned, sizeof a->pinned, "machine");
    if (has_process && moves(a, &before))
        return refuse_to_move(c->work, a, err);
    /* Who is sent to another machine, or let go to any, does not wait for a lost one. */
    bool is_sent = json_get(c->params, "machine") != NULL;
    r = is_sent && agent_is_beyond_reach(c->work, a, is_forced(c))
            ? agent_give_up_process(c->work, a, "moved_by_user", err)
            : agent_store(c->work, a, "set", err);
    if (r == 0)
        r = agent_bring_up(c->work, a, "has_work", err); /* somebody may be able to, now */
    return r < 0 ? r : agent_look_at_work(c->work, a, err);
}

int method_agent_set(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", 0);
    struct str role = params_name(c->arena, c->params, "role");
    struct head *h;
    struct agent *a;
    int r = head_get(c->work, conversation, &h, err);
    if (r == 0)
        r = head_check_active(h, err);
    if (r == 0 && str_starts(role, STR("system-")))
        r = params_refuse(err, "role", "names that begin with system- are the server's");
    if (r < 0)
        return r;
    json_string(out, "agent",
                arena_printf(c->arena, "%lld:%.*s", (long long)conversation, STR_ARG(role)));
    bool removes = params_bool(c->params, "removed", false);
    r = agent_find(c->work, conversation, role, &a, err);
    if (r == -ERR_NOT_FOUND && !removes)
        r = conversation_add_agent(c->work, conversation, role, &a, err);
    if (r < 0 || (removes && a->is_removed))
        return r;
    if (removes)
        return conversation_remove_agent(c->work, a, is_forced(c), err);
    return change(c, a, err);
}

/* ---- list, why ---- */

static int write_agent(struct method_context *c, const struct agent *a, struct json_out *out,
                       struct err *err)
{
    json_object(out, NULL);
    json_string(out, "agent",
                arena_printf(c->arena, "%lld:%s", (long long)a->conversation, a->role));
    json_int(out, "conversation", a->conversation);
    json_stringz(out, "role", a->role);
    json_stringz(out, "desired", agent_desired_name(a->desired));
    json_stringz(out, "view", agent_view_name(a->view));
    if (a->view_ms)
        json_time(out, "since", a->view_ms);
    json_stringz(out, "kind", a->kind[0] ? a->kind : NULL);
    agent_write_machine(out, a);
    int64_t pid = 0;
    int r = a->spawn_id[0] ? process_pid(c->work, a->spawn_id, &pid, err) : 0;
    if (a->spawn_id[0]) {
        json_object(out, "process");
        json_stringz(out, "spawnId", a->spawn_id);
        if (pid)
            json_int(out, "pid", pid);
        if (a->process_ms)
            json_time(out, "since", a->process_ms);
        json_end(out);
    }
    if (r == 0)
        r = participant_write(c->work, a, out, "participant", err);
    if (a->active_task)
        json_int(out, "task", a->active_task);
    json_int(out, "restarts", a->restarts);
    json_object(out, "breaker");
    json_bool(out, "open", a->breaker_is_open);
    if (a->restart_ms)
        json_time(out, "restartAt", a->restart_ms);
    json_end(out);
    json_end(out);
    return r;
}

static int write_roles(struct method_context *c, int64_t conversation, struct json_out *out,
                       struct err *err)
{
    struct agent_role *roles;
    int r = agent_roles(c->work, conversation, &roles, err);
    for (struct agent_role *role = r == 0 ? roles : NULL; r == 0 && role; role = role->next) {
        struct agent *a;
        r = agent_get(c->work, conversation, role->name, &a, err);
        if (r == 0)
            r = write_agent(c, a, out, err);
    }
    return r;
}

/* Those of active conversations, page by page. */
static int write_all(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t page[AGENTS_PER_PAGE], after = 0;
    size_t n = AGENTS_PER_PAGE;
    int r = 0;
    while (r == 0 && n == AGENTS_PER_PAGE && out->buf->len < RPC_PAGE_BYTES) {
        struct query *q = store_query(c->work->store, SQL_CONVERSATION_LIST_BY_STATUS);
        query_int(q, 1, after);
        query_int(q, 2, AGENTS_PER_PAGE);
        query_text(q, 3, STR("active"));
        for (n = 0; (r = query_step(q, err)) == STORE_ROW;)
            page[n++] = query_get_int(q, 0);
        for (size_t i = 0; r == 0 && i < n; i++) {
            after = page[i];
            if (grant_sees(c->grant, page[i]))
                r = write_roles(c, page[i], out, err);
        }
    }
    return r;
}

int method_agent_list(struct method_context *c, struct json_out *out, struct err *err)
{
    int64_t conversation = params_int(c->params, "conversation", -1);
    struct head *h;
    int r = conversation >= 0 ? head_get(c->work, conversation, &h, err) : 0;
    if (r < 0)
        return r;
    json_array(out, "agents");
    r = conversation >= 0 ? write_roles(c, conversation, out, err) : write_all(c, out, err);
    json_end(out);
    return r;
}

int method_agent_why(struct method_context *c, struct json_out *out, struct err *err)
{
    struct head *h;
    struct agent *a;
    int r = find_agent(c, &h, &a, err);
    return r < 0 ? r : why_write_agent(c->work, a, out, err);
}
