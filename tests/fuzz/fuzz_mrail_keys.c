/* SPDX-License-Identifier: BSD-2-Clause */
/* Any bytes as a message of mrail's own, by which keys are told: what decodes is in bounds, encodes
 * to the same bytes, and cut short it is refused. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "layers/mrail/mrail_keys.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_keys(const struct mrail_keys *keys)
{
    must(keys->kind == MRAIL_ASKED || keys->kind == MRAIL_TOLD);
    must(keys->count <= MRAIL_RAILS);
    if (keys->kind == MRAIL_ASKED)
        must(keys->count == 1);
#ifdef FUZZ_PLANTED
    /* As if there were always a region. */
    must(keys->count > 0);
#endif
}

static void check(const uint8_t *raw, size_t len)
{
    uint8_t again[MRAIL_KEYS_MAX];
    struct mrail_keys keys, cut;

    if (mrail_keys_get(raw, len, &keys))
        return;
    check_keys(&keys);
    must(mrail_keys_put(&keys, again) == len && !memcmp(again, raw, len));
    for (size_t i = 0; i < len; i++)
        must(mrail_keys_get(raw, i, &cut) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* An exact copy, so that a read past the end is seen. */
    uint8_t *copy = calloc(1, size ? size : 1);

    must(!!copy);
    if (size)
        memcpy(copy, data, size);
    check(copy, size);
    /* With a count that fits, or few would get any further. */
    if (size >= MRAIL_KEYS_HEAD) {
        copy[0] = 1 + copy[0] % 3;
        copy[1] = (uint8_t)((size - MRAIL_KEYS_HEAD) / 8);
        copy[2] = copy[3] = 0;
        check(copy, size);
    }
    free(copy);
    return 0;
}
