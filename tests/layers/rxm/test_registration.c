/* SPDX-License-Identifier: BSD-2-Clause */
/* Over a lower that must know its memory (FI_MR_LOCAL), and has a largest message. */
#include "rdm.h"

#define SMALL "rxm(tags=emulate,buffer_size=1k,sar_limit=4k"

enum {
    LARGEST = 3000000, /* three times the lower's largest */
    PARTS = 4
};

static const char *const specs[] = {
    SMALL ");loop(shape=rdma)",
    SMALL ",use_rndv_write=yes);loop(shape=rdma)",
    SMALL ");debug;loop(shape=rdma)",
};

enum {
    SPECS = sizeof(specs) / sizeof(specs[0])
};

static char out[LARGEST], in[LARGEST];

static struct pair {
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *ends[3];
    fi_addr_t to_b;
} p;

static void open_pair(const char *spec)
{
    rdm_net_open(&p.net, spec, 0);
    rdm_open(&p.a, &p.net, 0);
    rdm_open(&p.b, &p.net, 0);
    p.to_b = rdm_insert(&p.a, &p.b.name);
    rdm_insert(&p.b, &p.a.name);
    p.ends[0] = &p.a;
    p.ends[1] = &p.b;
    p.ends[2] = NULL;
}

static void close_pair(void)
{
    rdm_close(&p.a);
    rdm_close(&p.b);
    rdm_net_close(&p.net);
}

static void fill(char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(seed + i * 7 + (i >> 9));
}

static void again(ssize_t rc, bool *more)
{
    *more = rc == -FI_EAGAIN;
    if (*more)
        rdm_progress(p.ends);
    else
        assert_int_equal(rc, 0);
}

static void cut(struct iovec *iov, char *bytes, size_t len)
{
    for (size_t i = 0; i < PARTS; i++)
        iov[i] = (struct iovec){.iov_base = bytes + i * (len / PARTS), .iov_len = len / PARTS};
    iov[PARTS - 1].iov_len += len % PARTS;
}

static void one_message(size_t len)
{
    struct fi_cq_tagged_entry entry;
    struct iovec from[PARTS], to[PARTS];
    bool more = true;

    fill(out, len, (unsigned)len);
    memset(in, 0, len);
    cut(from, out, len);
    cut(to, in, len);
    assert_int_equal(fi_trecvv(p.b.ep, to, NULL, PARTS, FI_ADDR_UNSPEC, 1, 0, in), 0);
    while (more)
        again(fi_tsendv(p.a.ep, from, NULL, PARTS, p.to_b, 1, out), &more);
    assert_int_equal(rdm_next(&p.b, p.ends, &entry, NULL, NULL), 0);
    assert_int_equal(entry.len, len);
    assert_int_equal(rdm_next(&p.a, p.ends, &entry, NULL, NULL), 0);
    assert_memory_equal(in, out, len);
}

static void messages_of_memory_that_nobody_registered_arrive(void **state)
{
    static const size_t sizes[] = {4, 60, 64, 65, 513, 1024, 1025, 4096, 4097, 1 << 20, LARGEST};

    for (size_t s = 0; s < SPECS; s++) {
        open_pair(specs[s]);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            one_message(sizes[i]);
        close_pair();
    }
}

static void injects_reach_up_to_a_packet(void **state)
{
    for (size_t s = 0; s < SPECS; s++) {
        size_t len;

        open_pair(specs[s]);
        len = p.net.info->tx_attr->inject_size;
        assert_int_equal(len, 1024);
        for (size_t size = len; size; size /= 4) {
            struct fi_cq_tagged_entry entry;
            bool more = true;

            fill(out, size, 1);
            assert_int_equal(fi_trecv(p.b.ep, in, size, NULL, FI_ADDR_UNSPEC, 2, 0, in), 0);
            while (more)
                again(fi_tinject(p.a.ep, out, size, p.to_b, 2), &more);
            fill(out, size, 77); /* it is ours again */
            assert_int_equal(rdm_next(&p.b, p.ends, &entry, NULL, NULL), 0);
            fill(out, size, 1);
            assert_memory_equal(in, out, size);
        }
        assert_int_equal(fi_tinject(p.a.ep, out, len + 1, p.to_b, 2), -FI_EMSGSIZE);
        close_pair();
    }
}

/* An access of len bytes in PARTS segments, to or from two places of the target. */
static void one_access(struct fid_mr *mr, size_t len, bool read, bool data)
{
    uint64_t base = p.net.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)in : 0;
    struct fi_rma_iov places[2] = {{base, len / 3, fi_mr_key(mr)},
                                   {base + len / 3, len - len / 3, fi_mr_key(mr)}};
    struct fi_cq_tagged_entry entry;
    struct iovec iov[PARTS];
    struct fi_msg_rma msg = {.msg_iov = iov,
                             .iov_count = PARTS,
                             .addr = p.to_b,
                             .rma_iov = places,
                             .rma_iov_count = 2,
                             .context = out,
                             .data = 5};
    bool more = true;

    cut(iov, out, len);
    while (more)
        again(read ? fi_readmsg(p.a.ep, &msg, FI_COMPLETION)
                   : fi_writemsg(p.a.ep, &msg, FI_COMPLETION | (data ? FI_REMOTE_CQ_DATA : 0)),
              &more);
    assert_int_equal(rdm_next(&p.a, p.ends, &entry, NULL, NULL), 0);
    assert_ptr_equal(entry.op_context, out);
    if (!data)
        return;
    assert_int_equal(rdm_next(&p.b, p.ends, &entry, NULL, NULL), 0);
    assert_true(entry.flags & FI_REMOTE_WRITE);
    assert_int_equal(entry.data, 5);
}

static void accesses_of_any_size_are_whole(void **state)
{
    static const size_t sizes[] = {8, 400, 1000, 1024, 1025, 100000, (1 << 20) + 1, LARGEST};

    for (size_t s = 0; s < SPECS; s++) {
        struct fid_mr *mr;

        open_pair(specs[s]);
        assert_int_equal(fi_mr_reg(p.net.domain, in, sizeof(in), FI_REMOTE_READ | FI_REMOTE_WRITE,
                                   0, 9, 0, &mr, NULL),
                         0);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            fill(out, sizes[i], (unsigned)i);
            one_access(mr, sizes[i], false, i % 2);
            assert_memory_equal(in, out, sizes[i]);
            fill(in, sizes[i], (unsigned)i + 100);
            one_access(mr, sizes[i], true, false);
            assert_memory_equal(in, out, sizes[i]);
        }
        assert_int_equal(fi_close(&mr->fid), 0);
        close_pair();
    }
}

static struct fi_info *ask(uint64_t caps, int mr_mode, uint32_t version)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    assert_non_null(hints);
    hints->caps = caps;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = mr_mode;
    hints->fabric_attr->prov_name = strdup(specs[0]);
    fi_getinfo(version, NULL, NULL, 0, hints, &info);
    fi_freeinfo(hints);
    return info;
}

/* The mode bits ask no more of an application than the peers of its memory need. */
static void only_remote_memory_is_the_applications_to_register(void **state)
{
    static const struct {
        uint64_t caps;
        int asked;
        uint32_t version;
        int got; /* -1: nothing */
    } cases[] = {
        {FI_MSG | FI_TAGGED, 0, FI_VERSION(2, 6), 0},
        {FI_MSG, FI_MR_SCALABLE, FI_VERSION(1, 4), FI_MR_SCALABLE},
        {FI_MSG, FI_MR_UNSPEC, FI_VERSION(1, 4), FI_MR_BASIC},
        {FI_TAGGED, FI_MR_VIRT_ADDR, FI_VERSION(1, 9), 0},
        {FI_TAGGED, FI_MR_LOCAL, FI_VERSION(1, 9), FI_MR_LOCAL},
        {FI_MSG | FI_RMA, 0, FI_VERSION(2, 6), -1},
        {FI_MSG | FI_ATOMIC, 0, FI_VERSION(2, 6), -1},
        {FI_MSG | FI_RMA, FI_MR_BASIC, FI_VERSION(1, 4), FI_MR_BASIC},
        {FI_MSG | FI_RMA, FI_MR_SCALABLE, FI_VERSION(1, 4), -1},
        {FI_MSG | FI_RMA, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, FI_VERSION(2, 6),
         FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fi_info *info = ask(cases[i].caps, cases[i].asked, cases[i].version);

        assert_int_equal(info ? info->domain_attr->mr_mode : -1, cases[i].got);
        fi_freeinfo(info);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_memory_that_nobody_registered_arrive),
        cmocka_unit_test(injects_reach_up_to_a_packet),
        cmocka_unit_test(accesses_of_any_size_are_whole),
        cmocka_unit_test(only_remote_memory_is_the_applications_to_register),
    };

    return cmocka_run_group_tests_name("registration", tests, NULL, NULL);
}
