/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of endpoints that only srd has, and the table. */
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/info/info.h"
#include "core/layer/message_domain.h"
#include "layers/srd/srd.h"

enum {
    AHEAD = 64 /* packets of one operation with the lower */
};

#define ATOMIC_ORDERS                                                                              \
    ((uint64_t)(FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |                  \
                FI_ORDER_ATOMIC_WAW))

/* ---- Addresses ---- */

static bool usable(const struct lower_domain *domain, const void *address)
{
    const struct fi_info *lower = domain->lower_info;
    struct own_addr addr = {.bytes = address, .len = srd_name_own_size(lower)};
    struct srd_name name;

    if (lower->addr_format == FI_ADDR_EFA)
        return !srd_name_import(FI_ADDR_EFA, address, addr.len, &name);
    return !fi_control(&domain->lower->fid, CONTROL_ADDR, &addr);
}

static int named(struct message_ep *base, const union addr_raw *raw, size_t len)
{
    struct srd_ep *ep = srd_ep_of(base);
    struct srd_name name;
    uint32_t format = base->lower_info->addr_format;
    int rc = srd_name_import(format, raw, len, &name);

    if (rc)
        return rc;
    if (ep->efa)
        ep->connid = srd_name_connid(&name);
    ep->name_len = srd_name_put(format, &name, ep->name);
    if (ep->devices && fi_av_insert(base->lower_av, raw, 1, &ep->self, 0, NULL) != 1)
        return -FI_ENOMEM;
    return 0;
}

/* ---- Endpoints ---- */

/* Numbers on the wire have a salt, so that those of another endpoint mean nothing. */
static void choose_salt(struct srd_ep *ep)
{
    uint32_t salt;

    if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
        salt = (uint32_t)clock_ns();
    ep->base.salt = salt;
}

static void set_limits(struct srd_ep *ep, const struct params *params)
{
    ep->limits = (struct srd_limits){
        .medium = params_size(params, "medium"),
        .read = params_size(params, "read_size"),
        .read_write = params_size(params, "read_write_size"),
        .runt = params_size(params, "runt_size"),
    };
}

static void set_lower(struct srd_ep *ep, const struct fi_info *lower)
{
    bool ours = srd_has_device_keys(ep->base.domain->base.info);

    ep->efa = lower->addr_format == FI_ADDR_EFA;
    ep->base.counts = !ep->efa;
    ep->registers = info_mr_bits(lower) & FI_MR_LOCAL;
    ep->gathers = lower->tx_attr->iov_limit > 1;
    ep->reads = ours && lower->caps & FI_RMA && lower->caps & FI_READ;
    ep->writes = ep->reads && lower->caps & FI_WRITE;
    ep->devices = ep->base.info->caps & lower->caps & FI_HMEM;
    ep->self = FI_ADDR_NOTAVAIL;
}

/* The bytes that its lower accesses at once. */
static void prepare(struct message_ep *base)
{
    struct srd_ep *ep = srd_ep_of(base);
    size_t size = sizeof(ep->read_max);

    if (ep->reads &&
        (fi_getopt(&base->lower->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_RMA_SIZE, &ep->read_max, &size) ||
         !ep->read_max))
        ep->reads = ep->writes = false;
}

static int open_ep(struct message_ep *base)
{
    struct srd_ep *ep = srd_ep_of(base);
    const struct params *params = base->domain->fabric->plain.params;
    size_t max = base->lower_info->ep_attr->max_msg_size;

    base->packet_size = max < SRD_PACKET_MOST ? max : SRD_PACKET_MOST;
    base->result_room = base->result_most = base->packet_size - SRD_RESPONSE_HEAD;
    base->ahead = AHEAD;
    list_init(&ep->transfers);
    pool_init(&ep->transfer_pool, sizeof(struct srd_transfer), 0);
    set_lower(ep, base->lower_info);
    if (ep->efa && max > SRD_HEADS_MOST) /* as libfabric's: room for what a packet holds */
        base->endpoint.min_multi_recv = max - SRD_HEADS_MOST;
    set_limits(ep, params);
    srd_implicit_init(ep, params);
    ep->resends = base->info->domain_attr->resource_mgmt != FI_RM_DISABLED;
    ep->rest_us = (uint64_t)params_int(params, "rnr_pause");
    ep->rest_most_us = (uint64_t)params_int(params, "rnr_pause_most");
    ep->credits = (size_t)params_int(params, "window");
    ep->window = ep->credits * (base->packet_size - SRD_DATA_HEAD);
    ep->ordered = base->info->rx_attr->msg_order & (FI_ORDER_SAS | ATOMIC_ORDERS);
    choose_salt(ep);
    return 0;
}

static void closed(struct message_ep *ep)
{
    srd_transfers_finish(srd_ep_of(ep));
    srd_implicit_finish(srd_ep_of(ep));
    peer_map_finish(&srd_ep_of(ep)->by_lower);
}

static const struct message_wire wire = {
    .domain = {MESSAGE_DOMAIN, .lower_info = srd_lower_info, .init = srd_domain_init},
    .name = "srd",
    .contexts = 1,
    .ep_size = sizeof(struct srd_ep),
    .op_size = sizeof(struct srd_op),
    .packet_size = sizeof(struct srd_packet),
    .options = srd_options,
    .common_atomics = true,
    .holds_back = true,
    .operand_size = srd_operand_size,
    .own_size = srd_name_own_size,
    .usable = usable,
    .open = open_ep,
    .prepare = prepare,
    .named = named,
    .bye = srd_bye,
    .closed = closed,
    .hash = srd_hash,
    .is_named = srd_peer_is_named,
    .address = srd_peer_address,
    .text = srd_peer_text,
    .peer_at = srd_peer_at,
    .peer_new = srd_peer_new,
    .peer_open = srd_peer_open,
    .addressed = srd_peer_addressed,
    .removed = srd_life_removed,
    .peer_close = srd_peer_close,
    .peer_reset = srd_peer_reset,
    .ask = srd_out_force,
    .flush = srd_flush,
    .sent = srd_sent,
    .dropped = srd_dropped,
    .code = srd_error_code,
    .written = srd_written,
    .packet = srd_in_packet,
    .run = srd_run,
    .start = srd_start,
    .is_over = srd_op_is_over,
    .op_stays = srd_op_stays,
    .op_put = srd_op_put,
    .piece_room = srd_piece_room,
    .burst = srd_burst_data,
    .piece = srd_piece,
    .pull = srd_pull,
    .lost = srd_access_lost,
    .place = srd_message_place,
    .go_on = srd_message_go_on,
    .answer = srd_message_answer,
    .failing = srd_message_failing,
    .inbound_put = srd_message_put,
    .done = srd_access_done,
    .refuse = srd_access_refuse,
    .result = srd_access_result,
    .read = srd_access_read,
};

int srd_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return lower_fabric_open(args, &wire.domain, fabric, context);
}
