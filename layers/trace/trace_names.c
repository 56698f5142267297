/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/trace/trace_names.h"

#include <stdio.h>

_Static_assert((int)TRACE_CALLS <= (int)WEFT_TRACE_NAMES,
               "the header of the file has room for the names");

static const char *const names[] = {
    [TRACE_DOMAIN - CALL_KINDS] = "fi_domain",
    [TRACE_PASSIVE_EP - CALL_KINDS] = "fi_passive_ep",
    [TRACE_EQ_OPEN - CALL_KINDS] = "fi_eq_open",
    [TRACE_CQ_OPEN - CALL_KINDS] = "fi_cq_open",
    [TRACE_CNTR_OPEN - CALL_KINDS] = "fi_cntr_open",
    [TRACE_AV_OPEN - CALL_KINDS] = "fi_av_open",
    [TRACE_ENDPOINT - CALL_KINDS] = "fi_endpoint",
    [TRACE_SCALABLE_EP - CALL_KINDS] = "fi_scalable_ep",
    [TRACE_STX_CONTEXT - CALL_KINDS] = "fi_stx_context",
    [TRACE_SRX_CONTEXT - CALL_KINDS] = "fi_srx_context",
    [TRACE_TX_CONTEXT - CALL_KINDS] = "fi_tx_context",
    [TRACE_RX_CONTEXT - CALL_KINDS] = "fi_rx_context",
    [TRACE_MR_REG - CALL_KINDS] = "fi_mr_reg",
    [TRACE_MR_REGV - CALL_KINDS] = "fi_mr_regv",
    [TRACE_MR_REGATTR - CALL_KINDS] = "fi_mr_regattr",
    [TRACE_JOIN - CALL_KINDS] = "fi_join",
    [TRACE_CLOSE - CALL_KINDS] = "fi_close",
    [TRACE_BIND - CALL_KINDS] = "fi_bind",
    [TRACE_CONTROL - CALL_KINDS] = "fi_control",
    [TRACE_CANCEL - CALL_KINDS] = "fi_cancel",
    [TRACE_GETOPT - CALL_KINDS] = "fi_getopt",
    [TRACE_SETOPT - CALL_KINDS] = "fi_setopt",
    [TRACE_GETNAME - CALL_KINDS] = "fi_getname",
    [TRACE_SETNAME - CALL_KINDS] = "fi_setname",
    [TRACE_GETPEER - CALL_KINDS] = "fi_getpeer",
    [TRACE_CONNECT - CALL_KINDS] = "fi_connect",
    [TRACE_LISTEN - CALL_KINDS] = "fi_listen",
    [TRACE_ACCEPT - CALL_KINDS] = "fi_accept",
    [TRACE_REJECT - CALL_KINDS] = "fi_reject",
    [TRACE_SHUTDOWN - CALL_KINDS] = "fi_shutdown",
    [TRACE_AV_INSERT - CALL_KINDS] = "fi_av_insert",
    [TRACE_AV_INSERTSVC - CALL_KINDS] = "fi_av_insertsvc",
    [TRACE_AV_INSERTSYM - CALL_KINDS] = "fi_av_insertsym",
    [TRACE_AV_REMOVE - CALL_KINDS] = "fi_av_remove",
    [TRACE_CNTR_ADD - CALL_KINDS] = "fi_cntr_add",
    [TRACE_CNTR_SET - CALL_KINDS] = "fi_cntr_set",
    [TRACE_CNTR_ADDERR - CALL_KINDS] = "fi_cntr_adderr",
    [TRACE_CNTR_SETERR - CALL_KINDS] = "fi_cntr_seterr",
    [TRACE_CNTR_WAIT - CALL_KINDS] = "fi_cntr_wait",
    [TRACE_CNTR_INC - CALL_KINDS] = "peer cntr_inc",
    [TRACE_CNTR_INCERR - CALL_KINDS] = "peer cntr_incerr",
    [TRACE_GET_MSG - CALL_KINDS] = "peer get_msg",
    [TRACE_GET_TAG - CALL_KINDS] = "peer get_tag",
    [TRACE_QUEUE_MSG - CALL_KINDS] = "peer queue_msg",
    [TRACE_QUEUE_TAG - CALL_KINDS] = "peer queue_tag",
    [TRACE_START_MSG - CALL_KINDS] = "peer start_msg",
    [TRACE_START_TAG - CALL_KINDS] = "peer start_tag",
    [TRACE_DISCARD_MSG - CALL_KINDS] = "peer discard_msg",
    [TRACE_DISCARD_TAG - CALL_KINDS] = "peer discard_tag",
    [TRACE_AV_SET - CALL_KINDS] = "fi_av_set",
    [TRACE_SET_UNION - CALL_KINDS] = "fi_av_set_union",
    [TRACE_SET_INTERSECT - CALL_KINDS] = "fi_av_set_intersect",
    [TRACE_SET_DIFF - CALL_KINDS] = "fi_av_set_diff",
    [TRACE_SET_INSERT - CALL_KINDS] = "fi_av_set_insert",
    [TRACE_SET_REMOVE - CALL_KINDS] = "fi_av_set_remove",
    [TRACE_SET_ADDR - CALL_KINDS] = "fi_av_set_addr",
    [TRACE_WAIT_OPEN - CALL_KINDS] = "fi_wait_open",
    [TRACE_WAIT - CALL_KINDS] = "fi_wait",
    [TRACE_POLL_OPEN - CALL_KINDS] = "fi_poll_open",
    [TRACE_POLL_ADD - CALL_KINDS] = "fi_poll_add",
    [TRACE_POLL_DEL - CALL_KINDS] = "fi_poll_del",
    [TRACE_AV_LOOKUP - CALL_KINDS] = "fi_av_lookup",
    [TRACE_EQ_WRITE - CALL_KINDS] = "fi_eq_write",
    [TRACE_CQ_SIGNAL - CALL_KINDS] = "fi_cq_signal",
    [TRACE_TRYWAIT - CALL_KINDS] = "fi_trywait",
    [TRACE_ADDRESS - CALL_KINDS] = "address",
};

const char *trace_call_name(unsigned call)
{
    return call < CALL_KINDS ? call_name((enum call_kind)call) : names[call - CALL_KINDS];
}

void trace_names(struct weft_trace_header *header)
{
    for (int i = CALL_KINDS; i < TRACE_CALLS; i++)
        snprintf(header->names[i], sizeof(header->names[i]), "%s", names[i - CALL_KINDS]);
}
