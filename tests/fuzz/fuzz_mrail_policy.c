/* SPDX-License-Identifier: BSD-2-Clause */
/* Any text as mrail's policy (FI_OFI_MRAIL_CONFIG): a list that ascends, which printed reads as the
 * same, or a reason that fits its buffer. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/mrail/mrail_policy.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    WHY = 200,
    PRINTED = 40, /* of a pair */
};

static void print(const struct flow_policy *policies, size_t count, char *text)
{
    static const char *const names[] = {
        [FLOW_FIXED] = "fixed", [FLOW_TURNS] = "round-robin", [FLOW_SHORTEST] = "striping"};

    for (size_t i = 0; i < count; i++)
        text += snprintf(text, PRINTED, "%s%llu:%s", i ? "|" : "",
                         (unsigned long long)policies[i].most, names[policies[i].way]);
}

static void check_list(const char *text, const struct flow_policy *policies, size_t count)
{
    struct flow_policy again[MRAIL_POLICIES];
    char printed[MRAIL_POLICIES * PRINTED] = "", why[WHY];
    size_t again_count = 0;

    must(count <= MRAIL_POLICIES && !count == !*text);
    for (size_t i = 0; i < count; i++) {
        must(policies[i].way == FLOW_FIXED || policies[i].way == FLOW_TURNS ||
             policies[i].way == FLOW_SHORTEST);
#ifdef FUZZ_PLANTED
        /* As if the last pair always had no limit. */
        must(i + 1 < count || policies[i].most == UINT64_MAX);
#endif
        must(!i || policies[i].most > policies[i - 1].most);
    }
    /* The largest that decimal digits are read for is a little less than UINT64_MAX. */
    if (count && policies[count - 1].most > (UINT64_MAX - 9) / 10 * 10)
        return;
    print(policies, count, printed);
    must(!mrail_policy_read(printed, again, &again_count, why, sizeof(why)));
    must(again_count == count);
    for (size_t i = 0; i < count; i++)
        must(again[i].most == policies[i].most && again[i].way == policies[i].way);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct flow_policy policies[MRAIL_POLICIES];
    char *text = malloc(size + 1), *why = malloc(WHY);
    size_t count = 0;
    int rc;

    must(text && why);
    memcpy(text, data, size);
    text[size] = 0;
    memset(why, 'x', WHY);
    rc = mrail_policy_read(text, policies, &count, why, WHY);
    if (rc)
        must(memchr(why, 0, WHY) && why[0]);
    else
        check_list(text, policies, count);
    must(mrail_policy_check(text, why, WHY) == rc);
    free(why);
    free(text);
    return 0;
}
