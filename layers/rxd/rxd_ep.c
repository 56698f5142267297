/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of endpoints that only rxd has, and the table. */
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/info/info.h"
#include "core/layer/message_domain.h"
#include "layers/rxd/rxd.h"

enum {
    AHEAD_LEAST = 32, /* packets of data asked for in advance */
    AHEAD_MOST = 256,
    INDEX_BITS = 20,
};

/* ---- Addresses ---- */

static size_t own_size(const struct fi_info *lower)
{
    return rxd_name_is_own(lower->addr_format) ? lower->src_addrlen : 0;
}

static bool usable(const struct lower_domain *domain, const void *address)
{
    struct own_addr addr = {.bytes = address, .len = own_size(domain->lower_info)};

    return !fi_control(&domain->lower->fid, CONTROL_ADDR, &addr);
}

/* Peers know an endpoint of every interface by one address or another, so it says none. */
static void forget_interface(const struct fi_info *lower, union addr *name)
{
    union addr bound;

    if (addr_import(lower->addr_format, lower->src_addr, lower->src_addrlen, &bound) ||
        !addr_is_any(&bound.sa))
        return;
    addr_set_port(&bound.sa, addr_port(&name->sa));
    *name = bound;
}

static int named(struct message_ep *base, const union addr_raw *raw, size_t len)
{
    struct rxd_ep *ep = rxd_ep_of(base);
    int rc = rxd_name_import(base->lower_info->addr_format, raw, len, &ep->name);

    if (rc)
        return rc;
    if (!ep->name.own_len) {
        forget_interface(base->lower_info, &ep->name.addr);
        return 0;
    }
    memcpy(ep->own_name, raw->own, ep->name.own_len);
    ep->name.own = ep->own_name;
    return 0;
}

/* ---- Endpoints ---- */

static unsigned ahead_of(size_t room)
{
    unsigned ahead = RXD_AHEAD / (unsigned)room;

    return ahead < AHEAD_LEAST ? AHEAD_LEAST : ahead > AHEAD_MOST ? AHEAD_MOST : ahead;
}

/* Number 0 is no peer's. */
static int open_ep(struct message_ep *base)
{
    struct rxd_ep *ep = rxd_ep_of(base);
    const struct fi_info *lower = base->lower_info;
    size_t max = lower->ep_attr->max_msg_size;

    list_init(&ep->reading);
    list_init(&ep->owing);
    ids_init(&ep->numbers, INDEX_BITS, 32);
    rxd_life_salt(ep);
    ep->heads = rxd_heads(lower);
    ep->room = (max < RXD_PAYLOAD_MAX ? max : RXD_PAYLOAD_MAX) - ep->heads;
    /* Contexts are closed one by one, so nothing of theirs is with the lower, which stays. */
    ep->gathers = !base->rx && !(info_mr_bits(lower) & FI_MR_LOCAL) &&
                  lower->tx_attr->iov_limit > MESSAGE_IOV;
    ep->reads = !base->rx && lower->caps & FI_RMA;
    base->packet_size = ep->heads + ep->room;
    base->result_room = ep->room - RXD_RECORD_SIZE;
    base->result_most = REMOTE_OPERAND;
    base->ahead = ahead_of(ep->room);
    base->spares_wanted = 1 + REMOTE_OPERAND / (unsigned)base->result_room; /* for one request */
    return ids_add(&ep->numbers, ep) == IDS_NONE ? -FI_ENOMEM : 0;
}

/* Questions and answers to what was read leave with its acknowledgements. */
static void answer(void *arg)
{
    message_run(arg);
}

/* A lower that can shows packets where they lie; else they are copied into receives. */
static void read_in_place(struct message_ep *ep)
{
    const struct packet_reader reader = {
        .of = ep->lower,
        .room = RXD_ROOM,
        .read = rxd_in_read,
        .read_parts = rxd_in_read_parts,
        .answer = answer,
        .arg = ep,
    };

    if (ep->prefix ||
        fi_setopt(&ep->lower->fid, FI_OPT_ENDPOINT, OPT_READER, &reader, sizeof(reader)))
        return;
    ep->receives = 0;
    rxd_ep_of(ep)->in_place = true;
}

/* The bytes that its lower reads at once; none, where it says nothing of accesses by themselves. */
static size_t read_max(const struct rxd_ep *ep)
{
    size_t most = 0, size = sizeof(most);

    if (!ep->reads ||
        fi_getopt(&ep->base.lower->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_RMA_SIZE, &most, &size))
        return 0;
    return most;
}

/* Does it know how to stop a read? */
static bool stops(const struct rxd_ep *ep)
{
    void *none = NULL;

    return ep->read_max &&
           !fi_setopt(&ep->base.lower->fid, FI_OPT_ENDPOINT, OPT_STOP_READ, &none, sizeof(none));
}

/* Is another endpoint at a peer's address told from it by the lower? */
static bool has_sessions(const struct message_ep *ep)
{
    size_t yes = 0, size = sizeof(yes);

    return !fi_getopt(&ep->lower->fid, FI_OPT_ENDPOINT, OPT_SESSIONS, &yes, &size) && yes;
}

static void prepare(struct message_ep *base)
{
    read_in_place(base);
    rxd_ep_of(base)->read_max = read_max(rxd_ep_of(base));
    rxd_ep_of(base)->stops = stops(rxd_ep_of(base));
    base->counts = !has_sessions(base);
    if (!base->rx)
        rxd_short_enable(rxd_ep_of(base));
}

static void closed(struct message_ep *base)
{
    struct rxd_ep *ep = rxd_ep_of(base);

    if (ep->reading.next)
        rxd_read_finish(ep);
    ids_finish(&ep->numbers);
}

static const struct message_wire wire = {
    .domain = {MESSAGE_DOMAIN, .lower_info = rxd_lower_info},
    .name = "rxd",
    .contexts = RXD_CONTEXTS,
    .ep_size = sizeof(struct rxd_ep),
    .op_size = sizeof(struct rxd_op),
    .packet_size = sizeof(struct rxd_packet),
    .operand_size = rxd_operand_size,
    .own_size = own_size,
    .usable = usable,
    .open = open_ep,
    .prepare = prepare,
    .named = named,
    .bye = rxd_bye,
    .closed = closed,
    .hash = rxd_hash,
    .is_named = rxd_peer_is_named,
    .address = rxd_peer_address,
    .text = rxd_peer_text,
    .peer_at = rxd_peer_at,
    .peer_new = rxd_peer_new,
    .peer_open = rxd_peer_open,
    .removed = rxd_life_removed,
    .peer_close = rxd_life_close,
    .peer_reset = rxd_peer_reset,
    .ask = rxd_peer_ask,
    .second = rxd_life_second,
    .flush = rxd_flush,
    .sent = rxd_sent,
    .dropped = rxd_dropped,
    .packet_copy = rxd_packet_copy,
    .packet = rxd_in_packet,
    .run = rxd_run,
    .start = rxd_start,
    .is_over = rxd_op_is_over,
    .op_stays = rxd_op_stays,
    .op_put = rxd_op_put,
    .give_up = rxd_op_give_up,
    .piece_room = rxd_piece_room,
    .piece = rxd_piece,
    .pull = rxd_pull,
    .lost = rxd_access_lost,
    .place = rxd_message_place,
    .go_on = rxd_message_go_on,
    .answer = rxd_message_answer,
    .failing = rxd_message_failing,
    .inbound_stays = rxd_message_stays,
    .done = rxd_access_done,
    .refuse = rxd_access_refuse,
    .result = rxd_access_result,
    .read = rxd_access_read,
    .fetch = rxd_read_write,
    .unfetch = rxd_unread_write,
    .unlend = rxd_loan_end,
};

int rxd_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return lower_fabric_open(args, &wire.domain, fabric, context);
}
