/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_intro.h"

void mrail_intro_renew(struct mrail_intro *intro, uint32_t number, uint64_t epoch)
{
    intro->number = number;
    intro->epoch = epoch;
    if (intro->their_epoch > intro->forgotten)
        intro->forgotten = intro->their_epoch;
    intro->their_epoch = 0;
    intro->theirs = 0;
    intro->introduced = false;
}

enum mrail_intro_fate mrail_intro_take(struct mrail_intro *intro, const struct mrail_head *head)
{
    if (head->epoch < intro->their_epoch)
        return INTRO_LATE;
    if (head->epoch <= intro->forgotten)
        return head->to == intro->number ? INTRO_UNHEARD : INTRO_TELL;
    if (intro->their_epoch && head->epoch > intro->their_epoch)
        return INTRO_BEGUN;
    if (head->to && head->to != intro->number) {
        intro->introduced = false;
        return INTRO_TELL;
    }
    intro->their_epoch = head->epoch;
    intro->theirs = head->giving;
    if (!head->to)
        return INTRO_WANTED;
    intro->introduced = true;
    return INTRO_TAKEN;
}

void mrail_intro_put(const struct mrail_intro *intro, struct mrail_head *head, const uint8_t *addr,
                     size_t addr_len)
{
    head->to = intro->theirs;
    if (intro->theirs && intro->introduced && head->type != MRAIL_PROBE)
        return;
    head->flags |= MRAIL_INTRO;
    head->epoch = intro->epoch;
    head->giving = intro->number;
    head->addr = addr;
    head->addr_len = (uint8_t)addr_len;
}
