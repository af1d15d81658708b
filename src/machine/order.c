/* order.c: see order.h. */
#include "machine/order.h"

#include "base/json.h"

static void write_list(struct json_out *out, const char *key, const char *const *list)
{
    json_array(out, key);
    for (; *list; list++)
        json_stringz(out, NULL, *list);
    json_end(out);
}

void order_write(const struct order *o, struct buf *out)
{
    struct json_out w = JSON_OUT(out);
    json_object(&w, NULL);
    json_stringz(&w, "spawnId", o->spawn_id);
    json_stringz(&w, "folder", o->folder);
    write_list(&w, "argv", o->argv);
    write_list(&w, "env", o->env);
    json_stringz(&w, "cwd", o->cwd);
    json_stringz(&w, "log", o->log);
    json_int(&w, "logBytesMax", o->log_bytes_max);
    json_int(&w, "stopGraceMs", o->stop_grace_ms);
    json_stringz(&w, "cgroup", o->cgroup);
    json_end(&w);
}

static int wrong(const char *key, struct err *err)
{
    return err_set(err, ERR_CONFIG, "an order without a valid '%s'", key);
}

static int read_text(struct arena *a, const struct json *order, const char *key, const char **ret,
                     struct err *err)
{
    const struct json *v = json_get(order, key);
    if (!v || v->type != JSON_STRING || !v->string.n || str_has_nul(v->string))
        return wrong(key, err);
    *ret = arena_strndup(a, v->string.p, v->string.n);
    return 0;
}

static int read_number(const struct json *order, const char *key, int64_t *ret, struct err *err)
{
    const struct json *v = json_get(order, key);
    if (!v || v->type != JSON_INT || v->integer < 0)
        return wrong(key, err);
    *ret = v->integer;
    return 0;
}

static int read_list(struct arena *a, const struct json *order, const char *key, const char ***ret,
                     struct err *err)
{
    const struct json *v = json_get(order, key);
    size_t n = 0;
    if (!v || v->type != JSON_ARRAY)
        return wrong(key, err);
    const char **list = arena_alloc(a, (v->count + 1) * sizeof *list);
    JSON_FOREACH (item, v) {
        if (item->type != JSON_STRING || str_has_nul(item->string))
            return wrong(key, err);
        list[n++] = arena_strndup(a, item->string.p, item->string.n);
    }
    list[n] = NULL;
    *ret = list;
    return 0;
}

int order_parse(struct arena *a, struct str text, struct order *ret, struct err *err)
{
    struct order o = {0};
    const struct json *json;
    int r = json_parse(a, text, JSON_DEPTH_DEFAULT, &json, err);
    if (r < 0)
        return r;
    r = read_text(a, json, "spawnId", &o.spawn_id, err);
    if (r == 0)
        r = read_text(a, json, "folder", &o.folder, err);
    if (r == 0)
        r = read_list(a, json, "argv", &o.argv, err);
    if (r == 0 && !o.argv[0])
        r = wrong("argv", err);
    if (r == 0)
        r = read_list(a, json, "env", &o.env, err);
    if (r == 0)
        r = read_text(a, json, "cwd", &o.cwd, err);
    if (r == 0)
        r = read_text(a, json, "log", &o.log, err);
    if (r == 0)
        r = read_number(json, "logBytesMax", &o.log_bytes_max, err);
    if (r == 0)
        r = read_number(json, "stopGraceMs", &o.stop_grace_ms, err);
    const struct json *cgroup = json_get(json, "cgroup");
    if (r == 0 && cgroup && cgroup->type != JSON_NULL)
        r = read_text(a, json, "cgroup", &o.cgroup, err);
    if (r == 0)
        *ret = o;
    return r;
}
