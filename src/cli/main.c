/*
 * main.c: the program's entry; all else is in dispatch.c, where tests can reach it.
 */
#include <signal.h>

#include "cli/dispatch.h"

int main(int argc, char **argv)
{
    /* A peer that closes its socket must not end us; print_flush() looks after standard output. */
    signal(SIGPIPE, SIG_IGN);
    return cli_main(argc, argv);
}
