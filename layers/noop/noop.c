/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/hook/hook_part.h"

/* Upstream's hooks for device memory copy it, or register it as a dmabuf of its vendor's library:
 * here the application gives dmabufs, and parts that would copy refuse FI_HMEM. */
static const char *const aliases[] = {
    "hook_noop", "hmem", "hook_hmem", "dmabuf_peer_mem", "hook_dmabuf_peer_mem", NULL};

const struct part noop_part = {
    .name = "noop",
    .prov_name = "ofi_hook_noop",
    .aliases = aliases,
    .summary = "passes everything through, unchanged",
    .description =
        "Wraps every object and every operation of its lower, and changes nothing. It may stand "
        "at any place of any stack, any number of times. It costs one indirect call for each "
        "operation and for each completion, and is the pattern from which other hooks are "
        "made.\n\n"
        "ofi_hook_hmem and ofi_hook_dmabuf_peer_mem are other names of it, for settings that "
        "were made for libfabric: they handle the memory of devices, which no part here offers.",
    HOOK_PART,
    .offer = part_offer_same,
};
