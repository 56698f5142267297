/* SPDX-License-Identifier: BSD-2-Clause */
/* mpi_stream FOLDER: ranks send each other large messages, round and round, until rank 1 kills
 * itself in the middle of one. Each writes its pid to FOLDER/pid.RANK. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BYTES = 16 << 20,
    ROUNDS = 100000,
};

static void write_pid(const char *folder, int rank)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/pid.%d", folder, rank);
    file = fopen(path, "w");
    if (!file)
        MPI_Abort(MPI_COMM_WORLD, 2);
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
}

int main(int argc, char **argv)
{
    int rank, size;
    char *out, *in;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    write_pid(argv[1], rank);
    out = malloc(BYTES);
    in = malloc(BYTES);
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 2);
    memset(out, rank, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Request requests[2];

        MPI_Irecv(in, BYTES, MPI_CHAR, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out, BYTES, MPI_CHAR, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[1]);
        if (rank == 1 && i == 5) {
            int done;

            MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
            raise(SIGKILL);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
