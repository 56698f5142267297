/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An endpoint that carries its operations out itself: bindings, the checks of fi_enable, receives,
 * options, default flags, aliases, cancel, close. An endpoint of a transport or of rxm embeds
 * struct endpoint as its first member and says in struct endpoint_ops what is its own. The
 * functions behind the public tables are here; a part never writes them again.
 *
 * Calls of the control path (bind, enable, options, close) come from one thread at a time, as
 * fi_endpoint(3) demands; `match` and the binding's queues are guarded by binding.progress. Source:
 * fi_endpoint(3), fi_cq(3), fi_cntr(3), fi_peer(3).
 */
#ifndef WEFT_CORE_EP_ENDPOINT_H
#define WEFT_CORE_EP_ENDPOINT_H

#include "core/av/av.h"
#include "core/base/fid.h"
#include "core/ep/ep.h"
#include "core/ep/limits.h"
#include "core/ep/srx.h"
#include "core/ep/stx.h"
#include "core/match/match.h"
#include "core/queue/binding.h"
#include "core/queue/eq.h"

struct endpoint;

enum endpoint_option_kind {
    OPTION_SIZE,     /* size_t, read only: what `size` says, or where that is NULL `at` */
    OPTION_FIELD,    /* uint32_t of the part's endpoint at offset `at`, write only */
    OPTION_FUNCTION, /* `set` takes it; reading is `answer`'s, or where that is NULL the room's */
    OPTION_ANSWER,   /* `answer` fills in what the caller asks about, read only */
};

/* An option of a part's endpoints (FI_OPT_..., or core/base/seam.h), beside those that every
 * endpoint has. A table ends with name 0. */
struct endpoint_option {
    int name;
    enum endpoint_option_kind kind;
    size_t at;
    int (*set)(struct endpoint *ep, const void *value, size_t len);
    size_t (*size)(struct endpoint *ep);
    int (*answer)(struct endpoint *ep, void *value, size_t *len);
};

/* Functions and constants of one part's endpoints. Entries that may be NULL say so. */
struct endpoint_ops {
    ssize_t (*post)(struct ep *ep, struct op *op);
    int (*atomic_valid)(struct ep *ep, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                        size_t *count);
    /* The largest value of each option of core/ep/limits.h; 0 where the endpoint lacks the kind. */
    size_t (*limit)(struct endpoint *ep, int option);
    /* fi_enable, after every check and with receives open. A failure leaves the endpoint as it was
     * but for its receives: the caller may try again. */
    int (*enable)(struct endpoint *ep);
    /* Of fi_close: gives back what is the part's, calls endpoint_finish, frees. */
    int (*close)(struct endpoint *ep);
    /* fi_enable, before the checks: a context joins its scalable endpoint. May be NULL. */
    int (*join)(struct endpoint *ep);
    /* fid has been bound. A failure is fi_ep_bind's. May be NULL. */
    int (*bound)(struct endpoint *ep, struct fid *fid, uint64_t flags);
    /* fi_cancel, before the posted receives are searched; binding.progress locked. 0: it was found;
     * -FI_ENOENT. May be NULL. */
    int (*cancel)(struct endpoint *ep, void *context);
    /* The default flags of transmissions change to tx_op_flags. May be NULL. */
    int (*tx_flags_changed)(struct endpoint *ep);
    /* fi_control with a command that the room does not know. May be NULL: -FI_ENOSYS. */
    int (*control)(struct endpoint *ep, int command, void *arg);
    /* Transmissions under way, of tx_size. May be NULL: fi_tx_size_left is -FI_ENOSYS. */
    size_t (*tx_used)(const struct endpoint *ep);
    /* Receives posted, of rx_size, of a part that keeps them itself: then `in` and `match` are
     * NULL. NULL: they are in `match`, or in a shared context. */
    size_t (*rx_used)(struct endpoint *ep);
    const struct endpoint_option *options; /* ends with name 0; may be NULL */
    struct fi_ops_srx_peer *srx_ops;       /* of messages that wait; may be NULL with own_sources */
    bool own_sources; /* its messages have many sources, each a match_source of the part's */
    bool keeps_eq;    /* events are written to the queue that is bound; else any queue is taken */
};

struct endpoint {
    union {
        struct ep base;
        struct fid_ep fid; /* base.fid */
    };
    struct fid_peer_srx *in; /* where receives come from, from enable on */
    struct match *match;     /* its own receives, or NULL */
    struct binding binding;
    uint64_t caps, tx_op_flags, rx_op_flags;
    const struct endpoint_ops *ops;
    struct domain *domain;
    struct match_source source; /* of match or srx */
    struct match_groups groups; /* peers by authorization key, where the AV has keys */
    struct srx *srx;            /* the receive context that is bound, or NULL */
    struct srx_user srx_user;
    struct stx *stx; /* the shared transmit context that is bound, or NULL */
    struct av *av;
    struct eq *eq;
    struct children aliases;
    size_t tx_size, rx_size, iov_limit, min_multi_recv;
    struct limits limits;
    bool enabled;
    bool needs_av, needs_eq, needs_srx, needs_stx; /* without which it cannot be enabled */
    bool any_srx; /* takes a receive context that it was not opened for */
};

/* Arguments of endpoint_init. */
struct endpoint_attr {
    const struct endpoint_ops *ops;
    struct domain *domain;      /* is held */
    const struct fi_info *info; /* complete; read during the call only */
    uint64_t caps;              /* expanded: caps_expand */
    size_t fclass;              /* FI_CLASS_EP, FI_CLASS_TX_CTX, FI_CLASS_RX_CTX */
    void *context;
    size_t size;      /* of tx_size and rx_size where the info names none */
    size_t iov_limit; /* of receives; 0 counts as 1 */
    size_t min_multi_recv;
};

/* Of zeroed memory; sets every table but cm, which is enosys_cm_ops. needs_srx and needs_stx follow
 * the info; the part sets needs_av, needs_eq and any_srx. */
void endpoint_init(struct endpoint *ep, const struct endpoint_attr *attr);
/* Enables it as fi_enable does; 0 where it is enabled. */
int endpoint_enable(struct endpoint *ep);
/* Receives end without completions, and messages that wait for one are discarded.
 * binding.progress locked, if there is one. */
void endpoint_close_receives(struct endpoint *ep);
/* Posted receives that only this endpoint's messages could meet end with err, positive.
 * binding.progress locked. */
void endpoint_fail_receives(struct endpoint *ep, int err);
/* Lets go of all that is bound, and of the domain; closes receives that are open still. */
void endpoint_finish(struct endpoint *ep);

static inline uint64_t endpoint_inject_flags(const struct endpoint *ep, enum binding_kind kind)
{
    return binding_inject_flags(&ep->binding, kind, ep->tx_op_flags);
}

/* Of a transmission that the endpoint carries out: op_settle with its default flags. */
static inline ssize_t endpoint_settle(const struct endpoint *ep, struct op *op)
{
    uint64_t defaults = ep->tx_op_flags;

    if (op_is_inject(op))
        defaults = endpoint_inject_flags(ep, binding_kind_of(op->kind));
    return op_settle(op, defaults);
}

static inline struct endpoint *endpoint_of(struct fid *fid)
{
    return object_of(fid, struct endpoint, fid.fid);
}

#endif
