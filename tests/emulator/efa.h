/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices of the kind EFA (NAME:efa in WEFT_EMULATOR_DEVICES): one port with one GID, that of the
 * emulated host (WEFT_EMULATOR_HOST), numbers of queue pairs of 16 bits, numbers of address
 * handles, and queue pairs of reliable datagrams in any order (SRD). libefa.so.1 is a front to
 * these functions. Reads and writes of remote memory (srd_rdma.c) are there with the limit `rdma`,
 * and data of writes that takes no receive with `unsolicited`, as newer devices have it.
 */
#ifndef WEFT_EMULATOR_EFA_H
#define WEFT_EMULATOR_EFA_H

#include <infiniband/efadv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "wire.h"

struct cq;
struct device;
struct iovec;
struct link;
struct qp;
struct send_wr;

enum {
    EFA_MTU = 8928,
    EFA_INLINE = 32,
    EFA_SGE = 2,
    EFA_SGE_RDMA = 1,
    EFA_SENDS = 4096,
    EFA_RECEIVES = 8192,
    EFA_NUMBER_BITS = 16, /* of a queue pair's: the process, then its place there */
    EFA_NO_AHN = 0xffff,
    EFA_VENDOR = 0x1d0f,
    EFA_PART = 0xefa1,
    EFA_RDMA = 1 << 30, /* bytes of a read or write, at most */
    /* Newer than efadv.h of rdma-core 44: of device_caps, of a queue, of a queue pair. */
    EFA_CAP_WRITE = 1 << 3,
    EFA_CAP_UNSOLICITED = 1 << 4,
    EFA_CAP_COUNTERS = 1 << 6,
    EFA_CQ_UNSOLICITED = 1 << 1,
    EFA_QP_UNSOLICITED = 1 << 0,
};

/* Codes of a completion, which vendor_err shows. */
enum efa_status {
    EFA_OK = 0,
    EFA_FLUSHED = 1,
    EFA_BAD_OPERATION = 3,
    EFA_BAD_LKEY = 5,
    EFA_LOCAL_LENGTH = 6,
    EFA_BAD_ADDRESS = 7,
    EFA_ABORTED = 8,
    EFA_BAD_QPN = 9,
    EFA_RNR = 10,
    EFA_BAD_LENGTH = 11,
    EFA_BAD_STATUS = 12,
    EFA_UNRESPONSIVE = 13,
    EFA_UNKNOWN_PEER = 14, /* the target of a read or write has no address handle of its sender */
    EFA_UNREACHABLE = 15,
    EFA_MISMATCH = 18, /* the ends of a write with data differ in `unsolicited` */
};

/* Bits of a number that count the queue pairs of a process (limit place_bits, 6 to 14). */
unsigned efa_place_bits(void);

/* Numbers of queue pairs: as programs see them, and on the wire. */
static inline uint32_t efa_wire_number(uint32_t number)
{
    unsigned bits = efa_place_bits();

    return number >> bits << WIRE_PLACE_BITS | (number & ((1u << bits) - 1));
}

static inline uint32_t efa_number(uint32_t wire)
{
    unsigned bits = efa_place_bits();

    return wire >> WIRE_PLACE_BITS << bits | (wire & ((1u << bits) - 1));
}

/* Of an address handle: its number, the same for all of a GID in a protection domain. Or -1: there
 * are too many. The lock is held. */
int efa_ah_hold(struct ibv_pd *pd, const union ibv_gid *gid);
void efa_ah_release(int ahn);
/* EFA_NO_AHN: there is none. The lock is held. */
unsigned efa_ah_find(const struct ibv_pd *pd, const void *gid);

/* Fills in what of a device is not as elsewhere. */
void efa_make_port(struct device *device);
void efa_fill_device(struct ibv_device_attr *attr);
void efa_fill_port(struct ibv_port_attr *attr);

/* As newer releases of efadv.h have it: the interconnects by which a region is reached. */
struct efa_mr_attr {
    uint64_t comp_mask;
    uint16_t ic_id_validity, recv_ic_id, rdma_read_ic_id, rdma_recv_ic_id;
};

/* Behind libefa.so.1. Values as of the functions of efadv.h. */
int efa_query_mr(struct ibv_mr *mr, struct efa_mr_attr *attr, uint32_t size);
int efa_query_device(struct ibv_context *context, struct efadv_device_attr *attr, uint32_t size);
int efa_query_ah(struct ibv_ah *ah, struct efadv_ah_attr *attr, uint32_t size);
struct ibv_qp *efa_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                             const struct efadv_qp_init_attr *efa, uint32_t size);
struct ibv_cq_ex *efa_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
                                const struct efadv_cq_init_attr *efa, uint32_t size);
struct efadv_cq *efa_cq_of(struct ibv_cq_ex *cq);

/* Queue pairs of SRD (srd.c). The lock is held. */
void srd_pump(struct qp *qp);
/* A request waits until there is room in the link to its peer. */
void srd_await_link(struct qp *qp, struct link *link);
void srd_receive(struct qp *qp, const struct wire_packet *packet, const void *payload);
/* Tells the sender what became of its packet. */
void srd_answer(const struct wire_packet *packet, enum efa_status status);
void srd_answered(struct qp *qp, const struct wire_packet *packet, const void *payload);
/* The same to a read that succeeds, with its piece of the data. */
void srd_answer_data(const struct wire_packet *packet, struct iovec *piece);
/* The process is gone: requests that it has not answered fail. */
void srd_peer_gone(struct qp *qp, unsigned node);
/* Packets that have come and wait to be overtaken have no queue pair any more: their senders are
 * told. */
void srd_drop_held(struct qp *qp);

/* Reads and writes (srd_rdma.c). The lock is held. */
enum srd_end {
    SRD_GOES_ON,
    SRD_SENDS_AGAIN, /* there is more to send */
    SRD_ENDS,
};

bool srd_is_rdma(enum ibv_wr_opcode opcode);
/* Sends what can be sent now; false if the link is full. */
bool srd_rdma_send(struct qp *qp, struct send_wr *wr, uint32_t mark, struct link *link);
/* An answer to one piece. */
enum srd_end srd_rdma_answered(struct qp *qp, struct send_wr *wr, const struct wire_packet *packet,
                               const void *payload);
/* A piece of a request, but for immediate data. */
void srd_rdma_receive(struct qp *qp, const struct wire_packet *packet, const void *payload);

#endif
