/* SPDX-License-Identifier: BSD-2-Clause */
/* Infos of srd, made of its lower's. */
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/layer/message_info.h"
#include "layers/srd/srd.h"

#define DEVICE_KEYS (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define READS (FI_RMA | FI_READ | FI_REMOTE_READ)
#define WRITES (FI_WRITE | FI_REMOTE_WRITE)

/* Messages and atomics have one sequence of numbers; writes and reads have none. */
#define ORDERS                                                                                     \
    ((uint64_t)(FI_ORDER_SAS | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR |   \
                FI_ORDER_ATOMIC_WAW))

size_t srd_request_head(const struct fi_info *lower)
{
    size_t own = srd_name_own_size(lower);

    return SRD_REQUEST_HEAD +
           srd_raw_size(!own || own == SRD_ADDR_SIZE ? SRD_ADDR_SIZE + 4 : own + SRD_LIVES);
}

size_t srd_operand_size(const struct fi_info *lower)
{
    size_t max = lower->ep_attr->max_msg_size;
    size_t size = ((max < SRD_PACKET_MOST ? max : SRD_PACKET_MOST) - srd_request_head(lower)) / 2;

    return size < REMOTE_OPERAND ? size : REMOTE_OPERAND;
}

/* Hints that say something and nothing of orders want none: then nothing is held back. */
static uint64_t orders(const struct fi_info *hints)
{
    bool asked = hints->tx_attr->msg_order || hints->rx_attr->msg_order;

    return asked || !hints->caps ? ORDERS : FI_ORDER_NONE;
}

/* ---- Regions ---- */

bool srd_has_device_keys(const struct fi_info *info)
{
    return (info_mr_bits(info) & DEVICE_KEYS) == DEVICE_KEYS;
}

/* Peers of libfabric's efa that hear of a device's accesses use the application's keys and
 * addresses with it: so its regions have to be the device's. That does without counters of such
 * accesses, which no CPU sees. */
static bool takes_device_keys(const struct request *req, const struct fi_info *lower)
{
    const struct fi_info *hints = req->hints;
    int mode = hints->domain_attr->mr_mode;
    bool allowed = mr_mode_is_old(hints, req->version) ? mode == FI_MR_BASIC || mode == FI_MR_UNSPEC
                                                       : (mode & DEVICE_KEYS) == DEVICE_KEYS;

    return allowed && !(hints->caps & FI_RMA_EVENT) &&
           (info_mr_bits(lower) & (FI_MR_LOCAL | FI_MR_VIRT_ADDR)) ==
               (FI_MR_LOCAL | FI_MR_VIRT_ADDR);
}

static bool registers_buffers(const struct request *req)
{
    int mode = req->hints->domain_attr->mr_mode;

    return !mr_mode_is_old(req->hints, req->version) && !info_mr_is_any(mode) && mode & FI_MR_LOCAL;
}

/* ---- Memory of devices ---- */

static bool asks_for_devices(const struct request *req)
{
    const struct fi_info *hints = req->hints;

    return (hints->caps | hints->tx_attr->caps | hints->rx_attr->caps) & FI_HMEM;
}

/* Its bytes move by the lower alone, which reads them at a peer and here. */
int srd_needs(const struct request *req, struct fi_info **lower_hints)
{
    int rc = message_needs(req, lower_hints);

    if (!rc && asks_for_devices(req)) {
        (*lower_hints)->caps |= FI_HMEM | READS | WRITES;
        (*lower_hints)->domain_attr->mr_mode |= FI_MR_HMEM;
    }
    return rc;
}

static int check_devices(const struct request *req, const struct fi_info *lower)
{
    const uint64_t needed = FI_HMEM | FI_RMA | FI_READ;

    if (!asks_for_devices(req))
        return 0;
    if ((lower->caps & needed) != needed)
        reasons_add_at(req->reasons, REASON_CAPS,
                       "caps: srd has FI_HMEM over a lower that has it and reads remote memory, "
                       "since no byte of it passes the CPU");
    else if (!(req->hints->domain_attr->mr_mode & FI_MR_HMEM) || !takes_device_keys(req, lower))
        reasons_add_at(req->reasons, REASON_CAPS,
                       "caps: FI_HMEM takes domain_attr->mr_mode with FI_MR_HMEM, "
                       "FI_MR_VIRT_ADDR, FI_MR_ALLOCATED and FI_MR_PROV_KEY, and no FI_RMA_EVENT");
    else
        return 0;
    return -FI_ENODATA;
}

static void add_devices(struct fi_info *info)
{
    info->caps |= FI_HMEM;
    info->tx_attr->caps |= FI_HMEM;
    info->rx_attr->caps |= FI_HMEM;
    info->domain_attr->mr_mode |= FI_MR_HMEM;
}

static void describe_regions(struct fi_info *info, const struct request *req,
                             const struct fi_info *lower)
{
    const struct fi_domain_attr *below = lower->domain_attr;

    info->domain_attr->mr_mode = DEVICE_KEYS | (registers_buffers(req) ? FI_MR_LOCAL : 0);
    info->domain_attr->mr_key_size = below->mr_key_size;
    info->domain_attr->mr_iov_limit = below->mr_iov_limit ? below->mr_iov_limit : 1;
    info->domain_attr->cq_data_size = below->cq_data_size;
    info->caps &= ~(uint64_t)FI_RMA_EVENT;
    info->tx_attr->caps &= ~(uint64_t)FI_RMA_EVENT;
    info->rx_attr->caps &= ~(uint64_t)FI_RMA_EVENT;
}

int srd_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    size_t packet = lower->ep_attr->max_msg_size, room = packet - srd_request_head(lower);
    const struct message_offer offer = {
        .order = orders(req->hints),
        .inject_size = room < SRD_INJECT ? room : SRD_INJECT,
        .max_order_size = srd_operand_size(lower),
        .protocol = FI_PROTO_EFA,
        .protocol_version = SRD_VERSION,
        .contexts = 1,
        .own_addresses = srd_name_own_size(lower) != 0,
    };
    int rc = message_check_lower(req, lower, "srd");

    *info = NULL;
    if (!rc)
        rc = check_devices(req, lower);
    if (rc)
        return rc;
    if (srd_name_own_size(lower) > SRD_NAME_MOST) {
        reasons_add(req->reasons, "srd carries addresses of at most %d bytes; the lower's have %zu",
                    SRD_NAME_MOST, srd_name_own_size(lower));
        return -FI_ENODATA;
    }
    rc = message_describe(req, lower, &offer, info);
    if (rc)
        return rc;
    /* Receives beyond those that the lower holds cost memory only: more may be asked for. */
    if (!req->hints->rx_attr->size && lower->rx_attr->size)
        (*info)->rx_attr->size = lower->rx_attr->size;
    if (takes_device_keys(req, lower))
        describe_regions(*info, req, lower);
    if (asks_for_devices(req))
        add_devices(*info);
    return 0;
}

/* With remote memory, as far as it has that and it may be used. */
int srd_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info)
{
    static const uint64_t wishes[] = {READS | WRITES, READS};
    uint64_t devices = info->caps & FI_HMEM;
    int rc = -FI_ENODATA;

    for (size_t i = 0; i < 2 && rc == -FI_ENODATA && srd_has_device_keys(info); i++)
        rc = message_lower_info(fabric, info, wishes[i] | devices, lower_info);
    return rc == -FI_ENODATA && !devices ? message_lower_info(fabric, info, 0, lower_info) : rc;
}
