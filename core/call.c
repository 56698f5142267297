/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/call.h"

static const char *const names[CALL_KINDS] = {
    [CALL_RECV] = "fi_recv",
    [CALL_RECVV] = "fi_recvv",
    [CALL_RECVMSG] = "fi_recvmsg",
    [CALL_SEND] = "fi_send",
    [CALL_SENDV] = "fi_sendv",
    [CALL_SENDMSG] = "fi_sendmsg",
    [CALL_INJECT] = "fi_inject",
    [CALL_SENDDATA] = "fi_senddata",
    [CALL_INJECTDATA] = "fi_injectdata",
    [CALL_TRECV] = "fi_trecv",
    [CALL_TRECVV] = "fi_trecvv",
    [CALL_TRECVMSG] = "fi_trecvmsg",
    [CALL_TSEND] = "fi_tsend",
    [CALL_TSENDV] = "fi_tsendv",
    [CALL_TSENDMSG] = "fi_tsendmsg",
    [CALL_TINJECT] = "fi_tinject",
    [CALL_TSENDDATA] = "fi_tsenddata",
    [CALL_TINJECTDATA] = "fi_tinjectdata",
    [CALL_READ] = "fi_read",
    [CALL_READV] = "fi_readv",
    [CALL_READMSG] = "fi_readmsg",
    [CALL_WRITE] = "fi_write",
    [CALL_WRITEV] = "fi_writev",
    [CALL_WRITEMSG] = "fi_writemsg",
    [CALL_INJECT_WRITE] = "fi_inject_write",
    [CALL_WRITEDATA] = "fi_writedata",
    [CALL_INJECT_WRITEDATA] = "fi_inject_writedata",
    [CALL_ATOMIC_WRITE] = "fi_atomic",
    [CALL_ATOMIC_WRITEV] = "fi_atomicv",
    [CALL_ATOMIC_WRITEMSG] = "fi_atomicmsg",
    [CALL_ATOMIC_INJECT] = "fi_inject_atomic",
    [CALL_ATOMIC_READWRITE] = "fi_fetch_atomic",
    [CALL_ATOMIC_READWRITEV] = "fi_fetch_atomicv",
    [CALL_ATOMIC_READWRITEMSG] = "fi_fetch_atomicmsg",
    [CALL_ATOMIC_COMPWRITE] = "fi_compare_atomic",
    [CALL_ATOMIC_COMPWRITEV] = "fi_compare_atomicv",
    [CALL_ATOMIC_COMPWRITEMSG] = "fi_compare_atomicmsg",
    [CALL_COLL_BARRIER] = "fi_barrier",
    [CALL_COLL_BROADCAST] = "fi_broadcast",
    [CALL_COLL_ALLTOALL] = "fi_alltoall",
    [CALL_COLL_ALLREDUCE] = "fi_allreduce",
    [CALL_COLL_ALLGATHER] = "fi_allgather",
    [CALL_COLL_REDUCE_SCATTER] = "fi_reduce_scatter",
    [CALL_COLL_REDUCE] = "fi_reduce",
    [CALL_COLL_SCATTER] = "fi_scatter",
    [CALL_COLL_GATHER] = "fi_gather",
    [CALL_COLL_MSG] = "fi_collective_msg",
    [CALL_COLL_BARRIER2] = "fi_barrier2",
};

const char *call_name(enum call_kind kind)
{
    return names[kind];
}

enum call_class call_class(enum call_kind kind)
{
    if (kind >= CALL_COLL_BARRIER)
        return CALL_CLASS_COLLECTIVE;
    if (kind >= CALL_ATOMIC_WRITE)
        return CALL_CLASS_ATOMIC;
    if (kind >= CALL_WRITE)
        return CALL_CLASS_WRITE;
    if (kind >= CALL_READ)
        return CALL_CLASS_READ;
    if (kind <= CALL_RECVMSG || (kind >= CALL_TRECV && kind <= CALL_TRECVMSG))
        return CALL_CLASS_RECV;
    return CALL_CLASS_SEND;
}

bool call_is_inject(enum call_kind kind)
{
    switch (kind) {
    case CALL_INJECT:
    case CALL_INJECTDATA:
    case CALL_TINJECT:
    case CALL_TINJECTDATA:
    case CALL_INJECT_WRITE:
    case CALL_INJECT_WRITEDATA:
    case CALL_ATOMIC_INJECT: return true;
    default: return false;
    }
}
