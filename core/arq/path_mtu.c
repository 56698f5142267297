/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/arq/path_mtu.h"

static uint32_t base(const struct path_mtu *mtu)
{
    return mtu->most < PATH_MTU_BASE ? mtu->most : PATH_MTU_BASE;
}

void path_mtu_init(struct path_mtu *mtu, uint32_t most)
{
    *mtu = (struct path_mtu){.most = most, .failed = most + 1};
    mtu->size = base(mtu);
}

/* The largest first, since most paths take what their interface takes; then halves. */
static uint32_t next_size(const struct path_mtu *mtu)
{
    if (mtu->failed <= mtu->size + 1)
        return 0;
    if (mtu->failed > mtu->most)
        return mtu->most;
    if (mtu->failed - mtu->size <= PATH_MTU_STEP)
        return 0;
    return mtu->size + (mtu->failed - mtu->size) / 2;
}

uint32_t path_mtu_probe(struct path_mtu *mtu, uint64_t now)
{
    if (mtu->out)
        return 0;
    if (mtu->again && now >= mtu->again) {
        mtu->again = 0;
        mtu->failed = mtu->most + 1;
    }
    if (!mtu->probe && !mtu->again) {
        mtu->probe = next_size(mtu);
        mtu->tries = 0;
        if (!mtu->probe && mtu->size < mtu->most)
            mtu->again = now + PATH_MTU_AGAIN;
    }
    return mtu->probe;
}

void path_mtu_sent(struct path_mtu *mtu)
{
    mtu->out = true;
    mtu->tries++;
}

void path_mtu_probe_acked(struct path_mtu *mtu, uint32_t bytes)
{
    if (bytes != mtu->probe)
        return; /* of a search that is over */
    mtu->size = bytes;
    mtu->probe = 0;
    mtu->out = false;
}

void path_mtu_probe_lost(struct path_mtu *mtu, uint32_t bytes)
{
    if (bytes != mtu->probe)
        return;
    mtu->out = false;
    if (mtu->tries < PATH_MTU_TRIES)
        return;
    mtu->failed = bytes;
    mtu->probe = 0;
}

void path_mtu_acked(struct path_mtu *mtu, struct path_mtu_came *came, uint32_t bytes, uint64_t sent)
{
    if (bytes <= base(mtu))
        return;
    if (bytes >= mtu->least)
        mtu->losses = 0;
    if (sent > came->sent || (sent == came->sent && bytes > came->bytes))
        *came = (struct path_mtu_came){sent, bytes};
}

/* Falls to size, and does not look above it for a while. */
static void fall(struct path_mtu *mtu, uint32_t size)
{
    if (mtu->size < mtu->failed)
        mtu->failed = mtu->size;
    mtu->size = size;
    mtu->losses = 0;
    mtu->probe = 0;
    mtu->out = false;
    mtu->again = 0;
}

bool path_mtu_lost(struct path_mtu *mtu, const struct path_mtu_came *came, uint32_t bytes,
                   uint64_t sent)
{
    if (bytes <= base(mtu) || bytes > mtu->size)
        return false;
    if (came->sent >= sent && came->bytes >= bytes)
        return false;
    if (!mtu->losses || bytes < mtu->least)
        mtu->least = bytes;
    if (++mtu->losses < PATH_MTU_LOSSES)
        return false;
    fall(mtu, base(mtu));
    return true;
}

bool path_mtu_limit(struct path_mtu *mtu, uint32_t most)
{
    uint32_t size = most < base(mtu) ? base(mtu) : most;

    if (size >= mtu->size)
        return false;
    fall(mtu, size);
    mtu->failed = size + 1;
    return true;
}
