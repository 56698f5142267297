/* SPDX-License-Identifier: BSD-2-Clause */
/* Two ends of rxd that know each other, seen from inside of the first one. */
#ifndef WEFT_TESTS_LAYERS_RXD_ACQUAINTED_H
#define WEFT_TESTS_LAYERS_RXD_ACQUAINTED_H

#include "layers/rxd/rxd.h"
#include "tests/support/end.h"

/* The second end as the first one's peer, once each has the other in its AV and they have exchanged
 * messages, each of which has come, so often that packets need no introduction any more. */
static inline struct rxd_peer *acquainted(struct end *a, struct end *b,
                                          void (*exchange)(struct end *from, struct end *to))
{
    struct rxd_ep *ep = rxd_ep_of(object_of(a->ep, struct message_ep, fid));
    struct rxd_peer *peer;

    end_meet(a, b);
    for (int i = 0; i < 10; i++)
        exchange(i % 2 ? a : b, i % 2 ? b : a);
    assert_non_null(peer_map_at(&ep->base.map, a->peer));
    peer = rxd_peer_of(peer_map_at(&ep->base.map, a->peer));
    assert_int_equal(peer->known, RXD_KNOWS_US);
    return peer;
}

#endif
