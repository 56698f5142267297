/* SPDX-License-Identifier: BSD-2-Clause */
#include "transports/shm/shm_choice.h"

enum shm_way shm_choice_next(const struct shm_choice *choice)
{
    const uint32_t *samples = choice->samples;

    if (samples[SHM_STREAM] < SHM_SAMPLES || samples[SHM_CROSS] < SHM_SAMPLES)
        return samples[SHM_CROSS] < samples[SHM_STREAM] ? SHM_CROSS : SHM_STREAM;
    /* The kernel's copy leaves the sender's core alone, so it has the draw. */
    return choice->best[SHM_CROSS] >= choice->best[SHM_STREAM] ? SHM_CROSS : SHM_STREAM;
}

void shm_choice_begin(struct shm_choice *choice, enum shm_way way, uint64_t now)
{
    enum shm_way other = way == SHM_STREAM ? SHM_CROSS : SHM_STREAM;

    if (!choice->running[SHM_STREAM] && !choice->running[SHM_CROSS]) {
        choice->since = now;
        choice->mixed = false;
    }
    if (choice->running[other])
        choice->mixed = true;
    choice->running[way]++;
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
    return choice->samples[SHM_STREAM] >= SHM_SAMPLES && choice->samples[SHM_CROSS] >= SHM_SAMPLES;
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
    shm_choice_drop(choice, way);
    choice->since = now;
    choice->mixed = choice->running[SHM_STREAM] && choice->running[SHM_CROSS];
}

void shm_choice_drop(struct shm_choice *choice, enum shm_way way)
{
    choice->running[way]--;
}
