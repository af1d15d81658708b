/*
 * file.h: small files, read whole and replaced whole.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* "cannot <what> <path>: <errno>" */
int file_error(struct err *err, const char *what, const char *path);

/* 0, or a negative errno; -EFBIG over the buffer's ceiling. */
int file_read(const char *path, struct buf *ret);
int file_read_fd(int fd, struct buf *ret); /* the rest of it */
/* Written beside its place, 0600, and renamed: nobody ever reads half of it. With `sync` it is on
 * disk when this returns; without, it survives us but not the machine. */
int file_replace(const char *path, struct str text, bool sync, struct err *err);
/* Makes a folder, with its parents, 0700; one that is there is fine. */
int file_make_folder(const char *path, struct err *err);
/* The same for the folder that --data names. ERR_CONFIG, with a remedy, if it cannot be made, is no
 * folder, or is not ours to write in. */
int file_make_data_folder(const char *path, struct err *err);
