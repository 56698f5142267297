/* SPDX-License-Identifier: BSD-2-Clause */
/* The faults, the same for the same seed, and the errors for mistakes in the options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <time.h>

#include <rdma/fi_atomic.h>

#include "../pair.h"

enum {
    CALLS = 1000
};

/* Which of CALLS receives are refused. */
static int course(const char *spec, char refused[CALLS])
{
    struct pair pair;
    char byte;
    int count = 0;

    pair_open(&pair, spec);
    for (int i = 0; i < CALLS; i++) {
        ssize_t rc = fi_trecv(pair.ep[1], &byte, 1, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, &pair);

        assert_true(!rc || rc == -FI_EAGAIN);
        refused[i] = rc == -FI_EAGAIN;
        count += refused[i];
    }
    pair_close(&pair);
    return count;
}

static void so_many_are_refused(void **state)
{
    char refused[CALLS];

    assert_int_equal(course("fault;loop", refused), 0);
    assert_int_equal(course("fault(eagain=100%);loop", refused), CALLS);
    assert_in_range(course("fault(eagain=20%);loop", refused), CALLS * 15 / 100, CALLS * 25 / 100);
    assert_in_range(course("fault(eagain=0.5);loop", refused), 1, 20);
}

static void a_seed_is_a_course(void **state)
{
    char one[CALLS], same[CALLS], other[CALLS];

    course("fault(eagain=20%,seed=7);loop", one);
    course("fault(eagain=20%,seed=7);loop", same);
    course("fault(eagain=20%,seed=8);loop", other);
    assert_memory_equal(one, same, CALLS);
    assert_memory_not_equal(one, other, CALLS);
}

static void the_calls_that_are_named_fail_once(void **state)
{
    struct pair pair;
    char byte = 0;

    pair_open(&pair, "fault(fail=send:3|mr:1|send:5|send:4);loop");
    for (int i = 1; i <= 7; i++)
        assert_int_equal(fi_tinject(pair.ep[0], &byte, 1, pair.to[1], 1),
                         i >= 3 && i <= 5 ? -FI_EIO : 0);
    pair_close(&pair);
}

/* Opening a domain and what hangs on it, when one of the calls fails: its error, or 0. */
static int open_some(const char *spec)
{
    struct fi_info *info = pair_info(spec);
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_cq *cq = NULL;
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fid_av *av = NULL;
    int rc;

    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    rc = fi_domain(fabric, info, &domain, NULL);
    if (!rc) {
        rc = fi_cq_open(domain, &cq_attr, &cq, NULL);
        rc = rc ? rc : fi_av_open(domain, &av_attr, &av, NULL);
        if (cq)
            assert_int_equal(fi_close(&cq->fid), 0);
        if (av)
            assert_int_equal(fi_close(&av->fid), 0);
        assert_int_equal(fi_close(&domain->fid), 0);
    }
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
    return rc;
}

static void objects_fail_to_open(void **state)
{
    assert_int_equal(open_some("fault;loop"), 0);
    assert_int_equal(open_some("fault(fail=domain:1);loop"), -FI_ENOMEM);
    assert_int_equal(open_some("fault(fail=domain:2|cq:1);loop"), -FI_ENOMEM);
    assert_int_equal(open_some("fault(fail=av:1);loop"), -FI_ENOMEM);
    assert_int_equal(open_some("fault(fail=av:2);loop"), 0);
}

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void completions_come_late_and_all(void **state)
{
    double start = now_ms();
    struct pair pair;
    char from[8] = "", to[8];

    pair_open(&pair, "fault(delay=20ms);loop");
    for (int i = 0; i < 3; i++)
        assert_true(pair_message(&pair, from, to, 8, 1, &from, &to));
    assert_true(now_ms() - start >= 5 * 20); /* of six reads */
    pair_close(&pair);
}

static int getinfo_rc(const char *spec)
{
    struct fi_info *info = NULL;
    int rc;

    setenv("FI_PROVIDER", spec, 1);
    rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, NULL, &info);
    fi_freeinfo(info);
    return rc;
}

static void mistakes_are_errors(void **state)
{
    assert_int_not_equal(getinfo_rc("fault(eagain=101%);loop"), 0);
    assert_int_not_equal(getinfo_rc("fault(eagain=often);loop"), 0);
    assert_int_not_equal(getinfo_rc("fault(egain=1%);loop"), 0);
    assert_int_equal(pair_fabric_rc("fault(fail=sned:1);loop"), -FI_ENODATA);
    assert_int_equal(pair_fabric_rc("fault(fail=send);loop"), -FI_ENODATA);
    assert_int_equal(pair_fabric_rc("fault(fail=send:0);loop"), -FI_ENODATA);
    assert_int_equal(pair_fabric_rc("fault(fail=send:1x);loop"), -FI_ENODATA);
}

/* ---- What becomes of messages ---- */

static struct fi_info *info_of(const char *spec, enum fi_ep_type type)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->ep_attr->type = type;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    setenv("FI_PROVIDER", spec, 1);
    if (fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info))
        info = NULL;
    fi_freeinfo(hints);
    return info;
}

static bool offers(const char *spec, enum fi_ep_type type)
{
    struct fi_info *info = info_of(spec, type);
    bool any = info != NULL;

    fi_freeinfo(info);
    return any;
}

static void what_a_lower_may_not_do_is_refused(void **state)
{
    assert_true(offers("fault(drop=1%,dup=1%,reorder=1%);loop", FI_EP_DGRAM));
    assert_false(offers("fault(corrupt=1%);loop", FI_EP_DGRAM));
    assert_true(offers("fault(corrupt=1%,force);loop", FI_EP_DGRAM));
    for (int i = 0; i < 2; i++) {
        enum fi_ep_type type = i ? FI_EP_MSG : FI_EP_RDM;

        assert_false(offers("fault(drop=1%);loop", type));
        assert_false(offers("fault(dup=1%);loop", type));
        assert_false(offers("fault(reorder=1%);loop", type));
        assert_false(offers("fault(corrupt=1%);loop", type));
        assert_true(offers("fault(drop=1%,dup=1%,reorder=1%,corrupt=1%,force);loop", type));
        assert_true(offers("fault(drop=0);loop", type));
    }
    assert_false(offers("fault(kill_conn=1);loop", FI_EP_RDM));
    assert_true(offers("fault(kill_conn=1);loop", FI_EP_MSG));
}

static void an_info_that_was_changed_by_hand_is_refused_too(void **state)
{
    struct fi_info *info = info_of("fault(drop=1%);loop", FI_EP_DGRAM);
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;

    assert_non_null(info);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    info->ep_attr->type = FI_EP_RDM;
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), -FI_EINVAL);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

enum {
    SENT = 400,
    GOT = 1000
};

/* A sender and a receiver, and what came of SENT numbered messages. */
struct wire {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *tx, *rx;
    struct fid_cntr *sent;
    struct fid_av *av;
    struct fid_ep *ep[2];
    fi_addr_t to;
    int messages[SENT], buffers[GOT], got[GOT];
    int got_count, ends[SENT];
};

static void wire_open(struct wire *wire, const char *spec, enum fi_ep_type type)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .size = 2048};
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
    char address[128];
    size_t len = sizeof(address);

    memset(wire, 0, sizeof(*wire));
    wire->info = info_of(spec, type);
    assert_non_null(wire->info);
    assert_int_equal(fi_fabric(wire->info->fabric_attr, &wire->fabric, NULL), 0);
    assert_int_equal(fi_domain(wire->fabric, wire->info, &wire->domain, NULL), 0);
    assert_int_equal(fi_cq_open(wire->domain, &cq, &wire->tx, NULL), 0);
    assert_int_equal(fi_cq_open(wire->domain, &cq, &wire->rx, NULL), 0);
    assert_int_equal(fi_cntr_open(wire->domain, &cntr, &wire->sent, NULL), 0);
    assert_int_equal(fi_av_open(wire->domain, &av, &wire->av, NULL), 0);
    free(wire->info->src_addr);
    wire->info->src_addr = NULL;
    wire->info->src_addrlen = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_endpoint(wire->domain, wire->info, &wire->ep[i], NULL), 0);
        assert_int_equal(fi_ep_bind(wire->ep[i], &wire->tx->fid, FI_TRANSMIT), 0);
        assert_int_equal(fi_ep_bind(wire->ep[i], &wire->rx->fid, FI_RECV), 0);
        assert_int_equal(fi_ep_bind(wire->ep[i], &wire->av->fid, 0), 0);
        assert_int_equal(fi_ep_bind(wire->ep[i], &wire->sent->fid, FI_SEND), 0);
        assert_int_equal(fi_enable(wire->ep[i]), 0);
    }
    assert_int_equal(fi_getname(&wire->ep[1]->fid, address, &len), 0);
    assert_int_equal(fi_av_insert(wire->av, address, 1, &wire->to, 0, NULL), 1);
    for (int i = 0; i < GOT; i++) {
        ssize_t rc;

        do
            rc = fi_recv(wire->ep[1], &wire->buffers[i], sizeof(int), NULL, FI_ADDR_UNSPEC,
                         &wire->buffers[i]);
        while (rc == -FI_EAGAIN);
        assert_int_equal(rc, 0);
    }
}

static void wire_drive(struct wire *wire)
{
    struct fi_cq_msg_entry entry[3];
    ssize_t count = fi_cq_read(wire->rx, entry, 3);

    for (ssize_t i = 0; i < count; i++)
        wire->got[wire->got_count++] = *(int *)entry[i].op_context;
    count = fi_cq_read(wire->tx, entry, 3);
    assert_true(count > 0 || count == -FI_EAGAIN);
    for (ssize_t i = 0; i < count; i++) {
        int *message = entry[i].op_context;

        assert_in_range(message - wire->messages, 0, SENT - 1);
        assert_true(entry[i].flags & FI_SEND);
        wire->ends[message - wire->messages]++;
    }
}

/* Each send ends once, whatever becomes of its message. */
static void wire_run(struct wire *wire)
{
    for (int i = 0; i < SENT; i++) {
        ssize_t rc;

        wire->messages[i] = i;
        do {
            rc = fi_send(wire->ep[0], &wire->messages[i], sizeof(int), NULL, wire->to,
                         &wire->messages[i]);
            wire_drive(wire);
        } while (rc == -FI_EAGAIN);
        assert_int_equal(rc, 0);
    }
    for (int i = 0; i < 3000; i++)
        wire_drive(wire);
    for (int i = 0; i < SENT; i++)
        assert_int_equal(wire->ends[i], 1);
    assert_int_equal(fi_cntr_read(wire->sent), SENT);
}

static void wire_close(struct wire *wire)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_close(&wire->ep[i]->fid), 0);
    assert_int_equal(fi_close(&wire->av->fid), 0);
    assert_int_equal(fi_close(&wire->sent->fid), 0);
    assert_int_equal(fi_close(&wire->rx->fid), 0);
    assert_int_equal(fi_close(&wire->tx->fid), 0);
    assert_int_equal(fi_close(&wire->domain->fid), 0);
    assert_int_equal(fi_close(&wire->fabric->fid), 0);
    fi_freeinfo(wire->info);
}

static struct wire wire, again;

static void course_of(struct wire *it, const char *spec, enum fi_ep_type type)
{
    wire_open(it, spec, type);
    wire_run(it);
    wire_close(it);
}

static int times(const struct wire *it, int number)
{
    int count = 0;

    for (int i = 0; i < it->got_count; i++)
        count += it->got[i] == number;
    return count;
}

static bool in_order(const struct wire *it)
{
    for (int i = 1; i < it->got_count; i++)
        if (it->got[i] < it->got[i - 1])
            return false;
    return true;
}

static void messages_get_lost(void **state)
{
    course_of(&wire, "fault(drop=20%);loop", FI_EP_DGRAM);
    assert_in_range(wire.got_count, SENT * 70 / 100, SENT * 90 / 100);
    assert_true(in_order(&wire));
    course_of(&wire, "fault(drop=100%);loop", FI_EP_DGRAM);
    assert_int_equal(wire.got_count, 0);
}

static void messages_arrive_twice(void **state)
{
    course_of(&wire, "fault(dup=20%);loop", FI_EP_DGRAM);
    assert_in_range(wire.got_count, SENT * 110 / 100, SENT * 130 / 100);
    for (int i = 0; i < SENT; i++)
        assert_in_range(times(&wire, i), 1, 2);
}

static void messages_are_overtaken(void **state)
{
    course_of(&wire, "fault(reorder=20%);loop", FI_EP_DGRAM);
    assert_int_equal(wire.got_count, SENT);
    assert_false(in_order(&wire));
    for (int i = 0; i < SENT; i++)
        assert_int_equal(times(&wire, i), 1);
    course_of(&wire, "fault(reorder=100%);loop", FI_EP_DGRAM);
    assert_int_equal(wire.got_count, SENT); /* none waits for ever */
}

/* Other endpoints may be another thread's: only their own queue sends what waits of them. */
static void a_queue_moves_its_own_endpoints_only(void **state)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_MSG};
    struct fi_cq_msg_entry entry;
    struct fid_cq *cq;
    struct fid_ep *ep;

    wire_open(&wire, "fault(reorder=100%);loop", FI_EP_DGRAM);
    assert_int_equal(fi_cq_open(wire.domain, &attr, &cq, NULL), 0);
    assert_int_equal(fi_endpoint(wire.domain, wire.info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &wire.av->fid, 0), 0);
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_send(ep, wire.messages, sizeof(int), NULL, wire.to, wire.messages), 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(fi_cq_read(wire.tx, &entry, 1), -FI_EAGAIN);
        assert_int_equal(fi_cq_read(wire.rx, &entry, 1), -FI_EAGAIN);
    }
    for (int i = 0; i < 1000 && fi_cq_read(cq, &entry, 1) != 1; i++)
        ;
    assert_ptr_equal(entry.op_context, wire.messages);
    while (fi_cq_read(wire.rx, &entry, 1) != 1)
        ;
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    wire_close(&wire);
}

static void one_bit_is_changed(void **state)
{
    int changed = 0;

    course_of(&wire, "fault(corrupt=20%,force);loop", FI_EP_DGRAM);
    assert_int_equal(wire.got_count, SENT);
    for (int i = 0; i < SENT; i++) {
        assert_in_range(__builtin_popcount((unsigned)(wire.got[i] ^ i)), 0, 1);
        changed += wire.got[i] != i;
        assert_int_equal(wire.messages[i], i); /* the sender's stays */
    }
    assert_in_range(changed, SENT * 10 / 100, SENT * 30 / 100);
}

static void a_seed_is_a_course_of_messages(void **state)
{
    course_of(&wire, "fault(drop=10%,dup=10%,corrupt=10%,force,seed=5);loop", FI_EP_DGRAM);
    course_of(&again, "fault(drop=10%,dup=10%,corrupt=10%,force,seed=5);loop", FI_EP_DGRAM);
    assert_int_equal(wire.got_count, again.got_count);
    assert_memory_equal(wire.got, again.got, sizeof(wire.got));
    course_of(&again, "fault(drop=10%,dup=10%,corrupt=10%,force,seed=6);loop", FI_EP_DGRAM);
    assert_memory_not_equal(wire.got, again.got, sizeof(wire.got));
}

static void refused_calls_do_not_change_the_course(void **state)
{
    course_of(&wire, "fault(drop=10%,seed=5);loop", FI_EP_DGRAM);
    course_of(&again, "fault(drop=10%,eagain=50%,seed=5);loop", FI_EP_DGRAM);
    assert_memory_equal(wire.got, again.got, sizeof(wire.got));
}

static void reliable_endpoints_do_it_by_force(void **state)
{
    course_of(&wire, "fault(drop=10%,dup=10%,reorder=10%,force);loop", FI_EP_RDM);
    assert_false(in_order(&wire));
    course_of(&wire, "noop;fault(drop=50%,dup=50%,force);noop;loop", FI_EP_RDM);
    assert_in_range(wire.got_count, 1, 2 * SENT - 1);
}

/* fi_inject has no completion, and its buffer is free at once. */
static void injected_messages_too(void **state)
{
    int count = 0;

    wire_open(&wire, "fault(drop=20%,dup=20%,reorder=20%);loop", FI_EP_DGRAM);
    for (int i = 0; i < SENT; i++) {
        int number = i;

        assert_int_equal(fi_inject(wire.ep[0], &number, sizeof(number), wire.to), 0);
        number = -1;
        wire_drive(&wire);
    }
    for (int i = 0; i < 3000; i++)
        wire_drive(&wire);
    for (int i = 0; i < SENT; i++) {
        assert_int_equal(wire.ends[i], 0);
        count += times(&wire, i);
    }
    assert_int_equal(count, wire.got_count);
    assert_int_equal(fi_cntr_read(wire.sent), SENT);
    wire_close(&wire);
}

/* ---- Remote memory ---- */

enum {
    REMOTE = 300
};

enum remote_kind {
    WRITES,
    READS,
    ATOMICS,
    FETCHES,
};

/* The results of REMOTE operations, each on a place of its own. */
struct remote {
    int64_t values[REMOTE], results[REMOTE], target[REMOTE];
    int ends[REMOTE], errors[REMOTE];
    uint64_t counted, failed;
};

static struct remote remote;

static ssize_t remote_post(struct wire *it, enum remote_kind kind, int i, uint64_t key,
                           uint64_t flags)
{
    struct fid_ep *ep = it->ep[0];
    bool virtual = it->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    uint64_t at = virtual ? (uintptr_t)&remote.target[i] : (uint64_t)i * 8;
    int64_t *value = &remote.values[i], *result = &remote.results[i];
    const struct iovec iov = {value, 8};
    const struct fi_rma_iov place = {at, 8, key};
    const struct fi_msg_rma msg = {&iov, NULL, 1, it->to, &place, 1, value, 0};

    switch (kind) {
    case WRITES:
        return flags ? fi_writemsg(ep, &msg, flags)
                     : fi_write(ep, value, 8, NULL, it->to, at, key, value);
    case READS: return fi_read(ep, result, 8, NULL, it->to, at, key, value);
    case ATOMICS: return fi_atomic(ep, value, 1, NULL, it->to, at, key, FI_INT64, FI_SUM, value);
    default:
        return fi_fetch_atomic(ep, value, 1, NULL, result, NULL, it->to, at, key, FI_INT64, FI_SUM,
                               value);
    }
}

static void remote_drive(struct wire *it)
{
    struct fi_cq_msg_entry entry[3];
    ssize_t count = fi_cq_read(it->tx, entry, 3);
    struct fi_cq_err_entry error = {0};

    fi_cq_read(it->rx, NULL, 0);
    for (ssize_t i = 0; i < count; i++)
        remote.ends[(int64_t *)entry[i].op_context - remote.values]++;
    if (count != -FI_EAVAIL)
        return;
    if (fi_cq_readerr(it->tx, &error, 0) == 1) {
        assert_int_equal(error.err, FI_ETIMEDOUT);
        remote.errors[(int64_t *)error.op_context - remote.values]++;
    }
}

static void remote_run(const char *spec, enum fi_ep_type type, enum remote_kind kind,
                       uint64_t flags)
{
    struct fid_cntr *cntr;
    struct fid_mr *mr;

    memset(&remote, 0, sizeof(remote));
    wire_open(&wire, spec, type);
    assert_int_equal(fi_mr_reg(wire.domain, remote.target, sizeof(remote.target),
                               FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 77, 0, &mr, NULL),
                     0);
    assert_int_equal(fi_close(&wire.ep[0]->fid), 0);
    assert_int_equal(fi_cntr_open(wire.domain, NULL, &cntr, NULL), 0);
    assert_int_equal(fi_endpoint(wire.domain, wire.info, &wire.ep[0], NULL), 0);
    assert_int_equal(fi_ep_bind(wire.ep[0], &wire.tx->fid, FI_TRANSMIT), 0);
    assert_int_equal(fi_ep_bind(wire.ep[0], &wire.rx->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(wire.ep[0], &wire.av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(wire.ep[0], &cntr->fid, FI_READ | FI_WRITE), 0);
    assert_int_equal(fi_enable(wire.ep[0]), 0);
    for (int i = 0; i < REMOTE; i++) {
        ssize_t rc;

        remote.values[i] = i + 1;
        remote.target[i] = kind == WRITES ? 0 : 1000;
        do {
            rc = remote_post(&wire, kind, i, fi_mr_key(mr), flags);
            remote_drive(&wire);
        } while (rc == -FI_EAGAIN);
        assert_int_equal(rc, 0);
    }
    for (int i = 0; i < 3000; i++)
        remote_drive(&wire);
    remote.counted = fi_cntr_read(cntr);
    remote.failed = fi_cntr_readerr(cntr);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_close(&wire.ep[i]->fid), 0);
    fi_close(&cntr->fid);
    fi_close(&mr->fid);
    assert_int_equal(fi_endpoint(wire.domain, wire.info, &wire.ep[0], NULL), 0);
    assert_int_equal(fi_endpoint(wire.domain, wire.info, &wire.ep[1], NULL), 0);
    wire_close(&wire);
}

/* Each ended once; how many had no effect, and whether they ended in an error. */
static int lost_remotes(enum remote_kind kind, bool failed)
{
    int lost = 0;

    for (int i = 0; i < REMOTE; i++) {
        int64_t done = kind == WRITES ? i + 1 : kind == READS ? 1000 : 1000 + i + 1;
        bool has = kind == READS ? remote.results[i] == done : remote.target[i] == done;

        if (kind == FETCHES && has)
            assert_int_equal(remote.results[i], 1000);
        assert_int_equal(remote.ends[i] + remote.errors[i], 1);
        assert_true(has ? remote.ends[i] : remote.errors[i] == (failed ? 1 : 0));
        lost += !has;
    }
    assert_int_equal(remote.counted, failed ? REMOTE - lost : REMOTE);
    assert_int_equal(remote.failed, failed ? lost : 0);
    return lost;
}

static void remote_operations_get_lost(void **state)
{
    static const char *const specs[] = {"fault(drop=20%,force);loop",
                                        "noop;fault(drop=20%,eagain=20%,force);noop;loop"};

    for (int i = 0; i < 2; i++)
        for (enum remote_kind kind = WRITES; kind <= FETCHES; kind++) {
            bool failed = kind == READS || kind == FETCHES;

            remote_run(specs[i], FI_EP_RDM, kind, 0);
            assert_in_range(lost_remotes(kind, failed), 30, 90);
        }
}

/* A caller that asks for delivery does not get a success for a write that did not get there. */
static void a_lost_delivery_is_no_success(void **state)
{
    remote_run("fault(drop=20%,force);loop", FI_EP_RDM, WRITES, FI_DELIVERY_COMPLETE);
    assert_in_range(lost_remotes(WRITES, true), 30, 90);
}

static void writes_are_doubled_and_overtaken(void **state)
{
    remote_run("fault(dup=30%,reorder=30%,eagain=20%,force);loop", FI_EP_RDM, WRITES, 0);
    assert_int_equal(lost_remotes(WRITES, false), 0);
}

static void writes_are_changed(void **state)
{
    int changed = 0;

    remote_run("fault(corrupt=20%,force);loop", FI_EP_RDM, WRITES, 0);
    for (int i = 0; i < REMOTE; i++) {
        assert_int_equal(remote.ends[i], 1);
        changed += remote.target[i] != i + 1;
    }
    assert_in_range(changed, 30, 90);
}

static void endpoints_close_with_messages_under_way(void **state)
{
    wire_open(&wire, "fault(dup=50%,reorder=50%);loop", FI_EP_DGRAM);
    for (int i = 0; i < 100; i++)
        assert_int_equal(fi_send(wire.ep[0], &wire.messages[i], 4, NULL, wire.to, NULL), 0);
    wire_close(&wire);
}

/* Over rxm the next message goes over a new connection, or the operation ends in an error: once. */
static void a_connection_that_ends_loses_no_completion(void **state)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    char from[8] = "";
    struct pair pair;
    int sent = 0, ended = 0;
    ssize_t rc;

    pair_open(&pair, "rxm;fault(kill_conn=5);tcp");
    for (double start = now_ms(); ended < 10 && now_ms() - start < 20000;) {
        if (sent == ended && sent < 10) {
            rc = fi_tsend(pair.ep[0], from, 8, NULL, pair.to[1], 1, &from);
            assert_true(!rc || rc == -FI_EAGAIN);
            sent += !rc;
        }
        rc = fi_cq_read(pair.cq, &entry, 1);
        if (rc == -FI_EAVAIL)
            rc = fi_cq_readerr(pair.cq, &error, 0);
        ended += rc == 1;
    }
    assert_int_equal(ended, 10);
    assert_int_equal(fi_cq_read(pair.cq, &entry, 1), -FI_EAGAIN);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_are_refused),
        cmocka_unit_test(a_seed_is_a_course),
        cmocka_unit_test(the_calls_that_are_named_fail_once),
        cmocka_unit_test(objects_fail_to_open),
        cmocka_unit_test(completions_come_late_and_all),
        cmocka_unit_test(mistakes_are_errors),
        cmocka_unit_test(what_a_lower_may_not_do_is_refused),
        cmocka_unit_test(an_info_that_was_changed_by_hand_is_refused_too),
        cmocka_unit_test(messages_get_lost),
        cmocka_unit_test(messages_arrive_twice),
        cmocka_unit_test(messages_are_overtaken),
        cmocka_unit_test(a_queue_moves_its_own_endpoints_only),
        cmocka_unit_test(one_bit_is_changed),
        cmocka_unit_test(a_seed_is_a_course_of_messages),
        cmocka_unit_test(refused_calls_do_not_change_the_course),
        cmocka_unit_test(remote_operations_get_lost),
        cmocka_unit_test(a_lost_delivery_is_no_success),
        cmocka_unit_test(writes_are_doubled_and_overtaken),
        cmocka_unit_test(writes_are_changed),
        cmocka_unit_test(reliable_endpoints_do_it_by_force),
        cmocka_unit_test(injected_messages_too),
        cmocka_unit_test(endpoints_close_with_messages_under_way),
        cmocka_unit_test(a_connection_that_ends_loses_no_completion),
    };

    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
