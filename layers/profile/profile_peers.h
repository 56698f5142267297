/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic by peer: operations posted to each fi_addr_t of an address vector, counted in the
 * blocks of threads. When the vector closes, the counts go to the peers' addresses, which the
 * reports of other processes have as their own.
 */
#ifndef WEFT_PROFILE_PEERS_H
#define WEFT_PROFILE_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

struct profile;

enum {
    PROFILE_PEERS = 4096, /* of a vector that are counted separately: fi_addr_t 0 to 4095 */
    PROFILE_AVS = 3,      /* vectors open at once */
    PROFILE_CELLS = 1 + PROFILE_AVS * (PROFILE_PEERS + 1),
    PROFILE_ADDRESS = 128, /* bytes of an address as text */
};

struct profile_cell {
    uint64_t messages, bytes;
};

/* The `own` of endpoints and address vectors: where the peers of one vector are counted. The first
 * is for endpoints without a vector. */
struct profile_seat {
    struct profile *profile;
    uint64_t first, room; /* cells of a block; the one behind `room` is for all other addresses */
    bool taken;
};

struct profile_peer {
    char *address; /* NULL: of those that are not told apart */
    struct profile_cell counts;
};

struct profile_peers {
    pthread_mutex_t mutex;
    struct profile_seat seats[1 + PROFILE_AVS];
    struct profile_peer *list;
    size_t count, room;
    char **own; /* addresses of our endpoints */
    size_t own_count;
};

void profile_peers_init(struct profile_peers *peers, struct profile *profile);
void profile_peers_finish(struct profile_peers *peers);

/* For a vector that has opened: the first seat when all are taken. */
struct profile_seat *profile_seat_take(struct profile_peers *peers);
/* `peer` is about to leave `av`, the lower's: its counts are added to the list. */
void profile_seat_forget(struct profile_seat *seat, struct fid_av *av, fi_addr_t peer);
/* The counts for the peers of `av`, the lower's; before it closes. */
struct profile_peer *profile_seat_read(struct profile_seat *seat, struct fid_av *av,
                                       size_t *ret_count);
/* It has closed, and nothing counts for it any more: the counts are added to the list. Frees found.
 */
void profile_seat_leave(struct profile_seat *seat, struct profile_peer *found, size_t count);
void profile_peers_free(struct profile_peer *found, size_t count);

/* The address of an endpoint of the lower, now that it has one. */
void profile_own_address(struct profile_peers *peers, struct fid_ep *ep);

#endif
