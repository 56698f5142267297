/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside of PDS: one packet delivery context. It has two directions, each with numbers of its own:
 * what this side sends (tx) and what it receives (rx). Numbers count from 0 and have 64 bits; a PSN
 * is Start_PSN and the number, mod 2^32.
 */
#ifndef WEFT_UET_PDS_PDC_H
#define WEFT_UET_PDS_PDC_H

#include "core/arq/rtt.h"
#include "core/arq/serial.h"
#include "core/base/pool.h"
#include "core/base/timer.h"
#include "transports/uet/pds/pds.h"

enum pdc_state {
    PDC_SYN,         /* ours, before the first acknowledgement */
    PDC_ESTABLISHED, /* ours or the peer's */
    PDC_QUIESCE,     /* ours: what is under way ends, then CLOSE is sent */
    PDC_CLOSING,     /* ours: CLOSE was sent */
    PDC_CLOSED,      /* the peer's: kept for late packets */
};

enum packet_state {
    PACKET_FLIGHT,  /* sent */
    PACKET_RESEND,  /* to be sent again */
    PACKET_HELD,    /* to be sent again after NACK_Retx_Time */
    PACKET_ARRIVED, /* the receiver has it, and owes its response */
};

/* A response that is kept until it is cleared, or the place of one that will come. */
struct pdc_stored {
    struct list link;
    uint64_t number;
    bool finished, guaranteed;
    uint8_t next;
    size_t len;
    uint8_t bytes[];
};

struct pdc_tx {
    uint64_t next;    /* number of the next packet */
    uint64_t first;   /* the lowest that has not ended */
    uint64_t cleared; /* up to here the peer knows that responses have come */
    uint64_t acked;   /* below this the peer has acknowledged all */
    uint64_t mpr;
    struct pds_packet **ring; /* by number & ring_mask; NULL until something is sent */
    uint64_t ring_mask;       /* places, a power of 2, less 1: settings.mpr at least */
    struct list sources, flight, resend, held, arrived;
    uint64_t bytes;  /* in flight */
    unsigned flying; /* packets in flight, and the most: fewer after refusals */
    unsigned limit;
    uint64_t order, overtook; /* transmissions, counted; the latest that is known to have come */
    struct window window;
    unsigned backoff, probes; /* timeouts, and probes, since something new has come */
    uint64_t timed_out;       /* the last timeout */
    uint64_t came;            /* packets that are known to have come, counted */
    struct rtt rtt;
    unsigned reorder;     /* packets that may overtake one: grows where the network reorders */
    uint64_t heard;       /* the last acknowledgement */
    uint64_t progressed;  /* the last that told something new, or a first packet */
    uint64_t went_back;   /* the last time that all was sent again */
    uint64_t hold_until;  /* ordered: nothing leaves before; 0: it may */
    uint64_t clear_at;    /* a CLEAR is due; 0: none */
    uint16_t opaque;      /* of the last probe */
    uint64_t probe_order; /* transmissions before that probe; 0: none waits for its answer */
    uint64_t probe_base;
    uint64_t unreachable; /* since when the network says that its port is closed; 0: it does not */
    uint64_t close_by;    /* the peer, which was asked to, must have closed it. 0: it was not */
    uint64_t plead_at;    /* it is asked again; */
    unsigned pleas;       /* so often it was */
};

struct pdc_rx {
    struct serial serial;
    struct list stored; /* by number */
    unsigned stored_count;
    uint64_t asked;    /* when the peer was last asked to clear */
    uint64_t bytes;    /* since the last acknowledgement, as ack_trigger counts them, and */
    uint64_t weight;   /* as the peer's window does, */
    unsigned packets;  /* and how many packets */
    uint64_t received; /* in all, for NSCC */
    bool ack_due;      /* with this response, when pds_run comes: */
    bool ack_marked, ack_retx;
    bool ack_held; /* ack_number and what follows wait for company */
    bool told;     /* the peer has had an acknowledgement: it has heard our mpr */
    uint64_t ack_number;
    uint8_t ack_next, ack_len;
    uint8_t ack_header[SES_RESPONSE_MAX];
    /* Ordered: the number that was asked for, and 1, and the packet that showed that it is
     * missing. */
    uint64_t nacked, nacked_by;
};

/*
 * One that rests, because nothing is under way, has only what is here: tx and rx are those of
 * pds->rest then, which say that there is nothing to do and are not written. pdc_wake gives it its
 * own.
 */
struct pdc {
    struct list by_peer; /* in a bucket of the table: by the peer's id, or by key */
    struct list active;  /* pds_run is to look at it */
    struct list used;    /* all, the longest unused first */
    struct timer timer;
    struct pds *pds;
    struct pdc_tx *tx;
    struct pdc_rx *rx;
    struct pds_key key; /* `to` is the peer */
    uint16_t id, peer_id;
    uint32_t generation;
    uint32_t tx_start, rx_start;
    uint16_t holds;
    uint8_t state; /* enum pdc_state */
    bool ours : 1; /* we opened it */
    bool wants_close : 1;
    bool left : 1; /* pds_leave: no message takes it any more */
    bool failed : 1;
    bool came : 1; /* the peer has acknowledged something; kept of tx, as long as it rests, and: */
    bool told : 1; /* of rx */
    bool timed_idle : 1; /* the timer is of a PDC that has nothing to send */
    bool opening : 1;    /* counts in pds->opening: ours, and its peer has not answered */
    uint8_t mpr;         /* of tx, in PDS_MPR_UNIT */
    uint16_t reorder;
    uint32_t tx_next, smoothed; /* smoothed: in us */
    uint32_t received;          /* of rx, in 256 bytes */
    uint64_t rx_next;
    uint64_t heard; /* any packet of the peer; of a closed one: when it was closed */
};

_Static_assert(sizeof(struct pdc) <= 184, "a PDC that rests takes more than it may");

struct pdc_busy {
    struct pdc_tx tx;
    struct pdc_rx rx;
};

enum {
    RUDI_WINDOW = 256,      /* packets under way: a power of 2 */
    RUDI_NUMBERS = 1 << 26, /* that a node has */
};

/* ---- rudi.c ---- */

struct rudi {
    uint32_t first, next; /* numbers */
    unsigned count;       /* packets under way */
    struct list sources;
    struct list waiting; /* packets, by when they are sent again: at */
    struct pds_packet *ring[RUDI_WINDOW];
};

struct pds {
    struct pds_settings settings;
    const struct pds_ops *ops;
    void *arg;
    uint64_t random, now, secret;
    bool excused;      /* since the pause there was no timeout */
    bool urgent;       /* a peer waits for what pds_run will do */
    uint16_t pushable; /* the PDC whose new source is all that it is urgent for; 0: none */
    bool hurries;      /* the caller is about to leave */
    bool marked;       /* the packet that is being taken has a congestion mark */
    uint64_t paused;   /* when the caller has last looked late */
    struct pdc **ids;  /* [0] is never used */
    unsigned id_count; /* of ids: to the end of the last block that is this node's */
    uint16_t last_id;
    struct pds_ref chosen; /* by the last message */
    bool lacks_ids;
    unsigned count, room; /* ids in use, and ids that may be */
    unsigned opening;     /* of these: ours before the peer's answer; */
    unsigned leaving;     /* with wants_close */
    uint64_t drained;     /* when all that waits was last looked at */
    uint64_t made_room;   /* when the last one was closed to make room for others */
    uint64_t wary_until;  /* openings must begin as demanded until then */
    bool stirred;         /* what waits may find a PDC: since the last look something changed */
    struct list *buckets; /* of our PDCs, by key; behind them of peers', by address and id */
    size_t bucket_count;  /* of either; a power of two */
    struct list active, used, waiting; /* waiting: sources without a PDC */
    /* Of PDCs with something under way; of those without: so many that a timer of the first kind
     * would look long for its place among them. */
    struct list timers, idle_timers;
    uint32_t generations, last_start;
    struct pdc_busy rest; /* of every PDC that rests */
    struct pool packets, pdcs;
    struct rudi rudi;
    struct pds_counters counters;
};

void rudi_init(struct rudi *rudi, uint32_t first);
void rudi_submit(struct pds *pds, struct pds_source *source);
void rudi_run(struct pds *pds);
uint64_t rudi_deadline(const struct rudi *rudi);
void rudi_fail_all(struct pds *pds);
void rudi_take_request(struct pds *pds, const union addr *from, const struct pds_header *header,
                       const uint8_t *body, size_t len, bool marked);
void rudi_take_response(struct pds *pds, const union addr *from, const struct pds_header *header,
                        const uint8_t *body, size_t len);
/* A NACK with PDS_NT_RUDI. */
void rudi_take_nack(struct pds *pds, const union addr *from, const struct pds_header *header);

enum {
    PDS_BUCKETS_MIN = 16, /* for as many PDCs as there may be, but no more than */
    PDS_BUCKETS_MAX = 4096,
    PDS_START_DISTANCE = 65536, /* of Start_PSN from the last one used */
    PDS_LOOK_AT = 64            /* PDCs, for one that can go */
};

/* ---- pdc_table.c ---- */

uint64_t pds_random(struct pds *pds);
/* Of settings.ids. False: no memory. */
bool pdc_ids_init(struct pds *pds);
/* NULL: no id, no memory. Not in a bucket. */
struct pdc *pdc_create(struct pds *pds, const struct pds_key *key, bool ours, uint32_t start);
/* Out of all tables; its packets and sources have ended. */
void pdc_free(struct pdc *pdc);
struct pdc *pdc_at(const struct pds *pds, uint16_t id);
struct pdc *pdc_of(const struct pds *pds, struct pds_ref ref);
struct pds_ref pdc_ref(const struct pdc *pdc);
struct pdc *pdc_of_peer(const struct pds *pds, const union addr *from, uint16_t peer_id);
/* One of ours for a message of that key, opened if need be. NULL: none can be opened now. */
struct pdc *pdc_choose(struct pds *pds, const struct pds_key *key);
/* There is one of ours that pdc_choose might give. */
bool pdc_is_open(const struct pds *pds, const struct pds_key *key);
void pdc_insert_peer(struct pdc *pdc);
/* All ids are in use. */
bool pds_is_full(const struct pds *pds);
/* The peer of one of ours has shown its id. */
void pdc_establish(struct pdc *pdc, uint16_t peer_id);
/* It is to be closed when it has nothing to do. */
void pdc_want_close(struct pdc *pdc);
/* It is closed, or about to be freed, and counts no more as one that opens or leaves. */
void pdc_uncount(struct pdc *pdc);
void pdc_touch(struct pdc *pdc);
/* pds_run is to look at it, soon. */
void pdc_activate(struct pdc *pdc);
/* The same, but no peer waits for it. */
void pdc_activate_later(struct pdc *pdc);
/* The same, of one that has a new source: no peer waits once pds_push has sent it. */
void pdc_activate_source(struct pdc *pdc);

/* A peer waits for pds_run. */
static inline void pds_hasten(struct pds *pds)
{
    pds->urgent = true;
    pds->pushable = 0;
}

/* ---- pdc_rest.c ---- */

static inline bool pdc_rests(const struct pdc *pdc)
{
    return pdc->tx == &pdc->pds->rest.tx;
}
/* Before anything about its packets changes. False: there is no memory. */
bool pdc_wake(struct pdc *pdc);
/* Nothing is under way, and nothing is kept but what a PDC that rests has. */
bool pdc_may_rest(const struct pdc *pdc);
/* Gives all memory but its own back. */
void pdc_rest(struct pdc *pdc);

/* ---- pdc_tx.c ---- */

void pdc_tx_init(struct pdc_tx *tx, const struct pds *pds);
/* Sends what the windows let through. */
void pdc_tx_send(struct pdc *pdc);
/* A packet of that kind, with a number. False: no room for it now. */
bool pdc_tx_control(struct pdc *pdc, enum pds_control kind);
void pdc_tx_complete(struct pdc *pdc, struct pds_packet *packet, const struct pds_result *result);
/* Takes a packet out of what is under way, to be sent again. */
void pdc_tx_resend(struct pdc *pdc, struct pds_packet *packet);
void pdc_tx_hold(struct pdc *pdc, struct pds_packet *packet, uint64_t until);
/* The peer has refused packets: fewer leave until some have come. */
void pdc_tx_slow_down(struct pdc *pdc);
void pdc_tx_arrived(struct pdc *pdc, struct pds_packet *packet);
struct pds_packet *pdc_tx_at(const struct pdc *pdc, uint64_t number);
/* Other numbers, from `start` on, under the id that it has now. */
void pdc_tx_renumber(struct pdc *pdc, uint32_t start);
/* Everything ends with RC_UNDELIVERABLE. */
void pdc_tx_fail(struct pdc *pdc);
void pdc_tx_finish(struct pdc *pdc);
bool pdc_tx_idle(const struct pdc *pdc);
/* Packets have come: there may be room for what waits. Where nothing does there is no haste. */
void pdc_tx_go_on(struct pdc *pdc);

/* ---- pdc_ack.c: acknowledgements and refusals of what this side sent ---- */

void pdc_take_ack(struct pdc *pdc, const struct pds_header *header, const uint8_t *body,
                  size_t len);
void pdc_take_nack(struct pdc *pdc, const struct pds_header *header);
/* Calls lost what was overtaken. */
void pdc_detect_loss(struct pdc *pdc);

/* ---- pdc_rx.c ---- */

void pdc_rx_init(struct pdc_rx *rx, const struct pds *pds);
void pdc_rx_finish(struct pdc *pdc);
void pdc_take_request(struct pdc *pdc, const struct pds_header *header, const uint8_t *body,
                      size_t len);
/* body: what of its payload the header has not. */
void pdc_take_control(struct pdc *pdc, const struct pds_header *header, const uint8_t *body,
                      size_t len);
void pdc_rx_clear(struct pdc *pdc, uint64_t below);
/* Sends the acknowledgement that is due. */
void pdc_rx_acknowledge(struct pdc *pdc);
/* All numbers below it were received, and do not wait to be cleared. */
uint64_t pdc_rx_cack(const struct pdc *pdc);
void pdc_answer(struct pdc *pdc, uint64_t number, const struct pds_answer *answer);

/* ---- pdc_out.c: packets that are not kept ---- */

/* An acknowledgement of `number`, with the response behind it. */
struct pdc_ack {
    uint64_t number;
    uint8_t next, flags;
    const void *header, *data;
    size_t header_len, len;
    bool probe; /* the answer to one: */
    uint16_t opaque;
    uint64_t base;
};
void pdc_send_ack(struct pdc *pdc, const struct pdc_ack *ack);
void pdc_send_nack(struct pdc *pdc, enum pds_nack code, uint32_t psn, uint32_t payload, bool retx);
/* A control packet without a number of its own. */
void pdc_send_control(struct pdc *pdc, enum pds_control kind, uint32_t psn, uint16_t opaque,
                      uint32_t payload);
/* A refusal without a PDC: `header` is what is refused. */
void pds_refuse(struct pds *pds, const union addr *to, const struct pds_header *header,
                enum pds_nack code, uint32_t payload);

/* ---- pdc_timer.c ---- */

/* Asks the peer, which opened it, to close it. */
void pdc_plead(struct pdc *pdc);
/* Does what is due; false: the PDC is gone. */
bool pdc_run(struct pdc *pdc);
void pdc_arm(struct pdc *pdc);

/* ---- wait.c ---- */

/* source gets a PDC; false: there is none for it now. */
bool wait_end(struct pds *pds, struct pds_source *source);
/* source waits for one, behind those that do. */
void wait_begin(struct pds *pds, struct pds_source *source);
/* Gives PDCs to those that wait. */
void wait_run(struct pds *pds);
/* When all of them are to be looked at. */
uint64_t wait_deadline(const struct pds *pds);
/* Where no id is free: the PDC that was not used for the longest time is closed, by its owner. */
void wait_make_room(struct pds *pds);

/* ---- pds.c ---- */

/* Closes one of ours when what it has to do is done; asks the peer to close one of the peer's. */
void pdc_ask_to_close(struct pdc *pdc);

/* The PDC ends without the peer's agreement. */
void pdc_fail(struct pdc *pdc);
/* It ends as agreed. */
void pdc_end(struct pdc *pdc);

/* A packet has come that only the peer can have sent: it is there. */
static inline void pdc_note_heard(struct pdc *pdc)
{
    pdc->heard = pdc->pds->now;
    pdc->tx->unreachable = 0;
}

static inline uint32_t pdc_tx_psn(const struct pdc *pdc, uint64_t number)
{
    return pdc->tx_start + (uint32_t)number;
}

static inline uint32_t pdc_rx_psn(const struct pdc *pdc, uint64_t number)
{
    return pdc->rx_start + (uint32_t)number;
}

#endif
