/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/part.h"
#include "core/pass.h"

static int open_fabric(const struct open_args *args, struct fid_fabric **fabric, void *context)
{
    return pass_open_fabric(args, fabric, context, NULL);
}

static const char *const aliases[] = {"hook_noop", NULL};

const struct part noop_part = {
    .name = "noop",
    .prov_name = "ofi_hook_noop",
    .aliases = aliases,
    .summary = "passes everything through, unchanged",
    .description =
        "Wraps every object and every operation of what it stands on, and changes nothing. It may "
        "stand at any place of any stack, any number of times. It costs one indirect call for each "
        "operation and for each completion, and is the pattern from which other hooks are made.",
    .kind = PART_LAYER,
    .transparent = true,
    .needs = part_needs_same,
    .offer = part_offer_same,
    .open_fabric = open_fabric,
};
