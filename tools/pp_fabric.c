/* SPDX-License-Identifier: BSD-2-Clause */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pp.h"

enum {
    CQ_SIZE = 64,
    NAME_SIZE = 512,
    SPINS_BETWEEN_LOOKS = 1 << 14,
    SPINS_BETWEEN_YIELDS = 1 << 10,
    FIN_TIMEOUT_MS = 1000
};

/* The last message each way, with its 0. */
static const char fin[] = "fin";

static bool is_connected(const struct pp *pp)
{
    return pp->hints->ep_attr->type == FI_EP_MSG;
}

static bool is_server(const struct pp *pp)
{
    return !pp->options.server;
}

/* ---- Opening ---- */

static int ask(const struct pp *pp, const char *node, uint64_t flags, struct fi_info **info)
{
    return fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), node, NULL, flags, pp->hints,
                      info);
}

/* Names the types of endpoint with which the other options would have fitted. */
static void suggest_types(struct pp *pp, const char *node, uint64_t flags)
{
    static const enum fi_ep_type types[] = {FI_EP_RDM, FI_EP_MSG, FI_EP_DGRAM};
    static const char *const words[] = {"rdm", "msg", "dgram"};
    enum fi_ep_type asked = pp->hints->ep_attr->type;
    bool any = false;

    setenv("FI_EXPLAIN", "0", 1); /* these questions are not the user's */
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        struct fi_info *info = NULL;

        pp->hints->ep_attr->type = types[i];
        if (types[i] == asked || ask(pp, node, flags, &info))
            continue;
        fi_freeinfo(info);
        fprintf(stderr, "%s-e %s",
                any                    ? " or "
                : asked == FI_EP_DGRAM ? "without -e it is dgram that is asked for: try "
                                       : "try ",
                words[i]);
        any = true;
    }
    fputs(any ? "\n" : "", stderr);
    pp->hints->ep_attr->type = asked;
}

static int get_info(struct pp *pp, const char *node, uint64_t flags)
{
    int ret = ask(pp, node, flags, &pp->info);

    if (ret == -FI_ENODATA)
        suggest_types(pp, node, flags);
    return ret ? pp_failed("fi_getinfo", ret) : 0;
}

int fabric_check(struct pp *pp)
{
    int ret = get_info(pp, NULL, 0);

    fi_freeinfo(pp->info);
    pp->info = NULL;
    return ret;
}

static int open_fabric(struct pp *pp)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    int ret = fi_fabric(pp->info->fabric_attr, &pp->fabric, NULL);

    if (ret)
        return pp_failed("fi_fabric", ret);
    if (!is_connected(pp))
        return 0;
    ret = fi_eq_open(pp->fabric, &attr, &pp->eq, NULL);
    return ret ? pp_failed("fi_eq_open", ret) : 0;
}

static int register_buffer(struct pp *pp, size_t len)
{
    int ret;

    if (!(pp->info->domain_attr->mr_mode & FI_MR_LOCAL))
        return 0;
    ret = fi_mr_reg(pp->domain, pp->buffer, len, FI_SEND | FI_RECV, 0, 0x5eed, 0, &pp->mr, NULL);
    if (ret)
        return pp_failed("fi_mr_reg", ret);
    if (!(pp->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
        return 0;
    ret = fi_mr_bind(pp->mr, &pp->ep->fid, 0);
    if (!ret)
        ret = fi_mr_enable(pp->mr);
    return ret ? pp_failed("fi_mr_bind", ret) : 0;
}

static int make_buffers(struct pp *pp, size_t max_size)
{
    size_t half;

    if (pp->info->mode & FI_MSG_PREFIX)
        pp->prefix = pp->info->ep_attr->msg_prefix_size;
    if (max_size > pp->info->ep_attr->max_msg_size)
        max_size = pp->info->ep_attr->max_msg_size;
    pp->capacity = max_size < sizeof(fin) ? sizeof(fin) : max_size;
    half = (pp->prefix + pp->capacity + 63) & ~(size_t)63;
    pp->buffer = aligned_alloc(4096, (2 * half + 4095) & ~(size_t)4095);
    if (!pp->buffer)
        return pp_failed("malloc", -FI_ENOMEM);
    memset(pp->buffer, 0, 2 * half);
    pp->tx_data = pp->buffer + pp->prefix;
    pp->rx_data = pp->buffer + half + pp->prefix;
    return register_buffer(pp, 2 * half);
}

static int open_cqs(struct pp *pp)
{
    struct fi_cq_attr attr = {.size = CQ_SIZE, .format = FI_CQ_FORMAT_MSG};
    int ret = fi_cq_open(pp->domain, &attr, &pp->tx_cq, NULL);

    if (!ret)
        ret = fi_cq_open(pp->domain, &attr, &pp->rx_cq, NULL);
    return ret ? pp_failed("fi_cq_open", ret) : 0;
}

static int open_av(struct pp *pp)
{
    struct fi_av_attr attr = {.type = pp->info->domain_attr->av_type, .count = 1};
    int ret;

    if (attr.type == FI_AV_UNSPEC)
        attr.type = FI_AV_TABLE;
    ret = fi_av_open(pp->domain, &attr, &pp->av, NULL);
    return ret ? pp_failed("fi_av_open", ret) : 0;
}

static int bind_endpoint(struct pp *pp)
{
    int ret = pp->eq ? fi_ep_bind(pp->ep, &pp->eq->fid, 0) : 0;

    if (!ret && pp->av)
        ret = fi_ep_bind(pp->ep, &pp->av->fid, 0);
    if (!ret)
        ret = fi_ep_bind(pp->ep, &pp->tx_cq->fid, FI_TRANSMIT);
    if (!ret)
        ret = fi_ep_bind(pp->ep, &pp->rx_cq->fid, FI_RECV);
    return ret ? pp_failed("fi_ep_bind", ret) : 0;
}

static int open_endpoint(struct pp *pp, size_t max_size)
{
    int ret = fi_domain(pp->fabric, pp->info, &pp->domain, NULL);

    if (ret)
        return pp_failed("fi_domain", ret);
    ret = open_cqs(pp);
    if (!ret && !is_connected(pp))
        ret = open_av(pp);
    if (ret)
        return ret;
    ret = fi_endpoint(pp->domain, pp->info, &pp->ep, NULL);
    if (ret)
        return pp_failed("fi_endpoint", ret);
    ret = bind_endpoint(pp);
    if (ret)
        return ret;
    ret = fi_enable(pp->ep);
    if (ret)
        return pp_failed("fi_enable", ret);
    ret = make_buffers(pp, max_size);
    return ret ? ret : fabric_post_receive(pp);
}

static int send_own_name(struct pp *pp, struct fid *fid)
{
    char name[NAME_SIZE];
    size_t len = sizeof(name);
    int ret = fi_getname(fid, name, &len);

    if (ret)
        return pp_failed("fi_getname", ret);
    return control_send_name(pp, pp->info->addr_format, name, len);
}

/* The server's name becomes the address that the client asks fi_getinfo for. */
static int take_server_name(struct pp *pp)
{
    void *name;
    size_t len;
    int ret = control_receive_name(pp, &pp->hints->addr_format, &name, &len);

    if (ret)
        return ret;
    pp->hints->dest_addr = name;
    pp->hints->dest_addrlen = len;
    return 0;
}

/* ---- Connected endpoints ---- */

static int eq_error(struct pp *pp)
{
    struct fi_eq_err_entry entry = {0};
    ssize_t ret = fi_eq_readerr(pp->eq, &entry, 0);

    return pp_failed("event queue", ret < 0 ? (int)ret : -entry.err);
}

/* Waits for that very event; *info is its info when it has one. */
static int wait_event(struct pp *pp, uint32_t wanted, struct fi_info **info)
{
    struct fi_eq_cm_entry entry = {0};
    uint32_t event;
    ssize_t ret = fi_eq_sread(pp->eq, &event, &entry, sizeof(entry), PP_TIMEOUT_MS, 0);

    if (ret == -FI_EAVAIL)
        return eq_error(pp);
    if (ret == -FI_EAGAIN || ret == -FI_ETIMEDOUT)
        return pp_failed("no connection came", -FI_ETIMEDOUT);
    if (ret < 0)
        return pp_failed("fi_eq_sread", (int)ret);
    if (event != wanted) {
        fprintf(stderr, "event queue: %s came", fi_tostr(&event, FI_TYPE_EQ_EVENT));
        fprintf(stderr, " instead of %s\n", fi_tostr(&wanted, FI_TYPE_EQ_EVENT));
        return -FI_EOTHER;
    }
    if (info)
        *info = entry.info;
    return 0;
}

static int start_listening(struct pp *pp)
{
    int ret = get_info(pp, pp->options.source, pp->options.source ? FI_SOURCE : 0);

    if (!ret)
        ret = open_fabric(pp);
    if (ret)
        return ret;
    ret = fi_passive_ep(pp->fabric, pp->info, &pp->pep, NULL);
    if (ret)
        return pp_failed("fi_passive_ep", ret);
    ret = fi_pep_bind(pp->pep, &pp->eq->fid, 0);
    if (!ret)
        ret = fi_listen(pp->pep);
    return ret ? pp_failed("fi_listen", ret) : send_own_name(pp, &pp->pep->fid);
}

static int accept_connection(struct pp *pp, size_t max_size)
{
    struct fi_info *info = NULL;
    int ret = start_listening(pp);

    if (!ret)
        ret = wait_event(pp, FI_CONNREQ, &info);
    if (ret || !info)
        return ret;
    fi_freeinfo(pp->info);
    pp->info = info;
    ret = open_endpoint(pp, max_size);
    if (ret) {
        fi_reject(pp->pep, info->handle, NULL, 0);
        return ret;
    }
    ret = fi_accept(pp->ep, NULL, 0);
    return ret ? pp_failed("fi_accept", ret) : wait_event(pp, FI_CONNECTED, NULL);
}

static int make_connection(struct pp *pp, size_t max_size)
{
    int ret = take_server_name(pp);

    if (!ret)
        ret = get_info(pp, NULL, 0);
    if (!ret)
        ret = open_fabric(pp);
    if (!ret)
        ret = open_endpoint(pp, max_size);
    if (ret)
        return ret;
    ret = fi_connect(pp->ep, pp->info->dest_addr, NULL, 0);
    return ret ? pp_failed("fi_connect", ret) : wait_event(pp, FI_CONNECTED, NULL);
}

/* ---- Connectionless endpoints ---- */

static int insert_peer(struct pp *pp, const void *name)
{
    int ret = fi_av_insert(pp->av, name, 1, &pp->peer, 0, NULL);

    if (ret == 1)
        return 0;
    return pp_failed("fi_av_insert", ret < 0 ? ret : -FI_EADDRNOTAVAIL);
}

static int serve_names(struct pp *pp, size_t max_size)
{
    uint32_t format;
    void *name;
    size_t len;
    int ret = get_info(pp, pp->options.source, pp->options.source ? FI_SOURCE : 0);

    if (!ret)
        ret = open_fabric(pp);
    if (!ret)
        ret = open_endpoint(pp, max_size);
    if (!ret)
        ret = send_own_name(pp, &pp->ep->fid);
    if (!ret)
        ret = control_receive_name(pp, &format, &name, &len);
    if (ret)
        return ret;
    ret = insert_peer(pp, name);
    free(name);
    return ret;
}

static int ask_names(struct pp *pp, size_t max_size)
{
    int ret = take_server_name(pp);

    if (!ret)
        ret = get_info(pp, NULL, 0);
    if (!ret)
        ret = open_fabric(pp);
    if (!ret)
        ret = open_endpoint(pp, max_size);
    if (!ret)
        ret = insert_peer(pp, pp->info->dest_addr ? pp->info->dest_addr : pp->hints->dest_addr);
    return ret ? ret : send_own_name(pp, &pp->ep->fid);
}

int fabric_start(struct pp *pp, size_t max_size)
{
    int ret;

    pp->peer = FI_ADDR_UNSPEC;
    if (is_connected(pp))
        ret = is_server(pp) ? accept_connection(pp, max_size) : make_connection(pp, max_size);
    else
        ret = is_server(pp) ? serve_names(pp, max_size) : ask_names(pp, max_size);
    if (!ret)
        pp_debug(pp, "running on\n%s", fi_tostr(pp->info, FI_TYPE_INFO));
    return ret;
}

static void close_fid(struct fid *fid, const char *what)
{
    int ret = fi_close(fid);

    if (ret)
        pp_failed(what, ret);
}

#define CLOSE(object, what)                                                                        \
    do {                                                                                           \
        if (object)                                                                                \
            close_fid(&(object)->fid, "fi_close of the " what);                                    \
        (object) = NULL;                                                                           \
    } while (0)

void fabric_stop(struct pp *pp)
{
    if (pp->ep && is_connected(pp))
        fi_shutdown(pp->ep, 0);
    CLOSE(pp->mr, "memory region");
    CLOSE(pp->ep, "endpoint");
    CLOSE(pp->tx_cq, "transmit queue");
    CLOSE(pp->rx_cq, "receive queue");
    CLOSE(pp->av, "address vector");
    CLOSE(pp->domain, "domain");
    CLOSE(pp->pep, "passive endpoint");
    CLOSE(pp->eq, "event queue");
    CLOSE(pp->fabric, "fabric");
    free(pp->buffer);
    pp->buffer = NULL;
    fi_freeinfo(pp->info);
    pp->info = NULL;
}

/* ---- Messages ---- */

static long long now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int cq_error(struct fid_cq *cq, const char *what)
{
    struct fi_cq_err_entry entry = {0};
    ssize_t ret = fi_cq_readerr(cq, &entry, 0);

    return pp_failed(what, ret < 0 ? (int)ret : -entry.err);
}

static int read_cq(struct fid_cq *cq, const char *what, uint64_t *done, size_t *length)
{
    struct fi_cq_msg_entry entry;
    ssize_t ret = fi_cq_read(cq, &entry, 1);

    if (ret == 1) {
        (*done)++;
        if (length)
            *length = entry.len;
        return 0;
    }
    if (ret == -FI_EAGAIN || !ret)
        return 0;
    return ret == -FI_EAVAIL ? cq_error(cq, what) : pp_failed(what, (int)ret);
}

/* Both queues: under manual progress either may be what moves the other side's message. */
static int progress(struct pp *pp)
{
    int ret = read_cq(pp->rx_cq, "receive", &pp->rx_done, &pp->rx_length);

    return ret ? ret : read_cq(pp->tx_cq, "send", &pp->tx_done, NULL);
}

/* Until *done is `wanted`. -FI_ETIMEDOUT is not shown. */
static int wait_for(struct pp *pp, const uint64_t *done, uint64_t wanted, int timeout_ms)
{
    long long end = 0;

    for (unsigned spins = 1; *done < wanted; spins++) {
        int ret = progress(pp);

        if (ret)
            return ret;
        if (!(spins % SPINS_BETWEEN_YIELDS))
            sched_yield();
        if (spins % SPINS_BETWEEN_LOOKS)
            continue;
        if (!end)
            end = now_ms() + timeout_ms;
        if (now_ms() > end)
            return -FI_ETIMEDOUT;
        if (control_broken(pp) && timeout_ms == PP_TIMEOUT_MS)
            return pp_failed("the other side hung up", -FI_ECONNRESET);
    }
    return 0;
}

int fabric_post_receive(struct pp *pp)
{
    void *data = pp->rx_data - pp->prefix, *desc = pp->mr ? fi_mr_desc(pp->mr) : NULL;
    size_t len = pp->capacity + pp->prefix;
    ssize_t ret;

    do {
        if (pp->options.tagged)
            ret = fi_trecv(pp->ep, data, len, desc, FI_ADDR_UNSPEC, PP_TAG, 0, &pp->rx_context);
        else
            ret = fi_recv(pp->ep, data, len, desc, FI_ADDR_UNSPEC, &pp->rx_context);
        if (ret == -FI_EAGAIN && progress(pp))
            return -FI_EIO;
    } while (ret == -FI_EAGAIN);
    return ret ? pp_failed("receive", (int)ret) : 0;
}

/* `flags` 0: an ordinary send. */
static ssize_t post_send(struct pp *pp, size_t size, uint64_t flags)
{
    void *data = pp->tx_data - pp->prefix, *desc = pp->mr ? fi_mr_desc(pp->mr) : NULL;
    struct iovec iov = {data, size + pp->prefix};
    struct fi_msg msg = {.msg_iov = &iov,
                         .desc = &desc,
                         .iov_count = 1,
                         .addr = pp->peer,
                         .context = &pp->tx_context};
    struct fi_msg_tagged tagged = {.msg_iov = &iov,
                                   .desc = &desc,
                                   .iov_count = 1,
                                   .addr = pp->peer,
                                   .tag = PP_TAG,
                                   .context = &pp->tx_context};

    if (flags)
        return pp->options.tagged ? fi_tsendmsg(pp->ep, &tagged, flags)
                                  : fi_sendmsg(pp->ep, &msg, flags);
    if (pp->options.tagged)
        return fi_tsend(pp->ep, data, iov.iov_len, desc, pp->peer, PP_TAG, &pp->tx_context);
    return fi_send(pp->ep, data, iov.iov_len, desc, pp->peer, &pp->tx_context);
}

static int send_with(struct pp *pp, size_t size, uint64_t flags)
{
    long long end = 0;
    ssize_t ret;

    for (unsigned spins = 1; (ret = post_send(pp, size, flags)) == -FI_EAGAIN; spins++) {
        int failed = progress(pp);

        if (failed)
            return failed;
        if (spins % SPINS_BETWEEN_LOOKS)
            continue;
        if (!end)
            end = now_ms() + PP_TIMEOUT_MS;
        if (now_ms() > end || control_broken(pp))
            return pp_failed("send: the other side takes nothing", -FI_ETIMEDOUT);
    }
    if (ret)
        return pp_failed("send", (int)ret);
    pp->tx_posted++;
    ret = wait_for(pp, &pp->tx_done, pp->tx_posted, PP_TIMEOUT_MS);
    return ret == -FI_ETIMEDOUT ? pp_failed("send: no completion", -FI_ETIMEDOUT) : (int)ret;
}

int fabric_send(struct pp *pp, size_t size)
{
    return send_with(pp, size, 0);
}

/* At most one receive is posted, so one message is what there is to wait for. */
int fabric_receive(struct pp *pp, int timeout_ms)
{
    int ret = wait_for(pp, &pp->rx_done, 1, timeout_ms);

    if (ret == -FI_ETIMEDOUT && timeout_ms == PP_TIMEOUT_MS)
        return pp_failed("no message came", ret);
    if (ret)
        return ret;
    pp->rx_done = 0;
    pp->rx_length -= pp->rx_length >= pp->prefix ? pp->prefix : 0;
    return 0;
}

int fabric_finish(struct pp *pp)
{
    bool reliable = pp->hints->ep_attr->type != FI_EP_DGRAM;
    int ret;

    memcpy(pp->tx_data, fin, sizeof(fin));
    ret = send_with(pp, sizeof(fin), reliable ? FI_DELIVERY_COMPLETE | FI_COMPLETION : 0);
    if (!ret)
        ret = fabric_receive(pp, reliable ? PP_TIMEOUT_MS : FIN_TIMEOUT_MS);
    /* A datagram that is lost here takes nothing with it. */
    return ret == -FI_ETIMEDOUT && !reliable ? 0 : ret;
}
