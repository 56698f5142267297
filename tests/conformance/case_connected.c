/* SPDX-License-Identifier: BSD-2-Clause */
/* Connected endpoints: how connections begin and end, and what goes over them. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "conf.h"

enum {
    DATA_MAX = 256
};

/* Two endpoints, of which a has dialled, and what they need; pair first, for conf_wait. */
struct link {
    struct conf_pair pair;
    struct conf_fabric answered; /* b's info, with the fabric and domain of the pair */
    struct fid_pep *pep;
    struct fid_ep *srx;            /* of b, or NULL */
    struct fid_mr *out_mr, *in_mr; /* where FI_MR_LOCAL is asked for, of the buffers below */
    void *out_desc, *in_desc;
    char name[DATA_MAX];
    size_t name_len;
};

union event {
    struct fi_eq_cm_entry entry; /* data follows */
    char room[sizeof(struct fi_eq_cm_entry) + DATA_MAX];
};

static struct fid_eq *eq; /* of the case: prepare has no argument for it */
static struct fid_ep *shared;
static _Alignas(uint64_t) char out[1 << 20], in[1 << 20];

static void bind_queue(struct conf_ep *end)
{
    must("fi_ep_bind(eq)", fi_ep_bind(end->ep, &eq->fid, 0));
    if (shared)
        must("fi_ep_bind(srx)", fi_ep_bind(end->ep, &shared->fid, 0));
}

static void drive(struct link *link)
{
    if (link->pair.a.ep)
        conf_drive(&link->pair.a);
    if (link->pair.b.ep)
        conf_drive(&link->pair.b);
}

/* The next event, which must be that one; bytes of private data are the result. */
static size_t next_event(struct link *link, uint32_t wanted, union event *event)
{
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    uint32_t number = 0;
    ssize_t rc;

    while ((rc = fi_eq_read(eq, &number, event, sizeof *event, 0)) == -FI_EAGAIN) {
        drive(link);
        conf_check(conf_now_ms() < end, "no event %u", wanted);
    }
    conf_check(rc >= (ssize_t)sizeof event->entry && number == wanted,
               "event %u expected; %u, or %zd", wanted, number, rc);
    return (size_t)rc - sizeof event->entry;
}

/* The next event is an error. */
static int next_error(struct link *link, struct fi_eq_err_entry *error)
{
    long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    union event event;
    uint32_t number = 0;
    ssize_t rc;

    while ((rc = fi_eq_read(eq, &number, &event, sizeof event, 0)) == -FI_EAGAIN) {
        drive(link);
        conf_check(conf_now_ms() < end, "no error");
    }
    conf_check(rc == -FI_EAVAIL, "an error expected; event %u, or %zd", number, rc);
    memset(error, 0, sizeof *error);
    must("fi_eq_readerr", fi_eq_readerr(eq, error, 0));
    return error->err;
}

static void describe(struct link *link)
{
    struct fid_domain *domain = link->pair.home.domain;

    if (!(link->pair.home.info->domain_attr->mr_mode & FI_MR_LOCAL))
        return;
    must("fi_mr_reg(out)",
         fi_mr_reg(domain, out, sizeof out, FI_SEND | FI_WRITE, 0, 1, 0, &link->out_mr, NULL));
    must("fi_mr_reg(in)",
         fi_mr_reg(domain, in, sizeof in, FI_RECV | FI_READ, 0, 2, 0, &link->in_mr, NULL));
    link->out_desc = fi_mr_desc(link->out_mr);
    link->in_desc = fi_mr_desc(link->in_mr);
}

static struct link *listening(struct conf_want want)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct link *link = calloc(1, sizeof *link);

    conf_check(link != NULL, "no memory");
    want.prepare = bind_queue;
    link->pair.want = want;
    conf_fabric_open(&link->pair.home, &want);
    describe(link);
    must("fi_eq_open", fi_eq_open(link->pair.home.fabric, &attr, &eq, NULL));
    must("fi_passive_ep",
         fi_passive_ep(link->pair.home.fabric, link->pair.home.info, &link->pep, link));
    must("fi_pep_bind", fi_pep_bind(link->pep, &eq->fid, 0));
    must("fi_listen", fi_listen(link->pep));
    link->name_len = sizeof link->name;
    must("fi_getname", fi_getname(&link->pep->fid, link->name, &link->name_len));
    return link;
}

static void dial(struct link *link, const void *data, size_t len)
{
    conf_ep_open(&link->pair.a, &link->pair.home, &link->pair.want);
    must("fi_connect", fi_connect(link->pair.a.ep, link->name, data, len));
}

/* b takes the request of the event. */
static void answer(struct link *link, const union event *event, const void *data, size_t len)
{
    link->answered = link->pair.home;
    link->answered.info = event->entry.info;
    shared = link->srx;
    conf_ep_open(&link->pair.b, &link->answered, &link->pair.want);
    shared = NULL;
    must("fi_accept", fi_accept(link->pair.b.ep, data, len));
}

static struct link *connected(struct conf_want want)
{
    struct link *link = listening(want);
    union event event;

    dial(link, NULL, 0);
    next_event(link, FI_CONNREQ, &event);
    answer(link, &event, NULL, 0);
    next_event(link, FI_CONNECTED, &event);
    next_event(link, FI_CONNECTED, &event);
    return link;
}

static void close_link(struct link *link)
{
    if (link->pair.a.ep)
        conf_ep_close(&link->pair.a);
    if (link->pair.b.ep) {
        conf_ep_close(&link->pair.b);
        fi_freeinfo(link->answered.info);
    }
    if (link->srx)
        must("fi_close(srx)", fi_close(&link->srx->fid));
    if (link->out_mr) {
        must("fi_close(mr)", fi_close(&link->out_mr->fid));
        must("fi_close(mr)", fi_close(&link->in_mr->fid));
    }
    must("fi_close(pep)", fi_close(&link->pep->fid));
    must("fi_close(domain)", fi_close(&link->pair.home.domain->fid));
    must("fi_close(eq)", fi_close(&eq->fid));
    must("fi_close(fabric)", fi_close(&link->pair.home.fabric->fid));
    fi_freeinfo(link->pair.home.info);
    free(link);
}

/* ---- Beginnings ---- */

static void both_sides_give_data(void)
{
    struct link *link = listening((struct conf_want){0});
    union event event;
    size_t len;

    dial(link, "hello", 5);
    len = next_event(link, FI_CONNREQ, &event);
    conf_check(event.entry.fid == &link->pep->fid && event.entry.info,
               "the request's fid and info");
    conf_check(len >= 5 && !memcmp(event.entry.data, "hello", 5), "the request's data");
    answer(link, &event, "welcome", 7);
    for (int i = 0; i < 2; i++) {
        len = next_event(link, FI_CONNECTED, &event);
        if (event.entry.fid == &link->pair.a.ep->fid)
            conf_check(len >= 7 && !memcmp(event.entry.data, "welcome", 7), "the answer's data");
        else
            conf_check(event.entry.fid == &link->pair.b.ep->fid, "the fid of FI_CONNECTED");
    }
    close_link(link);
}

static void a_rejection_gives_data(void)
{
    struct link *link = listening((struct conf_want){0});
    struct fi_eq_err_entry error;
    union event event;

    dial(link, NULL, 0);
    next_event(link, FI_CONNREQ, &event);
    must("fi_reject", fi_reject(link->pep, event.entry.info->handle, "no", 2));
    fi_freeinfo(event.entry.info);
    conf_check(next_error(link, &error) == FI_ECONNREFUSED, "error %d", error.err);
    conf_check(error.fid == &link->pair.a.ep->fid, "the fid of the error");
    conf_check(error.err_data_size >= 2 && !memcmp(error.err_data, "no", 2), "the data");
    close_link(link);
}

static void nobody_listens(void)
{
    struct link *link = listening((struct conf_want){0}), *gone;
    struct fi_eq_err_entry error;
    struct fid_eq *kept = eq;

    gone = listening((struct conf_want){0});
    memcpy(link->name, gone->name, gone->name_len);
    close_link(gone);
    eq = kept;
    dial(link, NULL, 0);
    conf_check(next_error(link, &error) == FI_ECONNREFUSED, "error %d", error.err);
    conf_check(error.fid == &link->pair.a.ep->fid, "the fid of the error");
    close_link(link);
}

static void requests_may_be_left_alone(void)
{
    struct link *link = listening((struct conf_want){0});
    union event event;

    dial(link, NULL, 0);
    next_event(link, FI_CONNREQ, &event);
    fi_freeinfo(event.entry.info);
    close_link(link);
}

static void names_and_peers(void)
{
    struct link *link = connected((struct conf_want){0});
    char name[DATA_MAX], peer[DATA_MAX];
    size_t name_len = sizeof name, peer_len = sizeof peer, small = 1;

    must("fi_getname", fi_getname(&link->pair.a.ep->fid, name, &name_len));
    must("fi_getpeer", fi_getpeer(link->pair.b.ep, peer, &peer_len));
    conf_check(name_len == peer_len && !memcmp(name, peer, name_len),
               "what one is called is not what the other sees");
    conf_check(fi_getname(&link->pair.a.ep->fid, name, &small) == -FI_ETOOSMALL &&
                   small == name_len,
               "a buffer that is too small");
    close_link(link);
}

static void a_sleeper_hears_of_a_request(void)
{
    struct link *link = listening((struct conf_want){.progress = FI_PROGRESS_AUTO});
    union event event;
    uint32_t number = 0;
    ssize_t rc;

    dial(link, NULL, 0);
    rc = fi_eq_sread(eq, &number, &event, sizeof event, CONF_TIMEOUT_MS, 0);
    conf_check(rc >= 0 && number == FI_CONNREQ, "event %u, or %zd", number, rc);
    answer(link, &event, NULL, 0);
    for (int i = 0; i < 2; i++) {
        rc = fi_eq_sread(eq, &number, &event, sizeof event, CONF_TIMEOUT_MS, 0);
        conf_check(rc >= 0 && number == FI_CONNECTED, "event %u, or %zd", number, rc);
    }
    close_link(link);
}

/* ---- Ends ---- */

static void both_hear_of_a_shutdown(void)
{
    struct link *link = connected((struct conf_want){0});
    bool own = false, peers = false;
    union event event;
    ssize_t rc;

    conf_post(&link->pair, fi_recv(link->pair.b.ep, in, 10, link->in_desc, 0, in));
    must("fi_shutdown", fi_shutdown(link->pair.a.ep, 0));
    while (!own || !peers) {
        next_event(link, FI_SHUTDOWN, &event);
        conf_check(!(event.entry.fid == &link->pair.a.ep->fid ? own : peers), "an end comes twice");
        own |= event.entry.fid == &link->pair.a.ep->fid;
        peers |= event.entry.fid == &link->pair.b.ep->fid;
    }
    conf_check(conf_wait(&link->pair, &link->pair.b, in).err, "the receive that nothing can meet");
    rc = fi_send(link->pair.b.ep, out, 10, link->out_desc, 0, out);
    if (!rc)
        rc = conf_wait(&link->pair, &link->pair.b, out).err;
    conf_check(rc, "a send into nothing succeeds");
    close_link(link);
}

static void what_was_sent_before_the_end_arrives(void)
{
    struct link *link = connected((struct conf_want){0});

    conf_fill(out, 1000, 9);
    conf_post(&link->pair, fi_recv(link->pair.b.ep, in, 1000, link->in_desc, 0, in));
    conf_post(&link->pair, fi_send(link->pair.a.ep, out, 1000, link->out_desc, 0, out));
    conf_check(!conf_wait(&link->pair, &link->pair.a, out).err, "the send");
    must("fi_shutdown", fi_shutdown(link->pair.a.ep, 0));
    conf_check(!conf_wait(&link->pair, &link->pair.b, in).err && conf_holds(in, 1000, 9),
               "the message before the end");
    close_link(link);
}

/* ---- Messages ---- */

static void messages_of_all_lengths(void)
{
    struct link *link = connected((struct conf_want){0});
    const size_t lens[] = {0, 1, 8, 128, 129, 4096, 65536, sizeof out};
    struct conf_ep *ends[2] = {&link->pair.a, &link->pair.b};

    for (size_t i = 0; i < 2 * (sizeof lens / sizeof *lens); i++) {
        size_t len = lens[i / 2];
        struct conf_seen seen;

        conf_fill(out, len, (unsigned)i);
        conf_post(&link->pair, fi_recv(ends[1 - i % 2]->ep, in, sizeof in, link->in_desc, 0, in));
        conf_post(&link->pair, fi_send(ends[i % 2]->ep, out, len, link->out_desc, 0, out));
        conf_check(!conf_wait(&link->pair, ends[i % 2], out).err, "send of %zu", len);
        seen = conf_wait(&link->pair, ends[1 - i % 2], in);
        conf_check(!seen.err && seen.len == len && conf_holds(in, len, (unsigned)i),
                   "receive of %zu", len);
    }
    close_link(link);
}

static void order_data_and_injects(void)
{
    struct link *link = connected((struct conf_want){0});

    for (unsigned i = 0; i < 100; i++)
        conf_post(&link->pair, fi_recv(link->pair.b.ep, in + i, 1, link->in_desc, 0, in + i));
    for (unsigned i = 0; i < 100; i++) {
        char byte = (char)i;

        conf_post(&link->pair, fi_injectdata(link->pair.a.ep, &byte, 1, 1000 + i, 0));
    }
    for (unsigned i = 0; i < 100; i++) {
        struct conf_seen seen = conf_wait(&link->pair, &link->pair.b, in + i);

        conf_check(!seen.err && in[i] == (char)i && seen.data == 1000 + i &&
                       seen.flags & FI_REMOTE_CQ_DATA,
                   "message %u: error %d, data %llu", i, seen.err, (unsigned long long)seen.data);
    }
    for (unsigned i = 0; i < 50; i++) { /* the last one has FI_MORE too, and arrives */
        struct iovec iov = {out + i, 1};
        struct fi_msg msg = {.msg_iov = &iov,
                             .desc = link->out_desc ? &link->out_desc : NULL,
                             .iov_count = 1,
                             .context = out + i};

        out[i] = (char)(i + 7);
        conf_post(&link->pair, fi_recv(link->pair.b.ep, in + i, 1, link->in_desc, 0, in + i));
        conf_post(&link->pair,
                  fi_sendmsg(link->pair.a.ep, &msg, FI_COMPLETION | (i % 5 == 3 ? 0 : FI_MORE)));
    }
    for (unsigned i = 0; i < 50; i++)
        conf_check(!conf_wait(&link->pair, &link->pair.a, out + i).err &&
                       !conf_wait(&link->pair, &link->pair.b, in + i).err && in[i] == (char)(i + 7),
                   "message %u, with FI_MORE or after one", i);
    conf_quiet(&link->pair, 20);
    close_link(link);
}

static void too_long_messages_are_cut(void)
{
    struct link *link = connected((struct conf_want){0});
    struct conf_seen seen;

    conf_post(&link->pair, fi_recv(link->pair.b.ep, in, 10, link->in_desc, 0, in));
    conf_post(&link->pair, fi_send(link->pair.a.ep, out, 100, link->out_desc, 0, out));
    seen = conf_wait(&link->pair, &link->pair.b, in);
    conf_check(seen.err == FI_ETRUNC, "error %d", seen.err);
    conf_need("cut_messages");
    conf_check(seen.olen == 90, "%zu lost", seen.olen);
    conf_post(&link->pair, fi_recv(link->pair.b.ep, in, 100, link->in_desc, 0, in));
    conf_post(&link->pair, fi_send(link->pair.a.ep, out, 100, link->out_desc, 0, out));
    conf_check(!conf_wait(&link->pair, &link->pair.b, in).err, "the next one");
    close_link(link);
}

static void a_shared_receive_context(void)
{
    struct link *link;
    union event event;

    conf_need("shared_contexts");
    link = listening((struct conf_want){.rx_ctx_cnt = FI_SHARED_CONTEXT});
    must("fi_srx_context",
         fi_srx_context(link->pair.home.domain, link->pair.home.info->rx_attr, &link->srx, NULL));
    shared = link->srx;
    dial(link, NULL, 0);
    next_event(link, FI_CONNREQ, &event);
    answer(link, &event, NULL, 0);
    next_event(link, FI_CONNECTED, &event);
    next_event(link, FI_CONNECTED, &event);
    conf_post(&link->pair, fi_recv(link->srx, in, 10, link->in_desc, 0, in));
    conf_post(&link->pair, fi_send(link->pair.a.ep, out, 10, link->out_desc, 0, out));
    conf_check(!conf_wait(&link->pair, &link->pair.b, in).err, "a receive of the context");
    /* Both take from it, more often than it has receives at a time. */
    for (int i = 0; i < 1000; i++) {
        struct conf_ep *from = i % 3 ? &link->pair.a : &link->pair.b;
        struct conf_ep *to = i % 3 ? &link->pair.b : &link->pair.a;

        conf_fill(out, 40, (unsigned)i);
        conf_post(&link->pair, fi_recv(link->srx, in, 40, link->in_desc, 0, in));
        conf_post(&link->pair, fi_inject(from->ep, out, 40, 0));
        conf_check(!conf_wait(&link->pair, to, in).err && conf_holds(in, 40, (unsigned)i),
                   "message %d of the context", i);
    }
    conf_check(fi_recv(link->pair.b.ep, in, 10, link->in_desc, 0, in) < 0, "a receive of its own");
    close_link(link);
}

static void sleepers_are_woken(void)
{
    struct link *link =
        connected((struct conf_want){.wait = FI_WAIT_FD, .progress = FI_PROGRESS_AUTO});
    struct fi_cq_tagged_entry entry;

    conf_post(&link->pair, fi_recv(link->pair.b.ep, in, 10, link->in_desc, 0, in));
    conf_post(&link->pair, fi_inject(link->pair.a.ep, out, 10, 0));
    conf_check(fi_cq_sread(link->pair.b.rx, &entry, 1, NULL, CONF_TIMEOUT_MS) == 1 &&
                   entry.op_context == in,
               "fi_cq_sread");
    close_link(link);
}

/* ---- Memory ---- */

static void writes_and_reads(void)
{
    struct link *link = connected((struct conf_want){0});
    struct conf_pair *pair = &link->pair;
    struct conf_region region;
    struct conf_seen seen;

    conf_region_open(pair, &region, 5000, FI_REMOTE_READ | FI_REMOTE_WRITE);
    conf_fill(out, 5000, 7);
    conf_post(pair,
              fi_write(pair->a.ep, out, 5000, link->out_desc, 0, region.base, region.key, out));
    conf_check(!conf_wait(pair, &pair->a, out).err, "fi_write");
    conf_post(pair, fi_read(pair->a.ep, in, 5000, link->in_desc, 0, region.base, region.key, in));
    conf_check(!conf_wait(pair, &pair->a, in).err && conf_holds(in, 5000, 7), "fi_read");
    /* Where its data takes a receive; elsewhere that stays. */
    conf_post(pair, fi_recv(pair->b.ep, in, 0, link->in_desc, 0, NULL));
    conf_post(pair, fi_writedata(pair->a.ep, out, 8, link->out_desc, 4711, 0, region.base,
                                 region.key, out));
    conf_check(!conf_wait(pair, &pair->a, out).err, "fi_writedata");
    seen = conf_wait(pair, &pair->b, NULL);
    conf_check(seen.data == 4711 && seen.flags & FI_REMOTE_WRITE, "its data at the target");
    conf_post(pair, fi_read(pair->a.ep, in, 8, link->in_desc, 0, region.base, region.key + 1, in));
    conf_check(conf_wait(pair, &pair->a, in).err, "a wrong key");
    conf_region_close(&region);
    close_link(link);
}

static void reads_into_several_pieces(void)
{
    enum {
        PIECES = 4,
        EACH = 1000
    };
    struct link *link = connected((struct conf_want){0});
    struct conf_pair *pair = &link->pair;
    struct conf_region region;
    struct iovec iov[PIECES];
    void *desc[PIECES];

    conf_region_open(pair, &region, PIECES * EACH, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (size_t i = 0; i < PIECES; i++) {
        iov[i] = (struct iovec){in + 2 * i * EACH, EACH};
        desc[i] = link->in_desc;
    }
    for (unsigned round = 0; round < 200; round++) {
        conf_fill(region.memory, PIECES * EACH, round);
        conf_post(pair,
                  fi_readv(pair->a.ep, iov, desc, PIECES, 0, region.base, region.key, &iov[0]));
        conf_check(!conf_wait(pair, &pair->a, &iov[0]).err, "fi_readv");
        for (size_t i = 0; i < PIECES; i++)
            conf_check(!memcmp(iov[i].iov_base, (char *)region.memory + i * EACH, EACH),
                       "piece %zu of round %u", i, round);
    }
    conf_post(pair,
              fi_readv(pair->a.ep, iov, desc, PIECES, 0, region.base, region.key + 1, &iov[1]));
    conf_check(conf_wait(pair, &pair->a, &iov[1]).err, "a wrong key");
    conf_quiet(pair, 5);
    conf_region_close(&region);
    close_link(link);
}

static void atomics(void)
{
    struct link *link;
    struct conf_pair *pair;
    struct conf_region region;
    uint64_t *operand = (uint64_t *)(void *)out, *old = (uint64_t *)(void *)in, *target;

    conf_need("ATOMIC");
    link = connected((struct conf_want){.caps = FI_MSG | FI_RMA | FI_ATOMIC});
    pair = &link->pair;
    conf_region_open(pair, &region, 8, FI_REMOTE_READ | FI_REMOTE_WRITE);
    target = (uint64_t *)(void *)region.memory;
    operand[0] = 5;
    *old = 77;
    for (uint64_t i = 0; i < 3; i++) {
        conf_post(pair, fi_fetch_atomic(pair->a.ep, operand, 1, link->out_desc, old, link->in_desc,
                                        0, region.base, region.key, FI_UINT64, FI_SUM, operand));
        conf_check(!conf_wait(pair, &pair->a, operand).err && *old == 5 * i, "fetch %llu",
                   (unsigned long long)i);
    }
    conf_post(pair, fi_atomic(pair->a.ep, operand, 1, link->out_desc, 0, region.base, region.key,
                              FI_INT64, FI_SUM, operand));
    conf_check(!conf_wait(pair, &pair->a, operand).err && *target == 20, "a sum: %llu",
               (unsigned long long)*target);
    for (uint64_t i = 0; i < 2; i++) { /* the second time it is not equal */
        operand[0] = 1000 + i;
        operand[1] = 20;
        conf_post(pair, fi_compare_atomic(pair->a.ep, operand, 1, link->out_desc, operand + 1,
                                          link->out_desc, old, link->in_desc, 0, region.base,
                                          region.key, FI_UINT64, FI_CSWAP, operand));
        conf_check(!conf_wait(pair, &pair->a, operand).err && *old == (i ? 1000u : 20u) &&
                       *target == 1000,
                   "a swap: %llu", (unsigned long long)*target);
    }
    conf_post(pair, fi_fetch_atomic(pair->a.ep, NULL, 1, NULL, old, link->in_desc, 0, region.base,
                                    region.key, FI_UINT64, FI_ATOMIC_READ, old));
    conf_check(!conf_wait(pair, &pair->a, old).err && *old == 1000, "a read");
    conf_post(pair, fi_inject_atomic(pair->a.ep, operand + 1, 1, 0, region.base, region.key,
                                     FI_UINT64, FI_SUM));
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS;
         __atomic_load_n(target, __ATOMIC_ACQUIRE) != 1020;) {
        conf_drive_pair(pair);
        conf_check(conf_now_ms() < end, "an injected sum");
    }
    conf_quiet(pair, 5);
    conf_region_close(&region);
    close_link(link);
}

const struct conf_case conf_connected_cases[] = {
    {"connected: both sides give data", both_sides_give_data},
    {"connected: a rejection gives data", a_rejection_gives_data},
    {"connected: nobody listens", nobody_listens},
    {"connected: a request may be left alone", requests_may_be_left_alone},
    {"connected: names and peers", names_and_peers},
    {"connected: a sleeper hears of a request", a_sleeper_hears_of_a_request},
    {"connected: both ends hear of a shutdown", both_hear_of_a_shutdown},
    {"connected: what was sent before the end arrives", what_was_sent_before_the_end_arrives},
    {"connected: messages of all lengths", messages_of_all_lengths},
    {"connected: order, data and injects", order_data_and_injects},
    {"connected: messages that are too long are cut", too_long_messages_are_cut},
    {"connected: a shared receive context", a_shared_receive_context},
    {"connected: sleepers are woken", sleepers_are_woken},
    {"connected: writes and reads", writes_and_reads},
    {"connected: reads into several pieces", reads_into_several_pieces},
    {"connected: atomics", atomics},
    {0},
};
