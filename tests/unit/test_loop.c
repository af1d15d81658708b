/*
 * test_loop.c: the event loop, above all what callbacks may do to each other within one turn.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/macro.h"
#include "base/mem.h"
#include "tap.h"

static struct loop *loop;

/* What happened, in order, a letter each. */
static char story[2048];

static void tell(char what)
{
    size_t n = strlen(story);
    CHECK(n + 1 < sizeof story);
    story[n] = what;
    story[n + 1] = '\0';
}

#define CHECK_STORY(want)     \
    do {                      \
        CHECK_Z(story, want); \
        story[0] = '\0';      \
    } while (0)

static void begin(void)
{
    struct err err = ERR_INIT;
    CHECK_INT(loop_new(&loop, &err), 0);
}

static void end(void)
{
    loop = loop_free(loop);
    CHECK(loop == NULL);
}

/* ---- watches ---- */

/* An eventfd that is readable from the start, and what its callback should do to another watch. */
struct source {
    struct loop_io io;
    int fd;
    char name;
    struct source *victim;
};

static struct source *source_new(char name, unsigned initial)
{
    struct source *s = mem_zalloc(sizeof *s);
    *s = (struct source){.io = LOOP_IO_INIT, .name = name};
    s->fd = eventfd(initial, EFD_NONBLOCK | EFD_CLOEXEC);
    CHECK(s->fd >= 0);
    return s;
}

static void source_free(struct source *s)
{
    loop_unwatch(loop, &s->io);
    close(s->fd);
    free(s);
}

static void on_ready(struct loop_io *io, uint32_t events)
{
    struct source *s = CONTAINER_OF(io, struct source, io);
    CHECK(events & (EPOLLIN | EPOLLOUT));
    tell(s->name);
}

static void on_ready_free_victim(struct loop_io *io, uint32_t events)
{
    on_ready(io, events);
    struct source *s = CONTAINER_OF(io, struct source, io);
    struct source *victim = s->victim;
    s->victim = s; /* next time it is itself */
    source_free(victim);
}

static void watch(struct source *s, uint32_t events, loop_io_fn *fn)
{
    CHECK_INT(loop_watch(loop, &s->io, s->fd, events, fn), 0);
}

TEST(a_ready_fd_is_told_each_turn)
{
    begin();
    struct source *a = source_new('a', 0);
    watch(a, EPOLLIN, on_ready);
    loop_turn(loop, 0);
    CHECK_STORY("");
    eventfd_write(a->fd, 1);
    loop_turn(loop, -1);
    loop_turn(loop, -1);
    CHECK_STORY("aa");
    eventfd_t ignored;
    eventfd_read(a->fd, &ignored);
    loop_turn(loop, 0);
    CHECK_STORY("");
    source_free(a);
    end();
}

TEST(rewatch_changes_what_is_waited_for)
{
    begin();
    struct source *a = source_new('a', 0);
    watch(a, EPOLLIN, on_ready);
    loop_rewatch(loop, &a->io, EPOLLOUT);
    loop_turn(loop, -1);
    CHECK_STORY("a");
    loop_rewatch(loop, &a->io, 0);
    loop_rewatch(loop, &a->io, 0);
    loop_turn(loop, 0);
    CHECK_STORY("");
    source_free(a);
    end();
}

TEST(unwatch_ends_it_and_may_be_repeated)
{
    begin();
    struct source *a = source_new('a', 1);
    watch(a, EPOLLIN, on_ready);
    loop_unwatch(loop, &a->io);
    loop_unwatch(loop, &a->io);
    CHECK_INT(a->io.fd, -1);
    loop_turn(loop, 0);
    CHECK_STORY("");
    watch(a, EPOLLIN, on_ready);
    loop_turn(loop, 0);
    CHECK_STORY("a");
    source_free(a);
    end();
}

TEST(what_cannot_be_watched_is_an_error)
{
    begin();
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct loop_io io = LOOP_IO_INIT;
    CHECK_INT(loop_watch(loop, &io, folder, EPOLLIN, on_ready), -ERR_IO);
    CHECK_INT(io.fd, -1);
    loop_unwatch(loop, &io);
    close(folder);
    end();
}

TEST(a_callback_may_free_another_whose_event_is_waiting)
{
    begin();
    struct source *a = source_new('x', 1), *b = source_new('x', 1);
    a->victim = b;
    b->victim = a;
    watch(a, EPOLLIN, on_ready_free_victim);
    watch(b, EPOLLIN, on_ready_free_victim);
    loop_turn(loop, -1);
    CHECK_STORY("x"); /* the other is gone, with its event */
    loop_turn(loop, -1);
    CHECK_STORY("x"); /* the survivor frees itself */
    loop_turn(loop, 0);
    CHECK_STORY("");
    end();
}

TEST(a_callback_may_free_itself)
{
    begin();
    struct source *a = source_new('a', 1);
    a->victim = a;
    watch(a, EPOLLIN, on_ready_free_victim);
    loop_turn(loop, -1);
    loop_turn(loop, 0);
    CHECK_STORY("a");
    end();
}

static void on_ready_replace_victim(struct loop_io *io, uint32_t events)
{
    on_ready(io, events);
    struct source *s = CONTAINER_OF(io, struct source, io);
    if (!s->victim)
        return;
    struct source *victim = TAKE_PTR(s->victim);
    victim->victim = NULL;
    loop_unwatch(loop, &victim->io);
    CHECK_INT(loop_watch(loop, &victim->io, victim->fd, EPOLLIN, on_ready), 0);
}

TEST(events_from_before_a_new_watch_are_dropped)
{
    begin();
    struct source *a = source_new('x', 1), *b = source_new('x', 1);
    a->victim = b;
    b->victim = a;
    watch(a, EPOLLIN, on_ready_replace_victim);
    watch(b, EPOLLIN, on_ready_replace_victim);
    loop_turn(loop, -1);
    CHECK_STORY("x");
    loop_turn(loop, -1);
    CHECK_STORY("xx");
    source_free(a);
    source_free(b);
    end();
}

static void on_ready_once(struct loop_io *io, uint32_t events)
{
    on_ready(io, events);
    loop_unwatch(loop, io);
}

TEST(more_fds_than_one_turn_takes)
{
    enum { MANY = 600 };
    begin();
    struct source *sources[MANY];
    for (int i = 0; i < MANY; i++) {
        sources[i] = source_new('.', 1);
        watch(sources[i], EPOLLIN, on_ready_once);
    }
    for (int i = 0; i < MANY && strlen(story) < MANY; i++)
        loop_turn(loop, 0);
    CHECK_INT(strlen(story), MANY);
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(sources[i]->io.fd, -1);
        source_free(sources[i]);
    }
    end();
}

/* ---- timers ---- */

struct alarm {
    struct loop_timer timer;
    char name;
    int64_t again_us; /* re-arms itself for this time, if not 0 */
    struct alarm *victim;
};

static void on_alarm(struct loop_timer *t)
{
    struct alarm *a = CONTAINER_OF(t, struct alarm, timer);
    CHECK_INT(t->heap_index, 0);
    tell(a->name);
    if (a->victim)
        loop_timer_stop(loop, &a->victim->timer);
    if (a->again_us)
        loop_timer_set(loop, t, a->again_us, on_alarm);
}

TEST(timers_fire_by_time_then_by_order)
{
    begin();
    struct alarm a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'}, d = {.name = 'd'};
    loop_timer_set(loop, &d.timer, INT64_MAX, on_alarm);
    loop_timer_set(loop, &c.timer, 30, on_alarm);
    loop_timer_set(loop, &a.timer, 10, on_alarm);
    loop_timer_set(loop, &b.timer, 10, on_alarm);
    loop_turn(loop, -1);
    CHECK_STORY("abc");
    loop_turn(loop, 0);
    CHECK_STORY("");
    loop_timer_stop(loop, &d.timer);
    loop_timer_stop(loop, &d.timer);
    end();
}

TEST(the_loop_waits_for_the_first_timer)
{
    begin();
    struct alarm a = {.name = 'a'}, far = {.name = 'f'};
    loop_timer_set(loop, &far.timer, clock_mono_us() + INT64_C(3600000000), on_alarm);
    int64_t due = clock_mono_us() + 3000;
    loop_timer_set(loop, &a.timer, due, on_alarm);
    loop_turn(loop, -1);
    CHECK_STORY("a");
    CHECK(loop_now_us(loop) >= due);
    end();
}

TEST(setting_a_timer_again_moves_it)
{
    begin();
    struct alarm a = {.name = 'a'}, b = {.name = 'b'};
    loop_timer_set(loop, &a.timer, 10, on_alarm);
    loop_timer_set(loop, &b.timer, 20, on_alarm);
    loop_timer_set(loop, &a.timer, 30, on_alarm);
    loop_turn(loop, -1);
    CHECK_STORY("ba");
    end();
}

TEST(a_timer_may_stop_another_that_is_due)
{
    begin();
    struct alarm b = {.name = 'b'}, a = {.name = 'a', .victim = &b};
    loop_timer_set(loop, &a.timer, 10, on_alarm);
    loop_timer_set(loop, &b.timer, 20, on_alarm);
    loop_turn(loop, -1);
    loop_turn(loop, 0);
    CHECK_STORY("a");
    end();
}

TEST(a_timer_that_arms_itself_fires_next_turn)
{
    begin();
    struct alarm a = {.name = 'a', .again_us = 1};
    loop_timer_set(loop, &a.timer, 1, on_alarm);
    loop_turn(loop, -1);
    CHECK_STORY("a");
    loop_turn(loop, -1);
    CHECK_STORY("a");
    loop_timer_stop(loop, &a.timer);
    end();
}

TEST(a_timer_that_arms_itself_for_the_past_starves_nobody)
{
    begin();
    struct alarm a = {.name = 'a', .again_us = 1}, b = {.name = 'b'};
    loop_timer_set(loop, &a.timer, 1, on_alarm);
    loop_timer_set(loop, &b.timer, 2, on_alarm);
    loop_turn(loop, -1);
    CHECK_STORY("ab");
    loop_timer_stop(loop, &a.timer);
    end();
}

static void on_alarm_free(struct loop_timer *t)
{
    tell('f');
    free(CONTAINER_OF(t, struct alarm, timer));
}

TEST(a_timer_may_free_its_owner)
{
    begin();
    for (int i = 0; i < 5; i++) {
        struct alarm *a = mem_zalloc(sizeof *a);
        loop_timer_set(loop, &a->timer, 1 + i % 2, on_alarm_free);
    }
    loop_turn(loop, -1);
    CHECK_STORY("fffff");
    end();
}

static int64_t last_due;
static int fired;

static void on_alarm_in_order(struct loop_timer *t)
{
    CHECK(t->due_us >= last_due);
    last_due = t->due_us;
    fired++;
}

TEST(many_timers_keep_their_order)
{
    enum { MANY = 2000 };
    static struct alarm alarms[MANY];
    begin();
    srandom(1);
    int armed = 0;
    for (int round = 0; round < 4 * MANY; round++) {
        struct alarm *a = &alarms[random() % MANY];
        armed -= a->timer.heap_index != 0;
        if (random() % 4 == 0)
            loop_timer_stop(loop, &a->timer);
        else
            loop_timer_set(loop, &a->timer, 1 + random() % 500, on_alarm_in_order);
        armed += a->timer.heap_index != 0;
    }
    loop_turn(loop, -1);
    CHECK(armed > MANY / 4);
    CHECK_INT(fired, armed);
    end();
}

/* ---- wake-ups, signals, turns ---- */

static void on_wake(void *ctx)
{
    (void)ctx;
    tell('w');
}

static void on_turn_end(void *ctx)
{
    (void)ctx;
    tell('.');
}

TEST(rings_coalesce)
{
    begin();
    loop_on_wake(loop, on_wake, NULL);
    for (int i = 0; i < 5; i++)
        loop_wake(loop);
    loop_turn(loop, -1);
    loop_turn(loop, 0);
    CHECK_STORY("w");
    end();
}

static void on_wake_ring_again(void *ctx)
{
    loop_wake(loop);
    on_wake(ctx);
}

TEST(a_ring_inside_the_callback_is_for_the_next_turn)
{
    begin();
    loop_on_wake(loop, on_wake_ring_again, NULL);
    loop_wake(loop);
    loop_turn(loop, -1);
    CHECK_STORY("w");
    loop_turn(loop, -1);
    CHECK_STORY("w");
    end();
}

TEST(a_ring_nobody_listens_to_does_no_harm)
{
    begin();
    loop_wake(loop);
    loop_turn(loop, -1);
    loop_on_wake(loop, on_wake, NULL);
    loop_turn(loop, 0);
    CHECK_STORY("");
    end();
}

TEST(a_turn_has_an_order)
{
    begin();
    struct source *a = source_new('a', 1);
    struct alarm t = {.name = 't'};
    loop_on_wake(loop, on_wake, NULL);
    loop_on_turn_end(loop, on_turn_end, NULL);
    loop_wake(loop);
    loop_timer_set(loop, &t.timer, 1, on_alarm);
    watch(a, EPOLLIN, on_ready);
    loop_turn(loop, -1);
    CHECK_STORY("atw.");
    source_free(a);
    end();
}

enum { RINGS = 1000 };

static atomic_int rung;

static void *ring_often(void *arg)
{
    struct loop *l = arg;
    for (int i = 0; i < RINGS; i++) {
        rung++;
        loop_wake(l);
    }
    return NULL;
}

static void stop_when_all_rang(void *ctx)
{
    (void)ctx;
    if (rung == RINGS)
        loop_stop(loop);
}

TEST(no_ring_of_another_thread_is_lost)
{
    begin();
    loop_on_wake(loop, stop_when_all_rang, NULL);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, ring_often, loop), 0);
    loop_run(loop); /* would wait for ever if the last ring were lost */
    pthread_join(thread, NULL);
    end();
}

static void on_signal(void *ctx, int signo)
{
    CHECK(ctx == story);
    tell(signo == SIGUSR1 ? '1' : signo == SIGTERM ? 'T' : '?');
}

TEST(signals_come_through_the_loop)
{
    begin();
    struct err err = ERR_INIT;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, SIGTERM);
    CHECK_INT(loop_signals(loop, &mask, on_signal, story, &err), 0);
    raise(SIGUSR1);
    loop_turn(loop, -1);
    CHECK_STORY("1");
    raise(SIGTERM);
    raise(SIGUSR1);
    loop_turn(loop, -1);
    CHECK_INT(strlen(story), 2);
    CHECK(strchr(story, 'T') && strchr(story, '1'));
    story[0] = '\0';
    loop_turn(loop, 0);
    CHECK_STORY("");
    end();
}

static void on_alarm_stop(struct loop_timer *t)
{
    (void)t;
    tell('s');
    loop_stop(loop);
}

TEST(run_ends_with_the_turn_that_stops_it)
{
    begin();
    struct alarm s = {0}, after = {.name = 'a'};
    loop_on_turn_end(loop, on_turn_end, NULL);
    loop_timer_set(loop, &s.timer, 1, on_alarm_stop);
    loop_timer_set(loop, &after.timer, 2, on_alarm);
    loop_run(loop);
    CHECK_STORY("sa.");
    end();
}

static int64_t seen_now;

static void on_alarm_burn(struct loop_timer *t)
{
    (void)t;
    seen_now = loop_now_us(loop);
    for (int64_t start = clock_mono_us(); clock_mono_us() < start + 10;)
        ;
    CHECK_INT(loop_now_us(loop), seen_now);
}

TEST(now_is_frozen_for_a_turn)
{
    begin();
    int64_t first = loop_now_us(loop);
    struct alarm a = {0};
    loop_timer_set(loop, &a.timer, 1, on_alarm_burn);
    loop_turn(loop, -1);
    CHECK(seen_now >= first);
    CHECK_INT(loop_now_us(loop), seen_now);
    loop_turn(loop, 0);
    CHECK(loop_now_us(loop) >= seen_now + 10);
    end();
}

static int open_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

TEST(free_closes_what_new_opened)
{
    CHECK(loop_free(NULL) == NULL);
    int before = open_fds();
    begin();
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    CHECK_INT(loop_signals(loop, &mask, on_signal, NULL, NULL), 0);
    CHECK(open_fds() > before);
    end();
    CHECK_INT(open_fds(), before);
}
