/* SPDX-License-Identifier: BSD-2-Clause */
/* The parameter `policy`, as fi_mrail(7) has its pairs: <size>:<policy>, in ascending order, of
 * fixed, round-robin and striping. Pure. */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_POLICY_H
#define WEFT_LAYERS_MRAIL_MRAIL_POLICY_H

#include "layers/mrail/mrail_flow.h"

enum {
    MRAIL_POLICIES = 16
};

/* text: pairs with '|' or ',' between them; NULL or empty: none. -FI_EINVAL with a sentence. */
int mrail_policy_read(const char *text, struct flow_policy policies[MRAIL_POLICIES], size_t *count,
                      char *why, size_t why_size);
/* For the table of parameters. */
int mrail_policy_check(const char *text, char *why, size_t why_size);

#endif
