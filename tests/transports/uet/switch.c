/* SPDX-License-Identifier: BSD-2-Clause */
#include "switch.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "transports/uet/wire/address.h"

struct sw_event {
    uint64_t at, order;
    struct sw_packet *packet;
};

void switch_init(struct sw *sw, uint64_t seed, unsigned ports)
{
    *sw = (struct sw){.seed = seed, .ports = ports, .delay = 5000, .now = 1000000};
}

void switch_finish(struct sw *sw)
{
    for (size_t i = 0; i < sw->count; i++)
        free(sw->heap[i].packet);
    free(sw->heap);
}

uint64_t switch_random(struct sw *sw)
{
    uint64_t z = sw->seed += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

union addr switch_addr(unsigned port)
{
    union addr addr;

    memset(&addr, 0, sizeof(addr));
    addr.in.sin_family = AF_INET;
    addr.in.sin_addr.s_addr = htonl(0x0a000001 + port);
    addr.in.sin_port = htons(UET_PORT);
    return addr;
}

/* ---- A heap of what is under way ---- */

static bool earlier(const struct sw_event *a, const struct sw_event *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void push(struct sw *sw, struct sw_event event)
{
    size_t i = sw->count++;

    if (sw->count > sw->room) {
        sw->room = sw->room ? 2 * sw->room : 1024;
        sw->heap = realloc(sw->heap, sw->room * sizeof(*sw->heap));
        if (!sw->heap)
            abort();
    }
    for (; i && earlier(&event, &sw->heap[(i - 1) / 2]); i = (i - 1) / 2)
        sw->heap[i] = sw->heap[(i - 1) / 2];
    sw->heap[i] = event;
}

static struct sw_event pop(struct sw *sw)
{
    struct sw_event first = sw->heap[0], last = sw->heap[--sw->count];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < sw->count; i = child) {
        if (child + 1 < sw->count && earlier(&sw->heap[child + 1], &sw->heap[child]))
            child++;
        if (!earlier(&sw->heap[child], &last))
            break;
        sw->heap[i] = sw->heap[child];
    }
    sw->heap[i] = last;
    return first;
}

/* ---- Packets ---- */

static bool happens(struct sw *sw, unsigned permille)
{
    return permille && switch_random(sw) % 1000 < permille;
}

static void launch(struct sw *sw, const struct sw_packet *packet)
{
    struct sw_packet *copy = malloc(offsetof(struct sw_packet, bytes) + packet->len);
    uint64_t at = sw->now + sw->delay + (sw->jitter ? switch_random(sw) % sw->jitter : 0);

    if (!copy)
        abort();
    memcpy(copy, packet, offsetof(struct sw_packet, bytes) + packet->len);
    if (happens(sw, sw->reorder))
        at += sw->late;
    push(sw, (struct sw_event){at, sw->carried++, copy});
}

static unsigned port_of(const union addr *addr)
{
    return ntohl(addr->in.sin_addr.s_addr) - 0x0a000001;
}

void switch_send(struct sw *sw, unsigned from, const union addr *to, const struct iovec *iov,
                 size_t count)
{
    static struct sw_packet packet;

    packet.from = from;
    packet.to = port_of(to);
    packet.len = 0;
    for (size_t i = 0; i < count; i++) {
        if (packet.len + iov[i].iov_len > SWITCH_PACKET)
            abort();
        memcpy(packet.bytes + packet.len, iov[i].iov_base, iov[i].iov_len);
        packet.len += iov[i].iov_len;
    }
    if (packet.to >= sw->ports || (sw->filter && !sw->filter(sw, &packet)) ||
        happens(sw, sw->loss)) {
        sw->lost++;
        return;
    }
    launch(sw, &packet);
    if (happens(sw, sw->dup))
        launch(sw, &packet);
}

uint64_t switch_next(const struct sw *sw)
{
    return sw->count ? sw->heap[0].at : UINT64_MAX;
}

void switch_run(struct sw *sw, uint64_t until)
{
    while (sw->count && sw->heap[0].at <= until) {
        struct sw_event event = pop(sw);
        union addr from = switch_addr(event.packet->from);

        if (event.at > sw->now)
            sw->now = event.at;
        /* All that arrived left before or after it; of those before, each has arrived or not. */
        if (sw->arrived > event.order && sw->arrived - event.order > sw->farthest)
            sw->farthest = sw->arrived - event.order;
        sw->arrived++;
        sw->deliver(sw->arg, event.packet->to, &from, event.packet->bytes, event.packet->len);
        free(event.packet);
    }
    if (until > sw->now)
        sw->now = until;
}
