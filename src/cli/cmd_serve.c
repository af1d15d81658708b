/* cmd_serve.c: `reeve serve`, from options to server_run(). */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "server/server.h"

static int read_options(const struct cli_args *args, struct options *ret, struct err *err)
{
    const char *file = cli_value(args, "config"), *assignment;
    size_t cursor = 0;
    options_init(ret);
    int r = file ? options_read_file(ret, file, err) : 0;
    if (r == 0)
        r = options_read_env(ret, err);
    while (r == 0 && (assignment = cli_next(args, "set", &cursor)))
        r = options_set(ret, str_of(assignment), err);
    return r == 0 ? options_check(ret, err) : r;
}

static int check_backends(const struct cli_args *args, struct err *err)
{
    const char *store = cli_value(args, "store"), *bell = cli_value(args, "bell");
    if (store && strncmp(store, "sqlite:", 7) != 0)
        return err_set(err, ERR_USAGE, "--store %.80s: this build knows sqlite:PATH", store);
    if (bell && strcmp(bell, "local") != 0)
        return err_set(err, ERR_USAGE, "--bell %.80s: this build knows local", bell);
    return 0;
}

static size_t read_hosts(const struct cli_args *args, const char **ret)
{
    size_t n = 0, cursor = 0;
    const char *name;
    while ((name = cli_next(args, "allow-host", &cursor)))
        ret[n++] = name;
    return n;
}

/* "7500" is a port of this host alone. */
static char *read_listen(const char *given)
{
    int64_t port;
    if (!given)
        return mem_strdup("127.0.0.1:7433");
    return str_to_int(str_of(given), &port) ? mem_printf("127.0.0.1:%s", given) : mem_strdup(given);
}

int cmd_serve(const struct cli_args *args, struct err *err)
{
    const char *clock = cli_value(args, "clock");
    _cleanup_free_ char *folder = NULL, *listen = read_listen(cli_value(args, "listen"));
    _cleanup_free_ const char **hosts = mem_alloc((args->value_count + 1) * sizeof *hosts);
    struct server_config config = {
        .listen = listen,
        .store_url = cli_value(args, "store"),
        .tls_cert = cli_value(args, "tls-cert"),
        .tls_key = cli_value(args, "tls-key"),
        .is_insecure = cli_flag(args, "insecure"),
        .manual_clock = clock && strcmp(clock, "manual") == 0,
        .allowed_hosts = hosts,
        .allowed_host_count = read_hosts(args, hosts),
        .version = REEVE_VERSION,
    };
    cli_set_log_level(args);
    int r = check_backends(args, err);
    if (r == 0)
        r = read_options(args, &config.options, err);
    if (r == 0)
        r = cli_data_folder(args, &folder, err);
    config.data_folder = folder;
    return r == 0 ? server_run(&config, err) : r;
}
