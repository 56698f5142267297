/* SPDX-License-Identifier: BSD-2-Clause */
/* The events of completion queues. */
#ifndef WEFT_EMULATOR_CHANNEL_H
#define WEFT_EMULATOR_CHANNEL_H

#include "cq.h"

/* The lock is held. */
void channel_raise(struct cq *cq);
void channel_forget(struct cq *cq);

#endif
