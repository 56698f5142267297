/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that wait for a PDC, and the room that is made for them. */
#include <limits.h>

#include "transports/uet/pds/pdc.h"

enum {
    ROOM_FOR = 8, /* of those that wait, when they are looked through */
};

/* PSNs go on for 2^31 from Start_PSN, less what is under way. */
#define NUMBERS_MAX ((UINT64_C(1) << 31) - PDS_MPR_MAX)

/* Where there are too many, the one that was not used for the longest time is closed, by its owner.
 * The others that are looked at have work, or are being closed: they need no look soon. */
void wait_make_room(struct pds *pds)
{
    unsigned looked = 0;

    if (!pds_is_full(pds))
        return;
    while (looked++ < PDS_LOOK_AT && !list_empty(&pds->used)) {
        struct pdc *pdc = list_item(pds->used.next, struct pdc, used);

        pdc_touch(pdc);
        if (pdc_tx_idle(pdc) && !pdc->holds && !pdc->wants_close && pdc->state != PDC_CLOSED) {
            pdc_ask_to_close(pdc);
            pds->made_room = pds->now;
            return;
        }
    }
}

/* So many that wait are looked at: those that leave make room for as many of them, if they leave
 * soon. */
static bool needs_room(const struct pds *pds, unsigned waiting)
{
    return waiting < ROOM_FOR &&
           (waiting >= pds->leaving || pds->now - pds->made_room > pds->settings.rto);
}

bool wait_end(struct pds *pds, struct pds_source *source)
{
    struct pdc *pdc = pdc_choose(pds, &source->key);

    if (!pdc || pdc->wants_close || pdc->state > PDC_ESTABLISHED)
        return false;
    if (!pdc_wake(pdc)) {
        pds->stirred = true;
        return false;
    }
    if (pdc->tx->next >= NUMBERS_MAX) {
        pdc_ask_to_close(pdc);
        return false;
    }
    list_detach(&source->link);
    list_attach(&source->link, &pdc->tx->sources);
    source->pdc = pdc_ref(pdc);
    pdc_touch(pdc);
    pdc_activate_source(pdc);
    return true;
}

/* Then all that waits is looked at: those that were asked to leave may be silent, and a source far
 * behind may have a PDC. */
uint64_t wait_deadline(const struct pds *pds)
{
    return list_empty(&pds->waiting) ? UINT64_MAX : pds->drained + pds->settings.rto;
}

/* Gives what waits a PDC, in its order. The first ones take what has become free: `most` of them
 * that find none are looked at. */
static void drain_waiting(struct pds *pds, unsigned most)
{
    struct list later;
    unsigned room = 0;

    list_init(&later);
    pds->stirred = false;
    while (room < most && !list_empty(&pds->waiting)) {
        struct pds_source *source = list_item(pds->waiting.next, struct pds_source, link);

        if (wait_end(pds, source))
            continue;
        list_detach(&source->link);
        list_attach(&source->link, &later);
        if (needs_room(pds, room++))
            wait_make_room(pds);
    }
    list_join(&pds->waiting, &later);
    list_join(&later, &pds->waiting);
}

void wait_run(struct pds *pds)
{
    if (wait_deadline(pds) <= pds->now) {
        pds->drained = pds->now;
        drain_waiting(pds, UINT_MAX);
    } else if (pds->stirred) {
        drain_waiting(pds, ROOM_FOR);
    }
}

void wait_begin(struct pds *pds, struct pds_source *source)
{
    bool alone = list_empty(&pds->waiting);

    list_attach(&source->link, &pds->waiting);
    if (alone && needs_room(pds, 0))
        wait_make_room(pds);
}
