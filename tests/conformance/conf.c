/* SPDX-License-Identifier: BSD-2-Clause */
#include "conf.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Where the endpoints are: on the loopback interface, if the stack is one of hosts; at its IPv6
 * address where the stack names that. */
const char *conf_host(void)
{
    const char *told = getenv("CONF_ADDRESS"), *stack = getenv("FI_PROVIDER");
    const char *own = stack && strstr(stack, "iface=::1") ? "::1" : "127.0.0.1";

    if (conf_offers->address == FI_ADDR_STR || conf_offers->address == FI_ADDR_EFA)
        return NULL;
    return told ? told : own;
}

/* Messages, and nothing of memory or order. */
static bool only_messages(void)
{
    return conf_offers->kind == OFFERS_DGRAM || conf_offers->kind == OFFERS_PACKETS;
}

/* The capabilities of a case that names none. */
static uint64_t usual_caps(void)
{
    switch (conf_offers->kind) {
    case OFFERS_DGRAM:
    case OFFERS_PACKETS: return FI_MSG;
    case OFFERS_MSG: return FI_MSG | FI_RMA;
    default: return FI_MSG | FI_TAGGED | FI_RMA;
    }
}

int conf_getinfo(const struct conf_want *want, struct fi_info **info)
{
    struct fi_info *hints = fi_allocinfo();
    const char *node;
    int rc;

    conf_check(hints != NULL, "no memory");
    hints->caps = want->caps ? want->caps : usual_caps();
    hints->mode = FI_CONTEXT | FI_CONTEXT2 | (conf_offers->mode & FI_MSG_PREFIX);
    hints->ep_attr->type = conf_offers->type;
    hints->domain_attr->threading = want->threading ? want->threading : FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = want->progress ? want->progress : FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = want->progress ? want->progress : FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = want->mr_mode | (int)conf_offers->mr_mode;
    hints->domain_attr->av_type = want->av_type;
    hints->tx_attr->op_flags = want->op_flags;
    hints->tx_attr->size = want->tx_size;
    hints->rx_attr->size = want->rx_size;
    hints->ep_attr->tx_ctx_cnt = want->tx_ctx_cnt;
    hints->ep_attr->rx_ctx_cnt = want->rx_ctx_cnt;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order =
        want->msg_order || only_messages() ? want->msg_order : FI_ORDER_SAS;
    hints->tx_attr->comp_order = hints->rx_attr->comp_order = want->comp_order;
    node = want->node ? want->node : conf_host();
    rc = fi_getinfo(want->version ? want->version : FI_VERSION(1, 15), node, want->service,
                    node ? FI_SOURCE : 0, hints, info);
    fi_freeinfo(hints);
    return rc;
}

void conf_fabric_open(struct conf_fabric *home, const struct conf_want *want)
{
    if (want->caps & FI_RMA_EVENT)
        conf_need("RMA_EVENT");
    must("fi_getinfo", conf_getinfo(want, &home->info));
    must("fi_fabric", fi_fabric(home->info->fabric_attr, &home->fabric, NULL));
    must("fi_domain", fi_domain(home->fabric, home->info, &home->domain, NULL));
}

void conf_fabric_close(struct conf_fabric *home)
{
    must("fi_close(domain)", fi_close(&home->domain->fid));
    must("fi_close(fabric)", fi_close(&home->fabric->fid));
    fi_freeinfo(home->info);
}

void conf_ep_open(struct conf_ep *end, struct conf_fabric *home, const struct conf_want *want)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED,
                            .wait_obj = want->wait,
                            .size = want->cq_size ? want->cq_size : 1024};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = want->cntr_wait};
    struct fi_av_attr av = {.type = want->av_type ? want->av_type : FI_AV_TABLE,
                            .flags = want->av_flags,
                            .name = want->av_name};

    if (!cq.wait_obj)
        cq.wait_obj = FI_WAIT_NONE;
    end->home = home;
    end->seen_count = 0;
    end->set = NULL;
    if (want->set) {
        struct fi_wait_attr set = {.wait_obj = want->set};

        must("fi_wait_open", fi_wait_open(home->fabric, &set, &end->set));
        cq.wait_obj = cntr.wait_obj = FI_WAIT_SET;
        cq.wait_set = cntr.wait_set = end->set;
    }
    must("fi_endpoint", fi_endpoint(home->domain, home->info, &end->ep, NULL));
    must("fi_cq_open", fi_cq_open(home->domain, &cq, &end->tx, &end->tx));
    must("fi_cq_open", fi_cq_open(home->domain, &cq, &end->rx, &end->rx));
    must("fi_cntr_open", fi_cntr_open(home->domain, &cntr, &end->sent, &end->sent));
    must("fi_cntr_open", fi_cntr_open(home->domain, &cntr, &end->received, &end->received));
    end->av = NULL;
    if (conf_offers->type != FI_EP_MSG)
        must("fi_av_open", fi_av_open(home->domain, &av, &end->av, NULL));
    must("bind tx", fi_ep_bind(end->ep, &end->tx->fid, FI_TRANSMIT | want->cq_flags));
    must("bind rx", fi_ep_bind(end->ep, &end->rx->fid, FI_RECV | want->cq_flags));
    if (!want->no_cntrs) {
        must("bind sent", fi_ep_bind(end->ep, &end->sent->fid,
                                     only_messages() ? FI_SEND : FI_SEND | FI_WRITE | FI_READ));
        must("bind received", fi_ep_bind(end->ep, &end->received->fid, FI_RECV));
    }
    if (end->av)
        must("bind av", fi_ep_bind(end->ep, &end->av->fid, 0));
    if (want->prepare)
        want->prepare(end);
    must("fi_enable", fi_enable(end->ep));
}

void conf_ep_close(struct conf_ep *end)
{
    must("fi_close(ep)", fi_close(&end->ep->fid));
    must("fi_close(tx)", fi_close(&end->tx->fid));
    must("fi_close(rx)", fi_close(&end->rx->fid));
    must("fi_close(sent)", fi_close(&end->sent->fid));
    must("fi_close(received)", fi_close(&end->received->fid));
    if (end->av)
        must("fi_close(av)", fi_close(&end->av->fid));
    if (end->set)
        must("fi_close(set)", fi_close(&end->set->fid));
}

fi_addr_t conf_insert(struct conf_ep *to, struct conf_ep *end, uint64_t flags, fi_addr_t user_id)
{
    char address[256];
    size_t len = sizeof address;
    fi_addr_t addr = user_id;

    must("fi_getname", fi_getname(&end->ep->fid, address, &len));
    conf_check(fi_av_insert(to->av, address, 1, &addr, flags, NULL) == 1, "fi_av_insert");
    return addr;
}

void conf_introduce(struct conf_ep *end, struct conf_ep *to)
{
    end->peer = conf_insert(end, to, 0, 0);
}

void conf_region_open(struct conf_pair *pair, struct conf_region *region, size_t size,
                      uint64_t access)
{
    int mode = pair->home.info->domain_attr->mr_mode;
    static uint64_t next_key = 0x77;

    region->memory = calloc(1, size);
    conf_check(region->memory != NULL, "no memory");
    must("fi_mr_reg", fi_mr_reg(pair->home.domain, region->memory, size, access, 0, next_key++, 0,
                                &region->mr, NULL));
    if (mode & FI_MR_ENDPOINT) {
        must("fi_mr_bind", fi_mr_bind(region->mr, &pair->b.ep->fid, 0));
        must("fi_mr_enable", fi_mr_enable(region->mr));
    }
    region->base = mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)region->memory : 0;
    region->key = fi_mr_key(region->mr);
}

void conf_region_close(struct conf_region *region)
{
    must("fi_close(mr)", fi_close(&region->mr->fid));
    free(region->memory);
}

struct conf_pair *conf_pair_open(struct conf_want want)
{
    struct conf_pair *pair = calloc(1, sizeof *pair);

    conf_check(pair != NULL, "no memory");
    pair->want = want;
    conf_fabric_open(&pair->home, &want);
    conf_ep_open(&pair->a, &pair->home, &want);
    conf_ep_open(&pair->b, &pair->home, &want);
    conf_introduce(&pair->a, &pair->b);
    conf_introduce(&pair->b, &pair->a);
    return pair;
}

void conf_pair_close(struct conf_pair *pair)
{
    conf_ep_close(&pair->a);
    conf_ep_close(&pair->b);
    conf_fabric_close(&pair->home);
    free(pair);
}

static struct conf_seen *seen_next(struct conf_ep *end)
{
    conf_check(end->seen_count < CONF_SEEN_MAX, "more completions than any case waits for");
    return &end->seen[end->seen_count++];
}

static void drive_cq(struct conf_ep *end, struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t src = FI_ADDR_NOTAVAIL;
    ssize_t n;

    while ((n = fi_cq_readfrom(cq, &entry, 1, &src)) == 1)
        *seen_next(end) = (struct conf_seen){.context = entry.op_context,
                                             .flags = entry.flags,
                                             .len = entry.len,
                                             .data = entry.data,
                                             .tag = entry.tag,
                                             .buf = entry.buf,
                                             .src = src};
    if (n == -FI_EAVAIL) {
        char data[64];
        struct fi_cq_err_entry error = {.err_data = data, .err_data_size = sizeof data};

        n = fi_cq_readerr(cq, &error, 0);
        conf_check(n == 1, "fi_cq_readerr after -FI_EAVAIL: %zd", n);
        *seen_next(end) = (struct conf_seen){.context = error.op_context,
                                             .flags = error.flags,
                                             .len = error.len,
                                             .data = error.data,
                                             .tag = error.tag,
                                             .olen = error.olen,
                                             .err = error.err,
                                             .err_len = error.err_data_size};
        memcpy(end->seen[end->seen_count - 1].err_data, data, sizeof data);
    } else {
        conf_check(n == -FI_EAGAIN, "fi_cq_readfrom: %zd", n);
    }
}

void conf_drive(struct conf_ep *end)
{
    drive_cq(end, end->tx);
    drive_cq(end, end->rx);
}

void conf_drive_pair(struct conf_pair *pair)
{
    conf_drive(&pair->a);
    conf_drive(&pair->b);
}

bool conf_has(const struct conf_ep *end, const void *context)
{
    for (size_t i = 0; i < end->seen_count; i++)
        if (end->seen[i].context == context)
            return true;
    return false;
}

size_t conf_receives(const struct conf_pair *pair, size_t wanted)
{
    size_t size = pair->home.info->rx_attr->size;

    conf_check(size >= 16, "rx_attr->size is %zu", size);
    return size < wanted ? size : wanted;
}

void conf_order(const struct conf_pair *pair)
{
#if defined(__SANITIZE_THREAD__)
    const struct conf_ep *ends[] = {&pair->a, &pair->b};

    for (int i = 0; i < 2; i++) {
        fi_cq_read(ends[i]->tx, NULL, 0);
        fi_cq_read(ends[i]->rx, NULL, 0);
    }
#endif
}

struct conf_seen conf_wait(struct conf_pair *pair, struct conf_ep *end, void *context)
{
    long long deadline = conf_now_ms() + CONF_TIMEOUT_MS;

    while (!conf_has(end, context)) {
        conf_drive_pair(pair);
        conf_check(conf_now_ms() < deadline, "no completion for %p in %d ms", context,
                   CONF_TIMEOUT_MS);
    }
    conf_order(pair);
    for (size_t i = 0;; i++) {
        if (end->seen[i].context == context) {
            struct conf_seen found = end->seen[i];

            end->seen_count--;
            memmove(&end->seen[i], &end->seen[i + 1], (end->seen_count - i) * sizeof end->seen[0]);
            return found;
        }
    }
}

void conf_quiet(struct conf_pair *pair, int ms)
{
    long long end = conf_now_ms() + ms;

    do
        conf_drive_pair(pair);
    while (conf_now_ms() < end);
    conf_check(pair->a.seen_count == 0 && pair->b.seen_count == 0,
               "%zu and %zu completions that nothing explains", pair->a.seen_count,
               pair->b.seen_count);
}

void conf_await_data(struct conf_pair *pair, const void *memory, size_t len, unsigned seed)
{
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; !conf_holds(memory, len, seed);) {
        conf_drive_pair(pair);
        conf_check(conf_now_ms() < end, "data");
    }
}

static void *send_late(void *opaque)
{
    struct conf_late *late = opaque;
    struct conf_ep *a = &late->pair->a;
    ssize_t rc;

    usleep(20000); /* the other is asleep by then, most probably; if not, nothing is wrong */
    while ((rc = fi_tsend(a->ep, &late->out, 1, NULL, a->peer, 1, &late->out)) == -FI_EAGAIN)
        fi_cq_read(a->tx, NULL, 0);
    conf_check(!rc, "fi_tsend: %s", fi_strerror((int)-rc));
    while (fi_cq_read(a->tx, &(struct fi_cq_tagged_entry){0}, 1) != 1)
        ;
    return NULL;
}

void conf_send_late(struct conf_late *late, struct conf_pair *pair, char out)
{
    late->pair = pair;
    late->out = out;
    conf_check(!pthread_create(&late->thread, NULL, send_late, late), "pthread_create");
}

void conf_fall_asleep(const struct conf_pair *pair, struct fid *fid)
{
    const long long end = conf_now_ms() + CONF_TIMEOUT_MS;
    struct fi_cq_tagged_entry entry;
    int rc;

    while ((rc = fi_trywait(pair->home.fabric, &fid, 1)) == -FI_EAGAIN) {
        ssize_t n = fi_cq_read(pair->b.rx, &entry, 1);

        conf_check(n == -FI_EAGAIN, "nothing was sent, but fi_cq_read says %zd", n);
        conf_check(conf_now_ms() < end, "it may never sleep");
    }
    conf_check(!rc, "fi_trywait: %s", fi_strerror(-rc));
}

void conf_late_join(struct conf_late *late)
{
    pthread_join(late->thread, NULL);
}

void conf_fill(void *buffer, size_t len, unsigned seed)
{
    unsigned char *bytes = buffer;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(i * 7 + seed * 131 + (i >> 8) * 3);
}

bool conf_holds(const void *buffer, size_t len, unsigned seed)
{
    const unsigned char *bytes = buffer;

    for (size_t i = 0; i < len; i++)
        if (bytes[i] != (unsigned char)(i * 7 + seed * 131 + (i >> 8) * 3))
            return false;
    return true;
}

long long conf_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (long long)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
