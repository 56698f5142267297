/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_domain.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/base/seam.h"
#include "core/domain/domain.h"
#include "core/info/info.h"
#include "layers/mrail/mrail_ep.h"
#include "layers/mrail/mrail_info.h"

/* ---- Rails of a domain ---- */

static void close_rails(struct mrail_domain *domain)
{
    while (domain->count)
        info_free(domain->rail[--domain->count].info);
}

static int open_rail(struct mrail_domain *domain, size_t slot)
{
    struct join_fabric *fabric = domain->fabric;
    struct mrail_rail *rail = &domain->rail[domain->count];
    size_t before = 0;
    uint16_t kind;
    int rc;

    *rail = (struct mrail_rail){.lower = fabric->lower[slot], .slot = slot};
    rc = mrail_rail_info(rail->lower, slot, fabric->slots, domain->base.info, &rail->info);
    if (rc)
        return rc;
    kind = mrail_addr_kind(rail->info);
    for (size_t i = 0; i < domain->count; i++)
        before += domain->kinds[i] == kind;
    rc = mrail_rail_source(rail->info, before, domain->base.info);
    if (rc) {
        info_free(rail->info);
        return rc;
    }
    domain->kinds[domain->count++] = kind;
    return 0;
}

/* Its regions cannot have the key that is asked for. */
static bool has_own_keys(const struct fi_info *rail)
{
    size_t size = rail->domain_attr->mr_key_size;

    return info_mr_bits(rail) & FI_MR_PROV_KEY || (size && size < sizeof(uint64_t));
}

static int open_rails(struct mrail_domain *domain)
{
    const struct fi_info *infos[MRAIL_RAILS] = {NULL};
    int rc = 0;

    for (size_t slot = 0; slot < domain->fabric->slots; slot++) {
        if (!domain->fabric->lower[slot])
            continue;
        rc = open_rail(domain, slot);
        if (rc && rc != -FI_ENODATA)
            break;
        rc = 0;
    }
    for (size_t i = 0; i < domain->count; i++) {
        infos[i] = domain->rail[i].info;
        domain->asks = domain->asks || has_own_keys(infos[i]);
    }
    domain->addr_size = mrail_addr_size(infos, domain->count);
    if (!rc && (!domain->count || !domain->addr_size))
        rc = -FI_ENODATA;
    if (rc)
        close_rails(domain);
    return rc;
}

/* ---- Addresses ---- */

static int check_packet(const struct mrail_domain *domain, const struct mrail_addr *addr)
{
    size_t packet = domain->base.info->ep_attr->max_msg_size;

    if (!packet || packet == SIZE_MAX || addr->packet >= packet)
        return 0;
    LOG_WARN("mrail", FI_LOG_AV,
             "a peer takes packets of %u bytes, and ours have up to %zu: packet_size must be the "
             "same",
             addr->packet, packet);
    return -FI_EINVAL;
}

int mrail_domain_read_addr(const struct mrail_domain *domain, const void *raw, size_t size,
                           struct mrail_addr *addr)
{
    bool met = false;
    char why[200] = "";

    if (size != domain->addr_size) {
        LOG_WARN("mrail", FI_LOG_AV, "the address has %zu bytes; those of this bracket have %zu",
                 size, domain->addr_size);
        return -FI_EINVAL;
    }
    if (mrail_addr_decode(raw, size, addr, why, sizeof(why))) {
        LOG_WARN("mrail", FI_LOG_AV, "the address of a peer is none of mrail: %s", why);
        return -FI_EINVAL;
    }
    for (size_t i = 0; i < domain->count; i++) {
        met = met || mrail_addr_meets(addr, domain->kinds, i);
    }
    if (met)
        return check_packet(domain, addr);
    LOG_WARN("mrail", FI_LOG_AV,
             "no rail of ours reaches a peer, whose address is of %zu; they must have one in "
             "common (protocol and form of addresses)",
             addr->count);
    return -FI_EHOSTUNREACH;
}

static int check_addr(const struct mrail_domain *domain, const void *raw, size_t size)
{
    struct mrail_addr *addr = malloc(sizeof(*addr));
    int rc = addr ? mrail_domain_read_addr(domain, raw, size, addr) : -FI_ENOMEM;

    free(addr);
    return rc;
}

static bool usable(const struct av *av, const void *raw)
{
    const struct mrail_domain *domain = object_of(av->domain, struct mrail_domain, base);

    return !check_addr(domain, raw, domain->addr_size);
}

static int inserted(struct av *av, fi_addr_t index, const void *addr)
{
    return 0;
}

static void changed(struct av *av, fi_addr_t index)
{
}

static void closed(struct av *av)
{
}

static int domain_av_open_own(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av,
                              void *context)
{
    struct mrail_domain *domain = mrail_domain_of(fid);

    return av_open_kind(&domain->base, attr, &domain->kind, av, context);
}

/* ---- Domain ---- */

static int domain_control(struct fid *fid, int command, void *arg)
{
    const struct mrail_domain *domain = object_of(fid, struct mrail_domain, base.fid.fid);
    const struct own_addr *addr = arg;

    if (command == CONTROL_ADDR)
        return check_addr(domain, addr->bytes, addr->len);
    return domain_fid_ops.control(fid, command, arg);
}

static int domain_close(struct fid *fid)
{
    struct mrail_domain *domain = object_of(fid, struct mrail_domain, base.fid.fid);

    if (children_any(&domain->base.children))
        return -FI_EBUSY;
    close_rails(domain);
    domain_finish(&domain->base);
    free(domain);
    return 0;
}

static int query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                        struct fi_atomic_attr *attr, uint64_t flags)
{
    return -FI_EOPNOTSUPP;
}

static struct fi_ops fid_ops = {
    .size = sizeof(fid_ops),
    .close = domain_close,
    .bind = enosys_bind,
    .control = domain_control,
    .ops_open = enosys_ops_open,
    .tostr = enosys_tostr,
    .ops_set = enosys_ops_set,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .av_open = domain_av_open_own,
    .endpoint = mrail_ep_open,
    .query_atomic = query_atomic,
};

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **ret,
                         void *context)
{
    struct mrail_domain *domain;
    struct domain *base;
    bool reads = info->caps & FI_RMA;
    int rc = domain_create(sizeof(*domain), fid, info, &fid_ops, &domain_ops,
                           reads ? &mrail_mr_ops : NULL, &base, context);

    if (rc)
        return rc;
    domain = object_of(base, struct mrail_domain, base);
    domain->reads = reads;
    domain->fabric = object_of(fid, struct join_fabric, base.fid);
    rc = open_rails(domain);
    if (rc) {
        domain_finish(base);
        free(domain);
        return rc;
    }
    domain->kind = (struct av_kind){
        .size = domain->addr_size,
        .object_size = sizeof(struct av),
        .usable = usable,
        .inserted = inserted,
        .removed = changed,
        .identified = changed,
        .closed = closed,
    };
    *ret = &base->fid;
    return 0;
}

/* ---- Fabric ---- */

_Static_assert((int)MRAIL_RAILS == (int)JOIN_BRANCHES, "branches that a fabric has");

int mrail_open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return join_fabric_open(args, &mrail_words, fabric_domain, fabric, context);
}
