/* SPDX-License-Identifier: BSD-2-Clause */
/* Carries out on the lower the actions that the connection manager asks for. */
#ifndef WEFT_LAYERS_RXM_CONN_RXM_ACTIONS_H
#define WEFT_LAYERS_RXM_CONN_RXM_ACTIONS_H

#include "layers/rxm/conn/rxm_cm.h"

/* Of the manager embedded in a struct rxm_ep; a request is the struct fi_info of its event. */
extern const struct rxm_cm_ops rxm_actions;

enum {
    RXM_FAILURE_TEXT_MAX = 256
};

/* The text about a connection that could not be made (RXM_FAILURE_TEXT_MAX bytes); err: positive.
 */
void rxm_failure_text(const struct rxm_cm_peer *peer, int err, char *text);

#endif
