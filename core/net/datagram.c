/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/datagram.h"

#include <netinet/udp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/iov.h"

enum {
    IOV_MAX_OF_KERNEL = 1024,
    MANY_SEGMENTS = 8, /* of a run: more are put together */
    ALIGN = 64,
    CONTROL_SIZE = CMSG_SPACE(sizeof(uint16_t)) + CMSG_SPACE(sizeof(struct in6_pktinfo)),
};

/* Notes to the kernel about a message. */
union notes {
    size_t align; /* of a struct cmsghdr */
    char bytes[CONTROL_SIZE];
};

/* The messages of one sendmmsg. */
struct leaving {
    struct mmsghdr messages[DATAGRAM_BATCH_MAX];
    unsigned runs[DATAGRAM_BATCH_MAX]; /* datagrams of each */
    unsigned count;
    struct iovec iov[IOV_MAX_OF_KERNEL];
    size_t iov_count;
    union notes notes[DATAGRAM_BATCH_MAX];
    size_t together; /* bytes of the memory that are in use */
};

void datagram_memory(void **memory)
{
    if (!*memory)
        *memory = aligned_alloc(ALIGN, DATAGRAM_MEMORY);
}

static const struct datagram *at(const struct datagrams *datagrams, unsigned i)
{
    return (const struct datagram *)((const char *)datagrams->first + i * datagrams->stride);
}

unsigned datagrams_run(const struct datagrams *datagrams)
{
    const struct datagram *first = datagrams->first, *last = first;
    size_t bytes = first->len, segments = first->count;
    unsigned run = 1;

    if (!bytes)
        return 1;
    for (; run < datagrams->count; run++) {
        const struct datagram *next = at(datagrams, run);

        if (last->len != first->len || !next->len || next->len > first->len ||
            bytes + next->len > DATAGRAM_RUN_BYTES_MAX ||
            segments + next->count > IOV_MAX_OF_KERNEL || next->flow != first->flow ||
            next->from != first->from || !addr_equal(&next->to.sa, &first->to.sa))
            break;
        bytes += next->len;
        segments += next->count;
        last = next;
    }
    return run;
}

static void add_note(struct msghdr *header, union notes *notes, int level, int type,
                     const void *data, size_t size)
{
    struct cmsghdr *cmsg = (struct cmsghdr *)(void *)(notes->bytes + header->msg_controllen);

    header->msg_control = notes->bytes;
    header->msg_controllen += CMSG_SPACE(size);
    memset(cmsg, 0, CMSG_SPACE(size));
    cmsg->cmsg_level = level;
    cmsg->cmsg_type = type;
    cmsg->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(cmsg), data, size);
}

static void add_source(struct msghdr *header, union notes *notes, const union addr *from)
{
    struct in_pktinfo four = {.ipi_ifindex = 0};
    struct in6_pktinfo six = {.ipi6_ifindex = 0};

    if (from->sa.sa_family == AF_INET) {
        four.ipi_spec_dst = from->in.sin_addr;
        add_note(header, notes, IPPROTO_IP, IP_PKTINFO, &four, sizeof(four));
    } else {
        six.ipi6_addr = from->in6.sin6_addr;
        six.ipi6_ifindex = from->in6.sin6_scope_id;
        add_note(header, notes, IPPROTO_IPV6, IPV6_PKTINFO, &six, sizeof(six));
    }
}

/* Segments that lie one behind the other are one. */
static struct iovec *add_segments(struct iovec *first, struct iovec *end,
                                  const struct datagram *datagram)
{
    for (size_t i = 0; i < datagram->count; i++) {
        const struct iovec *iov = &datagram->iov[i];

        if (end > first && (char *)end[-1].iov_base + end[-1].iov_len == iov->iov_base)
            end[-1].iov_len += iov->iov_len;
        else
            *end++ = *iov;
    }
    return end;
}

/* Makes one segment of those of a run, if there is memory. Returns their end. */
static struct iovec *put_together(struct leaving *leaving, char *memory, struct iovec *first,
                                  struct iovec *end)
{
    size_t count = (size_t)(end - first), bytes;
    char *start;

    if (!memory || count <= MANY_SEGMENTS)
        return end;
    start = memory + leaving->together;
    bytes = iov_bytes(first, count);
    if (bytes > DATAGRAM_MEMORY - leaving->together)
        return end;
    iov_gather(first, count, 0, start, bytes);
    leaving->together += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    *first = (struct iovec){start, bytes};
    return first + 1;
}

/* The next message: a run. False: there is no room for its segments. */
static bool add_run(struct leaving *leaving, const struct datagrams *left, unsigned run)
{
    const struct datagram *first = left->first;
    struct msghdr *header = &leaving->messages[leaving->count].msg_hdr;
    struct iovec *iov = leaving->iov + leaving->iov_count, *end = iov;
    size_t segments = 0;

    for (unsigned i = 0; i < run; i++)
        segments += at(left, i)->count;
    if (leaving->iov_count + segments > IOV_MAX_OF_KERNEL)
        return false;
    memset(header, 0, sizeof(*header));
    if (!left->connected) {
        header->msg_name = (void *)(uintptr_t)&first->to;
        header->msg_namelen = addr_size(&first->to.sa);
    }
    for (unsigned i = 0; i < run; i++)
        end = add_segments(iov, end, at(left, i));
    if (run > 1)
        end = put_together(leaving, left->memory, iov, end);
    header->msg_iov = iov;
    header->msg_iovlen = (size_t)(end - iov);
    if (first->from)
        add_source(header, &leaving->notes[leaving->count], first->from);
    if (run > 1)
        add_note(header, &leaving->notes[leaving->count], SOL_UDP, UDP_SEGMENT,
                 &(uint16_t){(uint16_t)first->len}, sizeof(uint16_t));
    leaving->iov_count += header->msg_iovlen;
    leaving->runs[leaving->count++] = run;
    return true;
}

static void gather(struct leaving *leaving, const struct datagrams *datagrams, bool cut)
{
    struct datagrams left = *datagrams;

    leaving->count = 0;
    leaving->iov_count = leaving->together = 0;
    while (left.count) {
        unsigned run = cut ? datagrams_run(&left) : 1;

        if (!add_run(leaving, &left, run))
            return;
        left.first = at(&left, run);
        left.count -= run;
    }
}

static int send_one(int fd, const struct datagram *datagram, bool connected)
{
    union notes notes;
    struct msghdr header = {
        .msg_name = connected ? NULL : (void *)(uintptr_t)&datagram->to,
        .msg_namelen = connected ? 0 : addr_size(&datagram->to.sa),
        .msg_iov = (struct iovec *)(uintptr_t)datagram->iov,
        .msg_iovlen = datagram->count,
    };

    if (datagram->from)
        add_source(&header, &notes, datagram->from);
    else if (datagram->count == 1)
        return (int)sendto(fd, datagram->iov->iov_base, datagram->len, MSG_DONTWAIT,
                           header.msg_name, header.msg_namelen);
    return (int)sendmsg(fd, &header, MSG_DONTWAIT);
}

int datagrams_send(int fd, const struct datagrams *datagrams, bool cut, unsigned *refused)
{
    struct leaving leaving;
    int rc, taken = 0;

    leaving.runs[0] = 1;
    if (datagrams->count == 1) {
        rc = send_one(fd, datagrams->first, datagrams->connected) < 0 ? -1 : 1;
    } else {
        gather(&leaving, datagrams, cut);
        rc = sendmmsg(fd, leaving.messages, leaving.count, MSG_DONTWAIT);
    }
    if (refused)
        *refused = leaving.runs[0];
    if (rc <= 0 || datagrams->count == 1)
        return rc;
    for (int i = 0; i < rc; i++)
        taken += (int)leaving.runs[i];
    return taken;
}
