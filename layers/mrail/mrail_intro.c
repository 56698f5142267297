/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/mrail/mrail_intro.h"

void mrail_intro_renew(struct mrail_intro *intro, uint32_t number, uint64_t epoch)
{
    intro->number = number;
    intro->epoch = epoch;
    if (intro->their_epoch > intro->forgotten) {
        intro->forgotten = intro->their_epoch;
        intro->forgot_surely = intro->sure;
    }
    intro->their_epoch = 0;
    intro->sure = false;
    intro->theirs = 0;
    intro->introduced = false;
}

enum mrail_intro_fate mrail_intro_take(struct mrail_intro *intro, const struct mrail_head *head,
                                       enum mrail_word word)
{
    bool ends = word != WORD_HEARSAY;

    if (head->epoch < intro->their_epoch && (word != WORD_OWN || intro->sure))
        return INTRO_LATE;
    if (head->epoch < intro->their_epoch) /* what another said is taken back */
        return head->epoch > intro->forgotten || !intro->forgot_surely ? INTRO_BEGUN : INTRO_LATE;
    if (head->epoch < intro->forgotten && word == WORD_OWN && !intro->forgot_surely)
        intro->forgotten = head->epoch - 1;
    if (head->epoch <= intro->forgotten && head->to == intro->number)
        return ends ? INTRO_UNHEARD : INTRO_LATE;
    if (head->epoch <= intro->forgotten)
        return INTRO_TELL;
    if (head->epoch != intro->their_epoch && !ends)
        return INTRO_LATE;
    if (intro->their_epoch && head->epoch > intro->their_epoch)
        return INTRO_BEGUN;
    if (head->to && head->to != intro->number) {
        intro->introduced = false;
        return INTRO_TELL;
    }
    intro->their_epoch = head->epoch;
    intro->theirs = head->giving;
    intro->sure = intro->sure || word == WORD_OWN;
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
