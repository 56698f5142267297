/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The address of an endpoint as packets carry it: the raw address of efa (FI_ADDR_EFA), 32 bytes of
 * GID, queue pair number and connid, which is the queue's key. Over a lower with IP addresses the
 * GID is the IPv6 address, or the IPv4 address mapped into one (::ffff:a.b.c.d), the queue pair
 * number is the port, and the reserved bytes are the scope and the view (srd_wire.h). Over any
 * other lower it is that one's address, of as many bytes as it has, and connid and view behind it.
 */
#ifndef WEFT_LAYERS_SRD_SRD_NAME_H
#define WEFT_LAYERS_SRD_SRD_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/net/addr.h"
#include "layers/srd/srd_wire.h"

enum {
    SRD_NAME_MOST = ADDR_OWN_MAX,
    SRD_LIVES = 8, /* bytes of connid and view */
    SRD_RAW_MOST = SRD_NAME_MOST + SRD_LIVES,
};

/* As a packet's address tells them: the sender's life, and its view of the receiver's. */
struct srd_lives {
    uint32_t connid, view;
};

/* Without the connid, which is 0 in IP's: a name stays when its endpoint starts again. Of EFA's
 * with it: an endpoint that starts again has another address. */
struct srd_name {
    size_t len; /* the same of all peers of an endpoint */
    uint8_t bytes[SRD_NAME_MOST];
};

/* Bytes of a lower's addresses of a form that only it reads, EFA's among them; 0: they are IP's. */
size_t srd_name_own_size(const struct fi_info *lower);
/* Of an address in that format, of len bytes. -FI_EINVAL. */
int srd_name_import(uint32_t format, const void *raw, size_t len, struct srd_name *name);
/* Of a packet's address, to an endpoint over that lower: NULL, and the name and the lives; or what
 * is wrong. */
const char *srd_name_get(const struct fi_info *lower, const struct srd_header *header,
                         struct srd_name *name, struct srd_lives *lives);
/* Of EFA's. */
uint32_t srd_name_connid(const struct srd_name *name);
/* The bytes of a packet; how many there are, at most SRD_RAW_MOST. Lives of EFA's are those of the
 * name. */
size_t srd_name_put(uint32_t format, const struct srd_name *name, uint8_t *raw);
/* Puts lives into such bytes, not of EFA's. */
void srd_name_put_lives(uint32_t format, const struct srd_lives *lives, uint8_t *raw, size_t len);
/* Bytes for an address vector of that format. */
void srd_name_export(uint32_t format, const struct srd_name *name, union addr_raw *raw);
/* For the log. */
char *srd_name_text(uint32_t format, const struct srd_name *name, char text[ADDR_TEXT_MAX]);
/* As a socket address. */
void srd_name_addr(const struct srd_name *name, union addr *addr);
uint64_t srd_name_hash(const struct srd_name *name);

#endif
