/* SPDX-License-Identifier: BSD-2-Clause */
/* Tokens of CONTROL_REACH (core/base/seam.h) for parts that do not leave the node or the process.
 */
#ifndef WEFT_CORE_BASE_REACH_H
#define WEFT_CORE_BASE_REACH_H

#include "core/base/seam.h"

/* Same for processes of one boot of one kernel, network namespace and user; where that cannot be
 * found out, of one process only. */
void reach_of_node(struct reach *reach);
/* Of this process only, not of one that it forks. */
void reach_of_process(struct reach *reach);

/* Answers both commands for a domain with that token: equal ones reach each other. -FI_ENOSYS for
 * other commands. */
int reach_control(const struct reach *own, int command, void *arg);

#endif
