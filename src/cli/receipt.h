/*
 * receipt.h: the server's answer to something written to the log.
 */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "cli/cli.h"

/* "12:3.1 seq=14 id=981 ts=2026-11-15T09:30:00.123Z", or the answer itself with --json. */
int receipt_print(const struct cli_args *args, const struct json *result, struct err *err);
