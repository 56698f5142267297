/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECTION = 0x0a0d0d0a,
    INTERFACE = 1,
    PACKET = 6,
    BLOCK_MIN = 12,
    PACKET_HEAD = 28,
    UDP = 17,
    OPTION_TSRESOL = 9,
};

static uint32_t get32(const uint8_t *at)
{
    uint32_t number;

    memcpy(&number, at, sizeof(number));
    return number;
}

static uint16_t net16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static int read_all(const char *path, uint8_t **bytes, size_t *len)
{
    FILE *file = fopen(path, "rb");
    size_t room = 1 << 20, got;

    *len = 0;
    *bytes = NULL;
    if (!file)
        return -1;
    do {
        room *= 2;
        *bytes = realloc(*bytes, room);
        if (!*bytes)
            abort();
        got = fread(*bytes + *len, 1, room - *len, file);
        *len += got;
    } while (got);
    fclose(file);
    return 0;
}

static void set_addr(union addr *addr, bool wide, const uint8_t *host, uint16_t port)
{
    memset(addr, 0, sizeof(*addr));
    addr->sa.sa_family = wide ? AF_INET6 : AF_INET;
    if (wide)
        memcpy(&addr->in6.sin6_addr, host, 16);
    else
        memcpy(&addr->in.sin_addr, host, 4);
    addr_set_port(&addr->sa, port);
}

/* A packet of IP. False: it is no whole datagram. */
static bool take_datagram(uint8_t *at, size_t len, struct captured *packet)
{
    bool wide = len && at[0] >> 4 == 6;
    size_t head = wide ? 40 : len ? (size_t)(at[0] & 15) * 4 : 0;

    if (len < head + 8 || head < 20 || at[wide ? 6 : 9] != UDP || net16(at + head + 4) < 8 ||
        net16(at + head + 4) > len - head)
        return false;
    set_addr(&packet->from, wide, at + (wide ? 8 : 12), net16(at + head));
    set_addr(&packet->to, wide, at + (wide ? 24 : 16), net16(at + head + 2));
    packet->bytes = at + head + 8;
    packet->len = net16(at + head + 4) - 8u;
    return true;
}

/* Nanoseconds of a unit of time, by an interface's options; microseconds where it says nothing. */
static uint64_t unit_of(const uint8_t *block, size_t len)
{
    for (size_t at = 16; at + 8 <= len - 4;) {
        uint16_t code, size;

        memcpy(&code, block + at, 2);
        memcpy(&size, block + at + 2, 2);
        if (code == OPTION_TSRESOL)
            return block[at + 4] == 9 ? 1 : 1000;
        if (!code)
            break;
        at += 4 + (size_t)(size + 3) / 4 * 4;
    }
    return 1000;
}

static void take_packet(struct capture *capture, uint8_t *block, size_t len, uint64_t unit)
{
    struct captured *packet = &capture->packets[capture->count];
    size_t kept = len >= PACKET_HEAD + 4 ? get32(block + 20) : 0;

    if (!kept || kept > len - PACKET_HEAD - 4 ||
        !take_datagram(block + PACKET_HEAD, kept, packet)) {
        capture->left_out++;
        return;
    }
    packet->ns = ((uint64_t)get32(block + 12) << 32 | get32(block + 16)) * unit;
    capture->count++;
}

int capture_read(const char *path, struct capture *capture, char *why, size_t why_size)
{
    uint64_t unit = 1000;
    size_t len, room = 0;

    memset(capture, 0, sizeof(*capture));
    if (read_all(path, &capture->file, &len)) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        return -1;
    }
    if (len < BLOCK_MIN || get32(capture->file) != SECTION) {
        snprintf(why, why_size, "%s is no pcapng file of this byte order", path);
        return -1;
    }
    for (size_t at = 0; at + BLOCK_MIN <= len;) {
        uint8_t *block = capture->file + at;
        size_t size = get32(block + 4);

        if (size < BLOCK_MIN || size > len - at)
            break; /* cut */
        if (get32(block) == INTERFACE && size >= 20)
            unit = unit_of(block, size);
        if (get32(block) == PACKET && capture->count == room) {
            room = room ? 2 * room : 1024;
            capture->packets = realloc(capture->packets, room * sizeof(*capture->packets));
            if (!capture->packets)
                abort();
        }
        if (get32(block) == PACKET)
            take_packet(capture, block, size, unit);
        at += size;
    }
    return 0;
}

void capture_free(struct capture *capture)
{
    free(capture->packets);
    free(capture->file);
}
