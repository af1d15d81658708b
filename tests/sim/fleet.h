/*
 * fleet.h: the state of the actors, as they themselves know it. What a process does and whether it
 * lives is true here, whatever the server has been told.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/crypto.h"

enum {
    SIM_ACTORS_MAX = 256,
    SIM_ROLES_MAX = 4,
    SIM_KINDS = 3,
    SIM_MACHINES_MAX = 4,
    SIM_ORDERS_MAX = 64,
    SIM_FACTS_MAX = 256,
    SIM_CALLS_MAX = 256,
    SIM_MESSAGES_MAX = 8
};

enum worker_state { WORKER_IDLE, WORKER_CLAIMED, WORKER_WORKING, WORKER_SUSPENDED };

/* An agent at work: an unmanaged one, or a process that a machine has started. */
struct worker {
    bool is_alive, is_hung;
    unsigned life;
    int64_t conversation; /* 0: it has found none */
    int role;
    char connection[24];
    bool has_joined;
    enum worker_state state;
    int64_t task, epoch;
    int64_t poll; /* the ask it waits for */
    int64_t last_keyed;
    bool is_offered;                    /* it was told of work */
    unsigned taken_calls;               /* results it has, by number */
    int calls;                          /* it made in this suspension */
    int64_t back_at_ms;                 /* hung, or away, until then */
    int64_t messages[SIM_MESSAGES_MAX]; /* it has received; kept in its next life */
    int message_count;
    /* a process */
    int machine;
    char spawn[33];
    uint8_t token[SHA256_BYTES];
    bool is_stopping;
    int64_t born_ms, ends_at_ms; /* after the grace */
};

enum order_type { ORDER_START, ORDER_STOP, ORDER_RESTART };

struct order {
    enum order_type type;
    int64_t conversation;
    int role;
    char spawn[33];
    uint8_t token[SHA256_BYTES];
    int64_t until_ms; /* by the machine's own clock */
};

enum fact_type { FACT_SPAWNED, FACT_START_FAILED, FACT_EXITED, FACT_STOPPED, FACT_READY };

struct fact {
    int64_t n;
    enum fact_type type;
    char spawn[33];
    int code;
};

/* A spawn that the machine has dealt with: told again, it does nothing again. */
struct known_spawn {
    char spawn[33];
    int process; /* -1: never began */
    unsigned life;
    bool is_over, was_asked;
    bool is_given_up;  /* by the server; told by its log */
    int64_t polled_ms; /* a poll has told the server that it lives; by the server's clock */
};

struct host {
    bool is_up, is_registered;
    bool is_gone;            /* its daemon never comes back; its processes may live */
    bool is_online;          /* the server says so */
    bool has_listed;         /* and has heard what it has */
    bool is_forced;          /* a person has asked to forget it */
    int64_t offline_ms;      /* since when the server says so; 0: it does not */
    int64_t fenced_until_ms; /* it was away for longer than work is held for it */
    unsigned instance, boot;
    int64_t cut_until_ms;      /* nobody hears it, and it hears nobody */
    int64_t call, gives_up_ms; /* the register or poll under way */
    int64_t lists;             /* told so far */
    struct order orders[SIM_ORDERS_MAX];
    int order_count;
    struct fact facts[SIM_FACTS_MAX];
    int fact_count;
    int64_t last_fact;
    struct known_spawn *known;
    size_t known_count, known_room;
};

/* A call that a suspended task waits for. */
struct tool_wait {
    int64_t task, epoch;
    int number;
};

struct client {
    int64_t last_keyed;
    bool is_subscribed;
    int64_t subscription, last_event; /* it has been told */
};

struct fleet {
    struct worker workers[2 * SIM_ACTORS_MAX]; /* agents, then processes */
    struct host hosts[SIM_MACHINES_MAX];
    struct tool_wait calls[SIM_CALLS_MAX];
    int call_count;
    struct client clients[SIM_ACTORS_MAX];
    int64_t last_keyed_of_person;
    int64_t conversations[SIM_ACTORS_MAX]; /* that were made */
    int conversation_count;
    int64_t tasks[4096]; /* that were made, the newest last */
    int task_count;
    int64_t last_message; /* the greatest number that somebody was told */
};
