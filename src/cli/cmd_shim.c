/*
 * cmd_shim.c: `reeve shim`, which a machine starts and people do not.
 */
#include "cli/verbs.h"
#include "machine/shim.h"

static int run(const struct cli_args *args, struct err *err)
{
    (void)args;
    return shim_run(err);
}

const struct verb verb_shim = {
    .name = "shim",
    .synopsis = "",
    .summary = "the parent of one agent process; started by a machine",
    .details = "Reads what to run from standard input. Internal: its form may change.",
    .flags = VERB_HIDDEN,
    .run = run,
};
