/* SPDX-License-Identifier: BSD-2-Clause */
/* The question of programs that run on FI_PROVIDER. They include cmocka.h before. */
#ifndef WEFT_EMULATOR_ASK_H
#define WEFT_EMULATOR_ASK_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

/* Its first reliable datagram endpoint with these capabilities. */
static inline struct fi_info *ask(uint64_t caps)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->caps = caps;
    hints->mode = ~0ull;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

#endif
