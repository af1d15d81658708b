/*
 * dispatch.h: from argv to an exit status.
 */
#pragma once

/* Everything main() does; output on standard output, complaints on standard error. */
int cli_main(int argc, char **argv);
