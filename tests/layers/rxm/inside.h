/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints as in rdm.h, of the static library, so that a test can look inside. For one file of a
 * program. */
#ifndef WEFT_TESTS_RXM_INSIDE_H
#define WEFT_TESTS_RXM_INSIDE_H

#include "rdm.h"

#include "layers/rxm/msgproto/msgproto.h"
#include "tests/support/inside.h"

/* Of an endpoint with tags=emulate. */
static inline struct msgproto *inside_emu(const struct rdm *rdm)
{
    return object_of(rdm->ep, struct rxm_ep, fid)->msgproto;
}

#endif
