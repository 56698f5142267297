/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <stdlib.h>
#include <string.h>

#include "ah.h"
#include "context.h"
#include "efa.h"
#include "loop.h"
#include "memory.h"
#include "report.h"
#include "settings.h"

enum {
    HOPS = 64,
};

static const uint8_t ipv4_mapped[12] = {[10] = 0xff, [11] = 0xff};

int ah_check(struct ibv_context *context, const struct ibv_ah_attr *attr, const char *what)
{
    const struct device *device = context_device(context);

    if (attr->port_num == 0 || attr->port_num > device->port_count) {
        report_why("%s: the address has port %u, the device %u of them", what, attr->port_num,
                   device->port_count);
        return EINVAL;
    }
    if (!attr->is_global) {
        report_why("%s: an address without a GID (is_global) means nothing on Ethernet", what);
        return EINVAL;
    }
    const struct port *port = &device->ports[attr->port_num - 1];
    if (attr->grh.sgid_index >= port->gid_count) {
        report_why("%s: sgid_index %u, the table of port %u has %u", what, attr->grh.sgid_index,
                   attr->port_num, port->gid_count);
        return EINVAL;
    }
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    static uint32_t next;
    struct address_handle *ah = calloc(1, sizeof(*ah));

    loop_lock();
    int rc = ah ? ah_check(pd->context, attr, "create_ah") : ENOMEM;
    if (!rc && object_count("address handle") >= (unsigned)settings()->limits.max_ah)
        rc = ENOMEM;
    if (!rc) {
        ah->ahn = context_device(pd->context)->efa ? efa_ah_hold(pd, &attr->grh.dgid) : -1;
        if (context_device(pd->context)->efa && ah->ahn < 0)
            rc = ENOMEM;
    }
    if (!rc) {
        ah->ah.context = pd->context;
        ah->ah.pd = pd;
        ah->ah.handle = next++;
        ah->attr = *attr;
        ah->source =
            context_device(pd->context)->ports[attr->port_num - 1].gids[attr->grh.sgid_index];
        pd_use(pd, 1);
        object_add(&ah->object, "address handle", ah->ah.handle);
    }
    loop_unlock();
    if (!rc)
        return &ah->ah;
    free(ah);
    errno = rc;
    return NULL;
}

int ibv_destroy_ah(struct ibv_ah *public)
{
    struct address_handle *ah = list_item(public, struct address_handle, ah);

    loop_lock();
    if (ah->ahn >= 0)
        efa_ah_release(ah->ahn);
    pd_use(public->pd, -1);
    object_remove(&ah->object);
    loop_unlock();
    free(ah);
    return 0;
}

static uint16_t checksum(const void *header)
{
    uint16_t words[10];
    uint32_t sum = 0;

    memcpy(words, header, sizeof(words));
    for (int i = 0; i < 10; i++)
        sum += words[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~((sum & 0xffff) + (sum >> 16));
}

static bool is_ipv4(const uint8_t *gid)
{
    return memcmp(gid, ipv4_mapped, sizeof(ipv4_mapped)) == 0;
}

void ah_write_header(const struct wire_packet *packet, void *header)
{
    memset(header, 0, sizeof(struct ibv_grh));
    if (packet->gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4(packet->source_gid)) {
        struct iphdr *ip = (struct iphdr *)(void *)((char *)header + 20);
        ip->version = 4;
        ip->ihl = 5;
        ip->tot_len = htons((uint16_t)(packet->length + 48));
        ip->ttl = HOPS;
        ip->protocol = IPPROTO_UDP;
        memcpy(&ip->saddr, packet->source_gid + 12, 4);
        memcpy(&ip->daddr, packet->target_gid + 12, 4);
        ip->check = checksum(ip);
        return;
    }
    struct ibv_grh *grh = header;
    grh->version_tclass_flow = htonl(6u << 28);
    grh->paylen = htons((uint16_t)(packet->length + 24));
    grh->next_hdr = packet->gid_type == IBV_GID_TYPE_ROCE_V2 ? IPPROTO_UDP : 0x1b;
    grh->hop_limit = HOPS;
    memcpy(&grh->sgid, packet->source_gid, 16);
    memcpy(&grh->dgid, packet->target_gid, 16);
}

/* Source and target of a header that ah_write_header has written. */
static void read_header(const struct ibv_grh *grh, union ibv_gid *source, union ibv_gid *target,
                        unsigned *type)
{
    const struct iphdr *ip = (const struct iphdr *)(const void *)((const char *)grh + 20);

    if (ip->version == 4 && ip->ihl == 5 && checksum(ip) == 0) {
        *type = IBV_GID_TYPE_ROCE_V2;
        memcpy(source->raw, ipv4_mapped, sizeof(ipv4_mapped));
        memcpy(target->raw, ipv4_mapped, sizeof(ipv4_mapped));
        memcpy(source->raw + 12, &ip->saddr, 4);
        memcpy(target->raw + 12, &ip->daddr, 4);
        return;
    }
    *type = grh->next_hdr == IPPROTO_UDP ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
    *source = grh->sgid;
    *target = grh->dgid;
}

/* The entry that a datagram came to; for a multicast the first one of its type and family. */
static uint8_t own_index(const struct port *port, const union ibv_gid *target, unsigned type)
{
    uint8_t similar = 0;

    for (unsigned i = port->gid_count; i-- > 0;) {
        const struct ibv_gid_entry *entry = &port->gids[i];
        if (entry->gid_type != type)
            continue;
        if (memcmp(&entry->gid, target, sizeof(*target)) == 0)
            return (uint8_t)i;
        if (is_ipv4(entry->gid.raw) == is_ipv4(target->raw))
            similar = (uint8_t)i;
    }
    return similar;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
                        struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
    const struct device *device = context_device(context);
    union ibv_gid target;
    unsigned type;

    memset(attr, 0, sizeof(*attr));
    if (port_num == 0 || port_num > device->port_count || !(wc->wc_flags & IBV_WC_GRH)) {
        errno = EINVAL;
        return -1;
    }
    attr->port_num = port_num;
    attr->sl = wc->sl;
    attr->is_global = 1;
    attr->grh.hop_limit = HOPS;
    read_header(grh, &attr->grh.dgid, &target, &type);
    attr->grh.sgid_index = own_index(&device->ports[port_num - 1], &target, type);
    return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port_num)
{
    struct ibv_ah_attr attr;

    if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr))
        return NULL;
    return ibv_create_ah(pd, &attr);
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
    int rc = ah_check(context, attr, "resolve_eth_l2_from_gid");

    if (rc)
        return rc;
    memcpy(mac, attr->grh.dgid.raw + 10, ETHERNET_LL_SIZE);
    if (vid)
        *vid = 0xffff;
    return 0;
}
