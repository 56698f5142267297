/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_messages PROVIDER TYPE ADDRESS COUNT [SIZE]: so many messages of SIZE bytes (8) from one
 * endpoint of this process to another, one after the other, for verbs_instructions and
 * efa_instructions to count in. TYPE: msg, rdm, or tagged (rdm with tags). ADDRESS: of the device,
 * or - for the first one that the provider lists. It sleeps before it reads completions, so that
 * few reads find nothing.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

enum {
    SIZE_MOST = 1 << 20,
    WARM = 100, /* messages before those that count */
    CONNECT_MS = 20000,
    PAUSE_NS = 10000000, /* for the emulator's thread, on a machine that does other things too */
};

struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t peer;
};

/* Of whichever libfabric.so.1 there is: an older one has no symbols of this one's versions. */
static struct {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    uint32_t (*version)(void);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    void (*freeinfo)(struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int errnum);
} lib;

static struct fi_info *hints, *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct end a, b;
static char buffers[2][SIZE_MOST];
static size_t size = 8;
static bool tagged;

static void must(const char *call, long rc)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "%s: %s\n", call, lib.strerror((int)-rc));
    exit(1);
}

static void load(void)
{
    void *library = dlopen("libfabric.so.1", RTLD_NOW);
    static const char *const names[] = {"fi_getinfo",  "fi_version", "fi_dupinfo",
                                        "fi_freeinfo", "fi_fabric",  "fi_strerror"};
    void **slots = (void **)&lib;

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        slots[i] = library ? dlsym(library, names[i]) : NULL;
        if (slots[i])
            continue;
        fprintf(stderr, "libfabric.so.1: no %s\n", names[i]);
        exit(1);
    }
}

static void open_domain(const char *provider, enum fi_ep_type type, const char *address)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};

    hints = lib.dupinfo(NULL);
    hints->ep_attr->type = type;
    hints->caps = tagged ? FI_TAGGED : FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    /* A thread of ours would stand in while the program pauses, and each post would wake it: one
     * thread drives, as the older library takes for granted. */
    if (tagged && FI_MAJOR(lib.version()) >= 2)
        hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    hints->fabric_attr->prov_name = strdup(provider);
    must("fi_getinfo",
         lib.getinfo(FI_VERSION(1, 17), address, NULL, address ? FI_SOURCE : 0, hints, &info));
    must("fi_fabric", lib.fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    must("fi_eq_open", fi_eq_open(fabric, &attr, &eq, NULL));
}

static void open_end(struct end *end, struct fi_info *from)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .size = 256};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    must("fi_endpoint", fi_endpoint(domain, from, &end->ep, NULL));
    must("fi_cq_open", fi_cq_open(domain, &attr, &end->cq, NULL));
    must("fi_ep_bind", fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
    if (info->ep_attr->type == FI_EP_MSG) {
        must("fi_ep_bind", fi_ep_bind(end->ep, &eq->fid, 0));
    } else {
        must("fi_av_open", fi_av_open(domain, &av, &end->av, NULL));
        must("fi_ep_bind", fi_ep_bind(end->ep, &end->av->fid, 0));
    }
    must("fi_enable", fi_enable(end->ep));
}

static void introduce(struct end *end, const struct end *peer)
{
    char name[256];
    size_t len = sizeof(name);

    must("fi_getname", fi_getname(&peer->ep->fid, name, &len));
    must("fi_av_insert", fi_av_insert(end->av, name, 1, &end->peer, 0, NULL) - 1);
}

/* Info for an active endpoint: some providers make one only if the info names the peer. */
static struct fi_info *info_to(const char *address, const struct sockaddr_in *listener)
{
    struct fi_info *to;
    char port[16];

    snprintf(port, sizeof(port), "%d", ntohs(listener->sin_port));
    must("fi_getinfo", lib.getinfo(FI_VERSION(1, 17), address, port, 0, hints, &to));
    return to;
}

static void connect_both(const char *address)
{
    struct fi_eq_cm_entry entry;
    struct sockaddr_in name;
    struct fid_pep *pep;
    size_t len = sizeof(name);

    must("fi_passive_ep", fi_passive_ep(fabric, info, &pep, NULL));
    must("fi_pep_bind", fi_pep_bind(pep, &eq->fid, 0));
    must("fi_listen", fi_listen(pep));
    must("fi_getname", fi_getname(&pep->fid, &name, &len));
    open_end(&a, info_to(address, &name));
    must("fi_connect", fi_connect(a.ep, &name, NULL, 0));
    for (int connected = 0; connected < 2;) {
        uint32_t event = 0;

        must("fi_eq_sread", fi_eq_sread(eq, &event, &entry, sizeof(entry), CONNECT_MS, 0));
        connected += event == FI_CONNECTED;
        if (event == FI_CONNREQ) {
            open_end(&b, entry.info);
            must("fi_accept", fi_accept(b.ep, NULL, 0));
        }
    }
}

static void pause_for_the_device(void)
{
    struct timespec pause = {.tv_nsec = PAUSE_NS};

    nanosleep(&pause, NULL);
}

static void await(struct end *end)
{
    struct fi_cq_entry entry;
    ssize_t rc;

    while ((rc = fi_cq_read(end->cq, &entry, 1)) == -FI_EAGAIN) {
        fi_cq_read(end == &a ? b.cq : a.cq, NULL, 0);
        pause_for_the_device();
    }
    must("fi_cq_read", rc);
}

static void *describe(char *buffer, uint64_t access)
{
    struct fid_mr *mr;

    if (!(info->domain_attr->mr_mode & FI_MR_LOCAL))
        return NULL;
    must("fi_mr_reg", fi_mr_reg(domain, buffer, size, access, 0, access, 0, &mr, NULL));
    return fi_mr_desc(mr);
}

static void send_one(void *out_desc, void *in_desc)
{
    ssize_t rc;

    if (tagged)
        rc = fi_trecv(b.ep, buffers[1], size, in_desc, FI_ADDR_UNSPEC, 1, 0, NULL);
    else
        rc = fi_recv(b.ep, buffers[1], size, in_desc, FI_ADDR_UNSPEC, NULL);
    must("fi_recv", rc);
    while ((rc = tagged ? fi_tsend(a.ep, buffers[0], size, out_desc, a.peer, 1, NULL)
                        : fi_send(a.ep, buffers[0], size, out_desc, a.peer, NULL)) == -FI_EAGAIN) {
        fi_cq_read(a.cq, NULL, 0);
        fi_cq_read(b.cq, NULL, 0);
    }
    must("fi_send", rc);
    pause_for_the_device();
    await(&a);
    await(&b);
}

/* Callgrind collects from its beginning to its end (--toggle-collect): all is connected by now. */
__attribute__((noinline)) static void measured(int count, void *out_desc, void *in_desc)
{
    for (; count > 0; count--)
        send_one(out_desc, in_desc);
}

int main(int argc, char **argv)
{
    void *out_desc, *in_desc;
    bool msg;

    if (argc > 5)
        size = strtoul(argv[5], NULL, 0);
    if (argc < 5 || size > SIZE_MOST) {
        fprintf(stderr, "usage: verbs_messages PROVIDER msg|rdm|tagged ADDRESS|- COUNT [SIZE]\n");
        return 2;
    }
    msg = !strcmp(argv[2], "msg");
    tagged = !strcmp(argv[2], "tagged");
    load();
    open_domain(argv[1], msg ? FI_EP_MSG : FI_EP_RDM, strcmp(argv[3], "-") ? argv[3] : NULL);
    if (msg) {
        connect_both(argv[3]);
    } else {
        open_end(&a, info);
        open_end(&b, info);
        introduce(&a, &b);
    }
    out_desc = describe(buffers[0], FI_SEND);
    in_desc = describe(buffers[1], FI_RECV);
    for (int count = WARM; count > 0; count--)
        send_one(out_desc, in_desc);
    measured(atoi(argv[4]), out_desc, in_desc);
    return 0;
}
