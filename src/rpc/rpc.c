/*
 * rpc.c: see rpc.h.
 *
 * Everything that depends only on the text and the caller's grant is decided while parsing, in the
 * net thread, so that the core's single thread sees only calls that are well-formed and allowed.
 */
#include "rpc/rpc.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/planted.h"
#include "base/random.h"
#include "domain/idempotency.h"

/* ---- parsing ---- */

static void fail(struct rpc_request *r, struct rpc_call *call, int code, const struct err *err)
{
    REQUIRE(code < 0);
    struct err *copy = arena_alloc(&r->arena, sizeof *copy);
    *copy = *err;
    call->code = code;
    call->err = copy;
}

static bool is_id(const struct json *v)
{
    return v->type == JSON_STRING || v->type == JSON_INT || v->type == JSON_REAL ||
           v->type == JSON_NULL;
}

/* Of what stands twice in an envelope, no reader is sure which one counts. */
static int check_members(const struct json *v, struct err *err)
{
    JSON_FOREACH (m, v) {
        if (m->defect != JSON_DUPLICATE_KEY)
            continue;
        err_set(err, ERR_INVALID_REQUEST, "a member of the call is given twice");
        return err_str(err, "member", m->key);
    }
    return 0;
}

static int check_envelope(const struct json *v, struct err *err)
{
    const struct json *version = json_get(v, "jsonrpc"), *method = json_get(v, "method"),
                      *params = json_get(v, "params"), *id = json_get(v, "id");
    if (v->type != JSON_OBJECT)
        return err_set(err, ERR_INVALID_REQUEST, "a call must be an object");
    if (!version || version->type != JSON_STRING || !str_is(version->string, "2.0"))
        return err_set(err, ERR_INVALID_REQUEST, "jsonrpc must be \"2.0\"");
    if (!method || method->type != JSON_STRING)
        return err_set(err, ERR_INVALID_REQUEST, "method must be a string");
    if (params && params->type != JSON_OBJECT && params->type != JSON_ARRAY)
        return err_set(err, ERR_INVALID_REQUEST, "params must be an object");
    if (id && !is_id(id))
        return err_set(err, ERR_INVALID_REQUEST, "id must be a string, a number or null");
    return check_members(v, err);
}

static bool has_two_ids(const struct json *v, const struct json *id)
{
    JSON_FOREACH (m, v)
        if (str_eq(m->key, id->key) && !str_eq(m->span, id->span))
            return true;
    return false;
}

/* As it was written: an id is only sent back, so a number may have any size. An id that cannot be
 * trusted is answered as null; a call without one gets no answer. */
static struct str call_id(const struct json *v, bool is_valid)
{
    const struct json *id = json_get(v, "id");
    if (is_valid)
        return id ? id->span : STR_NONE;
    return id && is_id(id) && !has_two_ids(v, id) ? id->span : STR("null");
}

static int find_key(struct rpc_call *call, struct err *err)
{
    struct str own = params_str(call->params, "clientRequestId"),
               general = params_str(call->params, "idempotencyKey");
    if (own.p && general.p && !str_eq(own, general))
        return params_refuse(err, "idempotencyKey", "differs from clientRequestId");
    call->key.id = own.p ? own : general;
    if (call->key.id.p) {
        static const char *const skip[] = {"clientRequestId", "idempotencyKey", NULL};
        json_canonical_hash(call->params, skip, call->key.hash);
    }
    return 0;
}

static bool is_reserved(struct str name)
{
    return name.n >= 7 && strncasecmp(name.p, "system-", 7) == 0;
}

/* An agent may give work to others, but not do it for them. */
static bool speaks_for(const struct rpc_call *call, struct str role, const struct grant *g)
{
    const char *name = call->method->name;
    return strcmp(name, "task.create") == 0 || strcmp(name, "inbox.enqueue") == 0 ||
           str_eq_nocase(role, str_of(g->role));
}

static int check_scope(const struct rpc_request *r, const struct rpc_call *call, struct err *err)
{
    const struct grant *g = &r->grant;
    if (!(call->method->scopes & (1u << g->scope)))
        return err_set(err, ERR_FORBIDDEN, "%s is not for scope %s", call->method->name,
                       scope_name(g->scope));
    const struct json *conversation = params_get(call->params, "conversation");
    if (conversation && !grant_sees(g, conversation->integer)) {
        err_set(err, ERR_NOT_FOUND, "there is no conversation %lld",
                (long long)conversation->integer);
        err_str(err, "what", STR("conversation"));
        return err_int(err, "id", conversation->integer);
    }
    struct str agent = params_str(call->params, "agentId"),
               author = params_str(call->params, "authorId");
    if (is_reserved(agent) || is_reserved(author))
        return err_set(err, ERR_FORBIDDEN, "names that begin with system- are the server's");
    struct str role =
        call->method->kind == METHOD_READ ? STR_NONE : params_str(call->params, "role");
    if (g->scope == SCOPE_AGENT && ((agent.p && !str_eq_nocase(agent, str_of(g->role))) ||
                                    (role.p && !speaks_for(call, role, g))))
        return err_set(err, ERR_FORBIDDEN, "this token speaks for %s", g->role);
    return 0;
}

/* NULL if there are none: [] says so too, in the form that goes by position. */
static const struct json *given_params(const struct json *v)
{
    const struct json *params = json_get(v, "params");
    return params && params->type == JSON_ARRAY && params->count == 0 ? NULL : params;
}

static int prepare(struct rpc_request *r, struct rpc_call *call, const struct json *v,
                   struct err *err)
{
    int code = check_envelope(v, err);
    call->id = call_id(v, code == 0);
    if (code < 0)
        return code;
    struct str name = json_get(v, "method")->string;
    call->method = method_find(name);
    if (!call->method) {
        err_set(err, ERR_NO_METHOD, "no such method");
        return err_str(err, "method", name);
    }
    call->params = given_params(v);
    code = params_check(call->method->params, call->params, err);
    if (code == 0)
        code = find_key(call, err);
    if (code == 0)
        code = check_scope(r, call, err);
    return code;
}

static void prepare_call(struct rpc_request *r, struct rpc_call *call, const struct json *v)
{
    struct err err = ERR_INIT;
    *call = (struct rpc_call){.result = BUF_INIT(RPC_RESULT_BYTES_MAX)};
    int code = prepare(r, call, v, &err);
    if (code < 0)
        fail(r, call, code, &err);
}

/* The whole text is wrong: one answer, with id null. */
static void refuse_text(struct rpc_request *r, int code, const struct err *err)
{
    r->count = 1;
    r->calls = arena_alloc(&r->arena, sizeof *r->calls);
    r->calls[0] = (struct rpc_call){.id = STR("null"), .result = BUF_INIT(RPC_RESULT_BYTES_MAX)};
    fail(r, &r->calls[0], code, err);
}

static void prepare_batch(struct rpc_request *r, const struct json *v)
{
    struct err err = ERR_INIT;
    if (v->count == 0) {
        refuse_text(r, err_set(&err, ERR_INVALID_REQUEST, "an empty batch"), &err);
        return;
    }
    if (v->count > RPC_BATCH_MAX) {
        err_set(&err, ERR_TOO_LARGE, "a batch holds at most %d calls", RPC_BATCH_MAX);
        refuse_text(r, err_int(&err, "limit", RPC_BATCH_MAX), &err);
        return;
    }
    r->is_batch = true;
    r->count = v->count;
    r->calls = arena_alloc(&r->arena, r->count * sizeof *r->calls);
    size_t i = 0;
    JSON_FOREACH (item, v)
        prepare_call(r, &r->calls[i++], item);
}

struct rpc_request *rpc_request_new(struct peer *peer, const struct grant *grant, bool is_socket,
                                    struct str text, unsigned json_depth_max)
{
    struct rpc_request *r = mem_zalloc(sizeof *r);
    r->peer = peer_ref(peer);
    r->grant = *grant;
    r->is_socket = is_socket;
    struct err err = ERR_INIT;
    const struct json *v;
    int code = json_read(&r->arena, arena_str(&r->arena, text), json_depth_max, &v, &err);
    if (code < 0) {
        refuse_text(r, code, &err);
    } else if (v->type == JSON_ARRAY) {
        prepare_batch(r, v);
    } else {
        r->count = 1;
        r->calls = arena_alloc(&r->arena, sizeof *r->calls);
        prepare_call(r, &r->calls[0], v);
    }
    return r;
}

struct rpc_request *rpc_request_free(struct rpc_request *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; i < r->count; i++)
        buf_release(&r->calls[i].result);
    peer_unref(r->peer);
    arena_release(&r->arena);
    free(r);
    return NULL;
}

/* ---- executing ---- */

static int run_handler(struct method_context *c, struct err *err)
{
    struct json_out out = JSON_OUT(&c->call->result);
    json_object(&out, NULL);
    int code = c->call->method->fn(c, &out, err);
    if (code == 0)
        json_end(&out);
    if (code == 0 && c->call->result.overflow) {
        err_set(err, ERR_TOO_LARGE, "the answer is larger than %d bytes", RPC_RESULT_BYTES_MAX);
        code = err_int(err, "limit", RPC_RESULT_BYTES_MAX);
    }
    return code;
}

/* A write with a key: the stored answer, or a new one that is stored with its effect. */
static int run_keyed(struct method_context *c, struct err *err)
{
    struct rpc_call *call = c->call;
    struct str subject = str_of(c->grant->subject), stored;
    bool found;
    int code =
        idempotency_find(c->work, subject, call->method->name, &call->key, &stored, &found, err);
    if (code < 0)
        return code;
    if (found) {
        buf_add_str(&call->result, stored);
        return 0;
    }
    code = run_handler(c, err);
    if (code == 0)
        code = idempotency_store(c->work, subject, call->method->name, &call->key,
                                 buf_str(&call->result), err);
    return code;
}

/* A process speaks for its agent as long as it is the newest one, and the conversation lasts; after
 * its end it may still ask, and is told so. */
static int check_spawn(struct method_context *c, struct err *err)
{
    struct head *h;
    struct agent *a;
    const struct grant *g = c->grant;
    if (!g->spawn_id[0])
        return 0;
    int r = agent_find(c->work, g->conversation, str_of(g->role), &a, err);
    if (r == 0)
        r = head_get(c->work, g->conversation, &h, err);
    if (r < 0)
        return r;
    bool writes = c->call->method->kind == METHOD_WRITE || c->call->method->kind == METHOD_APPEND;
    bool is_over = h->status == CONVERSATION_COMPLETED && writes;
    if (!is_over && (strcmp(a->spawn_id, g->spawn_id) == 0 || planted(OLD_TOKEN_ACCEPTED)))
        return 0;
    return err_set(err, ERR_SUPERSEDED, "this process is not the agent's current one");
}

static int run_call(struct method_context *c, struct err *err)
{
    if (c->grant->expires_ms && c->grant->expires_ms <= c->work->now_ms)
        return err_set(err, ERR_UNAUTHENTICATED, "the token has expired");
    int superseded = check_spawn(c, err);
    if (superseded < 0)
        return superseded;
    if (c->request->result_bytes >= RPC_BATCH_BYTES_MAX) {
        err_set(err, ERR_TOO_LARGE, "the answers before it in this batch are too large");
        return err_int(err, "limit", RPC_BATCH_BYTES_MAX);
    }
    int code = work_request_begin(c->work, err);
    if (code < 0)
        return code;
    bool keyed =
        c->call->method->kind == METHOD_WRITE && c->call->key.id.p && !planted(KEY_IGNORED);
    code = keyed ? run_keyed(c, err) : run_handler(c, err);
    int end = work_request_end(c->work, code >= 0, err);
    return code != 0 || end == 0 ? code : end; /* parked in a lost tick: it fails with the tick */
}

int rpc_hide_internal(struct err *err, int code, const char *method)
{
    char ref[17];
    if (err_rpc_code(code) != err_rpc_code(ERR_INTERNAL))
        return code;
    random_hex(8, ref);
    log_error("rpc", "internal_error", "ref=%s method=%s error=%s reason=%s", ref, method,
              err_name(code), log_quote(str_of(err->message)));
    err_set(err, ERR_INTERNAL, "internal error, see the server's log");
    return err_str(err, "ref", str_of(ref));
}

static void fail_executed(struct rpc_request *r, struct rpc_call *call, int code,
                          const struct err *err)
{
    struct err shown = *err;
    buf_release(&call->result);
    code = rpc_hide_internal(&shown, code, call->method->name);
    fail(r, call, code, &shown);
}

static void execute_call(struct method_context *c)
{
    struct err err = ERR_INIT;
    int code = run_call(c, &err);
    if (code == METHOD_PARKED) {
        c->call->is_parked = true;
        c->request->parked++;
    } else if (code < 0) {
        fail_executed(c->request, c->call, code, &err);
    } else {
        c->request->result_bytes += c->call->result.len;
    }
}

void rpc_execute(struct rpc_request *r, struct work *w, struct subscriptions *subs,
                 const struct rpc_host *host)
{
    while (r->executed < r->count && r->parked == 0) {
        struct rpc_call *call = &r->calls[r->executed++];
        if (call->code < 0)
            continue;
        struct method_context c = {
            .work = w,
            .subscriptions = subs,
            .host = host,
            .arena = &r->arena,
            .grant = &r->grant,
            .request = r,
            .call = call,
            .params = call->params,
            .key = call->key.id.p ? &call->key : NULL,
        };
        execute_call(&c);
    }
}

bool rpc_has_more(const struct rpc_request *r)
{
    return r->executed < r->count;
}

void rpc_fail_all(struct rpc_request *r)
{
    struct err err = ERR_INIT;
    int code = err_set(&err, ERR_UNAVAILABLE, "%s", err_text(ERR_UNAVAILABLE));
    for (size_t i = r->kept; i < r->count; i++) {
        struct rpc_call *call = &r->calls[i];
        if (call->code < 0 || call->is_parked)
            continue;
        buf_release(&call->result);
        fail(r, call, code, &err);
    }
}

void rpc_call_again(struct rpc_request *r, struct rpc_call *call)
{
    REQUIRE(call->is_parked && r->parked > 0);
    call->is_parked = false;
    r->parked--;
    r->executed = r->kept = (size_t)(call - r->calls);
    buf_clear(&call->result);
}

void rpc_call_done(struct rpc_request *r, struct rpc_call *call, int code, const struct err *err)
{
    REQUIRE(call->is_parked && r->parked > 0);
    call->is_parked = false;
    r->parked--;
    r->kept = (size_t)(call - r->calls) + 1;
    if (code < 0)
        fail_executed(r, call, code, err);
}

/* ---- replying ---- */

static void write_error_object(struct json_out *j, const struct err *err)
{
    _cleanup_buf_ struct buf data = BUF_INIT(2 * ERR_DATA_BYTES);
    buf_addf(&data, "{\"name\":\"%s\"%s%s}", err_name(err->code), err->data[0] ? "," : "",
             err->data);
    json_object(j, "error");
    json_int(j, "code", err_rpc_code(err->code));
    json_stringz(j, "message", err->message);
    json_raw(j, "data", buf_str(&data));
    json_end(j);
}

void rpc_write_error(struct buf *out, struct str id, const struct err *err)
{
    struct json_out j = JSON_OUT(out);
    json_object(&j, NULL);
    json_stringz(&j, "jsonrpc", "2.0");
    json_raw(&j, "id", id);
    write_error_object(&j, err);
    json_end(&j);
}

static void write_call_reply(struct buf *out, const struct rpc_call *call)
{
    if (call->code < 0) {
        rpc_write_error(out, call->id, call->err);
        return;
    }
    buf_addz(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    buf_add_str(out, call->id);
    buf_addz(out, ",\"result\":");
    buf_add(out, call->result.data, call->result.len);
    buf_addc(out, '}');
}

int rpc_write_reply(const struct rpc_request *r, struct buf *out)
{
    REQUIRE(r->parked == 0);
    size_t written = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (!r->calls[i].id.p)
            continue;
        if (r->is_batch)
            buf_addc(out, written ? ',' : '[');
        write_call_reply(out, &r->calls[i]);
        written++;
    }
    if (written == 0)
        return 204;
    if (r->is_batch)
        buf_addc(out, ']');
    return !r->is_batch && r->calls[0].code == -ERR_UNAUTHENTICATED ? 401 : 200;
}
