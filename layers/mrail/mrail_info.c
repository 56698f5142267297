/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_info.h"

#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/ep/recv_queue.h"
#include "core/info/info.h"
#include "core/part/join_name.h"
#include "layers/mrail/mrail_addr.h"
#include "layers/mrail/mrail_wire.h"

static const uint64_t own_caps = FI_MSG | FI_SEND | FI_RECV | FI_SOURCE | FI_PEER;
static const uint64_t read_caps = FI_RMA | FI_READ | FI_REMOTE_READ;
static const uint64_t place_caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
static const uint64_t asked_caps = FI_AV_USER_ID;

enum {
    LEAST_PACKET = 1024 /* bytes of the smallest that it makes sense with */
};

struct join_words mrail_words = {.join = "mrail", .branch = "rail", .branches = "rails"};

/* ---- What is asked ---- */

static void ask_domain(struct fi_domain_attr *attr)
{
    free(attr->name);
    free(attr->auth_key);
    *attr = (struct fi_domain_attr){
        .threading = FI_THREAD_DOMAIN,
        .progress = FI_PROGRESS_MANUAL,
        .control_progress = FI_PROGRESS_CONTROL_UNIFIED,
        .mr_mode = (int)(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY),
    };
}

/* hints or an info of ours, as a rail should see them; old: in the words of API versions below 1.5,
 * where nothing else is understood. */
static struct fi_info *rail_hints(const struct fi_info *hints, uint64_t wish, bool old)
{
    struct fi_info *need = info_dup(hints);

    if (!need)
        return NULL;
    if (info_set_string(&need->fabric_attr->prov_name, NULL) || info_set_src(need, NULL, 0) ||
        info_set_dest(need, NULL, 0)) {
        info_free(need);
        return NULL;
    }
    need->handle = NULL;
    need->addr_format = FI_FORMAT_UNSPEC;
    need->fabric_attr->fabric = NULL;
    need->caps = FI_MSG | FI_SEND | FI_RECV | FI_SOURCE | wish;
    need->mode = 0;
    *need->tx_attr = (struct fi_tx_attr){.tclass = hints->tx_attr->tclass};
    *need->rx_attr = (struct fi_rx_attr){0};
    free(need->ep_attr->auth_key);
    *need->ep_attr = (struct fi_ep_attr){.type = FI_EP_RDM};
    ask_domain(need->domain_attr);
    if (old) {
        need->domain_attr->mr_mode = FI_MR_BASIC;
        need->mode = FI_LOCAL_MR;
    }
    return need;
}

/* Of accesses only reads, in so many words: the layer above has its peer read what it writes. */
static bool may_be_asked(const struct request *req)
{
    uint64_t caps = req->hints->caps;
    const uint64_t all = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

    if (!(caps & FI_RMA))
        return true;
    if (!params_bool(req->params, "reads")) {
        reasons_add_at(req->reasons, REASON_CAPS, "caps: reads=no leaves reads to the layer above");
        return false;
    }
    if (caps & all && !(caps & (FI_WRITE | FI_REMOTE_WRITE)))
        return true;
    reasons_add_at(req->reasons, REASON_CAPS,
                   "caps: the rails' own writes are not offered, only reads (FI_RMA | FI_READ | "
                   "FI_REMOTE_READ); the layer above makes writes of these");
    return false;
}

/* Rails are asked by the name of a node first; one that has nothing there is asked without. */
int mrail_needs(const struct request *req, struct fi_info **lower_hints)
{
    const uint64_t reads = req->hints->caps & FI_RMA ? read_caps : 0;
    const uint64_t wishes[] = {FI_PEER | reads, reads};
    bool named = req->node || req->service, old = mr_mode_is_old(req->hints, req->version);
    struct fi_info *list = NULL;

    if (req->hints->addr_format && req->hints->addr_format != MRAIL_ADDR_FORMAT) {
        reasons_add_at(req->reasons, REASON_ATTR,
                       "addr_format: mrail has addresses of its own form");
        return -FI_ENODATA;
    }
    if (!may_be_asked(req))
        return -FI_ENODATA;
    for (int i = 0; i < (named ? 4 : 2); i++) {
        struct fi_info *need = rail_hints(req->hints, wishes[i % 2], old);

        if (!need) {
            info_free(list);
            return -FI_ENOMEM;
        }
        info_append(&list, need);
    }
    *req->named = 2;
    *lower_hints = list;
    return 0;
}

/* ---- What is made of it ---- */

/* The infos that one of ours is made of, by slot; NULL for a rail that is not in it. */
struct parts_of {
    const struct fi_info *rail[MRAIL_RAILS];
    size_t slots, used;
    size_t addr_size;
};

/* Bytes of the largest packet on all rails. */
static size_t largest(const struct request *req, const struct parts_of *of)
{
    size_t most = params_size(req->params, "packet_size");

    for (size_t i = 0; i < of->slots; i++) {
        size_t rail = of->rail[i] ? of->rail[i]->ep_attr->max_msg_size : SIZE_MAX;

        if (rail < MRAIL_HEAD_MAX + most)
            most = rail > MRAIL_HEAD_MAX ? rail - MRAIL_HEAD_MAX : 0;
    }
    return most;
}

static void describe_domain(struct fi_info *info, uint64_t asked, uint64_t places)
{
    struct fi_domain_attr *attr = info->domain_attr;

    attr->domain = NULL;
    attr->threading = FI_THREAD_SAFE;
    attr->progress = FI_PROGRESS_UNSPEC;
    attr->control_progress = FI_PROGRESS_UNSPEC;
    attr->resource_mgmt = FI_RM_UNSPEC;
    attr->av_type = FI_AV_UNSPEC;
    attr->mr_mode = asked & FI_RMA ? (int)(FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY) : 0;
    attr->mode = 0;
    attr->mr_key_size = sizeof(uint64_t);
    attr->cq_data_size = 0;
    attr->max_ep_tx_ctx = attr->max_ep_rx_ctx = 1;
    attr->max_ep_stx_ctx = attr->max_ep_srx_ctx = 0;
    attr->caps = places | (asked & FI_AV_USER_ID);
}

static void describe(const struct request *req, size_t most, uint64_t places, struct fi_info *info)
{
    uint64_t asked = req->hints->caps | req->hints->domain_attr->caps;

    info->handle = NULL;
    info->mode = 0;
    info->addr_format = MRAIL_ADDR_FORMAT;
    info->caps = own_caps | places | (asked & asked_caps);
    if (req->hints->caps & FI_RMA)
        info->caps |= read_caps;
    *info->tx_attr = (struct fi_tx_attr){
        .caps = info->caps & INFO_TX_CAPS,
        .op_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE,
        .inject_size = most < MRAIL_INJECT ? most : MRAIL_INJECT,
        .size = MRAIL_SIZE,
        .iov_limit = RECV_QUEUE_IOV,
        .rma_iov_limit = info->caps & FI_RMA ? 1 : 0,
        .tclass = info->tx_attr->tclass,
    };
    *info->rx_attr = (struct fi_rx_attr){
        .caps = info->caps & INFO_RX_CAPS,
        .op_flags = FI_COMPLETION,
        .size = MRAIL_SIZE,
        .iov_limit = RECV_QUEUE_IOV,
    };
    free(info->ep_attr->auth_key);
    *info->ep_attr = (struct fi_ep_attr){
        .type = FI_EP_RDM,
        .protocol = FI_PROTO_MRAIL,
        .protocol_version = MRAIL_WIRE_VERSION,
        .max_msg_size = most,
        .tx_ctx_cnt = 1,
        .rx_ctx_cnt = 1,
    };
    info->fabric_attr->fabric = NULL;
    describe_domain(info, asked, places);
}

/* A rail in an address, by the place among those of its kind; NULL: it is not there. */
static const struct mrail_addr_rail *rail_source(const struct parts_of *of, size_t slot,
                                                 const struct mrail_addr *addr)
{
    uint16_t kinds[MRAIL_RAILS];

    for (size_t i = 0; i <= slot; i++)
        kinds[i] = of->rail[i] ? mrail_addr_kind(of->rail[i]) : 0;
    return mrail_addr_meets(addr, kinds, slot);
}

/* Where the rails listen by hints, unless a node or service says it. addr->count 0: nowhere.
 * -FI_ENODATA, with a reason. */
static int read_source(const struct request *req, const struct parts_of *of,
                       struct mrail_addr *addr)
{
    const struct fi_info *hints = req->hints;
    char why[200] = "it is of rails that this bracket lacks";
    int rc;

    addr->count = 0;
    if (!hints->src_addr || ((req->node || req->service) && req->flags & FI_SOURCE))
        return 0;
    rc = mrail_addr_decode(hints->src_addr, hints->src_addrlen, addr, why, sizeof(why));
    for (size_t i = 0; !rc && i < of->slots; i++) {
        if (of->rail[i] && rail_source(of, i, addr))
            return 0;
    }
    reasons_add_at(req->reasons, REASON_ATTR, "src_addr: no address of this mrail: %s", why);
    return -FI_ENODATA;
}

static bool is_of_another(const struct mrail_addr *addr, const struct mrail_addr_rail *rail)
{
    for (size_t i = 0; i < addr->count; i++) {
        if (addr->rail[i].kind == rail->kind && addr->rail[i].len == rail->len &&
            !memcmp(addr->rail[i].addr, rail->addr, rail->len))
            return true;
    }
    return false;
}

/* Of rails of one interface (same=yes) the first listens at the port that is asked for, the others
 * at ports of their own choice. */
static void leave_port(struct mrail_addr_rail *rail)
{
    if (rail->format == FI_SOCKADDR_IN)
        ((struct sockaddr_in *)(void *)rail->addr)->sin_port = 0;
    else if (rail->format == FI_SOCKADDR_IN6)
        ((struct sockaddr_in6 *)(void *)rail->addr)->sin6_port = 0;
}

/* Appends the address that the rail has offered, if it has one. */
static void add_own(const struct fi_info *rail, struct mrail_addr *addr)
{
    struct mrail_addr_rail *to = &addr->rail[addr->count];

    if (!rail->src_addr || rail->src_addrlen > sizeof(to->addr))
        return;
    to->kind = mrail_addr_kind(rail);
    to->format = rail->addr_format;
    to->len = rail->src_addrlen;
    memcpy(to->addr, rail->src_addr, to->len);
    if (is_of_another(addr, to))
        leave_port(to);
    addr->count++;
}

/* All of the rails' source addresses that are known; those that hints say first. */
static int set_source(const struct request *req, const struct parts_of *of, size_t most,
                      struct fi_info *info)
{
    struct mrail_addr *addrs = calloc(2, sizeof(*addrs)), *addr = addrs;
    unsigned char raw[MRAIL_ADDR_MAX];
    int rc = addrs ? read_source(req, of, &addrs[1]) : -FI_ENOMEM;

    for (size_t i = 0; !rc && i < of->slots; i++) {
        const struct fi_info *rail = of->rail[i];
        const struct mrail_addr_rail *from = rail ? rail_source(of, i, &addrs[1]) : NULL;

        if (from) {
            addr->rail[addr->count] = *from;
            addr->rail[addr->count++].len = mrail_addr_len(from, rail->src_addrlen);
        } else if (rail) {
            add_own(rail, addr);
        }
    }
    if (!rc) {
        addr->packet = (uint32_t)most;
        rc = mrail_addr_encode(addr, raw, of->addr_size);
    }
    free(addrs);
    return rc ? rc : info_set_src(info, raw, of->addr_size);
}

static const struct fi_info *first_of(const struct parts_of *of)
{
    size_t i = 0;

    while (!of->rail[i])
        i++;
    return of->rail[i];
}

static int make(const struct request *req, const struct parts_of *of, struct fi_info **ret_info)
{
    struct fi_info *info = info_dup(first_of(of));
    size_t most = largest(req, of);
    uint64_t places = 0;
    int rc;

    if (!info)
        return -FI_ENOMEM;
    for (size_t i = 0; i < of->slots; i++)
        places |= of->rail[i] ? of->rail[i]->caps & place_caps : 0;
    describe(req, most, places, info);
    rc = info_set_dest(info, NULL, 0);
    if (!rc)
        rc = join_set_names(info, of->rail, of->slots);
    if (!rc)
        rc = set_source(req, of, most, info);
    if (rc)
        info_free(info);
    else
        *ret_info = info;
    return rc;
}

/* ---- What does not go together ---- */

static bool go_together(const struct request *req, struct parts_of *of)
{
    of->addr_size = mrail_addr_size(of->rail, of->slots);
    if (!of->addr_size) {
        reasons_add(req->reasons, "the addresses of %zu rails do not fit the %d bytes of one",
                    of->used, MRAIL_ADDR_MAX);
        return false;
    }
    if (largest(req, of) < LEAST_PACKET) {
        reasons_add(req->reasons, "max_msg_size: packets of the rails have less than %d bytes",
                    LEAST_PACKET + MRAIL_HEAD_MAX);
        return false;
    }
    return params_bool(req->params, "same") ||
           !join_has_twin(req->reasons, &mrail_words, of->rail, of->slots);
}

/* The n-th info of each rail, the last of one that has no more. False: none has so many. */
static bool pick(const struct fi_info *const *branches, size_t count, size_t n, struct parts_of *of)
{
    bool any = false;

    *of = (struct parts_of){.slots = count};
    for (size_t i = 0; i < count; i++) {
        const struct fi_info *info = branches[i];
        size_t at = 0;

        for (; info && info->next && at < n; at++)
            info = info->next;
        any = any || (info && at == n);
        of->rail[i] = info;
        of->used += info != NULL;
    }
    return any;
}

/* Is the node that was asked for one that any rail knows? */
static bool named_by_any(const struct request *req, size_t count)
{
    uint64_t all = (UINT64_C(1) << count) - 1;

    if ((!req->node && !req->service) || (req->unnamed & all) != all)
        return true;
    reasons_add(req->reasons, "no rail has the node or service that was asked for");
    return false;
}

int mrail_join(const struct request *req, const struct fi_info *const *branches, size_t count,
               struct fi_info **infos)
{
    struct parts_of of;
    int rc = 0;

    *infos = NULL;
    if (count > MRAIL_RAILS) {
        reasons_add(req->reasons, "mrail joins up to %d rails, not %zu", MRAIL_RAILS, count);
        return -FI_ENODATA;
    }
    if (!join_all_have(req, &mrail_words, branches, count) || !named_by_any(req, count))
        return -FI_ENODATA;
    for (size_t n = 0; !rc && pick(branches, count, n, &of); n++) {
        struct fi_info *info = NULL;

        if (!of.used || !go_together(req, &of))
            continue;
        rc = make(req, &of, &info);
        if (!rc)
            info_append(infos, info);
        else if (rc == -FI_ENODATA)
            rc = 0;
    }
    if (rc) {
        info_free(*infos);
        *infos = NULL;
    }
    return rc;
}

unsigned mrail_peer_traits(const struct params *params)
{
    return PEER_PACKETS;
}

/* ---- Opening ---- */

int mrail_rail_source(struct fi_info *rail, size_t before, const struct fi_info *info)
{
    uint16_t kinds[MRAIL_RAILS + 1];
    const struct mrail_addr_rail *from;
    struct mrail_addr *addr;
    char why[200];
    int rc;

    if (!info->src_addr)
        return 0;
    addr = malloc(sizeof(*addr));
    if (!addr)
        return -FI_ENOMEM;
    for (size_t i = 0; i <= before; i++)
        kinds[i] = mrail_addr_kind(rail);
    rc = mrail_addr_decode(info->src_addr, info->src_addrlen, addr, why, sizeof(why));
    from = rc ? NULL : mrail_addr_meets(addr, kinds, before);
    if (from)
        rc = info_set_src(rail, from->addr, mrail_addr_len(from, rail->src_addrlen));
    free(addr);
    return rc;
}

static int ask_rail(const struct lower *lower, const struct fi_info *info, const char *fabric,
                    const char *domain, struct fi_info **list)
{
    const uint64_t reads = info->caps & FI_RMA ? read_caps : 0;
    const uint64_t wishes[] = {FI_PEER | reads, reads};
    int rc = -FI_ENODATA;

    for (int i = 0; rc == -FI_ENODATA && i < 2; i++) {
        struct fi_info *need = rail_hints(info, wishes[i], false);

        rc = need ? info_set_string(&need->fabric_attr->name, fabric) : -FI_ENOMEM;
        if (!rc)
            rc = info_set_string(&need->domain_attr->name, domain);
        if (!rc)
            rc = lower->getinfo(lower, FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL,
                                0, need, list);
        info_free(need);
    }
    return rc;
}

int mrail_rail_info(const struct lower *lower, size_t slot, size_t slots,
                    const struct fi_info *info, struct fi_info **rail)
{
    char *fabrics[MRAIL_RAILS] = {NULL}, *domains[MRAIL_RAILS] = {NULL};
    struct fi_info *list = NULL;
    int rc = -FI_ENODATA;

    if (!info->domain_attr->name || !info->fabric_attr->name)
        return -FI_ENODATA;
    if (join_name_split(info->fabric_attr->name, slots, fabrics) ||
        join_name_split(info->domain_attr->name, slots, domains))
        rc = -FI_EINVAL;
    else if (domains[slot])
        rc = ask_rail(lower, info, fabrics[slot], domains[slot], &list);
    join_names_free(fabrics, slots);
    join_names_free(domains, slots);
    if (rc)
        return rc;
    info_free(list->next);
    list->next = NULL;
    *rail = list;
    return 0;
}
