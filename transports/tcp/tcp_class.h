/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic classes (fi_endpoint(3)) on a socket: a DSCP is set as it is; labels have the DSCP that
 * RFC 4594 and RFC 8622 recommend for them, and FI_TC_BULK_DATA lets the kernel wait for full
 * segments (no TCP_NODELAY), as libfabric does.
 */
#ifndef WEFT_TCP_CLASS_H
#define WEFT_TCP_CLASS_H

#include <stdint.h>

/* FI_TC_UNSPEC leaves the socket alone. A kernel that refuses is none of the connection's
 * business: one line in the log. */
void tcp_class_set(int fd, uint32_t tclass);
/* The DSCP of a class, 0 to 63. */
unsigned tcp_class_dscp(uint32_t tclass);

#endif
