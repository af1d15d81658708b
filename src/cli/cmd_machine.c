/*
 * cmd_machine.c: `reeve machine`, from options to machine_run().
 */
#include <stdlib.h>

#include "base/mem.h"
#include "cli/verbs.h"
#include "machine/machine.h"

/* The folder of a server says where that server is; else it has to be said. */
static struct endpoint_source find_source(const struct cli_args *args, const char *folder)
{
    struct endpoint_source source = endpoint_source_of_environment();
    source.server = cli_value(args, "server");
    source.token_file = cli_value(args, "token-file");
    source.env_url = NULL; /* what a machine serves is said to it, not inherited */
    if (!source.server)
        source.data = folder;
    return source;
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_free_ char *folder = NULL;
    int r = cli_data_folder(args, &folder, err);
    if (r < 0)
        return r;
    const struct machine_config config = {
        .data_folder = folder,
        .name = cli_value(args, "name"),
        .kinds = cli_value(args, "config"),
        .source = find_source(args, folder),
    };
    cli_set_log_level(args);
    return machine_run(&config, err);
}

// clang-format off
static const struct verb_option options[] = {
    {"data", 0, "DIR", 0, "the data folder (default: $XDG_STATE_HOME/reeve)"},
    {"server", 0, "URL", 0, "the server (default: the one that runs in the data folder)"},
    {"token-file", 0, "FILE", 0, "its token, of scope machine; read again on each connect"},
    {"name", 0, "NAME", 0, "what the machine is called (default: after the host)"},
    {"config", 0, "FILE", 0, "what it may run (default: machine.conf in the data folder)"},
    {"log-level", 0, "debug|info|warn|error", 0, "the least level that is logged (default info)"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_machine = {
    .name = "machine",
    .synopsis = "",
    .summary = "run agents on this host for a server",
    .details =
        "Starts, watches and stops the processes of agents. What a kind of agent is, its own\n"
        "configuration says; docs/machines.md describes it.\n"
        "SIGTERM and SIGINT end the machine and leave its agents running: started again, it goes\n"
        "on where it was. 'reeve down' stops them as well. Exit status 3: another machine has\n"
        "taken its name; 75: another one runs in this folder.",
    .options = options,
    .run = run,
};
