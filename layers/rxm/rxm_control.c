/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events are looked for on every progress call while connections are being made, else on every
 * 64th, and always after a sleep.
 */
#include "layers/rxm/rxm_control.h"

#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/info.h"
#include "layers/rxm/rxm_actions.h"
#include "layers/rxm/rxm_av.h"
#include "layers/rxm/rxm_emu.h"
#include "layers/rxm/rxm_link.h"
#include "layers/rxm/rxm_sep.h"
#include "layers/rxm/rxm_wait.h"
#include "layers/rxm/rxm_wire.h"

enum {
    SKIP = 63
};

/* ---- Events ---- */

void rxm_control_request(struct rxm_ep *ep, struct fi_eq_cm_entry *entry, size_t len)
{
    struct fi_info *info = entry->info;
    union addr from;

    if (!info->dest_addr || rxm_addr_import(info->addr_format, info->dest_addr, &from)) {
        fi_reject(ep->pep, info->handle, NULL, 0);
        info_free(info);
        return;
    }
    rxm_cm_request(&ep->cm, &from, entry->data, len, info, clock_ms());
}

static void on_event(struct rxm_ep *ep, uint32_t event, struct fi_eq_cm_entry *entry, size_t len)
{
    struct rxm_link *link = entry->fid == &ep->pep->fid ? NULL : entry->fid->context;

    if (event == FI_CONNREQ)
        rxm_control_request(ep, entry, len);
    else if (!link || !link->cm.peer)
        return; /* ended meanwhile */
    else if (event == FI_CONNECTED)
        rxm_cm_connected(&ep->cm, &link->cm, entry->data, len, clock_ms());
    else if (event == FI_SHUTDOWN)
        rxm_cm_lost(&ep->cm, &link->cm, 0, NULL, 0, clock_ms());
}

static void on_error(struct rxm_ep *ep)
{
    struct fi_eq_err_entry entry = {.err_data = NULL, .err_data_size = 0};
    struct rxm_link *link;

    if (fi_eq_readerr(ep->eq, &entry, 0) < 0 || !entry.fid || entry.fid == &ep->pep->fid)
        return;
    link = entry.fid->context;
    if (link->cm.peer)
        rxm_cm_lost(&ep->cm, &link->cm, entry.err, entry.err_data, entry.err_data_size, clock_ms());
}

static void read_events(struct rxm_ep *ep)
{
    union {
        struct fi_eq_cm_entry entry;
        char bytes[sizeof(struct fi_eq_cm_entry) + RXM_PRIVATE_DATA_MAX];
    } buf;
    uint32_t event;
    ssize_t len;

    for (;;) {
        len = fi_eq_read(ep->eq, &event, &buf, sizeof(buf), 0);
        if (len == -FI_EAVAIL)
            on_error(ep);
        else if (len >= (ssize_t)sizeof(buf.entry))
            on_event(ep, event, &buf.entry, (size_t)len - sizeof(buf.entry));
        else
            break;
    }
}

/* The timer only wakes: what it is for is done with the events. */
static void timer_progress(struct unit_source *source)
{
}

static int timer_trywait(struct unit_source *source)
{
    return 0;
}

/* It is a source only while it runs: idle endpoints pay for the EQ alone. */
static int start_timer(struct rxm_ep *ep, int64_t now)
{
    int64_t delay_ms = rxm_cm_next(&ep->cm) - now;
    struct itimerspec spec = {
        .it_value = {.tv_sec = delay_ms / 1000, .tv_nsec = delay_ms % 1000 * 1000000},
    };
    bool running = !list_empty(&ep->timer_source.link);

    if (running && ep->timer_ms == now + delay_ms)
        return 0;
    if (ep->timer_source.fd < 0)
        ep->timer_source.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (ep->timer_source.fd < 0)
        return -FI_EMFILE;
    timerfd_settime(ep->timer_source.fd, 0, &spec, NULL);
    ep->timer_ms = now + delay_ms;
    if (running)
        return 0;
    ep->timer_source.progress = timer_progress;
    ep->timer_source.trywait = timer_trywait;
    return unit_attach(ep->unit, &ep->timer_source);
}

static void stop_timer(struct rxm_ep *ep)
{
    static const struct itimerspec never;

    timerfd_settime(ep->timer_source.fd, 0, &never, NULL);
    unit_detach(ep->unit, &ep->timer_source);
}

void rxm_control_run(struct rxm_ep *ep)
{
    ep->skip = SKIP;
    if (atomic_load(&ep->changes.any))
        rxm_av_take_changes(ep);
    read_events(ep);
    if (!list_empty(&ep->lingering))
        rxm_link_reap(ep);
    if (rxm_cm_busy(&ep->cm) || rxm_cm_next(&ep->cm) != INT64_MAX)
        rxm_cm_run(&ep->cm, clock_ms());
    if (!list_empty(&ep->waits.ready))
        rxm_wait_run(ep);
    if (!list_empty(&ep->timer_source.link) && ep->timer_ms != rxm_cm_next(&ep->cm))
        stop_timer(ep);
}

static void eq_progress(struct unit_source *source)
{
    struct rxm_ep *ep = object_of(source, struct rxm_ep, eq_source);

    if (__builtin_expect(!list_empty(&ep->waits.ready), 0))
        rxm_wait_run(ep);
    if (ep->skip && !rxm_cm_busy(&ep->cm) &&
        !atomic_load_explicit(&ep->changes.any, memory_order_relaxed))
        ep->skip--;
    else
        rxm_control_run(ep);
}

/* With packets of ours there may be something to go on with. */
static void emu_progress(struct unit_source *source)
{
    struct rxm_ep *ep = object_of(source, struct rxm_ep, eq_source);

    if (__builtin_expect(rxm_emu_busy(ep->emu), 0))
        rxm_emu_run(ep->emu);
    eq_progress(source);
}

static int eq_trywait(struct unit_source *source)
{
    struct rxm_ep *ep = object_of(source, struct rxm_ep, eq_source);
    struct fid *fid = &ep->eq->fid;
    int64_t next, now;

    ep->skip = 0;
    /* Where the lower is full, what empties it wakes us. */
    if (!list_empty(&ep->waits.ready) && rxm_wait_run(ep))
        return -FI_EAGAIN;
    next = rxm_cm_next(&ep->cm);
    now = next == INT64_MAX ? 0 : clock_ms();
    if (ep->emu && rxm_emu_trywait(ep->emu))
        return -FI_EAGAIN;
    if (atomic_load(&ep->changes.any) || next <= now)
        return -FI_EAGAIN;
    if (next != INT64_MAX && start_timer(ep, now))
        return -FI_EAGAIN;
    return fi_trywait(ep->domain->fabric->lower->fabric, &fid, 1) ? -FI_EAGAIN : 0;
}

/* ---- Opening and closing ---- */

int rxm_control_open(struct rxm_ep *ep)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};
    struct fid_fabric *fabric = ep->domain->fabric->lower->fabric;
    int rc = fi_eq_open(fabric, &attr, &ep->eq, ep);

    if (!rc && ep->sep) {
        ep->pep = ep->sep->pep;
        return 0;
    }
    if (!rc)
        rc = fi_passive_ep(fabric, ep->lower_info, &ep->pep, ep);
    return rc ? rc : fi_pep_bind(ep->pep, &ep->eq->fid, 0);
}

static int own_address(struct rxm_ep *ep, union addr *addr)
{
    _Alignas(union addr) char raw[ADDR_TEXT_MAX];
    size_t len = sizeof(raw);
    int rc = fi_getname(&ep->pep->fid, raw, &len);

    return rc ? rc : addr_import(ep->lower_info->addr_format, raw, len, addr);
}

static int init_cm(struct rxm_ep *ep)
{
    const struct params *params = ep->domain->fabric->params;
    struct rxm_cm_config config = {
        .proto = ep->emu ? &rxm_proto_rxm : &rxm_proto_xnet,
        .pid = (uint32_t)getpid(),
        .extensions = RXM_WIRE_ATOMICS | RXM_WIRE_CONTEXTS,
        .source = ep->source,
        .target = ep->target,
        .seed = (uint32_t)(getpid() ^ clock_ms()),
        .retry_ms = params_time_ms(params, "retry_pause"),
        .retry_max_ms = params_time_ms(params, "retry_pause_max"),
        .unreachable_ms = params_time_ms(params, "unreachable_timeout"),
        .deadline_ms = params_time_ms(params, "connect_timeout"),
        .max_dials = (unsigned)params_int(params, "max_dials"),
    };
    int rc = own_address(ep, &config.self);

    if (rc)
        return rc;
    if (ep->emu) {
        config.eager_limit = (uint32_t)ep->emu->eager_limit;
        config.rx_size = ep->emu->queue;
        config.flow = ep->emu->flow;
    }
    if (config.retry_max_ms < config.retry_ms)
        config.retry_max_ms = config.retry_ms;
    config.seed ^= (uint32_t)addr_hash(&config.self.sa);
    rxm_cm_init(&ep->cm, &config, &rxm_actions);
    return 0;
}

static int attach_source(struct rxm_ep *ep)
{
    int rc;

    ep->eq_source.progress = ep->emu ? emu_progress : eq_progress;
    ep->eq_source.trywait = eq_trywait;
    rc = fi_control(&ep->eq->fid, FI_GETWAIT, &ep->eq_source.fd);
    if (rc)
        return rc;
    unit_lock(ep->unit);
    rc = unit_attach(ep->unit, &ep->eq_source);
    unit_unlock(ep->unit);
    return rc;
}

int rxm_control_start(struct rxm_ep *ep)
{
    int rc = ep->sep ? 0 : fi_listen(ep->pep);

    if (!rc)
        rc = init_cm(ep);
    if (!rc)
        rc = attach_source(ep);
    if (rc)
        return rc;
    rxm_av_attach(ep);
    ep->enabled = true;
    return 0;
}

static void close_links(struct rxm_ep *ep)
{
    unit_lock(ep->unit);
    unit_detach(ep->unit, &ep->eq_source);
    unit_detach(ep->unit, &ep->timer_source);
    list_for_each_safe (item, after, &ep->links)
        rxm_link_close(list_item(item, struct rxm_link, all));
    rxm_wait_drop(ep);
    rxm_peers_finish(&ep->peers);
    unit_unlock(ep->unit);
}

void rxm_control_close(struct rxm_ep *ep)
{
    if (ep->enabled)
        av_detach(ep->av, &ep->listener);
    if (ep->pep && !ep->sep)
        fi_close(&ep->pep->fid);
    close_links(ep);
    if (ep->timer_source.fd >= 0)
        close(ep->timer_source.fd);
    if (ep->eq)
        fi_close(&ep->eq->fid);
}
