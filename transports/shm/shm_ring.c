/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_ring.h"

#include "core/base/pages.h"

enum {
    CREDITS_AT = 2 * SHM_LINE, /* in a pair of lines of its own: neighbours are fetched too */
    LINES_AT = 4 * SHM_LINE,
};

_Static_assert(LINES_AT + SHM_LINES * SHM_LINE == SHM_HALF, "a half is full");
_Static_assert(SHM_LINES - SHM_QUARTER >= 2 * SHM_MESSAGE_LINES, "room comes back in time");
_Static_assert(SHM_BULK - SHM_STEP / 4 >= 2 * SHM_CHUNK, "and in bulk");

static char *half_of(void *region, int half)
{
    return (char *)region + half * SHM_HALF;
}

static char *bulk_of(void *region, int half)
{
    return (char *)region + 2 * SHM_HALF + half * SHM_BULK;
}

static size_t rounded(size_t len)
{
    return (len + SHM_LINE - 1) & ~(size_t)(SHM_LINE - 1);
}

void shm_tx_init(struct shm_tx *tx, void *region, int half)
{
    *tx = (struct shm_tx){
        .lines = half_of(region, half) + LINES_AT,
        .bulk = bulk_of(region, half),
        .credits = (void *)(half_of(region, half) + CREDITS_AT),
        .limit = SHM_LINES,
        .bulk_limit = SHM_BULK,
        .lap = 1,
    };
}

void shm_rx_init(struct shm_rx *rx, void *region, int half)
{
    *rx = (struct shm_rx){
        .lines = half_of(region, half) + LINES_AT,
        .bulk = bulk_of(region, half),
        .credits = (void *)(half_of(region, half) + CREDITS_AT),
        .lap = 1,
    };
}

void shm_rx_hold(struct shm_rx *rx, bool held)
{
    atomic_store_explicit(&rx->credits->held, held, memory_order_release);
}

bool shm_tx_held(struct shm_tx *tx)
{
    tx->held = atomic_load_explicit(&tx->credits->held, memory_order_acquire);
    return tx->held;
}

/* Takes in the receiver's credits, if they are possible. */
static bool refresh(struct shm_tx *tx)
{
    uint64_t lines = atomic_load_explicit(&tx->credits->lines, memory_order_acquire);
    uint64_t bulk = atomic_load_explicit(&tx->credits->bulk, memory_order_acquire);

    if (tx->pos - lines > SHM_LINES || tx->bulk_pos - bulk > SHM_BULK ||
        lines + SHM_LINES < tx->limit || bulk + SHM_BULK < tx->bulk_limit) {
        tx->broken = true;
        return false;
    }
    tx->limit = lines + SHM_LINES;
    tx->bulk_limit = bulk + SHM_BULK;
    shm_tx_held(tx);
    return true;
}

char *shm_tx_reserve_more(struct shm_tx *tx, unsigned lines)
{
    unsigned rest = SHM_LINES - tx->at;

    if (!refresh(tx))
        return NULL;
    if (rest < lines) {
        if (tx->limit - tx->pos < rest + lines)
            return NULL;
        shm_tx_publish(
            tx, (struct shm_head){.op = SHM_PAD, .bytes = (uint16_t)(rest * SHM_LINE - SHM_WORD)});
    }
    if (tx->limit - tx->pos < lines)
        return NULL;
    return tx->lines + tx->at * SHM_LINE + SHM_WORD;
}

static void ask_for_pages(struct shm_tx *tx, size_t end)
{
    size_t begin = tx->bulk_pages;

    tx->bulk_pages = (end + SHM_STEP - 1) / SHM_STEP * SHM_STEP;
    pages_ask(tx->bulk + begin, tx->bulk_pages - begin);
}

static bool bulk_has_room(struct shm_tx *tx, size_t need)
{
    return tx->bulk_limit - tx->bulk_pos >= need ||
           (refresh(tx) && tx->bulk_limit - tx->bulk_pos >= need);
}

/*
 * Bytes to skip before a payload, which must be contiguous. At each step of the ring the sender
 * restarts at its begin if the receiver is so close behind that another chunk fits there: it then
 * uses few pages, which stay in caches.
 */
static size_t bulk_skip(struct shm_tx *tx, size_t at, size_t len)
{
    size_t rest = SHM_BULK - at;

    if (len > rest)
        return rest;
    if (at && (at - 1) / SHM_STEP != (at + len - 1) / SHM_STEP &&
        bulk_has_room(tx, rest + rounded(len) + SHM_CHUNK))
        return rest;
    return 0;
}

char *shm_tx_bulk(struct shm_tx *tx, size_t len, uint64_t *pos)
{
    size_t at = tx->bulk_pos % SHM_BULK, skip = bulk_skip(tx, at, len);

    if (!bulk_has_room(tx, skip + rounded(len)))
        return NULL;
    *pos = tx->bulk_pos + skip;
    at = *pos % SHM_BULK;
    if (__builtin_expect(at + len > tx->bulk_pages, 0))
        ask_for_pages(tx, at + len);
    return tx->bulk + at;
}

void shm_tx_bulk_commit(struct shm_tx *tx, uint64_t pos, size_t len)
{
    tx->bulk_pos = pos + rounded(len);
}

void shm_tx_bulk_ahead(const struct shm_tx *tx, size_t len)
{
    size_t at = tx->bulk_pos % SHM_BULK;

    if (tx->bulk_limit - tx->bulk_pos < rounded(len) || at + len > tx->bulk_pages)
        return;
    for (size_t i = 0; i < len; i += SHM_LINE)
        shm_ask_for(tx->bulk + at + i);
}

bool shm_tx_bulk_is_empty(struct shm_tx *tx)
{
    return refresh(tx) && tx->bulk_limit == tx->bulk_pos + SHM_BULK;
}

void shm_rx_clear(struct shm_rx *rx, unsigned lines)
{
    for (unsigned i = 1; i < lines; i++)
        atomic_store_explicit((_Atomic uint64_t *)(void *)(rx->lines + (rx->at + i) * SHM_LINE), 0,
                              memory_order_relaxed);
}

const char *shm_rx_bulk(const struct shm_rx *rx, uint64_t pos, uint64_t len)
{
    if (len > SHM_CHUNK || pos - rx->bulk_pos >= SHM_BULK || pos % SHM_BULK + len > SHM_BULK)
        return NULL;
    return rx->bulk + pos % SHM_BULK;
}

void shm_rx_bulk_done(struct shm_rx *rx, uint64_t pos, uint64_t len)
{
    rx->bulk_pos = pos + rounded(len);
    if (rx->bulk_pos - rx->bulk_told >= SHM_STEP / 4)
        shm_rx_bulk_tell(rx);
}

void shm_rx_bulk_tell(struct shm_rx *rx)
{
    if (rx->bulk_told == rx->bulk_pos)
        return;
    rx->bulk_told = rx->bulk_pos;
    atomic_store_explicit(&rx->credits->bulk, rx->bulk_pos, memory_order_release);
}
