/* SPDX-License-Identifier: BSD-2-Clause */
/* Scalable endpoints: two of them, and one that is not, in one process. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_trigger.h>

#include "conf.h"

enum {
    CONTEXTS = 3,
    BITS = 2
};

struct context {
    struct fid_ep *ep;
    struct fid_cq *cq;
};

struct scalable {
    struct fid_ep *sep;
    struct fid_av *av;
    struct context tx[CONTEXTS], rx[CONTEXTS];
    unsigned sent; /* completions of sends that were read */
};

static struct conf_fabric home;

static void open_queue(struct context *c, uint64_t flags)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};

    must("fi_cq_open", fi_cq_open(home.domain, &attr, &c->cq, NULL));
    must("bind cq", fi_ep_bind(c->ep, &c->cq->fid, flags));
    must("fi_enable", fi_enable(c->ep));
}

static struct fid_av *open_av(void)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .rx_ctx_bits = BITS};
    struct fid_av *av;

    must("fi_av_open", fi_av_open(home.domain, &attr, &av, NULL));
    return av;
}

static void open_scalable(struct scalable *s)
{
    s->sent = 0;
    s->av = open_av();
    must("fi_scalable_ep", fi_scalable_ep(home.domain, home.info, &s->sep, NULL));
    must("bind av", fi_scalable_ep_bind(s->sep, &s->av->fid, 0));
    for (int i = 0; i < CONTEXTS; i++) {
        must("fi_tx_context", fi_tx_context(s->sep, i, NULL, &s->tx[i].ep, NULL));
        must("fi_rx_context", fi_rx_context(s->sep, i, NULL, &s->rx[i].ep, NULL));
        open_queue(&s->tx[i], FI_TRANSMIT);
        open_queue(&s->rx[i], FI_RECV);
    }
    must("fi_enable", fi_enable(s->sep));
}

static void close_context(struct context *c)
{
    must("fi_close(context)", fi_close(&c->ep->fid));
    must("fi_close(cq)", fi_close(&c->cq->fid));
    c->cq = NULL;
}

static void close_scalable(struct scalable *s)
{
    conf_check(fi_close(&s->sep->fid) == -FI_EBUSY, "an endpoint with contexts closes");
    for (int i = 0; i < CONTEXTS; i++) {
        close_context(&s->tx[i]);
        close_context(&s->rx[i]);
    }
    must("fi_close(sep)", fi_close(&s->sep->fid));
    must("fi_close(av)", fi_close(&s->av->fid));
}

static void open_home_for(uint64_t caps)
{
    struct conf_want want = {.caps = caps, .tx_ctx_cnt = CONTEXTS, .rx_ctx_cnt = CONTEXTS};

    conf_need("scalable_endpoints");
    conf_fabric_open(&home, &want);
    conf_check(home.info->domain_attr->max_ep_tx_ctx >= CONTEXTS, "max_ep_tx_ctx %zu",
               home.info->domain_attr->max_ep_tx_ctx);
}

static void open_home(void)
{
    open_home_for(0);
}

static fi_addr_t insert(struct fid_av *av, struct fid_ep *who)
{
    char name[256];
    size_t len = sizeof(name);
    fi_addr_t addr;

    must("fi_getname", fi_getname(&who->fid, name, &len));
    conf_check(fi_av_insert(av, name, 1, &addr, 0, NULL) == 1, "fi_av_insert");
    return addr;
}

/* All queues of a are read once; FI_RECV of another context than `want` fails the case. */
static bool poll(struct scalable *s, struct context *want, struct fi_cq_tagged_entry *got)
{
    struct fi_cq_tagged_entry entry;
    bool found = false;

    for (int i = 0; i < 2 * CONTEXTS; i++) {
        struct context *c = i < CONTEXTS ? &s->tx[i] : &s->rx[i - CONTEXTS];
        ssize_t n = c->cq ? fi_cq_read(c->cq, &entry, 1) : -FI_EAGAIN;

        if (n != 1) {
            conf_check(n == -FI_EAGAIN, "fi_cq_read: %s", fi_strerror((int)-n));
        } else if (entry.flags & FI_RECV) {
            conf_check(c == want, "context %d received what was for another", i - CONTEXTS);
            *got = entry;
            found = true;
        } else {
            s->sent++;
        }
    }
    return found;
}

static void exchange(struct scalable *from, int tx, struct scalable *to, int rx, fi_addr_t addr)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    struct fi_cq_tagged_entry entry;
    char in[64] = "", out[64];
    unsigned sent = from->sent;
    ssize_t rc;

    snprintf(out, sizeof(out), "from %d to %d", tx, rx);
    must("fi_trecv", fi_trecv(to->rx[rx].ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 7, 0, &entry));
    while ((rc = fi_tsend(from->tx[tx].ep, out, sizeof(out), NULL, fi_rx_addr(addr, rx, BITS), 7,
                          out)) == -FI_EAGAIN) {
        poll(from, NULL, &entry);
        poll(to, NULL, &entry);
        conf_check(conf_now_ms() < deadline, "fi_tsend: -FI_EAGAIN for %d ms", CONF_TIMEOUT_MS);
    }
    must("fi_tsend", rc);
    for (bool received = false; !received || from->sent == sent;) {
        if (from != to)
            poll(from, NULL, &entry);
        received |= poll(to, &to->rx[rx], &entry);
        conf_check(conf_now_ms() < deadline, "%s: nothing in %d ms", out, CONF_TIMEOUT_MS);
    }
    conf_check(!strcmp(in, out), "'%s' arrived as '%s'", out, in);
}

/* From every transmit context to every receive context, in both directions, and to itself. */
static void every_context(void)
{
    struct scalable a, b;
    fi_addr_t to_a, to_b, to_self;

    open_home();
    open_scalable(&a);
    open_scalable(&b);
    to_b = insert(a.av, b.sep);
    to_a = insert(b.av, a.sep);
    to_self = insert(a.av, a.sep);
    for (int tx = 0; tx < CONTEXTS; tx++) {
        for (int rx = 0; rx < CONTEXTS; rx++) {
            exchange(&a, tx, &b, rx, to_b);
            exchange(&b, tx, &a, rx, to_a);
            exchange(&a, tx, &a, rx, to_self);
        }
    }
    close_scalable(&a);
    close_scalable(&b);
    conf_fabric_close(&home);
}

/* Contexts do what they are for, once each. */
static void limits(void)
{
    struct scalable a;
    struct fid_ep *again;
    char buf[8];

    open_home();
    open_scalable(&a);
    conf_check(fi_recv(a.tx[0].ep, buf, 8, NULL, FI_ADDR_UNSPEC, NULL) < 0,
               "a transmit context receives");
    conf_check(fi_send(a.rx[0].ep, buf, 8, NULL, 0, NULL) < 0, "a receive context sends");
    conf_check(fi_send(a.tx[0].ep, buf, 8, NULL, 0, NULL) == -FI_EINVAL,
               "an address that nobody inserted");
    conf_check(fi_tx_context(a.sep, 0, NULL, &again, NULL) != 0, "context 0 twice");
    conf_check(fi_tx_context(a.sep, -1, NULL, &again, NULL) == -FI_EINVAL, "context -1");
    conf_check(fi_rx_context(a.sep, CONTEXTS, NULL, &again, NULL) == -FI_EINVAL,
               "one context more than there are");
    close_context(&a.rx[1]);
    must("fi_rx_context", fi_rx_context(a.sep, 1, NULL, &a.rx[1].ep, NULL));
    must("fi_enable without a queue", fi_enable(a.rx[1].ep));
    must("fi_close(context)", fi_close(&a.rx[1].ep->fid));
    must("fi_rx_context", fi_rx_context(a.sep, 1, NULL, &a.rx[1].ep, NULL));
    open_queue(&a.rx[1], FI_RECV);
    close_context(&a.tx[1]);
    must("fi_tx_context", fi_tx_context(a.sep, 1, NULL, &a.tx[1].ep, NULL));
    open_queue(&a.tx[1], FI_TRANSMIT);
    close_scalable(&a);
    conf_fabric_close(&home);
}

/* It writes to a receive context that has no queue, and is driven by those of the others. */
static void write_to_quiet(struct scalable *a, struct context *plain, fi_addr_t to_a)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    struct fi_cq_tagged_entry entry;
    char memory[8] = "";
    struct fid_mr *mr;
    uint64_t base;
    ssize_t rc;

    close_context(&a->rx[0]);
    must("fi_rx_context", fi_rx_context(a->sep, 0, NULL, &a->rx[0].ep, NULL));
    must("fi_enable without a queue", fi_enable(a->rx[0].ep));
    must("fi_mr_reg", fi_mr_reg(home.domain, memory, 8, FI_REMOTE_WRITE, 0, 11, 0, &mr, NULL));
    base = home.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)memory : 0;
    while ((rc = fi_write(plain->ep, "quietly", 8, NULL, fi_rx_addr(to_a, 0, BITS), base,
                          fi_mr_key(mr), plain)) == -FI_EAGAIN) {
        conf_check(!poll(a, NULL, &entry), "a write that is received");
        fi_cq_read(plain->cq, NULL, 0);
        conf_check(conf_now_ms() < deadline, "fi_write: -FI_EAGAIN for %d ms", CONF_TIMEOUT_MS);
    }
    must("fi_write", rc);
    while ((rc = fi_cq_read(plain->cq, &entry, 1)) == -FI_EAGAIN) {
        conf_check(!poll(a, NULL, &entry), "a write that is received");
        conf_check(conf_now_ms() < deadline, "fi_write: nothing in %d ms", CONF_TIMEOUT_MS);
    }
    conf_check(rc == 1 && entry.op_context == plain, "fi_cq_read: %zd", rc);
    while (strcmp(memory, "quietly") != 0) {
        conf_check(!poll(a, NULL, &entry), "a write that is received");
        fi_cq_read(plain->cq, NULL, 0);
        conf_check(conf_now_ms() < deadline, "the write did not arrive in %d ms", CONF_TIMEOUT_MS);
    }
    must("fi_close(mr)", fi_close(&mr->fid));
    must("fi_close", fi_close(&a->rx[0].ep->fid));
    must("fi_rx_context", fi_rx_context(a->sep, 0, NULL, &a->rx[0].ep, NULL));
    open_queue(&a->rx[0], FI_RECV);
}

/* With an endpoint that has no contexts: it names those of the other; it is context 0. */
static void with_plain(void)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    struct fi_cq_tagged_entry entry;
    struct scalable a;
    struct context plain;
    struct fid_av *av;
    fi_addr_t to_a, to_plain;
    char in[2][8] = {"", ""};
    bool sent = false, answered = false, got = false, back = false;

    open_home();
    open_scalable(&a);
    av = open_av();
    home.info->ep_attr->tx_ctx_cnt = home.info->ep_attr->rx_ctx_cnt = 1;
    must("fi_endpoint", fi_endpoint(home.domain, home.info, &plain.ep, NULL));
    must("bind av", fi_ep_bind(plain.ep, &av->fid, 0));
    open_queue(&plain, FI_TRANSMIT | FI_RECV);
    to_a = insert(av, a.sep);
    to_plain = insert(a.av, plain.ep);
    must("fi_trecv", fi_trecv(a.rx[2].ep, in[0], 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    must("fi_trecv", fi_trecv(plain.ep, in[1], 8, NULL, FI_ADDR_UNSPEC, 2, 0, NULL));
    while (!got || !back) {
        if (!sent)
            sent = !fi_tinject(plain.ep, "there", 6, fi_rx_addr(to_a, 2, BITS), 1);
        if (!answered)
            answered = !fi_tinject(a.tx[1].ep, "back", 5, to_plain, 2);
        got |= poll(&a, &a.rx[2], &entry);
        back |= fi_cq_read(plain.cq, &entry, 1) == 1;
        conf_check(conf_now_ms() < deadline, "nothing in %d ms", CONF_TIMEOUT_MS);
    }
    conf_check(!strcmp(in[0], "there") && !strcmp(in[1], "back"), "'%s', '%s'", in[0], in[1]);
    write_to_quiet(&a, &plain, to_a);
    close_context(&plain);
    must("fi_close(av)", fi_close(&av->fid));
    close_scalable(&a);
    conf_fabric_close(&home);
}

/* ---- Triggered ---- */

static struct fid_cntr *counter(void)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr;

    must("fi_cntr_open", fi_cntr_open(home.domain, &attr, &cntr, NULL));
    return cntr;
}

static void wait_for(struct context *c, void *context)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    struct fi_cq_tagged_entry entry;
    ssize_t n;

    while ((n = fi_cq_read(c->cq, &entry, 1)) == -FI_EAGAIN)
        conf_check(conf_now_ms() < deadline, "no completion in %d ms", CONF_TIMEOUT_MS);
    conf_check(n == 1 && entry.op_context == context, "fi_cq_read: %zd", n);
}

/* A send from one context and a receive of another wait for a counter. */
static void triggered(struct scalable *a, fi_addr_t self, struct fid_cntr *go)
{
    struct fi_triggered_context2 waits[2] = {{.event_type = FI_TRIGGER_THRESHOLD},
                                             {.event_type = FI_TRIGGER_THRESHOLD}};
    char in = 0, out = 't';
    struct iovec to = {&in, 1}, from = {&out, 1};
    struct fi_msg_tagged recv = {&to, NULL, 1, FI_ADDR_UNSPEC, 5, 0, &waits[0], 0};
    struct fi_msg_tagged send = {&from, NULL, 1, fi_rx_addr(self, 2, BITS), 5, 0, &waits[1], 0};
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < 2; i++) {
        waits[i].trigger.threshold.cntr = go;
        waits[i].trigger.threshold.threshold = 1;
    }
    conf_check(fi_trecvmsg(a->tx[1].ep, &recv, FI_TRIGGER) < 0, "a transmit context receives");
    conf_check(fi_tsendmsg(a->rx[2].ep, &send, FI_TRIGGER) < 0, "a receive context sends");
    must("fi_trecvmsg", fi_trecvmsg(a->rx[2].ep, &recv, FI_TRIGGER));
    must("fi_tsendmsg", fi_tsendmsg(a->tx[1].ep, &send, FI_TRIGGER));
    for (long long end = conf_now_ms() + 20; conf_now_ms() < end;)
        conf_check(!poll(a, NULL, &entry), "before its time");
    must("fi_cntr_add", fi_cntr_add(go, 1));
    wait_for(&a->rx[2], &waits[0]);
    wait_for(&a->tx[1], &waits[1]);
    conf_check(in == 't', "%c", in);
}

static int queue(struct fid_cntr *go, uint64_t threshold, struct fid_cntr *done,
                 struct fi_op_tagged *op, enum fi_op_type type, struct fi_deferred_work *work)
{
    *work = (struct fi_deferred_work){
        .threshold = threshold, .triggering_cntr = go, .completion_cntr = done, .op_type = type};
    work->op.tagged = op;
    return fi_control(&home.domain->fid, FI_QUEUE_WORK, work);
}

/* The same as deferred work, by a receive context without a queue; work that is left over when its
 * context closes is gone. */
static void deferred(struct scalable *a, fi_addr_t self, struct fid_cntr *go)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;
    struct fid_cntr *done = counter();
    struct fi_deferred_work work[3];
    struct fid_ep *quiet;
    char in = 0, out = 'd';
    struct iovec to = {&in, 1}, from = {&out, 1};
    struct fi_op_tagged recv = {.msg = {&to, NULL, 1, FI_ADDR_UNSPEC, 6, 0, NULL, 0}};
    struct fi_op_tagged send = {a->tx[2].ep, {&from, NULL, 1, fi_rx_addr(self, 1, BITS), 6}, 0};
    struct fi_op_tagged late = {a->tx[0].ep, {&from, NULL, 1, self, 6}, 0};
    struct fi_cq_tagged_entry entry;

    close_context(&a->rx[1]);
    must("fi_rx_context", fi_rx_context(a->sep, 1, NULL, &quiet, NULL));
    must("fi_enable without a queue", fi_enable(quiet));
    recv.ep = quiet;
    conf_check(queue(go, 2, done, &recv, FI_OP_TSEND, &work[0]) < 0, "a receive context sends");
    conf_check(queue(go, 2, done, &send, FI_OP_TRECV, &work[0]) < 0, "a transmit one receives");
    must("FI_QUEUE_WORK", queue(go, 2, done, &recv, FI_OP_TRECV, &work[0]));
    must("FI_QUEUE_WORK", queue(go, 2, done, &send, FI_OP_TSEND, &work[1]));
    must("FI_QUEUE_WORK", queue(go, 99, done, &late, FI_OP_TSEND, &work[2]));
    must("fi_cntr_add", fi_cntr_add(go, 1));
    while (fi_cntr_read(done) < 2) {
        conf_check(!poll(a, NULL, &entry), "an entry that nobody asked for");
        conf_check(conf_now_ms() < deadline, "%lu of 2", (unsigned long)fi_cntr_read(done));
    }
    conf_check(in == 'd' && !fi_cntr_readerr(done), "%c", in);
    conf_check(fi_close(&go->fid) == -FI_EBUSY, "a counter that work waits for closes");
    close_context(&a->tx[0]);
    must("fi_tx_context", fi_tx_context(a->sep, 0, NULL, &a->tx[0].ep, NULL));
    open_queue(&a->tx[0], FI_TRANSMIT);
    must("fi_close", fi_close(&quiet->fid));
    must("fi_rx_context", fi_rx_context(a->sep, 1, NULL, &a->rx[1].ep, NULL));
    open_queue(&a->rx[1], FI_RECV);
    must("fi_close(cntr)", fi_close(&done->fid));
}

static void triggers(void)
{
    struct fid_cntr *go;
    struct scalable a;
    fi_addr_t self;

    conf_need("triggers");
    open_home_for(FI_MSG | FI_TAGGED | FI_TRIGGER);
    open_scalable(&a);
    self = insert(a.av, a.sep);
    go = counter();
    triggered(&a, self, go);
    deferred(&a, self, go);
    must("fi_close(cntr)", fi_close(&go->fid));
    close_scalable(&a);
    conf_fabric_close(&home);
}

const struct conf_case conf_scalable_cases[] = {
    {"scalable: every context to every other", every_context},
    {"scalable: what contexts do not do", limits},
    {"scalable: with an endpoint without contexts", with_plain},
    {"scalable: operations that wait for a counter", triggers},
    {NULL, NULL},
};
