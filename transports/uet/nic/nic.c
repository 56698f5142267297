/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: a packet is a header, which is copied, and a payload, which is copied where it is short
 * and named where it stays. Receiving: one recvmsg for the first packet, or one recvmmsg for as
 * many as came last time.
 */
#include "transports/uet/nic/nic.h"

#include <errno.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "core/net/datagram.h"
#include "core/net/icmp.h"
#include "transports/uet/nic/entropy.h"
#include "transports/uet/nic/hot.h"
#include "transports/uet/nic/outbox.h"
#include "transports/uet/nic/path.h"
#include "transports/uet/nic/share.h"
#include "transports/uet/nic/socket.h"
#include "transports/uet/nic/steer.h"
#include "transports/uet/nic/way.h"
#include "transports/uet/wire/trailer.h"
#include "transports/uet/wire/whole.h"

enum {
    BURST_MAX = 8, /* reads of one call of the kernel */
    STREAK = 3,
    ALONE = 8,    /* packets in turn, each with nothing behind it: the next will be, too */
    NOTED = 16,   /* of packets that come alone, one of so many is asked for its marks */
    DROPS = 4096, /* reads */
    HOT = 255,    /* a packet's source: the hot peer's socket */
    TRIES = 3,    /* of a call that fails */
    READ_BYTES = 65536,
    CONTROL = 128,
};

/* One read: a packet, or several of one length. */
struct slot {
    union addr from;
    struct iovec iov;
    _Alignas(struct cmsghdr) char control[CONTROL];
};

struct uet_nic {
    int fd;
    unsigned source_count;
    struct source {
        int fd;
        union addr addr;
    } sources[UET_NIC_ENTROPY];  /* of requests, by PDC: */
    struct uet_entropy *entropy; /* NULL: there are none */
    bool gso, gro, crc, short_rudi;
    bool told;               /* the kernel keeps ICMP errors */
    bool too_long;           /* a packet was, for its route, and that was told */
    bool came;               /* packets have, since the queue was found empty */
    bool merges;             /* the kernel puts packets together without asking whose they are */
    struct uet_share *share; /* NULL: the port is of this NIC alone; else: */
    uint64_t ids;            /* uet_share_blocks */
    struct uet_ways *ways;   /* NULL: the NIC has one address */
    uint64_t damaged, misled;
    union addr addr;
    uint32_t packet;
    struct pcap_flow *flow;
    void *together;  /* memory for packets that leave so; NULL until there were some */
    unsigned burst;  /* reads to ask for at once */
    unsigned streak; /* looks, one after the other, that found a packet */
    unsigned alone;  /* packets that came alone, one after the other */
    bool lone;       /* the next does, too: the kernel puts none together */
    uint8_t *read;   /* BURST_MAX times READ_BYTES */
    struct mmsghdr messages[BURST_MAX];
    struct slot slots[BURST_MAX];
    struct uet_hot hot;
    struct outbox outbox;
};

/* ---- Opening ---- */

static void set_options(int fd, sa_family_t family, const struct uet_nic_settings *settings)
{
    const struct uet_socket_options asked = {
        .rx_buffer = settings->rx_buffer,
        .tx_buffer = settings->tx_buffer,
        .dscp = settings->dscp,
        .gro = settings->gro,
    };

    uet_socket_set_options(fd, family, &asked);
}

static int bind_to(struct uet_nic *nic, int port)
{
    union addr addr = nic->addr;

    addr_set_port(&addr.sa, (uint16_t)port);
    return bind(nic->fd, &addr.sa, addr_size(&addr.sa)) ? -errno : 0;
}

static int make_socket(struct uet_nic *nic, const struct uet_nic_settings *settings)
{
    nic->fd = socket(nic->addr.sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (nic->fd < 0)
        return -errno;
    set_options(nic->fd, nic->addr.sa.sa_family, settings);
    if (nic->ways)
        uet_ways_ask(nic->fd, nic->addr.sa.sa_family);
    return 0;
}

/* At the port that endpoints share. Where that cannot be the socket is new. */
static int join(struct uet_nic *nic, const struct uet_nic_settings *settings)
{
    union addr addr = nic->addr;
    int rc;

    addr_set_port(&addr.sa, (uint16_t)settings->port);
    rc = uet_share_open(&addr, &nic->share);
    if (rc)
        return rc;
    uet_socket_set(nic->fd, SOL_SOCKET, SO_REUSEPORT, 1);
    rc = bind_to(nic, settings->port);
    if (!rc)
        rc = uet_share_join(nic->share, nic->fd, settings->slot);
    if (!rc) {
        nic->ids = uet_share_blocks(nic->share);
        return 0;
    }
    uet_share_close(nic->share, nic->fd);
    nic->share = NULL;
    return make_socket(nic, settings) ? -FI_ENOMEM : rc;
}

static int open_socket(struct uet_nic *nic, const struct uet_nic_settings *settings)
{
    socklen_t len = sizeof(nic->addr);
    int port = addr_port(&nic->addr.sa), rc = make_socket(nic, settings);

    if (rc)
        return rc;
    rc = -FI_EOPNOTSUPP;
    /* At every address the port is its own: else what comes to an address at which another endpoint
     * is would be that one's. */
    if (settings->shared && !nic->ways && (!port || port == settings->port))
        rc = join(nic, settings);
    if (rc && rc != -EADDRINUSE && rc != -FI_ENOMEM)
        rc = bind_to(nic, port ? port : settings->port);
    if (rc == -EADDRINUSE && !port && settings->elsewhere)
        rc = bind_to(nic, 0);
    if (!rc && getsockname(nic->fd, &nic->addr.sa, &len))
        rc = -errno;
    return rc;
}

/* Sockets at ports that the kernel chooses: nothing comes to them but what the network says of
 * packets that left. */
static int open_sources(struct uet_nic *nic, const struct uet_nic_settings *settings)
{
    for (unsigned i = 0; i < settings->entropy && i < UET_NIC_ENTROPY; i++) {
        struct source *source = &nic->sources[i];
        socklen_t len = sizeof(source->addr);

        source->addr = nic->addr;
        addr_set_port(&source->addr.sa, 0);
        source->fd = socket(nic->addr.sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (source->fd < 0)
            return -errno;
        nic->source_count++;
        set_options(source->fd, nic->addr.sa.sa_family, settings);
        if (bind(source->fd, &source->addr.sa, addr_size(&source->addr.sa)) ||
            getsockname(source->fd, &source->addr.sa, &len))
            return -errno;
    }
    if (nic->source_count)
        nic->entropy = uet_entropy_open(nic->source_count);
    return nic->source_count && !nic->entropy ? -FI_ENOMEM : 0;
}

static void set_slots(struct uet_nic *nic)
{
    for (int i = 0; i < BURST_MAX; i++) {
        struct slot *slot = &nic->slots[i];

        slot->iov = (struct iovec){nic->read + (size_t)i * READ_BYTES, READ_BYTES};
        nic->messages[i].msg_hdr = (struct msghdr){
            .msg_name = &slot->from,
            .msg_iov = &slot->iov,
            .msg_iovlen = 1,
            .msg_control = slot->control,
        };
    }
}

static int start(struct uet_nic *nic, const struct uet_nic_settings *settings)
{
    bool any = addr_is_any(&nic->addr.sa);
    int rc;

    if (any && settings->crc)
        return -FI_EINVAL;
    nic->read = malloc((size_t)BURST_MAX * READ_BYTES);
    if (any)
        nic->ways = uet_ways_open(&settings->name);
    if (!nic->read || (any && !nic->ways))
        return -FI_ENOMEM;
    set_slots(nic);
    rc = open_socket(nic, settings);
    if (!rc)
        rc = open_sources(nic, settings);
    if (!rc)
        nic->flow = pcap_socket_open(settings->pcap, &nic->addr.sa);
    uet_hot_init(&nic->hot, nic->share || nic->ways || nic->source_count);
    nic->merges = nic->share && settings->gro && !addr_is_loopback(&nic->addr.sa);
    return rc;
}

int uet_nic_open(const union addr *addr, const struct uet_nic_settings *settings,
                 struct uet_nic **ret_nic)
{
    struct uet_nic *nic = calloc(1, sizeof(*nic));
    int rc;

    if (!nic)
        return -FI_ENOMEM;
    nic->fd = nic->hot.fd = -1;
    nic->addr = *addr;
    nic->packet = settings->packet + UET_PATH_HEADERS;
    nic->gso = settings->gso;
    nic->gro = settings->gro;
    nic->short_rudi = settings->short_rudi;
    nic->crc = settings->crc;
    nic->burst = 1;
    rc = start(nic, settings);
    if (rc) {
        uet_nic_close(nic);
        return rc;
    }
    *ret_nic = nic;
    return 0;
}

void uet_nic_close(struct uet_nic *nic)
{
    if (!nic)
        return;
    if (nic->fd >= 0) {
        uet_nic_flush(nic);
        uet_share_close(nic->share, nic->fd);
    }
    uet_hot_close(&nic->hot);
    for (unsigned i = 0; i < nic->source_count; i++)
        close(nic->sources[i].fd);
    pcap_flow_close(nic->flow);
    uet_entropy_close(nic->entropy);
    uet_ways_close(nic->ways);
    free(nic->read);
    free(nic->together);
    free(nic);
}

const union addr *uet_nic_addr(const struct uet_nic *nic)
{
    return &nic->addr;
}

uint16_t uet_nic_pid(const struct uet_nic *nic)
{
    return nic->share ? (uint16_t)(uet_share_slot(nic->share) * STEER_PIDS) : 0;
}

uint64_t uet_nic_ids(const struct uet_nic *nic)
{
    return nic->share ? nic->ids : UINT64_MAX;
}

bool uet_nic_more_ids(struct uet_nic *nic)
{
    if (!nic->share || !uet_share_grow(nic->share))
        return false;
    nic->ids = uet_share_blocks(nic->share);
    return true;
}

int uet_nic_fd(const struct uet_nic *nic)
{
    return nic->fd;
}

/* ---- Sending ---- */

static void sent(struct uet_nic *nic, unsigned count)
{
    if (pcap_on(nic->flow))
        for (unsigned i = 0; i < count; i++) {
            const struct datagram *d = &outbox_first(&nic->outbox)[i].datagram;

            pcap_datagram(nic->flow, false, &d->to.sa, d->iov, d->count, 0, d->len);
        }
    outbox_drop(&nic->outbox, count);
}

/* The kernel refuses packets, and not for want of room: they are lost. Where it refuses a run as a
 * whole, its packets are tried one by one. */
static void refused(struct uet_nic *nic, unsigned run, int err)
{
    const struct datagram *datagram = &outbox_first(&nic->outbox)->datagram;
    char text[ADDR_TEXT_MAX];

    if (run > 1 && nic->gso) {
        nic->gso = false;
        LOG_INFO("uet", FI_LOG_EP_DATA, "packets are sent one by one: UDP_SEGMENT: %s",
                 strerror(err));
        return;
    }
    addr_text(&datagram->to.sa, text, sizeof(text));
    LOG_INFO("uet", FI_LOG_EP_DATA, "a packet of %zu bytes to %s is lost: %s", datagram->len, text,
             strerror(err));
    if (err == EMSGSIZE && !nic->too_long) {
        nic->too_long = true;
        LOG_WARN("uet", FI_LOG_EP_DATA,
                 "packets of %zu bytes do not reach %s: the MTU of the route has become less than "
                 "it was when their payload was chosen (payload= limits it)",
                 datagram->len, text);
    }
    outbox_drop(&nic->outbox, run);
}

/* A call failed: by itself, or by an ICMP error of an earlier packet, each of which fails one call.
 * True: it is to be tried again. */
static bool is_told(struct uet_nic *nic, int err, unsigned tries)
{
    nic->told = true;
    return err == ECONNREFUSED || tries < TRIES;
}

/* Neighbours that leave from the same socket as the first. */
static unsigned same_source(const struct uet_nic *nic)
{
    const struct leaving *first = &nic->outbox.leaving[nic->outbox.first];
    unsigned count = outbox_waiting(&nic->outbox);

    for (unsigned i = 1; (nic->source_count || nic->hot.fd >= 0) && i < count; i++)
        if (first[i].source != first->source)
            return i;
    return count;
}

static int socket_of(const struct uet_nic *nic, const struct leaving *leaving)
{
    if (leaving->source == HOT)
        return nic->hot.fd;
    return leaving->source < nic->source_count ? nic->sources[leaving->source].fd : nic->fd;
}

/* Packets that wait leave by the main socket, since the other one's call was refused. */
static void cool(struct uet_nic *nic)
{
    struct leaving *first = outbox_first(&nic->outbox);

    uet_hot_cool(&nic->hot);
    for (unsigned i = 0; i < outbox_waiting(&nic->outbox); i++)
        first[i].source = 0;
}

bool uet_nic_flush(struct uet_nic *nic)
{
    unsigned run, tries = 0;

    if (outbox_waiting(&nic->outbox) > 1)
        datagram_memory(&nic->together);
    while (outbox_waiting(&nic->outbox)) {
        const struct leaving *first = outbox_first(&nic->outbox);
        const struct datagrams left = {
            .first = &first->datagram,
            .stride = sizeof(*first),
            .count = same_source(nic),
            .connected = first->source == HOT,
            .memory = nic->together,
        };
        int rc = datagrams_send(socket_of(nic, first), &left, nic->gso, &run);

        if (rc == 1 && outbox_waiting(&nic->outbox) == 1 && !left.connected)
            uet_hot_note(&nic->hot, &first->datagram.to);
        if (rc > 0)
            sent(nic, (unsigned)rc);
        else if (errno == EAGAIN || errno == ENOBUFS)
            return false;
        else if (errno == EINTR || is_told(nic, errno, tries++))
            continue;
        else if (left.connected)
            cool(nic);
        else
            refused(nic, run, errno);
    }
    return true;
}

bool uet_nic_warms(const struct uet_nic *nic)
{
    return uet_hot_is_due(&nic->hot);
}

int uet_nic_heat(struct uet_nic *nic)
{
    cool(nic); /* what waits is for the one before */
    uet_hot_heat(&nic->hot, nic->fd, &nic->addr);
    return nic->hot.fd;
}

void uet_nic_freeze(struct uet_nic *nic)
{
    if (nic->hot.fd < 0)
        return;
    if (outbox_waiting(&nic->outbox))
        cool(nic);
    uet_hot_close(&nic->hot);
}

void uet_nic_before_sleep(struct uet_nic *nic)
{
    uet_hot_before_sleep(&nic->hot);
}

void uet_nic_forget(struct uet_nic *nic)
{
    if (nic->outbox.named && !uet_nic_flush(nic))
        outbox_drop(&nic->outbox, outbox_waiting(&nic->outbox));
}

unsigned uet_nic_waiting(const struct uet_nic *nic)
{
    return outbox_waiting(&nic->outbox);
}

/* There is a place for one more. False: as many wait as can be, and the kernel takes none. */
static bool has_place(struct uet_nic *nic)
{
    if (outbox_is_full(&nic->outbox) && !uet_nic_flush(nic))
        outbox_move_up(&nic->outbox);
    return !outbox_is_full(&nic->outbox);
}

static void add_trailer(const struct uet_nic *nic, struct leaving *leaving)
{
    struct datagram *datagram = &leaving->datagram;

    trailer_put(leaving->source < nic->source_count ? &nic->sources[leaving->source].addr
                                                    : &nic->addr,
                &datagram->to, datagram->iov, datagram->count, leaving->trailer);
    outbox_add_trailer(leaving);
}

/* Packets to endpoints that share a port leave apart: the kernel looks at a run's first only. */
static void set_flow(struct datagram *datagram)
{
    struct steer steer = {.kind = STEER_BLOCK};
    unsigned block;

    if (steer_names_block(datagram->iov[0].iov_base, datagram->iov[0].iov_len, &block))
        steer.number = (uint8_t)block;
    else
        steer = steer_of(datagram->iov[0].iov_base, datagram->iov[0].iov_len);
    datagram->flow = (uint32_t)steer.kind << 8 | steer.number;
}

void uet_nic_send(struct uet_nic *nic, const union addr *to, const struct iovec *iov, size_t count,
                  bool stays)
{
    struct leaving *leaving;
    struct datagram *datagram;

    if (__builtin_expect(!has_place(nic), 0))
        return;
    leaving = outbox_add(&nic->outbox, iov, count);
    datagram = &leaving->datagram;
    datagram->to = *to;
    datagram->from = nic->ways ? uet_ways_to(nic->ways, to) : NULL;
    leaving->source = (uint8_t)(nic->entropy ? uet_entropy_of(nic->entropy, datagram->iov->iov_base,
                                                              datagram->iov->iov_len)
                                : uet_hot_is(&nic->hot, to) ? HOT
                                                            : 0);
    if (nic->share)
        set_flow(datagram);
    if (nic->crc)
        add_trailer(nic, leaving);
    if (leaving->named && !stays)
        uet_nic_forget(nic);
}

/* ---- Receiving ---- */

static void note_way(struct uet_nic *nic, struct msghdr *header, const union addr *from)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c))
        uet_ways_note(nic->ways, from, c);
}

typedef void take_packet(void *arg, const union addr *from, const uint8_t *bytes, size_t len,
                         bool marked);

static bool is_whole(const struct uet_nic *nic, const union addr *from, const uint8_t *bytes,
                     size_t len)
{
    return len <= nic->packet && (!nic->crc || trailer_check(from, &nic->addr, bytes, len));
}

uint64_t uet_nic_damaged(const struct uet_nic *nic)
{
    return nic->damaged;
}

uint64_t uet_nic_misled(const struct uet_nic *nic)
{
    return nic->misled;
}

static bool is_misled(struct uet_nic *nic, uint64_t now, const uint8_t *bytes, size_t len)
{
    unsigned block;

    if (!nic->share || (steer_names_block(bytes, len, &block) && nic->ids >> block & 1) ||
        !uet_share_has_company(nic->share) || !uet_share_is_foreign(nic->share, now, bytes, len))
        return false;
    nic->misled++;
    return true;
}

static void take_one(struct uet_nic *nic, const union addr *from, const uint8_t *bytes, size_t len,
                     bool marked, take_packet *take, void *arg)
{
    size_t size = len - (nic->crc ? TRAILER_SIZE : 0);

    if (nic->entropy)
        uet_entropy_hear(nic->entropy, bytes, size);
    take(arg, from, bytes, size, marked);
}

/* How many packets it has. */
static unsigned take_read(struct uet_nic *nic, uint64_t now, unsigned i, take_packet *take,
                          void *arg)
{
    struct slot *slot = &nic->slots[i];
    unsigned packets = 0;
    union addr sender = slot->from;
    const uint8_t *bytes = slot->iov.iov_base;
    size_t len = nic->messages[i].msg_len, segment = len;
    bool marked = uet_socket_notes(&nic->messages[i].msg_hdr, &segment);

    if (nic->source_count) /* its source port is a path, not a place */
        addr_set_port(&sender.sa, addr_port(&nic->addr.sa));
    if (nic->ways)
        note_way(nic, &nic->messages[i].msg_hdr, &sender);
    for (size_t at = 0; at < len; at += segment, packets++) {
        size_t size = len - at < segment ? len - at : segment;

        if (nic->share && steer_is_inquiry(bytes + at, size)) {
            uet_share_hear(nic->share, bytes + at);
            continue;
        }
        if (pcap_on(nic->flow))
            pcap_datagram(nic->flow, true, &slot->from.sa, &slot->iov, 1, at, size);
        if (!is_whole(nic, &slot->from, bytes + at, size))
            nic->damaged++;
        else if (!is_misled(nic, now, bytes + at, size))
            take_one(nic, &sender, bytes + at, size, marked, take, arg);
    }
    return packets;
}

static int read_some(struct uet_nic *nic, int fd)
{
    struct msghdr *header = &nic->messages[0].msg_hdr;
    ssize_t len;

    for (unsigned i = 0; i < nic->burst; i++) {
        nic->messages[i].msg_hdr.msg_namelen = sizeof(union addr);
        nic->messages[i].msg_hdr.msg_controllen = sizeof(nic->slots[i].control);
    }
    if (nic->burst > 1)
        return recvmmsg(fd, nic->messages, nic->burst, MSG_DONTWAIT, NULL);
    len = recvmsg(fd, header, MSG_DONTWAIT);
    if (len < 0)
        return -1;
    nic->messages[0].msg_len = (unsigned)len;
    return 1;
}

/* As many as come: one where a program waits for each, more where it is behind, which shows in
 * that each look finds something. */
static void set_burst(struct uet_nic *nic, unsigned came)
{
    unsigned more = came < nic->burst ? came : 2 * nic->burst;

    if (nic->burst == 1 && ++nic->streak < STREAK)
        return;
    nic->burst = more < BURST_MAX ? more : BURST_MAX;
}

bool uet_nic_is_refused(const struct uet_nic *nic)
{
    return nic->told;
}

/* As icmp_read, of all sockets. */
static int read_refusal(const struct uet_nic *nic, struct icmp_error *error,
                        struct uet_nic_refusal *refusal)
{
    int rc = icmp_read(nic->fd, error, refusal->quote, sizeof(refusal->quote));

    if (rc < 0 && nic->hot.fd >= 0)
        rc = icmp_read(nic->hot.fd, error, refusal->quote, sizeof(refusal->quote));
    for (unsigned i = 0; rc < 0 && i < nic->source_count; i++)
        rc = icmp_read(nic->sources[i].fd, error, refusal->quote, sizeof(refusal->quote));
    return rc;
}

bool uet_nic_refusal(struct uet_nic *nic, struct uet_nic_refusal *refusal)
{
    struct icmp_error error;
    int rc;

    while (nic->told) {
        rc = read_refusal(nic, &error, refusal);
        nic->told = rc >= 0;
        if (rc <= 0 || error.err != ECONNREFUSED)
            continue;
        refusal->to = error.to;
        refusal->len = error.quoted;
        return true;
    }
    return false;
}

/* A device that puts packets of one sender together does not ask which endpoint each is for. The
 * queue has just been read empty: what has come since may be several in one piece, and nothing
 * would tell how long each is. It is lost, and comes again. */
static void stop_merging(struct uet_nic *nic)
{
    nic->merges = nic->gro = false;
    uet_socket_set(nic->fd, SOL_UDP, UDP_GRO, 0);
    for (int i = 0; i < DROPS && read_some(nic, nic->fd) > 0; i++)
        ;
}

/* The queue is empty, and there are other endpoints at the port. */
static void look_around(struct uet_nic *nic, uint64_t now)
{
    if (nic->merges)
        stop_merging(nic);
    uet_share_look(nic->share, now, nic->came);
    nic->came = false;
}

uint64_t uet_nic_due(const struct uet_nic *nic)
{
    return nic->share ? uet_share_due(nic->share) : UINT64_MAX;
}

/* ---- Packets that come alone ---- */

static void set_gro(const struct uet_nic *nic, int on)
{
    if (!nic->gro)
        return;
    uet_socket_set(nic->fd, SOL_UDP, UDP_GRO, on);
    if (nic->hot.fd >= 0)
        uet_socket_set(nic->hot.fd, SOL_UDP, UDP_GRO, on);
}

/* fd: -1 is no socket. */
static bool is_empty(struct uet_nic *nic, int fd)
{
    ssize_t rc = fd < 0 ? -1 : recv(fd, NULL, 0, MSG_PEEK | MSG_DONTWAIT);

    nic->told |= fd >= 0 && rc < 0 && errno != EAGAIN && errno != EINTR;
    return fd < 0 || (rc < 0 && errno == EAGAIN);
}

/*
 * A program that waits for each packet has them read by recvfrom, which costs less than recvmsg
 * with notes. Nothing would tell how many packets a read has, so the kernel must not put any
 * together. The queue may hold some that it did put together: it must be empty.
 */
static void expect_alone(struct uet_nic *nic)
{
    if (nic->alone < ALONE || nic->lone || nic->ways)
        return;
    if (nic->share && uet_share_has_company(nic->share))
        return; /* which may ask whose socket this is, in what is no packet */
    nic->alone = 0;
    set_gro(nic, 0);
    nic->lone = !nic->gro || (is_empty(nic, nic->fd) && is_empty(nic, nic->hot.fd));
    if (!nic->lone)
        set_gro(nic, 1);
}

static void expect_several(struct uet_nic *nic)
{
    nic->lone = false;
    nic->alone = 0;
    set_gro(nic, 1);
}

/* As read_some. A read that is not one packet is several that the kernel had put together just when
 * it was told not to, or is wrong: it is lost, and what comes next is read with its notes. */
static int read_lone(struct uet_nic *nic, int fd)
{
    struct slot *slot = &nic->slots[0];
    struct msghdr *header = &nic->messages[0].msg_hdr;
    ssize_t len;

    header->msg_namelen = sizeof(slot->from);
    header->msg_controllen = 0;
    len = recvfrom(fd, slot->iov.iov_base, READ_BYTES, MSG_DONTWAIT, &slot->from.sa,
                   &header->msg_namelen);
    if (len < 0)
        return -1;
    nic->messages[0].msg_len = (unsigned)len;
    if (nic->crc || packet_is_whole(slot->iov.iov_base, (size_t)len, nic->short_rudi) ||
        (nic->share && steer_is_inquiry(slot->iov.iov_base, (size_t)len)))
        return 1;
    expect_several(nic);
    nic->messages[0].msg_len = 0;
    nic->damaged++;
    return 1;
}

/* Of a look that found nothing. */
static void look_ends(struct uet_nic *nic)
{
    if (!nic->lone)
        nic->alone = nic->burst == 1 ? nic->alone + nic->streak : 0;
    nic->burst = 1;
    nic->streak = 0;
    expect_alone(nic);
}

static int read_next(struct uet_nic *nic, int fd)
{
    unsigned tries = 0;
    int count;

    do {
        count = nic->lone && nic->alone % NOTED ? read_lone(nic, fd) : read_some(nic, fd);
    } while (count < 0 && (errno == EINTR || (errno != EAGAIN && is_told(nic, errno, tries++))));
    return count;
}

/* By the socket that is likely to bring something; sometimes by both. */
static int read_any(struct uet_nic *nic)
{
    struct uet_hot_order order;
    int count, from;

    if (__builtin_expect(nic->hot.fd < 0, 0))
        return read_next(nic, nic->fd);
    order = uet_hot_order(&nic->hot, nic->fd);
    from = order.first;
    count = read_next(nic, from);
    if (count <= 0 && order.second >= 0) {
        from = order.second;
        count = read_next(nic, from);
    }
    if (count > 0)
        uet_hot_brought(&nic->hot, from);
    return count;
}

unsigned uet_nic_receive(struct uet_nic *nic, uint64_t now, take_packet *take, void *arg,
                         bool *more)
{
    unsigned asked = nic->burst, packets = 0;
    int count = read_any(nic);

    if (count <= 0) {
        look_ends(nic);
        *more = false;
        if (nic->share && uet_share_has_company(nic->share))
            look_around(nic, now);
        return 0;
    }
    nic->came = true;
    set_burst(nic, (unsigned)count);
    nic->alone += nic->lone;
    if (nic->lone && nic->burst > 1)
        expect_several(nic);
    for (unsigned i = 0; i < (unsigned)count; i++)
        packets += take_read(nic, now, i, take, arg);
    if (packets > (unsigned)count)
        nic->alone = 0;
    /* Behind packets in one piece others follow. */
    *more = packets > (unsigned)count || (asked > 1 && (unsigned)count == asked);
    return (unsigned)count;
}
