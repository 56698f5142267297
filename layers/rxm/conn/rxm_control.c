/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events are looked for on every progress call while connections are being made, else on every
 * 64th, and always after a sleep.
 */
#include "layers/rxm/conn/rxm_control.h"

#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "core/base/seam.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "core/queue/wait.h"
#include "layers/rxm/conn/rxm_actions.h"
#include "layers/rxm/conn/rxm_av.h"
#include "layers/rxm/conn/rxm_conn.h"
#include "layers/rxm/conn/rxm_sep.h"
#include "layers/rxm/conn/rxm_wait.h"
#include "layers/rxm/conn/rxm_wire.h"
#include "layers/rxm/msgproto/msgproto.h"

enum {
    SKIP = 63,
};

/* ---- Events ---- */

void rxm_control_request(struct rxm_ep *ep, struct fi_eq_cm_entry *entry, size_t len)
{
    struct fi_info *info = entry->info;
    union addr from, to = ep->cm.config.self;

    if (!info->dest_addr || rxm_addr_import(info->addr_format, info->dest_addr, &from)) {
        fi_reject(ep->pep, info->handle, NULL, 0);
        info_free(info);
        return;
    }
    if (info->src_addr)
        rxm_addr_import(info->addr_format, info->src_addr, &to);
    ep->attend = true;
    rxm_cm_request(&ep->cm, &from, &to, entry->data, len, info, clock_ms());
}

static void on_event(struct rxm_ep *ep, uint32_t event, struct fi_eq_cm_entry *entry, size_t len)
{
    struct rxm_conn *conn = entry->fid == &ep->pep->fid ? NULL : entry->fid->context;

    if (event == FI_CONNREQ)
        rxm_control_request(ep, entry, len);
    else if (!conn || !conn->cm.peer)
        return; /* ended meanwhile */
    else if (event == FI_CONNECTED)
        rxm_cm_connected(&ep->cm, &conn->cm, entry->data, len, clock_ms());
    else if (event == FI_SHUTDOWN)
        rxm_cm_lost(&ep->cm, &conn->cm, 0, NULL, 0, clock_ms());
}

static void on_error(struct rxm_ep *ep)
{
    struct fi_eq_err_entry entry = {.err_data = NULL, .err_data_size = 0};
    struct rxm_conn *conn;

    if (fi_eq_readerr(ep->eq, &entry, 0) < 0 || !entry.fid || entry.fid == &ep->pep->fid)
        return;
    conn = entry.fid->context;
    if (conn->cm.peer)
        rxm_cm_lost(&ep->cm, &conn->cm, entry.err, entry.err_data, entry.err_data_size, clock_ms());
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

/* Takes in the AV's changes and the events, and does what has become due. */
static void run_due(struct rxm_ep *ep)
{
    ep->skip = SKIP;
    if (atomic_load(&ep->watch.any))
        rxm_av_take_changes(ep);
    read_events(ep);
    if (!list_empty(&ep->lingering))
        rxm_conn_reap(ep);
    if (rxm_cm_busy(&ep->cm) || rxm_cm_next(&ep->cm) != INT64_MAX)
        rxm_cm_run(&ep->cm, clock_ms());
    if (!list_empty(&ep->waits.ready))
        rxm_wait_run(ep);
    wake_timer_clear(&ep->timer, ep->progress, rxm_cm_next(&ep->cm));
}

static inline bool leaves_alone(const struct rxm_ep *ep)
{
    return ep->skip && !rxm_cm_busy(&ep->cm) && !av_watch_any(&ep->watch);
}

__attribute__((noinline)) static void go_on(struct rxm_ep *ep)
{
    if (ep->msgproto && msgproto_busy(ep->msgproto))
        msgproto_run(ep->msgproto);
    if (!list_empty(&ep->waits.ready))
        rxm_wait_run(ep);
    if (leaves_alone(ep))
        ep->skip--;
    else
        run_due(ep);
    ep->attend = rxm_cm_busy(&ep->cm) || !list_empty(&ep->waits.ready) ||
                 (ep->msgproto && msgproto_busy(ep->msgproto));
}

static void eq_progress(struct progress_source *source)
{
    struct rxm_ep *ep = object_of(source, struct rxm_ep, eq_source);

    if (__builtin_expect(!ep->attend && ep->skip && !av_watch_any(&ep->watch), 1))
        ep->skip--;
    else
        go_on(ep);
}

static int control_trywait(struct progress_source *source)
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
    if (ep->msgproto && msgproto_trywait(ep->msgproto))
        return -FI_EAGAIN;
    if (atomic_load(&ep->watch.any) || next <= now)
        return -FI_EAGAIN;
    if (next != INT64_MAX && wake_timer_set(&ep->timer, ep->progress, next, now))
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

/* Does the lower listen on every interface? */
static bool listens_on_all(const struct rxm_ep *ep)
{
    const struct fi_info *info = ep->lower_info;
    union addr addr;

    return !info->src_addr ||
           (!rxm_addr_import(info->addr_format, info->src_addr, &addr) && addr_is_any(&addr.sa));
}

static int init_cm(struct rxm_ep *ep)
{
    const struct params *params = ep->domain->fabric->plain.params;
    struct rxm_cm_config config = {
        .proto = ep->msgproto ? &rxm_proto_rxm : &rxm_proto_xnet,
        .any = listens_on_all(ep),
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
    if (ep->msgproto) {
        config.eager_limit = (uint32_t)ep->msgproto->eager_limit;
        config.rx_size = ep->msgproto->queue;
        config.flow = ep->msgproto->flow;
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

    ep->eq_source.poll = eq_progress;
    ep->eq_source.trywait = control_trywait;
    ep->eq_source.leaf = true; /* the lower's event queue drives nothing that our queues do */
    rc = fi_control(&ep->eq->fid, FI_GETWAIT, &ep->eq_source.fd);
    if (rc)
        return rc;
    progress_lock(ep->progress);
    rc = progress_attach(ep->progress, &ep->eq_source);
    progress_unlock(ep->progress);
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
    av_watch_attach(&ep->watch, ep->base.av, ep->progress);
    ep->base.enabled = true;
    return 0;
}

/* The lower still sends accepted messages, to all peers together for so long. A lower that does
 * not know the option has a limit of its own. */
static void close_conns(struct rxm_ep *ep)
{
    long long start = clock_ms();

    progress_lock(ep->progress);
    progress_detach(ep->progress, &ep->eq_source);
    wake_timer_finish(&ep->timer, ep->progress);
    list_for_each_safe (item, after, &ep->conns) {
        struct rxm_conn *conn = list_item(item, struct rxm_conn, all);
        int left = wait_left((int)ep->close_ms, start);
        uint32_t left_ms = left > 0 ? (uint32_t)left : 0;

        if (conn->ep) /* else it ended, and only messages that came by it are left */
            fi_setopt(&conn->ep->fid, FI_OPT_ENDPOINT, OPT_CLOSE_WAIT, &left_ms, sizeof(left_ms));
        rxm_conn_close(conn);
    }
    op_queue_finish(&ep->waits.ops);
    rxm_peers_finish(&ep->peers);
    progress_unlock(ep->progress);
}

void rxm_control_close(struct rxm_ep *ep)
{
    av_watch_detach(&ep->watch);
    if (ep->pep && !ep->sep)
        fi_close(&ep->pep->fid);
    close_conns(ep);
    if (ep->eq)
        fi_close(&ep->eq->fid);
}
