/*
 * shim_main.c: the program `reeve-shim`. `reeve shim` is the same, for where there is only `reeve`.
 */
#include <stdio.h>

#include "machine/shim.h"

int main(void)
{
    struct err err = ERR_INIT;
    int r = shim_run(&err);
    if (r < 0)
        fprintf(stderr, "reeve-shim: %s\n", err.message);
    return r < 0 ? err_exit_status(r) : 0;
}
