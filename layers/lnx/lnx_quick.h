/* SPDX-License-Identifier: BSD-2-Clause */
/* The short ways of an endpoint's public functions (lnx_quick.c). */
#ifndef WEFT_LAYERS_LNX_LNX_QUICK_H
#define WEFT_LAYERS_LNX_LNX_QUICK_H

#include "layers/lnx/lnx_ep.h"

/* Sets the tables, once the endpoint's groups are known. */
void lnx_quick_set(struct lnx_ep *ep);
/* May they be taken? From fi_enable on. Progress domain locked. */
void lnx_quick_enable(struct lnx_ep *ep);
/* Before the endpoint closes. Progress domain locked. */
void lnx_quick_disable(struct lnx_ep *ep);

#endif
