/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of endpoints: FI_OPT_EFA_*, with libfabric's answers on efa-direct. Source: fi_efa(7). */
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include "core/base/fid.h"
#include "transports/efa/efa.h"

enum {
    RNR_MOST = 7, /* without end */
};

static struct efa_ep *ep_of(struct endpoint *base)
{
    return object_of(base, struct efa_ep, base);
}

static int answer(const void *from, size_t size, void *value, size_t *len)
{
    size_t room = *len;

    *len = size;
    if (room < size)
        return -FI_ETOOSMALL;
    memcpy(value, from, size);
    return 0;
}

static int read_bool(const void *value, size_t len, bool *is)
{
    if (len != sizeof(*is))
        return -FI_EINVAL;
    memcpy(is, value, sizeof(*is));
    return 0;
}

/* Accepted, without effect: there is no shared memory, nor memory of devices, nor a handshake. */
static int set_without_effect(struct endpoint *base, const void *value, size_t len)
{
    bool is;

    return read_bool(value, len, &is);
}

static int set_rnr_retry(struct endpoint *base, const void *value, size_t len)
{
    struct efa_ep *ep = ep_of(base);
    size_t count;

    if (len != sizeof(count) || base->enabled)
        return -FI_EINVAL;
    memcpy(&count, value, sizeof(count));
    if (count > RNR_MOST)
        return -FI_EINVAL;
    if (!(ep->domain->device->efa.device_caps & EFADV_DEVICE_ATTR_CAPS_RNR_RETRY))
        return -FI_ENOSYS;
    ep->rnr_retry = (uint8_t)count;
    return 0;
}

static int answer_rnr_retry(struct endpoint *base, void *value, size_t *len)
{
    size_t count = ep_of(base)->rnr_retry;

    return answer(&count, sizeof(count), value, len);
}

/* Nothing is emulated here: an access is the device's, or is not offered. */
static int answer_false(struct endpoint *base, void *value, size_t *len)
{
    bool is = false;

    return answer(&is, sizeof(is), value, len);
}

/* Of fabric efa: does FI_EFA_USE_DEVICE_RDMA say otherwise? */
static bool contradicts(const struct efa_ep *ep, bool is)
{
    const char *use = params_string(efa_params(ep->domain), "use_device_rdma");

    return !efa_is_direct(ep->domain->base.info->fabric_attr) && !strcmp(use, is ? "0" : "1");
}

static int set_device_rdma(struct endpoint *base, const void *value, size_t len)
{
    struct efa_ep *ep = ep_of(base);
    bool is;
    int rc = read_bool(value, len, &is);

    if (FI_VERSION_LT(base->domain->fabric->api_version, FI_VERSION(1, 18)))
        return -FI_ENOPROTOOPT;
    if (!rc && contradicts(ep, is))
        return -FI_EINVAL;
    if (!rc && is != (ep->max_rma != 0) &&
        (ep->max_rma || !efa_device_accesses(ep->domain->device)))
        return -FI_EOPNOTSUPP;
    return rc;
}

/* Whether the device writes bytes in order cannot be chosen. */
static int set_in_order(struct endpoint *base, const void *value, size_t len,
                        enum ibv_wr_opcode opcode)
{
    bool is;
    int rc = read_bool(value, len, &is);

    return !rc && is && !efa_qp_is_in_order(ep_of(base), opcode) ? -FI_EOPNOTSUPP : rc;
}

static int set_messages_in_order(struct endpoint *base, const void *value, size_t len)
{
    return set_in_order(base, value, len, IBV_WR_SEND);
}

static int set_writes_in_order(struct endpoint *base, const void *value, size_t len)
{
    return set_in_order(base, value, len, IBV_WR_RDMA_WRITE);
}

/* The data of a write takes a receive, or does not. A program that posts none for it must not be
 * in need of one. */
static int set_unsolicited(struct endpoint *base, const void *value, size_t len)
{
    struct efa_ep *ep = ep_of(base);
    bool is;
    int rc = read_bool(value, len, &is);

    if (rc || base->enabled)
        return -FI_EINVAL;
    if (is ? !efa_device_tells(ep->domain->device) : ep->max_rma && !ep->takes_data)
        return -FI_EOPNOTSUPP;
    ep->unsolicited = is && ep->max_rma;
    return 0;
}

static int answer_p2p(struct endpoint *base, void *value, size_t *len)
{
    int required = FI_HMEM_P2P_REQUIRED;

    return answer(&required, sizeof(required), value, len);
}

static int set_p2p(struct endpoint *base, const void *value, size_t len)
{
    int how;

    if (len != sizeof(how))
        return -FI_EINVAL;
    memcpy(&how, value, sizeof(how));
    return how == FI_HMEM_P2P_DISABLED ? -FI_EOPNOTSUPP : 0;
}

/* There are no tags and no atomics, so nothing is told of their sizes. */
static int set_nothing(struct endpoint *base, const void *value, size_t len)
{
    return -FI_ENOPROTOOPT;
}

static int answer_nothing(struct endpoint *base, void *value, size_t *len)
{
    return -FI_ENOPROTOOPT;
}

#define NOTHING(option)                                                                            \
    {                                                                                              \
        .name = (option), .kind = OPTION_FUNCTION, .set = set_nothing, .answer = answer_nothing    \
    }

const struct endpoint_option efa_options[] = {
    NOTHING(FI_OPT_MAX_TAGGED_SIZE),
    NOTHING(FI_OPT_MAX_ATOMIC_SIZE),
    NOTHING(FI_OPT_INJECT_TAGGED_SIZE),
    NOTHING(FI_OPT_INJECT_ATOMIC_SIZE),
    {.name = FI_OPT_SHARED_MEMORY_PERMITTED, .kind = OPTION_FUNCTION, .set = set_without_effect},
    {.name = FI_OPT_CUDA_API_PERMITTED, .kind = OPTION_FUNCTION, .set = set_without_effect},
    {.name = FI_OPT_EFA_HOMOGENEOUS_PEERS, .kind = OPTION_FUNCTION, .set = set_without_effect},
    {.name = FI_OPT_FI_HMEM_P2P, .kind = OPTION_FUNCTION, .set = set_p2p, .answer = answer_p2p},
    {.name = FI_OPT_EFA_RNR_RETRY,
     .kind = OPTION_FUNCTION,
     .set = set_rnr_retry,
     .answer = answer_rnr_retry},
    {.name = FI_OPT_EFA_EMULATED_READ, .kind = OPTION_ANSWER, .answer = answer_false},
    {.name = FI_OPT_EFA_EMULATED_WRITE, .kind = OPTION_ANSWER, .answer = answer_false},
    {.name = FI_OPT_EFA_USE_DEVICE_RDMA, .kind = OPTION_FUNCTION, .set = set_device_rdma},
    {.name = FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES,
     .kind = OPTION_FUNCTION,
     .set = set_messages_in_order},
    {.name = FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES,
     .kind = OPTION_FUNCTION,
     .set = set_writes_in_order},
    {.name = FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV,
     .kind = OPTION_FUNCTION,
     .set = set_unsolicited},
    {.name = 0},
};
