/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of a domain's endpoints: of all branches (lnx_addr.h), or, with the parameter `face`,
 * those of one branch, as they are. Then a branch inside of the node calls its endpoint by that
 * address, written as a text ("lnx://" and hexadecimal digits), and a sign says that the endpoint
 * listens there: an abstract unix socket named after user and text, to which no datagram is sent.
 * A peer that has the address and sees the sign, in this network namespace and of this user,
 * reaches the endpoint inside of the node; all others do by the face. The sign is there before any
 * peer can have the address, and goes with the process, so that both ends of a pair choose alike;
 * one that is found inside is known by its face, too (lnx_av.beside).
 */
#ifndef WEFT_LAYERS_LNX_LNX_FACE_H
#define WEFT_LAYERS_LNX_LNX_FACE_H

#include "layers/lnx/lnx_domain.h"

/* The address of a face as that of its endpoint in a branch inside of the node, and back. False: it
 * is too long; a peer's words are no such address. */
bool lnx_face_write(const struct lnx_addr_branch *face, struct lnx_addr_branch *inside);
bool lnx_face_read(const struct lnx_addr_branch *inside, struct lnx_addr_branch *face);

/* Bytes of an address of the domain's endpoints. */
size_t lnx_face_size(const struct lnx_domain *domain);

/* Reads the address, as those of the domain's branches; why gets a sentence. -FI_EINVAL. */
int lnx_face_decode(const struct lnx_domain *domain, const void *raw, struct lnx_addr *addr,
                    char *why, size_t why_size);

/* An address of one of ours, who is known by the endpoint's address in one branch: lnx_face_size
 * bytes, or 0: there is no room for it, or no such address. */
size_t lnx_face_encode(const struct lnx_domain *domain, const struct lnx_addr *addr,
                       unsigned char *raw);

/* Names the endpoints of branches inside of the node (ep[i] of branch i), which are not enabled
 * yet, by the address of the face's, which is. Progress domain locked. */
int lnx_face_name(const struct lnx_domain *domain, struct fid_ep *const *ep);
/* Puts up the sign of the endpoint whose part in the face is ep; *sign is a descriptor, closed by
 * the caller. Progress domain locked. */
int lnx_face_show(const struct lnx_domain *domain, struct fid_ep *ep, int *sign);

#endif
