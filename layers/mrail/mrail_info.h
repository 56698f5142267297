/* SPDX-License-Identifier: BSD-2-Clause */
/* The hints for rails, and the infos that the join makes of theirs. */
#ifndef WEFT_LAYERS_MRAIL_MRAIL_INFO_H
#define WEFT_LAYERS_MRAIL_MRAIL_INFO_H

#include "core/layer/join_fabric.h"
#include "core/part/part.h"

extern struct join_words mrail_words;

enum {
    MRAIL_SIZE = 1024, /* of queues whose size no info names */
    MRAIL_INJECT = 1024,
};

unsigned mrail_peer_traits(const struct params *params);
int mrail_needs(const struct request *req, struct fi_info **lower_hints);
int mrail_join(const struct request *req, const struct fi_info *const *branches, size_t count,
               struct fi_info **infos);

/* The info that a rail of one of our infos is opened with; info_free. -FI_ENODATA: the rail is not
 * in it. */
int mrail_rail_info(const struct lower *lower, size_t slot, size_t slots,
                    const struct fi_info *info, struct fi_info **rail);
/* Sets the rail's source address to what one of our infos says, `before` other rails of its kind
 * being in front of it. -FI_ENOMEM, -FI_EINVAL. */
int mrail_rail_source(struct fi_info *rail, size_t before, const struct fi_info *info);

#endif
