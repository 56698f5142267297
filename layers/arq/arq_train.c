/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trains: pieces of a message that leave, and come, together (core/arq/packet.h), where the lower
 * takes and gives them so (OPT_TRAINS), and no layer is in between.
 */
#include <string.h>

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "layers/arq/arq_ep.h"

/* ---- Out ---- */

/* Bytes of a message, from where the last ones ended. */
struct cursor {
    const struct iovec *iov; /* the rest of the first begins at `at` */
    size_t at;
};

static struct iovec *take_bytes(struct cursor *from, size_t len, struct iovec *to)
{
    while (len) {
        size_t left = from->iov->iov_len - from->at, take = left < len ? left : len;

        if (take) {
            *to++ = (struct iovec){(char *)from->iov->iov_base + from->at, take};
            from->at += take;
            len -= take;
        }
        if (from->at == from->iov->iov_len)
            *from = (struct cursor){.iov = from->iov + 1};
    }
    return to;
}

static void copy_bytes(struct cursor *from, size_t len, uint8_t *to)
{
    while (len) {
        size_t left = from->iov->iov_len - from->at, take = left < len ? left : len;

        memcpy(to, (const char *)from->iov->iov_base + from->at, take);
        from->at += take;
        to += take;
        len -= take;
        if (from->at == from->iov->iov_len)
            *from = (struct cursor){.iov = from->iov + 1};
    }
}

static struct cursor cursor_at(const struct arq_send *send, size_t at)
{
    struct cursor cursor = {.iov = send->iov, .at = at};

    while (cursor.at && cursor.at >= cursor.iov->iov_len)
        cursor.at -= cursor.iov++->iov_len;
    return cursor;
}

/* Each packet of the train: a header, and bytes of the message. */
static size_t in_segments(const struct session_train *train, struct cursor from, uint8_t *headers,
                          struct iovec *iov)
{
    struct iovec *end = iov;
    size_t left = train->count, header = arq_header_size(train->first);

    arq_train_put(train->first, train->pieces, ARQ_HEADER, headers);
    for (unsigned i = 0; i < train->pieces; i++, headers += ARQ_HEADER, header = ARQ_BRIEF) {
        size_t room = train->packet - header, len = left < room ? left : room;

        *end++ = (struct iovec){headers, header};
        end = take_bytes(&from, len, end);
        left -= len;
    }
    return (size_t)(end - iov);
}

/* The same in the lower's memory: the kernel copies many small segments in up to twice the time
 * that this copy and its own take (docs/decisions). */
static size_t in_memory(const struct session_train *train, struct cursor from, uint8_t *memory,
                        struct iovec *iov)
{
    size_t left = train->count, header = arq_header_size(train->first);

    *iov = (struct iovec){memory, arq_train_len(train->first, train->pieces, left)};
    arq_train_put(train->first, train->pieces, train->packet, memory);
    for (unsigned i = 0; i < train->pieces; i++, memory += train->packet, header = ARQ_BRIEF) {
        size_t room = train->packet - header, len = left < room ? left : room;

        copy_bytes(&from, len, memory + header);
        left -= len;
    }
    return 1;
}

enum session_taken arq_transmit_train(struct session *session, struct session_train *train)
{
    const struct arq_send *send = object_of(train->message, struct arq_send, message);
    struct arq_link *link = arq_link_of(session);
    struct arq_ep *ep = link->ep;
    const struct train_port *port = &ep->lower.trains;
    struct cursor from = cursor_at(send, train->at);
    uint8_t headers[ARQ_PIECES * ARQ_HEADER];
    struct iovec iov[2 * ARQ_PIECES + ARQ_SEGMENTS + 1];
    struct train packets = {.peer = link->peer->lower,
                            .iov = iov,
                            .len = arq_train_len(train->first, train->pieces, train->count),
                            .segment = train->packet};
    uint8_t *memory = port->memory(port->lower);
    ssize_t rc;

    packets.count =
        memory ? in_memory(train, from, memory, iov) : in_segments(train, from, headers, iov);
    rc = port->send(port->lower, &packets);
    train->left = clock_ns();
    if (rc == -FI_ENOSYS) {
        ep->config.transmit_train = NULL;
        LOG_INFO("arq", FI_LOG_EP_DATA, "packets leave one by one");
    }
    return !rc ? SESSION_TAKEN : rc == -FI_EAGAIN ? SESSION_FULL : SESSION_REFUSED;
}

/* ---- In ---- */

bool arq_deliver_parts(struct session *session, const struct iovec *parts, size_t count)
{
    struct arq_ep *ep = arq_link_of(session)->ep;

    return ep->reader.read_parts(ep->reader.arg, parts, count, arq_source(session));
}

void arq_trains_open(struct arq_ep *ep)
{
    struct train_port *port = &ep->lower.trains;
    struct fid *fid = &ep->lower.ep->fid;
    size_t len = sizeof(*port);

    *port = (struct train_port){.of = ep->lower.ep, .came = arq_lower_came, .arg = ep};
    if (ep->lower.prefix || ep->copies_all ||
        fi_getopt(fid, FI_OPT_ENDPOINT, OPT_TRAINS, port, &len))
        return;
    if (port->send) {
        ep->config.transmit_train = arq_transmit_train;
        if (ep->reader.read) /* its peers have one, too; other uppers keep to max_msg_size */
            ep->up.longest = arq_pieces_room(ARQ_PIECES, PATH_MTU_BASE);
    }
    if (ep->lower.chunk)
        fi_setopt(fid, FI_OPT_ENDPOINT, OPT_TRAINS, port, sizeof(*port));
    if (ep->reader.read_parts)
        ep->config.deliver_parts = arq_deliver_parts;
}
