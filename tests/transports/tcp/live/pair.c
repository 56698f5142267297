/* SPDX-License-Identifier: BSD-2-Clause */
#include "pair.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PATIENCE_MS = 60000,
    FDS = 1024
};

long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void fill(void *buf, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)buf)[i] = (uint8_t)(i * 31 + (i >> 8) + seed);
}

void check_filled(const void *buf, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        if (((const uint8_t *)buf)[i] != (uint8_t)(i * 31 + (i >> 8) + seed))
            fail_msg("byte %zu of %zu is wrong", i, len);
    }
}

static struct fi_info *make_hints(const struct options *options)
{
    struct fi_info *hints = fi_allocinfo();

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup(options->spec ? options->spec : "tcp");
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG | FI_RMA | FI_RMA_EVENT | FI_MULTI_RECV | FI_FENCE | options->caps;
    hints->tx_attr->size = options->tx_size;
    hints->tx_attr->op_flags = options->tx_op_flags;
    if (options->shared) {
        hints->caps |= FI_TAGGED;
        hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    }
    if (options->automatic) {
        hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
        hints->domain_attr->control_progress = FI_PROGRESS_AUTO;
    }
    return hints;
}

void pair_listen(struct pair *pair, const struct options *options)
{
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};

    memset(pair, 0, sizeof(*pair));
    pair->options = *options;
    struct fi_info *hints = make_hints(options);
    const char *node = options->node ? options->node : "127.0.0.1";
    assert_int_equal(fi_getinfo(FI_VERSION(1, 20), node, NULL, FI_SOURCE, hints, &pair->info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL), 0);
    assert_int_equal(fi_eq_open(pair->fabric, &eq_attr, &pair->eq, NULL), 0);
    assert_int_equal(fi_passive_ep(pair->fabric, pair->info, &pair->pep, pair), 0);
    assert_int_equal(fi_pep_bind(pair->pep, &pair->eq->fid, 0), 0);
    assert_int_equal(fi_listen(pair->pep), 0);
    pair->address_len = sizeof(pair->address);
    assert_int_equal(fi_getname(&pair->pep->fid, &pair->address, &pair->address_len), 0);
}

static struct fid_cq *open_cq(struct fid_domain *domain)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(domain, &attr, &cq, NULL), 0);
    return cq;
}

void side_open(struct pair *pair, struct side *side, struct fi_info *info)
{
    struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
    uint64_t selective = pair->options.selective ? FI_SELECTIVE_COMPLETION : 0;

    memset(side, 0, sizeof(*side));
    assert_int_equal(fi_domain(pair->fabric, info, &side->domain, NULL), 0);
    side->tx = open_cq(side->domain);
    side->rx = open_cq(side->domain);
    assert_int_equal(fi_cntr_open(side->domain, &cntr_attr, &side->remote_writes, NULL), 0);
    assert_int_equal(fi_endpoint(side->domain, info, &side->ep, side), 0);
    assert_int_equal(fi_ep_bind(side->ep, &pair->eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->tx->fid, FI_TRANSMIT | selective), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->rx->fid, FI_RECV | selective), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->remote_writes->fid, FI_REMOTE_WRITE), 0);
    if (pair->options.shared) {
        assert_int_equal(fi_srx_context(side->domain, info->rx_attr, &side->srx, NULL), 0);
        assert_int_equal(fi_ep_bind(side->ep, &side->srx->fid, 0), 0);
    }
    assert_int_equal(fi_enable(side->ep), 0);
}

void side_close(struct side *side)
{
    if (!side->domain)
        return;
    if (side->ep)
        assert_int_equal(fi_close(&side->ep->fid), 0);
    if (side->srx)
        assert_int_equal(fi_close(&side->srx->fid), 0);
    assert_int_equal(fi_close(&side->remote_writes->fid), 0);
    assert_int_equal(fi_close(&side->rx->fid), 0);
    assert_int_equal(fi_close(&side->tx->fid), 0);
    assert_int_equal(fi_close(&side->domain->fid), 0);
    memset(side, 0, sizeof(*side));
}

void pair_open(struct pair *pair, const struct options *options)
{
    struct fi_eq_cm_entry entry;

    pair_listen(pair, options);
    side_open(pair, &pair->a, pair->info);
    assert_int_equal(fi_connect(pair->a.ep, &pair->address, NULL, 0), 0);
    expect_event(pair, FI_CONNREQ, &entry);
    assert_ptr_equal(entry.fid, &pair->pep->fid);
    side_open(pair, &pair->b, entry.info);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_accept(pair->b.ep, NULL, 0), 0);
    expect_event(pair, FI_CONNECTED, &entry);
    expect_event(pair, FI_CONNECTED, &entry);
}

static struct fid_ep *another(struct pair *pair, struct side *side, struct fi_info *info)
{
    struct fid_ep *ep;

    assert_int_equal(fi_endpoint(side->domain, info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &pair->eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(ep, &side->tx->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(ep, &side->rx->fid, FI_RECV), 0);
    if (side->srx)
        assert_int_equal(fi_ep_bind(ep, &side->srx->fid, 0), 0);
    assert_int_equal(fi_enable(ep), 0);
    return ep;
}

void connect_another(struct pair *pair, struct fid_ep **a, struct fid_ep **b)
{
    struct fi_eq_cm_entry entry;

    *a = another(pair, &pair->a, pair->info);
    assert_int_equal(fi_connect(*a, &pair->address, NULL, 0), 0);
    expect_event(pair, FI_CONNREQ, &entry);
    *b = another(pair, &pair->b, entry.info);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_accept(*b, NULL, 0), 0);
    expect_event(pair, FI_CONNECTED, &entry);
    expect_event(pair, FI_CONNECTED, &entry);
}

void pair_close(struct pair *pair)
{
    side_close(&pair->a);
    side_close(&pair->b);
    assert_int_equal(fi_close(&pair->pep->fid), 0);
    assert_int_equal(fi_close(&pair->eq->fid), 0);
    assert_int_equal(fi_close(&pair->fabric->fid), 0);
    fi_freeinfo(pair->info);
}

void expect_event(struct pair *pair, uint32_t want, struct fi_eq_cm_entry *entry)
{
    uint32_t event = 0;
    ssize_t rc = fi_eq_sread(pair->eq, &event, entry, sizeof(*entry), PATIENCE_MS, 0);

    if (rc == -FI_EAVAIL) {
        struct fi_eq_err_entry error = {0};
        fi_eq_readerr(pair->eq, &error, 0);
        fail_msg("error event: %s", fi_strerror(error.err));
    }
    assert_int_equal(rc, sizeof(*entry));
    assert_int_equal(event, want);
}

int expect_error_event(struct pair *pair, struct fi_eq_err_entry *error)
{
    struct fi_eq_cm_entry entry;
    uint32_t event = 0;

    assert_int_equal(fi_eq_sread(pair->eq, &event, &entry, sizeof(entry), PATIENCE_MS, 0),
                     -FI_EAVAIL);
    assert_true(fi_eq_readerr(pair->eq, error, 0) > 0);
    return error->err;
}

void expect_no_event(struct pair *pair)
{
    struct fi_eq_cm_entry entry;
    uint32_t event = 0;

    assert_int_equal(fi_eq_read(pair->eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
}

static void drive(struct side *side)
{
    if (!side->domain)
        return;
    fi_cq_read(side->tx, NULL, 0);
    fi_cq_read(side->rx, NULL, 0);
}

void settle(struct pair *pair)
{
    for (int i = 0; i < 200; i++) {
        drive(&pair->a);
        drive(&pair->b);
        if (i % 50 == 0)
            usleep(500);
    }
}

static ssize_t next(struct pair *pair, struct fid_cq *cq, struct fi_cq_tagged_entry *entry)
{
    long long until = now_ms() + PATIENCE_MS;
    ssize_t rc;

    while ((rc = fi_cq_read(cq, entry, 1)) == -FI_EAGAIN && now_ms() < until) {
        drive(&pair->a);
        drive(&pair->b);
    }
    return rc;
}

void expect_completion(struct pair *pair, struct fid_cq *cq, struct fi_cq_tagged_entry *entry)
{
    ssize_t rc = next(pair, cq, entry);

    if (rc == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(cq, &error, 0);
        fail_msg("error entry: %s", fi_strerror(error.err));
    }
    assert_int_equal(rc, 1);
}

int expect_failure(struct pair *pair, struct fid_cq *cq, struct fi_cq_err_entry *error)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(next(pair, cq, &entry), -FI_EAVAIL);
    memset(error, 0, sizeof(*error));
    assert_int_equal(fi_cq_readerr(cq, error, 0), 1);
    return error->err;
}

void receive_and_send(struct pair *pair, void *in, const void *out, size_t len)
{
    assert_int_equal(fi_recv(pair->b.ep, in, len, NULL, 0, in), 0);
    assert_int_equal(fi_send(pair->a.ep, out, len, NULL, 0, (void *)(uintptr_t)out), 0);
}

void expect_both(struct pair *pair, const void *in, const void *out, size_t len)
{
    struct fi_cq_tagged_entry done;

    expect_completion(pair, pair->a.tx, &done);
    assert_ptr_equal(done.op_context, out);
    expect_completion(pair, pair->b.rx, &done);
    assert_ptr_equal(done.op_context, in);
    assert_int_equal(done.len, len);
}

void expect_nothing(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
}

int raw_connect(const struct pair *pair)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)&pair->address, (socklen_t)pair->address_len), 0);
    return fd;
}

int raw_bind(struct sockaddr_in *address)
{
    socklen_t len = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)address, sizeof(*address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &len), 0);
    return fd;
}

int raw_listen(struct sockaddr_in *address)
{
    int fd = raw_bind(address);

    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

int rings(void)
{
    char path[64], target[64];
    int count = 0;

    for (int fd = 0; fd < FDS; fd++) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, target, sizeof(target) - 1);

        target[len > 0 ? len : 0] = '\0';
        count += strstr(target, "[io_uring]") != NULL;
    }
    return count;
}

bool have_rings(const char *spec)
{
    struct pair pair;

    pair_open(&pair, &(struct options){.spec = spec});
    int count = rings();
    pair_close(&pair);
    return count > 0;
}
