/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_choice.h"

/* One that has too few samples yet, or the best one. */
static enum shm_way pick(const struct shm_choice *choice, unsigned ways, bool *learning)
{
    enum shm_way least = SHM_STREAM, best = SHM_STREAM;

    for (enum shm_way way = SHM_STREAM; way < SHM_WAYS; way++) {
        if (!(ways & 1u << way))
            continue;
        if (choice->samples[way] < choice->samples[least])
            least = way;
        /* Of equals, the way that leaves the sender's core alone; the kernel needs no guard. */
        if (choice->best[way] >= choice->best[best])
            best = way;
    }
    *learning = choice->samples[least] < SHM_SAMPLES;
    return *learning ? least : best;
}

enum shm_way shm_choice_next(struct shm_choice *choice, unsigned ways)
{
    bool learning;

    choice->ways = ways;
    return pick(choice, ways, &learning);
}

bool shm_choice_is_full(const struct shm_choice *choice, unsigned ways)
{
    bool learning;
    enum shm_way way = pick(choice, ways, &learning);

    return learning && choice->flying && (choice->flying >= SHM_SAMPLE || !choice->running[way]);
}

/* Ways that are in use. */
static unsigned in_use(const struct shm_choice *choice)
{
    unsigned count = 0;

    for (int way = 0; way < SHM_WAYS; way++)
        count += choice->running[way] != 0;
    return count;
}

void shm_choice_begin(struct shm_choice *choice, enum shm_way way, uint64_t bytes, uint64_t now)
{
    if (!in_use(choice)) {
        choice->since = now;
        choice->mixed = false;
    }
    choice->running[way]++;
    choice->flying += bytes;
    choice->mixed = choice->mixed || in_use(choice) > 1;
}

static void sample(struct shm_choice *choice, enum shm_way way)
{
    uint64_t rate = (choice->bytes[way] << 20) / (choice->ns[way] + 1);

    if (rate > choice->best[way])
        choice->best[way] = rate;
    choice->samples[way]++;
    choice->bytes[way] = choice->ns[way] = 0;
}

/* Things change: a process moves to another core, the machine gets busy. */
static void forget(struct shm_choice *choice)
{
    choice->kept = 0;
    for (int way = 0; way < SHM_WAYS; way++)
        choice->samples[way] = choice->best[way] = choice->bytes[way] = choice->ns[way] = 0;
}

static bool is_known(const struct shm_choice *choice)
{
    for (int way = 0; way < SHM_WAYS; way++) {
        if (choice->ways & 1u << way && choice->samples[way] < SHM_SAMPLES)
            return false;
    }
    return true;
}

void shm_choice_end(struct shm_choice *choice, enum shm_way way, uint64_t bytes, uint64_t now)
{
    if (is_known(choice)) {
        choice->kept += bytes;
        if (choice->kept >= SHM_KEEP)
            forget(choice);
    } else if (!choice->mixed && now >= choice->since) {
        choice->bytes[way] += bytes;
        choice->ns[way] += now - choice->since;
        if (choice->bytes[way] >= SHM_SAMPLE)
            sample(choice, way);
    }
    shm_choice_drop(choice, way, bytes);
    choice->since = now;
    choice->mixed = in_use(choice) > 1;
}

void shm_choice_drop(struct shm_choice *choice, enum shm_way way, uint64_t bytes)
{
    choice->running[way]--;
    choice->flying -= bytes;
}
