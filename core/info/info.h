/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * struct fi_info: memory, and the comparison of hints with an offer. Source: fi_getinfo(3),
 * fi_endpoint(3), fi_domain(3), fi_mr(3).
 */
#ifndef WEFT_CORE_INFO_INFO_H
#define WEFT_CORE_INFO_INFO_H

#include <stdbool.h>

#include <rdma/fabric.h>

#include "core/base/reason.h"

#define INFO_CAPS_MODIFIERS                                                                        \
    (FI_READ | FI_WRITE | FI_RECV | FI_SEND | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define INFO_SECONDARY_CAPS                                                                        \
    (FI_MULTI_RECV | FI_TAGGED_MULTI_RECV | FI_SOURCE | FI_RMA_EVENT | FI_SHARED_AV | FI_TRIGGER | \
     FI_FENCE | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SOURCE_ERR | FI_RMA_PMEM)

/* The capabilities that a context may have, of those that infos have. */
#define INFO_TX_CAPS                                                                               \
    (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_READ | FI_WRITE | FI_SEND | FI_HMEM |            \
     FI_TRIGGER | FI_FENCE | FI_MULTICAST | FI_RMA_PMEM | FI_NAMED_RX_CTX | FI_COLLECTIVE)
#define INFO_RX_CAPS                                                                               \
    (FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RECV |        \
     FI_HMEM | FI_TRIGGER | FI_RMA_PMEM | FI_DIRECTED_RECV | FI_TAGGED_DIRECTED_RECV |             \
     FI_EXACT_DIRECTED_RECV | FI_TAGGED_MULTI_RECV | FI_MULTI_RECV | FI_SOURCE | FI_RMA_EVENT |    \
     FI_SOURCE_ERR | FI_COLLECTIVE)

/* Hints of an application that takes whatever modes there are: those of a NULL hints. */
#define INFO_ANY_MODE UINT64_MAX
#define INFO_ANY_MR_MODE (~(FI_MR_BASIC | FI_MR_SCALABLE))

/* True for INFO_ANY_MR_MODE, and for the rest of it when a layer takes bits out. */
static inline bool info_mr_is_any(int mr_mode)
{
    return mr_mode < 0;
}

/* tclass of an offer that can carry any: sockets, whose DSCP can be set. 0: best effort only. */
#define INFO_ANY_TCLASS UINT32_MAX

/* An info with all nested attrs (but no nic), zeroed. NULL without memory. */
struct fi_info *info_alloc(void);

/* A deep copy of one info (next NULL). NULL without memory. `handle`, `domain_attr->domain` and
 * `fabric_attr->fabric` are copied as pointers. */
struct fi_info *info_dup(const struct fi_info *info);
/* A copy of hints, or of an info of a layer's, to ask its lower with: it names no part and no
 * object, and its domain is driven by the layer, under the layer's lock. NULL without memory. */
struct fi_info *info_for_lower(const struct fi_info *info);

/* Frees a list and all that hangs from it. NULL is fine. The one place where a fabric_attr dies. */
void info_free(struct fi_info *info);

/* Sets what a domain in software offers: keys and data of 8 bytes, that many objects of a class and
 * shared contexts for an endpoint, and one context of its own each way. */
void info_set_limits(struct fi_domain_attr *attr, size_t objects);

size_t info_count(const struct fi_info *list);
/* Appends `more` to *list. */
void info_append(struct fi_info **list, struct fi_info *more);

/* Replaces a string or address of an info by a copy; NULL clears it. -FI_ENOMEM. */
int info_set_string(char **field, const char *text);
int info_set_src(struct fi_info *info, const void *addr, size_t len);
int info_set_dest(struct fi_info *info, const void *addr, size_t len);

/* hints with every nested attr present: a copy where those missing are zeroed. hints NULL gives an
 * empty info that takes every mode and mr_mode (INFO_ANY_*), as fi_getinfo(3) has it. NULL without
 * memory. */
struct fi_info *info_complete(const struct fi_info *hints);

/*
 * Does `offer` (all that a part can do) satisfy `hints` at API `version`? Both with all attrs. 0,
 * or -FI_ENODATA with the first and most telling reason recorded (attribute, asked, offered).
 * Checks ep type, names (fabric and domain equal), caps (primary must be offered; a primary without
 * modifiers implies all of its modifiers: FI_MSG implies SEND and RECV), protocol, mode (the
 * offer's required modes must be in hints->mode), mr_mode (same, with BASIC, SCALABLE and
 * FI_LOCAL_MR translation by version), addr_format (FI_SOCKADDR and FI_SOCKADDR_IP take the kinds
 * below them), threading (an offer of FI_THREAD_SAFE takes all), progress (asked AUTO must be
 * offered), resource management, AV type (offered UNSPEC takes both), orders and op_flags (asked
 * must be in offered; FI_COMPLETION always is), tclass, contexts (FI_SHARED_CONTEXT included), auth
 * keys, mem_tag_format, sizes and counts (asked <= offered; a domain's counts offered as 0 are
 * unlimited).
 *
 * In an offer mr_mode holds required bits only: 0 takes BASIC, SCALABLE and everything else.
 * auth_key_size holds the largest size, op_flags all that may be a default. threading, progress and
 * resource_mgmt UNSPEC in an offer is "as you like", settled to SAFE, MANUAL and ENABLED when hints
 * leave it open; progress MANUAL in an offer refuses hints that ask for AUTO.
 */
int info_check(const struct fi_info *offer, const struct fi_info *hints, uint32_t version,
               struct reasons *reasons);

/*
 * Turns a checked offer into the info that fi_getinfo returns: caps (those asked with their implied
 * modifiers, plus secondary ones that cost nothing; all when nothing was asked), mode and mr_mode
 * as the version spells them (BASIC or SCALABLE below 1.5 or when asked so; else the required
 * bits), and threading, progress, AV type, orders, resource management as asked: never raised,
 * never lowered, the offer's own where hints leave them open. op_flags are the default flags of an
 * endpoint: exactly those asked. Queue sizes are as asked, else the offer's; other sizes stay the
 * offer's. api_version becomes `version`. -FI_ENOMEM (auth keys are copied).
 */
int info_settle(struct fi_info *offer, const struct fi_info *hints, uint32_t version);

/* caps with implied modifiers added: FI_RMA alone -> READ|WRITE|REMOTE_READ|REMOTE_WRITE, ... */
uint64_t caps_expand(uint64_t caps);

/* The mr_mode of a settled info in bits, for parts: BASIC is VIRT_ADDR|ALLOCATED|PROV_KEY,
 * SCALABLE none, the FI_LOCAL_MR mode bit beside either FI_MR_LOCAL. */
int info_mr_bits(const struct fi_info *info);

/* Do these hints speak of mr_mode in the spelling of API 1.4: by version, or by what they ask? */
bool mr_mode_is_old(const struct fi_info *hints, uint32_t version);

#endif
