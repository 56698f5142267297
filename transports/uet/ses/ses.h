/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Semantics (SES): messages, accesses of remote memory and atomics as packets of PDS, and back.
 * Pure, as PDS is, which it owns: packets and `now` come in, packets and upcalls go out. Payloads
 * are copied once, at their receiver, from the packet to where they belong, in whatever order they
 * come. No lock. Source: Ultra Ethernet 1.0.1, section 3.4.
 *
 * Upcalls may call all functions here but ses_receive, ses_run and ses_destroy.
 */
#ifndef WEFT_UET_SES_SES_H
#define WEFT_UET_SES_SES_H

#include "transports/uet/pds/pds.h"

enum {
    SES_IOV = 4,
    SES_MESSAGES = 4096, /* under way at a time */
};

/* Each request names its sender and its target so. */
struct ses_identity {
    uint32_t job, initiator;
    uint16_t pid, index;
    uint8_t generation;
    bool absolute; /* pid is of the node, not of the job */
};

struct ses_settings {
    struct pds_settings pds;
    struct ses_identity self;
    uint32_t mtu;      /* bytes of a packet's payload, at most; at most 16383 */
    uint32_t ack_data; /* Max_ACK_Data_Size: shorter reads come with their acknowledgement */
    size_t saved;      /* bytes of messages without a receive that are kept */
    bool datagrams;    /* nothing but datagrams is taken */
};

/* Where to. */
struct ses_target {
    union addr to;
    uint32_t job; /* that both are of */
    uint16_t pid, index;
    uint8_t generation; /* of that index */
    uint8_t mode;       /* enum pds_mode; PDS_MODE_RUDI: of writes without data, and reads */
    uint8_t tclass;
    bool absolute; /* its pid is of the node, not of the job */
    bool brief;    /* it takes small and medium headers */
};

/* An initiator, as its requests name it. */
struct ses_initiator {
    const union addr *from;
    uint32_t job, initiator;
    bool repeats; /* by RUDI: the access may come again, though it is done */
};

/* An operation of this side, in memory of the caller's until `ended`. The fields above the line
 * are the caller's, and stay as they are. */
struct ses_op {
    struct ses_target target;
    uint8_t opcode; /* enum ses_opcode */
    uint8_t flags;  /* SES_DC, SES_HD */
    bool patient;   /* no caller waits for its end, which may come with others' */
    uint64_t offset, key, data;
    uint32_t length;
    uint32_t eager; /* of a rendezvous: bytes that go with it; its receiver reads the others */
    struct iovec iov[SES_IOV]; /* payload; of reads where it goes to; of atomics the operands */
    uint8_t iov_count;
    struct iovec result[SES_IOV]; /* of fetching atomics */
    uint8_t result_count;
    struct {
        uint8_t opcode, datatype;
        struct ses_wide compare, swap;
    } atomic;
    /* -------- */
    struct pds_source source;
    struct list link;
    uint64_t number;       /* IDS_NONE: none */
    struct list by_packet; /* of a read without a message id: those of its only packet: */
    uint64_t packet;
    uint32_t filled, got, packets, ended;
    uint32_t mtu;              /* of its packets */
    unsigned lent;             /* answers to reads of a rendezvous, in its memory */
    struct ses_inbound *pulls; /* SES's own read, for that message; NULL: the caller's */
    struct ses_inbound *asks;  /* SES's own wish that the message is sent anew; the same */
    struct {
        uint64_t first;  /* number of the first attempt, and its token; IDS_NONE: this is it */
        uint32_t target; /* the target's token; 0: it has not asked */
        bool waits;      /* until the target has a receive: it keeps nothing of the message */
        bool asked;      /* it has one */
    } defer;
    bool gave_all, holds;
    bool tells;   /* its target is to be told that the rest will not come (MSG_ERROR) */
    uint8_t code; /* enum ses_code: of the first packet that failed */
};

/* A message that has come, or its first packet. The fields above the line tell the upper what it
 * is. */
struct ses_inbound {
    union addr from;
    uint32_t job, initiator;
    bool tagged, has_data;
    uint64_t tag, data;
    uint32_t length;
    void *upper; /* the argument of ses_create */
    void *entry; /* the upper's */
    /* -------- */
    struct list link;
    uint32_t received, carried; /* carried: bytes that it brings; of a rendezvous not all */
    struct {
        uint64_t key, offset;
        uint32_t done; /* bytes that were read */
        uint16_t pid, index;
        uint8_t generation;
    } pull; /* where the others are */
    struct {
        bool waits; /* nothing of it was kept: its sender has it */
        bool ended; /* the last packet has come, which says how much was sent: */
        uint32_t end;
        uint32_t initiator; /* the sender's token */
        uint64_t token;     /* ours; IDS_NONE: there is none yet */
        struct ses_op *ask; /* that it is sent anew */
    } defer;
    uint16_t id;
    uint8_t opcode, code;
    bool tracked, matched, complete, delivered_later, lost;
    struct pds_ref pdc;
    struct pds_ticket ticket; /* with delivered_later: the sender waits for delivery */
    const struct iovec *iov;
    size_t iov_count;
    uint8_t *saved;
};

enum ses_match {
    SES_MATCHED,   /* iov and iov_count are set: memory that stays until `received` */
    SES_UNMATCHED, /* kept (ses_keep); ses_start or ses_discard follows, perhaps at once */
    SES_NO_ROOM,   /* its sender keeps it, and tries again */
};

/* Memory that a read lends to SES. */
struct ses_lent {
    struct iovec iov[PDS_IOV];
    size_t count;
    void *held;        /* the upper's */
    struct ses_op *op; /* SES's: it is memory of that one, not of the upper's */
};

/* An access by a peer that is done. */
struct ses_access {
    union addr from;
    uint32_t job, initiator, length;
    uint8_t opcode;
    bool has_data, fetching, changes; /* of an atomic */
    uint64_t data, key, offset;
};

struct ses_ops {
    void (*transmit)(void *arg, const union addr *to, const struct iovec *iov, size_t count,
                     bool control);
    /* The payload of packets between the two, which messages are cut at; at most mtu. NULL: mtu. */
    uint32_t (*payload)(void *arg, const union addr *peer);
    void (*ended)(void *arg, struct ses_op *op, enum ses_code code);
    enum ses_match (*message)(void *arg, struct ses_inbound *inbound);
    /* A matched message has come, or will not (code is not RC_OK). inbound is gone afterwards. */
    void (*received)(void *arg, struct ses_inbound *inbound, enum ses_code code);
    /* May peers of the job speak with this side? NULL: those of its own. */
    bool (*admits)(void *arg, uint32_t job);
    /* Accesses: RC_OK, or why not. */
    enum ses_code (*write)(void *arg, const struct ses_initiator *who, uint64_t key,
                           uint64_t offset, const uint8_t *bytes, size_t len);
    enum ses_code (*read)(void *arg, const struct ses_initiator *who, uint64_t key, uint64_t offset,
                          size_t len, struct ses_lent *lent);
    /* No packet names it any more. held NULL: it was a copy of SES's (ses_take_back). */
    void (*give_back)(void *arg, struct ses_lent *lent);
    /* result has room for mtu bytes; *result_len is set for fetching ones. */
    enum ses_code (*atomic)(void *arg, const struct ses_initiator *who,
                            const struct ses_request *request, const uint8_t *operands, size_t len,
                            uint8_t *result, size_t *result_len);
    void (*accessed)(void *arg, const struct ses_access *access);
    /* The same of an atomic whose target is a receive, the pieces at iov: request->offset is one in
     * there. *result_len: always the bytes of the target. iov NULL: is there such an operation, of
     * a right size? That is asked before a receive is taken. RC_TOO_LONG: the receive is too short.
     * NULL: there are none. */
    enum ses_code (*tagged_atomic)(void *arg, const struct ses_request *request,
                                   const uint8_t *operands, size_t len, const struct iovec *iov,
                                   size_t count, uint8_t *result, size_t *result_len);
};

/* Requests that were not carried out, by the code of their answer (enum ses_code). */
struct ses_counters {
    uint64_t refused[SES_CODES];
    uint64_t ignored;  /* data and datagrams that nothing here asked for, or that are no such */
    uint64_t given_up; /* messages whose targets were told so (MSG_ERROR) */
};

struct ses;

struct ses *ses_create(const struct ses_settings *settings, const struct ses_ops *ops, void *arg,
                       uint64_t seed);
/* All ends, with upcalls. Takes NULL. */
void ses_destroy(struct ses *ses);

/* Starts an operation. False: as many as can be are under way. */
bool ses_start_op(struct ses *ses, struct ses_op *op);
/* Sends a datagram (UUD): of op target, flags, data, length and payload, which may go when what the
 * transmit upcall was given has left. At most mtu bytes. */
void ses_datagram(struct ses *ses, const struct ses_op *op);

/* Peers need that generation for new requests from now on; `disabled`: they are refused. Operations
 * under way go on. */
void ses_set_generation(struct ses *ses, uint8_t generation, bool disabled);

/* From inside of `message`: there is no receive yet, the message is to be kept. False: there is no
 * room, or no memory. */
bool ses_keep(struct ses *ses, struct ses_inbound *inbound);
/* A kept message has its receive. `received` may be called before it returns. */
void ses_start(struct ses *ses, struct ses_inbound *inbound, const struct iovec *iov, size_t count);
/* A kept message is not wanted. */
void ses_discard(struct ses *ses, struct ses_inbound *inbound);

void ses_receive(struct ses *ses, uint64_t now, const union addr *from, const uint8_t *bytes,
                 size_t len, bool marked);
void ses_run(struct ses *ses, uint64_t now);
/* Sends what may be sent of an operation that was just started; ses_run is due at once. */
void ses_push(struct ses *ses, uint64_t now, const struct ses_op *op);
uint64_t ses_deadline(const struct ses *ses);
/* Operations of this side that have not ended. */
size_t ses_busy(const struct ses *ses);
struct pds *ses_pds(struct ses *ses);
const struct ses_counters *ses_counters(const struct ses *ses);

/* The owner of what was lent with that `held` (not NULL) wants it back: the data of it that peers
 * may still need is copied, and all of it is given back before the call returns. A read whose data
 * finds no memory is told so. */
void ses_take_back(struct ses *ses, const void *held);

/* A sentence about a return code; NULL for those that there are not. */
const char *ses_code_text(int code);
/* The pieces of [at, at + len): how many. */
size_t ses_slice(const struct iovec *iov, size_t count, size_t at, size_t len,
                 struct iovec out[PDS_IOV]);

#endif
