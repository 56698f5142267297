/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process in the emulated network. Its number is the abstract Unix socket that it listens on, so
 * the kernel keeps the register of living processes: a number is free as soon as its process is
 * gone. Packets from one process to another take one connection, in order.
 */
#ifndef WEFT_EMULATOR_NODE_H
#define WEFT_EMULATOR_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/uio.h>

#include "core/base/list.h"
#include "tests/emulator/wire.h"

struct link;

/* All: the lock of the loop is held. */

/* Joins the network once; 0 or an errno value. */
int node_start(void);
unsigned node_id(void);

/* An abstract address "weft-emulator/NET/name"; returns its length. */
socklen_t node_address(struct sockaddr_un *address, const char *name);

/* True if the process at the other end of a connected socket belongs to this user. */
bool node_peer_trusted(int fd);

/* The link to a process, made now if need be; NULL if there is no such process. */
struct link *node_link(unsigned id);

/* The numbers of all processes of the network; returns how many of them are in ids. */
unsigned node_list(unsigned *ids, unsigned max);

/* In a child of fork: closes the sockets. Their memory stays, since queue pairs may point there. */
void link_forget_all(void);

/* True while the link takes a packet without keeping it in memory. */
bool link_ready(const struct link *link);

/* Has `ready` called once, when the link takes packets again or has ended. Detach it to give up. */
struct link_waiter {
    struct list link;
    void (*ready)(struct link_waiter *waiter);
};
void link_wait(struct link *link, struct link_waiter *waiter);

/* Sends one packet, whose payload is pieces[0..count). Never waits: keeps a copy if it has to. */
void link_send(struct link *link, struct wire_packet *packet, const struct iovec *pieces,
               int count);

#endif
