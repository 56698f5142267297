/* SPDX-License-Identifier: BSD-2-Clause */
/* What the connection manager asks for, done on the lower. */
#ifndef WEFT_LAYERS_RXM_ACTIONS_H
#define WEFT_LAYERS_RXM_ACTIONS_H

#include "layers/rxm/rxm_cm.h"

/* Of the manager embedded in a struct rxm_ep; a request is the struct fi_info of its event. */
extern const struct rxm_cm_ops rxm_actions;

enum {
    RXM_FAILURE_TEXT_MAX = 256
};

/* What is said of a connection that could not be made (RXM_FAILURE_TEXT_MAX bytes); err: positive.
 */
void rxm_failure_text(const struct rxm_cm_peer *peer, int err, char *text);

#endif
