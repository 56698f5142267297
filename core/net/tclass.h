/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic classes (fi_endpoint(3)) on a socket: a DSCP is set as it is; labels have the DSCP that
 * RFC 4594 and RFC 8622 recommend for them. No class turns TCP_NODELAY off: records of tcp leave in
 * groups anyway, and without it the end of each burst would wait for a delayed acknowledgement
 * (40 ms).
 */
#ifndef WEFT_CORE_NET_TCLASS_H
#define WEFT_CORE_NET_TCLASS_H

#include <stdint.h>

/* FI_TC_UNSPEC leaves the socket alone. A kernel that refuses is no error: one line in the log, of
 * the part. */
void tclass_set(const char *part, int fd, uint32_t tclass);
/* The DSCP of a class, 0 to 63. */
unsigned tclass_dscp(uint32_t tclass);

#endif
