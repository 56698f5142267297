/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/progress/silence.h"

#include <stdio.h>

#include "core/base/log.h"

long long silence_after_ms = 5000;

long long silence_next(const struct silence *silence)
{
    long long tell_ms = silence->start_ms + silence_after_ms;

    return silence->told || tell_ms > silence->limit_ms ? silence->limit_ms : tell_ms;
}

static const char *time_text(long long ms, char *text, size_t size)
{
    long long s = (ms + 500) / 1000;

    if (s >= 120 && s % 60 == 0)
        snprintf(text, size, "%lld min", s / 60);
    else if (s >= 10 || ms % 1000 == 0)
        snprintf(text, size, "%lld s", s);
    else
        snprintf(text, size, "%lld.%lld s", ms / 1000, ms % 1000 / 100);
    return text;
}

bool silence_over(struct silence *silence, long long now_ms, const char *part, const char *address)
{
    char silent[32], limit[32];

    if (now_ms >= silence->limit_ms)
        return true;
    if (silence->told || now_ms < silence->start_ms + silence_after_ms)
        return false;
    silence->told = true;
    time_text(silence_after_ms, silent, sizeof(silent));
    if (silence->limit_ms == SILENCE_NO_LIMIT)
        LOG_WARN(part, FI_LOG_EP_CTRL, ": no answer from %s for %s; waiting as long as it lives",
                 address, silent);
    else
        LOG_WARN(part, FI_LOG_EP_CTRL, ": no answer from %s for %s; waiting up to %s", address,
                 silent, time_text(silence->limit_ms - silence->start_ms, limit, sizeof(limit)));
    return false;
}
