/* SPDX-License-Identifier: BSD-2-Clause */
/* PDCs without work give their memory back, and get it again with traffic. */
#include <stdlib.h>

#include "transports/uet/pds/pdc.h"

enum {
    US = 1000, /* ns */
    RECEIVED_UNIT = 256,
};

static void remember_tx(struct pdc *pdc)
{
    struct pdc_tx *tx = pdc->tx;

    tx->next = tx->first = tx->cleared = tx->acked = pdc->tx_next;
    tx->mpr = (uint64_t)pdc->mpr * PDS_MPR_UNIT;
    tx->reorder = pdc->reorder;
    tx->came = pdc->came;
    tx->heard = tx->progressed = pdc->pds->now;
    if (pdc->smoothed)
        rtt_add(&tx->rtt, pdc->pds->now, (uint64_t)pdc->smoothed * US, 0);
}

bool pdc_wake(struct pdc *pdc)
{
    struct pds *pds = pdc->pds;
    struct pdc_busy *busy;

    if (!pdc_rests(pdc))
        return true;
    busy = calloc(1, sizeof(*busy)); /* no pool: it would keep what the busiest moment took */
    if (!busy)
        return false;
    pdc->tx = &busy->tx;
    pdc->rx = &busy->rx;
    pdc_tx_init(pdc->tx, pds);
    pdc_rx_init(pdc->rx, pds);
    remember_tx(pdc);
    pdc->rx->serial.next = pdc->rx->serial.end = pdc->rx_next;
    pdc->rx->received = (uint64_t)pdc->received * RECEIVED_UNIT;
    pdc->rx->told = pdc->told;
    return true;
}

bool pdc_may_rest(const struct pdc *pdc)
{
    return !pdc_rests(pdc) && pdc_tx_idle(pdc) && !pdc->holds && !pdc->wants_close &&
           !pdc->tx->clear_at && !pdc->rx->ack_due && list_empty(&pdc->rx->stored) &&
           pdc->rx->serial.end <= pdc->rx->serial.next && pdc->tx->next <= UINT32_MAX;
}

void pdc_rest(struct pdc *pdc)
{
    struct pds *pds = pdc->pds;
    uint64_t smoothed = pdc->tx->rtt.smoothed / US;

    if (pdc_rests(pdc))
        return;
    pdc->tx_next = (uint32_t)pdc->tx->next;
    pdc->mpr = (uint8_t)(pdc->tx->mpr / PDS_MPR_UNIT);
    pdc->reorder = (uint16_t)(pdc->tx->reorder < UINT16_MAX ? pdc->tx->reorder : UINT16_MAX);
    pdc->came = pdc->tx->came > 0;
    pdc->smoothed = (uint32_t)(smoothed < UINT32_MAX ? smoothed : UINT32_MAX);
    pdc->rx_next = pdc->rx->serial.next;
    pdc->received = (uint32_t)(pdc->rx->received / RECEIVED_UNIT);
    pdc->told = pdc->rx->told;
    pdc_tx_finish(pdc);
    pdc_rx_finish(pdc);
    free(pdc->tx); /* the first member of a struct pdc_busy */
    pdc->tx = &pds->rest.tx;
    pdc->rx = &pds->rest.rx;
}
