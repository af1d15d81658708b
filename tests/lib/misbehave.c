/*
 * misbehave.c: an agent that does one thing wrong. `misbehave KIND [NUMBER [TEXT]]`
 *
 * Each kind is a row of the table at the end. Whoever waits, waits for ever: only a signal ends it.
 * The whole command line is inherited by every process of a kind, so that a test finds survivors by
 * a word in it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"

enum { BOMB_UID = 61234 };

static long number;
static const char *word;

_noreturn_ static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void say(const char *text)
{
    ssize_t n = write(STDOUT_FILENO, text, strlen(text));
    (void)n;
}

static void notify(const char *text)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (!name || name[0] != '@' || strlen(name) >= sizeof to.sun_path)
        exit(90);
    memcpy(to.sun_path + 1, name + 1, strlen(name + 1));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))) < 0)
        exit(91);
    close(fd);
}

/* ---- ends and waits ---- */

_noreturn_ static void ends(void)
{
    exit((int)number);
}

_noreturn_ static void waits(void)
{
    say("waiting\n");
    notify("READY=1");
    wait_for_ever();
}

_noreturn_ static void never_ready(void)
{
    wait_for_ever();
}

_noreturn_ static void deaf(void)
{
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_IGN);
    waits();
}

_noreturn_ static void says_goodbye(int signo)
{
    (void)signo;
    say("goodbye\n");
    _exit((int)number);
}

_noreturn_ static void polite(void)
{
    signal(SIGTERM, says_goodbye);
    waits();
}

_noreturn_ static void stopped(void)
{
    signal(SIGTERM, says_goodbye);
    notify("READY=1");
    raise(SIGSTOP);
    wait_for_ever();
}

_noreturn_ static void spins(void)
{
    signal(SIGTERM, SIG_IGN);
    notify("READY=1");
    for (volatile unsigned long i = 0;; i++)
        ;
}

static void crashes(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    raise((int)number);
}

static void *outlives(void *ctx)
{
    (void)ctx;
    notify("READY=1");
    wait_for_ever();
}

/* Looks like a zombie, and is none. */
_noreturn_ static void first_thread_ends(void)
{
    pthread_t thread;
    signal(SIGTERM, SIG_IGN);
    pthread_create(&thread, NULL, outlives, NULL);
    pthread_exit(NULL);
}

/* ---- output ---- */

_noreturn_ static void closes_output(void)
{
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    waits();
}

/* `number` megabytes without a line feed. */
static void long_line(void)
{
    static char bytes[1 << 20];
    memset(bytes, 'x', sizeof bytes);
    for (long i = 0; i < number; i++)
        if (write(STDOUT_FILENO, bytes, sizeof bytes) != (ssize_t)sizeof bytes)
            exit(92);
}

static void many_lines(void)
{
    for (long i = 0; i < number; i++)
        printf("line %ld\n", i);
}

static void last_words(void)
{
    say(word);
}

/* ---- what it was given ---- */

/* Status 0 if it has no terminal, nothing to read, no descriptor but three, and clean signals. */
static void surroundings(void)
{
    char c;
    struct sigaction action;
    sigset_t blocked;
    if (open("/dev/tty", O_RDWR) >= 0)
        exit(10);
    if (read(STDIN_FILENO, &c, 1) != 0)
        exit(11);
    if (getsid(0) != getpid() || getpgrp() != getpid())
        exit(12);
    for (int fd = 3; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            exit(13);
    for (int i = 1; i < SIGRTMIN; i++)
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            exit(14);
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int i = 1; i < SIGRTMIN; i++)
        if (sigismember(&blocked, i))
            exit(15);
}

_noreturn_ static void says_of_itself(void)
{
    notify(word);
    wait_for_ever();
}

_noreturn_ static void beats(void)
{
    for (long i = 0; i < number; i++)
        notify("WATCHDOG=1");
    notify("READY=1\nSTATUS=done");
    wait_for_ever();
}

static void says_much_and_ends(void)
{
    for (long i = 0; i < number; i++)
        notify("STATUS=more");
    notify("STATUS=last");
}

/* On SIGUSR1, by a child that is gone when this one stops. */
_noreturn_ static void short_lived_sender(void)
{
    sigset_t go;
    int signo;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    notify("READY=1");
    sigwait(&go, &signo);
    if (fork() == 0) {
        notify("STATUS=gone");
        _exit(0);
    }
    wait(NULL);
    raise(SIGSTOP);
    wait_for_ever();
}

/* ---- trees ---- */

/* As fast as it can, under a limit of `number` processes for a user of its own: each that is killed
 * makes room for another. */
_noreturn_ static void bomb(void)
{
    struct rlimit limit = {(rlim_t)number, (rlim_t)number};
    signal(SIGTERM, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    notify("READY=1");
    if (setrlimit(RLIMIT_NPROC, &limit) < 0 || setresuid(BOMB_UID, BOMB_UID, BOMB_UID) < 0)
        exit(93);
    for (;;)
        if (fork() == 0)
            setsid();
}

static unsigned dice(unsigned sides)
{
    number = (number * 1103515245 + 12345) & 0x7fffffff;
    return (unsigned)(number >> 8) % sides;
}

/* Ways of getting away from one's parent. */
static void as_it_is(void)
{
}

static void own_session(void)
{
    setsid();
}

static void own_group(void)
{
    setpgid(0, 0);
}

static void nohup(void)
{
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
}

static void double_fork(void)
{
    if (fork() != 0)
        _exit(0);
}

static void daemonise(void)
{
    own_session();
    double_fork();
    nohup();
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
}

/* Takes in orphans itself, until it dies. */
static void reaper(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static void no_mark(void)
{
    char *none[] = {NULL};
    char *argv[] = {(char *)"misbehave", (char *)"never-ready", (char *)"0", (char *)word, NULL};
    if (fork() == 0)
        execve("/proc/self/exe", argv, none);
}

static void stops_itself(void)
{
    if (fork() == 0)
        raise(SIGSTOP);
}

static void (*const ways[])(void) = {
    as_it_is, own_session, own_group, nohup, double_fork, daemonise, reaper, no_mark, stops_itself,
};

static void grow(unsigned depth)
{
    for (unsigned i = dice(3); depth > 0 && i > 0; i--) {
        long seed = number + (long)i * 7919;
        if (fork() == 0) {
            number = seed;
            ways[dice(ARRAY_LEN(ways))]();
            grow(depth - 1);
            wait_for_ever();
        }
    }
}

/* The root ends by itself for some seeds, and waits for others. */
_noreturn_ static void tree(void)
{
    long seed = number;
    for (unsigned i = 0; i < 2; i++)
        if (fork() == 0) {
            number = seed * 31 + i;
            ways[dice(ARRAY_LEN(ways))]();
            grow(3);
            wait_for_ever();
        }
    grow(2);
    if (seed % 3 == 0)
        exit(0);
    notify("READY=1");
    wait_for_ever();
}

/* One in a session of its own; says its pid. */
_noreturn_ static void escapee(void)
{
    char text[32];
    pid_t pid = fork();
    if (pid == 0) {
        daemonise();
        notify("READY=1");
        wait_for_ever();
    }
    snprintf(text, sizeof text, "child %d\n", (int)pid);
    say(text);
    wait_for_ever();
}

static const struct {
    const char *name;
    void (*be)(void);
} kinds[] = {
    {"beats", beats},
    {"bomb", bomb},
    {"closes-output", closes_output},
    {"crashes", crashes},
    {"deaf", deaf},
    {"ends", ends},
    {"escapee", escapee},
    {"first-thread-ends", first_thread_ends},
    {"last-words", last_words},
    {"long-line", long_line},
    {"many-lines", many_lines},
    {"never-ready", never_ready},
    {"polite", polite},
    {"says", says_of_itself},
    {"says-much-and-ends", says_much_and_ends},
    {"short-lived-sender", short_lived_sender},
    {"spins", spins},
    {"stopped", stopped},
    {"surroundings", surroundings},
    {"tree", tree},
    {"waits", waits},
};

int main(int argc, char **argv)
{
    number = argc > 2 ? atol(argv[2]) : 0;
    word = argc > 3 ? argv[3] : "";
    for (size_t i = 0; argc > 1 && i < ARRAY_LEN(kinds); i++)
        if (strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].be();
            return 0;
        }
    fprintf(stderr, "misbehave: no such kind\n");
    return 99;
}
