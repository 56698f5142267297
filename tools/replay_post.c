/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of a replay that transfer data. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "replay_player.h"

static ssize_t post_send(const struct replay_player *player, const struct replay_op *op,
                         struct replay_running *running, bool inject)
{
    const fi_addr_t to = player->addrs[op->peer];
    struct fid_ep *ep = player->eps[op->ep];
    const char *buf = player->buffers + op->offset;

    if (inject && op->tagged)
        return op->data ? fi_tinjectdata(ep, buf, op->len, op->cq_data, to, op->tag)
                        : fi_tinject(ep, buf, op->len, to, op->tag);
    if (inject)
        return op->data ? fi_injectdata(ep, buf, op->len, op->cq_data, to)
                        : fi_inject(ep, buf, op->len, to);
    if (op->tagged)
        return op->data
                   ? fi_tsenddata(ep, buf, op->len, player->desc, op->cq_data, to, op->tag, running)
                   : fi_tsend(ep, buf, op->len, player->desc, to, op->tag, running);
    return op->data ? fi_senddata(ep, buf, op->len, player->desc, op->cq_data, to, running)
                    : fi_send(ep, buf, op->len, player->desc, to, running);
}

/* With flags of its own, those that the program asked for its completion. */
static ssize_t post_flagged_send(struct replay_player *player, const struct replay_op *op,
                                 struct replay_running *running)
{
    struct iovec iov = {player->buffers + op->offset, op->len};
    uint64_t flags = op->flags | FI_COMPLETION | (op->data ? FI_REMOTE_CQ_DATA : 0);
    struct fid_ep *ep = player->eps[op->ep];
    const struct fi_msg_tagged tagged = {.msg_iov = &iov,
                                         .desc = &player->desc,
                                         .iov_count = 1,
                                         .addr = player->addrs[op->peer],
                                         .tag = op->tag,
                                         .context = running,
                                         .data = op->cq_data};
    const struct fi_msg msg = {.msg_iov = &iov,
                               .desc = &player->desc,
                               .iov_count = 1,
                               .addr = player->addrs[op->peer],
                               .context = running,
                               .data = op->cq_data};

    return op->tagged ? fi_tsendmsg(ep, &tagged, flags) : fi_sendmsg(ep, &msg, flags);
}

static ssize_t post_multi(struct replay_player *player, const struct replay_op *op,
                          struct replay_running *running)
{
    struct iovec iov = {player->buffers + op->offset, op->len};
    const struct fi_msg msg = {.msg_iov = &iov,
                               .desc = &player->desc,
                               .iov_count = 1,
                               .addr = op->peer == REPLAY_ANY ? FI_ADDR_UNSPEC
                                                              : player->addrs[op->peer],
                               .context = running};

    return fi_recvmsg(player->eps[op->ep], &msg, FI_MULTI_RECV | FI_COMPLETION);
}

static ssize_t post_recv(struct replay_player *player, const struct replay_op *op,
                         struct replay_running *running)
{
    const fi_addr_t from = op->peer == REPLAY_ANY ? FI_ADDR_UNSPEC : player->addrs[op->peer];
    struct fid_ep *ep = player->eps[op->ep];
    char *buf = player->buffers + op->offset;

    return op->tagged ? fi_trecv(ep, buf, op->len, player->desc, from, op->tag, op->ignore, running)
                      : fi_recv(ep, buf, op->len, player->desc, from, running);
}

static ssize_t post_rma(struct replay_player *player, const struct replay_op *op,
                        struct replay_running *running, bool inject)
{
    const struct replay_target *target =
        &player->shared->targets[player->plan->endpoints[op->peer].process];
    const fi_addr_t to = player->addrs[op->peer];
    const uint64_t addr = target->base + op->remote;
    struct fid_ep *ep = player->eps[op->ep];
    char *buf = player->buffers + op->offset;

    if (op->class == REPLAY_READ)
        return fi_read(ep, buf, op->len, player->desc, to, addr, target->key, running);
    if (inject)
        return op->data ? fi_inject_writedata(ep, buf, op->len, op->cq_data, to, addr, target->key)
                        : fi_inject_write(ep, buf, op->len, to, addr, target->key);
    return op->data ? fi_writedata(ep, buf, op->len, player->desc, op->cq_data, to, addr,
                                   target->key, running)
                    : fi_write(ep, buf, op->len, player->desc, to, addr, target->key, running);
}

/* Results of all go to one place, and are not read. */
static ssize_t post_atomic(struct replay_player *player, const struct replay_op *op,
                           struct replay_running *running, bool inject)
{
    const struct replay_target *target =
        &player->shared->targets[player->plan->endpoints[op->peer].process];
    const fi_addr_t to = player->addrs[op->peer];
    const uint64_t addr = target->base + op->remote;
    const size_t count = (size_t)(op->len / op->size);
    const enum fi_datatype type = (enum fi_datatype)op->datatype;
    const enum fi_op atomic_op = (enum fi_op)op->atomic_op;
    struct fid_ep *ep = player->eps[op->ep];
    char *buf = atomic_op == FI_ATOMIC_READ ? NULL : player->buffers + op->offset;
    char *result = player->buffers + player->process->operands;
    const char *compare = result + player->process->operand_len;
    void *desc = player->desc;

    if (op->class == REPLAY_FETCH)
        return fi_fetch_atomic(ep, buf, count, desc, result, desc, to, addr, target->key, type,
                               atomic_op, running);
    if (op->class == REPLAY_COMPARE)
        return fi_compare_atomic(ep, buf, count, desc, compare, desc, result, desc, to, addr,
                                 target->key, type, atomic_op, running);
    if (inject)
        return fi_inject_atomic(ep, buf, count, to, addr, target->key, type, atomic_op);
    return fi_atomic(ep, buf, count, desc, to, addr, target->key, type, atomic_op, running);
}

bool replay_fits_inject(const struct replay_player *player, const struct replay_op *op)
{
    return op->inject && op->len <= player->info->tx_attr->inject_size;
}

ssize_t replay_post(struct replay_player *player, const struct replay_op *op,
                    struct replay_running *running)
{
    if (op->multi)
        return post_multi(player, op, running);
    if (replay_is_collective(op))
        return replay_post_collective(player, op, running);
    if (op->class == REPLAY_RECV)
        return post_recv(player, op, running);
    if (replay_is_atomic(op))
        return post_atomic(player, op, running, replay_fits_inject(player, op));
    if (op->class != REPLAY_SEND)
        return post_rma(player, op, running, replay_fits_inject(player, op));
    if (op->flags && !op->inject)
        return post_flagged_send(player, op, running);
    return post_send(player, op, running, replay_fits_inject(player, op));
}
