/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guard bytes|fence API-VERSION msg|rdm: built by check_guard with the headers and the libfabric.so
 * of an older release, and run on this library. Every struct that it passes, and every buffer that
 * is filled for it, has the size that those headers give it. With `bytes` a pattern surrounds it,
 * which is compared at the end (writes beyond it show, and reads beyond it see nonsense); with
 * `fence` it ends where the memory ends (reads show too).
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#if FI_MAJOR_VERSION > 1 || FI_MINOR_VERSION >= 20
#error "these headers have the structs of later releases already"
#endif

#define PATTERN 0xA5
#define ROOM 256 /* bytes of pattern on either side */
#define MOST 256 /* structs */

static bool fence;
static size_t page;

static struct {
    unsigned char *start; /* of the pattern in front */
    size_t size;          /* of the struct */
} guarded[MOST];
static size_t guarded_count;

static void fail(const char *what, long code, int line)
{
    fprintf(stderr, "guard.c:%d: %s: %ld (%s)\n", line, what, code,
            code < 0 ? fi_strerror((int)-code) : "");
    exit(1);
}

#define REQUIRE(condition) ((condition) ? (void)0 : fail(#condition, 0, __LINE__))
#define OK(call)                                                                                   \
    do {                                                                                           \
        long code_ = (call);                                                                       \
        if (code_)                                                                                 \
            fail(#call, code_, __LINE__);                                                          \
    } while (0)

/* Zeroed memory of `size` bytes, surrounded. */
static void *guard(size_t size)
{
    size_t room = ROOM + (size + 7) / 8 * 8 + ROOM;
    unsigned char *start;

    REQUIRE(guarded_count < MOST && room <= page);
    if (fence) {
        unsigned char *map =
            mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        REQUIRE(map != MAP_FAILED);
        REQUIRE(mprotect(map + page, page, PROT_NONE) == 0);
        start = map + page - size - ROOM;
        memset(start, PATTERN, ROOM);
    } else {
        start = malloc(room);
        REQUIRE(start);
        memset(start, PATTERN, room);
    }
    memset(start + ROOM, 0, size);
    guarded[guarded_count].start = start;
    guarded[guarded_count++].size = size;
    return start + ROOM;
}

static void *guarded_copy(const void *from, size_t size)
{
    return from ? memcpy(guard(size), from, size) : NULL;
}

static bool pattern(const unsigned char *at)
{
    for (size_t i = 0; i < ROOM; i++)
        if (at[i] != PATTERN)
            return false;
    return true;
}

static void check_guards(void)
{
    for (size_t i = 0; i < guarded_count; i++) {
        REQUIRE(pattern(guarded[i].start));
        REQUIRE(fence || pattern(guarded[i].start + ROOM + guarded[i].size));
    }
}

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* ---- Infos ---- */

static uint32_t version;

static struct fi_info *own_hints(enum fi_ep_type type)
{
    struct fi_info *hints = guard(sizeof(*hints));

    hints->tx_attr = guard(sizeof(*hints->tx_attr));
    hints->rx_attr = guard(sizeof(*hints->rx_attr));
    hints->ep_attr = guard(sizeof(*hints->ep_attr));
    hints->domain_attr = guard(sizeof(*hints->domain_attr));
    hints->fabric_attr = guard(sizeof(*hints->fabric_attr));
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->ep_attr->type = type;
    /* Before 1.5 zero is FI_MR_UNSPEC: as it likes. */
    if (FI_VERSION_GE(version, FI_VERSION(1, 5)))
        hints->domain_attr->mr_mode =
            FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = "tcp";
    return hints;
}

/* The copy that an application makes of an info, struct by struct. */
static struct fi_info *own_copy(const struct fi_info *info)
{
    struct fi_info *copy = guarded_copy(info, sizeof(*info));

    copy->next = NULL;
    copy->tx_attr = guarded_copy(info->tx_attr, sizeof(*info->tx_attr));
    copy->rx_attr = guarded_copy(info->rx_attr, sizeof(*info->rx_attr));
    copy->ep_attr = guarded_copy(info->ep_attr, sizeof(*info->ep_attr));
    copy->domain_attr = guarded_copy(info->domain_attr, sizeof(*info->domain_attr));
    copy->fabric_attr = guarded_copy(info->fabric_attr, sizeof(*info->fabric_attr));
    return copy;
}

static struct fi_info *get_info(enum fi_ep_type type, const char *node, const char *service,
                                uint64_t flags)
{
    struct fi_info *hints = own_hints(type), *list = NULL, *copy;

    OK(fi_getinfo(version, node, service, flags, hints, &list));
    REQUIRE(list && list->ep_attr->type == type);

    /* Through fi_dupinfo, of our own memory and of the library's. */
    copy = fi_dupinfo(own_copy(list));
    REQUIRE(copy && copy->caps == list->caps);
    fi_freeinfo(copy);
    copy = fi_dupinfo(list);
    REQUIRE(copy);
    fi_freeinfo(list);
    return copy;
}

/* ---- One end ---- */

struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_cntr *cntr;
    struct fid_mr *mr;
    struct fid_mr *mr2;
    char *buf;
    void *desc;
};

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;

static void open_domain(struct fi_info *info, bool own_attr)
{
    struct fi_eq_attr *eq_attr = guard(sizeof(*eq_attr));

    OK(fi_fabric(own_attr ? guarded_copy(info->fabric_attr, sizeof(*info->fabric_attr))
                          : info->fabric_attr,
                 &fabric, NULL));
    eq_attr->size = 16;
    eq_attr->wait_obj = FI_WAIT_UNSPEC;
    OK(fi_eq_open(fabric, eq_attr, &eq, NULL));
    OK(fi_domain(fabric, own_copy(info), &domain, NULL));
}

static void open_end(struct end *end, struct fi_info *info)
{
    struct fi_cq_attr *cq_attr = guard(sizeof(*cq_attr));
    struct fi_cntr_attr *cntr_attr = guard(sizeof(*cntr_attr));
    struct fi_mr_attr *mr_attr = guard(sizeof(*mr_attr));
    struct iovec *iov = guard(sizeof(*iov));
    int *fd = guard(sizeof(*fd));

    end->buf = calloc(1, 4096);
    REQUIRE(end->buf);
    cq_attr->size = 64;
    cq_attr->format = FI_CQ_FORMAT_TAGGED;
    cq_attr->wait_obj = FI_WAIT_FD;
    OK(fi_cq_open(domain, cq_attr, &end->cq, NULL));
    OK(fi_control(&end->cq->fid, FI_GETWAIT, fd));
    cntr_attr->events = FI_CNTR_EVENTS_COMP;
    OK(fi_cntr_open(domain, cntr_attr, &end->cntr, NULL));

    iov->iov_base = end->buf;
    iov->iov_len = 4096;
    mr_attr->mr_iov = iov;
    mr_attr->iov_count = 1;
    mr_attr->access = FI_SEND | FI_RECV;
    mr_attr->requested_key = (uint64_t)(uintptr_t)end;
    OK(fi_mr_regattr(domain, mr_attr, 0, &end->mr));
    OK(fi_mr_reg(domain, end->buf, 4096, FI_SEND | FI_RECV, 0, mr_attr->requested_key + 1, 0,
                 &end->mr2, NULL));
    end->desc = fi_mr_desc(end->mr);

    OK(fi_endpoint(domain, own_copy(info), &end->ep, NULL));
    OK(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
    OK(fi_ep_bind(end->ep, &end->cntr->fid, FI_SEND));
}

static void close_end(struct end *end)
{
    OK(fi_close(&end->ep->fid));
    OK(fi_close(&end->mr->fid));
    OK(fi_close(&end->mr2->fid));
    OK(fi_close(&end->cntr->fid));
    OK(fi_close(&end->cq->fid));
    free(end->buf);
}

/* Reads until `count` completions came out of both queues; an error ends it. */
static ssize_t await(struct end *a, struct end *b, int count)
{
    struct fi_cq_tagged_entry *entry = guard(sizeof(*entry));
    double deadline = now() + 60;

    while (count > 0) {
        ssize_t got = fi_cq_read(a->cq, entry, 1);

        if (got == -FI_EAGAIN)
            got = fi_cq_read(b->cq, entry, 1);
        if (got == 1)
            count--;
        else if (got != -FI_EAGAIN)
            return got;
        REQUIRE(now() < deadline);
    }
    return 0;
}

static void post(struct end *from, struct end *to, size_t send, size_t room, fi_addr_t addr)
{
    struct fi_context *contexts = guard(2 * sizeof(*contexts));
    ssize_t rc;

    do {
        rc = fi_recv(to->ep, to->buf, room, to->desc, FI_ADDR_UNSPEC, &contexts[0]);
    } while (rc == -FI_EAGAIN);
    OK(rc);
    do {
        rc = fi_send(from->ep, from->buf, send, from->desc, addr, &contexts[1]);
        if (rc == -FI_EAGAIN) {
            fi_cq_read(from->cq, NULL, 0);
            fi_cq_read(to->cq, NULL, 0);
        }
    } while (rc == -FI_EAGAIN);
    OK(rc);
}

/* A message that fits, then one that does not: its receive ends in an error entry. */
static void exchange(struct end *from, struct end *to, fi_addr_t addr)
{
    struct fi_cq_err_entry *error = guard(sizeof(*error));
    char *text = guard(128);
    double deadline = now() + 60;
    ssize_t rc;

    memset(from->buf, 'x', 4096);
    post(from, to, 64, 64, addr);
    OK(await(from, to, 2));
    REQUIRE(to->buf[63] == 'x' && to->buf[64] == 0);
    REQUIRE(fi_cntr_read(from->cntr) == 1);

    memset(to->buf, 0, 4096);
    post(from, to, 128, 16, addr);
    while ((rc = await(from, to, 1)) != -FI_EAVAIL) {
        OK(rc);
        REQUIRE(now() < deadline);
    }
    rc = fi_cq_readerr(to->cq, error, 0);
    REQUIRE(rc == 1);
    REQUIRE(error->err == FI_ETRUNC);
    REQUIRE(error->olen == 112 || error->olen == 0);
    REQUIRE(to->buf[16] == 0);
    REQUIRE(fi_cq_strerror(to->cq, error->prov_errno, error->err_data, text, 128));
}

/* ---- The two kinds ---- */

static void run_rdm(bool own_attr)
{
    struct fi_info *info = get_info(FI_EP_RDM, "127.0.0.1", NULL, FI_SOURCE);
    struct fi_av_attr *av_attr = guard(sizeof(*av_attr));
    struct sockaddr_in *name = guard(sizeof(*name)), *back = guard(sizeof(*back));
    size_t *length = guard(sizeof(*length));
    fi_addr_t *addr = guard(sizeof(*addr));
    struct end a = {0}, b = {0};
    struct fid_av *av;

    open_domain(info, own_attr);
    av_attr->type = FI_AV_TABLE;
    av_attr->count = 4;
    OK(fi_av_open(domain, av_attr, &av, NULL));
    open_end(&a, info);
    open_end(&b, info);
    OK(fi_ep_bind(a.ep, &av->fid, 0));
    OK(fi_ep_bind(b.ep, &av->fid, 0));
    OK(fi_enable(a.ep));
    OK(fi_enable(b.ep));

    *length = sizeof(*name);
    OK(fi_getname(&b.ep->fid, name, length));
    REQUIRE(*length == sizeof(*name));
    REQUIRE(fi_av_insert(av, name, 1, addr, 0, NULL) == 1);
    OK(fi_av_lookup(av, *addr, back, length));
    REQUIRE(back->sin_port == name->sin_port);
    exchange(&a, &b, *addr);

    close_end(&a);
    close_end(&b);
    OK(fi_close(&av->fid));
    fi_freeinfo(info);
}

/* The event that comes next, at its size in these headers. */
static void await_event(uint32_t want, struct fi_eq_cm_entry *entry)
{
    uint32_t *event = guard(sizeof(*event));
    struct fi_eq_err_entry *error = guard(sizeof(*error));
    ssize_t rc = fi_eq_sread(eq, event, entry, sizeof(*entry), 10000, 0);

    if (rc == -FI_EAVAIL && want == (uint32_t)-1) {
        REQUIRE(fi_eq_readerr(eq, error, 0) == sizeof(*error));
        REQUIRE(error->err == FI_ECONNREFUSED);
        return;
    }
    REQUIRE(rc == (ssize_t)sizeof(*entry));
    REQUIRE(*event == want);
}

/* Without a listener: the port of a socket that is bound only. */
static void connect_to_nobody(struct fi_info *info)
{
    struct sockaddr_in *nobody = guard(sizeof(*nobody));
    socklen_t size = sizeof(*nobody);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct end end = {0};

    nobody->sin_family = AF_INET;
    nobody->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(fd, (struct sockaddr *)nobody, size) == 0);
    REQUIRE(getsockname(fd, (struct sockaddr *)nobody, &size) == 0);
    open_end(&end, info);
    OK(fi_ep_bind(end.ep, &eq->fid, 0));
    OK(fi_enable(end.ep));
    OK(fi_connect(end.ep, nobody, NULL, 0));
    await_event((uint32_t)-1, guard(sizeof(struct fi_eq_cm_entry)));
    close_end(&end);
    close(fd);
}

static void run_msg(bool own_attr)
{
    struct fi_info *info = get_info(FI_EP_MSG, "127.0.0.1", NULL, FI_SOURCE);
    struct sockaddr_in *name = guard(sizeof(*name));
    struct fi_eq_cm_entry *entry = guard(sizeof(*entry));
    size_t *length = guard(sizeof(*length));
    struct end a = {0}, b = {0};
    struct fid_pep *pep;

    open_domain(info, own_attr);
    OK(fi_passive_ep(fabric, own_copy(info), &pep, NULL));
    OK(fi_pep_bind(pep, &eq->fid, 0));
    OK(fi_listen(pep));
    *length = sizeof(*name);
    OK(fi_getname(&pep->fid, name, length));

    ((struct sockaddr_in *)info->src_addr)->sin_port = 0;
    open_end(&a, info);
    OK(fi_ep_bind(a.ep, &eq->fid, 0));
    OK(fi_enable(a.ep));
    OK(fi_connect(a.ep, name, NULL, 0));

    await_event(FI_CONNREQ, entry);
    open_end(&b, entry->info);
    fi_freeinfo(entry->info);
    OK(fi_ep_bind(b.ep, &eq->fid, 0));
    OK(fi_enable(b.ep));
    OK(fi_accept(b.ep, NULL, 0));
    await_event(FI_CONNECTED, entry);
    await_event(FI_CONNECTED, entry);
    exchange(&a, &b, FI_ADDR_UNSPEC);

    close_end(&a);
    close_end(&b);
    OK(fi_close(&pep->fid));
    connect_to_nobody(info);
    fi_freeinfo(info);
}

int main(int argc, char **argv)
{
    unsigned major, minor;

    if (argc != 4) {
        fprintf(stderr, "usage: guard bytes|fence library|MAJOR.MINOR msg|rdm\n");
        return 2;
    }
    fence = !strcmp(argv[1], "fence");
    page = (size_t)sysconf(_SC_PAGESIZE);
    version = fi_version();
    if (sscanf(argv[2], "%u.%u", &major, &minor) == 2)
        version = FI_VERSION(major, minor);

    for (int own_attr = 0; own_attr < 2; own_attr++) {
        if (!strcmp(argv[3], "msg"))
            run_msg(own_attr);
        else
            run_rdm(own_attr);
        OK(fi_close(&domain->fid));
        OK(fi_close(&eq->fid));
        OK(fi_close(&fabric->fid));
    }
    check_guards();
    printf("%zu structs unharmed\n", guarded_count);
    return 0;
}
