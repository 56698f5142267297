/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files stay known for as long as the process: a fabric that is opened again adds to its file.
 * After a fork the file is the parent's, the child records nothing.
 */
#include "core/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/fork.h"
#include "core/list.h"
#include "core/log.h"
#include "core/param.h"
#include "core/path.h"
#include "core/tap_packet.h"

struct tap {
    struct list link; /* of all */
    char part[32];
    char *path;
    unsigned users, generation;
    int fd; /* -1: closed, or it could not be written any more */
    bool begun;
    uint64_t size, limit;
    size_t snap;
    struct list flows;
    uint8_t block[TAP_BLOCK_MAX];
    uint8_t payload[TAP_PAYLOAD_MAX];
};

struct tap_flow {
    struct list link; /* of the tap */
    struct tap *tap;
    union addr local, peer;
    uint32_t seq, ack;
    bool paired; /* the other end is in this process: what it sends, it records */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of all taps */
static struct list taps = {&taps, &taps};

/* ---- The file ---- */

static void stop(struct tap *tap, const char *why)
{
    log_user("%s: the capture in '%s' ends here: %s", tap->part, tap->path, why);
    close(tap->fd);
    tap->fd = -1;
}

/* All of it, or nothing. */
static int write_block(struct tap *tap, const uint8_t *block, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t rc = pwrite(tap->fd, block + done, len - done, (off_t)(tap->size + done));

        if (rc < 0 && errno == EINTR)
            continue;
        if (rc <= 0) {
            int error = rc < 0 ? errno : ENOSPC;

            if (done && ftruncate(tap->fd, (off_t)tap->size))
                return -errno;
            return -error;
        }
        done += (size_t)rc;
    }
    tap->size += len;
    return 0;
}

static void record(struct tap *tap, const struct tap_packet *packet)
{
    size_t len = tap_packet_block(packet, tap->block);
    int rc;

    if (tap->size + len > tap->limit) {
        stop(tap, "it has reached pcap_limit");
        return;
    }
    rc = write_block(tap, tap->block, len);
    if (rc)
        stop(tap, strerror(-rc));
}

static bool records(const struct tap *tap)
{
    return tap->fd >= 0 && tap->generation == fork_generation;
}

/* Only the owner may read it: it holds what the application sends. */
static int file_open(struct tap *tap)
{
    uint8_t head[TAP_HEAD_MAX];
    int rc;

    tap->fd = open(tap->path, O_WRONLY | O_CREAT | O_CLOEXEC | (tap->begun ? 0 : O_TRUNC), 0600);
    if (tap->fd < 0)
        return -errno;
    if (tap->begun)
        return 0;
    tap->size = 0;
    rc = write_block(
        tap, head,
        tap_packet_head(tap->part, program_invocation_short_name, (int)getpid(), tap->snap, head));
    tap->begun = !rc;
    if (rc) {
        close(tap->fd);
        tap->fd = -1;
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

static struct tap *find(const char *path)
{
    list_for_each (item, &taps) {
        struct tap *tap = list_item(item, struct tap, link);

        if (tap->generation == fork_generation && !strcmp(tap->path, path))
            return tap;
    }
    return NULL;
}

static struct tap *create(const char *part, const char *path)
{
    struct tap *tap = calloc(1, sizeof(*tap));

    if (!tap)
        return NULL;
    tap->path = strdup(path);
    if (!tap->path) {
        free(tap);
        return NULL;
    }
    snprintf(tap->part, sizeof(tap->part), "%s", part);
    tap->fd = -1;
    tap->generation = fork_generation;
    list_init(&tap->flows);
    list_attach(&tap->link, &taps);
    return tap;
}

static int tap_hold(const char *part, const struct params *params, const char *path,
                    struct tap **ret_tap)
{
    struct tap *tap = find(path);
    int rc = 0;

    if (!tap)
        tap = create(part, path);
    if (!tap)
        return -ENOMEM;
    if (!tap->users) {
        tap->limit = params_size(params, "pcap_limit");
        tap->snap = params_size(params, "pcap_snap");
        rc = file_open(tap);
    }
    if (rc)
        return rc;
    tap->users++;
    *ret_tap = tap;
    return 0;
}

int tap_open(const char *part, const struct params *params, struct tap **ret_tap)
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
    rc = tap_hold(part, params, name, ret_tap);
    pthread_mutex_unlock(&mutex);
    if (rc)
        log_user("%s: cannot write the file '%s': %s (parameter pcap)", part, name, strerror(-rc));
    return rc;
}

void tap_close(struct tap *tap)
{
    if (!tap || tap->generation != fork_generation)
        return;
    pthread_mutex_lock(&mutex);
    if (!--tap->users && tap->fd >= 0) {
        close(tap->fd);
        tap->fd = -1;
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

/* What this side sends, or what its peer does. */
static void packet(struct tap_flow *flow, bool inbound, unsigned flags, const void *payload,
                   size_t len)
{
    struct tap_packet packet = {
        .from = inbound ? &flow->peer : &flow->local,
        .to = inbound ? &flow->local : &flow->peer,
        .seq = inbound ? flow->ack : flow->seq,
        .ack = inbound ? flow->seq : flow->ack,
        .flags = flags,
        .inbound = inbound,
        .ns = now(),
        .payload = payload,
        .len = len,
        .snap = flow->tap->snap,
    };

    if (records(flow->tap))
        record(flow->tap, &packet);
}

/* The three packets that open a connection. */
static void record_open(struct tap_flow *flow, bool active)
{
    packet(flow, !active, TAP_SYN, NULL, 0);
    *(active ? &flow->seq : &flow->ack) = 1;
    packet(flow, active, TAP_SYN | TAP_ACK, NULL, 0);
    flow->seq = flow->ack = 1;
    packet(flow, !active, TAP_ACK, NULL, 0);
}

static struct tap_flow *other_end(struct tap *tap, const struct tap_flow *flow)
{
    list_for_each (item, &tap->flows) {
        struct tap_flow *other = list_item(item, struct tap_flow, link);

        if (addr_equal(&other->local.sa, &flow->peer.sa) &&
            addr_equal(&other->peer.sa, &flow->local.sa))
            return other;
    }
    return NULL;
}

struct tap_flow *tap_flow_open(struct tap *tap, int fd, bool active)
{
    struct tap_flow *flow = tap ? calloc(1, sizeof(*flow)) : NULL, *other;
    socklen_t local = sizeof(flow->local), peer = sizeof(flow->peer);

    if (!flow)
        return NULL;
    flow->tap = tap;
    if (getsockname(fd, &flow->local.sa, &local) || getpeername(fd, &flow->peer.sa, &peer) ||
        !addr_size(&flow->local.sa) || flow->local.sa.sa_family != flow->peer.sa.sa_family) {
        free(flow);
        return NULL;
    }
    pthread_mutex_lock(&mutex);
    other = other_end(tap, flow);
    if (other) {
        flow->paired = other->paired = true;
        flow->seq = flow->ack = 1;
    } else {
        record_open(flow, active);
    }
    list_attach(&flow->link, &tap->flows);
    pthread_mutex_unlock(&mutex);
    return flow;
}

void tap_flow_close(struct tap_flow *flow)
{
    if (!flow)
        return;
    if (flow->tap->generation != fork_generation)
        return; /* its tap's lists are the parent's */
    pthread_mutex_lock(&mutex);
    packet(flow, false, TAP_FIN | TAP_ACK, NULL, 0);
    list_detach(&flow->link);
    pthread_mutex_unlock(&mutex);
    free(flow);
}

/* Takes up to a packet's payload from the iov, *skip bytes in; how much it is. */
static const void *gather(struct tap *tap, const struct iovec *iov, size_t count, size_t skip,
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
        memcpy(tap->payload + have, (const char *)iov[i].iov_base + skip, part);
        have += part;
        skip = 0;
    }
    return tap->payload;
}

static void passed(struct tap_flow *flow, bool inbound, const struct iovec *iov, size_t count,
                   size_t bytes)
{
    uint32_t *seq = inbound ? &flow->ack : &flow->seq;
    int error = errno;

    if (flow->tap->generation != fork_generation)
        return;
    pthread_mutex_lock(&mutex);
    if (inbound && flow->paired) {
        *seq += (uint32_t)bytes;
        bytes = 0;
    }
    for (size_t done = 0; done < bytes;) {
        size_t len = bytes - done < TAP_PAYLOAD_MAX ? bytes - done : TAP_PAYLOAD_MAX;

        if (records(flow->tap))
            packet(flow, inbound, TAP_PSH | TAP_ACK, gather(flow->tap, iov, count, done, len), len);
        *seq += (uint32_t)len;
        done += len;
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
}

void tap_sent(struct tap_flow *flow, const struct iovec *iov, size_t count, size_t bytes)
{
    passed(flow, false, iov, count, bytes);
}

void tap_received(struct tap_flow *flow, const struct iovec *iov, size_t count, size_t bytes)
{
    passed(flow, true, iov, count, bytes);
}

void tap_sent_buffer(struct tap_flow *flow, const void *buf, size_t bytes)
{
    const struct iovec iov = {(void *)buf, bytes};

    passed(flow, false, &iov, 1, bytes);
}

void tap_received_buffer(struct tap_flow *flow, const void *buf, size_t bytes)
{
    const struct iovec iov = {(void *)buf, bytes};

    passed(flow, true, &iov, 1, bytes);
}
