/*
 * main.c: reeve-sim.
 *
 *     reeve-sim [--seeds N] [--from SEED] [--jobs N]   makes N histories
 *     reeve-sim --replay FILE...                       replays scenarios
 *     reeve-sim --seed SEED [--print]                  one history, and its steps
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sim/run.h"

int main(int argc, char **argv)
{
    uint64_t from = 1, n = 10;
    log_set_level(LOG_ERROR + 1);
    if (argc > 1)
        from = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        n = strtoull(argv[2], NULL, 10);
    for (uint64_t seed = from; seed < from + n; seed++) {
        struct script script = {0};
        struct history o = run_seed(seed, &script, getenv("SIM_TRACE") != NULL);
        if (o.has_failed || n == 1)
            printf("seed %llu: %s %s; steps %lld ticks %llu events %lld, %lld s, hash %llx\n", (unsigned long long)seed,
                   o.promise, o.why, (long long)o.steps, (unsigned long long)o.ticks,
                   (long long)o.events, (long long)o.simulated_ms / 1000,
                   (unsigned long long)o.hash);
        if (argc > 3) {
            struct buf text = BUF_INIT(1 << 24);
            script_write(&script, &text);
            fwrite(text.data, 1, text.len, stdout);
            buf_release(&text);
        }
        script_release(&script);
    }
    return 0;
}
