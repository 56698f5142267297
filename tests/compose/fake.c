/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "core/base/fid.h"
#include "core/domain/base.h"
#include "core/hook/hook.h"
#include "core/info/info.h"
#include "core/part/join_name.h"

int fake_open_now;
char fake_log[4096];
int fake_fail_open;

static struct {
    const char *part;
    unsigned abi;
} abis[16];

static struct fake_fabric {
    struct fabric fabric;
    struct lower *lowers[8];
    size_t lower_count;
    struct params *params;
    struct fake_fabric *next;
    int domains;
} * open_fabrics;

/* Of all that is shared between fabrics. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void note(char sign, const char *name)
{
    size_t len = strlen(fake_log);

    snprintf(fake_log + len, sizeof(fake_log) - len, "%c%s ", sign, name);
}

void fake_reset(void)
{
    fake_log[0] = 0;
    fake_fail_open = 0;
    memset(abis, 0, sizeof(abis));
}

unsigned fake_abi(const char *part)
{
    for (size_t i = 0; i < 16 && abis[i].part; i++) {
        if (!strcmp(abis[i].part, part))
            return abis[i].abi;
    }
    return ~0u;
}

static void note_abi(const char *part, unsigned abi)
{
    size_t i = 0;

    while (i < 15 && abis[i].part && strcmp(abis[i].part, part))
        i++;
    abis[i].part = part;
    abis[i].abi = abi;
}

void fake_drop_children(void)
{
    for (struct fake_fabric *fabric = open_fabrics; fabric; fabric = fabric->next)
        fabric->domains = 0;
}

static int fake_close(struct fid *fid)
{
    struct fake_fabric *fabric = (struct fake_fabric *)fid;
    struct fake_fabric **link = &open_fabrics;

    if (fabric->domains)
        return -FI_EBUSY;
    pthread_mutex_lock(&mutex);
    note('-', fabric->fabric.part);
    while (*link != fabric)
        link = &(*link)->next;
    *link = fabric->next;
    fake_open_now--;
    pthread_mutex_unlock(&mutex);
    for (size_t i = 0; i < fabric->lower_count; i++) {
        if (fabric->lowers[i])
            fabric->lowers[i]->close(fabric->lowers[i]);
    }
    params_destroy(fabric->params);
    free(fabric);
    return 0;
}

/* A domain is nothing but a child of the fabric: *domain is the fabric's own fid. */
static int fake_domain(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    ((struct fake_fabric *)fid)->domains++;
    *domain = (struct fid_domain *)fid;
    return 0;
}

static int fake_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **eq,
                        void *context)
{
    *eq = (struct fid_eq *)fid;
    return 0;
}

static struct fi_ops fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fake_close,
    .bind = enosys_bind,
    .control = enosys_control,
    .ops_open = enosys_ops_open,
    .ops_set = enosys_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = fake_domain,
    .eq_open = fake_eq_open,
};

static int fake_open(const struct open_args *args, struct fid_fabric **result, void *context)
{
    struct fake_fabric *fabric;

    if (fake_fail_open && !--fake_fail_open)
        return -FI_EIO;
    fabric = calloc(1, sizeof(*fabric));
    if (!fabric)
        return -FI_ENOMEM;
    if (args->lower_count > 8)
        abort();
    fabric_init(&fabric->fabric, args, &fid_ops, &fabric_ops, context);
    if (args->lower_count)
        memcpy(fabric->lowers, args->lowers, args->lower_count * sizeof(args->lowers[0]));
    fabric->lower_count = args->lower_count;
    fabric->params = args->params;
    pthread_mutex_lock(&mutex);
    fabric->next = open_fabrics;
    open_fabrics = fabric;
    fake_open_now++;
    note('+', args->part->name);
    note_abi(args->part->name, args->abi);
    pthread_mutex_unlock(&mutex);
    *result = &fabric->fabric.fid;
    return 0;
}

static struct fi_info *make_info(enum fi_ep_type type, uint64_t caps, uint32_t protocol,
                                 const char *fabric, const char *domain)
{
    struct fi_info *info = info_alloc();

    if (!info || info_set_string(&info->fabric_attr->name, fabric) ||
        info_set_string(&info->domain_attr->name, domain)) {
        info_free(info);
        return NULL;
    }
    info->caps = info->tx_attr->caps = info->rx_attr->caps = caps;
    info->ep_attr->type = type;
    info->ep_attr->protocol = protocol;
    info->ep_attr->protocol_version = 1;
    info->ep_attr->max_msg_size = type == FI_EP_DGRAM ? 1400 : SIZE_MAX;
    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 1;
    info->domain_attr->max_ep_tx_ctx = info->domain_attr->max_ep_rx_ctx = 1;
    info->addr_format = FI_SOCKADDR_IN;
    info->tx_attr->size = info->rx_attr->size = 256;
    info->tx_attr->iov_limit = info->rx_attr->iov_limit = 4;
    return info;
}

#define BASE_CAPS (FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define RMA_CAPS (FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static int tcp_offer(const struct request *req, const struct fi_info *lower, struct fi_info **infos)
{
    const char *iface = params_string(req->params, "iface");

    if (!iface || strcmp(iface, "lo"))
        info_append(infos,
                    make_info(FI_EP_MSG, BASE_CAPS | RMA_CAPS, FI_PROTO_SOCK_TCP, "net", "eth0"));
    if (!iface || !strcmp(iface, "lo"))
        info_append(infos,
                    make_info(FI_EP_MSG, BASE_CAPS | RMA_CAPS, FI_PROTO_SOCK_TCP, "net", "lo"));
    return 0;
}

static int udp_offer(const struct request *req, const struct fi_info *lower, struct fi_info **infos)
{
    *infos = make_info(FI_EP_DGRAM, BASE_CAPS, FI_PROTO_UDP, "net", "eth0");
    return *infos ? 0 : -FI_ENOMEM;
}

static int shm_offer(const struct request *req, const struct fi_info *lower, struct fi_info **infos)
{
    *infos = make_info(FI_EP_RDM, FI_MSG | FI_SEND | FI_RECV | FI_TAGGED | FI_LOCAL_COMM,
                       FI_PROTO_SHM, "shm", "shm");
    return *infos ? 0 : -FI_ENOMEM;
}

/* Packets, in the fabric "many", for a layer that needs them; else endpoints in "one". */
static int duo_offer(const struct request *req, const struct fi_info *lower, struct fi_info **infos)
{
    const char *fabric = req->upper & EP_PACKETS ? "many" : "one";

    *infos = make_info(FI_EP_RDM, FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM,
                       FI_PROTO_EFA, fabric, "d0");
    return *infos ? 0 : -FI_ENOMEM;
}

static unsigned packets_trait(const struct params *params)
{
    return PEER_PACKETS;
}

static enum fi_ep_type lower_type(const struct part *part)
{
    if (part->requires_ep == EP_PACKETS)
        return FI_EP_RDM;
    return part->requires_ep == EP_SET(FI_EP_MSG) ? FI_EP_MSG : FI_EP_DGRAM;
}

static int rdm_needs(const struct request *req, struct fi_info **lower_hints)
{
    struct fi_info *hints = info_dup(req->hints);

    if (!hints)
        return -FI_ENOMEM;
    hints->caps &= ~(FI_TAGGED | FI_DIRECTED_RECV);
    hints->ep_attr->type = lower_type(req->part);
    hints->ep_attr->protocol = FI_PROTO_UNSPEC;
    *lower_hints = hints;
    return 0;
}

static int rxm_offer(const struct request *req, const struct fi_info *lower, struct fi_info **infos)
{
    struct fi_info *info = info_dup(lower);
    const char *tags = params_string(req->params, "tags");

    if (!info)
        return -FI_ENOMEM;
    info->caps |= FI_TAGGED | FI_DIRECTED_RECV;
    info->tx_attr->caps = info->rx_attr->caps = info->caps;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = !strcmp(tags, "pass") ? FI_PROTO_XNET : FI_PROTO_RXM;
    *infos = info;
    return 0;
}

static int arq_offer(const struct request *req, const struct fi_info *lower, struct fi_info **infos)
{
    struct fi_info *info = info_dup(lower);

    if (!info)
        return -FI_ENOMEM;
    info->ep_attr->type = FI_EP_RDM;
    *infos = info;
    return 0;
}

static int rxd_offer(const struct request *req, const struct fi_info *lower, struct fi_info **infos)
{
    struct fi_info *info = info_dup(lower);

    if (!info)
        return -FI_ENOMEM;
    info->caps |= FI_TAGGED;
    info->tx_attr->caps = info->rx_attr->caps = info->caps;
    info->ep_attr->type = FI_EP_RDM;
    info->ep_attr->protocol = FI_PROTO_RXD;
    info->ep_attr->max_msg_size = SIZE_MAX;
    *infos = info;
    return 0;
}

/* One info of the first that each branch has, which promises what all of them can do. */
static int lnx_join(const struct request *req, const struct fi_info *const *branches, size_t count,
                    struct fi_info **infos)
{
    const char *fabrics[8] = {NULL}, *domains[8] = {NULL};
    struct fi_info *info = NULL;

    for (size_t i = 0; i < count; i++) {
        if (!branches[i])
            continue;
        fabrics[i] = branches[i]->fabric_attr->name;
        domains[i] = branches[i]->domain_attr->name;
        if (info)
            info->caps &= branches[i]->caps | FI_REMOTE_COMM;
        else
            info = info_dup(branches[i]);
        if (!info)
            return -FI_ENOMEM;
        info->caps |= branches[i]->caps & FI_REMOTE_COMM;
    }
    if (!info)
        return -FI_ENODATA;
    free(info->fabric_attr->name);
    free(info->domain_attr->name);
    info->fabric_attr->name = join_name(fabrics, count);
    info->domain_attr->name = join_name(domains, count);
    info->tx_attr->caps = info->rx_attr->caps = info->caps;
    if (!info->fabric_attr->name || !info->domain_attr->name) {
        info_free(info);
        return -FI_ENOMEM;
    }
    *infos = info;
    return 0;
}

/* No branch alone decides FI_REMOTE_COMM, and shared memory has no use for a node. */
static int lnx_needs(const struct request *req, struct fi_info **lower_hints)
{
    struct fi_info *hints = info_dup(req->hints);

    if (!hints)
        return -FI_ENOMEM;
    hints->caps &= ~(FI_LOCAL_COMM | FI_REMOTE_COMM);
    if (req->branch == 0)
        *req->named = 0;
    *lower_hints = hints;
    return 0;
}

static int mrail_needs(const struct request *req, struct fi_info **lower_hints)
{
    int rc = lnx_needs(req, lower_hints);

    if (!rc)
        (*lower_hints)->caps = FI_MSG;
    return rc;
}

static int same_needs(const struct request *req, struct fi_info **lower_hints)
{
    *lower_hints = info_dup(req->hints);
    return *lower_hints ? 0 : -FI_ENOMEM;
}

static int same_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info)
{
    *info = info_dup(lower);
    return *info ? 0 : -FI_ENOMEM;
}

static int adding_needs(const struct request *req, struct fi_info **lower_hints)
{
    struct fi_info *hints = info_dup(req->hints);

    if (!hints)
        return -FI_ENOMEM;
    hints->caps &= ~req->part->adds;
    *lower_hints = hints;
    return 0;
}

static int adding_offer(const struct request *req, const struct fi_info *lower,
                        struct fi_info **infos)
{
    struct fi_info *info = info_dup(lower);

    if (!info)
        return -FI_ENOMEM;
    info->caps |= req->part->adds;
    *infos = info;
    return 0;
}

static const char *const tag_choices[] = {"auto", "pass", "own", NULL};
static const char *const trace_aliases[] = {"hook", NULL};
static const struct param_text rxm_unnamed[] = {{"tags", "pass"}, {NULL, NULL}};

static const struct param_def tcp_params[] = {
    {.key = "iface", .type = PARAM_LIST, .selects = true, .help = "Interfaces."},
    {.key = "nodelay", .type = PARAM_BOOL, .default_text = "1", .help = "No delay."},
    {.key = NULL},
};
static const struct param_def rxm_params[] = {
    {.key = "tags",
     .type = PARAM_CHOICE,
     .default_text = "auto",
     .choices = tag_choices,
     .help = "Who matches."},
    {.key = "eager", .type = PARAM_SIZE, .default_text = "16k", .help = "Eager limit."},
    {.key = NULL},
};
static const struct param_def trace_params[] = {
    {.key = "file", .type = PARAM_STRING, .help = "Where to write."},
    {.key = NULL},
};

static const struct part tcp = {
    .name = "tcp",
    .kind = PART_TRANSPORT,
    .provides_ep = EP_SET(FI_EP_MSG),
    .params = tcp_params,
    .summary = "sockets",
    .offer = tcp_offer,
    .open_fabric = fake_open,
};
static const struct part udp = {
    .name = "udp",
    .kind = PART_TRANSPORT,
    .provides_ep = EP_SET(FI_EP_DGRAM),
    .offer = udp_offer,
    .summary = "datagrams",
    .open_fabric = fake_open,
};
static const struct part shm = {
    .name = "shm",
    .kind = PART_TRANSPORT,
    .provides_ep = EP_SET(FI_EP_RDM),
    .offer = shm_offer,
    .summary = "shared memory",
    .open_fabric = fake_open,
};
static const struct part loop = {
    .name = "loop",
    .kind = PART_TRANSPORT,
    .provides_ep = EP_SET(FI_EP_RDM),
    .hidden = true,
    .offer = shm_offer,
    .open_fabric = fake_open,
};
static const struct part rxm = {
    .name = "rxm",
    .prov_name = "ofi_rxm",
    .kind = PART_LAYER,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_MSG),
    .params = rxm_params,
    .unnamed = rxm_unnamed,
    .summary = "RDM over connections",
    .needs = rdm_needs,
    .offer = rxm_offer,
    .open_fabric = fake_open,
};
static const struct part rxd = {
    .name = "rxd",
    .prov_name = "ofi_rxd",
    .kind = PART_LAYER,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_PACKETS,
    .needs = rdm_needs,
    .offer = rxd_offer,
    .summary = "RDM over packets",
    .open_fabric = fake_open,
};
static const struct part arq = {
    .name = "arq",
    .kind = PART_LAYER,
    .provides_ep = EP_PACKETS,
    .requires_ep = EP_SET(FI_EP_DGRAM),
    .peer = packets_trait,
    .needs = rdm_needs,
    .offer = arq_offer,
    .summary = "packets over datagrams",
    .open_fabric = fake_open,
};
/* Has FI_EP_RDM of its own, and packets of which a hidden layer makes messages, unseen. */
static const struct part duo = {
    .name = "duo",
    .kind = PART_TRANSPORT,
    .provides_ep = EP_SET(FI_EP_RDM) | EP_PACKETS,
    .hidden = true,
    .completed = FI_PROTO_EFA,
    .offer = duo_offer,
    .summary = "two fabrics",
    .open_fabric = fake_open,
};
static const struct part messages = {
    .name = "messages",
    .kind = PART_LAYER,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_PACKETS,
    .hidden = true,
    .completes = FI_PROTO_EFA,
    .needs = rdm_needs,
    .offer = rxd_offer,
    .summary = "messages of packets",
    .open_fabric = fake_open,
};
static const struct part noop = {
    .name = "noop",
    .prov_name = "ofi_hook_noop",
    .kind = PART_LAYER,
    .transparent = true,
    .summary = "passes everything through",
    .needs = same_needs,
    .offer = same_offer,
    .open_fabric = fake_open,
};
static const struct part trace = {
    .name = "trace",
    .prov_name = "ofi_hook_trace",
    .kind = PART_LAYER,
    .transparent = true,
    .aliases = trace_aliases,
    .params = trace_params,
    .needs = same_needs,
    .offer = same_offer,
    .summary = "logs calls",
    .open_fabric = fake_open,
};
static const struct part lnx = {
    .name = "lnx",
    .prov_name = "ofi_lnx",
    .kind = PART_JOIN,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_RDM),
    .needs = lnx_needs,
    .join = lnx_join,
    .summary = "one endpoint over several",
    .open_fabric = fake_open,
};

static const struct part mrail = {
    .name = "mrail",
    .prov_name = "ofi_mrail",
    .kind = PART_JOIN,
    .provides_ep = EP_PACKETS,
    .requires_ep = EP_SET(FI_EP_RDM) | EP_PACKETS,
    .peer = packets_trait,
    .needs = mrail_needs,
    .join = lnx_join,
    .summary = "packets over several",
    .open_fabric = fake_open,
};
static const struct part coll = {
    .name = "coll",
    .prov_name = "ofi_coll",
    .kind = PART_LAYER,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_RDM),
    .adds = FI_COLLECTIVE,
    .summary = "collectives",
    .needs = adding_needs,
    .offer = adding_offer,
    .open_fabric = fake_open,
};
static const struct part trigger = {
    .name = "trigger",
    .prov_name = "ofi_trigger",
    .kind = PART_LAYER,
    .provides_ep = EP_SET(FI_EP_RDM),
    .requires_ep = EP_SET(FI_EP_RDM),
    .adds = FI_TRIGGER,
    .topmost = true,
    .summary = "deferred work",
    .needs = adding_needs,
    .offer = adding_offer,
    .open_fabric = fake_open,
};

static const struct part *const list[] = {&tcp,   &udp,  &shm,     &loop,  &rxm,
                                          &rxd,   &arq,  &noop,    &trace, &lnx,
                                          &mrail, &coll, &trigger, &duo,   &messages};

const struct parts fake_parts = {list, sizeof(list) / sizeof(list[0])};
