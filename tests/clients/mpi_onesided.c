/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided communication, with every byte compared: puts and gets of several sizes to every rank,
 * accumulates and fetches that all ranks aim at one place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

enum {
    SLOT = 1 << 20, /* bytes of a window for each rank that writes there */
    ROUNDS = 100
};

static int rank, ranks;

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(char *at, size_t len, int seed)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (char)(i * 7 + (size_t)seed * 131 + (i >> 8));
}

static void puts_and_gets(void)
{
    static const size_t sizes[] = {1, 8, 100, 4096, 65536, SLOT};
    char *window = malloc((size_t)ranks * SLOT), *out = malloc(SLOT), *in = malloc(SLOT);
    MPI_Win win;

    MPI_Win_create(window, (MPI_Aint)ranks * SLOT, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        int len = (int)sizes[s];

        MPI_Win_fence(0, win);
        for (int to = 0; to < ranks; to++) {
            fill(out, sizes[s], rank * 100 + to);
            MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win);
            MPI_Put(out, len, MPI_CHAR, to, (MPI_Aint)rank * SLOT, len, MPI_CHAR, win);
            MPI_Win_unlock(to, win);
        }
        MPI_Win_fence(0, win);
        for (int from = 0; from < ranks; from++) {
            fill(out, sizes[s], from * 100 + rank);
            check(!memcmp(window + (size_t)from * SLOT, out, sizes[s]), "a put arrived wrong");
        }
        for (int from = 0; from < ranks; from++) {
            memset(in, 0, sizes[s]);
            MPI_Win_lock(MPI_LOCK_SHARED, from, 0, win);
            MPI_Get(in, len, MPI_CHAR, from, (MPI_Aint)rank * SLOT, len, MPI_CHAR, win);
            MPI_Win_unlock(from, win);
            fill(out, sizes[s], rank * 100 + from);
            check(!memcmp(in, out, sizes[s]), "a get came back wrong");
        }
        MPI_Win_fence(0, win);
    }
    MPI_Win_free(&win);
    free(window);
    free(out);
    free(in);
}

/* All ranks add to and count at rank 0. */
static void one_place(void)
{
    long window[3] = {0, 0, 0}, one = 1, got, seen = 0, many[2] = {rank, 1};
    MPI_Win win;

    MPI_Win_create(window, sizeof(window), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        check(got >= seen && got < (long)ranks * ROUNDS, "a counter went back");
        seen = got + 1;
        MPI_Accumulate(many, 2, MPI_LONG, 0, 1, 2, MPI_LONG, MPI_SUM, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(many, 2, MPI_LONG, 0, 0, 2, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    check(many[0] == (long)ranks * ROUNDS, "fetches were lost");
    check(many[1] == (long)ranks * (ranks - 1) / 2 * ROUNDS, "sums were lost");
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    puts_and_gets();
    one_place();
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank)
        printf("one-sided: %d ranks agree\n", ranks);
    MPI_Finalize();
    return 0;
}
