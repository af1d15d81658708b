/*
 * signals.h: being told to stop, as a descriptor.
 */
#pragma once

#include "base/err.h"

/* Blocks SIGINT, SIGTERM, SIGHUP and SIGQUIT; the descriptor is readable once one of them has come.
 */
int signals_open(int *ret_fd, struct err *err);
/* Takes one that has come; 0 if none has. */
int signals_take(int fd);
/* What a child needs before exec: nothing blocked, nothing ignored. */
void signals_reset(void);
