/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/udp/udp_batch.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/udp/udp_ep.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum {
    IOV_MAX_OF_KERNEL = 1024,
    CONTROL_SIZE = CMSG_SPACE(sizeof(uint16_t)),
    TRIES = 8 /* of a call that fails for what was sent before */
};

/* The messages of one sendmmsg. */
struct leaving {
    struct mmsghdr messages[UDP_BATCH_MAX];
    unsigned runs[UDP_BATCH_MAX]; /* datagrams of each */
    unsigned count;
    struct iovec iov[IOV_MAX_OF_KERNEL];
    size_t iov_count;
    union {
        size_t align; /* of a struct cmsghdr */
        char bytes[CONTROL_SIZE];
    } control[UDP_BATCH_MAX];
};

bool udp_is_full(int err)
{
    return err == EAGAIN || err == ENOBUFS || err == EINTR;
}

unsigned udp_batch_run(const struct udp_send *sends, unsigned count)
{
    size_t bytes = sends[0].len, segments = sends[0].count;
    unsigned run = 1;

    if (!bytes)
        return 1;
    for (; run < count; run++) {
        const struct udp_send *next = &sends[run];

        if (sends[run - 1].len != sends[0].len || !next->len || next->len > sends[0].len ||
            bytes + next->len > UDP_RUN_BYTES_MAX || segments + next->count > IOV_MAX_OF_KERNEL ||
            !addr_equal(&next->to.sa, &sends[0].to.sa))
            break;
        bytes += next->len;
        segments += next->count;
    }
    return run;
}

struct udp_send *udp_batch_next(struct udp_batch *batch)
{
    if (batch->count == UDP_BATCH_MAX && batch->first) {
        batch->count -= batch->first;
        memmove(batch->sends, batch->sends + batch->first, batch->count * sizeof(*batch->sends));
        batch->first = 0;
    }
    return batch->count < UDP_BATCH_MAX ? &batch->sends[batch->count] : NULL;
}

/* ---- One system call ---- */

static void add_segment_size(struct msghdr *header, void *control, uint16_t size)
{
    struct cmsghdr *cmsg;

    header->msg_control = control;
    header->msg_controllen = CONTROL_SIZE;
    cmsg = CMSG_FIRSTHDR(header);
    cmsg->cmsg_level = SOL_UDP;
    cmsg->cmsg_type = UDP_SEGMENT;
    cmsg->cmsg_len = CMSG_LEN(sizeof(size));
    memcpy(CMSG_DATA(cmsg), &size, sizeof(size));
}

/* The next message: a run of the sends. False: there is no room for its segments. */
static bool add_run(struct leaving *leaving, struct udp_send *sends, unsigned run)
{
    struct msghdr *header = &leaving->messages[leaving->count].msg_hdr;
    struct iovec *iov = leaving->iov + leaving->iov_count;
    size_t segments = 0;

    for (unsigned i = 0; i < run; i++)
        segments += sends[i].count;
    if (leaving->iov_count + segments > IOV_MAX_OF_KERNEL)
        return false;
    memset(header, 0, sizeof(*header));
    header->msg_name = &sends->to;
    header->msg_namelen = addr_size(&sends->to.sa);
    header->msg_iov = iov;
    header->msg_iovlen = segments;
    for (unsigned i = 0; i < run; i++) {
        memcpy(iov, sends[i].iov, sends[i].count * sizeof(*iov));
        iov += sends[i].count;
    }
    if (run > 1)
        add_segment_size(header, &leaving->control[leaving->count], (uint16_t)sends->len);
    leaving->iov_count += segments;
    leaving->runs[leaving->count++] = run;
    return true;
}

static void gather(const struct udp_ep *ep, struct leaving *leaving)
{
    struct udp_batch *batch = ep->batch;
    unsigned at = batch->first;

    leaving->count = 0;
    leaving->iov_count = 0;
    while (at < batch->count) {
        unsigned run = ep->gso ? udp_batch_run(&batch->sends[at], batch->count - at) : 1;

        if (!add_run(leaving, &batch->sends[at], run))
            return;
        at += run;
    }
}

/* ---- Ends ---- */

static void sent(struct udp_ep *ep, unsigned count)
{
    struct udp_batch *batch = ep->batch;

    for (unsigned i = 0; i < count; i++) {
        struct udp_send *send = &batch->sends[batch->first++];

        if (pcap_on(ep->main.flow))
            pcap_datagram(ep->main.flow, false, &send->to.sa, send->iov, send->count, 0, send->len);
        complete(&ep->base.binding, BIND_SEND, send->wanted, send->context, FI_MSG | FI_SEND, 0,
                 NULL, 0, 0, FI_ADDR_NOTAVAIL);
    }
}

static void failed(struct udp_ep *ep, unsigned count, int err)
{
    struct udp_batch *batch = ep->batch;

    for (unsigned i = 0; i < count; i++) {
        struct fi_cq_err_entry entry = {
            .op_context = batch->sends[batch->first++].context,
            .flags = FI_MSG | FI_SEND,
            .err = err,
            .prov_errno = err,
        };

        complete_error(&ep->base.binding, BIND_SEND, &entry);
    }
}

/* A run that is refused as a whole may be no fault of its datagrams. */
static bool give_up_offload(struct udp_ep *ep, unsigned run, int err)
{
    if (run == 1 || !ep->gso)
        return false;
    ep->gso = false;
    if (!atomic_exchange(&ep->fabric->said_no_offload, true))
        LOG_INFO(ep->fabric->base.part, FI_LOG_EP_DATA,
                 "datagrams are sent one by one: UDP_SEGMENT: %s", strerror(err));
    return true;
}

void udp_batch_flush(struct udp_ep *ep)
{
    struct udp_batch *batch = ep->batch;
    struct leaving leaving;
    unsigned tries = 0;

    while (batch->first < batch->count) {
        int rc, err;

        gather(ep, &leaving);
        rc = sendmmsg(ep->main.fd, leaving.messages, leaving.count, MSG_DONTWAIT);
        err = errno;
        if (rc > 0) {
            for (int i = 0; i < rc; i++)
                sent(ep, leaving.runs[i]);
            continue;
        }
        if (udp_is_full(err))
            return;
        if (ep->base.eq && tries++ < TRIES && udp_errors_read(ep))
            continue;
        if (!give_up_offload(ep, leaving.runs[0], err))
            failed(ep, leaving.runs[0], err);
    }
    batch->first = batch->count = 0;
}
