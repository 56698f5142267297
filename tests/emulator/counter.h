/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion counters of devices of the kind EFA (limit counters): newer than rdma-core 44. */
#ifndef WEFT_EMULATOR_COUNTER_H
#define WEFT_EMULATOR_COUNTER_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct qp;
struct counter;

/* Bits of op_mask, which queue pairs have a counter for each of. Remote accesses are not counted.
 */
enum counter_op {
    COUNTER_SEND,
    COUNTER_RECV,
    COUNTER_READ,
    COUNTER_REMOTE_READ,
    COUNTER_WRITE,
    COUNTER_REMOTE_WRITE,
    COUNTER_OPS,
};

/* As newer releases of efadv.h have it. */
struct efa_memory_location {
    uint8_t *ptr;
    struct {
        uint64_t offset;
        int32_t fd;
        uint32_t reserved;
    } dmabuf;
    uint8_t type; /* 0: ptr; 1: the dmabuf */
    uint8_t reserved[7];
};

/* flags: 1 the completions, 2 the errors are in the program's memory */
struct efa_counter_attr {
    uint64_t comp_mask;
    uint32_t flags, reserved;
    struct efa_memory_location places[2];
};

/* Behind libefa.so.1. NULL, and errno. */
void *efa_create_counter(struct ibv_context *context, const struct efa_counter_attr *attr,
                         uint32_t size);

/* The lock is held. A queue pair has ended an operation; it ends itself. */
void counter_count(struct qp *qp, enum counter_op op, bool succeeded);
void counter_detach_all(struct qp *qp);

#endif
