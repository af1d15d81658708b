/*
 * metrics.h: numbers for Prometheus, as text.
 */
#pragma once

#include "base/buf.h"
#include "net/net.h"
#include "server/core.h"
#include "store/store.h"

void metrics_write(struct buf *out, const struct net_stats *net, const struct core_stats *core,
                   const struct store_stats *store, bool is_writable, const char *version);
