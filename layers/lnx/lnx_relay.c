/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_relay.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/fid.h"
#include "layers/lnx/lnx_domain.h"
#include "layers/lnx/lnx_face.h"

static ssize_t pass(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len, void *buf,
                    uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct fid_peer_cq *sink = object_of(peer, struct lnx_relay, peer)->sink;

    return sink->owner_ops->write(sink, context, flags, len, buf, data, tag, src);
}

/* Bytes of raw; 0: it is too long for an address of ours, or there is no memory. A peer that
 * reaches us by a branch that stays on this node has the branch's token, as we do. */
static size_t address_of(const struct lnx_relay *relay, const struct fi_cq_err_entry *entry,
                         unsigned char *raw)
{
    const struct lnx_branch *branch = &relay->domain->branch[relay->branch];
    struct lnx_addr *addr = calloc(1, sizeof(*addr));
    size_t written = 0;

    if (addr && entry->err_data_size && entry->err_data_size <= sizeof(addr->branch[0].addr)) {
        addr->count = 1;
        addr->branch[0].kind = branch->kind;
        addr->branch[0].reach = branch->reach;
        addr->branch[0].format = branch->info->addr_format;
        addr->branch[0].len = entry->err_data_size;
        memcpy(addr->branch[0].addr, entry->err_data, entry->err_data_size);
        written = lnx_face_encode(relay->domain, addr, raw);
    }
    free(addr);
    return written;
}

static ssize_t pass_error(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
    const struct lnx_relay *relay = object_of(peer, struct lnx_relay, peer);
    struct fi_cq_err_entry ours = *entry;
    unsigned char raw[LNX_ADDR_MAX];

    if (entry->err != FI_EADDRNOTAVAIL || !entry->err_data)
        return relay->sink->owner_ops->writeerr(relay->sink, entry);
    ours.err_data_size = address_of(relay, entry, raw);
    ours.err_data = ours.err_data_size ? raw : NULL;
    return relay->sink->owner_ops->writeerr(relay->sink, &ours);
}

static struct fi_ops_cq_owner ops = {
    .size = sizeof(ops),
    .write = pass,
    .writeerr = pass_error,
};

struct fid_peer_cq *lnx_relay_init(struct lnx_relay *relay, const struct lnx_domain *domain,
                                   unsigned branch, struct fid_peer_cq *sink)
{
    if (!domain->source_err)
        return sink;
    fid_init(&relay->peer.fid, FI_CLASS_PEER_CQ, relay, NULL);
    relay->peer.owner_ops = &ops;
    relay->sink = sink;
    relay->domain = domain;
    relay->branch = branch;
    return &relay->peer;
}
