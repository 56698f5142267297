/* SPDX-License-Identifier: BSD-2-Clause */
/* Every mixture of faults, over every kind of lower: an accepted message ends once, an arriving one
 * was sent, and is changed, doubled or overtaken only where that was asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

enum {
    LOSE = 1,
    DOUBLE = 2,
    OVERTAKE = 4,
    REFUSE = 8,
    LATE = 16,
    CHANGE = 32,
    MIXTURES = 64,
    SENT = 60,
    GOT = 2 * SENT,
    READS = 2000, /* for nothing, until no more is expected */
};

/* The same number in all: two of them tell it where one bit is changed. */
struct message {
    uint32_t number[3];
};

static struct {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *tx, *rx;
    struct fid_av *av;
    struct fid_ep *from, *to;
    fi_addr_t peer;
    struct message messages[SENT], buffers[GOT];
    int ends[SENT], times[SENT];
    int arrived, numbers, changed; /* numbers: different ones */
    int late, quiet;               /* late: those that a later one has overtaken */
    uint32_t newest;
} it;

static void open_endpoint(struct fid_ep **ep)
{
    assert_int_equal(fi_endpoint(it.domain, it.info, ep, NULL), 0);
    assert_int_equal(fi_ep_bind(*ep, &it.tx->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(*ep, &it.rx->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(*ep, &it.av->fid, 0), 0);
    assert_int_equal(fi_enable(*ep), 0);
}

static bool open_all(const char *spec, enum fi_ep_type type)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .size = 1024};
    struct fi_info *hints = fi_allocinfo();
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    char address[256];
    size_t len = sizeof(address);

    memset(&it, 0, sizeof(it));
    assert_non_null(hints);
    hints->ep_attr->type = type;
    hints->caps = FI_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    setenv("FI_PROVIDER", spec, 1);
    if (fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &it.info))
        it.info = NULL;
    fi_freeinfo(hints);
    if (!it.info)
        return false;
    free(it.info->src_addr);
    it.info->src_addr = NULL;
    it.info->src_addrlen = 0;
    assert_int_equal(fi_fabric(it.info->fabric_attr, &it.fabric, NULL), 0);
    assert_int_equal(fi_domain(it.fabric, it.info, &it.domain, NULL), 0);
    assert_int_equal(fi_cq_open(it.domain, &cq, &it.tx, NULL), 0);
    assert_int_equal(fi_cq_open(it.domain, &cq, &it.rx, NULL), 0);
    assert_int_equal(fi_av_open(it.domain, &av, &it.av, NULL), 0);
    open_endpoint(&it.from);
    open_endpoint(&it.to);
    assert_int_equal(fi_getname(&it.to->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(it.av, address, 1, &it.peer, 0, NULL), 1);
    return true;
}

/* Receives, and messages that wait to be overtaken, are there still. */
static void close_all(void)
{
    assert_int_equal(fi_close(&it.from->fid), 0);
    assert_int_equal(fi_close(&it.to->fid), 0);
    assert_int_equal(fi_close(&it.av->fid), 0);
    assert_int_equal(fi_close(&it.rx->fid), 0);
    assert_int_equal(fi_close(&it.tx->fid), 0);
    assert_int_equal(fi_close(&it.domain->fid), 0);
    assert_int_equal(fi_close(&it.fabric->fid), 0);
    fi_freeinfo(it.info);
}

static void arrive(const struct message *message)
{
    const uint32_t *three = message->number;
    const uint32_t number = three[0] == three[1] ? three[0] : three[2];

    assert_in_range(number, 0, SENT - 1);
    assert_in_range(__builtin_popcount(three[0] ^ number) + __builtin_popcount(three[1] ^ number) +
                        __builtin_popcount(three[2] ^ number),
                    0, 1);
    it.changed += three[0] != three[1] || three[1] != three[2];
    it.numbers += !it.times[number]++;
    it.arrived++;
    it.late += number < it.newest;
    it.newest = number > it.newest ? number : it.newest;
}

static void receive(void)
{
    struct fi_cq_msg_entry entry;
    ssize_t count;

    while ((count = fi_cq_read(it.rx, &entry, 1)) == 1) {
        it.quiet = 0;
        arrive(entry.op_context);
    }
    assert_int_equal(count, -FI_EAGAIN);
}

static void drive(void)
{
    struct fi_cq_msg_entry entry;
    ssize_t count = fi_cq_read(it.tx, &entry, 1);

    assert_true(count == 1 || count == -FI_EAGAIN);
    it.quiet = count == 1 ? 0 : it.quiet + 1;
    if (count == 1) {
        const struct message *message = entry.op_context;

        assert_in_range(message - it.messages, 0, SENT - 1);
        assert_true(entry.flags & FI_SEND);
        it.ends[message - it.messages]++;
    }
    receive();
}

enum {
    FORMS = 4,
    INJECTED = 3 /* has no completion */
};

static ssize_t post(int number)
{
    struct message *message = &it.messages[number];
    const struct iovec whole = {message, sizeof(*message)};
    const struct iovec halves[2] = {{message->number, 4}, {message->number + 1, 8}};
    const struct fi_msg msg = {
        .msg_iov = &whole, .iov_count = 1, .addr = it.peer, .context = message};

    switch (number % FORMS) {
    case 0: return fi_send(it.from, message, sizeof(*message), NULL, it.peer, message);
    case 1: return fi_sendv(it.from, halves, NULL, 2, it.peer, message);
    case 2: return fi_sendmsg(it.from, &msg, FI_COMPLETION);
    default: return fi_inject(it.from, message, sizeof(*message), it.peer);
    }
}

static void receives(void)
{
    for (int i = 0; i < GOT; i++) {
        ssize_t rc;

        do {
            rc = fi_recv(it.to, &it.buffers[i], sizeof(it.buffers[i]), NULL, FI_ADDR_UNSPEC,
                         &it.buffers[i]);
        } while (rc == -FI_EAGAIN);
        assert_int_equal(rc, 0);
    }
}

static int ended(void)
{
    int count = 0;

    for (int i = 0; i < SENT; i++)
        count += it.ends[i];
    return count;
}

/* Waits for messages that cannot be lost; the rest has READS empty reads to come. */
static void send_all(int mixture)
{
    const int told = SENT - SENT / FORMS, least = mixture & LOSE ? 0 : SENT;

    for (int i = 0; i < SENT; i++) {
        ssize_t rc;

        it.messages[i] = (struct message){{(uint32_t)i, (uint32_t)i, (uint32_t)i}};
        do {
            rc = post(i);
            drive();
        } while (rc == -FI_EAGAIN);
        assert_int_equal(rc, 0);
    }
    while (ended() < told || it.numbers < least || it.quiet < READS)
        drive();
}

static void check(int mixture)
{
    for (int i = 0; i < SENT; i++) {
        assert_int_equal(it.ends[i], i % FORMS != INJECTED);
        for (int n = 0; n < 3; n++)
            assert_int_equal(it.messages[i].number[n], i); /* the sender's stay */
        assert_in_range(it.times[i], mixture & LOSE ? 0 : 1, mixture & DOUBLE ? 2 : 1);
    }
    if (!(mixture & DOUBLE) && mixture & LOSE)
        assert_int_not_equal(it.arrived, SENT);
    if (!(mixture & LOSE) && mixture & DOUBLE)
        assert_int_not_equal(it.arrived, SENT);
    assert_true(!it.changed == !(mixture & CHANGE));
    if (!(mixture & OVERTAKE))
        assert_int_equal(it.late, 0);
}

static void run(const char *above, const char *below, enum fi_ep_type type, int mixture)
{
    const bool force = mixture & CHANGE || type != FI_EP_DGRAM;
    char spec[256];

    snprintf(spec, sizeof(spec), "%sfault(%s%s%s%s%s%s%sseed=%d);%s", above,
             mixture & LOSE ? "drop=20%," : "", mixture & DOUBLE ? "dup=20%," : "",
             mixture & OVERTAKE ? "reorder=20%," : "", mixture & REFUSE ? "eagain=20%," : "",
             mixture & LATE ? "delay=1ms," : "", mixture & CHANGE ? "corrupt=20%," : "",
             force ? "force," : "", 100 + mixture, below);
    if (!open_all(spec, type))
        fail_msg("%s: it cannot be had", spec);
    receives();
    send_all(mixture);
    check(mixture);
    close_all();
}

static void over_datagrams(void **state)
{
    for (int mixture = 0; mixture < MIXTURES; mixture++)
        run("", "loop", FI_EP_DGRAM, mixture);
}

static void between_other_hooks(void **state)
{
    setenv("FI_TRACE_FILE", "/tmp/weft-test-fault.%p", 1);
    setenv("FI_PROFILE_FILE", "/dev/null", 1);
    for (int mixture = 0; mixture < MIXTURES; mixture += 5)
        run("trace;debug;", "profile;noop;loop", FI_EP_DGRAM, mixture);
}

static void over_reliable_messages(void **state)
{
    for (int mixture = 0; mixture < MIXTURES; mixture += 3)
        run("", "loop", FI_EP_RDM, mixture);
    for (int mixture = 1; mixture < MIXTURES; mixture += 6)
        run("", "tcp", FI_EP_RDM, mixture);
    for (int mixture = 1; mixture < MIXTURES; mixture += 6)
        run("", "shm", FI_EP_RDM, mixture);
}

static void over_rxm(void **state)
{
    for (int mixture = 0; mixture < MIXTURES; mixture += 8)
        run("", "rxm(tags=emulate);noop;tcp", FI_EP_RDM, mixture | OVERTAKE);
}

static int remove_trace(void **state)
{
    char path[64];

    snprintf(path, sizeof(path), "/tmp/weft-test-fault.%d", (int)getpid());
    unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_datagrams),
        cmocka_unit_test(between_other_hooks),
        cmocka_unit_test(over_reliable_messages),
        cmocka_unit_test(over_rxm),
    };

    return cmocka_run_group_tests_name("fault sweep", tests, NULL, remove_trace);
}
