/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connections ADDRESS COUNT [PROVIDER]: an endpoint in the middle, and COUNT others that each send
 * it a message and get one back: so many connections at one endpoint, each with a queue pair at
 * either end. Prints how many were answered; 0 if all were.
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
#include <rdma/fi_tagged.h>

enum {
    NAME = 128,
    LIMIT_S = 240,
    AT_ONCE = 8, /* that are being connected */
};

struct end {
    struct fid_ep *ep;
    struct fid_av *av;
    struct fid_cq *cq;
    char name[NAME];
    size_t len;
    uint64_t out, in;
    fi_addr_t peer;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct end middle, *others;
static int count;
static time_t started;

static void must(const char *call, int rc)
{
    if (!rc)
        return;
    printf("%s: %s\n", call, fi_strerror(-rc));
    exit(1);
}

static void start(const char *address, const char *provider)
{
    struct fi_info *hints = fi_allocinfo();

    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_TAGGED;
    hints->domain_attr->av_type = FI_AV_TABLE;
    hints->fabric_attr->prov_name = strdup(provider);
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 20), address, NULL, FI_SOURCE, hints, &info));
    fi_freeinfo(hints);
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    must("fi_domain", fi_domain(fabric, info, &domain, NULL));
}

static void open_end(struct end *end)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

    must("fi_endpoint", fi_endpoint(domain, info, &end->ep, end));
    must("fi_cq_open", fi_cq_open(domain, &cq_attr, &end->cq, NULL));
    must("fi_av_open", fi_av_open(domain, &av_attr, &end->av, NULL));
    must("fi_ep_bind", fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
    must("fi_ep_bind", fi_ep_bind(end->ep, &end->av->fid, 0));
    must("fi_enable", fi_enable(end->ep));
    end->len = sizeof(end->name);
    must("fi_getname", fi_getname(&end->ep->fid, end->name, &end->len));
}

static void close_end(struct end *end)
{
    must("fi_close", fi_close(&end->ep->fid));
    must("fi_close", fi_close(&end->av->fid));
    must("fi_close", fi_close(&end->cq->fid));
}

/* The number of messages that came in; an error ends all. */
static int drive(struct end *end)
{
    struct fi_cq_tagged_entry entries[16];
    struct fi_cq_err_entry error = {0};
    ssize_t got = fi_cq_read(end->cq, entries, 16);
    int received = 0;

    if (got == -FI_EAVAIL && fi_cq_readerr(end->cq, &error, 0) == 1)
        must("an operation", -error.err);
    for (ssize_t i = 0; i < got; i++)
        received += (entries[i].flags & FI_RECV) != 0;
    if (time(NULL) - started > LIMIT_S)
        must("all connections", -FI_ETIMEDOUT);
    return received;
}

static void send_to(struct end *from, struct end *to, const uint64_t *out)
{
    ssize_t rc;

    if (fi_av_insert(from->av, to->name, 1, &from->peer, 0, NULL) != 1)
        must("fi_av_insert", -FI_EINVAL);
    do {
        rc = fi_tsend(from->ep, out, sizeof(*out), NULL, from->peer, *out, NULL);
        drive(from);
        drive(to);
    } while (rc == -FI_EAGAIN);
    must("fi_tsend", (int)rc);
}

/* Some of the others, there and back. */
static int exchange(struct end *ends, int some)
{
    int received = 0, answered = 0;

    for (int i = 0; i < some; i++) {
        struct end *end = &ends[i];

        end->out = (uint64_t)(end - others) + 1;
        must("fi_trecv",
             (int)fi_trecv(middle.ep, &middle.in, 8, NULL, FI_ADDR_UNSPEC, end->out, 0, end));
        must("fi_trecv",
             (int)fi_trecv(end->ep, &end->in, 8, NULL, FI_ADDR_UNSPEC, end->out, 0, end));
        send_to(end, &middle, &end->out);
    }
    while (received < some) {
        received += drive(&middle);
        for (int i = 0; i < some; i++)
            drive(&ends[i]);
    }
    for (int i = 0; i < some; i++) {
        send_to(&middle, &ends[i], &ends[i].out);
        while (ends[i].in != ends[i].out) {
            drive(&middle);
            drive(&ends[i]);
        }
        answered++;
    }
    return answered;
}

int main(int argc, char **argv)
{
    int answered = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: connections ADDRESS COUNT [PROVIDER]\n");
        return 2;
    }
    started = time(NULL);
    count = atoi(argv[2]);
    others = calloc((size_t)count, sizeof(*others));
    if (!others)
        return 1;
    start(argv[1], argc > 3 ? argv[3] : "rxm;verbs");
    open_end(&middle);
    for (int i = 0; i < count; i++)
        open_end(&others[i]);
    for (int i = 0; i < count; i += AT_ONCE)
        answered += exchange(&others[i], count - i < AT_ONCE ? count - i : AT_ONCE);
    printf("%d of %d connections\n", answered, count);
    for (int i = 0; i < count; i++)
        close_end(&others[i]);
    close_end(&middle);
    must("fi_close", fi_close(&domain->fid));
    must("fi_close", fi_close(&fabric->fid));
    fi_freeinfo(info);
    free(others);
    return answered != count;
}
