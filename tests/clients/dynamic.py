# SPDX-License-Identifier: BSD-2-Clause
"""Processes that find each other later: ports, and processes that all ranks spawn together."""
import sys

from mpi4py import MPI

from checks import check, numbers, rank, run, size, zeros

world = MPI.COMM_WORLD
LENGTH = 50000


def exchange(inter, who):
    got = zeros(LENGTH)
    request = inter.Isend([numbers(LENGTH, who), MPI.INT], 0, 3)
    inter.Recv([got, MPI.INT], 0, 3)
    request.Wait()
    return got


def ports():
    comm = world.Split(0 if rank == 0 else 1, rank)
    if rank == 0:
        port = MPI.Open_port()
        world.send(port, 1)
        inter = comm.Accept(port)
        MPI.Close_port(port)
    else:
        inter = comm.Connect(world.recv(source=0) if rank == 1 else None)
    check(inter.Get_remote_size() == (size - 1 if rank == 0 else 1), "who is there")
    if rank < 2:
        check(exchange(inter, rank) == numbers(LENGTH, 1 - rank), "what came")
    inter.Barrier()
    inter.Disconnect()
    comm.Free()


def spawned():
    inter = world.Spawn(sys.executable, [__file__, "child"], 2)
    check(inter.Get_remote_size() == 2, "children")
    everybody = inter.Merge()
    check(everybody.Get_size() == size + 2, "a merged family")
    check(sum(everybody.allgather(1)) == size + 2, "allgather with the children")
    if rank == 0:
        check(exchange(inter, 5) == numbers(LENGTH, 6), "what the child sent")
    everybody.Free()
    inter.Barrier()
    inter.Disconnect()


def child():
    inter = MPI.Comm.Get_parent()
    everybody = inter.Merge(high=True)
    everybody.allgather(1)
    if rank == 0:
        check(exchange(inter, 6) == numbers(LENGTH, 5), "what the parent sent")
    everybody.Free()
    inter.Barrier()
    inter.Disconnect()


if sys.argv[1:] == ["child"]:
    child()
else:
    run(*(globals()[name] for name in sys.argv[1:]))
