/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The infos of a device: in fabric efa-direct endpoints of one request an operation, in fabric efa
 * datagrams, and for layers that need them reliable packets, of which they make fabric efa's
 * messages.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/info/nic.h"
#include "core/net/rdma_nic.h"
#include "transports/efa/efa.h"

#define MESSAGES (FI_MSG | FI_SEND | FI_RECV | FI_SOURCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_PEER)
#define ACCESSES (FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

enum {
    OBJECTS = 65536,
    NAME_ROOM = IBV_SYSFS_NAME_MAX + 8,
};

enum kind {
    PACKETS,
    DIRECT,
    DATAGRAMS,
};

/* The addresses that a question is about. */
struct question {
    const struct request *req;
    bool has_src, has_dest;
    struct efa_addr src, dest;
};

static void fill_domain(struct fi_domain_attr *attr, const struct efa_device *device)
{
    attr->caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
    attr->mr_mode = (int)(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
    attr->mr_key_size = sizeof(uint32_t);
    attr->mr_iov_limit = 1;
    attr->mr_cnt = (size_t)device->attr.max_mr;
    attr->cq_data_size = EFA_CQ_DATA;
    attr->cq_cnt = attr->ep_cnt = attr->cntr_cnt = OBJECTS;
    attr->max_ep_tx_ctx = attr->max_ep_rx_ctx = 1;
    attr->tclass = INFO_ANY_TCLASS;
}

static size_t limited(const struct params *params, const char *key, size_t most)
{
    size_t asked = (size_t)params_int(params, key);

    return asked && asked < most ? asked : most;
}

static void fill(struct fi_info *info, const struct params *params, const struct efa_device *device)
{
    info->caps = info->tx_attr->caps = info->rx_attr->caps = MESSAGES;
    info->addr_format = FI_ADDR_EFA;
    info->tx_attr->op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;
    info->tx_attr->inject_size = device->efa.inline_buf_size;
    info->tx_attr->size = limited(params, "tx_size", device->efa.max_sq_wr);
    info->tx_attr->iov_limit = device->efa.max_sq_sge < EFA_SEGMENTS ? 1 : EFA_SEGMENTS;
    info->tx_attr->tclass = INFO_ANY_TCLASS;
    info->rx_attr->op_flags = FI_COMPLETION;
    info->rx_attr->size = limited(params, "rx_size", device->efa.max_rq_wr);
    info->rx_attr->iov_limit = device->efa.max_rq_sge < EFA_SEGMENTS ? 1 : EFA_SEGMENTS;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = FI_PROTO_EFA;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->max_msg_size = device->port.max_msg_sz;
    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
    fill_domain(info->domain_attr, device);
}

static void make_datagrams(struct fi_info *info)
{
    info->ep_attr->type = FI_EP_DGRAM;
    info->ep_attr->msg_prefix_size = EFA_PREFIX;
    info->mode |= FI_MSG_PREFIX;
    info->tx_attr->mode |= FI_MSG_PREFIX;
    info->rx_attr->mode |= FI_MSG_PREFIX;
}

static bool use_is(const struct request *req, const char *value)
{
    return !strcmp(params_string(req->params, "use_device_rdma"), value);
}

/* Remote memory: immediate data of writes takes receives, which the application has to know
 * (FI_RX_CQ_DATA), unless the device tells of it without. A question without any mode is one
 * without hints. */
static void add_accesses(struct fi_info *info, const struct question *question,
                         const struct efa_device *device)
{
    const struct fi_info *hints = question->req->hints;
    uint64_t caps = hints->caps | hints->tx_attr->caps | hints->rx_attr->caps;
    bool takes = !caps || (hints->mode | hints->rx_attr->mode) & FI_RX_CQ_DATA;
    bool tells = efa_device_tells(device) &&
                 params_bool(question->req->params, "use_unsolicited_write_recv");

    if ((caps && !(caps & ACCESSES)) || use_is(question->req, "0"))
        return;
    if (!efa_device_accesses(device)) {
        reasons_add(question->req->reasons, "%s does not read and write remote memory",
                    device->name);
        return;
    }
    if (caps && !takes && !tells) {
        reasons_add(question->req->reasons,
                    "mode: efa-direct has FI_RMA for programs that post receives for the data of "
                    "writes (FI_RX_CQ_DATA)");
        return;
    }
    info->caps |= ACCESSES;
    info->tx_attr->caps = info->rx_attr->caps = info->caps;
    if (takes) {
        info->mode |= FI_RX_CQ_DATA;
        info->rx_attr->mode = FI_RX_CQ_DATA;
    }
    info->tx_attr->rma_iov_limit = 1;
    if (info->ep_attr->max_msg_size < device->efa.max_rdma_size)
        info->ep_attr->max_msg_size = device->efa.max_rdma_size;
}

/* Memory of other devices, for programs that ask for it (FI_HMEM) and say so when they register it
 * (FI_MR_HMEM). The device reaches it; the CPU does not. */
static void add_device_memory(struct fi_info *info, const struct fi_info *hints)
{
    if (!((hints->caps | hints->tx_attr->caps | hints->rx_attr->caps) & FI_HMEM))
        return;
    info->caps |= FI_HMEM;
    info->tx_attr->caps |= FI_HMEM;
    info->rx_attr->caps |= FI_HMEM;
    info->domain_attr->mr_mode |= FI_MR_HMEM;
}

/* An application that asks for peers of other nodes alone gets no promise about those of its own,
 * as with libfabric, whose shared memory that turns off. */
static void restrict_reach(struct fi_info *info, const struct fi_info *hints)
{
    uint64_t asked = hints->caps | hints->domain_attr->caps;

    if (!(asked & FI_REMOTE_COMM) || asked & FI_LOCAL_COMM)
        return;
    info->caps &= ~FI_LOCAL_COMM;
    info->tx_attr->caps &= ~FI_LOCAL_COMM;
    info->rx_attr->caps &= ~FI_LOCAL_COMM;
    info->domain_attr->caps &= ~FI_LOCAL_COMM;
}

/* Of packets, for a layer that asks for it: it knows what a write's data does. */
static void add_packet_accesses(struct fi_info *info, const struct question *question,
                                const struct efa_device *device)
{
    if (!(question->req->hints->caps & FI_RMA) || use_is(question->req, "0") ||
        !efa_device_accesses(device))
        return;
    info->caps |= ACCESSES;
    info->tx_attr->caps = info->rx_attr->caps = info->caps;
    info->tx_attr->rma_iov_limit = 1;
}

/* The numbers of fi_nic(3) that EFA has not in its port's attributes. */
static int add_nic(struct fi_info *info, const struct efa_device *device)
{
    char gid[INET6_ADDRSTRLEN], address[INET6_ADDRSTRLEN + 8];
    char *network = strdup("Ethernet");

    inet_ntop(AF_INET6, &device->gid, gid, sizeof(gid));
    snprintf(address, sizeof(address), "EFA-%s", gid);
    info->nic = rdma_nic(device->name, &device->attr, &device->port, address);
    if (!info->nic || !network) {
        free(network);
        return -FI_ENOMEM;
    }
    free(info->nic->link_attr->network_type);
    info->nic->link_attr->network_type = network;
    info->nic->link_attr->mtu = device->port.max_msg_sz;
    return 0;
}

static int add_names(struct fi_info *info, const struct question *question,
                     const struct efa_device *device, enum kind kind)
{
    struct efa_addr src = question->src;
    char domain[NAME_ROOM];
    int rc;

    memcpy(src.gid, &device->gid, sizeof(src.gid));
    snprintf(domain, sizeof(domain), "%s-%s", device->name, kind == DATAGRAMS ? "dgrm" : "rdm");
    rc = info_set_string(&info->domain_attr->name, domain);
    if (!rc)
        rc = info_set_string(&info->fabric_attr->name, kind == DIRECT ? "efa-direct" : "efa");
    if (!rc)
        rc = info_set_src(info, &src, sizeof(src));
    if (!rc && question->has_dest)
        rc = info_set_dest(info, &question->dest, sizeof(question->dest));
    return rc ? rc : add_nic(info, device);
}

static int add(struct fi_info **list, const struct question *question,
               const struct efa_device *device, enum kind kind)
{
    struct fi_info *info = info_alloc();
    int rc;

    if (!info)
        return -FI_ENOMEM;
    fill(info, question->req->params, device);
    if (kind == DATAGRAMS)
        make_datagrams(info);
    if (kind == DIRECT) {
        add_accesses(info, question, device);
        add_device_memory(info, question->req->hints);
    }
    if (kind == PACKETS) {
        add_packet_accesses(info, question, device);
        restrict_reach(info, question->req->hints);
        add_device_memory(info, question->req->hints);
    }
    rc = add_names(info, question, device, kind);
    if (rc) {
        info_free(info);
        return rc;
    }
    info_append(list, info);
    return 0;
}

/* ---- The question ---- */

static bool read_addr(const struct request *req, const char *name, const void *raw, size_t len,
                      struct efa_addr *addr, bool *has)
{
    if (!raw)
        return true;
    if (len != EFA_ADDR_SIZE) {
        reasons_add(req->reasons, "%s: an address of EFA has %d bytes", name, EFA_ADDR_SIZE);
        return false;
    }
    memcpy(addr, raw, sizeof(*addr));
    *has = true;
    return true;
}

/* Addresses have a text, but no resolver: applications exchange them. */
static bool read_question(const struct request *req, struct question *question)
{
    bool is_src = req->flags & FI_SOURCE;

    *question = (struct question){.req = req};
    if (!read_addr(req, "src_addr", req->hints->src_addr, req->hints->src_addrlen, &question->src,
                   &question->has_src) ||
        !read_addr(req, "dest_addr", req->hints->dest_addr, req->hints->dest_addrlen,
                   &question->dest, &question->has_dest))
        return false;
    if (req->node && !efa_name_parse(req->node, is_src ? &question->src : &question->dest)) {
        reasons_add(req->reasons,
                    "node: '%s' is no address of EFA (fi_addr_efa://[GID]:QPN:QKEY, or a GID); "
                    "applications exchange them",
                    req->node);
        return false;
    }
    question->has_src |= req->node && is_src;
    question->has_dest |= req->node && !is_src;
    return true;
}

static bool has_gid(const struct question *question, const struct efa_device *device)
{
    static const uint8_t any[16];

    return !question->has_src || !memcmp(question->src.gid, any, sizeof(any)) ||
           !memcmp(question->src.gid, &device->gid, sizeof(any));
}

static bool is_chosen(const struct request *req, const char *fabric)
{
    const char *chosen = params_string(req->params, "fabric");

    return !strcmp(chosen, "any") || !strcmp(chosen, fabric);
}

/* iface: a list of names, or all. */
static bool is_listed(const struct request *req, const struct efa_device *device)
{
    const char *list = params_string(req->params, "iface");
    size_t name_len = strlen(device->name);

    while (list && *list) {
        size_t len = strcspn(list, ",|");

        if ((len == 3 && !strncmp(list, "all", len)) ||
            (len == name_len && !strncmp(list, device->name, len)))
            return true;
        list += len + (list[len] != '\0');
    }
    return !list;
}

/* The place of the device that the hints' nic has, if any. */
static bool is_at_bus(const struct request *req, const struct efa_device *device)
{
    const struct fid_nic *asked = req->hints->nic;
    struct fi_pci_attr want, is;
    struct fi_bus_attr own = {.bus_type = FI_BUS_UNKNOWN};

    if (!asked || !asked->bus_attr || asked->bus_attr->bus_type != FI_BUS_PCI)
        return true;
    rdma_bus(&own, device->name);
    want = asked->bus_attr->attr.pci;
    is = own.attr.pci;
    return own.bus_type != FI_BUS_PCI ||
           (want.domain_id == is.domain_id && want.bus_id == is.bus_id &&
            want.device_id == is.device_id && want.function_id == is.function_id);
}

static int add_device(const struct question *question, const struct efa_device *device,
                      struct fi_info **list)
{
    const struct request *req = question->req;
    int rc = 0;

    if (req->upper & EP_PACKETS)
        return is_chosen(req, "efa") ? add(list, question, device, PACKETS) : 0;
    if (use_is(req, "1") && !efa_device_accesses(device))
        reasons_add(req->reasons, "use_device_rdma: %s does not read and write remote memory",
                    device->name);
    else if (is_chosen(req, "efa-direct"))
        rc = add(list, question, device, DIRECT);
    if (!rc && is_chosen(req, "efa"))
        rc = add(list, question, device, DATAGRAMS);
    return rc;
}

int efa_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    struct efa_device *device = efa_devices(req->reasons);
    struct question question;
    int rc = 0;

    *info = NULL;
    if (!device || !read_question(req, &question))
        return 0;
    for (; device && !rc; device = device->next) {
        if (has_gid(&question, device) && is_listed(req, device) && is_at_bus(req, device))
            rc = add_device(&question, device, info);
    }
    if (!rc && !*info)
        reasons_add(
            req->reasons,
            "no EFA device has the name, the GID, the place and the fabric that are asked for");
    if (rc) {
        info_free(*info);
        *info = NULL;
    }
    return rc;
}
