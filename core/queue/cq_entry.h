/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries of completion queues, as readers get them. */
#ifndef WEFT_CORE_QUEUE_CQ_ENTRY_H
#define WEFT_CORE_QUEUE_CQ_ENTRY_H

#include <stddef.h>

#include <rdma/fi_eq.h>

/* Bytes of one. The formats are prefixes of each other. */
static inline size_t cq_entry_size(enum fi_cq_format format)
{
    switch (format) {
    case FI_CQ_FORMAT_MSG: return sizeof(struct fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA: return sizeof(struct fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED: return sizeof(struct fi_cq_tagged_entry);
    default: return sizeof(struct fi_cq_entry);
    }
}

#endif
