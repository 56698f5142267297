/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of srd: messages, remote memory and atomics over reliable packets, on the wire of
 * libfabric's efa, and with the rooms of core/layer/message_ep.h. docs/design/srd.md has the whole.
 *
 *   srd_ep      endpoints, and the table       srd_post     operations become requests
 *   srd_peer    peers, and their ends          srd_out      packets out
 *   srd_in      packets in                     srd_message  messages meet their receives
 *   srd_move    bytes that are asked for       srd_remote   accesses, at their target
 */
#ifndef WEFT_LAYERS_SRD_SRD_H
#define WEFT_LAYERS_SRD_SRD_H

#include "core/base/hash.h"
#include "core/base/reorder.h"
#include "core/layer/message_wire.h"
#include "core/part/part.h"
#include "layers/srd/srd_name.h"
#include "layers/srd/srd_wire.h"

enum {
    SRD_INJECT = 4096,
    SRD_PACKET_MOST = 65536, /* bytes of the largest packets that it makes */
    SRD_FORGOTTEN = 4,       /* former connids of a peer that are remembered */
};

/* prov_errno under the names of libfabric's efa, as SRD_PEER_ERROR carries it. */
enum srd_error {
    SRD_ERR_OTHER = 4096,
    SRD_ERR_NO_MEMORY = 4105,
    SRD_ERR_ADDRESS = 4111, /* no such key, or right */
    SRD_ERR_SIZE = 4115,    /* beyond the end of its memory */
    SRD_ERR_DATATYPE = 4118,
    SRD_ERR_ABORTED = 4127,
};

/* Memory of one packet, out or in. */
struct srd_packet {
    struct message_packet base; /* len: with the lower's prefix */
    _Alignas(8) uint8_t bytes[];
};

/* Bytes of a message without a receive. */
struct srd_piece {
    struct srd_piece *next;
    size_t offset, len;
    uint8_t bytes[];
};

struct srd_inbound {
    struct message_inbound base;
    UT_hash_handle hh; /* of peer->partial, by msg_id, while packets of it are to come */
    struct srd_piece *pieces;
    bool partial; /* it is in peer->partial */
    uint8_t type;
    uint32_t msg_id, send_id;
    size_t runt; /* bytes that come without being asked for */
};

/* A failure that a peer is told of when it has said that it understands it. */
struct srd_refusal {
    struct srd_refusal *next;
    uint32_t id;
    int error;
};

struct srd_peer {
    struct message_peer base;
    struct srd_name name;
    int dead; /* nothing goes any more until it starts again */
    /* Identity */
    bool known; /* connid is */
    uint32_t connid, forgotten[SRD_FORGOTTEN];
    unsigned forgotten_count; /* of all */
    bool greeted;             /* our HANDSHAKE was sent */
    bool forced;              /* it was asked for its */
    bool introduced;          /* it has sent it: `features` */
    uint64_t features;
    struct srd_refusal *refusals; /* until then */
    /* Out */
    uint32_t next_msg;
    /* In */
    struct reorder early; /* struct srd_packet.base.link: ahead of their turn */
    size_t early_bytes;
    struct srd_inbound *partial;
};

struct srd_ep {
    struct message_ep base;
    uint8_t name[SRD_ADDR_SIZE]; /* as packets carry it, with the connid */
    uint32_t connid;
    bool ordered;
    bool efa;       /* addresses are EFA's: a connid is of an address */
    size_t window;  /* bytes that one CTS grants */
    size_t credits; /* packets of it */
    size_t medium;  /* bytes of the largest message that is sent without being asked for */
    struct peer_map by_lower; /* by the lower's addresses */
};

static inline struct srd_ep *srd_ep_of(const struct message_ep *ep)
{
    return object_of(ep, struct srd_ep, base);
}

static inline struct srd_peer *srd_peer_of(const struct message_peer *peer)
{
    return object_of(peer, struct srd_peer, base);
}

static inline struct srd_packet *srd_packet_of(const struct message_packet *packet)
{
    return object_of(packet, struct srd_packet, base);
}

static inline struct srd_inbound *srd_inbound_of(const struct message_inbound *inbound)
{
    return object_of(inbound, struct srd_inbound, base);
}

/* ---- srd_info.c, srd_ep.c ---- */

int srd_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);
int srd_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info);
/* Bytes of one operand of an atomic over that lower. */
size_t srd_operand_size(const struct fi_info *lower);
int srd_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context);

/* ---- srd_peer.c: entries of struct message_wire ---- */

uint64_t srd_hash(const void *name);
bool srd_peer_is_named(const struct message_peer *peer, const void *name);
void srd_peer_address(const struct message_peer *peer, uint32_t format, union addr_raw *raw);
char *srd_peer_text(const struct message_peer *peer, char text[ADDR_TEXT_MAX]);
struct message_peer *srd_peer_at(struct message_ep *ep, const void *raw, int *rc);
struct message_peer *srd_peer_new(const void *name);
int srd_peer_open(struct message_peer *peer);
void srd_peer_close(struct message_peer *peer);
void srd_peer_reset(struct message_peer *peer, int err);

/* ---- srd_post.c ---- */

ssize_t srd_start(struct message_peer *peer, const struct message_posting *posting);
bool srd_op_is_over(const struct message_op *op);

/* ---- srd_out.c ---- */

/* Queues a packet, header->len bytes of which the caller writes where the result says; NULL without
 * memory. The sender is added to the header. move: it is of that one, or NULL. */
uint8_t *srd_out(struct message_peer *peer, struct srd_header *header, struct message_move *move);
/* Bytes of payload that fit a request with this header to the peer as it is known now. */
size_t srd_out_room(const struct srd_peer *peer, const struct srd_header *header);
/* A packet without payload. Breaks the peer without memory. */
void srd_out_control(struct message_peer *peer, struct srd_header *header);
/* Our HANDSHAKE; and a request for the peer's, which introduces us. */
void srd_out_handshake(struct srd_peer *peer);
void srd_out_force(struct message_peer *peer);
void srd_out_receipt(struct message_peer *peer, uint32_t send_id, uint32_t msg_id);
/* Tells a peer that understands it that its operation has failed, when it has sent its HANDSHAKE,
 * which the request may have overtaken. */
void srd_out_error(struct srd_peer *peer, uint32_t id, int prov_errno);
/* Gives back refusals that have waited; told: they are sent, if the peer understands them. */
void srd_out_refusals(struct srd_peer *peer, bool told);
/* Sends what the lower takes; more: other packets follow at once. */
void srd_flush(struct message_peer *peer, bool more);
void srd_run(struct message_peer *peer);
void srd_dropped(struct message_packet *packet);

/* ---- srd_in.c ---- */

enum message_fate srd_in_packet(struct message_packet *packet, fi_addr_t src);
/* NULL, and the header of a packet; or what is wrong with it. */
const char *srd_in_header(const struct message_packet *packet, struct srd_header *header);
/* Of a peer whose order of packets is lost: a request that waits for an answer gets one. */
void srd_refuse(struct srd_peer *peer, const struct srd_header *header);

/* ---- srd_move.c ---- */

size_t srd_piece_room(const struct message_peer *peer);
bool srd_piece(struct message_move *move, size_t len);
void srd_pull(struct message_taker *taker);
/* A packet of the peer's about bytes that move: what is wrong with it, or NULL. */
const char *srd_move_cts(struct message_peer *peer, const struct srd_header *header);
const char *srd_take_data(struct message_peer *peer, const struct srd_header *header);
const char *srd_take_response(struct message_peer *peer, const struct srd_header *header);

/* ---- srd_message.c ---- */

/* A packet of a message: the first one, or a further one. */
const char *srd_message(struct srd_peer *peer, const struct srd_header *header);
/* Is it a further packet of a message that has begun to come? */
bool srd_message_goes_on(struct srd_peer *peer, const struct srd_header *header);
void srd_message_place(struct message_inbound *inbound);
void srd_message_go_on(struct message_inbound *inbound);
void srd_message_answer(struct message_inbound *inbound);
/* Tells the senders of all messages that wait for more of them, or for a receipt. */
void srd_messages_refuse(struct srd_peer *peer);
bool srd_message_failing(struct message_inbound *inbound);
void srd_message_put(struct message_inbound *inbound);

/* ---- srd_remote.c ---- */

const char *srd_remote(struct message_peer *peer, const struct srd_header *header);
void srd_access_done(struct message_peer *peer, const struct message_request *request);
void srd_access_refuse(struct message_peer *peer, const struct message_request *request, int err);
const char *srd_access_result(struct message_peer *peer, const struct message_request *request,
                              const uint8_t *bytes, size_t len);
const char *srd_access_read(struct message_peer *peer, const struct message_request *request,
                            struct remote *remote);
const char *srd_access_lost(struct message_access *access);

#endif
