/*
 * folder.h: the data folder.
 *
 *     operator.token   the operator's token, 0600, made once
 *     server.json      {"url":…,"pid":…}, written when the server is ready, removed when it ends
 *     reeve.db         the embedded store
 *
 * Files are written beside their place and renamed, so nobody ever reads half of one.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

int folder_operator_token(const char *path, struct buf *ret, struct err *err);
int folder_write_server(const char *path, const char *url, struct err *err);
void folder_remove_server(const char *path);
