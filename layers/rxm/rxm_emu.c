/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_emu.h"

#include <stdlib.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/info.h"
#include "core/part.h"

enum {
    OPS_FIRST = 16,
    OPS_MOST = 256,
    PACKETS_FIRST = 2,
    PACKETS_MOST = 64,
    TX_SIZE = 1024,
    SEGMENTS = 8, /* of a message in pieces, where the lower says nothing */
    QUEUE_MAX = 1024,
};

/* ---- Numbers of what waits for an answer ---- */

struct rxm_id_slot {
    void *item;
    uint32_t turn; /* the upper half of the number: an old one finds nothing */
    uint32_t next; /* of those that are free */
};

static bool grow_ids(struct rxm_ids *ids)
{
    uint32_t count = ids->count ? 2 * ids->count : 16;
    struct rxm_id_slot *slots;

    if (count > UINT32_MAX / 2)
        return false;
    slots = realloc(ids->slots, count * sizeof(*slots));
    if (!slots)
        return false;
    for (uint32_t i = ids->count; i < count; i++)
        slots[i] = (struct rxm_id_slot){.next = i + 1};
    ids->slots = slots;
    ids->free = ids->count;
    ids->count = count;
    return true;
}

uint64_t rxm_ids_add(struct rxm_ids *ids, void *item)
{
    uint32_t index;

    if (ids->free == ids->count && !grow_ids(ids))
        return UINT64_MAX;
    index = ids->free;
    ids->free = ids->slots[index].next;
    ids->slots[index].item = item;
    return (uint64_t)ids->slots[index].turn << 32 | index;
}

void *rxm_ids_find(const struct rxm_ids *ids, uint64_t id)
{
    uint32_t index = (uint32_t)id;

    if (index >= ids->count || ids->slots[index].turn != id >> 32)
        return NULL;
    return ids->slots[index].item;
}

void rxm_ids_remove(struct rxm_ids *ids, uint64_t id)
{
    struct rxm_id_slot *slot = &ids->slots[(uint32_t)id];

    slot->item = NULL;
    slot->turn++;
    slot->next = ids->free;
    ids->free = (uint32_t)id;
}

/* ---- What the lower completes ---- */

static ssize_t sink_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len,
                          void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct rxm_emu *emu = object_of(peer, struct rxm_emu, sink);
    struct rxm_context *mine = context;

    if (__builtin_expect(flags & FI_REMOTE_WRITE, 0))
        rxm_emu_written(emu, NULL, mine, flags, len, data);
    else
        mine->done(mine, len, NULL);
    return 0;
}

static ssize_t sink_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *error)
{
    struct rxm_context *mine = error->op_context;

    if (mine)
        mine->done(mine, 0, error);
    return 0;
}

static struct fi_ops_cq_owner sink_ops = {
    .size = sizeof(sink_ops),
    .write = sink_write,
    .writeerr = sink_writeerr,
};

/* ---- Opening and closing ---- */

/* A piece says its length in 16 bits. */
static void limit_segments(struct rxm_emu *emu, size_t limit)
{
    bool none = limit < emu->eager_limit || emu->eager_limit > UINT16_MAX;

    emu->segment_limit = none ? emu->eager_limit : limit;
}

/* Pieces cost about twice as much where each has a receive, and a credit, of its own. */
void rxm_emu_ask(struct rxm_emu *emu, struct fid_ep *ep)
{
    size_t size, len = sizeof(size);
    uint32_t plain = 1;

    /* 1.17 sends small messages in tags of tcp's, and receives that are posted have none. */
    if (emu->feed == RXM_FEED_POSTED)
        fi_setopt(&ep->fid, FI_OPT_ENDPOINT, OPT_TAGS_PLAIN, &plain, sizeof(plain));
    if (emu->limit_said)
        return;
    if (fi_getopt(&ep->fid, FI_OPT_ENDPOINT, OPT_FETCH_SIZE, &size, &len))
        size = SEGMENTS * emu->eager_limit;
    limit_segments(emu, emu->feed == RXM_FEED_POSTED ? size / 2 : size);
}

static void read_params(struct rxm_emu *emu, const struct params *params)
{
    size_t segments = params_size(params, "sar_limit");

    emu->eager_limit = params_size(params, "buffer_size");
    emu->limit_said = segments > 0;
    limit_segments(emu, segments ? segments : SEGMENTS * emu->eager_limit);
    emu->write_rndv = params_bool(params, "use_rndv_write");
    emu->saved_limit = params_size(params, "saved_size");
    emu->queue = (unsigned)params_int(params, "msg_rx_size");
}

static void read_lower(struct rxm_emu *emu, const struct fi_info *lower)
{
    int mr = info_mr_bits(lower);
    size_t keys = lower->domain_attr->mr_key_size;

    emu->feed = lower->caps & FI_PEER && lower->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT
                    ? RXM_FEED_ASKED
                    : RXM_FEED_POSTED;
    emu->flow = emu->feed == RXM_FEED_POSTED ? RXM_FLOW_ON : RXM_FLOW_OFF;
    emu->lower_waits = lower->domain_attr->resource_mgmt == FI_RM_ENABLED;
    emu->virt_addr = mr & FI_MR_VIRT_ADDR;
    emu->prov_key = mr & FI_MR_PROV_KEY;
    emu->data_takes_receive = lower->mode & FI_RX_CQ_DATA;
    emu->mr_flags = MR_UNCOUNTED;
    emu->lower_inject = lower->tx_attr->inject_size;
    emu->lower_iov = lower->tx_attr->iov_limit;
    emu->lower_max = lower->ep_attr->max_msg_size;
    emu->key_mask = keys && keys < sizeof(uint64_t) ? (UINT64_C(1) << 8 * keys) - 1 : UINT64_MAX;
    if (emu->queue > lower->rx_attr->size && lower->rx_attr->size)
        emu->queue = (unsigned)lower->rx_attr->size;
    if (emu->queue > QUEUE_MAX)
        emu->queue = QUEUE_MAX;
}

int rxm_emu_open(struct rxm_ep *ep)
{
    struct rxm_emu *emu = calloc(1, sizeof(*emu));
    struct fid_domain *local;

    if (!emu)
        return -FI_ENOMEM;
    ep->emu = emu;
    emu->ep = ep;
    list_init(&emu->stalled);
    list_init(&emu->broken);
    list_init(&emu->held);
    read_params(emu, ep->domain->fabric->params);
    read_lower(emu, ep->lower_info);
    emu->limit = ep->info->tx_attr->size ? ep->info->tx_attr->size : TX_SIZE;
    emu->sink.owner_ops = &sink_ops;
    fid_init(&emu->sink.fid, FI_CLASS_PEER_CQ, emu, NULL);
    if (getrandom(&emu->key, sizeof(emu->key), GRND_NONBLOCK) != sizeof(emu->key) || !emu->key)
        emu->key = ((uintptr_t)emu ^ (uint64_t)clock_ms() << 32) | 1;
    local = info_mr_bits(ep->lower_info) & FI_MR_LOCAL ? ep->domain->lower : NULL;
    rxm_buffers_init(&emu->ops, local, sizeof(struct rxm_op), OPS_FIRST, OPS_MOST);
    rxm_buffers_init(&emu->packets, local,
                     sizeof(struct rxm_packet_buffer) + RXM_PACKET_SIZE + emu->eager_limit,
                     PACKETS_FIRST, PACKETS_MOST);
    rxm_buffers_init(&emu->bounces, local, sizeof(struct rxm_buffer) + emu->eager_limit,
                     PACKETS_FIRST, PACKETS_MOST);
    pool_init(&emu->inbounds, sizeof(struct rxm_inbound), 0);
    return 0;
}

void rxm_emu_close(struct rxm_ep *ep)
{
    struct rxm_emu *emu = ep->emu;

    if (!emu)
        return;
    rxm_buffers_finish(&emu->ops);
    rxm_buffers_finish(&emu->packets);
    rxm_buffers_finish(&emu->bounces);
    pool_finish(&emu->inbounds);
    free(emu->ids.slots);
    free(emu);
    ep->emu = NULL;
}

/* ---- Progress ---- */

static void end_broken(struct rxm_emu *emu)
{
    while (!list_empty(&emu->broken)) {
        struct rxm_link *link = list_item(emu->broken.next, struct rxm_link, emu.broken);

        list_detach(&link->emu.broken);
        if (link->cm.peer)
            rxm_cm_lost(&emu->ep->cm, &link->cm, link->emu.err, NULL, 0, clock_ms());
    }
}

void rxm_emu_run(struct rxm_emu *emu)
{
    struct list all;

    end_broken(emu);
    if (emu->refill)
        rxm_emu_refill(emu);
    /* A report may call back, and go on with any of them. */
    list_init(&all);
    list_join(&emu->stalled, &all);
    while (!list_empty(&all)) {
        struct rxm_link *link = list_item(all.next, struct rxm_link, emu.stalled);

        list_detach(&link->emu.stalled);
        list_attach(&link->emu.stalled, &emu->stalled);
        rxm_op_resume(link);
    }
}

/* A connection that stalls goes on with a completion or a packet, for which the lower wakes. */
int rxm_emu_trywait(const struct rxm_emu *emu)
{
    if (!list_empty(&emu->broken) || emu->refill)
        return -FI_EAGAIN;
    list_for_each (item, &emu->stalled) {
        const struct rxm_link *link = list_item(item, struct rxm_link, emu.stalled);

        if (link->emu.up && !link->emu.outstanding && !link->emu.credit.on)
            return -FI_EAGAIN;
    }
    return 0;
}
