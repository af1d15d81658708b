/*
 * input.h: text and files that a command sends.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

enum { INPUT_BYTES_MAX = 32 * 1024 * 1024 };

/* The word itself, or all of standard input for "-" (less one line feed at its end). UTF-8 only. */
int input_text(const char *word, struct buf *ret, struct err *err);
/* The bytes of a file. */
int input_file(const char *path, struct buf *ret, struct err *err);
/* A JSON value out of an option or a word; `what` names it in the error. The text must stay. */
int input_json(struct arena *a, struct str text, const char *what, const struct json **ret,
               struct err *err);
