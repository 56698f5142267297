/* SPDX-License-Identifier: BSD-2-Clause */
/* The cost of an address that is only inserted in the address vector of a join: its own bytes, and
 * at most 100 more, its places in the vectors of the lowers. */
#ifndef WEFT_TEST_JOIN_MEMORY_H
#define WEFT_TEST_JOIN_MEMORY_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include "../support/heap.h"

enum {
    JOIN_PEERS = 131000, /* tables that double are nearly full, as with a million */
    JOIN_BESIDE = 100,   /* bytes */
};

/* Puts another host in each place of *was, which becomes that one. */
static inline void join_host_put(unsigned char *raw, size_t len, uint32_t *was, uint32_t number)
{
    uint32_t host = htonl(0x0a000000 + number);
    bool found = false;

    for (size_t i = 0; i + sizeof(host) <= len; i++)
        if (!memcmp(raw + i, was, sizeof(host))) {
            memcpy(raw + i, &host, sizeof(host));
            found = true;
        }
    assert_true(found);
    *was = host;
}

/* Turns an address of ours, of *len bytes, into that of another peer. */
typedef void join_peer_make(unsigned char *raw, size_t len, uint32_t number);

static inline size_t join_bytes_of(struct fid_domain *domain, unsigned char *raw, size_t len,
                                   join_peer_make *make, size_t count)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .count = count};
    size_t before = heap_in_use(), after;
    struct fid_av *av;

    assert_int_equal(fi_av_open(domain, &attr, &av, NULL), 0);
    for (uint32_t i = 0; i < JOIN_PEERS; i++) {
        make(raw, len, i);
        assert_int_equal(fi_av_insert(av, raw, 1, NULL, 0, NULL), 1);
    }
    after = heap_in_use();
    assert_int_equal(fi_close(&av->fid), 0);
    return (after - before) / JOIN_PEERS;
}

static inline void join_is_small(const char *spec, join_peer_make *make)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    unsigned char raw[512];
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    size_t len = sizeof(raw);

    setenv("FI_PROVIDER", spec, 1);
    hints->caps = FI_MSG;
    hints->ep_attr->type = FI_EP_RDM;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    assert_int_equal(fi_getname(&ep->fid, raw, &len), 0);
    for (int known = 0; known < 2; known++) {
        size_t each = join_bytes_of(domain, raw, len, make, known ? JOIN_PEERS : 0);

        print_message("%s: an address of %zu takes %zu bytes%s\n", spec, len, each,
                      known ? ", with their number known" : "");
        assert_true(each <= len + JOIN_BESIDE);
    }
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

#endif
