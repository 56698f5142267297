/* SPDX-License-Identifier: BSD-2-Clause */
/* UDP sockets as a NIC has them: what the kernel is asked for, and what it notes of each read. */
#ifndef WEFT_UET_NIC_SOCKET_H
#define WEFT_UET_NIC_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct uet_socket_options {
    size_t rx_buffer, tx_buffer; /* bytes that the kernel is asked for; 0: as it likes */
    uint8_t dscp;
    bool gro; /* the kernel puts together what comes */
};

/* A value of an int; what the kernel does not have it is not asked for. */
void uet_socket_set(int fd, int level, int option, int value);
/* Before it is bound. */
void uet_socket_set_options(int fd, sa_family_t family, const struct uet_socket_options *asked);
/* Marked; and how long each packet of the read is, where *segment is not what it has. */
bool uet_socket_notes(struct msghdr *header, size_t *segment);

#endif
