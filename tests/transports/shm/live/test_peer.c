/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints whose queues, receives and counters are an upper's (FI_PEER): all that they have to say
 * is in the upper's tables. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "ends.h"
#include "upper.h"

enum {
    KEY = 5,
    DATA = 0xabcd,
    MANY = 2000,
    LIMIT = 10000000,
};

/* Alone, and where each call goes through a layer. */
static const char *const specs[] = {"shm", "shm(cma=off)", "noop;shm"};
static const size_t sizes[] = {0, 8, 1500, 20000, UPPER_BYTES};
static const uint64_t counts[] = {FI_SEND, FI_RECV,         FI_WRITE,
                                  FI_READ, FI_REMOTE_WRITE, FI_REMOTE_READ};

enum {
    COUNTS = sizeof(counts) / sizeof(counts[0]),
    SENT = 0,
    RECEIVED,
    WRITTEN,
    READ,
    WRITTEN_HERE,
    READ_HERE,
};

/* One endpoint's. */
struct tables {
    struct upper_queue queue;
    struct upper_count count[COUNTS];
    struct fid_cntr *cntr[COUNTS];
};

/* a sends, and knows b; both have tables, and b receives through the upper's context. */
static struct upper upper;
static struct tables of_a, of_b;
static struct end a, b;
static fi_addr_t to_b;
static char out[UPPER_BYTES], in[UPPER_BYTES];

static void open_counters(struct end *end, struct tables *tables)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .flags = FI_PEER};

    for (int i = 0; i < COUNTS; i++) {
        struct fi_peer_cntr_context context = {.size = sizeof(context),
                                               .cntr = &tables->count[i].cntr};

        upper_count_init(&tables->count[i]);
        assert_int_equal(fi_cntr_open(end->domain, &attr, &tables->cntr[i], &context), 0);
        assert_int_equal(fi_ep_bind(end->ep, &tables->cntr[i]->fid, counts[i]), 0);
    }
}

static void prepare_a(struct end *end)
{
    open_counters(end, &of_a);
}

static void prepare_b(struct end *end)
{
    open_counters(end, &of_b);
}

static void open_pair(const char *spec)
{
    struct end_want want = {.caps =
                                FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_SOURCE,
                            .control = FI_PROGRESS_CONTROL_UNIFIED, /* as an upper opens it */
                            .peer_cq = &of_a.queue.cq,
                            .prepare = prepare_a};

    upper_init(&upper);
    upper_queue_init(&of_a.queue);
    upper_queue_init(&of_b.queue);
    end_open_as(&a, spec, &want);
    want.peer_cq = &of_b.queue.cq;
    want.prepare = prepare_b;
    want.shared = true;
    want.peer_srx = &upper.srx;
    end_open_as(&b, spec, &want);
    assert_non_null(upper.srx.peer_ops);
    to_b = end_introduce(&a, &b);
}

/* Counters cannot go before the endpoint, nor the domain before them. */
static void close_one(struct end *end, struct tables *tables)
{
    assert_int_equal(fi_close(&end->ep->fid), 0);
    end->ep = NULL;
    for (int i = 0; i < COUNTS; i++)
        assert_int_equal(fi_close(&tables->cntr[i]->fid), 0);
    end_close(end);
    end->fabric = NULL;
}

static void close_pair(void)
{
    if (a.fabric)
        close_one(&a, &of_a);
    if (b.fabric)
        close_one(&b, &of_b);
    assert_int_equal(upper.live, 0);
    assert_int_equal(of_a.queue.count, 0);
    assert_int_equal(of_b.queue.count, 0);
}

/* ---- Driving ---- */

static void drive(void)
{
    if (a.fabric)
        fi_cq_read(a.cq, NULL, 0);
    if (b.fabric)
        fi_cq_read(b.cq, NULL, 0);
}

static struct upper_done wait_for(struct tables *tables)
{
    struct upper_done done;
    int i = 0;

    while (!upper_queue_take(&tables->queue, &done)) {
        assert_true(i++ < LIMIT);
        drive();
    }
    return done;
}

static void wait_for_question(unsigned count)
{
    for (int i = 0; upper.asked < count; i++) {
        assert_true(i < LIMIT);
        drive();
    }
}

#define post(expr)                                                                                 \
    do {                                                                                           \
        ssize_t rc_;                                                                               \
        while ((rc_ = (expr)) == -FI_EAGAIN)                                                       \
            drive();                                                                               \
        assert_int_equal(rc_, 0);                                                                  \
    } while (0)

static void send_one(uint64_t kind, size_t len, uint64_t tag)
{
    if (kind == FI_TAGGED)
        post(fi_tsenddata(a.ep, out, len, NULL, DATA, to_b, tag, out));
    else
        post(fi_senddata(a.ep, out, len, NULL, DATA, to_b, out));
}

/* ---- Messages ---- */

static void is_received(uint64_t kind, size_t len, uint64_t tag, fi_addr_t src)
{
    struct upper_done done = wait_for(&of_b);
    const struct upper_entry *entry = done.entry.op_context;

    assert_int_equal(done.entry.err, 0);
    assert_true((done.entry.flags & (FI_RECV | kind | FI_REMOTE_CQ_DATA)) ==
                (FI_RECV | kind | FI_REMOTE_CQ_DATA));
    assert_int_equal(done.entry.len, len);
    assert_int_equal(done.entry.tag, tag);
    assert_int_equal(done.entry.data, DATA);
    assert_true(done.src == src);
    assert_memory_equal(entry->buf, out, len);
}

static void is_sent(uint64_t kind)
{
    struct upper_done done = wait_for(&of_a);

    assert_int_equal(done.entry.err, 0);
    assert_ptr_equal(done.entry.op_context, out);
    assert_true((done.entry.flags & (FI_SEND | kind)) == (FI_SEND | kind));
}

/* early: the receive is there before the message. */
static void exchange(uint64_t kind, size_t len, bool early, fi_addr_t src)
{
    uint64_t tag = kind == FI_TAGGED ? 7 : 0;
    unsigned asked = upper.asked;

    for (size_t i = 0; i < len; i++)
        out[i] = (char)(i + len + early);
    if (early)
        upper_post(&upper, kind, tag, UPPER_BYTES);
    send_one(kind, len, tag);
    wait_for_question(asked + 1);
    assert_true(upper.addr == src);
    if (!early)
        assert_int_equal(upper_start(&upper, kind, tag), 0);
    is_received(kind, len, tag, src);
    is_sent(kind);
    assert_int_equal(upper.live, 0);
}

static void test_messages(void **state)
{
    (void)state;
    for (unsigned spec = 0; spec < sizeof(specs) / sizeof(specs[0]); spec++) {
        unsigned count = 0;
        fi_addr_t src;

        open_pair(specs[spec]);
        src = end_introduce(&b, &a);
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            for (int early = 0; early < 2; early++, count += 2) {
                exchange(FI_TAGGED, sizes[i], early, src);
                exchange(FI_MSG, sizes[i], early, src);
            }
        }
        assert_int_equal(of_a.count[SENT].value, count);
        assert_int_equal(of_b.count[RECEIVED].value, count);
        close_pair();
    }
}

static void test_a_receive_that_is_too_short(void **state)
{
    struct upper_done done;

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i] < 8)
            continue;
        open_pair("shm");
        end_introduce(&b, &a);
        upper_post(&upper, FI_TAGGED, 1, 5);
        send_one(FI_TAGGED, sizes[i], 1);
        done = wait_for(&of_b);
        assert_int_equal(done.entry.err, FI_ETRUNC);
        assert_int_equal(done.entry.len, 5);
        assert_int_equal(done.entry.olen, sizes[i] - 5);
        assert_int_equal(of_b.count[RECEIVED].errors, 1);
        assert_int_equal(of_b.count[RECEIVED].value, 0);
        is_sent(FI_TAGGED);
        close_pair();
    }
}

/* The owner hears of the address that a peer has now. */
static void test_a_stranger_is_introduced(void **state)
{
    fi_addr_t src;

    (void)state;
    open_pair("shm");
    send_one(FI_TAGGED, 8, 1);
    wait_for_question(1);
    assert_true(upper.addr == FI_ADDR_UNSPEC || upper.addr == FI_ADDR_NOTAVAIL);
    src = end_introduce(&b, &a);
    for (int i = 0; i < MANY; i++)
        drive();
    assert_true(upper.entries[0].rx.addr == src);
    assert_int_equal(upper_start(&upper, FI_TAGGED, 1), 0);
    is_received(FI_TAGGED, 8, 1, src);
    is_sent(FI_TAGGED);
    close_pair();
}

static void test_messages_that_nobody_wants(void **state)
{
    (void)state;
    open_pair("shm");
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        send_one(FI_TAGGED, sizes[i], i);
    wait_for_question(sizeof(sizes) / sizeof(sizes[0]));
    upper_discard(&upper);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        is_sent(FI_TAGGED);
    close_pair();
}

/* ---- An address that is given again ---- */

static struct end third;
static ssize_t sent_to_third;

/* As a thread may that has nothing to do with this endpoint, while the queue is told something. */
static ssize_t write_and_change(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len,
                                void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    struct upper_done *done = &of_a.queue.done[of_a.queue.count++];

    *done = (struct upper_done){.entry = {.op_context = context, .flags = flags}};
    assert_int_equal(fi_av_remove(a.av, &to_b, 1, 0), 0);
    assert_int_equal(end_introduce(&a, &third), to_b);
    sent_to_third = fi_tinject(a.ep, "3", 1, to_b, 9);
    return 0;
}

static void test_an_address_that_is_given_again(void **state)
{
    struct fi_ops_cq_owner ops = {.size = sizeof(ops), .write = write_and_change};
    struct fi_cq_tagged_entry entry;
    char byte = 0;

    (void)state;
    open_pair("shm");
    end_open(&third, "shm");
    assert_int_equal(fi_trecv(third.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 9, 0, NULL), 0);
    ops.writeerr = of_a.queue.cq.owner_ops->writeerr;
    of_a.queue.cq.owner_ops = &ops;
    send_one(FI_TAGGED, UPPER_BYTES, 1);
    wait_for_question(1);
    assert_int_equal(upper_start(&upper, FI_TAGGED, 1), 0);
    wait_for(&of_b);
    is_sent(FI_TAGGED);
    assert_int_equal(sent_to_third, 0);
    assert_int_equal(end_wait(&third, &a, &entry), 0);
    assert_int_equal(byte, '3');
    assert_int_equal(upper.asked, 1);
    end_close(&third);
    close_pair();
}

/* ---- The ends of endpoints ---- */

static void test_a_sender_that_has_gone(void **state)
{
    struct upper_done done;

    (void)state;
    open_pair("shm");
    send_one(FI_TAGGED, 8, 1);
    send_one(FI_TAGGED, UPPER_BYTES, 2);
    wait_for_question(2);
    is_sent(FI_TAGGED);
    close_one(&a, &of_a);
    for (int i = 0; i < MANY; i++)
        drive();
    assert_int_equal(upper_start(&upper, FI_TAGGED, 1), 0);
    assert_int_equal(wait_for(&of_b).entry.err, 0);
    /* The message that was only announced has gone with its sender. */
    assert_int_equal(upper_start(&upper, FI_TAGGED, 2), 0);
    done = wait_for(&of_b);
    assert_int_equal(done.entry.err, FI_ECONNRESET);
    assert_int_equal(of_b.count[RECEIVED].errors, 1);
    close_pair();
}

static void test_messages_of_a_closed_receiver(void **state)
{
    (void)state;
    open_pair("shm");
    send_one(FI_TAGGED, 8, 1);
    send_one(FI_TAGGED, UPPER_BYTES, 2);
    send_one(FI_TAGGED, UPPER_BYTES, 3);
    wait_for_question(3);
    is_sent(FI_TAGGED);
    close_one(&b, &of_b);
    assert_int_equal(upper_start(&upper, FI_TAGGED, 1), -FI_ENOTCONN);
    assert_int_equal(upper_start(&upper, FI_TAGGED, 2), -FI_ENOTCONN);
    upper_discard(&upper);
    for (int i = 0; i < 2; i++)
        assert_int_equal(wait_for(&of_a).entry.err, FI_ECONNRESET);
    assert_int_equal(of_a.count[SENT].errors, 2);
    close_pair();
}

/* ---- Remote memory ---- */

static void test_remote_memory(void **state)
{
    static uint64_t memory[UPPER_BYTES / sizeof(uint64_t)], one = 1, old;
    struct upper_done done;
    struct fid_mr *mr;
    uint64_t base;

    (void)state;
    for (unsigned spec = 0; spec < sizeof(specs) / sizeof(specs[0]); spec++) {
        open_pair(specs[spec]);
        assert_int_equal(fi_mr_reg(b.domain, memory, sizeof(memory),
                                   FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL),
                         0);
        base = b.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)memory : 0;
        for (unsigned i = 1; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            memset(out, 'a' + (int)i, sizes[i]);
            post(fi_writedata(a.ep, out, sizes[i], NULL, DATA, to_b, base, KEY, out));
            assert_int_equal(wait_for(&of_a).entry.flags & FI_WRITE, FI_WRITE);
            done = wait_for(&of_b);
            assert_int_equal(done.entry.flags & FI_REMOTE_WRITE, FI_REMOTE_WRITE);
            assert_int_equal(done.entry.data, DATA);
            assert_memory_equal(memory, out, sizes[i]);
            post(fi_read(a.ep, in, sizes[i], NULL, to_b, base, KEY, in));
            assert_ptr_equal(wait_for(&of_a).entry.op_context, in);
            assert_memory_equal(in, out, sizes[i]);
        }
        *memory = 41;
        post(fi_fetch_atomic(a.ep, &one, 1, NULL, &old, NULL, to_b, base, KEY, FI_UINT64, FI_SUM,
                             &old));
        assert_ptr_equal(wait_for(&of_a).entry.op_context, &old);
        assert_true(old == 41 && *memory == 42);
        post(fi_read(a.ep, in, 8, NULL, to_b, base, KEY + 1, in));
        assert_true(wait_for(&of_a).entry.err > 0);
        assert_int_equal(of_a.count[WRITTEN].value, 4);
        assert_int_equal(of_b.count[WRITTEN_HERE].value, 4);
        assert_int_equal(of_a.count[READ].value, 5);
        assert_int_equal(of_a.count[READ].errors, 1);
        assert_int_equal(of_b.count[READ_HERE].value, 5);
        assert_int_equal(fi_close(&mr->fid), 0);
        close_pair();
    }
}

/* ---- Not shared ---- */

/* Addresses are what shm itself finds its peers by: the owner of a peer AV has none to give. */
static void test_an_av_of_its_own(void **state)
{
    struct fid_peer_av peer = {.owner_ops = NULL};
    struct fi_peer_av_context context = {.size = sizeof(context), .av = &peer};
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .flags = FI_PEER};
    struct fid_av *av;

    (void)state;
    open_pair("shm");
    assert_int_equal(fi_av_open(a.domain, &attr, &av, &context), -FI_EBADFLAGS);
    close_pair();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_a_receive_that_is_too_short),
        cmocka_unit_test(test_a_stranger_is_introduced),
        cmocka_unit_test(test_messages_that_nobody_wants),
        cmocka_unit_test(test_an_address_that_is_given_again),
        cmocka_unit_test(test_a_sender_that_has_gone),
        cmocka_unit_test(test_messages_of_a_closed_receiver),
        cmocka_unit_test(test_remote_memory),
        cmocka_unit_test(test_an_av_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
