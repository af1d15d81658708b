/* record.c: see record.h. */
#include "machine/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/names.h"

static const char *const ending_names[] = {
    [ENDING_START_FAILED] = "start_failed",
    [ENDING_EXITED] = "exited",
    [ENDING_STOPPED] = "stopped",
};

const char *ending_name(enum ending ending)
{
    return ending_names[ending];
}

static int write_record(const char *folder, const char *name, struct buf *text, struct err *err)
{
    _cleanup_free_ char *path = mem_printf("%s/%s", folder, name);
    buf_addc(text, '\n');
    return file_replace(path, buf_str(text), false, err);
}

static int read_record(struct arena *a, const char *folder, const char *name,
                       const struct json **ret, struct err *err)
{
    _cleanup_free_ char *path = mem_printf("%s/%s", folder, name);
    _cleanup_buf_ struct buf text = BUF_INIT(RECORD_BYTES_MAX);
    int r = file_read(path, &text);
    if (r == -ENOENT)
        return err_set(err, ERR_NOT_FOUND, "there is no %s", path);
    if (r < 0)
        return err_set(err, ERR_IO, "cannot read %.160s: %s", path, strerror(-r));
    return json_parse(a, arena_str(a, buf_str(&text)), JSON_DEPTH_DEFAULT, ret, err);
}

/* ---- seen ---- */

static void write_process(struct json_out *out, const char *key, const struct process_id *p)
{
    json_object(out, key);
    json_int(out, "pid", p->pid);
    json_int(out, "startTime", p->start_time);
    json_end(out);
}

static struct process_id read_process(const struct json *process)
{
    return (struct process_id){.pid = (pid_t)json_get_int(process, "pid", 0),
                               .start_time = json_get_int(process, "startTime", 0)};
}

int seen_write(const char *folder, const struct seen *s, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(RECORD_BYTES_MAX);
    struct json_out out = JSON_OUT(&text);
    json_object(&out, NULL);
    json_stringz(&out, "bootId", s->boot_id);
    write_process(&out, "shim", &s->shim);
    write_process(&out, "agent", &s->agent);
    json_end(&out);
    return write_record(folder, "seen", &text, err);
}

int seen_read(const char *folder, struct seen *ret, struct err *err)
{
    struct arena arena = ARENA_INIT;
    const struct json *json;
    int r = read_record(&arena, folder, "seen", &json, err);
    if (r == 0) {
        *ret = (struct seen){.shim = read_process(json_get(json, "shim")),
                             .agent = read_process(json_get(json, "agent"))};
        snprintf(ret->boot_id, sizeof ret->boot_id, "%.*s", STR_ARG(json_get_text(json, "bootId")));
    }
    arena_release(&arena);
    return r;
}

/* ---- ended ---- */

void ended_to_json(const struct ended *e, struct json_out *out)
{
    json_stringz(out, "fact", ending_name(e->ending));
    json_int(out, "code", e->code);
    json_int(out, "signal", e->signal);
    json_bool(out, "core", e->has_core);
    json_bool(out, "oom", e->is_oom);
    json_string(out, "text", e->text);
    json_string(out, "tail", e->tail);
    json_time(out, "at", e->at_ms);
    json_int(out, "atMs", e->at_ms);
}

int ended_from_json(struct arena *a, const struct json *json, struct ended *ret, struct err *err)
{
    int ending = names_find(ending_names, ARRAY_LEN(ending_names), json_get_text(json, "fact"));
    if (ending < 0)
        return err_set(err, ERR_PARSE, "not the last word of a shim");
    *ret = (struct ended){
        .ending = (enum ending)ending,
        .code = (int)json_get_int(json, "code", -1),
        .signal = (int)json_get_int(json, "signal", 0),
        .has_core = json_get_bool(json, "core"),
        .is_oom = json_get_bool(json, "oom"),
        .text = arena_str(a, json_get_text(json, "text")),
        .tail = arena_str(a, json_get_text(json, "tail")),
        .at_ms = json_get_int(json, "atMs", 0),
    };
    return 0;
}

int ended_write(const char *folder, const struct ended *e, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(RECORD_BYTES_MAX);
    struct json_out out = JSON_OUT(&text);
    json_object(&out, NULL);
    ended_to_json(e, &out);
    json_end(&out);
    return write_record(folder, "ended", &text, err);
}

int ended_read(struct arena *a, const char *folder, struct ended *ret, struct err *err)
{
    const struct json *json;
    int r = read_record(a, folder, "ended", &json, err);
    return r < 0 ? r : ended_from_json(a, json, ret, err);
}
