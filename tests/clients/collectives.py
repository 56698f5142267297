# SPDX-License-Identifier: BSD-2-Clause
"""Collectives of mpi4py with their data compared: blocking, nonblocking, of unequal parts, among
neighbours; sizes round the limits of the protocols; many under way at once."""
from mpi4py import MPI

from checks import check, numbers, rank, run, size, zeros

comm = MPI.COMM_WORLD
SIZES = (0, 1, 31, 32, 1000, 4096, 40000)


def joined(parts):
    whole = zeros(0)
    for part in parts:
        whole.extend(part)
    return whole


def finish(result):
    if isinstance(result, MPI.Request):
        result.Wait()


def pair(name):  # the blocking form and the nonblocking one
    return getattr(comm, name), getattr(comm, "I" + name.lower())


def to_and_from_a_root():
    for length in SIZES:
        for root in range(size):
            for form in pair("Bcast"):
                data = numbers(length, root) if rank == root else zeros(length)
                finish(form([data, MPI.INT], root))
                check(data == numbers(length, root), "Bcast of %d" % length)
            whole = zeros(length * size)
            everybody = joined(numbers(length, who) for who in range(size))
            for form in pair("Gather"):
                finish(form([numbers(length, rank), MPI.INT], [whole, MPI.INT], root))
                check(rank != root or whole == everybody, "Gather of %d" % length)
            part = zeros(length)
            for form in pair("Scatter"):
                finish(form([everybody, MPI.INT], [part, MPI.INT], root))
                check(part == numbers(length, rank), "Scatter of %d" % length)


def among_all():
    for length in SIZES:
        everybody = joined(numbers(length, who) for who in range(size))
        out = joined(numbers(length, rank * size + to) for to in range(size))
        expected = joined(numbers(length, of * size + rank) for of in range(size))
        for form in pair("Allgather"):
            got = zeros(length * size)
            finish(form([numbers(length, rank), MPI.INT], [got, MPI.INT]))
            check(got == everybody, "Allgather of %d" % length)
        for form in pair("Alltoall"):
            got = zeros(length * size)
            finish(form([out, MPI.INT], [got, MPI.INT]))
            check(got == expected, "Alltoall of %d" % length)


def reductions():
    operations = ((MPI.SUM, sum), (MPI.MAX, max), (MPI.MIN, min))
    for length in SIZES[1:]:
        columns = list(zip(*(numbers(length, who) for who in range(size))))
        before = list(zip(*(numbers(length, who) for who in range(rank + 1))))
        for operation, function in operations:
            mine, got = numbers(length, rank), zeros(length)
            for form in pair("Allreduce"):
                finish(form([mine, MPI.INT], [got, MPI.INT], operation))
                check(list(got) == [function(c) for c in columns], "Allreduce of %d" % length)
            for form in pair("Reduce"):
                finish(form([mine, MPI.INT], [got, MPI.INT], operation, size - 1))
                check(rank != size - 1 or list(got) == [function(c) for c in columns], "Reduce")
            for form in pair("Scan"):
                finish(form([mine, MPI.INT], [got, MPI.INT], operation))
                check(list(got) == [function(c) for c in before], "Scan of %d" % length)


def unequal():
    counts = [who * 700 for who in range(size)]
    whole = zeros(sum(counts))
    everybody = joined(numbers(count, who) for who, count in enumerate(counts))
    for form in pair("Allgatherv"):
        finish(form([numbers(counts[rank], rank), MPI.INT], [whole, counts, None, MPI.INT]))
        check(whole == everybody, "Allgatherv")
    out = joined(numbers(rank * 300, rank + to) for to in range(size))
    got = zeros(300 * sum(range(size)))
    expected = joined(numbers(of * 300, of + rank) for of in range(size))
    for form in pair("Alltoallv"):
        finish(form([out, [rank * 300] * size, None, MPI.INT],
                    [got, [of * 300 for of in range(size)], None, MPI.INT]))
        check(got == expected, "Alltoallv")


def among_neighbours():
    right, left = (rank + 1) % size, (rank - 1) % size
    ring = comm.Create_cart([size], [True])
    graph = comm.Create_dist_graph_adjacent([left, right], [right, left])
    for length in SIZES[1:]:
        for topology in (ring, graph):
            mine, got = numbers(length, rank), zeros(2 * length)
            topology.Neighbor_allgather([mine, MPI.INT], [got, MPI.INT])
            check(got == joined((numbers(length, left), numbers(length, right))), "neighbours")
            got = zeros(2 * length)
            topology.Ineighbor_allgather([mine, MPI.INT], [got, MPI.INT]).Wait()
            check(got == joined((numbers(length, left), numbers(length, right))), "nonblocking")
        out = joined((numbers(length, rank + 100), numbers(length, rank + 200)))
        got = zeros(2 * length)
        graph.Neighbor_alltoallv([out, [length, length], None, MPI.INT],
                                 [got, [length, length], None, MPI.INT])
        if size > 2:
            check(got == joined((numbers(length, left + 100), numbers(length, right + 200))),
                  "Neighbor_alltoallv")
    ring.Free()
    graph.Free()


def many_at_once():
    length = 3000
    sums = [zeros(length) for _ in range(10)]
    copies = [numbers(length, i) if rank == i % size else zeros(length) for i in range(10)]
    mine = numbers(length, rank)
    requests = [comm.Ibarrier()]
    for i in range(10):
        requests.append(comm.Iallreduce([mine, MPI.INT], [sums[i], MPI.INT], MPI.SUM))
        requests.append(comm.Ibcast([copies[i], MPI.INT], i % size))
    MPI.Request.Waitall(requests)
    expected = [sum(c) for c in zip(*(numbers(length, who) for who in range(size)))]
    for i in range(10):
        check(list(sums[i]) == expected and copies[i] == numbers(length, i), "one of many")


run(to_and_from_a_root, among_all, reductions, unequal, among_neighbours, many_at_once)
