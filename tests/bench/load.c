/*
 * load.c: the load generator behind `make bench`.
 *
 *     load --peer NAME --address IP:PORT [--clients N] [--depth N] [--bytes N]
 *          [--seconds S] [--warm S] [--ops N] [--shared]
 *     load --peer http|ws --address IP:PORT --idle N
 *     load --list
 *
 * Appends durably to one server, over `clients` connections with `depth` requests in flight on
 * each, and prints one JSON object on one line. Each connection has its own conversation (stream,
 * key), or with --shared all have one. The bearer token or password is read from the environment
 * (BENCH_SECRET), where other users cannot see it. Exit status 1 if a single append failed.
 *
 * The peers named …-beat send heartbeats instead, and those named …-cycle take tasks from their
 * creation to their end, a cycle of several requests being one operation; they do not share.
 *
 * What is measured must be the servers, so everything else is the same for all of them: one thread,
 * one loop (drive.c), one payload, one way of timing. wrk, redis-benchmark and pgbench were not
 * used, because their numbers cannot be set side by side.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "drive.h"
#include "idle.h"
#include "peer.h"

static const struct peer *const peers[] = {
    &peer_http,     &peer_ws,          &peer_redis,
    &peer_ws_beat,  &peer_redis_beat,  &peer_beanstalk_beat,
    &peer_ws_cycle, &peer_redis_cycle, &peer_beanstalk_cycle,
#if BENCH_LIBPQ
    &peer_pg,       &peer_pg_cycle,
#endif
};

struct args {
    const struct peer *peer;
    struct target target;
    struct plan plan;
    unsigned payload_bytes;
    unsigned idle;
    bool shared;
};

static const struct peer *find_peer(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(peers); i++) {
        if (strcmp(peers[i]->name, name) == 0)
            return peers[i];
    }
    die("no peer \"%s\" in this build", name);
}

static void read_address(struct target *t, const char *text)
{
    size_t host = strcspn(text, ":");
    if (!text[host] || host >= sizeof t->host)
        die("--address takes IP:PORT, not \"%s\"", text);
    memcpy(t->host, text, host);
    t->host[host] = '\0';
    t->port = text + host + 1;
    t->address.sin_family = AF_INET;
    t->address.sin_port = htons((uint16_t)strtoul(t->port, NULL, 10));
    if (inet_pton(AF_INET, t->host, &t->address.sin_addr) != 1 || t->address.sin_port == 0)
        die("--address takes IP:PORT, not \"%s\"", text);
}

static unsigned read_count(const char *name, const char *text)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*end || end == text || n == 0 || n > 100000000)
        die("--%s takes a positive number, not \"%s\"", name, text);
    return (unsigned)n;
}

static int64_t read_seconds(const char *name, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);
    if (*end || end == text || !isfinite(seconds) || seconds < 0 || seconds > 86400)
        die("--%s takes seconds, not \"%s\"", name, text);
    return (int64_t)(seconds * 1e9);
}

static const struct option long_options[] = {
    {"peer", required_argument, NULL, 'P'},    {"address", required_argument, NULL, 'a'},
    {"clients", required_argument, NULL, 'c'}, {"depth", required_argument, NULL, 'p'},
    {"bytes", required_argument, NULL, 'b'},   {"seconds", required_argument, NULL, 'd'},
    {"warm", required_argument, NULL, 'w'},    {"ops", required_argument, NULL, 'n'},
    {"idle", required_argument, NULL, 'i'},    {"list", no_argument, NULL, 'l'},
    {"shared", no_argument, NULL, 's'},        {NULL, 0, NULL, 0},
};

static void read_option(struct args *a, int option, const char *name)
{
    switch (option) {
    case 'P':
        a->peer = find_peer(optarg);
        break;
    case 'a':
        read_address(&a->target, optarg);
        break;
    case 'c':
        a->plan.clients = read_count(name, optarg);
        break;
    case 'p':
        a->plan.depth = read_count(name, optarg);
        break;
    case 'b':
        a->payload_bytes = read_count(name, optarg);
        break;
    case 'd':
        a->plan.run_ns = read_seconds(name, optarg);
        break;
    case 'w':
        a->plan.warm_ns = read_seconds(name, optarg);
        break;
    case 'n':
        a->plan.ops = read_count(name, optarg);
        break;
    case 'i':
        a->idle = read_count(name, optarg);
        break;
    case 's':
        a->shared = true;
        break;
    case 'l':
        for (size_t i = 0; i < ARRAY_LEN(peers); i++)
            puts(peers[i]->name);
        exit(0);
    default:
        exit(2);
    }
}

static void read_args(struct args *a, int argc, char **argv)
{
    int option, row;
    while (row = -1, (option = getopt_long(argc, argv, "", long_options, &row)) != -1)
        read_option(a, option, row >= 0 ? long_options[row].name : "");
    if (optind < argc || !a->peer || !a->target.port)
        die("usage: --peer NAME --address IP:PORT and options; see the head of load.c");
    if (a->peer->one_in_flight && a->plan.depth > 1)
        die("--peer %s goes with --depth 1 only", a->peer->name);
    const char *secret = getenv("BENCH_SECRET");
    a->target.secret = secret ? secret : "";
}

/* Letters and digits that do not repeat: nothing to escape, little to compress. */
static char *make_payload(unsigned bytes)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz 0123456789";
    uint64_t state = 88172645463325252;
    char *text = mem_alloc(bytes + 1);
    for (unsigned i = 0; i < bytes; i++) {
        state = state * 6364136223846793005 + 1442695040888963407;
        text[i] = alphabet[(state >> 33) % (sizeof alphabet - 1)];
    }
    text[bytes] = '\0';
    return text;
}

static void print_result(const struct args *a, const struct result *r)
{
    printf("{\"peer\":\"%s\",\"clients\":%u,\"depth\":%u,\"ops\":%llu,\"seconds\":%.3f,"
           "\"ops_per_s\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,"
           "\"answered\":%llu,\"errors\":%llu}\n",
           a->peer->name, a->plan.clients, a->plan.depth, (unsigned long long)r->ops,
           (double)r->run_ns / 1e9, (double)r->ops * 1e9 / (double)r->run_ns,
           (double)histogram_percentile(&r->latency, 50) / 1e3,
           (double)histogram_percentile(&r->latency, 99) / 1e3, (double)r->latency.max / 1e3,
           (unsigned long long)r->answered, (unsigned long long)r->errors);
}

static int run_load(const struct args *a)
{
    struct conn *conns = mem_zalloc(sizeof *conns * a->plan.clients);
    for (unsigned i = 0; i < a->plan.clients; i++) {
        conn_init(&conns[i], &a->target, i);
        a->peer->open(&conns[i], NULL);
        a->peer->begin(&conns[i], a->shared && i > 0 ? &conns[0] : NULL);
        conn_set_nonblocking(&conns[i]);
    }
    struct result result;
    drive(a->peer, conns, &a->plan, &result);
    print_result(a, &result);
    for (unsigned i = 0; i < a->plan.clients; i++)
        a->peer->close(&conns[i]);
    free(conns);
    return result.errors ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct args a = {
        .plan = {.clients = 1, .depth = 1, .warm_ns = 300000000, .run_ns = 3000000000},
        .payload_bytes = 200,
    };
    read_args(&a, argc, argv);
    _cleanup_free_ char *payload = make_payload(a.payload_bytes);
    a.target.payload = str_of(payload);
    if (a.idle) {
        idle_hold(a.peer, &a.target, a.idle);
        return 0;
    }
    return run_load(&a);
}
