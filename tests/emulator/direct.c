/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fabric efa-direct by the public interface, two endpoints of one process: accesses of remote
 * memory, data for completion queues, injected writes, names as text, refusals. Each step is
 * checked; the program ends with 0 if all were as they must be.
 */
#include <inttypes.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_ext_efa.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    SIZE = 300000,
    WAIT_MS = 5000,
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cntr *reads;
static bool b_takes; /* receives for data of writes, on a device that can do without */

static struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *mr;
    char memory[SIZE], name[32];
    fi_addr_t peer;
} a, b;

static int vector = -1; /* of the next queue, if it is to have one */

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "direct: %s\n", what);
    exit(1);
}

static void ok(ssize_t rc, const char *what)
{
    if (!rc)
        return;
    fprintf(stderr, "direct: %s: %s\n", what, fi_strerror((int)-rc));
    exit(1);
}

static struct fi_info *ask(uint64_t caps, uint64_t mode)
{
    struct fi_info *hints = fi_allocinfo(), *found = NULL;

    hints->caps = caps;
    hints->mode = mode;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    if (caps & FI_HMEM)
        hints->domain_attr->mr_mode |= FI_MR_HMEM;
    hints->fabric_attr->name = strdup("efa-direct");
    if (fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &found))
        found = NULL;
    fi_freeinfo(hints);
    return found;
}

static void open_end(struct end *end)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    size_t len = sizeof(end->name);
    bool no = false;

    if (vector >= 0) {
        cq.flags = FI_AFFINITY;
        cq.signaling_vector = vector++;
    }
    ok(fi_cq_open(domain, &cq, &end->cq, NULL), "fi_cq_open");
    ok(fi_av_open(domain, &av, &end->av, NULL), "fi_av_open");
    ok(fi_endpoint(domain, info, &end->ep, NULL), "fi_endpoint");
    ok(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), "bind");
    ok(fi_ep_bind(end->ep, &end->av->fid, 0), "bind");
    if (end == &a)
        ok(fi_ep_bind(end->ep, &reads->fid, FI_READ), "bind");
    if (end == &b && b_takes)
        ok(fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV, &no,
                     sizeof(no)),
           "USE_UNSOLICITED_WRITE_RECV");
    ok(fi_enable(end->ep), "fi_enable");
    ok(fi_getname(&end->ep->fid, end->name, &len), "fi_getname");
    ok(fi_mr_reg(domain, end->memory, SIZE,
                 FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0,
                 &end->mr, NULL),
       "fi_mr_reg");
}

static void open_all(void)
{
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};

    ok(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    ok(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    ok(fi_cntr_open(domain, &cntr, &reads, NULL), "fi_cntr_open");
    open_end(&a);
    open_end(&b);
    check(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL) == 1, "fi_av_insert");
}

static void close_end(struct end *end)
{
    ok(fi_close(&end->ep->fid), "fi_close");
    ok(fi_close(&end->mr->fid), "fi_close");
    ok(fi_close(&end->av->fid), "fi_close");
    ok(fi_close(&end->cq->fid), "fi_close");
}

static void close_all(void)
{
    close_end(&a);
    close_end(&b);
    ok(fi_close(&reads->fid), "fi_close");
    ok(fi_close(&domain->fid), "fi_close");
    ok(fi_close(&fabric->fid), "fi_close");
}

static struct fi_cq_data_entry next(struct end *end)
{
    struct fi_cq_data_entry entry = {NULL};
    ssize_t rc = fi_cq_sread(end->cq, &entry, 1, NULL, WAIT_MS);

    check(rc == 1, rc == -FI_EAGAIN ? "no completion" : "an error completion");
    return entry;
}

static struct fi_cq_err_entry next_error(struct end *end)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    struct fi_cq_data_entry entry;

    check(fi_cq_sread(end->cq, &entry, 1, NULL, WAIT_MS) == -FI_EAVAIL, "no error");
    check(fi_cq_readerr(end->cq, &error, 0) == 1, "fi_cq_readerr");
    return error;
}

static bool all_are(const char *memory, char value)
{
    return memory[0] == value && !memcmp(memory, memory + 1, SIZE - 1);
}

static void reads_and_writes(void)
{
    void *desc = fi_mr_desc(a.mr);
    uint64_t key = fi_mr_key(b.mr), base = (uintptr_t)b.memory;
    struct fi_cq_err_entry error;
    struct iovec iov[2] = {{a.memory, 100}, {a.memory + 500, 50}};
    void *descs[2] = {desc, desc};

    check(fi_av_insert(b.av, a.name, 1, &b.peer, 0, NULL) == 1, "fi_av_insert");
    memset(b.memory, 'b', SIZE);
    ok(fi_read(a.ep, a.memory, SIZE, desc, a.peer, base, key, &a), "fi_read");
    check(next(&a).flags == (FI_RMA | FI_READ) && all_are(a.memory, 'b'), "a read");
    check(fi_cntr_read(reads) == 1, "the counter");
    memset(a.memory, 'a', SIZE);
    ok(fi_write(a.ep, a.memory, SIZE, desc, a.peer, base, key, NULL), "fi_write");
    check(next(&a).flags == (FI_RMA | FI_WRITE) && all_are(b.memory, 'a'), "a write");
    memset(b.memory, '-', 200);
    ok(fi_writemsg(a.ep,
                   &(struct fi_msg_rma){.msg_iov = iov,
                                        .desc = descs,
                                        .iov_count = 1,
                                        .addr = a.peer,
                                        .rma_iov = &(struct fi_rma_iov){base, 100, key},
                                        .rma_iov_count = 1},
                   FI_COMPLETION | FI_EFA_WR_HIGH_PPS),
       "fi_writemsg");
    next(&a);
    memset(b.memory, '-', 200);
    ok(fi_writev(a.ep, iov, descs, 2, a.peer, base, key, NULL), "fi_writev");
    next(&a);
    check(b.memory[149] == 'a' && b.memory[150] == '-', "a write of two segments");
    ok(fi_write(a.ep, a.memory, 0, NULL, a.peer, base, key, NULL), "a write of nothing");
    next(&a);
    ok(fi_read(a.ep, a.memory, 8, desc, a.peer, base, key + 1, &a), "fi_read");
    error = next_error(&a);
    check(error.err == FI_EINVAL && error.prov_errno == 7 && error.op_context == &a, "a wrong key");
    check(fi_cntr_readerr(reads) == 1, "the counter of errors");
    check(fi_write(a.ep, a.memory, 8, NULL, a.peer, base, key, NULL) == -FI_EINVAL,
          "memory that is not registered");
}

static void data_of_queues(void)
{
    void *desc = fi_mr_desc(a.mr), *from = fi_mr_desc(b.mr);
    struct fi_cq_data_entry entry;
    uint64_t key = fi_mr_key(b.mr), base = (uintptr_t)b.memory;

    ok(fi_recv(b.ep, b.memory, 100, from, FI_ADDR_UNSPEC, &b), "fi_recv");
    ok(fi_senddata(a.ep, a.memory, 100, desc, 0x12345678, a.peer, NULL), "fi_senddata");
    entry = next(&b);
    check(entry.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA) && entry.data == 0x12345678 &&
              entry.len == 100 && entry.op_context == &b,
          "a message with data");
    next(&a);
    ok(fi_recv(b.ep, b.memory, 0, from, FI_ADDR_UNSPEC, &b.cq), "fi_recv");
    ok(fi_writedata(a.ep, a.memory, SIZE, desc, 77, a.peer, base, key, NULL), "fi_writedata");
    entry = next(&b);
    check(entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) && entry.data == 77 &&
              entry.len == SIZE && entry.op_context == &b.cq,
          "a write with data");
    next(&a);
}

static void injects(void)
{
    uint64_t key = fi_mr_key(b.mr), base = (uintptr_t)b.memory;
    char word[64] = "injected", *at = b.memory;
    struct timespec pause = {0, 1000000};

    check(fi_inject(a.ep, word, sizeof(word), a.peer) == -FI_EMSGSIZE, "a long inject");
    check(fi_inject_write(a.ep, word, sizeof(word), a.peer, base, key) == -FI_EMSGSIZE,
          "a long injected write");
    ok(fi_inject_write(a.ep, word, 9, a.peer, base, key), "fi_inject_write");
    memset(word, 0, sizeof(word));
    for (int i = 0; i < WAIT_MS && strcmp(at, "injected") != 0; i++) {
        struct fi_cq_data_entry entry;

        check(fi_cq_read(a.cq, &entry, 1) == -FI_EAGAIN, "an inject has a completion");
        fi_cq_read(b.cq, &entry, 1);
        nanosleep(&pause, NULL);
    }
    check(!strcmp(at, "injected"), "an injected write");
}

/* All come at once, and none is lost if the one without FI_MORE never comes. */
static void batches(void)
{
    enum {
        COUNT = 40,
    };
    struct iovec iov = {a.memory, 100}, to = {b.memory, 100};
    void *desc = fi_mr_desc(a.mr), *desc_b = fi_mr_desc(b.mr);
    struct fi_msg msg = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = a.peer, .context = &msg};
    struct fi_msg receive = {.msg_iov = &to,
                             .desc = &desc_b,
                             .iov_count = 1,
                             .addr = FI_ADDR_UNSPEC,
                             .context = &receive};
    char word[8] = "inline";

    for (int i = 0; i < COUNT; i++)
        ok(fi_recvmsg(b.ep, &receive, FI_MORE | FI_COMPLETION), "fi_recvmsg");
    for (int i = 0; i < COUNT; i++) {
        bool is_inline = i % 3 == 1;

        iov = is_inline ? (struct iovec){word, sizeof(word)} : (struct iovec){a.memory, 100};
        msg.desc = is_inline ? NULL : &desc;
        ok(fi_sendmsg(a.ep, &msg, FI_MORE | FI_COMPLETION), "fi_sendmsg");
    }
    for (int i = 0; i < COUNT; i++) {
        check(next(&a).op_context == &msg, "a message of a batch");
        check(next(&b).op_context == &receive, "a receive of a batch");
    }
}

/* Data of writes comes without a receive, and both ends must have it alike. */
static void unsolicited(void)
{
    void *desc = fi_mr_desc(a.mr);
    uint64_t key = fi_mr_key(b.mr), base = (uintptr_t)b.memory;
    struct fi_cq_data_entry entry;
    struct fi_cq_err_entry error;

    check(fi_av_insert(b.av, a.name, 1, &b.peer, 0, NULL) == 1, "fi_av_insert");
    memset(a.memory, 'w', SIZE);
    ok(fi_writedata(a.ep, a.memory, SIZE, desc, 78, a.peer, base, key, &a), "fi_writedata");
    if (b_takes) {
        error = next_error(&a);
        check(error.err == FI_EINVAL && error.prov_errno == 18, "ends that differ");
        return;
    }
    entry = next(&b);
    check(entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) && entry.data == 78 &&
              entry.len == SIZE && !entry.op_context && all_are(b.memory, 'w'),
          "a write with data");
    check(next(&a).op_context == &a, "its end");
}

static void names(void)
{
    struct fi_info *hints = fi_allocinfo(), *found;
    char text[100], tail[104];
    size_t len = sizeof(text);

    fi_av_straddr(a.av, b.name, text, &len);
    hints->fabric_attr->name = strdup("efa-direct");
    hints->mode = info->mode;
    hints->domain_attr->mr_mode = info->domain_attr->mr_mode;
    ok(fi_getinfo(FI_VERSION(2, 0), text, NULL, 0, hints, &found), text);
    check(found->dest_addrlen == 32 && !memcmp(found->dest_addr, b.name, 32), "text of an address");
    fi_freeinfo(found);
    snprintf(tail, sizeof(tail), "%s:1", text);
    check(fi_getinfo(FI_VERSION(2, 0), tail, NULL, 0, hints, &found) == -FI_ENODATA, "more text");
    check(fi_getinfo(FI_VERSION(2, 0), "fi_addr_efa://[::1]:65536:1", NULL, 0, hints, &found) ==
              -FI_ENODATA,
          "a number that is too large");
    check(fi_getinfo(FI_VERSION(2, 0), "fe80::1", NULL, FI_SOURCE, hints, &found) == -FI_ENODATA,
          "the GID of another device");
    fi_freeinfo(hints);
}

/* On an endpoint that is enabled. */
static void options(void)
{
    bool is = true, no = false;
    size_t count = 9, len = sizeof(count);
    int level = FI_OPT_ENDPOINT;
    fid_t fid = &a.ep->fid;

    ok(fi_getopt(fid, level, FI_OPT_EFA_RNR_RETRY, &count, &len), "RNR_RETRY");
    check(count == 7 && len == sizeof(count), "RNR_RETRY");
    check(fi_setopt(fid, level, FI_OPT_EFA_RNR_RETRY, &count, sizeof(count)) == -FI_EINVAL,
          "RNR_RETRY of an enabled endpoint");
    len = sizeof(is);
    ok(fi_getopt(fid, level, FI_OPT_EFA_EMULATED_WRITE, &is, &len), "EMULATED_WRITE");
    check(!is, "writes are emulated");
    len = 0;
    check(fi_getopt(fid, level, FI_OPT_EFA_EMULATED_READ, &is, &len) == -FI_ETOOSMALL, "no room");
    check(fi_getopt(fid, level, FI_OPT_EFA_EMULATED_ATOMICS, &is, &len) == -FI_ENOPROTOOPT,
          "atomics");
    is = true;
    ok(fi_setopt(fid, level, FI_OPT_EFA_USE_DEVICE_RDMA, &is, sizeof(is)), "USE_DEVICE_RDMA");
    check(fi_setopt(fid, level, FI_OPT_EFA_USE_DEVICE_RDMA, &no, sizeof(no)) == -FI_EOPNOTSUPP,
          "no USE_DEVICE_RDMA");
    check(fi_setopt(fid, level, FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES, &is, sizeof(is)) ==
              -FI_EOPNOTSUPP,
          "order of bytes");
    ok(fi_setopt(fid, level, FI_OPT_EFA_HOMOGENEOUS_PEERS, &is, sizeof(is)), "HOMOGENEOUS_PEERS");
    check(fi_setopt(fid, level, FI_OPT_EFA_HOMOGENEOUS_PEERS, &is, 8) == -FI_EINVAL, "a size");
    check(fi_setopt(fid, 77, FI_OPT_EFA_HOMOGENEOUS_PEERS, &is, sizeof(is)) == -FI_ENOPROTOOPT,
          "another level");
    len = sizeof(count);
    ok(fi_getopt(fid, level, FI_OPT_MAX_MSG_SIZE, &count, &len), "MAX_MSG_SIZE");
    check(count == 8928, "MAX_MSG_SIZE");
}

/* With the handles that this program has, whatever is above the part. */
static void tables(void)
{
    struct fi_efa_comp_cntr_init_attr comp = {.flags = 0};
    struct fi_efa_cq_init_attr init = {.flags = 0};
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fi_efa_feature_ops *features;
    struct fi_efa_ops_domain *domain_ops;
    struct fi_efa_mr_attr mr;
    struct fi_efa_ops_gda *gda;
    struct fi_efa_wq_attr wq;
    struct fi_efa_cq_attr cq_attr;
    struct fid_cntr *cntr;
    struct fid_cq *cq;
    uint16_t ahn, qpn, own;
    uint32_t qkey, own_key;
    void *ops;

    ok(fi_open_ops(&domain->fid, FI_EFA_DOMAIN_OPS, 0, (void **)&domain_ops, NULL), "domain ops");
    ok(domain_ops->query_mr(a.mr, &mr), "query_mr");
    check(mr.ic_id_validity == 7 && mr.recv_ic_id == 1 && mr.rdma_read_ic_id == 2 &&
              mr.rdma_recv_ic_id == 3,
          "interconnects");
    ok(fi_open_ops(&domain->fid, FI_EFA_GDA_OPS, 0, (void **)&gda, NULL), "gda ops");
    ok(gda->query_addr(a.ep, a.peer, &ahn, &qpn, &qkey), "query_addr");
    memcpy(&own, b.name + 16, sizeof(own));
    memcpy(&own_key, b.name + 20, sizeof(own_key));
    check(ahn != 0xffff && qpn == own && qkey == own_key, "an address of the device");
    check(gda->query_addr(a.ep, 77, &ahn, &qpn, &qkey) == -FI_EINVAL, "an address that is not in");
    check(gda->get_mr_lkey(a.mr) != FI_KEY_NOTAVAIL, "a local key");
    check(gda->query_qp_wqs(a.ep, &wq, &wq) == -FI_EOPNOTSUPP, "query_qp_wqs");
    check(gda->query_cq(a.cq, &cq_attr) == -FI_EOPNOTSUPP, "query_cq");
    check(gda->cntr_open_ext(domain, &cntr_attr, &cntr, NULL, &comp) == -FI_EOPNOTSUPP,
          "a counter of the device");
    ok(gda->cq_open_ext(domain, &attr, &init, &cq, NULL), "cq_open_ext");
    ok(fi_close(&cq->fid), "fi_close");
    init.flags = FI_EFA_CQ_INIT_FLAGS_EXT_MEM_DMABUF;
    check(gda->cq_open_ext(domain, &attr, &init, &cq, NULL) == -FI_EOPNOTSUPP, "a queue in memory");
    ok(fi_open_ops(&fabric->fid, FI_EFA_FEATURE_OPS, 0, (void **)&features, NULL), "feature ops");
    check(features->query("mixed_hmem_iov") && !features->query("more") && !features->query(NULL),
          "features");
    check(fi_open_ops(&domain->fid, "no such ops", 0, &ops, NULL) < 0, "a table of another name");
}

/* The tables below a layer that makes messages: those of the device's queues are efa-direct's. */
static void layered(void)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_efa_feature_ops *features;
    struct fi_efa_ops_domain *domain_ops;
    struct fi_efa_mr_attr attr;
    void *ops;

    hints->caps = FI_MSG | FI_TAGGED;
    hints->ep_attr->type = FI_EP_RDM;
    ok(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), "fi_getinfo");
    fi_freeinfo(hints);
    ok(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    ok(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    ok(fi_open_ops(&fabric->fid, FI_EFA_FEATURE_OPS, 0, (void **)&features, NULL), "feature ops");
    check(!features->query("mixed_hmem_iov"), "a feature of efa-direct");
    check(fi_open_ops(&domain->fid, FI_EFA_GDA_OPS, 0, &ops, NULL) == -FI_EOPNOTSUPP, "gda ops");
    ok(fi_open_ops(&domain->fid, FI_EFA_DOMAIN_OPS, 0, (void **)&domain_ops, NULL), "domain ops");
    ok(fi_mr_reg(domain, a.memory, SIZE, FI_SEND, 0, 0, 0, &a.mr, NULL), "fi_mr_reg");
    check(domain_ops->query_mr(a.mr, &attr) == -FI_EOPNOTSUPP, "a region of the layer's");
    ok(fi_close(&a.mr->fid), "fi_close");
    ok(fi_close(&domain->fid), "fi_close");
    ok(fi_close(&fabric->fid), "fi_close");
    fi_freeinfo(info);
}

/* Memory that may not be locked: every registration fails. */
static void locked(void)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    info = ask(FI_MSG | FI_RMA, FI_RX_CQ_DATA);
    check(info != NULL, "no info");
    ok(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    ok(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    check(fi_mr_reg(domain, a.memory, SIZE, FI_SEND, 0, 0, 0, &a.mr, NULL) == -FI_ENOMEM,
          "memory is registered");
    ok(fi_cq_open(domain, &cq, &a.cq, NULL), "fi_cq_open");
    ok(fi_av_open(domain, &av, &a.av, NULL), "fi_av_open");
    ok(fi_endpoint(domain, info, &a.ep, NULL), "fi_endpoint");
    ok(fi_ep_bind(a.ep, &a.cq->fid, FI_TRANSMIT | FI_RECV), "bind");
    ok(fi_ep_bind(a.ep, &a.av->fid, 0), "bind");
    check(fi_enable(a.ep) == -FI_ENOMEM, "it is enabled");
    ok(fi_close(&a.ep->fid), "fi_close");
    ok(fi_close(&a.av->fid), "fi_close");
    ok(fi_close(&a.cq->fid), "fi_close");
    ok(fi_close(&domain->fid), "fi_close");
    ok(fi_close(&fabric->fid), "fi_close");
    fi_freeinfo(info);
}

/* ---- More hosts than the device has address handles for ---- */

enum {
    PLACES = 4, /* max_ah, or FI_EFA_AH_CACHE_SIZE */
};

static fi_addr_t hosts[PLACES + 2]; /* b's, and others, which there are not */

static ssize_t send_nothing(fi_addr_t addr)
{
    return fi_send(a.ep, NULL, 0, NULL, addr, NULL);
}

/* The next completion is of a message to one of the other hosts. */
static void expect_no_host(void)
{
    check(next_error(&a).err != FI_EINVAL, "the handle of a request under way was taken");
}

/* b tells its own address each time, whatever number its host's handle has by now. */
static void b_is_known(void)
{
    struct fi_cq_data_entry entry;
    fi_addr_t source = FI_ADDR_NOTAVAIL;

    ok(fi_recv(a.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, &a), "fi_recv");
    ok(fi_send(b.ep, NULL, 0, NULL, b.peer, NULL), "fi_send");
    next(&b);
    check(fi_cq_sreadfrom(a.cq, &entry, 1, &source, NULL, WAIT_MS) == 1 && source == hosts[0],
          "the source");
}

static void each_host_in_turn(void)
{
    for (int i = 1; i < PLACES + 2; i++) {
        ok(send_nothing(hosts[i]), "a host without a handle");
        expect_no_host();
    }
    ok(fi_recv(b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), "fi_recv");
    ok(send_nothing(hosts[0]), "fi_send");
    next(&a);
    next(&b);
}

/* Requests under way keep theirs: one more host waits for all of them. b, which has none, lets go
 * of its own when it is driven. */
static void all_hosts_at_once(void)
{
    check(fi_cq_read(b.cq, &(struct fi_cq_data_entry){NULL}, 1) == -FI_EAGAIN, "b is quiet");
    for (int i = 1; i <= PLACES; i++)
        ok(send_nothing(hosts[i]), "fi_send");
    check(send_nothing(hosts[PLACES + 1]) == -FI_EAGAIN, "a handle of a request under way");
    check(send_nothing(hosts[1]) == -FI_EAGAIN, "others go on while one waits");
    for (int i = 1; i <= PLACES; i++)
        expect_no_host();
    ok(send_nothing(hosts[PLACES + 1]), "the one that has waited");
    expect_no_host();
}

static void handles(void)
{
    char name[32];

    info = ask(FI_MSG, 0);
    check(info != NULL, "no info");
    open_all();
    check(fi_av_insert(b.av, a.name, 1, &b.peer, 0, NULL) == 1, "fi_av_insert");
    hosts[0] = a.peer;
    memcpy(name, b.name, sizeof(name));
    for (int i = 1; i < PLACES + 2; i++) {
        name[15] = (char)(name[15] + 1);
        check(fi_av_insert(a.av, name, 1, &hosts[i], 0, NULL) == 1, "fi_av_insert");
    }
    b_is_known();
    each_host_in_turn();
    b_is_known();
    all_hosts_at_once();
    b_is_known();
    name[15] = (char)(b.name[15] + 1);
    ok(fi_av_remove(a.av, &hosts[1], 1, 0), "fi_av_remove");
    check(send_nothing(hosts[1]) == -FI_EINVAL, "a host that was removed");
    check(fi_av_insert(a.av, name, 1, &hosts[1], 0, NULL) == 1, "it comes back");
    each_host_in_turn();
    close_all();
    fi_freeinfo(info);
}

/* ---- Memory of another device: a file, at addresses that no process has ---- */

enum {
    DEVICE_SIZE = 3 * 65536,
    DEVICE_OFFSET = 65536, /* of the region in the file */
    DEVICE_PART = 100000,  /* bytes of the region */
};

static char *const device_base = (char *)(uintptr_t)0x7000; /* below all that is mapped */

static int register_device_memory(int fd, struct fid_mr **mr)
{
    struct fi_mr_dmabuf dmabuf = {
        .fd = fd, .offset = DEVICE_OFFSET, .len = DEVICE_PART, .base_addr = device_base};
    struct fi_mr_attr attr = {.dmabuf = &dmabuf,
                              .iov_count = 1,
                              .access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
                                        FI_REMOTE_WRITE,
                              .iface = FI_HMEM_CUDA};

    return fi_mr_regattr(domain, &attr, FI_MR_DMABUF, mr);
}

static void set_device(int fd, off_t at, const char *text)
{
    check(pwrite(fd, text, strlen(text) + 1, DEVICE_OFFSET + at) > 0, "pwrite");
}

static bool device_has(int fd, off_t at, const char *text)
{
    char found[64] = "";

    return pread(fd, found, strlen(text) + 1, DEVICE_OFFSET + at) > 0 && !strcmp(found, text);
}

static void messages_of_device_memory(int fd, struct fid_mr *mr)
{
    char *memory = device_base + DEVICE_OFFSET;
    void *desc = fi_mr_desc(mr), *host = fi_mr_desc(b.mr);
    struct iovec iov = {memory, 8};
    struct fi_msg msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = a.peer};

    set_device(fd, 0, "short");
    ok(fi_recv(b.ep, b.memory, 100, host, FI_ADDR_UNSPEC, NULL), "fi_recv");
    ok(fi_send(a.ep, memory, 8, desc, a.peer, NULL), "a short message of device memory");
    next(&a);
    next(&b);
    check(!strcmp(b.memory, "short"), "what a short message brought");
    check(fi_sendmsg(a.ep, &msg, FI_INJECT) == -FI_EOPNOTSUPP, "injected device memory");
    ok(fi_recv(b.ep, memory + 500, 100, desc, FI_ADDR_UNSPEC, NULL), "fi_recv");
    strcpy(a.memory, "from the host");
    ok(fi_send(a.ep, a.memory, 14, fi_mr_desc(a.mr), a.peer, NULL), "fi_send");
    next(&a);
    next(&b);
    check(device_has(fd, 500, "from the host"), "a message into device memory");
}

static void accesses_of_device_memory(int fd, struct fid_mr *mr)
{
    char *memory = device_base + DEVICE_OFFSET;
    void *desc = fi_mr_desc(mr);
    uint64_t key = fi_mr_key(mr), base = (uintptr_t)memory;

    set_device(fd, 1000, "written");
    ok(fi_write(a.ep, memory + 1000, 8, desc, a.peer, base + 2000, key, NULL), "fi_write");
    next(&a);
    check(device_has(fd, 2000, "written"), "a write from device memory into device memory");
    ok(fi_read(a.ep, a.memory, 8, fi_mr_desc(a.mr), a.peer, base + 2000, key, NULL), "fi_read");
    next(&a);
    check(!strcmp(a.memory, "written"), "a read of device memory");
    ok(fi_read(a.ep, a.memory, 8, fi_mr_desc(a.mr), a.peer, base + DEVICE_PART, key, NULL),
       "fi_read");
    check(next_error(&a).prov_errno == 7, "a read behind the region");
}

static void device_memory(void)
{
    int fd = memfd_create("device", MFD_CLOEXEC);
    struct fid_mr *mr;

    info = ask(FI_MSG | FI_RMA | FI_HMEM, FI_RX_CQ_DATA);
    check(info && info->caps & FI_HMEM && info->domain_attr->mr_mode & FI_MR_HMEM, "FI_HMEM");
    open_all();
    check(fd >= 0 && !ftruncate(fd, DEVICE_SIZE), "memfd_create");
    check(register_device_memory(-1, &mr) == -FI_EBADF, "a dmabuf that is none");
    ok(register_device_memory(fd, &mr), "fi_mr_regattr");
    messages_of_device_memory(fd, mr);
    accesses_of_device_memory(fd, mr);
    ok(fi_close(&mr->fid), "fi_close");
    close(fd);
    close_all();
    fi_freeinfo(info);
}

static void device_memory_unasked(void)
{
    struct fid_mr *mr;

    check(register_device_memory(0, &mr) == -FI_ENOSYS, "device memory without FI_HMEM");
}

static void offers(bool accesses)
{
    struct fi_info *found = ask(FI_MSG | FI_RMA, 0);

    check(!found, "FI_RMA without receives for data");
    found = ask(FI_MSG, 0);
    check(found && !(found->caps & FI_RMA) && found->ep_attr->max_msg_size == 8928, "messages");
    fi_freeinfo(found);
    check(!ask(FI_MSG | FI_TAGGED, 0), "tags");
    info = ask(FI_MSG | FI_RMA, FI_RX_CQ_DATA);
    check(!info == !accesses, "FI_RMA");
}

static void unsolicited_alike(void)
{
    info = ask(FI_MSG | FI_RMA, b_takes ? FI_RX_CQ_DATA : 0);
    check(info != NULL, "FI_RMA without receives for data");
    open_all();
    unsolicited();
    close_all();
    fi_freeinfo(info);
}

static void unsolicited_mixed(void)
{
    b_takes = true;
    unsolicited_alike();
}

/* The device says of each kind of operation whether the bytes of a block come in order. */
static void blocks(bool in_order)
{
    const int names[] = {FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES,
                         FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES};
    struct fid_ep *fresh;
    bool is = true;

    info = ask(FI_MSG | FI_RMA, FI_RX_CQ_DATA);
    check(info != NULL, "no info");
    open_all();
    ok(fi_endpoint(domain, info, &fresh, NULL), "fi_endpoint");
    for (int i = 0; i < 2; i++) {
        int wanted = in_order ? 0 : -FI_EOPNOTSUPP;

        check(fi_setopt(&fresh->fid, FI_OPT_ENDPOINT, names[i], &is, sizeof(is)) == wanted,
              "before fi_enable");
        check(fi_setopt(&a.ep->fid, FI_OPT_ENDPOINT, names[i], &is, sizeof(is)) == wanted,
              "after it");
    }
    is = false;
    ok(fi_setopt(&fresh->fid, FI_OPT_ENDPOINT, names[1], &is, sizeof(is)), "no order");
    ok(fi_close(&fresh->fid), "fi_close");
    close_all();
    fi_freeinfo(info);
}

static void blocks_in_order(void)
{
    blocks(true);
}

static void blocks_in_no_order(void)
{
    blocks(false);
}

/* Each queue is told of its completions by the vector that it asks for; the device has four. */
static void vectors(void)
{
    struct fi_cq_attr attr = {.flags = FI_AFFINITY, .signaling_vector = 4};
    struct fi_cq_data_entry entry;
    struct fid_ep *ep;
    struct fid_cq *cq;

    info = ask(FI_MSG, 0);
    vector = 2;
    open_all();
    ok(fi_recv(b.ep, b.memory, 100, fi_mr_desc(b.mr), FI_ADDR_UNSPEC, &b), "fi_recv");
    ok(fi_send(a.ep, a.memory, 100, fi_mr_desc(a.mr), a.peer, &a), "fi_send");
    check(fi_cq_sread(b.cq, &entry, 1, NULL, WAIT_MS) == 1 && entry.op_context == &b, "came");
    check(fi_cq_sread(a.cq, &entry, 1, NULL, WAIT_MS) == 1 && entry.op_context == &a, "went");
    ok(fi_cq_open(domain, &attr, &cq, NULL), "fi_cq_open");
    ok(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
    ok(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "bind");
    ok(fi_ep_bind(ep, &a.av->fid, 0), "bind");
    check(fi_enable(ep) == -FI_EINVAL, "a vector that the device does not have");
    ok(fi_close(&ep->fid), "fi_close");
    ok(fi_close(&cq->fid), "fi_close");
    close_all();
    fi_freeinfo(info);
}

static void messages(void)
{
    offers(false);
}

static void all(void)
{
    offers(true);
    open_all();
    reads_and_writes();
    data_of_queues();
    injects();
    batches();
    names();
    options();
    tables();
    device_memory_unasked();
    close_all();
    fi_freeinfo(info);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"all", all},
    {"messages", messages}, /* of a device that accesses no memory */
    {"unsolicited", unsolicited_alike},
    {"unsolicited-mixed", unsolicited_mixed},
    {"vectors", vectors},
    {"layer", layered},
    {"locked", locked},
    {"handles", handles},
    {"blocks-in-order", blocks_in_order},
    {"blocks-in-no-order", blocks_in_no_order},
    {"device-memory", device_memory},
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "all";

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (strcmp(cases[i].name, name) != 0)
            continue;
        cases[i].run();
        return 0;
    }
    fprintf(stderr, "direct: no case '%s'\n", name);
    return 2;
}
