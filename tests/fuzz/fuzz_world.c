/* fuzz_world.c: see fuzz_world.h. */
#include "fuzz_world.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/mem.h"
#include "lib/deeds.h"
#include "store/sqlite_store.h"
#include "tap.h"

enum { TICKS_PER_CALL_MAX = 64, IDLES_MAX = 64 };

/* ---- in place of tap.c ---- */

void tap_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    abort();
}

/* ---- life ---- */

static const struct fault_vfs *files_of(populate_fn *populate, const struct options *options)
{
    static struct fault_vfs *files;
    if (!files) {
        struct world *w = world_on(NULL, options);
        if (populate)
            populate(w);
        files = world_leave(w);
    }
    return files;
}

struct world *fuzz_world_new(populate_fn *populate, const struct options *options)
{
    return world_on(files_of(populate, options), options);
}

void fuzz_settle(struct world *w)
{
    for (int i = 0; i < TICKS_PER_CALL_MAX && core_wants_tick(w->core); i++) {
        tick(w);
        outbox_release(&w->out);
    }
    for (int i = 0; i < IDLES_MAX && core_idle(w->core, &w->out); i++)
        ;
    outbox_release(&w->out);
}

void fuzz_say(struct world *w, struct str text)
{
    struct core_input *in = input(w, CORE_REQUEST, w->peer);
    in->request = rpc_request_new(w->peer, &w->grant, true, text, JSON_DEPTH_DEFAULT);
    tick(w);
    fuzz_settle(w);
}

void fuzz_world_free(struct world *w)
{
    if (w->core) {
        core_stop(w->core, &w->out);
        core_free(TAKE_PTR(w->core));
    }
    world_free(w);
}

void fuzz_world_check(struct world *w)
{
    const char *broken = store_rules_broken(w->store->db);
    if (broken)
        tap_fail(__FILE__, __LINE__, "%s: not so", broken);
}

/* ---- a small town ---- */

static const char *const town[] = {
    CALL("conversation.create", "{'title':'one','metadata':{'k':[1,2]},'agents':[{'role':'a'},"
                                "{'role':'b','kind':'k','machine':'m'}],'maxTurns':0}"),
    CALL("conversation.create", "{'agents':[{'role':'a'}],'maxTurns':0}"),
    CALL("conversation.create", "{'agents':[{'role':'a'}]}"),
    CALL("conversation.create",
         "{'agents':[{'role':'a'}],'runtime_controls':{'session_wall_clock_seconds':1}}"),
    CALL("machine.register", "{'machine':'m','instance':'i','hostname':'h','bootId':'b','kinds':["
                             "{'name':'k','restart':'always','ready':'none','stopGraceMs':5000}],"
                             "'processes':[]}"),
    CALL("message.send", "{'conversation':1,'agentId':'a','text':'hi','clientRequestId':'r1',"
                         "'attachments':[{'name':'n','contentType':'text/plain','text':'body'}]}"),
    CALL("trace.append", "{'conversation':1,'agentId':'a','payload':{'type':'thought'}}"),
    CALL("message.send", "{'conversation':1,'agentId':'a','text':'x','finality':'turn'}"),
    CALL("task.create", "{'conversation':1,'role':'a','content':{'do':1},'idempotencyKey':'k'}"),
    CALL("task.create", "{'conversation':1,'role':'a','content':2}"),
    CALL("task.create", "{'conversation':1,'role':'a','content':3}"),
    CALL("task.create", "{'conversation':1,'role':'b','content':4}"),
    CALL("task.create", "{'conversation':2,'role':'a','content':5}"),
    CALL("task.claim", "{'conversation':1,'role':'a','connectionId':'c'}"),
    CALL("task.start", "{'task':1,'epoch':1}"),
    CALL("task.complete", "{'task':1,'epoch':1,'deliverable':{'d':1}}"),
    CALL("participant.join", "{'conversation':1,'role':'a','connectionId':'c'}"),
    CALL("task.claim", "{'conversation':1,'role':'a','connectionId':'c'}"),
    CALL("task.start", "{'task':2,'epoch':2}"),
    CALL("task.suspend", "{'task':2,'epoch':2,'tools':[{'toolCallId':'t1','name':'n'},"
                         "{'toolCallId':'t2','name':'n','arguments':{'x':1}}]}"),
    CALL("tool.report", "{'task':2,'toolCallId':'t1','status':'success','result':{'r':1}}"),
    CALL("machine.poll", "{'machine':'m','instance':'i','timeoutMs':0,'alive':[]}"),
    CALL("message.send", "{'conversation':3,'agentId':'a','text':'bye','finality':'conversation'}"),
    CALL("token.create", "{'scope':'agent','conversation':1,'role':'a'}"),
    CALL("clock.advance", "{'ms':2000}"),
    CALL("task.claim", "{'conversation':2,'role':'a','connectionId':'bystander'}"),
    CALL("task.start", "{'task':5,'epoch':1}"),
};

void fuzz_populate(struct world *w)
{
    for (size_t i = 0; i < ARRAY_LEN(town); i++) {
        ask(w, "%s", town[i]);
        tick(w);
        settle(w);
        take_ok(w);
        outbox_release(&w->out);
    }
    CHECK_INT(store_int(w, "SELECT count(*) FROM conversations WHERE status = 'blocked'"), 1);
    fuzz_world_check(w);
}
