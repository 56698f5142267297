/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints that make complete messages, remote memory and atomics of reliable packets. */
#ifndef WEFT_CORE_LAYER_MESSAGE_EP_H
#define WEFT_CORE_LAYER_MESSAGE_EP_H

enum {
    MESSAGE_SIZE = 1024,        /* of queues whose size no info names */
    MESSAGE_IOV = 4,            /* local segments of an operation */
    MESSAGE_PLACES = 4,         /* its remote segments */
    MESSAGE_LEAST_PACKET = 576, /* bytes of the smallest packets that such a layer stands on */
};

#endif
