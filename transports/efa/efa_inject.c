/* SPDX-License-Identifier: BSD-2-Clause */
/* A device writes remote memory from registered memory only, and an injected write's may be
 * anywhere: it is copied here. */
#include <stdlib.h>

#include <rdma/fi_errno.h>

#include "transports/efa/efa.h"

int efa_inject_open(struct efa_inject *inject, struct ibv_pd *pd, size_t slots, size_t slot_size)
{
    inject->slot_size = slot_size ? slot_size : 1;
    inject->memory = calloc(slots, inject->slot_size);
    inject->spare = calloc(slots, sizeof(*inject->spare));
    if (!inject->memory || !inject->spare) {
        efa_inject_close(inject);
        return -FI_ENOMEM;
    }
    inject->mr = verbs_lib.reg_mr(pd, inject->memory, slots * inject->slot_size, 0);
    if (!inject->mr) {
        int rc = verbs_error(-1);

        efa_inject_close(inject);
        return rc;
    }
    for (size_t i = slots; i--;)
        inject->spare[inject->spare_count++] = (unsigned)i;
    return 0;
}

void efa_inject_close(struct efa_inject *inject)
{
    if (inject->mr)
        verbs_lib.dereg_mr(inject->mr);
    free(inject->memory);
    free(inject->spare);
    *inject = (struct efa_inject){NULL};
}

int efa_inject_take(struct efa_inject *inject)
{
    return inject->spare_count ? (int)inject->spare[--inject->spare_count] : -1;
}

void efa_inject_give(struct efa_inject *inject, int slot)
{
    if (slot >= 0)
        inject->spare[inject->spare_count++] = (unsigned)slot;
}

char *efa_inject_at(const struct efa_inject *inject, int slot)
{
    return inject->memory + (size_t)slot * inject->slot_size;
}
