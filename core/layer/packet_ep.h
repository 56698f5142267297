/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The upper half of an endpoint that provides reliable packets (EP_PACKETS of core/part/part.h):
 * checks of posted operations, posted receives, completions, deadlines, sleeps, options. The layer
 * adds the protocol that makes packets reliable. Its endpoint embeds struct packet_ep as the first
 * member, puts PACKET_EP_OPS into its struct endpoint_ops, and calls packet_ep_init.
 *
 * Everything is guarded by the progress domain's lock. The layer's protocol is run from its `run`
 * only, never from inside of itself: an upper that posts from inside of a completion adds to it,
 * and it is run afterwards (`running`).
 */
#ifndef WEFT_CORE_LAYER_PACKET_EP_H
#define WEFT_CORE_LAYER_PACKET_EP_H

#include "core/av/av_watch.h"
#include "core/base/pool.h"
#include "core/base/seam.h"
#include "core/base/timer.h"
#include "core/ep/endpoint.h"
#include "core/ep/recv_queue.h"
#include "core/progress/wake_timer.h"

struct packet_ep;

/* Functions of the layer, called with the progress domain locked. */
struct packet_ep_ops {
    /* Begins a send that has been checked, in memory of packet_ep_get_send. Results of fi_send.
     * Sends that are not done by then are in `ready`. */
    int (*send)(struct packet_ep *ep, const struct op *op);
    /* Takes `watch`. */
    void (*take_av_changes)(struct packet_ep *ep);
    /* Runs the protocol's ready work, and gives saved packets to receives. Not while `running`. */
    void (*run)(struct packet_ep *ep);
};

struct packet_ep {
    union {
        struct endpoint base;
        struct fid_ep fid; /* base.fid */
    };
    const struct packet_ep_ops *ops;
    struct progress *progress; /* once enabled; before that one without a lock */
    struct fi_info *info;
    struct av_watch watch;
    bool top;          /* no upper sees what happens before the application does */
    bool takes_multi;  /* receives may be multi-receive buffers */
    uint32_t close_ms; /* that fi_close waits for peers */
    /* Progress. */
    bool running;       /* the protocol may be in the middle of something */
    struct list ready;  /* to be run: the layer's */
    struct list timers; /* struct timer, ns */
    struct wake_timer timer;
    /* Sending. */
    struct pool sends; /* the layer's record of each */
    size_t segments;   /* of a message, at most */
    size_t copy_size;  /* bytes of a message that is copied (FI_INJECT) */
    size_t longest;    /* of a message that is not; 0: max_msg_size of the info */
    /* Receiving. */
    struct recv_queue posted;
    struct list arrived; /* packets that were read, and not looked at: the layer's */
    struct list saved;   /* packets without a receive: the layer's */
    size_t saved_count, saved_most;
    bool woken; /* `run` does something with a receive also where nothing is saved */
};

/* A message that has come. */
struct packet_message {
    const uint8_t *bytes;
    size_t len;
    fi_addr_t src; /* as the upper's AV has it, or FI_ADDR_NOTAVAIL */
};

/* Entries of struct endpoint_ops. */
ssize_t packet_ep_post(struct ep *ep, struct op *op);
int packet_ep_atomic_valid(struct ep *ep, uint64_t function, enum fi_datatype datatype,
                           enum fi_op op, size_t *count);
size_t packet_ep_limit(struct endpoint *ep, int option);
/* The value of OPT_READER, which is set before the endpoint is enabled: into *reader. -FI_EINVAL;
 * -FI_ENOPROTOOPT where it is of another endpoint, one below. */
int packet_ep_take_reader(const struct packet_ep *ep, const void *value, size_t len,
                          struct packet_reader *reader);
int packet_ep_cancel(struct endpoint *ep, void *context);
size_t packet_ep_tx_used(const struct endpoint *ep);
size_t packet_ep_rx_used(struct endpoint *ep);
#define PACKET_EP_OPS                                                                              \
    .post = packet_ep_post, .atomic_valid = packet_ep_atomic_valid, .limit = packet_ep_limit,      \
    .cancel = packet_ep_cancel, .tx_used = packet_ep_tx_used, .rx_used = packet_ep_rx_used
/* OPT_CLOSE_WAIT. */
int packet_ep_set_close_wait(struct endpoint *ep, const void *value, size_t len);

/* Of zeroed memory. attr->caps may hold more than packets have; info is taken over, and freed by
 * packet_ep_finish. */
void packet_ep_init(struct packet_ep *ep, const struct packet_ep_ops *ops,
                    const struct endpoint_attr *attr, struct fi_info *info);
/* Of enable: before anything is opened. */
void packet_ep_begin(struct packet_ep *ep);
/* Lets go of all that is in here; the endpoint is closed. */
void packet_ep_finish(struct packet_ep *ep);
/* Drives it, unlocked, until busy says that it is not, or `ms` are over. */
void packet_ep_drain(struct packet_ep *ep, uint32_t ms, bool (*busy)(const struct packet_ep *ep));

/* ---- Sending ---- */

/* -FI_EAGAIN: as many as the endpoint may have are under way; -FI_ENOMEM. */
int packet_ep_get_send(struct packet_ep *ep, void **ret_send);
/* Does op want a completion? */
static inline bool packet_ep_wanted(const struct packet_ep *ep, const struct op *op)
{
    return !op_is_inject(op) && completion_wanted(ep->base.binding.tx_selective, op->flags);
}
/* Completes a send, whose record the layer has put back. err: 0 or positive. */
void packet_ep_sent(struct packet_ep *ep, void *context, bool wanted, int err);

/* ---- Receiving ---- */

/* fi_recv and its kin: of packet_ep_post. */
ssize_t packet_ep_post_receive(struct packet_ep *ep, struct op *op);
/* Copies the message into the first receive that is posted, and completes it. False: there is no
 * receive for it. */
bool packet_ep_receive(struct packet_ep *ep, const struct packet_message *message);
/* Packets were saved that a receive is posted for. */
static inline bool packet_ep_has_saved(const struct packet_ep *ep)
{
    return !list_empty(&ep->saved) && recv_queue_count(&ep->posted);
}

/* ---- Deadlines and sleeps ---- */

/* Has `run` something to do, deadlines apart? */
static inline bool packet_ep_is_ready(const struct packet_ep *ep)
{
    return !list_empty(&ep->ready) || !list_empty(&ep->arrived) || packet_ep_has_saved(ep);
}

/* The timer is due at `due`, in ns, at the latest; UINT64_MAX: never. */
void packet_ep_set_timer(struct packet_ep *ep, struct timer *timer, uint64_t due);
/* Is there anything that `run` may have to do? */
bool packet_ep_has_work(const struct packet_ep *ep);
/* Something is to be done that nothing below tells of. */
bool packet_ep_is_busy(struct packet_ep *ep);
/* 0: it may sleep from `now` on, and a timer ends that before a deadline, and before `latest`; both
 * in ns. Else -FI_EAGAIN. */
int packet_ep_sleep(struct packet_ep *ep, int64_t now, int64_t latest);
/* A timer that has woken its sleeper would wake the next one at once: it is off now. */
void packet_ep_quiet_timer(struct packet_ep *ep);

static inline struct packet_ep *packet_ep_of(const struct endpoint *base)
{
    return object_of(base, struct packet_ep, base);
}

#endif
