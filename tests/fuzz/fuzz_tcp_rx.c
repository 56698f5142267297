/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any stream from a peer into a connected endpoint with operations outstanding: nothing is touched
 * that should not be, every operation ends at most once, and none after the endpoint is closed.
 * Byte 0: 1 other byte order, 2 shared context and tags, 4 peer of wire version 1, 8 receives
 * posted late, 16 peer that knows atomics. Byte 1: size of the pieces in which the rest arrives, 0
 * for all at once.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "core/base/seam.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "transports/tcp/tcp_ep.h"
#include "tests/fuzz/must.h"

extern const struct part tcp_part;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    OPS = 18,
    RECEIVES_END = 16, /* contexts from there on are atomics */
    ROOM = 64,
    REGION = 256,
    GUARD = 0x5a
};

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *cq;
static struct fi_info *infos[2]; /* plain, shared */
static struct fid_mr *mr;
static struct fid_ep *anchor,
    *anchor_srx; /* keep the set of sockets, which would be made each time */
static uint8_t region[REGION + 2 * ROOM];
static uint8_t rooms[OPS][3 * ROOM];

static struct fi_info *pick(struct fi_info *list, bool shared)
{
    for (struct fi_info *info = list; info; info = info->next) {
        if ((info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT) != shared)
            continue;
        /* An offer holds all default flags that may be asked for. */
        info->tx_attr->op_flags = info->rx_attr->op_flags = 0;
        return info;
    }
    abort();
}

static struct params *resolve_params(void)
{
    const struct param_text texts[] = {{"max_saved_size", "1k"}, {"rndv_size", "16"}};
    struct params *params = NULL;
    size_t bad;
    char why[256];

    must(!params_resolve("tcp", "tcp", tcp_part.params, texts, 2, &params, &bad, why, sizeof(why)));
    return params;
}

static struct fid_ep *open_ep(bool shared, struct fid_ep **srx)
{
    struct fi_rx_attr rx_attr = {.size = OPS};
    struct fid_ep *ep;

    *srx = NULL;
    must(!fi_endpoint(domain, infos[shared], &ep, NULL));
    must(!fi_ep_bind(ep, &eq->fid, 0));
    must(!fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    if (shared) {
        must(!fi_srx_context(domain, &rx_attr, srx, NULL));
        must(!fi_ep_bind(ep, &(*srx)->fid, 0));
    }
    must(!fi_enable(ep));
    return ep;
}

static void set_up(void)
{
    struct params *params = resolve_params();
    struct fi_info *hints = info_complete(NULL), *list = NULL;
    struct request request = {.version = FI_VERSION(2, 6), .hints = hints, .params = params};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};

    hints->caps = FI_PEER; /* or there are no atomics */
    must(!tcp_part.offer(&request, NULL, &list) && list);
    infos[0] = pick(list, false);
    infos[1] = pick(list, true);
    struct open_args args = {.part = &tcp_part,
                             .params = params,
                             .attr = list->fabric_attr,
                             .api_version = FI_VERSION(2, 6),
                             .abi = ABI_1_9};
    must(!tcp_part.open_fabric(&args, &fabric, NULL));
    must(!fi_eq_open(fabric, &eq_attr, &eq, NULL));
    must(!fi_domain(fabric, list, &domain, NULL));
    must(!fi_cq_open(domain, &cq_attr, &cq, NULL));
    must(!fi_mr_reg(domain, region + ROOM, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &mr,
                    NULL));
    info_free(hints);
    anchor = open_ep(false, &anchor_srx);
}

static void drain(unsigned *ended)
{
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;
    ssize_t rc;

    while ((rc = fi_cq_read(cq, &done, 1)) != -FI_EAGAIN) {
        uintptr_t context = (uintptr_t)done.op_context;

        if (rc != 1) {
            memset(&error, 0, sizeof(error));
            must(fi_cq_readerr(cq, &error, 0) == 1);
            context = (uintptr_t)error.op_context;
        }
#ifdef FUZZ_PLANTED
        /* As if a tagged message without payload were never told to be complete. */
        must(rc != 1 || !(done.flags & FI_TAGGED) || done.len);
#endif
        must(context < OPS);
        if (context)
            must(++ended[context] == 1);
    }
}

/* Contexts 1 to 4: sends and reads; 5 and up: receives. */
static void post_sends(struct fid_ep *ep, bool tagged)
{
    struct iovec iov = {rooms[1] + ROOM, ROOM};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .context = (void *)1};

    fi_sendmsg(ep, &msg, FI_DELIVERY_COMPLETE);
    fi_read(ep, rooms[2] + ROOM, ROOM, NULL, 0, 0, 1, (void *)2);
    fi_write(ep, rooms[3] + ROOM, ROOM, NULL, 0, 0, 1, (void *)3);
    if (tagged)
        fi_tsend(ep, rooms[4] + ROOM, ROOM, NULL, 0, 9, (void *)4);
    fi_atomic(ep, rooms[16] + ROOM, ROOM / 8, NULL, 0, 0, 1, FI_UINT64, FI_SUM, (void *)16);
    fi_fetch_atomic(ep, rooms[16] + ROOM, ROOM / 4, NULL, rooms[17] + ROOM, NULL, 0, 0, 1,
                    FI_UINT32, FI_BXOR, (void *)17);
}

static void post_receives(struct fid_ep *ep, bool tagged)
{
    for (uintptr_t i = 5; i < RECEIVES_END; i++) {
        if (tagged && i % 2)
            fi_trecv(ep, rooms[i] + ROOM, ROOM, NULL, 0, i, i == 5 ? UINT64_MAX : 0, (void *)i);
        else
            fi_recv(ep, rooms[i] + ROOM, ROOM, NULL, 0, (void *)i);
    }
}

static void feed(struct tcp_ep *ep, int fd, const uint8_t *data, size_t size, size_t piece,
                 unsigned *ended)
{
    if (piece && piece < size / 32)
        piece = size / 32;
    while (size && ep->state == TCP_CONNECTED) {
        size_t part = piece && piece < size ? piece : size;
        ssize_t sent = send(fd, data, part, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent <= 0)
            break;
        data += sent;
        size -= (size_t)sent;
        drain(ended);
    }
    for (int i = 0; i < 4; i++)
        drain(ended);
}

static void check_guards(void)
{
    for (size_t i = 0; i < ROOM; i++) {
        must(region[i] == GUARD && region[ROOM + REGION + i] == GUARD);
        for (size_t op = 0; op < OPS; op++)
            must(rooms[op][i] == GUARD && rooms[op][2 * ROOM + i] == GUARD);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned ended[OPS] = {0};
    struct fid_ep *fid, *srx;
    struct fi_eq_cm_entry entry;
    uint32_t event;
    int fds[2];

    if (size < 2)
        return 0;
    if (!anchor)
        set_up();
    memset(region, GUARD, sizeof(region));
    memset(rooms, GUARD, sizeof(rooms));
    bool shared = data[0] & 2, late = data[0] & 8;
    fid = open_ep(shared, &srx);
    struct tcp_ep *ep = tcp_ep_of(fid);
    ep->peer_version = !!(data[0] & 4);
    ep->peer_features = data[0] & 16 ? OPT_FEATURE_ATOMICS : 0;
    must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
    must(!tcp_ep_connected(ep, fds[0], data[0] & 1));
    if (!late)
        post_receives(srx ? srx : fid, shared);
    post_sends(fid, shared);
    feed(ep, fds[1], data + 2, size - 2, data[1], ended);
    if (late) {
        post_receives(srx ? srx : fid, shared);
        for (int i = 0; i < 4; i++)
            drain(ended);
    }
    must(!fi_close(&fid->fid));
    close(fds[1]);
    if (srx)
        must(!fi_close(&srx->fid));
    drain(ended);
    while (fi_eq_read(eq, &event, &entry, sizeof(entry), 0) > 0)
        ;
    check_guards();
    return 0;
}
