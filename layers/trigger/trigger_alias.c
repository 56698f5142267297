/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Aliases with FI_TRIGGER among their flags: fi_write and the like on one are fi_writemsg with
 * these flags, and the lower's alias does not know of FI_TRIGGER. What is injected has no context
 * that could name a counter, and is not triggered.
 */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "core/post.h"
#include "layers/trigger/trigger.h"

struct alias {
    struct list link;
    const struct pass_ep *ep;
    uint64_t flags;
};

static struct pass_ops own; /* the layer's tables */

static struct alias *find(struct trigger_ep *ep, const struct pass_ep *pass)
{
    list_for_each (pos, &ep->aliases) {
        struct alias *alias = list_item(pos, struct alias, link);

        if (alias->ep == pass)
            return alias;
    }
    return NULL;
}

static uint64_t tx_flags(struct fid_ep *fid)
{
    const struct pass_ep *pass = object_of(fid, struct pass_ep, fid);
    struct trigger_ep *ep = pass->hook;
    struct unit *unit = ep->cover.domain->unit;
    const struct alias *alias;
    uint64_t flags;

    unit_lock(unit);
    alias = find(ep, pass);
    flags = alias ? alias->flags & ~(FI_TRANSMIT | FI_RECV) : 0;
    unit_unlock(unit);
    return flags;
}

static uint64_t rx_flags(struct fid_ep *fid)
{
    return tx_flags(fid);
}

/* ---- Each call with the alias's flags ---- */

static ssize_t send_message(struct fid_ep *fid, const struct post *post)
{
    const struct fi_msg msg = {.msg_iov = post->iov,
                               .desc = post->desc,
                               .iov_count = post->count,
                               .addr = post->peer,
                               .context = post->context,
                               .data = post->data};

    return own.msg->sendmsg(fid, &msg, post->flags);
}

static ssize_t send_tagged(struct fid_ep *fid, const struct post *post)
{
    const struct fi_msg_tagged msg = {.msg_iov = post->iov,
                                      .desc = post->desc,
                                      .iov_count = post->count,
                                      .addr = post->peer,
                                      .tag = post->tag,
                                      .context = post->context,
                                      .data = post->data};

    return own.tagged->sendmsg(fid, &msg, post->flags);
}

static ssize_t post_send(struct fid_ep *fid, const struct post *post)
{
    return post->kind & FI_TAGGED ? send_tagged(fid, post) : send_message(fid, post);
}

static ssize_t post_rma(struct fid_ep *fid, const struct post *post)
{
    const struct fi_msg_rma msg = {.msg_iov = post->iov,
                                   .desc = post->desc,
                                   .iov_count = post->count,
                                   .addr = post->peer,
                                   .rma_iov = post->rma,
                                   .rma_iov_count = post->rma_count,
                                   .context = post->context,
                                   .data = post->data};

    return post->kind & FI_READ ? own.rma->readmsg(fid, &msg, post->flags)
                                : own.rma->writemsg(fid, &msg, post->flags);
}

static ssize_t post_atomic(struct fid_ep *fid, const struct post_atomic *post)
{
    const struct fi_msg_atomic msg = {.msg_iov = post->iov,
                                      .desc = post->desc,
                                      .iov_count = post->count,
                                      .addr = post->peer,
                                      .rma_iov = post->rma,
                                      .rma_iov_count = post->rma_count,
                                      .datatype = post->datatype,
                                      .op = post->op,
                                      .context = post->context,
                                      .data = post->data};

    switch (post->function) {
    case 0: return own.atomic->writemsg(fid, &msg, post->flags);
    case FI_FETCH_ATOMIC:
        return own.atomic->readwritemsg(fid, &msg, post->result, post->result_desc,
                                        post->result_count, post->flags);
    default:
        return own.atomic->compwritemsg(fid, &msg, post->compare, post->compare_desc,
                                        post->compare_count, post->result, post->result_desc,
                                        post->result_count, post->flags);
    }
}

/* The valid functions are taken from the layer's table. */
static int count_atomic(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op, uint64_t kind,
                        size_t *count)
{
    return -FI_ENOSYS;
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return own.msg->recvmsg(fid, msg, flags);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return own.tagged->recvmsg(fid, msg, flags);
}

#include "core/post_atomic.inc"
#include "core/post_recv.inc"
#include "core/post_rma.inc"
#include "core/post_send.inc"
#include "core/post_trecv.inc"
#include "core/post_tsend.inc"

/* ---- Tables: of receives alone, or of all else ---- */

static struct fi_ops_msg tx_msg = {.size = sizeof(tx_msg), POST_SEND, POST_RECV}, rx_msg;
static struct fi_ops_tagged tx_tagged = {.size = sizeof(tx_tagged), POST_TSEND, POST_TRECV},
                            rx_tagged;
static struct fi_ops_rma tx_rma = {.size = sizeof(tx_rma), POST_RMA};
static struct fi_ops_atomic tx_atomic = {.size = sizeof(tx_atomic), POST_ATOMIC};

void trigger_alias_tables(const struct pass_ops *tables)
{
    own = *tables;
    rx_msg = *own.msg;
    rx_msg.recv = msg_recv;
    rx_msg.recvv = msg_recvv;
    tx_msg.recv = own.msg->recv;
    tx_msg.recvv = own.msg->recvv;
    tx_msg.recvmsg = own.msg->recvmsg;
    tx_msg.sendmsg = own.msg->sendmsg;
    tx_msg.inject = own.msg->inject;
    tx_msg.injectdata = own.msg->injectdata;
    rx_tagged = *own.tagged;
    rx_tagged.recv = tagged_recv;
    rx_tagged.recvv = tagged_recvv;
    tx_tagged.recv = own.tagged->recv;
    tx_tagged.recvv = own.tagged->recvv;
    tx_tagged.recvmsg = own.tagged->recvmsg;
    tx_tagged.sendmsg = own.tagged->sendmsg;
    tx_tagged.inject = own.tagged->inject;
    tx_tagged.injectdata = own.tagged->injectdata;
    tx_rma.readmsg = own.rma->readmsg;
    tx_rma.writemsg = own.rma->writemsg;
    tx_rma.inject = own.rma->inject;
    tx_rma.injectdata = own.rma->injectdata;
    tx_atomic.writemsg = own.atomic->writemsg;
    tx_atomic.readwritemsg = own.atomic->readwritemsg;
    tx_atomic.compwritemsg = own.atomic->compwritemsg;
    tx_atomic.inject = own.atomic->inject;
    tx_atomic.writevalid = own.atomic->writevalid;
    tx_atomic.readwritevalid = own.atomic->readwritevalid;
    tx_atomic.compwritevalid = own.atomic->compwritevalid;
}

/* A group of operations that the endpoint does not have stays away. */
static void set_tables(struct fid_ep *fid, bool tx)
{
    if (fid->msg == own.msg)
        fid->msg = tx ? &tx_msg : &rx_msg;
    if (fid->tagged == own.tagged)
        fid->tagged = tx ? &tx_tagged : &rx_tagged;
    if (tx && fid->rma == own.rma)
        fid->rma = &tx_rma;
    if (tx && fid->atomic == own.atomic)
        fid->atomic = &tx_atomic;
}

/* ---- Opening and closing ---- */

int trigger_alias_open(struct fid *fid, struct fi_alias *theirs,
                       int (*passed)(struct fid *, int, void *))
{
    struct trigger_ep *ep = *pass_hook(fid);
    struct unit *unit = ep->cover.domain->unit;
    struct fi_alias down = {.fid = theirs->fid, .flags = theirs->flags & ~FI_TRIGGER};
    struct alias *alias = malloc(sizeof(*alias));
    int rc;

    if (!alias)
        return -FI_ENOMEM;
    rc = passed(fid, FI_ALIAS, &down);
    if (rc) {
        free(alias);
        return rc;
    }
    alias->ep = object_of(*theirs->fid, struct pass_ep, fid.fid);
    alias->flags = theirs->flags;
    unit_lock(unit);
    list_attach(&alias->link, &ep->aliases);
    unit_unlock(unit);
    set_tables(object_of(*theirs->fid, struct fid_ep, fid), theirs->flags & FI_TRANSMIT);
    return 0;
}

void trigger_alias_close(struct trigger_ep *ep, const struct pass_ep *pass)
{
    struct unit *unit = ep->cover.domain->unit;
    struct alias *alias;

    unit_lock(unit);
    alias = find(ep, pass);
    if (alias)
        list_detach(&alias->link);
    unit_unlock(unit);
    free(alias);
}
