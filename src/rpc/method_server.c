/* method_server.c: server.info, server.config, server.backup, clock.advance, clock.gap. */
#include "rpc/method.h"

const struct param params_none[] = {PARAMS_END};

const struct param params_server_backup[] = {
    {.name = "path",
     .type = PARAM_STRING,
     .required = true,
     .min = 1,
     .max = 4000,
     .doc = "absolute, on the server; must not exist"},
    PARAMS_END,
};

const struct param params_clock_advance[] = {
    {.name = "ms",
     .type = PARAM_INT,
     .required = true,
     .max = INT64_C(3155760000000),
     .doc = "milliseconds"},
    PARAMS_END,
};

int method_server_info(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)err;
    c->host->write_info(c->host->ctx, out);
    return 0;
}

int method_server_config(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)err;
    c->host->write_config(c->host->ctx, out);
    return 0;
}

int method_server_backup(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)out;
    struct str path = params_str(c->params, "path");
    if (path.p[0] != '/')
        return params_refuse(err, "path", "must be absolute");
    int r = c->host->begin_backup(c->host->ctx, c->request, c->call, path, err);
    return r < 0 ? r : METHOD_PARKED;
}

int method_clock_advance(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)out;
    int r = c->host->advance_clock(c->host->ctx, c->request, c->call,
                                   params_int(c->params, "ms", 0), false, err);
    return r < 0 ? r : METHOD_PARKED;
}

int method_clock_gap(struct method_context *c, struct json_out *out, struct err *err)
{
    (void)out;
    int r = c->host->advance_clock(c->host->ctx, c->request, c->call,
                                   params_int(c->params, "ms", 0), true, err);
    return r < 0 ? r : METHOD_PARKED;
}
