/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/net/pcap_packet.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    BLOCK_SECTION = 0x0a0d0d0a,
    BLOCK_INTERFACE = 1,
    BLOCK_PACKET = 6,
    ORDER_MAGIC = 0x1a2b3c4d,
    LINK_RAW = 101, /* IPv4 or IPv6 packets, without anything around them */
    OPTION_END = 0,
    OPTION_IF_NAME = 2,
    OPTION_IF_DESCRIPTION = 3,
    OPTION_IF_TSRESOL = 9,
    OPTION_USER_APPLICATION = 4,
    OPTION_PACKET_FLAGS = 2,
    IPV4_HEAD = 20,
    IPV6_HEAD = 40,
    TCP_HEAD = 20,
    UDP_HEAD = 8,
};

/* ---- Blocks: numbers in our byte order, which the section header tells ---- */

static size_t put16(uint8_t *out, size_t at, uint16_t value)
{
    memcpy(out + at, &value, sizeof(value));
    return at + sizeof(value);
}

static size_t put32(uint8_t *out, size_t at, uint32_t value)
{
    memcpy(out + at, &value, sizeof(value));
    return at + sizeof(value);
}

static size_t pad(uint8_t *out, size_t at)
{
    while (at % 4)
        out[at++] = 0;
    return at;
}

static size_t put_option(uint8_t *out, size_t at, unsigned code, const void *value, size_t len)
{
    at = put16(out, at, (uint16_t)code);
    at = put16(out, at, (uint16_t)len);
    if (len)
        memcpy(out + at, value, len);
    return pad(out, at + len);
}

/* A block of len bytes so far: its length, at both ends. */
static size_t end_block(uint8_t *out, size_t len)
{
    put32(out, 4, (uint32_t)len + 4);
    return put32(out, len, (uint32_t)len + 4);
}

static size_t section_block(uint8_t *out)
{
    static const char program[] = "Weft " WEFT_VERSION;
    size_t at = put32(out, 0, BLOCK_SECTION);

    at = put32(out, at + 4, ORDER_MAGIC);
    at = put16(out, at, 1); /* version 1.0 */
    at = put16(out, at, 0);
    memset(out + at, 0xff, 8); /* length of the section: not told */
    at = put_option(out, at + 8, OPTION_USER_APPLICATION, program, sizeof(program) - 1);
    at = put_option(out, at, OPTION_END, NULL, 0);
    return end_block(out, at);
}

static size_t interface_block(const char *part, const char *program, int pid, size_t snap,
                              uint8_t *out)
{
    static const uint8_t nanoseconds = 9;
    size_t at = put32(out, 0, BLOCK_INTERFACE);
    char text[128];
    int len = snprintf(text, sizeof(text), "%.64s, process %d", program, pid);

    at = put16(out, at + 4, LINK_RAW);
    at = put16(out, at, 0);
    at = put32(out, at, (uint32_t)snap);
    at = put_option(out, at, OPTION_IF_NAME, part, strnlen(part, 32));
    at = put_option(out, at, OPTION_IF_DESCRIPTION, text, (size_t)len);
    at = put_option(out, at, OPTION_IF_TSRESOL, &nanoseconds, sizeof(nanoseconds));
    at = put_option(out, at, OPTION_END, NULL, 0);
    return end_block(out, at);
}

size_t pcap_packet_head(const char *part, const char *program, int pid, size_t snap, uint8_t *out)
{
    size_t len = section_block(out);

    return len + interface_block(part, program, pid, snap, out + len);
}

/* ---- Packets: numbers in network byte order ---- */

static void net16(uint8_t *out, unsigned value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
}

static void net32(uint8_t *out, uint32_t value)
{
    net16(out, value >> 16);
    net16(out + 2, value & 0xffff);
}

/* RFC 1071, unfolded. */
static uint32_t sum_bytes(uint32_t sum, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint64_t wide = sum;

    for (size_t i = 0; i + 1 < len; i += 2)
        wide += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    if (len % 2)
        wide += (uint32_t)bytes[len - 1] << 8;
    while (wide >> 16)
        wide = (wide & 0xffff) + (wide >> 16);
    return (uint32_t)wide;
}

static unsigned checksum(uint32_t sum)
{
    return ~sum & 0xffff;
}

static unsigned protocol(const struct pcap_packet *packet)
{
    return packet->datagram ? IPPROTO_UDP : IPPROTO_TCP;
}

/* Bytes behind the IP header. */
static unsigned inner_len(const struct pcap_packet *packet)
{
    return (packet->datagram ? UDP_HEAD : TCP_HEAD) + (unsigned)packet->len;
}

static void ipv4_head(const struct pcap_packet *packet, uint8_t *out)
{
    memset(out, 0, IPV4_HEAD);
    out[0] = 0x45;
    net16(out + 2, IPV4_HEAD + inner_len(packet));
    out[6] = 0x40; /* do not fragment */
    out[8] = 64;
    out[9] = (uint8_t)protocol(packet);
    memcpy(out + 12, &packet->from->in.sin_addr, 4);
    memcpy(out + 16, &packet->to->in.sin_addr, 4);
    net16(out + 10, checksum(sum_bytes(0, out, IPV4_HEAD)));
}

static void ipv6_head(const struct pcap_packet *packet, uint8_t *out)
{
    memset(out, 0, IPV6_HEAD);
    out[0] = 0x60;
    net16(out + 4, inner_len(packet));
    out[6] = (uint8_t)protocol(packet);
    out[7] = 64;
    memcpy(out + 8, &packet->from->in6.sin6_addr, 16);
    memcpy(out + 24, &packet->to->in6.sin6_addr, 16);
}

/* addrs: the two addresses of the IP header, for the sum over the pseudo header. */
static void tcp_head(const struct pcap_packet *packet, const uint8_t *addrs, size_t addrs_len,
                     uint8_t *out)
{
    uint32_t sum = IPPROTO_TCP + TCP_HEAD + (uint32_t)packet->len;

    memset(out, 0, TCP_HEAD);
    net16(out, addr_port(&packet->from->sa));
    net16(out + 2, addr_port(&packet->to->sa));
    net32(out + 4, packet->seq);
    net32(out + 8, packet->flags & PCAP_ACK ? packet->ack : 0);
    out[12] = TCP_HEAD / 4 << 4;
    out[13] = (uint8_t)packet->flags;
    net16(out + 14, 0xffff);
    sum = sum_bytes(sum, addrs, addrs_len);
    sum = sum_bytes(sum, out, TCP_HEAD);
    net16(out + 16, checksum(sum_bytes(sum, packet->payload, packet->len)));
}

/* As tcp_head. */
static void udp_head(const struct pcap_packet *packet, const uint8_t *addrs, size_t addrs_len,
                     uint8_t *out)
{
    uint32_t sum = IPPROTO_UDP + inner_len(packet);
    unsigned check;

    memset(out, 0, UDP_HEAD);
    net16(out, addr_port(&packet->from->sa));
    net16(out + 2, addr_port(&packet->to->sa));
    net16(out + 4, inner_len(packet));
    sum = sum_bytes(sum, addrs, addrs_len);
    sum = sum_bytes(sum, out, UDP_HEAD);
    check = checksum(sum_bytes(sum, packet->payload, packet->len));
    net16(out + 6, check ? check : 0xffff); /* 0 says that there is none */
}

static size_t inner_head(const struct pcap_packet *packet, const uint8_t *addrs, size_t addrs_len,
                         uint8_t *out)
{
    if (packet->datagram) {
        udp_head(packet, addrs, addrs_len, out);
        return UDP_HEAD;
    }
    tcp_head(packet, addrs, addrs_len, out);
    return TCP_HEAD;
}

static size_t heads(const struct pcap_packet *packet, uint8_t *out)
{
    if (packet->from->sa.sa_family == AF_INET) {
        ipv4_head(packet, out);
        return IPV4_HEAD + inner_head(packet, out + 12, 8, out + IPV4_HEAD);
    }
    ipv6_head(packet, out);
    return IPV6_HEAD + inner_head(packet, out + 8, 32, out + IPV6_HEAD);
}

size_t pcap_packet_block(const struct pcap_packet *packet, uint8_t *out)
{
    const uint32_t direction = packet->inbound ? 1 : 2;
    size_t at = 28, head, whole, kept;

    assert(packet->len <= PCAP_PAYLOAD_MAX);
    head = heads(packet, out + at);
    whole = head + packet->len;
    kept = whole < packet->snap ? whole : packet->snap;
    if (kept > head)
        memcpy(out + at + head, packet->payload, kept - head);
    put32(out, 0, BLOCK_PACKET);
    put32(out, 8, 0); /* the interface */
    put32(out, 12, (uint32_t)(packet->ns >> 32));
    put32(out, 16, (uint32_t)packet->ns);
    put32(out, 20, (uint32_t)kept);
    put32(out, 24, (uint32_t)whole);
    at = pad(out, at + kept);
    at = put_option(out, at, OPTION_PACKET_FLAGS, &direction, sizeof(direction));
    at = put_option(out, at, OPTION_END, NULL, 0);
    return end_block(out, at);
}
