/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts of a scalable endpoint that are opened late and closed early, and a peer without any. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "../../support/end.h"

enum {
    LARGE = 1 << 20,
    BITS = 2,
    CONTEXTS = 3,
    TURNS = 20000,
    TAG = 7,
};

static struct end plain; /* without contexts; ep, cq and av of the others are in `many` */
static struct {
    struct fid_ep *sep, *tx[CONTEXTS], *rx[CONTEXTS];
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t peer;
} many;
static fi_addr_t to_many;
static char out[LARGE], in[LARGE];

static struct fi_info *find(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    assert_non_null(hints);
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_NAMED_RX_CTX | FI_DIRECTED_RECV | FI_SOURCE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL;
    setenv("FI_PROVIDER", "rxd;loop(shape=srd,seed=11)", 1);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

static struct fid_av *open_av(void)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .rx_ctx_bits = BITS};
    struct fid_av *av;

    assert_int_equal(fi_av_open(plain.domain, &attr, &av, NULL), 0);
    return av;
}

static void enable(struct fid_ep *context, uint64_t flags)
{
    assert_int_equal(fi_ep_bind(context, &many.cq->fid, flags), 0);
    assert_int_equal(fi_enable(context), 0);
}

static void open_tx(int index)
{
    assert_int_equal(fi_tx_context(many.sep, index, NULL, &many.tx[index], NULL), 0);
    enable(many.tx[index], FI_TRANSMIT);
}

static void open_rx(int index)
{
    assert_int_equal(fi_rx_context(many.sep, index, NULL, &many.rx[index], NULL), 0);
    enable(many.rx[index], FI_RECV);
}

static void shut(struct fid_ep **context)
{
    if (*context)
        assert_int_equal(fi_close(&(*context)->fid), 0);
    *context = NULL;
}

/* One domain; the plain endpoint's AV is one that knows of contexts. */
static int open_all(void **state)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    char name[64];
    size_t len = sizeof(name);

    end_open(&plain, find(), FI_CQ_FORMAT_TAGGED);
    assert_int_equal(fi_close(&plain.ep->fid), 0);
    assert_int_equal(fi_close(&plain.av->fid), 0);
    plain.av = open_av();
    assert_int_equal(fi_endpoint(plain.domain, plain.info, &plain.ep, NULL), 0);
    assert_int_equal(fi_ep_bind(plain.ep, &plain.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(plain.ep, &plain.av->fid, 0), 0);
    assert_int_equal(fi_enable(plain.ep), 0);
    many.av = open_av();
    assert_int_equal(fi_cq_open(plain.domain, &attr, &many.cq, NULL), 0);
    plain.info->ep_attr->tx_ctx_cnt = plain.info->ep_attr->rx_ctx_cnt = CONTEXTS;
    assert_int_equal(fi_scalable_ep(plain.domain, plain.info, &many.sep, NULL), 0);
    assert_int_equal(fi_scalable_ep_bind(many.sep, &many.av->fid, 0), 0);
    assert_int_equal(fi_enable(many.sep), 0);
    open_tx(0);
    open_rx(0);
    assert_int_equal(fi_getname(&plain.ep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(many.av, name, 1, &many.peer, 0, NULL), 1);
    len = sizeof(name);
    assert_int_equal(fi_getname(&many.sep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(plain.av, name, 1, &to_many, 0, NULL), 1);
    memset(out, 'm', sizeof(out));
    memset(in, 0, sizeof(in));
    return 0;
}

static int close_all(void **state)
{
    for (int i = 0; i < CONTEXTS; i++) {
        shut(&many.tx[i]);
        shut(&many.rx[i]);
    }
    assert_int_equal(fi_close(&many.sep->fid), 0);
    assert_int_equal(fi_close(&many.cq->fid), 0);
    assert_int_equal(fi_close(&many.av->fid), 0);
    end_close(&plain);
    return 0;
}

static ssize_t look(struct fid_cq *cq, struct fi_cq_err_entry *entry)
{
    ssize_t n = fi_cq_read(cq, entry, 1); /* an entry in error begins as the others do */

    if (n == -FI_EAVAIL)
        assert_int_equal(fi_cq_readerr(cq, entry, 0), 1);
    else if (n == 1)
        entry->err = 0;
    return n == -FI_EAVAIL ? 1 : n;
}

/* The next completion there; drives both. */
static struct fi_cq_err_entry next(struct fid_cq *cq)
{
    struct fi_cq_err_entry entry = {0};

    for (int i = 0; i < TURNS; i++) {
        fi_cq_read(cq == plain.cq ? many.cq : plain.cq, NULL, 0);
        if (look(cq, &entry) == 1)
            return entry;
    }
    fail_msg("no completion");
    return entry;
}

static void turn(void)
{
    struct fi_cq_err_entry entry = {0};

    for (int i = 0; i < 200; i++) {
        assert_int_equal(look(plain.cq, &entry), -FI_EAGAIN);
        assert_int_equal(look(many.cq, &entry), -FI_EAGAIN);
    }
}

static void send_to(fi_addr_t addr, size_t len)
{
    assert_int_equal(fi_tsend(plain.ep, out, len, NULL, addr, TAG, NULL), 0);
}

static void receive(struct fid_ep *ep, size_t len)
{
    assert_int_equal(fi_trecv(ep, in, len, NULL, FI_ADDR_UNSPEC, TAG, 0, in), 0);
}

/* Nothing comes before its context; a later message for another one does not wait for it. */
static void messages_wait_for_their_context(void **state)
{
    const size_t sizes[] = {8, LARGE};

    send_to(to_many, 8);
    next(plain.cq);
    receive(many.rx[0], 8);
    next(many.cq);
    for (int i = 0; i < 2; i++) {
        send_to(fi_rx_addr(to_many, 2, BITS), sizes[i]);
        if (sizes[i] == 8)
            next(plain.cq);
        turn();
        receive(many.rx[0], 4);
        send_to(to_many, 4);
        next(plain.cq);
        assert_int_equal(next(many.cq).len, 4);
        open_rx(2);
        receive(many.rx[2], sizes[i]);
        assert_int_equal(next(many.cq).len, sizes[i]);
        assert_memory_equal(in, out, sizes[i]);
        if (sizes[i] != 8)
            assert_int_equal(next(plain.cq).err, 0);
        shut(&many.rx[2]);
    }
}

/* An endpoint has its context 0, a scalable one those that it was opened with. */
static void context_that_cannot_be_is_refused(void **state)
{
    char name[64];
    size_t len = sizeof(name);
    fi_addr_t self;

    assert_int_equal(fi_getname(&plain.ep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(many.av, name, 1, &self, 0, NULL), 1);
    assert_int_equal(fi_tsend(many.tx[0], out, LARGE, NULL, fi_rx_addr(self, 1, BITS), TAG, NULL),
                     0);
    assert_int_equal(next(many.cq).err, FI_ECONNREFUSED);
    assert_int_equal(fi_write(many.tx[0], out, 8, NULL, fi_rx_addr(self, 1, BITS), 0, 1, NULL), 0);
    assert_int_equal(next(many.cq).err, FI_ECONNREFUSED);
    send_to(fi_rx_addr(to_many, 3, BITS), LARGE);
    assert_int_equal(next(plain.cq).err, FI_ECONNREFUSED);
}

/* A context that closes takes its messages along; the others, and their peers, go on. */
static void closed_sender_leaves_no_receive_waiting(void **state)
{
    open_tx(1);
    assert_int_equal(fi_tsend(many.tx[1], out, LARGE, NULL, many.peer, TAG, NULL), 0);
    turn();
    shut(&many.tx[1]);
    turn();
    receive(plain.ep, LARGE);
    assert_int_equal(next(plain.cq).err, FI_ECONNRESET);
    receive(plain.ep, LARGE);
    assert_int_equal(fi_tsend(many.tx[0], out, LARGE, NULL, many.peer, TAG, NULL), 0);
    assert_int_equal(next(plain.cq).err, 0);
    assert_int_equal(next(many.cq).err, 0);
}

/* One whose bytes are on their way, too. */
static void sender_closes_while_its_bytes_are_asked_for(void **state)
{
    struct fi_cq_err_entry entry = {0};
    int came;

    open_tx(1);
    receive(plain.ep, LARGE);
    assert_int_equal(fi_tsend(many.tx[1], out, LARGE, NULL, many.peer, TAG, NULL), 0);
    came = look(plain.cq, &entry) == 1; /* this thread may have slept */
    shut(&many.tx[1]);
    if (!came)
        entry = next(plain.cq);
    assert_true(!entry.err || entry.err == FI_ECONNRESET);
    receive(plain.ep, 8);
    assert_int_equal(fi_tsend(many.tx[0], out, 8, NULL, many.peer, TAG, NULL), 0);
    while (next(plain.cq).len != 8)
        ;
}

/* Its receives get nothing more, and its senders hear that it is over. */
static void closed_receiver_ends_its_messages(void **state)
{
    struct fi_cq_err_entry entry = {0};

    open_rx(1);
    receive(many.rx[1], LARGE);
    send_to(fi_rx_addr(to_many, 1, BITS), LARGE);
    while (!in[2048 + 8] && look(many.cq, &entry) != 1)
        ;
    shut(&many.rx[1]);
    memset(in, 0, sizeof(in));
    next(plain.cq);
    while (look(many.cq, &entry) == 1) /* it may have come whole, while this thread slept */
        assert_int_equal(entry.err, 0);
    assert_int_equal(in[LARGE - 1], 0);
    open_rx(1); /* and one that waits for its receive */
    send_to(fi_rx_addr(to_many, 1, BITS), LARGE);
    turn();
    shut(&many.rx[1]);
    next(plain.cq);
}

/* A receive of one context names its sender as those of an endpoint do; a counter counts there. */
static void receives_name_their_sender_and_are_counted(void **state)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;
    char name[64], wrong = 0;
    size_t len = sizeof(name);
    fi_addr_t self;

    assert_int_equal(fi_getname(&many.sep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(many.av, name, 1, &self, 0, NULL), 1);
    assert_int_equal(fi_cntr_open(plain.domain, &attr, &cntr, NULL), 0);
    assert_int_equal(fi_rx_context(many.sep, 1, NULL, &many.rx[1], NULL), 0);
    assert_int_equal(fi_ep_bind(many.rx[1], &cntr->fid, FI_RECV), 0);
    enable(many.rx[1], FI_RECV);
    assert_int_equal(fi_trecv(many.rx[1], &wrong, 1, NULL, self, TAG, 0, &wrong), 0);
    assert_int_equal(fi_trecv(many.rx[1], in, 8, NULL, many.peer, TAG, 0, in), 0);
    send_to(fi_rx_addr(to_many, 1, BITS), 8);
    assert_ptr_equal(next(many.cq).op_context, in);
    assert_int_equal(fi_cntr_read(cntr), 1);
    assert_int_equal(fi_tinject(many.tx[0], out, 1, fi_rx_addr(self, 1, BITS), TAG), 0);
    assert_ptr_equal(next(many.cq).op_context, &wrong);
    assert_int_equal(fi_cntr_read(cntr), 2);
    shut(&many.rx[1]);
    assert_int_equal(fi_close(&cntr->fid), 0);
}

/* Two contexts take receives from one, and a message that came to either waits there. */
static void contexts_share_their_receives(void **state)
{
    struct fid_ep *srx;

    assert_int_equal(fi_srx_context(plain.domain, NULL, &srx, NULL), 0);
    for (int i = 1; i < CONTEXTS; i++) {
        assert_int_equal(fi_rx_context(many.sep, i, NULL, &many.rx[i], NULL), 0);
        assert_int_equal(fi_ep_bind(many.rx[i], &srx->fid, 0), 0);
        enable(many.rx[i], FI_RECV);
    }
    for (int i = 1; i < CONTEXTS; i++) {
        receive(srx, 8);
        send_to(fi_rx_addr(to_many, i, BITS), 8);
        assert_int_equal(next(many.cq).len, 8);
    }
    send_to(fi_rx_addr(to_many, 2, BITS), LARGE);
    send_to(fi_rx_addr(to_many, 1, BITS), LARGE);
    for (int i = 0; i < 100; i++)
        fi_cq_read(many.cq, NULL, 0);
    shut(&many.rx[2]);
    receive(srx, LARGE);
    assert_int_equal(next(many.cq).len, LARGE);
    shut(&many.rx[1]);
    assert_int_equal(fi_close(&srx->fid), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_wait_for_their_context),
        TEST(context_that_cannot_be_is_refused),
        TEST(closed_sender_leaves_no_receive_waiting),
        TEST(sender_closes_while_its_bytes_are_asked_for),
        TEST(closed_receiver_ends_its_messages),
        TEST(receives_name_their_sender_and_are_counted),
        TEST(contexts_share_their_receives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
