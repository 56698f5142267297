/* SPDX-License-Identifier: BSD-2-Clause */
/* The settings of the environment, read once: docs/design/emulator.md lists the variables. */
#ifndef WEFT_EMULATOR_SETTINGS_H
#define WEFT_EMULATOR_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

/* Largest values of a device; a WEFT_EMULATOR_LIMITS entry has the name of the member. */
struct limits {
    long max_qp, max_qp_wr, max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
    long max_qp_rd_atom, max_ah, max_srq, max_srq_wr, max_srq_sge, max_inline, max_msg_sz;
    long max_mr_bytes, max_mcast_grp;
    /* 0: none, as of older drivers: ibv_wr_*, ibv_create_cq_ex, thread domains */
    long wr_api, cq_ex, td;
    /* Of devices of the kind EFA: 1 with reads and writes of remote memory; 0: their completions
     * look like those of sends, as of older drivers; 1 also with data of writes that takes no
     * receive; the highest service level; bits of a queue pair's number that count those of a
     * process; 1: numbers that are free are taken again at once; 1: the device says that it writes
     * the bytes of a block of 128 in order; how many completion counters there are. */
    long rdma, rdma_opcodes, unsolicited, levels, place_bits, reuse, in_order, counters;
};

struct settings {
    char net[48];        /* processes of one name see each other */
    const char *devices; /* the grammar is in device.c */
    const char *faults;  /* the grammar is in fault.c */
    const char *capture; /* the file's name, or "" */
    uint64_t seed;
    unsigned jitter_us;
    unsigned host, misorder; /* of devices of the kind EFA: efa.h */
    bool verbose, leaks;
    struct limits limits;
};

const struct settings *settings(void);

/* The next number that the seed decides. The caller holds the lock of the node. */
uint32_t settings_random(void);

#endif
