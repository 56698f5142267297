/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages in packets of rxm's own, over lowers of each shape, through the public interface. */
#include "rdm.h"

/* buffer_size 1k: up to that eager, up to 8k segments, above rendezvous. */
#define SMALL "buffer_size=1k,sar_limit=8k"

static const char *const specs[] = {
    "rxm(tags=emulate," SMALL ");loop",
    "rxm(tags=emulate," SMALL ",use_rndv_write=yes);loop",
    "rxm(tags=emulate," SMALL ",use_srx=no,msg_rx_size=8);loop",
    "rxm(tags=emulate," SMALL ",msg_rx_size=8);loop(shape=rdma)",
    "rxm(tags=emulate," SMALL ",msg_rx_size=8,use_rndv_write=yes);loop(shape=rdma)",
    "rxm(tags=emulate," SMALL ");tcp",
    "rxm(tags=emulate," SMALL ",use_rndv_write=yes);noop;tcp",
};

enum {
    SPECS = sizeof(specs) / sizeof(specs[0]),
    LARGEST = 40000,
    FLOOD = 600
};

static struct pair {
    struct rdm_net net;
    struct rdm a, b;
    struct rdm *ends[3];
    fi_addr_t to_b, to_a;
    struct fid_mr *mr;
    void *desc;
} p;

static unsigned char out[4 * LARGEST], in[4 * LARGEST], both[2];

/* caps 0: the usual; cntr_flags: what a counter of each end counts, 0: none. */
static void open_pair_with(const char *spec, uint64_t caps, uint64_t cntr_flags)
{
    memset(&p, 0, sizeof(p));
    rdm_net_open(&p.net, spec, caps);
    rdm_open_counted(&p.a, &p.net, cntr_flags, true);
    rdm_open_counted(&p.b, &p.net, cntr_flags, true);
    p.to_b = rdm_insert(&p.a, &p.b.name);
    p.to_a = rdm_insert(&p.b, &p.a.name);
    p.ends[0] = &p.a;
    p.ends[1] = &p.b;
    if (p.net.info->domain_attr->mr_mode & FI_MR_LOCAL) {
        struct iovec iov = {.iov_base = out, .iov_len = sizeof(out)};
        struct fi_mr_attr attr = {
            .mr_iov = &iov, .iov_count = 1, .access = FI_SEND | FI_RECV | FI_READ | FI_WRITE};

        assert_int_equal(fi_mr_regattr(p.net.domain, &attr, 0, &p.mr), 0);
        p.desc = fi_mr_desc(p.mr);
    }
}

static void open_pair(const char *spec)
{
    open_pair_with(spec, 0, 0);
}

static void close_pair(void)
{
    if (p.a.ep)
        rdm_close(&p.a);
    if (p.b.ep)
        rdm_close(&p.b);
    if (p.mr)
        assert_int_equal(fi_close(&p.mr->fid), 0);
    rdm_net_close(&p.net);
}

static void fill(unsigned char *bytes, size_t len, size_t seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(seed + i * 7 + (i >> 8));
}

static void same(const unsigned char *bytes, size_t len, size_t seed)
{
    for (size_t i = 0; i < len; i++)
        assert_int_equal(bytes[i], (unsigned char)(seed + i * 7 + (i >> 8)));
}

static void post_send(struct rdm *from, fi_addr_t to, const struct iovec *iov, size_t count,
                      uint64_t tag, void *context)
{
    void *desc[4] = {p.desc, p.desc, p.desc, p.desc};
    long long limit = rdm_now_ms() + RDM_LIMIT_MS;
    ssize_t rc;

    while ((rc = fi_tsendv(from->ep, iov, p.desc ? desc : NULL, count, to, tag, context)) ==
           -FI_EAGAIN) {
        assert_true(rdm_now_ms() < limit);
        rdm_progress(p.ends);
    }
    assert_int_equal(rc, 0);
}

static void send_one(const void *buf, size_t len, uint64_t tag, void *context)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    post_send(&p.a, p.to_b, &iov, 1, tag, context);
}

static void post_receive(void *buf, size_t len, uint64_t tag, void *context)
{
    assert_int_equal(fi_trecv(p.b.ep, buf, len, p.desc, FI_ADDR_UNSPEC, tag, 0, context), 0);
}

static void wait_sent(void *context)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(rdm_next(&p.a, p.ends, &entry, NULL, NULL), 0);
    assert_ptr_equal(entry.op_context, context);
}

static void wait_received(void *context, size_t len)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t src;

    assert_int_equal(rdm_next(&p.b, p.ends, &entry, &src, NULL), 0);
    assert_ptr_equal(entry.op_context, context);
    assert_int_equal(entry.len, len);
    assert_int_equal(src, p.to_a);
}

static void sizes_around_every_threshold_arrive_whole(void **state)
{
    static const size_t sizes[] = {0,    1,    64,   65,   1023, 1024,  1025,
                                   2048, 2049, 8191, 8192, 8193, 20000, LARGEST};

    for (size_t s = 0; s < SPECS; s++) {
        open_pair(specs[s]);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            for (int late = 0; late < 2; late++) {
                size_t len = sizes[i], third = len / 3;
                struct iovec iov[3] = {{out, third}, {out + third, third}, {out + 2 * third, 0}};

                iov[2].iov_len = len - 2 * third;
                fill(out, len, i + s);
                memset(in, 0, len);
                if (!late)
                    post_receive(in, LARGEST, i, in);
                post_send(&p.a, p.to_b, iov, 3, i, out);
                rdm_drive(p.ends, late);
                if (late)
                    post_receive(in, LARGEST, i, in);
                wait_received(in, len);
                wait_sent(out);
                same(in, len, i + s);
            }
        }
        close_pair();
    }
}

/* Of one tag, all sizes mixed, before and after their receives: they match as they were sent. */
static void messages_of_all_sizes_keep_their_order(void **state)
{
    static const size_t sizes[] = {LARGEST, 10, 5000, 0, 20000, 700};

    for (size_t s = 0; s < SPECS; s++) {
        for (int late = 0; late < 2; late++) {
            size_t at = 0;

            open_pair(specs[s]);
            for (int i = 0; !late && i < 6; i++, at += 1)
                post_receive(in + (size_t)i * 20000, LARGEST, 1, in + i);
            for (size_t i = 0; i < 6; i++)
                send_one(out, sizes[i], 1, out + i);
            rdm_drive(p.ends, 20);
            for (int i = 0; late && i < 6; i++)
                post_receive(in + (size_t)i * 20000, LARGEST, 1, in + i);
            for (int n = 0; n < 6; n++) {
                struct fi_cq_tagged_entry entry;

                assert_int_equal(rdm_next(&p.b, p.ends, &entry, NULL, NULL), 0);
                assert_int_equal(entry.len, sizes[(unsigned char *)entry.op_context - in]);
            }
            close_pair();
        }
    }
}

/* More messages than the queues hold, and no receive: a sender never finds one without a buffer. */
static void flood_without_receives_arrives_in_order(void **state)
{
    for (size_t s = 0; s < SPECS; s++) {
        struct fi_cq_tagged_entry entry;

        open_pair(specs[s]);
        for (size_t i = 0; i < FLOOD; i++)
            send_one(out, i, 7, NULL);
        for (size_t i = 0; i < FLOOD; i++) {
            post_receive(in, LARGEST, 7, in);
            wait_received(in, i);
        }
        for (size_t i = 0; i < FLOOD; i++)
            assert_int_equal(rdm_next(&p.a, p.ends, &entry, NULL, NULL), 0);
        close_pair();
    }
}

/* Beyond the bound packets stay with the lower, or at the sender, and all of them come later. */
static void what_is_kept_is_bounded_and_nothing_is_lost(void **state)
{
    static const char *const bounded[] = {
        "rxm(tags=emulate," SMALL ",saved_size=64k);tcp",
        "rxm(tags=emulate," SMALL ",saved_size=64k);loop",
        "rxm(tags=emulate," SMALL ",saved_size=64k,msg_rx_size=8);loop(shape=rdma)",
    };

    for (size_t s = 0; s < 3; s++) {
        size_t sent = 0, received = 0, done = 0;
        struct fi_cq_tagged_entry entry;
        long long limit;

        open_pair(bounded[s]);
        limit = rdm_now_ms() + RDM_LIMIT_MS;
        while (received < FLOOD) {
            assert_true(rdm_now_ms() < limit);
            while (sent < FLOOD && !fi_tsend(p.a.ep, out, 1000, p.desc, p.to_b, sent, NULL))
                sent++;
            rdm_progress(p.ends);
            if (sent == FLOOD || sent > received + 40) {
                post_receive(in, LARGEST, received, in);
                wait_received(in, 1000);
                received++;
            }
            done += fi_cq_read(p.a.cq, &entry, 1) == 1;
        }
        for (; done < FLOOD; done++)
            assert_int_equal(rdm_next(&p.a, p.ends, &entry, NULL, NULL), 0);
        close_pair();
    }
}

/* More than there are receives that they may take. */
static void data_of_writes_arrives(void **state)
{
    for (size_t s = 0; s < SPECS; s++) {
        struct iovec iov = {.iov_base = both, .iov_len = sizeof(both)};
        struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_WRITE};
        struct fi_cq_tagged_entry entry;
        struct fid_mr *target;
        uint64_t at;
        ssize_t rc;

        open_pair(specs[s]);
        at = p.net.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)both : 0;
        assert_int_equal(fi_mr_regattr(p.net.domain, &attr, 0, &target), 0);
        for (uint64_t i = 0; i < 100; i++) {
            fi_addr_t src;

            while ((rc = fi_writedata(p.a.ep, out, 1, p.desc, i, p.to_b, at, fi_mr_key(target),
                                      out)) == -FI_EAGAIN)
                rdm_progress(p.ends);
            assert_int_equal(rc, 0);
            wait_sent(out);
            assert_int_equal(rdm_next(&p.b, p.ends, &entry, &src, NULL), 0);
            assert_int_equal(entry.data, i);
            assert_true(entry.flags & FI_REMOTE_WRITE);
            assert_int_equal(src, p.to_a);
            if (i % 10)
                continue;
            post_receive(in, 100, i, in);
            send_one(out, 100, i, out);
            wait_received(in, 100);
            wait_sent(out);
        }
        assert_int_equal(fi_close(&target->fid), 0);
        close_pair();
    }
}

static void rendezvous_is_no_access_of_the_applications(void **state)
{
    for (size_t s = 0; s < SPECS; s++) {
        struct iovec iov = {.iov_base = both, .iov_len = sizeof(both)};
        struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_WRITE};
        struct fi_cq_tagged_entry entry;
        struct fid_mr *target;
        uint64_t at;

        if (strstr(specs[s], "shape=rdma"))
            continue; /* devices do not count what peers access */
        open_pair_with(specs[s], FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT,
                       FI_REMOTE_READ | FI_REMOTE_WRITE);
        at = p.net.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)both : 0;
        for (int i = 0; i < 3; i++) {
            post_receive(in, LARGEST, 1, in);
            send_one(out, LARGEST, 1, out);
            assert_int_equal(rdm_next(&p.b, p.ends, &entry, NULL, NULL), 0);
            wait_sent(out);
        }
        assert_int_equal(fi_mr_regattr(p.net.domain, &attr, 0, &target), 0);
        assert_int_equal(fi_write(p.a.ep, out, 1, p.desc, p.to_b, at, fi_mr_key(target), out), 0);
        wait_sent(out);
        for (long long limit = rdm_now_ms() + RDM_LIMIT_MS; !fi_cntr_read(p.b.cntr);) {
            rdm_progress(p.ends);
            assert_true(rdm_now_ms() < limit);
        }
        assert_int_equal(fi_cntr_read(p.a.cntr), 0);
        assert_int_equal(fi_cntr_read(p.b.cntr), 1);
        assert_int_equal(fi_close(&target->fid), 0);
        close_pair();
    }
}

static void truncation_is_an_error_of_that_receive_only(void **state)
{
    static const size_t sizes[] = {500, 5000, LARGEST};

    for (size_t s = 0; s < SPECS; s++) {
        open_pair(specs[s]);
        for (int i = 0; i < 3; i++) {
            struct fi_cq_err_entry error = {.err_data_size = 0};

            fill(out, sizes[i], s);
            post_receive(in, 100, 1, in);
            send_one(out, sizes[i], 1, out);
            assert_int_equal(rdm_next(&p.b, p.ends, NULL, NULL, &error), FI_ETRUNC);
            assert_int_equal(error.len, 100);
            assert_int_equal(error.olen, sizes[i] - 100);
            same(in, 100, s);
            wait_sent(out);
        }
        post_receive(in, 100, 2, in);
        send_one(out, 100, 2, out);
        wait_received(in, 100);
        close_pair();
    }
}

static void discarded_messages_end_at_their_sender(void **state)
{
    for (size_t s = 0; s < SPECS; s++) {
        for (size_t len = 100; len <= LARGEST; len *= 20) {
            struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = 3, .context = both};
            struct fi_cq_tagged_entry entry;

            open_pair(specs[s]);
            send_one(out, len, 3, out);
            rdm_drive(p.ends, 20);
            assert_int_equal(fi_trecvmsg(p.b.ep, &msg, FI_PEEK | FI_DISCARD), 0);
            assert_int_equal(rdm_next(&p.b, p.ends, &entry, NULL, NULL), 0);
            assert_ptr_equal(entry.op_context, both);
            wait_sent(out);
            close_pair();
        }
    }
}

/* One end closes with everything under way: the other's operations end once, in error. */
static void a_peer_that_goes_ends_everything_once(void **state)
{
    static const size_t sizes[] = {100, 5000, LARGEST};

    for (size_t s = 0; s < SPECS; s++) {
        struct fi_cq_tagged_entry entry;
        int ended = 0;

        open_pair(specs[s]);
        post_receive(in, LARGEST, 99, in); /* no message matches: stays */
        for (int i = 0; i < 3; i++)
            send_one(out, sizes[i], (uint64_t)i, out + i);
        rdm_drive(p.ends, 20);
        rdm_close(&p.b);
        p.ends[1] = NULL;
        while (ended < 3) {
            rdm_next(&p.a, p.ends, &entry, NULL, NULL);
            ended++;
        }
        rdm_drive(p.ends, 5);
        assert_int_equal(fi_cq_read(p.a.cq, &entry, 1), -FI_EAGAIN);
        close_pair();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_around_every_threshold_arrive_whole),
        cmocka_unit_test(messages_of_all_sizes_keep_their_order),
        cmocka_unit_test(flood_without_receives_arrives_in_order),
        cmocka_unit_test(what_is_kept_is_bounded_and_nothing_is_lost),
        cmocka_unit_test(data_of_writes_arrives),
        cmocka_unit_test(rendezvous_is_no_access_of_the_applications),
        cmocka_unit_test(truncation_is_an_error_of_that_receive_only),
        cmocka_unit_test(discarded_messages_end_at_their_sender),
        cmocka_unit_test(a_peer_that_goes_ends_everything_once),
    };

    return cmocka_run_group_tests_name("emulate", tests, NULL, NULL);
}
