/* SPDX-License-Identifier: BSD-2-Clause */
#include "ends.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PATIENCE_MS = 60000
};

struct end a, b;

static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct fi_info *ask(const struct options *options)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    const char *node = options->node || options->port ? options->node : "127.0.0.1";

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup(options->spec ? options->spec : "udp");
    hints->ep_attr->type = options->type ? options->type : FI_EP_DGRAM;
    hints->caps = FI_MSG | options->caps;
    hints->addr_format = options->format;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->data_progress = hints->domain_attr->control_progress =
        options->automatic ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
    if (options->alone) {
        hints->domain_attr->threading = FI_THREAD_DOMAIN;
        hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    }
    if (fi_getinfo(FI_VERSION(1, 20), node, options->port, FI_SOURCE, hints, &info))
        info = NULL;
    fi_freeinfo(hints);
    return info;
}

static struct fid_cq *open_cq(struct end *end)
{
    struct fi_cq_attr attr = {
        .format = FI_CQ_FORMAT_TAGGED,
        .wait_obj = end->options.wait ? end->options.wait : FI_WAIT_NONE,
    };
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(end->domain, &attr, &cq, NULL), 0);
    return cq;
}

static void open_objects(struct end *end)
{
    struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};

    assert_int_equal(fi_fabric(end->info->fabric_attr, &end->fabric, NULL), 0);
    assert_int_equal(fi_eq_open(end->fabric, &eq_attr, &end->eq, NULL), 0);
    assert_int_equal(fi_domain(end->fabric, end->info, &end->domain, NULL), 0);
    end->tx = open_cq(end);
    end->rx = open_cq(end);
    assert_int_equal(fi_cntr_open(end->domain, &cntr_attr, &end->sent, NULL), 0);
    assert_int_equal(fi_cntr_open(end->domain, &cntr_attr, &end->received, NULL), 0);
    assert_int_equal(fi_av_open(end->domain, &av_attr, &end->av, NULL), 0);
    assert_int_equal(fi_endpoint(end->domain, end->info, &end->ep, end), 0);
}

void end_open(struct end *end, const struct options *options)
{
    uint64_t selective = options->selective ? FI_SELECTIVE_COMPLETION : 0;

    memset(end, 0, sizeof(*end));
    end->options = *options;
    end->info = ask(options);
    assert_non_null(end->info);
    open_objects(end);
    assert_int_equal(fi_ep_bind(end->ep, &end->tx->fid, FI_TRANSMIT | selective), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->rx->fid, FI_RECV | selective), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->sent->fid, FI_SEND), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->received->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    if (!options->no_eq)
        assert_int_equal(fi_ep_bind(end->ep, &end->eq->fid, 0), 0);
    if (options->min_multi_recv)
        assert_int_equal(fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
                                   &options->min_multi_recv, sizeof(size_t)),
                         0);
    if (options->prepare)
        options->prepare(end);
    assert_int_equal(fi_enable(end->ep), 0);
}

void end_close(struct end *end)
{
    assert_int_equal(fi_close(&end->ep->fid), 0);
    assert_int_equal(fi_close(&end->av->fid), 0);
    assert_int_equal(fi_close(&end->sent->fid), 0);
    assert_int_equal(fi_close(&end->received->fid), 0);
    assert_int_equal(fi_close(&end->tx->fid), 0);
    assert_int_equal(fi_close(&end->rx->fid), 0);
    assert_int_equal(fi_close(&end->domain->fid), 0);
    assert_int_equal(fi_close(&end->eq->fid), 0);
    assert_int_equal(fi_close(&end->fabric->fid), 0);
    fi_freeinfo(end->info);
    memset(end, 0, sizeof(*end));
}

fi_addr_t introduce(struct end *to, const struct end *end)
{
    char raw[128], *text = raw;
    size_t len = sizeof(raw);
    bool str = to->info->addr_format == FI_ADDR_STR;
    fi_addr_t addr;

    assert_int_equal(fi_getname(&end->ep->fid, raw, &len), 0);
    assert_int_equal(fi_av_insert(to->av, str ? (void *)&text : raw, 1, &addr, 0, NULL), 1);
    return addr;
}

void ends_open(const struct options *options)
{
    end_open(&a, options);
    end_open(&b, options);
    a.peer = introduce(&a, &b);
    b.peer = introduce(&b, &a);
}

void ends_close(void)
{
    end_close(&a);
    end_close(&b);
}

void drive(void)
{
    if (a.ep)
        fi_cntr_read(a.sent);
    if (b.ep)
        fi_cntr_read(b.sent);
}

struct fi_cq_tagged_entry expect(struct fid_cq *cq, void *context, fi_addr_t *src)
{
    long long deadline = now_ms() + PATIENCE_MS;
    struct fi_cq_tagged_entry entry;
    fi_addr_t from;
    ssize_t rc;

    while ((rc = fi_cq_readfrom(cq, &entry, 1, &from)) == -FI_EAGAIN) {
        drive();
        assert_true(now_ms() < deadline);
    }
    assert_int_equal(rc, 1);
    assert_ptr_equal(entry.op_context, context);
    if (src)
        *src = from;
    return entry;
}

struct fi_cq_err_entry expect_failure(struct fid_cq *cq, void *context, int err)
{
    long long deadline = now_ms() + PATIENCE_MS;
    static struct fi_cq_err_entry entry;
    struct fi_cq_tagged_entry one;
    ssize_t rc;

    while ((rc = fi_cq_read(cq, &one, 1)) == -FI_EAGAIN) {
        drive();
        assert_true(now_ms() < deadline);
    }
    assert_int_equal(rc, -FI_EAVAIL);
    memset(&entry, 0, sizeof(entry));
    assert_int_equal(fi_cq_readerr(cq, &entry, 0), 1);
    assert_ptr_equal(entry.op_context, context);
    assert_int_equal(entry.err, err);
    return entry;
}

void expect_nothing(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < 20; i++) {
        drive();
        assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
    }
}

struct fi_eq_err_entry expect_event_error(struct fid_eq *eq, int err)
{
    long long deadline = now_ms() + PATIENCE_MS;
    static struct fi_eq_err_entry entry;
    char event[256];
    uint32_t number;
    ssize_t rc;

    while ((rc = fi_eq_read(eq, &number, event, sizeof(event), 0)) == -FI_EAGAIN)
        assert_true(now_ms() < deadline);
    assert_int_equal(rc, -FI_EAVAIL);
    memset(&entry, 0, sizeof(entry));
    assert_int_equal(fi_eq_readerr(eq, &entry, 0), sizeof(entry));
    assert_int_equal(entry.err, err);
    return entry;
}

void send_to(struct end *from, fi_addr_t to, const void *buf, size_t len)
{
    ssize_t rc;

    while ((rc = fi_send(from->ep, buf, len, NULL, to, (void *)(uintptr_t)buf)) == -FI_EAGAIN)
        drive();
    assert_int_equal(rc, 0);
}

void send_flags(struct end *from, fi_addr_t to, const void *buf, size_t len, uint64_t flags)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = to, .context = iov.iov_base};
    ssize_t rc;

    while ((rc = fi_sendmsg(from->ep, &msg, flags)) == -FI_EAGAIN)
        drive();
    assert_int_equal(rc, 0);
}

void receive(struct end *end, void *buf, size_t len)
{
    assert_int_equal(fi_recv(end->ep, buf, len, NULL, FI_ADDR_UNSPEC, buf), 0);
}

void receive_multi(struct end *end, void *buf, size_t len)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buf};

    assert_int_equal(fi_recvmsg(end->ep, &msg, FI_MULTI_RECV | FI_COMPLETION), 0);
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

void exchange_few(void)
{
    static char out[8], in[8];

    receive(&b, in, sizeof(in));
    send_to(&a, a.peer, out, sizeof(out));
    expect(b.rx, in, NULL);
    expect(a.tx, out, NULL);
}

/* ---- Trains ---- */

int ask_train_port(struct end *end, const struct fid_ep *of, struct train_port *port)
{
    size_t len = sizeof(*port);

    *port = (struct train_port){.of = of};
    return fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, OPT_TRAINS, port, &len);
}

int set_train_port(struct end *end, const struct train_port *port, size_t len)
{
    return fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, OPT_TRAINS, port, len);
}

struct train_port train_port_of(struct end *end)
{
    struct train_port port;

    assert_int_equal(ask_train_port(end, end->ep, &port), 0);
    assert_non_null(port.send);
    return port;
}
