/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The endpoint: towards the upper core/layer/packet_ep.h, an endpoint of the lower, peers, and a
 * session with each that something was sent to, or that has asked. Everything is guarded by the
 * progress domain's lock.
 *
 *   the application posts        arq_send.c     message -> session -> packets -> lower
 *   the lower completes          arq_lower.c    datagrams wait in `arrived`
 *   progress                     arq_run.c      arrived -> session -> arq_receive.c; deadlines
 *   a packet of no session       arq_stranger.c OPEN, TOKEN, RESET; the log
 *
 * A session is run from arq_run only.
 */
#ifndef WEFT_LAYERS_ARQ_ARQ_EP_H
#define WEFT_LAYERS_ARQ_ARQ_EP_H

#include "core/arq/gate.h"
#include "core/base/seam.h"
#include "core/domain/mr_pool.h"
#include "core/layer/lower_source.h"
#include "core/layer/packet_ep.h"
#include "layers/arq/arq_domain.h"
#include "layers/arq/arq_info.h"
#include "layers/arq/arq_peer.h"

enum {
    ARQ_STRANGERS = 32, /* addresses without a session that the lower is told of */
    ARQ_ANSWERS = 1000, /* to packets of no session, a second */
};

/* An address that was answered, and has no session. */
struct arq_stranger {
    struct arq_addr addr;
    fi_addr_t lower;
};

/* Counts of events that go to the log, and when it may be told again. */
struct arq_notes {
    uint64_t counts[8]; /* by enum arq_fault */
    uint64_t next;      /* ns */
};

/* The lower's endpoint, and what may be asked of it. */
struct arq_lower {
    struct fid_ep *ep;
    struct op_target target;
    struct fid_av *av;
    struct fid_eq *eq; /* NULL: it has none */
    struct lower_source source;
    struct fid_peer_cq sink; /* of its completions */
    uint32_t format;         /* of addresses */
    size_t prefix;           /* bytes in front of each buffer */
    size_t most;             /* of a datagram */
    size_t inject;           /* bytes that it copies */
    size_t segments;
    size_t receives; /* that it may have posted */
    size_t chunk;  /* bytes of each of them where they take many datagrams (FI_MULTI_RECV); or 0 */
    size_t holds;  /* datagrams that may come while we do not look */
    bool notes;    /* a completion's `data` holds OPT_NOTE_ */
    bool marks;    /* with what the network has marked */
    bool timed;    /* and how long each packet has waited, since they are not read at once */
    unsigned calm; /* packets in a row that were */
    unsigned rush; /* looks lately that came late, weighed */
    unsigned waited; /* looks from now on that may find packets which came before the last gap */
    bool late;       /* what has come now may have waited, and may not have been timed */
    bool enabled;
    bool driven; /* and is not being closed: progress may drive it */
    struct train_port trains;
};

struct arq_ep {
    /* In it: struct arq_link ready; struct arq_send sends; struct arq_buffer arrived, saved. Woken:
     * there is room again for those that were told of none. */
    struct packet_ep up;
    struct lower_domain *domain;
    struct fi_info *lower_info;
    struct arq_lower lower;
    struct arq_peers peers;
    struct session_config config;
    struct arq_addr self; /* as the lower has it: config.name */
    struct gate gate;
    bool user_ids;
    /* Progress. */
    uint64_t read;       /* ns: what came to this node up to then has been read */
    uint64_t looked;     /* ns: when the lower was read last, */
    uint64_t gap;        /* and how long after the time before */
    unsigned vain;       /* looks in a row that found nothing */
    struct list blocked; /* struct arq_link: that the lower took nothing of */
    /* Sending. */
    struct mr_pool heads;  /* struct arq_head, of control packets and headers */
    struct mr_pool wholes; /* struct arq_head, as long as a datagram */
    struct mr_pool copies; /* struct arq_copy */
    bool copies_all;       /* the lower takes registered memory only, and the upper has none */
    size_t sends_at_lower; /* heads that the lower has */
    /* Receiving. */
    struct packet_reader reader; /* or NULL in it: messages go to receives */
    struct mr_pool buffers;      /* struct arq_buffer */
    struct mr_pool chunks;       /* struct arq_chunk */
    struct pool arrivals;        /* struct arq_buffer without bytes, of a chunk */
    size_t fed, feed;            /* buffers or chunks that the lower has, and should have */
    struct arq_buffer *current;  /* whose packet a session looks at; NULL: it was kept */
    struct list talkers;         /* struct arq_link: that sent something lately, latest last */
    size_t talker_count;
    /* Strangers. */
    struct arq_stranger strangers[ARQ_STRANGERS];
    unsigned next_stranger;
    uint64_t answers_from; /* ns */
    unsigned answers;
    struct arq_notes notes;
};

static inline struct arq_ep *arq_ep_of(const struct endpoint *base)
{
    return object_of(base, struct arq_ep, up.base);
}

static inline struct arq_ep *arq_ep_of_packets(const struct packet_ep *up)
{
    return object_of(up, struct arq_ep, up);
}

int arq_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);

/* ---- arq_lower.c: all of it but open with the progress domain locked ---- */

/* Opens the lower's endpoint, by ep->lower_info; and what it needs, for fi_enable. */
int arq_lower_open(struct arq_ep *ep);
int arq_lower_enable(struct arq_ep *ep);
/* Peers are told the address that the lower has now. */
void arq_lower_name(struct arq_ep *ep);
/* Takes what was never opened. Progress domain unlocked. */
void arq_lower_close(struct arq_ep *ep);
/* Posts receives up to `feed`. */
void arq_lower_feed(struct arq_ep *ep);
/* Entry of the lower's trains: one has come into the chunk of that context. */
void arq_lower_came(void *ep, void *context, uint64_t flags, const struct train *train,
                    uint64_t notes);
/* A datagram is not looked at any more. */
void arq_lower_put(struct arq_ep *ep, struct arq_buffer *buffer);
/* The peers' packets may be marked by the network: it tells of that from now on. */
void arq_lower_watch_marks(struct arq_ep *ep);
/* Packets have come; the read before was so many ns ago. */
void arq_lower_note_gap(struct arq_ep *ep, uint64_t gap);
/* Takes what the network says of packets that were sent. */
void arq_lower_read_events(struct arq_ep *ep, uint64_t now);
/* The lower's number for an address, or FI_ADDR_NOTAVAIL; arq_lower_forget for each. */
fi_addr_t arq_lower_insert(struct arq_ep *ep, const struct arq_addr *addr);
void arq_lower_forget(struct arq_ep *ep, fi_addr_t addr);

/* ---- arq_send.c ---- */

/* Lives as long as the upper's operation. */
struct arq_send {
    struct session_message message;
    void *context;
    bool wanted; /* a completion is */
    bool over;   /* the session is through with it: err */
    int err;
    unsigned at_lower; /* packets of it that the lower has */
    size_t count;
    struct iovec iov[ARQ_SEGMENTS + 1];
    void *desc[ARQ_SEGMENTS + 1];
    struct arq_copy *copy; /* that iov points to, or NULL */
};

struct arq_copy {
    struct mr_buffer buffer;
    uint8_t bytes[];
};

/* A context of the lower's operations. */
struct arq_context {
    struct mr_buffer buffer; /* of a pool */
    bool receives;
};

/* A packet that the lower sends: its header, or all of it. */
struct arq_head {
    struct arq_context base;
    struct mr_pool *pool;  /* that it is of */
    struct arq_send *send; /* NULL: a control packet, or a copy */
    uint8_t bytes[];
};

/* Entry of packet_ep_ops. */
int arq_send(struct packet_ep *up, const struct op *op);
/* Entries of the session's config. */
bool arq_transmit(struct session *session, const struct session_packet *packet);
void arq_done(struct session *session, struct session_message *message, int err);
/* The lower is through with a packet. */
void arq_head_done(struct arq_ep *ep, struct arq_head *head);
/* Sends a packet of no session. False: the lower takes nothing now. */
bool arq_send_bare(struct arq_ep *ep, fi_addr_t to, const uint8_t *bytes, size_t len);

/* ---- arq_train.c ---- */

/* Before the lower is enabled: trains come and go, if it has them. */
void arq_trains_open(struct arq_ep *ep);
/* Entries of the session's config. */
enum session_taken arq_transmit_train(struct session *session, struct session_train *train);
bool arq_deliver_parts(struct session *session, const struct iovec *parts, size_t count);

/* ---- arq_receive.c ---- */

/* A receive of our own that takes many datagrams. */
struct arq_chunk {
    struct arq_context base;
    bool posted;   /* the lower may write into it */
    unsigned held; /* datagrams in it that are looked at */
    uint8_t bytes[];
};

/* A datagram, in a receive of its own or in a chunk. */
struct arq_buffer {
    struct arq_context base;
    struct list link;        /* in arrived, saved */
    struct arq_chunk *chunk; /* NULL: it is in `bytes` */
    const uint8_t *packet;   /* behind the prefix */
    size_t len;              /* of the datagram, behind the prefix */
    size_t segment;          /* of a train: of each datagram but the last; else 0 */
    fi_addr_t src;           /* the lower's */
    struct arq_addr from;    /* where src is none, and the lower says; saved: the sender */
    uint64_t note;           /* OPT_NOTE_ */
    size_t at;               /* saved: the message is bytes[at] to bytes[at + len] */
    uint8_t bytes[];
};

bool arq_deliver(struct session *session, const uint8_t *bytes, size_t len);
/* Its peer, as the upper is told. */
fi_addr_t arq_source(struct session *session);
/* Messages that one sender may be told to send. */
uint64_t arq_credit(struct arq_ep *ep);
/* Messages that were kept, and senders that wait for room, of arq_run. */
void arq_receive_run(struct arq_ep *ep);
/* Something of that session has come, at `now`. */
void arq_talks(struct arq_link *link, uint64_t now);

/* ---- arq_run.c ---- */

/* Looks at what has arrived, and runs what is ready. looked: the time, in ns, just before the lower
 * was read; 0: it was not. */
void arq_run(struct arq_ep *ep, uint64_t looked);
/* The link is to be run. */
void arq_ready(struct arq_link *link);
/* poll and trywait of the lower's source. */
void arq_poll(struct progress_source *source);
int arq_trywait(struct progress_source *source);
/* Has any session something that its peer has not acknowledged? */
bool arq_busy(const struct packet_ep *up);
/* Takes note of what the AV has changed. */
void arq_take_av_changes(struct arq_ep *ep);

/* ---- arq_stranger.c ---- */

/* A packet that no session has: it is answered, or told to the log. */
void arq_take_stranger(struct arq_ep *ep, const struct arq_buffer *buffer,
                       const struct arq_header *header, uint64_t now);
/* A datagram that is no packet of ours. */
void arq_note_fault(struct arq_ep *ep, const struct arq_buffer *buffer, enum arq_fault fault,
                    uint64_t now);

#endif
