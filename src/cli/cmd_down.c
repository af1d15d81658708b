/*
 * cmd_down.c: `reeve down`: every agent of this host's machine is stopped, and the machine with
 * them.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/verbs.h"
#include "machine/machine.h"

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_free_ char *folder = NULL;
    size_t count;
    int r = cli_data_folder(args, &folder, err);
    if (r < 0)
        return r;
    log_set_level(LOG_WARN);
    r = machine_down(folder, &count, err);
    if (r == 0)
        printf("stopped: %zu %s, and the machine\n", count, count == 1 ? "agent" : "agents");
    return r;
}

// clang-format off
static const struct verb_option options[] = {
    {"data", 0, "DIR", 0, "the data folder of the machine (default: $XDG_STATE_HOME/reeve)"},
    OPTIONS_END,
};
// clang-format on

const struct verb verb_down = {
    .name = "down",
    .synopsis = "",
    .summary = "stop the machine of this host and every agent it runs",
    .details =
        "Returns when no process of an agent is left. Works with and without a running machine;\n"
        "what the server has not heard by then, the next machine in this folder tells it.",
    .options = options,
    .run = run,
};
