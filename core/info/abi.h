/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which layout of the public structs a caller was compiled with. fi_info and what hangs from it
 * have symbol versions; structs that arrive through fi_ops tables have none, so their layout is
 * taken from the level at which the application got the fi_fabric_attr that its fabric was opened
 * with. A field that the level lacks is never read or written. Every layout is a prefix of the
 * current one, so results need no conversion. Source: ABI CHANGES in fabric(7).
 */
#ifndef WEFT_CORE_INFO_ABI_H
#define WEFT_CORE_INFO_ABI_H

#include <stddef.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

/* The FABRIC_1.N that a program bound fi_getinfo at, and the releases whose headers give that. */
enum abi_level {
    ABI_1_0, /* 1.0 to 1.4 */
    ABI_1_1, /* 1.5, 1.6 */
    ABI_1_2, /* 1.7, 1.8 */
    ABI_1_3, /* 1.9 to 1.19 */
    ABI_1_7, /* 1.20 to 1.22 */
    ABI_1_8, /* 2.0 to 2.4 */
    ABI_1_9, /* 2.5 and later; the current layouts */
};

/* One info in the layout of `level`, as a deep copy in the current layout with the missing fields
 * zero; next is NULL. Nested attrs that are NULL stay NULL. `theirs` may be NULL: the result is
 * then info_alloc's. NULL without memory; free with info_free. */
struct fi_info *abi_info_import(const struct fi_info *theirs, enum abi_level level);

/* Makes a list that the library allocated fit to be returned at `level`: attributes that the level
 * has no name for and could not free are dropped. Also notes every fabric_attr of the list
 * (abi_note). */
void abi_info_export(struct fi_info *list, enum abi_level level);

/* fi_freeinfo at `level`: a list of infos that the library allocated, or that the application did
 * in the layout of `level`. Forgets their fabric_attrs. NULL is fine. */
void abi_info_free(struct fi_info *list, enum abi_level level);

/* Bytes that a caller's struct has at `level`: the most that may be read or written. */
size_t abi_cq_err_entry_size(enum abi_level level);
size_t abi_eq_err_entry_size(enum abi_level level);
size_t abi_tx_attr_size(enum abi_level level);

/* An attr in the current layout, missing fields zero. Pointers in it are copied as they are. */
void abi_fabric_attr_import(const struct fi_fabric_attr *theirs, enum abi_level level,
                            struct fi_fabric_attr *out);
void abi_mr_attr_import(const struct fi_mr_attr *theirs, enum abi_level level,
                        struct fi_mr_attr *out);

/*
 * Which level an fi_fabric_attr is of. Exact for those noted and not yet forgotten; for others,
 * which the application made, the lowest level that any caller in this process has bound so far
 * (ABI_1_9 before any has). All take a lock of their own and do not block otherwise.
 */
void abi_bound(enum abi_level level);
void abi_note(const struct fi_fabric_attr *attr, enum abi_level level);
void abi_forget(const struct fi_fabric_attr *attr);
enum abi_level abi_of(const struct fi_fabric_attr *attr);

#endif
