# SPDX-License-Identifier: BSD-2-Clause
"""Intercommunicators: made, merged, duplicated; messages and collectives between the two groups."""
from mpi4py import MPI

from checks import check, numbers, rank, run, size, zeros

SIZES = (1, 100, 5000, 70000)
half = size // 2
low = rank < half
local = MPI.COMM_WORLD.Split(0 if low else 1, rank)
inter = local.Create_intercomm(0, MPI.COMM_WORLD, half if low else 0, 17)
theirs = list(range(half, size)) if low else list(range(half))


def world(remote):  # the world's rank of one of the remote group
    return theirs[remote]


def groups():
    check(inter.Get_remote_size() == len(theirs), "remote size")
    for _ in range(5):
        again = local.Create_intercomm(0, MPI.COMM_WORLD, half if low else 0, 18)
        twin = again.Dup()
        check(twin.Get_remote_size() == len(theirs), "duplicate")
        again.Free()
        twin.Barrier()
        twin.Free()
    merged = inter.Merge(high=not low)
    check(merged.Get_size() == size and merged.Get_rank() == rank, "merge")
    check(merged.allgather(rank) == list(range(size)), "what was merged")
    merged.Free()


def messages():
    mine = local.Get_rank()
    for length in SIZES:
        requests = [inter.Isend([numbers(length, rank + to), MPI.INT], to, mine)
                    for to in range(len(theirs))]
        for peer in reversed(range(len(theirs))):
            got, status = zeros(length), MPI.Status()
            inter.Recv([got, MPI.INT], peer, peer, status)
            check(status.Get_source() == peer, "source")
            check(got == numbers(length, world(peer) + mine), "message of %d" % length)
        MPI.Request.Waitall(requests)


def collectives():
    for length in SIZES[:3]:
        got = zeros(length * len(theirs))
        inter.Allgather([numbers(length, rank), MPI.INT], [got, MPI.INT])
        for i in range(len(theirs)):
            check(got[i * length:(i + 1) * length] == numbers(length, world(i)), "Allgather")
        inter.Iallgather([numbers(length, rank), MPI.INT], [got, MPI.INT]).Wait()
        check(got[:length] == numbers(length, world(0)), "Iallgather")
        everybody = [n for to in range(len(theirs)) for n in numbers(length, rank + world(to))]
        out = zeros(0)
        out.extend(everybody)
        inter.Alltoall([out, MPI.INT], [got, MPI.INT])
        for i in range(len(theirs)):
            check(got[i * length:(i + 1) * length] == numbers(length, world(i) + rank), "Alltoall")
        total = zeros(length)
        inter.Allreduce([numbers(length, rank), MPI.INT], [total, MPI.INT], MPI.SUM)
        sums = [sum(column) for column in zip(*(numbers(length, who) for who in theirs))]
        check(list(total) == sums, "Allreduce")


def rooted():
    for sender in (True, False):
        if low == sender:
            root = MPI.ROOT if local.Get_rank() == 0 else MPI.PROC_NULL
        else:
            root = 0
        text = inter.bcast({"from": rank} if root == MPI.ROOT else None, root)
        check(low == sender or text == {"from": world(0)}, "bcast")
        gathered = inter.gather(rank, root)
        check(root != MPI.ROOT or gathered == theirs, "gather")
        part = inter.scatter(theirs if root == MPI.ROOT else None, root)
        check(low == sender or part == rank, "scatter")


run(groups, messages, collectives, rooted)
inter.Free()
local.Free()
