/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Infos of layers that make complete endpoints of reliable packets (message_ep.h): the hints for
 * the lower, and FI_EP_RDM with tags, remote memory and atomics made of the lower's infos.
 */
#ifndef WEFT_CORE_LAYER_MESSAGE_INFO_H
#define WEFT_CORE_LAYER_MESSAGE_INFO_H

#include "core/layer/lower_domain.h"
#include "core/part/part.h"

/* The values of an info that a layer's protocol decides. */
struct message_offer {
    uint64_t caps; /* beside those that every such layer has */
    uint64_t order;
    size_t inject_size, max_order_size;
    uint32_t protocol, protocol_version;
    unsigned contexts;  /* of a scalable endpoint, in each direction */
    bool own_addresses; /* of a form that only the lower reads: shared vectors do not know it */
};

/* A parameter that every such layer has, for its table. */
#define MESSAGE_SAVED_SIZE                                                                         \
    {                                                                                              \
        .key = "saved_size", .type = PARAM_SIZE, .default_text = "64m", .min = 65536,              \
        .max = INT64_MAX,                                                                          \
        .help = "Bytes of messages without a receive that an endpoint keeps; beyond them it "      \
                "takes no more until some are received. Of a message that is asked for in "        \
                "pieces only the beginning is kept.",                                              \
    }

/* Entry of struct part. */
int message_needs(const struct request *req, struct fi_info **lower_hints);
/* Does the lower give packets that are large enough for that part? Else -FI_ENODATA, and why. */
int message_check_lower(const struct request *req, const struct fi_info *lower, const char *part);
/* The layer's info over a lower that was checked. -FI_ENOMEM. */
int message_describe(const struct request *req, const struct fi_info *lower,
                     const struct message_offer *offer, struct fi_info **info);
/* For lower_domain_type.lower_info: the lower's first info for one of the layer's. more:
 * capabilities that it is to have besides. The lower's error. */
int message_lower_info(const struct lower_fabric *fabric, const struct fi_info *info, uint64_t more,
                       struct fi_info **lower_info);

#endif
