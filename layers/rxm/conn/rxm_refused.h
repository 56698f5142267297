/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers whose requests were turned down for good: the log names each once, however often it asks.
 * Pure. A host is its address without the port, which is another with each request.
 */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_REFUSED_H
#define WEFT_LAYERS_RXM_CONN_RXM_REFUSED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/net/addr.h"

enum {
    RXM_REFUSED_HOSTS = 8,
    RXM_REFUSED_MS = 60000, /* then it is logged again */
};

struct rxm_refused {
    struct {
        union addr host;
        const char *why; /* NULL: free */
        int64_t told_ms;
    } hosts[RXM_REFUSED_HOSTS];
};

/* Should the caller log now that `from` was refused because of `why` (compared as a pointer)? True
 * at most RXM_REFUSED_HOSTS times in RXM_REFUSED_MS. Starts zeroed. */
bool rxm_refused_tell(struct rxm_refused *refused, const union addr *from, const char *why,
                      int64_t now_ms);

#endif
