/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * WEFT_EMULATOR_PCAP=FILE: the reliable datagrams that this process sends, as a pcapng file (%p in
 * the name is the process). A packet is IPv6 and UDP around the payload: the addresses are the
 * GIDs, the ports are the numbers of the queue pairs.
 */
#ifndef WEFT_EMULATOR_CAPTURE_H
#define WEFT_EMULATOR_CAPTURE_H

#include <stdint.h>
#include <sys/uio.h>

/* The lock is held. */
void capture_datagram(const uint8_t *source_gid, const uint8_t *target_gid, uint16_t source_qpn,
                      uint16_t target_qpn, const struct iovec *pieces, int count);

#endif
