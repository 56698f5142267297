/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive and transmit contexts: two endpoints of one domain that share both. */
#include <stdlib.h>
#include <string.h>

#include "conf.h"

struct sharers {
    struct fid_ep *srx;
    struct fid_stx *stx;
    struct fid_av *av;
    struct fid_ep *ep[2];
    struct fid_cq *cq[2];
    fi_addr_t addr[2];
};

static void open_one(struct sharers *s, struct conf_fabric *home, int i)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};

    must("fi_cq_open", fi_cq_open(home->domain, &attr, &s->cq[i], NULL));
    must("fi_endpoint", fi_endpoint(home->domain, home->info, &s->ep[i], NULL));
    must("bind cq", fi_ep_bind(s->ep[i], &s->cq[i]->fid, FI_TRANSMIT | FI_RECV));
    must("bind av", fi_ep_bind(s->ep[i], &s->av->fid, 0));
    conf_check(fi_enable(s->ep[i]) != 0, "fi_enable without the shared receive context");
    must("bind srx", fi_ep_bind(s->ep[i], &s->srx->fid, 0));
    must("bind stx", fi_ep_bind(s->ep[i], &s->stx->fid, 0));
    must("fi_enable", fi_enable(s->ep[i]));
}

static struct sharers *open_sharers(struct conf_fabric *home)
{
    struct conf_want want = {
        .tx_ctx_cnt = FI_SHARED_CONTEXT,
        .rx_ctx_cnt = FI_SHARED_CONTEXT,
    };
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct sharers *s = calloc(1, sizeof(*s));
    char name[256];

    conf_need("shared_contexts");
    conf_fabric_open(home, &want);
    conf_check(home->info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT, "rx_ctx_cnt is not as asked");
    must("fi_srx_context", fi_srx_context(home->domain, home->info->rx_attr, &s->srx, NULL));
    must("fi_stx_context", fi_stx_context(home->domain, home->info->tx_attr, &s->stx, NULL));
    must("fi_av_open", fi_av_open(home->domain, &av, &s->av, NULL));
    for (int i = 0; i < 2; i++) {
        size_t len = sizeof(name);

        open_one(s, home, i);
        must("fi_getname", fi_getname(&s->ep[i]->fid, name, &len));
        conf_check(fi_av_insert(s->av, name, 1, &s->addr[i], 0, NULL) == 1, "fi_av_insert");
    }
    return s;
}

static void close_sharers(struct sharers *s, struct conf_fabric *home)
{
    conf_check(fi_close(&s->srx->fid) == -FI_EBUSY, "a receive context in use closes");
    conf_check(fi_close(&s->stx->fid) == -FI_EBUSY, "a transmit context in use closes");
    for (int i = 0; i < 2; i++) {
        must("fi_close(ep)", fi_close(&s->ep[i]->fid));
        must("fi_close(cq)", fi_close(&s->cq[i]->fid));
    }
    must("fi_close(srx)", fi_close(&s->srx->fid));
    must("fi_close(stx)", fi_close(&s->stx->fid));
    must("fi_close(av)", fi_close(&s->av->fid));
    conf_fabric_close(home);
    free(s);
}

/* Waits for the entry of `context`, in the queue of endpoint `which`; drops those of sends. */
static struct fi_cq_tagged_entry next(struct sharers *s, int which, void *context)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    struct fi_cq_tagged_entry entry;

    for (;;) {
        for (int i = 0; i < 2; i++) {
            ssize_t n = fi_cq_read(s->cq[i], &entry, 1);

            if (n != 1)
                conf_check(n == -FI_EAGAIN, "fi_cq_read: %s", fi_strerror((int)-n));
            else if (entry.flags & FI_RECV) {
                conf_check(entry.op_context == context && i == which,
                           "a receive completed at endpoint %d, expected at %d", i, which);
                return entry;
            }
        }
        conf_check(conf_now_ms() < deadline, "no completion in %d ms", CONF_TIMEOUT_MS);
    }
}

static void send_to(struct sharers *s, int from, int to, const void *buf, size_t len, uint64_t tag)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    ssize_t rc;

    while ((rc = fi_tsend(s->ep[from], buf, len, NULL, s->addr[to], tag, NULL)) == -FI_EAGAIN) {
        fi_cq_read(s->cq[0], NULL, 0);
        fi_cq_read(s->cq[1], NULL, 0);
        conf_check(conf_now_ms() < deadline, "fi_tsend: -FI_EAGAIN for %d ms", CONF_TIMEOUT_MS);
    }
    must("fi_tsend", rc);
}

/* Messages for either endpoint take the buffers of the one context; each completes where it came
 * in. */
static void shared_receives(void)
{
    static const size_t sizes[] = {0, 1, 64, 4096, 100000};
    struct conf_fabric home;
    struct sharers *s = open_sharers(&home);
    char *out = malloc(100000), *in = malloc(100000);

    for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++) {
        int to = (int)(i % 2);
        size_t len = sizes[i / 2];
        struct fi_cq_tagged_entry entry;

        conf_fill(out, len, i);
        memset(in, 0, 100000);
        must("fi_trecv", fi_trecv(s->srx, in, 100000, NULL, FI_ADDR_UNSPEC, i, 0, in + i));
        send_to(s, !to, to, out, len, i);
        entry = next(s, to, in + i);
        conf_check(entry.len == len && conf_holds(in, len, i), "%zu bytes arrived wrong", len);
    }
    close_sharers(s, &home);
    free(out);
    free(in);
}

/* The same, when the message is there first, directed to one sender. */
static void shared_unexpected(void)
{
    struct conf_fabric home;
    struct sharers *s = open_sharers(&home);
    char in[2][64];

    send_to(s, 0, 1, "of the first", 13, 9);
    send_to(s, 1, 0, "of the second", 14, 9);
    for (long long end = conf_now_ms() + 50; conf_now_ms() < end;) {
        fi_cq_read(s->cq[0], NULL, 0);
        fi_cq_read(s->cq[1], NULL, 0);
    }
    must("fi_trecv", fi_trecv(s->srx, in[1], 64, NULL, FI_ADDR_UNSPEC, 9, 0, in[1]));
    must("fi_trecv", fi_trecv(s->srx, in[0], 64, NULL, FI_ADDR_UNSPEC, 9, 0, in[0]));
    for (int got = 0, seen = 0; got < 2;) {
        struct fi_cq_tagged_entry entry;

        for (int i = 0; i < 2; i++) {
            if (fi_cq_read(s->cq[i], &entry, 1) != 1 || !(entry.flags & FI_RECV))
                continue;
            conf_check(!(seen & 1 << i), "both messages completed at one endpoint");
            seen |= 1 << i;
            got++;
            conf_check(!strcmp(entry.op_context, i ? "of the first" : "of the second"),
                       "endpoint %d got the other's message", i);
        }
    }
    close_sharers(s, &home);
}

/* Receives are posted and cancelled on the context only. */
static void shared_posts(void)
{
    struct conf_fabric home;
    struct sharers *s = open_sharers(&home);
    struct fi_cq_err_entry error = {0};
    char in[8];
    ssize_t n;

    conf_check(fi_recv(s->ep[0], in, 8, NULL, FI_ADDR_UNSPEC, in) < 0, "fi_recv on a sharer");
    conf_check(fi_trecv(s->ep[0], in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, in) < 0,
               "fi_trecv on a sharer");
    must("fi_recv", fi_recv(s->srx, in, 8, NULL, FI_ADDR_UNSPEC, in));
    must("fi_cancel", fi_cancel(&s->srx->fid, in));
    while ((n = fi_cq_read(s->cq[0], NULL, 0)) == -FI_EAGAIN &&
           (n = fi_cq_read(s->cq[1], NULL, 0)) == -FI_EAGAIN)
        ;
    conf_check(n == -FI_EAVAIL, "fi_cq_read after a cancel: %zd", n);
    if (fi_cq_readerr(s->cq[0], &error, 0) != 1)
        must("fi_cq_readerr", fi_cq_readerr(s->cq[1], &error, 0));
    conf_check(error.err == FI_ECANCELED && error.op_context == in, "cancelled with %d", error.err);
    close_sharers(s, &home);
}

/* To an endpoint that is enabled, and not opened for one: Sandia OpenSHMEM does so,
 * and closes it first. */
static void bound_late(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fid_stx *stx;
    char out = 1, in = 0;

    must("fi_stx_context", fi_stx_context(p->home.domain, p->home.info->tx_attr, &stx, NULL));
    must("bind stx", fi_ep_bind(p->a.ep, &stx->fid, 0));
    conf_post(p, fi_recv(p->b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, &in));
    conf_post(p, fi_send(p->a.ep, &out, 1, NULL, p->a.peer, &out));
    conf_check(!conf_wait(p, &p->b, &in).err && in == 1, "fi_recv");
    conf_check(!conf_wait(p, &p->a, &out).err, "fi_send");
    must("fi_close(stx)", fi_close(&stx->fid));
    conf_pair_close(p);
}

const struct conf_case conf_share_cases[] = {
    {"share: one context receives for all", shared_receives},
    {"share: what comes early waits for all", shared_unexpected},
    {"share: receives are posted on the context", shared_posts},
    {"share: a transmit context bound after fi_enable", bound_late},
    {NULL, NULL},
};
