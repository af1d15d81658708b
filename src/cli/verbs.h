/*
 * verbs.h: the list of verbs.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/cli.h"

/* In the order of `reeve help`; ended by NULL. */
extern const struct verb *const cli_verbs[];

/*
 * The verb that argv begins with, and how many words its name has; NULL if there is none. Two words
 * are tried before one.
 */
const struct verb *verb_find(int argc, char **argv, int *ret_words);
/* The verb whose name is nearest to a misspelt one, or NULL if none is near. With a group
 * ("agent"): among those of the group, by what follows it. */
const struct verb *verb_nearest(struct str group, struct str name);
/* The group whose name is nearest to a misspelt one; nothing if none is near. */
struct str verb_nearest_group(struct str word);

/* The rows, one per cmd_*.c; serve's row stands in verbs.c, because its file is the server's door.
 */
extern const struct verb verb_agent_list;
extern const struct verb verb_agent_restart;
extern const struct verb verb_agent_set;
extern const struct verb verb_agent_start;
extern const struct verb verb_agent_stop;
extern const struct verb verb_backtest;
extern const struct verb verb_card_show;
extern const struct verb verb_config_check;
extern const struct verb verb_conversation_create;
extern const struct verb verb_conversation_end;
extern const struct verb verb_conversation_list;
extern const struct verb verb_conversation_resume;
extern const struct verb verb_conversation_show;
extern const struct verb verb_down;
extern const struct verb verb_events;
extern const struct verb verb_help;
extern const struct verb verb_inbox_list;
extern const struct verb verb_inbox_show;
extern const struct verb verb_logs;
extern const struct verb verb_machine;
extern const struct verb verb_machine_forget;
extern const struct verb verb_machine_list;
extern const struct verb verb_ps;
extern const struct verb verb_rpc;
extern const struct verb verb_send;
extern const struct verb verb_shim;
extern const struct verb verb_status;
extern const struct verb verb_task_applied;
extern const struct verb verb_task_cancel;
extern const struct verb verb_task_claim;
extern const struct verb verb_task_complete;
extern const struct verb verb_task_create;
extern const struct verb verb_task_fail;
extern const struct verb verb_task_list;
extern const struct verb verb_task_progress;
extern const struct verb verb_task_report;
extern const struct verb verb_task_resume;
extern const struct verb verb_task_show;
extern const struct verb verb_task_start;
extern const struct verb verb_task_suspend;
extern const struct verb verb_up;
extern const struct verb verb_version;
extern const struct verb verb_wait_for_task;
extern const struct verb verb_watchdog_rules;
extern const struct verb verb_watchdog_run_once;
extern const struct verb verb_why;

int cmd_serve(const struct cli_args *args, struct err *err);
