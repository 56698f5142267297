/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files stay known for as long as the process: a fabric that is opened again adds to its file.
 * After a fork the file is the parent's, the child records nothing.
 */
#include "core/net/pcap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/fork.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/path.h"
#include "core/net/pcap_packet.h"
#include "core/param/param.h"

struct pcap {
    struct list link; /* of all */
    char part[32];
    char *path;
    unsigned users, generation;
    int fd; /* -1: closed, or it could not be written any more */
    bool begun;
    uint64_t size, limit;
    size_t snap;
    struct list flows;
    uint8_t block[PCAP_BLOCK_MAX];
    uint8_t payload[PCAP_PAYLOAD_MAX];
};

struct pcap_flow {
    struct list link; /* of the tap */
    struct pcap *pcap;
    union addr local, peer;
    uint32_t seq, ack;
    bool paired;    /* the other end is in this process, and records its own sends */
    bool datagrams; /* of a socket without a connection: peer is that of the last datagram */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of all taps */
static struct list taps = {&taps, &taps};

/* ---- The file ---- */

static void stop(struct pcap *pcap, const char *why)
{
    log_user("%s: the capture in '%s' ends here: %s", pcap->part, pcap->path, why);
    close(pcap->fd);
    pcap->fd = -1;
}

/* All of it, or nothing. */
static int write_block(struct pcap *pcap, const uint8_t *block, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t rc = pwrite(pcap->fd, block + done, len - done, (off_t)(pcap->size + done));

        if (rc < 0 && errno == EINTR)
            continue;
        if (rc <= 0) {
            int error = rc < 0 ? errno : ENOSPC;

            if (done && ftruncate(pcap->fd, (off_t)pcap->size))
                return -errno;
            return -error;
        }
        done += (size_t)rc;
    }
    pcap->size += len;
    return 0;
}

static void record(struct pcap *pcap, const struct pcap_packet *packet)
{
    size_t len = pcap_packet_block(packet, pcap->block);
    int rc;

    if (pcap->size + len > pcap->limit) {
        stop(pcap, "it has reached pcap_limit");
        return;
    }
    rc = write_block(pcap, pcap->block, len);
    if (rc)
        stop(pcap, strerror(-rc));
}

static bool records(const struct pcap *pcap)
{
    return pcap->fd >= 0 && pcap->generation == fork_generation;
}

/* Only the owner may read it: it holds what the application sends. */
static int file_open(struct pcap *pcap)
{
    uint8_t head[PCAP_HEAD_MAX];
    int rc;

    pcap->fd = open(pcap->path, O_WRONLY | O_CREAT | O_CLOEXEC | (pcap->begun ? 0 : O_TRUNC), 0600);
    if (pcap->fd < 0)
        return -errno;
    if (pcap->begun)
        return 0;
    pcap->size = 0;
    rc = write_block(pcap, head,
                     pcap_packet_head(pcap->part, program_invocation_short_name, (int)getpid(),
                                      pcap->snap, head));
    pcap->begun = !rc;
    if (rc) {
        close(pcap->fd);
        pcap->fd = -1;
    }
    return rc;
}

/* ---- Taps ---- */

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void start(void)
{
    fork_watch();
    pthread_atfork(lock, unlock, unlock);
}

static struct pcap *find(const char *path)
{
    list_for_each (item, &taps) {
        struct pcap *pcap = list_item(item, struct pcap, link);

        if (pcap->generation == fork_generation && !strcmp(pcap->path, path))
            return pcap;
    }
    return NULL;
}

static struct pcap *create(const char *part, const char *path)
{
    struct pcap *pcap = calloc(1, sizeof(*pcap));

    if (!pcap)
        return NULL;
    pcap->path = strdup(path);
    if (!pcap->path) {
        free(pcap);
        return NULL;
    }
    snprintf(pcap->part, sizeof(pcap->part), "%s", part);
    pcap->fd = -1;
    pcap->generation = fork_generation;
    list_init(&pcap->flows);
    list_attach(&pcap->link, &taps);
    return pcap;
}

static int pcap_hold(const char *part, const struct params *params, const char *path,
                     struct pcap **ret_tap)
{
    struct pcap *pcap = find(path);
    int rc = 0;

    if (!pcap)
        pcap = create(part, path);
    if (!pcap)
        return -ENOMEM;
    if (!pcap->users) {
        pcap->limit = params_size(params, "pcap_limit");
        pcap->snap = params_size(params, "pcap_snap");
        rc = file_open(pcap);
    }
    if (rc)
        return rc;
    pcap->users++;
    *ret_tap = pcap;
    return 0;
}

int pcap_open(const char *part, const struct params *params, struct pcap **ret_tap)
{
    const char *path = params_string(params, "pcap");
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char name[4096], why[4200];
    int rc;

    *ret_tap = NULL;
    if (!path)
        return 0;
    rc = path_expand(path, name, sizeof(name), why, sizeof(why));
    if (rc) {
        log_user("%s: pcap: %s", part, why);
        return rc;
    }
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    rc = pcap_hold(part, params, name, ret_tap);
    pthread_mutex_unlock(&mutex);
    if (rc)
        log_user("%s: cannot write the file '%s': %s (parameter pcap)", part, name, strerror(-rc));
    return rc;
}

void pcap_close(struct pcap *pcap)
{
    if (!pcap || pcap->generation != fork_generation)
        return;
    pthread_mutex_lock(&mutex);
    if (!--pcap->users && pcap->fd >= 0) {
        close(pcap->fd);
        pcap->fd = -1;
    }
    pthread_mutex_unlock(&mutex);
}

/* ---- Flows ---- */

static uint64_t now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The stream of this side, or of its peer. */
static void packet(struct pcap_flow *flow, bool inbound, unsigned flags, const void *payload,
                   size_t len)
{
    struct pcap_packet packet = {
        .datagram = flow->datagrams,
        .from = inbound ? &flow->peer : &flow->local,
        .to = inbound ? &flow->local : &flow->peer,
        .seq = inbound ? flow->ack : flow->seq,
        .ack = inbound ? flow->seq : flow->ack,
        .flags = flags,
        .inbound = inbound,
        .ns = now(),
        .payload = payload,
        .len = len,
        .snap = flow->pcap->snap,
    };

    if (records(flow->pcap))
        record(flow->pcap, &packet);
}

/* The three packets that open a connection. */
static void record_open(struct pcap_flow *flow, bool active)
{
    packet(flow, !active, PCAP_SYN, NULL, 0);
    *(active ? &flow->seq : &flow->ack) = 1;
    packet(flow, active, PCAP_SYN | PCAP_ACK, NULL, 0);
    flow->seq = flow->ack = 1;
    packet(flow, !active, PCAP_ACK, NULL, 0);
}

static struct pcap_flow *other_end(struct pcap *pcap, const struct pcap_flow *flow)
{
    list_for_each (item, &pcap->flows) {
        struct pcap_flow *other = list_item(item, struct pcap_flow, link);

        if (!other->datagrams && addr_equal(&other->local.sa, &flow->peer.sa) &&
            addr_equal(&other->peer.sa, &flow->local.sa))
            return other;
    }
    return NULL;
}

struct pcap_flow *pcap_flow_open(struct pcap *pcap, int fd, bool active)
{
    struct pcap_flow *flow = pcap ? calloc(1, sizeof(*flow)) : NULL, *other;
    socklen_t local = sizeof(flow->local), peer = sizeof(flow->peer);

    if (!flow)
        return NULL;
    flow->pcap = pcap;
    if (getsockname(fd, &flow->local.sa, &local) || getpeername(fd, &flow->peer.sa, &peer) ||
        !addr_size(&flow->local.sa) || flow->local.sa.sa_family != flow->peer.sa.sa_family) {
        free(flow);
        return NULL;
    }
    pthread_mutex_lock(&mutex);
    other = other_end(pcap, flow);
    if (other) {
        flow->paired = other->paired = true;
        flow->seq = flow->ack = 1;
    } else {
        record_open(flow, active);
    }
    list_attach(&flow->link, &pcap->flows);
    pthread_mutex_unlock(&mutex);
    return flow;
}

void pcap_flow_close(struct pcap_flow *flow)
{
    if (!flow)
        return;
    if (flow->pcap->generation != fork_generation)
        return; /* its tap's lists are the parent's */
    pthread_mutex_lock(&mutex);
    if (!flow->datagrams)
        packet(flow, false, PCAP_FIN | PCAP_ACK, NULL, 0);
    list_detach(&flow->link);
    pthread_mutex_unlock(&mutex);
    free(flow);
}

/* Takes up to a packet's payload from the iov, *skip bytes in; how much it is. */
static const void *gather(struct pcap *pcap, const struct iovec *iov, size_t count, size_t skip,
                          size_t len)
{
    size_t have = 0;

    for (size_t i = 0; i < count && have < len; i++) {
        size_t part = iov[i].iov_len;

        if (skip >= part) {
            skip -= part;
            continue;
        }
        part -= skip;
        part = part < len - have ? part : len - have;
        if (part == len)
            return (const char *)iov[i].iov_base + skip;
        memcpy(pcap->payload + have, (const char *)iov[i].iov_base + skip, part);
        have += part;
        skip = 0;
    }
    return pcap->payload;
}

static void passed(struct pcap_flow *flow, bool inbound, const struct iovec *iov, size_t count,
                   size_t bytes)
{
    uint32_t *seq = inbound ? &flow->ack : &flow->seq;
    int error = errno;

    if (flow->pcap->generation != fork_generation)
        return;
    pthread_mutex_lock(&mutex);
    if (inbound && flow->paired) {
        *seq += (uint32_t)bytes;
        bytes = 0;
    }
    for (size_t done = 0; done < bytes;) {
        size_t len = bytes - done < PCAP_SEGMENT_MAX ? bytes - done : PCAP_SEGMENT_MAX;

        if (records(flow->pcap))
            packet(flow, inbound, PCAP_PSH | PCAP_ACK, gather(flow->pcap, iov, count, done, len),
                   len);
        *seq += (uint32_t)len;
        done += len;
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
}

void pcap_sent(struct pcap_flow *flow, const struct iovec *iov, size_t count, size_t bytes)
{
    passed(flow, false, iov, count, bytes);
}

void pcap_received(struct pcap_flow *flow, const struct iovec *iov, size_t count, size_t bytes)
{
    passed(flow, true, iov, count, bytes);
}

void pcap_sent_buffer(struct pcap_flow *flow, const void *buf, size_t bytes)
{
    const struct iovec iov = {(void *)buf, bytes};

    passed(flow, false, &iov, 1, bytes);
}

void pcap_received_buffer(struct pcap_flow *flow, const void *buf, size_t bytes)
{
    const struct iovec iov = {(void *)buf, bytes};

    passed(flow, true, &iov, 1, bytes);
}

/* ---- Datagrams ---- */

struct pcap_flow *pcap_socket_open(struct pcap *pcap, const struct sockaddr *addr)
{
    struct pcap_flow *flow = pcap && addr_size(addr) ? calloc(1, sizeof(*flow)) : NULL;

    if (!flow)
        return NULL;
    flow->pcap = pcap;
    flow->datagrams = true;
    memcpy(&flow->local, addr, addr_size(addr));
    pthread_mutex_lock(&mutex);
    list_attach(&flow->link, &pcap->flows);
    pthread_mutex_unlock(&mutex);
    return flow;
}

static bool is_of_tap(const struct pcap *pcap, const struct sockaddr *addr)
{
    list_for_each (item, &pcap->flows) {
        const struct pcap_flow *flow = list_item(item, struct pcap_flow, link);

        if (flow->datagrams && addr_equal(&flow->local.sa, addr))
            return true;
    }
    return false;
}

void pcap_datagram(struct pcap_flow *flow, bool inbound, const struct sockaddr *peer,
                   const struct iovec *iov, size_t count, size_t skip, size_t bytes)
{
    int error = errno;

    if (flow->pcap->generation != fork_generation || bytes > PCAP_PAYLOAD_MAX ||
        peer->sa_family != flow->local.sa.sa_family)
        return;
    pthread_mutex_lock(&mutex);
    if (records(flow->pcap) && !(inbound && is_of_tap(flow->pcap, peer))) {
        memcpy(&flow->peer, peer, addr_size(peer));
        packet(flow, inbound, 0, gather(flow->pcap, iov, count, skip, bytes), bytes);
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
}
