/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that are no data transfers, numbered behind those (core/op/op.h). */
#ifndef WEFT_TRACE_NAMES_H
#define WEFT_TRACE_NAMES_H

#include <weft/trace.h>

#include "core/op/op.h"

enum trace_call {
    TRACE_DOMAIN = OP_CALLS,
    TRACE_PASSIVE_EP,
    TRACE_EQ_OPEN,
    TRACE_CQ_OPEN,
    TRACE_CNTR_OPEN,
    TRACE_AV_OPEN,
    TRACE_ENDPOINT,
    TRACE_SCALABLE_EP,
    TRACE_STX_CONTEXT,
    TRACE_SRX_CONTEXT,
    TRACE_TX_CONTEXT,
    TRACE_RX_CONTEXT,
    TRACE_MR_REG,
    TRACE_MR_REGV,
    TRACE_MR_REGATTR,
    TRACE_JOIN,
    TRACE_CLOSE,
    TRACE_BIND,
    TRACE_CONTROL,
    TRACE_CANCEL,
    TRACE_GETOPT,
    TRACE_SETOPT,
    TRACE_GETNAME,
    TRACE_SETNAME,
    TRACE_GETPEER,
    TRACE_CONNECT,
    TRACE_LISTEN,
    TRACE_ACCEPT,
    TRACE_REJECT,
    TRACE_SHUTDOWN,
    TRACE_AV_INSERT,
    TRACE_AV_INSERTSVC,
    TRACE_AV_INSERTSYM,
    TRACE_AV_REMOVE,
    TRACE_CNTR_ADD,
    TRACE_CNTR_SET,
    TRACE_CNTR_ADDERR,
    TRACE_CNTR_SETERR,
    TRACE_CNTR_WAIT,
    TRACE_CNTR_INC,
    TRACE_CNTR_INCERR,
    TRACE_GET_MSG,
    TRACE_GET_TAG,
    TRACE_QUEUE_MSG,
    TRACE_QUEUE_TAG,
    TRACE_START_MSG,
    TRACE_START_TAG,
    TRACE_DISCARD_MSG,
    TRACE_DISCARD_TAG,
    TRACE_AV_SET,
    TRACE_SET_UNION,
    TRACE_SET_INTERSECT,
    TRACE_SET_DIFF,
    TRACE_SET_INSERT,
    TRACE_SET_REMOVE,
    TRACE_SET_ADDR,
    TRACE_WAIT_OPEN,
    TRACE_WAIT,
    TRACE_POLL_OPEN,
    TRACE_POLL_ADD,
    TRACE_POLL_DEL,
    TRACE_AV_LOOKUP,
    TRACE_EQ_WRITE,
    TRACE_CQ_SIGNAL,
    TRACE_TRYWAIT,
    TRACE_ADDRESS, /* is none: weft/trace.h */
    TRACE_CALLS,
};

/* "fi_tsend", "fi_close"; call < TRACE_CALLS. */
const char *trace_call_name(unsigned call);
/* Writes their names into header->names. */
void trace_names(struct weft_trace_header *header);

#endif
