/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * struct fi_info: memory, and the comparison of what is offered with what is asked.
 * Source: fi_getinfo(3), fi_endpoint(3), fi_domain(3), fi_mr(3).
 */
#ifndef WEFT_CORE_INFO_H
#define WEFT_CORE_INFO_H

#include <rdma/fabric.h>

#include "core/reason.h"

/* An info with all nested attrs (but no nic), zeroed. NULL without memory. */
struct fi_info *info_alloc(void);

/* Deep copies: one info (next NULL), or a whole list. NULL without memory. `handle`,
 * `domain_attr->domain` and `fabric_attr->fabric` are copied as pointers. */
struct fi_info *info_dup(const struct fi_info *info);
struct fi_info *info_dup_list(const struct fi_info *info);

/* Frees a list and all that hangs from it. NULL is fine. */
void info_free(struct fi_info *info);

/* Appends `more` to *list. */
void info_append(struct fi_info **list, struct fi_info *more);

/* Replaces a string or address of an info by a copy. -FI_ENOMEM. */
int info_set_string(char **field, const char *text);
int info_set_src(struct fi_info *info, const void *addr, size_t len);
int info_set_dest(struct fi_info *info, const void *addr, size_t len);

/* hints with every nested attr present: a copy where those missing are zeroed; hints NULL gives an
 * empty info. NULL without memory. */
struct fi_info *info_complete(const struct fi_info *hints);

/*
 * Does `offer` (all that a part can do) satisfy `hints` at API `version`? 0, or -FI_ENODATA with the
 * first reason recorded (attribute, asked, offered). Checks ep type, protocol, caps (primary must be
 * offered; a primary without modifiers implies all of its modifiers: FI_MSG implies SEND and RECV),
 * mode (the offer's required modes must be in hints->mode), mr_mode (same, with BASIC, SCALABLE and
 * FI_LOCAL_MR translation by version), addr_format, threading, progress, resource management, AV
 * type, orders (asked must be in offered), sizes and counts (asked <= offered), op_flags, names
 * (fabric and domain names equal), tclass, key and cq_data sizes, auth keys, mem_tag_format.
 */
int info_check(const struct fi_info *offer, const struct fi_info *hints, uint32_t version,
               struct reasons *reasons);

/*
 * Turns a checked offer into what fi_getinfo returns: caps (those asked with their implied
 * modifiers, plus secondary ones that cost nothing; all when nothing was asked), mode and mr_mode as the version
 * spells them, and threading, progress, AV type, op_flags, orders, resource management as asked: never raised, never lowered,
 * the offer's own where hints leave them open. Sizes stay the offer's unless hints ask for more detail.
 */
void info_settle(struct fi_info *offer, const struct fi_info *hints, uint32_t version);

/* caps with implied modifiers added: FI_RMA alone -> READ|WRITE|REMOTE_READ|REMOTE_WRITE, ... */
uint64_t caps_expand(uint64_t caps);

#endif
