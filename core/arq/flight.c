/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arq/flight.h"

#include <stddef.h>
#include <string.h>

enum {
    CALM_ROUNDS = 64, /* round trips without reordering after which the bounds fall by half */
};

void flight_init(struct flight *flight, struct flight_packet *packets, uint32_t size)
{
    *flight = (struct flight){
        .packets = packets,
        .size = size,
        .reorder = FLIGHT_REORDER,
        .eighths = FLIGHT_EIGHTHS,
    };
    memset(packets, 0, size * sizeof(*packets));
}

static struct flight_packet *place_in(struct flight_packet *packets, uint32_t size, uint64_t number)
{
    return &packets[number & (size - 1)];
}

void flight_move(struct flight *flight, struct flight_packet *packets, uint32_t size)
{
    memset(packets, 0, size * sizeof(*packets));
    for (uint64_t number = flight->first; number < flight->next; number++)
        *place_in(packets, size, number) = *place_in(flight->packets, flight->size, number);
    flight->packets = packets;
    flight->size = size;
}

static struct flight_packet *at(const struct flight *flight, uint64_t number)
{
    return place_in(flight->packets, flight->size, number);
}

static void pass_ended(struct flight *flight)
{
    while (flight->first < flight->next && at(flight, flight->first)->state == FLIGHT_NONE)
        flight->first++;
}

static uint32_t counted(const struct flight_packet *packet)
{
    return packet->kind < FLIGHT_ASIDE ? packet->bytes : 0;
}

void flight_send(struct flight *flight, const struct flight_packet *packet)
{
    struct flight_packet *place = at(flight, flight->next++);

    *place = *packet;
    place->state = FLIGHT_OUT;
    flight->bytes += counted(packet);
    flight->out++;
}

void flight_send_run(struct flight *flight, const struct flight_packet *packet, unsigned count,
                     uint32_t last_bytes)
{
    struct flight_packet next = *packet;

    next.state = FLIGHT_OUT;
    flight->bytes += (uint64_t)(count - 1) * counted(&next);
    flight->out += count;
    for (; count > 1; count--, next.piece++)
        *at(flight, flight->next++) = next;
    next.bytes = last_bytes;
    flight->bytes += counted(&next);
    *at(flight, flight->next++) = next;
}

/* A packet called lost was only late: wait longer before the next is. */
static void raise_bounds(struct flight *flight, uint64_t number, uint64_t now)
{
    uint64_t overtaken = flight->acked > number ? flight->acked - number : 0;

    if (overtaken >= flight->reorder)
        flight->reorder =
            overtaken < FLIGHT_REORDER_MAX ? (uint32_t)overtaken + 1 : FLIGHT_REORDER_MAX;
    if (flight->eighths < FLIGHT_EIGHTHS_MAX)
        flight->eighths++;
    flight->calmed = now;
}

bool flight_ack(struct flight *flight, uint64_t number, uint64_t now, struct flight_packet *packet)
{
    struct flight_packet *place = at(flight, number);

    if (number < flight->first || !flight_knows(flight, number) || place->state == FLIGHT_NONE)
        return false;
    if (number >= flight->acked)
        flight->acked = number + 1;
    *packet = *place;
    if (place->state == FLIGHT_OUT) {
        flight->bytes -= counted(place);
        flight->out--;
    } else if (place->state == FLIGHT_LOST) {
        raise_bounds(flight, number, now);
    }
    place->state = FLIGHT_NONE;
    pass_ended(flight);
    return true;
}

static bool left_together(const struct flight_packet *a, const struct flight_packet *b)
{
    return a->state == FLIGHT_OUT && a->what == b->what && a->sent == b->sent && a->kind == b->kind;
}

bool flight_ack_run(struct flight *flight, uint64_t number, unsigned most, uint64_t now,
                    struct flight_run *run)
{
    uint64_t known = number < flight->first ? 0 : number - flight->first, bytes = 0;
    struct flight_packet *packet = &run->packet, *place;

    if (!flight_ack(flight, number, now, packet))
        return false;
    run->count = 1;
    run->bytes = packet->bytes;
    run->pieces = packet->what ? UINT64_C(1) << packet->piece : 0;
    if (!packet->what || packet->state != FLIGHT_OUT)
        return true;
    for (; run->count < most && run->count <= known; run->count++) {
        place = at(flight, number - run->count);
        if (!left_together(place, packet))
            break;
        place->state = FLIGHT_NONE;
        bytes += place->bytes;
        run->pieces |= UINT64_C(1) << place->piece;
        if (packet->bytes < place->bytes)
            packet->bytes = place->bytes;
    }
    if (run->count == 1)
        return true;
    run->bytes += bytes;
    flight->bytes -= counted(packet) ? bytes : 0;
    flight->out -= run->count - 1;
    pass_ended(flight);
    return true;
}

static void calm(struct flight *flight, uint64_t now, const struct rtt *rtt)
{
    if (flight->reorder == FLIGHT_REORDER && flight->eighths == FLIGHT_EIGHTHS)
        return;
    if (now - flight->calmed < CALM_ROUNDS * rtt_smoothed(rtt))
        return;
    flight->calmed = now;
    flight->reorder = flight->reorder / 2 > FLIGHT_REORDER ? flight->reorder / 2 : FLIGHT_REORDER;
    if (flight->eighths > FLIGHT_EIGHTHS)
        flight->eighths--;
}

uint64_t flight_detect(struct flight *flight, uint64_t now, const struct rtt *rtt,
                       void (*lost)(void *arg, const struct flight_packet *packet), void *arg)
{
    uint64_t base = rtt->latest > rtt->smoothed ? rtt->latest : rtt_smoothed(rtt);
    uint64_t wait, next = 0;

    calm(flight, now, rtt);
    wait = base * flight->eighths / 8;
    if (wait < RTT_GRANULARITY / 8)
        wait = RTT_GRANULARITY / 8;
    for (uint64_t number = flight->first; number < flight->acked; number++) {
        struct flight_packet *packet = at(flight, number), was;

        if (packet->state != FLIGHT_OUT)
            continue;
        if (packet->sent + wait > now && flight->acked - 1 - number < flight->reorder) {
            if (!next || packet->sent + wait < next)
                next = packet->sent + wait;
            continue;
        }
        flight->bytes -= counted(packet);
        flight->out--;
        was = *packet;
        packet->state = FLIGHT_LOST;
        lost(arg, &was);
    }
    return next;
}

void flight_forget(struct flight *flight, uint64_t before)
{
    uint64_t kept = before == UINT64_MAX ? 0 : FLIGHT_KEPT;

    while (flight->first + kept < flight->next && at(flight, flight->first)->state != FLIGHT_OUT &&
           at(flight, flight->first)->sent < before) {
        at(flight, flight->first)->state = FLIGHT_NONE;
        flight->first++;
    }
}

struct flight_packet *flight_oldest(const struct flight *flight)
{
    for (uint64_t number = flight->first; number < flight->next; number++)
        if (at(flight, number)->state == FLIGHT_OUT)
            return at(flight, number);
    return NULL;
}

void flight_give_up(struct flight *flight, struct flight_packet *packet)
{
    flight->bytes -= counted(packet);
    flight->out--;
    packet->state = FLIGHT_GIVEN_UP;
}

void flight_clear(struct flight *flight, const void *what)
{
    for (uint64_t number = flight->first; number < flight->next; number++)
        if (at(flight, number)->what == what)
            at(flight, number)->what = NULL;
}
