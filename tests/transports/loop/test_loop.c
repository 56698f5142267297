/* SPDX-License-Identifier: BSD-2-Clause */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_peer.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/match/match.h"
#include "core/op/op_build.h"
#include "core/queue/binding.h"
#include "transports/loop/loop_test.h"

#define ANY FI_ADDR_UNSPEC

/* ---- A side of a pair ---- */

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *tx, *rx;
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t peer;
};

static struct fi_info *ask(const char *provider, enum fi_ep_type type, size_t rx_ctx_cnt,
                           uint32_t format)
{
    struct fi_info *hints = info_alloc(), *info;

    hints->ep_attr->type = type;
    hints->ep_attr->rx_ctx_cnt = rx_ctx_cnt;
    hints->addr_format = format;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    assert_int_equal(info_set_string(&hints->fabric_attr->prov_name, provider), 0);
    assert_int_equal(getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &info), 0);
    info_free(hints);
    return info;
}

static void open_base(struct side *side, struct fi_info *info)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};

    memset(side, 0, sizeof(*side));
    side->info = info;
    assert_int_equal(fabric_open(info->fabric_attr, NULL, ABI_1_9, &side->fabric, NULL), 0);
    assert_int_equal(fi_eq_open(side->fabric, &eq_attr, &side->eq, NULL), 0);
    assert_int_equal(fi_domain(side->fabric, info, &side->domain, NULL), 0);
    assert_int_equal(fi_cq_open(side->domain, &cq_attr, &side->tx, NULL), 0);
    assert_int_equal(fi_cq_open(side->domain, &cq_attr, &side->rx, NULL), 0);
}

static void close_side(struct side *side)
{
    if (side->ep)
        assert_int_equal(fi_close(&side->ep->fid), 0);
    if (side->av)
        assert_int_equal(fi_close(&side->av->fid), 0);
    assert_int_equal(fi_close(&side->tx->fid), 0);
    assert_int_equal(fi_close(&side->rx->fid), 0);
    assert_int_equal(fi_close(&side->domain->fid), 0);
    assert_int_equal(fi_close(&side->eq->fid), 0);
    assert_int_equal(fi_close(&side->fabric->fid), 0);
    info_free(side->info);
}

static void bind_queues(struct side *side)
{
    assert_int_equal(fi_ep_bind(side->ep, &side->tx->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->rx->fid, FI_RECV), 0);
}

static void open_unconnected(struct side *side, const char *provider, enum fi_ep_type type,
                             uint32_t format)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

    open_base(side, ask(provider, type, 0, format));
    assert_int_equal(fi_av_open(side->domain, &av_attr, &side->av, NULL), 0);
    assert_int_equal(fi_endpoint(side->domain, side->info, &side->ep, NULL), 0);
    bind_queues(side);
    assert_int_equal(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
    assert_int_equal(fi_enable(side->ep), 0);
}

static void open_rdm(struct side *side, const char *provider, uint32_t format)
{
    open_unconnected(side, provider, FI_EP_RDM, format);
}

static void introduce(struct side *to, const struct side *whom)
{
    char raw[128], *text = raw;
    size_t len = sizeof(raw);
    bool str = to->info->addr_format == FI_ADDR_STR;

    assert_int_equal(fi_getname(&whom->ep->fid, raw, &len), 0);
    assert_int_equal(fi_av_insert(to->av, str ? (void *)&text : raw, 1, &to->peer, 0, NULL), 1);
}

static struct side a, b;

static void pair(const char *provider)
{
    open_rdm(&a, provider, FI_FORMAT_UNSPEC);
    open_rdm(&b, provider, FI_FORMAT_UNSPEC);
    introduce(&a, &b);
    introduce(&b, &a);
}

static void datagram_pair(const char *provider)
{
    open_unconnected(&a, provider, FI_EP_DGRAM, FI_FORMAT_UNSPEC);
    open_unconnected(&b, provider, FI_EP_DGRAM, FI_FORMAT_UNSPEC);
    introduce(&a, &b);
    introduce(&b, &a);
}

static void part_ways(void)
{
    close_side(&a);
    close_side(&b);
}

static void drive(void)
{
    fi_cq_read(a.tx, NULL, 0);
    fi_cq_read(b.tx, NULL, 0);
    fi_cq_read(a.rx, NULL, 0);
    fi_cq_read(b.rx, NULL, 0);
}

/* The next completion, driving both sides. */
static struct fi_cq_tagged_entry next(struct fid_cq *cq, fi_addr_t *src)
{
    struct fi_cq_tagged_entry entry;
    ssize_t n = -FI_EAGAIN;

    for (int i = 0; i < 100 && n == -FI_EAGAIN; i++) {
        n = fi_cq_readfrom(cq, &entry, 1, src);
        drive();
    }
    assert_int_equal(n, 1);
    return entry;
}

static struct fi_cq_err_entry next_error(struct fid_cq *cq)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    ssize_t n = -FI_EAGAIN;

    for (int i = 0; i < 100 && n == -FI_EAGAIN; i++) {
        n = fi_cq_read(cq, &entry, 1);
        drive();
    }
    assert_int_equal(n, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
    return error;
}

static const char *const modes[] = {"loop", "loop(deliver=post)"};

/* ---- Reliable datagrams ---- */

static void messages(const char *mode)
{
    struct fi_cq_tagged_entry entry;
    char in[64] = "", out[] = "hello";
    fi_addr_t src;

    pair(mode);
    assert_int_equal(fi_trecv(b.ep, in, sizeof(in), NULL, b.peer, 7, 0, in), 0);
    assert_int_equal(fi_tsenddata(a.ep, out, 6, NULL, 99, a.peer, 7, out), 0);
    entry = next(b.rx, &src);
    assert_ptr_equal(entry.op_context, in);
    assert_int_equal(entry.flags, FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);
    assert_int_equal(entry.len, 6);
    assert_int_equal(entry.data, 99);
    assert_int_equal(entry.tag, 7);
    assert_int_equal(src, b.peer);
    assert_string_equal(in, out);
    entry = next(a.tx, NULL);
    assert_ptr_equal(entry.op_context, out);
    assert_int_equal(entry.flags, FI_TAGGED | FI_SEND);
    /* Unexpected, truncated. */
    assert_int_equal(fi_send(a.ep, out, 6, NULL, a.peer, out), 0);
    next(a.tx, NULL);
    memset(out, 'x', 5);
    assert_int_equal(fi_recv(b.ep, in, 4, NULL, ANY, in), 0);
    struct fi_cq_err_entry error = next_error(b.rx);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_int_equal(error.len, 4);
    assert_int_equal(error.olen, 2);
    assert_memory_equal(in, "hell", 4);
    part_ways();
}

static void messages_arrive_with_all_that_belongs_to_them(void **state)
{
    messages(modes[0]);
    messages(modes[1]);
}

static void inject(const char *mode)
{
    struct fi_cq_tagged_entry entry;
    char in[8], out[8] = "abc";

    pair(mode);
    assert_int_equal(fi_inject(a.ep, out, 4, a.peer), 0);
    memset(out, 0, sizeof(out));
    assert_int_equal(fi_inject(a.ep, out, 257, a.peer), -FI_EMSGSIZE);
    assert_int_equal(fi_recv(b.ep, in, sizeof(in), NULL, ANY, in), 0);
    entry = next(b.rx, NULL);
    assert_int_equal(entry.len, 4);
    assert_string_equal(in, "abc");
    assert_int_equal(fi_cq_read(a.tx, &entry, 1), -FI_EAGAIN);
    part_ways();
}

static void an_injected_buffer_is_free_at_once(void **state)
{
    inject(modes[0]);
    inject(modes[1]);
}

static void string_addresses_are_short(void **state)
{
    char name[64], in[8];
    size_t len = sizeof(name);
    fi_addr_t src;

    open_rdm(&a, "loop", FI_ADDR_STR);
    open_rdm(&b, "loop", FI_ADDR_STR);
    assert_int_equal(fi_getname(&a.ep->fid, name, &len), 0);
    assert_memory_equal(name, "loop://", 7);
    assert_int_equal(len, strlen(name) + 1);
    len = 3;
    assert_int_equal(fi_getname(&a.ep->fid, name, &len), -FI_ETOOSMALL);
    introduce(&a, &b);
    /* A message that came before its sender was known has a source later. */
    assert_int_equal(fi_tsend(a.ep, "x", 1, NULL, a.peer, 1, NULL), 0);
    next(a.tx, NULL);
    introduce(&b, &a);
    assert_int_equal(fi_trecv(b.ep, in, 1, NULL, b.peer, 1, 0, in), 0);
    next(b.rx, &src);
    assert_int_equal(src, b.peer);
    part_ways();
}

/* ---- Datagrams ---- */

static void datagrams(const char *mode)
{
    struct fi_cq_tagged_entry entry;
    char in[64] = "", out[5000] = "hello";
    fi_addr_t src;

    datagram_pair(mode);
    assert_int_equal(fi_recv(b.ep, in, sizeof(in), NULL, ANY, in), 0);
    assert_int_equal(fi_send(a.ep, out, 6, NULL, a.peer, out), 0);
    entry = next(b.rx, &src);
    assert_int_equal(entry.flags, FI_MSG | FI_RECV);
    assert_int_equal(src, b.peer);
    assert_string_equal(in, out);
    next(a.tx, NULL);
    assert_int_equal(fi_send(a.ep, out, 4097, NULL, a.peer, out), -FI_EMSGSIZE);
    assert_int_equal(fi_tsend(a.ep, out, 1, NULL, a.peer, 1, out), -FI_ENOSYS);
    part_ways();
}

static void datagrams_carry_their_source_and_a_page(void **state)
{
    datagrams(modes[0]);
    datagrams(modes[1]);
}

static void lost(const char *mode)
{
    struct fi_cq_tagged_entry entry;
    char in[8] = "";

    datagram_pair(mode);
    assert_int_equal(fi_send(a.ep, "1", 2, NULL, a.peer, NULL), 0);
    next(a.tx, NULL);
    assert_int_equal(fi_recv(b.ep, in, sizeof(in), NULL, ANY, in), 0);
    assert_int_equal(fi_send(a.ep, "2", 2, NULL, a.peer, NULL), 0);
    next(a.tx, NULL);
    next(b.rx, NULL);
    assert_string_equal(in, "2");
    assert_int_equal(fi_send(a.ep, "3", 2, NULL, a.peer, NULL), 0);
    assert_int_equal(fi_close(&b.ep->fid), 0);
    b.ep = NULL;
    next(a.tx, NULL);
    assert_int_equal(fi_send(a.ep, "4", 2, NULL, a.peer, NULL), 0);
    next(a.tx, NULL);
    assert_int_equal(fi_cq_read(b.rx, &entry, 1), -FI_EAGAIN);
    part_ways();
}

static void datagrams_are_lost_without_a_receive(void **state)
{
    lost(modes[0]);
    lost(modes[1]);
}

static void a_full_queue_says_again(void **state)
{
    size_t sent = 0;
    char in[8];

    pair("loop");
    while (!fi_send(a.ep, "x", 1, NULL, a.peer, NULL))
        sent++;
    assert_int_equal(sent, a.info->tx_attr->size);
    assert_int_equal(fi_send(a.ep, "x", 1, NULL, a.peer, NULL), -FI_EAGAIN);
    for (size_t i = 0; i < sent; i++) {
        assert_int_equal(fi_recv(b.ep, in, 1, NULL, ANY, NULL), 0);
        next(b.rx, NULL);
        next(a.tx, NULL);
    }
    assert_int_equal(fi_send(a.ep, "x", 1, NULL, a.peer, NULL), 0);
    part_ways(); /* with one under way */
}

static void closing(const char *mode)
{
    struct fi_cq_tagged_entry entry;
    char in[8];

    pair(mode);
    assert_int_equal(fi_send(a.ep, "x", 1, NULL, a.peer, NULL), 0);
    assert_int_equal(fi_trecv(b.ep, in, 8, NULL, ANY, 1, 0, NULL), 0);
    assert_int_equal(fi_close(&b.ep->fid), 0);
    b.ep = NULL;
    if (!strcmp(mode, "loop"))
        assert_int_equal(next_error(a.tx).err, FI_ECONNRESET);
    else
        next(a.tx, NULL);
    assert_int_equal(fi_cq_read(b.rx, &entry, 1), -FI_EAGAIN);
    assert_int_equal(fi_send(a.ep, "x", 1, NULL, a.peer, NULL), 0);
    assert_int_equal(next_error(a.tx).err, FI_ECONNREFUSED);
    assert_int_equal(fi_send(a.ep, "x", 1, NULL, 55, NULL), -FI_EINVAL);
    part_ways();
}

static void a_closed_endpoint_ends_what_goes_to_it(void **state)
{
    closing(modes[0]);
    closing(modes[1]);
}

static void remote_access(const char *mode)
{
    struct fi_cq_tagged_entry entry;
    struct fid_mr *mr;
    static char memory[32], buf[32];

    pair(mode);
    assert_int_equal(
        fi_mr_reg(b.domain, memory, 32, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 5, 0, &mr, NULL), 0);
    memcpy(buf, "0123456789", 10);
    assert_int_equal(fi_writedata(a.ep, buf, 10, NULL, 77, a.peer, 4, 5, buf), 0);
    entry = next(a.tx, NULL);
    assert_int_equal(entry.flags, FI_RMA | FI_WRITE);
    entry = next(b.rx, NULL);
    assert_int_equal(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    assert_int_equal(entry.data, 77);
    assert_memory_equal(memory + 4, buf, 10);
    memset(buf, 0, sizeof(buf));
    assert_int_equal(fi_read(a.ep, buf, 5, NULL, a.peer, 6, 5, buf), 0);
    entry = next(a.tx, NULL);
    assert_int_equal(entry.flags, FI_RMA | FI_READ);
    assert_memory_equal(buf, "23456", 5);
    assert_int_equal(fi_write(a.ep, buf, 5, NULL, a.peer, 30, 5, buf), 0);
    assert_int_equal(next_error(a.tx).err, FI_EINVAL);
    assert_int_equal(fi_write(a.ep, buf, 5, NULL, a.peer, 0, 6, buf), 0);
    assert_int_equal(next_error(a.tx).err, FI_EACCES);
    fi_close(&mr->fid);
    part_ways();
}

static void remote_memory_is_read_and_written(void **state)
{
    remote_access(modes[0]);
    remote_access(modes[1]);
}

static void atomics(const char *mode)
{
    struct fid_mr *mr;
    static _Alignas(8) uint32_t memory[4];
    uint32_t operand[2] = {5, 6}, compare[2] = {5, 0}, result[2] = {0};

    pair(mode);
    memset(memory, 0, sizeof(memory));
    assert_int_equal(fi_mr_reg(b.domain, memory, sizeof(memory), FI_REMOTE_WRITE | FI_REMOTE_READ,
                               0, 5, 0, &mr, NULL),
                     0);
    assert_int_equal(fi_atomic(a.ep, operand, 2, NULL, a.peer, 4, 5, FI_UINT32, FI_SUM, operand),
                     0);
    assert_int_equal(next(a.tx, NULL).flags, FI_ATOMIC | FI_WRITE);
    /* Injected operands, and those for comparison, are free at once. */
    assert_int_equal(fi_inject_atomic(a.ep, operand, 2, a.peer, 4, 5, FI_UINT32, FI_BXOR), 0);
    operand[0] = 1;
    operand[1] = 6;
    assert_int_equal(fi_compare_atomic(a.ep, operand, 2, NULL, compare, NULL, result, NULL, a.peer,
                                       4, 5, FI_UINT32, FI_CSWAP_NE, result),
                     0);
    assert_int_equal(next(a.tx, NULL).flags, FI_ATOMIC | FI_READ);
    assert_int_equal(result[0], 0);
    assert_int_equal(result[1], 0);
    assert_int_equal(memory[1], 1);
    assert_int_equal(memory[2], 0);
    assert_int_equal(fi_fetch_atomic(a.ep, NULL, 2, NULL, result, NULL, a.peer, 12, 5, FI_UINT32,
                                     FI_ATOMIC_READ, result),
                     0);
    assert_int_equal(next_error(a.tx).err, FI_EINVAL);
    fi_close(&mr->fid);
    part_ways();
}

static void atomics_are_done_at_the_target(void **state)
{
    atomics(modes[0]);
    atomics(modes[1]);
}

static void calls_are_counted(void **state)
{
    char in[8];

    pair("loop(deliver=post)");
    memset(loop_calls, 0, sizeof(loop_calls));
    assert_int_equal(fi_trecv(b.ep, in, 8, NULL, ANY, 1, 0, NULL), 0);
    assert_int_equal(fi_tsend(a.ep, "x", 1, NULL, a.peer, 1, NULL), 0);
    for (int i = 0; i < LOOP_CALLS; i++)
        assert_int_equal(loop_calls[i], i == LOOP_CALL_TRECV || i == LOOP_CALL_TSEND);
    part_ways();
}

/* ---- The peer interface on a datagram endpoint ---- */

static struct {
    uint64_t flags;
    fi_addr_t src;
    size_t len;
    int count;
} written;

static ssize_t took(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len, void *buf,
                    uint64_t data, uint64_t tag, fi_addr_t src)
{
    written.flags = flags;
    written.src = src;
    written.len = len;
    written.count++;
    return 0;
}

static void peer_objects_are_the_uppers(void **state)
{
    struct fi_ops_cq_owner took_ops = {.size = sizeof(took_ops), .write = took};
    struct fid_peer_cq peer_cq = {.owner_ops = &took_ops};
    struct fi_peer_cq_context cq_context = {.size = sizeof(cq_context), .cq = &peer_cq};
    struct fi_cq_attr cq_attr = {.flags = FI_PEER, .format = FI_CQ_FORMAT_TAGGED};
    struct match_attr match_attr = {.iov_limit = 4, .directed = true};
    struct fi_rx_attr rx_attr = {.op_flags = FI_PEER};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct cq binding_cq = {.sink = &peer_cq, .into = &binding_cq};
    struct binding binding = {.rx = &binding_cq};
    struct iovec iov = {(char[8]){0}, 8};
    struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .tag = 3};
    struct match_source source;
    struct match *match;
    struct fid_ep *srx;
    struct fid_cq *cq;
    struct op op;

    memset(&written, 0, sizeof(written));
    assert_int_equal(match_create(&match_attr, &match), 0);
    match_set_binding(match, &binding);
    match_source_init(&source, match, ANY);
    source.many = true;
    struct fi_peer_srx_context srx_context = {.size = sizeof(srx_context), .srx = &source.srx};

    open_rdm(&a, "loop", FI_FORMAT_UNSPEC);
    open_base(&b, ask("loop", FI_EP_RDM, 0, FI_FORMAT_UNSPEC));
    assert_int_equal(fi_av_open(b.domain, &av_attr, &b.av, NULL), 0);
    assert_int_equal(fi_cq_open(b.domain, &cq_attr, &cq, &cq_context), 0);
    assert_int_equal(fi_srx_context(b.domain, &rx_attr, &srx, &srx_context), 0);
    assert_int_equal(fi_endpoint(b.domain, b.info, &b.ep, NULL), 0);
    assert_int_equal(fi_ep_bind(b.ep, &b.tx->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(b.ep, &cq->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(b.ep, &b.av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(b.ep, &srx->fid, 0), 0);
    assert_int_equal(fi_enable(b.ep), 0);
    introduce(&a, &b);
    introduce(&b, &a);

    msg.addr = b.peer;
    op_of_tagged(&op, OP_TRECVMSG, &msg, 0);
    assert_int_equal(match_receive(match, &op), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_tsend(a.ep, "xy", 2, NULL, a.peer, 3, NULL), 0);
    next(a.tx, NULL);
    assert_int_equal(written.count, 1);
    assert_int_equal(written.flags, FI_TAGGED | FI_RECV);
    assert_int_equal(written.src, b.peer);
    assert_int_equal(match_queued(match), 1);
    assert_int_equal(match_receive(match, &op), 0);
    assert_int_equal(written.count, 2);
    assert_int_equal(written.len, 2);

    assert_int_equal(fi_close(&b.ep->fid), 0);
    b.ep = NULL;
    assert_int_equal(fi_close(&srx->fid), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    match_destroy(match);
    part_ways();
}

/* ---- Connections ---- */

/* The next event; its private data has `len` bytes. */
static uint32_t event_of(struct fid_eq *eq, void *buf, size_t size, size_t *len)
{
    uint32_t event = 0;
    ssize_t n = fi_eq_read(eq, &event, buf, size, 0);

    assert_true(n >= (ssize_t)sizeof(struct fi_eq_cm_entry));
    *len = (size_t)n - sizeof(struct fi_eq_cm_entry);
    return event;
}

static union {
    struct fi_eq_cm_entry entry;
    char room[512];
} event;

static void open_listener(struct side *side, const char *mode, size_t rx_ctx_cnt,
                          struct fid_pep **pep)
{
    open_base(side, ask(mode, FI_EP_MSG, rx_ctx_cnt, FI_FORMAT_UNSPEC));
    assert_int_equal(fi_passive_ep(side->fabric, side->info, pep, NULL), 0);
    assert_int_equal(fi_pep_bind(*pep, &side->eq->fid, 0), 0);
    assert_int_equal(fi_listen(*pep), 0);
}

static void dial(struct side *side, const char *mode, struct fid_pep *pep, const char *data)
{
    char raw[64];
    size_t len = sizeof(raw);

    assert_int_equal(fi_getname(&pep->fid, raw, &len), 0);
    open_base(side, ask(mode, FI_EP_MSG, 1, FI_FORMAT_UNSPEC));
    assert_int_equal(fi_endpoint(side->domain, side->info, &side->ep, NULL), 0);
    bind_queues(side);
    assert_int_equal(fi_ep_bind(side->ep, &side->eq->fid, 0), 0);
    assert_int_equal(fi_connect(side->ep, raw, data, strlen(data)), 0);
}

static void answer(struct side *side, const char *data)
{
    size_t len;

    assert_int_equal(event_of(side->eq, &event, sizeof(event), &len), FI_CONNREQ);
    assert_int_equal(fi_endpoint(side->domain, event.entry.info, &side->ep, NULL), 0);
    info_free(event.entry.info);
    bind_queues(side);
    assert_int_equal(fi_ep_bind(side->ep, &side->eq->fid, 0), 0);
    assert_int_equal(fi_accept(side->ep, data, strlen(data)), 0);
}

static void connections(const char *mode)
{
    struct fid_pep *pep;
    char in[8] = "";
    size_t len;

    open_listener(&b, mode, 1, &pep);
    dial(&a, mode, pep, "ping");
    assert_int_equal(fi_send(a.ep, "x", 1, NULL, 0, NULL), -FI_ENOTCONN);
    answer(&b, "pong!");
    assert_memory_equal(event.entry.data, "ping", 4);
    assert_int_equal(event_of(a.eq, &event, sizeof(event), &len), FI_CONNECTED);
    assert_int_equal(len, 5);
    assert_memory_equal(event.entry.data, "pong!", 5);
    assert_int_equal(event_of(b.eq, &event, sizeof(event), &len), FI_CONNECTED);

    assert_int_equal(fi_recv(b.ep, in, 8, NULL, 0, in), 0);
    assert_int_equal(fi_send(a.ep, "abc", 4, NULL, 0, NULL), 0);
    assert_ptr_equal(next(b.rx, NULL).op_context, in);
    assert_string_equal(in, "abc");
    next(a.tx, NULL);
    /* Messages from before the end come before it. */
    assert_int_equal(fi_recv(b.ep, in, 8, NULL, 0, in), 0);
    assert_int_equal(fi_recv(b.ep, in, 8, NULL, 0, in), 0);
    assert_int_equal(fi_send(a.ep, "def", 4, NULL, 0, NULL), 0);
    assert_int_equal(fi_shutdown(a.ep, 0), 0);
    assert_int_equal(event_of(a.eq, &event, sizeof(event), &len), FI_SHUTDOWN);
    assert_int_equal(event_of(b.eq, &event, sizeof(event), &len), FI_SHUTDOWN);
    assert_ptr_equal(event.entry.fid, &b.ep->fid);
    next(b.rx, NULL);
    assert_string_equal(in, "def");
    assert_int_equal(next_error(b.rx).err, FI_ECONNRESET);
    assert_int_equal(fi_send(b.ep, "x", 1, NULL, 0, NULL), -FI_ENOTCONN);
    assert_int_equal(fi_close(&pep->fid), 0);
    part_ways();
}

static void connections_open_carry_and_end(void **state)
{
    connections(modes[0]);
    connections(modes[1]);
}

static void refusals_carry_data(void **state)
{
    struct fi_eq_err_entry error = {0};
    struct fid_pep *pep;
    size_t len;

    open_listener(&b, "loop", 1, &pep);
    dial(&a, "loop", pep, "ping");
    assert_int_equal(event_of(b.eq, &event, sizeof(event), &len), FI_CONNREQ);
    assert_int_equal(fi_reject(pep, event.entry.info->handle, "no", 2), 0);
    assert_int_equal(fi_reject(pep, event.entry.info->handle, "no", 2), -FI_EINVAL);
    info_free(event.entry.info);
    assert_int_equal(fi_eq_read(a.eq, &(uint32_t){0}, &event, sizeof(event), 0), -FI_EAVAIL);
    assert_int_equal(fi_eq_readerr(a.eq, &error, 0), sizeof(error));
    assert_int_equal(error.err, FI_ECONNREFUSED);
    assert_int_equal(error.err_data_size, 2);
    assert_memory_equal(error.err_data, "no", 2);
    close_side(&a);
    /* A request that its peer does not answer any more. */
    dial(&a, "loop", pep, "");
    assert_int_equal(fi_close(&pep->fid), 0);
    assert_int_equal(fi_eq_read(a.eq, &(uint32_t){0}, &event, sizeof(event), 0), -FI_EAVAIL);
    part_ways();
}

static void shared_contexts_serve_several_connections(void **state)
{
    struct fid_pep *pep;
    struct fid_ep *srx;
    char in[8];
    size_t len;

    open_listener(&b, "loop", FI_SHARED_CONTEXT, &pep);
    assert_int_equal(fi_srx_context(b.domain, b.info->rx_attr, &srx, NULL), 0);
    dial(&a, "loop", pep, "");
    assert_int_equal(event_of(b.eq, &event, sizeof(event), &len), FI_CONNREQ);
    assert_int_equal(fi_endpoint(b.domain, event.entry.info, &b.ep, NULL), 0);
    info_free(event.entry.info);
    bind_queues(&b);
    assert_int_equal(fi_ep_bind(b.ep, &b.eq->fid, 0), 0);
    assert_int_equal(fi_accept(b.ep, NULL, 0), -FI_ENORX);
    assert_int_equal(fi_ep_bind(b.ep, &srx->fid, 0), 0);
    assert_int_equal(fi_accept(b.ep, NULL, 0), 0);
    assert_int_equal(fi_send(a.ep, "abc", 4, NULL, 0, NULL), 0);
    assert_int_equal(fi_recv(srx, in, 8, NULL, ANY, in), 0);
    next(b.rx, NULL);
    assert_string_equal(in, "abc");
    assert_int_equal(fi_recv(b.ep, in, 8, NULL, ANY, in), -FI_ENOSYS);
    assert_int_equal(fi_close(&srx->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&b.ep->fid), 0);
    b.ep = NULL;
    assert_int_equal(fi_close(&srx->fid), 0);
    assert_int_equal(fi_close(&pep->fid), 0);
    part_ways();
}

/* ---- Two threads, a domain each ---- */

enum {
    ROUNDS = 20000
};

static void *echo(void *arg)
{
    struct fi_cq_tagged_entry entry;
    uint64_t value = 0;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        if (fi_recv(b.ep, &value, 8, NULL, ANY, NULL))
            return "recv";
        while (fi_cq_read(b.rx, &entry, 1) != 1)
            ;
        if (value != i || fi_inject(b.ep, &value, 8, b.peer))
            return "echo";
    }
    return NULL;
}

static void shared_contexts_serve_datagrams_of_many_peers(void **state)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fid_ep *srx;
    struct fid_stx *stx;
    fi_addr_t src;
    char in, out = 'a';

    open_base(&b, ask("loop", FI_EP_RDM, FI_SHARED_CONTEXT, FI_FORMAT_UNSPEC));
    b.info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
    assert_int_equal(fi_srx_context(b.domain, b.info->rx_attr, &srx, NULL), 0);
    assert_int_equal(fi_stx_context(b.domain, b.info->tx_attr, &stx, NULL), 0);
    assert_int_equal(fi_av_open(b.domain, &av_attr, &b.av, NULL), 0);
    assert_int_equal(fi_endpoint(b.domain, b.info, &b.ep, NULL), 0);
    bind_queues(&b);
    assert_int_equal(fi_ep_bind(b.ep, &b.av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(b.ep, &srx->fid, 0), 0);
    assert_int_equal(fi_enable(b.ep), -FI_EOPBADSTATE);
    assert_int_equal(fi_ep_bind(b.ep, &stx->fid, 0), 0);
    assert_int_equal(fi_enable(b.ep), 0);
    open_rdm(&a, "loop", FI_FORMAT_UNSPEC);
    introduce(&a, &b);
    introduce(&b, &a);
    assert_int_equal(fi_inject(a.ep, &out, 1, a.peer), 0);
    assert_int_equal(fi_recv(srx, &in, 1, NULL, ANY, &in), 0);
    assert_ptr_equal(next(b.rx, &src).op_context, &in);
    assert_true(src == b.peer && in == out);
    close_side(&a);
    assert_int_equal(fi_close(&b.ep->fid), 0);
    b.ep = NULL;
    assert_int_equal(fi_close(&srx->fid), 0);
    assert_int_equal(fi_close(&stx->fid), 0);
    close_side(&b);
}

static void two_threads_talk(void **state)
{
    struct fi_cq_tagged_entry entry;
    uint64_t value = 0;
    pthread_t thread;
    void *failed;

    pair("loop");
    assert_int_equal(pthread_create(&thread, NULL, echo, NULL), 0);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(fi_recv(a.ep, &value, 8, NULL, ANY, NULL), 0);
        while (fi_send(a.ep, &i, 8, NULL, a.peer, NULL) == -FI_EAGAIN)
            fi_cq_read(a.tx, NULL, 0);
        while (fi_cq_read(a.rx, &entry, 1) != 1)
            ;
        assert_int_equal(value, i);
        while (fi_cq_read(a.tx, &entry, 1) != 1)
            ;
    }
    pthread_join(thread, &failed);
    assert_null(failed);
    part_ways();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_with_all_that_belongs_to_them),
        cmocka_unit_test(an_injected_buffer_is_free_at_once),
        cmocka_unit_test(string_addresses_are_short),
        cmocka_unit_test(datagrams_carry_their_source_and_a_page),
        cmocka_unit_test(datagrams_are_lost_without_a_receive),
        cmocka_unit_test(a_full_queue_says_again),
        cmocka_unit_test(a_closed_endpoint_ends_what_goes_to_it),
        cmocka_unit_test(remote_memory_is_read_and_written),
        cmocka_unit_test(atomics_are_done_at_the_target),
        cmocka_unit_test(calls_are_counted),
        cmocka_unit_test(peer_objects_are_the_uppers),
        cmocka_unit_test(connections_open_carry_and_end),
        cmocka_unit_test(refusals_carry_data),
        cmocka_unit_test(shared_contexts_serve_several_connections),
        cmocka_unit_test(shared_contexts_serve_datagrams_of_many_peers),
        cmocka_unit_test(two_threads_talk),
    };

    return cmocka_run_group_tests_name("transports/loop", tests, NULL, NULL);
}
