/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prov_errno and their texts, by the numbers of libfabric's efa: those of the device are the
 * lower's, those from 4096 on are of this wire.
 */
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/layer/lower_domain.h"
#include "layers/srd/srd.h"

enum {
    DEVICE_UNRESPONSIVE = 13,
    DEVICE_MOST = 31, /* FI_E codes up to that one would be taken for the device's */
};

static const char *const texts[] = {
    [0] = "an error",
    [1] = "a type of packet that is used no more",
    [2] = "a type of packet that does not belong here",
    [3] = "an unknown type of packet",
    [4] = "a packet could not be posted",
    [5] = "a packet could not be sent",
    [6] = "a message could not be taken",
    [7] = "a message with a tag could not be taken",
    [8] = "a message came twice",
    [9] = "no memory",
    [10] = "a memory region could not be closed",
    [11] = "bytes could not be copied into their receive",
    [12] = "too many receives are under way",
    [13] = "too many sends are under way",
    [14] = "an address could not be inserted",
    [15] = "the peer has no such memory, or does not allow the access",
    [16] = "receives for packets could not be posted",
    [17] = "a handshake could not be posted",
    [18] = "a request could not be posted to the device",
    [19] = "a request of another size than its memory",
    [20] = "a read could not be posted",
    [21] = "a read of remote memory failed",
    [22] = "the peer does not know the operation or datatype of the atomic",
    [23] = "a completion of a send could not be written",
    [24] = "a completion of a receive could not be written",
    [25] = "the queue of datagrams could not be read",
    [26] = "an error of shared memory",
    [27] = "an error in the completion queue of shared memory",
    [28] = "the peer does not answer any more",
    [29] = "a packet that an endpoint without headers does not take",
    [30] = "the peer has never answered",
    [31] = "the peer has ended what was under way",
};

/* The device does not know whether a peer that does not answer ever did; its handshake tells. */
void srd_error_refine(struct message_packet *packet)
{
    struct message_ep *ep = packet->ep;

    if (!srd_ep_of(ep)->efa || ep->code != DEVICE_UNRESPONSIVE || !packet->peer)
        return;
    ep->code = srd_peer_of(packet->peer)->introduced ? SRD_ERR_UNRESPONSIVE : SRD_ERR_UNREACHED;
}

int srd_error_code(const struct message_ep *ep, int err)
{
    if (srd_ep_of(ep)->efa && ep->code)
        return ep->code;
    switch (err) {
    case FI_ENOMEM: return SRD_ERR_NO_MEMORY;
    case FI_EACCES: return SRD_ERR_ADDRESS;
    case FI_EIO: return SRD_ERR_READ;
    default: return err > DEVICE_MOST ? err : SRD_ERR_OTHER;
    }
}

const char *srd_error_text(const struct domain *base, int code)
{
    const struct lower_domain *domain = object_of(base, struct lower_domain, base);
    struct error_text lower = {.code = code};
    int from = code - SRD_ERR_OTHER;

    if (from >= 0 && from < (int)(sizeof(texts) / sizeof(texts[0])))
        return texts[from];
    return fi_control(&domain->lower->fid, CONTROL_ERROR_TEXT, &lower) ? NULL : lower.text;
}
