/* SPDX-License-Identifier: BSD-2-Clause */
/* The differences between layers of message_ep.h: how packets are written and read. */
#ifndef WEFT_CORE_LAYER_MESSAGE_WIRE_H
#define WEFT_CORE_LAYER_MESSAGE_WIRE_H

#include "core/layer/message_ep.h"

/* The use of a packet that has come. */
enum message_fate {
    MESSAGE_OVER,  /* it is free */
    MESSAGE_LATER, /* there is no memory for its peer now */
    MESSAGE_KEPT,  /* the wire has it, in a list by its link, where a copy may take its place */
};

/* A layer's description. Entries that may be NULL say so. */
struct message_wire {
    struct lower_domain_type domain;      /* MESSAGE_DOMAIN, and the layer's lower_info */
    const char *name;                     /* in the log */
    size_t ep_size, op_size, packet_size; /* of structs; of a packet without its bytes */
    unsigned contexts;                    /* that a scalable endpoint may have; 1: there are none */
    /* Options of endpoints, MESSAGE_OPTIONS first; NULL: there are no others. */
    const struct endpoint_option *options;
    bool common_atomics; /* no others than those of atomic_is_common */
    bool holds_back;     /* no receives are posted to the lower while too many messages are saved */

    /* Bytes of an operand of an atomic, and of an address that only the lower reads (0: addresses
     * are IP's), over that lower. */
    size_t (*operand_size)(const struct fi_info *lower);
    size_t (*own_size)(const struct fi_info *lower);
    bool (*usable)(const struct lower_domain *domain, const void *address); /* such a one */

    /* An endpoint: lower_info is known; sets packet_size, result_room, result_most and ahead, and
     * its own fields. */
    int (*open)(struct message_ep *ep);
    void (*prepare)(struct message_ep *ep); /* the lower is about to be enabled. May be NULL */
    int (*named)(struct message_ep *ep, const union addr_raw *raw, size_t len); /* its address */
    void (*bye)(struct message_ep *ep);    /* it is being closed: tells all peers. May be NULL */
    void (*closed)(struct message_ep *ep); /* the lower is */

    /* A peer: its name's hash, whether it has that name, its address in a format, and as text. */
    uint64_t (*hash)(const void *name);
    bool (*is_named)(const struct message_peer *peer, const void *name);
    void (*address)(const struct message_peer *peer, uint32_t format, union addr_raw *raw);
    char *(*text)(const struct message_peer *peer, char text[ADDR_TEXT_MAX]);
    /* The peer of an address of the application's AV: message_peer_of; NULL and *rc. */
    struct message_peer *(*peer_at)(struct message_ep *ep, const void *raw, int *rc);
    /* Zeroed memory for a name, which is set; NULL without memory. */
    struct message_peer *(*peer_new)(const void *name);
    int (*peer_open)(struct message_peer *peer); /* it is in the lower's AV. -FI_ENOMEM */
    /* Its place in the application's AV is known, or is another one: peer->addr. An address of its
     * that operations had may have been removed. Both may be NULL. */
    void (*addressed)(struct message_peer *peer);
    void (*removed)(struct message_peer *peer);
    void (*peer_close)(
        struct message_peer *peer); /* before it is dropped, at fi_close. May be NULL */
    /* All that was under way has ended with err: message_peer_drop, and begins anew. */
    void (*peer_reset)(struct message_peer *peer, int err);
    void (*ask)(struct message_peer *peer); /* for a sign of life */
    void (*second)(struct message_ep *ep);  /* has passed, where ep->counts. May be NULL */

    /* Packets out: those that wait, as the lower takes them (message_peer_stall if it does not);
     * more: others follow at once. One is with the lower no more (message_packet_sent). One with
     * the lower is of a peer that ends. */
    void (*flush)(struct message_peer *peer, bool more);
    void (*sent)(struct message_packet *packet, int err);
    void (*dropped)(struct message_packet *packet);
    /* `to` becomes what `from` is, which waits in the peer's `out`. NULL: that ends `len` bytes
     * behind packet_size, and nothing points into it. */
    void (*packet_copy)(struct message_packet *to, const struct message_packet *from);
    /* prov_errno of an operation that ends with err, with ep->code; NULL: err. */
    int (*code)(const struct message_ep *ep, int err);
    /* A peer's lower has written into our memory, and had a receive for the data that tells of it:
     * peers of that wire do that only where it is not NULL. */
    void (*written)(struct message_ep *ep, size_t len, uint64_t data, fi_addr_t src);
    /* A packet in, of more bytes than the prefix. */
    enum message_fate (*packet)(struct message_packet *packet, fi_addr_t src);
    void (*run)(struct message_peer *peer); /* packets that were held back, and flush */

    /* Operations: begins one that was checked; results of fi_send. Nothing of it is outstanding.
     * Must it stay, its end being err, since the lower has its memory? Its memory goes. */
    ssize_t (*start)(struct message_peer *peer, const struct message_posting *posting);
    bool (*is_over)(const struct message_op *op);
    bool (*op_stays)(struct message_op *op, int err); /* may be NULL */
    void (*op_put)(struct message_op *op);            /* may be NULL */
    /* It ends, its bytes with it, while its peer may wait for them; NULL without contexts. */
    void (*give_up)(struct message_op *op);

    /* Bytes: how many of them a packet takes; one is queued, with up to len of them from
     * move->at on (so many; 0 without memory); asks for more, if it is time to. Memory of a peer's
     * write is gone: what is wrong, or NULL, and the access has ended. */
    size_t (*piece_room)(const struct message_move *move);
    /* While none of the peer's packets waits: bytes that may leave, in few instructions each, until
     * the lower is full. False: none of them; then it is done by piece and flush. May be NULL. */
    bool (*burst)(struct message_move *move);
    size_t (*piece)(struct message_move *move, size_t len);
    void (*pull)(struct message_taker *taker);
    const char *(*lost)(struct message_access *access);
    /* The rest of a write comes by the lower's own reads: true, and message_access_fetched follows,
     * perhaps before this returns; it is none that will (the endpoint is being closed). Both may
     * be NULL. */
    bool (*fetch)(struct message_access *access);
    void (*unfetch)(struct message_access *access);
    void (*unlend)(struct message_access *access); /* it ends with a loan; NULL: it has none */

    /* Messages that wait: it is matched, so the saved bytes go to its receive; it goes on (without
     * an entry: it was discarded); it ends, so its sender is told; its peer ends (false: not yet);
     * its memory goes. */
    void (*place)(struct message_inbound *inbound);
    void (*go_on)(struct message_inbound *inbound);
    void (*answer)(struct message_inbound *inbound);
    bool (*failing)(struct message_inbound *inbound);     /* may be NULL */
    void (*inbound_put)(struct message_inbound *inbound); /* may be NULL */
    /* It is over, and in no list; the wire frees its memory itself, since its sender is still to be
     * told. May be NULL. */
    bool (*inbound_stays)(struct message_inbound *inbound);

    /* Accesses, at their target: a write, or an atomic without a result, is done; it is refused
     * with err, positive; the result of an atomic; the bytes of a read, whose regions are taken
     * over. */
    void (*done)(struct message_peer *peer, const struct message_request *request);
    void (*refuse)(struct message_peer *peer, const struct message_request *request, int err);
    const char *(*result)(struct message_peer *peer, const struct message_request *request,
                          const uint8_t *bytes, size_t len);
    const char *(*read)(struct message_peer *peer, const struct message_request *request,
                        struct remote *remote);
};

static inline const struct message_wire *message_wire_of(const struct lower_domain *domain)
{
    return object_of(domain->fabric->type, const struct message_wire, domain);
}

#endif
