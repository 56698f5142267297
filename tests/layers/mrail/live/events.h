/* SPDX-License-Identifier: BSD-2-Clause */
/* A pair whose endpoints tell of their rails in a queue. */
#ifndef WEFT_TESTS_LAYERS_MRAIL_LIVE_EVENTS_H
#define WEFT_TESTS_LAYERS_MRAIL_LIVE_EVENTS_H

#include "../../pair.h"

/* Each endpoint has the pair as its context. */
static inline void pair_open_with_events(struct pair *pair, const char *spec, struct fid_eq **eq)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 256};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    unsigned char address[256];
    size_t len;

    pair->info = pair_info(spec);
    assert_int_equal(fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL), 0);
    assert_int_equal(fi_domain(pair->fabric, pair->info, &pair->domain, NULL), 0);
    assert_int_equal(fi_cq_open(pair->domain, &cq, &pair->cq, NULL), 0);
    assert_int_equal(fi_av_open(pair->domain, &av, &pair->av, NULL), 0);
    assert_int_equal(fi_eq_open(pair->fabric, &attr, eq, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_endpoint(pair->domain, pair->info, &pair->ep[i], pair), 0);
        assert_int_equal(fi_ep_bind(pair->ep[i], &pair->cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(pair->ep[i], &pair->av->fid, 0), 0);
        assert_int_equal(fi_ep_bind(pair->ep[i], &(*eq)->fid, 0), 0);
        assert_int_equal(fi_enable(pair->ep[i]), 0);
        len = sizeof(address);
        assert_int_equal(fi_getname(&pair->ep[i]->fid, address, &len), 0);
        assert_int_equal(fi_av_insert(pair->av, address, 1, &pair->to[i], 0, NULL), 1);
    }
}

#endif
