/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of endpoints that only srd has, and the table. */
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/layer/message_domain.h"
#include "layers/srd/srd.h"

enum {
    AHEAD = 64 /* packets of one operation with the lower */
};

#define ATOMIC_ORDERS                                                                              \
    ((uint64_t)(FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |                  \
                FI_ORDER_ATOMIC_WAW))

/* ---- Addresses ---- */

static size_t own_size(const struct fi_info *lower)
{
    return lower->addr_format == FI_ADDR_EFA ? SRD_ADDR_SIZE : 0;
}

static bool usable(const struct lower_domain *domain, const void *address)
{
    struct srd_name name;

    return !srd_name_import(FI_ADDR_EFA, address, SRD_ADDR_SIZE, &name);
}

static int named(struct message_ep *base, const union addr_raw *raw, size_t len)
{
    struct srd_ep *ep = srd_ep_of(base);
    struct srd_name name;
    int rc = srd_name_import(base->lower_info->addr_format, raw, len, &name);

    if (rc)
        return rc;
    if (ep->efa)
        ep->connid = srd_name_connid(&name);
    srd_name_put(&name, ep->connid, ep->name);
    return 0;
}

/* ---- Endpoints ---- */

/* The connid is below 2^31, as queue keys of programs are. Numbers on the wire have a salt, so that
 * those of another life mean nothing. */
static void choose_numbers(struct srd_ep *ep)
{
    uint32_t numbers[2];

    if (getrandom(numbers, sizeof(numbers), 0) != sizeof(numbers))
        numbers[0] = numbers[1] = (uint32_t)clock_ns();
    ep->connid = numbers[0] & INT32_MAX;
    ep->base.salt = numbers[1];
}

static int open_ep(struct message_ep *base)
{
    struct srd_ep *ep = srd_ep_of(base);
    const struct params *params = base->domain->fabric->plain.params;
    size_t max = base->lower_info->ep_attr->max_msg_size;

    base->packet_size = max < SRD_PACKET_MOST ? max : SRD_PACKET_MOST;
    base->result_room = base->result_most = base->packet_size - SRD_RESPONSE_HEAD;
    base->ahead = AHEAD;
    ep->efa = base->lower_info->addr_format == FI_ADDR_EFA;
    ep->credits = (size_t)params_int(params, "window");
    ep->medium = params_size(params, "medium");
    ep->window = ep->credits * (base->packet_size - SRD_DATA_HEAD);
    ep->ordered = base->info->rx_attr->msg_order & (FI_ORDER_SAS | ATOMIC_ORDERS);
    choose_numbers(ep);
    return 0;
}

static void closed(struct message_ep *ep)
{
    peer_map_finish(&srd_ep_of(ep)->by_lower);
}

static const struct message_wire wire = {
    .domain = {MESSAGE_DOMAIN, .lower_info = srd_lower_info},
    .name = "srd",
    .contexts = 1,
    .ep_size = sizeof(struct srd_ep),
    .op_size = sizeof(struct message_op),
    .packet_size = sizeof(struct srd_packet),
    .holds_back = true,
    .operand_size = srd_operand_size,
    .own_size = own_size,
    .usable = usable,
    .open = open_ep,
    .named = named,
    .closed = closed,
    .hash = srd_hash,
    .is_named = srd_peer_is_named,
    .address = srd_peer_address,
    .text = srd_peer_text,
    .peer_at = srd_peer_at,
    .peer_new = srd_peer_new,
    .peer_open = srd_peer_open,
    .peer_close = srd_peer_close,
    .peer_reset = srd_peer_reset,
    .ask = srd_out_force,
    .flush = srd_flush,
    .sent = message_packet_sent,
    .dropped = srd_dropped,
    .packet = srd_in_packet,
    .run = srd_run,
    .start = srd_start,
    .is_over = srd_op_is_over,
    .piece_room = srd_piece_room,
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
