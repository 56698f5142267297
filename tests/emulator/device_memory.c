/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that the CPU does not reach, in fabric efa: a file stands for the other device's, at
 * addresses that no process has, so a copy by the CPU would end the program. FI_PROVIDER is the
 * stack.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/support/end.h"
#include "tests/support/patience.h"

enum {
    SIZE = 8 << 20,
    OFFSET = 65536, /* of the region in the file */
    HALF = SIZE / 2,
};

static const size_t sizes[] = {1, 8, 300, 5000, 8800, 20000, 65536, 200000, 1048576, 3000001};

static char *const base = (char *)(uintptr_t)0x10000000000;
static struct end a, b;
static struct fid_mr *a_device, *b_device, *a_host, *b_host;
static int fd;
static char host[2][SIZE], image[SIZE];

/* ---- Memory ---- */

static char *place(size_t at)
{
    return base + OFFSET + at;
}

static char byte_of(size_t i, unsigned seed)
{
    return (char)(i * 13 + i / 257 + seed * 31 + 1);
}

static void fill(size_t at, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        image[i] = byte_of(i, seed);
    assert_int_equal(pwrite(fd, image, len, (off_t)(OFFSET + at)), (ssize_t)len);
}

static void fill_host(char *memory, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        memory[i] = byte_of(i, seed);
}

static void expect_bytes(const char *memory, size_t from, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (memory[i] != byte_of(from + i, seed))
            fail_msg("byte %zu of %zu is wrong", i, len);
}

static void expect_device(size_t at, size_t from, size_t len, unsigned seed)
{
    assert_int_equal(pread(fd, image, len, (off_t)(OFFSET + at)), (ssize_t)len);
    expect_bytes(image, from, len, seed);
}

static void wipe(size_t at, size_t len)
{
    memset(image, 0, len);
    assert_int_equal(pwrite(fd, image, len, (off_t)(OFFSET + at)), (ssize_t)len);
}

/* ---- Ends ---- */

static int find(uint64_t caps, int mr_mode, struct fi_info **info)
{
    struct fi_info *hints = fi_allocinfo();
    int rc;

    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = mr_mode;
    hints->fabric_attr->name = strdup("efa");
    rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, info);
    fi_freeinfo(hints);
    return rc;
}

static const uint64_t all =
    FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

static struct fid_mr *reg_device(struct end *end, uint64_t access)
{
    struct fi_mr_dmabuf dmabuf = {.fd = fd, .offset = OFFSET, .len = SIZE, .base_addr = base};
    struct fi_mr_attr attr = {
        .dmabuf = &dmabuf, .iov_count = 1, .access = access, .iface = FI_HMEM_CUDA};
    struct fid_mr *mr;

    assert_int_equal(fi_mr_regattr(end->domain, &attr, FI_MR_DMABUF, &mr), 0);
    return mr;
}

static struct fid_mr *reg_host(struct end *end, char *memory, uint64_t access)
{
    static uint64_t key;
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(end->domain, memory, SIZE, access, 0, key++, 0, &mr, NULL), 0);
    return mr;
}

static const int modes =
    FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM;

static int open_all(void **state)
{
    struct fi_info *info;

    fd = memfd_create("device", MFD_CLOEXEC);
    assert_true(fd >= 0 && !ftruncate(fd, OFFSET + SIZE));
    for (struct end *end = &a;; end = &b) {
        assert_int_equal(find(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_HMEM, modes, &info), 0);
        assert_true(info->caps & FI_HMEM && info->domain_attr->mr_mode & FI_MR_HMEM);
        assert_string_equal(info->fabric_attr->name, "efa");
        end_open(end, info, FI_CQ_FORMAT_TAGGED);
        if (end == &b)
            break;
    }
    end_meet(&a, &b);
    a_device = reg_device(&a, all);
    b_device = reg_device(&b, all);
    a_host = reg_host(&a, host[0], all);
    b_host = reg_host(&b, host[1], all);
    return 0;
}

static int close_all(void **state)
{
    fi_close(&a_device->fid);
    fi_close(&b_device->fid);
    fi_close(&a_host->fid);
    fi_close(&b_host->fid);
    end_close(&a);
    end_close(&b);
    close(fd);
    return 0;
}

/* The next completion of one end, while both make progress: its error, or 0. */
static int ended(struct end *end)
{
    struct end *other = end == &a ? &b : &a;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc = -FI_EAGAIN;

    for (struct patience p = {0}; patience_lasts(&p) && rc == -FI_EAGAIN;) {
        fi_cq_read(other->cq, NULL, 0);
        rc = fi_cq_read(end->cq, &entry, 1);
    }
    if (rc == 1)
        return 0;
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(end->cq, &error, 0), 1);
    return error.err;
}

static void turn(void)
{
    fi_cq_read(a.cq, NULL, 0);
    fi_cq_read(b.cq, NULL, 0);
}

static void send_from(const void *buf, size_t len, struct fid_mr *mr)
{
    ssize_t rc = -FI_EAGAIN;

    for (struct patience p = {0}; patience_lasts(&p) && rc == -FI_EAGAIN;) {
        rc = fi_tsend(a.ep, buf, len, fi_mr_desc(mr), a.peer, 5, NULL);
        turn();
    }
    assert_int_equal(rc, 0);
}

static void receive_to(void *buf, size_t len, struct fid_mr *mr)
{
    assert_int_equal(fi_trecv(b.ep, buf, len, fi_mr_desc(mr), FI_ADDR_UNSPEC, 5, 0, NULL), 0);
}

static void both_ended(void)
{
    assert_int_equal(ended(&b), 0);
    assert_int_equal(ended(&a), 0);
}

/* ---- Messages ---- */

static void messages_of_each_size(void **state)
{
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t len = sizes[i];

        fill(0, len, i); /* device to host */
        memset(host[1], 0, len);
        receive_to(host[1], len, b_host);
        send_from(place(0), len, a_device);
        both_ended();
        expect_bytes(host[1], 0, len, i);
        fill_host(host[0], len, i + 1); /* host to device */
        receive_to(place(HALF), len, b_device);
        send_from(host[0], len, a_host);
        both_ended();
        expect_device(HALF, 0, len, i + 1);
        wipe(HALF, len); /* device to device */
        receive_to(place(HALF), len, b_device);
        send_from(place(0), len, a_device);
        both_ended();
        expect_device(HALF, 0, len, i);
    }
}

static void messages_wait_for_their_receive(void **state)
{
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t len = sizes[i];

        fill_host(host[0], len, i);
        wipe(HALF, len);
        send_from(host[0], len, a_host);
        for (int j = 0; j < 2000; j++)
            turn();
        receive_to(place(HALF), len, b_device);
        both_ended();
        expect_device(HALF, 0, len, i);
    }
}

static void receives_may_be_short(void **state)
{
    for (unsigned i = 1; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t len = sizes[i], room = len - len / 3;

        fill_host(host[0], len, i);
        wipe(HALF, len);
        receive_to(place(HALF), room, b_device);
        send_from(host[0], len, a_host);
        assert_int_equal(ended(&b), FI_ETRUNC);
        assert_int_equal(ended(&a), 0);
        expect_device(HALF, 0, room, i);
        assert_int_equal(pread(fd, image, 1, (off_t)(OFFSET + HALF + room)), 1);
        assert_int_equal(image[0], 0);
    }
}

/* One segment of each kind, at both ends. */
static void segments_of_both_kinds(void **state)
{
    struct iovec from[] = {{place(0), 1000}, {host[0], 30000}};
    struct iovec to[] = {{host[1], 7000}, {place(HALF), 24000}};
    void *from_desc[] = {fi_mr_desc(a_device), fi_mr_desc(a_host)};
    void *to_desc[] = {fi_mr_desc(b_host), fi_mr_desc(b_device)};
    struct fi_msg_tagged in = {
        .msg_iov = to, .desc = to_desc, .iov_count = 2, .addr = FI_ADDR_UNSPEC, .tag = 9};
    struct fi_msg_tagged out = {
        .msg_iov = from, .desc = from_desc, .iov_count = 2, .addr = a.peer, .tag = 9};
    ssize_t rc = -FI_EAGAIN;

    fill(0, 1000, 3);
    for (size_t i = 0; i < 30000; i++)
        host[0][i] = byte_of(1000 + i, 3);
    assert_int_equal(fi_trecvmsg(b.ep, &in, FI_COMPLETION), 0);
    for (struct patience p = {0}; patience_lasts(&p) && rc == -FI_EAGAIN;) {
        rc = fi_tsendmsg(a.ep, &out, FI_COMPLETION);
        turn();
    }
    assert_int_equal(rc, 0);
    both_ended();
    expect_bytes(host[1], 0, 7000, 3);
    expect_device(HALF, 7000, 24000, 3);
}

/* A region that peers may not read, so that the message comes in packets after all. */
static void what_cannot_be_read_is_sent(void **state)
{
    const size_t len = 2 << 20;
    struct fid_mr *mr[] = {reg_device(&a, FI_RECV), reg_host(&a, host[0], FI_RECV)};

    for (unsigned i = 0; i < 2; i++) {
        char *from = i ? host[0] : place(0);

        if (i)
            fill_host(from, len, i);
        else
            fill(0, len, i);
        wipe(HALF, len);
        receive_to(place(HALF), len, b_device);
        send_from(from, len, mr[i]);
        both_ended();
        expect_device(HALF, 0, len, i);
        assert_int_equal(fi_close(&mr[i]->fid), 0);
    }
}

/* ---- Several segments, in packets ---- */

enum {
    PARTS = 3, /* of the device's memory, of the host's, and of the device's */
    PART_MOST = 800000
};

static const size_t parts[][PARTS] = {
    {0, 0, 0},        {7, 0, 0},         {1, 1, 1},
    {100, 200, 300},  {3000, 0, 3000},   {9000, 1, 10},
    {10, 20000, 300}, {30000, 7, 40000}, {PART_MOST, 100, PART_MOST},
};

/* Parts with `seed`, from the regions at the same place of `mr`. */
static size_t make_parts(const size_t *lens, unsigned seed, struct fid_mr *const *mr,
                         struct iovec *iov, void **desc)
{
    size_t from = 0;

    for (size_t i = 0; i < PARTS; i++) {
        size_t at = i * PART_MOST;

        for (size_t j = 0; j < lens[i]; j++)
            (i == 1 ? host[0] : image)[at + j] = byte_of(from + j, seed);
        if (i != 1)
            assert_int_equal(pwrite(fd, image + at, lens[i], (off_t)(OFFSET + at)),
                             (ssize_t)lens[i]);
        iov[i] = (struct iovec){i == 1 ? host[0] + at : place(at), lens[i]};
        desc[i] = mr[i] ? fi_mr_desc(mr[i]) : NULL;
        from += lens[i];
    }
    return from;
}

static void send_parts(const struct iovec *iov, void **desc, fi_addr_t dest, uint64_t flags)
{
    struct fi_msg_tagged msg = {
        .msg_iov = iov, .desc = desc, .iov_count = PARTS, .addr = dest, .tag = 5};
    ssize_t rc = -FI_EAGAIN;

    for (struct patience p = {0}; patience_lasts(&p) && rc == -FI_EAGAIN;) {
        rc = fi_tsendmsg(a.ep, &msg, flags | FI_COMPLETION);
        turn();
    }
    assert_int_equal(rc, 0);
}

/* From regions that b's device may not read, so that b asks for them in packets; the region of the
 * host's memory may be none. */
static void segments_that_cannot_be_read_are_sent(void **state)
{
    struct fid_mr *device = reg_device(&a, FI_RECV), *memory = reg_host(&a, host[0], FI_RECV);
    struct fid_mr *const mr[][PARTS] = {{device, memory, device}, {device, NULL, device}};
    struct iovec iov[PARTS];
    void *desc[PARTS];

    for (unsigned i = 0; i < 2 * sizeof(parts) / sizeof(*parts); i++) {
        size_t len = make_parts(parts[i / 2], i, mr[i % 2], iov, desc);

        memset(host[1], 0, len);
        receive_to(host[1], len, b_host);
        send_parts(iov, desc, a.peer, i & 2 ? FI_DELIVERY_COMPLETE : 0);
        both_ended();
        expect_bytes(host[1], 0, len, i);
        len = make_parts(parts[i / 2], i + 1, mr[i % 2], iov, desc);
        wipe(HALF, len);
        receive_to(place(HALF), len, b_device);
        send_parts(iov, desc, a.peer, i & 2 ? 0 : FI_DELIVERY_COMPLETE);
        both_ended();
        expect_device(HALF, 0, len, i + 1);
    }
    fi_close(&device->fid);
    fi_close(&memory->fid);
}

/* In place of b: an end whose keys are its own, so its device reads and writes for no peer. */
static struct fid_mr *reopen_b(void)
{
    struct fi_info *info;

    fi_close(&b_device->fid);
    fi_close(&b_host->fid);
    end_close(&b);
    assert_int_equal(find(FI_MSG | FI_TAGGED | FI_RMA, 0, &info), 0);
    end_open(&b, info, FI_CQ_FORMAT_TAGGED);
    end_meet(&a, &b);
    return reg_host(&b, host[1], all);
}

static void segments_go_to_peers_that_do_not_read(void **state)
{
    struct fid_mr *const mr[PARTS] = {a_device, a_host, a_device}, *to = reopen_b();
    struct fi_rma_iov rma = {.key = fi_mr_key(to)};
    struct iovec iov[PARTS];
    void *desc[PARTS];
    struct fi_msg_rma msg = {.msg_iov = iov,
                             .desc = desc,
                             .iov_count = PARTS,
                             .addr = a.peer,
                             .rma_iov = &rma,
                             .rma_iov_count = 1};

    for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        size_t len = make_parts(parts[i], i, mr, iov, desc);
        ssize_t rc = -FI_EAGAIN;

        memset(host[1], 0, len);
        assert_int_equal(fi_trecv(b.ep, host[1], len, NULL, FI_ADDR_UNSPEC, 5, 0, NULL), 0);
        send_parts(iov, desc, a.peer, i & 1 ? FI_DELIVERY_COMPLETE : 0);
        both_ended();
        expect_bytes(host[1], 0, len, i);
        memset(host[1], 0, len);
        for (rma.len = len; rc == -FI_EAGAIN; turn())
            rc = fi_writemsg(a.ep, &msg, FI_COMPLETION);
        assert_int_equal(rc, 0);
        assert_int_equal(ended(&a), 0);
        expect_bytes(host[1], 0, len, i);
    }
    assert_int_equal(fi_readmsg(a.ep, &msg, FI_COMPLETION), -FI_EOPNOTSUPP);
    b_host = to;
    b_device = reg_host(&b, host[1], all); /* for close_all */
}

/* ---- Accesses ---- */

static void access_one(bool reads, size_t len, unsigned seed)
{
    uint64_t key = fi_mr_key(b_device), addr = (uintptr_t)place(HALF);
    ssize_t rc = -FI_EAGAIN;

    fill(reads ? HALF : 0, len, seed);
    wipe(reads ? 0 : HALF, len);
    for (struct patience p = {0}; patience_lasts(&p) && rc == -FI_EAGAIN;) {
        rc = reads ? fi_read(a.ep, place(0), len, fi_mr_desc(a_device), a.peer, addr, key, NULL)
                   : fi_write(a.ep, place(0), len, fi_mr_desc(a_device), a.peer, addr, key, NULL);
        turn();
    }
    assert_int_equal(rc, 0);
    assert_int_equal(ended(&a), 0);
    expect_device(reads ? 0 : HALF, 0, len, seed);
}

static void accesses(void **state)
{
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        access_one(false, sizes[i], i);
        access_one(true, sizes[i], i + 20);
    }
}

/* ---- Refusals ---- */

static void bytes_for_the_cpu_are_refused(void **state)
{
    struct iovec iov = {place(0), 8};
    void *desc = fi_mr_desc(a_device);
    struct fi_msg msg = {.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = a.peer};
    uint64_t key = fi_mr_key(b_device);
    ssize_t rc = -FI_EAGAIN;

    assert_int_equal(fi_sendmsg(a.ep, &msg, FI_INJECT), -FI_EOPNOTSUPP);
    for (struct patience p = {0}; patience_lasts(&p) && rc == -FI_EAGAIN;) {
        rc = fi_atomic(a.ep, place(0), 1, desc, a.peer, (uintptr_t)place(HALF), key, FI_UINT64,
                       FI_SUM, NULL);
        turn();
    }
    assert_int_equal(rc, -FI_EOPNOTSUPP);
    assert_int_equal(fi_send(a.ep, place(SIZE - 4), 8, desc, a.peer, NULL), -FI_EINVAL);
    /* At their target: of host memory, into what that one's CPU does not reach. */
    for (rc = -FI_EAGAIN; rc == -FI_EAGAIN; turn())
        rc = fi_atomic(a.ep, host[0], 1, fi_mr_desc(a_host), a.peer, (uintptr_t)place(HALF), key,
                       FI_UINT64, FI_SUM, NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(ended(&a), FI_EACCES);
}

static void set(int how, int wanted)
{
    assert_int_equal(fi_setopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &how, sizeof(how)),
                     wanted);
}

static void options(void **state)
{
    bool no = false;
    int how = 0;
    size_t len = sizeof(how);
    struct fid_ep *ep;

    assert_int_equal(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &how, &len), 0);
    assert_int_equal(how, FI_HMEM_P2P_REQUIRED);
    set(FI_HMEM_P2P_DISABLED, -FI_EOPNOTSUPP);
    set(FI_HMEM_P2P_ENABLED, 0);
    set(FI_HMEM_P2P_PREFERRED, 0);
    set(FI_HMEM_P2P_REQUIRED, 0);
    assert_int_equal(
        fi_setopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_CUDA_API_PERMITTED, &no, sizeof(no)), 0);
    assert_int_equal(fi_endpoint(a.domain, a.info, &ep, NULL), 0);
    assert_int_equal(
        fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_USE_DEVICE_RDMA, &no, sizeof(no)),
        -FI_EOPNOTSUPP);
    assert_int_equal(fi_close(&ep->fid), 0);
}

static void offers(void **state)
{
    struct fi_info *info = NULL;

    assert_int_equal(find(FI_MSG | FI_HMEM, modes & ~FI_MR_HMEM, &info), -FI_ENODATA);
    assert_int_equal(find(FI_MSG | FI_HMEM | FI_RMA_EVENT, modes, &info), -FI_ENODATA);
    assert_int_equal(find(FI_MSG, modes, &info), 0);
    assert_false(info->caps & FI_HMEM || info->domain_attr->mr_mode & FI_MR_HMEM);
    fi_freeinfo(info);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(messages_of_each_size),
        CASE(messages_wait_for_their_receive),
        CASE(receives_may_be_short),
        CASE(segments_of_both_kinds),
        CASE(what_cannot_be_read_is_sent),
        CASE(segments_that_cannot_be_read_are_sent),
        CASE(segments_go_to_peers_that_do_not_read),
        CASE(accesses),
        CASE(bytes_for_the_cpu_are_refused),
        CASE(options),
        cmocka_unit_test(offers),
    };

    return cmocka_run_group_tests_name("efa: memory of devices", tests, NULL, NULL);
}
