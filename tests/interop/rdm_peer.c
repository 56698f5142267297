/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdm_peer PROVIDER OWN_PORT PEER_PORT [low|high|both|refused]: one of two processes that do the
 * same to each other over reliable datagrams on 127.0.0.1, both at once: each dials, sends, writes,
 * reads and checks. The last word says who receives into buffers that are too small (1.17 ends the
 * connection then), or that the peer, a libfabric's net, has no atomics. Public API of
 * libfabric 1.17, so that it runs on any library.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    MESSAGES = 24,
    REGION = 2 << 20,
    LIMIT_S = 240,
    KEY = 0x77
};

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_mr *mr;
static fi_addr_t peer;
static unsigned char seed_own, seed_peer;
static unsigned char region[REGION], out[REGION], in[REGION];
static time_t start;
static const char *phase = "opening";

static void die(const char *what, long rc)
{
    fprintf(stderr, "%s: %s: %ld (%s)\n", phase, what, rc, rc < 0 ? fi_strerror((int)-rc) : "");
    exit(1);
}

#define CHECK(call)                                                                                \
    do {                                                                                           \
        long rc_ = (call);                                                                         \
        if (rc_)                                                                                   \
            die(#call, rc_);                                                                       \
    } while (0)

static void open_all(const char *provider, int port, uint64_t more_caps)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    char service[8];

    snprintf(service, sizeof(service), "%d", port);
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE | FI_DIRECTED_RECV | more_caps;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(provider);
    CHECK(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", service, FI_SOURCE, hints, &info));
    CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
    CHECK(fi_domain(fabric, info, &domain, NULL));
    CHECK(fi_endpoint(domain, info, &ep, NULL));
    CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL));
    CHECK(fi_av_open(domain, &av_attr, &av, NULL));
    CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    CHECK(fi_ep_bind(ep, &av->fid, 0));
    CHECK(fi_enable(ep));
    CHECK(
        fi_mr_reg(domain, region, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
    fi_freeinfo(hints);
    fi_freeinfo(info);
}

static void insert_peer(int port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fi_av_insert(av, &name, 1, &peer, 0, NULL) != 1)
        die("fi_av_insert", 0);
}

static void fill(unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(seed + i * 7 + (i >> 8));
}

static void same(const unsigned char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != (unsigned char)(seed + i * 7 + (i >> 8)))
            die("other bytes than sent, from", (long)i);
    }
}

static int truncations; /* completions in that error that are expected */

/* One completion, if there is one. */
static int take(struct fi_cq_tagged_entry *entry, fi_addr_t *src)
{
    struct fi_cq_err_entry error = {.err_data_size = 0};
    long rc = fi_cq_readfrom(cq, entry, 1, src);

    if (rc == -FI_EAVAIL) {
        fi_cq_readerr(cq, &error, 0);
        if (error.err == FI_ETRUNC && truncations) {
            truncations--;
            entry->op_context = error.op_context;
            entry->flags = error.flags;
            return 1;
        }
        fprintf(stderr, "%s: completion in error: %s: %s\n", phase, fi_strerror(error.err),
                error.err_data ? (const char *)error.err_data : "no reason");
        exit(1);
    }
    if (rc != 1 && rc != -FI_EAGAIN)
        die("fi_cq_readfrom", rc);
    if (time(NULL) - start > LIMIT_S)
        die("too slow", 0);
    return rc == 1;
}

static unsigned completions;

static void again(void)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t src;

    completions += (unsigned)take(&entry, &src);
}

#define POST(call)                                                                                 \
    do {                                                                                           \
        long rc_;                                                                                  \
        while ((rc_ = (call)) == -FI_EAGAIN)                                                       \
            again();                                                                               \
        if (rc_)                                                                                   \
            die(#call, rc_);                                                                       \
    } while (0)

static void wait_for(unsigned count)
{
    while (completions < count)
        again();
    completions -= count;
}

static size_t size_of(int i)
{
    static const size_t sizes[] = {0, 1, 64, 200, 4096, 70000, 16384, 300000};

    return sizes[i % 8];
}

/* Both dial at once; tags arrive in another order than they are asked for. */
static void tagged(void)
{
    size_t at = 0;

    phase = "tagged";
    for (int i = MESSAGES - 1; i >= 0; i--) {
        CHECK(fi_trecv(ep, in + at, size_of(i), NULL, i % 2 ? peer : FI_ADDR_UNSPEC, (uint64_t)i, 0,
                       NULL));
        at += size_of(i);
    }
    at = 0;
    for (int i = 0; i < MESSAGES; i++) {
        fill(out + at, size_of(i), seed_own + (unsigned)i);
        POST(fi_tsend(ep, out + at, size_of(i), NULL, peer, (uint64_t)i, NULL));
        at += size_of(i);
    }
    wait_for(2 * MESSAGES);
    at = 0;
    for (int i = MESSAGES - 1; i >= 0; i--) {
        same(in + at, size_of(i), seed_peer + (unsigned)i);
        at += size_of(i);
    }
}

/* Both are through with the phase before. */
static void meet(void)
{
    static char token, got;

    CHECK(fi_trecv(ep, &got, 1, NULL, FI_ADDR_UNSPEC, 1000, 0, NULL));
    POST(fi_tsend(ep, &token, 1, NULL, peer, 1000, NULL));
    wait_for(2);
}

static void messages_with_data(void)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t src = FI_ADDR_NOTAVAIL;
    unsigned seen = 0;

    phase = "messages with remote CQ data";
    CHECK(fi_recv(ep, in, 4096, NULL, FI_ADDR_UNSPEC, in));
    meet();
    fill(out, 4096, seed_own);
    POST(fi_senddata(ep, out, 4096, NULL, 0x1122334455667788u + seed_own, peer, out));
    while (seen < 2) {
        if (!take(&entry, &src))
            continue;
        seen++;
        if (entry.op_context != in)
            continue;
        if (!(entry.flags & FI_REMOTE_CQ_DATA) || entry.data != 0x1122334455667788u + seed_peer)
            die("remote CQ data", (long)entry.data);
        if (src != peer)
            die("source", (long)src);
        same(in, 4096, seed_peer);
    }
}

static void remote_memory(void)
{
    phase = "remote memory";
    memset(region, 0, REGION);
    meet();
    fill(out, REGION / 2, seed_own + 3u);
    POST(fi_write(ep, out, REGION / 2, NULL, peer, 0, KEY, NULL));
    wait_for(1);
    POST(fi_read(ep, in, REGION / 2, NULL, peer, 0, KEY, NULL));
    wait_for(1);
    same(in, REGION / 2, seed_own + 3u);
    meet();
    same(region, REGION / 2, seed_peer + 3u);
}

static void write_with_data(void)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t src;
    int sent = 0, written = 0;

    phase = "write with remote CQ data";
    meet();
    POST(fi_writedata(ep, out, 16, NULL, 4711, peer, REGION - 16, KEY, out));
    while (!sent || !written) {
        if (!take(&entry, &src))
            continue;
        if (entry.flags & FI_REMOTE_CQ_DATA)
            written = entry.data == 4711;
        else
            sent = 1;
    }
}

/* Each adds to what is the other's, fetches, and exchanges; many elements, too. */
static void atomics(void)
{
    enum {
        MANY = 1000
    };
    static uint64_t operand[MANY], result[MANY], expected;
    uint64_t *mine = (uint64_t *)(void *)region;
    size_t many;

    phase = "atomics";
    CHECK(fi_fetch_atomicvalid(ep, FI_UINT64, FI_SUM, &many));
    many = many < MANY ? many : MANY;
    memset(region, 0, REGION);
    meet();
    for (int i = 0; i < MANY; i++)
        operand[i] = (uint64_t)i + 5;
    POST(fi_atomic(ep, operand, many, NULL, peer, 64, KEY, FI_UINT64, FI_SUM, NULL));
    wait_for(1);
    POST(fi_fetch_atomic(ep, operand, many, NULL, result, NULL, peer, 64, KEY, FI_UINT64, FI_SUM,
                         NULL));
    wait_for(1);
    for (uint64_t i = 0; i < many; i++) {
        if (result[i] != i + 5)
            die("fetched", (long)result[i]);
    }
    expected = 2 * operand[0];
    POST(fi_compare_atomic(ep, &operand[9], 1, NULL, &expected, NULL, result, NULL, peer, 64, KEY,
                           FI_UINT64, FI_CSWAP, NULL));
    wait_for(1);
    if (result[0] != expected)
        die("compared with", (long)result[0]);
    POST(fi_inject_atomic(ep, &operand[1], 1, peer, 0, KEY, FI_UINT64, FI_ATOMIC_WRITE));
    POST(fi_fetch_atomic(ep, NULL, 1, NULL, result, NULL, peer, 0, KEY, FI_UINT64, FI_ATOMIC_READ,
                         NULL));
    wait_for(1);
    if (result[0] != operand[1])
        die("written and read", (long)result[0]);
    meet();
    if (mine[0] != 6 || mine[8] != 14 || mine[9] != 12)
        die("own memory", (long)mine[8]);
}

static void delivery_complete(void)
{
    struct iovec iov = {.iov_base = out, .iov_len = 3000};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = peer, .tag = 5};

    phase = "delivery complete";
    CHECK(fi_trecv(ep, in, 3000, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    meet();
    fill(out, 3000, seed_own);
    POST(fi_tsendmsg(ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
    wait_for(2);
    same(in, 3000, seed_peer);
}

/* A buffer too small, for each way that a payload takes: an error there, and the connection lives.
 */
static void truncated(int here)
{
    static const size_t sizes[] = {3000, 60000, 400000};

    phase = "truncation";
    for (int i = 0; i < 3; i++) {
        CHECK(fi_trecv(ep, in, here ? sizes[i] / 2 : sizes[i], NULL, FI_ADDR_UNSPEC, 50, 0, NULL));
        meet();
        fill(out, sizes[i], seed_own);
        truncations = here;
        POST(fi_tsend(ep, out, sizes[i], NULL, peer, 50, NULL));
        wait_for(2);
        if (truncations)
            die("no truncation", (long)sizes[i]);
        same(in, here ? sizes[i] / 2 : sizes[i], seed_peer);
    }
}

/* The error of the next completion, or 0. */
static int outcome(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {.err_data_size = 0};
    long rc;

    while ((rc = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
        if (time(NULL) - start > LIMIT_S)
            die("too slow", 0);
    if (rc == 1)
        return 0;
    if (fi_cq_readerr(cq, &error, 0) != 1)
        die("fi_cq_readerr", rc);
    return error.err;
}

/* Each operation ends once, in error, and the peers go on. */
static void refused_atomics(int here)
{
    static uint64_t one = 1, got = 7;
    int err;

    phase = "atomics that the peer has not";
    memset(region, 0, REGION);
    meet();
    for (int i = 0; here && i < 10; i++) {
        POST(fi_fetch_atomic(ep, &one, 1, NULL, &got, NULL, peer, 8, KEY, FI_UINT64, FI_SUM, NULL));
        err = outcome();
        if (err != FI_EOPNOTSUPP || got != 7)
            die("fetch", -err);
        POST(fi_atomic(ep, &one, 1, NULL, peer, 16, KEY, FI_UINT64, FI_BOR, NULL));
        err = outcome();
        if (err != FI_EOPNOTSUPP)
            die("atomic", -err);
        if (fi_inject_atomic(ep, &one, 1, peer, 16, KEY, FI_UINT64, FI_BOR) != -FI_EOPNOTSUPP)
            die("inject", 0);
    }
    meet();
    delivery_complete();
}

static void close_all(void)
{
    phase = "closing";
    meet();
    usleep(100000); /* the last message of the other may be on its way */
    CHECK(fi_close(&ep->fid));
    CHECK(fi_close(&mr->fid));
    CHECK(fi_close(&av->fid));
    CHECK(fi_close(&cq->fid));
    CHECK(fi_close(&domain->fid));
    CHECK(fi_close(&fabric->fid));
}

int main(int argc, char **argv)
{
    int refused, theirs;

    if (argc != 4 && argc != 5)
        return 2;
    refused = argc == 5 && !strcmp(argv[4], "refused");
    theirs = !strcmp(argv[1], "net");
    start = time(NULL);
    seed_own = (unsigned char)atoi(argv[2]);
    seed_peer = (unsigned char)atoi(argv[3]);
    open_all(argv[1], atoi(argv[2]), argc == 5 && !theirs ? FI_ATOMIC : 0);
    insert_peer(atoi(argv[3]));
    tagged();
    messages_with_data();
    remote_memory();
    write_with_data();
    delivery_complete();
    if (refused)
        refused_atomics(!theirs);
    else if (argc == 5)
        atomics();
    if (argc == 5 && !refused)
        truncated(!strcmp(argv[4], "both") ||
                  !strcmp(argv[4], atoi(argv[2]) < atoi(argv[3]) ? "low" : "high"));
    close_all();
    puts("ok");
    return 0;
}
