/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/trace/trace_names.h"

#include <stdio.h>

_Static_assert((int)TRACE_CALLS <= (int)WEFT_TRACE_NAMES,
               "the header of the file has room for the names");

static const char *const names[] = {
    [TRACE_DOMAIN - OP_CALLS] = "fi_domain",
    [TRACE_PASSIVE_EP - OP_CALLS] = "fi_passive_ep",
    [TRACE_EQ_OPEN - OP_CALLS] = "fi_eq_open",
    [TRACE_CQ_OPEN - OP_CALLS] = "fi_cq_open",
    [TRACE_CNTR_OPEN - OP_CALLS] = "fi_cntr_open",
    [TRACE_AV_OPEN - OP_CALLS] = "fi_av_open",
    [TRACE_ENDPOINT - OP_CALLS] = "fi_endpoint",
    [TRACE_SCALABLE_EP - OP_CALLS] = "fi_scalable_ep",
    [TRACE_STX_CONTEXT - OP_CALLS] = "fi_stx_context",
    [TRACE_SRX_CONTEXT - OP_CALLS] = "fi_srx_context",
    [TRACE_TX_CONTEXT - OP_CALLS] = "fi_tx_context",
    [TRACE_RX_CONTEXT - OP_CALLS] = "fi_rx_context",
    [TRACE_MR_REG - OP_CALLS] = "fi_mr_reg",
    [TRACE_MR_REGV - OP_CALLS] = "fi_mr_regv",
    [TRACE_MR_REGATTR - OP_CALLS] = "fi_mr_regattr",
    [TRACE_JOIN - OP_CALLS] = "fi_join",
    [TRACE_CLOSE - OP_CALLS] = "fi_close",
    [TRACE_BIND - OP_CALLS] = "fi_bind",
    [TRACE_CONTROL - OP_CALLS] = "fi_control",
    [TRACE_CANCEL - OP_CALLS] = "fi_cancel",
    [TRACE_GETOPT - OP_CALLS] = "fi_getopt",
    [TRACE_SETOPT - OP_CALLS] = "fi_setopt",
    [TRACE_GETNAME - OP_CALLS] = "fi_getname",
    [TRACE_SETNAME - OP_CALLS] = "fi_setname",
    [TRACE_GETPEER - OP_CALLS] = "fi_getpeer",
    [TRACE_CONNECT - OP_CALLS] = "fi_connect",
    [TRACE_LISTEN - OP_CALLS] = "fi_listen",
    [TRACE_ACCEPT - OP_CALLS] = "fi_accept",
    [TRACE_REJECT - OP_CALLS] = "fi_reject",
    [TRACE_SHUTDOWN - OP_CALLS] = "fi_shutdown",
    [TRACE_AV_INSERT - OP_CALLS] = "fi_av_insert",
    [TRACE_AV_INSERTSVC - OP_CALLS] = "fi_av_insertsvc",
    [TRACE_AV_INSERTSYM - OP_CALLS] = "fi_av_insertsym",
    [TRACE_AV_REMOVE - OP_CALLS] = "fi_av_remove",
    [TRACE_CNTR_ADD - OP_CALLS] = "fi_cntr_add",
    [TRACE_CNTR_SET - OP_CALLS] = "fi_cntr_set",
    [TRACE_CNTR_ADDERR - OP_CALLS] = "fi_cntr_adderr",
    [TRACE_CNTR_SETERR - OP_CALLS] = "fi_cntr_seterr",
    [TRACE_CNTR_WAIT - OP_CALLS] = "fi_cntr_wait",
    [TRACE_CNTR_INC - OP_CALLS] = "peer cntr_inc",
    [TRACE_CNTR_INCERR - OP_CALLS] = "peer cntr_incerr",
    [TRACE_GET_MSG - OP_CALLS] = "peer get_msg",
    [TRACE_GET_TAG - OP_CALLS] = "peer get_tag",
    [TRACE_QUEUE_MSG - OP_CALLS] = "peer queue_msg",
    [TRACE_QUEUE_TAG - OP_CALLS] = "peer queue_tag",
    [TRACE_START_MSG - OP_CALLS] = "peer start_msg",
    [TRACE_START_TAG - OP_CALLS] = "peer start_tag",
    [TRACE_DISCARD_MSG - OP_CALLS] = "peer discard_msg",
    [TRACE_DISCARD_TAG - OP_CALLS] = "peer discard_tag",
    [TRACE_AV_SET - OP_CALLS] = "fi_av_set",
    [TRACE_SET_UNION - OP_CALLS] = "fi_av_set_union",
    [TRACE_SET_INTERSECT - OP_CALLS] = "fi_av_set_intersect",
    [TRACE_SET_DIFF - OP_CALLS] = "fi_av_set_diff",
    [TRACE_SET_INSERT - OP_CALLS] = "fi_av_set_insert",
    [TRACE_SET_REMOVE - OP_CALLS] = "fi_av_set_remove",
    [TRACE_SET_ADDR - OP_CALLS] = "fi_av_set_addr",
    [TRACE_WAIT_OPEN - OP_CALLS] = "fi_wait_open",
    [TRACE_WAIT - OP_CALLS] = "fi_wait",
    [TRACE_POLL_OPEN - OP_CALLS] = "fi_poll_open",
    [TRACE_POLL_ADD - OP_CALLS] = "fi_poll_add",
    [TRACE_POLL_DEL - OP_CALLS] = "fi_poll_del",
    [TRACE_AV_LOOKUP - OP_CALLS] = "fi_av_lookup",
    [TRACE_EQ_WRITE - OP_CALLS] = "fi_eq_write",
    [TRACE_CQ_SIGNAL - OP_CALLS] = "fi_cq_signal",
    [TRACE_TRYWAIT - OP_CALLS] = "fi_trywait",
    [TRACE_ADDRESS - OP_CALLS] = "address",
};

const char *trace_call_name(unsigned call)
{
    return call < OP_CALLS ? op_name((enum op_call)call) : names[call - OP_CALLS];
}

void trace_names(struct weft_trace_header *header)
{
    for (int i = OP_CALLS; i < TRACE_CALLS; i++)
        snprintf(header->names[i], sizeof(header->names[i]), "%s", names[i - OP_CALLS]);
}
