/*
 * beacon.c: what the supervisors of make bench supervise (supervise.py).
 *
 * Its first act is to look at the clock, its second to write "<pid> <monotonic ns>\n" to the FIFO
 * that BENCH_BEACON names; then it does nothing. It ends by itself once nobody reads that FIFO any
 * more: a bench that was killed leaves none of these behind.
 *
 * It takes no arguments, so that `run` of runit and s6 can be the program itself, without a shell
 * in between.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const char *path = getenv("BENCH_BEACON");
    int fd = path ? open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return EXIT_FAILURE;
    char line[64]; /* far below PIPE_BUF: lines of many never mix */
    int n = snprintf(line, sizeof line, "%d %lld%09ld\n", (int)getpid(), (long long)now.tv_sec,
                     now.tv_nsec);
    if (write(fd, line, (size_t)n) != n)
        return EXIT_FAILURE;
    struct pollfd reader = {.fd = fd, .events = 0}; /* POLLERR: the last one has gone */
    while (poll(&reader, 1, -1) <= 0)
        continue;
    return EXIT_SUCCESS;
}
