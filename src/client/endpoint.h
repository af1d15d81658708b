/*
 * endpoint.h: where the server is, and what to show it.
 *
 * Three ways to say it, the first that is used wins:
 *
 *     --server URL --token-file FILE      (the token may come from REEVE_TOKEN instead)
 *     --data DIR                          DIR/server.json has the URL, DIR/operator.token the token
 *     REEVE_URL and REEVE_TOKEN           what agents are started with
 *     nothing                             the default data folder, as with --data
 *
 * --server and --data together are refused: one of them would be ignored in silence. Resolving is
 * done again whenever a connection is lost, since a server that comes back may have another port.
 */
#pragma once

#include "base/err.h"

struct endpoint_source {
    const char *data, *server, *token_file; /* flags; NULL if not given */
    const char *env_url, *env_token;        /* REEVE_URL, REEVE_TOKEN */
    const char *xdg_state_home, *home;      /* XDG_STATE_HOME, HOME */
};

struct endpoint {
    char *url; /* scheme and authority, no slash at the end */
    char *token;
};

#define ENDPOINT_INIT ((struct endpoint){0})

/* The environment's part; the flags are NULL. The strings are borrowed from the environment. */
struct endpoint_source endpoint_source_of_environment(void);

/*
 * ERR_USAGE for a contradiction or a bad URL, ERR_NO_SERVER if no server has left its address in
 * the data folder, ERR_UNAUTHENTICATED if the token cannot be read.
 */
int endpoint_resolve(const struct endpoint_source *source, struct endpoint *ret, struct err *err);
void endpoint_release(struct endpoint *e);

/* The folder that `source` means, existing or not; the caller frees. */
int endpoint_data_folder(const struct endpoint_source *source, char **ret, struct err *err);
/* URL and process id a server has left in DIR/server.json; either ret may be NULL. */
int endpoint_read_server_json(const char *folder, char **ret_url, int64_t *ret_pid,
                              struct err *err);
