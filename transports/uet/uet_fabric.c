/* SPDX-License-Identifier: BSD-2-Clause */
/* Fabric, domain, and what the parameters say. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/base/seam.h"
#include "core/net/netif.h"
#include "core/domain/domain.h"
#include "core/ep/srx.h"
#include "core/ep/stx.h"
#include "core/op/atomic.h"
#include "core/op/remote.h"
#include "transports/uet/uet.h"

enum {
    WIDEST = 16, /* bytes of a compare operand in the header */
    DEFAULT_MTU = 1500,
};

#define US UINT64_C(1000) /* ns */

/* ---- Domain ---- */

int uet_atomic_count(uint32_t mtu, uint64_t function, enum fi_datatype datatype, enum fi_op op,
                     size_t *count)
{
    size_t unit = atomic_size(datatype);
    uint8_t number;

    if (!uet_atomic_opcode(op, &number) || !uet_atomic_type(datatype, &number))
        return -FI_EOPNOTSUPP;
    /* The header has room for one element's operands: each is a request of its own. */
    if (function == FI_COMPARE_ATOMIC && unit > WIDEST)
        return -FI_EOPNOTSUPP;
    if (function == FI_COMPARE_ATOMIC && mtu > UET_COMPARE_MAX * unit)
        mtu = (uint32_t)(UET_COMPARE_MAX * unit);
    return atomic_count(datatype, op, function, mtu < REMOTE_OPERAND ? mtu : REMOTE_OPERAND, count);
}

static int srx_ctx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **srx,
                   void *context)
{
    struct domain *domain = object_of(fid, struct domain, fid);
    const struct match_attr own = {
        .size = UET_RX_SIZE,
        .iov_limit = UET_IOV,
        .min_multi_recv = UET_MIN_MULTI_RECV,
        .directed = domain->info->caps & (FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV),
    };

    return srx_open(domain, &own, &uet_srx_ops, attr, srx, context);
}

/* Atomics whose target is a receive are of HPC. */
static bool has_tagged_atomics(const struct uet_domain *domain)
{
    const struct fi_info *info = domain->base.info;
    uint8_t profile = uet_profile_caps(domain->fabric->plain.params);
    uint8_t caps = profile ? profile : uet_protocol_caps(info->ep_attr->protocol);

    return caps & UET_HPC && info->caps & FI_TAGGED && info->caps & FI_ATOMIC;
}

static int query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
                        struct fi_atomic_attr *attr, uint64_t flags)
{
    const struct uet_domain *domain = object_of(fid, struct uet_domain, base.fid);
    const uint64_t functions = FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC;
    int rc = atomic_query(datatype, op, attr, flags & ~FI_TAGGED, REMOTE_OPERAND);
    size_t count;

    if (rc)
        return rc;
    if (flags & FI_TAGGED && !has_tagged_atomics(domain))
        return -FI_EOPNOTSUPP;
    rc = uet_atomic_count(domain->payload, flags & functions, datatype, op, &count);
    if (flags & FI_TAGGED && flags & FI_COMPARE_ATOMIC)
        count = 1;
    if (!rc && attr)
        attr->count = count;
    return rc;
}

/* A layer above asks which addresses are some. */
static int domain_control(struct fid *fid, int command, void *arg)
{
    const struct own_addr *addr = arg;
    struct uet_address address;

    if (command != CONTROL_ADDR)
        return domain_fid_ops.control(fid, command, arg);
    return addr->len == UET_ADDRESS_SIZE && uet_address_get(addr->bytes, &address) ? 0 : -FI_EINVAL;
}

static int domain_close(struct fid *fid)
{
    return domain_fid_ops.close(fid);
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
    .size = sizeof(struct fi_ops_domain),
    .av_open = uet_av_open,
    .endpoint = uet_ep_open,
    .stx_ctx = stx_open,
    .srx_ctx = srx_ctx,
    .query_atomic = query_atomic,
};

enum {
    OPTIMIZED_TRIES = 64, /* of 4096 indices, before the key is a long one */
};

/* In the format of memory keys, marked as the provider's: 48 random bits, or an index. One of RUDI
 * has no use for an index, since its packets have the whole key. */
static uint64_t make_key(const struct domain *base, uint64_t flags, uint64_t random,
                         unsigned attempt)
{
    const struct uet_domain *domain = object_of(base, struct uet_domain, base);

    if (flags & FI_UET_MR_IDEMPOTENT)
        return SES_KEY_IDEMPOTENT | SES_KEY_PROVIDER | (random & SES_KEY_BITS);
    if (domain->fabric->settings.optimized && attempt < OPTIMIZED_TRIES)
        return SES_KEY_OPTIMIZED | (random & SES_KEY_INDEX);
    return SES_KEY_PROVIDER | (random & SES_KEY_BITS);
}

static const char *code_text(const struct domain *domain, int code)
{
    return ses_code_text(code);
}

static int fabric_domain(struct fid_fabric *fid, struct fi_info *info,
                         struct fid_domain **ret_domain, void *context)
{
    struct uet_domain *own;
    struct domain *domain;
    int rc = domain_create_mapped(sizeof(struct uet_domain), fid, info, &fid_ops, &domain_ops,
                                  &domain, context);

    if (rc)
        return rc;
    domain->error_text = code_text;
    domain->auth_key_size = UET_JOB_SIZE;
    domain->make_key = make_key;
    domain->mr_flags = FI_UET_MR_IDEMPOTENT;
    domain->fid.mr = &uet_mr_ops;
    own = object_of(domain, struct uet_domain, base);
    own->fabric = object_of(fid, struct uet_fabric, base.fid);
    if (info->src_addr && info->src_addrlen == UET_ADDRESS_SIZE) {
        uet_address_get(info->src_addr, &own->src);
        addr_set_port(&own->src.host.sa, 0);
        own->src.pid = 0;
        own->payload = uet_payload_at(own->fabric->plain.params, &own->src.host);
    }
    if (!own->payload)
        own->payload = uet_path_longest(INT32_MAX);
    *ret_domain = &domain->fid;
    return 0;
}

/* ---- Parameters ---- */

uint32_t uet_payload(const struct params *params, int mtu)
{
    uint32_t most = uet_path_longest(mtu);
    const char *text = params_string(params, "payload");
    uint32_t asked = strcmp(text, "auto") ? (uint32_t)strtoul(text, NULL, 10) : most;

    return asked <= most ? asked : 0;
}

/* Has the interface the address, or is that of all of the family? */
static bool is_at(const struct netif *netif, const union addr *addr)
{
    return addr_is_any(&addr->sa) ? netif->addr.sa.sa_family == addr->sa.sa_family
                                  : addr_same_host(&netif->addr.sa, &addr->sa);
}

uint32_t uet_payload_at(const struct params *params, const union addr *addr)
{
    struct netif *list;
    size_t count;
    char why[8];
    int mtu = INT32_MAX;

    if (netif_list(NULL, &list, &count, why, sizeof(why)))
        return uet_payload(params, DEFAULT_MTU);
    for (size_t i = 0; i < count; i++)
        if (is_at(&list[i], addr) && list[i].mtu < mtu)
            mtu = list[i].mtu;
    free(list);
    return uet_payload(params, mtu < INT32_MAX ? mtu : DEFAULT_MTU);
}

static uint64_t time_of(const struct params *params, const char *key)
{
    return (uint64_t)params_int(params, key) * US;
}

static void read_pds(struct pds_settings *pds, const struct params *params)
{
    *pds = pds_defaults;
    pds->window = params_size(params, "window");
    pds->rto = time_of(params, "rto");
    pds->rto_count = (unsigned)params_int(params, "rto_count");
    pds->patience = time_of(params, "patience");
    pds->nack_time = time_of(params, "nack_time");
    pds->nack_count = (unsigned)params_int(params, "nack_count");
    pds->tail_time = time_of(params, "tail_time");
    pds->idle_time = time_of(params, "idle_time");
    pds->tail_count = (unsigned)params_int(params, "tail_count");
    pds->clear_time = time_of(params, "clear_time");
    pds->new_pdc_time = time_of(params, "new_pdc_time");
    pds->close_time = time_of(params, "close_time");
    pds->safety_time = time_of(params, "safety_time");
    pds->mpr = (unsigned)params_int(params, "mpr") * PDS_MPR_UNIT;
    pds->pdcs = (unsigned)params_int(params, "pdcs");
    pds->ack_trigger = (uint64_t)params_int(params, "ack_trigger");
    pds->ack_least = (uint64_t)params_int(params, "ack_least");
    pds->ack_each = params_bool(params, "ack_each");
    pds->demand_start = params_bool(params, "demand_start");
    /* Of a peer that is a process, which may not look for long. */
    pds->noop_time = 1000000 * US;
}

int uet_service_of(const struct params *params, struct uet_service *service, char *why,
                   size_t why_size)
{
    const char *path = params_string(params, "services");

    memset(service, 0, sizeof(*service));
    return path && *path
               ? uet_service_read(path, params_string(params, "service"), service, why, why_size)
               : 0;
}

/* The parameter, where the user set it; else what the service says; else the default. */
static uint32_t number_of(const struct params *params, const char *key,
                          const struct uet_service *service, enum uet_service_field field,
                          uint32_t said)
{
    return service->fields & field && !params_given(params, key)
               ? said
               : (uint32_t)params_int(params, key);
}

static int read_identity(struct uet_settings *settings, const struct params *params)
{
    struct ses_identity *self = &settings->ses.self;
    struct uet_service service;
    char why[300];
    int rc = uet_service_of(params, &service, why, sizeof(why));

    if (rc) {
        log_user("uet: %s", why);
        return rc;
    }
    self->job = number_of(params, "job", &service, SERVICE_JOB, service.job);
    self->pid = (uint16_t)number_of(params, "pid", &service, SERVICE_PID, service.pid);
    self->index = UET_INDEX;
    self->generation = (uint8_t)params_int(params, "generation");
    self->absolute = service.fields & SERVICE_ADDRESSING && !params_given(params, "addressing")
                         ? service.absolute
                         : !strcmp(params_string(params, "addressing"), "absolute");
    settings->initiator =
        number_of(params, "initiator", &service, SERVICE_INITIATOR, service.initiator);
    settings->nic.port = (int)number_of(params, "port", &service, SERVICE_PORT, service.port);
    settings->nic.shared = params_bool(params, "shared");
    settings->has_job = service.fields & SERVICE_JOB || params_given(params, "job") ||
                        params_bool(params, "fallback");
    return 0;
}

static void read_settings(struct uet_settings *settings, const struct params *params)
{
    read_pds(&settings->ses.pds, params);
    settings->ses.ack_data = (uint32_t)params_int(params, "ack_data");
    settings->ses.saved = params_size(params, "saved");
    settings->rendezvous[0] = params_size(params, "rendezvous");
    settings->rendezvous[1] = params_size(params, "tagged_rendezvous");
    settings->eager = params_size(params, "eager");
    settings->burst_wait = time_of(params, "burst_wait");
    settings->brief = params_bool(params, "headers");
    settings->optimized = params_bool(params, "optimized");
    settings->nic.entropy = (unsigned)params_int(params, "entropy");
    settings->nic.dscp = (uint8_t)params_int(params, "dscp");
    settings->nic.rx_buffer = params_size(params, "rx_buffer");
    settings->nic.tx_buffer = params_size(params, "tx_buffer");
    settings->nic.gso = params_bool(params, "gso");
    settings->nic.gro = params_bool(params, "gro");
    settings->nic.crc = params_bool(params, "crc");
    settings->nic.short_rudi = settings->ses.pds.short_rudi;
}

static int fabric_close(struct plain_fabric *plain)
{
    pcap_close(object_of(plain, struct uet_fabric, plain)->pcap);
    return 0;
}

int uet_open_fabric(const struct open_args *args, struct fid_fabric **ret_fabric, void *context)
{
    struct uet_fabric *fabric;
    struct plain_fabric *plain;
    int rc = plain_fabric_create(sizeof(*fabric), args, fabric_domain, &plain, context);

    if (rc)
        return rc;
    fabric = object_of(plain, struct uet_fabric, plain);
    plain->close_own = fabric_close;
    read_settings(&fabric->settings, args->params);
    rc = read_identity(&fabric->settings, args->params);
    if (!rc)
        rc = pcap_open("uet", args->params, &fabric->pcap);
    if (rc)
        plain_fabric_discard(plain);
    else
        *ret_fabric = &fabric->base.fid;
    return rc;
}
