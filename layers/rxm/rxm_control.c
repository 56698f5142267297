/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events are looked for on every progress call while connections are being made, else on every
 * 64th, and always after a sleep. Locks, outermost first: the AV's, ep->changes.mutex; and the
 * unit's, then the AV's (av_find), the lower fabric's (its EQ) and ep->changes.mutex.
 */
#include "layers/rxm/rxm_control.h"

#include <assert.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/info.h"
#include "core/log.h"
#include "layers/rxm/rxm_link.h"

enum {
    SKIP = 63,
    PRIVATE_DATA_MAX = 256
};

static struct rxm_ep *ep_of(struct rxm_cm *cm)
{
    return object_of(cm, struct rxm_ep, cm);
}

static struct rxm_peer *peer_of(struct rxm_cm_peer *cm)
{
    return object_of(cm, struct rxm_peer, cm);
}

static struct rxm_link *link_of(struct rxm_cm_link *cm)
{
    return object_of(cm, struct rxm_link, cm);
}

/* ---- Addresses in the formats of infos and the AV ---- */

static size_t export_addr(uint32_t format, const union addr *addr, char raw[ADDR_TEXT_MAX])
{
    if (format == FI_ADDR_STR)
        return addr_to_str(&addr->sa, raw, ADDR_TEXT_MAX) + 1;
    memcpy(raw, addr, sizeof(*addr));
    return addr_size(&addr->sa);
}

static int import_addr(uint32_t format, const void *raw, union addr *addr)
{
    size_t len = format == FI_ADDR_STR ? strlen(raw) + 1 : addr_size(raw);

    return addr_import(format, raw, len, addr);
}

static fi_addr_t find_addr(struct rxm_ep *ep, const union addr *addr)
{
    _Alignas(union addr) char raw[ADDR_TEXT_MAX];

    export_addr(ep->av->format, addr, raw);
    return av_find(ep->av, raw);
}

/* ---- Peers and the AV ---- */

/* The AV has the peer's address at addr, or has it no more. */
static void set_addr(struct rxm_ep *ep, struct rxm_peer *peer, fi_addr_t addr)
{
    if (addr != FI_ADDR_UNSPEC && rxm_peers_lead(&ep->peers, addr, peer))
        addr = FI_ADDR_UNSPEC; /* no memory: as if it were not there */
    peer->addr = addr;
    list_for_each (item, &ep->links) {
        struct rxm_link *link = list_item(item, struct rxm_link, all);

        if (!addr_equal(&link->addr.sa, &peer->cm.addr.sa))
            continue;
        if (addr == FI_ADDR_UNSPEC)
            link->source.addr = addr;
        else
            match_source_resolve(&link->source, addr);
    }
}

static void drop_peer(struct rxm_ep *ep, struct rxm_peer *peer)
{
    rxm_cm_forget(&ep->cm, &peer->cm);
    rxm_peers_remove(&ep->peers, peer);
}

static void take_away(struct rxm_ep *ep, fi_addr_t addr)
{
    struct rxm_peer *peer = rxm_peers_mislead(&ep->peers, addr);

    if (!peer)
        return;
    if (peer->addr == addr)
        set_addr(ep, peer, find_addr(ep, &peer->cm.addr));
    if (!peer->slots)
        drop_peer(ep, peer);
}

/* Too many were removed to remember which. */
static void take_away_all_missing(struct rxm_ep *ep)
{
    fi_addr_t addr = rxm_peers_next(&ep->peers, 0);

    for (; addr != FI_ADDR_NOTAVAIL; addr = rxm_peers_next(&ep->peers, addr + 1)) {
        const void *raw = av_addr(ep->av, addr);
        union addr now;

        if (!raw || import_addr(ep->av->format, raw, &now) ||
            !addr_equal(&now.sa, &rxm_peers_at(&ep->peers, addr)->cm.addr.sa))
            take_away(ep, addr);
    }
}

/* Connections of peers that were not in the AV when they came. */
static void resolve_unknown(struct rxm_ep *ep)
{
    list_for_each (item, &ep->links) {
        struct rxm_link *link = list_item(item, struct rxm_link, all);
        struct rxm_peer *peer;
        fi_addr_t addr;

        if (link->source.addr != FI_ADDR_UNSPEC)
            continue;
        addr = find_addr(ep, &link->addr);
        if (addr == FI_ADDR_NOTAVAIL)
            continue;
        peer = rxm_peers_find(&ep->peers, &link->addr);
        if (peer)
            set_addr(ep, peer, addr);
        else
            match_source_resolve(&link->source, addr);
    }
}

static void take_changes(struct rxm_ep *ep)
{
    struct rxm_av_changes *changes = &ep->changes;
    fi_addr_t removed[RXM_REMOVED_MAX];
    size_t count;
    bool inserted;

    pthread_mutex_lock(&changes->mutex);
    atomic_store(&changes->any, false);
    count = changes->removed_count;
    inserted = changes->inserted;
    memcpy(removed, changes->removed, sizeof(removed));
    changes->removed_count = 0;
    changes->inserted = false;
    pthread_mutex_unlock(&changes->mutex);
    if (count > RXM_REMOVED_MAX)
        take_away_all_missing(ep);
    else
        for (size_t i = 0; i < count; i++)
            take_away(ep, removed[i]);
    if (inserted)
        resolve_unknown(ep);
}

static void av_changed(struct rxm_ep *ep, bool inserted, fi_addr_t removed)
{
    struct rxm_av_changes *changes = &ep->changes;

    pthread_mutex_lock(&changes->mutex);
    if (inserted)
        changes->inserted = true;
    else if (changes->removed_count++ < RXM_REMOVED_MAX)
        changes->removed[changes->removed_count - 1] = removed;
    atomic_store(&changes->any, true);
    pthread_mutex_unlock(&changes->mutex);
    unit_wake(ep->unit);
}

static void on_inserted(struct av_listener *listener, fi_addr_t addr)
{
    av_changed(object_of(listener, struct rxm_ep, listener), true, addr);
}

static void on_removed(struct av_listener *listener, fi_addr_t addr)
{
    av_changed(object_of(listener, struct rxm_ep, listener), false, addr);
}

static struct rxm_peer *make_peer(struct rxm_ep *ep, const union addr *addr)
{
    struct rxm_peer *peer = rxm_peers_find(&ep->peers, addr);

    if (peer)
        return peer;
    peer = rxm_peers_add(&ep->peers, addr);
    if (peer)
        set_addr(ep, peer, find_addr(ep, addr));
    return peer;
}

int rxm_control_peer(struct rxm_ep *ep, fi_addr_t addr, struct rxm_peer **ret_peer)
{
    struct rxm_peer *peer = rxm_peers_at(&ep->peers, addr);
    const void *raw = av_addr(ep->av, addr);
    union addr key;
    int rc = 0;

    if (!peer) {
        if (!raw || import_addr(ep->av->format, raw, &key))
            return -FI_EINVAL;
        peer = make_peer(ep, &key);
        rc = peer ? rxm_peers_lead(&ep->peers, addr, peer) : -FI_ENOMEM;
    }
    if (!rc)
        *ret_peer = peer;
    return rc;
}

/* ---- What the connection manager asks for ---- */

static struct rxm_cm_peer *cm_peer(struct rxm_cm *cm, const union addr *addr)
{
    struct rxm_peer *peer = make_peer(ep_of(cm), addr);

    return peer ? &peer->cm : NULL;
}

/* The lower's info for a connection to addr, from this endpoint's own address: the exchange carries
 * only a port, so the peer knows us by where we come from. */
static struct fi_info *dial_info(struct rxm_ep *ep, const union addr *addr)
{
    struct fi_info *info = info_dup(ep->lower_info);
    union addr from = ep->cm.config.self;
    _Alignas(union addr) char raw[ADDR_TEXT_MAX];
    size_t len;

    if (!info)
        return NULL;
    addr_set_port(&from.sa, 0);
    len = export_addr(info->addr_format, &from, raw);
    if (!info_set_src(info, raw, len)) {
        len = export_addr(info->addr_format, addr, raw);
        if (!info_set_dest(info, raw, len))
            return info;
    }
    info_free(info);
    return NULL;
}

static int cm_dial(struct rxm_cm *cm, struct rxm_cm_peer *peer, const uint8_t data[RXM_WIRE_SIZE],
                   struct rxm_cm_link **ret_link)
{
    struct rxm_ep *ep = ep_of(cm);
    struct fi_info *info = dial_info(ep, &peer->addr);
    uint32_t answer_ms = (uint32_t)cm->config.deadline_ms;
    struct rxm_link *link;
    int rc;

    if (!info)
        return -FI_ENOMEM;
    rc = rxm_link_open(ep, peer_of(peer), info, &link);
    if (!rc) {
        /* The manager has its own deadline; a lower that does not know the option has its own. */
        fi_setopt(&link->ep->fid, FI_OPT_ENDPOINT, OPT_ANSWER_TIMEOUT, &answer_ms,
                  sizeof(answer_ms));
        rc = fi_connect(link->ep, info->dest_addr, data, RXM_WIRE_SIZE);
        if (rc)
            rxm_link_close(link);
        else
            *ret_link = &link->cm;
    }
    info_free(info);
    return rc;
}

static int cm_accept(struct rxm_cm *cm, struct rxm_cm_peer *peer, void *request,
                     const uint8_t data[RXM_WIRE_SIZE], struct rxm_cm_link **ret_link)
{
    struct rxm_ep *ep = ep_of(cm);
    struct fi_info *info = request;
    struct rxm_link *link;
    int rc = rxm_link_open(ep, peer_of(peer), info, &link);

    if (rc) {
        if (info->handle)
            fi_reject(ep->pep, info->handle, NULL, 0);
    } else {
        rc = fi_accept(link->ep, data, RXM_WIRE_SIZE);
        if (rc)
            rxm_link_close(link);
        else
            *ret_link = &link->cm;
    }
    info_free(info);
    return rc;
}

static void cm_reject(struct rxm_cm *cm, void *request, const void *data, size_t len, bool foreign)
{
    struct rxm_ep *ep = ep_of(cm);
    struct fi_info *info = request;
    char text[ADDR_TEXT_MAX];
    union addr from;

    if (foreign && !import_addr(info->addr_format, info->dest_addr, &from))
        LOG_INFO("rxm", FI_LOG_EP_CTRL, ": refused %s, which speaks another protocol",
                 addr_text(&from.sa, text, sizeof(text)));
    fi_reject(ep->pep, info->handle, data, len);
    info_free(info);
}

static void cm_close(struct rxm_cm *cm, struct rxm_cm_link *cm_link)
{
    struct rxm_link *link = link_of(cm_link);
    struct rxm_peer *peer = rxm_peers_find(&ep_of(cm)->peers, &link->addr);

    if (peer && peer->up == link->ep) {
        peer->up = NULL;
        lower_cq_progress(ep_of(cm)->tx_lower); /* what the peer had sent before it restarted */
    }
    rxm_link_end(link);
}

static void cm_up(struct rxm_cm *cm, struct rxm_cm_link *cm_link)
{
    struct rxm_link *link = link_of(cm_link);
    struct rxm_cm_peer *peer = cm_link->peer;
    uint32_t version = cm_link->version;
    int rc = fi_setopt(&link->ep->fid, FI_OPT_ENDPOINT, OPT_PEER_WIRE_VERSION, &version,
                       sizeof(version));

    if (rc && rc != -FI_ENOPROTOOPT)
        LOG_WARN("rxm", FI_LOG_EP_CTRL, ": the lower refuses wire version %u: %s", version,
                 fi_strerror(-rc));
    if (cm_link == peer->link)
        peer_of(peer)->up = link->ep;
}

static void cm_failed(struct rxm_cm *cm, struct rxm_cm_peer *peer, int err, bool foreign)
{
    char text[ADDR_TEXT_MAX];

    addr_text(&peer->addr.sa, text, sizeof(text));
    if (foreign)
        LOG_WARN("rxm", FI_LOG_EP_CTRL, ": %s speaks another protocol (not FI_PROTO_XNET)", text);
    else
        LOG_WARN("rxm", FI_LOG_EP_CTRL, ": cannot connect to %s: %s", text, fi_strerror(err));
}

/* Peers in the AV stay, so that what they did is remembered. */
static void cm_idle(struct rxm_cm *cm, struct rxm_cm_peer *peer)
{
    if (!peer_of(peer)->slots)
        rxm_peers_remove(&ep_of(cm)->peers, peer_of(peer));
}

static const struct rxm_cm_ops cm_ops = {
    .peer = cm_peer,
    .dial = cm_dial,
    .accept = cm_accept,
    .reject = cm_reject,
    .close = cm_close,
    .up = cm_up,
    .failed = cm_failed,
    .idle = cm_idle,
};

/* ---- Events ---- */

static void on_request(struct rxm_ep *ep, struct fi_eq_cm_entry *entry, size_t len)
{
    struct fi_info *info = entry->info;
    union addr from;

    if (!info->dest_addr || import_addr(info->addr_format, info->dest_addr, &from)) {
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
        on_request(ep, entry, len);
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
        char bytes[sizeof(struct fi_eq_cm_entry) + PRIVATE_DATA_MAX];
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
static int start_timer(struct rxm_ep *ep, int64_t delay_ms)
{
    struct itimerspec spec = {
        .it_value = {.tv_sec = delay_ms / 1000, .tv_nsec = delay_ms % 1000 * 1000000},
    };

    if (ep->timer_source.fd < 0)
        ep->timer_source.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (ep->timer_source.fd < 0)
        return -FI_EMFILE;
    timerfd_settime(ep->timer_source.fd, 0, &spec, NULL);
    if (!list_empty(&ep->timer_source.link))
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
    int64_t now;

    ep->skip = SKIP;
    if (atomic_load(&ep->changes.any))
        take_changes(ep);
    read_events(ep);
    if (!list_empty(&ep->lingering))
        rxm_link_reap(ep);
    if (!list_empty(&ep->timer_source.link))
        stop_timer(ep);
    if (rxm_cm_next(&ep->cm) != INT64_MAX) {
        now = clock_ms();
        if (rxm_cm_next(&ep->cm) <= now)
            rxm_cm_run(&ep->cm, now);
    }
}

static void eq_progress(struct unit_source *source)
{
    struct rxm_ep *ep = object_of(source, struct rxm_ep, eq_source);

    if (ep->skip && !rxm_cm_busy(&ep->cm))
        ep->skip--;
    else
        rxm_control_run(ep);
}

static int eq_trywait(struct unit_source *source)
{
    struct rxm_ep *ep = object_of(source, struct rxm_ep, eq_source);
    struct fid *fid = &ep->eq->fid;
    int64_t next = rxm_cm_next(&ep->cm), now = next == INT64_MAX ? 0 : clock_ms();

    ep->skip = 0;
    if (atomic_load(&ep->changes.any) || next <= now)
        return -FI_EAGAIN;
    if (next != INT64_MAX && start_timer(ep, next - now))
        return -FI_EAGAIN;
    return fi_trywait(ep->domain->fabric->lower->fabric, &fid, 1) ? -FI_EAGAIN : 0;
}

/* ---- Opening and closing ---- */

int rxm_control_open(struct rxm_ep *ep)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};
    struct fid_fabric *fabric = ep->domain->fabric->lower->fabric;
    int rc = fi_eq_open(fabric, &attr, &ep->eq, ep);

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
        .pid = (uint32_t)getpid(),
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
    if (config.retry_max_ms < config.retry_ms)
        config.retry_max_ms = config.retry_ms;
    config.seed ^= (uint32_t)addr_hash(&config.self.sa);
    rxm_cm_init(&ep->cm, &config, &cm_ops);
    return 0;
}

static int attach_source(struct rxm_ep *ep)
{
    int rc;

    ep->eq_source.progress = eq_progress;
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
    int rc = fi_listen(ep->pep);

    if (!rc)
        rc = init_cm(ep);
    if (!rc)
        rc = attach_source(ep);
    if (rc)
        return rc;
    ep->listener.inserted = on_inserted;
    ep->listener.removed = on_removed;
    av_attach(ep->av, &ep->listener);
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
    rxm_peers_finish(&ep->peers);
    unit_unlock(ep->unit);
}

void rxm_control_close(struct rxm_ep *ep)
{
    if (ep->enabled)
        av_detach(ep->av, &ep->listener);
    if (ep->pep)
        fi_close(&ep->pep->fid);
    close_links(ep);
    if (ep->timer_source.fd >= 0)
        close(ep->timer_source.fd);
    if (ep->eq)
        fi_close(&ep->eq->fid);
}
