/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving. The kernel writes into the buffers that are posted:
 *
 *   plain receives        one recvmsg for the first, or one recvmmsg for as many as came last time
 *   multi-receive         one recvmsg for each datagram, behind the one before it
 *   with UDP_GRO on       one recvmsg may bring several datagrams of one length, end to end, which
 *                         an upper may take as they are (OPT_TRAINS)
 *   a lone datagram       one recvfrom, until several have come at once (udp_traffic.h)
 *
 * What may be longer than the buffer that is next (several datagrams, or the rest of a
 * multi-receive buffer) has `spill` behind it: there the datagrams wait that have no receive yet,
 * and are copied when they get one. A datagram that its receive is too small for is cut, as an
 * error.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_errno.h>

#include "core/base/iov.h"
#include "core/base/log.h"
#include "transports/udp/udp_ep.h"
#include "transports/udp/udp_group.h"
#include "transports/udp/udp_traffic.h"

enum {
    SPILL_BYTES = 65536, /* what no read exceeds */
    CONTROL_SIZE = 128,
    ECN_MASK = 3
};

/* A read's results beside the bytes. */
struct arrival {
    union addr from;
    size_t len;     /* of all datagrams, as they were sent */
    size_t segment; /* of each datagram but the last */
    uint64_t notes; /* OPT_NOTES */
};

/* Datagrams that were read and have no receive: bytes[at] to bytes[end]. */
struct udp_spill {
    struct arrival arrival;
    size_t at, end;
    char bytes[SPILL_BYTES];
};

union control {
    size_t align; /* of a struct cmsghdr */
    char bytes[CONTROL_SIZE];
};

/* ---- Notes and drops ---- */

static size_t drop_total(const struct udp_ep *ep)
{
    size_t total = (size_t)ep->main.drops + ep->hot.sock.drops;

    list_for_each (pos, &ep->groups)
        total += list_item(pos, struct udp_group, link)->sock.drops;
    return total;
}

size_t udp_ep_drops(struct endpoint *base)
{
    size_t total;

    if (!base->binding.progress)
        return 0;
    progress_lock(base->binding.progress);
    total = drop_total(udp_ep_of(base));
    progress_unlock(base->binding.progress);
    return total;
}

/* Told when there are some, and each time that they have doubled. */
static void note_drops(struct udp_ep *ep, struct udp_socket *sock, uint32_t drops)
{
    char text[ADDR_TEXT_MAX];

    if (drops == sock->drops)
        return;
    if (drops >> 1 >= sock->drops)
        LOG_WARN(ep->fabric->base.part, FI_LOG_EP_DATA,
                 "%s: the kernel has dropped %u datagrams for want of room: more receives, read "
                 "sooner, or a larger rx_buffer",
                 addr_text(&sock->addr.sa, text, sizeof(text)), drops);
    sock->drops = drops;
}

static uint64_t waited(const struct timespec *since)
{
    struct timespec now;
    int64_t ns;

    clock_gettime(CLOCK_REALTIME, &now);
    ns = (now.tv_sec - since->tv_sec) * 1000000000ll + (now.tv_nsec - since->tv_nsec);
    return ns > 0 ? (uint64_t)ns : 0; /* the clock may have been set */
}

static void read_control(struct udp_ep *ep, struct udp_socket *sock, struct cmsghdr *cmsg,
                         struct arrival *arrival)
{
    const unsigned char *data = CMSG_DATA(cmsg);
    struct timespec since;
    uint32_t drops;
    int value;

    if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SO_RXQ_OVFL) {
        memcpy(&drops, data, sizeof(drops));
        note_drops(ep, sock, drops);
    } else if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_TIMESTAMPNS) {
        memcpy(&since, data, sizeof(since));
        arrival->notes |= waited(&since) << 2;
    } else if (cmsg->cmsg_level == SOL_UDP && cmsg->cmsg_type == UDP_GRO) {
        memcpy(&value, data, sizeof(value));
        if (value > 0)
            arrival->segment = (size_t)value;
    } else if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TOS) {
        arrival->notes |= *data & ECN_MASK;
    } else if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_TCLASS) {
        memcpy(&value, data, sizeof(value));
        arrival->notes |= (unsigned)value & ECN_MASK;
    }
}

static void read_controls(struct udp_ep *ep, struct udp_socket *sock, struct msghdr *header,
                          struct arrival *arrival)
{
    if (__builtin_expect(!header->msg_controllen, 1))
        return;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg))
        read_control(ep, sock, cmsg, arrival);
}

/* ---- Who sent it ---- */

static fi_addr_t ask_av(struct udp_ep *ep, const union addr *from)
{
    char text[ADDR_TEXT_MAX];

    if (ep->addr_format != FI_ADDR_STR)
        return av_find(ep->base.av, from);
    addr_to_str(&from->sa, text, sizeof(text));
    return av_find(ep->base.av, text);
}

/* FI_ADDR_NOTAVAIL of a stranger, and where it is of no interest. */
static fi_addr_t source_of(struct udp_ep *ep, const union addr *from)
{
    struct udp_known *known = &ep->source_known;

    if (!ep->knows_sources)
        return FI_ADDR_NOTAVAIL;
    if (__builtin_expect(atomic_load_explicit(&ep->stale, memory_order_acquire), 0)) {
        atomic_store(&ep->stale, false);
        known->addr.sa.sa_family = 0;
        ep->target.addr.sa.sa_family = 0;
    }
    if (!known->addr.sa.sa_family || !addr_equal(&known->addr.sa, &from->sa)) {
        known->addr = *from;
        known->fi_addr = ask_av(ep, from);
    }
    return known->fi_addr;
}

/* ---- One datagram ---- */

/* Where a datagram is in memory, and the receive that it ends in. */
struct delivery {
    void *context;
    uint64_t flags; /* FI_MULTI_RECV: it is the last of its buffer */
    bool wanted;
    char *buf;
    size_t len;  /* in the buffer */
    size_t olen; /* of what was cut off */
};

static void deliver_error(struct udp_ep *ep, const struct arrival *arrival,
                          const struct delivery *delivery, fi_addr_t src)
{
    char raw[ADDR_TEXT_MAX];
    int err = delivery->olen ? FI_ETRUNC : FI_EADDRNOTAVAIL;
    struct fi_cq_err_entry entry = {
        .op_context = delivery->context,
        .flags = FI_MSG | FI_RECV | delivery->flags,
        .len = delivery->len,
        .buf = delivery->buf,
        .data = arrival->notes,
        .olen = delivery->olen,
        .err = err,
        .prov_errno = err,
        .src_addr = src,
    };

    if (err == FI_EADDRNOTAVAIL) {
        entry.err_data = raw;
        entry.err_data_size = sizeof(raw);
        addr_export(ep->addr_format, &arrival->from.sa, raw, &entry.err_data_size);
    }
    complete_error(&ep->base.binding, BIND_RECV, &entry);
}

static inline void deliver(struct udp_ep *ep, const struct arrival *arrival,
                           const struct delivery *delivery)
{
    fi_addr_t src = source_of(ep, &arrival->from);
    bool stranger = ep->source_err && src == FI_ADDR_NOTAVAIL;

    if (src != FI_ADDR_NOTAVAIL)
        src = av_source(ep->base.av, src);
    if (__builtin_expect(delivery->olen || stranger, 0)) {
        deliver_error(ep, arrival, delivery, src);
        return;
    }
    complete(&ep->base.binding, BIND_RECV, delivery->wanted, delivery->context,
             FI_MSG | FI_RECV | delivery->flags, delivery->len, delivery->buf, arrival->notes, 0,
             src);
}

/* The first receive is used up by a datagram of len bytes that are in its segments, as far as they
 * go. */
static void deliver_plain(struct udp_ep *ep, const struct arrival *arrival, size_t len)
{
    const struct posted_recv *rx = recv_queue_at(&ep->posted, 0);
    struct delivery delivery = {
        .context = rx->context,
        .wanted = rx->wanted,
        .buf = rx->count ? rx->iov[0].iov_base : NULL,
        .len = len < rx->room ? len : rx->room,
        .olen = len < rx->room ? 0 : len - rx->room,
    };

    recv_queue_pop(&ep->posted);
    deliver(ep, arrival, &delivery);
}

/* A slice of the first receive, a multi-receive buffer, in which len bytes of a datagram are
 * already; of a datagram longer than the whole buffer, as many as it has. more: others lie behind
 * it, which come before the buffer is given back. */
static void deliver_slice(struct udp_ep *ep, const struct arrival *arrival, size_t len, bool more)
{
    struct posted_recv *rx = recv_queue_at(&ep->posted, 0);
    size_t left = rx->room - rx->offset, used = len < left ? len : left;
    struct delivery delivery = {
        .context = rx->context,
        .wanted = rx->wanted,
        .buf = (char *)rx->iov[0].iov_base + rx->offset,
        .len = used,
        .olen = len - used,
    };

    rx->offset += used;
    left -= used;
    if (!more && (!left || left < rx->min)) {
        delivery.flags = FI_MULTI_RECV;
        delivery.wanted = true;
        recv_queue_pop(&ep->posted);
    }
    deliver(ep, arrival, &delivery);
}

/* Likewise several datagrams, which end to end are all that was read, of a peer that is known:
 * false where it is not, or the upper takes each by itself. */
static bool deliver_train(struct udp_ep *ep, const struct arrival *arrival, size_t len)
{
    fi_addr_t src = ep->train_came ? source_of(ep, &arrival->from) : FI_ADDR_NOTAVAIL;
    struct posted_recv *rx = recv_queue_at(&ep->posted, 0);
    struct train train = {
        .bytes = (char *)rx->iov[0].iov_base + rx->offset, .len = len, .segment = arrival->segment};
    void *context = rx->context;
    uint64_t flags = FI_MSG | FI_RECV;

    if (src == FI_ADDR_NOTAVAIL)
        return false;
    train.peer = av_source(ep->base.av, src);
    rx->offset += len;
    if (rx->room == rx->offset || rx->room - rx->offset < rx->min) {
        flags |= FI_MULTI_RECV;
        recv_queue_pop(&ep->posted);
    }
    ep->train_came(ep->train_arg, context, flags, &train, arrival->notes);
    return true;
}

/* The first receive, a multi-receive buffer, is given back: the next datagram does not fit. */
static void release_multi(struct udp_ep *ep)
{
    void *context = recv_queue_at(&ep->posted, 0)->context;

    recv_queue_pop(&ep->posted);
    if (ep->base.binding.rx)
        cq_write(ep->base.binding.rx, context, FI_MULTI_RECV, 0, NULL, 0, 0, FI_ADDR_NOTAVAIL);
}

static bool slice_fits(const struct posted_recv *rx, size_t len)
{
    return !rx->offset || len <= rx->room - rx->offset;
}

/* ---- Datagrams that wait for a receive ---- */

bool udp_receive_has_spilled(const struct udp_ep *ep)
{
    return ep->spill && ep->spill->at < ep->spill->end;
}

static size_t next_len(const struct arrival *arrival, size_t left)
{
    return left < arrival->segment ? left : arrival->segment;
}

/* A datagram of the spill, into the first receive. */
static void place(struct udp_ep *ep, struct udp_spill *spill, size_t len)
{
    const struct posted_recv *rx = recv_queue_at(&ep->posted, 0);
    const struct iovec from = {.iov_base = spill->bytes + spill->at, .iov_len = len};
    struct iovec rest = {.iov_base = (char *)rx->iov[0].iov_base + rx->offset,
                         .iov_len = rx->room - rx->offset};

    spill->at += len;
    if (rx->multi) {
        iov_copy(&rest, 1, &from, 1);
        deliver_slice(ep, &spill->arrival, len, false);
    } else {
        iov_copy(rx->iov, rx->count, &from, 1);
        deliver_plain(ep, &spill->arrival, len);
    }
}

void udp_receive_spilled(struct udp_ep *ep)
{
    struct udp_spill *spill = ep->spill;

    while (spill->at < spill->end && recv_queue_count(&ep->posted)) {
        const struct posted_recv *rx = recv_queue_at(&ep->posted, 0);
        size_t len = next_len(&spill->arrival, spill->end - spill->at);

        if (rx->multi && !slice_fits(rx, len))
            release_multi(ep);
        else
            place(ep, spill, len);
    }
}

/* Bytes that were read into the first receive and the spill behind it, from `skip` on, move to the
 * spill's begin. */
static void move_to_spill(struct udp_ep *ep, const struct iovec *iov, size_t count, size_t skip,
                          const struct arrival *arrival)
{
    struct udp_spill *spill = ep->spill;
    size_t room = iov_bytes(iov, count), from_spill, from_iov = 0;

    spill->arrival = *arrival;
    spill->at = 0;
    spill->end = arrival->len - skip;
    if (skip >= room) {
        memmove(spill->bytes, spill->bytes + (skip - room), spill->end);
        return;
    }
    from_spill = arrival->len > room ? arrival->len - room : 0;
    memmove(spill->bytes + (spill->end - from_spill), spill->bytes, from_spill);
    for (size_t i = 0; i < count && from_iov < spill->end - from_spill; i++) {
        size_t len = iov[i].iov_len, want = spill->end - from_spill - from_iov;

        if (skip >= len) {
            skip -= len;
            continue;
        }
        len -= skip;
        len = len < want ? len : want;
        memcpy(spill->bytes + from_iov, (const char *)iov[i].iov_base + skip, len);
        from_iov += len;
        skip = 0;
    }
}

/* ---- One read ---- */

static void start_header(const struct udp_ep *ep, struct msghdr *header, struct arrival *arrival,
                         union control *control)
{
    memset(header, 0, sizeof(*header));
    header->msg_name = &arrival->from;
    header->msg_namelen = sizeof(arrival->from);
    header->msg_control = control->bytes;
    header->msg_controllen = sizeof(control->bytes);
    arrival->notes = 0;
}

static void record(const struct udp_socket *sock, const struct arrival *arrival,
                   const struct iovec *iov, size_t count)
{
    for (size_t at = 0; at < arrival->len || !at; at += arrival->segment) {
        pcap_datagram(sock->flow, true, &arrival->from.sa, iov, count, at,
                      next_len(arrival, arrival->len - at));
        if (!arrival->segment)
            return;
    }
}

/* An error of a call that reads: true when another try makes sense. */
static bool read_again(struct udp_ep *ep, int err)
{
    return err == EINTR || (err != EAGAIN && ep->base.eq && udp_errors_read(ep));
}

/* Is the kernel asked for the sender? To copy its name takes it a seventh of the time of a call. */
static inline bool is_named(const struct udp_ep *ep, const struct udp_socket *sock)
{
    return (ep->knows_sources && !udp_hot_knows(&ep->hot, sock)) || pcap_on(sock->flow);
}

static inline void note_sender(struct udp_ep *ep, const struct udp_socket *sock, bool named,
                               struct arrival *arrival)
{
    if (named)
        udp_hot_came_from(&ep->hot, sock, &arrival->from);
    else if (ep->knows_sources)
        arrival->from = ep->hot.sender;
}

/* One recvmsg into the first receive. False: there was nothing. */
static bool read_one(struct udp_ep *ep, struct udp_socket *sock, struct iovec *iov, size_t count,
                     struct arrival *arrival)
{
    bool named = is_named(ep, sock);
    struct msghdr header;
    union control control;
    ssize_t rc;

    do {
        start_header(ep, &header, arrival, &control);
        if (!named)
            header.msg_name = NULL;
        header.msg_iov = iov;
        header.msg_iovlen = count;
        rc = recvmsg(sock->fd, &header, MSG_DONTWAIT | MSG_TRUNC);
    } while (rc < 0 && read_again(ep, errno));
    if (rc < 0)
        return false;
    arrival->len = arrival->segment = (size_t)rc;
    udp_traffic_note(ep, arrival->len);
    note_sender(ep, sock, named, arrival);
    read_controls(ep, sock, &header, arrival);
    if (pcap_on(sock->flow))
        record(sock, arrival, iov, count);
    return true;
}

/* May the next read be read_bare? */
static inline bool is_bare(const struct udp_ep *ep)
{
    return ep->burst == 1 && !ep->gro && !(ep->notes & OPT_NOTES_ECN) && !udp_ep_is_timed(ep);
}

/* The same by recvfrom, which costs less: where nothing but the sender is told, of a lone datagram.
 * The kernel's count of drops comes with those that are not alone. */
static bool read_bare(struct udp_ep *ep, struct udp_socket *sock, const struct iovec *iov,
                      struct arrival *arrival)
{
    bool named = is_named(ep, sock);
    socklen_t len = sizeof(arrival->from);
    ssize_t rc;

    do {
        rc = recvfrom(sock->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT | MSG_TRUNC,
                      named ? &arrival->from.sa : NULL, named ? &len : NULL);
    } while (rc < 0 && read_again(ep, errno));
    if (rc < 0)
        return false;
    arrival->len = arrival->segment = (size_t)rc;
    udp_traffic_note(ep, arrival->len);
    arrival->notes = 0;
    note_sender(ep, sock, named, arrival);
    if (pcap_on(sock->flow))
        record(sock, arrival, iov, 1);
    return true;
}

static bool receive_plain(struct udp_ep *ep, struct udp_socket *sock)
{
    struct posted_recv *rx = recv_queue_at(&ep->posted, 0);
    bool bare = rx->count == 1 && is_bare(ep);
    struct arrival arrival;

    if (bare ? !read_bare(ep, sock, rx->iov, &arrival)
             : !read_one(ep, sock, rx->iov, rx->count, &arrival))
        return false;
    deliver_plain(ep, &arrival, arrival.len);
    return true;
}

/* ---- Several reads by one call ---- */

/* The receives that the call is for: plain ones, at most `most`. */
static unsigned plain_ahead(const struct udp_ep *ep, unsigned most)
{
    size_t count = recv_queue_count(&ep->posted);
    unsigned ahead = 0;

    while (ahead < most && ahead < count && !recv_queue_at(&ep->posted, ahead)->multi)
        ahead++;
    return ahead;
}

static unsigned receive_several(struct udp_ep *ep, struct udp_socket *sock, unsigned most)
{
    struct mmsghdr messages[UDP_BURST_MAX];
    struct arrival arrivals[UDP_BURST_MAX];
    union control controls[UDP_BURST_MAX];
    int rc;

    do {
        for (unsigned i = 0; i < most; i++) {
            struct posted_recv *rx = recv_queue_at(&ep->posted, i);

            start_header(ep, &messages[i].msg_hdr, &arrivals[i], &controls[i]);
            messages[i].msg_hdr.msg_iov = rx->iov;
            messages[i].msg_hdr.msg_iovlen = rx->count;
        }
        rc = recvmmsg(sock->fd, messages, most, MSG_DONTWAIT | MSG_TRUNC, NULL);
    } while (rc < 0 && read_again(ep, errno));
    for (int i = 0; i < rc; i++) {
        struct posted_recv *rx = recv_queue_at(&ep->posted, 0);

        arrivals[i].len = arrivals[i].segment = messages[i].msg_len;
        read_controls(ep, sock, &messages[i].msg_hdr, &arrivals[i]);
        if (pcap_on(sock->flow))
            record(sock, &arrivals[i], rx->iov, rx->count);
        deliver_plain(ep, &arrivals[i], arrivals[i].len);
    }
    return rc > 0 ? (unsigned)rc : 0;
}

/* ---- Reads with the spill behind them ---- */

/* How many bytes of what was read into the rest of a multi-receive buffer may stay there: whole
 * datagrams. */
static size_t stays(const struct posted_recv *rx, const struct arrival *arrival)
{
    size_t left = rx->room - rx->offset, kept = 0;

    while (kept < arrival->len) {
        size_t len = next_len(arrival, arrival->len - kept);

        if (len > left)
            break;
        kept += len;
        left -= len;
    }
    return kept;
}

static void deliver_multi(struct udp_ep *ep, const struct arrival *arrival,
                          const struct iovec *rest)
{
    struct posted_recv *rx = recv_queue_at(&ep->posted, 0);
    size_t kept = stays(rx, arrival);

    if (!arrival->len || (!kept && !rx->offset)) {
        /* Nothing in it, or longer than all of the buffer. */
        size_t first = next_len(arrival, arrival->len);

        if (first < arrival->len)
            move_to_spill(ep, rest, 1, first, arrival);
        deliver_slice(ep, arrival, first, false);
        return;
    }
    if (kept < arrival->len)
        move_to_spill(ep, rest, 1, kept, arrival);
    else if (kept > arrival->segment && deliver_train(ep, arrival, kept))
        return;
    for (size_t at = 0; at < kept;) {
        size_t len = next_len(arrival, kept - at);

        at += len;
        deliver_slice(ep, arrival, len, at < kept);
    }
}

static bool receive_spilling(struct udp_ep *ep, struct udp_socket *sock)
{
    struct posted_recv *rx = recv_queue_at(&ep->posted, 0);
    struct iovec iov[UDP_IOV_LIMIT + 1];
    struct arrival arrival;
    size_t count = rx->count;

    memcpy(iov, rx->iov, count * sizeof(*iov));
    if (rx->multi) {
        iov[0].iov_base = (char *)iov[0].iov_base + rx->offset;
        iov[0].iov_len -= rx->offset;
    }
    if (rx->multi && iov[0].iov_len >= SPILL_BYTES) {
        if (is_bare(ep) ? !read_bare(ep, sock, iov, &arrival)
                        : !read_one(ep, sock, iov, 1, &arrival))
            return false;
        deliver_multi(ep, &arrival, iov); /* all of it has room */
        return true;
    }
    iov[count] = (struct iovec){.iov_base = ep->spill->bytes, .iov_len = SPILL_BYTES};
    if (!read_one(ep, sock, iov, count + 1, &arrival))
        return false;
    if (rx->multi) {
        deliver_multi(ep, &arrival, iov);
    } else {
        size_t first = next_len(&arrival, arrival.len);

        if (first < arrival.len)
            move_to_spill(ep, iov, count, first, &arrival);
        deliver_plain(ep, &arrival, first);
    }
    if (udp_receive_has_spilled(ep))
        udp_receive_spilled(ep);
    return true;
}

/* ---- All sockets ---- */

/* Up to `burst` reads; how many there were. */
static unsigned receive_from(struct udp_ep *ep, struct udp_socket *sock)
{
    unsigned done = 0;

    while (done < ep->burst && recv_queue_count(&ep->posted)) {
        unsigned ahead = ep->gro || ep->burst == 1 ? 0 : plain_ahead(ep, ep->burst - done);
        unsigned got;

        if (ahead > 1) {
            got = receive_several(ep, sock, ahead);
            done += got;
            if (got < ahead)
                break;
            continue;
        }
        if (ep->spill && (ep->gro || recv_queue_at(&ep->posted, 0)->multi))
            got = receive_spilling(ep, sock);
        else
            got = receive_plain(ep, sock);
        done += got;
        if (!got || udp_receive_has_spilled(ep))
            break;
    }
    return done;
}

/* The main socket's, and those of the hot peer. */
static unsigned receive_hot(struct udp_ep *ep)
{
    struct udp_socket *first, *second;
    unsigned most, got;

    udp_hot_order(ep, &first, &second);
    most = receive_from(ep, first);
    if (most)
        udp_hot_brought(ep, first, most);
    if (__builtin_expect(!second, 1) || udp_receive_has_spilled(ep))
        return most;
    got = receive_from(ep, second);
    if (got)
        udp_hot_brought(ep, second, got);
    return got > most ? got : most;
}

static unsigned receive_from_all(struct udp_ep *ep)
{
    unsigned most = ep->hot.sock.fd < 0 ? receive_from(ep, &ep->main) : receive_hot(ep);

    list_for_each (pos, &ep->groups) {
        struct udp_group *group = list_item(pos, struct udp_group, link);
        unsigned got =
            group->sock.fd < 0 || udp_receive_has_spilled(ep) ? 0 : receive_from(ep, &group->sock);

        most = got > most ? got : most;
    }
    return most;
}

void udp_receive(struct udp_ep *ep)
{
    unsigned most;

    if (udp_receive_has_spilled(ep))
        udp_receive_spilled(ep);
    if (!recv_queue_count(&ep->posted))
        return;
    ep->receiving = true;
    most = receive_from_all(ep);
    ep->receiving = false;
    udp_traffic_follow(ep, most);
}

/* ---- Multi-receive buffers ---- */

int udp_receive_prepare(struct udp_ep *ep, size_t room)
{
    if (!ep->spill) {
        ep->spill = malloc(sizeof(*ep->spill));
        if (!ep->spill)
            return -FI_ENOMEM;
        ep->spill->at = ep->spill->end = 0;
    }
    if (room >= SPILL_BYTES && ep->fabric->settings.gro)
        udp_traffic_want_gro(ep);
    return 0;
}

void udp_receive_finish(struct udp_ep *ep)
{
    free(ep->spill);
    ep->spill = NULL;
    recv_queue_finish(&ep->posted);
}
