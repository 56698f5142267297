/* SPDX-License-Identifier: BSD-2-Clause */
/* How often an idle queue looks at a branch of sockets: calls of the kernel are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include <cmocka.h>

#include "../pair.h"

enum {
    PATIENCE = 100000, /* reads that find nothing, until the send may have failed */
    READS = 4096,
    SILENT_LOOKS = 64, /* each time, */
    SILENT_EVERY = 16  /* then one time in so many, at most */
};

static unsigned looks;

int epoll_wait(int fd, struct epoll_event *events, int count, int timeout)
{
    static int (*known)(int, struct epoll_event *, int, int);

    if (!known)
        *(void **)&known = dlsym(RTLD_NEXT, "epoll_wait");
    looks++;
    return known(fd, events, count, timeout);
}

static unsigned looks_of_idle_reads(struct pair *pair)
{
    struct fi_cq_tagged_entry entry;

    looks = 0;
    for (int i = 0; i < READS; i++)
        assert_int_equal(fi_cq_read(pair->cq, &entry, 1), -FI_EAGAIN);
    return looks;
}

static void a_silent_branch_is_looked_at_rarely(void **state)
{
    struct pair pair;
    unsigned alone;

    pair_open(&pair, "lnx;[rxm;tcp(iface=lo)]");
    alone = looks_of_idle_reads(&pair);
    pair_close(&pair);
    assert_true(alone > 0);
    pair_open(&pair, "lnx;[loop+rxm;tcp(iface=lo)]");
    looks_of_idle_reads(&pair);
    /* A branch asks the kernel now and then, in so many calls of its own. */
    assert_in_range(looks, 1, alone * (SILENT_LOOKS + READS / SILENT_EVERY) / READS + 1);
    pair_close(&pair);
}

enum {
    MESSAGES = 200,
    SETTLE = 1000, /* reads without traffic, in between */
};

/* Reads of the second endpoint's receive queue until the message has come. */
static unsigned reads_of_message(struct pair *pair, struct fid_cq **out, struct fid_cq **in)
{
    static uint64_t from = 1, to;
    struct fi_cq_tagged_entry entry;
    unsigned reads = 1;
    ssize_t rc;

    assert_int_equal(fi_trecv(pair->ep[1], &to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &to), 0);
    assert_int_equal(fi_tsend(pair->ep[0], &from, 8, NULL, pair->to[1], 1, &from), 0);
    while ((rc = fi_cq_read(in[1], &entry, 1)) == -FI_EAGAIN) {
        if (!(++reads % PATIENCE))
            assert_int_not_equal(fi_cq_read(out[0], NULL, 0), -FI_EAVAIL);
    }
    assert_int_equal(rc, 1);
    while ((rc = fi_cq_read(out[0], &entry, 1)) == -FI_EAGAIN)
        ;
    assert_int_equal(rc, 1);
    return reads;
}

/* A pair whose endpoints have queues for sends and for receives. */
struct two_queues {
    struct pair pair; /* without the queue */
    struct fid_cq *out[2], *in[2];
};

static void open_ep(struct pair *pair, int i, struct fid_cq *out, struct fid_cq *in)
{
    char address[256];
    size_t len = sizeof(address);

    assert_int_equal(fi_endpoint(pair->domain, pair->info, &pair->ep[i], NULL), 0);
    assert_int_equal(fi_ep_bind(pair->ep[i], &out->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(pair->ep[i], &in->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(pair->ep[i], &pair->av->fid, 0), 0);
    assert_int_equal(fi_enable(pair->ep[i]), 0);
    assert_int_equal(fi_getname(&pair->ep[i]->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(pair->av, address, 1, &pair->to[i], 0, NULL), 1);
}

static void two_queues_open(struct two_queues *two, const char *spec)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 64};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct pair *pair = &two->pair;

    pair->info = pair_info(spec);
    assert_int_equal(fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL), 0);
    assert_int_equal(fi_domain(pair->fabric, pair->info, &pair->domain, NULL), 0);
    assert_int_equal(fi_av_open(pair->domain, &av, &pair->av, NULL), 0);
    free(pair->info->src_addr);
    pair->info->src_addr = NULL;
    pair->info->src_addrlen = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_cq_open(pair->domain, &attr, &two->out[i], NULL), 0);
        assert_int_equal(fi_cq_open(pair->domain, &attr, &two->in[i], NULL), 0);
        open_ep(pair, i, two->out[i], two->in[i]);
    }
}

static void two_queues_close(struct two_queues *two)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_close(&two->pair.ep[i]->fid), 0);
        if (two->out[i])
            assert_int_equal(fi_close(&two->out[i]->fid), 0);
        assert_int_equal(fi_close(&two->in[i]->fid), 0);
    }
    assert_int_equal(fi_close(&two->pair.av->fid), 0);
    assert_int_equal(fi_close(&two->pair.domain->fid), 0);
    assert_int_equal(fi_close(&two->pair.fabric->fid), 0);
    fi_freeinfo(two->pair.info);
}

/* The join also finds traffic that the branch completed in another queue, or in the poll of
 * another's. */
static void a_branch_with_two_queues_has_traffic(void **state)
{
    struct two_queues two;
    unsigned reads = 0;

    two_queues_open(&two, "lnx;[shm+rxm;tcp(iface=lo)]");
    reads_of_message(&two.pair, two.out, two.in);
    for (int i = 0; i < SETTLE; i++)
        assert_int_equal(fi_cq_read(two.in[1], NULL, 0), -FI_EAGAIN);
    for (int i = 0; i < MESSAGES; i++)
        reads += reads_of_message(&two.pair, two.out, two.in);
    assert_in_range(reads, MESSAGES, 3 * MESSAGES);
    two_queues_close(&two);
}

/* Of the queues of one endpoint one is driven; once that is closed, the other is again. */
static void a_queue_is_driven_when_the_one_beside_it_is_gone(void **state)
{
    struct two_queues two;

    two_queues_open(&two, *state);
    reads_of_message(&two.pair, two.out, two.in);
    assert_int_equal(fi_close(&two.pair.ep[1]->fid), 0);
    assert_int_equal(fi_av_remove(two.pair.av, &two.pair.to[1], 1, 0), 0);
    assert_int_equal(fi_close(&two.out[1]->fid), 0);
    two.out[1] = NULL;
    open_ep(&two.pair, 1, two.in[1], two.in[1]);
    reads_of_message(&two.pair, two.out, two.in);
    two_queues_close(&two);
}

/* Of two endpoints of other processes, so to speak: one that is reached by the network alone. */
static fi_addr_t distant_open(struct pair *distant, const struct pair *near, int peer)
{
    char address[256];
    size_t len = sizeof(address);
    fi_addr_t to;

    pair_open(distant, "lnx;[rxm;tcp(iface=lo)]");
    assert_int_equal(fi_getname(&near->ep[peer]->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(distant->av, address, 1, &to, 0, NULL), 1);
    return to;
}

/* Messages come by shared memory with each read; one by the network is found, too. */
static void a_silent_branch_is_found_beside_one_with_traffic(void **state)
{
    struct two_queues two;
    struct pair distant;
    uint64_t from = 2, to;
    struct fi_cq_tagged_entry entry = {.tag = 0}, sent;
    fi_addr_t peer;

    two_queues_open(&two, "lnx;[shm+rxm;tcp(iface=lo)]");
    peer = distant_open(&distant, &two.pair, 1);
    for (int i = 0; i < MESSAGES; i++)
        reads_of_message(&two.pair, two.out, two.in);
    assert_int_equal(fi_trecv(two.pair.ep[1], &to, 8, NULL, FI_ADDR_UNSPEC, 2, 0, &to), 0);
    while (fi_tsend(distant.ep[0], &from, 8, NULL, peer, 2, &from) == -FI_EAGAIN)
        fi_cq_read(distant.cq, NULL, 0);
    for (int i = 0; entry.tag != 2 && i < PATIENCE; i++) {
        assert_int_equal(fi_trecv(two.pair.ep[1], &to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &to), 0);
        assert_int_equal(fi_tsend(two.pair.ep[0], &from, 8, NULL, two.pair.to[1], 1, &from), 0);
        for (int got = 0; !got;)
            got = fi_cq_read(two.in[1], &entry, 1) == 1;
        while (fi_cq_read(two.out[0], &sent, 1) == 1)
            ;
        fi_cq_read(distant.cq, NULL, 0);
    }
    assert_int_equal(entry.tag, 2);
    pair_close(&distant);
    two_queues_close(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_branch_is_looked_at_rarely),
        cmocka_unit_test(a_branch_with_two_queues_has_traffic),
        cmocka_unit_test(a_silent_branch_is_found_beside_one_with_traffic),
        cmocka_unit_test_prestate(a_queue_is_driven_when_the_one_beside_it_is_gone,
                                  (void *)"lnx;[rxm;tcp(iface=lo)]"),
        cmocka_unit_test_prestate(a_queue_is_driven_when_the_one_beside_it_is_gone,
                                  (void *)"lnx;[shm+rxm;tcp(iface=lo)]"),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
