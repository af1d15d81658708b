/*
 * server.c: see server.h. Start, hand-over between the threads, shutdown.
 *
 * What both threads touch is `struct exchange` and nothing else; it is guarded by one mutex that
 * is held for a few pointer moves. (Peers are shared too, by atomics: peer.h. Tokens: auth.h.)
 */
#include "server/server.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fail_point.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "net/tls.h"
#include "server/auth.h"
#include "server/core.h"
#include "server/door.h"
#include "server/folder.h"
#include "server/metrics.h"

/* A tick holds all it reads and writes in memory until its commit. */
enum { INPUTS_PER_TICK_MAX = 1024, INPUT_BYTES_PER_TICK_MAX = 16 << 20 };
enum { CLOSE_WAIT_US = 3000000, SPARE_FDS = 64 };

struct inputs {
    struct core_input *first, *last;
};

struct exchange {
    pthread_mutex_t mutex;
    pthread_cond_t has_input;
    struct inputs inputs;
    bool stop; /* net → core: finish what is here, then end */
    struct outbox out;
    bool core_has_ended; /* core → net */
    bool tokens_changed; /* core → net */
    struct core_stats core_stats;
    struct store_stats store_stats;
    bool is_writable;
};

struct server {
    const struct server_config *config;
    struct clock clock;
    struct core *core;
    struct auth *auth;
    struct tls *tls;
    struct loop *loop;
    struct net *net;
    struct door door;
    char listen_host[64];
    struct exchange x;
    pthread_t core_thread;
    bool core_runs;
    struct inputs turn; /* of this turn of the loop, not yet handed over */
    struct loop_timer close_timer;
    int signals;
};

static void inputs_add(struct inputs *list, struct core_input *in)
{
    in->next = NULL;
    if (list->last)
        list->last->next = in;
    else
        list->first = in;
    list->last = in;
}

/* ---- core thread ---- */

static struct core_input *take_some(struct inputs *list)
{
    struct core_input *first = list->first, *last = first;
    if (!first)
        return NULL;
    size_t bytes = first->bytes;
    for (int i = 1; last->next && i < INPUTS_PER_TICK_MAX; i++) {
        bytes += last->next->bytes;
        if (bytes > INPUT_BYTES_PER_TICK_MAX)
            break;
        last = last->next;
    }
    list->first = last->next;
    if (!list->first)
        list->last = NULL;
    last->next = NULL;
    return first;
}

static void hand_over_output(struct server *s, struct outbox *out)
{
    struct exchange *x = &s->x;
    pthread_mutex_lock(&x->mutex);
    bool must_wake = (out->first && !x->out.first) || x->tokens_changed;
    outbox_append(&x->out, out);
    x->core_stats = *core_stats(s->core);
    x->store_stats = *core_store_stats(s->core);
    x->is_writable = core_is_writable(s->core);
    pthread_mutex_unlock(&x->mutex);
    if (must_wake)
        loop_wake(s->loop);
}

static struct timespec monotonic_in(int64_t us)
{
    int64_t at_us = clock_mono_us() + us;
    return (struct timespec){.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000};
}

/* Waits for input, at most wait_us (-1: for ever). False when it is time to end. */
static bool next_inputs(struct exchange *x, int64_t wait_us, struct core_input **ret)
{
    struct timespec until = monotonic_in(MAX(wait_us, INT64_C(0)));
    int r = wait_us == 0 ? ETIMEDOUT : 0;
    pthread_mutex_lock(&x->mutex);
    while (!x->inputs.first && !x->stop && r != ETIMEDOUT)
        r = wait_us < 0 ? pthread_cond_wait(&x->has_input, &x->mutex)
                        : pthread_cond_timedwait(&x->has_input, &x->mutex, &until);
    *ret = take_some(&x->inputs);
    bool go_on = *ret || !x->stop;
    pthread_mutex_unlock(&x->mutex);
    return go_on;
}

static void *core_main(void *arg)
{
    struct server *s = arg;
    struct core_input *inputs;
    bool more = false;
    pthread_setname_np(pthread_self(), "reeve-core");
    while (next_inputs(&s->x, more ? 0 : core_wait_us(s->core), &inputs)) {
        struct outbox out = {0};
        core_beat(s->core);
        if (inputs || core_wants_tick(s->core)) {
            core_tick(s->core, inputs, &out);
            hand_over_output(s, &out);
        }
        more = core_idle(s->core, &out);
        hand_over_output(s, &out);
    }
    struct outbox last = {0};
    core_stop(s->core, &last);
    hand_over_output(s, &last);
    pthread_mutex_lock(&s->x.mutex);
    s->x.core_has_ended = true;
    pthread_mutex_unlock(&s->x.mutex);
    loop_wake(s->loop);
    return NULL;
}

/* ---- net thread ---- */

static void submit(void *ctx, struct core_input *in)
{
    struct server *s = ctx;
    if (s->core_runs)
        inputs_add(&s->turn, in);
    else
        core_input_free(in);
}

static void hand_over_input(void *ctx)
{
    struct server *s = ctx;
    if (!s->turn.first)
        return;
    struct exchange *x = &s->x;
    pthread_mutex_lock(&x->mutex);
    if (x->inputs.last)
        x->inputs.last->next = s->turn.first;
    else
        x->inputs.first = s->turn.first;
    x->inputs.last = s->turn.last;
    pthread_cond_signal(&x->has_input);
    pthread_mutex_unlock(&x->mutex);
    s->turn = (struct inputs){0};
}

static void write_metrics(void *ctx, struct buf *out)
{
    struct server *s = ctx;
    pthread_mutex_lock(&s->x.mutex);
    struct core_stats core = s->x.core_stats;
    struct store_stats store = s->x.store_stats;
    bool is_writable = s->x.is_writable;
    pthread_mutex_unlock(&s->x.mutex);
    metrics_write(out, net_stats(s->net), &core, &store, is_writable, s->config->version);
}

static bool is_writable(void *ctx)
{
    struct server *s = ctx;
    pthread_mutex_lock(&s->x.mutex);
    bool writable = s->x.is_writable;
    pthread_mutex_unlock(&s->x.mutex);
    return writable;
}

static void give_up_waiting(struct loop_timer *t)
{
    struct server *s = CONTAINER_OF(t, struct server, close_timer);
    log_warn("server", "closing", "connections=%zu reason=%s", net_connection_count(s->net),
             "slow_to_close");
    loop_stop(s->loop);
}

/* The core has answered all it ever will: now the streams. */
static void close_streams(struct server *s)
{
    s->core_runs = false;
    net_shut_down(s->net);
    loop_timer_set(s->loop, &s->close_timer, loop_now_us(s->loop) + CLOSE_WAIT_US, give_up_waiting);
}

static void core_has_output(void *ctx)
{
    struct server *s = ctx;
    pthread_mutex_lock(&s->x.mutex);
    struct outbox out = s->x.out;
    s->x.out = (struct outbox){0};
    bool core_has_ended = s->x.core_has_ended, recheck = s->x.tokens_changed;
    s->x.tokens_changed = false;
    pthread_mutex_unlock(&s->x.mutex);
    net_deliver(s->net, &out);
    if (recheck)
        net_each(s->net, door_recheck, &s->door);
    if (core_has_ended && s->core_runs)
        close_streams(s);
}

static void begin_stop(struct server *s)
{
    s->door.is_stopping = true;
    net_stop_accepting(s->net);
    hand_over_input(s);
    pthread_mutex_lock(&s->x.mutex);
    s->x.stop = true;
    pthread_cond_signal(&s->x.has_input);
    pthread_mutex_unlock(&s->x.mutex);
}

static void on_signal(void *ctx, int signo)
{
    struct server *s = ctx;
    if (s->signals++ > 0)
        _exit(128 + signo);
    log_info("server", "stopping", "signal=%d", signo);
    begin_stop(s);
}

static void run_loop(struct server *s)
{
    while (s->core_runs || net_connection_count(s->net) > 0) {
        loop_turn(s->loop, -1);
        if (loop_is_stopping(s->loop))
            break;
    }
}

/* ---- start ---- */

static int check_config(const struct server_config *config, struct err *err)
{
    if ((config->tls_cert != NULL) != (config->tls_key != NULL))
        return err_set(err, ERR_USAGE, "--tls-cert and --tls-key belong together");
    int r = net_check_address(config->listen, err);
    if (r < 0)
        return r;
    if (!net_address_is_loopback(config->listen) && !config->tls_cert && !config->is_insecure)
        return err_set(err, ERR_USAGE,
                       "--listen %.64s is beyond loopback: give --tls-cert and --tls-key, "
                       "or --insecure",
                       config->listen);
    return 0;
}

static void raise_fd_limit(const struct options *options)
{
    struct rlimit limit;
    rlim_t want = (rlim_t)option_get(options, net, connections_max) + SPARE_FDS;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = MIN(limit.rlim_max, MAX(limit.rlim_cur, want));
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < want)
        log_warn("server", "few_descriptors", "limit=%llu wanted=%llu",
                 (unsigned long long)limit.rlim_cur, (unsigned long long)want);
}

static int greatest_stored_time(struct store *store, int64_t *ret, struct err *err)
{
    struct query *q = store_query(store, SQL_SERVER_GREATEST_TIME);
    int r = query_one(q, err);
    if (r < 0)
        return r;
    *ret = query_get_int(q, 0);
    query_end(q);
    return 0;
}

static void tokens_changed(void *ctx, struct store *store)
{
    struct server *s = ctx;
    auth_reload(s->auth, store);
    pthread_mutex_lock(&s->x.mutex);
    s->x.tokens_changed = true; /* hand_over_output() rings */
    pthread_mutex_unlock(&s->x.mutex);
}

static int open_auth(struct server *s, struct err *err)
{
    _cleanup_buf_ struct buf token = BUF_INIT(512);
    int r = folder_operator_token(s->config->data_folder, &token, err);
    if (r == 0)
        s->auth = auth_new(buf_str(&token));
    return r;
}

static int open_core(struct server *s, struct err *err)
{
    const struct server_config *config = s->config;
    _cleanup_free_ char *url = config->store_url
                                   ? mem_strdup(config->store_url)
                                   : mem_printf("sqlite:%s/reeve.db", config->data_folder);
    struct store *store;
    int64_t greatest_ms = 0;
    int r = store_open(url, NULL, clock_kernel.wall_ms(NULL), &store, err);
    if (r < 0)
        return r;
    /* From here on the folder is ours alone: of two servers that start in a new one, the one that
     * goes on has made the token. */
    r = greatest_stored_time(store, &greatest_ms, err);
    if (r == 0)
        r = open_auth(s, err);
    if (r < 0) {
        store_close(store);
        return r;
    }
    if (config->manual_clock)
        clock_init_manual(&s->clock, &clock_kernel, greatest_ms);
    else
        clock_init(&s->clock, &clock_kernel, greatest_ms);
    const struct core_config core = {.store = store,
                                     .bell_fault = getenv("REEVE_TEST_BELL"),
                                     .clock = &s->clock,
                                     .options = &config->options,
                                     .version = config->version,
                                     .store_url = config->store_url ? config->store_url : "sqlite",
                                     .tokens_changed = tokens_changed,
                                     .ctx = s};
    return core_new(&core, &s->core, err);
}

static int open_net(struct server *s, int *ret_port, struct err *err)
{
    const struct server_config *config = s->config;
    const struct net_handlers handlers = {.ctx = &s->door,
                                          .request = door_request,
                                          .message = door_message,
                                          .closed = door_closed,
                                          .drained = door_drained,
                                          .turn_end = door_turn_end,
                                          .write_error = door_write_error};
    snprintf(s->listen_host, sizeof s->listen_host, "%.*s",
             (int)(strrchr(config->listen, ':') - config->listen), config->listen);
    s->door = (struct door){.options = &config->options,
                            .auth = s->auth,
                            .version = config->version,
                            .listen_host = s->listen_host,
                            .allowed_hosts = config->allowed_hosts,
                            .allowed_host_count = config->allowed_host_count,
                            .ctx = s,
                            .submit = submit,
                            .turn_end = hand_over_input,
                            .write_metrics = write_metrics,
                            .is_writable = is_writable};
    if (config->tls_cert) {
        int r = tls_new(config->tls_cert, config->tls_key, &s->tls, err);
        if (r < 0)
            return r;
    }
    s->net = net_new(s->loop, &config->options, s->tls, &handlers);
    return net_listen(s->net, config->listen, ret_port, err);
}

static int watch_signals(struct server *s, struct err *err)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    return loop_signals(s->loop, &mask, on_signal, s, err);
}

/* Where clients on this machine find it. */
static int announce(struct server *s, int port, struct err *err)
{
    bool any = strcmp(s->listen_host, "0.0.0.0") == 0 || strcmp(s->listen_host, "[::]") == 0;
    _cleanup_free_ char *url = mem_printf("%s://%s:%d", s->tls ? "https" : "http",
                                          any ? "127.0.0.1" : s->listen_host, port);
    int r = folder_write_server(s->config->data_folder, url, err);
    if (r == 0)
        log_info("server", "ready", "url=%s data=%s version=%s pid=%d", url,
                 log_quote(str_of(s->config->data_folder)), s->config->version, (int)getpid());
    return r;
}

static int start(struct server *s, struct err *err)
{
    int port = 0;
    int r = check_config(s->config, err);
    if (r == 0)
        r = fail_point_set(getenv("REEVE_FAIL_POINT"), err);
    if (r == 0)
        r = file_make_data_folder(s->config->data_folder, err);
    if (r == 0)
        r = loop_new(&s->loop, err);
    if (r == 0)
        r = watch_signals(s, err);
    if (r == 0)
        r = open_core(s, err);
    if (r < 0)
        return r;
    folder_remove_server(s->config->data_folder); /* of a server that was killed */
    raise_fd_limit(&s->config->options);
    s->x.is_writable = true;
    r = open_net(s, &port, err);
    if (r < 0)
        return r;
    loop_on_wake(s->loop, core_has_output, s);
    REQUIRE(pthread_create(&s->core_thread, NULL, core_main, s) == 0);
    s->core_runs = true;
    return announce(s, port, err);
}

/* What came when the core had ended: connections that closed. */
static void release_inputs(struct inputs *list)
{
    struct core_input *in;
    while ((in = take_some(list)))
        for (struct core_input *next; in; in = next) {
            next = in->next;
            core_input_free(in);
        }
}

static void stop_core(struct server *s)
{
    if (!s->core_runs)
        return;
    begin_stop(s);
    run_loop(s);
}

/* Waits are measured on the clock that nobody sets. */
static void init_has_input(struct exchange *x)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&x->has_input, &attr);
    pthread_condattr_destroy(&attr);
}

int server_run(const struct server_config *config, struct err *err)
{
    struct server s = {.config = config};
    pthread_mutex_init(&s.x.mutex, NULL);
    init_has_input(&s.x);
    int r = start(&s, err);
    bool had_core_thread = s.core_runs;
    if (r == 0)
        run_loop(&s);
    else
        stop_core(&s);
    if (had_core_thread) {
        pthread_join(s.core_thread, NULL);
        folder_remove_server(config->data_folder);
    }
    s.net = net_free(s.net);
    s.core = core_free(s.core);
    release_inputs(&s.x.inputs);
    outbox_release(&s.x.out);
    s.auth = auth_free(s.auth);
    s.tls = tls_free(s.tls);
    s.loop = loop_free(s.loop);
    if (had_core_thread)
        log_info("server", "stopped", "status=%d", r);
    return r;
}
