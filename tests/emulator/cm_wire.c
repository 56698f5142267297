/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "cm_wire.h"

unsigned cm_room(enum cm_kind kind, bool is_datagram)
{
    switch (kind) {
    case CM_REQUEST: return is_datagram ? CM_ROOM_DATAGRAM_REQUEST : CM_ROOM_REQUEST;
    case CM_REPLY: return is_datagram ? CM_ROOM_DATAGRAM_REPLY : CM_ROOM_REPLY;
    case CM_REJECT: return is_datagram ? CM_ROOM_DATAGRAM_REPLY : CM_ROOM_REJECT;
    default: return 0;
    }
}

static const char *fault_of(const struct cm_message *message)
{
    sa_family_t family = message->source.any.sa_family;

    if (message->magic != CM_MAGIC)
        return "no message of this emulator";
    if (message->kind == 0 || message->kind >= CM_KINDS)
        return "unknown kind";
    if (message->qpn >> 24)
        return "a queue pair's number has 24 bits";
    if (message->psn >> 24)
        return "a packet number has 24 bits";
    if (message->retry > 7 || message->rnr_retry > 7)
        return "a retry count has 3 bits";
    if (message->gid_type > 2)
        return "unknown type of GID";
    if (message->kind == CM_REQUEST &&
        ((family != AF_INET && family != AF_INET6) || family != message->target.any.sa_family))
        return "a request without addresses";
    return NULL;
}

bool cm_decode(const void *bytes, size_t count, struct cm_message *message, const char **why)
{
    if (count != sizeof(*message)) {
        *why = "not of the size of a message";
        return false;
    }
    memcpy(message, bytes, sizeof(*message));
    *why = fault_of(message);
    return *why == NULL;
}
