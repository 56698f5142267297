/* SPDX-License-Identifier: BSD-2-Clause */
/* The identity of the process in reports: program, host, process number, rank in a job. */
#ifndef WEFT_CORE_BASE_IDENTITY_H
#define WEFT_CORE_BASE_IDENTITY_H

struct identity {
    char program[64], host[64];
    int pid;
    long rank; /* as its launcher says; -1: there is none */
};

/* The rank is OMPI_COMM_WORLD_RANK, PMI_RANK, PMIX_RANK or SLURM_PROCID, the first that is a
 * number.
 */
void identity_read(struct identity *identity);

#endif
