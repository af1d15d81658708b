/* metrics.c: see metrics.h. One row per metric: name, type, help, value. */
#include "server/metrics.h"

static void write_rules(struct buf *out, const char *name, const char *help,
                        const int64_t by_rule[RULE_COUNT])
{
    buf_addf(out, "# HELP %s %s\n# TYPE %s counter\n", name, help, name);
    for (enum rule_id rule = 0; rule < RULE_COUNT; rule++)
        buf_addf(out, "%s{rule=\"%s\"} %lld\n", name, rule_name(rule), (long long)by_rule[rule]);
}

void metrics_write(struct buf *out, const struct net_stats *net, const struct core_stats *core,
                   const struct store_stats *store, bool is_writable, const char *version)
{
    // clang-format off
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"reeve_connections", "gauge", "Open connections.", (double)net->connections},
        {"reeve_connections_accepted_total", "counter", "Connections accepted.", (double)net->accepted},
        {"reeve_connections_refused_total", "counter", "Connections over the limit.", (double)net->refused},
        {"reeve_connections_stalled_total", "counter", "Peers dropped because they took nothing.", (double)net->dropped_stalled},
        {"reeve_http_requests_total", "counter", "HTTP requests.", (double)net->requests},
        {"reeve_ws_messages_total", "counter", "WebSocket messages received.", (double)net->messages},
        {"reeve_received_bytes_total", "counter", "Bytes received.", (double)net->bytes_in},
        {"reeve_sent_bytes_total", "counter", "Bytes sent.", (double)net->bytes_out},
        {"reeve_ticks_total", "counter", "Ticks of the core.", (double)core->ticks},
        {"reeve_tick_last_seconds", "gauge", "Duration of the last tick.", (double)core->tick_us_last / 1e6},
        {"reeve_tick_max_seconds", "gauge", "Longest tick so far.", (double)core->tick_us_max / 1e6},
        {"reeve_tick_batch_last", "gauge", "Inputs in the last tick.", (double)core->batch_last},
        {"reeve_tick_batch_max", "gauge", "Most inputs in a tick so far.", (double)core->batch_max},
        {"reeve_requests_total", "counter", "JSON-RPC requests executed.", (double)core->requests},
        {"reeve_calls_failed_total", "counter", "Calls answered with an error.", (double)core->calls_failed},
        {"reeve_events_total", "counter", "Events appended to the log.", (double)core->events},
        {"reeve_subscriptions", "gauge", "Live and catching-up subscriptions.", (double)core->subscriptions},
        {"reeve_watch_passes_total", "counter", "Passes of the ladder.", (double)core->ladder.passes},
        {"reeve_watch_checked_total", "counter", "Rows the ladder looked at.", (double)core->ladder.checked},
        {"reeve_watch_gaps_total", "counter", "Times nobody watched, ever, on this store.", (double)core->gaps},
        {"reeve_lifecycle_stopped_total", "counter", "Agents stopped because their conversation ended or was blocked.", (double)core->lifecycle.stopped},
        {"reeve_lifecycle_resumed_total", "counter", "Agents started again at start.", (double)core->lifecycle.resumed},
        {"reeve_lifecycle_errors_total", "counter", "Agents that could not be handled, and are tried again.", (double)core->lifecycle.errors},
        {"reeve_lifecycle_behind", "gauge", "Events the follower has not looked at.", (double)core->lifecycle.behind},
        {"reeve_commits_total", "counter", "Transactions committed.", (double)store->commits},
        {"reeve_commits_failed_total", "counter", "Ticks that could not be committed.", (double)core->commits_failed},
        {"reeve_commit_last_seconds", "gauge", "Duration of the last commit.", (double)store->commit_us_last / 1e6},
        {"reeve_commit_seconds_total", "counter", "Time spent committing.", (double)store->commit_us_total / 1e6},
        {"reeve_statements_total", "counter", "SQL statements run.", (double)store->statements},
        {"reeve_checkpoints_total", "counter", "Checkpoints of the write-ahead log.", (double)store->checkpoints},
        {"reeve_checkpoint_last_seconds", "gauge", "Duration of the last checkpoint.", (double)store->checkpoint_us_last / 1e6},
        {"reeve_checkpoint_max_seconds", "gauge", "Longest checkpoint so far.", (double)store->checkpoint_us_max / 1e6},
        {"reeve_wal_pages", "gauge", "Pages in the write-ahead log.", (double)store->wal_pages},
        {"reeve_store_writable", "gauge", "1 if the store takes writes.", is_writable ? 1 : 0},
    };
    // clang-format on
    buf_addf(out,
             "# HELP reeve_info What is running.\n# TYPE reeve_info gauge\n"
             "reeve_info{version=\"%s\"} 1\n",
             version);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", rows[i].name, rows[i].help,
                 rows[i].name, rows[i].type, rows[i].name, rows[i].value);
    write_rules(out, "reeve_rule_moves_total", "Moves made by the ladder.", core->fired);
    write_rules(out, "reeve_rule_errors_total", "Rows that a rule could not move.",
                core->ladder.errors_by_rule);
}
