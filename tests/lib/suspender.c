/*
 * suspender.c: a program that links libreeve and suspends every task it gets.
 *
 *     suspender CONVERSATION ROLE
 *
 * A task's content is the list of calls it waits for. When their results are there the task is
 * completed with them. One task; then it ends, with 0 if all went as it should.
 */
#include <reeve.h>
#include <stdio.h>
#include <stdlib.h>

static int suspend(struct reeve *r)
{
    int result = reeve_claim(r, 0);
    if (result == REEVE_OK)
        result = reeve_start(r);
    return result == REEVE_OK ? reeve_suspend(r, reeve_task_content(r)) : result;
}

static int go_on(struct reeve *r)
{
    int result = reeve_resume(r);
    if (result == REEVE_OK)
        result = reeve_applied(r, 0);
    return result == REEVE_OK ? reeve_complete(r, reeve_results(r)) : result;
}

int main(int argc, char **argv)
{
    struct reeve *r;
    int result, news = REEVE_OK;
    if (argc != 3 || reeve_connect(NULL, NULL, &r) != REEVE_OK)
        return 2;
    result = reeve_join(r, strtol(argv[1], NULL, 10), argv[2]);
    while (result == REEVE_OK && news != REEVE_RESUME) {
        news = reeve_wait(r, -1);
        printf("%s\n", reeve_result_text(news));
        fflush(stdout);
        result = news == REEVE_TASK ? suspend(r) : news == REEVE_RESUME ? go_on(r) : news;
    }
    if (result != REEVE_OK || reeve_news(r) != REEVE_OK)
        fprintf(stderr, "suspender: %s: %s\n", reeve_result_text(result), reeve_error_text(r));
    reeve_close(r);
    return result != REEVE_OK;
}
