/* SPDX-License-Identifier: BSD-2-Clause */
/* The identifiers of librdmacm. All functions: the lock is held; int: 0 or an errno value. */
#ifndef WEFT_EMULATOR_CM_H
#define WEFT_EMULATOR_CM_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "cm_wire.h"
#include "device.h"
#include "event.h"
#include "loop.h"
#include "object.h"

enum cm_state {
    CM_IDLE,
    CM_BOUND,
    CM_ADDRESS_RESOLVED,
    CM_ROUTE_RESOLVED,
    CM_LISTENING,
    CM_CONNECTING, /* active: the request is sent */
    CM_RESPONDED,  /* active: the reply is there */
    CM_REQUESTED,  /* passive: the request is there */
    CM_ACCEPTED,   /* passive: the reply is sent */
    CM_CONNECTED,
    CM_LEAVING, /* this side has asked to disconnect */
    CM_LEFT,    /* the peer has asked to disconnect, or is gone */
    CM_CLOSED,
};

struct cm_channel {
    struct rdma_event_channel channel;
    struct event_queue queue;
    struct object object;
    struct list gone; /* of those destroyed */
};

struct cm_id {
    struct rdma_cm_id id; /* first: what the interface hands out */
    enum cm_state state;
    bool synchronous;       /* has its own channel: calls wait for their events */
    struct watch watch;     /* the connection, or the listener; fd -1: none */
    int port_fd;            /* an unconnected socket whose name keeps the port, -1: none */
    struct cm_message peer; /* the request or reply of the peer */
    uint32_t psn, qkey;
    uint32_t qpn; /* since connect or accept: the program may destroy its queue pair first */
    uint8_t responder_resources, initiator_depth, retry, ack_timeout;
    unsigned sgid_index;
    int backlog;
    unsigned waiting_requests; /* of a listener: not taken yet */
    uint32_t events_got, events_acked;
    pthread_mutex_t mutex;
    pthread_cond_t acked;
    bool late; /* FAULT_CONNECT_LATE */
    struct timer timer;
    void (*on_timer)(struct cm_id *id);
    struct list groups;               /* of cm_multicast.c */
    struct ibv_qp_init_attr *qp_attr; /* of a listening endpoint: for its requests */
    struct list link;                 /* of all identifiers */
    struct object object;
};

struct cm_event {
    struct rdma_cm_event event; /* first: what the interface hands out */
    struct list link;
    struct cm_id *id; /* the one that is told: the listener of a request */
    uint8_t data[CM_ROOM];
};

static inline struct cm_id *cm_of(struct rdma_cm_id *id)
{
    return (struct cm_id *)(void *)id;
}

/* Returns -1 with errno for an errno value, 0 for 0. */
int cm_result(int rc);

/* From now on a child of fork leaves connections and ports to its parent. May be called again. */
int cm_watch_forks(void);
void cm_forget_strangers(void);

/* Creates an identifier that is not bound to anything. */
struct cm_id *cm_create(struct rdma_event_channel *channel, void *context,
                        enum rdma_port_space space, enum ibv_qp_type type);

/* Ends the connection and frees everything but what events may still mean. */
void cm_release(struct cm_id *id);

/* Tells the program; message: where private data and parameters come from, or NULL. */
void cm_report(struct cm_id *id, enum rdma_cm_event_type type, int status,
               const struct cm_message *message);
/* The same, to a listener about a new identifier. */
void cm_report_request(struct cm_id *listener, struct cm_id *id);

/* Forgets the events of an identifier that were not taken; frees the identifiers in them. */
void cm_forget_events(struct cm_id *id);

/* Waits for the next event of a synchronous identifier; the lock is not held. The event stays in
 * id->event until the next call. */
int cm_wait(struct cm_id *id, enum rdma_cm_event_type wanted);

/* Sets what the program sees of the device: verbs, port_num, pd, addresses. */
void cm_publish(struct cm_id *id);

/* The device and the GID for the source address; ENODEV if no device has it. */
int cm_bind_device(struct cm_id *id);

/* Binds a port, a free one if the address has none. */
int cm_bind_port(struct cm_id *id);
uint16_t cm_port(const struct sockaddr *address);
void cm_set_port(struct sockaddr *address, uint16_t port);

/* The name under which an address is listened on; `any`: the name of all addresses. */
void cm_listen_name(char name[80], enum rdma_port_space space, const struct sockaddr *address,
                    bool any);

struct ibv_context *cm_context(const struct device *device);
struct ibv_pd *cm_default_pd(struct ibv_context *context);

/* States of the queue pair of the identifier, if it has one: it is made by rdma_create_qp. */
int cm_qp_to_ready(struct cm_id *id);
int cm_qp_to_error(struct cm_id *id);
int cm_fill_attributes(struct cm_id *id, struct ibv_qp_attr *attr, int *mask);

/* After the program has taken the reply of the peer: ready to use, or given up. */
int cm_confirm(struct cm_id *id);

/* Reads what comes over a connection. */
void cm_receive(struct watch *watch, uint32_t events);

/* An accepted socket with the first message of its peer. */
void cm_accept_socket(struct watch *watch, uint32_t events);

/* Drops the sockets of a listener whose requests have not come. */
void cm_stop_listening(struct cm_id *listener);

void cm_send(struct cm_id *id, struct cm_message *message, enum cm_kind kind);
void cm_set_timer(struct cm_id *id, unsigned milliseconds, void (*call)(struct cm_id *id));

/* Leaves all groups. */
void cm_leave_groups(struct cm_id *id);
/* Attaches the queue pair to the group of a join that succeeded. */
void cm_enter_group(struct cm_id *id, const struct rdma_ud_param *param);

#endif
