/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer: `hook` of a fabric is its struct monitor_page, of other objects their struct
 * monitor_object. */
#ifndef WEFT_MONITOR_LAYER_H
#define WEFT_MONITOR_LAYER_H

#include "core/hook/hook.h"
#include "layers/monitor/monitor_page.h"

/* The tables that count, and those that give objects what to count in. */
void monitor_data_ops(struct hook_ops *ops);

#endif
