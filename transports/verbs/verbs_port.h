/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that go down. A sender learns of it by the device's retries; an end that only waits for a
 * message has nothing that could fail. So when a device tells that a port went down, each
 * connection on it sends a write of no bytes: if the port does not come back in time that one
 * fails, and with it the connection. Some devices do not even send it (rdma_rxe, whose own
 * interface is down), so connections of a port that is down after 10 s end in any case.
 *
 * A device tells a process once, whichever event queue looks first: it passes the word to the
 * others, so that each touches its own endpoints only.
 */
#ifndef WEFT_VERBS_PORT_H
#define WEFT_VERBS_PORT_H

struct verbs_ep;
struct verbs_eq;

/* An endpoint that is enabled, with its event queue, which is not locked. A negative error. */
int verbs_port_join(struct verbs_ep *ep);
/* Its event queue's progress domain locked. Takes one that has not joined. */
void verbs_port_leave(struct verbs_ep *ep);
/* The event queue closes; its endpoints are closed. Its progress domain is not locked. */
void verbs_port_finish(struct verbs_eq *eq);

#endif
