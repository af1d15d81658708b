/*
 * method.c: the method table, and the documentation it generates.
 *
 * To add a method: a row here, its params table and handler in a method_*.c, a scenario test that
 * names it. docs/protocol.md follows by `make docs`.
 */
#include "rpc/method.h"

#include "base/mem.h"

#define RECEIPT "`{conversation, turn, event, seq, ts, id}`"

// clang-format off
const struct method method_table[] = {
    {"conversation.create", METHOD_WRITE, MAY_OPERATOR,
     params_conversation_create, method_conversation_create, "`{conversation, warnings?:[text]}`",
     "Begins a conversation; writes `meta_created` on turn 0, seq 1. `warnings`: what cannot run as it is "
     "asked for, because machines are known and none offers its kind."},
    {"conversation.get", METHOD_READ, MAY_ALL,
     params_conversation, method_conversation_get,
     "`{conversation, status, outcome, stop_reason_code, head:{lastTurn, lastClosedSeq, "
     "hasOpenTurn, lastSeq, turnOwner}, agents, title, startingRole, maxTurns, metadata, "
     "runtime_controls, watchdog, window, windowStartedAt, createdAt, updatedAt}`",
     "How a conversation stands."},
    {"conversation.list", METHOD_READ, MAY_ALL,
     params_conversation_list, method_conversation_list, "`{conversations, next}`",
     "Conversations in the order of their numbers; pass `next` as `after` to go on. A page of large "
     "ones may be shorter than `limit`."},
    {"conversation.end", METHOD_WRITE, MAY_OPERATOR,
     params_conversation_end, method_conversation_end, RECEIPT,
     "Ends a conversation by a terminal message. Repeated with the same outcome: the first answer."},
    {"conversation.resume", METHOD_WRITE, MAY_OPERATOR,
     params_conversation_resume, method_conversation_resume,
     "`{conversation, status, window, windowStartedAt}`",
     "Continues a blocked conversation with a new window, which begins now."},
    {"conversation.why", METHOD_READ, MAY_ALL,
     params_conversation, method_conversation_why,
     "`{conversation, status, outcome, stop_reason_code, now, cause, says, remedy, next:{rung, rule, what, "
     "dueAt, assumes}, endedBy, evidence:[{kind, value, ageMs, source}], "
     "standing:[{what, rung, rule, since, next:{rung, rule, dueAt}}], clocks:[{rung, rule, since, "
     "limitMs, leftMs, dueAt}], historyIsCut, history:[{at, rule, what, reason}]}`",
     "Where it stands and why, on what evidence, what happens next and when, what was done so far. "
     "`cause` is a code of docs/why.md, `says` the sentence for people, `remedy` what to type, or null; "
     "`next` is the next move that will really happen, `standing` and `clocks` are all that count."},
    {"message.send", METHOD_APPEND, MAY_OPERATOR | MAY_AGENT,
     params_message_send, method_message_send, RECEIPT,
     "Appends a message. Finality `turn` closes the turn, `conversation` ends the conversation."},
    {"trace.append", METHOD_APPEND, MAY_OPERATOR | MAY_AGENT,
     params_trace_append, method_trace_append, RECEIPT,
     "Appends what an agent does between messages. Opens a turn if none is open."},
    {"turn.clear", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_turn_clear, method_turn_clear, "`{turn}`",
     "Gives up the open turn: it stays open and belongs to the next writer. Owner or operator. "
     "Writes `turn_cleared` once; history is never deleted."},
    {"event.list", METHOD_READ, MAY_ALL,
     params_event_list, method_event_list, "`{events, nextAfterSeq}`, of all `{events, nextAfterId}`",
     "The log of a conversation, or of all in the order of commit. A page of large events may be "
     "shorter than `limit`; an empty one is the end."},
    {"event.subscribe", METHOD_CONTROL, MAY_ALL,
     params_event_subscribe, method_event_subscribe, "`{subscription}`",
     "Backlog, then live events, with no gap and no repeat, as notifications `event` (the event "
     "and its `subscription`) and `guidance`. WebSocket only."},
    {"event.unsubscribe", METHOD_CONTROL, MAY_ALL,
     params_event_unsubscribe, method_event_unsubscribe, "`{}`",
     "Ends a subscription of this connection."},
    {"attachment.get", METHOD_READ, MAY_ALL,
     params_attachment_get, method_attachment_get, "`{name, contentType, size, content}`",
     "An attachment, in base64."},
    {"server.info", METHOD_READ, MAY_ALL,
     params_none, method_server_info, "`{version, store, clock, now, startedAt, …}`",
     "What is running."},
    {"server.config", METHOD_READ, MAY_OPERATOR,
     params_none, method_server_config, "`{options}`",
     "Every option with its value and where that came from."},
    {"server.backup", METHOD_CONTROL, MAY_OPERATOR,
     params_server_backup, method_server_backup, "`{path, bytes}`",
     "Copies the store to a new file while the server goes on; answers when it is complete."},
    {"participant.join", METHOD_CONTROL, MAY_OPERATOR | MAY_AGENT,
     params_participant, method_participant_join,
     "`{status:\"waiting\", readyUntil, ttlMs, heartbeatMs, superseded?}`",
     "From now on this connection listens for the agent; an older one is superseded."},
    {"participant.heartbeat", METHOD_CONTROL, MAY_OPERATOR | MAY_AGENT,
     params_participant_heartbeat, method_participant_heartbeat,
     "`{status:\"ok\"|\"rejoin_required\"|\"superseded\", readyUntil?, activeUntil?, staleEpoch?, "
     "epoch?, directive?:\"stop\", renewed:{listener, work}}`",
     "A sign of life of the listener, and with an epoch of the worker. `renewed` says which leases it has "
     "renewed. `staleEpoch: true`: the work that it names is not held by it: another epoch, or none was given; "
     "`epoch` is the present one. What is wrong with it is told in the answer, never as an error."},
    {"participant.leave", METHOD_CONTROL, MAY_OPERATOR | MAY_AGENT,
     params_participant, method_participant_leave, "`{}`",
     "Ends the listener's lease; of a superseded connection: no effect."},
    {"participant.list", METHOD_READ, MAY_ALL,
     params_participant_list, method_participant_list,
     "`{participants:[{conversation, role, status, connectionId, readyUntil, activeUntil, lastSeenAt}]}`",
     "Who listens and who works. Of all conversations: at most 1000 that ever joined."},
    {"task.create", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_task_create, method_task_create, "`{task: Task}`",
     "Work for a role: pending if the agent is idle, else queued behind what it has. Starts the agent "
     "if it may be."},
    {"task.wait", METHOD_CONTROL, MAY_OPERATOR | MAY_AGENT,
     params_task_wait, method_task_wait,
     "`{status:\"task\"|\"resume\"|\"none\"|\"stop\"|\"stale\"|\"blocked\"|\"superseded\"|\"rejoin_required\"|\"ended\", task?}`",
     "Waits for work; a long poll that is also a heartbeat. It does not claim. `resume`: results of the "
     "tools that its suspended task waits for are there to be taken, by `task.resume`. With `epoch` it is "
     "the wait of a worker, and no heartbeat: `stale` as soon as the task is taken away."},
    {"task.claim", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_task_claim, method_task_claim, "`{task: Task, epoch}`",
     "Takes the agent's active task; starts the worker lease. Again by the same connection: the same "
     "answer."},
    {"task.start", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_task_epoch, method_task_start, "`{task: Task}`", "Work has begun."},
    {"task.progress", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_task_progress, method_task_progress, "`{activeUntil}`",
     "The work has moved: renews the worker lease and the clock of `running.reap`."},
    {"task.suspend", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_task_suspend, method_task_suspend, "`{task: Task, resumeDeadline}`",
     "The work waits for tools, each with a deadline of its own; nobody needs to beat for it meanwhile. "
     "`resumeDeadline` is the earliest, or null. Writes a `tool.call` card for each."},
    {"tool.report", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_tool_report, method_tool_report, "`{accepted, early?, duplicate?, late?}`",
     "The result of a call, kept as a `tool.result` card; the first one counts. `early`: it is kept for "
     "the suspend that is to come. `duplicate`: it was reported before. `late`, and not accepted: nobody "
     "waits for it any more. Also while the conversation is blocked."},
    {"task.resume", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_task_resume, method_task_resume,
     "`{results:[{toolCallId, status, result?, error?}], leaseUntil}`",
     "Takes the results that have arrived; `status` may also be `timeout`. What is not applied by "
     "`leaseUntil` can be taken again, by anybody who knows the epoch: a process that was started later, "
     "too. `leaseUntil` is null if there was nothing to take."},
    {"task.applied", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_task_applied, method_task_applied, "`{task: Task, epoch}`",
     "These results are part of the work now. With the last one the task is in progress again, with the "
     "next epoch."},
    {"task.complete", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_task_complete, method_task_complete,
     "`{task: Task, deliverableCardId, handoffTask?}`",
     "This task is done, and no other; the next in the queue becomes pending. A repeat with the same deliverable "
     "and hand-off gets the same answer; with others it is IDEMPOTENCY_CONFLICT, and what was kept stays."},
    {"task.fail", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_task_fail, method_task_fail, "`{task: Task}`", "The work cannot be done. A repeat with another reason is IDEMPOTENCY_CONFLICT."},
    {"task.cancel", METHOD_WRITE, MAY_OPERATOR,
     params_task_cancel, method_task_cancel, "`{task: Task}`", "Somebody does not want it any more. A repeat "
     "with another reason is IDEMPOTENCY_CONFLICT."},
    {"task.get", METHOD_READ, MAY_ALL, params_task, method_task_get, "`{task: Task}`",
     "Task: `{task, conversation, role, status, content, channel, epoch, attempts, assignedTo, "
     "claimedBy, held?, note, createdAt, pendingAt, acknowledgedAt, startedAt, completedAt, "
     "outcome?:{status, error, stop_reason_code, deliverableCardId}}`."},
    {"task.list", METHOD_READ, MAY_ALL,
     params_task_list, method_task_list, "`{tasks:[Task], next}`",
     "In the order of their numbers; pass `next` as `after` to go on. With a filter a page may be "
     "shorter than `limit`."},
    {"task.why", METHOD_READ, MAY_ALL, params_task, method_task_why,
     "`{task, status, agent, view, now, cause, says, remedy, next, pid, evidence, standing, "
     "historyIsCut, history}`",
     "As `agent.why`, for one task: why it waits, and for whom."},
    {"inbox.enqueue", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_inbox_enqueue, method_inbox_enqueue, "`{inboxId, duplicate?}`",
     "A message for an agent, and a ring. Unique per agent, type, correlation and epoch of the agent: "
     "again, it is the first one."},
    {"inbox.receive", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_inbox_receive, method_inbox_receive,
     "`{messages:[{inboxId, messageType, correlationId, payload, epoch, createdAt}]}`",
     "What is pending, oldest first; it is this connection's until it is consumed, or for "
     "`worker.inbox_processing_timeout_seconds`. Never a `turn`: that is `task.wait`."},
    {"inbox.consume", METHOD_WRITE, MAY_OPERATOR | MAY_AGENT,
     params_inbox_consume, method_inbox_consume, "`{refused:[inboxId], consumed}`",
     "Dealt with, by the connection that received it. Again: the same number. What another connection "
     "has received since, or what was skipped, is refused."},
    {"inbox.list", METHOD_READ, MAY_OPERATOR | MAY_AGENT | MAY_READ,
     params_inbox_list, method_inbox_list, "`{messages:[Message], next}`",
     "Every row, in order; pass `next` as `after` to go on. An agent's token sees its own. Message: as "
     "received, and `{conversation, role, status, channel, receivedBy, attempts, processedAt, "
     "archivedAt, ringCount, lastRungAt, watchdog_error, watchdog_at}`."},
    {"inbox.get", METHOD_READ, MAY_OPERATOR | MAY_AGENT | MAY_READ,
     params_inbox_get, method_inbox_get, "`{message: Message}`", "One row."},
    {"card.get", METHOD_READ, MAY_ALL, params_card_get, method_card_get,
     "`{card:{card, type, conversation, task, content, createdAt}}`",
     "What a task has left behind."},
    {"card.list", METHOD_READ, MAY_ALL, params_card_list, method_card_list, "`{cards, next}`",
     "Those of a conversation, in order; pass `next` as `after` to go on."},
    {"agent.start", METHOD_WRITE, MAY_OPERATOR,
     params_agent, method_agent_start, "`{command, desired, deduplicated?, reason?}`",
     "A person wants it up: desired `running`, the breaker closed. One open start is enough; `command` is "
     "null if nobody starts it for us, or it runs, or its machine is offline (the wish stands)."},
    {"agent.stop", METHOD_WRITE, MAY_OPERATOR,
     params_agent, method_agent_stop, "`{command, desired, reason?}`",
     "A person wants it down: desired `stopped`. Never undone by anything but a person. A process on a machine "
     "that is lost is given up, and stopped if that machine comes back."},
    {"agent.restart", METHOD_WRITE, MAY_OPERATOR,
     params_agent, method_agent_restart, "`{command, desired, deduplicated?, reason?}`",
     "A new process in place of the one there is, which is proven dead first."},
    {"agent.set", METHOD_WRITE, MAY_OPERATOR,
     params_agent_set, method_agent_set, "`{agent}`",
     "Adds a role, changes what runs for it and where, or removes it. Its process must have ended, or be on a "
     "machine that is lost; then it is given up."},
    {"agent.list", METHOD_READ, MAY_ALL,
     params_agent_list, method_agent_list,
     "`{agents:[{agent, conversation, role, desired, view, kind, machine, pinned, process?, participant, "
     "task?, restarts, breaker}]}`",
     "Who is there and how; of all active conversations, up to a page."},
    {"agent.why", METHOD_READ, MAY_ALL,
     params_agent_why, method_agent_why,
     "`{agent, view, now, cause, says, remedy, next, pid, evidence, standing, historyIsCut, history}`",
     "As `conversation.why`, for one agent."},
    {"agent.logs", METHOD_READ, MAY_OPERATOR | MAY_READ,
     params_agent_logs, method_agent_logs, "`{text, truncated, next, linesBefore?}`",
     "The end of what its processes have printed, fetched from its machine; with `after` what came since, "
     "which may be nothing."},
    {"machine.register", METHOD_CONTROL, MAY_OPERATOR | MAY_MACHINE,
     params_machine_register, method_machine_register, "`{commands, ttlMs}`",
     "A machine begins, or begins anew: what it may run and what it has. Reconciles both ways."},
    {"machine.poll", METHOD_CONTROL, MAY_OPERATOR | MAY_MACHINE,
     params_machine_poll, method_machine_poll, "`{commands}`",
     "Waits for commands; the machine's heartbeat, and evidence for its processes."},
    {"machine.report", METHOD_CONTROL, MAY_OPERATOR | MAY_MACHINE,
     params_machine_report, method_machine_report, "`{acceptedTo, rejected:[{n, error}]}`",
     "What happened to processes, in order. A fact about what is not known here is set aside."},
    {"machine.log", METHOD_CONTROL, MAY_OPERATOR | MAY_MACHINE,
     params_machine_log, method_machine_log, "`{}`",
     "Answers a `read-log` that came with a poll: `{type, request, conversation, role, tailBytes, after?}`."},
    {"machine.list", METHOD_READ, MAY_OPERATOR | MAY_READ,
     params_none, method_machine_list, "`{machines}`", "Every machine that ever registered."},
    {"machine.forget", METHOD_WRITE, MAY_OPERATOR,
     params_machine_forget, method_machine_forget, "`{}`",
     "A host that will not come back: its agents are let go, and those that nobody pinned to it are started "
     "elsewhere. The machine must be offline for `machine.fence_seconds`, or with `force` for any time. If it "
     "comes back after all, it registers anew, and what it still runs is stopped."},
    {"machine.why", METHOD_READ, MAY_OPERATOR | MAY_READ,
     params_machine_why, method_machine_why,
     "`{machine, status, now, cause, says, remedy, next, evidence, standing}`",
     "As `conversation.why`, for one machine."},
    {"lifecycle.ensure", METHOD_WRITE, MAY_OPERATOR,
     params_lifecycle, method_lifecycle_ensure, "`{ensured:[{role, view}]}`",
     "These agents should run: starts those that do not. Idempotent; refused once the conversation "
     "has ended."},
    {"lifecycle.stop", METHOD_WRITE, MAY_OPERATOR,
     params_lifecycle, method_lifecycle_stop, "`{}`",
     "These agents should not run. Idempotent; whatever state the conversation is in."},
    {"lifecycle.getEnsured", METHOD_READ, MAY_ALL,
     params_lifecycle_get, method_lifecycle_get_ensured, "`{ensured:[{role, view}]}`",
     "The agents that should run, or still do."},
    {"command.list", METHOD_READ, MAY_OPERATOR,
     params_command_list, method_command_list, "`{commands, next}`",
     "What machines were told to do, in order; pass `next` as `after` to go on."},
    {"watchdog.rules", METHOD_READ, MAY_OPERATOR | MAY_READ,
     params_none, method_watchdog_rules,
     "`{rules:[{rule, rung, seed, key, own, limit, lastRunAt, nextDueAt, fired, errors}]}`",
     "The rules of the ladder. `limit` is in the unit of `key`, `own` what a conversation may set "
     "instead; `fired` and `errors` count since the start."},
    {"watchdog.runOnce", METHOD_CONTROL, MAY_OPERATOR,
     params_watchdog_run_once, method_watchdog_run_once,
     "`{checked, candidates, canceled, skipped, errors}`",
     "Makes a pass over all rules or one, and answers when it is over. While one is under way: "
     "`running: true` and zeros."},
    {"clock.advance", METHOD_CONTROL, MAY_OPERATOR,
     params_clock_advance, method_clock_advance, "`{now}`",
     "Steps the time to each due time in turn, and answers when nothing is left to do. Only with "
     "`--clock=manual`."},
    {"clock.gap", METHOD_CONTROL, MAY_OPERATOR,
     params_clock_advance, method_clock_gap, "`{now}`",
     "As if nobody had watched for this long. Only with `--clock=manual`."},
    {"token.create", METHOD_WRITE, MAY_OPERATOR,
     params_token_create, method_token_create, "`{token, secret, scope, expiresAt?}`",
     "Makes a token. `secret` is what callers send; it is shown this once."},
    {"token.list", METHOD_READ, MAY_OPERATOR,
     params_none, method_token_list, "`{tokens}`", "All tokens, without their secrets."},
    {"token.revoke", METHOD_WRITE, MAY_OPERATOR,
     params_token_revoke, method_token_revoke, "`{}`", "From now on the token opens nothing."},
};
// clang-format on

const size_t method_count = ARRAY_LEN(method_table);

const struct method *method_find(struct str name)
{
    for (size_t i = 0; i < method_count; i++)
        if (str_is(name, method_table[i].name))
            return &method_table[i];
    return NULL;
}

/* ---- documentation ---- */

static const char *type_text(const struct param *row)
{
    static const char *const names[] = {
        [PARAM_INT] = "integer",  [PARAM_STRING] = "string", [PARAM_NAME] = "name",
        [PARAM_BOOL] = "boolean", [PARAM_CHOICE] = "one of", [PARAM_OBJECT] = "object",
        [PARAM_LIST] = "list",    [PARAM_ANY] = "any value",
    };
    return names[row->type];
}

static void write_range(struct buf *out, const struct param *row)
{
    if (row->type == PARAM_CHOICE)
        for (const char *const *c = row->choices; *c; c++)
            buf_addf(out, "%s`%s`", c == row->choices ? " " : ", ", *c);
    else if (row->type == PARAM_INT && row->max != ID_MAX)
        buf_addf(out, " %lld to %lld", (long long)row->min, (long long)row->max);
    else if (row->type == PARAM_STRING && row->max)
        buf_addf(out, " of at most %lld bytes", (long long)row->max);
    else if (row->type == PARAM_LIST)
        buf_addf(out, " of at most %lld", (long long)row->max);
}

static void write_params(struct buf *out, const struct param *table, const char *prefix)
{
    for (const struct param *row = table; row->name; row++) {
        buf_addf(out, "| `%s%s`%s | %s", prefix, row->name, row->required ? "" : "?",
                 type_text(row));
        write_range(out, row);
        buf_addf(out, " | %s | %s |\n", row->fallback ? row->fallback : "", row->doc);
        if (row->fields) {
            _cleanup_free_ char *sub =
                mem_printf("%s%s%s.", prefix, row->name, row->type == PARAM_LIST ? "[]" : "");
            write_params(out, row->fields, sub);
        }
    }
}

static void write_method(struct buf *out, const struct method *m)
{
    static const char *const kinds[] = {
        [METHOD_READ] = "reads",
        [METHOD_WRITE] = "writes",
        [METHOD_APPEND] = "appends to the log",
        [METHOD_CONTROL] = "changes nothing that is stored",
    };
    buf_addf(out, "### `%s`\n\n%s\n\nScope:", m->name, m->doc);
    for (int s = 0, n = 0; s < SCOPE_COUNT; s++)
        if (m->scopes & (1u << s))
            buf_addf(out, "%s %s", n++ ? "," : "", scope_name((enum scope)s));
    buf_addf(out, ". It %s.\n\n", kinds[m->kind]);
    if (m->params[0].name) {
        buf_addz(out, "| param | type | default | |\n|---|---|---|---|\n");
        write_params(out, m->params, "");
        buf_addc(out, '\n');
    }
    buf_addf(out, "Result: %s\n\n", m->result);
}

static void write_errors(struct buf *out)
{
    buf_addz(out, "## Errors\n\n| code | name | message | retry unchanged |\n|---|---|---|---|\n");
    for (int code = 1; code < ERR_COUNT; code++)
        if (code < ERR_USAGE)
            buf_addf(out, "| %d | `%s` | %s | %s |\n", err_rpc_code(code), err_name(code),
                     err_text(code), err_may_retry(code) ? "yes" : "no");
    buf_addc(out, '\n');
}

static void write_json_rules(struct buf *out)
{
    // clang-format off
    static const char *const rules[][2] = {
        {"text that is not JSON (RFC 8259, in UTF-8)",
         "PARSE, with `id: null`; nothing of it is done, also if it is a batch"},
        {"half a surrogate pair (`\"\\ud83d\"`), also in a key", "taken; it becomes U+FFFD"},
        {"`\\u0000` in what is kept as JSON (object, any value), also in a key",
         "taken; it stays `\\u0000`"},
        {"`\\u0000` in a param of type string", "INVALID_PARAMS: `must not hold the character U+0000`"},
        {"a key that an object has twice", "INVALID_PARAMS: `duplicate key`"},
        {"an integer beyond 64 bits, a real beyond a double (`1e400`)",
         "INVALID_PARAMS: `number out of range`"},
        {"a value nested deeper than `net.json_depth_max` (a call is level 1; in a batch, 2)",
         "INVALID_PARAMS: `nested too deeply`"},
        {"`\"params\": []`", "the same as no params"},
        {"an `id` that is a string or a number of any size", "comes back as it was written"},
        {"a member of the call itself given twice (`method`, `id`, …)",
         "INVALID_REQUEST with `data.member`; the `id` is null if there are two different ones"},
        {"members of the call itself other than `jsonrpc`, `id`, `method`, `params`", "ignored"},
    };
    // clang-format on
    buf_addz(out,
             "## JSON\n\nWhat is JSON and not taken refuses the call that it is in, by its `id`; "
             "the other calls of a batch go on. `data.path` says where it is in the params.\n\n"
             "| in a request | answer |\n|---|---|\n");
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        buf_addf(out, "| %s | %s |\n", rules[i][0], rules[i][1]);
    buf_addc(out, '\n');
}

static void write_transport_rules(struct buf *out)
{
    buf_addz(
        out,
        "## HTTP and WebSocket\n\n"
        "- HTTP/1.1 by RFC 9110 and 9112, strict where two readers could see two messages. A "
        "target "
        "may be absolute: `http://…`, and `https://…` over TLS (without TLS: 421).\n"
        "- `Bearer` has no case; one or more spaces follow it.\n"
        "- `HEAD` never gets a body, errors included. `OPTIONS *` is 204 with `Allow`, without a "
        "token.\n"
        "- A client that ends its sending side still gets its answers, over HTTP and over a "
        "WebSocket; then the server closes.\n"
        "- The subprotocol `jsonrpc` is accepted on `/ws` if it is offered; none is needed.\n\n");
}

static void write_stream_path(struct buf *out)
{
    buf_addz(
        out,
        "### `GET /events`\n\n"
        "A stream of server-sent events (`text/event-stream`): the backlog, then what happens, "
        "with "
        "no gap and no repeat. Any scope; a token sees what it may see.\n\n"
        "| | | |\n|---|---|---|\n"
        "| query `conversation`? | number | only this one; absent: all that the token may see |\n"
        "| query `after`? | number | begin after this global `id`, 0 for the first; absent: from "
        "now "
        "on |\n"
        "| header `Last-Event-ID`? | number | the same, and wins: an EventSource sends it when it "
        "comes back |\n\n"
        "Each event is a line `id: ` with its global `id`, a line `data: ` with the event as one "
        "line "
        "of JSON, as `event.list` has it, and an empty line. `: ping` comes after "
        "`net.ping_seconds` without an event. The server ends the stream when it stops, when the "
        "token is revoked or expires, and when nothing is read for `net.stall_seconds`: come back "
        "with the last `id`. 400: not a number; 404: no such conversation, or not yours.\n\n"
        "    $ curl -N 'http://127.0.0.1:7433/events?conversation=1&after=3' -H \"Authorization: "
        "Bearer "
        "$TOKEN\"\n"
        "    id: 4\n"
        "    data: {\"id\":4,\"conversation\":1,\"turn\":2,\"event\":1,\"seq\":3,…}\n\n");
}

static void write_health_paths(struct buf *out)
{
    buf_addz(
        out,
        "### `GET /healthz`, `GET /readyz`\n\n"
        "For probes; no token, `text/plain`. `/healthz` is 200 `ok` while the process answers. "
        "`/readyz` is 200 `ready` while the store takes writes, else 503; reads may go on then.\n\n"
        "    $ curl -i http://127.0.0.1:7433/readyz\n"
        "    HTTP/1.1 200 OK\n    …\n    ready\n\n"
        "### `GET /metrics`\n\n"
        "Prometheus text (`text/plain; version=0.0.4`). From loopback without a token, from "
        "elsewhere "
        "with any. `reeve_rule_moves_total{rule=\"…\"}` counts what the ladder has moved, "
        "`reeve_store_writable` is 0 on a full disk; each metric says in its `# HELP` what it "
        "is.\n\n"
        "    $ curl -s http://127.0.0.1:7433/metrics | grep reeve_events\n"
        "    # HELP reeve_events_total Events appended to the log.\n"
        "    # TYPE reeve_events_total counter\n"
        "    reeve_events_total 12\n\n");
}

static void write_paths(struct buf *out)
{
    buf_addz(
        out,
        "## Paths\n\n"
        "A request that does not get as far as a method has a status other than 200, and a "
        "JSON-RPC "
        "error with `id: null` as its body: 401 no valid token, 403 a Host or Origin that is not "
        "ours, 404 no such path, 405 another method, 413 and 431 too large, 503 too many "
        "connections, or about to stop.\n\n"
        "### `POST /rpc`\n\n"
        "A call or a batch; the answer is 200 with its result or error, 204 if there were "
        "notifications only.\n\n"
        "    $ curl -s http://127.0.0.1:7433/rpc -H \"Authorization: Bearer $TOKEN\" \\\n"
        "          -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.info\"}'\n\n"
        "### `GET /ws`\n\n"
        "A WebSocket (RFC 6455), with the token in the header of the handshake. The first frame is "
        "a "
        "notification `welcome` with `server` and `version`. `event.subscribe` works here only. A "
        "ping comes every `net.ping_seconds`. examples/subscribe.py is a client of 30 lines.\n\n");
    write_stream_path(out);
    write_health_paths(out);
}

void method_write_docs(struct buf *out)
{
    buf_addz(out,
             "# Methods\n\nGenerated from the method table (`src/rpc/method.c`) by `make docs`.\n\n"
             "JSON-RPC 2.0 over `POST /rpc` (a call or a batch of at most 1000) and over `GET /ws` "
             "(a call or a batch per text frame). `Authorization: Bearer <token>`. A name is 1 to "
             "64 letters, digits, `_` or `-`, compared in lower case. Unknown members are refused. "
             "An error's `data` has at least `name`; for INVALID_PARAMS also `path` and "
             "`reason`.\n\n");
    write_errors(out);
    write_json_rules(out);
    write_transport_rules(out);
    write_paths(out);
    buf_addz(out, "## Methods\n\n");
    for (size_t i = 0; i < method_count; i++)
        write_method(out, &method_table[i]);
}
