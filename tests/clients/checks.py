# SPDX-License-Identifier: BSD-2-Clause
"""Shared by the programs here: checks that end the job, typed arrays, and the exercises' order."""
import array
import sys

from mpi4py import MPI

rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()


def check(ok, what):
    if not ok:
        print("rank %d: %s" % (rank, what), file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)


def numbers(length, who, code="i"):
    return array.array(code, [(i * 13 + who * 1009) % 30000 for i in range(length)])


def zeros(length, code="i"):
    return array.array(code, [0] * length)


def run(*exercises):
    for exercise in exercises:
        exercise()
        MPI.COMM_WORLD.Barrier()
    if rank == 0:
        print("ok: %s on %d ranks" % (", ".join(e.__name__ for e in exercises), size))
