/* SPDX-License-Identifier: BSD-2-Clause */
/* The hints that arq gives its lower, and the infos that it makes of the lower's. */
#ifndef WEFT_LAYERS_ARQ_ARQ_INFO_H
#define WEFT_LAYERS_ARQ_ARQ_INFO_H

#include "core/layer/lower_domain.h"
#include "core/part/part.h"

enum {
    ARQ_SIZE = 1024,    /* tx_size and rx_size, unless less is asked */
    ARQ_SEGMENTS = 7,   /* of a message; the header is another one to the lower */
    ARQ_INJECT = 1024,  /* bytes that are copied at most, where nothing else needs copies */
    ARQ_PREFIX_MAX = 64 /* bytes in front of what is received */
};

/* Of the part table. */
int arq_needs(const struct request *req, struct fi_info **lower_hints);
int arq_offer(const struct request *req, const struct fi_info *lower, struct fi_info **info);
unsigned arq_peer_traits(const struct params *params);

/* The lower's info for one of ours. */
int arq_lower_info(const struct lower_fabric *fabric, const struct fi_info *info,
                   struct fi_info **lower_info);

#endif
