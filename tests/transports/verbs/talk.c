/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * talk PROVIDER OWN PEER PORT: an endpoint at address OWN that sends to the one at PEER without
 * end, and takes what that one sends. It says "talking" once messages have come and gone, and when
 * one fails says how, closes all, and ends: with 0 if all could be closed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

enum {
    SIZE = 4096,
    WINDOW = 8, /* of messages under way, each way */
    ENOUGH = 100,
    LIMIT_S = 120,
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep;
static fi_addr_t peer;
static char out[SIZE], in[WINDOW][SIZE];
static int sending, sent, received;

static void must(const char *call, int rc)
{
    if (!rc)
        return;
    printf("%s: %s\n", call, fi_strerror(-rc));
    exit(1);
}

static void start(const char *provider, const char *own, const char *other, const char *port)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->fabric_attr->prov_name = strdup(provider);
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 20), own, port, FI_SOURCE, hints, &info));
    fi_freeinfo(hints);
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    must("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
    must("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
    must("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
    must("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    must("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
    must("fi_enable", fi_enable(ep));
    if (fi_av_insertsvc(av, other, port, &peer, 0, NULL) != 1)
        must("fi_av_insertsvc", -FI_EINVAL);
}

static void receive_into(char *buf)
{
    must("fi_recv", (int)fi_recv(ep, buf, SIZE, NULL, FI_ADDR_UNSPEC, buf));
}

/* 0, or how an operation ended, or FI_ETIMEDOUT. */
static int step(void)
{
    struct fi_cq_msg_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc;

    while (sending < WINDOW && !(rc = fi_send(ep, out, SIZE, NULL, peer, NULL)))
        sending++;
    if (sending < WINDOW && rc != -FI_EAGAIN)
        return (int)-rc;
    rc = fi_cq_read(cq, &entry, 1);
    if (rc == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1) {
        sending -= (error.flags & FI_SEND) != 0;
        return error.err;
    }
    if (rc != 1)
        return 0;
    if (entry.flags & FI_RECV) {
        received++;
        receive_into(entry.op_context);
    } else {
        sending--;
        sent++;
    }
    return 0;
}

static void finish(void)
{
    must("fi_close", fi_close(&ep->fid));
    must("fi_close", fi_close(&av->fid));
    must("fi_close", fi_close(&cq->fid));
    must("fi_close", fi_close(&domain->fid));
    must("fi_close", fi_close(&fabric->fid));
    fi_freeinfo(info);
}

int main(int argc, char **argv)
{
    time_t end = time(NULL) + LIMIT_S;
    int talking = 0, err = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 5) {
        fprintf(stderr, "usage: talk PROVIDER OWN PEER PORT\n");
        return 2;
    }
    start(argv[1], argv[2], argv[3], argv[4]);
    for (int i = 0; i < WINDOW; i++)
        receive_into(in[i]);
    while (time(NULL) < end) {
        err = step();
        if (err && talking)
            break;
        if (!talking && sent >= ENOUGH && received >= ENOUGH)
            talking = puts("talking");
    }
    printf("ended: %s\n", err ? fi_strerror(err) : "never");
    finish();
    return !err;
}
