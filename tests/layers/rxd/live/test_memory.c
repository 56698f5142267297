/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of an address that is inserted, and of a peer that has been talked with, and rests.
 * The peers are of another process. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../support/end.h"
#include "../../../support/heap.h"

#include <rdma/fi_errno.h>

enum {
    PEERS = 256,
    MANY = 48,        /* of them */
    PEER_MOST = 1024, /* bytes of each, with its address and its places in all tables */
    NAME = 16,        /* of an IPv4 address */
    INSERTED = 12000,
    FEW = 2000,      /* of them, where what any number takes is small beside them */
    BESIDE_MOST = 16 /* bytes beside an address */
};

static struct end hub;
static struct fid_ep *peers[PEERS];
static char names[PEERS][NAME];
static fi_addr_t at[PEERS];
static char byte;

static struct fi_info *info_of(void)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    assert_non_null(hints);
    hints->caps = FI_MSG | FI_DIRECTED_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    hints->fabric_attr->prov_name = strdup("rxd;udp(iface=lo)");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

static void open_peer(unsigned i)
{
    size_t len = NAME;

    peers[i] = hub.ep;
    if (i) {
        assert_int_equal(fi_endpoint(hub.domain, hub.info, &peers[i], NULL), 0);
        assert_int_equal(fi_ep_bind(peers[i], &hub.cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(peers[i], &hub.av->fid, 0), 0);
        assert_int_equal(fi_enable(peers[i]), 0);
    }
    assert_int_equal(fi_getname(&peers[i]->fid, names[i], &len), 0);
    assert_int_equal(fi_recv(peers[i], &byte, 1, NULL, FI_ADDR_UNSPEC, peers[i]), 0);
}

/* Each of them answers the messages that it gets. */
static void answer(int parent)
{
    struct fi_cq_entry entry;
    char name[NAME];

    end_open(&hub, info_of(), FI_CQ_FORMAT_CONTEXT);
    for (unsigned i = 0; i < PEERS; i++)
        open_peer(i);
    assert_int_equal(write(parent, names, sizeof(names)), sizeof(names));
    assert_int_equal(read(parent, name, sizeof(name)), sizeof(name));
    assert_int_equal(fi_av_insert(hub.av, name, 1, &hub.peer, 0, NULL), 1);
    for (;;) {
        struct fid_ep *ep;

        if (fi_cq_read(hub.cq, &entry, 1) != 1 || !entry.op_context)
            continue;
        ep = entry.op_context;
        assert_int_equal(fi_recv(ep, &byte, 1, NULL, FI_ADDR_UNSPEC, ep), 0);
        for (unsigned i = 0; i < PEERS; i++)
            if (peers[i] == ep)
                byte = (char)i;
        while (fi_inject(ep, &byte, 1, hub.peer) == -FI_EAGAIN)
            fi_cq_read(hub.cq, NULL, 0);
    }
}

static pid_t open_peers(int *child)
{
    int pair[2];
    pid_t pid;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        answer(pair[1]);
    }
    close(pair[1]);
    *child = pair[0];
    end_open(&hub, info_of(), FI_CQ_FORMAT_CONTEXT);
    assert_int_equal(recv(*child, names, sizeof(names), MSG_WAITALL), sizeof(names));
    assert_int_equal(write(*child, hub.name, NAME), NAME);
    return pid;
}

static void read_ends(unsigned count)
{
    struct fi_cq_entry entry;

    for (unsigned ended = 0; ended < count;) {
        ssize_t n = fi_cq_read(hub.cq, &entry, 1);

        assert_true(n == 1 || n == -FI_EAGAIN);
        ended += n == 1;
    }
}

/* A message to it, and its answer. */
static void talk(unsigned i)
{
    assert_int_equal(fi_av_insert(hub.av, names[i], 1, &at[i], 0, NULL), 1);
    assert_int_equal(fi_recv(hub.ep, &byte, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(hub.ep, &byte, 1, NULL, at[i], NULL), 0);
    read_ends(2);
}

/* Long enough for sessions to give their windows back. */
static void rest(void)
{
    struct timespec begin, now;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        assert_true(fi_cq_read(hub.cq, NULL, 0) <= 0);
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 <
             begin.tv_sec * 1000 + begin.tv_nsec / 1000000 + 1150);
}

/* The answers of many wait for their receives at once, and then again. */
static void each_message_keeps_its_source(void)
{
    char got[MANY] = {0};

    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(fi_send(hub.ep, &byte, 1, NULL, at[i], NULL), 0);
    read_ends(MANY);
    rest();
    for (unsigned i = MANY; i-- > 0;)
        assert_int_equal(fi_recv(hub.ep, &got[i], 1, NULL, at[i], NULL), 0);
    read_ends(MANY);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal((uint8_t)got[i], i);
}

static void peer_that_rests_is_small(void **state)
{
    int child;
    pid_t pid = open_peers(&child);
    size_t before, used;

    talk(0); /* pools and tables are there */
    rest();
    before = heap_in_use();
    for (unsigned i = 1; i < PEERS; i++)
        talk(i);
    used = heap_in_use();
    rest();
    print_message("%zu bytes for each peer, %zu while it is new\n",
                  (heap_in_use() - before) / (PEERS - 1), (used - before) / (PEERS - 1));
    assert_true(heap_in_use() - before <= (size_t)(PEERS - 1) * PEER_MOST);
    each_message_keeps_its_source();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(child);
    end_close(&hub);
}

/* However many there are, and whether they come one by one or in a call for all. */
static void insert_many(unsigned at_once)
{
    struct sockaddr_in list[INSERTED / 10];
    size_t before, used, most = 0;

    end_open(&hub, info_of(), FI_CQ_FORMAT_CONTEXT);
    before = heap_in_use();
    for (unsigned count = 0; count < INSERTED;) {
        for (unsigned i = 0; i < at_once; i++, count++) {
            list[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(4711)};
            list[i].sin_addr.s_addr = htonl(0x0a000001 + count);
        }
        assert_int_equal(fi_av_insert(hub.av, list, at_once, NULL, 0, NULL), at_once);
        used = heap_in_use() - before;
        assert_true(count < FEW || used <= (size_t)count * (NAME + BESIDE_MOST));
        most = count >= FEW && used / count > most ? used / count : most;
    }
    print_message("%zu bytes for an address at most, with its %d\n", most, NAME);
    end_close(&hub);
}

static void inserted_address_is_small(void **state)
{
    insert_many(1);
    insert_many(8);
    insert_many(INSERTED / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inserted_address_is_small),
        cmocka_unit_test(peer_that_rests_is_small),
    };

    return cmocka_run_group_tests_name("rxd: memory", tests, NULL, NULL);
}
