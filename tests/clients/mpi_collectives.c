/* SPDX-License-Identifier: BSD-2-Clause */
/* Collectives and point-to-point patterns at sizes round every protocol limit, data compared. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, errors;

static void expect(int ok, const char *what, size_t bytes)
{
    if (ok)
        return;
    if (errors++ < 5)
        fprintf(stderr, "rank %d: %s, %zu bytes: wrong data\n", rank, what, bytes);
}

static char pattern(size_t i, int who)
{
    return (char)(i * 31 + (size_t)who * 7 + (i >> 8));
}

static void fill(char *buffer, size_t bytes, int who)
{
    for (size_t i = 0; i < bytes; i++)
        buffer[i] = pattern(i, who);
}

static int holds(const char *buffer, size_t bytes, int who)
{
    for (size_t i = 0; i < bytes; i++)
        if (buffer[i] != pattern(i, who))
            return 0;
    return 1;
}

static void test_broadcast(char *buffer, size_t bytes)
{
    for (int root = 0; root < size; root++) {
        memset(buffer, 0, bytes);
        if (rank == root)
            fill(buffer, bytes, root);
        MPI_Bcast(buffer, (int)bytes, MPI_CHAR, root, MPI_COMM_WORLD);
        expect(holds(buffer, bytes, root), "MPI_Bcast", bytes);
    }
}

static void test_alltoall(char *out, char *in, size_t bytes)
{
    for (int to = 0; to < size; to++)
        fill(out + (size_t)to * bytes, bytes, rank * size + to);
    MPI_Alltoall(out, (int)bytes, MPI_CHAR, in, (int)bytes, MPI_CHAR, MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        expect(holds(in + (size_t)from * bytes, bytes, from * size + rank), "MPI_Alltoall", bytes);
}

static void test_allreduce(size_t bytes)
{
    int count = (int)(bytes / sizeof(long)) + 1;
    long *in = malloc((size_t)count * sizeof *in), *out = malloc((size_t)count * sizeof *out);
    int ok = 1;

    for (int i = 0; i < count; i++)
        in[i] = (long)i * (rank + 1);
    MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        ok &= out[i] == (long)i * size * (size + 1) / 2;
    expect(ok, "MPI_Allreduce", bytes);
    free(in);
    free(out);
}

/* Every message is sent before its receive is posted, the last one is received first. */
static void test_unexpected(char *out, char *in, size_t bytes)
{
    enum {
        MESSAGES = 16
    };
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Request requests[MESSAGES];

    for (int i = 0; i < MESSAGES; i++)
        fill(out + (size_t)i * bytes, bytes, rank * MESSAGES + i);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Isend(out + (size_t)i * bytes, (int)bytes, MPI_CHAR, next, i, MPI_COMM_WORLD,
                  &requests[i]);
    for (int i = MESSAGES; i-- > 0;) {
        MPI_Status status;
        int count;

        MPI_Recv(in, (int)bytes, MPI_CHAR, i % 2 ? previous : MPI_ANY_SOURCE, i, MPI_COMM_WORLD,
                 &status);
        MPI_Get_count(&status, MPI_CHAR, &count);
        expect(count == (int)bytes && status.MPI_SOURCE == previous, "status", bytes);
        expect(holds(in, bytes, previous * MESSAGES + i), "unexpected message", bytes);
    }
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
}

/* Many messages of one tag keep their order. */
static void test_order(void)
{
    enum {
        MESSAGES = 2000
    };
    static int out[MESSAGES], in[MESSAGES];
    static MPI_Request requests[2 * MESSAGES];
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    int ok = 1;

    for (int i = 0; i < MESSAGES; i++) {
        out[i] = rank * MESSAGES + i;
        MPI_Irecv(&in[i], 1, MPI_INT, previous, 5, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < MESSAGES; i++)
        MPI_Isend(&out[i], 1, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[MESSAGES + i]);
    MPI_Waitall(2 * MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; i++)
        ok &= in[i] == previous * MESSAGES + i;
    expect(ok, "order", MESSAGES);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {0, 1, 8, 127, 128, 129, 4096, 16384, 65536, 65537, 1048576};
    int all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t room = sizes[s] * (size_t)(size > 16 ? size : 16) + 1;
        char *out = malloc(room), *in = malloc(room);

        test_broadcast(in, sizes[s]);
        test_alltoall(out, in, sizes[s]);
        test_allreduce(sizes[s]);
        test_unexpected(out, in, sizes[s]);
        free(out);
        free(in);
    }
    test_order();
    MPI_Allreduce(&errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s: %d ranks, %d errors\n", all ? "FAILED" : "ok", size, all);
    MPI_Finalize();
    return all != 0;
}
