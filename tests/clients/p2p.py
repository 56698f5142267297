# SPDX-License-Identifier: BSD-2-Clause
"""Point-to-point calls of mpi4py between all pairs of ranks, contents compared."""
import array
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
right, left = (rank + 1) % size, (rank - 1) % size
SIZES = (0, 1, 7, 128, 129, 4096, 70000, 300000)


def data(length, who):
    return array.array("B", bytes((i * 13 + who) & 255 for i in range(length)))


def room(length):
    return array.array("B", bytes(length))


def check(ok, what):
    if not ok:
        print("rank %d: %s" % (rank, what), file=sys.stderr)
        comm.Abort(1)


def blocking():
    for length in SIZES:
        got = room(length)
        comm.Sendrecv([data(length, rank), MPI.BYTE], right, 1, [got, MPI.BYTE], left, 1)
        check(got == data(length, left), "Sendrecv %d" % length)
        for send in (comm.Bsend, comm.Send, comm.Ssend):
            request = comm.Irecv([got, MPI.BYTE], left, 2)
            send([data(length, rank), MPI.BYTE], right, 2)
            status = MPI.Status()
            request.Wait(status)
            check(status.Get_count(MPI.BYTE) == length, "count")
            check(status.Get_source() == left and status.Get_tag() == 2, "status")
            check(got == data(length, left), send.__name__)


def nonblocking():
    for length in SIZES:
        incoming = [room(length) for _ in range(8)]
        requests = [comm.Irecv([b, MPI.BYTE], left, i) for i, b in enumerate(incoming)]
        kinds = (comm.Isend, comm.Issend)
        outgoing = [data(length, rank + i) for i in range(8)]
        requests += [kinds[i % 2]([b, MPI.BYTE], right, i) for i, b in enumerate(outgoing)]
        MPI.Request.Waitall(requests)
        check(all(b == data(length, left + i) for i, b in enumerate(incoming)), "Isend")


def persistent():
    got, out = room(1000), data(1000, rank)
    receive = comm.Recv_init([got, MPI.BYTE], left, 3)
    send = comm.Send_init([out, MPI.BYTE], right, 3)
    for _ in range(20):
        MPI.Prequest.Startall([receive, send])
        MPI.Request.Waitall([receive, send])
        check(got == data(1000, left), "persistent")
    receive.Free()
    send.Free()


def probing():
    for length in SIZES:
        request = comm.Isend([data(length, rank), MPI.BYTE], right, 4)
        status = MPI.Status()
        comm.Probe(MPI.ANY_SOURCE, 4, status)
        check(status.Get_count(MPI.BYTE) == length, "Probe")
        message = comm.Mprobe(left, 4)
        got = room(length)
        message.Recv([got, MPI.BYTE])
        check(got == data(length, left), "Mprobe")
        check(not comm.Iprobe(MPI.ANY_SOURCE, 4), "Iprobe")
        request.Wait()
        comm.Barrier()


def cancelling():
    request = comm.Irecv([room(8), MPI.BYTE], left, 99)
    request.Cancel()
    status = MPI.Status()
    request.Wait(status)
    check(status.Is_cancelled(), "Cancel")


def objects():
    thing = {"rank": rank, "list": list(range(5000)), "none": None}
    got = comm.sendrecv(thing, right, 5, None, left, 5)
    check(got == dict(thing, rank=left), "objects")
    request = comm.isend(thing, rank, 6)
    check(comm.recv(source=rank, tag=6) == thing, "to self")
    request.wait()


MPI.Attach_buffer(bytearray(2 * 300000 + MPI.BSEND_OVERHEAD * 4))
for exercise in (blocking, nonblocking, persistent, probing, cancelling, objects):
    exercise()
    comm.Barrier()
MPI.Detach_buffer()
if rank == 0:
    print("ok: %d ranks" % size)
