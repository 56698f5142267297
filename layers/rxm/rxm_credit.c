/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_credit.h"

#include "layers/rxm/rxm_proto.h"

enum {
    HAVE_MAX = 1 << 24 /* no receive queue is longer */
};

void rxm_credit_init(struct rxm_credit *credit, unsigned queue)
{
    *credit = (struct rxm_credit){.have = 1, .owed = -1, .quantum = queue > 1 ? queue / 2 : 1};
}

void rxm_credit_agree(struct rxm_credit *credit, uint8_t own, uint8_t other)
{
    credit->on = own == RXM_FLOW_ON && (other == RXM_FLOW_ON || other == RXM_FLOW_UNSAID);
}

bool rxm_credit_granted(struct rxm_credit *credit, uint64_t count)
{
    if (count > HAVE_MAX || credit->have + count > HAVE_MAX)
        return false;
    credit->have += count;
    return true;
}

uint32_t rxm_credit_due(const struct rxm_credit *credit)
{
    return credit->on && credit->owed >= credit->quantum ? (uint32_t)credit->owed : 0;
}
