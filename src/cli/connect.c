/* connect.c: see connect.h. */
#include "cli/connect.h"

#include "base/macro.h"

int cli_connect(const struct cli_args *args, struct client **ret, struct err *err)
{
    struct endpoint_source source = endpoint_source_of_environment();
    source.data = cli_value(args, "data");
    source.server = cli_value(args, "server");
    source.token_file = cli_value(args, "token-file");
    return client_open(&source, ret, err);
}

void cli_disconnect(struct client **client)
{
    *client = client_close(*client);
}

int cli_call(const struct cli_args *args, const char *method, const struct buf *params,
             struct arena *a, const struct json **ret, struct err *err)
{
    _cleanup_(cli_disconnect) struct client *client = NULL;
    if (params->overflow)
        return err_set(err, ERR_TOO_LARGE, "the request is over %d bytes", PARAMS_BYTES_MAX);
    int r = cli_connect(args, &client, err);
    return r < 0 ? r : client_call(client, method, buf_str(params), a, ret, err);
}
