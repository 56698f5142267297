/* SPDX-License-Identifier: BSD-2-Clause */
/* Each pair of ranks exchanges a number of messages of several sizes, with their bytes compared. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static char fill(size_t at, int from, int to)
{
    return (char)(at * 31 + (size_t)from * 7 + (size_t)to);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 1, 8, 4000, 70000, 3000000};
    char *out = malloc(3000000), *in = malloc(3000000);
    int rank, ranks, bad = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int peer = 0; peer < ranks; peer++) {
        for (int i = 0; i < 6 && peer != rank; i++) {
            for (int at = 0; at < sizes[i]; at++)
                out[at] = fill((size_t)at, rank, peer);
            MPI_Sendrecv(out, sizes[i], MPI_CHAR, peer, i, in, sizes[i], MPI_CHAR, peer, i,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int at = 0; at < sizes[i]; at++)
                bad += in[at] != fill((size_t)at, peer, rank);
        }
    }
    MPI_Finalize();
    printf("rank %d of %d: %s\n", rank, ranks, bad ? "WRONG" : "right");
    return bad != 0;
}
