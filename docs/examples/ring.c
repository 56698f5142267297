/* SPDX-License-Identifier: BSD-2-Clause */
/* A token travels round all ranks, and grows by one at each; then all add up what they saw. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    enum {
        ROUNDS = 1000
    };
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size;
    int previous = (rank + size - 1) % size;
    long token = 0;
    double started = MPI_Wtime();
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            MPI_Send(&token, 1, MPI_LONG, next, round, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_LONG, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&token, 1, MPI_LONG, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token++;
            MPI_Send(&token, 1, MPI_LONG, next, round, MPI_COMM_WORLD);
        }
    }
    double spent = MPI_Wtime() - started;
    long ranks = 0, one = 1;
    MPI_Allreduce(&one, &ranks, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    int wrong = rank == 0 && token != (long)ROUNDS * (size - 1);
    if (rank == 0)
        printf("%d rounds over %ld ranks, token %ld%s, %.2f us a hop\n", ROUNDS, ranks, token,
               wrong ? " (wrong)" : "", 1e6 * spent / ROUNDS / size);
    MPI_Finalize();
    return wrong;
}
