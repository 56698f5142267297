/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/uet/nic/outbox.h"

#include <string.h>

void outbox_drop(struct outbox *outbox, unsigned count)
{
    for (; count; count--)
        outbox->named -= outbox->leaving[outbox->first++].named;
    if (outbox->first < outbox->count)
        return;
    outbox->first = outbox->count = 0;
    outbox->used = 0;
}

void outbox_move_up(struct outbox *outbox)
{
    unsigned count = outbox_waiting(outbox);
    size_t start;

    if (!outbox->first || !count)
        return;
    start = (size_t)((const uint8_t *)outbox_first(outbox)->datagram.iov->iov_base - outbox->bytes);
    outbox->used -= start;
    memmove(outbox->bytes, outbox->bytes + start, outbox->used);
    memmove(outbox->leaving, outbox_first(outbox), count * sizeof(*outbox->leaving));
    for (unsigned i = 0; i < count; i++) {
        struct leaving *leaving = &outbox->leaving[i];
        struct datagram *datagram = &leaving->datagram;
        struct iovec *last = &datagram->iov[datagram->count - 1];

        datagram->iov[0].iov_base = (uint8_t *)datagram->iov[0].iov_base - start;
        if (leaving->has_trailer)
            last->iov_base = leaving->trailer;
    }
    outbox->first = 0;
    outbox->count = count;
}

/* Copies the pieces that fit: how many. */
static size_t copy_pieces(uint8_t *bytes, const struct iovec *iov, size_t count, size_t *ret_copied)
{
    size_t copied = 0, i = 0;

    for (; i < count && copied + iov[i].iov_len <= OUTBOX_COPIED; i++) {
        if (iov[i].iov_len)
            memcpy(bytes + copied, iov[i].iov_base, iov[i].iov_len);
        copied += iov[i].iov_len;
    }
    *ret_copied = copied;
    return i;
}

struct leaving *outbox_add(struct outbox *outbox, const struct iovec *iov, size_t count)
{
    struct leaving *leaving = &outbox->leaving[outbox->count++];
    struct datagram *datagram = &leaving->datagram;
    uint8_t *bytes = outbox->bytes + outbox->used;
    size_t copied, i = copy_pieces(bytes, iov, count, &copied);

    outbox->used += copied;
    datagram->iov[0] = (struct iovec){bytes, copied};
    datagram->count = 1;
    datagram->len = copied;
    leaving->named = i < count;
    leaving->has_trailer = false;
    outbox->named += leaving->named;
    for (; i < count; i++) {
        datagram->iov[datagram->count++] = iov[i];
        datagram->len += iov[i].iov_len;
    }
    return leaving;
}

void outbox_add_trailer(struct leaving *leaving)
{
    struct datagram *datagram = &leaving->datagram;

    leaving->has_trailer = true;
    datagram->iov[datagram->count++] = (struct iovec){leaving->trailer, TRAILER_SIZE};
    datagram->len += TRAILER_SIZE;
}
