/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process is killed, and another one takes its address, port and PIDonFEP, beside one that stays
 * there: operations that were under way end, packets for the dead one are answered and not
 * believed, and the new one has what is sent from then on, and nothing else.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../support/again.h"
#include "../../../support/end.h"
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_uet.h>
#include <rdma/fi_tagged.h>

enum {
    NAME = FI_ADDR_UET_SIZE,
    ROUNDS = 3,
    UNDER_WAY = 20,
};

static int port; /* that nothing else here uses */

/* name: of the endpoint, or NULL for any. */
static struct fi_info *info_of(const uint8_t *name)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    char spec[64];

    snprintf(spec, sizeof(spec), "uet(shared=yes,port=%d)", port);
    hints->fabric_attr->prov_name = strdup(spec);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    hints->addr_format = FI_ADDR_UET;
    if (name) {
        hints->src_addr = malloc(NAME);
        memcpy(hints->src_addr, name, NAME);
        hints->src_addrlen = NAME;
        assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    } else {
        assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info),
                         0);
    }
    fi_freeinfo(hints);
    return info;
}

static uint64_t receive(struct end *end)
{
    uint64_t value = 0;
    struct fi_cq_entry entry;

    if (fi_recv(end->ep, &value, sizeof(value), NULL, FI_ADDR_UNSPEC, NULL))
        _exit(2);
    while (fi_cq_read(end->cq, &entry, 1) == -FI_EAGAIN)
        ;
    return value;
}

/* Tells its name, and then each number that it receives. */
static void be_peer(const uint8_t *name, int out)
{
    struct end end;
    uint64_t value;

    end_open(&end, info_of(name), FI_CQ_FORMAT_CONTEXT);
    if (write(out, end.name, NAME) != NAME)
        _exit(3);
    for (;;) {
        value = receive(&end);
        if (write(out, &value, sizeof(value)) != sizeof(value))
            _exit(4);
    }
}

struct peer {
    pid_t pid;
    int told;
    uint8_t name[NAME];
};

static void start(struct peer *peer, const uint8_t *name)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    peer->pid = fork();
    assert_true(peer->pid >= 0);
    if (!peer->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        be_peer(name, ends[1]);
    }
    close(ends[1]);
    peer->told = ends[0];
    assert_int_equal(read(peer->told, peer->name, NAME), NAME);
}

static void stop(struct peer *peer)
{
    int status;

    assert_int_equal(kill(peer->pid, SIGKILL), 0);
    assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
    close(peer->told);
}

/* 0, or the error of one completion. */
static int finish(struct end *end)
{
    struct fi_cq_err_entry error = {.err = 0};
    struct fi_cq_entry entry;
    ssize_t rc;

    while ((rc = fi_cq_read(end->cq, &entry, 1)) == -FI_EAGAIN)
        ;
    if (rc == 1)
        return 0;
    assert_int_equal(fi_cq_readerr(end->cq, &error, 0), 1);
    assert_int_not_equal(error.err, 0);
    return error.err;
}

static void send_number(struct end *end, const uint64_t *value)
{
    const struct iovec iov = {(void *)(uintptr_t)value, sizeof(*value)};
    const struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = end->peer};

    assert_int_equal(fi_sendmsg(end->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
}

static void a_peer_returns_under_its_address(void **state)
{
    static uint64_t values[UNDER_WAY];
    struct end end;
    struct peer peer;
    uint64_t value, number = 1;

    if (again_is_emulated())
        skip(); /* an emulator hands no filter over */
    end_open(&end, info_of(NULL), FI_CQ_FORMAT_CONTEXT);
    start(&peer, NULL);
    assert_memory_equal(peer.name + 4, end.name + 4, 2); /* the port */
    assert_int_equal(fi_av_insert(end.av, peer.name, 1, &end.peer, 0, NULL), 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct peer next;

        for (unsigned i = 0; i < UNDER_WAY; i++, number++) {
            send_number(&end, &number);
            assert_int_equal(finish(&end), 0);
            assert_int_equal(read(peer.told, &value, sizeof(value)), sizeof(value));
            assert_int_equal(value, number);
        }
        stop(&peer);
        for (unsigned i = 0; i < UNDER_WAY; i++) {
            values[i] = UINT64_MAX;
            send_number(&end, &values[i]);
        }
        if (round == 1) /* its successor is there before they have ended */
            start(&next, peer.name);
        for (unsigned i = 0; i < UNDER_WAY; i++)
            assert_int_not_equal(finish(&end), 0);
        if (round != 1)
            start(&next, peer.name);
        assert_memory_equal(next.name, peer.name, NAME);
        peer = next;
    }
    stop(&peer);
    end_close(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_returns_under_its_address),
    };

    port = 20000 + getpid() % 10000;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
