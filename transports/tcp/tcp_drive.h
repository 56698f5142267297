/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of a poller, and its progress. Progress domain locked. */
#ifndef WEFT_TCP_DRIVE_H
#define WEFT_TCP_DRIVE_H

#include "transports/tcp/tcp_poller.h"

/* The poller of a progress domain, made if it has none; users counts one more. */
int tcp_drive_join(struct tcp_domain *domain, struct progress *progress,
                   struct tcp_poller **poller);
/* Takes an endpoint out; the last one closes the poller, and its progress domain is returned: the
 * caller releases it when it is unlocked. */
struct progress *tcp_drive_leave(struct tcp_poller *poller);

/* Progress of what can go on without an event, where there is no ring; also for callers outside of
 * the progress domain's progress. */
void tcp_drive_pending(struct tcp_poller *poller);

#endif
