/* SPDX-License-Identifier: BSD-2-Clause */
/* An opened device: its events, and the tables that the inline functions of verbs.h use. */
#ifndef WEFT_EMULATOR_CONTEXT_H
#define WEFT_EMULATOR_CONTEXT_H

#include <infiniband/verbs.h>

#include "device.h"
#include "event.h"
#include "object.h"

struct context {
    struct verbs_context verbs;
    struct device *device;
    struct event_queue async;
    struct object object;
    struct list link; /* all that are open */
};

static inline struct context *context_of(struct ibv_context *context)
{
    return list_item(context, struct context, verbs.context);
}

static inline struct device *context_device(struct ibv_context *context)
{
    return context_of(context)->device;
}

/* Reports an event of the device or of one of its objects;
 * The lock is held. */
void context_report(struct ibv_context *context, enum ibv_event_type type, void *element,
                    int port_number);

/* Removes what was not yet taken about an object, before it is destroyed. The lock is held. */
void context_forget(struct ibv_context *context, const void *element);

/* Reports to all contexts of a device. The lock is held. */
void context_report_all(const struct device *device, enum ibv_event_type type, int port_number);

/* True, and errno set, if the device has been removed. */
bool context_gone(struct ibv_context *context);

#endif
