/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cross active|passive FOLDER: one of two processes over fabric efa, whose libfabrics may differ.
 * The active one begins with what needs the peer's HANDSHAKE, a message with FI_DELIVERY_COMPLETE,
 * and goes on with writes, reads and atomics; the passive one drives itself, and looks at its
 * memory. They tell each other names and keys by files of the folder.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum {
    BYTES = 200000, /* of an access: several packets */
    MESSAGE = 1000,
    SUMS = 10,
    SECONDS = 60,
};

struct shared {
    unsigned char name[64];
    size_t len;
    uint64_t addr, key;
};

static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static struct {
    uint64_t sum;
    unsigned char bytes[BYTES], message[MESSAGE];
} own, out;
static struct fid_mr *own_mr, *out_mr;
static const char *folder;
static time_t until;

/* The functions of the libfabric.so.1 that the process finds. */
static struct {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    void (*freeinfo)(struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int err);
    uint32_t (*version)(void);
} lib;

static void load(void)
{
    static const char *const names[] = {"fi_getinfo", "fi_dupinfo",  "fi_freeinfo",
                                        "fi_fabric",  "fi_strerror", "fi_version"};
    void *library = dlopen("libfabric.so.1", RTLD_NOW);
    void **slots = (void **)&lib;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        slots[i] = library ? dlsym(library, names[i]) : NULL;
        if (slots[i])
            continue;
        fprintf(stderr, "cross: libfabric.so.1 has no %s\n", names[i]);
        exit(1);
    }
}

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "cross: %s\n", what);
    exit(1);
}

static void ok(ssize_t rc, const char *what)
{
    if (rc)
        fprintf(stderr, "cross: %s: %s\n", what, lib.strerror((int)-rc));
    check(!rc, what);
}

/* ---- Files ---- */

static const char *path_of(const char *name)
{
    static char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void tell(const char *name, const struct shared *shared)
{
    char unfinished[4096];
    FILE *file;

    snprintf(unfinished, sizeof(unfinished), "%s/%s.new", folder, name);
    file = fopen(unfinished, "wb");
    check(file && fwrite(shared, sizeof(*shared), 1, file) == 1 && !fclose(file), unfinished);
    check(!rename(unfinished, path_of(name)), "rename");
}

static void hear(const char *name, struct shared *shared)
{
    FILE *file;

    while (!(file = fopen(path_of(name), "rb"))) {
        check(time(NULL) < until, "the other process says nothing");
        usleep(10000);
    }
    check(fread(shared, sizeof(*shared), 1, file) == 1, name);
    fclose(file);
}

/* ---- The endpoint ---- */

static void open_all(void)
{
    struct fi_info *hints = lib.dupinfo(NULL), *info;
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_fabric *fabric;

    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("efa");
    ok(lib.getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), "fi_getinfo");
    lib.freeinfo(hints);
    ok(lib.fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    ok(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    ok(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
    ok(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
    ok(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
    ok(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    ok(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    ok(fi_enable(ep), "fi_enable");
    ok(fi_mr_reg(domain, &own, sizeof(own),
                 FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0,
                 &own_mr, NULL),
       "fi_mr_reg");
    ok(fi_mr_reg(domain, &out, sizeof(out), FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 2, 0,
                 &out_mr, NULL),
       "fi_mr_reg");
}

static bool look(void)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    ssize_t rc = fi_cq_read(cq, &entry, 1);

    check(time(NULL) < until, "no completion");
    if (rc == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1)
        ok(-error.err, "a completion");
    check(rc == 1 || rc == -FI_EAGAIN, "fi_cq_read");
    return rc == 1;
}

#define POST(call)                                                                                 \
    do {                                                                                           \
        ssize_t rc;                                                                                \
        while ((rc = (call)) == -FI_EAGAIN)                                                        \
            check(!look(), "a completion of nothing");                                             \
        ok(rc, #call);                                                                             \
        while (!look())                                                                            \
            ;                                                                                      \
    } while (0)

static void act(const struct shared *peer, fi_addr_t to)
{
    struct iovec iov = {out.message, MESSAGE};
    void *desc = fi_mr_desc(out_mr);
    struct fi_msg_tagged message = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = to, .tag = 7};
    uint64_t one = 1, bytes = peer->addr + offsetof(__typeof__(own), bytes);

    memset(out.message, 'm', MESSAGE);
    POST(fi_tsendmsg(ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
    memset(out.bytes, 'w', BYTES);
    POST(fi_write(ep, out.bytes, BYTES, desc, to, bytes, peer->key, NULL));
    memset(out.bytes, 0, BYTES);
    POST(fi_read(ep, out.bytes, BYTES, desc, to, bytes, peer->key, NULL));
    for (size_t i = 0; i < BYTES; i++)
        check(out.bytes[i] == 'w', "bytes that were written and read");
    for (uint64_t i = 0; i < SUMS; i++) {
        memcpy(out.message, &one, sizeof(one));
        POST(fi_fetch_atomic(ep, out.message, 1, desc, &out.sum, desc, to, peer->addr, peer->key,
                             FI_UINT64, FI_SUM, NULL));
        check(out.sum == i, "the sum that was there before");
    }
    tell("end", peer);
}

/* Drives itself until the other one is through, and for what that may still ask. */
static void be_acted_on(void)
{
    time_t end = 0;
    unsigned came = 0;

    while (!end || time(NULL) < end) {
        came += look();
        if (!end && !access(path_of("end"), F_OK))
            end = time(NULL) + 2;
    }
    check(came == 1 && own.message[MESSAGE - 1] == 'm', "the message");
    check(own.sum == SUMS, "the sum");
    check(own.bytes[0] == 'w' && own.bytes[BYTES - 1] == 'w', "the bytes");
}

int main(int argc, char **argv)
{
    bool active = argc > 1 && !strcmp(argv[1], "active");
    struct shared mine = {.len = sizeof(mine.name)}, other;
    fi_addr_t to;

    if (argc < 3)
        return 2;
    load();
    folder = argv[2];
    until = time(NULL) + SECONDS;
    printf("%s: libfabric %u.%u\n", argv[1], FI_MAJOR(lib.version()), FI_MINOR(lib.version()));
    open_all();
    if (!active)
        ok(fi_trecv(ep, own.message, MESSAGE, fi_mr_desc(own_mr), FI_ADDR_UNSPEC, 7, 0, NULL),
           "fi_trecv");
    ok(fi_getname(&ep->fid, mine.name, &mine.len), "fi_getname");
    mine.addr = (uintptr_t)&own;
    mine.key = fi_mr_key(own_mr);
    tell(active ? "active" : "passive", &mine);
    hear(active ? "passive" : "active", &other);
    check(fi_av_insert(av, other.name, 1, &to, 0, NULL) == 1, "fi_av_insert");
    if (active)
        act(&other, to);
    else
        be_acted_on();
    ok(fi_close(&ep->fid), "fi_close");
    return 0;
}
