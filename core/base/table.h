/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of functions that are another table with some functions replaced. A table is defined with
 * its size and the functions that are its own; it takes the rest from its base before its first
 * use:
 *
 *     static struct fi_ops_rma ops = {.size = sizeof(ops), .read = own_read};
 *     ...
 *     ep->fid.rma = table_inherit(&ops, &ep_rma_ops);
 */
#ifndef WEFT_CORE_BASE_TABLE_H
#define WEFT_CORE_BASE_TABLE_H

/* Sets the functions of table that are NULL to those of base. Both are tables of one type, of which
 * the first member is the size. Any thread, any number of times, also while other threads call the
 * table's functions: functions that are set stay. Returns table. */
void *table_inherit(void *table, const void *base);

#endif
