/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that carry nothing are not looked at: system calls counted for each socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

enum {
    PEERS = 16,
    FDS = 512,
    EXCHANGES = 500
};

/* These take the place of libc's for the library, too. */
static unsigned looks[FDS];

ssize_t recv(int fd, void *buf, size_t len, int flags)
{
    looks[fd % FDS]++;
    return syscall(SYS_recvfrom, fd, buf, len, flags, NULL, NULL);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    looks[fd % FDS]++;
    return syscall(SYS_recvmsg, fd, message, flags);
}

struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    fi_addr_t to[PEERS];
};

static struct fi_info *info;
static struct fid_fabric *fabric;
/* A read moves all endpoints of a domain: those that stay idle have one that is not read. */
static struct fid_domain *domain, *busy_domain, *idle_domain;

static void end_open(struct end *end, struct fid_domain *its_domain)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    assert_int_equal(fi_endpoint(its_domain, info, &end->ep, NULL), 0);
    assert_int_equal(fi_cq_open(its_domain, &cq, &end->cq, NULL), 0);
    assert_int_equal(fi_av_open(its_domain, &av, &end->av, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    assert_int_equal(fi_enable(end->ep), 0);
}

static void end_close(struct end *end)
{
    fi_close(&end->ep->fid);
    fi_close(&end->cq->fid);
    fi_close(&end->av->fid);
}

static void introduce(struct end *end, struct end *peer, fi_addr_t *to)
{
    char address[64];
    size_t len = sizeof(address);

    assert_int_equal(fi_getname(&peer->ep->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(end->av, address, 1, to, 0, NULL), 1);
}

static int took(struct end *end)
{
    struct fi_cq_entry entry;
    ssize_t rc = fi_cq_read(end->cq, &entry, 1);

    assert_true(rc == 1 || rc == -FI_EAGAIN);
    return rc == 1;
}

/* One message from a to b, received; both driven. */
static void pass(struct end *a, struct end *b, fi_addr_t to)
{
    time_t begin = time(NULL);
    char in, out = 'x';
    int done = 0;

    assert_int_equal(fi_recv(b->ep, &in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    while (fi_send(a->ep, &out, 1, NULL, to, NULL) == -FI_EAGAIN)
        fi_cq_read(b->cq, NULL, 0);
    while (done < 2) {
        done += took(a) + took(b);
        assert_true(time(NULL) - begin < 60);
    }
}

static void idle_connections_are_not_looked_at(void **state)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_entry entry;
    struct end hub = {0}, peers[PEERS] = {{0}};
    unsigned busy = 0;

    setenv("FI_PROVIDER", "tcp", 1);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &busy_domain, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &idle_domain, NULL), 0);
    end_open(&hub, domain);
    for (int i = 0; i < PEERS; i++) {
        end_open(&peers[i], i ? idle_domain : busy_domain);
        introduce(&hub, &peers[i], &hub.to[i]);
        pass(&hub, &peers[i], hub.to[i]);
    }
    for (int i = 0; i < 5000; i++)
        assert_int_equal(fi_cq_read(hub.cq, &entry, 1), -FI_EAGAIN);
    memset(looks, 0, sizeof(looks));
    for (int i = 0; i < EXCHANGES; i++)
        pass(&hub, &peers[0], hub.to[0]);
    for (int fd = 0; fd < FDS; fd++)
        busy += looks[fd] != 0;
    assert_in_range(busy, 1, 2); /* both ends of the one connection that is used */
    end_close(&hub);
    for (int i = 0; i < PEERS; i++)
        end_close(&peers[i]);
    fi_close(&domain->fid);
    fi_close(&busy_domain->fid);
    fi_close(&idle_domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_connections_are_not_looked_at),
    };

    return cmocka_run_group_tests_name("tcp idle", tests, NULL, NULL);
}
