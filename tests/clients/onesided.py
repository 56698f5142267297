# SPDX-License-Identifier: BSD-2-Clause
"""One-sided calls of mpi4py: every operation on every datatype that has it, strided places, requests,
and the ways to synchronize."""
import operator

from mpi4py import MPI

from checks import check, numbers, rank, run, size, zeros

comm = MPI.COMM_WORLD
right, left = (rank + 1) % size, (rank - 1) % size
INTEGERS = {"b": MPI.SIGNED_CHAR, "B": MPI.UNSIGNED_CHAR, "h": MPI.SHORT, "H": MPI.UNSIGNED_SHORT,
            "i": MPI.INT, "I": MPI.UNSIGNED, "l": MPI.LONG, "L": MPI.UNSIGNED_LONG}
FLOATS = {"f": MPI.FLOAT, "d": MPI.DOUBLE}
ARITHMETIC = {"SUM": operator.add, "PROD": operator.mul, "MAX": max, "MIN": min,
              "REPLACE": lambda old, new: new, "NO_OP": lambda old, new: old}
BITS = {"BAND": operator.and_, "BOR": operator.or_, "BXOR": operator.xor,
        "LAND": lambda a, b: int(bool(a and b)), "LOR": lambda a, b: int(bool(a or b)),
        "LXOR": lambda a, b: int(bool(a) != bool(b))}
LENGTH = 37


def cases():
    for code, datatype in list(INTEGERS.items()) + list(FLOATS.items()):
        for name, function in ARITHMETIC.items():
            yield code, datatype, name, function
        for name, function in BITS.items() if code in INTEGERS else ():
            yield code, datatype, name, function


def small(who, code):
    values = zeros(0, code)
    values.extend((i + who) % 5 if code in INTEGERS else float((i + who) % 5)
                  for i in range(LENGTH))
    return values


def every_operation():
    window = MPI.Win.Allocate(8 * LENGTH, 1, comm=comm)
    for code, datatype, name, function in cases():
        what, operation = "%s %s" % (name, code), getattr(MPI, name)
        place = memoryview(window).cast("B")[:LENGTH * datatype.Get_size()].cast(code)
        window.Lock(rank)
        place[:] = memoryview(small(rank, code))
        window.Unlock(rank)
        comm.Barrier()
        expected = [function(a, b) for a, b in zip(small(right, code), small(rank, code))]
        old = zeros(LENGTH, code)
        window.Lock(right)
        window.Get_accumulate([small(rank, code), datatype], [old, datatype], right, 0, operation)
        window.Unlock(right)
        check(old == small(right, code), "what Get_accumulate fetched, " + what)
        window.Lock(right)
        if operation != MPI.NO_OP:
            window.Accumulate([small(rank, code), datatype], right, 0, operation)
        window.Flush(right)
        window.Get([old, datatype], right)
        window.Unlock(right)
        again = [function(a, b) for a, b in zip(expected, small(rank, code))]
        check(list(old) == again, "Accumulate, " + what)
        comm.Barrier()
    window.Free()


def single_elements():
    for code, datatype in INTEGERS.items():
        if datatype.Get_size() < 4:
            continue
        window = MPI.Win.Create(bytearray(64), datatype.Get_size(), comm=comm)
        comm.Barrier()
        one, old, seen = zeros(1, code), zeros(1, code), set()
        one[0] = 1
        window.Lock_all()
        for _ in range(20):
            window.Fetch_and_op([one, datatype], [old, datatype], 0, 1, MPI.SUM)
            window.Flush(0)
            seen.add(old[0])
        window.Unlock_all()
        counted = [n for part in comm.allgather(sorted(seen)) for n in part]
        check(sorted(counted) == list(range(20 * size)), "Fetch_and_op, " + code)
        mine, none = zeros(1, code), zeros(1, code)
        mine[0] = rank
        # Open MPI's osc rdma swaps by way of a null pointer at itself, and in windows of Allocate.
        if rank > 0:
            window.Lock(0)
            window.Compare_and_swap([mine, datatype], [none, datatype], [old, datatype], 0, 2)
            window.Unlock(0)
        winners = comm.allgather(rank > 0 and old[0] == 0)
        check(sum(winners) == 1, "Compare_and_swap, " + code)
        window.Free()


def places_and_requests():
    for length in (1, 100, 5000, 60000):
        window = MPI.Win.Allocate(4 * length * 2, 4, comm=comm)
        place = memoryview(window).cast("B").cast("i")
        place[:] = memoryview(zeros(2 * length))
        strided = MPI.INT.Create_vector(length, 1, 2).Commit()
        window.Fence()
        window.Put([numbers(length, rank), length, MPI.INT], right, (0, 1, strided))
        window.Fence()
        check(list(place[0::2]) == list(numbers(length, left)), "a strided Put of %d" % length)
        check(not any(place[1::2]), "what is between")
        got = zeros(length)
        window.Get([got, length, MPI.INT], right, (0, 1, strided))
        window.Fence()
        check(got == numbers(length, rank), "a strided Get of %d" % length)
        window.Fence(MPI.MODE_NOSUCCEED)
        comm.Barrier()
        window.Lock_all()
        window.Rput([numbers(length, rank + 50), MPI.INT], right, 0).Wait()
        window.Flush(right)
        window.Rget([got, MPI.INT], right, 0).Wait()
        check(got == numbers(length, rank + 50), "Rput and Rget of %d" % length)
        window.Unlock_all()
        strided.Free()
        window.Free()


def synchronized_by_groups():
    window = MPI.Win.Allocate(40000, 1, comm=comm)
    world = comm.Get_group()
    to, of = world.Incl([right]), world.Incl([left])
    for turn in range(10):
        window.Post(of)
        window.Start(to)
        window.Put([numbers(10000, rank + turn), MPI.INT], right)
        window.Complete()
        window.Wait()
        got = memoryview(window).cast("B").cast("i")
        check(list(got) == list(numbers(10000, left + turn)), "between Start and Wait")
    for group in (to, of, world):
        group.Free()
    window.Free()


run(every_operation, single_elements, places_and_requests, synchronized_by_groups)
