/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages, tagged messages, remote access and their completions between two endpoints. */
#include "pair.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* core/part/part.h: the upper tells what the peer's wire knows. */
enum {
    OPT_PEER_WIRE_VERSION = -0x57450001
};

static const size_t sizes[] = {0,    1,    8,     127,   128,   129,    1000,   4095,   4096,
                               4097, 9000, 65519, 65520, 65536, 100000, 524288, 1 << 20};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))
#define BIG (1u << 20)

static uint8_t *out, *in;

static int make_buffers(void **state)
{
    out = malloc(BIG);
    in = malloc(BIG);
    return !out || !in;
}

static int free_buffers(void **state)
{
    free(out);
    free(in);
    return 0;
}

static void messages_of_all_sizes_arrive(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){0});
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        struct side *from = i % 2 ? &pair.a : &pair.b, *to = i % 2 ? &pair.b : &pair.a;

        fill(out, sizes[i], (unsigned)i);
        memset(in, 0, BIG);
        assert_int_equal(fi_recv(to->ep, in, BIG, NULL, 0, (void *)&sizes[i]), 0);
        assert_int_equal(fi_send(from->ep, out, sizes[i], NULL, 0, out), 0);
        expect_completion(&pair, from->tx, &done);
        assert_ptr_equal(done.op_context, out);
        assert_int_equal(done.flags, FI_SEND | FI_MSG);
        expect_completion(&pair, to->rx, &done);
        assert_ptr_equal(done.op_context, &sizes[i]);
        assert_int_equal(done.flags, FI_RECV | FI_MSG);
        assert_int_equal(done.len, sizes[i]);
        check_filled(in, sizes[i], (unsigned)i);
    }
    expect_nothing(pair.a.tx);
    expect_nothing(pair.b.rx);
    pair_close(&pair);
}

static void every_form_of_send_arrives(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    struct iovec parts[5] = {{out, 10}, {out + 10, 0}, {out + 10, 3000}, {out + 3010, 90}};
    struct fi_msg msg = {.msg_iov = parts, .iov_count = 4, .data = 77};

    pair_open(&pair, &(struct options){0});
    fill(out, BIG, 3);
    struct fid_ep *ep = pair.a.ep;
    for (int i = 0; i < 7; i++)
        assert_int_equal(fi_recv(pair.b.ep, in + i * 4096, 4096, NULL, 0, NULL), 0);
    assert_int_equal(fi_sendv(ep, parts, NULL, 4, 0, NULL), 0);
    assert_int_equal(fi_sendmsg(ep, &msg, FI_REMOTE_CQ_DATA | FI_MORE), 0);
    assert_int_equal(fi_senddata(ep, out, 100, NULL, 78, 0, NULL), 0);
    assert_int_equal(fi_inject(ep, out, 128, 0), 0);
    assert_int_equal(fi_injectdata(ep, out, 5, 79, 0), 0);
    assert_int_equal(fi_inject(ep, out, 129, 0), -FI_EMSGSIZE);
    assert_int_equal(fi_sendv(ep, parts, NULL, 5, 0, NULL), -FI_EINVAL);
    msg.iov_count = 1;
    assert_int_equal(fi_sendmsg(ep, &msg, FI_INJECT | FI_MORE), 0);
    assert_int_equal(fi_send(ep, NULL, 0, NULL, 0, NULL), 0);
    static const struct {
        size_t len;
        uint64_t data;
    } want[] = {{3100, 0}, {3100, 77}, {100, 78}, {128, 0}, {5, 79}, {10, 0}, {0, 0}};
    for (int i = 0; i < 7; i++) {
        expect_completion(&pair, pair.b.rx, &done);
        assert_int_equal(done.len, want[i].len);
        assert_int_equal(done.data, want[i].data);
        assert_int_equal(!!(done.flags & FI_REMOTE_CQ_DATA), want[i].data != 0);
        check_filled(in + i * 4096, want[i].len, 3);
    }
    for (int i = 0; i < 5; i++)
        expect_completion(&pair, pair.a.tx, &done);
    expect_nothing(pair.a.tx);
    pair_close(&pair);
}

static void delivery_complete_waits_for_the_target(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    struct iovec iov = {out, 64};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1};

    pair_open(&pair, &(struct options){0});
    assert_int_equal(fi_recv(pair.b.ep, in, 64, NULL, 0, NULL), 0);
    assert_int_equal(fi_sendmsg(pair.a.ep, &msg, FI_DELIVERY_COMPLETE), 0);
    for (int i = 0; i < 100; i++)
        expect_nothing(pair.a.tx);
    expect_completion(&pair, pair.b.rx, &done);
    expect_completion(&pair, pair.a.tx, &done);
    pair_close(&pair);

    /* As the default of the endpoint. */
    pair_open(&pair, &(struct options){.tx_op_flags = FI_TRANSMIT_COMPLETE});
    assert_int_equal(fi_recv(pair.b.ep, in, 64, NULL, 0, NULL), 0);
    assert_int_equal(fi_send(pair.a.ep, out, 64, NULL, 0, NULL), 0);
    for (int i = 0; i < 100; i++)
        expect_nothing(pair.a.tx);
    expect_completion(&pair, pair.b.rx, &done);
    expect_completion(&pair, pair.a.tx, &done);
    pair_close(&pair);
}

static void selective_completion_reports_what_was_asked(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    struct iovec iov = {out, 8}, room = {in, 8};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = out};
    struct fi_msg receive = {.msg_iov = &room, .iov_count = 1, .context = in};

    pair_open(&pair, &(struct options){.selective = true});
    assert_int_equal(fi_recv(pair.b.ep, in, 8, NULL, 0, NULL), 0);
    assert_int_equal(fi_recvmsg(pair.b.ep, &receive, FI_COMPLETION), 0);
    assert_int_equal(fi_send(pair.a.ep, out, 8, NULL, 0, NULL), 0);
    assert_int_equal(fi_sendmsg(pair.a.ep, &msg, FI_COMPLETION), 0);
    expect_completion(&pair, pair.a.tx, &done);
    assert_ptr_equal(done.op_context, out);
    expect_completion(&pair, pair.b.rx, &done);
    assert_ptr_equal(done.op_context, in);
    expect_nothing(pair.a.tx);
    expect_nothing(pair.b.rx);
    pair_close(&pair);
}

static void a_message_too_long_is_cut_and_the_next_arrives(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;

    pair_open(&pair, &(struct options){0});
    for (size_t len = 100; len <= BIG; len *= 10) {
        fill(out, len, 9);
        memset(in, 0, 1000);
        assert_int_equal(fi_recv(pair.b.ep, in, 60, NULL, 0, in), 0);
        assert_int_equal(fi_recv(pair.b.ep, in + 100, 60, NULL, 0, NULL), 0);
        assert_int_equal(fi_send(pair.a.ep, out, len, NULL, 0, NULL), 0);
        assert_int_equal(fi_send(pair.a.ep, out, 50, NULL, 0, NULL), 0);
        assert_int_equal(expect_failure(&pair, pair.b.rx, &error), FI_ETRUNC);
        assert_int_equal(error.olen, len - 60);
        assert_ptr_equal(error.op_context, in);
        check_filled(in, 60, 9);
        assert_int_equal(in[60], 0);
        expect_completion(&pair, pair.b.rx, &done);
        assert_int_equal(done.len, 50);
        check_filled(in + 100, 50, 9);
        expect_completion(&pair, pair.a.tx, &done);
        expect_completion(&pair, pair.a.tx, &done);
    }
    pair_close(&pair);
}

static void one_buffer_takes_many_messages(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    struct iovec room = {in, 300};
    struct fi_msg receive = {.msg_iov = &room, .iov_count = 1, .context = in};
    size_t least = 100;

    pair_open(&pair, &(struct options){0});
    assert_int_equal(
        fi_setopt(&pair.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)),
        0);
    assert_int_equal(fi_recvmsg(pair.b.ep, &receive, FI_MULTI_RECV), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fi_inject(pair.a.ep, out, 80, 0), 0);
    uint64_t flags = 0;
    for (int i = 0; i < 3; i++) {
        expect_completion(&pair, pair.b.rx, &done);
        assert_ptr_equal(done.buf, in + 80 * i);
        assert_int_equal(done.len, 80);
        flags |= done.flags;
    }
    assert_true(flags & FI_MULTI_RECV);
    pair_close(&pair);
}

static void unexpected_messages_do_not_block(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){0});
    for (unsigned i = 0; i < 20; i++) {
        fill(out, sizes[i % SIZE_COUNT], i);
        assert_int_equal(fi_send(pair.a.ep, out, sizes[i % SIZE_COUNT], NULL, 0, NULL), 0);
        expect_completion(&pair, pair.a.tx, &done);
    }
    settle(&pair);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(fi_recv(pair.b.ep, in, BIG, NULL, 0, NULL), 0);
        expect_completion(&pair, pair.b.rx, &done);
        assert_int_equal(done.len, sizes[i % SIZE_COUNT]);
        check_filled(in, done.len, i);
    }
    pair_close(&pair);
}

/* Beyond the bound the stream waits, and goes on when something is received. */
static void the_bound_of_saved_messages_holds_the_stream(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    static const size_t lens[] = {100, 3000, 3000, 0, 70000, 10, 5000};

    for (size_t start = 0; start < 7; start++) {
        pair_open(&pair, &(struct options){.spec = "tcp(max_saved_size=4k)"});
        for (unsigned i = 0; i < 60; i++) {
            size_t len = lens[(i + start) % 7];

            fill(out + i * 1000, len, i);
            assert_int_equal(fi_send(pair.a.ep, out + i * 1000, len, NULL, 0, NULL), 0);
            fi_cq_read(pair.a.tx, NULL, 0);
            if (i % 3 == 0)
                fi_cq_read(pair.b.rx, NULL, 0);
        }
        settle(&pair);
        for (unsigned i = 0; i < 60; i++) {
            assert_int_equal(fi_recv(pair.b.ep, in, BIG, NULL, 0, NULL), 0);
            expect_completion(&pair, pair.b.rx, &done);
            assert_int_equal(done.len, lens[(i + start) % 7]);
        }
        for (unsigned i = 0; i < 60; i++)
            expect_completion(&pair, pair.a.tx, &done);
        pair_close(&pair);
    }
}

static void a_full_queue_says_again_and_loses_nothing(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    unsigned posted = 0;

    pair_open(&pair, &(struct options){.tx_size = 16, .spec = "tcp(max_saved_size=1k)"});
    while (posted < 1000) {
        out[posted % BIG] = (uint8_t)posted;
        ssize_t rc = fi_send(pair.a.ep, out, BIG / 4, NULL, 0, (void *)(uintptr_t)posted);
        if (rc == -FI_EAGAIN)
            break;
        assert_int_equal(rc, 0);
        posted++;
    }
    assert_true(posted >= 16 && posted < 1000);
    for (unsigned i = 0; i < posted; i++) {
        assert_int_equal(fi_recv(pair.b.ep, in, BIG, NULL, 0, NULL), 0);
        expect_completion(&pair, pair.b.rx, &done);
        assert_int_equal(done.len, BIG / 4);
    }
    for (unsigned i = 0; i < posted; i++) {
        expect_completion(&pair, pair.a.tx, &done);
        assert_int_equal((uintptr_t)done.op_context, i);
    }
    assert_int_equal(fi_send(pair.a.ep, out, 8, NULL, 0, NULL), 0);
    pair_close(&pair);
}

/* ---- Tags ---- */

static void match_tags(const struct options *options)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, options);
    struct fid_ep *rx = options->shared ? pair.b.srx : pair.b.ep;
    for (unsigned i = 0; i < 10; i++) {
        fill(out, 5000, i);
        assert_int_equal(fi_tsend(pair.a.ep, out, 1000 * (i % 6), NULL, 0, i, NULL), 0);
        expect_completion(&pair, pair.a.tx, &done);
        assert_int_equal(done.flags, FI_SEND | FI_TAGGED);
    }
    settle(&pair);
    for (unsigned i = 10; i-- > 0;) {
        assert_int_equal(fi_trecv(rx, in, 5000, NULL, 0, i, 0, NULL), 0);
        expect_completion(&pair, pair.b.rx, &done);
        assert_int_equal(done.tag, i);
        assert_int_equal(done.len, 1000 * (i % 6));
        assert_int_equal(done.flags, FI_RECV | FI_TAGGED);
        check_filled(in, done.len, i);
    }
    assert_int_equal(fi_recv(rx, in, 100, NULL, 0, in), 0);
    assert_int_equal(fi_trecv(rx, in + 100, 100, NULL, 0, 0x70, 0xf, out), 0);
    assert_int_equal(fi_tinjectdata(pair.a.ep, out, 5, 99, 0, 0x7a), 0);
    expect_completion(&pair, pair.b.rx, &done);
    assert_ptr_equal(done.op_context, out);
    assert_int_equal(done.data, 99);
    assert_int_equal(done.tag, 0x7a);
    assert_int_equal(fi_inject(pair.a.ep, out, 5, 0), 0);
    expect_completion(&pair, pair.b.rx, &done);
    assert_ptr_equal(done.op_context, in);
    pair_close(&pair);
}

static void tags_match_whatever_the_order(void **state)
{
    match_tags(&(struct options){.shared = true});
}

static void tags_match_in_a_queue_of_the_endpoint_too(void **state)
{
    match_tags(&(struct options){.caps = FI_TAGGED});
}

static void open_rendezvous(struct pair *pair)
{
    const uint32_t version = 1;

    pair_open(pair, &(struct options){.shared = true, .spec = "tcp(rndv_size=1k)"});
    assert_int_equal(fi_setopt(&pair->a.ep->fid, FI_OPT_ENDPOINT, OPT_PEER_WIRE_VERSION, &version,
                               sizeof(version)),
                     0);
}

static void large_tagged_messages_wait_at_the_sender(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;
    struct iovec iov = {out, 50000};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .tag = 2, .data = 5};

    open_rendezvous(&pair);
    fill(out, BIG, 1);
    assert_int_equal(fi_tsend(pair.a.ep, out, BIG, NULL, 0, 1, NULL), 0);
    assert_int_equal(fi_tsendmsg(pair.a.ep, &msg, FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA), 0);
    assert_int_equal(fi_tsend(pair.a.ep, out, 10, NULL, 0, 3, out), 0);
    assert_int_equal(fi_tsend(pair.a.ep, out, 3000, NULL, 0, 4, NULL), 0);
    expect_completion(&pair, pair.a.tx, &done);
    assert_ptr_equal(done.op_context, out);
    settle(&pair);
    expect_nothing(pair.a.tx);

    assert_int_equal(fi_trecv(pair.b.srx, in, 100, NULL, 0, 3, 0, NULL), 0);
    expect_completion(&pair, pair.b.rx, &done);
    assert_int_equal(done.len, 10);
    assert_int_equal(fi_trecv(pair.b.srx, in, BIG, NULL, 0, 2, 0, NULL), 0);
    expect_completion(&pair, pair.b.rx, &done);
    assert_int_equal(done.len, 50000);
    assert_int_equal(done.data, 5);
    assert_int_equal(done.tag, 2);
    check_filled(in, 50000, 1);
    expect_completion(&pair, pair.a.tx, &done);
    memset(in, 0, BIG);
    assert_int_equal(fi_trecv(pair.b.srx, in, BIG, NULL, 0, 1, 0, NULL), 0);
    expect_completion(&pair, pair.b.rx, &done);
    assert_int_equal(done.len, BIG);
    check_filled(in, BIG, 1);
    expect_completion(&pair, pair.a.tx, &done);
    assert_int_equal(fi_trecv(pair.b.srx, in, 100, NULL, 0, 4, 0, NULL), 0);
    assert_int_equal(expect_failure(&pair, pair.b.rx, &error), FI_ETRUNC);
    expect_completion(&pair, pair.a.tx, &done);
    pair_close(&pair);
}

static void all_contexts_of_rendezvous_can_be_open(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    unsigned open = 0;

    open_rendezvous(&pair);
    while (fi_tsend(pair.a.ep, out, 2000, NULL, 0, open, NULL) == 0)
        open++;
    assert_int_equal(open, 254);
    settle(&pair);
    for (unsigned i = open; i-- > 0;) {
        assert_int_equal(fi_trecv(pair.b.srx, in, 2000, NULL, 0, i, 0, NULL), 0);
        expect_completion(&pair, pair.b.rx, &done);
        assert_int_equal(done.tag, i);
        expect_completion(&pair, pair.a.tx, &done);
    }
    assert_int_equal(fi_tsend(pair.a.ep, out, 2000, NULL, 0, 1, NULL), 0);
    pair_close(&pair);
}

/* ---- Remote access ---- */

static struct fid_mr *expose(struct side *side, void *buf, size_t len, uint64_t access,
                             uint64_t key)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(side->domain, buf, len, access, 0, key, 0, &mr, NULL), 0);
    return mr;
}

static void remote_memory_is_written_and_read(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){0});
    struct fid_mr *mr = expose(&pair.b, in, BIG, FI_REMOTE_READ | FI_REMOTE_WRITE, 0xabc);
    uint64_t writes = 0;
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
        size_t len = sizes[i];

        fill(out, len, i);
        memset(in, 0, BIG);
        assert_int_equal(fi_write(pair.a.ep, out, len, NULL, 0, 0, 0xabc, out), 0);
        expect_completion(&pair, pair.a.tx, &done);
        assert_int_equal(done.flags, FI_WRITE | FI_RMA);
        memset(out, 0, len);
        assert_int_equal(fi_read(pair.a.ep, out, len, NULL, 0, 0, 0xabc, in), 0);
        expect_completion(&pair, pair.a.tx, &done);
        assert_int_equal(done.flags, FI_READ | FI_RMA);
        check_filled(in, len, i);
        check_filled(out, len, i);
        assert_int_equal(fi_cntr_read(pair.b.remote_writes), ++writes);
    }
    expect_nothing(pair.b.rx);
    fill(out, 1000, 42);
    assert_int_equal(fi_writedata(pair.a.ep, out, 1000, NULL, 7, 0, 500, 0xabc, NULL), 0);
    expect_completion(&pair, pair.b.rx, &done);
    assert_int_equal(done.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    assert_int_equal(done.data, 7);
    assert_int_equal(done.len, 1000);
    check_filled(in + 500, 1000, 42);
    assert_int_equal(fi_inject_write(pair.a.ep, out, 100, 0, 0, 0xabc), 0);
    assert_int_equal(fi_inject_writedata(pair.a.ep, out, 100, 8, 0, 0, 0xabc), 0);
    expect_completion(&pair, pair.b.rx, &done);
    assert_int_equal(done.data, 8);
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

/* FI_ORDER_RAR where the answers have to wait: the small one is not taken from memory before the
 * large one in front of it. */
static void a_small_read_is_no_older_than_the_large_one_before(void **state)
{
    enum {
        FILLS = 32 << 20, /* more than two sockets hold */
        LARGE = 1 << 20,
    };
    struct pair pair;
    struct fi_cq_tagged_entry done;
    uint64_t *memory = calloc(1, FILLS), *filler = malloc(FILLS), *large = malloc(LARGE), small = 0;

    assert_true(memory && filler && large);
    pair_open(&pair, &(struct options){0});
    struct fid_mr *mr = expose(&pair.b, memory, FILLS, FI_REMOTE_READ, 1);
    *memory = 1;
    assert_int_equal(fi_read(pair.a.ep, filler, FILLS, NULL, 0, 0, 1, filler), 0);
    assert_int_equal(fi_read(pair.a.ep, large, LARGE, NULL, 0, 0, 1, large), 0);
    assert_int_equal(fi_read(pair.a.ep, &small, sizeof(small), NULL, 0, 0, 1, &small), 0);
    /* The requests leave, and the answers until the sockets are full. */
    expect_nothing(pair.a.tx);
    for (int i = 0; i < 1000; i++)
        expect_nothing(pair.b.rx);
    *memory = 2;
    for (int i = 0; i < 3; i++)
        expect_completion(&pair, pair.a.tx, &done);
    assert_int_equal(*filler, 1);
    assert_int_equal(*large, 2);
    assert_int_equal(small, 2);
    fi_close(&mr->fid);
    pair_close(&pair);
    free(memory);
    free(filler);
    free(large);
}

static void segments_of_remote_access_may_differ(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    struct iovec local[3] = {{out, 100}, {out + 100, 20000}, {out + 20100, 5}};
    struct fi_rma_iov remote[3] = {{0, 1, 1}, {10, 20000, 2}, {50, 104, 1}};
    struct fi_msg_rma msg = {
        .msg_iov = local, .iov_count = 3, .rma_iov = remote, .rma_iov_count = 3, .data = 3};

    pair_open(&pair, &(struct options){0});
    struct fid_mr *first = expose(&pair.b, in, 1000, FI_REMOTE_READ | FI_REMOTE_WRITE, 1);
    struct fid_mr *second = expose(&pair.b, in + 1000, 30000, FI_REMOTE_READ | FI_REMOTE_WRITE, 2);
    fill(out, 20105, 5);
    for (int level = 0; level < 2; level++) {
        uint64_t flags = level ? FI_COMMIT_COMPLETE : FI_DELIVERY_COMPLETE;

        assert_int_equal(fi_writemsg(pair.a.ep, &msg, flags | FI_REMOTE_CQ_DATA), 0);
        expect_completion(&pair, pair.a.tx, &done);
        expect_completion(&pair, pair.b.rx, &done);
        assert_int_equal(done.len, 20105);
    }
    assert_int_equal(in[0], out[0]);
    assert_memory_equal(in + 1010, out + 1, 20000);
    assert_memory_equal(in + 50, out + 20001, 104);
    memset(out, 0, 20105);
    assert_int_equal(fi_readmsg(pair.a.ep, &msg, 0), 0);
    expect_completion(&pair, pair.a.tx, &done);
    check_filled(out, 20105, 5);
    remote[0].len = 2;
    assert_int_equal(fi_writemsg(pair.a.ep, &msg, 0), -FI_EINVAL);
    assert_int_equal(fi_close(&first->fid), 0);
    assert_int_equal(fi_close(&second->fid), 0);
    pair_close(&pair);
}

static void access_out_of_bounds_ends_the_connection(void **state)
{
    struct pair pair;
    struct fi_cq_err_entry error;
    struct fi_eq_cm_entry entry;

    for (int i = 0; i < 5; i++) {
        pair_open(&pair, &(struct options){0});
        struct fid_mr *mr = expose(&pair.b, in, 100, i < 3 ? FI_REMOTE_WRITE : FI_REMOTE_READ, 9);
        memset(in, 1, 200);
        memset(out, 2, 200);
        ssize_t rc = i == 0   ? fi_read(pair.a.ep, out, 10, NULL, 0, 0, 9, out)
                     : i == 1 ? fi_read(pair.a.ep, out, 10, NULL, 0, 0, 8, out)
                     : i == 2 ? fi_read(pair.a.ep, out, 101, NULL, 0, 0, 9, out)
                     : i == 3 ? fi_read(pair.a.ep, out, 10, NULL, 0, UINT64_MAX - 5, 9, out)
                              : fi_read(pair.a.ep, out, 1, NULL, 0, 100, 9, out);
        assert_int_equal(rc, 0);
        expect_failure(&pair, pair.a.tx, &error);
        assert_ptr_equal(error.op_context, out);
        assert_int_equal(error.flags, FI_READ | FI_RMA);
        expect_event(&pair, FI_SHUTDOWN, &entry);
        expect_event(&pair, FI_SHUTDOWN, &entry);
        assert_int_equal(in[100], 1);
        assert_int_equal(out[0], 2);
        assert_int_equal(fi_close(&mr->fid), 0);
        pair_close(&pair);
    }
}

/* A fenced operation leaves when all before it are over. */
static void a_fence_waits(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    struct iovec iov = {out, 8};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = in};

    pair_open(&pair, &(struct options){0});
    struct fid_mr *mr = expose(&pair.b, in, 100, FI_REMOTE_READ, 9);
    assert_int_equal(fi_recv(pair.b.ep, in + 200, 8, NULL, 0, NULL), 0);
    assert_int_equal(fi_read(pair.a.ep, out + 100, 10, NULL, 0, 0, 9, out), 0);
    assert_int_equal(fi_sendmsg(pair.a.ep, &msg, FI_FENCE), 0);
    expect_nothing(pair.a.tx);
    expect_completion(&pair, pair.a.tx, &done);
    assert_ptr_equal(done.op_context, out);
    expect_completion(&pair, pair.a.tx, &done);
    assert_ptr_equal(done.op_context, in);
    expect_completion(&pair, pair.b.rx, &done);
    assert_int_equal(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

/* Everything at once, both ways, small and large: nothing is lost or out of order. */
static void traffic_both_ways_stays_in_order(void **state)
{
    enum {
        COUNT = 3000,
        SLOTS = 64
    };
    struct pair pair;
    struct fi_cq_tagged_entry done;
    static uint32_t slots[2][SLOTS][400];
    static uint32_t messages[2][SLOTS][400];
    unsigned sent[2] = {0}, ended[2] = {0}, posted[2] = {0}, got[2] = {0};

    pair_open(&pair, &(struct options){0});
    struct side *sides[2] = {&pair.a, &pair.b};
    long long until = now_ms() + 60000;
    while ((got[0] < COUNT || got[1] < COUNT) && now_ms() < until) {
        for (int s = 0; s < 2; s++) {
            while (posted[s] < got[s] + SLOTS && posted[s] < COUNT) {
                assert_int_equal(fi_recv(sides[s]->ep, slots[s][posted[s] % SLOTS],
                                         sizeof(slots[s][0]), NULL, 0, NULL),
                                 0);
                posted[s]++;
            }
            while (sent[s] < ended[s] + SLOTS && sent[s] < COUNT) {
                uint32_t *message = messages[s][sent[s] % SLOTS];
                message[0] = sent[s];
                if (fi_send(sides[s]->ep, message, 4 + sent[s] % 1500, NULL, 0, NULL))
                    break;
                sent[s]++;
            }
            while (fi_cq_read(sides[s]->tx, &done, 1) == 1)
                ended[s]++;
            while (fi_cq_read(sides[s]->rx, &done, 1) == 1) {
                assert_int_equal(done.len, 4 + got[s] % 1500);
                assert_int_equal(slots[s][got[s] % SLOTS][0], got[s]);
                got[s]++;
            }
        }
    }
    assert_int_equal(got[0], COUNT);
    assert_int_equal(got[1], COUNT);
    pair_close(&pair);
}

static void a_thread_makes_progress(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){.automatic = true});
    for (int i = 0; i < 200; i++) {
        fill(out, 100000, (unsigned)i);
        assert_int_equal(fi_recv(pair.b.ep, in, BIG, NULL, 0, NULL), 0);
        assert_int_equal(fi_send(pair.a.ep, out, 100000, NULL, 0, NULL), 0);
        assert_int_equal(fi_cq_sread(pair.b.rx, &done, 1, NULL, 60000), 1);
        check_filled(in, 100000, (unsigned)i);
        assert_int_equal(fi_cq_sread(pair.a.tx, &done, 1, NULL, 60000), 1);
    }
    pair_close(&pair);
}

/* ---- Many connections ---- */

enum {
    MANY = 24
};

/* All of them busy in turn: none is forgotten when others are hot. */
static void many_connections_share_queues_and_a_context(void **state)
{
    struct pair pair;
    struct fid_ep *a[MANY], *b[MANY];
    struct fi_cq_tagged_entry done;

    pair_open(&pair, &(struct options){.shared = true});
    for (int i = 0; i < MANY; i++)
        connect_another(&pair, &a[i], &b[i]);
    for (unsigned round = 0; round < 60; round++) {
        uint64_t seen = 0;

        for (unsigned i = 0; i < MANY; i++) {
            struct fid_ep *from = round % 2 ? a[i] : b[i];

            for (unsigned again = 0; again < (i < 3 ? 20 : 1); again++)
                assert_int_equal(fi_tinject(from, out, i, 0, again ? 99 : i), 0);
        }
        struct side *to = round % 2 ? &pair.b : &pair.a;
        for (unsigned i = 0; i < MANY; i++)
            assert_int_equal(fi_trecv(to->srx, in, 100, NULL, 0, i, 0, NULL), 0);
        for (unsigned i = 0; i < 3 * 19; i++)
            assert_int_equal(fi_trecv(to->srx, in, 100, NULL, 0, 99, 0, NULL), 0);
        for (unsigned i = 0; i < MANY + 3 * 19; i++) {
            expect_completion(&pair, to->rx, &done);
            if (done.tag == 99)
                continue;
            assert_int_equal(done.len, done.tag);
            seen |= 1u << done.tag;
        }
        assert_int_equal(seen, (1u << MANY) - 1);
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(fi_close(&a[i]->fid), 0);
        assert_int_equal(fi_close(&b[i]->fid), 0);
    }
    pair_close(&pair);
}

/* ---- Sleeping ---- */

struct sender {
    struct pair *pair;
    int count;
};

/* Sends now in bursts, so that the receiver is busy, now after a pause, so that it sleeps. */
static void *send_at_times(void *arg)
{
    struct sender *sender = arg;

    for (int i = 0; i < sender->count; i++) {
        struct fi_cq_tagged_entry done;

        if (i % 50 >= 40)
            usleep(2000);
        while (fi_send(sender->pair->a.ep, out, 100, NULL, 0, NULL) == -FI_EAGAIN)
            ;
        while (fi_cq_read(sender->pair->a.tx, &done, 1) == -FI_EAGAIN)
            ;
    }
    return NULL;
}

static void sleep_on_fd(struct pair *pair, int fd)
{
    struct fid *fid = &pair->b.rx->fid;
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    if (fi_trywait(pair->fabric, &fid, 1) == 0)
        assert_int_equal(poll(&wait, 1, 60000), 1);
}

static void a_sleeping_reader_wakes(void **state)
{
    enum {
        COUNT = 300
    };
    struct pair pair;

    for (int by_fd = 0; by_fd < 2; by_fd++) {
        struct sender sender = {.pair = &pair, .count = COUNT};
        struct fi_cq_tagged_entry done;
        pthread_t thread;
        int fd = -1;

        pair_open(&pair, &(struct options){0});
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(fi_recv(pair.b.ep, in, 100, NULL, 0, NULL), 0);
        assert_int_equal(fi_control(&pair.b.rx->fid, FI_GETWAIT, &fd), 0);
        assert_int_equal(pthread_create(&thread, NULL, send_at_times, &sender), 0);
        for (int i = 0; i < COUNT;) {
            ssize_t rc = by_fd ? fi_cq_read(pair.b.rx, &done, 1)
                               : fi_cq_sread(pair.b.rx, &done, 1, NULL, 60000);

            if (rc == 1)
                i++;
            else if (by_fd && rc == -FI_EAGAIN)
                sleep_on_fd(&pair, fd);
            else
                fail_msg("read: %s", fi_strerror((int)-rc));
        }
        pthread_join(thread, NULL);
        pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_all_sizes_arrive),
        cmocka_unit_test(every_form_of_send_arrives),
        cmocka_unit_test(delivery_complete_waits_for_the_target),
        cmocka_unit_test(selective_completion_reports_what_was_asked),
        cmocka_unit_test(a_message_too_long_is_cut_and_the_next_arrives),
        cmocka_unit_test(one_buffer_takes_many_messages),
        cmocka_unit_test(unexpected_messages_do_not_block),
        cmocka_unit_test(the_bound_of_saved_messages_holds_the_stream),
        cmocka_unit_test(a_full_queue_says_again_and_loses_nothing),
        cmocka_unit_test(tags_match_whatever_the_order),
        cmocka_unit_test(tags_match_in_a_queue_of_the_endpoint_too),
        cmocka_unit_test(large_tagged_messages_wait_at_the_sender),
        cmocka_unit_test(all_contexts_of_rendezvous_can_be_open),
        cmocka_unit_test(remote_memory_is_written_and_read),
        cmocka_unit_test(a_small_read_is_no_older_than_the_large_one_before),
        cmocka_unit_test(segments_of_remote_access_may_differ),
        cmocka_unit_test(access_out_of_bounds_ends_the_connection),
        cmocka_unit_test(a_fence_waits),
        cmocka_unit_test(traffic_both_ways_stays_in_order),
        cmocka_unit_test(many_connections_share_queues_and_a_context),
        cmocka_unit_test(a_thread_makes_progress),
        cmocka_unit_test(a_sleeping_reader_wakes),
    };
    return cmocka_run_group_tests_name("tcp data", tests, make_buffers, free_buffers);
}
