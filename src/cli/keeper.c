/* keeper.c: see keeper.h. */
#include "cli/keeper.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/mem.h"

int keeper_start(struct keeper *k, char *const argv[], struct err *err)
{
    k->started_us = clock_mono_us();
    k->again_us = 0;
    return child_start(&k->child, argv, err);
}

bool keeper_runs(const struct keeper *k)
{
    return k->child.pidfd >= 0;
}

/* "was killed by signal 9 (Killed)", "ended with status 70". The caller frees. */
static char *how_it_ended(int status)
{
    if (status > 128)
        return mem_printf("was killed by signal %d (%s)", status - 128, strsignal(status - 128));
    return mem_printf("ended with status %d", status);
}

/* A start that fails while we are at it again counts, too: the port may not be free yet. */
static bool is_death(const struct keeper *k)
{
    bool is_killed = k->status > 128 || k->status == err_exit_status(ERR_INTERNAL);
    return is_killed || (k->deaths > 0 && k->status != 0);
}

static int64_t next_wait_ms(const struct keeper *k)
{
    return k->deaths == 1 ? 0 : (int64_t)KEEPER_WAIT_FIRST_MS << (k->deaths - 2);
}

bool keeper_take_end(struct keeper *k)
{
    int64_t now_us = clock_mono_us();
    k->status = child_reap(&k->child);
    if (now_us - k->started_us >= (int64_t)KEEPER_STABLE_MS * 1000)
        k->deaths = 0;
    _cleanup_free_ char *how = how_it_ended(k->status);
    if (!is_death(k)) {
        fprintf(stderr, "reeve up: the %s %s\n", k->name, how);
        return false;
    }
    if (++k->deaths >= KEEPER_DEATHS_MAX) {
        fprintf(stderr, "reeve up: the %s %s, for the %dth time in a row; giving up\n", k->name,
                how, k->deaths);
        return false;
    }
    int64_t wait_ms = next_wait_ms(k);
    k->again_us = now_us + wait_ms * 1000;
    if (wait_ms)
        fprintf(stderr, "reeve up: the %s %s; starting it again in %lld ms\n", k->name, how,
                (long long)wait_ms);
    else
        fprintf(stderr, "reeve up: the %s %s; starting it again\n", k->name, how);
    return true;
}

bool keeper_is_due(const struct keeper *k)
{
    return k->again_us && clock_mono_us() >= k->again_us;
}

int keeper_wait_ms(const struct keeper *k, int ms)
{
    if (!k->again_us)
        return ms;
    int64_t left_ms = MAX((k->again_us - clock_mono_us() + 999) / 1000, INT64_C(0));
    return ms < 0 || left_ms < ms ? (int)left_ms : ms;
}
