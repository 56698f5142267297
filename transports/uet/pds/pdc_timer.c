/* SPDX-License-Identifier: BSD-2-Clause */
/* Timers: retransmission, probes, requests for answers, CLEAR, CLOSE, signs of life. */
#include <limits.h>

#include "transports/uet/pds/pdc.h"

enum {
    BACKOFF_MAX = 20,
    AT_ONCE = 8, /* packets, after a timeout */
    SIGNS = 2,   /* of life that a peer is asked for, at least */
};

/* ns */
#define RTO_MAX UINT64_C(8000000000)
#define DOUBT_RTO_MAX UINT64_C(100000000) /* of a peer whose port is said to be closed, and: */
#define HURRIED_GRACE UINT64_C(50000000)  /* when the caller is about to leave */

static struct pds_packet *head(const struct list *list)
{
    return list_empty(list) ? NULL : list_item(list->next, struct pds_packet, link);
}

/* RTO_Init_Time, or longer where round trips are: a peer that is a process may take its time. */
static uint64_t backed_off(const struct pdc *pdc, unsigned times)
{
    uint64_t most = pdc->tx->unreachable ? DOUBT_RTO_MAX : RTO_MAX;
    uint64_t rto = pdc->pds->settings.rto, seen = 0;

    if (pdc->tx->rtt.smoothed)
        seen = rtt_timeout(&pdc->tx->rtt, 0);
    rto = (seen > rto ? seen : rto) << (times < BACKOFF_MAX ? times : BACKOFF_MAX);
    return rto < most ? rto : most;
}

static bool knows_peer(const struct pdc *pdc)
{
    return !pdc->ours || pdc->state != PDC_SYN;
}

/* ---- Due times ---- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t rto_due(const struct pdc *pdc)
{
    const struct pds_packet *packet = head(&pdc->tx->flight);

    uint64_t since = packet ? later(packet->at, pdc->tx->timed_out) : 0;

    return packet ? later(since, pdc->pds->paused) + backed_off(pdc, pdc->tx->backoff) : UINT64_MAX;
}

static uint64_t held_due(const struct pdc *pdc)
{
    const struct pds_packet *packet = head(&pdc->tx->held);
    uint64_t due = packet ? packet->at : UINT64_MAX;

    return pdc->tx->hold_until && pdc->tx->hold_until < due ? pdc->tx->hold_until : due;
}

static uint64_t ask_due(const struct pdc *pdc)
{
    const struct pds_packet *packet = head(&pdc->tx->arrived);
    uint64_t due = packet ? packet->at + backed_off(pdc, packet->retries) : UINT64_MAX;
    uint64_t patience = pdc->pds->settings.patience;

    /* When a peer is given up does not depend on how far apart the questions are. */
    if (!packet || packet->retries < SIGNS || patience > UINT64_MAX - pdc->heard)
        return due;
    return earlier(due, later(pdc->heard + patience + 1, packet->at + backed_off(pdc, 0)));
}

/* Something is under way, or waits for what only an acknowledgement tells. */
static uint64_t tail_due(const struct pdc *pdc)
{
    const struct pdc_tx *tx = pdc->tx;
    bool waits =
        !list_empty(&tx->flight) || (!list_empty(&tx->sources) && tx->next - tx->acked >= tx->mpr);

    if (!waits || !knows_peer(pdc) || tx->probes >= pdc->pds->settings.tail_count)
        return UINT64_MAX;
    return later(tx->heard, pdc->pds->paused) + (pdc->pds->settings.tail_time << tx->probes);
}

static uint64_t clear_due(const struct pdc *pdc)
{
    return pdc->tx->clear_at ? pdc->tx->clear_at : UINT64_MAX;
}

static uint64_t noop_due(const struct pdc *pdc)
{
    if (!pdc->holds || pdc->tx->first != pdc->tx->next || !knows_peer(pdc))
        return UINT64_MAX;
    return pdc->heard + pdc->pds->settings.noop_time;
}

/* A peer whose port is said to be closed has been silent since, while something is under way. */
static uint64_t gone_due(const struct pdc *pdc)
{
    uint64_t grace = pdc->pds->settings.grace;

    if (!pdc->tx->unreachable || (pdc_tx_idle(pdc) && !pdc->holds))
        return UINT64_MAX;
    if (pdc->pds->hurries && grace > HURRIED_GRACE)
        grace = HURRIED_GRACE;
    return pdc->tx->unreachable + grace;
}

/* The PDC gives back memory that it does not need while nothing is under way. */
static uint64_t rest_due(const struct pdc *pdc)
{
    if (!pdc_may_rest(pdc))
        return UINT64_MAX;
    return later(pdc->heard, pdc->tx->heard) + pdc->pds->settings.rest_time;
}

static uint64_t idle_due(const struct pdc *pdc)
{
    if (!pdc->ours || pdc->state != PDC_ESTABLISHED || pdc->holds || !pdc_tx_idle(pdc) ||
        !pdc->pds->settings.idle_time)
        return UINT64_MAX;
    return pdc->heard + pdc->pds->settings.idle_time;
}

/* A peer's PDC that is closed is remembered: its late packets open none. */
static uint64_t forget_due(const struct pdc *pdc)
{
    return pdc->heard + pdc->pds->settings.safety_time + 1;
}

void pdc_arm(struct pdc *pdc)
{
    uint64_t due = pdc->tx->close_by ? earlier(pdc->tx->close_by, pdc->tx->plead_at) : UINT64_MAX;

    if (pdc->state == PDC_CLOSED) {
        due = forget_due(pdc);
    } else {
        due = earlier(due, earlier(rto_due(pdc), held_due(pdc)));
        due = earlier(due, earlier(ask_due(pdc), tail_due(pdc)));
        due = earlier(due, earlier(clear_due(pdc), noop_due(pdc)));
        due = earlier(due, earlier(idle_due(pdc), rest_due(pdc)));
        due = earlier(due, gone_due(pdc));
    }
    if (due == UINT64_MAX) {
        timer_stop(&pdc->timer);
    } else if (list_empty(&pdc->timer.link) || pdc->timer.due != (int64_t)due) {
        pdc->timed_idle = pdc_tx_idle(pdc);
        timer_start(&pdc->timer, pdc->timed_idle ? &pdc->pds->idle_timers : &pdc->pds->timers,
                    (int64_t)due);
    }
}

/* Nothing is due, and the timer goes off before what leaves now could be lost: it is too early at
 * worst, and need not be set anew with each packet. */
static bool has_time(const struct pdc *pdc)
{
    const struct pds_settings *settings = &pdc->pds->settings;
    const struct pdc_tx *tx = pdc->tx;
    uint64_t soon =
        pdc->timed_idle ? settings->rest_time : earlier(settings->rto, settings->tail_time);
    uint64_t now = pdc->pds->now;

    if (list_empty(&pdc->timer.link) || (uint64_t)pdc->timer.due <= now ||
        (uint64_t)pdc->timer.due > now + soon)
        return false;
    return pdc->state == PDC_ESTABLISHED && !pdc->failed && !pdc->wants_close && !pdc->holds &&
           !tx->close_by && !pdc_rests(pdc) && !tx->clear_at && !tx->hold_until &&
           !tx->unreachable && list_empty(&tx->held) && list_empty(&tx->arrived);
}

/* ---- Actions that are due ---- */

/* The oldest packets are sent again. Later ones are found lost when these have come; but the
 * receiver of an ordered PDC has kept none of them, and where fewer may fly than do, lost ones
 * would keep the others from leaving. */
static void timed_out(struct pdc *pdc)
{
    bool all = pdc->key.mode == PDS_MODE_ROD || pdc->tx->flying >= pdc->tx->limit;
    unsigned most = all ? UINT_MAX : AT_ONCE;
    struct pds_packet *packet = head(&pdc->tx->flight);

    pdc->pds->excused = false;
    if (++pdc->tx->backoff > pdc->pds->settings.rto_count ||
        pdc->pds->now - pdc->tx->progressed > pdc->pds->settings.patience) {
        pdc->failed = true;
        return;
    }
    pdc->tx->timed_out = pdc->pds->now;
    window_lost(&pdc->tx->window, pdc->pds->now, packet->len);
    for (unsigned i = 0; i < most && (packet = head(&pdc->tx->flight)); i++)
        pdc_tx_resend(pdc, packet);
}

/* The receiver has the packet; its response is lost, or not there yet. */
static void ask(struct pdc *pdc)
{
    struct pds_packet *packet = head(&pdc->tx->arrived);

    if (++packet->retries > pdc->pds->settings.rto_count ||
        (packet->retries > SIGNS && pdc->pds->now - pdc->heard > pdc->pds->settings.patience)) {
        pdc->failed = true;
        return;
    }
    packet->at = pdc->pds->now;
    list_detach(&packet->link);
    list_attach(&packet->link, &pdc->tx->arrived);
    pdc_send_control(pdc, CONTROL_ACK_REQUEST, pdc_tx_psn(pdc, packet->number), 0, 0);
}

static void probe(struct pdc *pdc)
{
    struct pdc_tx *tx = pdc->tx;

    tx->probes++;
    tx->opaque++;
    tx->probe_order = tx->order;
    tx->probe_base = tx->first;
    pdc->pds->counters.probes++;
    pdc_send_control(pdc, CONTROL_PROBE, pdc_tx_psn(pdc, tx->next) - 1, tx->opaque,
                     pdc_tx_psn(pdc, tx->first));
}

static void clear(struct pdc *pdc)
{
    pdc->tx->clear_at = 0;
    pdc->tx->cleared = pdc->tx->first;
    if (knows_peer(pdc))
        pdc_send_control(pdc, CONTROL_CLEAR, 0, 0, pdc_tx_psn(pdc, pdc->tx->first) - 1);
}

/* The packet that asked the peer before may be lost. */
void pdc_plead(struct pdc *pdc)
{
    pdc->tx->plead_at = pdc->pds->now + backed_off(pdc, pdc->tx->pleas++);
    pdc_send_control(pdc, CONTROL_CLOSE_REQUEST, pdc_rx_psn(pdc, pdc->rx->serial.next), 0, 0);
}

static void do_what_is_due(struct pdc *pdc)
{
    uint64_t now = pdc->pds->now;
    struct pds_packet *packet;

    while ((packet = head(&pdc->tx->held)) && packet->at <= now)
        pdc_tx_resend(pdc, packet);
    if (tail_due(pdc) <= now)
        probe(pdc);
    if (rto_due(pdc) <= now)
        timed_out(pdc);
    if (ask_due(pdc) <= now)
        ask(pdc);
    if (clear_due(pdc) <= now)
        clear(pdc);
    if (noop_due(pdc) <= now && !pdc_tx_control(pdc, CONTROL_NOOP))
        pdc->heard = now;
    if (idle_due(pdc) <= now)
        pdc_want_close(pdc);
    if (gone_due(pdc) <= now)
        pdc->failed = true;
    if (pdc->tx->close_by > now && pdc->tx->plead_at <= now)
        pdc_plead(pdc);
    if (rest_due(pdc) <= now)
        pdc_rest(pdc);
}

/* ---- Closing, by the one that opened it ---- */

static void close_ours(struct pdc *pdc)
{
    if (!pdc->ours || !pdc->wants_close)
        return;
    if (pdc->state == PDC_SYN && !pdc->tx->next && list_empty(&pdc->tx->sources))
        pdc->state = PDC_CLOSED;
    if (pdc->state == PDC_ESTABLISHED)
        pdc->state = PDC_QUIESCE;
    if (pdc->state == PDC_QUIESCE && pdc_tx_idle(pdc) && !pdc->holds &&
        pdc_tx_control(pdc, CONTROL_CLOSE))
        pdc->state = PDC_CLOSING;
}

static void send_all(struct pdc *pdc)
{
    if (pdc->rx->ack_due)
        pdc_rx_acknowledge(pdc);
    pdc_tx_send(pdc);
}

bool pdc_run(struct pdc *pdc)
{
    struct pds *pds = pdc->pds;

    if (has_time(pdc)) {
        send_all(pdc);
        if (pdc_tx_idle(pdc) != pdc->timed_idle)
            pdc_arm(pdc);
        return true;
    }
    if (pdc->state == PDC_CLOSED && !pdc->ours && pds->now < forget_due(pdc)) {
        if (pdc_may_rest(pdc))
            pdc_rest(pdc);
        pdc_arm(pdc);
        return true;
    }
    if (pdc->state != PDC_CLOSED && !pdc->failed && pdc_wake(pdc)) {
        do_what_is_due(pdc);
        close_ours(pdc);
    }
    if (pdc->tx->close_by && pds->now >= pdc->tx->close_by && pdc->state != PDC_CLOSED)
        pdc->failed = true;
    if (pdc->failed) {
        pdc_fail(pdc);
        return false;
    }
    if (pdc->state == PDC_CLOSED) {
        pdc_end(pdc);
        return false;
    }
    send_all(pdc);
    pdc_arm(pdc);
    return true;
}
