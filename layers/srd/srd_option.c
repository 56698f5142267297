/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of endpoints: FI_OPT_EFA_*, with libfabric's answers on fabric efa. Source: fi_efa(7). */
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include "core/base/seam.h"
#include "layers/srd/srd.h"

static struct srd_ep *ep_of(struct endpoint *base)
{
    return srd_ep_of(object_of(base, struct message_ep, endpoint));
}

static int answer(bool is, void *value, size_t *len)
{
    size_t room = *len;

    *len = sizeof(is);
    if (room < sizeof(is))
        return -FI_ETOOSMALL;
    memcpy(value, &is, sizeof(is));
    return 0;
}

static int read_bool(const void *value, size_t len, bool *is)
{
    if (len != sizeof(*is))
        return -FI_EINVAL;
    memcpy(is, value, sizeof(*is));
    return 0;
}

static int answer_emulated_read(struct endpoint *base, void *value, size_t *len)
{
    return answer(!ep_of(base)->reads, value, len);
}

static int answer_emulated_write(struct endpoint *base, void *value, size_t *len)
{
    return answer(!ep_of(base)->writes, value, len);
}

static int answer_emulated_atomics(struct endpoint *base, void *value, size_t *len)
{
    return answer(true, value, len);
}

static int set_below(struct endpoint *base, int option, const void *value, size_t len)
{
    return fi_setopt(&ep_of(base)->base.lower->fid, FI_OPT_ENDPOINT, option, value, len);
}

/* Accepted, without effect: a peer's features are asked for. */
static int set_without_effect(struct endpoint *base, const void *value, size_t len)
{
    bool is;

    return read_bool(value, len, &is);
}

/* Without effect here, but for its relation to FI_EFA_ENABLE_SHM_TRANSFER. */
static int set_shared_memory(struct endpoint *base, const void *value, size_t len)
{
    const struct lower_domain *domain = ep_of(base)->base.domain;
    bool is;
    int rc = read_bool(value, len, &is);

    if (!rc && is && !params_bool(domain->fabric->plain.params, "shm_transfer"))
        return -FI_EINVAL;
    return rc ? rc : message_set_shared_memory(base, value, len);
}

/* Before the first peer hears of it. */
static int set_device_rdma(struct endpoint *base, const void *value, size_t len)
{
    struct srd_ep *ep = ep_of(base);
    bool is;
    int rc = read_bool(value, len, &is);

    if (FI_VERSION_LT(base->domain->fabric->api_version, FI_VERSION(1, 18)))
        return -FI_ENOPROTOOPT;
    if (rc || base->enabled ||
        set_below(base, FI_OPT_EFA_USE_DEVICE_RDMA, value, len) == -FI_EINVAL)
        return -FI_EINVAL; /* FI_EFA_USE_DEVICE_RDMA says otherwise */
    if (is)
        return ep->reads ? 0 : -FI_EOPNOTSUPP;
    if (ep->devices)
        return -FI_EOPNOTSUPP; /* their memory moves by the device alone */
    ep->reads = ep->writes = false;
    return 0;
}

/* Packets of a message come in any order. */
static int set_messages_in_order(struct endpoint *base, const void *value, size_t len)
{
    bool is;
    int rc = read_bool(value, len, &is);

    return !rc && is ? -FI_EOPNOTSUPP : rc;
}

/* ---- Memory of devices: no byte of it passes the CPU ---- */

static int answer_p2p(struct endpoint *base, void *value, size_t *len)
{
    const int required = FI_HMEM_P2P_REQUIRED;
    size_t room = *len;

    if (!ep_of(base)->devices)
        return -FI_ENOPROTOOPT;
    *len = sizeof(required);
    if (room < sizeof(required))
        return -FI_ETOOSMALL;
    memcpy(value, &required, sizeof(required));
    return 0;
}

/* No function of CUDA's is called, permitted or not. */
static int set_cuda(struct endpoint *base, const void *value, size_t len)
{
    return ep_of(base)->devices ? set_without_effect(base, value, len) : -FI_ENOPROTOOPT;
}

static int set_p2p(struct endpoint *base, const void *value, size_t len)
{
    int how;

    if (!ep_of(base)->devices)
        return -FI_ENOPROTOOPT;
    if (len != sizeof(how))
        return -FI_EINVAL;
    memcpy(&how, value, sizeof(how));
    return how == FI_HMEM_P2P_DISABLED ? -FI_EOPNOTSUPP : 0;
}

/* ---- The device's affair ---- */

static int set_rnr_retry(struct endpoint *base, const void *value, size_t len)
{
    return set_below(base, FI_OPT_EFA_RNR_RETRY, value, len);
}

static int answer_rnr_retry(struct endpoint *base, void *value, size_t *len)
{
    return fi_getopt(&ep_of(base)->base.lower->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_RNR_RETRY, value,
                     len);
}

static int set_writes_in_order(struct endpoint *base, const void *value, size_t len)
{
    return set_below(base, FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES, value, len);
}

static int set_unsolicited(struct endpoint *base, const void *value, size_t len)
{
    return set_below(base, FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV, value, len);
}

#define SET(option, function)                                                                      \
    {                                                                                              \
        .name = (option), .kind = OPTION_FUNCTION, .set = (function)                               \
    }
#define ANSWER(option, function)                                                                   \
    {                                                                                              \
        .name = (option), .kind = OPTION_ANSWER, .answer = (function)                              \
    }

const struct endpoint_option srd_options[] = {
    SET(FI_OPT_SHARED_MEMORY_PERMITTED, set_shared_memory), /* instead of the next one */
    MESSAGE_OPTIONS,
    ANSWER(FI_OPT_EFA_EMULATED_READ, answer_emulated_read),
    ANSWER(FI_OPT_EFA_EMULATED_WRITE, answer_emulated_write),
    ANSWER(FI_OPT_EFA_EMULATED_ATOMICS, answer_emulated_atomics),
    SET(FI_OPT_EFA_HOMOGENEOUS_PEERS, set_without_effect),
    SET(FI_OPT_CUDA_API_PERMITTED, set_cuda),
    {.name = FI_OPT_FI_HMEM_P2P, .kind = OPTION_FUNCTION, .set = set_p2p, .answer = answer_p2p},
    SET(FI_OPT_EFA_USE_DEVICE_RDMA, set_device_rdma),
    SET(FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES, set_messages_in_order),
    SET(FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES, set_writes_in_order),
    SET(FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV, set_unsolicited),
    {.name = FI_OPT_EFA_RNR_RETRY,
     .kind = OPTION_FUNCTION,
     .set = set_rnr_retry,
     .answer = answer_rnr_retry},
    {.name = 0},
};
