/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Links: the memory that two endpoints share, and the socket that introduces, wakes, and tells of
 * death. Progress domain of the endpoint locked.
 */
#ifndef WEFT_SHM_LINK_H
#define WEFT_SHM_LINK_H

#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fi_domain.h>

#include "core/base/list.h"
#include "transports/shm/shm_choice.h"
#include "transports/shm/shm_doorbell.h"
#include "transports/shm/shm_maps.h"
#include "transports/shm/shm_reclaim.h"
#include "transports/shm/shm_ring.h"
#include "transports/shm/shm_silence.h"
#include "transports/shm/shm_store.h"

struct shm_ep;

enum {
    SHM_FINS = 14, /* in one line */
};

/* The terms of `behind` of a link: large writes that the peer has not fetched yet, reads
 * that have not ended, where something is to stay behind them, posts in the backlog. */
#define SHM_BIG_WRITE (1ULL << 0)
#define SHM_A_READ (1ULL << 20)
#define SHM_A_LATE_POST (1ULL << 40)

struct shm_link {
    struct shm_tx tx;
    struct shm_rx rx;
    struct shm_ep *ep;
    struct shm_doorbell *doorbell; /* the peer's, or NULL: not introduced yet */
    uint32_t bell_number;          /* this link's in there */
    uint32_t number;               /* and in the endpoint's own */
    fi_addr_t addr;                /* of the peer; FI_ADDR_UNSPEC: not in the AV */
    bool fence;                    /* publishing takes a fence */
    bool hot, dead;
    bool posting;     /* the backlog, just now */
    bool heard;       /* the peer has written: before, the page of its half is not touched */
    bool told;        /* that this side has */
    bool owes;        /* the answer to the introduction, that could not be sent yet */
    bool one_way;     /* of a peer's transmit context, that receives nothing */
    bool chosen;      /* messages to this peer use this link, as long as it lives */
    bool cross_read;  /* attaching was not refused by the kernel yet */
    bool cross_tells; /* the peer has not refused to tell addresses for reads either */
    bool pause;       /* a large message was saved: the receiver may get ahead of the next */
    unsigned taken;   /* messages, since the last look at silent peers */
    unsigned fin_count;
    uint64_t behind; /* operations that a post may have to wait for: SHM_BIG_WRITE, ... */
    uint32_t fins[SHM_FINS];
    struct list busy;               /* of the endpoint */
    struct list controls;           /* answers that found no room */
    struct list backlog;            /* posts that found no room: shm_backlog.h */
    struct list streams;            /* operations that send data */
    struct list undecided;          /* fetchers that wait for a sample of the choice to end */
    struct list ops;                /* all of its operations */
    struct list all;                /* of the endpoint: links, or dead */
    struct list named;              /* of the endpoint's bucket */
    struct list held;               /* of the endpoint: told to send nothing unasked */
    struct list unasked;            /* of the endpoint: the peer would not wake us */
    size_t beyond;                  /* bytes saved since then */
    unsigned waiting;               /* announced messages without a receive */
    unsigned served, control_count; /* operations of the peer, answers in controls */
    unsigned refs;                  /* itself, and saved messages */
    void *region;                   /* NULL: accepted, not introduced yet */
    int fd;
    pid_t pid; /* 0: of another pid namespace */
    bool own;  /* the peer is an endpoint of this process */
    /* A random number in memory that only this process writes, until the link ends here; where the
     * peer has its own, and which: an attaching copy that finds it is one of the peer's memory
     * while the peer held the link. peer_stamp 0: it is not known. */
    _Atomic uint64_t stamp;
    uint64_t peer_stamp, peer_stamp_at;
    uint8_t context;       /* of the peer, that it was made to */
    bool barrier;          /* cooling it takes the fence of this side only */
    bool ended;            /* the peer has gone; its messages may still be here */
    int err;               /* positive: why it is dead */
    char *name;            /* the peer's address; NULL as long as region is */
    int64_t segment;       /* the peer's, for XPMEM; 0: it has none, or it is of no use */
    struct shm_maps *maps; /* windows of its memory, or NULL */
    struct shm_choice fetching, reading;
    struct shm_stores stores;
    struct shm_reclaim rest;
    struct shm_silence silence;
};

/* Listens from now on, and makes the doorbell. */
int shm_link_start(struct shm_ep *ep);

/*
 * The link to an address: an existing one, or a new one that can be written to at once. -FI_EAGAIN:
 * no endpoint listens there yet; -FI_EINVAL: not in the AV; positive FI_E code: none listens there,
 * and that is final.
 */
int shm_link_find(struct shm_ep *ep, fi_addr_t dest, struct shm_link **link);
/* Reads the sockets: requests, introductions, wake-ups, ends. */
void shm_link_look(struct shm_ep *ep);
/* Takes the messages in the ring, at most a batch; returns how many. */
unsigned shm_link_take(struct shm_link *link);
/* There is no message. */
bool shm_link_quiet(struct shm_link *link);
/* The same for a ring that is not polled; rings the doorbell for messages that are left. */
unsigned shm_link_take_cold(struct shm_link *link);
/* The peer has written on the link, and would not wake a sleeper. */
void shm_link_heard(struct shm_link *link);
/* There is no message, after taking a batch. */
bool shm_link_is_empty(struct shm_link *link);
/* For a receiver that does not poll: sets its doorbell, and wakes it if it sleeps. */
void shm_link_ring(struct shm_link *link);
/* Has the peer shut its socket down? It does so before it frees memory. */
bool shm_link_has_gone(const struct shm_link *link);
/* The link is of no use any more: everything on it ends with err (positive). It is freed by
 * shm_link_bury. */
void shm_link_fail(struct shm_link *link, int err);
void shm_link_bury(struct shm_ep *ep);
void shm_link_release(struct shm_link *link);
/* The peer's memory is not read through XPMEM any more. */
void shm_link_unmap(struct shm_link *link);
/* All links go, and the listener; nothing is reported. */
void shm_link_close_all(struct shm_ep *ep);

/* After a message was published. */
static inline void shm_link_notify(struct shm_link *link)
{
    if (__builtin_expect(link->fence, 0))
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(!atomic_load_explicit(&link->tx.credits->polled, memory_order_relaxed), 0))
        shm_link_ring(link);
}

#endif
