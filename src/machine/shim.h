/*
 * shim.h: the parent of one agent process, and how its machine and it talk.
 *
 * A shim is a small process of its own between the machine and an agent. It is the agent's parent
 * and subreaper: whatever the agent starts, and however that daemonises, ends up as a child of the
 * shim, so the shim alone can say that the tree is empty. It holds the agent's output, takes its
 * notifications, and leaves the exit status on disk before it ends. The machine may therefore end,
 * be upgraded and come back without an agent noticing and without an exit being lost.
 *
 *     machine                                shim                              agent
 *     ───────                                ────                              ─────
 *     makes DIR/spawns/<spawnId>/
 *     starts the shim: stdin = order   ──▶   setsid, subreaper, listens
 *                      fd 3 = a line         fork, own session and cgroup ──▶  exec
 *              {"fact":"spawned"}      ◀──   writes `seen`
 *              {"fact":"notify"}       ◀──                                ◀──  READY=1
 *     {"do":"stop","graceMs":5000}     ──▶   notes the wish, SIGTERM      ──▶
 *                                            grace, SIGKILL to the tree, until it has no child
 *              {"fact":"stopped"}      ◀──   writes `ended`, and exits
 *
 * The folder of a spawn (0700), whose name is the spawn id:
 *
 *     seen     who they are: shim and agent by pid and start time, and the boot (record.h). There
 *              once the agent's program has been executed
 *     ended    the last word (record.h): after it no process of the tree exists. Removed, with the
 *              folder, by the machine once the server has accepted the fact
 *     line     a listening SOCK_SEQPACKET socket: each machine that comes later connects here.
 *              Bound and connected to through /proc/self/fd, so that a long path does not matter
 *
 * The line: SOCK_SEQPACKET, one JSON object a packet, at most LINE_BYTES_MAX. Whoever connects is
 * first told what was told before: `spawned`, and `notify` if it is ready. Every fact goes to every
 * line that is open. A line that does not take it is closed: nobody waits for a machine.
 *
 *     {"fact":"spawned","pid":…,"startTime":…}
 *     {"fact":"notify","ready":true} · {"fact":"notify","beat":true} · {"fact":"notify","text":"…"}
 *     {"fact":"start_failed"|"exited"|"stopped", … as in `ended`}
 *
 * `stopped` instead of `exited` if a stop was asked for before the agent ended; the wish is noted
 * before the first signal is sent (L54). When the agent itself ends, what is left of its tree is
 * killed at once: an agent runs in the foreground.
 *
 * Killed itself (kill -9), a shim takes its agent with it (PR_SET_PDEATHSIG), and leaves no
 * `ended`. The rest of the tree is then the machine's to end: by its cgroup, as its adopted
 * children, and by the mark that every process of the tree has in its environment (tree.h).
 *
 * The shim is linked without the libraries of the server and the client: `reeve-shim` beside
 * `reeve`, static, so that a thousand of them are cheap and a start costs no dynamic linking.
 * `reeve shim` is the same code, for where there is only `reeve`.
 */
#pragma once

#include "base/err.h"

enum { SHIM_LINE_FD = 3, LINE_BYTES_MAX = 16384 };

/* Name of the variable that marks every process of a tree, with the spawn id as its value. */
#define SHIM_MARK "REEVE_SPAWN"

/* Runs one: reads the order from standard input, returns when the tree is empty and the last word
 * is written. The exit status of the shim. */
int shim_run(struct err *err);
