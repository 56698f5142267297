/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * failures ADDRESS [foreign|idle|late|any|unified|unanswered|leave]: a connection of verbs to
 * itself, and one message over it; says what the library says to each step. The script `failures`
 * runs it on devices that fail.
 *
 *   foreign   a program that speaks rdma_cm, and not libfabric's private data, asks for it
 *   idle      no message is sent, and both ends wait for one
 *   late      the same, until one end hears that the other is out of reach, and the other leaves
 *   any       the listener is on all devices
 *   unified   one thread calls all functions
 *   unanswered  the request for the connection is left alone
 *   leave     one end is closed with a message and a receive under way
 */
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

enum {
    WAIT_MS = 20000,
    QUIET_MS = 300,
    SIZE = 64,
    BURST = 100,
};

struct end {
    struct fid_ep *ep;
    struct fid_cq *cq;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_pep *pep;
static struct end a, b;
static char memory[2 * SIZE];
static bool unified, waits; /* waits: for what comes after an error */

static void must(const char *call, int rc)
{
    if (!rc)
        return;
    printf("%s: %s\n", call, fi_strerror(-rc));
    exit(0);
}

static struct fi_info *ask(const char *address, const char *domain_name)
{
    struct fi_info *hints = fi_allocinfo(), *found = NULL;

    if (domain_name)
        hints->domain_attr->name = strdup(domain_name);
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG;
    hints->addr_format = address && strchr(address, ':') ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("verbs");
    if (unified) {
        hints->domain_attr->threading = FI_THREAD_DOMAIN;
        hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
        hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    }
    must("fi_getinfo", fi_getinfo(unified ? FI_VERSION(2, 2) : FI_VERSION(1, 20), address,
                                  address ? NULL : "0", FI_SOURCE, hints, &found));
    fi_freeinfo(hints);
    return found;
}

/* domain_name: NULL, or what the listener's is to be. */
static void listen_at(const char *address, const char *domain_name)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};

    info = ask(address, domain_name);
    must("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    if (!domain_name)
        must("fi_domain", fi_domain(fabric, info, &domain, NULL));
    must("fi_eq_open", fi_eq_open(fabric, &attr, &eq, NULL));
    must("fi_passive_ep", fi_passive_ep(fabric, info, &pep, NULL));
    must("fi_pep_bind", fi_pep_bind(pep, &eq->fid, 0));
    must("fi_listen", fi_listen(pep));
}

static void open_end(struct end *end, struct fi_info *from)
{
    struct fi_cq_attr attr = {.format = unified ? FI_CQ_FORMAT_CONTEXT : FI_CQ_FORMAT_MSG,
                              .wait_obj = FI_WAIT_FD};

    must("fi_endpoint", fi_endpoint(domain, from, &end->ep, end));
    must("fi_cq_open", fi_cq_open(domain, &attr, &end->cq, NULL));
    must("fi_ep_bind", fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
    must("fi_ep_bind", fi_ep_bind(end->ep, &eq->fid, 0));
    must("fi_enable", fi_enable(end->ep));
}

static const char *side(fid_t fid)
{
    return a.ep && fid == &a.ep->fid ? "a" : b.ep && fid == &b.ep->fid ? "b" : "listener";
}

/* The next event, printed if it is not part of a beginning; 0: none in that time. */
static uint32_t next_event(struct fi_eq_cm_entry *entry, int wait_ms)
{
    struct fi_eq_err_entry error = {0};
    uint32_t event = 0;
    ssize_t rc = fi_eq_sread(eq, &event, entry, sizeof(*entry), wait_ms, 0);

    if (rc == -FI_EAVAIL) {
        fi_eq_readerr(eq, &error, 0);
        printf("%s: %s\n", side(error.fid), fi_strerror(error.err));
        if (!b.ep && !waits)
            exit(0);
        return FI_NOTIFY;
    }
    if (rc < 0)
        return 0;
    if (event == FI_SHUTDOWN)
        printf("shutdown: %s\n", side(entry->fid));
    return event;
}

static void connect_both(void)
{
    struct fi_eq_cm_entry entry;
    char name[256];
    size_t len = sizeof(name);
    int connected = 0;

    must("fi_getname", fi_getname(&pep->fid, name, &len));
    open_end(&a, info);
    must("fi_connect", fi_connect(a.ep, name, NULL, 0));
    while (connected < 2) {
        uint32_t event = next_event(&entry, WAIT_MS);

        if (event == FI_NOTIFY) /* said already */
            exit(0);
        if (!event || event == FI_SHUTDOWN)
            exit(1);
        connected += event == FI_CONNECTED;
        if (event != FI_CONNREQ)
            continue;
        open_end(&b, entry.info);
        must("fi_accept", fi_accept(b.ep, NULL, 0));
        fi_freeinfo(entry.info);
    }
}

/* How an operation ended at that end. */
static void report(const char *what, struct end *end, int wait_ms)
{
    struct fi_cq_msg_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc = fi_cq_sread(end->cq, &entry, 1, NULL, wait_ms);

    if (rc == -FI_EAVAIL && fi_cq_readerr(end->cq, &error, 0) == 1)
        printf("%s: %s (status %d)\n", what, fi_strerror(error.err), error.prov_errno);
    else
        printf("%s: %s\n", what, rc == 1 ? "done" : "nothing");
}

static void one_message(void)
{
    struct fi_eq_cm_entry entry;
    struct fid_mr *mr;
    void *desc;

    must("fi_mr_reg",
         fi_mr_reg(domain, memory, sizeof(memory), FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
    desc = fi_mr_desc(mr);
    must("fi_recv", (int)fi_recv(b.ep, memory + SIZE, SIZE, desc, 0, NULL));
    must("fi_send", (int)fi_send(a.ep, memory, SIZE, desc, 0, NULL));
    report("send", &a, WAIT_MS);
    report("receive", &b, QUIET_MS);
    while (next_event(&entry, QUIET_MS))
        continue;
    fi_close(&a.ep->fid);
    fi_close(&b.ep->fid);
    must("fi_close(mr)", fi_close(&mr->fid));
}

/* The next completion of a poll, or NULL. */
static void *next_context(struct end *end)
{
    struct fi_cq_entry entry = {0};
    ssize_t rc = -FI_EAGAIN;

    for (int ms = 0; rc == -FI_EAGAIN && ms < WAIT_MS; ms++) {
        const struct timespec pause = {.tv_nsec = 1000000};

        rc = fi_cq_read(end->cq, &entry, 1);
        if (rc == -FI_EAGAIN)
            nanosleep(&pause, NULL);
    }
    return rc == 1 ? entry.op_context : NULL;
}

/* One at a time, then many before a look at the queues; every third is injected. */
static void in_order(void *desc, int count)
{
    static char at[BURST];
    bool good = true;

    for (int i = 0; i < count; i++)
        must("fi_recv", (int)fi_recv(b.ep, memory + SIZE, SIZE, desc, 0, &at[i]));
    for (int i = 0; i < count; i++) {
        if (i % 3 == 2)
            must("fi_inject", (int)fi_inject(a.ep, memory, SIZE, 0));
        else
            must("fi_send", (int)fi_send(a.ep, memory, SIZE, desc, 0, &at[i]));
    }
    for (int i = 0; i < count; i++) {
        good = good && (i % 3 == 2 || next_context(&a) == &at[i]);
        good = good && next_context(&b) == &at[i];
    }
    printf("%d messages: %s\n", count, good ? "in order" : "not in order");
}

static void many_messages(void)
{
    struct fid_mr *mr;

    must("fi_mr_reg",
         fi_mr_reg(domain, memory, sizeof(memory), FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
    in_order(fi_mr_desc(mr), 1);
    in_order(fi_mr_desc(mr), 2);
    in_order(fi_mr_desc(mr), BURST);
    must("fi_close(mr)", fi_close(&mr->fid));
}

/* Both ends wait for a message. */
static void nothing_to_send(void)
{
    struct fi_eq_cm_entry entry;
    struct fid_mr *mr;

    must("fi_mr_reg", fi_mr_reg(domain, memory, sizeof(memory), FI_RECV, 0, 0, 0, &mr, NULL));
    must("fi_recv", (int)fi_recv(a.ep, memory, SIZE, fi_mr_desc(mr), 0, NULL));
    must("fi_recv", (int)fi_recv(b.ep, memory + SIZE, SIZE, fi_mr_desc(mr), 0, NULL));
    for (int waited = 0, told = 0; waited < WAIT_MS && told < 2; waited += QUIET_MS) {
        told += next_event(&entry, QUIET_MS) == FI_SHUTDOWN;
        fi_cq_read(a.cq, NULL, 0);
    }
    report("receive of a", &a, QUIET_MS);
    report("receive of b", &b, QUIET_MS);
    while (next_event(&entry, QUIET_MS))
        continue;
    fi_close(&a.ep->fid);
    fi_close(&b.ep->fid);
    must("fi_close(mr)", fi_close(&mr->fid));
}

/* An established connection is reported unreachable; then its peer leaves, too. */
static void late(void)
{
    struct fi_eq_cm_entry entry;
    struct fid_mr *mr;

    must("fi_mr_reg", fi_mr_reg(domain, memory, sizeof(memory), FI_RECV, 0, 0, 0, &mr, NULL));
    must("fi_recv", (int)fi_recv(a.ep, memory, SIZE, fi_mr_desc(mr), 0, NULL));
    while (next_event(&entry, WAIT_MS) && entry.fid != &a.ep->fid)
        continue;
    report("receive of a", &a, WAIT_MS);
    fi_close(&b.ep->fid);
    b.ep = NULL;
    while (next_event(&entry, QUIET_MS))
        continue;
    fi_close(&a.ep->fid);
    must("fi_close(mr)", fi_close(&mr->fid));
}

/* A listener on any device learns with a request which one it came over. */
static void listen_on_any(const char *address)
{
    struct fi_eq_cm_entry entry = {0};
    struct fi_info *ours = ask(address, NULL);
    struct sockaddr_in at = {0}, to;
    size_t len = sizeof(at);

    printf("listens: %s\n", info->domain_attr->name);
    must("fi_getname", fi_getname(&pep->fid, &at, &len));
    memcpy(&to, ours->src_addr, sizeof(to));
    to.sin_port = at.sin_port;
    must("fi_domain", fi_domain(fabric, ours, &domain, NULL));
    open_end(&a, ours);
    must("fi_connect", fi_connect(a.ep, &to, NULL, 0));
    if (next_event(&entry, WAIT_MS) != FI_CONNREQ)
        exit(1);
    printf("request over: %s\n", entry.info->domain_attr->name);
    open_end(&b, entry.info);
    fi_freeinfo(entry.info);
    must("fi_accept", fi_accept(b.ep, NULL, 0));
    printf("%s\n", next_event(&entry, WAIT_MS) == FI_CONNECTED ? "connected" : "not connected");
    fi_freeinfo(ours);
}

/* ---- One that is no libfabric ---- */

static enum rdma_cm_event_type cm_event(struct rdma_event_channel *channel)
{
    struct rdma_cm_event *event;
    enum rdma_cm_event_type type;

    if (rdma_get_cm_event(channel, &event))
        exit(1);
    type = event->event;
    rdma_ack_cm_event(event);
    return type;
}

static void ask_as_foreigner(void)
{
    uint8_t data[56] = {56}; /* that many bytes follow: one more than there are */
    struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(data)};
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct sockaddr_storage to = {0};
    struct fi_eq_cm_entry entry;
    struct rdma_cm_id *id;
    size_t len = sizeof(to);

    must("fi_getname", fi_getname(&pep->fid, &to, &len));
    if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
        rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, WAIT_MS) ||
        cm_event(channel) != RDMA_CM_EVENT_ADDR_RESOLVED || rdma_resolve_route(id, WAIT_MS) ||
        cm_event(channel) != RDMA_CM_EVENT_ROUTE_RESOLVED || rdma_connect(id, &param))
        exit(1);
    printf("listener: %s\n", next_event(&entry, QUIET_MS) ? "a request" : "no request");
    printf("foreigner: %s\n", rdma_event_str(cm_event(channel)));
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
}

/* The request waits for its answer until something happens to the end that asks. */
static void leave_unanswered(void)
{
    struct fi_eq_cm_entry entry = {0};
    char name[256];
    size_t len = sizeof(name);

    must("fi_getname", fi_getname(&pep->fid, name, &len));
    open_end(&a, info);
    waits = true;
    must("fi_connect", fi_connect(a.ep, name, NULL, 0));
    for (int i = 0; i < 3; i++) /* and an error of each end */
        if (next_event(&entry, WAIT_MS) == FI_CONNREQ)
            printf("a request\n");
}

/* Operations under way are not reported: neither from within fi_close, nor later. */
static void leave(void)
{
    struct fi_cq_msg_entry entry;
    struct fid_mr *mr;
    ssize_t rc;

    must("fi_mr_reg",
         fi_mr_reg(domain, memory, sizeof(memory), FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
    must("fi_recv", (int)fi_recv(a.ep, memory + SIZE, SIZE, fi_mr_desc(mr), 0, NULL));
    must("fi_send", (int)fi_send(a.ep, memory, SIZE, fi_mr_desc(mr), 0, NULL));
    must("fi_close", fi_close(&a.ep->fid));
    rc = fi_cq_sread(a.cq, &entry, 1, NULL, QUIET_MS);
    printf("closed: %s\n", rc == -FI_EAGAIN ? "nothing is reported" : fi_strerror((int)-rc));
    must("fi_close(cq)", fi_close(&a.cq->fid));
    must("fi_close(mr)", fi_close(&mr->fid));
}

static void talk(const char *mode)
{
    connect_both();
    if (unified)
        many_messages();
    if (!strcmp(mode, "late"))
        late();
    else if (!strcmp(mode, "idle"))
        nothing_to_send();
    else if (!strcmp(mode, "leave"))
        leave();
    else
        one_message();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[2] : "";

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2)
        return 2;
    if (!strcmp(mode, "any")) {
        listen_at(NULL, "verbs_any_domain");
        listen_on_any(argv[1]);
        return 0;
    }
    unified = !strcmp(mode, "unified");
    listen_at(argv[1], NULL);
    if (!strcmp(mode, "foreign"))
        ask_as_foreigner();
    else if (!strcmp(mode, "unanswered"))
        leave_unanswered();
    else
        talk(mode);
    return 0;
}
