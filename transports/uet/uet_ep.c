/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of endpoints: NIC and SES, progress, names, closing. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/enosys.h"
#include "core/base/log.h"
#include "core/domain/base.h"
#include "core/info/info.h"
#include "core/net/host.h"
#include "core/net/tclass.h"
#include "core/op/op.h"
#include "transports/uet/uet.h"

enum {
    BATCHES = 8,     /* of packets that one poll takes */
    POLLS = 32,      /* that took packets, and left timers alone */
    REFUSALS = 64,   /* closed ports that one poll hears of */
    ON_TIME = 8,     /* packets that are gathered, of which one looks at the clock */
    CLOSE_MS = 2000, /* fi_close waits so long for what was reported as complete */
    GOODBYE_MS = 20, /* and so for the peers to agree to close: that is asked three times */
    THEIRS_MS = 5,   /* and so for them to close what they opened */
};

#define MS UINT64_C(1000000)

/* ---- Running ---- */

/* False: some packets still wait. */
static bool flush(struct uet_ep *ep)
{
    if (!uet_nic_flush(ep->nic))
        return false;
    if (__builtin_expect(!list_empty(&ep->gathered), 0))
        uet_report_gathered(ep);
    return true;
}

/* at: now. */
static void run_at(struct uet_ep *ep, uint64_t at)
{
    ep->polls = 0;
    ses_run(ep->ses, at);
    if (__builtin_expect(pds_lacks_ids(ses_pds(ep->ses)), 0) && uet_nic_more_ids(ep->nic)) {
        pds_set_ids(ses_pds(ep->ses), uet_nic_ids(ep->nic));
        ses_run(ep->ses, at);
    }
    flush(ep);
}

void uet_ep_run(struct uet_ep *ep)
{
    if (ep->ses)
        run_at(ep, clock_ns());
}

/* Does the caller poll at once when it has posted several times? One that does not gets its
 * messages sent as they are posted. */
static void note_poll(struct uet_ep *ep)
{
    uint64_t soon = ep->domain->fabric->settings.burst_wait;

    if (ep->company.posts > 1)
        ep->company.kept = ep->now - ep->company.last < soon ? ep->company.kept + 1 : 0;
    ep->company.posts = 0;
}

/* ---- Sockets and sleepers ---- */

static int watch_socket(const struct uet_ep *ep, int op, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (fd < 0 || !epoll_ctl(ep->source.fd, op, fd, &event))
        return 0;
    return errno == EEXIST ? 0 : -errno;
}

/* A second try finds what the first has left. */
static int watch(struct uet_ep *ep)
{
    int rc;

    if (ep->watched || ep->source.fd < 0)
        return 0;
    rc = watch_socket(ep, EPOLL_CTL_ADD, ep->socket_fd);
    if (!rc)
        rc = watch_socket(ep, EPOLL_CTL_ADD, ep->hot_fd);
    ep->watched = !rc;
    return rc;
}

/* As long as no thread may sleep: to be in an epoll fd costs each packet the kernel's time, at its
 * sender, too. */
static void unwatch(struct uet_ep *ep)
{
    watch_socket(ep, EPOLL_CTL_DEL, ep->socket_fd);
    watch_socket(ep, EPOLL_CTL_DEL, ep->hot_fd);
    ep->watched = false;
}

/* The hot peer's socket stays the same. */
static void heat(struct uet_ep *ep)
{
    int fd = uet_nic_heat(ep->nic);

    if (fd < 0 || fd == ep->hot_fd)
        return;
    if (ep->watched && watch_socket(ep, EPOLL_CTL_ADD, fd))
        uet_nic_freeze(ep->nic);
    else
        ep->hot_fd = fd;
}

void uet_ep_push(struct uet_ep *ep, const struct ses_op *op)
{
    struct progress *progress = ep->base.binding.progress;

    /* Timers and other PDCs can wait for the next poll, which comes while the packet travels; but a
     * thread may sleep until something comes. */
    if (!op->source.pdc.id || progress_has_thread(progress)) {
        uet_ep_run(ep);
        if (ses_deadline(ep->ses) < ep->sleeps_until && progress_has_thread(progress))
            progress_wake(progress);
        return;
    }
    /* Packets that leave together have one time; timers run from that of the first. */
    if (!ep->gathers || uet_nic_waiting(ep->nic) % ON_TIME == 0)
        ep->company.last = clock_ns();
    ses_push(ep->ses, ep->company.last, op);
    if (ep->gathers)
        return;
    flush(ep);
    if (__builtin_expect(uet_nic_warms(ep->nic), 0))
        heat(ep);
}

static void take_packet(void *arg, const union addr *from, const uint8_t *bytes, size_t len,
                        bool marked)
{
    struct uet_ep *ep = arg;

    ses_receive(ep->ses, ep->now, from, bytes, len, marked);
}

static void transmit(void *arg, const union addr *to, const struct iovec *iov, size_t count,
                     bool control)
{
    const struct uet_ep *ep = arg;

    /* A child closes an endpoint of its parent, and sends nothing. Acknowledgements carry memory of
     * PDS's own. */
    if (!progress_forked(ep->base.binding.progress))
        uet_nic_send(ep->nic, to, iov, count, !control);
}

static uint32_t payload(void *arg, const union addr *peer)
{
    struct uet_ep *ep = arg;

    return uet_path_payload(&ep->paths, uet_nic_addr(ep->nic), peer, ep->most, ep->mtu);
}

static struct uet_ep *of_source(struct progress_source *source)
{
    return object_of(source, struct uet_ep, source);
}

static void take_refusals(struct uet_ep *ep)
{
    struct uet_nic_refusal refusal;

    for (int i = 0; i < REFUSALS && uet_nic_refusal(ep->nic, &refusal); i++)
        pds_unreachable(ses_pds(ep->ses), ep->now, &refusal.to, refusal.quote, refusal.len);
}

static void poll_ep(struct progress_source *source)
{
    struct uet_ep *ep = of_source(source);
    unsigned got = 0, rounds = 0;
    bool more;

    if (__builtin_expect(progress_forked(ep->base.binding.progress), 0))
        return;
    if (ep->watched && progress_may_disarm(ep->base.binding.progress, &ep->looks))
        unwatch(ep);
    if (__builtin_expect(atomic_load_explicit(&ep->stale, memory_order_relaxed), 0)) {
        uet_leave_gone(ep);
        uet_resolve(ep);
    }
    /* Packets that have come are first: a timer may wait for one. */
    ep->now = clock_ns();
    ep->sleeps_until = 0;
    note_poll(ep);
    if (__builtin_expect(uet_nic_is_refused(ep->nic), 0))
        take_refusals(ep);
    do {
        got += uet_nic_receive(ep->nic, ep->now, take_packet, ep, &more);
    } while (more && ++rounds < BATCHES);
    /* Completions go to the application first, unless a peer waits for something. */
    if (got ? pds_is_urgent(ses_pds(ep->ses)) || ++ep->polls >= POLLS
            : ses_deadline(ep->ses) <= ep->now)
        run_at(ep, rounds ? clock_ns() : ep->now);
    else
        flush(ep);
}

/* A sleep ends when something is due. */
static int trywait(struct progress_source *source)
{
    struct uet_ep *ep = of_source(source);
    uint64_t now = clock_ns(), due, look;
    bool reports = !list_empty(&ep->gathered);

    if (progress_forked(ep->base.binding.progress))
        return 0;
    uet_ep_run(ep);
    due = ses_deadline(ep->ses);
    look = uet_nic_due(ep->nic);
    due = due < look ? due : look;
    if (reports || due <= now || !flush(ep) || uet_nic_is_refused(ep->nic))
        return -FI_EAGAIN;
    uet_nic_before_sleep(ep->nic);
    ep->looks = 0;
    if (watch(ep))
        return -FI_EAGAIN;
    ep->sleeps_until = due;
    if (due == UINT64_MAX) {
        wake_timer_clear(&ep->timer, ep->base.binding.progress, -1);
        return 0;
    }
    return wake_timer_set(&ep->timer, ep->base.binding.progress, (int64_t)(due / MS) + 1,
                          (int64_t)(now / MS))
               ? -FI_EAGAIN
               : 0;
}

/* ---- Enabling ---- */

static void av_changed(struct av_listener *listener, fi_addr_t addr)
{
    atomic_store(&object_of(listener, struct uet_ep, listener)->stale, true);
}

static void av_removed(struct av_listener *listener, fi_addr_t addr)
{
    struct uet_ep *ep = object_of(listener, struct uet_ep, listener);
    const void *raw = av_addr(listener->av, addr);
    struct uet_address address;

    if (raw && uet_address_get(raw, &address)) {
        pthread_mutex_lock(&ep->gone.mutex);
        if (ep->gone.count < UET_GONE)
            ep->gone.at[ep->gone.count] = address.host;
        if (ep->gone.count <= UET_GONE)
            ep->gone.count++;
        atomic_store(&ep->gone.any, true);
        pthread_mutex_unlock(&ep->gone.mutex);
    }
    atomic_store(&ep->stale, true);
}

void uet_leave_gone(struct uet_ep *ep)
{
    if (!atomic_load_explicit(&ep->gone.any, memory_order_relaxed))
        return;
    pthread_mutex_lock(&ep->gone.mutex);
    if (ep->gone.count > UET_GONE)
        pds_leave(ses_pds(ep->ses), NULL);
    for (unsigned i = 0; ep->gone.count <= UET_GONE && i < ep->gone.count; i++)
        pds_leave(ses_pds(ep->ses), &ep->gone.at[i]);
    ep->gone.count = 0;
    atomic_store(&ep->gone.any, false);
    pthread_mutex_unlock(&ep->gone.mutex);
}

fi_addr_t uet_source(struct uet_ep *ep, const union addr *from, uint32_t job, uint32_t initiator)
{
    if (!ep->knows_sources)
        return FI_ADDR_UNSPEC;
    /* An upper may insert a sender with its first packet; the next one is in the same poll. */
    if (!atomic_load_explicit(&ep->stale, memory_order_relaxed) && ep->known.addr.sa.sa_family &&
        ep->known.job == job && ep->known.initiator == initiator &&
        addr_equal(&ep->known.addr.sa, &from->sa))
        return ep->known.fi_addr;
    ep->known.addr = *from;
    ep->known.job = job;
    ep->known.initiator = initiator;
    ep->known.fi_addr = uet_av_find(ep->base.av, from, job, initiator);
    return ep->known.fi_addr;
}

static const struct ses_ops ses_ops = {
    .transmit = transmit,
    .payload = payload,
    .ended = uet_ended,
    .message = uet_message,
    .received = uet_received,
    .admits = uet_admits,
    .write = uet_write,
    .read = uet_read,
    .give_back = uet_give_back,
    .atomic = uet_atomic,
    .tagged_atomic = uet_tagged_atomic,
    .accessed = uet_accessed,
};

static int create_ses(struct uet_ep *ep)
{
    struct ses_settings settings = ep->domain->fabric->settings.ses;
    uint64_t seed;

    if (ep->ses)
        return 0;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed = clock_ns();
    settings.mtu = ep->most;
    settings.datagrams = ep->datagrams;
    settings.self.job = ep->job;
    settings.self.initiator = ep->self.initiator;
    settings.self.pid = ep->self.pid;
    settings.self.generation = ep->self.generation;
    settings.pds.ids = uet_nic_ids(ep->nic);
    settings.pds.rudi_first = (uint32_t)ep->self.pid / STEER_PIDS << STEER_RUDI_BITS;
    ep->ses = ses_create(&settings, &ses_ops, ep, seed);
    return ep->ses ? 0 : -FI_ENOMEM;
}

/* A NIC without a socket has no fd: then who waits looks each millisecond. */
static int attach(struct uet_ep *ep)
{
    struct progress *progress = ep->base.binding.progress;
    int rc;

    ep->socket_fd = uet_nic_fd(ep->nic);
    if (ep->socket_fd >= 0 && ep->source.fd < 0)
        ep->source.fd = epoll_create1(EPOLL_CLOEXEC);
    if (ep->socket_fd >= 0 && ep->source.fd < 0)
        return -errno;
    progress_lock(progress);
    rc = progress_watched(progress) ? watch(ep) : 0; /* a thread may sleep already */
    if (!rc)
        rc = progress_attach(progress, &ep->source);
    ep->attached = !rc;
    progress_unlock(progress);
    return rc;
}

static int enable(struct endpoint *base)
{
    struct uet_ep *ep = uet_ep_of(base);
    int rc = create_ses(ep);

    if (rc)
        return rc;
    ep->key_limit = av_key_limit(base->av);
    ep->knows_sources =
        base->caps & (FI_SOURCE | FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV | FI_SOURCE_ERR);
    base->source.many = true;
    ep->hears_closes = base->binding.progress->locked || binding_is_top(&base->binding);
    if (!ep->listener.inserted) {
        ep->listener.inserted = av_changed;
        ep->listener.removed = av_removed;
        ep->listener.progress = base->binding.progress;
        av_attach(base->av, &ep->listener);
    }
    return attach(ep);
}

/* ---- Options ---- */

static size_t limit(struct endpoint *base, int option)
{
    const struct uet_ep *ep = uet_ep_of(base);
    size_t most = uet_is_full(ep->self.caps) && !ep->datagrams ? UET_MESSAGE_MAX : ep->mtu;

    switch (option) {
    case FI_OPT_MAX_MSG_SIZE: return most;
    case FI_OPT_MAX_TAGGED_SIZE: return base->caps & FI_TAGGED ? most : 0;
    case FI_OPT_MAX_RMA_SIZE: return base->caps & FI_RMA ? UET_MESSAGE_MAX : 0;
    case FI_OPT_MAX_ATOMIC_SIZE: return base->caps & FI_ATOMIC ? ep->mtu : 0;
    case FI_OPT_INJECT_TAGGED_SIZE: return base->caps & FI_TAGGED ? UET_INJECT : 0;
    case FI_OPT_INJECT_RMA_SIZE: return base->caps & FI_RMA ? UET_INJECT : 0;
    case FI_OPT_INJECT_ATOMIC_SIZE: return base->caps & FI_ATOMIC ? UET_INJECT : 0;
    default: return ep->datagrams ? ep->mtu : UET_INJECT;
    }
}

static size_t tx_used(const struct endpoint *base)
{
    return uet_ep_of(base)->used;
}

/* ---- Names ---- */

static int ep_getname(fid_t fid, void *raw, size_t *len)
{
    const struct uet_ep *ep = object_of(fid, struct uet_ep, fid.fid);
    uint8_t bytes[UET_ADDRESS_SIZE];
    size_t room = *len;

    uet_address_put(&ep->self, bytes);
    *len = UET_ADDRESS_SIZE;
    if (raw && room)
        memcpy(raw, bytes, room < sizeof(bytes) ? room : sizeof(bytes));
    return room < sizeof(bytes) ? -FI_ETOOSMALL : 0;
}

/* How peers reach an endpoint that is bound there. */
static union addr name_of(const struct uet_ep *ep, const union addr *addr)
{
    union addr name;

    host_name(params_string(ep->domain->fabric->plain.params, "iface"), addr, &name);
    return name;
}

/* address: where; its PIDonFEP, or the parameter's, says which of those that share the port. */
static int open_nic(struct uet_ep *ep, const struct uet_address *address)
{
    const struct uet_settings *settings = &ep->domain->fabric->settings;
    struct uet_nic_settings nic_settings = settings->nic;
    uint16_t pid = address->pid ? address->pid : settings->ses.self.pid;
    struct uet_nic *nic;
    char text[ADDR_TEXT_MAX];
    int rc;

    nic_settings.packet = ep->most;
    nic_settings.pcap = ep->domain->fabric->pcap;
    nic_settings.slot = pid ? pid / STEER_PIDS : -1;
    nic_settings.elsewhere = !address->pid;
    nic_settings.name = name_of(ep, &address->host);
    if (ep->tclass != FI_TC_UNSPEC)
        nic_settings.dscp = (uint8_t)tclass_dscp(ep->tclass);
    rc = uet_nic_open(&address->host, &nic_settings, &nic);
    if (rc) {
        LOG_WARN("uet", FI_LOG_EP_CTRL, "cannot open %s, PIDonFEP %u: %s",
                 addr_text(&address->host.sa, text, sizeof(text)), pid, fi_strerror(-rc));
        return rc;
    }
    uet_nic_close(ep->nic);
    ep->nic = nic;
    pid = pid ? pid : uet_nic_pid(nic);
    ep->self = (struct uet_address){
        .host = name_of(ep, uet_nic_addr(nic)),
        .flags = UET_HAS_CAPS | UET_HAS_HOST | UET_HAS_PID | UET_HAS_INDEX | UET_HAS_INITIATOR |
                 (uet_is_full(ep->caps) ? 0 : UET_ONE_MTU) |
                 (settings->ses.self.absolute ? UET_ABSOLUTE : 0),
        .caps = ep->caps | (settings->brief && ep->caps & UET_HPC ? UET_OPTIMIZED : 0),
        .pid = pid,
        .generation = settings->ses.self.generation,
        .index = UET_INDEX,
        .index_count = 1,
        .initiator =
            settings->initiator ? settings->initiator : uet_initiator_make(pid, uet_nic_addr(nic)),
    };
    return 0;
}

static int ep_setname(fid_t fid, void *raw, size_t len)
{
    struct uet_ep *ep = object_of(fid, struct uet_ep, fid.fid);
    struct uet_address address;

    if (ep->base.enabled)
        return -FI_EOPBADSTATE;
    if (!raw || len != UET_ADDRESS_SIZE || !uet_address_get(raw, &address))
        return -FI_EINVAL;
    return open_nic(ep, &address);
}

static struct fi_ops_cm cm_ops = {
    .size = sizeof(cm_ops),
    .setname = ep_setname,
    .getname = ep_getname,
    NO_CM_CONNECTION,
};

/* ---- Closing ---- */

static void drive_until(struct uet_ep *ep, long long until, bool (*busy)(struct uet_ep *ep))
{
    struct progress *progress = ep->base.binding.progress;

    while (busy(ep) && clock_ms() < until) {
        progress_poll(progress);
        progress_unlock(progress);
        binding_drive_others(&ep->base.binding);
        sched_yield();
        progress_lock(progress);
    }
}

static bool owes(struct uet_ep *ep)
{
    return ep->owed > 0;
}

static bool has_pdcs(struct uet_ep *ep)
{
    return pds_close_all(ses_pds(ep->ses)) > 0;
}

static bool has_open_pdcs(struct uet_ep *ep)
{
    return pds_open_count(ses_pds(ep->ses)) > 0;
}

/* An operation whose end the application waits for is discarded. One that it takes for done goes to
 * its peer; then the PDCs close. Progress domain locked. */
static void say_goodbye(struct uet_ep *ep)
{
    pds_hurry(ses_pds(ep->ses));
    drive_until(ep, clock_ms() + CLOSE_MS, owes);
    pds_close_all(ses_pds(ep->ses));
    drive_until(ep, clock_ms() + THEIRS_MS, has_open_pdcs);
    drive_until(ep, clock_ms() + GOODBYE_MS - THEIRS_MS, has_pdcs);
}

static void tell_counters(struct uet_ep *ep)
{
    const struct pds_counters *c = ep->ses ? pds_counters(ses_pds(ep->ses)) : NULL;

    if (c)
        LOG_INFO(
            "uet", FI_LOG_EP_DATA,
            "packets: %llu sent, %llu of them again, %llu received, %llu of them again; "
            "acknowledgements: %llu sent, %llu received; refusals: %llu sent, %llu received; "
            "%llu probes, %llu malformed, %llu of strangers, %llu damaged, %llu of others; PDCs: "
            "%llu opened, %llu failed",
            (unsigned long long)c->sent, (unsigned long long)c->resent,
            (unsigned long long)c->received, (unsigned long long)c->duplicates,
            (unsigned long long)c->acks_sent, (unsigned long long)c->acks_received,
            (unsigned long long)c->nacks_sent, (unsigned long long)c->nacks_received,
            (unsigned long long)c->probes, (unsigned long long)c->malformed,
            (unsigned long long)c->strangers, (unsigned long long)uet_nic_damaged(ep->nic),
            (unsigned long long)uet_nic_misled(ep->nic), (unsigned long long)c->opened,
            (unsigned long long)c->failed);
}

/* Requests of peers that were not carried out, by their answers. */
static void tell_refusals(const struct uet_ep *ep)
{
    const struct ses_counters *c = ep->ses ? ses_counters(ep->ses) : NULL;

    for (int code = 0; c && code < SES_CODES; code++)
        if (c->refused[code] && ses_code_text(code))
            LOG_INFO("uet", FI_LOG_EP_DATA, "%llu requests were refused: %s",
                     (unsigned long long)c->refused[code], ses_code_text(code));
    if (c && (c->ignored || c->given_up))
        LOG_INFO("uet", FI_LOG_EP_DATA,
                 "%llu packets were ignored; the targets of %llu messages were told that the rest "
                 "would not come",
                 (unsigned long long)c->ignored, (unsigned long long)c->given_up);
}

static int close_ep(struct endpoint *base)
{
    struct uet_ep *ep = uet_ep_of(base);

    if (ep->listener.inserted)
        av_detach(base->av, &ep->listener);
    if (ep->attached) {
        progress_lock(base->binding.progress);
        if (!progress_forked(base->binding.progress))
            say_goodbye(ep);
        ep->closing = true;
        progress_detach(base->binding.progress, &ep->source);
        endpoint_close_receives(base);
        uet_orphan_kept(ep);
        wake_timer_finish(&ep->timer, base->binding.progress);
        progress_unlock(base->binding.progress);
    }
    ep->closing = true;
    uet_drop_waiting(ep);
    tell_counters(ep);
    tell_refusals(ep);
    if (base->binding.progress)
        progress_lock(base->binding.progress); /* a region may be closed meanwhile */
    ses_destroy(ep->ses);
    uet_loans_finish(ep);
    if (base->binding.progress)
        progress_unlock(base->binding.progress);
    if (ep->source.fd >= 0)
        close(ep->source.fd);
    uet_nic_close(ep->nic);
    pool_finish(&ep->ops);
    endpoint_finish(base);
    pthread_mutex_destroy(&ep->gone.mutex);
    free(ep);
    return 0;
}

/* ---- Opening ---- */

static const struct endpoint_ops ops = {
    .post = uet_post,
    .atomic_valid = uet_atomic_valid,
    .limit = limit,
    .enable = enable,
    .close = close_ep,
    .tx_used = tx_used,
    .options = uet_options,
    .srx_ops = &uet_srx_ops,
};

/* By the info, or else by the parameter. False: there is no such endpoint. */
static bool set_kind(struct uet_ep *ep, const struct fi_info *info)
{
    uint8_t profile = uet_profile_caps(ep->domain->fabric->plain.params);

    ep->caps = profile ? profile : uet_protocol_caps(info->ep_attr->protocol);
    ep->packets = profile == UET_AI_BASE;
    ep->datagrams = info->ep_attr->type == FI_EP_DGRAM;
    return ep->caps && (ep->datagrams || info->ep_attr->type == FI_EP_RDM);
}

static int init(struct uet_ep *ep, const struct fi_info *info, void *context)
{
    struct endpoint_attr attr = {
        .ops = &ops,
        .domain = &ep->domain->base,
        .info = info,
        .caps = caps_expand(info->caps ? info->caps : FI_MSG),
        .fclass = FI_CLASS_EP,
        .context = context,
        .size = UET_SIZE,
        .iov_limit = UET_IOV,
        .min_multi_recv = UET_MIN_MULTI_RECV,
    };
    struct uet_address src = ep->domain->src;
    int rc;

    rc = uet_job_of(ep->domain, info, &ep->job);
    if (rc)
        return rc;
    if (!set_kind(ep, info) || (info->src_addr && info->src_addrlen != UET_ADDRESS_SIZE))
        return -FI_EINVAL;
    if (info->src_addr)
        uet_address_get(info->src_addr, &src); /* its port may be 0 */
    if (!src.host.sa.sa_family)
        return -FI_EINVAL;
    ep->mtu = uet_payload_at(ep->domain->fabric->plain.params, &src.host);
    ep->most = uet_payload(ep->domain->fabric->plain.params, INT32_MAX);
    if (!ep->mtu || !ep->most)
        return -FI_EINVAL;
    ep->tclass = info->tx_attr->tclass;
    if (ep->tclass == FI_TC_UNSPEC)
        ep->tclass = ep->domain->base.info->domain_attr->tclass;
    rc = open_nic(ep, &src);
    if (rc)
        return rc;
    if (ep->datagrams)
        attr.caps &= ~(FI_TAGGED | FI_RMA | FI_ATOMIC);
    endpoint_init(&ep->base, &attr);
    ep->base.needs_av = true;
    ep->base.any_srx = true;
    ep->source_err = attr.caps & FI_SOURCE_ERR;
    ep->orders = info->tx_attr->msg_order;
    ep->fid.cm = &cm_ops;
    return 0;
}

int uet_ep_open(struct fid_domain *fid, struct fi_info *user_info, struct fid_ep **ret_ep,
                void *context)
{
    struct uet_domain *domain = object_of(fid, struct uet_domain, base.fid);
    struct fi_info *info = fabric_info(domain->base.fabric, user_info);
    struct uet_ep *ep = info ? calloc(1, sizeof(*ep)) : NULL;
    int rc = -FI_ENOMEM;

    if (ep) {
        ep->domain = domain;
        ep->aimed.fi_addr = FI_ADDR_UNSPEC;
        list_init(&ep->listener.link);
        pthread_mutex_init(&ep->gone.mutex, NULL);
        list_init(&ep->waiting);
        list_init(&ep->gathered);
        list_init(&ep->kept);
        list_init(&ep->loans);
        list_init(&ep->source.link);
        ep->source.poll = poll_ep;
        ep->source.trywait = trywait;
        ep->source.fd = ep->socket_fd = ep->hot_fd = -1;
        wake_timer_init(&ep->timer);
        pool_init(&ep->ops, sizeof(struct uet_op), 0);
        rc = init(ep, info, context);
    }
    info_free(info);
    if (rc) {
        free(ep);
        return rc;
    }
    *ret_ep = &ep->fid;
    return 0;
}
