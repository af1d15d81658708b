/*
 * help.h: what the program says about itself, all from the verb table.
 */
#pragma once

#include "base/buf.h"
#include "cli/cli.h"

enum { HELP_BYTES_MAX = 256 * 1024 };

void help_write_overview(struct buf *out);                      /* `reeve help` */
void help_write_verb(struct buf *out, const struct verb *verb); /* `reeve VERB --help` */
/* The verbs whose name begins with this word ("conversation"); how many there are. */
size_t help_write_group(struct buf *out, const char *word);
/* "no verb 'agent ls'; did you mean 'agent list'?" for words that begin no verb; the second may be
 * NULL. */
void help_write_unknown(struct buf *out, const char *word, const char *next);
/* docs/cli.md */
void cli_write_markdown(struct buf *out);
