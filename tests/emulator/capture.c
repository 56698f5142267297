/* SPDX-License-Identifier: BSD-2-Clause */
#include "capture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "report.h"
#include "settings.h"

enum {
    PATH_SIZE = 4096,
    LINK_IPV6 = 229, /* LINKTYPE_IPV6 */
    IP_SIZE = 40,
    UDP_SIZE = 8,
    UDP_NEXT = 17,
    BLOCK_SIZE = 28, /* of an enhanced packet block, in front of the packet */
    PIECES = 64,
};

static int file = -2; /* -1: none, -2: not looked for */
static pid_t owner;

static void open_file(void)
{
    /* Section header, then interface description: pcapng, sections 4.1 and 4.2. */
    static const uint32_t head[] = {0x0a0d0d0a, 28, 0x1a2b3c4d, 1,         0xffffffff, 0xffffffff,
                                    28,         1,  20,         LINK_IPV6, 0,          20};
    const char *text = settings()->capture, *mark = strstr(text, "%p");
    char path[PATH_SIZE];

    owner = getpid();
    if (mark)
        snprintf(path, sizeof(path), "%.*s%d%s", (int)(mark - text), text, (int)owner, mark + 2);
    else
        snprintf(path, sizeof(path), "%s", text);
    file = *text ? open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (*text && (file < 0 || write(file, head, sizeof(head)) != (ssize_t)sizeof(head)))
        report_say("WEFT_EMULATOR_PCAP: %s cannot be written: %s", path, strerror(errno));
}

static size_t length_of(const struct iovec *pieces, int count)
{
    size_t length = 0;

    for (int i = 0; i < count; i++)
        length += pieces[i].iov_len;
    return length;
}

static void fill_headers(uint8_t *out, const uint8_t *source_gid, const uint8_t *target_gid,
                         uint16_t source_qpn, uint16_t target_qpn, size_t length)
{
    uint16_t udp[4] = {htons(source_qpn), htons(target_qpn), htons((uint16_t)(UDP_SIZE + length)),
                       0xffff}; /* 0 is no checksum over IPv6; readers do not look at others */

    memset(out, 0, IP_SIZE);
    out[0] = 0x60;
    memcpy(out + 4, &udp[2], sizeof(udp[2]));
    out[6] = UDP_NEXT;
    out[7] = 64;
    memcpy(out + 8, source_gid, 16);
    memcpy(out + 24, target_gid, 16);
    memcpy(out + IP_SIZE, udp, sizeof(udp));
}

void capture_datagram(const uint8_t *source_gid, const uint8_t *target_gid, uint16_t source_qpn,
                      uint16_t target_qpn, const struct iovec *pieces, int count)
{
    static const uint8_t padding[4];
    size_t length = length_of(pieces, count), size = IP_SIZE + UDP_SIZE + length;
    size_t fill = (4 - size % 4) % 4;
    uint32_t total = (uint32_t)(BLOCK_SIZE + size + fill + sizeof(uint32_t));
    uint8_t headers[IP_SIZE + UDP_SIZE];
    struct iovec all[PIECES + 4];
    struct timespec now;
    uint64_t us;

    if (file == -2 || (file >= 0 && owner != getpid()))
        open_file();
    if (file < 0 || count > PIECES)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    uint32_t block[7] = {
        6, total, 0, (uint32_t)(us >> 32), (uint32_t)us, (uint32_t)size, (uint32_t)size};
    fill_headers(headers, source_gid, target_gid, source_qpn, target_qpn, length);
    all[0] = (struct iovec){block, sizeof(block)};
    all[1] = (struct iovec){headers, sizeof(headers)};
    memcpy(all + 2, pieces, (size_t)count * sizeof(*pieces));
    all[count + 2] = (struct iovec){(void *)padding, fill};
    all[count + 3] = (struct iovec){&total, sizeof(total)};
    if (writev(file, all, count + 4) != (ssize_t)total) {
        report_say("WEFT_EMULATOR_PCAP: the capture ends: %s", strerror(errno));
        close(file);
        file = -1;
    }
}
