/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets have the DSCP of their endpoint's traffic class, else that of the parameter. */
#include <netinet/in.h>
#include <netinet/ip.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext_uet.h>

enum {
    AF31 = 26,
    EXPEDITED = 46,
    ECN_CAPABLE = 2,
    PORT_AT = 4, /* in an address */
    HOST_AT = 16,
};

/* A plain socket, which is the peer. */
static int open_peer(struct sockaddr_in *addr)
{
    socklen_t len = sizeof(*addr);
    int fd = socket(AF_INET, SOCK_DGRAM, 0), one = 1;

    *addr = (struct sockaddr_in){.sin_family = AF_INET};
    addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)addr, sizeof(*addr)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)addr, &len), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one)), 0);
    return fd;
}

static int tos_of_next(int fd)
{
    union {
        size_t align; /* of a struct cmsghdr */
        char bytes[64];
    } control;
    char bytes[256];
    struct iovec iov = {bytes, sizeof(bytes)};
    struct msghdr header = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = &control,
        .msg_controllen = sizeof(control),
    };
    struct cmsghdr *note;

    assert_true(recvmsg(fd, &header, 0) > 0);
    note = CMSG_FIRSTHDR(&header);
    assert_non_null(note);
    assert_int_equal(note->cmsg_type, IP_TOS);
    return *CMSG_DATA(note);
}

static fi_addr_t insert(struct fid_av *av, const struct sockaddr_in *peer)
{
    uint8_t bytes[FI_ADDR_UET_SIZE] = {0x55, 1, 0x1f, 7, [9] = 15, [11] = 1};
    fi_addr_t addr;

    memcpy(bytes + PORT_AT, &peer->sin_port, sizeof(peer->sin_port));
    memcpy(bytes + HOST_AT, &peer->sin_addr, sizeof(peer->sin_addr));
    assert_int_equal(fi_av_insert(av, bytes, 1, &addr, 0, NULL), 1);
    return addr;
}

/* The DSCP of a datagram from an endpoint of that class. */
static int dscp_of(const char *provider, uint32_t tclass)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq_attr = {0};
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct sockaddr_in addr;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    int fd = open_peer(&addr), tos;

    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_DGRAM;
    hints->tx_attr->tclass = tclass;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    assert_int_equal(fi_av_open(domain, &av_attr, &av, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &av->fid, 0), 0);
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_inject(ep, "x", 1, insert(av, &addr)), 0);
    tos = tos_of_next(fd);
    fi_close(&ep->fid);
    fi_close(&av->fid);
    fi_close(&cq->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    close(fd);
    assert_int_equal(tos & 3, ECN_CAPABLE);
    return tos >> 2;
}

static void packets_have_the_dscp_of_their_class(void **state)
{
    assert_int_equal(dscp_of("uet", FI_TC_UNSPEC), 0);
    assert_int_equal(dscp_of("uet", FI_TC_DEDICATED_ACCESS), AF31);
    assert_int_equal(dscp_of("uet", fi_tc_dscp_set(EXPEDITED)), EXPEDITED);
    assert_int_equal(dscp_of("uet(dscp=7)", FI_TC_UNSPEC), 7);
    assert_int_equal(dscp_of("uet(dscp=7)", fi_tc_dscp_set(EXPEDITED)), EXPEDITED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_have_the_dscp_of_their_class),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
