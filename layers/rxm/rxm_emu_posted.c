/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A lower that has receives posted on each connection. There are few at first, and more while the
 * peer uses them up (rxm_credit.h: struct rxm_window); credits say how many packets may come.
 */
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "core/wait.h"
#include "layers/rxm/rxm_emu.h"

/* Counted first: the lower may complete it before it returns. */
static int post_one(struct rxm_link *link, struct rxm_packet_buffer *buffer)
{
    int rc;

    list_attach(&buffer->held, &link->emu.receives);
    link->emu.window.posted++;
    rxm_credit_posted(&link->emu.credit);
    rc = (int)fi_recv(link->ep, buffer->bytes, buffer->iov.iov_len, buffer->buffer.desc,
                      FI_ADDR_UNSPEC, &buffer->context);
    if (__builtin_expect(rc != 0, 0)) {
        rxm_credit_unposted(&link->emu.credit);
        link->emu.window.posted--;
        list_detach(&buffer->held);
    }
    return rc;
}

static void grant(struct rxm_link *link)
{
    uint32_t due = rxm_credit_due(&link->emu.credit);
    struct rxm_packet packet = {.type = RXM_CREDIT, .credits = due};

    if (!due || !link->emu.up || link->emu.dead)
        return;
    rxm_credit_gave(&link->emu.credit, due);
    rxm_send_control(link, &packet, NULL, 0);
}

/* The lower has ended a receive. */
static void taken_back(struct rxm_link *link, struct rxm_packet_buffer *buffer)
{
    list_detach(&buffer->held);
    link->emu.window.posted--;
}

static void post_again(struct rxm_link *link, struct rxm_packet_buffer *buffer)
{
    struct rxm_window *window = &link->emu.window;

    if (__builtin_expect(window->posted >= window->size, 0)) {
        rxm_packet_buffer_put(buffer); /* there are to be fewer */
    } else if (link->emu.dead || rxm_emu_stopped(link) || post_one(link, buffer)) {
        link->owner->emu->refill = link->owner->emu->refill || !link->emu.dead;
        rxm_packet_buffer_put(buffer);
    }
    if (__builtin_expect(rxm_window_used(window), 0)) {
        rxm_window_turn(window, clock_ms());
        rxm_credit_resize(&link->emu.credit, window->size);
        rxm_emu_post_more(link);
    } else {
        grant(link);
    }
}

void rxm_emu_received(struct rxm_context *context, size_t len, const struct fi_cq_err_entry *error)
{
    struct rxm_packet_buffer *buffer = object_of(context, struct rxm_packet_buffer, context);
    struct rxm_link *link = buffer->conn;
    bool posted = link->owner->emu->feed == RXM_FEED_POSTED; /* else the lower gives it back */

    if (posted)
        taken_back(link, buffer);
    if (__builtin_expect(error != NULL, 0)) {
        if (error->err == FI_ETRUNC)
            rxm_emu_link_break(link, "a packet longer than the limit");
        if (posted) {
            link->emu.window.size -= link->emu.window.size > 0; /* and it is not posted again */
            rxm_credit_resize(&link->emu.credit, link->emu.window.size);
            rxm_packet_buffer_put(buffer);
        }
        return;
    }
    rxm_emu_packet(link, buffer->bytes, len);
    if (posted)
        post_again(link, buffer);
}

void rxm_emu_received_bare(struct rxm_link *link, struct rxm_context *context, const void *buf,
                           size_t len, uint64_t tag, const uint64_t *data)
{
    bool posted = link->owner->emu->feed == RXM_FEED_POSTED;
    struct rxm_packet_buffer *buffer = object_of(context, struct rxm_packet_buffer, context);

    if (posted)
        taken_back(link, buffer);
    rxm_emu_bare(link, posted ? buffer->bytes : buf, len, tag, data);
    if (posted)
        post_again(link, buffer);
}

static int fill_one(struct rxm_link *link)
{
    struct rxm_packet_buffer *buffer = rxm_packet_buffer_get(link);
    int rc;

    if (!buffer)
        return -FI_ENOMEM;
    buffer->context.done = rxm_emu_received;
    rc = post_one(link, buffer);
    if (rc)
        rxm_packet_buffer_put(buffer);
    return rc;
}

int rxm_emu_link_fill(struct rxm_link *link)
{
    struct rxm_emu *emu = link->owner->emu;
    const struct rxm_window *window = &link->emu.window;
    int rc = 0;

    if (emu->feed != RXM_FEED_POSTED)
        return 0;
    while (!rc && window->posted < window->size)
        rc = fill_one(link);
    emu->refill = emu->refill || window->posted < window->size;
    return rc == -FI_EAGAIN ? 0 : rc;
}

void rxm_emu_post_more(struct rxm_link *link)
{
    const struct rxm_window *window = &link->emu.window;

    if (link->emu.dead || rxm_emu_stopped(link))
        return;
    while (window->posted < window->size && !fill_one(link))
        continue;
    link->owner->emu->refill = link->owner->emu->refill || window->posted < window->size;
    grant(link);
}

/* A peer that is told nothing may send at once what upstream has room for: it has that here too,
 * unless the lower itself makes senders wait. */
void rxm_emu_post_up(struct rxm_link *link)
{
    struct rxm_window *window = &link->emu.window;
    struct rxm_emu *emu = link->owner->emu;

    if (emu->feed != RXM_FEED_POSTED)
        return;
    if (!link->emu.credit.on && !emu->lower_waits) {
        window->least = window->most;
        window->size = window->most;
    }
    rxm_emu_post_more(link);
}

void rxm_emu_post_end(struct rxm_link *link)
{
    while (!list_empty(&link->emu.receives)) {
        struct rxm_packet_buffer *buffer =
            list_item(link->emu.receives.next, struct rxm_packet_buffer, held);

        taken_back(link, buffer);
        rxm_packet_buffer_put(buffer);
    }
}

/* One queue for all connections, without addresses: only a receive would tell whose it was. */
static void written_by_somebody(struct rxm_emu *emu, uint64_t flags, size_t len, uint64_t data)
{
    struct fid_peer_cq *sink = emu->ep->rx_sink;

    if (sink)
        sink->owner_ops->write(sink, NULL, flags, len, NULL, data, 0, FI_ADDR_NOTAVAIL);
}

void rxm_emu_written(struct rxm_emu *emu, struct rxm_link *link, struct rxm_context *context,
                     uint64_t flags, size_t len, uint64_t data)
{
    struct rxm_packet_buffer *buffer = NULL;

    if (context && emu->data_takes_receive && emu->feed == RXM_FEED_POSTED) {
        buffer = object_of(context, struct rxm_packet_buffer, context);
        link = buffer->conn;
        taken_back(link, buffer);
    }
    if (!link) {
        written_by_somebody(emu, flags, len, data);
        return;
    }
    rxm_link_received(link, NULL, flags, len, NULL, data, 0);
    if (buffer)
        post_again(link, buffer);
}
