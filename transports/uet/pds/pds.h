/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet delivery (PDS): packets of messages go to a peer each once, over packet delivery contexts
 * (PDC), in order (ROD) or in any order (RUD); and datagrams (UUD) at most once. Pure: packets and
 * `now` come in, packets and upcalls go out, and pds_deadline says when pds_run is to be called
 * next. No socket, no clock, no lock. Times are ns. docs/design/uet.md has the states.
 *
 * Upcalls may call pds_submit, pds_answer and pds_hold, which add to what pds_run sends; they may
 * not call pds_receive, pds_run or pds_finish. Source: Ultra Ethernet 1.0.1, section 3.5.
 */
#ifndef WEFT_UET_PDS_PDS_H
#define WEFT_UET_PDS_PDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/base/list.h"
#include "core/net/addr.h"
#include "transports/uet/pds/window.h"
#include "transports/uet/wire/pds_header.h"
#include "transports/uet/wire/ses_header.h"

enum {
    PDS_IOV = 4, /* pieces of memory of one payload */
    PDS_MPR_MAX = 255 * PDS_MPR_UNIT,
    PDS_ANSWER_DATA = 8192, /* bytes of data on an acknowledgement */
    PDS_RETRY_FOREVER = 31, /* of nack_count */
    PDS_IDS = 65536,
    PDS_ID_BLOCK = 1024,
};

/* Names are those of the specification's configuration, table 3-28. */
struct pds_settings {
    unsigned mpr;          /* PSNs that may be under way; a multiple of PDS_MPR_UNIT */
    uint64_t window;       /* bytes that a PDC may have under way */
    uint64_t ack_trigger;  /* ACK_Gen_Trigger: bytes */
    uint64_t ack_least;    /* ACK_Gen_Min_Pkt_Add: a packet counts as so many, at least */
    bool ack_each;         /* Enb_ACK_Per_Pkt */
    uint64_t rto;          /* RTO_Init_Time */
    unsigned rto_count;    /* Max_RTO_Retx_Cnt */
    uint64_t patience;     /* of timeouts together: where round trips are long, few of them */
    uint64_t grace;        /* of silence, of a peer whose port is said to be closed */
    uint64_t nack_time;    /* NACK_Retx_Time */
    unsigned nack_count;   /* Max_NACK_Retx_Cnt */
    uint64_t new_pdc_time; /* New_PDC_Time */
    uint64_t clear_time;   /* PDS_Clear_Time */
    uint64_t close_time;   /* Close_REQ_Time */
    uint64_t tail_time;    /* Tail_Loss_Time */
    unsigned tail_count;   /* Max_Tail_Loss_Retx */
    uint64_t safety_time;  /* Syn_Retx_Safety_Time: a closed PDC is remembered */
    uint64_t idle_time;    /* a PDC without work is closed; 0: never */
    uint64_t rest_time;    /* one without work gives its buffers back */
    uint64_t noop_time;    /* a PDC that is held and silent is asked for a sign of life */
    unsigned reorder;      /* packets: one that so many later ones overtook is lost */
    unsigned pdcs;         /* most at a time, at most 65535 */
    unsigned per_peer;     /* unordered PDCs to one peer */
    unsigned stored;       /* responses that a PDC keeps until they are cleared */
    uint32_t rudi_first;   /* of RUDI numbers; the upper 6 bits are this node's */
    uint64_t ids;          /* bit b: ids from b * PDS_ID_BLOCK on are this node's to give */
    bool short_rudi;
    bool demand_start; /* a peer's PDC opens with a Start_PSN that this side gave it only */
};

/* The defaults of the specification; of what it leaves open, ours. */
extern const struct pds_settings pds_defaults;

enum pds_mode {
    PDS_MODE_RUD,
    PDS_MODE_ROD,
    PDS_MODE_RUDI, /* at least once, in any order, without a PDC: of what is idempotent only */
};

/* Which PDCs a message may take. */
struct pds_key {
    union addr to;
    uint8_t mode; /* enum pds_mode */
    uint8_t tclass;
    uint16_t pid; /* PIDonFEP there: several may share the address, and have PDCs of their own */
    uint32_t job;
};

/* A PDC, which may have ended. */
struct pds_ref {
    uint16_t id; /* 0: none */
    uint32_t generation;
};

/* A request that an answer is owed to. */
struct pds_ticket {
    struct pds_ref pdc;
    uint64_t number;
    uint32_t psn;
};

/* A message to be sent: a source of packets, which PDS asks for when it can send them. */
struct pds_source {
    struct list link;   /* PDS's while it has packets to give */
    struct pds_ref pdc; /* that sends it, once one does */
    struct pds_key key;
};

struct pds_packet {
    /* Filled by the upper: */
    struct pds_source *source;
    uint32_t tag; /* the upper's */
    uint8_t next; /* enum pds_next */
    bool last;    /* of its message: is to be acknowledged at once */
    uint8_t header_len, iov_count;
    uint8_t header[SES_HEADER_MAX];
    struct iovec iov[PDS_IOV]; /* stays valid until `done` */
    uint32_t len;              /* of the payload */
    /* PDS's: */
    struct list link;
    uint64_t number, order, at;
    uint8_t state, retries, nacks, control;
    bool again; /* was sent before */
};

/* How a packet ended. */
struct pds_result {
    enum ses_code code; /* RC_UNDELIVERABLE: PDS gave up; else RC_OK, and the response says more */
    uint8_t next;       /* of the response; NEXT_NONE: it was acknowledged and no more */
    const uint8_t *response;
    size_t len; /* of header and data */
    uint32_t psn;
};

/* A request that has come: for the first time, or as a datagram. */
struct pds_arrival {
    uint64_t now;
    union addr from;
    const uint8_t *bytes; /* behind the PDS header */
    size_t len;
    uint8_t next;
    bool datagram;      /* UUD: no answer is sent */
    bool idempotent;    /* RUDI: it may come again, and is to be answered at once; no ticket */
    bool returned;      /* by the peer of a PDC of ours: data that we asked for */
    struct pds_key key; /* for answers that are messages: mode, job 0 */
    struct pds_ticket ticket; /* for answers that come later, and for pds_submit_return */
};

enum pds_answer_kind {
    ANSWER_NOW,
    ANSWER_LATER, /* pds_answer will be called */
    ANSWER_NACK,  /* nothing has happened: the sender is to try again */
};

struct pds_answer {
    uint8_t kind; /* enum pds_answer_kind */
    uint8_t nack; /* enum pds_nack */
    uint8_t next; /* of the response; NEXT_NONE: PDS makes a default one */
    uint8_t header_len;
    uint8_t header[SES_RESPONSE_MAX];
    const void *data; /* behind it; read during the call only */
    size_t len;
    bool guaranteed; /* losing it would lose information */
};

struct pds_ops {
    /* Sends a packet, or loses it. `control`: by the class for acknowledgements. */
    void (*transmit)(void *arg, const union addr *to, const struct iovec *iov, size_t count,
                     bool control);
    /* Fills the next packet of source, which is zeroed. True: more follow. */
    bool (*fill)(void *arg, struct pds_source *source, struct pds_packet *packet);
    /* A packet that was filled has ended. */
    void (*done)(void *arg, const struct pds_packet *packet, const struct pds_result *result);
    /* A source with packets left to give is given up; those that it gave have ended. */
    void (*failed)(void *arg, struct pds_source *source);
    /* Carries a request out, once. answer is zeroed. */
    void (*request)(void *arg, const struct pds_arrival *arrival, struct pds_answer *answer);
    /* A PDC has ended; failed: not by agreement. Answers and data that it owes will not come. */
    void (*closed)(void *arg, struct pds_ref pdc, bool failed);
};

struct pds_counters {
    uint64_t sent, resent, received, duplicates, malformed, strangers;
    uint64_t nacks_sent, nacks_received, acks_sent, acks_received, probes, opened, closed, failed;
    uint64_t unreachable;           /* packets that found a closed port */
    uint64_t demanded;              /* openings that were given a Start_PSN */
    uint64_t credits, negotiations; /* control packets that were understood, and no more */
};

struct pds;

/* seed: for numbers that no other host should guess. NULL without memory. */
struct pds *pds_create(const struct pds_settings *settings, const struct pds_ops *ops, void *arg,
                       uint64_t seed);
/* All that is under way ends, with upcalls. Takes NULL. */
void pds_destroy(struct pds *pds);

/* source, whose link is its own, is to be sent on a PDC of key. */
void pds_submit(struct pds *pds, struct pds_source *source, const struct pds_key *key);
/* The same, on the PDC of a request, towards its sender. False: it has ended. */
bool pds_submit_return(struct pds *pds, struct pds_source *source, struct pds_ref pdc);
/* A source of RUDI, which has not ended, gives no more packets. */
void pds_withdraw(struct pds_source *source);
/* The answer that ANSWER_LATER promised. False: the PDC has ended. */
bool pds_answer(struct pds *pds, const struct pds_ticket *ticket, const struct pds_answer *answer);
/* The number of our packet that has that PSN on the PDC, or of the nearest there could be. False:
 * the PDC has ended. */
bool pds_number(const struct pds *pds, struct pds_ref pdc, uint32_t psn, uint64_t *number);
/* The PDC stays open, and is asked for a sign of life, while it is held. */
void pds_hold(struct pds *pds, struct pds_ref pdc);
void pds_release(struct pds *pds, struct pds_ref pdc);
/* The peer has acknowledged something on it: there is one. */
bool pds_is_established(const struct pds *pds, struct pds_ref pdc);
/* Closes a PDC of ours, when what it has to do is done; asks the peer to where it is the peer's. */
void pds_close(struct pds *pds, struct pds_ref pdc);
/* Closes all so: what is owed to peers leaves, and theirs are asked to close. Peers whose ports are
 * said to be closed are not waited for long from now on. How many of ours there still are. */
unsigned pds_close_all(struct pds *pds);
/* Another may be at that address from now on (NULL: at any): messages to come take a new PDC, and
 * those that have nothing to do are closed. */
void pds_leave(struct pds *pds, const union addr *to);
/* PDCs that are not closed, of both sides. */
unsigned pds_open_count(const struct pds *pds);
/* Sends a datagram. */
void pds_datagram(struct pds *pds, const union addr *to, uint8_t next, const struct iovec *iov,
                  size_t count);

/* A packet has come. marked: with a congestion mark. */
void pds_receive(struct pds *pds, uint64_t now, const union addr *from, const uint8_t *bytes,
                 size_t len, bool marked);
/* The network says that the port of `to` is closed. quote: the first bytes of the packet that found
 * it so. Any host on the way can forge that: it is believed of a packet under way only, the peer is
 * asked, and ends when it stays silent. */
void pds_unreachable(struct pds *pds, uint64_t now, const union addr *to, const uint8_t *quote,
                     size_t len);
/* Peers whose ports are said to be closed are not waited for long from now on. */
void pds_hurry(struct pds *pds);
/* Sends what may be sent, and does what is due. */
void pds_run(struct pds *pds, uint64_t now);
/* Sends what may be sent on that PDC, and leaves the rest to pds_run, which is due at once. now:
 * the time of packets that have not left yet will do. */
void pds_push(struct pds *pds, uint64_t now, struct pds_ref pdc);
/* pds_run is due and has something to do that a peer waits for. */
bool pds_is_urgent(const struct pds *pds);
/* When pds_run is due; UINT64_MAX: not before something else happens. 0: at once. */
uint64_t pds_deadline(const struct pds *pds);

const struct pds_counters *pds_counters(const struct pds *pds);
/* There was no id for a PDC, but fewer than settings.pdcs are open; asked for once. */
bool pds_lacks_ids(struct pds *pds);
/* These are this node's from now on, as settings.ids. Without memory nothing changes. */
void pds_set_ids(struct pds *pds, uint64_t ids);
/* PDCs that there are. */
unsigned pds_count(const struct pds *pds);

/* The reaction of a sender to a NACK of this code. */
enum pds_reaction {
    REACTION_NONE,
    REACTION_RESEND,   /* at once */
    REACTION_LATER,    /* after NACK_Retx_Time, Max_NACK_Retx_Cnt times */
    REACTION_GO_BACK,  /* all from the payload's PSN on */
    REACTION_RENUMBER, /* all from the payload's PSN on, with new numbers: before the first ACK */
    REACTION_WAIT,     /* it has come, and its answer will */
    REACTION_REOPEN,   /* another PDC, if none of this one was acknowledged; else as: */
    REACTION_FAIL,     /* the PDC ends, and what is under way on it */
};
enum pds_reaction pds_reaction(uint8_t nack_code);

#endif
