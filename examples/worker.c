/*
 * worker.c: a small agent in C. It works for one role of one conversation until it is told to stop.
 *
 *     cc -o worker worker.c $(pkg-config --cflags --libs libreeve)
 *     REEVE_URL=http://127.0.0.1:7433 REEVE_TOKEN=… ./worker 12 builder
 *
 * A machine sets REEVE_URL, REEVE_TOKEN, REEVE_CONVERSATION and REEVE_ROLE: then it is `./worker`.
 * A task's content is a number. The work is to count to it, one step a second. Ctrl-C ends the
 * worker within a moment, and it leaves properly. It never suspends a task; if somebody else did,
 * it goes on once the results are there.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <poll.h>
#include <reeve.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int wake[2]; /* a signal writes, every wait looks */

static void on_signal(int signo)
{
    int error = errno;
    char byte = (char)signo;
    ssize_t n = write(wake[1], &byte, 1);
    (void)n;
    errno = error;
}

static int catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    if (pipe(wake) < 0)
        return -1;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGQUIT, &action, NULL);
    return 0;
}

static void say(void *ctx, const char *line)
{
    (void)ctx;
    fprintf(stderr, "worker: %s\n", line);
}

/* A second, unless a signal or news about the task come first: then 0. */
static int pause_for(const struct reeve *r, int ms)
{
    struct pollfd fds[] = {{.fd = wake[0], .events = POLLIN},
                           {.fd = reeve_news_fd(r), .events = POLLIN}};
    return poll(fds, 2, ms) == 0;
}

/* The work itself. Returns how many steps were made. */
static long count(struct reeve *r, long steps)
{
    long made = 0;
    while (made < steps && pause_for(r, 1000)) {
        char note[64];
        snprintf(note, sizeof note, "step %ld of %ld", ++made, steps);
        if (reeve_progress(r, note, NULL) != REEVE_OK)
            break;
    }
    return made;
}

static int work(struct reeve *r)
{
    long steps = strtol(reeve_task_content(r), NULL, 10), made;
    char deliverable[64];
    made = count(r, steps);
    if (reeve_news(r) != REEVE_OK)
        return reeve_news(r); /* taken away, or told to stop */
    if (made < steps)
        return REEVE_INTERRUPTED;
    snprintf(deliverable, sizeof deliverable, "{\"steps\":%ld}", made);
    return reeve_complete(r, deliverable);
}

/* A task to begin with, or one that was suspended and has its results. */
static int take(struct reeve *r, int announced)
{
    int result = announced == REEVE_TASK ? reeve_claim(r, 0) : reeve_resume(r);
    if (result != REEVE_OK)
        return result;
    return announced == REEVE_TASK ? reeve_start(r) : reeve_applied(r, 0);
}

static int serve(struct reeve *r)
{
    int result;
    while ((result = reeve_wait(r, -1)) == REEVE_TASK || result == REEVE_RESUME) {
        result = take(r, result);
        if (result == REEVE_NONE)
            continue; /* somebody was quicker */
        if (result == REEVE_OK)
            result = work(r);
        if (result == REEVE_OK)
            printf("task %lld done\n", (long long)reeve_task_number(r));
        else if (result != REEVE_STALE)
            break;
        fflush(stdout);
    }
    return result;
}

int main(int argc, char **argv)
{
    const char *conversation = argc == 3 ? argv[1] : getenv("REEVE_CONVERSATION");
    const char *role = argc == 3 ? argv[2] : getenv("REEVE_ROLE");
    struct reeve *r;
    int result;
    if ((argc != 1 && argc != 3) || !conversation || !role || catch_signals() < 0) {
        fprintf(stderr, "usage: worker [CONVERSATION ROLE]\n");
        return 2;
    }
    if (reeve_connect(NULL, NULL, &r) != REEVE_OK) {
        fprintf(stderr, "worker: no server is named: set REEVE_URL and REEVE_TOKEN\n");
        return 2;
    }
    reeve_set_stop_fd(r, wake[0]);
    reeve_set_log(r, say, NULL);
    result = reeve_join(r, strtol(conversation, NULL, 10), role);
    if (result == REEVE_OK)
        result = serve(r);
    fprintf(stderr, "worker: %s\n", result < 0 ? reeve_error_text(r) : reeve_result_text(result));
    reeve_close(r);
    return result < 0;
}
