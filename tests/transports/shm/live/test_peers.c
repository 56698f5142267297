/* SPDX-License-Identifier: BSD-2-Clause */
/* shm through the public interface: absent peers, many peers, a kernel that forbids attaching. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum {
    MANY = 40, /* more than are polled */
    LARGE = 1 << 20,
};

static unsigned sockets;

/* The library's, too: one for each look whether the peer listens. */
int socket(int domain, int type, int protocol)
{
    sockets++;
    return (int)syscall(SYS_socket, domain, type, protocol);
}

/* Sends until it is accepted, and returns how it ended. */
static int send_to_nobody(struct end *end, fi_addr_t addr)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc;

    while ((rc = fi_send(end->ep, "x", 1, NULL, addr, end)) == -FI_EAGAIN)
        assert_int_equal(fi_cq_read(end->cq, &entry, 1), -FI_EAGAIN);
    assert_int_equal(rc, 0);
    while ((rc = fi_cq_read(end->cq, &entry, 1)) == -FI_EAGAIN)
        ;
    if (rc == 1)
        return 0;
    assert_int_equal(fi_cq_readerr(end->cq, &error, 0), 1);
    assert_ptr_equal(error.op_context, end);
    return error.err;
}

static void nobody_listens(void **state)
{
    struct end end;
    double start;

    end_open(&end, "shm(connect_timeout=200ms)");
    sockets = 0;
    start = end_seconds();
    assert_int_equal(send_to_nobody(&end, end_know(&end, "fi_ns://no-such-endpoint")),
                     FI_ECONNREFUSED);
    assert_true(end_seconds() - start >= 0.19);
    /* Each millisecond one, and one more when the time is over. */
    assert_in_range(sockets, 1, (end_seconds() - start) * 1000 + 3);
    end_close(&end);
}

static void the_process_is_dead(void **state)
{
    pid_t pid = fork();
    char name[64];
    struct end end;

    if (!pid)
        _exit(0);
    waitpid(pid, NULL, 0);
    snprintf(name, sizeof(name), "fi_shm://%07d:%u:00000000", (int)pid, (unsigned)geteuid());
    end_open(&end, "shm(connect_timeout=60m)");
    assert_int_equal(send_to_nobody(&end, end_know(&end, name)), FI_ECONNREFUSED);
    end_close(&end);
}

static void somebody_comes_late(void **state)
{
    struct end early, late;
    fi_addr_t addr;
    char in = 0, name[64]; /* another run at the same time has another name */
    struct fi_cq_tagged_entry entry;

    snprintf(name, sizeof(name), "fi_ns://late-endpoint-%d", (int)getpid());
    end_open(&early, "shm");
    addr = end_know(&early, name);
    for (int i = 0; i < 100; i++)
        assert_int_equal(fi_tinject(early.ep, "y", 1, addr, 1), -FI_EAGAIN);
    end_open(&late, "shm");
    end_close(&late);
    end_open(&late, "shm");
    assert_int_equal(fi_close(&late.ep->fid), 0);
    free(late.info->src_addr);
    late.info->src_addr = strdup(name);
    late.info->src_addrlen = strlen(late.info->src_addr) + 1;
    assert_int_equal(fi_endpoint(late.domain, late.info, &late.ep, NULL), 0);
    assert_int_equal(fi_ep_bind(late.ep, &late.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(late.ep, &late.av->fid, 0), 0);
    assert_int_equal(fi_enable(late.ep), 0);
    while (fi_tinject(early.ep, "y", 1, addr, 1) == -FI_EAGAIN)
        ;
    assert_int_equal(fi_trecv(late.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    assert_int_equal(end_wait(&late, NULL, &entry), 0);
    assert_int_equal(in, 'y');
    end_close(&early);
    end_close(&late);
}

/* Messages that a process sent before it closed are received. */
static void the_last_words_arrive(void **state)
{
    struct end from, to;
    fi_addr_t addr;
    char in[4] = {0};
    struct fi_cq_tagged_entry entry;

    end_open(&from, "shm");
    end_open(&to, "shm");
    addr = end_introduce(&from, &to);
    for (int i = 0; i < 4; i++)
        assert_int_equal(fi_inject(from.ep, &"abcd"[i], 1, addr), 0);
    end_close(&from);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(fi_recv(to.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
        assert_int_equal(end_wait(&to, NULL, &entry), 0);
    }
    assert_memory_equal(in, "abcd", 4);
    end_close(&to);
}

/* Most rings are cold: each message of a round comes through the bell, or is swept up. */
static void many_peers(void **state)
{
    struct end *ends = calloc(MANY, sizeof(*ends)), to;
    fi_addr_t addrs[MANY];
    struct fi_cq_tagged_entry entry;
    uint64_t in, seen;

    end_open(&to, "shm");
    for (int i = 0; i < MANY; i++) {
        end_open(&ends[i], "shm");
        addrs[i] = end_introduce(&ends[i], &to);
    }
    for (int round = 0; round < 50; round++) {
        for (uint64_t i = 0; i < MANY; i++)
            assert_int_equal(fi_tinject(ends[i].ep, &i, sizeof(i), addrs[i], 1), 0);
        seen = 0;
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(fi_trecv(to.ep, &in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
            assert_int_equal(end_wait(&to, NULL, &entry), 0);
            seen |= 1ull << in;
        }
        assert_int_equal(seen, (1ull << MANY) - 1);
    }
    for (int i = 0; i < MANY; i++)
        end_close(&ends[i]);
    end_close(&to);
    free(ends);
}

static int large_without_attaching(void)
{
    struct end from, to;
    char *out = malloc(LARGE), *in = calloc(1, LARGE);
    struct fi_cq_tagged_entry entry;

    end_forbid_attaching();
    end_open(&from, "shm(cma=on)");
    end_open(&to, "shm(cma=on)");
    memset(out, 'q', LARGE);
    if (fi_trecv(to.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 3, 0, NULL) ||
        fi_tsend(from.ep, out, LARGE, NULL, end_introduce(&from, &to), 3, NULL))
        return 2;
    while (fi_cq_read(to.cq, &entry, 1) != 1)
        fi_cq_read(from.cq, NULL, 0);
    while (fi_cq_read(from.cq, &entry, 1) != 1)
        fi_cq_read(to.cq, NULL, 0);
    return memcmp(in, out, LARGE) ? 3 : 0;
}

static void attaching_is_forbidden(void **state)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        alarm(END_ALARM);
        _exit(large_without_attaching());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_listens),      cmocka_unit_test(the_process_is_dead),
        cmocka_unit_test(somebody_comes_late), cmocka_unit_test(the_last_words_arrive),
        cmocka_unit_test(many_peers),          cmocka_unit_test(attaching_is_forbidden),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
