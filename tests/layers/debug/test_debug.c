/* SPDX-License-Identifier: BSD-2-Clause */
/* Each rule: a call that keeps it is not reported, a call that breaks it is, with the call and the
 * page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <signal.h>

#include "../../support/tries.h"
#include "reports.h"

/* ---- What was granted ---- */

static struct fid_ep *endpoint_with(struct pair *pair, const struct fi_info *info)
{
    struct fid_ep *ep;

    assert_int_equal(fi_endpoint(pair->domain, (struct fi_info *)info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &pair->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &pair->av->fid, 0), 0);
    assert_int_equal(fi_enable(ep), 0);
    return ep;
}

static void caps_that_were_not_asked_are_not_used(void **state)
{
    struct fi_info *info;
    struct pair pair;
    struct fid_ep *ep;

    pair_open(&pair, stack("", "loop"));
    info = fi_dupinfo(pair.info);
    info->caps = info->tx_attr->caps = info->rx_attr->caps = FI_TAGGED;
    ep = endpoint_with(&pair, info);
    assert_int_equal(fi_tinject(ep, from, 1, pair.to[1], 1), 0);
    is_silent();
    fi_inject(ep, from, 1, pair.to[1]);
    reports("fi_inject", "caps");
    fi_freeinfo(info);
    fi_close(&ep->fid);
    pair_close(&pair);
}

static void an_info_is_one_that_was_granted(void **state)
{
    struct fi_info *info;
    struct pair pair;
    struct fid_ep *ep;

    pair_open(&pair, stack("", "loop"));
    info = fi_dupinfo(pair.info);
    info->caps |= FI_HMEM;
    ep = endpoint_with(&pair, info);
    reports("fi_endpoint", "granted");
    fi_freeinfo(info);
    fi_close(&ep->fid);
    pair_close(&pair);
}

static void order_is_one_that_was_granted(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;

    hints->ep_attr->type = FI_EP_DGRAM;
    setenv("FI_PROVIDER", stack("", "loop"), 1);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    fi_close(&ep->fid);
    is_silent();
    info->tx_attr->msg_order = FI_ORDER_SAS;
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    reports("fi_endpoint", "granted");
    fi_close(&ep->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(hints);
    fi_freeinfo(info);
}

static void limits_are_kept(void **state)
{
    struct iovec iov[5];
    struct fi_rma_iov remote[5];
    struct fi_msg_rma rma = {.msg_iov = iov, .iov_count = 1, .rma_iov = remote};
    struct pair pair;

    for (int i = 0; i < 5; i++)
        iov[i] = (struct iovec){from + i, 1};
    memset(remote, 0, sizeof(remote));
    pair_open(&pair, stack("", "loop"));
    rma.addr = pair.to[1];
    assert_int_equal(fi_tsendv(pair.ep[0], iov, NULL, 4, pair.to[1], 1, &pair), 0);
    assert_int_equal(fi_tinject(pair.ep[0], from, 256, pair.to[1], 1), 0);
    drain(&pair, 1);
    is_silent();
    fi_tsendv(pair.ep[0], iov, NULL, 5, pair.to[1], 1, &pair);
    reports("fi_tsendv", "iov_limit");
    rma.rma_iov_count = 5;
    fi_writemsg(pair.ep[0], &rma, 0);
    reports("fi_writemsg", "rma_iov_limit");
    fi_tinject(pair.ep[0], from, 257, pair.to[1], 1);
    reports("fi_tinject", "inject_size");
    pair_close(&pair);
}

static void a_message_has_a_size(void **state)
{
    struct fi_info *info;
    struct pair pair;
    struct fid_ep *ep;

    pair_open(&pair, stack("", "loop"));
    info = fi_dupinfo(pair.info);
    info->ep_attr->max_msg_size = 100;
    ep = endpoint_with(&pair, info);
    assert_int_equal(fi_tsend(ep, from, 100, NULL, pair.to[1], 1, NULL), 0);
    is_silent();
    assert_int_equal(fi_tsend(ep, from, 101, NULL, pair.to[1], 1, NULL), 0);
    reports("fi_tsend", "max_msg_size");
    drain(&pair, 0);
    fi_freeinfo(info);
    fi_close(&ep->fid);
    pair_close(&pair);
}

static void flags_need_their_caps(void **state)
{
    struct iovec iov = {from, 1};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1};
    struct fi_info *info;
    struct pair pair;
    struct fid_ep *ep;

    pair_open(&pair, stack("", "loop"));
    msg.addr = pair.to[1];
    info = fi_dupinfo(pair.info);
    info->caps = info->tx_attr->caps = info->rx_attr->caps = FI_MSG;
    ep = endpoint_with(&pair, info);
    fi_sendmsg(ep, &msg, FI_INJECT);
    msg.addr = FI_ADDR_UNSPEC;
    fi_recvmsg(ep, &msg, FI_COMPLETION);
    is_silent();
    fi_recvmsg(ep, &msg, FI_MULTI_RECV);
    reports("fi_recvmsg", "multi_recv");
    msg.addr = pair.to[1];
    fi_sendmsg(ep, &msg, FI_FENCE | FI_INJECT);
    reports("fi_sendmsg", "fence");
    drain(&pair, 0);
    fi_freeinfo(info);
    fi_close(&ep->fid);
    while (fi_cq_read(pair.cq, from, 1) != -FI_EAGAIN)
        ;
    pair_close(&pair);
}

static void data_fits_its_field(void **state)
{
    struct pair pair;
    struct fid_domain *domain, *whole;
    struct fid_ep *ep;

    pair_open(&pair, stack("", "loop"));
    pair.info->domain_attr->cq_data_size = 4;
    whole = pair.domain;
    assert_int_equal(fi_domain(pair.fabric, pair.info, &domain, NULL), 0);
    assert_int_equal(fi_endpoint(domain, pair.info, &ep, NULL), 0);
    unlink(path);
    fi_senddata(ep, from, 1, NULL, 0xffffffff, pair.to[1], NULL);
    unlink(path); /* it is not enabled */
    fi_senddata(ep, from, 1, NULL, 0x1ffffffff, pair.to[1], NULL);
    assert_non_null(strstr(read_report(), "(cq_data_size: fi_domain(3)"));
    fi_close(&ep->fid);
    fi_close(&domain->fid);
    pair.domain = whole;
    pair_close(&pair);
}

/* ---- Memory ---- */

static void buffers_are_registered(void **state)
{
    struct fid_mr *mr, *receives;
    struct pair pair;

    pair_open(&pair, stack(",demand=mr_local", "loop"));
    mr = region(&pair, from, 100, FI_SEND | FI_RECV);
    receives = region(&pair, to, 100, FI_RECV);
    assert_int_equal(fi_trecv(pair.ep[1], from + 50, 50, fi_mr_desc(mr), FI_ADDR_UNSPEC, 1, 0, to),
                     0);
    assert_int_equal(fi_tsend(pair.ep[0], from, 50, fi_mr_desc(mr), pair.to[1], 1, from), 0);
    drain(&pair, 2);
    fi_tinject(pair.ep[0], to, 8, pair.to[1], 2); /* needs none */
    is_silent();
    fi_tsend(pair.ep[0], from, 50, NULL, pair.to[1], 3, from);
    reports("fi_tsend", "descriptor");
    fi_tsend(pair.ep[0], from + 51, 50, fi_mr_desc(mr), pair.to[1], 3, from);
    reports("fi_tsend", "range");
    fi_tsend(pair.ep[0], to, 50, fi_mr_desc(receives), pair.to[1], 3, from);
    reports("fi_tsend", "access");
    drain(&pair, 3);
    fi_close(&receives->fid);
    fi_close(&mr->fid);
    pair_close(&pair);
}

static void regions_stay_while_they_are_used(void **state)
{
    struct fid_mr *mr;
    struct pair pair;

    pair_open(&pair, stack(",demand=mr_local", "loop"));
    mr = region(&pair, to, 100, FI_RECV);
    assert_int_equal(fi_trecv(pair.ep[1], to, 50, fi_mr_desc(mr), FI_ADDR_UNSPEC, 1, 0, to), 0);
    fi_tinject(pair.ep[0], from, 1, pair.to[1], 1);
    drain(&pair, 1);
    fi_close(&mr->fid);
    is_silent();
    mr = region(&pair, to, 100, FI_RECV);
    assert_int_equal(fi_trecv(pair.ep[1], to, 50, fi_mr_desc(mr), FI_ADDR_UNSPEC, 1, 0, to), 0);
    fi_close(&mr->fid);
    reports("fi_close", "region_in_use");
    pair_close(&pair);
}

/* ---- Contexts ---- */

static void contexts_are_the_lowers_until_they_complete(void **state)
{
    struct fi_context one, two;
    struct pair pair;

    pair_open(&pair, stack(",demand=context", "loop"));
    for (int i = 0; i < 3; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &one, &two));
    fi_tinject(pair.ep[0], from, 8, pair.to[1], 9);
    is_silent();
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &one), 0);
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 2, 0, &one), 0);
    reports("fi_trecv", "context_in_use");
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    reports("fi_trecv", "no_context");
    pair_close(&pair);
}

static void other_modes_leave_contexts_alone(void **state)
{
    struct pair pair;

    pair_open(&pair, stack("", "loop"));
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, to), 0);
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 2, 0, to), 0);
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 3, 0, NULL), 0);
    is_silent();
    pair_close(&pair);
}

static void a_cancelled_context_is_free(void **state)
{
    struct fi_context one;
    struct pair pair;

    pair_open(&pair, stack(",demand=context", "loop"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &one), 0);
        assert_int_equal(fi_cancel(&pair.ep[1]->fid, &one), 0);
        drain(&pair, 1);
    }
    is_silent();
    pair_close(&pair);
}

/* ---- Completions ---- */

static void completions_are_read(void **state)
{
    struct pair pair;

    pair_open(&pair, stack("", "loop"));
    assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    pair_close(&pair);
    is_silent();
    pair_open(&pair, stack("", "loop"));
    assert_int_equal(fi_tsend(pair.ep[0], from, 8, NULL, pair.to[1], 1, from), 0);
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, to), 0);
    for (int i = 0; i < 100; i++)
        fi_cq_read(pair.cq, NULL, 0);
    pair_close(&pair);
    assert_non_null(strstr(read_report(), "2 completions"));
    reports("fi_close", "unread");
}

static void errors_are_read(void **state)
{
    struct pair pair;

    pair_open(&pair, stack("", "loop"));
    assert_int_equal(fi_trecv(pair.ep[1], to, 4, NULL, FI_ADDR_UNSPEC, 1, 0, to), 0);
    assert_int_equal(fi_tinject(pair.ep[0], from, 8, pair.to[1], 1), 0);
    for (int i = 0; i < 100; i++)
        fi_cq_read(pair.cq, NULL, 0);
    pair_close(&pair);
    assert_non_null(strstr(read_report(), "1 errors were never read, the first of these: "));
    reports("fi_close", "unread");
}

/* Also of a program that closes its queue right behind. */
static void what_was_cancelled_need_not_be_read(void **state)
{
    struct pair pair;

    pair_open(&pair, stack("", "loop"));
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, to), 0);
    assert_int_equal(fi_trecv(pair.ep[1], to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, from), 0);
    assert_int_equal(fi_cancel(&pair.ep[1]->fid, to), 0);
    pair_close(&pair);
    is_silent();
}

static struct fid_cq *queue(struct pair *pair, enum fi_cq_format format, enum fi_wait_obj wait)
{
    struct fi_cq_attr attr = {.format = format, .wait_obj = wait};
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(pair->domain, &attr, &cq, NULL), 0);
    return cq;
}

static struct fid_ep *endpoint_on(struct pair *pair, struct fid_cq *cq, fi_addr_t *addr)
{
    struct fid_ep *ep;
    char address[256];
    size_t len = sizeof(address);

    assert_int_equal(fi_endpoint(pair->domain, pair->info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &pair->av->fid, 0), 0);
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_getname(&ep->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(pair->av, address, 1, addr, 0, NULL), 1);
    return ep;
}

static void formats_have_room(void **state)
{
    static const enum fi_cq_format formats[] = {FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_MSG};
    struct fi_cq_tagged_entry entry;
    struct pair pair;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t addr;

    pair_open(&pair, stack("", "loop"));
    for (int i = 0; i < 2; i++) {
        ssize_t rc;

        cq = queue(&pair, formats[i], FI_WAIT_NONE);
        ep = endpoint_on(&pair, cq, &addr);
        assert_int_equal(fi_recv(ep, to, 8, NULL, FI_ADDR_UNSPEC, to), 0);
        assert_int_equal(fi_injectdata(pair.ep[0], from, 8, 7, addr), 0);
        while ((rc = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
            ;
        assert_int_equal(rc, 1);
        if (i == 0)
            is_silent();
        else
            reports("fi_cq_read", "format");
        fi_close(&ep->fid);
        fi_close(&cq->fid);
    }
    pair_close(&pair);
}

static void multi_receive_buffers_need_a_format(void **state)
{
    static const enum fi_cq_format formats[] = {FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_CONTEXT};
    struct iovec iov = {to, sizeof(to)};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
    struct pair pair;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t addr;

    pair_open(&pair, stack("", "loop"));
    pair.info->caps |= FI_MULTI_RECV;
    for (int i = 0; i < 2; i++) {
        cq = queue(&pair, formats[i], FI_WAIT_NONE);
        ep = endpoint_on(&pair, cq, &addr);
        assert_int_equal(fi_recvmsg(ep, &msg, FI_MULTI_RECV), 0);
        if (i == 0)
            is_silent();
        else
            reports("fi_recvmsg", "format");
        fi_close(&ep->fid);
        fi_close(&cq->fid);
    }
    pair_close(&pair);
}

static void who_waits_asked_for_it(void **state)
{
    struct fi_cq_tagged_entry entry;
    struct pair pair;
    struct fid_cq *cq;

    pair_open(&pair, stack("", "loop"));
    cq = queue(&pair, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
    fi_cq_sread(cq, &entry, 1, NULL, 0);
    is_silent();
    fi_cq_sread(pair.cq, &entry, 1, NULL, 0);
    reports("fi_cq_sread", "wait_obj");
    fi_close(&cq->fid);
    pair_close(&pair);
}

/* ---- Objects ---- */

static void what_is_used_closes_last(void **state)
{
    struct pair pair;

    pair_open(&pair, stack("", "loop"));
    assert_int_equal(fi_close(&pair.cq->fid), -FI_EBUSY);
    assert_non_null(strstr(read_report(), "ep "));
    reports("fi_close", "close_order");
    assert_int_equal(fi_close(&pair.domain->fid), -FI_EBUSY);
    reports("fi_close", "close_order");
    assert_int_equal(fi_close(&pair.fabric->fid), -FI_EBUSY);
    reports("fi_close", "close_order");
    pair_close(&pair);
    is_silent();
}

static void what_is_closed_is_not_bound(void **state)
{
    struct pair pair;
    struct fid_cq *cq;
    struct fid_ep *ep;

    pair_open(&pair, stack("", "loop"));
    cq = queue(&pair, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
    assert_int_equal(fi_endpoint(pair.domain, pair.info, &ep, NULL), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    is_silent();
    assert_int_equal(ep->fid.ops->bind(&ep->fid, (struct fid *)cq, FI_TRANSMIT), -FI_EINVAL);
    reports("fi_bind", "closed");
    fi_close(&ep->fid);
    pair_close(&pair);
}

static void endpoints_are_enabled_once_bound(void **state)
{
    struct fid_cntr *cntr;
    struct pair pair;
    struct fid_ep *ep;

    pair_open(&pair, stack("", "loop"));
    assert_int_equal(fi_cntr_open(pair.domain, NULL, &cntr, NULL), 0);
    assert_int_equal(fi_endpoint(pair.domain, pair.info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &pair.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &pair.av->fid, 0), 0);
    is_silent();
    fi_recv(ep, to, 8, NULL, FI_ADDR_UNSPEC, to);
    reports("fi_recv", "enabled");
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_recv(ep, to, 8, NULL, FI_ADDR_UNSPEC, to), 0);
    is_silent();
    fi_ep_bind(ep, &cntr->fid, FI_SEND); /* which may come late */
    is_silent();
    fi_ep_bind(ep, &pair.av->fid, 0);
    reports("fi_bind", "bound_late");
    fi_close(&ep->fid);
    fi_close(&cntr->fid);
    pair_close(&pair);
}

static void addresses_are_in_the_vector(void **state)
{
    struct pair pair;
    fi_addr_t gone;

    pair_open(&pair, stack("", "loop"));
    gone = pair.to[0];
    fi_tinject(pair.ep[1], from, 8, gone, 1);
    is_silent();
    fi_tinject(pair.ep[0], from, 8, 12345, 1);
    reports("fi_tinject", "address");
    fi_tinject(pair.ep[0], from, 8, FI_ADDR_UNSPEC, 1);
    reports("fi_tinject", "address");
    assert_int_equal(fi_av_remove(pair.av, &gone, 1, 0), 0);
    is_silent();
    fi_tinject(pair.ep[1], from, 8, gone, 1);
    reports("fi_tinject", "address");
    fi_av_remove(pair.av, &gone, 1, 0);
    reports("fi_av_remove", "address");
    pair_close(&pair);
}

/* ---- Threads ---- */

static struct fid_cq *slept_on;

static void *sleep_on_queue(void *arg)
{
    struct fi_cq_tagged_entry entry;

    fi_cq_sread(slept_on, &entry, 1, NULL, 1000);
    return NULL;
}

/* A thread is inside of a read of a queue of the domain while this one sends. */
static void send_beside_a_read(enum fi_threading threading)
{
    pthread_t thread;
    struct pair pair;

    pair_open(&pair, stack("", "loop"));
    pair_close(&pair);
    unlink(path);
    pair_threading = threading;
    pair_open(&pair, stack("", "loop"));
    pair_threading = FI_THREAD_DOMAIN;
    slept_on = queue(&pair, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
    fi_tinject(pair.ep[0], from, 8, pair.to[1], 1);
    is_silent();
    assert_int_equal(pthread_create(&thread, NULL, sleep_on_queue, NULL), 0);
    usleep(300000); /* it is, most probably */
    fi_tinject(pair.ep[0], from, 8, pair.to[1], 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    fi_close(&slept_on->fid);
    pair_close(&pair);
}

static bool two_at_once_are_reported(void)
{
    send_beside_a_read(FI_THREAD_DOMAIN);
    return read_report()[0];
}

static void one_thread_at_a_time(void **state)
{
    assert_true(tries_show(two_at_once_are_reported));
    reports("fi_tinject", "threading");
    send_beside_a_read(FI_THREAD_COMPLETION); /* another queue than that of the endpoint */
    is_silent();
    send_beside_a_read(FI_THREAD_SAFE);
    is_silent();
}

/* ---- Reports ---- */

static void reports_are_bounded(void **state)
{
    struct pair pair;
    int lines = 0;

    pair_open(&pair, stack(",limit=3", "loop"));
    for (int i = 0; i < 100; i++)
        fi_tinject(pair.ep[0], from, 8, 12345, 1);
    pair_close(&pair);
    for (const char *at = read_report(); (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 4);
    assert_non_null(strstr(report, "debug: address: 97 more like these\n"));
}

static int break_a_rule(const char *spec)
{
    struct pair pair;

    pair_open(&pair, spec);
    signal(SIGABRT, SIG_DFL);
    fi_tinject(pair.ep[0], from, 8, 12345, 1);
    return 0;
}

static void the_first_can_end_the_process(void **state)
{
    assert_int_equal(pair_child(break_a_rule, stack(",abort", "loop")), 256 + SIGABRT);
    assert_int_equal(pair_child(break_a_rule, stack("", "loop")), 0);
}

static void a_full_disk_does_not_stop_the_program(void **state)
{
    struct pair pair;
    char said[1024] = "";
    int ends[2], errors = dup(STDERR_FILENO);

    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    pair_open(&pair, "debug(file=\"/dev/full\");loop");
    for (int i = 0; i < 3; i++)
        fi_tinject(pair.ep[0], from, 8, 12345, 1);
    pair_close(&pair);
    dup2(errors, STDERR_FILENO);
    close(errors);
    close(ends[1]);
    assert_true(read(ends[0], said, sizeof(said) - 1) > 0);
    close(ends[0]);
    assert_non_null(strstr(said, "debug: cannot write to '/dev/full': No space left on device"));
    assert_null(strstr(strchr(said, '\n'), "cannot write"));
}

static void mistakes_are_errors(void **state)
{
    assert_int_equal(pair_fabric_rc("debug(file=\"/nonexistent/x\");loop"), -ENOENT);
    assert_int_equal(pair_fabric_rc("debug(demand=contxt);loop"), -FI_ENODATA);
}

/* At the top and in the middle, several at once. */
static void it_stands_anywhere(void **state)
{
    struct pair pair;

    pair_open(&pair, stack("", "noop;debug;noop;debug;loop"));
    for (int i = 0; i < 10; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    pair_close(&pair);
    is_silent();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(caps_that_were_not_asked_are_not_used),
        TEST(an_info_is_one_that_was_granted),
        TEST(order_is_one_that_was_granted),
        TEST(limits_are_kept),
        TEST(a_message_has_a_size),
        TEST(flags_need_their_caps),
        TEST(data_fits_its_field),
        TEST(buffers_are_registered),
        TEST(regions_stay_while_they_are_used),
        TEST(contexts_are_the_lowers_until_they_complete),
        TEST(other_modes_leave_contexts_alone),
        TEST(a_cancelled_context_is_free),
        TEST(completions_are_read),
        TEST(errors_are_read),
        TEST(what_was_cancelled_need_not_be_read),
        TEST(formats_have_room),
        TEST(multi_receive_buffers_need_a_format),
        TEST(who_waits_asked_for_it),
        TEST(what_is_used_closes_last),
        TEST(what_is_closed_is_not_bound),
        TEST(endpoints_are_enabled_once_bound),
        TEST(addresses_are_in_the_vector),
        TEST(one_thread_at_a_time),
        TEST(reports_are_bounded),
        TEST(the_first_can_end_the_process),
        TEST(a_full_disk_does_not_stop_the_program),
        TEST(mistakes_are_errors),
        TEST(it_stands_anywhere),
    };

    return cmocka_run_group_tests_name("debug", tests, NULL, NULL);
}
