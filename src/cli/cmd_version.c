/*
 * cmd_version.c: `reeve version`.
 *
 * Includes the headers of libraries it does not use, for their versions as linked and nothing else.
 */
#include <openssl/crypto.h>
#include <sqlite3.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/macro.h"
#include "cli/print.h"
#include "cli/verbs.h"
#include "client/client.h"

#ifndef REEVE_VERSION
#define REEVE_VERSION "0.1.0-dev"
#endif

static int run(const struct cli_args *args, struct err *err)
{
    const struct {
        const char *name, *version;
    } parts[] = {
        {"reeve", REEVE_VERSION},
        {"sqlite", sqlite3_libversion()},
        {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)},
        {"curl", client_library_version()},
    };
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    bool json = cli_flag(args, "json");
    size_t count = json || cli_flag(args, "verbose") ? ARRAY_LEN(parts) : 1;
    struct json_out w = JSON_OUT(&out);
    if (json)
        json_object(&w, NULL);
    for (size_t i = 0; i < count; i++)
        if (json)
            json_stringz(&w, parts[i].name, parts[i].version);
        else
            buf_addf(&out, "%s %s\n", parts[i].name, parts[i].version);
    if (json) {
        json_end(&w);
        buf_addc(&out, '\n');
    }
    return print_flush(&out, err);
}

static const struct verb_option options[] = {
    {"verbose", 'v', NULL, 0, "also the libraries it runs with"},
    OPTIONS_END,
};

const struct verb verb_version = {
    .name = "version",
    .synopsis = "",
    .summary = "print the version",
    .flags = VERB_JSON,
    .options = options,
    .run = run,
};
