/* SPDX-License-Identifier: BSD-2-Clause */
/* Tagged messages between two reliable-datagram endpoints of any libfabric.so.1, by dlopen. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "bench.h"

enum {
    ADDRESS_MAX = 256,
    REGION_BYTES = 4 << 20, /* for remote access */
    WINDOW_MAX = 256,
    TAG_DATA = 1,
    TAG_ACK = 2
};

/* Address and region of one side, for the other; in all ADDRESS_MAX bytes, as the driver copies
 * them. */
struct contact {
    char name[ADDRESS_MAX - 16];
    uint64_t base, key; /* of the region */
};

struct ofi_state {
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    void (*freeinfo)(struct fi_info *info);
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    int (*fabric_open)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int err);
    uint32_t version;
    bool unified;
    struct fi_info *hints;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *tx, *rx;
    struct fid_av *av;
    struct fid_ep *ep;
    fi_addr_t peer;
    struct fid_mr *mr; /* or NULL: no remote access */
    char *region;
    struct contact remote;
    int side;
    struct bench_buffer buffer;
    char ack[64]; /* what replies are sent from and received into */
    struct bench_memory memory;
    struct fi_context2 contexts[2 * WINDOW_MAX];
};

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (!found)
        bench_die("%s: %s", name, dlerror());
    return found;
}

static void check(struct ofi_state *state, const char *call, ssize_t rc)
{
    if (rc < 0)
        bench_die("%s: %s", call, state->strerror((int)-rc));
}

static void load(struct ofi_state *state, const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    uint32_t (*version)(void);

    if (!handle)
        bench_die("%s", dlerror());
    *(void **)&state->dupinfo = symbol(handle, "fi_dupinfo");
    *(void **)&state->freeinfo = symbol(handle, "fi_freeinfo");
    *(void **)&state->getinfo = symbol(handle, "fi_getinfo");
    *(void **)&state->fabric_open = symbol(handle, "fi_fabric");
    *(void **)&state->strerror = symbol(handle, "fi_strerror");
    *(void **)&version = symbol(handle, "fi_version");
    /* Libraries before 2.0 know no unified progress, which spares a lock for each call. */
    state->unified = version() >= FI_VERSION(2, 0);
    state->version = state->unified ? FI_VERSION(2, 0) : FI_VERSION(1, 15);
}

static void ask(struct ofi_state *state, const char *spec)
{
    struct fi_info *hints = state->dupinfo(NULL);

    if (!hints)
        bench_die("out of memory");
    hints->caps = bench_datagrams ? FI_MSG : FI_MSG | FI_TAGGED | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = bench_datagrams ? FI_EP_DGRAM : FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress =
        state->unified ? FI_PROGRESS_CONTROL_UNIFIED : FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    if (!bench_datagrams)
        hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->tx_attr->tclass = bench_tclass;
    if (*spec)
        setenv("FI_PROVIDER", spec, 1);
    state->hints = hints;
}

/* Both sides where the floor is; shared memory has no hosts, and in namespaces the spec may say
 * which interface. */
static void choose(struct ofi_state *state)
{
    const char *spec = getenv("FI_PROVIDER");
    bool any = (bench_netns[0] && !bench_at) || (spec && strstr(spec, "shm"));
    const char *node = any ? NULL : bench_host[state->side];
    uint64_t flags = node ? FI_SOURCE : 0;

    if (!state->getinfo(state->version, node, NULL, flags, state->hints, &state->info))
        return;
    state->hints->caps &= ~FI_RMA;
    check(state, "fi_getinfo",
          state->getinfo(state->version, node, NULL, flags, state->hints, &state->info));
}

static void open_endpoint(struct ofi_state *state)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .size = 4 * WINDOW_MAX};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    check(state, "fi_fabric", state->fabric_open(state->info->fabric_attr, &state->fabric, NULL));
    check(state, "fi_domain", fi_domain(state->fabric, state->info, &state->domain, NULL));
    check(state, "fi_cq_open", fi_cq_open(state->domain, &cq, &state->tx, NULL));
    check(state, "fi_cq_open", fi_cq_open(state->domain, &cq, &state->rx, NULL));
    check(state, "fi_av_open", fi_av_open(state->domain, &av, &state->av, NULL));
    check(state, "fi_endpoint", fi_endpoint(state->domain, state->info, &state->ep, NULL));
    check(state, "fi_ep_bind", fi_ep_bind(state->ep, &state->tx->fid, FI_TRANSMIT));
    check(state, "fi_ep_bind", fi_ep_bind(state->ep, &state->rx->fid, FI_RECV));
    check(state, "fi_ep_bind", fi_ep_bind(state->ep, &state->av->fid, 0));
    check(state, "fi_enable", fi_enable(state->ep));
}

/* A region of ours for the other side, where the stack has remote access. */
static void expose(struct ofi_state *state, struct contact *contact)
{
    bool virtual = state->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;

    if (!(state->hints->caps & FI_RMA))
        return;
    state->region = calloc(1, REGION_BYTES);
    if (!state->region)
        bench_die("out of memory");
    check(state, "fi_mr_reg",
          fi_mr_reg(state->domain, state->region, REGION_BYTES, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                    1, 0, &state->mr, NULL));
    contact->key = fi_mr_key(state->mr);
    contact->base = virtual ? (uint64_t)(uintptr_t)state->region : 0;
}

static void reap(struct ofi_state *state, struct fid_cq *cq, uint64_t *left)
{
    struct fi_cq_tagged_entry entries[16];
    ssize_t n = fi_cq_read(cq, entries, 16);

    if (n == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};

        fi_cq_readerr(cq, &error, 0);
        bench_die("completion: %s", state->strerror(error.err));
    }
    if (n > 0)
        *left -= (uint64_t)n;
    else if (n != -FI_EAGAIN)
        check(state, "fi_cq_read", n);
}

/* more: others follow at once. */
static ssize_t send_datagram(struct ofi_state *state, char *data, size_t size, bool more,
                             void *context)
{
    struct iovec iov = {.iov_base = data, .iov_len = size};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = state->peer, .context = context};

    if (!more)
        return fi_send(state->ep, data, size, NULL, state->peer, context);
    return fi_sendmsg(state->ep, &msg, FI_MORE);
}

static ssize_t try_send(struct ofi_state *state, char *data, size_t size, uint64_t tag, bool more,
                        void *context)
{
    if (bench_datagrams)
        return send_datagram(state, data, size, more, context);
    return fi_tsend(state->ep, data, size, NULL, state->peer, tag, context);
}

static void post_send(struct ofi_state *state, char *data, size_t size, uint64_t tag, bool more,
                      void *context)
{
    ssize_t rc;

    while ((rc = try_send(state, data, size, tag, more, context)) == -FI_EAGAIN) {
        fi_cq_read(state->tx, NULL, 0);
        fi_cq_read(state->rx, NULL, 0);
    }
    check(state, "fi_tsend", rc);
}

static void post_recv(struct ofi_state *state, char *data, size_t size, uint64_t tag, void *context)
{
    ssize_t rc;

    while ((rc = bench_datagrams ? fi_recv(state->ep, data, size, NULL, FI_ADDR_UNSPEC, context)
                                 : fi_trecv(state->ep, data, size, NULL, state->peer, tag, 0,
                                            context)) == -FI_EAGAIN)
        fi_cq_read(state->rx, NULL, 0);
    check(state, "fi_trecv", rc);
}

static void post_remote(struct ofi_state *state, const struct bench_window *window, void *context)
{
    const struct contact *to = &state->remote;
    char *data = bench_buffer_next(&state->buffer, window);
    ssize_t rc;

    do {
        rc = window->kind == BENCH_WRITE ? fi_write(state->ep, data, window->size, NULL,
                                                    state->peer, to->base, to->key, context)
                                         : fi_read(state->ep, data, window->size, NULL, state->peer,
                                                   to->base, to->key, context);
        if (rc == -FI_EAGAIN)
            fi_cq_read(state->tx, NULL, 0);
    } while (rc == -FI_EAGAIN);
    check(state, "fi_write or fi_read", rc);
}

static void finish(struct ofi_state *state, struct fid_cq *cq, uint64_t count)
{
    while (count)
        reap(state, cq, &count);
}

static void send_ack(struct ofi_state *state)
{
    post_send(state, state->ack, 1, TAG_ACK, false, &state->contexts[0]);
    finish(state, state->tx, 1);
}

static void receive_ack(struct ofi_state *state)
{
    post_recv(state, state->ack, 1, TAG_ACK, &state->contexts[1]);
    finish(state, state->rx, 1);
}

static void ping_pong(struct ofi_state *state, const struct bench_window *window)
{
    for (uint64_t i = 0; i < window->count; i++) {
        uint64_t sent = 1, received = 1;
        char *data = bench_buffer_next(&state->buffer, window);

        post_recv(state, data, window->size, TAG_DATA, &state->contexts[1]);
        if (state->side == 1)
            post_send(state, data, window->size, TAG_DATA, false, &state->contexts[0]);
        while (received)
            reap(state, state->rx, &received);
        if (state->side == 0)
            post_send(state, data, window->size, TAG_DATA, false, &state->contexts[0]);
        while (sent)
            reap(state, state->tx, &sent);
    }
}

static void post_message(struct ofi_state *state, const struct bench_window *window,
                         uint64_t number)
{
    struct fi_context2 *context = &state->contexts[2 + number % (2 * WINDOW_MAX - 2)];
    char *data = bench_buffer_next(&state->buffer, window);

    if (state->side == 1)
        post_send(state, data, window->size, TAG_DATA, number + 1 < window->window, context);
    else
        post_recv(state, data, window->size, TAG_DATA, context);
}

static void acknowledge(struct ofi_state *state)
{
    if (state->side == 1)
        receive_ack(state);
    else
        send_ack(state);
}

/* Posts ahead of completion by at most `window`. */
static void stream(struct ofi_state *state, const struct bench_window *window)
{
    uint64_t posted = 0, left = window->count;
    struct fid_cq *cq = state->side == 1 ? state->tx : state->rx;

    while (left) {
        while (posted < window->count && posted - (window->count - left) < window->window)
            post_message(state, window, posted++);
        reap(state, cq, &left);
    }
    acknowledge(state);
}

/* As upstream's fi_*_bw: all of a window, their completions, then a reply. */
static void windows(struct ofi_state *state, const struct bench_window *window)
{
    struct fid_cq *cq = state->side == 1 ? state->tx : state->rx;

    for (uint64_t done = 0; done < window->count; done += window->window) {
        for (uint64_t i = 0; i < window->window; i++)
            post_message(state, window, i);
        finish(state, cq, window->window);
        acknowledge(state);
    }
}

/* Side 1 acts; side 0 makes progress until side 1 reports the end. */
static void access_remote(struct ofi_state *state, const struct bench_window *window)
{
    uint64_t posted = 0, left = window->count;

    if (!state->mr)
        bench_die("this stack has no remote access: leave out -t rma");
    if (state->side == 0) {
        receive_ack(state);
        return;
    }
    while (left) {
        while (posted < window->count && posted - (window->count - left) < window->window)
            post_remote(state, window, &state->contexts[2 + posted++ % (2 * WINDOW_MAX - 2)]);
        reap(state, state->tx, &left);
    }
    send_ack(state);
}

static uint64_t ofi_run(void *opaque, const struct bench_window *window)
{
    struct ofi_state *state = opaque;
    uint64_t start;

    if (bench_datagrams && window->kind != BENCH_LATENCY && window->kind != BENCH_WINDOW)
        bench_die("datagrams without replies may be lost: -t latency,window");
    bench_buffer_fit(&state->buffer, window);
    start = bench_now();
    switch (window->kind) {
    case BENCH_LATENCY: ping_pong(state, window); break;
    case BENCH_WRITE:
    case BENCH_READ: access_remote(state, window); break;
    case BENCH_WINDOW: windows(state, window); break;
    default: stream(state, window);
    }
    return bench_now() - start;
}

static void *ofi_open(const char *library, const char *spec, int side, int pipe)
{
    struct ofi_state *state = calloc(1, sizeof *state);
    struct contact mine = {.key = 0};
    size_t len = sizeof mine.name;

    if (!state)
        bench_die("out of memory");
    state->side = side;
    load(state, library);
    ask(state, spec);
    state->memory.start = bench_resident();
    choose(state);
    open_endpoint(state);
    state->memory.idle = bench_resident();
    check(state, "fi_getname", fi_getname(&state->ep->fid, mine.name, &len));
    expose(state, &mine);
    pipe_write(pipe, &mine, sizeof mine);
    pipe_read(pipe, &state->remote, sizeof state->remote);
    if (fi_av_insert(state->av, state->remote.name, 1, &state->peer, 0, NULL) != 1)
        bench_die("the peer's address cannot be inserted");
    ofi_run(state, &(struct bench_window){.kind = BENCH_LATENCY, .size = 8, .count = 1});
    state->memory.peer = bench_resident();
    return state;
}

static void ofi_progress(void *opaque)
{
    struct ofi_state *state = opaque;

    fi_cq_read(state->tx, NULL, 0);
    fi_cq_read(state->rx, NULL, 0);
}

static void ofi_memory(void *opaque, struct bench_memory *memory)
{
    *memory = ((struct ofi_state *)opaque)->memory;
}

static uint64_t ofi_getinfo(void *opaque, uint64_t count)
{
    struct ofi_state *state = opaque;
    uint64_t start = bench_now();

    for (uint64_t i = 0; i < count; i++) {
        struct fi_info *info = NULL;

        check(state, "fi_getinfo",
              state->getinfo(state->version, NULL, NULL, 0, state->hints, &info));
        state->freeinfo(info);
    }
    return (bench_now() - start) / count;
}

static void ofi_close(void *opaque)
{
    struct ofi_state *state = opaque;

    fi_close(&state->ep->fid);
    if (state->mr)
        fi_close(&state->mr->fid);
    free(state->region);
    fi_close(&state->av->fid);
    fi_close(&state->rx->fid);
    fi_close(&state->tx->fid);
    fi_close(&state->domain->fid);
    fi_close(&state->fabric->fid);
    state->freeinfo(state->info);
    state->freeinfo(state->hints);
    free(state->buffer.base);
    free(state);
}

const struct bench_worker bench_ofi_worker = {
    .open = ofi_open,
    .run = ofi_run,
    .progress = ofi_progress,
    .memory = ofi_memory,
    .getinfo = ofi_getinfo,
    .close = ofi_close,
};
