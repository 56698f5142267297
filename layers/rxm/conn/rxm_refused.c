/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/conn/rxm_refused.h"

bool rxm_refused_tell(struct rxm_refused *refused, const union addr *from, const char *why,
                      int64_t now_ms)
{
    union addr host = *from;
    int place = -1;

    addr_set_port(&host.sa, 0);
    for (int i = 0; i < RXM_REFUSED_HOSTS; i++) {
        bool old = !refused->hosts[i].why || now_ms - refused->hosts[i].told_ms >= RXM_REFUSED_MS;

        if (!old && refused->hosts[i].why == why &&
            addr_equal(&refused->hosts[i].host.sa, &host.sa))
            return false;
        place = old ? i : place;
    }
    if (place < 0)
        return false;
    refused->hosts[place].host = host;
    refused->hosts[place].why = why;
    refused->hosts[place].told_ms = now_ms;
    return true;
}
