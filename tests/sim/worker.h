/* worker.h: what others do to an agent at work. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct worker;

/* Whose number is an agent's or a process's. */
struct worker *worker_agent(struct sim *s, int who);
struct worker *worker_process(struct sim *s, int who);
/* A process begins; its number, or -1 if there is no room. */
int worker_spawn(struct sim *s);
/* It is gone, with what it knew. */
void worker_die(struct sim *s, struct worker *w);
